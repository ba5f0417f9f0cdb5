"""The linear functions that `linearize` and `vjp` return beside the results.

    f_lin(x_dot) = df(x) x_dot     runs the tape of linear steps forward
    f_vjp(ct)    = df(x)^T ct      walks it backward

Both check what the user passes and hand it to the tape. Read next: `linear_pytrees.py` (they are pytrees, too),
`transforms/linearize.py` (`LinearProgram`), `transforms/transpose.py` (`backward`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from didax.api.flat import argument_names, flatten_arguments
from didax.api.linear_pytrees import LinearFunction
from didax.api.tangents import check_cotangents, check_tangents, flatten_cotangents, materialise, mismatch
from didax.core import pytree
from didax.core.array_ops import Zero, instantiate
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import Eqn, Var
from didax.core.ref import Ref
from didax.transforms.linearize import LinearProgram
from didax.transforms.transpose import backward


class _Mark:
    """Says what becomes of a cotangent; it has no state."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class GradValue(_Mark):
    """Asks `with_refs` of a vjp for a cotangent.

    >>> import didax as dx, didax.numpy as dnp
    >>> y, f_vjp = dx.vjp(lambda w, b: w * 3.0 + b, 2.0, 5.0)
    >>> total = dx.new_ref(dnp.float32(10.0))
    >>> f_vjp.with_refs(dx.ad.GradValue(), total)(1.0)
    (Array(3., dtype=float32, weak_type=True), GradRef())
    """


class DontWant(_Mark):
    """Tells `with_refs` of a vjp not to compute a cotangent.

    >>> import didax as dx
    >>> y, f_vjp = dx.vjp(lambda w, x: w * x, 2.0, 5.0)
    >>> f_vjp.with_refs(dx.ad.GradValue(), dx.ad.DontWant())(1.0)  # the data needs no gradient
    (Array(5., dtype=float32, weak_type=True), DidntWant())
    """


class GradRef(_Mark):
    """Stands for a cotangent that was added to a Ref.

    >>> import didax as dx, didax.numpy as dnp
    >>> total = dx.new_ref(dnp.float32(0.0))
    >>> for x in [1.0, 2.0, 3.0]:  # gradients of three batches, added in place
    ...     y, f_vjp = dx.vjp(lambda w: w * x, 2.0)
    ...     (ct,) = f_vjp.with_refs(total)(1.0)
    >>> ct, float(total[...])
    (GradRef(), 6.0)
    """


class DidntWant(_Mark):
    """Stands for a cotangent that was not computed.

    >>> import didax as dx
    >>> y, f_vjp = dx.vjp(lambda w, x: w * x, 2.0, 5.0)
    >>> cts = f_vjp.with_refs(dx.ad.GradValue(), dx.ad.DontWant())(1.0)
    >>> [None if isinstance(ct, dx.ad.DidntWant) else float(ct) for ct in cts]
    [5.0, None]
    """


pytree.register_node(GradRef, lambda _: ((), None), lambda _, children: GradRef())
pytree.register_node(DidntWant, lambda _: ((), None), lambda _, children: DidntWant())


def _given(mark: Any, ct: Any) -> Any:
    """What is returned of a cotangent."""
    if isinstance(mark, Ref):
        if type(ct) is not Zero:
            mark[...] += ct
        return GradRef()
    return DidntWant() if isinstance(mark, DontWant) else materialise(ct)


def depending_on(eqns: Sequence[Eqn], variables: Sequence[Var]) -> list[Eqn]:
    """The equations whose results depend on these variables."""
    reached, kept = set(variables), list[Eqn]()
    for eqn in eqns:
        if any(x in reached for x in eqn.invars if type(x) is Var):
            reached.update(eqn.outvars)
            kept.append(eqn)
    return kept


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
        return [materialise(ct) for ct in self._backward(self.program.eqns, cts)]

    def _backward(self, eqns: Sequence[Eqn], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of all leaves, some of them symbolic zeros."""
        program = self.program
        found = iter(backward(program.invars, eqns, program.outs, cts))
        return [
            next(found) if inx else Zero(a.tangent())
            for a, inx in zip(self._avals, self._inexact, strict=True)
        ]

    @api_boundary
    def with_refs(self, *wanted: Any) -> Callable[[Any], Any]:
        """The vjp with a choice of what becomes of each cotangent, in the structure of the arguments.

        For each array: `ad.GradValue()` returns the cotangent, as a call of the vjp does; to a Ref it is added, and
        `ad.GradRef()` returned in its place; with `ad.DontWant()` it is not computed, and `ad.DidntWant()` returned.

        >>> import didax as dx, didax.numpy as dnp
        >>> _, f_vjp = dx.vjp(lambda x, y: x * y, 2.0, 5.0)
        >>> total = dx.new_ref(dnp.float32(1.0))
        >>> f_vjp.with_refs(total, dx.ad.DontWant())(1.0)
        (GradRef(), DidntWant())
        >>> float(total[...])
        6.0
        """
        marks, tree = flatten_arguments(wanted, {})
        if tree != self._tree:
            rule = "with_refs takes one mark or Ref for each array of the arguments, in the arguments' structure."
            args = pytree.unflatten(self._tree, range(len(self._avals)))[0]
            raise mismatch(rule, args, wanted, "Pass ad.GradValue() for what is to be returned.")
        for mark in marks:
            if not isinstance(mark, Ref | GradValue | DontWant):
                rule = "What becomes of a cotangent is said by a Ref, ad.GradValue() or ad.DontWant()."
                raise TypeError(message(rule, f"got: {mark!r:.100}", fix="Pass one of these for each array."))
        return api_boundary(functools.partial(self._into, marks))

    def _into(self, marks: Sequence[Any], cotangents: Any) -> Any:
        rule = "The vjp takes cotangents in the structure of the function's result."
        cts = check_cotangents(
            "vjp", self._out_tree, self._out_avals, flatten_cotangents(rule, cotangents, self._out_tree)
        )
        program = self.program
        needed = iter([mark for mark, inx in zip(marks, self._inexact, strict=True) if inx])
        wanted = [v for v in program.invars if not isinstance(next(needed), DontWant)]
        found = self._backward(depending_on(program.eqns, wanted), cts)
        return pytree.unflatten(
            self._tree, [_given(mark, ct) for mark, ct in zip(marks, found, strict=True)]
        )[0]
