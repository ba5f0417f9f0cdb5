"""`jax.experimental.hijax`: types of values that a program declares, above all of values that change.

    class Box: ...                          a Python class, whose values hold arrays
    class BoxType(MutableHiType): ...       says which arrays, and makes a value of given arrays
    class SetBox(HiPrimitive): ...          an operation; `to_lojax` does it
    register_hitype(Box, typeof)            the type of a value

No program of Didax holds such a value. An operation runs its `to_lojax` when it is applied, on the arrays inside,
traced or not; only these are in programs. What changes has a *home*, as a Ref has: the trace in which it was made. A
function that is staged within its life, or differentiated or mapped, reads and writes it through Refs, which take the
place of its arrays (`_in_refs`): so it may change what it closes over. A function that is jitted may also take such
values as arguments, and change their structure. Read next: `high_arguments.py`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from didax.api.flat import as_array
from didax.api.inspect import typeof as type_of_array
from didax.as_jax.core_names import AbstractValue
from didax.as_jax.hijax_rules import VJPHiPrimitive
from didax.as_jax.interpreters.ad import is_undefined_primal
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.primitive import Trace
from didax.core.ref import Ref
from didax.core.tracing import Tracer, current_trace, set_current_trace
from didax.primitives.convert import convert_element_type

__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiType", "MutableHiType", "ShapedArray",
    "VJPHiPrimitive", "Zero", "aval_method", "aval_property", "control_flow_allowed_effects", "cur_qdd",
    "instantiate_zeros", "is_undefined_primal", "register_hitype", "typeof",
]  # fmt: skip

instantiate_zeros = instantiate
# Classes of values, with the function that tells the type of one.
_kinds: dict[type, Callable[[Any], Any]] = {}


def register_hitype(kind: type, typeof: Callable[[Any], Any]) -> None:
    """State the type of the values of a class."""
    _kinds[kind] = typeof
    # Values that hand every attribute on to an array inside would pass for this array where it is looked for.
    kind.aval = property(lambda x: typeof(x))  # type: ignore[attr-defined]


def typeof(x: Any) -> Any:
    """The type of an array, or of a value of a class that `register_hitype` knows."""
    return _kinds[type(x)](x) if type(x) in _kinds else type_of_array(x)


def is_high(x: Any) -> bool:
    """Whether `x` is a value of a class that `register_hitype` knows."""
    return type(x) in _kinds


def changes(x: Any) -> bool:
    """Whether `x` is such a value, and one that changes."""
    return type(x) in _kinds and bool(getattr(typeof(x), "has_qdd", False))


# --- Types ------------------------------------------------------------------------------------------------------


class HiType(AbstractValue):
    """A type of values that do not change: `lower_val(x)` are its arrays, `raise_val(*arrays)` is the value."""

    is_high = True
    has_qdd = False


class MutableHiType(AbstractValue):
    """A type of values that change.

    What changes besides the numbers, such as the types of the arrays inside, is the value's `cur_qdd()`. With it
    `read_loval(qdd, x)` are the arrays, `new_from_loval(qdd, *arrays)` is a value of them, and
    `update_from_loval(qdd, x, *arrays)` changes `x`.
    """

    is_high = True
    has_qdd = True


class AvalQDD(NamedTuple):
    """A type together with what changes."""

    aval: Any
    qdd: Any


class AvalMutableQDD(NamedTuple):
    """A type together with what an operation is about to change."""

    aval: Any
    mutable_qdd: Any


class aval_method:
    """A method of traced values that their type defines. Here traced values are of the class itself."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class aval_property:
    """A property of traced values that their type defines. Here traced values are of the class itself."""

    def __init__(self, fget: Callable[..., Any]):
        self.fget = fget


class _AllowedEffects:
    """The effects that branches and loops may have."""

    def __init__(self) -> None:
        self.types: set[type] = set()

    def add_type(self, kind: type) -> None:
        """Allow a class of effects."""
        self.types.add(kind)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is allowed."""
        return isinstance(effect, tuple(self.types))


control_flow_allowed_effects = _AllowedEffects()

# --- Operations -------------------------------------------------------------------------------------------------


class HiPrimitive:
    """An operation on values of declared types and on arrays: `to_lojax` does it, in terms of the arrays inside."""

    multiple_results = False

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """The results, or for a value that changes, the change."""
        raise NotImplementedError(f"The operation {self.name!r} needs a method to_lojax.")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Do it, wherever the values are at home."""
        if _plain.on:
            return self._apply(args, params)
        with contextlib.ExitStack() as edits:
            outs = self._apply([edits.enter_context(_at_hand(x)) if changes(x) else x for x in args], params)
        for x in outs if self.multiple_results else [outs]:
            if changes(x):
                note_made(x)
        return outs

    def _apply(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        outs = self.to_lojax(*args, **params)
        outs = list(outs) if self.multiple_results else outs
        self._check_rules(args, outs)
        return outs

    def _check_rules(self, args: Sequence[Any], outs: Any) -> None:
        """Refuse an operation without side effects whose own rule for derivatives might be asked for."""
        if not hasattr(type(self), "jvp") or any(
            map(changes, [*args, *(outs if type(outs) is list else [outs])])
        ):
            return
        if any(isinstance(x, Tracer) for x in args):
            rule = f"The operation {self.name!r} has a derivative rule of its own, which Didax cannot follow."
            fix = "Use jax.custom_jvp, or a class without the method jvp."
            raise NotImplementedError(message(rule, f"operation: {type(self).__qualname__}", fix=fix))

    def bind_with_trace(self, trace: Trace, args: Any, avals: Any, params: dict[str, Any], /) -> Any:
        """Do it under that trace."""
        with set_current_trace(trace):
            return self.bind(*args, **params)


def cur_qdd(x: Any) -> Any:
    """What changes about a value besides its numbers, as it is now."""
    if _plain.on:
        return x.cur_qdd()
    with _at_hand(x) as here:
        return here.cur_qdd()


# --- Where values are at home -----------------------------------------------------------------------------------

# Note [Values in place of values]
# The arrays of a value that is at home in the current trace are in the value. Any other trace is given another value,
# of the same class, with the arrays that Refs hold; what the operation changes in it is written to the Refs. From then
# on the Refs are what the value itself holds, in the places of its arrays, so that it has no other owner.


class _Plain(threading.local):
    """Whether operations are done to the very values that they are given."""

    on = False


class _Made(NamedTuple):
    trace: Trace
    values: dict[int, Any]  # by id: they need not be hashable, nor weakly referable


_plain = _Plain()
_made: dict[int, _Made] = {}  # by id of a trace that is running
_qdd_in_refs: WeakKeyDictionary[Ref, Any] = WeakKeyDictionary()  # of a value in Refs, by the first of these


@contextlib.contextmanager
def _plainly() -> Generator[None]:
    before, _plain.on = _plain.on, True
    try:
        yield
    finally:
        _plain.on = before


def note_made(x: Any) -> None:
    """The current trace is the home of a value that changes."""
    trace = current_trace()
    if trace is trace.parent:
        return
    if id(trace) not in _made:
        for key in [key for key, made in _made.items() if made.trace.ended]:
            _made.pop(key, None)
        _made[id(trace)] = _Made(trace, {})
    _made[id(trace)].values[id(x)] = x


def _home(kind: Any, x: Any) -> Trace:
    """The trace in which a value was made: by an operation, or else from arrays that are traced there."""
    trace = current_trace()
    if trace is trace.parent:
        return trace
    with _plainly():
        owners = [y.owner for y in kind.read_loval(x.cur_qdd(), x) if isinstance(y, Tracer)]
    while trace is not trace.parent and trace not in owners:
        if id(trace) in _made and id(x) in _made[id(trace)].values:
            break
        trace = trace.parent
    return trace


@contextlib.contextmanager
def _at_hand(x: Any) -> Generator[Any]:
    """A value that the current trace may read and change in place of `x`: see Note [Values in place of values]."""
    kind = typeof(x)
    home = _home(kind, x)
    refs = _refs_in(kind, x)
    if refs is None:
        if home is current_trace():
            with _plainly():
                yield x
            return
        refs = _in_refs(kind, x, home)
    with _plainly():
        qdd = _qdd_in_refs[refs[0]] if refs else x.cur_qdd()
        values = [ref.read() for ref in refs]
        here = kind.new_from_loval(qdd, *values)
        yield here
        after = kind.read_loval(here.cur_qdd(), here)
        if here.cur_qdd() == qdd and all(a is b for a, b in zip(after, values, strict=True)):
            return
        after = _of_types(refs, after)
        changed = kind.new_from_loval(here.cur_qdd(), *after).cur_qdd() if len(after) == len(refs) else None
    if changed != qdd:
        rule = (
            "A value from outside of a transformed function keeps its structure, and the types of its arrays."
        )
        facts = f"value: {kind!r:.100}", f"before: {qdd!r:.200}", f"after: {here.cur_qdd()!r:.200}"
        fix = "Pass it to the jitted function as an argument, or make it anew."
        raise NotImplementedError(message(rule, *facts, fix=fix))
    for ref, value, old in zip(refs, after, values, strict=True):
        if value is not old:
            ref.write(value)


def _of_types(refs: Sequence[Ref], values: Sequence[Any]) -> list[Any]:
    """The values in the types of the Refs, as far as only their weak types differ."""
    same = lambda ref, x: (ref.shape, ref.dtype) == (aval_of(x).shape, aval_of(x).dtype)
    return [
        convert_element_type(x, ref.dtype, ref.weak_type) if same(ref, x) else x
        for ref, x in zip(refs, values, strict=False)
    ] + list(values[len(refs) :])


def _refs_in(kind: Any, x: Any) -> list[Ref] | None:
    """The Refs that a value holds in place of its arrays; None where it holds arrays."""
    if not _qdd_in_refs:
        return None
    with _plainly():
        held = kind.read_loval(x.cur_qdd(), x)
    return held if held and isinstance(held[0], Ref) and held[0] in _qdd_in_refs else None


def _in_refs(kind: Any, x: Any, home: Trace) -> list[Ref]:
    """Put the arrays of a value into Refs, which are at home where it is."""
    with _plainly():
        qdd = x.cur_qdd()
        values = kind.read_loval(qdd, x)
        with set_current_trace(home):
            refs = [Ref(as_array(value)) for value in values]
        if refs:
            _qdd_in_refs[refs[0]] = qdd
            kind.update_from_loval(qdd, x, *refs)
    return refs
