"""`linear_transpose`: the transpose of a function that is linear in all of its arguments.

    f(x) = A x    becomes    f_t(ct) = (A^T ct,)

The function is staged for the types of its arguments, and its jaxpr is walked backwards; no primal point is needed.
What does not depend on the arguments is computed while it is staged, as in other derivatives.
Read next: `transforms/transpose.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.api.flat import FlatFunction, check_callable, flatten_arguments, leaf_avals
from didax.api.tangents import check_cotangents, flatten_cotangents, materialise
from didax.core import dtypes, pytree
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import eval_jaxpr
from didax.core.primitive import Primitive
from didax.core.tracing import Tracer, set_current_trace
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.staging import StagingTrace, check_only_read, stage_program, values_of
from didax.transforms.transpose import backward_jaxpr


class _StagingTrace(StagingTrace):
    """Stages what depends on the arguments; the rest is computed at once, so that Python may look at it."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if any(isinstance(x, Tracer) and x.owner is self for x in args):
            return super().process(primitive, args, params)
        with set_current_trace(self.parent):
            return primitive.bind(*args, **params)


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[str] = ()
) -> Callable[..., Any]:
    """The transpose of a function that is linear in all of its arguments.

    `primals` give shapes and dtypes only (arrays or `ShapeDtypeStruct`s). The result maps cotangents, in the structure
    of the function's result, to a tuple of cotangents of the arguments. It raises NonlinearError, a TypeError, if the
    function is not linear.

    >>> import didax as dx
    >>> f_t = dx.linear_transpose(lambda x: 3.0 * x, 1.0)
    >>> float(f_t(2.0)[0])
    6.0
    """
    check_callable("linear_transpose", fun)
    _, tree = flatten_arguments(primals, {})
    avals = leaf_avals("linear_transpose", fun, primals, {})
    if not all(dtypes.is_inexact(a.dtype) for a in avals):
        raise TypeError(
            message(
                "linear_transpose takes floating-point or complex arguments.",
                f"arguments: {', '.join(map(str, avals))}",
                fix="Close over integer arguments.",
            )
        )
    flat = FlatFunction(fun, tree, "linear_transpose")
    staged = stage_program(flat, avals, function=fun, what="linear_transpose", kind=_StagingTrace)
    check_only_read("linear_transpose", staged.captured, staged.num_written)
    jaxpr, consts = staged.jaxpr, values_of(staged.captured)
    out_tree = flat.out_tree
    # After a jvp, calls and loops hold both what depends on the arguments and what does not. The latter is taken out
    # of them, because the transpose rule of a whole call would not find it linear.
    linear = (False,) * len(consts) + (True,) * len(avals)
    split = partial_eval_jaxpr(jaxpr, linear, True)

    @api_boundary
    def transposed(cotangents: Any) -> Any:
        rule = "The transposed function takes cotangents in the structure of the function's result."
        cts = flatten_cotangents(rule, cotangents, out_tree)
        cts = check_cotangents("linear_transpose", out_tree, jaxpr.out_avals, cts)
        residuals = split.residual_values(consts, eval_jaxpr(split.known, consts))
        known = [False] * len(residuals)
        ct_xs = backward_jaxpr(split.unknown, [*known, *[True] * len(avals)], residuals, cts)
        return pytree.unflatten(tree, [materialise(ct) for ct in ct_xs])[0]

    return transposed
