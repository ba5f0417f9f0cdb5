"""From the formulas of a distribution to its functions: `continuous` and `discrete`.

    norm = continuous("norm", logpdf=lambda z: -0.5 * (z * z + LOG_2PI), cdf=ndtr, ppf=ndtri)

A distribution states some of its functions for location 0 and scale 1, on its support; the others follow:

    pdf = exp(logpdf)    cdf = exp(logcdf) = 1 - sf    logcdf = log(cdf)    sf = exp(logsf) = 1 - cdf    logsf = log(sf)

and so do location and scale, values outside the support (probability 0) and parameters outside theirs (NaN).
Where a formula is not to be used, it is given harmless numbers, so derivatives are finite. Arguments promote to one
floating dtype and broadcast; narrow floats are computed in float32 and rounded once. Densities of float32 numbers are
computed in float64, by `_densities.py`. Read next: `_tables.py`, the distributions.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.value import Array
from didax.numpy.promotion import promote_dtypes
from didax.scipy.stats._densities import POWERS, rounded_once, value_of

Formula = Callable[..., Any]
Support = Callable[..., tuple[Any, Any]]
_EMPTY = inspect.Parameter.empty

# What each function is, and which of the others it follows from: the first that is stated.
_MEANING = {
    "pdf": "the density at {x}",
    "logpdf": "the logarithm of the density at {x}",
    "pmf": "the probability of {x}",
    "logpmf": "the logarithm of the probability of {x}",
    "cdf": "the probability of at most {x}",
    "logcdf": "the logarithm of the probability of at most {x}",
    "sf": "the probability of more than {x}",
    "logsf": "the logarithm of the probability of more than {x}",
    "ppf": "the value below which the share {x} lies, the inverse of cdf",
    "isf": "the value above which the share {x} lies, the inverse of sf",
}
_DERIVED: dict[str, Sequence[tuple[str, Callable[[Any], Any]]]] = {
    "pdf": [("logpdf", dnp.exp)],
    "pmf": [("logpmf", dnp.exp)],
    "cdf": [("logcdf", dnp.exp), ("sf", lambda p: 1 - p), ("logsf", lambda p: -dnp.expm1(p))],
    "sf": [("logsf", dnp.exp), ("cdf", lambda p: 1 - p), ("logcdf", lambda p: -dnp.expm1(p))],
    "logcdf": [("cdf", dnp.log), ("sf", lambda p: dnp.log1p(-p))],
    "logsf": [("sf", dnp.log), ("cdf", lambda p: dnp.log1p(-p))],
}
# What each function is below the support, and above it.
_OUTSIDE = {"logpdf": (-math.inf, -math.inf), "logpmf": (-math.inf, -math.inf), "pdf": (0.0, 0.0), "pmf": (0.0, 0.0),
            "cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-math.inf, 0.0), "logsf": (0.0, -math.inf)}  # fmt: skip


class Distribution(types.ModuleType):
    """The functions of one distribution, under the name of the module that JAX has for it."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Array]: ...


def made_of(name: str, doc: str, functions: dict[str, Formula]) -> Distribution:
    """The namespace of a distribution, with these functions."""
    made = Distribution(f"didax.scipy.stats.{name}", doc)
    vars(made).update(functions, __all__=sorted(functions))
    return made


def always(*parameters: Any) -> bool:
    """All parameters are valid."""
    return True


def everywhere(*parameters: Any) -> tuple[Any, Any]:
    """The support is the real line."""
    return -math.inf, math.inf


def continuous(
    name: str,
    doc: str,
    parameters: str = "",
    *,
    support: Support = everywhere,
    valid: Callable[..., Any] = always,
    also: str = "pdf",
    share: str = "q",
    periodic: bool = False,
    kinds: str = "f",
    **formulas: Formula,
) -> Distribution:
    """A distribution with a density; `also` are functions that follow from those whose formulas are given.

    `share` is the name of the argument of ppf and isf. A periodic density has no value at infinity. `kinds` are the
    kinds of numbers, real or complex, for which the formulas hold.
    """
    names = parameters.split()

    def of_share(formula: Formula, q: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        ok, moved = _is_valid(valid, shapes, scale), _is_moved(loc, scale)
        inside = (q >= 0) & (q <= 1)
        value = formula(dnp.where(inside, q, 0.5), *shapes)
        value = loc + scale * value if moved else value
        return dnp.where(ok & inside, value, math.nan)

    def of_value(kind: str, formula: Formula, x: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        ok, moved = _is_valid(valid, shapes, scale), _is_moved(loc, scale)
        low, high = support(*shapes)
        z = (x - loc) / scale if moved else x
        scaled = formula
        if moved and kind == "pdf":
            # Before the choice: XLA hands products that a sum reads, but no choices, to a library, and a choice
            # between would leave the scale to be written to memory for each element.
            scaled = lambda *args: formula(*args) / scale
        value = _on_support(kind, scaled, z, shapes, low, high, _between(low, high))
        if moved and kind == "logpdf":
            value = value - dnp.log(scale)
        if periodic:
            ok = ok & dnp.isfinite(x)
        return value if ok is True else dnp.where(ok, value, math.nan)

    def make(kind: str) -> Formula:
        is_share = kind in ("ppf", "isf")
        formula = _standard(kind, formulas)
        function = (
            functools.partial(of_share, formula) if is_share else functools.partial(of_value, kind, formula)
        )
        if kind == "pdf" and name in POWERS:
            function = _in_double(name, kind, formulas, of_value, function, (0, 1))
        arguments = [share if is_share else "x", *names]
        return _public(name, kind, arguments, {"loc": 0, "scale": 1}, function, kinds)

    return made_of(name, doc, {kind: make(kind) for kind in [*formulas, *also.split()]})


def discrete(
    name: str,
    doc: str,
    parameters: str,
    *,
    support: Support,
    valid: Callable[..., Any],
    also: str = "pmf",
    inside: Callable[..., Any] | None = None,
    **formulas: Formula,
) -> Distribution:
    """A distribution on integers; the formula of `logpmf` is given integers of the support only.

    Elsewhere it is given the lower end, or the number `inside`, whose probability is not 0.
    """
    names = parameters.split()

    def of_value(kind: str, formula: Formula, k: Any, *rest: Any) -> Any:
        *shapes, loc = rest
        low, high = support(*shapes)
        z = k if _is_known(loc) else k - loc
        whole = dnp.floor(z)
        if kind in ("logpmf", "pmf"):
            whole = dnp.where(z > whole, -math.inf, whole)  # outside of the support
        value = _on_support(kind, formula, whole, shapes, low, high, inside(*shapes) if inside else low)
        return dnp.where(valid(*shapes), value, math.nan)

    def make(kind: str) -> Formula:
        if kind == "ppf":
            return _public(name, kind, ["q", *names], {}, formulas[kind])
        if kind == "entropy":
            return _public(name, kind, names, {"loc": 0}, functools.partial(_of_any_place, formulas[kind]))
        function = functools.partial(of_value, kind, _standard(kind, formulas))
        if kind == "pmf" and name in POWERS:
            function = _in_double(name, kind, formulas, of_value, function, (0,))
        return _public(name, kind, ["k", *names], {"loc": 0}, function)

    return made_of(name, doc, {kind: make(kind) for kind in [*formulas, *also.split()]})


def _in_double(
    name: str,
    kind: str,
    formulas: dict[str, Formula],
    of_value: Callable[..., Any],
    function: Formula,
    still: tuple[int, ...],
) -> Formula:
    """The density `function`, computed in float64 for float32 numbers; `still` are the default location and scale."""
    in_double = functools.partial(of_value, kind, lambda *args: value_of(POWERS[name](*args)))
    logarithm = functools.partial(of_value, f"log{kind}", formulas[f"log{kind}"])
    stated = function if kind in formulas else None
    return rounded_once(f"{name}.{kind}", in_double, logarithm, stated, function, still)


def _standard(kind: str, formulas: dict[str, Formula]) -> Formula:
    """The formula of a function, or that of one it follows from."""
    if kind in formulas:
        return formulas[kind]
    source, step = next((source, step) for source, step in _DERIVED[kind] if source in formulas)
    return lambda *args: step(formulas[source](*args))


def _on_support(
    kind: str, formula: Formula, z: Any, shapes: Sequence[Any], low: Any, high: Any, inside: Any
) -> Any:
    """The formula where `z` is in the support and finite, and `_OUTSIDE` elsewhere, where the formula sees `inside`."""
    under, over = _OUTSIDE[kind]
    if _is_known(low) and _is_known(high) and math.isinf(low) and math.isinf(high):
        infinite = dnp.isinf(z)
        ends = under if under == over else dnp.where(z > 0, over, under)
        return dnp.where(infinite, ends, formula(dnp.where(infinite, inside, z), *shapes))
    below, above = _beyond(z < low, z == -math.inf, low), _beyond(z > high, z == math.inf, high)
    value = formula(dnp.where(below | above, inside, z), *shapes)
    value = dnp.where(dnp.isnan(z), z, value)
    if under == over:  # one choice: XLA makes a kernel for each mask that the derivative reads as well
        return dnp.where(below | above, under, value)
    return dnp.where(below, under, dnp.where(above, over, value))


def _beyond(is_beyond: Any, at_infinity: Any, end: Any) -> Any:
    """Whether z is beyond an end of the support, or infinite there."""
    if _is_known(end):
        return at_infinity if math.isinf(end) else is_beyond
    return is_beyond | at_infinity


def _of_any_place(formula: Formula, *args: Any) -> Any:
    """A function of the shapes, for each location."""
    *shapes, loc = args
    return dnp.broadcast_arrays(formula(*shapes), loc)[0]


def _is_moved(loc: Any, scale: Any) -> bool:
    """Whether location and scale are more than those of the table."""
    return not (_is_known(loc) and _is_known(scale))


def _is_valid(valid: Callable[..., Any], shapes: Sequence[Any], scale: Any) -> Any:
    """Whether there is a distribution of these parameters."""
    return valid(*shapes) if _is_known(scale) else valid(*shapes) & (scale > 0)


def _is_known(end: Any) -> bool:
    """Whether an end of the support is a number of the table."""
    return isinstance(end, int | float)


def _between(low: Any, high: Any) -> Any:
    """A number inside the support, not at an end, where derivatives may be infinite."""
    if _is_known(low) and _is_known(high):
        if math.isinf(low):
            return min(high - 1, 0)
        return low + 1 if math.isinf(high) else 0.5 * (low + high)
    from_low, to_high = dnp.isfinite(low), dnp.isfinite(high)
    left, right = dnp.where(from_low, low, 0), dnp.where(to_high, high, 0)
    one_end = dnp.where(from_low, left + 1, dnp.where(to_high, right - 1, 0))
    return dnp.where(from_low & to_high, 0.5 * (left + right), one_end)


def _public(
    name: str,
    kind: str,
    arguments: Sequence[str],
    defaults: dict[str, Any],
    function: Formula,
    kinds: str = "f",
) -> Formula:
    """A public function of these arguments, which it promotes to a floating dtype."""
    signature = inspect.Signature(
        [
            inspect.Parameter(argument, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for argument, default in [*[(a, _EMPTY) for a in arguments], *defaults.items()]
        ]
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = [dnp.asarray(x) for x in promote_dtypes(f"{name}.{kind}", *bound.args, to_inexact=True)]
        dtype = values[0].dtype
        if dtypes.kind_of(dtype) not in kinds:
            rule, given = f"{name}.{kind} takes real numbers.", ", ".join(str(aval_of(x)) for x in bound.args)
            raise ArgumentError(message(rule, f"arguments: {given}", fix="Use x.real."))
        wide = dtypes.at_least_single(dtype)  # the steps of 16 bits overflow and lose digits
        if wide != dtype:
            values = [x.astype(wide) for x in values]
        for i, default in enumerate(defaults.values(), len(arguments)):
            if _is_known(bound.args[i]) and bound.args[i] == default:
                values[i] = default  # a Python number, of which nothing is computed
        if wide != dtype:
            return function(*values).astype(dtype)
        out = function(*values)
        return out if out.weak_type == values[0].weak_type else out.astype(dtype)

    call.__name__, call.__qualname__ = kind, f"{name}.{kind}"
    call.__module__ = "didax.scipy.stats"  # where pickles look for `norm.pdf`
    what = _MEANING.get(kind, "the entropy").format(x=arguments[0])
    call.__doc__ = (
        f"Return {what}; location and scale as in SciPy, NaN for parameters that have no distribution."
    )
    call.__signature__ = signature  # type: ignore[attr-defined]
    return evaluated_whole(api_boundary(call))
