"""`jit_p`: a call of a jaxpr. It stays a call through every transformation, so each inner function is compiled once.

Its rules transform the jaxpr and call the result; `Call` has those that do not depend on how the jaxpr is run, and
`call_in_passes.py` those for passes, such as the removal of dead code.
Read next: `checkpoint.py`, a call that saves memory; `control_flow/cond.py`, the same with branches;
`didax/api/jit.py` for the wrapper users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.given import given_by
from didax.core.jaxpr import Jaxpr
from didax.primitives.call_in_passes import CallInPasses
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.split import Split
from didax.transforms.transpose import is_undef, transpose_jaxpr
from didax.transforms.weak_types import strong_cotangents
from didax.xla.lowering import call


class Call(CallInPasses):
    """A primitive that runs `jaxpr` once on its operands: rules that run a transformed jaxpr in the same way."""

    def type(self, *avals: ShapedArray, jaxpr: Jaxpr, **params: Any) -> Sequence[ShapedArray]:
        check_jaxpr_operands(f"a {self.kind}", jaxpr, avals)
        return jaxpr.out_avals

    def lower(self, ctx: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return call(ctx, jaxpr, args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        new, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
        outs = self.bind(*primals, *(t for t in tangents if type(t) is not Zero), jaxpr=new, **params)
        n = len(jaxpr.outvars)
        return outs[:n], fill_zeros(outs[n:], nonzero_out, jaxpr.out_avals)

    def transpose(self, cts: Sequence[Any], *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        linear = tuple(is_undef(x) for x in args)
        nonzero_ct = tuple(type(ct) is not Zero for ct in cts)
        new, nonzero = transpose_jaxpr(jaxpr, linear, nonzero_ct, strong_ct=strong_cotangents(cts, jaxpr))
        known = [x for x in args if not is_undef(x)]
        ct_xs = self.bind(*known, *(ct for ct in cts if type(ct) is not Zero), jaxpr=new, **params)
        return scatter_cotangents(ct_xs, nonzero, linear)

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Jaxpr, **params: Any
    ) -> Any:
        new, batched = batch_jaxpr(jaxpr, axis, tuple(dims))
        return self.bind(*args, jaxpr=new, **params), [0 if b else None for b in batched]


class Jit(Call):
    """`jit_p.bind(*args, jaxpr=jaxpr)` runs the jaxpr as one compiled program."""

    kind = "jitted function"
    evaluate = given_by("didax.runtime.compiled")

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr
    ) -> tuple[list[Any], list[Any]]:
        split = linearize_jaxpr(jaxpr, tuple(type(t) is not Zero for t in tangents))
        n = len(jaxpr.outvars)
        outs = self.bind(*primals, jaxpr=split.known)
        residuals = split.residual_values(primals, outs[n:])
        out_dots = self.bind(*residuals, *(t for t in tangents if type(t) is not Zero), jaxpr=split.unknown)
        return outs[:n], fill_zeros(out_dots, split.unknown_out, jaxpr.out_avals)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, jaxpr: Jaxpr) -> list[Any]:
        split = partial_eval_jaxpr(jaxpr, tuple(unknown))
        known_args = [x for x, unk in zip(args, unknown, strict=True) if not unk]
        unknown_args = [x for x, unk in zip(args, unknown, strict=True) if unk]
        return run_split(split, known_args, unknown_args, lambda j, *xs: self.bind(*xs, jaxpr=j))


def check_jaxpr_operands(holder: str, jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless the operands have the types that the jaxpr was staged for; weak types need not agree."""
    wanted = jaxpr.in_avals
    if len(wanted) != len(avals) or any(
        a is not b and (a.shape != b.shape or a.dtype != b.dtype) for a, b in zip(wanted, avals, strict=True)
    ):
        raise TypeError(
            message(
                f"The operands of {holder} must have the types its program was staged for.",
                f"staged for: {', '.join(map(str, wanted))}",
                f"operands: {', '.join(map(str, avals))}",
                fix="Cast or reshape the operands.",
            )
        )


def fill_zeros(values: Sequence[Any], nonzero: Sequence[bool], avals: Sequence[ShapedArray]) -> list[Any]:
    """`values` at the nonzero places, symbolic zeros elsewhere."""
    given = iter(values)
    return [next(given) if nz else Zero(a.tangent()) for nz, a in zip(nonzero, avals, strict=True)]


def scatter_cotangents(ct_xs: Sequence[Any], nonzero: Sequence[bool], linear: Sequence[bool]) -> list[Any]:
    """One entry per operand: the cotangent of a linear operand, None where there is none."""
    given = iter(ct_xs)
    per_linear = iter([next(given) if nz else None for nz in nonzero])
    return [next(per_linear) if lin else None for lin in linear]


def run_split(
    split: Split, known_args: Sequence[Any], unknown_args: Sequence[Any], run: Callable[..., Sequence[Any]]
) -> list[Any]:
    """Run both halves of a split with `run(jaxpr, *args)`; the results are in the order from before the split."""
    outs = list(run(split.known, *known_args))
    n = len(outs) - split.num_residual_outputs
    residuals = split.residual_values(known_args, outs[n:])
    unknown_outs = iter(run(split.unknown, *residuals, *unknown_args))
    known_outs = iter(outs[:n])
    return [next(unknown_outs if unk else known_outs) for unk in split.unknown_out]


jit_p = Jit("jit")
