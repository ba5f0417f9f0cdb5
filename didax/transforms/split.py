"""`Split`: a program in two halves, one to run now and one for later, and the residuals that go from one to the other.

    known:   known inputs             -> known outputs, residuals
    unknown: residuals, other inputs  -> other outputs

`finish_split` makes the halves of a staged program and a tape of operations that must wait: whatever the tape uses of
the staged program is a residual. Read next: `partial_eval.py` and `linearize.py`, which record such tapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.core.tracing import leaked
from didax.transforms.rewriting import with_constants
from didax.transforms.staging import StagingTrace, StagingTracer

Half = TypeVar("Half")  # a jaxpr; of a primitive with several, a tuple of them


class Split(NamedTuple, Generic[Half]):
    """A jaxpr in two halves.

    `known` takes the known inputs and returns the known outputs, then residuals; `unknown` takes all residuals, then
    the unknown inputs, and returns the unknown outputs. `unknown_out` tells which outputs are unknown. `residuals[i]`
    says where the i-th residual input of `unknown` comes from: `("in", k)` is the k-th input of `known` itself, which
    needs no copy, `("out", k)` its k-th residual output.
    """

    known: Half
    unknown: Half
    unknown_out: tuple[bool, ...]
    residuals: tuple[tuple[str, int], ...]

    @property
    def num_residual_outputs(self) -> int:
        """How many of `known`'s outputs are residuals."""
        return sum(kind == "out" for kind, _ in self.residuals)

    def residual_values(self, known_args: Sequence[Any], residual_outs: Sequence[Any]) -> list[Any]:
        """Values for `unknown`'s residual inputs."""
        sources = {"in": known_args, "out": residual_outs}
        return [sources[kind][k] for kind, k in self.residuals]


def finish_split(
    staging: StagingTrace,
    tape: Sequence[Eqn],
    known_outs: Sequence[Any],
    unknown_ins: Sequence[Var],
    outs: Sequence[Atom],
) -> tuple[Jaxpr, Jaxpr, tuple[tuple[str, int], ...]]:
    """Close both halves: values of `staging` that the tape (or its outputs) uses become residuals."""
    residuals: dict[Any, tuple[Var, StagingTracer | Any]] = {}

    def close(x: Atom) -> Atom:
        if type(x) is Var or not isinstance(x.val, StagingTracer):
            return x
        if x.val.owner is not staging:
            raise leaked(x.val)
        return residuals.setdefault(x.val.variable, (Var(x.aval), x.val))[0]

    eqns = [
        eqn if all(type(x) is Var for x in eqn.invars) else eqn.replace(invars=[close(x) for x in eqn.invars])
        for eqn in prune(tape, outs)
    ]
    outs = [close(x) for x in outs]
    positions = {var: k for k, var in enumerate(staging.invars)}
    computed = [var for var in residuals if var not in positions]
    computed_at = {var: k for k, var in enumerate(computed)}
    sources = tuple(("in", positions[v]) if v in positions else ("out", computed_at[v]) for v in residuals)
    known = with_constants(*staging.finish([*known_outs, *(residuals[v][1] for v in computed)]))
    unknown = Jaxpr([var for var, _ in residuals.values()] + list(unknown_ins), eqns, outs, known.name)
    return known, unknown, sources


def prune(eqns: Sequence[Eqn], outs: Sequence[Atom]) -> list[Eqn]:
    """The equations that `outs` depend on, and those with effects."""
    needed = {x for x in outs if type(x) is Var}
    kept: list[Eqn] = []
    for eqn in reversed(eqns):
        if any(v in needed for v in eqn.outvars) or eqn.effects:
            kept.append(eqn)
            needed.update(x for x in eqn.invars if type(x) is Var)
    return kept[::-1]


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
