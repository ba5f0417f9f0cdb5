"""Batches of no elements: `vmap` over an axis of length 0.

Batch rules fold the batch axis into other axes, take one element in the place of all, and size windows by it: much of
that has no meaning for an axis of length 0. The results are empty and depend on no operand, so `batching.py` does not
ask the rule of an operation that does nothing but compute them. Primitives that hold jaxprs, and functions with rules
of the user's, keep their own rules, which know which results are batched; the operations inside come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.array_ops import array_ops
from didax.core.avals import aval_of
from didax.core.primitive import Primitive, infer


def only_computes_elements(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """True for an operation whose results are numbers, each computed from numbers, and that does nothing else."""
    holds_functions = primitive.dce is not None or primitive.stage is not None
    if holds_functions or primitive.named_axes(params) or primitive.effects(params):
        return False
    return all(aval.physical is aval for aval in infer(primitive, tuple([aval_of(x) for x in args]), params))


def empty_batch(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
    """The results for a batch of no elements, and their batch axes."""
    avals = infer(primitive, tuple([aval_of(x) for x in args]), params)
    outs = [array_ops.zeros(aval.with_axis(0, 0)) for aval in avals]
    return (outs, [0] * len(outs)) if primitive.multiple_results else (outs[0], 0)
