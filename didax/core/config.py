"""Options: read with `state()`, set with `config.update(...)`, an environment variable or a context manager.

A `State` is an immutable snapshot of every option, and equal snapshots are the same object: caches use the snapshot's
identity as part of their keys, and reading options costs one context-variable lookup. Environment variables are named
`DIDAX_<OPTION>`; names may carry JAX's `jax_` prefix. Context managers (`enable_x64`, ...) overlay the global options
for the current thread or task only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import warnings
from contextvars import ContextVar, Token
from typing import Any

from didax.core.process import lock_for_forks


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class State:
    """A snapshot of all options; equal snapshots are identical."""

    enable_x64: bool = False
    numpy_dtype_promotion: str = "standard"
    numpy_rank_promotion: str = "allow"
    disable_jit: bool = False
    check: bool = False
    traceback_filtering: str = "on"
    explain_cache_misses: bool = False
    platforms: str = ""
    num_cpu_devices: int = -1  # how many devices the CPU is divided into; -1: as XLA_FLAGS says, else one
    compilation_cache_dir: str = ""
    enable_compilation_cache: bool = True
    compilation_cache_max_size: int = 1 << 30
    keep_memory: int = 0  # bytes that the process keeps for new arrays; -1: no bound
    default_matmul_precision: str = "default"
    default_prng_impl: str = "threefry2x32"
    threefry_partitionable: bool = True
    optimize_loops: str = "auto"
    debug_key_reuse: str = "warn"
    debug_nans: str = "off"
    debug_infs: str = "off"
    error_checking_behavior_oob: str = "ignore"
    check_tracer_leaks: bool = False
    as_in_jax: bool = False
    compile_in_background: bool = False
    no_tracing: bool = False
    no_execution: bool = False
    lowering_platform: Any = None  # which programs are staged and written for; None: that of the process
    user_contexts: Any = ()  # the values of `make_user_context`, as pairs
    mesh: Any = None  # the one that specs without a mesh refer to: see `core/sharding.py`
    # Where programs run whose arguments nobody has placed; None: on the first device.
    default_device: Any = None

    @property
    def inspects_values(self) -> bool:
        """Whether results or indices are looked at while programs run, or whether none may run."""
        looks = not self.debug_nans == self.debug_infs == "off" or self.error_checking_behavior_oob == "raise"
        return looks or self.no_execution


CHOICES = {
    "numpy_dtype_promotion": ("standard", "strict"),
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "traceback_filtering": ("on", "off", "tracebackhide", "remove_frames"),
    "default_matmul_precision": ("default", "high", "highest", "F64_F64_F64"),
    "default_prng_impl": (
        *("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"),
    ),
    "optimize_loops": ("auto", "off"),
    "debug_key_reuse": ("off", "warn", "error"),
    "debug_nans": ("off", "on", "outputs"),
    "debug_infs": ("off", "on", "outputs"),
    "error_checking_behavior_oob": ("ignore", "raise"),
}
# Options that may also be set with a bool, as in JAX.
FLAGS = {
    "optimize_loops": {True: "auto", False: "off"},
    "debug_key_reuse": {True: "error", False: "off"},
    "debug_nans": {True: "on", False: "off"},
    "debug_infs": {True: "on", False: "off"},
}
# The values that JAX has for an option -> the values with the same meaning here.
JAX_VALUES: dict[str, dict[str, str]] = {
    "traceback_filtering": dict.fromkeys(("auto", "quiet_remove_frames"), "on"),
    "default_matmul_precision": {
        "": "default",
        "bfloat16": "default",
        "tensorfloat32": "high",
        "float32": "highest",
        # names of algorithms: the precision here that loses no more digits
        **dict.fromkeys(
            (
                "ANY_F8_ANY_F8_F32",
                "ANY_F8_ANY_F8_F32_FAST_ACCUM",
                "ANY_F8_ANY_F8_ANY",
                "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
                "F16_F16_F16",
                "F16_F16_F32",
                "BF16_BF16_BF16",
                "BF16_BF16_F32",
            ),
            "default",
        ),
        **dict.fromkeys(("TF32_TF32_F32", "bfloat16_3x"), "high"),
        **dict.fromkeys(
            ("BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32_X3", "F32_F32_F32"),
            "highest",
        ),
    },
}
_FIELDS = {field.name: field for field in dataclasses.fields(State)}
NAMES = tuple(_FIELDS)
# Programs depend on these as on options, but each of these is set by a function of its own.
NOT_OPTIONS = frozenset(["default_device", "lowering_platform", "mesh", "user_contexts"])
_interned: dict[tuple[Any, ...], State] = {}
# True once any snapshot had `inspects_values`, and while a profile runs: else hot paths need not ask further.
operations_were_watched = False
_values_were_inspected = False
default_device_was_set = False
operation_mark: Any = None  # while a profile runs: what makes the block that an eager operation runs in


def _intern(values: dict[str, Any]) -> State:
    global operations_were_watched, _values_were_inspected, default_device_was_set
    default_device_was_set = default_device_was_set or values["default_device"] is not None
    key = tuple(values[name] for name in NAMES)
    state = _interned.setdefault(key, State(*key))
    if state.inspects_values:
        operations_were_watched = _values_were_inspected = True
    return state


def mark_operations(mark: Any) -> None:
    """Run eager operations in the block that `mark(primitive)` makes, from now on; None: as they are."""
    global operations_were_watched, operation_mark
    operation_mark = mark
    operations_were_watched = _values_were_inspected or mark is not None


def watches_operations() -> bool:
    """Whether eager operations are looked at or marked."""
    return operation_mark is not None or state().inspects_values


def _values(state: State) -> dict[str, Any]:
    return {name: getattr(state, name) for name in NAMES}


def check_is_one_value(name: str, value: Any) -> None:
    """TypeError for an array with axes, which is neither true nor false, nor equal to a choice."""
    if getattr(value, "ndim", 0):
        raise TypeError(
            f"option {name!r} takes one value.\n  got: an array of shape {value.shape}\nPass one of its elements."
        )


def _normalise(name: str, value: Any) -> Any:
    """Check `value` against the option's type; text (environment variables) is parsed."""
    if name == "default_device":
        return _device(value)
    if name in NOT_OPTIONS:
        return value
    check_is_one_value(name, value)
    default = _FIELDS[name].default
    if name in FLAGS and value not in CHOICES[name]:
        flag = _BOOLS.get(value.lower()) if isinstance(value, str) else value
        value = FLAGS[name].get(flag, value) if isinstance(flag, bool) else value
    if isinstance(default, bool):
        value = _BOOLS.get(value.lower(), value) if isinstance(value, str) else bool(value)
    elif isinstance(default, int) and isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(default, str) and value is None:
        value = ""
    if name in JAX_VALUES and isinstance(value, str):
        value = JAX_VALUES[name].get(value, value)
    if name not in CHOICES and type(value) is not type(default):
        raise TypeError(
            f"option {name!r} takes a {type(default).__name__}.\n  got: {value!r}\nPass a {type(default).__name__}."
        )
    if name in CHOICES and value not in CHOICES[name]:
        raise ValueError(
            f"option {name!r} takes one of {CHOICES[name]}.\n  got: {value!r}\nPass one of these."
        )
    if name == "num_cpu_devices" and type(value) is int and value < 1 and value != -1:
        raise ValueError(
            f"option {name!r} takes a number of devices.\n  got: {value!r}\nPass 1 or more, or -1 for one."
        )
    if type(value) is int and value < -1:
        raise ValueError(
            f"option {name!r} takes a number of bytes.\n  got: {value!r}\n"
            "Pass 0 or a positive number, or -1 for no bound."
        )
    if name == "compilation_cache_dir" and os.path.exists(value) and not os.path.isdir(value):
        raise ValueError(
            f"option {name!r} takes a directory.\n  got: {value!r}, a file\nPass another path, or remove the file."
        )
    return value


def _device(value: Any) -> Any:
    """A device; None for the name of a platform, because a process has one platform only."""
    if value is None or isinstance(value, str):
        return None
    if not hasattr(value, "device_kind"):
        raise TypeError(
            f"option 'default_device' takes a device.\n  got: {value!r:.200}\nPass one of didax.local_devices()."
        )
    return value


_BOOLS = {
    "1": True,
    "true": True,
    "on": True,
    "yes": True,
    "0": False,
    "false": False,
    "off": False,
    "no": False,
    "": False,
}


# Options that have another name in JAX.
_OTHER_NAMES = {"enable_checks": "check", "platform_name": "platforms", "x64_enabled": "enable_x64"}


def option_named(option: str) -> str:
    """The option of that name, which may be JAX's."""
    name = option.removeprefix("jax_")
    name = _OTHER_NAMES.get(name, name)
    if name not in _FIELDS:
        options = ", ".join(name for name in NAMES if name not in NOT_OPTIONS)
        raise AttributeError(f"unknown option {option!r}.\n  options: {options}\nUse one of these names.")
    return name


def names_in_jax() -> list[str]:
    """The options that JAX has too, by their names there."""
    own = {"as_in_jax", "check", "compile_in_background", "keep_memory", "optimize_loops", *NOT_OPTIONS}
    own -= {"default_device"}
    return [f"jax_{name}" for name in (*NAMES, *_OTHER_NAMES) if name not in own]


def _from_environment() -> State:
    values = _values(State())
    for name in NAMES:
        text = os.environ.get(variable_of(name)) if name not in NOT_OPTIONS else None
        # An empty variable counts as unset, except for a flag.
        if text is not None and (text.strip() or type(values[name]) is bool):
            values[name] = _from_variable(name, text)
    return _intern(values)


def variable_of(name: str) -> str:
    """The environment variable that sets an option."""
    return f"DIDAX_{name.upper()}"


def _from_variable(name: str, text: str) -> Any:
    try:
        return _normalise(name, text)
    except (TypeError, ValueError) as error:
        default = _FIELDS[name].default
        allowed = ", ".join(CHOICES.get(name, ()))
        if isinstance(default, bool) or name in FLAGS:
            allowed = ", ".join(filter(None, [allowed, "1, true, on, yes, 0, false, off, no"]))
        elif name == "num_cpu_devices":
            allowed = "an integer, 1 or more"
        elif type(default) is int:
            allowed = "an integer, 0 or more, or -1 for no bound"
        elif not allowed:
            allowed = "the path of a directory"
        raise type(error)(
            f"The environment variable {variable_of(name)} has a value that it cannot have.\n"
            f"  {variable_of(name)}={text!r}, which may be: {allowed}\n"
            f"Set it to one of these, or unset it."
        ) from None


class _Overlay:
    """Options set by context managers, on top of the global ones."""

    __slots__ = ("_known", "values")

    def __init__(self, values: dict[str, Any]):
        self.values = values
        # The global options, and these on top of them.
        self._known: tuple[State | None, State | None] = None, None

    def state(self) -> State:
        base, state = self._known  # read at once: threads that run in copies of one context share the overlay
        if state is None or base is not global_state:
            base = global_state
            state = _intern(_values(base) | self.values)
            self._known = base, state
        return state


# The options in force where the variable holds no overlay: hot paths look at both themselves, which spares a call.
global_state: State = _from_environment()
_update_lock = lock_for_forks(threading.RLock())
overlay_var: ContextVar[_Overlay | None] = ContextVar("didax_config", default=None)


def state() -> State:
    """The options in force here and now."""
    overlay = overlay_var.get()
    return global_state if overlay is None else overlay.state()


def update(option: str, value: Any) -> None:
    """Set an option for the whole process.

    >>> update("jax_enable_x64", False)
    """
    global global_state
    name = option_named(option)
    with _update_lock:
        global_state = _intern(_values(global_state) | {name: _normalise(name, value)})


class override(contextlib.ContextDecorator):
    """Set options inside a `with` block or a decorated function, for this thread or task; values are checked at once.

    >>> with override(enable_x64=True):
    ...     state().enable_x64
    True
    """

    def __init__(self, **options: Any):
        self._options = {
            option_named(option): _normalise(option_named(option), value) for option, value in options.items()
        }
        self._tokens: list[Token[_Overlay | None]] = []

    def __enter__(self) -> None:
        outer = overlay_var.get()
        values = (outer.values if outer else {}) | self._options
        overlay = _Overlay(values)
        overlay.state()  # from now on hot paths know whether operations are watched, without asking for the options
        self._tokens.append(overlay_var.set(overlay))

    def __exit__(self, *_: object) -> None:
        overlay_var.reset(self._tokens.pop())

    def _recreate_cm(self) -> override:
        """Each call of a decorated function enters a block of its own: threads may run it at once."""
        return override(**self._options)


class option_block(override):
    """What the public context managers return: `override`, with a warning where nobody enters the block."""

    _is_used = True  # until all values have been checked

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._is_used = False

    def __enter__(self) -> None:
        self._is_used = True
        super().__enter__()

    def __call__(self, func: Any) -> Any:
        self._is_used = True
        return super().__call__(func)

    def __del__(self) -> None:
        if not self._is_used:
            values = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
            rule = "A context manager that sets options does nothing unless a `with` block is entered."
            name, value = next(iter(self._options.items()))
            fix = "Write `with ...:` around the calls, or set an option for the whole process, as in "
            fix += f"didax.config.update({name!r}, {value!r})"
            warnings.warn(f"{rule}\n  options: {values}\n{fix}.", stacklevel=2)


def of_programs(snapshot: State) -> State:
    """The options that programs depend on: all but the one that only explains why a program is traced."""
    return (
        _intern(_values(snapshot) | {"explain_cache_misses": False})
        if snapshot.explain_cache_misses
        else snapshot
    )


def changes(old: State, new: State) -> list[str]:
    """What differs between two snapshots: a text for each option."""
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in NAMES]
    return [f"option {name} was {before!r}, now is {now!r}" for name, before, now in pairs if before != now]


def pinned(snapshot: State) -> override:
    """A block in which exactly these options are in force, whatever other threads set meanwhile."""
    return override(**_values(snapshot))
