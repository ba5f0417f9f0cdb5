"""`linear_solve_p`: the solution of a linear system by a program of the user's own, with the derivatives of a solution.

    x = solve(c, b)    where    A(c) x = b

The solver may be anything: an iteration with no fixed number of steps, a factorisation. It is never differentiated;
what is differentiated is the equation, which `matvec`, the program of A, states:

    A x_dot = b_dot - A_dot x        A^T ct_b = ct_x

Both are linear systems again, the second with the transposed operator and its own solver, and so are derivatives of
any order. All programs take the same constants `c`, whichever of them they use; tangents of constants count in the
operator only.
Read next: `didax/lax/solvers.py`, what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import Zero, add_tangents, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import Effects
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report, checkify_jaxpr
from didax.passes.key_reuse import summarise
from didax.primitives import padded
from didax.primitives.call import jit_p
from didax.primitives.control_flow.batches import batch_carry
from didax.primitives.control_flow.bodies import batch_dims
from didax.primitives.control_flow.layout import Mask, Pair, Values, fixpoint, nonzero, split_at, union
from didax.primitives.convert import stop_gradient_p
from didax.primitives.elementwise import neg
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.transpose import is_undef
from didax.xla.lowering import call
from didax.xla.text import Value

Jaxprs = tuple[Jaxpr, ...]


class LinearSolve(Primitive):
    """`linear_solve_p.bind(*consts, *b, jaxprs=jaxprs, num_consts=n)`: x with A x = b, then what the solver adds.

    `jaxprs` are `(matvec, solve)`, and then, for reverse mode, the same two of the transposed operator. Each takes the
    constants and a vector, a list of arrays: `matvec` returns one of the same types, as does `solve`, before any
    auxiliary results.
    """

    multiple_results = True
    padded = padded.solved(jit_p)

    def effects(self, params: dict[str, Any]) -> Effects:
        return params["jaxprs"][1].effects

    def type(self, *avals: ShapedArray, jaxprs: Jaxprs, num_consts: int) -> Sequence[ShapedArray]:
        for what, jaxpr in zip(("matvec", "solve") * 2, jaxprs, strict=False):
            check_jaxpr_operands(f"the {what} of a linear system", jaxpr, avals)
        return jaxprs[1].out_avals

    def evaluate(self, *args: Any, jaxprs: Jaxprs, num_consts: int) -> list[Any]:
        return eval_jaxpr(jaxprs[1], args)

    def lower(self, ctx: Any, *args: Any, jaxprs: Jaxprs, num_consts: int) -> list[Value]:
        return call(ctx, jaxprs[1], args)

    def jvp(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        return self._push(jit_p.jvp, primals, tangents, **params)

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        return self._push(jit_p.linearize, primals, tangents, **params)

    def _push(
        self, push: Callable[..., Pair], primals: Values, tangents: Values, *, jaxprs: Jaxprs, num_consts: int
    ) -> Pair:
        """Results and tangents; `push` is the rule of a call that the operator is differentiated by."""
        outs = self.bind(*primals, jaxprs=jaxprs, num_consts=num_consts)
        consts, (const_dots, rhs) = primals[:num_consts], split_at(tangents, num_consts)
        x = outs[: len(rhs)]
        out_dots: list[Any] = [Zero(aval_of(y).tangent()) for y in outs]
        if any(nonzero(const_dots)):
            fixed = [Zero(aval_of(v).tangent()) for v in x]
            _, moved = push([*consts, *x], [*const_dots, *fixed], jaxpr=jaxprs[0])
            rhs = [add_tangents(b_dot, _negative(t)) for b_dot, t in zip(rhs, moved, strict=True)]
        if any(nonzero(rhs)):
            x_dots = self.bind(*consts, *map(instantiate, rhs), jaxprs=jaxprs, num_consts=num_consts)
            out_dots[: len(rhs)] = x_dots[: len(rhs)]
        return outs, out_dots

    def transpose(self, cts: Values, *args: Any, jaxprs: Jaxprs, num_consts: int) -> list[Any]:
        consts, b = split_at(args, num_consts)
        if any(map(is_undef, consts)):
            raise ValueError(
                message(
                    "The solution of a linear system is linear in its right-hand side, not in its operator.",
                    f"operator: {', '.join(str(x.aval) for x in consts if is_undef(x))}",
                    fix="Use vjp or grad, which linearise it first.",
                )
            )
        if len(jaxprs) == 2:
            raise ValueError(
                message(
                    "Reverse mode through custom_linear_solve solves a system with the transposed operator, and no "
                    "solver was given for that.",
                    f"right-hand side: {', '.join(str(x.aval) for x in b)}",
                    fix="Pass transpose_solve=, or symmetric=True where the operator is its own transpose; or use "
                    "forward mode (jvp, jacfwd).",
                )
            )
        ct_x = map(instantiate, cts[: len(b)])
        ct_b = self.bind(*consts, *ct_x, jaxprs=(*jaxprs[2:], *jaxprs[:2]), num_consts=num_consts)
        sent = zip(b, ct_b[: len(b)], strict=True)
        return [*[None] * num_consts, *(ct if is_undef(x) else None for x, ct in sent)]

    def batch(
        self, axis: AxisData, args: Values, dims: Sequence[int | None], *, jaxprs: Jaxprs, num_consts: int
    ) -> Any:
        const_dims, b_dims = split_at(dims, num_consts)
        new, batched, out = _batch(
            jaxprs[0], jaxprs[1:], axis, tuple(const_dims), tuple(dim is not None for dim in b_dims)
        )
        consts, b = split_at(args, num_consts)
        b = batch_carry(axis, b, b_dims, batched)
        return self.bind(*consts, *b, jaxprs=new, num_consts=num_consts), list(batch_dims(out))

    def keys(self, line: Any, operands: Values, *, jaxprs: Jaxprs, num_consts: int) -> Values:
        return summarise(jaxprs[1]).apply(operands, line)

    def checkify(
        self, kinds: Kinds, *args: Any, jaxprs: Jaxprs, num_consts: int
    ) -> tuple[list[Any], Report | None]:
        """The report comes from a run of the solver of its own: the solution keeps its derivatives."""
        plain = tuple(checkify_jaxpr(jaxpr, frozenset()).jaxpr for jaxpr in jaxprs)
        outs = self.bind(*args, jaxprs=plain, num_consts=num_consts)
        frozen = [stop_gradient_p.bind(x) for x in args]
        return outs, jit_p.checkify(kinds, *frozen, jaxpr=jaxprs[1])[1]

    def run_jaxprs(self, run: Any, *args: Any, jaxprs: Jaxprs, num_consts: int) -> list[Any]:
        return run(jaxprs[1], args, "the solver of a linear system")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        """The equation as it is: derivatives may still ask for any part of it, and only the solver is lowered."""
        return eqn


linear_solve_p = LinearSolve("linear_solve")


def _negative(t: Any) -> Any:
    return t if type(t) is Zero else neg(t)


@cached_on_jaxpr
def _batch(
    matvec: Jaxpr, rest: Jaxprs, axis: AxisData, const_dims: tuple[int | None, ...], start: Mask
) -> tuple[Jaxprs, Mask, Mask]:
    """The programs over batches, which parts of their vectors have a batch axis, and which results."""
    n = len(start)

    def over_batch(jaxpr: Jaxpr, batched: Mask, wanted: Mask | None) -> tuple[Jaxpr, Mask]:
        more = (False,) * (len(jaxpr.outvars) - n)
        dims = (*const_dims, *batch_dims(batched))
        return batch_jaxpr(jaxpr, axis, dims, None if wanted is None else (*wanted, *more))

    jaxprs = (matvec, *rest)
    batched = fixpoint(start, lambda mask: union(*(over_batch(jaxpr, mask, None)[1][:n] for jaxpr in jaxprs)))
    new = [over_batch(jaxpr, batched, batched) for jaxpr in jaxprs]
    return tuple(jaxpr for jaxpr, _ in new), batched, new[1][1]
