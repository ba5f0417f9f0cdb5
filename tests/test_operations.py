"""Every operation x dtype: value, compiled = eager, vmap = loop, derivatives; rows are in tests/operations/.

For each row one function computes all that is checked: the value, its batches, its derivatives. It runs
eagerly, and staged and compiled as one program; both must agree, and the eager results must be right:
against the reference, a loop, finite differences. Derivatives in narrow dtypes are compared with those in
wide ones.
`pytest tests/test_operations.py -k FAMILY` runs one family; ids read family-name-dtype.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (makes np.dtype("bfloat16") known)
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
import tests.operations
from didax import tree
from didax.core.jaxpr import Jaxpr, nested_jaxprs
from didax.core.primitive import Primitive
from didax.runtime.array import ConcreteArray, as_concrete
from didax.xla.compile import compile_text
from didax.xla.lowering import lower_module
from tests.checks import (
    RTOL,
    assert_close,
    assert_round_trips,
    check_grads,
    check_vjp,
    finite_scale,
    is_inexact,
    random_like,
    wide,
)
from tests.operations.row import Operation
from tests.quickly import AS_USERS

WIDE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
# relative error allowed in a derivative computed in a narrow dtype
DERIVATIVE_RTOL = {"float32": 1e-3, "complex64": 1e-3, "float16": 3e-2, "bfloat16": 0.2}


def families() -> Iterator[tuple[str, list[Operation]]]:
    for module in pkgutil.iter_modules(tests.operations.__path__):
        rows = getattr(importlib.import_module(f"tests.operations.{module.name}"), "ROWS", None)
        if rows is not None:
            yield module.name, rows


ROWS = [(family, row) for family, rows in families() for row in rows]
CASES = [
    pytest.param(row, dtype, id=f"{family}-{row.name}-{dtype}")
    for family, row in ROWS
    for dtype in row.dtypes
]


@contextlib.contextmanager
def mode_for(dtype: str) -> Iterator[None]:
    """64-bit dtypes are tried with 64-bit defaults, the others without, in Didax and in the oracle."""
    import jax

    x64 = dtype.endswith(("64", "128")) and dtype != "complex64"
    with dx.enable_x64(x64), jax.enable_x64(x64), np.errstate(all="ignore"):
        yield


class Case:
    """A row at a dtype, with two draws of arguments."""

    def __init__(self, row: Operation, dtype: str):
        self.row = row
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(zlib.crc32(f"{row.name}-{dtype}".encode()))
        self.args = arrays(row.args(self.rng, self.dtype))
        self.more = arrays(row.args(self.rng, self.dtype))
        self.rtol = row.rtol.get(dtype, RTOL.get(dtype))
        self.argnums = [
            i
            for i, x in enumerate(self.args)
            if row.differentiable
            and any(map(is_inexact, tree.leaves(x)))
            and (row.argnums is None or i in row.argnums)
        ]
        if self.argnums:
            self.x_dots = random_like(self.rng, self.chosen(self.args))
            self.y_bars = random_like(self.rng, row.fun(*self.args))

    def chosen(self, args: Any) -> tuple[Any, ...]:
        """The arguments to differentiate."""
        return tuple(args[i] for i in self.argnums)

    def at(self, args: Any) -> Callable[..., Any]:
        """The operation as a function of the arguments to differentiate, the others as in `args`."""

        def of_chosen(*xs: Any) -> Any:
            values = dict(zip(self.argnums, xs, strict=True))
            return self.row.fun(*[values.get(i, x) for i, x in enumerate(args)])

        return of_chosen

    def batches(self) -> dict[str, tuple[tuple[int | None, ...], list[Any]]]:
        """in_axes to try, with arguments: all batched at axis 0, then each alone, at its last axis."""
        n = len(self.args)
        if not n or not self.row.batchable:
            return {}
        alone = [tuple(-1 if j == i else None for j in range(n)) for i in range(n)]
        return {f"vmap in_axes={axes}": (axes, self.stacked(axes)) for axes in [(0,) * n, *alone]}

    def stacked(self, axes: tuple[int | None, ...]) -> list[Any]:
        """Arguments with both draws along the axes that are batched."""
        return [
            x if axis is None else tree.map(lambda a, b, axis=axis: stack([a, b], axis), x, y)
            for x, y, axis in zip(self.args, self.more, axes, strict=True)
        ]

    def values(self, args: Any, corners: list[Any]) -> dict[str, Any]:
        fun = self.row.fun
        return {"value": fun(*args), "corners": [fun(*corner) for corner in corners]}

    def everything(self, args: Any, batches: dict[str, Any], corners: list[Any]) -> dict[str, Any]:
        """All that is compared between eager and compiled, with those batches that are given."""
        fun = self.row.fun
        results = self.values(args, corners)
        for name, (axes, _) in self.batches().items():
            if name in batches:
                results[name] = dx.vmap(fun, axes)(*batches[name])
        if self.argnums:
            of_chosen, xs = self.at(args), self.chosen(args)
            results["jvp"] = inexact(dx.jvp(of_chosen, xs, self.x_dots)[1])
            results["vjp"] = inexact(dx.vjp(of_chosen, *xs)[1](self.y_bars))
        return results


def stack(xs: Sequence[Any], axis: int) -> Any:
    stacked = np.stack([np.asarray(x) for x in xs], axis)
    return dnp.asarray(stacked, dtype=stacked.dtype)


def arrays(args: Any) -> Any:
    return tree.map(as_concrete, args)


def inexact(tangents: Any) -> list[Any]:
    """Leaves that are not float0, which no program can return."""
    return [t for t in tree.leaves(tangents) if t.dtype != dx.float0]


def compiled(fun: Any, args: Sequence[Any], has_text: bool, options: Any = None) -> Any:
    """Results of `fun` staged, checked, printed, parsed, and compiled as one program."""
    jaxpr, out = dx.make_jaxpr(fun, return_shape=True)(*args)
    if has_text:
        assert_round_trips(jaxpr)
    callbacks: list[Any] = []
    text = lower_module(jaxpr.jaxpr, callbacks=callbacks)
    executable = compile_text(text, jaxpr.out_avals, options=options, callbacks=callbacks)
    buffers = executable.run([as_concrete(x).device_buffer() for x in (*jaxpr.consts, *tree.leaves(args))])
    values = [ConcreteArray(aval, None, b) for aval, b in zip(jaxpr.out_avals, buffers, strict=True)]
    return tree.unflatten(tree.structure(out), values)


@pytest.mark.parametrize("row, dtype", CASES)
def test_operation(row: Operation, dtype: str) -> None:
    with mode_for(dtype):
        case = Case(row, dtype)
        corners = [arrays(corner) for corner in row.corners(case.dtype)] if row.corners else []
        batches = {name: stacked for name, (_, stacked) in case.batches().items()}
        eager = case.everything(case.args, batches, corners)
        # what a batch compiles to does not depend on the dtype more than what one element compiles to
        is_first = dtype == row.dtypes[0]
        found = compiled(case.everything, (case.args, batches if is_first else {}, corners), row.has_text)
        for key, value in found.items():
            assert_close(value, eager[key], case.rtol, what=f"compiled {key}")
        if is_first:
            for key, value in compiled(case.values, (case.args, corners), row.has_text, AS_USERS).items():
                assert_close(value, eager[key], case.rtol, what=f"{key}, compiled as users do")
        check_values(case, eager, corners)
        check_batches(case, eager)
        check_empty_batches(case)
        if case.argnums:
            check_derivatives(case, eager, dtype)


def check_values(case: Case, eager: dict[str, Any], corners: list[Any]) -> None:
    for args, value in zip([case.args, *corners], [eager["value"], *eager["corners"]], strict=True):
        given = tree.map(np.asarray, args)
        assert_close(value, case.row.reference(*given), case.rtol, what=f"value at {given}")


def check_batches(case: Case, eager: dict[str, Any]) -> None:
    for name, (axes, _) in case.batches().items():
        first = case.row.fun(*case.args)
        second = case.row.fun(
            *[x if a is None else y for x, y, a in zip(case.args, case.more, axes, strict=True)]
        )
        assert_close(
            eager[name], tree.map(lambda x, y: stack([x, y], 0), first, second), case.rtol, what=name
        )


def check_empty_batches(case: Case) -> None:
    """Over an axis of length 0: results and cotangents of the right types, with nothing in them."""
    outs = tree.leaves(dx.eval_shape(case.row.fun, *case.args))
    for axes, _ in case.batches().values():
        args = [x if a is None else empty_batch(x) for x, a in zip(case.args, axes, strict=True)]
        mapped = dx.vmap(case.row.fun, [None if a is None else 0 for a in axes])
        found = tree.leaves(mapped(*args))
        assert [(y.shape, y.dtype) for y in found] == [((0, *y.shape), y.dtype) for y in outs]
        if not case.argnums:
            continue
        values = dict(enumerate(args))

        def of_chosen(*xs: Any, mapped: Any = mapped, values: Any = values) -> Any:
            return mapped(*{**values, **dict(zip(case.argnums, xs, strict=True))}.values())

        check_vjp(of_chosen, case.chosen(args), case.rng)


def empty_batch(x: Any) -> Any:
    return tree.map(lambda leaf: dx.vmap(lambda _: leaf)(dnp.zeros(0)), x)


def check_derivatives(case: Case, eager: dict[str, Any], dtype: str) -> None:
    xs = case.chosen(case.args)
    wide_dtype = WIDE.get(dtype)
    if wide_dtype is None or wide_dtype not in case.row.dtypes:
        check_grads(case.at(case.args), xs, order=2 if case.row.second_order else 1, rng=case.rng)
        return
    check_vjp(case.at(case.args), xs, case.rng)
    rtol = max(DERIVATIVE_RTOL[dtype], 10 * (case.rtol or 0))
    for y_dot, want in zip(eager["jvp"], wide_jvp(case, wide_dtype), strict=True):
        np.testing.assert_allclose(
            wide(y_dot), wide(want), rtol=rtol, atol=rtol * finite_scale(want), err_msg="jvp"
        )


def wide_jvp(case: Case, dtype: str) -> list[Any]:
    """The jvp at the same point in a wider dtype, in which it is checked against finite differences."""
    with mode_for(dtype):
        args = tree.map(lambda x: as_concrete(wide(x).astype(dtype)) if is_inexact(x) else x, case.args)
        x_dots = tree.map(lambda t: wide(t).astype(dtype) if is_inexact(t) else t, case.x_dots)
        return inexact(dx.jvp(case.at(args), case.chosen(args), x_dots)[1])


# --- Coverage -----------------------------------------------------------------------------------------------


def primitives_in(jaxpr: Jaxpr) -> Iterator[Primitive]:
    for eqn in jaxpr.eqns:
        yield eqn.primitive
        for value in eqn.params.values():
            for inner in nested_jaxprs(value):
                yield from primitives_in(inner)


def test_every_primitive_is_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound while a row is staged, or in its jaxpr (inner functions may have been staged before)."""
    found: set[Primitive] = set()
    bind = Primitive.bind
    monkeypatch.setattr(
        Primitive, "bind", lambda self, *args, **params: found.add(self) or bind(self, *args, **params)
    )
    for _, row in ROWS:
        for dtype in {np.dtype(name).kind: name for name in reversed(row.dtypes)}.values():
            with mode_for(dtype):
                args = arrays(row.args(np.random.default_rng(0), np.dtype(dtype)))
                found.update(primitives_in(dx.make_jaxpr(row.fun)(*args).jaxpr))
    modules = [module for name, module in sys.modules.items() if name.startswith("didax.primitives")]
    ours = {p for module in modules for p in vars(module).values() if isinstance(p, Primitive)}
    assert not sorted(p.name for p in ours - found), "primitives that no row of tests/operations/ tries"


def test_row_names_are_unique() -> None:
    names = [f"{family}-{row.name}" for family, row in ROWS]
    assert sorted(names) == sorted(set(names))
