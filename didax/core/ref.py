"""`Ref`: a mutable cell that holds an array of one shape and dtype.

    ref = new_ref(x)        ref[i] = v        ref[...]

Programs stay pure: a Ref is a Python object, and no jaxpr knows of it. A Ref has a *home*, the trace that was current
when the Ref was made (eager evaluation, or a transformation that is running), and a `Cell` at home holds its value. A
function that is staged within that scope makes a cell of its own when it first touches the Ref: the value of this cell
is one more input of the jaxpr, and, if the function writes to the Ref, one more output, which the call stores
(`transforms/staging.py`). Traces that only pass values on (vmap, jvp, linearize) use the cell outside of them, so a
value that is written under these traces must not depend on the values that they trace.
One of four files on mutable arrays: `didax/ref.py` has the functions users call, and attaches indexing; `api/refs.py`
says what transformations do with Refs; `api/ref_programs.py` reuses their memory. Read next: `transforms/staging.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, final

from didax.core.avals import ShapedArray, aval_of
from didax.core.changed_types import LowType
from didax.core.errors import UnexpectedTracerError, message
from didax.core.given import given_by
from didax.core.primitive import Trace, eager_trace
from didax.core.source import SourceLine, user_line
from didax.core.tracing import Tracer, current_trace, leaked


class Cell:
    """The value of a Ref in one scope."""

    __slots__ = ("shared", "value", "written")

    def __init__(self, value: Any):
        self.value = value
        self.written = False
        self.shared = True  # others may hold the value: its memory must not be reused


class RefScope(Trace):
    """A trace that gives each Ref from outside a cell of its own, as staging does."""

    __slots__ = ()

    def cell_of(self, ref: Ref) -> Cell:
        """The cell of a Ref from outside."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class RefType(LowType):
    """The type of a Ref, by that of the arrays which it holds.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.typeof(dx.new_ref(dnp.arange(3)))
    Ref{int32[3]}
    """

    aval: ShapedArray

    inner_aval = property(lambda self: self.aval, doc="The type of the arrays.")
    shape = property(lambda self: self.aval.shape, doc="Length of each axis.")
    dtype = property(lambda self: self.aval.dtype, doc="Type of the elements.")
    ndim = property(lambda self: self.aval.ndim, doc="Number of axes.")
    size = property(lambda self: self.aval.size, doc="Number of elements.")

    def __repr__(self) -> str:
        return f"Ref{{{self.aval}}}"


@functools.cache
def ref_type(aval: ShapedArray) -> RefType:
    """The one type of Refs that hold such arrays."""
    return RefType(aval)


class Location(NamedTuple):
    """Where a Ref is read and written now.

    `trace` is the one whose values the Ref takes, `cell` the Ref's cell there. `passed` are the traces between the
    current trace, which comes first, and `trace`.
    """

    trace: Trace
    cell: Cell
    passed: Sequence[Trace]


@final
class Ref:
    """A mutable array: `ref[...]` reads it, `ref[i] = v` and `ref[i] += v` change it in place. Made by `new_ref`.

    A Ref is no array: its contents are `ref[...]`, on which one computes.

    >>> import didax as dx, didax.numpy as dnp
    >>> ref = dx.new_ref(dnp.zeros(3))
    >>> ref[1] = 5.0
    >>> ref
    Ref([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "cell", "home", "line", "lock", "type")
    __getitem__ = __setitem__ = addupdate = given_by("didax.ref")  # it indexes, which no floor below does
    how_to_read = "A Ref is no array: read the array that it holds with ref[...]."

    def __init__(self, value: Any):
        self.type = aval_of(value)
        self.cell: Cell | None = Cell(value)  # None: freed
        self.home = current_trace()
        self.line: SourceLine | None = user_line()
        self.lock = threading.RLock()  # held while a value is replaced by one computed from it

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.type.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.type.size

    @property
    def weak_type(self) -> bool:
        """True when the dtype was not stated by anyone."""
        return self.type.weak_type

    @property
    def is_eager(self) -> bool:
        """Made outside of any transformation: it outlives every trace."""
        return self.home is eager_trace

    def location(self) -> Location:
        """Where the Ref is read and written now; RuntimeError after `freeze`, UnexpectedTracerError out of scope."""
        cell = self.cell
        if cell is None:
            raise RuntimeError(
                message(
                    "A Ref cannot be used after freeze or free_ref.",
                    *self.facts(),
                    fix="Make a new one from the array that freeze returned: new_ref(x).",
                )
            )
        trace = current_trace()
        if trace is self.home:  # the short way
            return Location(trace, cell, ())
        passed: list[Trace] = []
        while trace is not self.home:
            if trace is eager_trace:
                raise self._out_of_scope()
            passed.append(trace)
            trace = trace.parent
        for i, inner in enumerate(passed):
            if isinstance(inner, RefScope):
                return Location(inner, inner.cell_of(self), passed[:i])
        return Location(trace, cell, passed)

    def read(self) -> Any:
        """The array that the Ref holds."""
        with self.lock:
            cell = self.location().cell
            cell.shared = True
            return cell.value

    def write(self, value: Any) -> None:
        """Replace the array by `value`, of its type."""
        location = self.location()
        self.check(location, value)
        self.store(location.cell, value)

    def store(self, cell: Cell, value: Any, shared: bool = True) -> None:
        """Put a value of the right scope and type into a cell."""
        aval = aval_of(value)
        assert (aval.shape, aval.dtype) == (self.shape, self.dtype), f"{self.type} keeps its type, not {aval}"
        cell.value, cell.shared, cell.written = value, shared, True

    def check(self, location: Location, value: Any) -> None:
        """UnexpectedTracerError or ValueError for a value of a transformation that ends before the Ref's scope ends."""
        if not isinstance(value, Tracer):
            return
        if value.owner.ended or not (
            value.owner in location.passed or _is_around(value.owner, location.trace)
        ):
            raise leaked(value)
        if value.owner in location.passed:
            rule, fix = _TOO_NARROW.get(value.owner.transformation, _TOO_NARROW[""])
            where = f"value: {value.aval}, traced by {value.owner.describe()}"
            raise ValueError(message(rule, *self.facts(), where, fix=fix))

    def close(self) -> Any:
        """End the life of the Ref, and return its last value."""
        trace, cell, _ = self.location()
        if trace is not self.home:
            rule = "A Ref is frozen or freed where it was made, not within a function that "
            rule += f"{trace.transformation} stages."
            fix = "Read it there with ref[...], and freeze it outside of the function."
            raise ValueError(message(rule, *self.facts(), fix=fix))
        self.cell = None
        return cell.value

    def facts(self) -> list[str]:
        """What errors say of the Ref."""
        made = [f"made at: {self.line}"] if self.line is not None else []
        during = [] if self.is_eager else [f"made during: {self.home.describe()}"]
        return [f"ref: {ref_type(self.type)}", *made, *during]

    def _out_of_scope(self) -> UnexpectedTracerError:
        rule = (
            "A Ref was used after the transformation that made it had ended."
            if self.home.ended
            else "A Ref was used outside of the transformation that made it."
        )
        fix = "Return its contents, ref[...], or make the Ref outside of the transformed function."
        return UnexpectedTracerError(message(rule, *self.facts(), fix=fix))

    def __len__(self) -> int:
        if not self.type.ndim:
            raise TypeError(message("A Ref without axes has no length.", *self.facts(), fix=self.how_to_read))
        return self.type.shape[0]

    def __repr__(self) -> str:
        cell = self.cell
        if cell is None:
            return f"Ref(freed, shape={self.shape}, dtype={self.dtype.name})"
        if not self.is_eager:
            return f"{ref_type(self.type)}({self.home.transformation})"
        return f"Ref{_after_name(repr(cell.value))}"

    def __copy__(self) -> Ref:
        return Ref(self.read())

    def __deepcopy__(self, memo: Any) -> Ref:
        return Ref(self.read())

    def __reduce__(self) -> Any:
        return Ref, (self.read(),)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the contents, valid until the next write."""
        return self.location().cell.value.device_buffer().unsafe_buffer_pointer()

    @property
    def sharding(self) -> Any:
        """How the contents are laid out over devices."""
        return self.location().cell.value.sharding


def _is_around(outer: Trace, trace: Trace) -> bool:
    """Whether `outer` is the trace or encloses it."""
    while trace is not outer and trace is not eager_trace:
        trace = trace.parent
    return trace is outer


def _after_name(text: str) -> str:
    """The repr of an array, aligned for a name two characters shorter."""
    return text.removeprefix("Array").replace("\n  ", "\n")


_TOO_NARROW = {
    "vmap": (
        "A value that differs along a mapped axis cannot be written to a Ref from outside of vmap.",
        "Pass the Ref as an argument that vmap maps (in_axes), a row for each element, or make it inside the function.",
    ),
    "": (
        "A value that depends on differentiated inputs cannot be written to a Ref from outside.",
        "Write lax.stop_gradient(value), return the value (has_aux=True), or make the Ref inside the function.",
    ),
}


def _refuse(name: str) -> Any:
    def refuse(self: Ref, *args: Any) -> NoReturn:
        raise TypeError(message(f"A Ref does not take part in {name}.", *self.facts(), fix=Ref.how_to_read))

    return refuse


_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor", "lshift",
    "rshift",
)  # fmt: skip
for _name in _ARITHMETIC:
    setattr(Ref, f"__{_name}__", _refuse("arithmetic"))
    setattr(Ref, f"__r{_name}__", _refuse("arithmetic"))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Ref, f"__{_name}__", _refuse("arithmetic"))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Ref, f"__{_name}__", _refuse("comparisons"))
for _name in ("bool", "int", "float", "complex", "index", "array"):
    setattr(Ref, f"__{_name}__", _refuse("conversions"))
setattr(Ref, "__iter__", _refuse("iteration"))  # noqa: B010 (as the others)
