"""Rows for `lax`, `lax.linalg`, `nn`, `nn.initializers`, `ops`, `random` and `scipy.special`; see table_numpy.py."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.scope import ANY, NUMERIC, REAL, Scope
from tests.fuzz.table_numpy import Row, hermitian, square, wide_matrix

ROWS: dict[str, Row] = {}


def rows(module: str, names: str, row: Callable[[Scope, str], str]) -> None:
    for name in names.split():
        ROWS[f"{module}.{name}"] = lambda d, f=f"{module}.{name}": row(d, f)


def add(module: str, **table: Row) -> None:
    ROWS.update({f"{module}.{name}": row for name, row in table.items()})


def second(d: Scope, x: str) -> str:
    """A second operand as lax wants it: of the same shape and dtype, or a scalar."""
    return d.literal(d.first.kind) if d.first.kind in "if" and d.chance(0.15) else d.like(d.first)


# --- Elementwise --------------------------------------------------------------------------------------------------

rows("lax", "abs neg sign square integer_pow reciprocal exp exp2 expm1 sin cos sinh cosh tanh atan asinh logistic sqrt log "
     "log1p tan is_finite rsqrt", lambda d, f: f"{f}({d.x('ffffci' if f in ('lax.abs', 'lax.neg', 'lax.sign', 'lax.square', 'lax.integer_pow') else 'fc')}"
     f"{', ' + str(d.integer(-2, 4)) if f == 'lax.integer_pow' else ''})")  # fmt: skip
rows("lax", "floor ceil round cbrt erf erfc bessel_i0e bessel_i1e is_finite", lambda d, f: f"{f}({d.x('f')})")
rows("lax", "lgamma digamma", lambda d, f: f"{f}({d.x('f', domain='positive')})")
rows("lax", "real imag conj", lambda d, f: f"{f}({d.x('c')})")
rows("lax", "asin acos atanh erf_inv", lambda d, f: f"{f}({d.x('f', domain='unit')})")
rows("lax", "acosh", lambda d, f: f"{f}({d.x('fc', domain='above one')})")
rows("lax", "bitwise_not clz population_count", lambda d, f: f"{f}({d.x('iu')})")
rows("lax", "add sub mul div eq ne pow", lambda d, f: f"{f}({(x := d.x(NUMERIC))}, {second(d, x)})")
rows("lax", "max min rem lt le gt ge", lambda d, f: f"{f}({(x := d.x(REAL))}, {second(d, x)})")
rows("lax", "atan2 nextafter complex", lambda d, f: f"{f}({(x := d.x('f'))}, {d.like(x)})")
rows("lax", "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic shift_right_logical mulhi",
     lambda d, f: f"{f}({(x := d.x('iu'))}, {d.like(x)})")  # fmt: skip


def positives(d: Scope, n: int, f: str) -> str:
    """A function of n positive arrays of one shape and dtype."""
    x = d.x("f", domain="positive")
    return f"{f}({', '.join([x, *[d.emit(f'1.25 + np.tanh({d.like(x)})') for _ in range(n - 1)]])})"


rows("lax", "igamma igammac igamma_grad_a zeta random_gamma_grad", lambda d, f: positives(d, 2, f))
rows("lax", "betainc", lambda d, f: f"{positives(d, 2, f)[:-1]}, np.abs(np.tanh({d.like(d.first)})))")
add("lax", polygamma=lambda d: f"lax.polygamma(np.ones_like({(x := d.x('f', domain='positive'))}), {x})")

# --- Shapes and dtypes --------------------------------------------------------------------------------------------

rows("lax", "convert_element_type", lambda d, f: f"{f}({d.x('biuf')}, '{d.dtype('biuf')}')")
rows("lax", "stop_gradient optimization_barrier", lambda d, f: f"{f}({d.x(ANY)})")
rows("lax", "full_like", lambda d, f: f"{f}({d.x(NUMERIC)}, {d.literal('i')})")
rows(
    "lax",
    "argmax argmin",
    lambda d, f: f"{f}({(x := d.x(REAL, (1, 3), nonempty=True))}, {d.integer(0, x.rank - 1)}, 'int32')",
)
rows(
    "lax",
    "cumsum cumprod cummax cummin",
    lambda d, f: f"{f}({(x := d.x(REAL, (1, 3)))}, axis={d.integer(0, x.rank - 1)}, reverse={d.flag()})",
)
rows("lax", "cumlogsumexp", lambda d, f: f"{f}({d.x('f', (1, 2))}, axis=0, reverse={d.flag()})")
rows(
    "lax",
    "reduce_sum reduce_prod reduce_max reduce_min",
    lambda d, f: (
        f"{f}({(x := d.x(REAL, nonempty=True))}, {tuple(i % max(x.rank, 1) for i in d.subset(x.rank))})"
    ),
)
rows("lax", "reduce_and reduce_or reduce_xor", lambda d, f: f"{f}({d.x('bi', (1, 3))}, (0,))")
add(
    "lax",
    bitcast_convert_type=lambda d: f"lax.bitcast_convert_type({d.x('f', dtype='float32')}, '{d.choose(['int32', 'uint32', 'uint8', 'int16'])}')",
    reduce_precision=lambda d: f"lax.reduce_precision({d.x('f')}, 5, 7)",
    clamp=lambda d: f"lax.clamp({d.choose([(x := d.x('fi', shape=())), d.literal(x.kind)])}, {d.x(x.kind, dtype=x.dtype)}, {d.x(x.kind, shape=(), dtype=x.dtype)})",
    select=lambda d: f"lax.select({(c := d.x('b'))}, {(x := d.x(NUMERIC, shape=c.shape))}, {d.like(x)})",
    select_n=lambda d: f"lax.select_n({(c := d.x('b'))}, {(x := d.x(NUMERIC, shape=c.shape))}, {d.like(x)})",
    broadcast=lambda d: f"lax.broadcast({d.x(ANY)}, {d.shape(0, 1)})",
    broadcast_in_dim=lambda d: f"lax.broadcast_in_dim({(x := d.x(ANY, (1, 2)))}, {(2, *x.shape)}, {tuple(range(1, x.rank + 1))})",
    broadcast_like=lambda d: f"lax.broadcast_like({d.x(ANY, (0, 0))}, {d.x(ANY)})",
    broadcast_to_rank=lambda d: f"lax.broadcast_to_rank({d.x(ANY, (0, 2))}, 3)",
    broadcasted_iota=lambda d: f"lax.broadcasted_iota('{d.dtype('if')}', {(s := d.shape(1, 2))}, {d.integer(0, len(s) - 1)})",
    collapse=lambda d: f"lax.collapse({d.x(ANY, (2, 3))}, 0, 2)",
    concatenate=lambda d: f"lax.concatenate([{(x := d.x(ANY, (1, 2)))}, {d.like(x)}], {d.integer(0, x.rank - 1)})",
    empty=lambda d: f"lax.empty({d.shape()}, '{d.dtype()}')",
    expand_dims=lambda d: f"lax.expand_dims({(x := d.x(ANY))}, ({d.integer(0, x.rank)},))",
    full=lambda d: f"lax.full({d.shape()}, {d.x(NUMERIC, (0, 0))})",
    iota=lambda d: f"lax.iota('{d.dtype('if')}', {d.integer(0, 4)})",
    pad=lambda d: f"lax.pad({(x := d.x(NUMERIC, (1, 2)))}, {d.x(x.kind, shape=(), dtype=x.dtype)}, {[(d.integer(-1, 2), d.integer(0, 2), d.integer(0, 1)) for _ in x.shape]})",
    reshape=lambda d: f"lax.reshape({(x := d.x(ANY))}, {d.reshaped(x)})",
    rev=lambda d: f"lax.rev({(x := d.x(ANY, (1, 3)))}, ({d.integer(0, x.rank - 1)},))",
    squeeze=lambda d: f"lax.squeeze({(x := d.x(ANY))}, {tuple(i for i, n in enumerate(x.shape) if n == 1)})",
    split=lambda d: f"lax.split({(x := d.x(ANY, (1, 2), nonempty=True))}, (1, {x.shape[0] - 1}), 0)",
    stack=lambda d: f"lax.stack([{(x := d.x(ANY, (0, 2)))}, {d.like(x)}])",
    unstack=lambda d: f"lax.unstack({d.x(ANY, (1, 2))})",
    tile=lambda d: f"lax.tile({(x := d.x(ANY, (1, 2)))}, {tuple(d.integer(1, 2) for _ in x.shape)})",
    transpose=lambda d: f"lax.transpose({(x := d.x(ANY))}, {tuple(int(i) for i in d.rng.permutation(x.rank))})",
    slice=lambda d: f"lax.slice({(x := d.x(ANY, (1, 2)))}, {tuple(min(1, n) for n in x.shape)}, {x.shape}, {tuple(d.integer(1, 2) for _ in x.shape)})",
    slice_in_dim=lambda d: f"lax.slice_in_dim({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.choose([0, 1, -1])}, None, axis={d.integer(0, x.rank - 1)})",
    index_in_dim=lambda d: f"lax.index_in_dim({d.x(ANY, (1, 2), nonempty=True)}, {d.choose([0, -1])}, 0, keepdims={d.flag()})",
    index_take=lambda d: f"lax.index_take({(x := d.x(NUMERIC, (2, 2), nonempty=True))}, (np.array([0, {x.shape[0] - 1}]),), (0,))",
    dynamic_slice=lambda d: f"lax.dynamic_slice({(x := d.x(ANY, (1, 2), nonempty=True))}, [{', '.join(d.x('i', shape=()) for _ in x.shape)}], {tuple(d.integer(1, n) for n in x.shape)})",
    dynamic_slice_in_dim=lambda d: f"lax.dynamic_slice_in_dim({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.x('i', shape=())}, {d.integer(1, x.shape[0])})",
    dynamic_index_in_dim=lambda d: f"lax.dynamic_index_in_dim({d.x(ANY, (1, 2), nonempty=True)}, {d.x('i', shape=())}, keepdims={d.flag()})",
    dynamic_update_slice=lambda d: f"lax.dynamic_update_slice({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.x(x.kind, shape=(1,) * x.rank, dtype=x.dtype)}, [{', '.join(d.x('i', shape=()) for _ in x.shape)}])",
    dynamic_update_slice_in_dim=lambda d: f"lax.dynamic_update_slice_in_dim({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.x(x.kind, shape=(1, *x.shape[1:]), dtype=x.dtype)}, {d.x('i', shape=())}, 0)",
    dynamic_update_index_in_dim=lambda d: f"lax.dynamic_update_index_in_dim({(x := d.x(ANY, (1, 2), nonempty=True))}, {d.x(x.kind, shape=x.shape[1:], dtype=x.dtype)}, {d.x('i', shape=())}, 0)",
    sort=lambda d: f"lax.sort({d.x(REAL, (1, 2))}, dimension={d.axis()})",
    sort_key_val=lambda d: f"lax.sort_key_val({(x := d.x(REAL, (1, 2)))}, {d.x(ANY, shape=x.shape)}, dimension={d.axis()})",
    top_k=lambda d: f"lax.top_k({(x := d.x(REAL, (1, 2), nonempty=True))}, {d.integer(1, x.shape[-1])})",
    approx_max_k=lambda d: f"lax.approx_max_k({(x := d.x('f', (1, 2), nonempty=True))}, {d.integer(1, x.shape[-1])})",
    approx_min_k=lambda d: f"lax.approx_min_k({(x := d.x('f', (1, 2), nonempty=True))}, {d.integer(1, x.shape[-1])})",
    reduce=lambda d: f"lax.reduce({(x := d.x('fi', (1, 2)))}, {d.x(x.kind, shape=(), dtype=x.dtype)}, {d.choose(['lax.add', 'lax.max', 'lax.mul'])}, (0,))",
    reduce_window=lambda d: f"lax.reduce_window({(x := d.x('f', (1, 2), nonempty=True))}, {d.choose(['0., lax.add', '-onp.inf, lax.max', 'onp.inf, lax.min'])}, {(2,) + (1,) * (x.rank - 1)}, {(1,) * x.rank}, '{d.choose(['SAME', 'VALID'])}')",
    rng_bit_generator=lambda d: f"lax.rng_bit_generator(np.array([1, 2, 3, {d.integer(0, 9)}], 'uint32'), {d.shape(1, 2)})[1]",
    platform_dependent=lambda d: f"lax.platform_dependent({d.x('f')}, cpu=np.sin, default=np.cos)",
)  # fmt: skip

# --- Gather, scatter, products ------------------------------------------------------------------------------------


def gather(d: Scope) -> str:
    x = d.x(NUMERIC, (2, 2), nonempty=True)
    numbers = "lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))"
    return f"lax.gather({x}, {d.indices((2, 1), x.shape[0])} % {x.shape[0]}, {numbers}, (1, {x.shape[1]}), mode='{d.choose(['clip', 'fill', 'promise_in_bounds'])}')"


def scatter(d: Scope, f: str) -> str:
    x = d.x("f", (2, 2), nonempty=True)
    numbers = "lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))"
    where = f"{d.indices((2, 1), x.shape[0])} % {x.shape[0]}"
    if f == "lax.scatter_apply":
        return f"{f}({x}, {where}, np.sin, {numbers}, update_shape=(2, {x.shape[1]}), unique_indices=False)"
    return f"{f}({x}, {where}, {d.x('f', shape=(2, x.shape[1]), dtype=x.dtype)}, {numbers})"


rows("lax", "scatter scatter_add scatter_mul scatter_sub scatter_max scatter_min scatter_apply", scatter)


def convolution(d: Scope, f: str) -> str:
    dtype = d.dtype("f")
    x = d.x("f", shape=(d.integer(1, 2), 2, d.integer(3, 5)), dtype=dtype)
    kernel = d.x("f", shape=(d.integer(1, 2), 2, d.integer(1, 3)), dtype=dtype)
    stride, padding = d.integer(1, 2), d.choose(["SAME", "VALID"])
    if f == "lax.conv_with_general_padding":
        return f"{f}({x}, {kernel}, ({stride},), [({d.integer(0, 2)}, 1)], (1,), ({d.integer(1, 2)},))"
    if f == "lax.conv":
        return f"{f}({x}, {kernel}, ({stride},), '{padding}')"
    return f"{f}({x}, {kernel}, ({stride},), '{padding}', rhs_dilation=({d.integer(1, 2)},))"


rows("lax", "conv conv_general_dilated conv_with_general_padding", convolution)


def fft(d: Scope) -> str:
    kind, dtype = d.choose([("FFT", "complex64"), ("IFFT", "complex64"), ("RFFT", "float32")])
    x = d.x("fc", (1, 2), dtype=dtype, nonempty=True)
    return f"lax.fft({x}, '{kind}', ({x.shape[-1]},))"


add(
    "lax",
    fft=fft,
    gather=gather,
    conv_transpose=lambda d: f"lax.conv_transpose({(x := d.x('f', shape=(1, 3, 2)))}, {d.x('f', shape=(2, 2, 1), dtype=x.dtype)}, ({d.integer(1, 2)},), '{d.choose(['SAME', 'VALID'])}')",
    conv_general_dilated_patches=lambda d: f"lax.conv_general_dilated_patches({d.x('f', shape=(1, 2, 4))}, (2,), ({d.integer(1, 2)},), 'VALID')",
    conv_general_dilated_local=lambda d: f"lax.conv_general_dilated_local({(x := d.x('f', shape=(1, 2, 3)))}, {d.x('f', shape=(1, 4, 2), dtype=x.dtype)}, (1,), 'VALID', (2,))",
    dot=lambda d: f"lax.dot({(x := d.x('fi', (1, 2)))}, {d.x(x.kind, shape=(x.shape[-1], *d.shape(0, 1)), dtype=x.dtype)})",
    dot_general=lambda d: f"lax.dot_general({(x := d.x('fi', (2, 3)))}, {d.like(x)}, ((({x.rank - 1},), ({x.rank - 1},)), ((0,), (0,))))",
    batch_matmul=lambda d: f"lax.batch_matmul({(x := d.x('f', (3, 3)))}, {d.x('f', shape=(x.shape[0], x.shape[2], 2), dtype=x.dtype)})",
    ragged_dot=lambda d: f"lax.ragged_dot({(x := d.x('f', shape=(4, 3)))}, {d.x('f', shape=(2, 3, 2), dtype=x.dtype)}, np.array([{(n := d.integer(0, 4))}, {4 - n}], 'int32'))",
)  # fmt: skip

# --- lax.linalg ---------------------------------------------------------------------------------------------------

rows("lax.linalg", "cholesky", lambda d, f: f"{f}({hermitian(d)})")
rows("lax.linalg", "eig", lambda d, f: f"np.sum({f}({square(d, rank=(2, 2))})[0] ** 3)")
rows("lax.linalg", "eigh", lambda d, f: f"{f}({hermitian(d)})[1]")
rows("lax.linalg", "lu", lambda d, f: f"{f}({square(d)})[0]")
rows("lax.linalg", "qr", lambda d, f: f"np.abs({f}({wide_matrix(d)}, full_matrices=False)[1])")
rows("lax.linalg", "svd", lambda d, f: f"{f}({wide_matrix(d)}, full_matrices=False)[1]")
add(
    "lax.linalg",
    cholesky_update=lambda d: f"lax.linalg.cholesky_update(np.swapaxes(np.linalg.cholesky({(a := hermitian(d, 'f'))}), -1, -2), {d.x('f', shape=a.shape[-1:], dtype=a.dtype)})",
    householder_product=lambda d: f"lax.linalg.householder_product({(a := wide_matrix(d))}, {d.x('fc', shape=(min(a.shape),), dtype=a.dtype)})",
    lu_pivots_to_permutation=lambda d: f"lax.linalg.lu_pivots_to_permutation(np.array([{d.integer(0, 2)}, {d.integer(1, 2)}], 'int32'), 3)",
    triangular_solve=lambda d: f"lax.linalg.triangular_solve({(a := square(d, rank=(2, 2)))}, {d.x('fc', shape=(a.shape[0], 2), dtype=a.dtype)}, left_side=True, lower={d.flag()}, transpose_a={d.flag()})",
    symmetric_product=lambda d: f"lax.linalg.symmetric_product({d.x('f', shape=(2, 3), dtype='float32')}, {d.x('f', shape=(2, 2), dtype='float32')}, alpha=2.0, beta=0.5, symmetrize_output=True)",
    tridiagonal_solve=lambda d: f"lax.linalg.tridiagonal_solve({(x := d.x('f', shape=(3,), dtype='float32'))}, 4 + np.abs({d.like(x)}), {d.like(x)}, {d.x('f', shape=(3, 2), dtype='float32')})",
)  # fmt: skip

# --- nn -----------------------------------------------------------------------------------------------------------

rows("nn", "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid mish relu relu6 selu "
     "sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus swish tanh",
     lambda d, f: f"{f}({d.x('f' if d.chance(0.9) else 'i')})")  # fmt: skip
rows(
    "nn",
    "softmax log_softmax logsumexp logmeanexp",
    lambda d, f: f"{f}({d.x('f', (1, 3), nonempty=True)}, axis={d.axis()})",
)
add(
    "nn",
    log1mexp=lambda d: f"nn.log1mexp({d.x('f', domain='positive')})",
    glu=lambda d: f"nn.glu({d.x('f', shape=(2, 4))}, axis={d.axis()})",
    one_hot=lambda d: f"nn.one_hot({d.x('iu', (0, 2))}, {d.integer(1, 4)})",
    standardize=lambda d: f"nn.standardize({d.x('f', shape=(2, 3))}, axis={d.axis()}, algorithm='stable')",
    dot_product_attention=lambda d: f"nn.dot_product_attention({(x := d.x('f', shape=(2, 2, 1, 3)))}, {d.like(x)}, {d.like(x)}, is_causal={d.flag()})",
)  # fmt: skip
rows("nn.initializers", "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal "
     "lecun_uniform normal orthogonal truncated_normal uniform xavier_normal xavier_uniform",
     lambda d, f: f"{f}()(random.key({d.integer(0, 9)}), (3, 2))")  # fmt: skip
add(
    "nn.initializers",
    zeros=lambda d: "nn.initializers.zeros(random.key(0), (2, 2))",
    ones=lambda d: "nn.initializers.ones(random.key(0), (2, 2))",
    constant=lambda d: "nn.initializers.constant(0.5)(random.key(0), (2, 3))",
    delta_orthogonal=lambda d: "nn.initializers.delta_orthogonal()(random.key(0), (3, 2, 2))",
    variance_scaling=lambda d: (
        "nn.initializers.variance_scaling(2.0, 'fan_avg', 'normal')(random.key(1), (2, 3))"
    ),
)
rows("ops", "segment_sum segment_max segment_min segment_prod",
     lambda d, f: f"{f}({(x := d.x('f', (1, 2), nonempty=True))}, {d.indices((x.shape[0],), 3)} % 3, num_segments=3)")  # fmt: skip

# --- random -------------------------------------------------------------------------------------------------------


def key(d: Scope) -> str:
    """A random key, sometimes made of a traced number."""
    text = f"random.key({d.integer(0, 99)})"
    return f"random.fold_in({text}, {d.x('iu', shape=())})" if d.chance(0.3) else text


rows("random", "normal uniform exponential gumbel laplace logistic cauchy rademacher bits maxwell rayleigh",
     lambda d, f: f"{f}({key(d)}, {'1.5, ' if f.endswith('rayleigh') else ''}shape={d.shape(0, 2)})")  # fmt: skip
add(
    "random",
    PRNGKey=lambda d: f"random.PRNGKey({d.integer(0, 9)})",
    key=lambda d: f"random.normal(random.key({d.integer(0, 9)}), ())",
    key_data=lambda d: f"random.key_data({key(d)})",
    wrap_key_data=lambda d: "random.uniform(random.wrap_key_data(np.array([1, 2], 'uint32')), (2,))",
    clone=lambda d: f"random.bits(random.clone({key(d)}), (2,))",
    fold_in=lambda d: f"random.bits(random.fold_in({key(d)}, {d.integer(0, 9)}), (2,))",
    split=lambda d: f"random.key_data(random.split({key(d)}, {d.integer(1, 3)}))",
    bernoulli=lambda d: f"random.bernoulli({key(d)}, {d.float(0, 1)}, {d.shape(0, 2)})",
    categorical=lambda d: f"random.categorical({key(d)}, {d.x('f', (1, 2), nonempty=True)})",
    choice=lambda d: f"random.choice({key(d)}, {d.x(NUMERIC, (1, 1), nonempty=True)}, (2,))",
    permutation=lambda d: f"random.permutation({key(d)}, {d.x(NUMERIC, (1, 2))})",
    randint=lambda d: f"random.randint({key(d)}, {d.shape(0, 2)}, {d.integer(-3, 0)}, {d.integer(2, 9)})",
    truncated_normal=lambda d: f"random.truncated_normal({key(d)}, -1.5, {d.float(0, 2)}, {d.shape(0, 2)})",
    double_sided_maxwell=lambda d: f"random.double_sided_maxwell({key(d)}, 0.5, 1.5, {d.shape(0, 2)})",
    geometric=lambda d: f"random.geometric({key(d)}, {d.float(0.2, 0.9)}, {d.shape(0, 2)})",
    lognormal=lambda d: f"random.lognormal({key(d)}, {d.float(0.2, 0.9)}, {d.shape(0, 2)})",
    multivariate_normal=lambda d: f"random.multivariate_normal({key(d)}, {d.x('f', shape=(2,), dtype='float32')}, np.eye(2, dtype='float32'))",
    orthogonal=lambda d: f"np.abs(random.orthogonal({key(d)}, {d.integer(1, 3)}))",
    pareto=lambda d: f"random.pareto({key(d)}, {d.float(1, 3)}, {d.shape(0, 2)})",
    triangular=lambda d: f"random.triangular({key(d)}, 0.0, 0.5, 2.0, {d.shape(0, 2)})",
    weibull_min=lambda d: f"random.weibull_min({key(d)}, 1.5, {d.float(1, 3)}, {d.shape(0, 2)})",
    wald=lambda d: f"random.wald({key(d)}, {d.float(1, 3)}, {d.shape(0, 2)})",
)  # fmt: skip


def other_draws(d: Scope, f: str) -> str:
    """Draws that differ from jax's in their numbers: types and shapes are compared."""
    s = d.shape(0, 2)
    parameters = {
        "beta": "1.5, 2.0", "binomial": "5, 0.5", "chisquare": "3.0", "dirichlet": "np.array([1.0, 2.0])", "f": "2.0, 3.0",
        "gamma": "1.5", "loggamma": "1.5", "poisson": "2.5", "t": "3.0", "ball": "2", "generalized_normal": "1.5",
    }[f.split(".")[-1]]  # fmt: skip
    return f"np.isfinite({f}({key(d)}, {parameters}, {'' if 'binomial' in f else 'shape='}{'shape=' if 'binomial' in f else ''}{s})) | True"


rows(
    "random",
    "ball beta binomial chisquare dirichlet f gamma generalized_normal loggamma poisson t",
    other_draws,
)

# --- scipy.special ------------------------------------------------------------------------------------------------

rows("special", "erf erfc erfcx expit i0 i0e i1 i1e ndtr log_ndtr", lambda d, f: f"{f}({d.x('f')})")
rows(
    "special",
    "digamma entr gamma gammaln gammasgn factorial expi exp1 spence",
    lambda d, f: f"{f}({d.x('f', domain='positive')})",
)
rows("special", "erfinv", lambda d, f: f"{f}({d.x('f', domain='unit')})")
rows("special", "ndtri logit", lambda d, f: f"{f}(0.5 + 0.4 * np.sin({d.x('f')}))")
rows(
    "special",
    "softmax log_softmax logsumexp",
    lambda d, f: f"{f}({d.x('f', (1, 2), nonempty=True)}, axis={d.axis()})",
)
rows("special", "beta betaln boxcox boxcox1p gammainc gammaincc kl_div poch rel_entr xlog1py xlogy zeta",
     lambda d, f: positives(d, 2, f))  # fmt: skip
add(
    "special",
    betainc=lambda d: f"{positives(d, 2, 'special.betainc')[:-1]}, np.abs(np.tanh({d.like(d.first)})))",
    bernoulli=lambda d: f"special.bernoulli({d.integer(0, 5)})",
    comb=lambda d: f"special.comb(4 + np.abs({d.x('f')}), 2)",
    bessel_jn=lambda d: f"special.bessel_jn({d.x('f')}, v=2)",
    expn=lambda d: f"special.expn({d.integer(0, 4)}, {d.x('f', domain='positive')})",
    hyp1f1=lambda d: f"special.hyp1f1(1.5, 2.5, {d.x('f')})",
    hyp2f1=lambda d: f"special.hyp2f1(1.5, 2.5, 3.0, np.tanh({d.x('f')}) * 0.5)",
    owens_t=lambda d: f"special.owens_t({d.x('f')}, {d.like(d.first)})",
    multigammaln=lambda d: f"special.multigammaln(2 + {d.x('f', domain='positive')}, {d.integer(1, 3)})",
    polygamma=lambda d: f"special.polygamma({d.integer(0, 2)}, {d.x('f', domain='positive')})",
)

EXCLUDED = {
    "DotDimensionNumbers PrecisionLike dtype ConvGeneralDilatedDimensionNumbers RaggedDotDimensionNumbers": "types",
    "broadcast_shapes conv_dimension_numbers conv_general_permutations conv_general_shape_tuple conv_shape_tuple "
    "conv_transpose_shape_tuple padtype_to_pads reduce_window_shape_tuple": "return no arrays",
    "key_dtype key_impl": "return no arrays",
    "tridiagonal hessenberg schur ormqr qdwh": "results that are unique but for signs",
    "EigImplementation EighImplementation SvdAlgorithm DotAlgorithm DotAlgorithmPreset": "enumerations",
    "dawsn fresnel sici loggamma wofz sph_harm_y": "in jax other digits, or a warning; tests/scipy compares with SciPy",
    "ragged_dot_general": "shapes that depend on each other, refusals of gradients; compared by tests/lax",
    "composite pbroadcast ragged_all_to_all scaled_dot shape_as_value stage": (
        "compositions, most without derivatives in jax; compared by tests/lax"
    ),
    "ds": "an index; compared by tests/numpy",
    "scaled_matmul": "shapes that depend on each other; compared by tests/nn",
    "scaled_dot_general": "shapes that depend on each other, no lowering of jax's; compared by tests/nn",
    "get_scaled_dot_general_config": "no arrays",
    "dce_sink": "no results; compared by tests/lax",
    "rng_uniform": "each call draws other numbers; compared by tests/lax",
    "multinomial": "loops whose lengths jax bounds otherwise; compared by tests/random",
}
