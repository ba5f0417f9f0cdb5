"""`generate(seed)`: the program of a seed. The same seed gives the same program, as long as jax accepts the same."""

from __future__ import annotations

from typing import Any

import numpy as onp

from tests.fuzz import table_control, table_lax, table_numpy, table_scipy
from tests.fuzz.libraries import jax_, kind_of
from tests.fuzz.program import Program, Type
from tests.fuzz.scope import Refused, Scope, Variable
from tests.fuzz.table_numpy import Row

TABLE: dict[str, Row] = {**table_numpy.ROWS, **table_lax.ROWS, **table_scipy.ROWS, **table_control.ROWS}
NAMES = sorted(TABLE)
# Rows that are drawn more often than any other
FREQUENT = ["indexing", "update", "operator", "method", *table_control.ROWS]
# Transformations with their weights: of any program, of programs with inexact inputs, and of those whose first inexact
# input is real and has at most `SMALL` elements
ALWAYS = {"jit": 3, "vmap": 4, "checkpoint": 1, "scanned": 1, "branched": 1}
OF_NUMBERS = {"grad": 3, "jvp": 2, "vjp": 2, "linearize": 2, "transpose": 1, "value_and_grad": 1}
OF_SMALL_ONES = {"hessian": 1, "jacfwd": 1, "jacrev": 1}
SMALL = 6


def generate(seed: int) -> Program:
    rng = onp.random.default_rng(seed)
    x64 = bool(rng.random() < 0.4) or jax_.has_x64()
    with jax_.options(x64):
        scope = Scope(rng, x64, step)
        for _ in range(min(5 + int(rng.geometric(0.15)) - 1, 25)):
            step(scope)
        stack = draw_stack(scope)
    return Program(
        x64=x64,
        inputs={str(name): value for name, value in scope.inputs.items()},
        statements=tuple(scope.statements),
        results=results(scope, bool(stack)),
        stack=stack,
        types={str(name): type_ for name, type_ in scope.types.items()},
        refused=tuple(scope.refused),
    )


def step(scope: Scope) -> None:
    """Add a statement (and those that make its operands)."""
    for _ in range(8):
        name = scope.choose(FREQUENT if scope.chance(0.15) else NAMES)
        if scope.depth >= 2 and name in table_control.ROWS:
            continue
        if try_row(scope, name):
            return


def try_row(scope: Scope, name: str) -> bool:
    """Add the statement that a row of the table draws; False if it cannot be made."""
    scope.first, scope.blocks = Variable("", Type((), "float32")), []
    try:
        scope.emit(TABLE[name](scope))
    except (Refused, ValueError, IndexError):  # NumPy's draws from empty ranges raise the latter two
        return False
    return True


def results(scope: Scope, is_transformed: bool) -> tuple[str, ...]:
    """All variables that statements made; of a program that is transformed, those that no statement reads."""
    made = [str(v) for v in scope.own if v.kind != "k" and v not in scope.inputs]
    if not is_transformed:
        return tuple(made)
    read = {name for statement in scope.statements for name in statement.used()}
    return tuple([v for v in made if v not in read][-6:])


def draw_stack(scope: Scope) -> tuple[tuple[str, dict[str, Any]], ...]:
    inexact = [v for v in scope.inputs if kind_of(scope.types[v].dtype) in "fc"]
    weights = dict(ALWAYS)
    if inexact:
        weights |= OF_NUMBERS
        first = scope.types[inexact[0]]
        if kind_of(first.dtype) == "f" and onp.prod(first.shape) <= SMALL:
            weights |= OF_SMALL_ONES
    if not scope.inputs:
        weights = {"jit": 3, "checkpoint": 1}
    depth = int(scope.rng.choice([0, 1, 2, 3, 4], p=[0.3, 0.3, 0.2, 0.12, 0.08]))
    names = [scope.weighted(weights) for _ in range(depth)]
    return tuple((name, vmap_parameters(scope) if name == "vmap" else {}) for name in names)


def vmap_parameters(scope: Scope) -> dict[str, Any]:
    """Axes of the inputs, not all of them None."""
    ranks = [len(scope.types[v].shape) for v in scope.inputs]
    axes = [None if scope.chance(0.3) else scope.integer(-r - 1, r) for r in ranks]
    if all(axis is None for axis in axes):
        axes[0] = 0
    return {"in_axes": tuple(axes), "out_axes": scope.choose([0, 0, -1]), "size": scope.choose([1, 2, 2, 3])}
