"""`jit_p`: a call of a jaxpr. It stays a call through every transformation, so each inner function is compiled once.

Its rules transform the jaxpr and call the result; `Call` has those that do not depend on how the jaxpr is run.
Read next: `checkpoint.py`, a call that saves memory; `control_flow/cond.py`, the same with branches;
`didax/api/jit.py` for the wrapper users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report, checkify_jaxpr
from didax.passes.key_reuse import call_keys
from didax.passes.simplify import dce_jaxpr
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import Split, partial_eval_jaxpr
from didax.transforms.transpose import is_undef, strong_cotangents, transpose_jaxpr
from didax.xla.lowering import call


class Call(Primitive):
    """A primitive that runs `jaxpr` once on its operands: rules that run a transformed jaxpr in the same way."""

    multiple_results = True
    kind: ClassVar[str]  # what messages call it
    keys = call_keys

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["jaxpr"].axis_names

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

    def checkify(
        self, kinds: Kinds, *args: Any, jaxpr: Jaxpr, **params: Any
    ) -> tuple[list[Any], Report | None]:
        new = checkify_jaxpr(jaxpr, kinds)
        return new.split(self.bind(*args, jaxpr=new.jaxpr, **params))

    def run_jaxprs(self, run: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return run(jaxpr, args, f"the {self.kind} {jaxpr.name}" if jaxpr.name else f"a {self.kind}")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        new, used_in = dce_jaxpr(eqn.params["jaxpr"], tuple(used))
        return eqn.replace(
            invars=[x for x, use in zip(eqn.invars, used_in, strict=True) if use],
            outvars=[v for v, use in zip(eqn.outvars, used, strict=True) if use],
            params={**eqn.params, "jaxpr": new},
        )

    def recompute(
        self, eqn: Eqn, needed: tuple[bool, ...], divide: Callable[[Jaxpr, tuple[bool, ...]], Split[Jaxpr]]
    ) -> tuple[Eqn, Eqn, list[Var]]:
        split = divide(eqn.params["jaxpr"], needed)
        saved = [Var(aval) for aval in split.known.out_avals[len(needed) :]]
        first = eqn.replace(outvars=[*eqn.outvars, *saved], params={**eqn.params, "jaxpr": split.known})
        again = eqn.replace(
            invars=split.residual_values(eqn.invars, saved),
            outvars=[v for v, need in zip(eqn.outvars, needed, strict=True) if need],
            params={**eqn.params, "jaxpr": split.unknown},
        )
        return first, again, saved


class Jit(Call):
    """`jit_p.bind(*args, jaxpr=jaxpr)` runs the jaxpr as one compiled program.

    `didax/runtime/compiled.py` gives its `evaluate`.
    """

    kind = "jitted function"

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


def check_jaxpr_operands(what: str, jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless the operands have the types the jaxpr was staged for (weak types aside)."""
    wanted = jaxpr.in_avals
    if len(wanted) != len(avals) or any(
        a is not b and (a.shape != b.shape or a.dtype != b.dtype) for a, b in zip(wanted, avals, strict=True)
    ):
        raise TypeError(
            message(
                f"The operands of {what} must have the types its program was staged for.",
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
    """Run both halves of a split with `run(jaxpr, *args)`; results in the order of the whole."""
    outs = list(run(split.known, *known_args))
    n = len(outs) - split.num_residual_outputs
    residuals = split.residual_values(known_args, outs[n:])
    unknown_outs = iter(run(split.unknown, *residuals, *unknown_args))
    known_outs = iter(outs[:n])
    return [next(unknown_outs if unk else known_outs) for unk in split.unknown_out]


jit_p = Jit("jit")
