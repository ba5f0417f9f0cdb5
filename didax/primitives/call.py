"""`jit_p`: a call of a jaxpr. It stays a call through every transformation, so each inner function is compiled once.

Its rules transform the jaxpr and call the result; `Call` has those that do not depend on how the jaxpr is run, and
`call_in_passes.py` those for passes, such as the removal of dead code.
Read next: `checkpoint.py`, a call that saves memory; `control_flow/cond.py`, the same with branches;
`didax/api/jit.py` for the wrapper users call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray
from didax.core.given import given_by
from didax.core.jaxpr import Jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.primitives.call_in_passes import CallInPasses
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.split import run_split
from didax.transforms.transpose import is_undef, transpose_jaxpr
from didax.transforms.weak_types import strong_cotangents
from didax.xla.lowering import call


class Call(CallInPasses):
    """A primitive that runs `jaxpr` once on its operands: rules that run a transformed jaxpr in the same way."""

    pushes_programs = True

    def type(self, *avals: ShapedArray, jaxpr: Jaxpr, **params: Any) -> Sequence[ShapedArray]:
        check_jaxpr_operands(f"a {self.kind}", jaxpr, avals)
        return jaxpr.out_avals

    def lower(self, ctx: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return call(ctx, jaxpr, args)

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        forward: Forward = jvp_jaxpr,
        **params: Any,
    ) -> tuple[list[Any], list[Any]]:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        new, nonzero_out = forward(jaxpr, nonzero)
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
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        split = linearize_jaxpr(jaxpr, tuple(type(t) is not Zero for t in tangents))
        n = len(jaxpr.outvars)
        outs = self.bind(*primals, jaxpr=split.known, **params)
        residuals = split.residual_values(primals, outs[n:])
        dots = [t for t in tangents if type(t) is not Zero]
        out_dots = self.bind(*residuals, *dots, jaxpr=split.unknown, **params)
        return outs[:n], fill_zeros(out_dots, split.unknown_out, jaxpr.out_avals)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        split = partial_eval_jaxpr(jaxpr, tuple(unknown))
        known_args = [x for x, unk in zip(args, unknown, strict=True) if not unk]
        unknown_args = [x for x, unk in zip(args, unknown, strict=True) if unk]
        return run_split(split, known_args, unknown_args, lambda j, *xs: self.bind(*xs, jaxpr=j, **params))


def fill_zeros(values: Sequence[Any], nonzero: Sequence[bool], avals: Sequence[ShapedArray]) -> list[Any]:
    """`values` at the nonzero places, symbolic zeros elsewhere."""
    given = iter(values)
    return [next(given) if nz else Zero(a.tangent()) for nz, a in zip(nonzero, avals, strict=True)]


def scatter_cotangents(ct_xs: Sequence[Any], nonzero: Sequence[bool], linear: Sequence[bool]) -> list[Any]:
    """One entry per operand: the cotangent of a linear operand, None where there is none."""
    given = iter(ct_xs)
    per_linear = iter([next(given) if nz else None for nz in nonzero])
    return [next(per_linear) if lin else None for lin in linear]


jit_p = Jit("jit")
