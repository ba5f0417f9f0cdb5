"""What the equations of a program cost: floating-point operations and bytes, and from these an estimate of time.

XLA's cost analysis counts the operations of each equation, lowered by itself; an equation that occurs again, on the
same types, is counted once. Those of integers and booleans do not count. Bytes are those that an equation reads and
writes, as if nothing were fused. An equation in a loop counts as often as it runs; where nobody knows how often, it
counts once. The estimate of a time is the larger of operations / rate of a product of matrices and bytes / rate of a
copy, both measured on the default device.
Read next: `memory.py`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from didax.api.jit import jit
from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray
from didax.core.jaxpr import Eqn, Jaxpr, Literal, Var
from didax.core.primitive import application_key
from didax.debug._explore.marks import Numbered
from didax.numpy import matmul
from didax.passes.simplify import dce_jaxpr
from didax.primitives.call import Call
from didax.primitives.control_flow.cond import cond_p
from didax.primitives.control_flow.linear_solve import LinearSolve
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.shard_map import shard_map_p
from didax.transforms.cache import on_clear
from didax.xla.lowering import lower_module


class Cost(NamedTuple):
    """What an equation costs in a run of the program, all of its executions together."""

    flops: float
    bytes: int
    times: int  # how often it runs; 0: nobody needs its results
    # It is in a loop of unknown length, which counts once; or it calls a library, which nobody counts.
    at_least: bool = False
    at_most: bool = False  # it is in a branch, which may not be taken


class Inner(NamedTuple):
    """A jaxpr that an equation runs."""

    jaxpr: Jaxpr
    times: int | None = 1  # None: unknown
    maybe: bool = False  # a branch
    is_call: bool = False  # its inputs and outputs are those of the equation


def inner_jaxprs(eqn: Eqn) -> list[Inner]:
    """The jaxprs that an equation runs, and how often."""
    params, primitive = eqn.params, eqn.primitive
    if primitive is scan_p:
        return [Inner(params["jaxpr"], params["length"])]
    if primitive is cond_p:
        return [Inner(branch, maybe=True) for branch in params["branches"]]
    if primitive is shard_map_p:
        return [Inner(params["jaxpr"], params["mesh"].size)]
    if isinstance(primitive, Call):
        return [Inner(params["jaxpr"], is_call=True)]
    if isinstance(primitive, LinearSolve):
        return [Inner(params["jaxprs"][1], is_call=True)]
    return [] if primitive.run_jaxprs is None else [Inner(jaxpr, None) for jaxpr in eqn.jaxprs]


class Costs(NamedTuple):
    """The costs of a program."""

    equations: list[Cost]  # by number; what holds other equations costs nothing itself
    flops: float  # of a run, in the dearest of branches


def costs_of(numbered: Numbered) -> Costs:
    """What a program costs. What nobody needs the results of does not run."""
    own: dict[Eqn, Cost] = {}
    found = [Cost(0.0, 0, 0)] * len(numbered.equations)
    live, _ = dce_jaxpr(numbered.jaxpr, (True,) * len(numbered.jaxpr.outvars), keep_inputs=True)
    for eqn, times, at_least, at_most in _runs(live):
        once = own.get(eqn)
        if once is None:
            once = own[eqn] = Cost(0.0, 0, 0) if inner_jaxprs(eqn) else _own(eqn)
        k = numbered.number(eqn)
        before = found[k]
        found[k] = Cost(
            before.flops + once.flops * times,
            before.bytes + once.bytes * times,
            before.times + times,
            before.at_least or at_least or once.at_least,
            before.at_most or at_most,
        )
    return Costs(found, _total_flops(live, own))


def _runs(
    jaxpr: Jaxpr, times: int = 1, at_least: bool = False, at_most: bool = False
) -> Iterator[tuple[Eqn, int, bool, bool]]:
    """Each equation, in the order in which they run; how often; whether that is the least, and the most."""
    for eqn in jaxpr.eqns:
        yield eqn, times, at_least, at_most
        for inner in inner_jaxprs(eqn):
            repeated = times * (1 if inner.times is None else inner.times)
            yield from _runs(inner.jaxpr, repeated, at_least or inner.times is None, at_most or inner.maybe)


def _total_flops(jaxpr: Jaxpr, own: dict[Eqn, Cost]) -> float:
    total = 0.0
    for eqn in jaxpr.eqns:
        inner = inner_jaxprs(eqn)
        each = [_total_flops(one.jaxpr, own) * (1 if one.times is None else one.times) for one in inner]
        total += (max(each) if inner[0].maybe else sum(each)) if inner else own[eqn].flops
    return total


def nbytes(aval: ShapedArray) -> int:
    """The bytes of an array."""
    numbers = aval.physical
    return 0 if numbers.dtype == dtypes.float0 else numbers.size * numbers.dtype.itemsize


def _own(eqn: Eqn) -> Cost:
    """The cost of running an equation once."""
    avals = tuple([x.aval for x in eqn.invars])
    moved = {x: nbytes(x.aval) for x in (*eqn.invars, *eqn.outvars) if type(x) is Var}
    floats = any(dtypes.is_inexact(aval.dtype) for aval in (*avals, *[v.aval for v in eqn.outvars]))
    flops, in_full = _flops(eqn, avals) if floats and not eqn.effects else (0.0, True)
    return Cost(flops, sum(moved.values()), 1, not in_full)


_Count = tuple[float, bool]  # floating-point operations, and whether these are all
_known_flops: dict[Any, _Count] = {}
on_clear(_known_flops.clear)


def _flops(eqn: Eqn, avals: Sequence[ShapedArray]) -> _Count:
    literals = tuple([type(x) is Literal for x in eqn.invars])
    try:
        key = (application_key(eqn.primitive, tuple(avals), eqn.params), literals)
        if key not in _known_flops:
            _known_flops[key] = _count(eqn)
        return _known_flops[key]
    except TypeError:  # parameters that cannot be hashed
        return _count(eqn)


def _count(eqn: Eqn) -> _Count:
    """What XLA counts in a program of this equation alone. It does not know what libraries do that a program calls."""
    from didax.xla.program_views import cost_of  # loads jaxlib: on first need

    inputs = list(dict.fromkeys(x for x in eqn.invars if type(x) is Var))
    try:
        text = lower_module(Jaxpr(inputs, [eqn], eqn.outvars))
        found = cost_of(text)
    except Exception:  # collectives, and what else needs a program around it
        return 0.0, False
    counted = [found.get(name, 0.0) for name in ("flops", "transcendentals")]
    return sum(max(0.0, n) for n in counted), "stablehlo.custom_call" not in text


# --- Time ------------------------------------------------------------------------------------------------------------


class Rates(NamedTuple):
    """What a device does in a second."""

    flops: float
    bytes: float

    def seconds(self, cost: Cost) -> float:
        """How long an equation takes at least."""
        return max(cost.flops / self.flops, cost.bytes / self.bytes)


@functools.cache
def measured_rates() -> Rates:
    """The rates of the default device, by a product of two matrices and by a copy that changes signs."""
    n, length = 512, 1 << 22
    product, negated = jit(matmul), jit(lambda x: -x)
    square = array_ops.zeros(ShapedArray((n, n), dtypes.dtype("float32")))
    long = array_ops.zeros(ShapedArray((length,), dtypes.dtype("float32")))
    return Rates(2 * n**3 / _fastest(product, square, square), 8 * length / _fastest(negated, long))


def _fastest(f: Any, *args: Any) -> float:
    """The seconds of the fastest of some calls."""
    f(*args).block_until_ready()
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        f(*args).block_until_ready()
        times.append(time.perf_counter() - start)
    return min(times)
