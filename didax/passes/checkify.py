"""Checks of values: writing them into programs, and turning them into data.

    add_checks(jaxpr, kinds)      each operation with a check of what it needs (an index in range) or makes (no NaN)
    checkify_jaxpr(jaxpr, kinds)  inputs -> outputs, whether a check failed, which one first, the values it shows

A check is an equation with an effect and no result; unless something turns it into data it raises when it fails. A
primitive's `conditions` rule says what an operation needs of its operands' values. The `checkify` rule of a primitive
that holds jaxprs says how a failure leaves a branch or a loop: it binds the transformed jaxprs and hands on a `Report`.
One of four files on checks, the one with the passes. Read next: `primitives/check.py` (the primitive),
`didax/debug/_check.py` and `didax/checkify.py` (what users call).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import Effect
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.primitive import Primitive, require
from didax.core.rule_types import as_list, check_kind, check_parts
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import interpret, rewritten, trace_closed

CHECK = Effect("check")
Kinds = frozenset[str]  # of "check" (those the user wrote), "index", "nan", "division"


class Condition(NamedTuple):
    """What must hold at every element; `values` (of the same shape) at the first failing one fill the message."""

    kind: str
    holds: Any
    message: str
    values: dict[str, Any]


class Site(NamedTuple):
    """A check in a program: its kind, message, the names and types of the values it shows, and the user's line."""

    kind: str
    message: str
    names: tuple[str, ...]
    avals: tuple[ShapedArray, ...]
    line: str


class Report(NamedTuple):
    """What became of the checks of a program: did one fail, which was the first, and what each of them shows."""

    failed: Any
    first: Any  # its number among the sites, where one failed
    values: tuple[Any, ...]  # of all sites, one after the other
    sites: tuple[Site, ...]

    def arrays(self) -> list[Any]:
        """All that is data."""
        return [self.failed, self.first, *self.values]

    def then(self, later: Report) -> Report:
        """The report on a program followed by another."""
        shifted = array_ops.add(later.first, np.int32(len(self.sites)))
        return Report(
            array_ops.select(self.failed, self.failed, later.failed),
            array_ops.select(self.failed, self.first, shifted),
            self.values + later.values,
            self.sites + later.sites,
        )

    def unless_failed(self, again: Report) -> Report:
        """The report on a program that runs again: what failed first stays."""
        chosen = [
            array_ops.select(self.failed, x, y) for x, y in zip(self.arrays(), again.arrays(), strict=True)
        ]
        return report_of(chosen, self.sites)


def report_of(arrays: Sequence[Any], sites: tuple[Site, ...]) -> Report:
    """The report made of its arrays."""
    failed, first, *values = arrays
    return Report(failed, first, tuple(values), sites)


def nothing_failed(sites: tuple[Site, ...]) -> Report:
    """The report on a program with these checks that has not run."""
    values = tuple(array_ops.zeros(aval) for site in sites for aval in site.avals)
    return Report(np.bool_(False), np.int32(0), values, sites)


class Checkified(NamedTuple):
    """A jaxpr whose last outputs are the arrays of a report on these checks; without checks it has no such outputs."""

    jaxpr: Jaxpr
    sites: tuple[Site, ...]

    def split(self, outs: Sequence[Any]) -> tuple[list[Any], Report | None]:
        """The program's own results, and the report."""
        if not self.sites:
            return list(outs), None
        count = 2 + sum(len(site.avals) for site in self.sites)
        return list(outs[:-count]), report_of(outs[-count:], self.sites)


@cached_on_jaxpr
def checkify_jaxpr(jaxpr: Jaxpr, kinds: Kinds) -> Checkified:
    """The jaxpr with failures of these kinds of checks as data; all other checks are left out."""
    sites: list[Site] = []

    def run(*args: Any) -> list[Any]:
        outs, report = _run(jaxpr, kinds, args)
        if report is None:
            return outs
        sites.extend(report.sites)
        return [*outs, *report.arrays()]

    new = trace_closed(run, jaxpr.in_avals, what="checkify", name=jaxpr.name)
    return Checkified(new, tuple(sites))


def _run(jaxpr: Jaxpr, kinds: Kinds, args: Sequence[Any]) -> tuple[list[Any], Report | None]:
    report: Report | None = None

    def apply(eqn: Eqn, inputs: list[Any]) -> list[Any]:
        nonlocal report
        if CHECK not in eqn.effects:
            return as_list(eqn.primitive, eqn.primitive.bind(*inputs, **eqn.params))
        pair = require(eqn.primitive, "checkify")(kinds, *inputs, **eqn.params)
        check_parts(eqn.primitive, "checkify", pair, "results", "a Report or None")
        out, found = pair
        report = found if report is None else report if found is None else report.then(found)
        return as_list(eqn.primitive, out)

    return interpret(jaxpr, args, apply), report


# --- Writing checks into programs -------------------------------------------------------------------------


@cached_on_jaxpr
def add_checks(jaxpr: Jaxpr, kinds: Kinds, for_report: bool = False) -> Jaxpr:
    """The jaxpr with a check at every operation, here and in the jaxprs inside; same inputs, same outputs.

    With `for_report` it leaves alone jaxprs inside of primitives that cannot report failures as data.
    """

    def apply(eqn: Eqn, inputs: list[Any]) -> list[Any]:
        params = eqn.params
        if not for_report or eqn.primitive.checkify is not None:
            params = eqn.map_jaxprs(lambda held: add_checks(held, kinds, for_report)).params
        check_operands(eqn.primitive, inputs, params, kinds)
        outs = as_list(eqn.primitive, eqn.primitive.bind(*inputs, **params))
        if "nan" in kinds and not eqn.primitive.moves_elements and params == eqn.params:
            _check_results(eqn, outs)
        return outs

    return rewritten(jaxpr, apply, what="checkify")


def check_operands(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], kinds: Kinds) -> None:
    """Check what an application needs of its operands' values, as far as it is of these kinds."""
    if primitive.conditions is not None and not kinds.isdisjoint(("index", "division")):
        for condition in primitive.conditions(*args, **params):
            if check_kind(primitive, "conditions", condition, Condition, "Conditions").kind in kinds:
                array_ops.check(condition)


def _check_results(eqn: Eqn, outs: Sequence[Any]) -> None:
    for out in outs:
        if dtypes.is_inexact(aval_of(out).dtype):
            array_ops.check(
                Condition(
                    "nan", array_ops.no_nan(out), f"nan generated by primitive: {eqn.primitive.name}.", {}
                )
            )
