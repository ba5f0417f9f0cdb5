"""The linear functions that `linearize` and `vjp` return beside the results.

    f_lin(x_dot) = df(x) x_dot     runs the tape of linear steps forward
    f_vjp(ct)    = df(x)^T ct      walks it backward

Both check what the user passes and hand it to the tape. Read next: `linear_pytrees.py` (they are pytrees, too),
`transforms/linearize.py` (`LinearProgram`), `transforms/transpose.py` (`backward`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.api.flat import argument_names, flatten_arguments
from didax.api.linear_pytrees import LinearFunction
from didax.api.tangents import check_cotangents, check_tangents, flatten_cotangents, materialise, mismatch
from didax.core import pytree
from didax.core.array_ops import Zero, instantiate
from didax.core.errors import api_boundary
from didax.transforms.linearize import LinearProgram
from didax.transforms.transpose import backward


class LinearizedFunction(LinearFunction):
    """The linear half of `linearize`: tangents of the arguments to tangents of the results."""

    __slots__ = ("_fun",)

    def __init__(self, program: LinearProgram, tree: Any, avals: Any, inexact: Any, out_tree: Any, fun: Any):
        super().__init__(program, tree, avals, inexact, out_tree)
        self._fun = fun

    @api_boundary
    def __call__(self, *tangents: Any) -> Any:
        dots, dot_tree = flatten_arguments(tangents, {})
        if dot_tree != self._tree:
            rule = "The linearized function takes one tangent for each argument, in the arguments' structure."
            raise mismatch(rule, self._args(), tangents, "Pass tangents in the structure of the primals.")
        dots = check_tangents(
            "linearize", self._avals, dots, lambda i: argument_names(self._fun, self._args(), {})[i]
        )
        live = [instantiate(t) for t, inx in zip(dots, self._inexact, strict=True) if inx]
        return pytree.unflatten(self._out_tree, [materialise(t) for t in self.program.apply(live)])

    def _args(self) -> Any:
        """Something in the structure of the arguments."""
        return pytree.unflatten(self._tree, range(len(self._avals)))[0]


class VJPFunction(LinearFunction):
    """The reverse-mode half of `vjp`: cotangents of the results to cotangents of the arguments."""

    __slots__ = ("_out_avals",)
    static_fields = (*LinearFunction.static_fields, "_out_avals")

    def __init__(
        self, program: LinearProgram, tree: Any, avals: Any, inexact: Any, out_tree: Any, out_avals: Any
    ):
        super().__init__(program, tree, avals, inexact, out_tree)
        self._out_avals = out_avals

    @api_boundary
    def __call__(self, cotangents: Any) -> Any:
        rule = "The vjp takes cotangents in the structure of the function's result."
        cts = flatten_cotangents(rule, cotangents, self._out_tree)
        cts = check_cotangents("vjp", self._out_tree, self._out_avals, cts)
        return pytree.unflatten(self._tree, self.flat(cts))[0]

    def flat(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of all leaves of the arguments, as arrays of the leaves' types (float0 zeros for integers)."""
        program = self.program
        found = iter(backward(program.invars, program.eqns, program.outs, cts))
        return [
            materialise(next(found) if inx else Zero(a.tangent()))
            for a, inx in zip(self._avals, self._inexact, strict=True)
        ]
