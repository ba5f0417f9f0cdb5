"""What passes do to a call: they go through the jaxpr that it runs, and leave a call of the result.

Read next: `call.py` (what transformations do to a call), `didax/passes/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report, checkify_jaxpr
from didax.passes.key_reuse import call_keys
from didax.passes.memories import Memories, Placing, Where
from didax.passes.simplify import dce_jaxpr
from didax.passes.sparsity import Dependence, dependence
from didax.passes.uneven import Axes, Follow
from didax.primitives import padded
from didax.transforms.split import Split


class CallInPasses(Primitive):
    """A primitive that runs `jaxpr` once on its operands: its rules for passes."""

    multiple_results = True
    kind: ClassVar[str]  # what messages call it
    keys = call_keys
    padded = padded.called

    def checkify(
        self, kinds: Kinds, *args: Any, jaxpr: Jaxpr, **params: Any
    ) -> tuple[list[Any], Report | None]:
        new = checkify_jaxpr(jaxpr, kinds)
        return new.split(self.bind(*args, jaxpr=new.jaxpr, **params))

    def sparsity(self, operands: Sequence[Dependence], *, jaxpr: Jaxpr, **params: Any) -> list[Dependence]:
        return dependence(jaxpr, operands)

    def differs(
        self, follow: Follow, choose: Any, operands: Sequence[Axes], *, jaxpr: Jaxpr, **params: Any
    ) -> list[Axes]:
        return follow(jaxpr, operands)

    def memories(self, eqn: Eqn, place: Placing, operands: Memories) -> Where:
        taken = (None,) * len(operands)
        new, given = place(eqn.params["jaxpr"], taken, 0)
        return {**eqn.params, "jaxpr": new}, taken, given

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
