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
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar, cast

from didax.core import config, source
from didax.core.accuracy import AccuracyMode
from didax.core.missing_names import AdvisingAttributeError

P = ParamSpec("P")
R = TypeVar("R")


class ArgumentError(TypeError, ValueError):
    """An argument whose shape, dtype, structure or value the function cannot take.

    NumPy and JAX raise TypeError for some of these and ValueError for others; programs that catch either catch this.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.qr(dnp.eye(2), mode="full")
    Traceback (most recent call last):
    didax.core.errors.ArgumentError: qr has 4 choices of mode.
      mode: 'full'
    Use 'reduced', 'complete', 'r' or 'raw'.
    >>> issubclass(ArgumentError, TypeError), issubclass(ArgumentError, ValueError)
    (True, True)
    """


class NoMeshError(ValueError, RuntimeError):
    """A spec refers to a mesh, and none is in force. JAX raises either class, depending on the function."""


class PositionError(ArgumentError, IndexError):
    """An axis or a position that an array does not have, or index arrays that do not fit together.

    >>> import didax.numpy as dnp
    >>> from didax import lax
    >>> lax.slice_in_dim(dnp.zeros(3), 0, 1, axis=2)
    Traceback (most recent call last):
    didax.core.errors.PositionError: slice_in_dim has no such axis.
      operand: float32[3], axis: 2
    Name an axis from -1 to 0.
    """


class FormatKeyError(KeyError):
    """A name in the braces of a format string without a value; it shows its text as lines, which KeyError does not.

    >>> import didax as dx
    >>> dx.debug.print("{y}", x=1)
    Traceback (most recent call last):
    didax.core.errors.FormatKeyError: debug.print needs a value for each name in braces.
      place: {y}, names given: x
    Pass it: debug.print("{y}", y=...); {{}} shows braces as text.
    """

    __str__ = Exception.__str__


class JAXTypeError(TypeError):
    """The base of errors that programs for JAX catch by this name: misused tracers, and keys that are used twice.

    >>> import didax as dx
    >>> try:
    ...     dx.jit(lambda x: 1 if x > 0 else 2)(3.0)
    ... except JAXTypeError as error:
    ...     print(type(error).__name__)
    TracerBoolConversionError
    """


class JAXIndexError(IndexError):
    """The base of errors that programs for JAX catch by this name: traced arrays in an index that fixes a shape.

    >>> import didax as dx, didax.numpy as dnp
    >>> try:
    ...     dx.jit(lambda x, n: x[:n])(dnp.arange(3), 2)
    ... except JAXIndexError as error:
    ...     print(type(error).__name__)
    TracerSliceError
    """


class ConcretizationTypeError(JAXTypeError):
    """A value was needed while only its shape and dtype are known.

    >>> import didax as dx
    >>> dx.jit(lambda x: 2.0 * float(x))(3.0)
    Traceback (most recent call last):
    didax.core.errors.ConcretizationTypeError: A traced array has no float value: its numbers are not known...
      ...
    Keep it an array (didax.numpy instead of math), or compute it outside.
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced array was used where Python needs True or False.

    >>> import didax as dx
    >>> dx.jit(lambda x: x if x > 0 else -x)(3.0)
    Traceback (most recent call last):
    didax.core.errors.TracerBoolConversionError: Python cannot branch on a traced array: its truth value is not...
      ...
    Use didax.lax.cond or didax.numpy.where, for loops didax.lax.while_loop; or make it static (static_argnames...
    """


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced array was used where Python needs an integer: an index, a shape, a length.

    >>> import didax as dx
    >>> dx.jit(lambda n: list(range(n)))(3)
    Traceback (most recent call last):
    didax.core.errors.TracerIntegerConversionError: A traced array cannot be a Python index, a length or part...
      ...
    Index an array (not a list) with it, loop with didax.lax.fori_loop (not over a range), compute shapes from...
    """


class TracerSliceError(TracerIntegerConversionError, JAXIndexError):
    """A traced array was used as a bound of a slice.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jit(lambda x, n: x[:n])(dnp.arange(3), 2)
    Traceback (most recent call last):
    didax.core.errors.TracerSliceError: The bounds of a slice fix the shape of the result, so they cannot be traced.
      ...
    Use didax.lax.dynamic_slice(x, starts, sizes) with static sizes, or mask with where.
    """


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced array was handed to NumPy, which needs its numbers.

    >>> import didax as dx, numpy as np
    >>> dx.jit(lambda x: np.asarray(x) + 1)(3.0)
    Traceback (most recent call last):
    didax.core.errors.TracerArrayConversionError: NumPy needs numbers, and a traced array has none yet.
      ...
    Use the function of the same name in didax.numpy, or compute this part outside the transformation.
    """


class TracerAttributeError(AdvisingAttributeError, ConcretizationTypeError):
    """A traced array was asked where it is in memory.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jit(lambda x: x.addressable_shards)(dnp.zeros(3))
    Traceback (most recent call last):
    didax.core.errors.TracerAttributeError: A traced array has no addressable_shards: it is not in memory while...
      ...
    Ask for it outside of the transformed function, of an argument or a result.
    """


class NonConcreteBooleanIndexError(ConcretizationTypeError, JAXIndexError):
    """A traced boolean mask was used as an index, so the result's shape is not known.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jit(lambda x: x[x > 0])(dnp.arange(3))
    Traceback (most recent call last):
    didax.core.errors.NonConcreteBooleanIndexError: A traced mask cannot be an index: how many elements it...
      ...
    Use didax.numpy.where(mask, x, y), or the indices didax.numpy.nonzero(mask, size=...).
    """


class UnexpectedTracerError(JAXTypeError):
    """A tracer outlived the transformation that made it, or was used outside of it; `tracer` is that tracer.

    >>> import didax as dx
    >>> kept = []
    >>> _ = dx.jit(lambda x: kept.append(x) or x)(1.0)
    >>> kept[0] + 1
    Traceback (most recent call last):
    didax.core.errors.UnexpectedTracerError: A traced array was used after the transformation that made it had...
      ...
    Return the value from the transformed function instead of storing it in a global, an attribute or a list.
    """

    tracer: object = None


class MissingRuleError(NotImplementedError):
    """A primitive has no rule for the transformation that met it.

    >>> import didax as dx
    >>> dx.grad(dx.lax.polygamma)(2.0, 3.0)
    Traceback (most recent call last):
    didax.core.errors.MissingRuleError: polygamma has no derivative by its order.
      ...
    Hold the order constant (stop_gradient); differentiate by the other operand only.
    """


class RuleError(RuntimeError):
    """A primitive's rule failed: it raised, wrote a text that XLA refuses, or returned values of wrong types.

    >>> import numpy as np
    >>> from didax.extend import rules
    >>> half = rules.unary("half", eager=lambda x: x[:1], lower=None, jvp=None)
    >>> try:
    ...     half(np.float32([1.0, 2.0]))
    ... except RuleError as error:
    ...     print(type(error).__name__)
    RuleTypeError
    """


class RuleTypeError(RuleError, TypeError):
    """A primitive's rule returned a value of a type that it must not have, or takes no such arguments.

    >>> import numpy as np
    >>> from didax.extend import rules
    >>> half = rules.unary("half", eager=lambda x: x[:1], lower=None, jvp=None)
    >>> half(np.float32([1.0, 2.0]))
    Traceback (most recent call last):
    didax.core.errors.RuleTypeError: Result 0 is no NumPy value of the type that the type rule tells.
      ...
    Correct the `eager` of 'half'; the program that uses the primitive is not at fault.
    """


class NonlinearError(TypeError):
    """A function that is to be transposed is not linear; `rule` names the user's derivative rule that it is part of.

    >>> import didax as dx
    >>> dx.linear_transpose(lambda x: x * x, 1.0)(1.0)
    Traceback (most recent call last):
    didax.core.errors.NonlinearError: Only functions that are linear in their arguments can be transposed.
      ...
    Close over what the function is not linear in.
    """

    rule: str = ""
    facts: tuple[str, ...] = ()


class JaxprTypeError(TypeError):
    """A jaxpr breaks the rules of scope, single assignment or typing.

    >>> import didax as dx
    >>> from didax.extend import core
    >>> one, other = (dx.make_jaxpr(lambda x: x)(1.0).jaxpr for _ in range(2))
    >>> core.check_jaxpr(core.Jaxpr(one.invars, [], other.outvars))
    Traceback (most recent call last):
    didax.core.errors.JaxprTypeError: A variable is used before it is bound.
      ...
    Bind it by an input or an earlier equation: jaxprs are closed and capture nothing.
    """


class TypePromotionError(ArgumentError):
    """Two dtypes have no implicit promotion under the rules in force.

    >>> import didax.numpy as dnp
    >>> dnp.ones(2, "float8_e5m2") + dnp.ones(2, "float8_e4m3fn")
    Traceback (most recent call last):
    didax.core.errors.TypePromotionError: These dtypes promote to no common dtype.
      ...
    Cast one of them to the dtype you want, as in x.astype('float32').
    """


class InconclusiveDimensionOperation(TypeError):
    """What was asked of a symbolic dimension depends on its size.

    >>> from didax import export
    >>> b, n = export.symbolic_shape("b, n")
    >>> b > n
    Traceback (most recent call last):
    didax.core.errors.InconclusiveDimensionOperation: Whether b > n depends on the sizes of symbolic dimensions.
    ...
    """


class KeyReuseError(JAXTypeError):
    """A random key was used a second time (the option `debug_key_reuse` is 'error').

    >>> import didax as dx
    >>> with dx.debug_key_reuse("error"):
    ...     key = dx.random.key(0)
    ...     both = dx.random.normal(key), dx.random.uniform(key)
    Traceback (most recent call last):
    didax.core.errors.KeyReuseError: A random key is to be used once: what is drawn from it a second time is...
      ...
    Make a key for each use with random.split or random.fold_in; random.clone(key) says that it is meant. The...
    """


class CheckError(ValueError):
    """What `debug.check` demands of a program's values did not hold.

    >>> from didax import debug
    >>> debug.check(False, "no root of {x}", x=-1.0)
    Traceback (most recent call last):
    didax.core.errors.CheckError: no root of -1.0
    ...
    """


class OutOfBoundsError(CheckError, IndexError):
    """An index known only at run time is not in range.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.debug_mode():
    ...     dx.jit(lambda x, i: x[i])(dnp.arange(3), 7)
    Traceback (most recent call last):
    didax.core.errors.OutOfBoundsError: out-of-bounds indexing for array of shape (3,): index 7 is out of bounds...
    ...
    """


class NaNError(CheckError, FloatingPointError):
    """An operation made a NaN (or an infinity) out of numbers.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.debug_nans(True):
    ...     dnp.log(-1.0)
    Traceback (most recent call last):
    didax.core.errors.NaNError: An operation made a NaN out of numbers that hold none.
      ...
    Keep its operands where it is defined. The option debug_nans can be 'outputs', which reports only what...
    """


class DivisionByZeroError(CheckError, ZeroDivisionError):
    """A divisor is zero.

    >>> import didax as dx
    >>> from didax import checkify
    >>> error, _ = checkify.checkify(lambda x: 1 / x, errors=checkify.div_checks)(0.0)
    >>> error.throw()
    Traceback (most recent call last):
    didax.core.errors.DivisionByZeroError: division by zero
    ...
    """


class ShardingTypeError(TypeError):
    """Operands are split over explicit mesh axes in ways that do not say how the result is split.

    >>> import didax as dx, didax.numpy as dnp
    >>> mesh = dx.make_mesh((1,), ("x",), axis_types=(dx.sharding.AxisType.Explicit,))
    >>> with dx.set_mesh(mesh):
    ...     rows, columns = (dx.reshard(dnp.ones((2, 2)), spec) for spec in (dx.P("x"), dx.P(None, "x")))
    ...     rows + columns
    Traceback (most recent call last):
    didax.core.errors.ShardingTypeError: A mesh axis splits at most one axis of the result of add.
      ...
    Say how the result is split, by out_sharding= where the function takes it, or lay the operands out first:...
    """


class DistributedError(RuntimeError):
    """Processes that compute together do not: one has ended, is late, cannot be reached, or runs another program.

    >>> import didax as dx
    >>> try:
    ...     total = dx.numpy.ones(3).sum()  # in a process of a job: a result that needs the other processes
    ... except DistributedError as error:
    ...     raise SystemExit(f"start again from the last checkpoint: {error}")
    """


class KeyReuseWarning(UserWarning):
    """A random key was used a second time (the option `debug_key_reuse` is 'warn').

    >>> import warnings, didax as dx
    >>> with dx.debug_key_reuse("warn"), warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     key = dx.random.key(0)
    ...     both = dx.random.normal(key), dx.random.uniform(key)
    >>> caught[0].category.__name__
    'KeyReuseWarning'
    """


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
    if getattr(value, "ndim", 0) or value not in choices:
        rule = f"{name} has {len(choices)} choices of {option}."
        *first, last = map(repr, choices)
        fix = f"Use {', '.join(first)} or {last}."
        raise ArgumentError(message(rule, f"{option}: {value!r:.100}", fix=fix))


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback was cut: it has all of it (the option `traceback_filtering`)."""


def strip_internal_frames(
    error: BaseException,
    f: Any = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> BaseException:
    """Return `error` with a traceback that shows the user's frames; the option `traceback_filtering` says how.

    The arguments of the public function `f` are written into the text of an error that Python raised within it.

    "on" cuts the frames of Didax's own files; "off" leaves all; "remove_frames" cuts them and keeps the whole traceback
    in the error's cause; "tracebackhide" marks them by a local variable `__tracebackhide__`, as IPython likes.
    """
    mode = config.state().traceback_filtering
    frames = _frames(error.__traceback__)
    if f is not None and (type(error) in _RAISED_BY_PYTHON or _is_of_ufunc(error)):
        _name_arguments(error, frames, f, args, kwargs)
    if mode == "off":
        return error
    if mode == "tracebackhide":
        for tb in frames:
            if source.is_hidden(tb.tb_frame.f_code):
                tb.tb_frame.f_locals["__tracebackhide__"] = True
        return error
    kept = [tb for tb in frames if not source.is_hidden(tb.tb_frame.f_code)]
    if mode == "remove_frames" and len(kept) < len(frames):
        _keep_in_cause(error, frames)
    return error.with_traceback(_chain(kept))


_RAISED_BY_PYTHON = {TypeError, ValueError, AttributeError, IndexError}


def _is_of_ufunc(error: BaseException) -> bool:
    """Whether NumPy says that an elementwise function takes no operands of these dtypes, such as dates and texts."""
    return isinstance(error, TypeError) and type(error).__name__ == "UFuncTypeError"


_LIBRARIES = {"numpy", "opt_einsum", "ml_dtypes", "jaxlib", *sys.stdlib_module_names}


def _name_arguments(
    error: BaseException,
    frames: list[types.TracebackType],
    f: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Make the text of an error that Python or NumPy raised say which function met it, and on which arguments.

    The text of such an error is one line that knows no argument: "'float' object cannot be interpreted as an integer".
    It is left alone where a function of the user raised it, and where the caller of `f` belongs to Didax, whose own
    caller knows the arguments that the user wrote.
    """
    text = str(error)
    if "incompatible function arguments" in text:  # of jaxlib; a list of all signatures follows
        text = text.partition(" The following")[0]
    caller = frames[0].tb_frame.f_back if frames else None
    if (
        "\n" in text
        or caller is None
        or source.is_hidden(caller.f_code)
        or not str(getattr(f, "__module__", "")).startswith("didax.")
        or f.__name__ == "__call__"  # of an object that stands for a function of the user
        or any([_is_users(tb.tb_frame) for tb in frames])
    ):
        return
    if _is_of_ufunc(error):
        error.__class__ = ArgumentError  # NumPy's own class knows no other text than NumPy's
    if made := f.__name__ in ("__init__", "__new__"):
        name = f.__qualname__.rpartition(".")[0]
    else:
        name = f.__qualname__ if f.__name__.startswith("__") else f.__name__
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # there is none
        return
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # the error says that the call itself does not fit
        untyped = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        untyped = untyped[made:]  # without the object that is made
        taken = f"{name}{inspect.Signature(untyped)}"
        error.args = (
            message(f"{text.rstrip('.')}.", taken, fix=f"help({name}) says what each argument is."),
        )
        return
    if called := _called_wrongly(text, given):
        rule = f"A function given to {name} takes other arguments than {name} passes: {text.rstrip('.')}."
        error.args = (message(rule, *called, fix=f"help({name}) says what the function gets."),)
        return
    facts = [f"{argument}: {_described(x)}" for argument, x in list(given.items())[made:]]
    rule = f"{name} met an argument that it cannot use: {text.rstrip('.')}."
    error.args = (message(rule, *facts, fix=f"Change that argument; help({name}) says what each may be."),)


_NO_FIT = re.compile(r"(.*)\(\) (?:takes (?:from \d+ to )?(\d+) positional|missing .* '(\w+)'$)")


def _called_wrongly(text: str, given: Mapping[str, Any]) -> list[str]:
    """The functions among the arguments of which the text can say that a call of one of them does not fit."""
    found = _NO_FIT.match(text)
    if found is None:
        return []
    name, count, missing = found.groups()
    paths = {
        f"{argument}[{i}]" if type(x) in (list, tuple) else argument: f
        for argument, x in given.items()
        for i, f in enumerate(x if type(x) in (list, tuple) else [x])
    }
    called = {path: f for path, f in paths.items() if getattr(f, "__qualname__", None) == name}
    return [
        f"{path}: {source.describe_function(f)}, which takes {inspect.signature(f)}"
        for path, f in called.items()
        if (code := getattr(f, "__code__", None)) is not None
        and (code.co_argcount == int(count) if count else missing in code.co_varnames[: code.co_argcount])
    ]


def _is_users(frame: types.FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return not source.is_hidden(frame.f_code) and module.partition(".")[0] not in _LIBRARIES


def _described(x: Any) -> str:
    """An array by its type, any other value by its text and the name of its type."""
    if (aval := getattr(x, "aval", None)) is not None:
        return str(aval)
    # The scalar types of NumPy have a descriptor as their shape.
    if hasattr(x, "dtype") and isinstance(getattr(x, "shape", None), tuple):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    if type(x) in (list, tuple) and len(x) <= 6:
        items = ", ".join(map(_described, x))
        return f"[{items}]" if type(x) is list else f"({items})"
    text = source.describe_function(x) if isinstance(x, types.FunctionType) else repr(x)
    return f"{text:.80} of type {type(x).__name__}"


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
"""Keywords that functions take in JAX but not here: the value that asks for nothing, and why there is no other."""
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
    """The keywords without JAX's that ask for nothing; NotImplementedError for one of JAX's that asks for something.

    Every decorator of public functions calls this first, if there are keywords. Keywords that `f` takes are passed on.
    If `f` takes any keyword, all are passed on: they may belong to a function of the user's.
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
            strip_internal_frames(error, f, args, kwargs)
            raise

    return bounded
