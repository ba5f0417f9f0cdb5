"""`jax.interpreters.ad`: the registries of derivative rules, and what the rules are written with.

A jvp rule is given primals and tangents, some of them `Zero`s; a transpose rule a cotangent and the operands, where
`UndefinedPrimal`s stand for those to which the operation is linear. `JVPTracer` is Didax's own: what `jax.jvp` traces
with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from didax.api.autodiff import linearize
from didax.as_jax.primitive import Primitive, Registry, UndefinedPrimal
from didax.core.array_ops import Zero, add_tangents, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.declarations import missing_rule
from didax.core.errors import message
from didax.transforms.jvp import JVPTrace, JVPTracer
from didax.transforms.transpose import Undef, is_undef

__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_tangents", "defbilinear", "defjvp",
    "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose", "instantiate_zeros", "is_undefined_primal",
    "linearize", "primitive_jvps", "primitive_transposes", "zeros_like_aval",
]  # fmt: skip

zeros_like_aval: Callable[[ShapedArray], Any] = lambda aval: array_ops.zeros(aval)
instantiate_zeros = instantiate


def is_undefined_primal(x: Any) -> bool:
    """True for an operand to which a transposed operation is linear."""
    return type(x) is UndefinedPrimal


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two arrays of one type."""
    return array_ops.add(x, y)


# --- Registries ---------------------------------------------------------------------------------------------


def _fill_jvp(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        outs, out_dots = rule(tuple(primals), tuple(tangents), **primitive.to_jax(params))
        if primitive.multiple_results:
            return list(outs), [_tangent(t, y) for t, y in zip(out_dots, outs, strict=True)]
        return outs, _tangent(out_dots, outs)

    return jvp


def _tangent(tangent: Any, out: Any) -> Any:
    """A rule may return None or float0 for a tangent that vanishes."""
    wanted = aval_of(out).tangent()
    return Zero(wanted) if tangent is None or wanted.dtype != aval_of(out).dtype else tangent


def _derive_jvp(primitive: Any) -> Callable[..., Any] | None:
    rules = primitive.rules
    if rules.jvp is None:
        return None
    return lambda primals, tangents, **params: rules.jvp(
        list(primals), list(tangents), **primitive.to_didax(params)
    )


def _fill_transpose(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def transpose(ct: Any, *args: Any, **params: Any) -> Any:
        operands = [UndefinedPrimal(x.aval) if is_undef(x) else x for x in args]
        found = rule(ct, *operands, **primitive.to_jax(params))
        if found is None:  # a rule may say so where all cotangents vanish
            return [None] * len(args)
        return [x if is_undef(y) else None for x, y in zip(found, args, strict=True)]

    return transpose


def _derive_transpose(primitive: Any) -> Callable[..., Any] | None:
    rules = primitive.rules
    if rules.transpose is None:
        return None

    def transpose(ct: Any, *args: Any, **params: Any) -> Any:
        operands = [Undef(x.aval) if is_undefined_primal(x) else x for x in args]
        return rules.transpose(ct, *operands, **primitive.to_didax(params))

    return transpose


primitive_jvps = Registry("primitive_jvps", "jvp", _fill_jvp, _derive_jvp)
primitive_transposes = Registry("primitive_transposes", "transpose", _fill_transpose, _derive_transpose)


def get_primitive_transpose(primitive: Any) -> Callable[..., Any]:
    """The transpose rule of a primitive; NotImplementedError where it has none."""
    try:
        return primitive_transposes[primitive]
    except KeyError:
        raise missing_rule(primitive.rules, "transpose") from None


# --- Rules of common forms ----------------------------------------------------------------------------------


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """A rule for each operand: the tangent of the result, from that of the operand, and from all operands."""
    _check_single(primitive, "defjvp")
    primitive_jvps[primitive] = functools.partial(_sum_of_rules, primitive, rules, False)


def defjvp2(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """As `defjvp`; the rules are given the result too, after the tangent."""
    _check_single(primitive, "defjvp2")
    primitive_jvps[primitive] = functools.partial(_sum_of_rules, primitive, rules, True)


def _check_single(primitive: Primitive, name: str) -> None:
    if not isinstance(primitive, Primitive) or primitive.multiple_results:
        rule = f"{name} is for primitives with a single result."
        raise TypeError(
            message(rule, f"primitive: {primitive!r}", fix="Write its rule into ad.primitive_jvps.")
        )


def _sum_of_rules(
    primitive: Primitive,
    rules: Sequence[Any],
    with_result: bool,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    **params: Any,
) -> Any:
    out = primitive.bind(*primals, **params)
    extra = [out] if with_result else []
    out_dot: Any = Zero(aval_of(out).tangent())
    for rule, tangent in zip(rules, tangents, strict=False):
        if rule is not None and type(tangent) is not Zero:
            out_dot = add_tangents(out_dot, rule(tangent, *extra, *primals, **params))
    return out, out_dot


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """The primitive is linear in all of its operands; the rule is given the cotangent and the parameters."""
    deflinear2(primitive, lambda ct, *_, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As `deflinear`; the rule is given the operands too."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            zeros = [Zero(aval_of(y).tangent()) for y in (out if primitive.multiple_results else [out])]
            return out, zeros if primitive.multiple_results else zeros[0]
        return out, primitive.bind(*map(instantiate, tangents), **params)

    def transpose(ct: Any, *args: Any, **params: Any) -> Any:
        if type(ct) is Zero:
            return [Zero(x.aval.tangent()) if is_undefined_primal(x) else None for x in args]
        return transpose_rule(ct, *args, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose


def defbilinear(primitive: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]) -> None:
    """The primitive is linear in each of its two operands; the rules give the cotangents of the two."""

    def of_lhs(t: Any, x: Any, y: Any, **params: Any) -> Any:
        return primitive.bind(t, y, **params)

    def of_rhs(t: Any, x: Any, y: Any, **params: Any) -> Any:
        return primitive.bind(x, t, **params)

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x):
            return (Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params)), None
        return None, (Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params))

    defjvp(primitive, of_lhs, of_rhs)
    primitive_transposes[primitive] = transpose
