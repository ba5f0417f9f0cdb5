"""Checks that hold for every function: `check_grads` and its parts, and comparison with tolerances.

    check_grads(f, args)    jvp against finite differences, vjp against jvp, then the same of the derivatives

Finite differences are central, of fourth order, with a step suited to the coarsest dtype on the way. The vjp
is compared with the jvp by one number, Re <y_bar, df x_dot> = Re <df^T y_bar, x_dot>, for random x_dot and
y_bar (the pairing does not conjugate). Arguments and results are pytrees; integer leaves are held fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import settings

import didax as dx
from didax import tree
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import num_consts, parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text

F = Callable[..., Any]
NARROW = (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16))
# relative tolerance for values that two correct programs may round differently
RTOL = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}


def examples(fraction: float) -> settings:
    """That part of the examples that the profile of Hypothesis asks for, which is 50 in `make test`."""
    return settings(max_examples=max(1, round(settings.default.max_examples * fraction)))


def numpy_of(x: Any) -> np.ndarray:
    """Contents as a NumPy array (typed keys as their data)."""
    return np.asarray(x)


def dtype_of(x: Any) -> np.dtype:
    return x.dtype if hasattr(x, "dtype") else dx.eval_shape(lambda y: y, x).dtype


def is_inexact(x: Any) -> bool:
    dtype = dtype_of(x)
    return dtype.kind in "fc" or dtype in NARROW


def wide(x: Any) -> np.ndarray:
    """In float64 or complex128, where sums and differences of narrow values are exact enough."""
    x = numpy_of(x)
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if is_inexact(x) else x


def assert_close(
    found: Any, wanted: Any, rtol: float | None = None, atol: float | None = None, what: str = ""
) -> None:
    """Equal structure, shapes and dtypes, and values within the tolerance of the dtype (0 for integers)."""
    found_leaves, wanted_leaves = tree.leaves(found), tree.leaves(wanted)
    assert len(found_leaves) == len(wanted_leaves), f"{what}: {found} has other leaves than {wanted}"
    for i, (a, b) in enumerate(zip(found_leaves, wanted_leaves, strict=True)):
        assert_close_arrays(a, b, rtol, atol, f"{what}, leaf {i}")


def assert_close_arrays(a: Any, b: Any, rtol: float | None, atol: float | None, what: str) -> None:
    a, b = numpy_of(a), numpy_of(b)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, expected {b.dtype}"
    if not is_inexact(a):
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    tolerance = RTOL[a.dtype.name] if rtol is None else rtol
    # the error of a sum scales with its largest term, which we do not see: allow it relative to the array
    floor = tolerance * finite_scale(b) if atol is None else atol
    np.testing.assert_allclose(wide(a), wide(b), rtol=tolerance, atol=floor, err_msg=what)


def finite_scale(x: Any) -> float:
    """The largest finite magnitude in an array, at most 1 where nothing is larger."""
    magnitudes = np.abs(wide(x))
    magnitudes = magnitudes[np.isfinite(magnitudes)]
    return max(float(magnitudes.max(initial=0.0)), 1e-30)


# --- Tangents -----------------------------------------------------------------------------------------------


def random_like(rng: np.random.Generator, x: Any) -> Any:
    """A random tangent or cotangent for each leaf: float0 for integers."""

    def leaf(y: Any) -> Any:
        dtype, shape = dtype_of(y), np.shape(y)
        if not is_inexact(y):
            return np.zeros(shape, dx.float0)
        numbers = rng.normal(size=shape)
        if dtype.kind == "c":
            numbers = numbers + 1j * rng.normal(size=shape)
        return dx.numpy.asarray(np.asarray(numbers).astype(dtype), dtype=dtype)

    return tree.map(leaf, x)


def pairing(a: Any, b: Any) -> float:
    """Re of the sum of products, over all leaves."""
    total = 0.0
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        if numpy_of(x).dtype != dx.float0:
            total += float(np.real(np.sum(wide(x) * wide(y))))
    return total


def coarsest_eps(*trees: Any) -> float:
    """Relative precision of the coarsest inexact dtype among the leaves."""
    dtypes = [dtype_of(x) for x in tree.leaves(trees) if is_inexact(x)]
    return max([float(ml_dtypes.finfo(d).eps) for d in dtypes], default=np.finfo(float).eps)


def numerical_jvp(
    f: F, primals: Sequence[Any], tangents: Sequence[Any], eps: float | None = None
) -> tuple[Any, float]:
    """Difference quotient of `f` along the tangents, in wide dtypes, and its expected relative error.

    Four points cancel the truncation error up to fourth order, so that a pole nearby does not matter.
    """
    eps = coarsest_eps(primals, f(*primals)) if eps is None else eps
    step = eps ** (1 / 3)

    def at(steps: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            if numpy_of(t).dtype == dx.float0:
                return x
            return (wide(x) + steps * step * wide(t)).astype(dtype_of(x))

        return f(*tree.map(move, tuple(primals), tuple(tangents)))

    def quotient(a: Any, b: Any, c: Any, d: Any) -> np.ndarray:
        if not is_inexact(a):
            return np.zeros(np.shape(a))
        return (8 * (wide(b) - wide(c)) - (wide(a) - wide(d))) / (12 * step)

    return tree.map(quotient, at(+2), at(+1), at(-1), at(-2)), 20 * eps ** (2 / 3)


# --- Derivatives --------------------------------------------------------------------------------------------


def check_jvp(f: F, args: Sequence[Any], rng: np.random.Generator, eps: float | None = None) -> None:
    """The jvp agrees with finite differences, and its primal result with `f`."""
    args = tuple(args)
    tangents = random_like(rng, args)
    out, out_dot = dx.jvp(f, args, tangents)
    assert_close(out, f(*args), what="primal result of jvp")
    numerical, error = numerical_jvp(f, args, tangents, eps)
    for i, (y, y_dot, want) in enumerate(
        zip(tree.leaves(out), tree.leaves(out_dot), tree.leaves(numerical), strict=True)
    ):
        if not is_inexact(y):
            assert numpy_of(y_dot).dtype == dx.float0, f"jvp, leaf {i}: tangent of an integer is not float0"
            continue
        assert numpy_of(y_dot).dtype == dtype_of(y), f"jvp, leaf {i}: dtype of the tangent"
        atol = error * max(finite_scale(want), finite_scale(y), 1e-3)
        np.testing.assert_allclose(wide(y_dot), want, rtol=error, atol=atol, err_msg=f"jvp, leaf {i}")


def check_vjp(f: F, args: Sequence[Any], rng: np.random.Generator) -> None:
    """The vjp is the transpose of the jvp, and cotangents have the arguments' types."""
    args = tuple(args)
    out, f_vjp = dx.vjp(f, *args)
    x_dots, y_bars = random_like(rng, args), random_like(rng, out)
    _, y_dots = dx.jvp(f, args, x_dots)
    x_bars = f_vjp(y_bars)
    for x, x_bar in zip(tree.leaves(args), tree.leaves(x_bars), strict=True):
        wanted = dtype_of(x) if is_inexact(x) else dx.float0
        assert numpy_of(x_bar).dtype == wanted, (
            f"cotangent of dtype {numpy_of(x_bar).dtype} for {dtype_of(x)}"
        )
        assert np.shape(x_bar) == np.shape(x), f"cotangent of shape {np.shape(x_bar)} for {np.shape(x)}"
    forward, backward = pairing(y_bars, y_dots), pairing(x_bars, x_dots)
    scale = sum(
        float(np.sum(np.abs(wide(a) * wide(b))))
        for a, b in zip(tree.leaves(x_bars), tree.leaves(x_dots), strict=True)
        if numpy_of(a).dtype != dx.float0
    )
    tolerance = 100 * coarsest_eps(args, out) * max(scale, abs(forward), 1e-3)
    assert abs(forward - backward) <= tolerance, f"<y_bar, jvp> = {forward}, <vjp, x_dot> = {backward}"


def check_linearize(f: F, args: Sequence[Any], rng: np.random.Generator) -> None:
    """linearize computes what jvp computes."""
    args = tuple(args)
    tangents = random_like(rng, args)
    out, out_dot = dx.jvp(f, args, tangents)
    y, f_lin = dx.linearize(f, *args)
    rtol = 50 * coarsest_eps(args, out)
    assert_close(y, out, what="primal result of linearize")
    assert_close(f_lin(*tangents), out_dot, rtol=rtol, what="linearize")


def check_grads(
    f: F,
    args: Sequence[Any],
    order: int = 2,
    rng: np.random.Generator | None = None,
    eps: float | None = None,
) -> None:
    """jvp, vjp and linearize of `f` at `args`, and, up to `order`, of its derivatives in both modes."""
    rng = rng or np.random.default_rng(0)
    check_jvp(f, args, rng, eps)
    check_vjp(f, args, rng)
    check_linearize(f, args, rng)
    if order > 1:
        x_dots, y_bars = random_like(rng, tuple(args)), random_like(rng, f(*args))
        # tangents and cotangents are fixed: the derivative in them is the linear map itself, checked above
        check_grads(lambda *xs: _inexact(dx.jvp(f, xs, x_dots)[1]), args, order - 1, rng, eps)
        check_grads(lambda *xs: _inexact(dx.vjp(f, *xs)[1](y_bars)), args, order - 1, rng, eps)


def _inexact(tangents: Any) -> list[Any]:
    """Leaves that are not float0."""
    return [t for t in tree.leaves(tangents) if getattr(t, "dtype", None) != dx.float0]


def assert_round_trips(jaxpr: Any) -> None:
    """text -> jaxpr -> text is the identity, and the jaxpr read back is as legal as the one written."""
    text = str(jaxpr)
    parsed = parse_jaxpr(text)
    assert jaxpr_text(parsed, num_consts(text)) == text
    check_jaxpr(parsed)
