"""Transposition: run a linear program backwards.

    f(x) = A x    becomes    f^T(ct) = A^T ct

`backward` walks linear equations from the last to the first, asks each primitive for its transpose rule and sums the
cotangents that meet in one variable. In these equations every variable is linear and every literal is known; a rule
sees `Undef` in the place of a linear argument. A cotangent that nobody sends stays a symbolic `Zero`, for which no rule
runs. The exceptions are a user's own rules, which may send more than multiples of what they get, and loops that hold
such rules (`transposes_zeros`).
Read next: `linearize.py` (where linear programs come from), `didax/api/autodiff.py` (vjp and grad).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core import device_types, dtypes, sharding
from didax.core.array_ops import Zero, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import MissingRuleError, NonlinearError, UnexpectedTracerError
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.primitive import Trace, eager_trace, require
from didax.core.rule_types import check_fit, check_type, type_of, wrong_cotangents
from didax.core.source import follows_equations
from didax.core.tracing import Tracer, leaked
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.transpose_errors import explained
from didax.transforms.user_rules import may_send_more
from didax.transforms.weak_types import cotangent_avals, weak_cotangent


class _LinearArguments(Trace):
    """The trace of all `Undef`s. It has ended, so that any operation on one is an error."""

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

    def loosened(self) -> Undef:
        """The same placeholder, with a type that says nothing of explicit mesh axes."""
        return Undef(self.aval.update(sharding=None))

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
    unsent: set[Atom] = set()  # operands to which the rules of equations on the way sent no cotangent
    add = array_ops.add

    for out, ct in zip(outs, cotangents, strict=True):
        if type(out) is Var and type(ct) is not Zero:
            sums[out] = add(sums[out], ct) if out in sums else ct
    for eqn in reversed(eqns):
        primitive = eqn.primitive
        if primitive.multiple_results:
            ct = _cotangents_of_results(eqn, sums, unsent)
        else:
            ct = sums.pop(eqn.outvars[0], None)
        if ct is None:
            if not unsent.isdisjoint(eqn.outvars):
                unsent.update(eqn.invars)
            continue
        args = [Undef(x.aval) if type(x) is Var else x.value() for x in eqn.invars]  # type: ignore[union-attr]
        try:
            if eqn.source is not None:  # None: no rule of the user's wrote this equation, so it is linear
                _check_linear_operands(args)
            rule = primitive.transpose or require(primitive, "transpose")
            rule = device_types.backward(primitive, rule) if sharding.in_types else rule
            ct_xs = rule(ct, *args, **eqn.params)
        except (MissingRuleError, NonlinearError) as error:
            raise explained(error, eqn) from None
        except UnexpectedTracerError as error:
            raise (explained(error, eqn) if is_undef(error.tracer) else error) from None
        except TypeError as error:
            check_fit(primitive, "transpose", (ct, *args), eqn.params, error)
            raise
        if type(ct_xs) not in _LISTS or len(ct_xs) != len(eqn.invars):
            raise wrong_cotangents(primitive, ct_xs, len(eqn.invars))
        promotes = (
            primitive.casts_weak_operands
            and not primitive.multiple_results
            and not eqn.outvars[0].aval.weak_type
        )
        for i, (x, ct_x) in enumerate(zip(eqn.invars, ct_xs, strict=True)):
            if type(x) is not Var or ct_x is None or type(ct_x) is Zero:
                unsent.add(x)
                continue
            try:
                found = aval_of(ct_x)
            except TypeError:
                type_of(primitive, "transpose", f"The cotangent of operand {i}", ct_x, x.aval)
                raise
            if found is not x.aval:
                check_type(primitive, "transpose", f"The cotangent of operand {i}", found, x.aval)
                if found.vma != x.aval.vma or found.layout is not x.aval.layout:
                    ct_x = array_ops.match_devices(ct_x, x.aval)
                if promotes and x.aval.weak_type and not found.weak_type:
                    ct_x = weak_cotangent(ct_x)
            sums[x] = add(sums[x], ct_x) if x in sums else ct_x
    return [sums[v] if v in sums else Zero(v.aval) for v in invars]


_LISTS = frozenset([list, tuple])


def _cotangents_of_results(eqn: Eqn, sums: dict[Var, Any], unsent: set[Atom]) -> list[Any] | None:
    """The cotangents of several results, taken out of `sums`; None where the transpose rule has nothing to do."""
    zeros = eqn.primitive.transposes_zeros if may_send_more(eqn) else None
    if not any(v in sums for v in eqn.outvars) and (zeros is None or unsent.isdisjoint(eqn.outvars)):
        return None
    cts = [sums.pop(v) if v in sums else Zero(v.aval) for v in eqn.outvars]
    if not unsent or zeros is None:
        return cts
    pairs = zip(eqn.outvars, cts, strict=True)
    return [zeros(ct) if type(ct) is Zero and v in unsent else ct for v, ct in pairs]


def _check_linear_operands(args: Sequence[Any]) -> None:
    """UnexpectedTracerError for a linear operand of integers or bools, such as an index: no operation is linear in it.

    The transpose rules of many operations would not notice it.
    """
    for x in args:
        if type(x) is Undef and not dtypes.is_inexact(x.aval.dtype):
            raise leaked(x)


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
        out = eqn.primitive.bind(*[x.value() for x in invars], **eqn.params)  # type: ignore[union-attr]
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return remaining, [read(x) for x in jaxpr.outvars]


def backward_jaxpr(
    jaxpr: Jaxpr, linear: Sequence[bool], known: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of the linear inputs of a jaxpr (or `Zero`s), under the current trace."""
    eqns, outs = substitute_known(jaxpr, linear, known)
    return backward([v for v, lin in zip(jaxpr.invars, linear, strict=True) if lin], eqns, outs, cotangents)


@cached_on_jaxpr
def transpose_jaxpr(
    jaxpr: Jaxpr,
    linear: tuple[bool, ...],
    nonzero_ct: tuple[bool, ...],
    instantiate_all: bool = False,
    strong_ct: tuple[bool, ...] = (),
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The transpose as a jaxpr: known inputs, then nonzero output cotangents, to nonzero cotangents of linear inputs.

    Also returns which linear inputs have a nonzero cotangent; with `instantiate_all` all of them have one, zeros as
    arrays. Cotangents of outputs have the types of the outputs, except that `strong_ct` marks strongly typed ones.
    """
    num_known = linear.count(False)
    found: list[bool] = []

    def transposed(*args: Any) -> list[Any]:
        given = iter(args[num_known:])
        cts = [next(given) if nz else Zero(v.aval) for v, nz in zip(jaxpr.outvars, nonzero_ct, strict=True)]
        ct_xs = backward_jaxpr(jaxpr, linear, args[:num_known], cts)
        found.extend(type(ct_x) is not Zero or instantiate_all for ct_x in ct_xs)
        return [instantiate(ct_x) for ct_x, nz in zip(ct_xs, found, strict=True) if nz]

    known_avals = [v.aval for v, lin in zip(jaxpr.invars, linear, strict=True) if not lin]
    out_avals = cotangent_avals(jaxpr, strong_ct)
    ct_avals = [a for a, nz in zip(out_avals, nonzero_ct, strict=True) if nz]
    return trace_closed(transposed, [*known_avals, *ct_avals], what="transpose"), tuple(found)
