"""Bodies of loops that read and update one array: the read first, so that the update is in place.

    y = x[i]; x = x.at[j].set(u)      becomes      y, u = fence(x[i], u); x = x.at[j].set(u)

XLA writes an update of an array that a loop carries into the array's buffer. Where nothing says that reads of the old
array come before the update, XLA copies the array, at every step. The transpose of an update is such a program: it
reads the cotangent where it then writes zeros. This pass, on bodies that are about to be lowered, lets the update wait
for the reads.
Read next: `lowering.py` and `while_loop.py`, which call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.dims import may_exceed
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive
from didax.primitives import padded, split
from didax.primitives.control_flow.layout import Pair, Values
from didax.primitives.gather import gather_p, scatter_add_p, scatter_p
from didax.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p, slice_p, split_p
from didax.transforms.batching import AxisData
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.transpose import is_undef
from didax.xla.lowering import materialized
from didax.xla.text import FunctionContext, Value

_READS = (dynamic_slice_p, gather_p, slice_p, split_p)
_UPDATE = {dynamic_update_slice_p: 1, scatter_p: 2, scatter_add_p: 2}  # which operand is the update
_MIN_BYTES = 1 << 14  # a fence costs about a microsecond, as do two copies of so many bytes


class Fence(Primitive):
    """The identity on any number of arrays. All of them are computed before any of them is used."""

    linear = True
    multiple_results = True
    moves_elements = True
    sharding = split.each_kept
    padded = padded.elementwise

    def type(self, *xs: ShapedArray) -> list[ShapedArray]:
        return list(xs)

    def eager(self, *xs: Any) -> list[Any]:
        return list(xs)

    def lower(self, ctx: FunctionContext, *xs: Value) -> list[Value]:
        return materialized(ctx, xs)

    def jvp(self, primals: Values, tangents: Values) -> Pair:
        return self.bind(*primals), list(tangents)

    def transpose(self, cts: Values, *xs: Any) -> list[Any]:
        return [ct if is_undef(x) else None for x, ct in zip(xs, cts, strict=True)]

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None]) -> Any:
        return self.bind(*args), list(dims)


fence_p = Fence("fence")


@cached_on_jaxpr
def read_before_writing(jaxpr: Jaxpr) -> Jaxpr:
    """The body with updates of its inputs that wait for all reads of them; same inputs, equal outputs."""
    inputs = {v for v in jaxpr.invars if may_exceed(v.aval.size * v.aval.dtype.itemsize, _MIN_BYTES - 1)}
    for eqn in jaxpr.eqns:
        if eqn.primitive in _UPDATE and eqn.invars[0] in inputs:
            jaxpr = _fenced(jaxpr, eqn.outvars[0])
    return jaxpr


def _fenced(jaxpr: Jaxpr, updated: Var) -> Jaxpr:
    """The jaxpr with a fence before an update, if its array is otherwise only read, and the reads may come first."""
    write = next(eqn for eqn in jaxpr.eqns if updated in eqn.outvars)
    array = write.invars[0]
    reads = [eqn for eqn in jaxpr.eqns if eqn is not write and array in eqn.invars]
    first = {*reads, *_needed_for(jaxpr.eqns, [write, *reads])}
    if write in first or not all(eqn.primitive in _READS and eqn.invars[0] is array for eqn in reads):
        return jaxpr
    rest = [eqn for eqn in jaxpr.eqns if eqn not in first and eqn is not write]
    effects = [eqn for eqn in jaxpr.eqns if any(effect.ordered for effect in eqn.effects)]
    if effects != [eqn for eqn in effects if eqn in first] + [eqn for eqn in rest if eqn in effects]:
        return jaxpr
    wanted = {x for eqn in rest for x in eqn.invars}.union(jaxpr.outvars)
    read = [v for v in _dependent(jaxpr.eqns, reads, first) if v in wanted]
    if not read:  # only the update itself needs what is read
        return jaxpr
    place = _UPDATE[write.primitive]
    fenced: dict[Any, Var] = {v: Var(v.aval) for v in read}
    waiting = Var(write.invars[place].aval)
    fence = Eqn(fence_p, [*read, write.invars[place]], {}, [*fenced.values(), waiting], write.source)
    write = write.replace(invars=[*write.invars[:place], waiting, *write.invars[place + 1 :]])
    rest = [eqn.replace(invars=[fenced.get(x, x) for x in eqn.invars]) for eqn in rest]
    eqns = [*(eqn for eqn in jaxpr.eqns if eqn in first), fence, write, *rest]
    return Jaxpr(jaxpr.invars, eqns, [fenced.get(x, x) for x in jaxpr.outvars], jaxpr.name)


def _needed_for(eqns: Sequence[Eqn], wanted: Sequence[Eqn]) -> set[Eqn]:
    """The equations that these depend on."""
    needed: set[Any] = {x for eqn in wanted for x in eqn.invars}
    found: set[Eqn] = set()
    for eqn in reversed(eqns):
        if any(v in needed for v in eqn.outvars):
            found.add(eqn)
            needed.update(eqn.invars)
    return found


def _dependent(eqns: Sequence[Eqn], reads: Sequence[Eqn], among: set[Eqn]) -> dict[Var, None]:
    """The results of the reads, and what equations of `among` compute from these, in order."""
    found: dict[Any, None] = {}
    for eqn in eqns:
        if eqn in reads or (eqn in among and any(x in found for x in eqn.invars)):
            found.update(dict.fromkeys(eqn.outvars))
    return found
