"""Every exception Didax raises by name, and the shape of their texts.

An error has three parts: the rule that was broken, the user's own values, and the way out:

    TypeError: grad needs a scalar output.
      output: float32[3]
    Sum the output, or use jacrev for the full Jacobian.

`message` puts the parts together. `strip_internal_frames` cuts Didax's own frames out of a traceback, so that the last
frame a user sees is a line of theirs; `api_boundary` does that for a whole function.
Read next: `source.py` (which frame is the user's), `tracing.py` (who raises the tracer errors).
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from didax.core import config, source
from didax.core.accuracy import AccuracyMode

P = ParamSpec("P")
R = TypeVar("R")


class ArgumentError(TypeError, ValueError):
    """An argument whose shape, dtype, structure or value the function cannot take.

    NumPy and JAX raise TypeError for some of these and ValueError for others; programs that catch either catch this.
    """


class NoMeshError(ValueError, RuntimeError):
    """A spec that refers to a mesh where none is in force: an error of either class in JAX, by function."""


class PositionError(ArgumentError, IndexError):
    """An axis or a position that an array does not have, or index arrays that do not fit together."""


class JAXTypeError(TypeError):
    """The base of errors that programs for JAX catch by this name: misused tracers, and keys that are used twice."""


class JAXIndexError(IndexError):
    """The base of errors that programs for JAX catch by this name: traced arrays in an index that fixes a shape."""


class ConcretizationTypeError(JAXTypeError):
    """A value was needed while only its shape and dtype are known."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced array was used where Python needs True or False."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced array was used where Python needs an integer: an index, a shape, a length."""


class TracerSliceError(TracerIntegerConversionError, JAXIndexError):
    """A traced array was used as a bound of a slice."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced array was handed to NumPy, which needs its numbers."""


class TracerAttributeError(ConcretizationTypeError, AttributeError):
    """A traced array was asked where it is in memory."""


class NonConcreteBooleanIndexError(ConcretizationTypeError, JAXIndexError):
    """A traced boolean mask was used as an index, so the result's shape is not known."""


class UnexpectedTracerError(JAXTypeError):
    """A tracer outlived the transformation that made it, or was used outside of it; `tracer` is that tracer."""

    tracer: object = None


class MissingRuleError(NotImplementedError):
    """A primitive has no rule for the transformation that met it."""


class RuleError(RuntimeError):
    """A primitive's rule failed: it raised, wrote what XLA does not take, or returned what it must not."""


class RuleTypeError(RuleError, TypeError):
    """A primitive's rule returned a value of a type that it must not have, or takes no such arguments."""


class NonlinearError(TypeError):
    """A function that is to be transposed is not linear; `rule` names the user's derivative rule that it is part of."""

    rule: str = ""
    facts: tuple[str, ...] = ()


class JaxprTypeError(TypeError):
    """A jaxpr breaks the rules of scope, single assignment or typing."""


class TypePromotionError(ArgumentError):
    """Two dtypes have no implicit promotion under the rules in force."""


class InconclusiveDimensionOperation(TypeError):
    """What was asked of a symbolic dimension depends on its size."""


class KeyReuseError(JAXTypeError):
    """A random key was used a second time (the option `debug_key_reuse` is 'error')."""


class CheckError(ValueError):
    """What `debug.check` demands of a program's values did not hold."""


class OutOfBoundsError(CheckError, IndexError):
    """An index known only at run time is not in range."""


class NaNError(CheckError, FloatingPointError):
    """An operation made a NaN (or an infinity) out of numbers."""


class DivisionByZeroError(CheckError, ZeroDivisionError):
    """A divisor is zero."""


class ShardingTypeError(TypeError):
    """Operands are split over explicit mesh axes in ways that do not say how the result is split."""


class DistributedError(RuntimeError):
    """Processes that compute together do not: one has ended, is late, cannot be reached, or runs another program."""


class KeyReuseWarning(UserWarning):
    """A random key was used a second time (the option `debug_key_reuse` is 'warn')."""


def message(rule: str, *facts: str, fix: str = "") -> str:
    """The three parts of an error text: the rule, the facts (one indented line each), the fix.

    >>> print(message("x must be a scalar.", "x: float32[3]", fix="Sum it first."))
    x must be a scalar.
      x: float32[3]
    Sum it first.
    """
    lines = [rule, *(f"  {line}" for fact in facts for line in fact.splitlines())]
    return "\n".join([*lines, fix] if fix else lines)


def check_choice(name: str, option: str, value: object, *choices: object) -> None:
    """ArgumentError unless an option of the function `name` is one of its choices.

    >>> check_choice("qr", "mode", "full", "reduced", "raw")
    Traceback (most recent call last):
    didax.core.errors.ArgumentError: qr has 2 choices of mode.
      mode: 'full'
    Use 'reduced' or 'raw'.
    """
    if value not in choices:
        rule = f"{name} has {len(choices)} choices of {option}."
        *first, last = map(repr, choices)
        fix = f"Use {', '.join(first)} or {last}."
        raise ArgumentError(message(rule, f"{option}: {value!r:.100}", fix=fix))


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback was cut: it has all of it (the option `traceback_filtering`)."""


def strip_internal_frames(error: BaseException) -> BaseException:
    """Return `error` with a traceback that shows the user's frames; the option `traceback_filtering` says how.

    "on" cuts the frames of Didax's own files; "off" leaves all; "remove_frames" cuts them and keeps the whole traceback
    in the error's cause; "tracebackhide" marks them by a local variable `__tracebackhide__`, as IPython likes.
    """
    mode = config.state().traceback_filtering
    if mode == "off":
        return error
    frames = _frames(error.__traceback__)
    if mode == "tracebackhide":
        for tb in frames:
            if source.is_hidden(tb.tb_frame.f_code):
                tb.tb_frame.f_locals["__tracebackhide__"] = True
        return error
    kept = [tb for tb in frames if not source.is_hidden(tb.tb_frame.f_code)]
    if mode == "remove_frames" and len(kept) < len(frames):
        _keep_in_cause(error, frames)
    return error.with_traceback(_chain(kept))


def _frames(tb: types.TracebackType | None) -> list[types.TracebackType]:
    found: list[types.TracebackType] = []
    while tb is not None:
        found.append(tb)
        tb = tb.tb_next
    return found


def _chain(frames: list[types.TracebackType]) -> types.TracebackType | None:
    chain: types.TracebackType | None = None
    for tb in reversed(frames):
        chain = types.TracebackType(chain, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return chain


def _keep_in_cause(error: BaseException, frames: list[types.TracebackType]) -> None:
    """Put the frames into the error's cause; what an inner call put there comes after those further out."""
    whole = error.__cause__
    if not isinstance(whole, UnfilteredStackTrace):
        whole = UnfilteredStackTrace(
            "The stack trace above is that of the user's frames; this is the whole one."
        )
        whole.__cause__, whole.__suppress_context__ = error.__cause__, error.__suppress_context__
        error.__cause__ = whole
    inner = _frames(whole.__traceback__)
    known = {id(tb.tb_frame) for tb in inner}
    whole.__traceback__ = _chain([*[tb for tb in frames if id(tb.tb_frame) not in known], *inner])


_FOLLOWS = "how results lie on devices follows from the operands"
IDLE: dict[str, tuple[Any, str]] = {
    "abstracted_axes": (None, "programs are staged for the shapes that their arguments have"),
    "axis_index_groups": (None, "it exchanges over whole axes"),
    "backend": (None, "arrays, and the default device, say where a program runs"),
    "device": (None, "arrays, and the default device, say where results are"),
    "out_sharding": (None, _FOLLOWS),
    "sharding": (None, _FOLLOWS),
    "to": ("varying", "which results vary between devices follows from the exchange"),
    "sum_match": (False, "results that are not batched are repeated"),
    **dict.fromkeys(["axis_env", "host_id", "token"], (None, "JAX has it for older programs")),
    "reduce_axes": ((), "JAX has it for older programs"),
    "_split_transpose": (False, "the passes over loops decide"),
    "accuracy": (None, "accuracy is XLA's"),
    "out": (None, "arrays are immutable"),
    "weights": (None, "elements count alike"),
}  # fmt: skip
"""Keywords of JAX's functions, for those here that have them not: the value that asks for nothing, and why no other."""
_holds_none = frozenset(IDLE).isdisjoint


def asks_for_split(f: Any, kwargs: Any) -> bool:
    """Whether a call asks for a result that is split over mesh axes (`out_sharding=`), and leaves it to the caller."""
    if kwargs.get("out_sharding") is None or _asks_for_nothing(kwargs["out_sharding"]):
        return False
    code: types.CodeType | None = getattr(f, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return False
    return "out_sharding" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def without_idle(f: Any, kwargs: Any) -> Any:
    """The keywords but for those of JAX's that ask for nothing; NotImplementedError for one that asks for something.

    Every decorator of public functions calls this first, where there are keywords. Keywords that `f` takes are passed,
    and where it takes any, all: they may be a function's of the user.
    """
    if _holds_none(kwargs):
        return kwargs
    code: types.CodeType | None = getattr(inspect.unwrap(f), "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return kwargs
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in [name for name in kwargs if name in IDLE and name not in own]:
        value, (idle, why) = kwargs[name], IDLE[name]
        if (
            value is not idle
            and (type(value) is not type(idle) or value != idle)
            and not _asks_for_nothing(value)
        ):
            rule = f"{name} of {f.__name__} has no meaning here: {why}."
            raise NotImplementedError(message(rule, f"{name}: {value!r:.200}", fix=f"Leave {name} out."))
    return {name: value for name, value in kwargs.items() if name in own or name not in IDLE}


def _asks_for_nothing(value: Any) -> bool:
    """None, an AccuracyMode, a sharding on a mesh without axes, or a tuple, list or dictionary of such."""
    if isinstance(value, tuple | list | dict):
        held = cast("dict[Any, Any] | list[Any]", value)
        return all([_asks_for_nothing(x) for x in (held.values() if isinstance(held, dict) else held)])
    if isinstance(value, AccuracyMode):  # that of every program
        return True
    return value is None or getattr(getattr(value, "mesh", None), "axis_names", None) == ()


def api_boundary(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function so that errors out of it show the user's frames only.

    Keywords that JAX's function of the name may have, and that would change nothing, are taken: see `without_idle`.
    """

    call = cast("Callable[..., R]", f)

    @functools.wraps(f)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **without_idle(f, kwargs)) if kwargs else call(*args)
        except Exception as error:
            strip_internal_frames(error)
            raise

    return bounded
