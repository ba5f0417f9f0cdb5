"""Programs over any size as programs over one padded size: `f32[n]` becomes `f32[64]` beside the number n.

    pad_jaxpr({ lambda ; a:f32[n].          let b:f32[n]  = exp a   c:f32[] = reduce_sum b             in (c,) }, n=64)
            = { lambda ; a:f32[64] n:i32[]. let b:f32[64] = exp a   c:f32[] = reduce_sum b where i < n in (c,) }

An axis of a length that depends on symbolic sizes has, in the padded program, the largest length that this can be. What
lies beyond the real length is arbitrary, and no rule lets it into what lies before. A primitive says how by its rule
`padded`, which gets a `PaddedEqn` and the operands. An equation without symbolic lengths is bound as it is; any other
equation of a primitive without this rule is refused by name. Derivatives and batches are taken before this pass.
Read next: `primitives/padded.py`, the rules; `primitives/real_lengths.py`, what they are written with;
`docs/design/buckets.md`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import LONGEST, Dim, Scope, Size, bounds, evaluate, is_symbolic, variable, variables
from didax.core.errors import MissingRuleError, RuleError, message
from didax.core.given import given_by
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.primitive import Primitive
from didax.core.rule_types import as_list
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import interpret, trace_closed

Bucket = tuple[tuple[str, int], ...]  # the padded size of each name
NUMBER = ShapedArray((), np.dtype(np.int32))  # the type of a real size in a program


class Lengths:
    """The padded sizes of a program, and its real ones as numbers.

    Args:
      bucket: the padded size of each name; real ones are from 1 to that.
      numbers: the real sizes, int32 scalars in the program.
    """

    def __init__(self, bucket: Bucket, numbers: Sequence[Any] = ()):
        self.bucket = bucket
        self.numbers = list(numbers)
        self.found: dict[Size, Any] = {}  # sizes that are computed already
        self._variables: dict[Scope, dict[str, Size]] = {}

    def most(self, size: Size) -> int:
        """The largest value of a size in the bucket, which is the length of a padded axis."""
        if not isinstance(size, Dim):
            return size
        high = bounds(self.smaller(size))[1]
        if high > LONGEST:
            rule = "A length that depends on padded sizes has to stay below 2**31."
            facts = f"length: {size}, up to {high}, with {_sizes_text(self.bucket)}"
            raise OverflowError(message(rule, facts, fix="Choose smaller sizes in bucket=."))
        return max(int(high), 0)

    def shape(self, shape: Sequence[Size]) -> tuple[int, ...]:
        """A shape with the padded lengths."""
        return tuple(map(self.most, shape))

    def aval(self, aval: ShapedArray) -> ShapedArray:
        """A type with the padded lengths."""
        return aval.update(shape=self.shape(aval.shape)) if any(map(is_symbolic, aval.shape)) else aval

    def smaller(self, size: Dim) -> Size:
        """The size, over variables that carry the bounds of the bucket and the decisions of the trace."""
        known = self._variables.get(size.scope)
        if known is None:
            scope = Scope(dict(self.bucket))
            known = self._variables[size.scope] = {name: variable(name, scope) for name, _ in self.bucket}
            scope.constraints = tuple(
                [c._replace(size=evaluate(c.size, known)) for c in size.scope.constraints]
            )
        return evaluate(size, known)


def _sizes_text(bucket: Bucket) -> str:
    return ", ".join(f"{name} <= {n}" for name, n in bucket)


class PaddedEqn:
    """An equation over symbolic lengths, whose operands are padded: what a `padded` rule works with.

    `primitives/real_lengths.py` has the operations. Where they take an axis, they take one of a symbolic or of a plain
    length.
    """

    def __init__(self, eqn: Eqn, lengths: Lengths):
        self.eqn = eqn
        self.lengths = lengths
        self.primitive: Primitive = eqn.primitive
        self.avals = [x.aval for x in eqn.invars]  # with symbolic lengths, as those of the results
        self.out_avals = [v.aval for v in eqn.outvars]

    number = given_by("didax.primitives.real_lengths")
    """number(size): a real size as an int32 scalar of the program."""
    as_number = given_by("didax.primitives.real_lengths")
    """as_number(number, aval): such a scalar in the dtype of a type, weak where that is weak."""
    real = given_by("didax.primitives.real_lengths")
    """real(x, aval, axes, fill): `x`, with a scalar for each element beyond the real lengths of these axes."""
    within = given_by("didax.primitives.real_lengths")
    """within(shape, axes): a mask of the padded shape, true within the real lengths of these axes."""
    select = given_by("didax.primitives.real_lengths")
    """select(which, x, y): `x` where `which` holds, else `y`; scalars stretch."""
    lowest = given_by("didax.primitives.real_lengths")
    """lowest(dtype): the least value in the order of `top_k`; for floats, the NaN with the sign bit set."""
    fit = given_by("didax.primitives.real_lengths")
    """fit(x, axis, length, step=1): `length` elements along an axis; arbitrary ones where `x` has ended."""
    window = given_by("didax.primitives.real_lengths")
    """window(x, axis, start, length): `length` elements from a real position on; arbitrary ones where `x` has ended."""
    flip = given_by("didax.primitives.real_lengths")
    """flip(x, axis, size): the elements before a real size in reverse order."""
    insert = given_by("didax.primitives.real_lengths")
    """insert(x, part, axis, start): `x` with a part overwritten, which has to fit."""
    slice_at = given_by("didax.primitives.real_lengths")
    """slice_at(x, starts, sizes): a part at positions that are numbers of the program, which has to fit."""
    branch = given_by("didax.primitives.real_lengths")
    """branch(holds, taken, skipped, operands): the results of one of two jaxprs."""
    reshape = given_by("didax.primitives.real_lengths")
    """reshape(x, old, new): the elements of a real shape in row-major order, in another real shape."""
    clamp = given_by("didax.primitives.real_lengths")
    """clamp(starts, bounds): positions, moved up to 0 and down to their bounds."""
    clamp_all = given_by("didax.primitives.real_lengths")
    """clamp_all(indices, bounds): the same for index vectors, along the last axis of an array."""
    below = given_by("didax.primitives.real_lengths")
    """below(indices, bounds, others): index vectors, with other numbers for those that exceed their bound."""
    moved_out = given_by("didax.primitives.real_lengths")
    """moved_out(indices, aval, axes, others): the same for those beyond the real lengths of these axes."""

    def most(self, size: Size) -> int:
        """The padded length for a size."""
        return self.lengths.most(size)

    def shape(self, shape: Sequence[Size]) -> tuple[int, ...]:
        """The padded shape for a shape."""
        return self.lengths.shape(shape)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The padded shape of the only result."""
        return self.shape(self.out_avals[0].shape)

    def inner(self, jaxpr: Jaxpr) -> Jaxpr:
        """A jaxpr that the equation holds, padded: it takes `numbers` after its other inputs."""
        return pad_jaxpr(jaxpr, self.lengths.bucket)

    @property
    def numbers(self) -> list[Any]:
        """The real sizes, for `inner` jaxprs."""
        return self.lengths.numbers

    def refuse(self, why: str, *facts: str) -> MissingRuleError:
        """The error of an equation that cannot be computed on padded arrays."""
        return refused(self.eqn, why, *facts)


def refused(eqn: Eqn, why: str, *facts: str) -> MissingRuleError:
    """The error of an equation that cannot be computed on padded arrays: `name` and why, as a sentence."""
    shapes = [aval.shape for aval in (*[x.aval for x in eqn.invars], *[v.aval for v in eqn.outvars])]
    names = variables([n for shape in shapes for n in shape]) or _names_in(eqn.params)
    operands = ", ".join(str(x.aval) for x in eqn.invars)
    where = [] if eqn.source is None else [f"line: {eqn.source}"]
    facts = f"operation: {eqn.primitive.name} of {operands or 'no arrays'}", *facts, *where
    named = " and ".join(names)
    fix = f"Take {named} out of bucket=, or do this outside of the jitted function."
    return MissingRuleError(
        message(f"jit with bucket= cannot pad these axes: {eqn.primitive.name} {why}.", *facts, fix=fix)
    )


def _names_in(params: Mapping[str, Any]) -> list[str]:
    found: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, tuple):
            list(map(visit, cast("tuple[Any, ...]", value)))
        elif isinstance(value, ShapedArray):
            found.extend(value.shape)
        elif isinstance(value, Jaxpr):
            for eqn in value.eqns:
                list(map(visit, [*[v.aval for v in eqn.outvars], *eqn.params.values()]))
        else:
            found.append(value)

    list(map(visit, params.values()))
    return variables(found)


def depends_on_sizes(eqn: Eqn) -> bool:
    """Whether a type or a parameter of an equation has a symbolic size."""
    return any(map(_has_sizes, [x.aval for x in (*eqn.invars, *eqn.outvars)])) or any(
        map(_has_sizes, eqn.params.values())
    )


def _has_sizes(value: Any) -> bool:
    if isinstance(value, ShapedArray):
        return any(map(is_symbolic, value.shape))
    if isinstance(value, Jaxpr):
        return jaxpr_depends_on_sizes(value)
    if isinstance(value, tuple):
        return any(map(_has_sizes, cast("tuple[Any, ...]", value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_has_sizes(getattr(value, field.name)) for field in dataclasses.fields(value))
    return is_symbolic(value)


@cached_on_jaxpr
def jaxpr_depends_on_sizes(jaxpr: Jaxpr) -> bool:
    """Whether anything in a jaxpr has a symbolic size."""
    return any(map(_has_sizes, jaxpr.in_avals)) or any(map(depends_on_sizes, jaxpr.eqns))


@cached_on_jaxpr
def pad_jaxpr(jaxpr: Jaxpr, bucket: Bucket) -> Jaxpr:
    """The jaxpr over padded lengths; the real sizes, int32 scalars in the order of `bucket`, are its last inputs."""
    count = len(jaxpr.invars)
    avals = [*map(Lengths(bucket).aval, jaxpr.in_avals), *[NUMBER] * len(bucket)]

    def run(*args: Any) -> list[Any]:
        return interpret(jaxpr, args[:count], functools.partial(_on_padded, Lengths(bucket, args[count:])))

    new = trace_closed(run, avals, what="jit with bucket=", name=jaxpr.name)
    left = next(filter(depends_on_sizes, new.eqns), None)
    if left is not None:
        raise refused(left, "has a parameter that depends on their length")
    return new


def _on_padded(lengths: Lengths, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation for padded operands."""
    primitive = eqn.primitive
    if not depends_on_sizes(eqn):
        return as_list(primitive, primitive.bind(*operands, **eqn.params))
    if primitive.padded is None:
        raise refused(eqn, "has no rule for them")
    outs = as_list(primitive, primitive.padded(PaddedEqn(eqn, lengths), *operands, **eqn.params))
    return [_of_type(primitive, y, lengths.aval(v.aval)) for y, v in zip(outs, eqn.outvars, strict=True)]


def _of_type(primitive: Primitive, y: Any, wanted: ShapedArray) -> Any:
    """A result of a padded rule, weakly typed as the result of the equation is."""
    found = aval_of(y)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        rule = f"The padded rule of {primitive.name} returns results of the padded types."
        raise RuleError(message(rule, f"returned: {found}, wanted: {wanted}"))
    return y if found.weak_type == wanted.weak_type else array_ops.convert(y, wanted.dtype, wanted.weak_type)
