"""Refs: mutable arrays, which programs read and write in place, eagerly and inside every transformation.

    ref = new_ref(x)                 make one
    ref[...]      ref[i]             read it, all or a part         get
    ref[i] = v                       write to it                    set, swap
    ref[i] += v                      add to it                      addupdate
    x = freeze(ref)                  its last value, and the end of it

A compiled program that writes to a part of a Ref changes the memory it is in: the rest is not copied.
`docs/refs.md` has examples and the rules. One of four files on mutable arrays, the one that users call. Read next:
`core/ref.py` (the class, and how programs stay pure); then `api/refs.py` and `api/ref_programs.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from didax.api.ref_programs import own_value
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.given import give
from didax.core.modules import on_access
from didax.core.primitive import Primitive, Trace, eager_trace
from didax.core.ref import Cell, Ref
from didax.core.ref import RefType as AbstractRef
from didax.core.tracing import current_trace, set_current_trace
from didax.core.value import Array
from didax.numpy.creation import asarray, zeros
from didax.numpy.indexing import at, getitem
from didax.numpy.promotion import ArrayLike, as_array, cast, checked_operand
from didax.primitives.elementwise import add, or_
from didax.primitives.gather import Scatter
from didax.primitives.shape import broadcast_in_dim
from didax.primitives.slicing import dynamic_update_slice_p
from didax.runtime.array import ConcreteArray, as_concrete, sharing
from didax.runtime.compiled import Program
from didax.runtime.numpy_plans import evaluates_with_numpy
from didax.transforms.cache import new_memory
from didax.transforms.staging import stage_program

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def new_ref(init_val: ArrayLike, *, memory_space: None = None, kind: None = None) -> Ref:
    """Return a mutable array with these contents. `memory_space` and `kind` are JAX's arguments and must be None.

    Raises TypeError for a value that is no array or scalar.

    >>> import didax as dx, didax.numpy as dnp
    >>> ref = dx.new_ref(dnp.arange(3))
    >>> ref[0] = 7
    >>> ref[...]
    Array([7, 1, 2], dtype=int32)
    """
    if memory_space is not None or kind is not None:
        rule = "A Ref is where its array is, and derivatives flow through it: memory_space and kind must be None."
        fix = "Move the array with didax.device_put; write lax.stop_gradient(v) for contents without derivative."
        raise NotImplementedError(message(rule, f"memory_space: {memory_space!r}, kind: {kind!r}", fix=fix))
    return Ref(sharing(as_array("new_ref", init_val, "init_val")))


@api_boundary
def empty_ref(ty: Any, memory_space: None = None) -> Ref:
    """Return a mutable array with the shape and dtype of `ty`, a `ShapeDtypeStruct` or an array.

    Write to it before you read it.

    >>> import didax as dx
    >>> dx.empty_ref(dx.ShapeDtypeStruct((2, 3), "float32")).shape
    (2, 3)
    """
    return new_ref(zeros(ty.shape, ty.dtype), memory_space=memory_space)


@api_boundary
def freeze(ref: Ref) -> Array:
    """Return the contents of a Ref, which cannot be used any more.

    Raises ValueError inside a function that got the Ref from outside, RuntimeError when it was frozen before.

    >>> import didax as dx
    >>> ref = dx.new_ref(1.0)
    >>> ref[...] += 1
    >>> float(dx.freeze(ref))
    2.0
    """
    return _checked("freeze", ref).close()


@api_boundary
def free_ref(ref: Ref) -> None:
    """End a Ref: it cannot be used any more, and its memory is given back. Raises as `freeze` does.

    >>> import didax as dx
    >>> ref = dx.new_ref(1.0)
    >>> dx.free_ref(ref)
    >>> ref
    Ref(freed, shape=(), dtype=float32)
    """
    _checked("free_ref", ref).close()


@give(Ref, "__getitem__")
@api_boundary
def get(ref: Ref, idx: Any = None) -> Array:
    """Return `ref[idx]`, or the whole contents without an index.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.ref.get(dx.new_ref(dnp.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    with _checked("get", ref).lock:
        if idx is None or _is_whole(idx):
            return sharing(ref.read())
        cell = ref.location().cell
        found = getitem(cell.value, idx)
        if current_trace() is not eager_trace:  # traces may keep the array that was read
            cell.shared = True
        return found


@give(Ref, "__setitem__")
@api_boundary
def set(ref: Ref, idx: Any, value: ArrayLike) -> None:
    """Write `ref[idx] = value`, by NumPy's rules of indexing and broadcasting; the index None means the whole Ref.

    Raises TypeError for a value of a dtype that the Ref cannot hold exactly, IndexError for a static index out of
    range, ValueError for a value that depends on a transformation which ends before the Ref does.

    >>> import didax as dx, didax.numpy as dnp
    >>> ref = dx.new_ref(dnp.zeros(3))
    >>> dx.ref.set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.,  0.], dtype=float32)
    """
    _update(ref, idx, value, "set")


@api_boundary
def addupdate(ref: Ref, idx: Any, x: ArrayLike) -> None:
    """Write `ref[idx] += x` in one step, and repeatedly where indices repeat. Raises as `set` does.

    >>> import didax as dx, didax.numpy as dnp
    >>> ref = dx.new_ref(dnp.zeros(3))
    >>> dx.ref.addupdate(ref, dnp.array([0, 0, 2]), 1.0)
    >>> ref
    Ref([2., 0., 1.], dtype=float32)
    """
    _update(ref, idx, x, "add")


@api_boundary
def swap(ref: Ref, idx: Any, value: ArrayLike) -> Array:
    """Write `ref[idx] = value` and return the old value. Raises as `set` does.

    >>> import didax as dx, didax.numpy as dnp
    >>> ref = dx.new_ref(dnp.arange(3))
    >>> int(dx.ref.swap(ref, 1, 5))
    1
    """
    with _checked("swap", ref).lock:
        before = get(ref, idx)
        _update(ref, idx, value, "set")
    return before


@give(Ref, "addupdate")
def _add_to(self: Ref, x: ArrayLike, idx: Any = None) -> None:
    """Write `ref[idx] += x` in one step; without an index, add to the whole Ref."""
    addupdate(self, idx, x)


# --- Updates --------------------------------------------------------------------------------------


def _checked(name: str, ref: Any) -> Ref:
    if not isinstance(ref, Ref):
        raise TypeError(
            message(
                f"{name} takes a Ref.",
                f"got: {ref!r:.100} of type {type(ref).__name__}",
                fix="Make one with new_ref(x).",
            )
        )
    return ref


def _is_whole(idx: Any) -> bool:
    return idx is Ellipsis or (type(idx) is tuple and not idx)


def _update(ref: Ref, idx: Any, value: Any, kind: str) -> None:
    value = _as_contents(_checked("addupdate" if kind == "add" else kind, ref), value)
    with ref.lock:
        location = ref.location()
        if idx is None or _is_whole(idx):
            new, shared = _changed_whole(ref, location.cell, value, kind), True
        else:
            new, shared = _changed_part(location.cell, idx, value, kind)
        ref.check(location, new)
        ref.store(location.cell, new, shared)


def _as_contents(ref: Ref, value: Any) -> Any:
    """Return the value as an operand; TypeError where the dtype of the Ref cannot hold values of its dtype."""
    value = checked_operand("ref[...] = value", asarray(value) if isinstance(value, list) else value, "value")
    aval = aval_of(value)
    joined, _ = dtypes.join(ref.dtype, ref.weak_type, aval.dtype, aval.weak_type)
    if joined != ref.dtype:
        rule = "A Ref keeps its dtype, which must hold the values written to it."
        fix = f"Cast the value (value.astype({ref.dtype.name!r})), or make the Ref from an array of {joined.name}."
        raise TypeError(message(rule, f"value: {aval}", *ref.facts(), fix=fix))
    return value


def _changed_whole(ref: Ref, cell: Cell, value: Any, kind: str) -> Any:
    """Return the new contents of the whole Ref: the value, or the sum with it."""
    if aval_of(value) is not ref.type:
        value = _stretched(cast(value, ref.dtype, ref.weak_type), ref)
    value = as_array("set", value)
    if kind == "set":
        return value
    return or_(cell.value, value) if dtypes.kind_of(ref.dtype) == "b" else add(cell.value, value)


def _stretched(value: Array, ref: Ref) -> Array:
    lead = ref.ndim - value.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(value.shape, ref.shape[max(lead, 0) :], strict=False)):
        rule = "The value written to a Ref is broadcast to its shape."
        raise ValueError(message(rule, f"value: {value.aval}", *ref.facts(), fix="Reshape the value."))
    return broadcast_in_dim(value, ref.shape, tuple(range(lead, ref.ndim)))


def _changed_part(cell: Cell, idx: Any, value: Any, kind: str) -> tuple[Any, bool]:
    """Return the contents with a part changed, and whether others may share them: large contents change in place."""
    x = cell.value
    if current_trace() is eager_trace and isinstance(x, ConcreteArray) and not evaluates_with_numpy(x):
        x = own_value(cell)
        trace = InPlaceTrace(x)
        with set_current_trace(trace):
            return getattr(at(x)[idx], kind)(value), not trace.done
    return getattr(at(x)[idx], kind)(value), True


class InPlaceTrace(Trace):
    """Evaluates eagerly; one operation, an update of `target`, may write its result to the memory of `target`."""

    __slots__ = ("done", "target")
    transformation = "update in place"

    def __init__(self, target: ConcreteArray):
        super().__init__(eager_trace)
        self.target = target
        self.done = False

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if (
            not (isinstance(primitive, Scatter) or primitive is dynamic_update_slice_p)
            or args[0] is not self.target
        ):
            return eager_trace.process(primitive, args, params)
        self.done = True
        program = _updating_program(primitive, tuple(map(aval_of, args)), params)
        return program.run([as_concrete(x) for x in args])[0]


_programs = new_memory()


def _updating_program(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> Program:
    """Return a compiled program of the primitive whose result takes the memory of its first operand."""
    known = _programs.setdefault(primitive, {})
    key = (avals, *params.items())
    if key not in known:
        staged = stage_program(lambda *xs: [primitive.bind(*xs, **params)], avals, what=primitive.name)
        donated = [i == 0 for i in range(len(avals))]
        known[key] = Program(staged.jaxpr, donated=donated, replaced=(0,))
    return known[key]
