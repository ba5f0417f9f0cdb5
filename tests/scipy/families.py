"""`check_family`: the functions of a module at a table of arguments, against SciPy (values) and jax (types).

    check_family(linalg, scipy.linalg, jax.scipy.linalg, {"toeplitz": [(V,), (V, W)], "hilbert": [(4,)]})

Each case is evaluated eagerly and compared; then one compiled program computes all cases and gives the same. Arrays
among the arguments are traced, everything else is static.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import didax as dx
import didax.numpy as dnp
from tests.checks import check_grads

RTOL = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-10, "complex128": 1e-10}
Table = dict[str, list[tuple[Any, ...]]]


class With(NamedTuple):
    """Keyword arguments, as the last entry of a tuple of arguments."""

    options: dict[str, Any]


def split(args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args and isinstance(args[-1], With):
        return tuple(args[:-1]), args[-1].options
    return tuple(args), {}


def on_arrays(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """The function of only those arguments that are arrays (or tuples of arrays), and these arguments."""
    positional, options = split(args)

    def is_traced(x: Any) -> bool:
        return isinstance(x, np.ndarray | np.generic)

    def call(*arrays: Any) -> Any:
        rest = iter(arrays)
        return function(*[next(rest) if is_traced(x) else x for x in positional], **options)

    return call, [x for x in positional if is_traced(x)]


def check_family(
    ours: Any,
    reference: Any,
    oracle: Any,
    table: Table,
    *,
    rtol: dict[str, float] = RTOL,
    atol: float | None = None,
    jit: bool = True,
    weak: bool = True,
) -> None:
    """All cases of a table; `reference` or `oracle` may be None."""
    calls, arrays, eager = [], [], []
    for name, cases in table.items():
        for args in cases:
            call, traced = on_arrays(getattr(ours, name), args)
            found = call(*traced)
            what = f"{name}{tuple(np.shape(x) if isinstance(x, np.ndarray) else x for x in args)!r:.150}"
            if reference is not None:
                positional, options = split(args)
                with np.errstate(all="ignore"):
                    assert_near(found, getattr(reference, name)(*positional, **options), what, rtol, atol)
            if oracle is not None:
                assert_types(found, jax.eval_shape(*flat_call(getattr(oracle, name), args)), what, weak)
            calls.append(call)
            arrays.append(traced)
            eager.append((what, found))
    if not jit:
        return
    for (what, found), compiled in zip(
        eager, dx.jit(lambda xs: [f(*x) for f, x in zip(calls, xs, strict=True)])(arrays), strict=True
    ):
        assert_near(compiled, dx.tree.map(np.asarray, found), f"jit of {what}", rtol, atol)
        assert_types(compiled, found, f"jit of {what}", weak=True)


def flat_call(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, ...]:
    call, traced = on_arrays(function, args)
    return call, *traced


def assert_near(found: Any, wanted: Any, what: str, rtol: dict[str, float], atol: float | None) -> None:
    ours, theirs = dx.tree.leaves(found), [x for x in jax.tree.leaves(wanted)]
    assert len(ours) == len(theirs), what
    for x, y in zip(ours, theirs, strict=True):
        x, y = np.asarray(dnp.asarray(x)), np.asarray(y)
        assert x.shape == y.shape, (what, x.shape, y.shape)
        if y.dtype == object or x.dtype.kind not in "fcV":
            np.testing.assert_array_equal(x, y, what)
            continue
        tolerance = rtol[x.dtype.name]
        if x.dtype == np.dtype("V2"):
            x = x.astype(np.float32)
        scale = float(np.max(np.abs(y), where=np.isfinite(y), initial=0)) if y.size else 0.0
        np.testing.assert_allclose(
            x, y, rtol=tolerance, atol=tolerance * scale * 0.1 if atol is None else atol, err_msg=what
        )


def assert_types(found: Any, wanted: Any, what: str, weak: bool) -> None:
    for x, y in zip(dx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        if not isinstance(x, dx.Array):
            continue
        assert (x.shape, x.dtype) == (y.shape, y.dtype), (what, x.aval, y)
        if weak:
            assert x.weak_type == y.weak_type, f"{what}: weak_type {x.weak_type}"


def check_derivatives(
    cases: dict[str, tuple[Any, ...]], order: int = 2, tolerance: float | None = None
) -> None:
    """Derivatives of functions at float64 arguments, to second order, against finite differences."""
    with dx.enable_x64(True):
        for name, (function, *args) in cases.items():
            try:
                check_grads(function, args, order)
            except AssertionError as error:
                raise AssertionError(name) from error


def check_batches(cases: dict[str, tuple[Any, ...]]) -> None:
    """`vmap` over the leading axis of all arguments gives what a loop gives; one compiled program for all."""

    def all_batched(arguments: Any) -> Any:
        return [dx.vmap(f)(*args) for (f, *_), args in zip(cases.values(), arguments, strict=True)]

    arguments = [args for _, *args in cases.values()]
    for (name, (f, *args)), batched in zip(cases.items(), dx.jit(all_batched)(arguments), strict=True):
        one = [dx.tree.leaves(f(*[x[i] for x in args])) for i in range(len(args[0]))]
        for x, ys in zip(dx.tree.leaves(batched), zip(*one, strict=True), strict=True):
            wanted = np.stack([np.asarray(y) for y in ys])
            assert_near(x, wanted, f"vmap of {name}", RTOL, 1e-5 if x.dtype.itemsize < 16 else None)
