"""What the rules of a primitive are written with.

Families make elementwise primitives of two to four lines (`unary`, `binary`), `LinearUnary` the jvp of a linear one. A
jvp rule meets `Zero`s, tangents that are known to vanish; a transpose rule tells its linear operands with `is_undef`;
a batch rule is given an `AxisData`; a lowering rule writes StableHLO into a `FunctionContext`, from and to `Value`s, or
is written as a function of arrays: `lower_as`. Read next: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from didax.core.basis import Zero, add_tangents, instantiate
from didax.core.errors import RuleTypeError, message
from didax.primitives.families import Elementwise, binary, unary
from didax.primitives.shape import LinearUnary
from didax.transforms.batching import AxisData, move_batch_axis
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import Undef, is_undef
from didax.xla.lowering import call
from didax.xla.text import FunctionContext, Value

__all__ = [
    "AxisData", "Elementwise", "FunctionContext", "LinearUnary", "Undef", "Value", "Zero", "add_tangents", "binary",
    "instantiate", "is_undef", "lower_as", "move_batch_axis", "unary",
]  # fmt: skip


def lower_as(f: Callable[..., Any]) -> Callable[..., Any]:
    """A `lower` rule for a class: the operations that `f(*operands, **params)`, a function of arrays, is made of.

    `f` returns an array, or a list of them where the primitive has `multiple_results`. It captures no arrays.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax.extend.core import Primitive
    >>> class Hypot(Primitive):
    ...     def type(self, x, y):
    ...         return x
    ...     lower = lower_as(lambda x, y: dnp.sqrt(x * x + y * y))
    >>> float(dx.jit(Hypot("hypotenuse").bind)(3.0, 4.0))
    5.0
    """

    def lower(self: Any, ctx: FunctionContext, *operands: Value, **params: Any) -> Any:
        def flat(*args: Any) -> list[Any]:
            out = f(*args, **params)
            return list(out) if self.multiple_results else [out]

        jaxpr, captured = trace_to_jaxpr(flat, [x.aval for x in operands], function=f, what="lowering")
        if captured:
            raise RuleTypeError(
                message(
                    f"The function that primitive {self.name!r} is lowered as captures arrays.",
                    f"captured: {', '.join(str(getattr(x, 'aval', type(x))) for x in captured)}",
                    fix="Make them operands of the primitive, or compute them inside.",
                )
            )
        outs = call(ctx, jaxpr, operands)
        return outs if self.multiple_results else outs[0]

    return lower
