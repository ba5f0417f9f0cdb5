"""Bodies of loops in reverse mode.

    h', y = body(c, h, x)    becomes    ct_c += ...;  ct_h, ct_x = ...    from ct_h', ct_y

A transposed loop carries the cotangents of the carry, and the cotangents of linear constants, which are sums over all
steps. It runs in the other direction, along the cotangents of its ys.
Read next: `accumulate.py`, which adds to a part of an array in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from didax.core.array_ops import array_ops
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.primitives.control_flow.accumulate import accumulate_in_place
from didax.primitives.control_flow.layout import BodyLayout, Mask, fixpoint, split_at, where_true
from didax.primitives.elementwise import add
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.transpose import cotangent_avals, transpose_jaxpr


class TransposedBody(NamedTuple):
    """The body of a transposed scan, and which linear constants, parts of the carry and xs have a cotangent."""

    jaxpr: Jaxpr
    consts: Mask
    carry: Mask
    xs: Mask


@cached_on_jaxpr
def transpose_body(
    jaxpr: Jaxpr, layout: BodyLayout, linear: Mask, nonzero_ct: Mask, strong_ct: Mask = ()
) -> TransposedBody:
    """`(residuals, ct_consts, ct_carry, residual rows, ct_ys) -> (ct_consts, ct_carry, ct_xs)`.

    All of the carry is linear. Results marked by `strong_ct` have strongly typed cotangents, see `transpose_jaxpr`.
    """
    num_consts, num_carry = layout
    start, ys = layout.split_results(nonzero_ct)
    num_linear = sum(linear[:num_consts])

    def step(carry: Mask) -> tuple[Jaxpr, Mask]:
        return transpose_jaxpr(jaxpr, linear, (*carry, *ys), strong_ct=strong_ct)

    carry = fixpoint(start, lambda mask: step(mask)[1][num_linear : num_linear + num_carry])
    new, found = step(carry)
    found_consts, found_carry, found_xs = split_at(found, num_linear, num_carry)
    (res_consts, _, res_xs), (linear_consts, _, _) = layout.split_by(linear, jaxpr.in_avals)
    const_avals = where_true(linear_consts, found_consts)
    carry_avals, y_avals = layout.split_results(cotangent_avals(jaxpr, strong_ct))
    carry_avals, y_avals = where_true(carry_avals, carry), where_true(y_avals, ys)

    def back(*args: Any) -> list[Any]:
        sizes = (len(res_consts), len(const_avals), len(carry_avals), len(res_xs))
        consts, ct_consts, ct_carry, rows, ct_ys = split_at(args, *sizes)
        cts = iter(eval_jaxpr(new, [*consts, *rows, *ct_carry, *ct_ys]))
        ct_consts = [add(total, next(cts)) for total in ct_consts]
        before = where_true(zip(jaxpr.in_avals[num_consts:], found_carry, strict=False), carry)
        ct_carry = [next(cts) if f else array_ops.zeros(aval) for aval, f in before]
        return [*ct_consts, *ct_carry, *cts]

    body = trace_closed(back, [*res_consts, *const_avals, *carry_avals, *res_xs, *y_avals], what="transpose")
    return TransposedBody(accumulate_in_place(body), tuple(found_consts), carry, tuple(found_xs))
