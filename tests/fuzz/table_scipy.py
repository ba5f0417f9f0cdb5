"""Rows for `image` and the modules of `scipy` except `scipy.special`, which stands in table_lax.py; see table_numpy.py.

Their short names are those of `program.MODULES`: `sla` is `scipy.linalg`, `sfft` is `scipy.fft`.
"""

from __future__ import annotations

from tests.fuzz.scope import NUMERIC, Scope
from tests.fuzz.table_numpy import Row, hermitian, square, wide_matrix

ROWS: dict[str, Row] = {}


def add(module: str, **table: Row) -> None:
    ROWS.update({f"{module}.{name}": row for name, row in table.items()})


def filtered(d: Scope, f: str, low: int, high: int) -> str:
    """A convolution of an array with a smaller one."""
    x = d.x("f", (low, high), nonempty=True)
    y = d.x("f", shape=tuple(max(1, n - d.integer(0, 1)) for n in x.shape))
    return f"{f}({x}, {y}, mode={d.choose(['full', 'same', 'valid'])!r})"


def segmented(d: Scope, f: str) -> str:
    """Spectra of short segments of one signal, or of two."""
    x = d.x("f", shape=(*d.shape(0, 1), 6))
    second = f"{d.like(x)}, " if f == "signal.csd" else ""
    detrend = d.choose(["", ", detrend=False", ", detrend='linear'"]) if f != "signal.stft" else ""
    window = d.choose(["", ", window='boxcar'", ", noverlap=1", ", return_onesided=False"])
    return f"{f}({x}, {second}nperseg={d.choose([3, 4])}{window}{detrend})"


def cosines(d: Scope, f: str) -> str:
    x = d.x("f", (1, 3), nonempty=True)
    axis = f"axes={d.axes()}" if f.endswith("n") else f"axis={d.axis(x)}"
    return f"{f}({x}, {axis}, norm={d.choose([None, 'ortho'])!r})"


def interpolated(d: Scope, f: str) -> str:
    x = d.x("f", (1, 2), nonempty=True)
    shape = d.shape(0, 1)
    places = ", ".join(f"2 * {d.x('f', shape=shape)}" for _ in range(x.rank))
    mode = d.choose(["constant", "nearest", "wrap", "mirror", "reflect"])
    return f"{f}({x}, [{places}], order={d.integer(0, 1)}, mode={mode!r}, cval={d.float(-1, 1)})"


def resized(d: Scope, f: str) -> str:
    x = d.x("f", (1, 3), nonempty=True)
    shape = tuple(d.integer(1, 5) for _ in x.shape)
    method = repr(d.choose(["nearest", "linear", "cubic", "lanczos3"]))
    if f == "image.resize":
        return f"{f}({x}, {shape}, {method}, antialias={d.flag()})"
    scale, shift = [f"np.array([{d.float(0.4, 2)}])" for _ in range(2)]
    axis = d.axis(x) % x.rank
    shape = tuple(d.integer(1, 5) if i == axis else n for i, n in enumerate(x.shape))
    method = method.replace("nearest", "linear")
    return f"{f}({x}, {shape}, ({axis},), {scale}, {shift}, {method}, antialias={d.flag()})"


def system(d: Scope, make: str) -> str:
    """A matrix and a right-hand side for `make`."""
    a = square(d, rank=(2, 2))
    b = d.x(a.kind, shape=d.choose([a.shape[-1:], (a.shape[-1], 2)]), dtype=a.dtype)
    return make.format(a=a, b=b)


for name in ("convolve", "correlate", "fftconvolve"):
    add("signal", **{name: lambda d, f=f"signal.{name}": filtered(d, f, 1, 2)})
for name in ("convolve2d", "correlate2d"):
    add("signal", **{name: lambda d, f=f"signal.{name}": filtered(d, f, 2, 2)})
for name in ("stft", "welch", "csd"):
    add("signal", **{name: lambda d, f=f"signal.{name}": segmented(d, f)})
for name in ("dct", "idct", "dctn", "idctn"):
    add("sfft", **{name: lambda d, f=f"sfft.{name}": cosines(d, f)})
for name in ("resize", "scale_and_translate"):
    add("image", **{name: lambda d, f=f"image.{name}": resized(d, f)})
for name in ("circulant", "toeplitz", "hankel", "fiedler"):
    add("sla", **{name: lambda d, f=f"sla.{name}": f"{f}({d.x('fi', (1, 1), nonempty=True)})"})
for name in ("hilbert", "invhilbert", "pascal", "invpascal", "helmert", "dft"):
    add("sla", **{name: lambda d, f=f"sla.{name}": f"{f}({d.integer(2, 4)})"})
for name in ("det", "inv", "lu_factor"):
    add("sla", **{name: lambda d, f=f"sla.{name}": f"{f}({square(d, rank=(2, 2))})"})

add(
    "signal",
    detrend=lambda d: (
        f"signal.detrend({(x := d.x('f', (1, 2), nonempty=True))}, axis={d.axis(x)}, "
        f"type={d.choose(['linear', 'constant'])!r})"
    ),
    istft=lambda d: f"signal.istft({d.x('c', shape=(3, 3))}{d.choose(['', ', noverlap=2', ', fs=2.0'])})[1]",
)
add("ndimage", map_coordinates=lambda d: interpolated(d, "ndimage.map_coordinates"))
add(
    "integrate",
    trapezoid=lambda d: (
        f"integrate.trapezoid({d.x(NUMERIC, (1, 3), nonempty=True)}, dx={d.float(0.2, 2)}, axis={d.axis()})"
    ),
)
add("vq", vq=lambda d: f"vq.vq({(x := d.x('f', shape=(3, 2)))}, {d.x('f', shape=(2, 2), dtype=x.dtype)})")
add(
    "sla",
    block_diag=lambda d: f"sla.block_diag({d.x('fi', (2, 2))}, {d.x('fi', (2, 2))})",
    companion=lambda d: (
        f"sla.companion(np.concatenate([np.array([1.0]), {d.x('f', (1, 1), nonempty=True)}]))"
    ),
    convolution_matrix=lambda d: (
        f"sla.convolution_matrix({d.x('f', (1, 1), nonempty=True)}, {d.integer(1, 3)}, "
        f"mode={d.choose(['full', 'same', 'valid'])!r})"
    ),
    hadamard=lambda d: f"sla.hadamard({d.choose([1, 2, 4])})",
    cholesky=lambda d: f"sla.cholesky({hermitian(d)}, lower={d.flag()})",
    cho_factor=lambda d: f"sla.cho_factor({hermitian(d)}, lower=True)[0]",
    cho_solve=lambda d: system(d, "sla.cho_solve(({a}, True), {b})"),
    eigh=lambda d: f"sla.eigh({hermitian(d)}, eigvals_only=True)",
    expm=lambda d: f"sla.expm(0.5 * np.sin({square(d, kinds='f', rank=(2, 2))}))",
    lu_solve=lambda d: system(
        d, "sla.lu_solve(sla.lu_factor({a}), {b}, trans={t})".replace("{t}", str(d.integer(0, 1)))
    ),
    qr=lambda d: f"sla.qr({wide_matrix(d)}, mode='r')",
    solve=lambda d: system(d, "sla.solve({a}, {b})"),
    solve_triangular=lambda d: system(
        d, f"sla.solve_triangular({{a}}, {{b}}, lower={d.flag()}, trans={d.integer(0, 2)})"
    ),
    svd=lambda d: f"sla.svd({wide_matrix(d)}, compute_uv=False)",
)

EXCLUDED = {
    "lu polar funm sqrtm eigh_tridiagonal expm_frechet fiedler_companion leslie qr_multiply rsf2csf solve_sylvester": (
        "other algorithms than jax's, whose derivatives or digits differ; tests/scipy compares with SciPy"
    ),
    "minimize": "other searches; compared by tests/scipy",
}
