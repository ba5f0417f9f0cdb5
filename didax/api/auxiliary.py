"""`has_aux`: functions that return auxiliary data beside the result that is differentiated.

    value_and_grad(f, has_aux=True)(x) == ((f(x)[0], f(x)[1]), gradient of f(x)[0])

The data is carried around the transformation: it has no tangents, and may be any pytree. Read next: `autodiff.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from didax.api.flat import FlatFunction, as_array
from didax.api.tangents import type_text
from didax.core import pytree
from didax.core.errors import message
from didax.core.source import describe_function
from didax.core.tracing import current_trace
from didax.transforms.jvp import JVPTracer
from didax.transforms.linearize import LinearizeTracer


class AuxFunction(FlatFunction):
    """The flat function of an `f` that returns a pair (result, aux): returns the result's leaves, and keeps the aux."""

    __slots__ = ("_aux_leaves", "_aux_tree")

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.unflatten(self.in_tree, leaves)
        pair = self.f(*args, **kwargs)
        if not isinstance(pair, tuple | list) or len(cast("Sequence[Any]", pair)) != 2:
            raise TypeError(
                message(
                    f"With has_aux=True the function given to {self.caller} returns a pair (result, auxiliary data).",
                    f"function: {describe_function(self.f)}",
                    f"returned: {type_text(pair)}",
                    fix="Return (result, aux), or drop has_aux=True.",
                )
            )
        out, self.out_tree = pytree.flatten(pair[0])
        data, self._aux_tree = pytree.flatten(pair[1])
        self._aux_leaves = [_primal(x) for x in data]
        return out

    def aux(self) -> Any:
        """The auxiliary data, with tracers of the finished transformation replaced by their primals."""
        return pytree.unflatten(self._aux_tree, self._aux_leaves)


def _primal(x: Any) -> Any:
    """The primal of a tracer of the transformation, whose tracers nothing may hold when it ends; others stay."""
    ours = isinstance(x, JVPTracer | LinearizeTracer) and x.owner is current_trace()
    return as_array(x.primal) if ours else x
