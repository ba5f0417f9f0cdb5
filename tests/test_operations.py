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
import math
import os
import pkgutil
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes  # noqa: F401  (makes np.dtype("bfloat16") known)
import numpy as np
import pytest

import didax as dx
import tests.operations
from didax import tree
from didax.core.jaxpr import Jaxpr, nested_jaxprs
from didax.core.primitive import Primitive
from didax.runtime.array import as_concrete
from tests.checks import (
    RTOL,
    Trial,
    assert_close,
    check_grads,
    check_vjp,
    ci_unless,
    finite_scale,
    in_sample,
    inexact_leaves,
    is_inexact,
    wide,
)
from tests.operations.row import Operation
from tests.quickly import AS_USERS, XLA_FLAGS

WIDE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
IS_QUICK = os.environ["XLA_FLAGS"] == XLA_FLAGS  # otherwise all programs here are compiled as users' are
# relative error allowed in a derivative computed in a narrow dtype
DERIVATIVE_RTOL = {"float32": 1e-3, "complex64": 1e-3, "float16": 3e-2, "bfloat16": 0.2}


def families() -> Iterator[tuple[str, list[Operation]]]:
    for module in pkgutil.iter_modules(tests.operations.__path__):
        rows = getattr(importlib.import_module(f"tests.operations.{module.name}"), "ROWS", None)
        if rows is not None:
            yield module.name, rows


def name_of(row: Operation) -> str:
    return row.name


ROWS = [(family, row) for family, rows in families() for row in rows]
NAMES = {f"{family}-{row.name}-{dtype}": (row, dtype) for family, row in ROWS for dtype in row.dtypes}


def marks_of(name: str, row: Operation, dtype: str) -> list[Any]:
    """`make test` tries each row at its first dtype, but for those of `integrals`, whose values and derivatives
    tests/scipy/test_more_special.py compares, too.

    `make test-ci` tries these rows, and a sample of the other dtypes: one in three of another kind, which may take
    another way through the library, and one in sixteen that differ in width or in the sign of integers.
    """
    before = row.dtypes[: row.dtypes.index(dtype)]
    if not before:
        return ci_unless(not name.startswith("integrals-"))
    is_new = kind(dtype) not in map(kind, before)
    return [pytest.mark.ci if in_sample(name, 3 if is_new else 16) else pytest.mark.slow]


def kind(dtype: str) -> str:
    """One letter for floats, complex numbers, integers, bools."""
    return np.dtype(dtype).kind.replace("u", "i").replace("V", "f")  # NumPy does not know bfloat16


CASES = [
    pytest.param(row, dtype, id=name, marks=marks_of(name, row, dtype))
    for name, (row, dtype) in NAMES.items()
]


@contextlib.contextmanager
def mode_for(dtype: str) -> Iterator[None]:
    """64-bit dtypes are tried with 64-bit defaults, the others without, in Didax and in the oracle."""
    import jax

    x64 = dtype.endswith(("64", "128")) and dtype != "complex64"
    with dx.enable_x64(x64), jax.enable_x64(x64), np.errstate(all="ignore"):
        yield


class Case(Trial):
    """A row at a dtype, with two draws of arguments."""

    def __init__(self, row: Operation, dtype: str):
        self.row = row
        self.dtype = np.dtype(dtype)
        rng = np.random.default_rng(zlib.crc32(f"{row.name}-{dtype}".encode()))
        args = arrays(row.args(rng, self.dtype))
        more = arrays(row.args(rng, self.dtype))
        rtol = row.rtol.get(dtype, RTOL.get(dtype))
        argnums = [
            i
            for i, x in enumerate(args)
            if row.differentiable
            and any(map(is_inexact, tree.leaves(x)))
            and (row.argnums is None or i in row.argnums)
        ]
        how: dict[str, Any] = {"batchable": row.batchable, "signed_zeros": row.signed_zeros}
        super().__init__(row.fun, args, more, argnums=argnums, rtol=rtol, rng=rng, **how)


def arrays(args: Any) -> Any:
    return tree.map(as_concrete, args)


@pytest.mark.parametrize("row, dtype", CASES)
def test_operation(row: Operation, dtype: str) -> None:
    with mode_for(dtype):
        case = Case(row, dtype)
        corners = row.corners(case.dtype) if row.corners else []
        if row.is_costly:
            corners = [part for corner in corners for part in in_parts(corner, (2, *np.shape(case.args[0])))]
        corners = [arrays(corner) for corner in corners]
        # what a batch compiles to does not depend on the dtype more than what one element compiles to
        is_first = dtype == row.dtypes[0]
        spared = row.is_costly and IS_QUICK
        eager = case.check_compiled(
            [] if spared else corners, has_text=row.has_text, batched=is_first and not spared
        )
        if spared:
            eager["corners"] = [row.fun(*corner) for corner in corners]
        check_values(case, eager, corners)
        case.check_batches(eager)
        if is_first or not IS_QUICK:
            case.check_empty_batches()
        if case.argnums:
            check_derivatives(case, eager, dtype)


@pytest.mark.ci
@pytest.mark.skipif(not IS_QUICK, reason="this process has XLA's own settings already")
@pytest.mark.parametrize(
    "row", [row for _, row in ROWS if not row.is_costly and in_sample(row.name, 8)], ids=name_of
)
def test_operation_with_the_settings_of_users(row: Operation) -> None:
    """Values of one row in eight: XLA's own settings take ten times as long, and the faults that they find are XLA's
    rather than the library's.
    """
    with mode_for(row.dtypes[0]):
        case = Case(row, row.dtypes[0])
        corners = [arrays(corner) for corner in (row.corners(case.dtype) if row.corners else [])]
        eager = case.values(case.args, corners)
        case.check_values_compiled(eager, corners, has_text=False, options=AS_USERS)


def in_parts(corner: tuple[Any, ...], shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Corners of one axis in arrays of that shape, which a batch has and finds compiled; the last repeats some."""
    count, size = len(corner[0]), math.prod(shape)
    places = np.resize(np.arange(count), (-(-count // size), *shape))
    return [tuple(x[part] for x in corner) for part in places]


def check_values(case: Case, eager: dict[str, Any], corners: list[Any]) -> None:
    for args, value in zip([case.args, *corners], [eager["value"], *eager["corners"]], strict=True):
        given = tree.map(np.asarray, args)
        signed = case.signed_zeros and case.row.signed_reference
        wanted = case.row.reference(*given)
        assert_close(value, wanted, case.rtol, what=f"value at {given}", signed_zeros=signed)


def check_derivatives(case: Case, eager: dict[str, Any], dtype: str) -> None:
    xs = case.chosen(case.args)
    wide_dtype = WIDE.get(dtype)
    if wide_dtype is None or wide_dtype not in case.row.dtypes:
        check_grads(case.at(case.args), xs, order=order_of(case.row), rng=case.rng)
        return
    check_vjp(case.at(case.args), xs, case.rng)
    rtol = max(DERIVATIVE_RTOL[dtype], 10 * (case.rtol or 0))
    checked = dtype == case.row.dtypes[0]  # the row may not be tried at the wide dtype
    for y_dot, want in zip(eager["jvp"], wide_jvp(case, wide_dtype, checked), strict=True):
        np.testing.assert_allclose(
            wide(y_dot), wide(want), rtol=rtol, atol=rtol * finite_scale(want), err_msg="jvp"
        )


def order_of(row: Operation) -> int:
    """The second order takes three times as long as the first: here it is left to the test below."""
    return 2 if row.second_order and not IS_QUICK else 1


OF_SECOND_ORDER = [
    row for _, row in ROWS if row.differentiable and row.second_order and in_sample(row.name, 3)
]


@pytest.mark.ci
@pytest.mark.skipif(not IS_QUICK, reason="the second order of all rows is tried above")
@pytest.mark.parametrize("row", OF_SECOND_ORDER, ids=name_of)
def test_second_order(row: Operation) -> None:
    """One row in three, at a wide dtype: the second order finds little more where rules are made of operations."""
    wide_dtype = WIDE.get(row.dtypes[0])
    dtype = wide_dtype if wide_dtype in row.dtypes else row.dtypes[0]
    with mode_for(dtype):
        case = Case(row, dtype)
        if case.argnums:
            check_grads(case.at(case.args), case.chosen(case.args), rng=case.rng)


def wide_jvp(case: Case, dtype: str, checked: bool) -> list[Any]:
    """The jvp at the same point in a wider dtype, in which it is checked against finite differences, here or there."""
    with mode_for(dtype):
        args = tree.map(lambda x: as_concrete(wide(x).astype(dtype)) if is_inexact(x) else x, case.args)
        x_dots = tree.map(lambda t: wide(t).astype(dtype) if is_inexact(t) else t, case.x_dots)
        f, xs = case.at(args), case.chosen(args)
        if checked:
            check_grads(f, xs, order=order_of(case.row), rng=case.rng)
        return inexact_leaves(dx.jvp(f, xs, x_dots)[1])


# --- Coverage -----------------------------------------------------------------------------------------------


def primitives_in(jaxpr: Jaxpr) -> Iterator[Primitive]:
    for eqn in jaxpr.eqns:
        yield eqn.primitive
        for value in eqn.params.values():
            for inner in nested_jaxprs(value):
                yield from primitives_in(inner)


# The first three call what is outside of the library, in files that their tests make: test_export.py, test_ffi.py,
# experimental/test_serialize_executable.py. The
# others are of symbolic shapes and of types that tell shardings: test_symbolic_shapes.py, devices/test_explicit.py; and
# a call that programs do not hold: api/test_buckets.py. One returns nothing, and one other numbers each time.
# Derivatives of zeta by its exponent, and second derivatives by parameters, are tried where rows of the functions
# themselves are differentiated twice, those of shares of beta in scipy/test_special.py, and those of samples in
# random/test_distributions.py. What holds float32 numbers alone is tried with derivatives in scipy/test_stats.py and
# scipy/test_more_special.py.
WITHOUT_A_ROW = {
    *("zeta_grad_s", "zeta_grad_ss", "igamma_grad_aa"),
    *[f"{name}_grad_{by}" for name in ("betainc", "log_betainc", "log_betaincc") for by in "ab"],
    *[f"hyp1f1_grad_{by}" for by in ("aa", "ab", "bb")],
    *[f"hyp2f1_grad_{by}" for by in ("aa", "ab", "ac", "bb", "bc", "cc")],
    *[f"truncated_normal_{name}" for name in ("density", "log_density", "log_share")],
    *("bessel_j", "log_t_density", "log_t_density_by_freedom"),
    "exported_call",
    "loaded_call",
    "ffi_call",
    "dimension_value",
    "loosen",
    "bucketed",
    "dce_sink",
    "rng_uniform",
}


def test_every_primitive_is_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound while a row is staged, or in its jaxpr; what earlier tests staged is forgotten, so that it is bound."""
    dx.clear_caches()
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
    assert not sorted({p.name for p in ours - found} - WITHOUT_A_ROW), (
        "primitives that no row of tests/operations/ tries"
    )


def test_row_names_are_unique() -> None:
    names = [f"{family}-{row.name}" for family, row in ROWS]
    assert sorted(names) == sorted(set(names))
