"""`checkpoint_p`: a call that keeps its inputs instead of intermediate values, and computes these again when needed.

    linearize:  (y, residuals) = known(x),  y_dot = unknown(residuals, x_dot)
    becomes     (y, saved)     = known(x),  y_dot = unknown(recompute(x, saved), x_dot)

`recompute` are the equations of the known half that lead from the inputs, and from the values a policy chose to save,
to the residuals. A policy is asked for each equation, `policy(primitive, *avals, **params)`; None saves nothing.
What recomputes is compiled as a function of its own that waits for its operands, tangents or cotangents among them:
XLA can neither merge it with the first computation nor start it earlier (Note [Recomputing late]).
`checkpoint_name_p` gives a value a name that policies know it by. Read next: `didax/checkpoint_policies.py` and
`didax/api/checkpoint.py`, what users call.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.core.rule_types import check_parts
from didax.core.sharding import use_memories
from didax.passes.key_reuse import summarise
from didax.passes.memories import Memories, Placing, Where, as_they_lie, moves_values
from didax.passes.simplify import dce_jaxpr
from didax.primitives import padded, split
from didax.primitives.call import Call, fill_zeros
from didax.primitives.control_flow.common import run_compiled
from didax.primitives.control_flow.layout import nonzero, where_false, where_true
from didax.primitives.shape import LinearUnary
from didax.primitives.sharding import memory_p
from didax.transforms.batching import AxisData
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.split import Split, run_split
from didax.xla.lowering import behind_barrier, call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value

Policy = Callable[..., Any]  # (primitive, *avals, **params) -> whether the equation's results may be saved


class Verdict(enum.Enum):
    """Answers that a policy may give for the results of an equation, in place of True and False."""

    SAVEABLE = True
    RECOMPUTE = False


class Offloadable(NamedTuple):
    """A policy's answer for values to be kept in memory of the kind `dst`, and brought back to `src`.

    >>> Offloadable("device", "pinned_host")
    Offloadable(src='device', dst='pinned_host')
    """

    src: str
    dst: str


# Note [Recomputing late]
# XLA merges equal operations, so it would merge a recomputation with the first computation, and its passes for the CPU
# remove optimization barriers. But nothing is merged or moved across a call that is not inlined, so the recomputation
# is such a call. Its operands are the residuals and the tangents or cotangents: it starts when those are there, and the
# memory for what it computes again is needed only then.
# Residuals that were offloaded are brought back inside the call. If they were brought back at once, XLA would drop the
# way to the host and back. XLA's passes for GPUs keep barriers, and its host offloader follows values through them, so
# on GPUs a barrier takes the place of the call.


class Checkpoint(Call):
    """`checkpoint_p.bind(*args, jaxpr=jaxpr, prevent_cse=True, policy=None)` runs the jaxpr, saving little of it.

    An application that recomputes has `differentiated` set. With `prevent_cse` XLA does not merge it with the first
    computation, and random keys that it uses once more do not count as used twice.
    """

    kind = "checkpointed function"

    def bind(
        self, *args: Any, jaxpr: Jaxpr, prevent_cse: bool, policy: Policy | None, differentiated: bool = False
    ) -> list[Any]:
        """Apply the primitive under the current trace."""
        params = {"prevent_cse": prevent_cse, "policy": policy, "differentiated": differentiated}
        return super().bind(*args, jaxpr=jaxpr, **params)

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "jaxpr", params)

    def lower(
        self,
        ctx: FunctionContext,
        *args: Value,
        jaxpr: Jaxpr,
        prevent_cse: bool,
        differentiated: bool,
        **params: Any,
    ) -> list[Value]:
        # See Note [Recomputing late]
        late = prevent_cse and differentiated
        if late and platform() != "cpu" and moves_values(jaxpr):
            return call(ctx, jaxpr, behind_barrier(ctx, args))
        return call(ctx, jaxpr, args, inline=not late)

    def linearize(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        policy: Policy | None,
        **params: Any,
    ) -> tuple[list[Any], list[Any]]:
        split = _linearize(jaxpr, nonzero(tangents), policy)
        n = len(jaxpr.outvars)
        outs = self.bind(*primals, jaxpr=split.known, policy=policy, **params)
        residuals = split.residual_values(primals, outs[n:])
        live = [t for t in tangents if type(t) is not Zero]
        params["differentiated"] = True
        out_dots = self.bind(*residuals, *live, jaxpr=split.unknown, policy=policy, **params)
        return outs[:n], fill_zeros(out_dots, split.unknown_out, jaxpr.out_avals)

    def partial_eval(
        self, unknown: Sequence[bool], *args: Any, jaxpr: Jaxpr, policy: Policy | None, **params: Any
    ) -> list[Any]:
        split = _partial_eval(jaxpr, tuple(unknown), policy)

        def run(half: Jaxpr, *xs: Any) -> list[Any]:
            again = params["differentiated"] or half is split.unknown
            return self.bind(*xs, jaxpr=half, policy=policy, **{**params, "differentiated": again})

        return run_split(split, where_false(args, unknown), where_true(args, unknown), run)

    def memories(self, eqn: Eqn, place: Placing, operands: Memories) -> Where:
        new, given = place(eqn.params["jaxpr"], operands, 0)
        return {**eqn.params, "jaxpr": new}, operands, given

    def keys(
        self, line: Any, operands: Sequence[Any], *, jaxpr: Jaxpr, differentiated: bool, **params: Any
    ) -> Sequence[Any]:
        """A recomputation uses no keys up: the first computation has used them."""
        return [None] * len(jaxpr.outvars) if differentiated else summarise(jaxpr).apply(operands, line)


class CheckpointName(LinearUnary):
    """The identity, which gives a value a name that policies can refer to."""

    moves_elements = True
    sharding = split.kept
    padded = padded.elementwise

    def type(self, x: ShapedArray, *, name: str) -> ShapedArray:
        return x

    def eager(self, x: Any, *, name: str) -> Any:
        return x

    def lower(self, ctx: FunctionContext, x: Value, *, name: str) -> Value:
        return x

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, name: str) -> tuple[Any, Any]:
        return self.bind(primals[0], name=name), tangents[0]  # a tangent is not what was named

    def transpose(self, ct: Any, x: Any, *, name: str) -> list[Any]:
        return [ct]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, name: str
    ) -> tuple[Any, int | None]:
        return self.bind(args[0], name=name), dims[0]

    memories = staticmethod(as_they_lie)


checkpoint_p = Checkpoint("checkpoint")
checkpoint_name_p = CheckpointName("name")


# --- Splitting ------------------------------------------------------------------------------------


@cached_on_jaxpr
def _linearize(jaxpr: Jaxpr, nonzero_in: tuple[bool, ...], policy: Policy | None) -> Split[Jaxpr]:
    return recomputing(linearize_jaxpr(jaxpr, nonzero_in), policy)


@cached_on_jaxpr
def _partial_eval(jaxpr: Jaxpr, unknown: tuple[bool, ...], policy: Policy | None) -> Split[Jaxpr]:
    return recomputing(partial_eval_jaxpr(jaxpr, unknown), policy)


def recomputing(split: Split[Jaxpr], policy: Policy | None) -> Split[Jaxpr]:
    """The split with inputs and what the policy saves as residuals; the unknown half computes the others from these."""
    n, r = len(split.known.outvars) - split.num_residual_outputs, split.num_residual_outputs
    half = divide(split.known, (False,) * n + (True,) * r, policy)
    known, again, unknown = half.known, half.unknown, split.unknown
    outs = [*known.outvars[:n], *known.outvars[n + r :]]
    small, _ = dce_jaxpr(
        Jaxpr(known.invars, known.eqns, outs, known.name), (True,) * len(outs), keep_inputs=True
    )
    values = split.residual_values(known.invars, again.outvars)
    actual: dict[Any, Atom] = dict(zip(unknown.invars, values, strict=False))
    eqns = [eqn.replace(invars=[actual.get(x, x) for x in eqn.invars]) for eqn in unknown.eqns]
    direct = [source for source in split.residuals if source[0] == "in" and source not in half.residuals]
    invars = [*(known.invars[k] for _, k in direct), *again.invars, *unknown.invars[len(values) :]]
    whole = Jaxpr(invars, [*again.eqns, *eqns], [actual.get(x, x) for x in unknown.outvars], unknown.name)
    return Split(small, whole, split.unknown_out, (*direct, *half.residuals))


@cached_on_jaxpr
def divide(jaxpr: Jaxpr, wanted: tuple[bool, ...], policy: Policy | None) -> Split[Jaxpr]:
    """A jaxpr that also returns the values that the policy saves, and one that computes the wanted results from these.

    Equations with effects are not repeated: their results are saved.
    """
    needed: set[Any] = {x for x, want in zip(jaxpr.outvars, wanted, strict=True) if want}
    forward: list[Eqn] = []
    again: list[Eqn] = []
    saved: list[Var] = []
    for eqn in reversed(jaxpr.eqns):
        first, repeated, kept = _divide_eqn(eqn, tuple(v in needed for v in eqn.outvars), policy)
        forward += reversed(first)
        again += repeated
        needed.update(x for one in repeated for x in one.invars)
        saved[:0] = kept
    sources = tuple(("in", k) for k, v in enumerate(jaxpr.invars) if v in needed)
    residuals = [*(jaxpr.invars[k] for _, k in sources), *saved]
    outs = [x for x, want in zip(jaxpr.outvars, wanted, strict=True) if want]
    return Split(
        Jaxpr(jaxpr.invars, forward[::-1], [*jaxpr.outvars, *saved], jaxpr.name),
        Jaxpr(residuals, again[::-1], outs, jaxpr.name),
        wanted,
        (*sources, *(("out", k) for k in range(len(saved)))),
    )


def _divide_eqn(
    eqn: Eqn, needed: tuple[bool, ...], policy: Policy | None
) -> tuple[list[Eqn], list[Eqn], Sequence[Var]]:
    """The equations that run first in place of `eqn`, those that run again, and the values that are saved."""
    if not any(needed):
        return [eqn], [], ()
    if eqn.primitive.recompute is not None and (policy is not None or eqn.effects):
        parts = eqn.primitive.recompute(eqn, needed, lambda jaxpr, wanted: divide(jaxpr, wanted, policy))
        names = (
            "the equation that runs first",
            "the one that runs again or None",
            "the variables that are saved",
        )
        check_parts(eqn.primitive, "recompute", parts, *names)
        first, repeated, kept = parts
        return [first], [] if repeated is None else [repeated], kept
    verdict = False if policy is None else _verdict(policy, eqn)
    if not (eqn.effects or verdict):
        return [eqn], [eqn], ()
    kept = [v for v, need in zip(eqn.outvars, needed, strict=True) if need]
    if not isinstance(verdict, Offloadable):
        return [eqn], [], kept
    there, away, back = _offloaded(kept, verdict)
    return [eqn, *away], back, there


def _offloaded(values: Sequence[Var], how: Offloadable) -> tuple[list[Var], list[Eqn], list[Eqn]]:
    """Values in another memory, the equations that move them there, and those that bring them back."""
    use_memories()
    there = [Var(v.aval) for v in values]
    away, back = {"kind": how.dst, "source": how.src}, {"kind": how.src, "source": how.dst}
    moves = [
        (Eqn(memory_p, [v], away, [w]), Eqn(memory_p, [w], back, [v]))
        for v, w in zip(values, there, strict=True)
    ]
    return there, [move for move, _ in moves], [move for _, move in moves]


def _verdict(policy: Policy, eqn: Eqn) -> bool | Offloadable:
    """What the policy says of the results of an equation: whether they are saved, and where if not in place."""
    verdict = policy(eqn.primitive, *[x.aval for x in eqn.invars], **eqn.params)
    if isinstance(verdict, Offloadable):
        return verdict
    if not isinstance(verdict, (bool, np.bool_, Verdict)):
        raise TypeError(
            message(
                "A checkpoint policy returns a bool, Saveable, Recompute or an Offloadable.",
                f"policy: {policy!r:.100}, asked about {eqn.primitive}",
                f"returned: {verdict!r:.100} of type {type(verdict).__name__}",
                fix="Return True for results that may be saved, False for those to compute again.",
            )
        )
    return bool(verdict.value if isinstance(verdict, Verdict) else verdict)
