"""Transposition: run a linear program backwards.

    f(x) = A x    becomes    f^T(y_bar) = A^T y_bar

`backward` walks linear equations from the last to the first, asks each primitive for its transpose rule and sums the
cotangents that meet in one variable. In these equations every variable is linear and every literal is known; a rule
sees `Undef` in the place of a linear argument. Cotangents nobody sends stay symbolic `Zero`s. Read next:
`linearize.py` (where linear programs come from), `didax/api/autodiff.py` (vjp and grad).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core import dtypes
from didax.core.array_ops import Zero, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import MissingRuleError, NonlinearError, UnexpectedTracerError, message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.primitive import Trace, eager_trace, require
from didax.core.source import follows_equations
from didax.core.tracing import Tracer, leaked
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rule_types import check_type
from didax.transforms.staging import trace_to_jaxpr


class _LinearArguments(Trace):
    """Owns what stands for linear arguments: no operation may use them, so it has ended."""

    __slots__ = ()
    transformation = "transposition"

    def __init__(self) -> None:
        super().__init__(eager_trace)
        self.ended = True


class Undef(Tracer):
    """Stands for a linear argument in a transpose rule: only its type is known."""

    __slots__ = ()
    owner = _LinearArguments()

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Undef({self.aval})"


def is_undef(x: Any) -> bool:
    """True for a linear argument."""
    return type(x) is Undef


@follows_equations(backward=True)
def backward(
    invars: Sequence[Var], eqns: Sequence[Eqn], outs: Sequence[Atom | Zero], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of `invars` (or `Zero`s) for cotangents of `outs`, under the current trace."""
    sums: dict[Var, Any] = {}
    add = array_ops.add

    for out, ct in zip(outs, cotangents, strict=True):
        if type(out) is Var and type(ct) is not Zero:
            sums[out] = add(sums[out], ct) if out in sums else ct
    for eqn in reversed(eqns):
        primitive = eqn.primitive
        if primitive.multiple_results:
            if not any(v in sums for v in eqn.outvars):
                continue
            ct: Any = [sums.pop(v) if v in sums else Zero(v.aval) for v in eqn.outvars]
        else:
            ct = sums.pop(eqn.outvars[0], None)
            if ct is None:
                continue
        args = [Undef(x.aval) if type(x) is Var else x.val for x in eqn.invars]  # type: ignore[union-attr]
        try:
            if eqn.source is not None:  # None on a tape that no rule of the user's wrote on, which is linear
                _check_linear_operands(args)
            rule = primitive.transpose or require(primitive, "transpose")
            x_bars = rule(ct, *args, **eqn.params)
        except (MissingRuleError, NonlinearError, UnexpectedTracerError) as error:
            raise _explained(error, eqn) from None
        promotes = (
            primitive.casts_weak_operands
            and not primitive.multiple_results
            and not eqn.outvars[0].aval.weak_type
        )
        for i, (x, x_bar) in enumerate(zip(eqn.invars, x_bars, strict=True)):
            if type(x) is not Var or x_bar is None or type(x_bar) is Zero:
                continue
            if (found := aval_of(x_bar)) is not x.aval:
                check_type(primitive, "transpose", f"The cotangent of operand {i}", found, x.aval)
                if found.vma != x.aval.vma:
                    x_bar = array_ops.match_varying(x_bar, x.aval)
                if promotes and x.aval.weak_type and not found.weak_type:
                    x_bar = _demoted(x_bar)
            sums[x] = add(sums[x], x_bar) if x in sums else x_bar
    return [sums[v] if v in sums else Zero(v.aval) for v in invars]


def _demoted(x_bar: Any) -> Any:
    """The cotangent of a weakly typed operand beside strong ones, the cast of which is transposed too: it is weak."""
    return array_ops.convert(x_bar, aval_of(x_bar).dtype, True)


def _check_linear_operands(args: Sequence[Any]) -> None:
    """No choice and no index depends on linear arguments: the rules of many operations would take no notice."""
    for x in args:
        if type(x) is Undef and not dtypes.is_inexact(x.aval.dtype):
            raise leaked(x)


def _explained(error: Exception, eqn: Eqn) -> Exception:
    """The error of an equation that could not be transposed; it names the rule of the user's that it is part of."""
    rule = eqn.source.rule if eqn.source is not None else ""
    if isinstance(error, NonlinearError):
        return error if error.rule or not rule else _nonlinear(rule, error.facts)
    if isinstance(error, UnexpectedTracerError):
        if not is_undef(error.tracer):
            return error
        reason = "its result is not linear in the operands that are to be transposed"
    elif not rule:
        return error
    else:
        reason = str(error).splitlines()[0]
    facts = [f"operation: {eqn.primitive.name} of {', '.join(str(x.aval) for x in eqn.invars)}"]
    facts += [f"line: {eqn.source}"] if eqn.source is not None else []
    return _nonlinear(rule, [*facts, f"reason: {reason}"])


def _nonlinear(rule: str, facts: Sequence[str]) -> NonlinearError:
    if rule:
        says = "A derivative rule must be linear in the tangents: reverse mode transposes it."
        fix = "Compute what is not linear from the primals alone, or give a rule for reverse mode too: "
        error = NonlinearError(
            message(says, f"rule: {rule}", *facts, fix=f"{fix}custom_rules(f, jvp=..., vjp=(fwd, bwd)).")
        )
    else:
        says = "Only functions that are linear in their arguments can be transposed."
        error = NonlinearError(message(says, *facts, fix="Close over what the function is not linear in."))
    error.rule, error.facts = rule, tuple(facts)
    return error


@follows_equations()
def substitute_known(
    jaxpr: Jaxpr, linear: Sequence[bool], known: Sequence[Any]
) -> tuple[list[Eqn], list[Atom]]:
    """The linear equations of a jaxpr, with everything that depends on no linear input evaluated into literals."""
    values = iter(known)
    env: dict[Var, Any] = {v: next(values) for v, lin in zip(jaxpr.invars, linear, strict=True) if not lin}

    def read(x: Atom) -> Atom:
        return Literal(env[x], x.aval) if type(x) is Var and x in env else x

    remaining: list[Eqn] = []
    for eqn in jaxpr.eqns:
        invars = [read(x) for x in eqn.invars]
        if any(type(x) is Var for x in invars):
            remaining.append(eqn.replace(invars=invars))
            continue
        out = eqn.primitive.bind(*[x.val for x in invars], **eqn.params)  # type: ignore[union-attr]
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return remaining, [read(x) for x in jaxpr.outvars]


def backward_jaxpr(
    jaxpr: Jaxpr, linear: Sequence[bool], known: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of the linear inputs of a jaxpr (or `Zero`s), under the current trace."""
    eqns, outs = substitute_known(jaxpr, linear, known)
    return backward([v for v, lin in zip(jaxpr.invars, linear, strict=True) if lin], eqns, outs, cotangents)


def strong_cotangents(cts: Sequence[Any], *jaxprs: Jaxpr) -> tuple[bool, ...]:
    """The `strong_ct` of `transpose_jaxpr`: which cotangents are strongly typed, although an output of theirs is not.

    The cotangents are those of the outputs of every one of the jaxprs.
    """
    strong = tuple(
        [
            type(ct) is not Zero
            and any([jaxpr.outvars[i].aval.weak_type for jaxpr in jaxprs])
            and not aval_of(ct).weak_type
            for i, ct in enumerate(cts)
        ]
    )
    return strong if True in strong else ()


def cotangent_avals(jaxpr: Jaxpr, strong_ct: tuple[bool, ...]) -> Sequence[ShapedArray]:
    """The types of the outputs' cotangents: those of the outputs, strong where `strong_ct` says so."""
    if not strong_ct:
        return jaxpr.out_avals
    return [a.strip_weak_type() if s else a for a, s in zip(jaxpr.out_avals, strong_ct, strict=True)]


@cached_on_jaxpr
def transpose_jaxpr(
    jaxpr: Jaxpr,
    linear: tuple[bool, ...],
    nonzero_ct: tuple[bool, ...],
    instantiate_all: bool = False,
    strong_ct: tuple[bool, ...] = (),
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The transpose as a jaxpr: known inputs, then nonzero output cotangents, to nonzero cotangents of linear inputs.

    Also returns which of these are nonzero; with `instantiate_all` every one is returned, zeros as arrays. The output
    cotangents have the types of the outputs, but for those that `strong_ct` marks as strongly typed in any case.
    """
    num_known = linear.count(False)
    found: list[bool] = []

    def transposed(*args: Any) -> list[Any]:
        given = iter(args[num_known:])
        cts = [next(given) if nz else Zero(v.aval) for v, nz in zip(jaxpr.outvars, nonzero_ct, strict=True)]
        x_bars = backward_jaxpr(jaxpr, linear, args[:num_known], cts)
        found.extend(type(x_bar) is not Zero or instantiate_all for x_bar in x_bars)
        return [instantiate(x_bar) for x_bar, nz in zip(x_bars, found, strict=True) if nz]

    known_avals = [v.aval for v, lin in zip(jaxpr.invars, linear, strict=True) if not lin]
    out_avals = cotangent_avals(jaxpr, strong_ct)
    ct_avals = [a for a, nz in zip(out_avals, nonzero_ct, strict=True) if nz]
    new, captured = trace_to_jaxpr(transposed, [*known_avals, *ct_avals], what="transpose")
    assert not captured, "jaxprs are closed"
    return new, tuple(found)
