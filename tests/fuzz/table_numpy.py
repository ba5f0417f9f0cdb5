"""Rows for `numpy`, `numpy.linalg` and `numpy.fft`: how to write a call of each function.

`ROWS` maps a public name to a function of a scope that returns the text of an expression; see scope.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.scope import ANY, NUMERIC, REAL, Scope, Variable

Row = Callable[[Scope], str]
ROWS: dict[str, Row] = {}


def rows(names: str, row: Callable[[Scope, str], str], module: str = "np") -> None:
    """One row for several names."""
    for name in names.split():
        ROWS[f"{module}.{name}"] = lambda d, f=f"{module}.{name}": row(d, f)


def add(**table: Row) -> None:
    ROWS.update({f"np.{name}": row for name, row in table.items()})


def reduction(d: Scope, f: str, kinds: str = NUMERIC, more: str = "") -> str:
    x = d.x(kinds, nonempty=d.chance(0.9))
    return f"{f}({x}, axis={d.axes()}, keepdims={d.flag()}{more})"


def with_where(d: Scope, f: str) -> str:
    text = reduction(d, f)
    if d.chance(0.2) and f.split(".")[-1] in ("sum", "prod", "mean", "std", "var", "nansum", "nanmean"):
        text = f"{text[:-1]}, where={d.x('b', shape=d.first.shape)})"
    return text


def along(d: Scope, f: str, kinds: str = NUMERIC) -> str:
    """A function of an array along one axis."""
    x = d.x(kinds, (1, 3), nonempty=d.chance(0.9))
    return f"{f}({x}, axis={d.axis()})"


def stacked(d: Scope, f: str, kinds: str = ANY, rank: tuple[int, int] = (1, 3), axis: bool = True) -> str:
    """A function of a list of arrays of one shape, of various dtypes."""
    x = d.x(kinds, rank)
    others = [x, *[d.x(kinds, shape=x.shape) for _ in range(d.integer(0, 2))]]
    return f"{f}([{', '.join(others)}]{f', axis={d.axis(x)}' if axis else ''})"


def square(d: Scope, kinds: str = "fc", good: float = 0.9, rank: tuple[int, int] = (2, 3)) -> Variable:
    """Square matrices of a wide dtype, mostly well-conditioned."""
    dtype = d.choose(
        ["float32", "float32", "complex64"] if not d.x64 else ["float64", "float32", "complex128"]
    )
    if "c" not in kinds and dtype.startswith("c"):
        dtype = "float64" if d.x64 else "float32"
    n = d.integer(1, 3)
    x = d.x(kinds, shape=((2,) if rank[1] > 2 and d.chance(0.2) else ()) + (n, n), dtype=dtype)
    if d.chance(good):
        x = d.emit(f"np.sin({x}) + 4 * np.eye({n}, dtype='{dtype}')")
    return x


def hermitian(d: Scope, kinds: str = "fc") -> Variable:
    """Hermitian, positive definite, with eigenvalues apart."""
    x = square(d, kinds)
    n = x.shape[-1]
    return d.emit(
        f"np.matmul({x}, np.conj(np.swapaxes({x}, -1, -2))) + np.diag(np.arange({n}.0)).astype('{x.dtype}')"
    )


def wide_matrix(d: Scope) -> Variable:
    """A matrix of a dtype that can be factorised."""
    kinds = {
        "f": ["float64", "float32"] if d.x64 else ["float32"],
        "c": ["complex128"] if d.x64 else ["complex64"],
    }
    return d.x("fc", shape=(d.integer(1, 4), d.integer(1, 4)), dtype=d.choose(kinds["f"] * 3 + kinds["c"]))


# --- One operand --------------------------------------------------------------------------------------------------

rows(
    """abs absolute conj conjugate positive negative square sin cos sinh cosh tanh arctan atan arcsinh asinh exp exp2
    expm1 sinc sign isfinite isinf isnan iscomplex isreal nan_to_num real imag reciprocal rint sqrt log log1p tan""",
    lambda d, f: f"{f}({d.x(NUMERIC)})",
)
rows(
    """fabs cbrt ceil floor trunc deg2rad rad2deg radians degrees signbit i0 isneginf isposinf modf frexp""",
    lambda d, f: f"{f}({d.x(REAL if d.chance(0.3) else 'f')})",
)
rows("spacing", lambda d, f: f"{f}({d.x('f')})")
rows(
    "copy logical_not ravel transpose atleast_1d atleast_2d atleast_3d zeros_like ones_like empty_like isrealobj "
    "iscomplexobj ndim shape size isscalar argwhere angle",
    lambda d, f: f"{f}({d.x(ANY)})",
)
rows("argwhere nonzero flatnonzero", lambda d, f: f"{f}({d.x(ANY, (1, 3))}, size={d.integer(1, 4)})")
rows("arccos acos arcsin asin arctanh atanh", lambda d, f: f"{f}({d.x(NUMERIC, domain='unit')})")
rows("log10 log2", lambda d, f: f"{f}({d.x(NUMERIC, domain='positive')})")
rows("arccosh acosh", lambda d, f: f"{f}({d.x(NUMERIC, domain='above one')})")
rows("invert bitwise_invert bitwise_not bitwise_count", lambda d, f: f"{f}({d.x('iu')})")
rows("around round", lambda d, f: f"{f}({d.x(NUMERIC)}, {d.integer(0, 2)})")

# --- Two operands -------------------------------------------------------------------------------------------------

rows(
    """add subtract multiply divide true_divide equal not_equal power pow float_power isclose logical_and logical_or
    logical_xor""",
    lambda d, f: f"{f}({(x := d.x(NUMERIC))}, {d.fit(x, NUMERIC)})",
)
rows(
    """floor_divide mod remainder fmod divmod arctan2 atan2 hypot maximum minimum fmax fmin copysign logaddexp logaddexp2
    less less_equal greater greater_equal heaviside nextafter""",
    lambda d, f: f"{f}({(x := d.x(REAL))}, {d.fit(x, REAL)})",
)
rows("add multiply maximum logical_and bitwise_or", lambda d, f: f"{f}({(x := d.x('bi'))}, {d.fit(x, 'bi')})")
rows("allclose array_equal array_equiv", lambda d, f: f"{f}({(x := d.x(NUMERIC))}, {d.fit(x)})")
rows(
    """bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift bitwise_right_shift gcd lcm""",
    lambda d, f: f"{f}({(x := d.x('iu'))}, {d.x('iu', shape=x.shape) if d.flag() else d.choose(['1', '3'])})",
)
add(ldexp=lambda d: f"np.ldexp({(x := d.x('f'))}, {d.x('i', shape=x.shape)})")

# --- Reductions and running ones ----------------------------------------------------------------------------------

rows("sum prod mean std var nansum nanprod nanmean nanstd nanvar max min amax amin nanmax nanmin", with_where)
rows("any all count_nonzero", lambda d, f: reduction(d, f, ANY))
rows("ptp median nanmedian", lambda d, f: reduction(d, f, REAL))
rows("argmax argmin", along)
rows("nanargmax nanargmin", lambda d, f: along(d, f, "f"))
rows("cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod", along)
add(
    average=lambda d: (
        f"np.average({(x := d.x(NUMERIC, nonempty=True))}, weights=2 + np.sin({d.x('f', shape=x.shape)}))"
    ),
    trapezoid=lambda d: f"np.trapezoid({d.x(NUMERIC, (1, 3))}, dx={d.float(0.2, 2)}, axis={d.axis()})",
)
rows(
    "quantile nanquantile",
    lambda d, f: (
        f"{f}({d.x(REAL, (1, 3), nonempty=True)}, {d.choose([0.3, 0.5, '[0.1, 0.9]'])}, axis={d.axis()}, "
        f"method='{d.choose(['linear', 'lower', 'higher', 'nearest', 'midpoint'])}')"
    ),
)
rows(
    "percentile nanpercentile",
    lambda d, f: (
        f"{f}({d.x(REAL, (1, 3), nonempty=True)}, {d.choose([30, 50.0, '[10.0, 90.0]'])}, keepdims={d.flag()})"
    ),
)

# --- Shapes -------------------------------------------------------------------------------------------------------

rows("concatenate concat", stacked)
rows("stack", lambda d, f: stacked(d, f, rank=(0, 2)))
rows("hstack vstack dstack column_stack block", lambda d, f: stacked(d, f, axis=False))
rows("flip roll", lambda d, f: f"{f}({d.x(ANY, (1, 3))}, {'2, ' if f == 'np.roll' else ''}axis={d.axis()})")
rows("fliplr flipud", lambda d, f: f"{f}({d.x(ANY, (2, 3))})")
rows("matrix_transpose linalg.matrix_transpose", lambda d, f: f"{f}({d.x(ANY, (2, 3))})")
rows("tril triu", lambda d, f: f"{f}({d.x(ANY, (2, 3))}, {d.integer(-1, 2)})")
rows(
    "diagonal trace linalg.diagonal linalg.trace",
    lambda d, f: f"{f}({d.x(ANY if 'diag' in f else NUMERIC, (2, 3))}, offset={d.integer(-1, 1)})",
)
rows("diag diagflat", lambda d, f: f"{f}({d.x(ANY, (1, 2))}, {d.integer(-1, 1)})")
rows(
    "split array_split",
    lambda d, f: (
        f"{f}({(x := d.x(ANY, (1, 3)))}, {d.choose([1, 2, x.shape[0] or 1, [1]])}, axis={d.choose([0, 0, d.axis()])})"
    ),
)
rows(
    "hsplit dsplit vsplit",
    lambda d, f: f"{f}({(x := d.x(ANY, (3, 3)))}, {d.choose([1, [1], x.shape[0] or 1])})",
)
add(
    reshape=lambda d: (
        f"np.reshape({(x := d.x(ANY))}, {d.choose([-1, d.reshaped(x)])}{d.choose(['', ', order=' + repr('F')])})"
    ),
    resize=lambda d: f"np.resize({d.x(ANY)}, {d.shape()})",
    broadcast_to=lambda d: f"np.broadcast_to({(x := d.x(ANY))}, {d.choose([(2,), ()]) + x.shape})",
    broadcast_arrays=lambda d: f"np.broadcast_arrays({(x := d.x(ANY))}, {d.fit(x)})",
    expand_dims=lambda d: f"np.expand_dims({(x := d.x(ANY))}, {d.integer(-x.rank - 1, x.rank)})",
    squeeze=lambda d: f"np.squeeze({d.x(ANY)}{d.choose(['', f', axis={d.axis()}'])})",
    swapaxes=lambda d: f"np.swapaxes({d.x(ANY, (1, 3))}, {d.axis()}, {d.axis()})",
    moveaxis=lambda d: f"np.moveaxis({d.x(ANY, (1, 3))}, {d.axis()}, {d.axis()})",
    rollaxis=lambda d: f"np.rollaxis({(x := d.x(ANY, (1, 3)))}, {d.axis()}, {d.integer(0, x.rank)})",
    permute_dims=lambda d: (
        f"np.permute_dims({(x := d.x(ANY))}, {tuple(int(i) for i in d.rng.permutation(x.rank))})"
    ),
    rot90=lambda d: f"np.rot90({d.x(ANY, (2, 3))}, {d.integer(-1, 3)})",
    tile=lambda d: f"np.tile({d.x(ANY)}, {d.choose([2, (2, 1), (1, 2)])})",
    repeat=lambda d: f"np.repeat({d.x(ANY, (1, 3))}, {d.integer(0, 3)}, axis={d.choose([None, d.axis()])})",
    pad=lambda d: (
        f"np.pad({d.x(NUMERIC, (1, 2), nonempty=True)}, {d.choose([1, (1, 2)])}, mode="
        f"{d.choose(['constant', 'edge', 'reflect', 'symmetric', 'wrap', 'mean', 'maximum', 'linear_ramp'])!r})"
    ),
    append=lambda d: (
        f"np.append({(x := d.x(NUMERIC))}, {d.x(NUMERIC, shape=x.shape)}, axis={d.choose([None, d.axis()])})"
    ),
    insert=lambda d: (
        f"np.insert({(x := d.x(NUMERIC, (1, 2)))}, {d.integer(0, x.shape[0])}, {d.literal()}, axis=0)"
    ),
    delete=lambda d: (
        f"np.delete({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.integer(0, x.shape[0] - 1)}, axis=0)"
    ),
    unstack=lambda d: f"np.unstack({d.x(ANY, (1, 3))}, axis={d.axis()})",
    astype=lambda d: f"np.astype({d.x('biuf')}, '{d.dtype('biuf')}')",
    apply_along_axis=lambda d: (
        f"np.apply_along_axis(lambda row: row * row.sum(), {d.axis(d.x('f', (1, 2)))}, {d.first})"
    ),
    apply_over_axes=lambda d: f"np.apply_over_axes(np.sum, {d.x('f', (1, 3))}, [{d.axis()}])",
    vectorize=lambda d: f"np.vectorize(lambda a, b: np.sin(a) * b)({(x := d.x('f'))}, {d.fit(x, 'f')})",
    piecewise=lambda d: (
        f"np.piecewise({(x := d.x('f'))}, [{x} < 0.3, {x} > 1], [lambda y: -y, lambda y: y * y, 0.25])"
    ),
    frompyfunc=lambda d: (
        f"np.frompyfunc(lambda a, b: a * b + 1, 2, 1)({(x := d.x('f'))}, {d.x('f', shape=x.shape)})"
    ),
    fromfunction=lambda d: (
        f"np.fromfunction(lambda i, j: i * 2 + j, {d.shape(2, 2)}, dtype='{d.dtype('if')}')"
    ),
    fill_diagonal=lambda d: (
        f"np.fill_diagonal({d.x(NUMERIC, (2, 2), nonempty=True)}, {d.literal()}, inplace=False)"
    ),
)

# --- Creation -----------------------------------------------------------------------------------------------------

rows("zeros ones empty", lambda d, f: f"{f}({d.shape()}, '{d.dtype(ANY)}')")
rows("bartlett blackman hamming hanning", lambda d, f: f"{f}({d.integer(1, 5)})")
rows(
    "linspace geomspace",
    lambda d, f: f"{f}({d.float(1, 2)}, {d.x('f', (0, 1), domain='positive')}, {d.integer(1, 4)})",
)
rows("asarray array", lambda d, f: f"{f}({d.choose([d.x(ANY), f'[{d.x(ANY, (0, 0))}, {d.literal()}]'])})")
rows("tril_indices triu_indices diag_indices", lambda d, f: f"{f}({d.integer(1, 3)})")
rows("tril_indices_from triu_indices_from", lambda d, f: f"{f}({d.x(ANY, (2, 2))})")
add(
    full=lambda d: f"np.full({d.shape()}, {d.x(NUMERIC, (0, 0))})",
    full_like=lambda d: f"np.full_like({d.x(NUMERIC)}, {d.literal()})",
    arange=lambda d: (
        f"np.arange({d.choose(['3', '1.5, 4', '5, 1, -2', '2, 6, 2'])}, dtype={d.choose([None, repr(d.dtype('if'))])})"
    ),
    eye=lambda d: (
        f"np.eye({d.integer(1, 3)}, {d.integer(1, 3)}, k={d.integer(-1, 1)}, dtype='{d.dtype(NUMERIC)}')"
    ),
    identity=lambda d: f"np.identity({d.integer(1, 3)}, dtype='{d.dtype(NUMERIC)}')",
    tri=lambda d: f"np.tri({d.integer(1, 3)}, {d.integer(1, 3)}, dtype='{d.dtype('f')}')",
    logspace=lambda d: f"np.logspace({d.float(0, 1)}, {d.float(1, 2)}, {d.integer(1, 4)})",
    vander=lambda d: f"np.vander({d.x('f', (1, 1))}, {d.integer(1, 3)}, increasing={d.flag()})",
    meshgrid=lambda d: (
        f"np.meshgrid({d.x(NUMERIC, (1, 1))}, {d.x(NUMERIC, (1, 1))}, indexing='{d.choose(['ij', 'xy'])}')"
    ),
    indices=lambda d: f"np.indices({d.shape(1, 2)})",
    kaiser=lambda d: f"np.kaiser({d.integer(2, 4)}, {d.float(1, 5)})",
    ix_=lambda d: f"np.ix_({d.indices((2,), 3)}, {d.indices((1,), 3)})",
    diag_indices_from=lambda d: f"np.diag_indices_from({square(d)})",
    mask_indices=lambda d: f"np.mask_indices({d.integer(2, 3)}, np.triu, size=3)",
    frombuffer=lambda d: "np.frombuffer(b'0123456789abcdef', 'uint8')",
    fromstring=lambda d: "np.fromstring('1 2 3', sep=' ')",
)

# --- Choosing, sorting, sets --------------------------------------------------------------------------------------

rows("sort argsort", lambda d, f: f"{f}({d.x(NUMERIC, (1, 3))}, axis={d.axis()}, descending={d.flag()})")
rows("sort_complex", lambda d, f: f"{f}({d.x(NUMERIC, (1, 1))})")
rows(
    "partition argpartition",
    lambda d, f: f"{f}({(x := d.x(REAL, (1, 2), nonempty=True))}, {d.integer(0, x.shape[-1] - 1)})",
)
rows(
    "union1d setxor1d",
    lambda d, f: f"{f}({d.x(REAL, (1, 1))}, {d.like(d.first)}, size={d.integer(2, 6)})",
)
rows(
    "intersect1d setdiff1d",
    lambda d, f: f"{f}({d.x(REAL, (1, 1))}, {d.like(d.first)}, size={d.integer(2, 4)})",
)
rows("unique unique_values", lambda d, f: f"{f}({d.x(REAL, (1, 2), nonempty=True)}, size={d.integer(1, 6)})")
rows(
    "unique_all unique_counts unique_inverse", lambda d, f: f"{f}({d.x('iu', (1, 2), nonempty=True)}, size=6)"
)
add(
    where=lambda d: f"np.where({(c := d.x('b'))}, {(x := d.x(NUMERIC, shape=c.shape))}, {d.fit(x, NUMERIC)})",
    clip=lambda d: (
        f"np.clip({d.x(REAL)}, {d.choose(['-0.5', 'None', '0'])}, {d.choose(['1', '0.75', d.fit(d.first)])})"
    ),
    select=lambda d: (
        f"np.select([{(c := d.x('b'))}, {d.x('b', shape=c.shape)}], [{d.x(REAL, shape=c.shape)}, {d.literal()}], {d.literal()})"
    ),
    choose=lambda d: (
        f"np.choose({d.indices((x := d.x(NUMERIC, (1, 2))).shape, 2)} % 2, [{x}, {d.x(NUMERIC, shape=x.shape)}], mode='{d.choose(['wrap', 'clip'])}')"
    ),
    take=lambda d: (
        f"np.take({(x := d.x(ANY, (1, 3), nonempty=True))}, {d.indices(d.shape(0, 2), x.shape[(a := d.axis())])}, axis={a})"
    ),
    take_along_axis=lambda d: (
        f"np.take_along_axis({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.indices(x.shape, x.shape[-1])}, axis=-1)"
    ),
    put_along_axis=lambda d: (
        f"np.put_along_axis({(x := d.x(NUMERIC, (1, 2), nonempty=True))}, {d.indices(x.shape[:-1] + (1,), x.shape[-1])}, {d.literal('i')}, axis=-1, inplace=False)"
    ),
    put=lambda d: (
        f"np.put({(x := d.x(NUMERIC, (1, 2), nonempty=True))}, {d.integer(0, x.size - 1)}, {d.literal('i')}, inplace=False)"
    ),
    place=lambda d: (
        f"np.place({(x := d.x(NUMERIC, (1, 2), nonempty=True))}, {d.x('b', shape=x.shape)}, np.array([1, 2]), inplace=False)"
    ),
    compress=lambda d: (
        f"np.compress(onp.array([True, False]), {d.x(ANY, shape=(3, 2))}, axis={d.integer(0, 1)}, size=2)"
    ),
    extract=lambda d: (
        f"np.extract({(c := d.x('b', (1, 2)))}, {d.x(NUMERIC, shape=c.shape)}, size=1, fill_value=0)"
    ),
    lexsort=lambda d: f"np.lexsort(({d.x(REAL, (1, 1))}, {d.like(d.first)}))",
    searchsorted=lambda d: (
        f"np.searchsorted(np.sort({d.x(REAL, (1, 1))}), {d.x(REAL)}, side='{d.choose(['left', 'right'])}')"
    ),
    digitize=lambda d: f"np.digitize({d.x(REAL)}, np.array([-1.0, 0.25, 1.0]), right={d.flag()})",
    isin=lambda d: f"np.isin({d.x(REAL)}, {d.x(REAL, (0, 1))})",
    bincount=lambda d: (
        f"np.bincount({(x := d.x('iu', (1, 1)))} % 4, weights={d.choose([None, d.x('f', shape=x.shape)])}, length=4)"
    ),
    histogram=lambda d: f"np.histogram({d.x('f', (1, 2))}, bins=3, range=(-2.0, 2.0))",
    histogram_bin_edges=lambda d: f"np.histogram_bin_edges({d.x('f', (1, 2))}, bins=3, range=(-2, 2))",
    histogram2d=lambda d: (
        f"np.histogram2d({d.x('f', (1, 1))}, {d.like(d.first)}, bins=2, range=[[-2, 2], [-2, 2]])"
    ),
    histogramdd=lambda d: f"np.histogramdd({d.x('f', (2, 2))}, bins=2)",
    packbits=lambda d: f"np.packbits({d.x('b', (1, 2))}, axis={d.choose([None, -1])})",
    unpackbits=lambda d: f"np.unpackbits({d.x('u', dtype='uint8')})",
    ravel_multi_index=lambda d: (
        f"np.ravel_multi_index(({d.indices((2,), 3)} % 3, {d.indices((2,), 4)} % 4), (3, 4), mode='wrap')"
    ),
    unravel_index=lambda d: f"np.unravel_index({d.indices(d.shape(0, 1), 6)} % 6, (2, 3))",
)

# --- Sums of products, signals, polynomials -----------------------------------------------------------------------


def product_pair(d: Scope, f: str) -> str:
    """Two operands whose last and first contracted axes agree."""
    name = f.split(".")[-1]
    left = d.x(NUMERIC, (1, 2) if name == "vecmat" else (1, 3))
    if name in ("matmul", "dot"):
        other = d.x(NUMERIC, shape=(left.shape[-1], *d.shape(0, 1)))
    elif name == "matvec":
        left = d.x(NUMERIC, (2, 3))
        other = d.x(NUMERIC, shape=left.shape[-1:])
    elif name == "vecmat":
        other = d.x(NUMERIC, shape=(left.shape[-1], 2))
    else:
        other = d.x(NUMERIC, shape=left.shape)
    return f"{f}({left}, {other})"


def vector_pair(d: Scope, f: str) -> str:
    return f"{f}({d.x(NUMERIC, (1, 1))}, {d.x(NUMERIC, (1, 1))})"


rows("matmul dot vdot inner vecdot matvec vecmat linalg.matmul linalg.vecdot", product_pair)
rows("outer kron polymul polyadd polysub linalg.outer", vector_pair)
rows(
    "convolve correlate",
    lambda d, f: f"{vector_pair(d, f)[:-1]}, mode='{d.choose(['full', 'same', 'valid'])}')",
)
rows(
    "tensordot linalg.tensordot",
    lambda d, f: f"{f}({(x := d.x(NUMERIC, (1, 2)))}, {d.x(NUMERIC, shape=x.shape)}, axes={x.rank})",
)
rows(
    "cross linalg.cross",
    lambda d, f: f"{f}({d.x(NUMERIC, shape=d.choose([(3,), (2, 3)]))}, {d.x(NUMERIC, shape=(3,))})",
)
rows("cov corrcoef", lambda d, f: f"{f}({d.x(NUMERIC, shape=(2, 4))})")
rows("roots", lambda d, f: f"{f}({d.x('f', shape=(d.integer(2, 3),), dtype='float32')}, strip_zeros=False)")
EINSUMS = [
    ("ij,jk->ik", 2),
    ("ij,ij->i", 2),
    ("ii->i", 1),
    ("...i,...i", 2),
    ("ij->ji", 1),
    ("i,j,k->ijk", 3),
]


def einsum(d: Scope) -> str:
    equation, count = d.choose(EINSUMS)
    n = d.integer(1, 3)
    shape = (n,) if count == 3 else (n, n)
    return f"np.einsum({equation!r}, {', '.join(d.x(NUMERIC, shape=shape) for _ in range(count))})"


add(
    einsum=einsum,
    einsum_path=lambda d: (
        f"np.einsum_path('ij,jk->ik', {d.x('f', shape=(2, 3))}, {d.x('f', shape=(3, 2))})[1] and 1"
    ),
    diff=lambda d: f"np.diff({d.x(NUMERIC, (1, 2))}, n={d.integer(0, 2)}, axis={d.axis()})",
    ediff1d=lambda d: f"np.ediff1d({d.x(NUMERIC, (1, 2))})",
    gradient=lambda d: f"np.gradient({d.x('f', shape=(d.integer(2, 4), 3))})",
    interp=lambda d: f"np.interp({d.x('f')}, np.array([-1.0, 0.0, 2.0]), {d.x('f', shape=(3,))})",
    unwrap=lambda d: f"np.unwrap({d.x('f', (1, 2))} * 2)",
    poly=lambda d: f"np.poly({d.x('f', (1, 1), dtype='float32')})",
    polyval=lambda d: f"np.polyval({d.x(NUMERIC, (1, 1))}, {d.x(NUMERIC)})",
    polyder=lambda d: f"np.polyder({d.x(NUMERIC, (1, 1), nonempty=True)})",
    polyint=lambda d: f"np.polyint({d.x(NUMERIC, (1, 1))})",
    polydiv=lambda d: f"np.polydiv({d.x('f', shape=(4,))}, 2 + np.abs({d.x('f', shape=(2,))}))",
    polyfit=lambda d: f"np.polyfit(np.arange(4.0), {d.x('f', shape=(4,), dtype='float32')}, 1)",
)

# --- Linear algebra -----------------------------------------------------------------------------------------------

rows("linalg.det linalg.slogdet linalg.inv linalg.matrix_rank linalg.cond", lambda d, f: f"{f}({square(d)})")
rows("linalg.eigvals", lambda d, f: f"np.sort_complex({f}({square(d, rank=(2, 2))}))")
rows("linalg.eigvalsh linalg.cholesky", lambda d, f: f"{f}({hermitian(d)})")
rows("linalg.pinv linalg.svdvals", lambda d, f: f"{f}({wide_matrix(d)})")
rows(
    "linalg.matrix_norm", lambda d, f: f"{f}({d.x('fc', (2, 3))}, ord={d.choose([repr('fro'), 1, 'np.inf'])})"
)
rows(
    "linalg.vector_norm",
    lambda d, f: f"{f}({d.x('fc')}, axis={d.axes()}, ord={d.choose([1, 2, 3, 'np.inf'])})",
)


def solve(d: Scope, f: str) -> str:
    a = square(d, rank=(2, 2))
    return f"{f}({a}, {d.x('fc', shape=(a.shape[0], *d.shape(0, 1)), dtype=a.dtype)})"


rows("linalg.solve", solve)
ROWS.update(
    {
        "np.linalg.eig": lambda d: f"np.sum(np.linalg.eig({square(d, rank=(2, 2))})[0] ** 2)",
        # vectors are unique but for their phase
        "np.linalg.eigh": lambda d: f"np.abs(np.linalg.eigh({hermitian(d)})[1])",
        "np.linalg.svd": lambda d: f"np.linalg.svd({wide_matrix(d)}, full_matrices=False)[1]",
        "np.linalg.qr": lambda d: f"np.abs(np.linalg.qr({square(d)})[1])",
        "np.linalg.lstsq": lambda d: (
            f"np.linalg.lstsq({(a := square(d, rank=(2, 2)))}, {d.x('fc', shape=(a.shape[0],), dtype=a.dtype)})[0]"
        ),
        "np.linalg.norm": lambda d: (
            f"np.linalg.norm({d.x('fc', (1, 2))}, axis={d.choose([None, d.axis()])}, keepdims={d.flag()})"
        ),
        "np.linalg.matrix_power": lambda d: f"np.linalg.matrix_power({square(d)}, {d.integer(-2, 3)})",
        "np.linalg.multi_dot": lambda d: (
            f"np.linalg.multi_dot([{d.x('f', shape=(2, 3))}, {d.x('f', shape=(3, 1))}, {d.x('f', shape=(1, 2))}])"
        ),
        "np.linalg.tensorinv": lambda d: (
            f"np.linalg.tensorinv(np.reshape({(a := square(d, rank=(2, 2)))}, ({a.shape[0]}, {a.shape[0]}, 1)), 1)"
        ),
        "np.linalg.tensorsolve": lambda d: (
            f"np.linalg.tensorsolve({(a := square(d, rank=(2, 2)))}, {d.x('f', shape=a.shape[:1], dtype=a.dtype)})"
        ),
    }
)

# --- Fourier transforms -------------------------------------------------------------------------------------------

NORM = ["None", "'ortho'", "'forward'"]
rows(
    "fft.fft fft.ifft fft.hfft",
    lambda d, f: (
        f"{f}({d.x('fc', (1, 2), nonempty=True)}, n={d.choose([None, 3, 4])}, axis={d.axis()}, norm={d.choose(NORM)})"
    ),
)
rows(
    "fft.rfft fft.ihfft",
    lambda d, f: (
        f"{f}({d.x('f', (1, 2), nonempty=True)}, n={d.choose([None, 3, 4])}, axis={d.axis()}, norm={d.choose(NORM)})"
    ),
)
rows(
    "fft.irfft",
    lambda d, f: f"{f}({d.x('fc', (1, 2), nonempty=True)}, n={d.choose([2, 3, 4])}, axis={d.axis()})",
)
rows("fft.fft2 fft.ifft2 fft.fftn fft.ifftn", lambda d, f: f"{f}({d.x('fc', (2, 3), nonempty=True)})")
rows("fft.rfft2 fft.rfftn", lambda d, f: f"{f}({d.x('f', (2, 3), nonempty=True)})")
rows(
    "fft.irfft2 fft.irfftn",
    lambda d, f: f"{f}({d.x('fc', (2, 3), nonempty=True)}, s=(2, {d.integer(2, 4)}), axes=(-2, -1))",
)
rows("fft.fftfreq fft.rfftfreq", lambda d, f: f"{f}({d.integer(1, 5)}, d={d.float(0.3, 2)})")
rows("fft.fftshift fft.ifftshift", lambda d, f: f"{f}({d.x(ANY)}, axes={d.axes()})")


def indexing(d: Scope) -> str:
    """`x[...]` with slices, integers, None, integer arrays and masks."""
    x = d.x(ANY, (1, 3), nonempty=d.chance(0.9))
    parts: list[Any] = []
    for n in x.shape[: d.integer(1, x.rank)]:
        parts.append(
            d.choose([":", "::-1", "1:", ":-1", "::2", "None, :", d.indices(d.choose([(), (2,), (2,)]), n)])
            if n
            else ":"
        )
    if d.chance(0.2):
        parts.append("...")
    return f"{x}[{', '.join(parts)}]"


def update(d: Scope) -> str:
    x = d.x(NUMERIC, (1, 2), nonempty=True)
    where = d.choose(["0", "::2", "-1:", d.indices((2,), x.shape[0]), "..."])
    method = d.choose(["set", "add", "multiply", "max", "min", "subtract", "power", "divide", "apply", "get"])
    if method == "get":
        return f"{x}.at[{where}].get(mode='{d.choose(['clip', 'fill', 'wrap'])}')"
    if method == "apply":
        return f"{x}.at[0].apply(np.sin)"
    return f"{x}.at[{where}].{method}({d.choose(['2', d.x(x.kind, shape=x.shape[1:], dtype=x.dtype)])})"


def method(d: Scope) -> str:
    x = d.x(NUMERIC, nonempty=True)
    return str(x) + d.choose(
        [
            ".sum()",
            ".mean()",
            ".T",
            ".flatten()",
            ".max()",
            ".real",
            ".imag",
            ".conj()",
            ".cumsum()",
            ".round()",
            ".std()",
        ]
    )


def operator(d: Scope) -> str:
    x = d.x(NUMERIC)
    op = d.choose(
        ["+", "-", "*", "/", "**", "==", "<", "%", "//"]
        if x.kind != "c"
        else ["+", "-", "*", "/", "**", "=="]
    )
    left, right = (x, d.fit(x, x.kind)) if d.flag() else (d.fit(x, x.kind), x)
    return f"{left} {op} {right}"


ROWS |= {"indexing": indexing, "update": update, "method": method, "operator": operator}
EXCLUDED = {
    "array_repr array_str get_printoptions set_printoptions printoptions": "text",
    "can_cast isdtype issubdtype promote_types result_type broadcast_shapes iterable": "return no arrays; compared by tests/numpy",
    "trim_zeros": "has a shape that depends on values",
    "from_dlpack fromfile fromiter load save savez": "read and write objects and files",
}
