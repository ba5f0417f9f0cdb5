"""`cond_p`: run one of several jaxprs, chosen by an index that is known only at run time.

    cond_p(k, x, branches=(f0, ..., fn)) = fk(x)

Every rule transforms the branches one by one and makes a `cond` of the new ones. Transformed branches may differ in
which of their results have a tangent, a batch axis or residuals, and `cond` needs branches of one type. So `_agree`
asks each branch for the union, and `_join_splits` lets residuals of equal type share a place, whichever branch
computes them.
Where the index itself is batched, elements go different ways: Note [Elements that do not take a branch].
Read next: `call.py`, the same rules for one jaxpr; `didax/lax/control_flow.py`, what users call.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.core.primitive import Primitive
from didax.core.tracing import known_value
from didax.passes.checkify import Checkified, Kinds, Report, Site, checkify_jaxpr, nothing_failed
from didax.passes.key_reuse import branch_keys, holds_keys
from didax.passes.memories import on_the_device
from didax.passes.simplify import dce_jaxpr
from didax.passes.sparsity import Dependence, dependence, either
from didax.primitives.call import fill_zeros, scatter_cotangents
from didax.primitives.control_flow import padded
from didax.primitives.control_flow.agreement import branches_differ, first_agreed
from didax.primitives.control_flow.batches import along_first, fill_inactive, replace_inactive
from didax.primitives.control_flow.bodies import batch_dims
from didax.primitives.control_flow.common import BOOL, INT32, with_invars
from didax.primitives.control_flow.effects import run_by_element, runs_by_element
from didax.primitives.control_flow.layout import (
    Mask,
    Pair,
    Values,
    nonzero,
    nonzero_only,
    union,
    where_false,
    where_true,
)
from didax.primitives.control_flow.varying import fit_branches
from didax.primitives.convert import ConvertElementType, StopGradient
from didax.primitives.elementwise import eq
from didax.primitives.families import Elementwise
from didax.primitives.filled import zeros
from didax.primitives.keys import random_clone_p
from didax.primitives.reductions import reduce_or_p
from didax.primitives.select import SelectN, select_n
from didax.primitives.shape import BroadcastInDim
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.split import Split, run_split
from didax.transforms.transpose import is_undef, transpose_jaxpr
from didax.transforms.weak_types import strong_cotangents
from didax.xla.lowering import lower_region
from didax.xla.text import function_type

Branches = tuple[Jaxpr, ...]


class Cond(Primitive):
    """`cond_p.bind(index, *operands, branches=branches)` runs `branches[index]`; the index is in range."""

    multiple_results = True
    pushes_programs = True
    padded = padded.branched
    differs, agree = branches_differ, first_agreed

    def bind(self, *args: Any, branches: Branches) -> list[Any]:
        """As for every primitive, except that a known index chooses its branch at once, under the current trace."""
        index = known_value(args[0])
        if index is None:
            branches, operands = fit_branches(branches, args[0], args[1:])
            return super().bind(args[0], *operands, branches=branches)
        return eval_jaxpr(branches[int(index)], args[1:])

    def type(self, index: ShapedArray, *avals: ShapedArray, branches: Branches) -> list[ShapedArray]:
        if index.shape != () or index.dtype != INT32:
            raise TypeError(
                message("The index of cond is an int32 scalar.", f"index: {index}", fix="Cast the index.")
            )
        for branch in branches:
            check_jaxpr_operands("cond", branch, avals)
        return [
            _join_types(column, branches) for column in zip(*(b.out_avals for b in branches), strict=True)
        ]

    def sparsity(self, operands: Sequence[Dependence], *, branches: Branches) -> list[Dependence]:
        index, *args = operands
        if index.value is not None:
            branches = (branches[int(np.clip(index.value, 0, len(branches) - 1))],)
        return either([dependence(branch, args) for branch in branches])

    memories = staticmethod(on_the_device)

    def lower(self, ctx: Any, index: Any, *args: Any, branches: Branches) -> list[Any]:
        count = len(ctx.tokens)
        avals = [*[ctx.module.token] * count, *ctx.out_avals]
        regions = ", ".join(lower_region(ctx, branch, args) for branch in branches)
        outs = ctx.emit_many(
            f'"stablehlo.case"({index}) ({regions}) : {function_type([index], avals)}', avals
        )
        ctx.tokens = outs[:count]
        return outs[count:]

    def jvp(
        self, primals: Values, tangents: Values, *, branches: Branches, forward: Forward = jvp_jaxpr
    ) -> Pair:
        tangents = tangents[1:]  # the index has no tangent
        new, nonzero_out = _jvp(branches[0], branches[1:], nonzero(tangents), forward)
        outs = self.bind(*primals, *nonzero_only(tangents), branches=new)
        n = len(nonzero_out)
        return outs[:n], fill_zeros(outs[n:], nonzero_out, branches[0].out_avals)

    def linearize(self, primals: Values, tangents: Values, *, branches: Branches) -> Pair:
        (index, *args), tangents = primals, tangents[1:]
        split = _linearize(branches[0], branches[1:], nonzero(tangents))
        n = len(split.unknown_out)
        outs = self.bind(index, *args, branches=split.known)
        residuals = split.residual_values(args, outs[n:])
        out_dots = self.bind(index, *residuals, *nonzero_only(tangents), branches=split.unknown)
        return outs[:n], fill_zeros(out_dots, split.unknown_out, branches[0].out_avals)

    def transpose(self, cts: Values, index: Any, *args: Any, branches: Branches) -> list[Any]:
        linear = tuple(is_undef(x) for x in args)
        strong = strong_cotangents(cts, *branches)
        new, sent = _transpose(branches[0], branches[1:], linear, nonzero(cts), strong)
        ct_args = self.bind(index, *where_false(args, linear), *nonzero_only(cts), branches=new)
        return [None, *scatter_cotangents(ct_args, sent, linear)]

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], *, branches: Branches) -> Any:
        if dims[0] is not None:
            _check_collectives(axis, branches)
            sources = _handed_on(branches)
            if any(source is not None for source in sources):
                return _batch_without(self, axis, args, dims, branches, sources)
            if runs_by_element(*branches):
                return run_by_element(self, axis, args, dims, {"branches": branches})
            return _batch_by_element(axis, args, dims, branches)
        new, batched = _batch(branches[0], branches[1:], axis, tuple(dims[1:]))
        return self.bind(*args, branches=new), list(batch_dims(batched))

    def partial_eval(self, unknown: Sequence[bool], index: Any, *args: Any, branches: Branches) -> list[Any]:
        if unknown[0]:
            return self.bind(index, *args, branches=branches)
        split = _partial_eval(branches[0], branches[1:], tuple(unknown[1:]))
        known_args, unknown_args = where_false(args, unknown[1:]), where_true(args, unknown[1:])
        return run_split(
            split, known_args, unknown_args, lambda half, *xs: self.bind(index, *xs, branches=half)
        )

    def keys(self, line: Any, operands: Values, *, branches: Branches) -> Values:
        return branch_keys(branches, operands[1:])

    def checkify(
        self, kinds: Kinds, index: Any, *args: Any, branches: Branches
    ) -> tuple[list[Any], Report | None]:
        new, sites = _checkify(branches[0], branches[1:], kinds)
        return Checkified(new[0], sites).split(self.bind(index, *args, branches=new))

    def run_jaxprs(self, run: Any, index: Any, *args: Any, branches: Branches) -> list[Any]:
        return run(branches[int(index)], args, f"branch {int(index)} of cond")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        branches: Branches = eqn.params["branches"]
        pruned, masks = zip(*(dce_jaxpr(branch, tuple(used)) for branch in branches), strict=True)
        needed = union(*masks)
        new = [
            with_invars(small, where_true(branch.invars, needed))
            for branch, small in zip(branches, pruned, strict=True)
        ]
        return eqn.replace(
            invars=[eqn.invars[0], *where_true(eqn.invars[1:], needed)],
            outvars=where_true(eqn.outvars, used),
            params={"branches": tuple(new)},
        )

    def recompute(
        self, eqn: Eqn, needed: Mask, divide: Callable[[Jaxpr, Mask], Split[Jaxpr]]
    ) -> tuple[Eqn, Eqn, list[Var]]:
        branches: Branches = eqn.params["branches"]
        split = _join_splits([divide(branch, needed) for branch in branches], needed)
        saved = [Var(aval) for aval in split.known[0].out_avals[len(needed) :]]
        index, *operands = eqn.invars
        first = eqn.replace(outvars=[*eqn.outvars, *saved], params={"branches": split.known})
        again = eqn.replace(
            invars=[index, *split.residual_values(operands, saved)],
            outvars=where_true(eqn.outvars, needed),
            params={"branches": split.unknown},
        )
        return first, again, saved


cond_p = Cond("cond")


def _join_types(avals: Sequence[ShapedArray], branches: Branches) -> ShapedArray:
    """The type of a result of all branches: weak where it is weak in every one."""
    varying = frozenset[str]().union(*[aval.vma for aval in avals])
    avals = [aval.update(vma=varying) for aval in avals] if varying else avals
    strong = {aval.strip_weak_type() for aval in avals}
    if len(strong) != 1:
        raise TypeError(
            message(
                "The branches of cond must have results of equal types.",
                *(f"branch {i}: {', '.join(map(str, b.out_avals))}" for i, b in enumerate(branches)),
                fix="Cast or broadcast the results of one branch.",
            )
        )
    return avals[0] if all(aval.weak_type for aval in avals) else strong.pop()


# --- Transforming all branches, so that they still have one type ----------------------------------
# Transformed branches are remembered with the first branch: the branches of an equation live equally long.


def _agree(
    transform: Callable[[Jaxpr, Mask | None], tuple[Any, Mask]], branches: Branches
) -> tuple[tuple[Any, ...], Mask]:
    """Every branch transformed so that all have one mask of results: the union of their masks.

    `transform(branch, wanted)` returns the new branch and its mask, which contains the wanted one.
    """
    found = [transform(branch, None) for branch in branches]
    either = union(*[mask for _, mask in found])
    return tuple(
        new if mask == either else transform(branch, either)[0]
        for branch, (new, mask) in zip(branches, found, strict=True)
    ), either


@cached_on_jaxpr
def _jvp(first: Jaxpr, rest: Branches, nonzero_in: Mask, forward: Forward) -> tuple[Branches, Mask]:
    return _agree(lambda branch, wanted: forward(branch, nonzero_in, wanted), (first, *rest))


@cached_on_jaxpr
def _batch(
    first: Jaxpr, rest: Branches, axis: AxisData, dims: tuple[int | None, ...]
) -> tuple[Branches, Mask]:
    return _agree(lambda branch, wanted: batch_jaxpr(branch, axis, dims, wanted), (first, *rest))


@cached_on_jaxpr
def _transpose(
    first: Jaxpr, rest: Branches, linear: Mask, nonzero_ct: Mask, strong_ct: Mask
) -> tuple[Branches, Mask]:
    def transform(branch: Jaxpr, wanted: Mask | None) -> tuple[Jaxpr, Mask]:
        if wanted is None:
            return transpose_jaxpr(branch, linear, nonzero_ct, strong_ct=strong_ct)
        every, _ = transpose_jaxpr(branch, linear, nonzero_ct, instantiate_all=True, strong_ct=strong_ct)
        return dce_jaxpr(every, wanted, keep_inputs=True)[0], wanted

    return _agree(transform, (first, *rest))


@cached_on_jaxpr
def _linearize(first: Jaxpr, rest: Branches, nonzero_in: Mask) -> Split[Branches]:
    def transform(branch: Jaxpr, wanted: Mask | None) -> tuple[Split[Jaxpr], Mask]:
        split = linearize_jaxpr(branch, nonzero_in, wanted or False)
        return split, split.unknown_out

    return _join_splits(*_agree(transform, (first, *rest)))


@cached_on_jaxpr
def _partial_eval(first: Jaxpr, rest: Branches, unknown: Mask) -> Split[Branches]:
    def transform(branch: Jaxpr, wanted: Mask | None) -> tuple[Split[Jaxpr], Mask]:
        split = partial_eval_jaxpr(branch, unknown, wanted or False)
        return split, split.unknown_out

    return _join_splits(*_agree(transform, (first, *rest)))


@cached_on_jaxpr
def _checkify(first: Jaxpr, rest: Branches, kinds: Kinds) -> tuple[Branches, tuple[Site, ...]]:
    """Every branch with a report on the checks of all branches, in which the checks of the others have not failed."""
    found = [checkify_jaxpr(branch, kinds) for branch in (first, *rest)]

    def reporting(k: int, *args: Any) -> list[Any]:
        outs: list[Any] = []
        report: Report | None = None
        for i, branch in enumerate(found):
            mine = nothing_failed(branch.sites) if branch.sites else None
            if i == k:
                outs, mine = branch.split(eval_jaxpr(branch.jaxpr, args))
            report = mine if report is None else report if mine is None else report.then(mine)
        return outs if report is None else [*outs, *report.arrays()]

    new = tuple(
        trace_closed(functools.partial(reporting, k), first.in_avals, what="checkify")
        for k in range(len(found))
    )
    return new, tuple(site for branch in found for site in branch.sites)


def _join_splits(splits: Sequence[Split[Jaxpr]], unknown_out: Mask) -> Split[Branches]:
    """One split for all branches.

    Operands that any branch keeps for its unknown half are residuals as they are. Computed residuals of equal
    type share a slot between branches; a branch with fewer of them fills the slot with zeros.
    """
    inputs = sorted({k for split in splits for kind, k in split.residuals if kind == "in"})
    slots: dict[tuple[ShapedArray, int], int] = {}
    placed = [_place(_residual_avals(split), slots) for split in splits]
    slot_avals = [aval for aval, _ in slots]
    return Split(
        tuple(_known_half(s, slot, slot_avals) for s, slot in zip(splits, placed, strict=True)),
        tuple(_unknown_half(s, slot, inputs, slot_avals) for s, slot in zip(splits, placed, strict=True)),
        unknown_out,
        (*(("in", k) for k in inputs), *(("out", k) for k in range(len(slots)))),
    )


def _residual_avals(split: Split[Jaxpr]) -> tuple[ShapedArray, ...]:
    avals = split.known.out_avals
    return avals[len(avals) - split.num_residual_outputs :]


def _place(avals: Sequence[ShapedArray], slots: dict[tuple[ShapedArray, int], int]) -> list[int]:
    """A slot for each residual of a branch: the n-th of a type goes to the n-th slot of that type."""
    seen: Counter[ShapedArray] = Counter()
    placed: list[int] = []
    for aval in map(ShapedArray.strip_weak_type, avals):
        placed.append(slots.setdefault((aval, seen[aval]), len(slots)))
        seen[aval] += 1
    return placed


def _known_half(split: Split[Jaxpr], placed: Sequence[int], slot_avals: Sequence[ShapedArray]) -> Jaxpr:
    known = split.known
    n = len(known.outvars) - len(placed)
    mine = dict(zip(placed, known.outvars[n:], strict=True))
    missing = [slot for slot in range(len(slot_avals)) if slot not in mine]
    fill = _zeros_jaxpr([], [slot_avals[slot] for slot in missing])
    mine.update(zip(missing, fill.outvars, strict=True))
    outs = [*known.outvars[:n], *(mine[slot] for slot in range(len(slot_avals)))]
    return Jaxpr(known.invars, [*known.eqns, *fill.eqns], outs, known.name)


def _unknown_half(
    split: Split[Jaxpr], placed: Sequence[int], inputs: Sequence[int], slot_avals: Sequence[ShapedArray]
) -> Jaxpr:
    unknown = split.unknown
    n = len(split.residuals)
    mine = {
        source if source[0] == "in" else ("out", placed[source[1]]): var
        for source, var in zip(split.residuals, unknown.invars[:n], strict=True)
    }
    in_avals = split.known.in_avals
    residuals = [mine.get(("in", k)) or Var(in_avals[k]) for k in inputs]
    residuals += [mine.get(("out", k)) or Var(aval) for k, aval in enumerate(slot_avals)]
    return with_invars(unknown, [*residuals, *unknown.invars[n:]])


def _zeros_jaxpr(in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """A new jaxpr that ignores its inputs and returns zeros."""
    return trace_closed(lambda *_: [zeros(aval) for aval in out_avals], in_avals, what="cond")


# --- Elements that go different ways --------------------------------------------------------------
# Note [Elements that do not take a branch]
# With a batched index every branch runs on the whole batch, and each element selects its result. Elements that do not
# take a branch pass through it, too. There they must neither run forever nor put a NaN into a gradient:
# - No tangent enters a branch at elements that do not take it, and no cotangent leaves the branch there
#   (`replace_inactive`). A 0 * inf that arises inside is dropped, not added.
# - A branch of elementwise operations fuses with the selection, and runs as it is.
# - Any other branch runs only if some element takes it, and copies of that element pass through it in place of the
#   others (`fill_inactive`). So the branch never sees values that it was to be protected from, and a loop in it ends.
# A collective over the batched axis needs every element: a branch that only some elements take cannot hold one.

_FUSED = (Elementwise, SelectN, ConvertElementType, BroadcastInDim, StopGradient)


def _check_collectives(axis: AxisData, branches: Branches) -> None:
    holders = [k for k, branch in enumerate(branches) if axis.name in branch.axis_names]
    if holders:
        raise ValueError(
            message(
                "A branch that some elements of a mapped axis take cannot hold a collective over that axis.",
                f"axis {axis.name!r} of {axis.size} elements; branches with a collective: {holders}",
                fix="Compute the collective before the cond, or choose by a value all elements share "
                f"(lax.pmax(pred, {axis.name!r})).",
            )
        )


def _batch_by_element(
    axis: AxisData, args: Values, dims: Sequence[int | None], branches: Branches
) -> tuple[list[Any], list[int]]:
    index, *operands = [
        x if d is None else array_ops.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True)
    ]
    batched = tuple(dim is not None for dim in dims[1:])
    cases = [
        _run_elements(
            b, axis, batched, eq(index, np.int32(k)), [_reused(x) for x in operands] if k else operands
        )
        for k, b in enumerate(branches)
    ]
    outs = [select_n(along_first(index, ys[0]), *ys) for ys in zip(*cases, strict=True)]
    return outs, [0] * len(outs)


def _handed_on(branches: Branches) -> list[int | None]:
    """For each result the operand that every branch returns in this place; None if they do not return the same one."""
    places = [{v: i for i, v in enumerate(branch.invars)} for branch in branches]
    columns = zip(*(branch.outvars for branch in branches), strict=True)
    found = [
        {place.get(v) if type(v) is Var else None for v, place in zip(column, places, strict=True)}
        for column in columns
    ]
    return [each.pop() if len(each) == 1 else None for each in found]


def _batch_without(
    cond: Cond, axis: AxisData, args: Any, dims: Any, branches: Branches, sources: Sequence[int | None]
) -> tuple[list[Any], list[int | None]]:
    """The batched results. An operand that every branch returns stays as it is, once if all elements share it."""
    kept = [source is None for source in sources]
    fewer = [Jaxpr(b.invars, b.eqns, where_true(b.outvars, kept), b.name) for b in branches]
    outs, out_dims = map(iter, cond.batch(axis, args, dims, branches=tuple(fewer)))
    each = [(next(outs), next(out_dims)) if i is None else (args[1 + i], dims[1 + i]) for i in sources]
    return [y for y, _ in each], [dim for _, dim in each]


def _reused(x: Any) -> Any:
    """An operand for one more branch. Each element takes one branch only, so branches may draw from the same keys."""
    return random_clone_p.bind(x) if holds_keys(aval_of(x)) else x


def _run_elements(branch: Jaxpr, axis: AxisData, batched: Mask, taken: Any, operands: Values) -> list[Any]:
    """Results of a branch over the batch, right for the elements that take it."""
    if axis.size == 0 or all(isinstance(eqn.primitive, _FUSED) for eqn in branch.eqns):
        return _run_fused(branch, axis, batched, taken, operands)
    any_taken = reduce_or_p.bind(taken, axes=(0,))
    return cond_p.bind(
        select_n(any_taken, np.int32(0), np.int32(1)),
        taken,
        *operands,
        branches=_guarded(branch, axis, batched),
    )


def _run_fused(branch: Jaxpr, axis: AxisData, batched: Mask, taken: Any, operands: Values) -> list[Any]:
    # An operand that all elements share is repeated, so that the cotangents of its copies are masked before their sum.
    repeated = [
        not b and dtypes.is_inexact(v.aval.dtype) for v, b in zip(branch.invars, batched, strict=True)
    ]
    operands = [
        array_ops.broadcast_axis(x, axis.size, 0) if r else x for x, r in zip(operands, repeated, strict=True)
    ]
    batched = tuple(b or r for b, r in zip(batched, repeated, strict=True))
    operands = [replace_inactive(taken, x, x) if b else x for x, b in zip(operands, batched, strict=True)]
    return eval_jaxpr(_on_batch(branch, axis, batched), operands)


def _on_batch(branch: Jaxpr, axis: AxisData, batched: Mask) -> Jaxpr:
    """The branch over batches, all of whose results are batched."""
    dims = tuple(0 if b else None for b in batched)
    return batch_jaxpr(branch, axis, dims, (True,) * len(branch.outvars))[0]


@cached_on_jaxpr
def _guarded(branch: Jaxpr, axis: AxisData, batched: Mask) -> Branches:
    """Two branches, whose operands are a mask of elements and those of `branch`: one gives zeros, one runs `branch`."""
    whole = _on_batch(branch, axis, batched)

    def protected(taken: Any, *operands: Any) -> list[Any]:
        entering = [fill_inactive(taken, x) if b else x for x, b in zip(operands, batched, strict=True)]
        return eval_jaxpr(whole, entering)

    in_avals = [ShapedArray((axis.size,), BOOL), *whole.in_avals]
    return _zeros_jaxpr(in_avals, whole.out_avals), trace_closed(protected, in_avals, what="vmap")
