"""`linear_map_p`: a linear step y = L(r) x whose two directions are Python functions of the user.

    apply(r, x) = L(r) x        transpose(r, ct_y) = L(r)^T ct_y

A direction that is missing is derived by transposing the other. A call of a `custom_vjp` leaves such a step on the
tape, with the residuals r that its forward pass saved. Its backward rule is `transpose`, and runs as Python when the
tape is walked. Read next: `call.py`, which makes these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray
from didax.core.errors import MissingRuleError, NonlinearError, message
from didax.core.jaxpr import Eqn, Literal
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, dependence
from didax.primitives.custom.rules import Over, closed_jaxpr
from didax.transforms.batching import AxisData, batched_aval, move_batch_axis
from didax.transforms.jvp import jvp_flat
from didax.transforms.linearize import linearize_flat
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import Undef, backward, is_undef, substitute_known
from didax.xla.lowering import call

# (residuals, x) -> y; entries may be Zero.
Direction = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


class LinearMap:
    """A linear function, given by one of its directions or both. `num_residuals` operands precede the linear ones."""

    __slots__ = ("apply", "in_avals", "name", "num_residuals", "out_avals", "transpose")

    def __init__(
        self,
        name: str,
        num_residuals: int,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        apply: Direction | None = None,
        transpose: Direction | None = None,
    ):
        self.name = name
        self.num_residuals = num_residuals
        self.in_avals = tuple(in_avals)
        self.out_avals = tuple(out_avals)
        self.apply = apply
        self.transpose = transpose

    def __repr__(self) -> str:
        return self.name

    def forward(self, *args: Any) -> list[Any]:
        """Apply the map under the current trace."""
        n = self.num_residuals
        if self.apply is not None:
            return [instantiate(y) for y in self.apply(args[:n], args[n:])]
        assert self.transpose is not None
        return transposed(self.name, self.transpose, self.out_avals, args[:n], args[n:])

    def backward(self, residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
        """Apply the transposed map under the current trace."""
        if self.transpose is not None:
            return self.transpose(residuals, cts)
        assert self.apply is not None
        return transposed(self.name, self.apply, self.in_avals, residuals, cts)

    def swapped(self) -> LinearMap:
        """The transposed map."""
        return LinearMap(
            self.name, self.num_residuals, self.out_avals, self.in_avals, self.transpose, self.apply
        )

    def over(self, axis: AxisData, dims: Sequence[int | None]) -> LinearMap:
        """The map on batches: residuals have their axes at `dims`, all other values at 0."""

        def batched(direction: Direction, avals: Sequence[ShapedArray]) -> Direction:
            def over(residuals: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
                n = len(residuals)
                mapped = Over(axis, self.name)
                ys, ds = mapped(
                    lambda *v: direction(v[:n], v[n:]), [*residuals, *xs], [*dims, *[0] * len(xs)]
                )
                return [
                    Zero(batched_aval(aval, 0, axis.size))
                    if type(y) is Zero
                    else move_batch_axis(y, d, 0, axis.size)
                    for y, d, aval in zip(ys, ds, avals, strict=True)
                ]

            return over

        return LinearMap(
            self.name,
            self.num_residuals,
            [batched_aval(a, 0, axis.size) for a in self.in_avals],
            [batched_aval(a, 0, axis.size) for a in self.out_avals],
            self.apply and batched(self.apply, self.out_avals),
            self.transpose and batched(self.transpose, self.in_avals),
        )


def transposed(
    name: str, f: Direction, avals: Sequence[ShapedArray], residuals: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    """The transpose of `x -> f(residuals, x)`, for `x` of these types, applied to `cts`."""
    zeros: list[bool] = []

    def run(*xs: Any) -> list[Any]:
        ys = f(residuals, xs)
        zeros.extend(type(y) is Zero for y in ys)
        return [y for y in ys if type(y) is not Zero]

    jaxpr, captured = trace_to_jaxpr(run, avals, what="transpose")
    live = [ct for ct, zero in zip(cts, zeros, strict=True) if not zero]
    linear = [False] * len(captured) + [True] * len(avals)
    try:
        eqns, outs = substitute_known(jaxpr, linear, captured)
        if any(type(y) is Literal and y.aval.size for y in outs):  # an empty result is always zero
            raise MissingRuleError("a result does not depend on the cotangent")
        return [instantiate(x) for x in backward(jaxpr.invars[len(captured) :], eqns, outs, live)]
    except (MissingRuleError, TypeError, ValueError) as error:
        first, *more = str(error).splitlines()
        reasons = [line.strip() for line in more if line.strip().startswith("reason:")]
        stopped = [f"what stopped it: {first}", *reasons]
        raise TypeError(
            message(
                "A derivative rule that is to run in the other direction must be linear in the tangents or cotangents.",
                f"function: {name}",
                *(error.facts if isinstance(error, NonlinearError) else stopped),
                fix="Give the function a rule for this direction too: custom_rules(f, jvp=..., vjp=(fwd, bwd)).",
            )
        ) from error


class LinearMapPrimitive(Primitive):
    """`linear_map_p.bind(*residuals, *xs, map=LinearMap(...))`: the map applied to `xs`."""

    multiple_results = True
    transposes_zeros = staticmethod(lambda zero: zero)  # rules with symbolic_zeros=True are told

    def type(self, *avals: ShapedArray, map: LinearMap) -> Sequence[ShapedArray]:
        return map.out_avals

    def evaluate(self, *args: Any, map: LinearMap) -> list[Any]:
        return map.forward(*args)

    def lower(self, ctx: Any, *args: Any, map: LinearMap) -> list[Any]:
        return call(ctx, closed_jaxpr(map.name, map.forward, [x.aval for x in args]), args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, map: LinearMap
    ) -> tuple[list[Any], list[Any]]:
        n = map.num_residuals
        if any(type(t) is not Zero for t in tangents[:n]):
            return jvp_flat(map.forward, primals, tangents, map.name)
        dots = [instantiate(t) for t in tangents[n:]]
        return self.bind(*primals, map=map), self.bind(*primals[:n], *dots, map=map)

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, map: LinearMap
    ) -> tuple[list[Any], list[Any]]:
        """As jvp, unless residuals have tangents: then the operations of the map itself are linearized."""
        marks = [type(t) is not Zero for t in tangents]
        if not any(marks[: map.num_residuals]):
            return self.jvp(primals, tangents, map=map)
        outs, program = linearize_flat(map.forward, primals, marks, map.name)
        return outs, program.apply([t for t in tangents if type(t) is not Zero])

    def transpose(self, cts: Sequence[Any], *args: Any, map: LinearMap) -> list[Any]:
        n = map.num_residuals
        if any(map_is_undef := [is_undef(x) for x in args[:n]]):
            raise ValueError(
                message(
                    "A linear map with a rule of its own is linear in its last arguments only.",
                    f"map: {map.name}",
                    f"residual arguments that are to be transposed: {sum(map_is_undef)} of {n}",
                    fix="Pass what is linear as linear arguments.",
                )
            )
        if map.apply is not None and map.transpose is not None:
            ct_xs = self.bind(*args[:n], *[instantiate(ct) for ct in cts], map=map.swapped())
        else:
            ct_xs = map.backward(args[:n], cts)
        return [None] * n + [
            ct_x if type(x) is Undef else None for x, ct_x in zip(args[n:], ct_xs, strict=True)
        ]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, map: LinearMap
    ) -> Any:
        n = map.num_residuals
        if not any(dim is not None for dim in dims):
            return self.bind(*args, map=map), [None] * len(map.out_avals)
        xs = [move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args[n:], dims[n:], strict=True)]
        outs = self.bind(*args[:n], *xs, map=map.over(axis, dims[:n]))
        return outs, [0] * len(outs)

    def sparsity(self, operands: Sequence[Dependence], *, map: LinearMap) -> list[Dependence]:
        return dependence(closed_jaxpr(map.name, map.forward, [x.aval for x in operands]), operands)

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        """The equation stays whole, because a rule of the user gives all results at once."""
        return eqn


linear_map_p = LinearMapPrimitive("linear_map")
