"""What a primitive's rules must return: values of the types that the operands and the results determine.

    jvp        the tangent of a result has the tangent type of the result
    transpose  the cotangent of an operand has the type of the operand
    batch      one element of a batched result has the type that the type rule infers from one element of each operand

A wrong shape that is passed on becomes a wrong number, or an error far from its cause. The interpreters compare
interned types, which costs next to nothing, and ask here only where the types are not the same object. Batched results
are checked under DIDAX_CHECK=1, as their types have to be inferred first.
Read next: `jvp.py`, `transpose.py`, `batching.py`, which ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import RuleTypeError, message
from didax.core.primitive import Primitive, infer


def check_type(primitive: Primitive, rule: str, what: str, found: ShapedArray, wanted: ShapedArray) -> None:
    """RuleTypeError unless the two types agree in shape and dtype; either may be weak."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise _wrong(primitive, rule, f"{what} has the wrong type.", f"returned: {found}, wanted: {wanted}")


def check_batch(
    primitive: Primitive,
    size: int,
    operands: Sequence[ShapedArray],
    outs: Sequence[Any],
    dims: Sequence[int | None],
    params: dict[str, Any],
) -> None:
    """RuleTypeError unless one element of each result has the type that the type rule infers for it.

    `operands` are the types of one element of each operand.
    """
    if primitive.type is None:  # functions of Python, whose rules are checked where they run
        return
    wanted = infer(primitive, tuple(operands), params)
    if len(outs) != len(wanted) or len(dims) != len(wanted):
        facts = f"returned: {len(outs)} results and {len(dims)} axes, wanted: {len(wanted)}"
        raise _wrong(primitive, "batch", "There are too many or too few batched results.", facts)
    for i, (y, dim, aval) in enumerate(zip(outs, dims, wanted, strict=True)):
        found = aval_of(y)
        if dim is None:
            check_type(primitive, "batch", f"Result {i}, which is not batched,", found, aval)
            continue
        batched = (*aval.shape[:dim], size, *aval.shape[dim:])
        if not 0 <= dim <= aval.ndim or found.shape != batched or found.dtype != aval.dtype:
            facts = f"returned: {found} with its batch axis at {dim}, wanted: {size} elements of {aval}"
            raise _wrong(primitive, "batch", f"Batched result {i} has the wrong type.", facts)


def _wrong(primitive: Primitive, rule: str, what: str, facts: str) -> RuleTypeError:
    fix = f"This is a fault of the `{rule}` method of {type(primitive).__name__}, not of the program that used it."
    return RuleTypeError(message(what, f"rule: {rule} of {primitive.name!r}", facts, fix=fix))
