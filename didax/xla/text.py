"""Writing StableHLO: types, constants, and the context a lowering rule writes into.

A rule receives operands (`Value`s: an SSA name and its type) and emits lines of text:

    def lower(self, ctx, x): return ctx.emit(f"stablehlo.sine {x} : {x.type}", x.aval)

`FunctionContext` collects the lines of one function or region. There are no MLIR objects: text costs about a
microsecond an operation, and XLA parses it itself. Read next: `lowering.py`.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.xla.callbacks import HostCallback
from didax.xla.device_text import DeviceWriter, Manual
from didax.xla.inspection import Listener

_ELEMENT_TYPES = {
    "bool": "i1",
    "float0": "i1",
    **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}


def element_type(dtype: np.dtype[Any]) -> str:
    """StableHLO name of a dtype."""
    if dtype == dtypes.float0:
        return "i1"
    name = dtype.name
    found = _ELEMENT_TYPES.get(name)
    if found is None:  # float8_e4m3fn -> f8E4M3FN, float4_e2m1fn -> f4E2M1FN
        found = _ELEMENT_TYPES[name] = (
            name.replace("float", "f").replace("_", "").replace("e", "E").replace("m", "M")
        )
        if found.endswith(("fn", "fnu", "fnuz", "b11fnuz")):
            head, tail = found[:6], found[6:]
            found = _ELEMENT_TYPES[name] = head + tail.upper()
    return found


def tensor_type(aval: ShapedArray) -> str:
    """StableHLO type of an array: `tensor<2x3xf32>`."""
    text = aval._hlo
    if text is None:
        numbers = aval.physical  # the words of random keys
        _check_count(numbers)
        shape = "".join([f"{'?' if is_symbolic(n) else n}x" for n in numbers.shape])
        text = aval._hlo = f"tensor<{shape}{element_type(numbers.dtype)}>"
    return text


def _check_count(aval: ShapedArray) -> None:
    """ValueError for more bytes than a 64-bit integer counts: XLA would end the process."""
    count = math.prod([n for n in aval.shape if not is_symbolic(n)])
    if count * aval.dtype.itemsize >= 1 << 63 and 0 not in aval.shape:
        rule = "An array has fewer than 2**63 bytes."
        facts = f"array: {aval}, bytes: {count * aval.dtype.itemsize}"
        raise ValueError(message(rule, facts, fix="Make its axes shorter."))


class Value:
    """An SSA value: formats as its name, knows its type.

    >>> x = Value("%0", ShapedArray((3,), np.dtype("float32")))
    >>> f"{x} : {x.type}"
    '%0 : tensor<3xf32>'
    """

    __slots__ = ("aval", "constant", "name", "sources")

    def __init__(self, name: str, aval: ShapedArray, constant: Any = None, sources: int = -1):
        self.name = name
        self.aval = aval
        self.constant = constant  # the scalar behind a literal or a constant; rules may write it in any shape
        # A bit for each argument of `main` that it is computed from, the lowest for what is made of none of them; 0
        # for a number, all bits where it is not known.
        self.sources = sources

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return self.name

    @property
    def type(self) -> str:
        """The StableHLO type."""
        return tensor_type(self.aval)


class LiteralValue(Value):
    """A literal of the jaxpr. Its constant is written when its name is first asked for; most rules never do so."""

    __slots__ = ("_context", "_value")

    def __init__(self, context: FunctionContext, value: Any, aval: ShapedArray):
        self._context = context
        self._value = value
        self.aval = aval
        self.constant = None if np.ndim(value) else value
        self.sources = 1 if np.ndim(value) else 0

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._context.constant(self._value, self.aval).name


def dense(value: Any, dtype: np.dtype[Any]) -> str:
    """The text between `dense<` and `>` for an array of any dtype: exact, as hexadecimal where decimals are not.

    >>> dense(np.float32(1.5), np.dtype("float32")), dense(np.bool_(True), np.dtype(bool))
    ('0x3FC00000', 'true')
    """
    array = np.asarray(value)
    if dtype == dtypes.float0:
        return "false"
    array = array.astype(dtype)
    if array.size == 1:
        return _scalar_text(array.tobytes(), dtype)
    if array.size == 0:
        return ""
    if dtype == np.bool_:
        return _nested(array, lambda x: "true" if x else "false")
    if dtype.kind in "iu" and array.size <= 4096:
        return _nested(array, str)
    return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'


def _nested(array: np.ndarray[Any, Any], text: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return text(array.item())
    return "[" + ", ".join(_nested(row, text) for row in array) + "]"


@functools.lru_cache(maxsize=4096)
def _scalar_text(content: bytes, dtype: np.dtype[Any]) -> str:
    """The text of the scalar with these bytes."""
    return number_text(np.frombuffer(content, dtype).reshape(()), dtype)


def number_text(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> str:
    """A number as MLIR reads it exactly."""
    if dtype == np.bool_:
        return "true" if array else "false"
    if dtypes.is_integer(dtype):
        return str(int(array))
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        return f"({number_text(array.real, part)}, {number_text(array.imag, part)})"
    return f"0x{array.tobytes()[::-1].hex().upper()}"


class _TokenType:
    """The type of tokens, which order effects. It stands where a `Value` has the type of its array."""

    _hlo = "!stablehlo.token"
    ndim = 0


TOKEN: Any = _TokenType()
_NUMBER = ShapedArray((), np.dtype(np.int32))
_INT64 = ShapedArray((), np.dtype(np.int64))


class NoOpenForm(NotImplementedError):
    """What StableHLO of open lengths (`open_text.py`) cannot state."""


class RunNumber:
    """The number of a program's run: the first argument of each function that calls Python, and of no other."""

    __slots__ = ("used", "value")

    def __init__(self, name: str = "%run") -> None:
        self.used = False
        self.value = Value(name, _INT64)

    def use(self) -> Value:
        """The argument; from now on the function has it."""
        self.used = True
        return self.value


# XLA folds operations on constants of these dtypes wrongly: it loses signs, and makes zeros of infinities.
_NOT_TO_FOLD = frozenset([dtypes.dtype("float4_e2m1fn"), dtypes.dtype("float8_e8m0fnu")])


# The text behind an operation that says where the operation comes from. Functions that differ only there are equal.
PLACE = r' loc\("(?:[^"\\]|\\.)*"(?:\("(?:[^"\\]|\\.)*":\d+:\d+\))?\)'


def quoted(text: str) -> str:
    """A string as MLIR reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class Module:
    """The functions and callbacks of a module that is being written; with `outline` large functions are cut."""

    def __init__(
        self,
        outline: bool = False,
        devices: DeviceWriter | None = None,
        located: bool = False,
        listener: Listener | None = None,
        alone: bool = False,
    ) -> None:
        self.listener = listener  # is told how XLA splits the values that the program looks at
        self.alone = alone  # it is to run in other processes, so it calls nothing in this one
        self.located = located  # each operation is followed by the place it comes from
        self.outline = outline
        self.expanded = 0  # how many operations are written as the operations that compute them
        self.devices = devices  # None if the program runs on one device
        self.functions: list[str] = []
        self.callbacks: list[HostCallback] = []
        self.calling_python: set[str] = set()  # names of the functions that take the number of the run
        # Names of the functions of inner jaxprs: a jaxpr has one function for each set of manual axes around its calls.
        self.named: dict[tuple[Jaxpr, Manual | None], str] = {}
        self._by_text: dict[str, str] = {}
        self._taken: set[str] = {"main"}

    def add(self, text: str, name: str, calls_python: bool) -> str:
        """The name of the private function with this text: `name` or one made of it. Equal texts are one function."""
        key = re.sub(PLACE, "", text) if self.located else text
        found = self._by_text.get(key)
        if found is None:
            found = self._by_text[key] = self._fresh_name(name)
            self.functions.append(f"func.func private @{found}{text}")
            if calls_python:
                self.calling_python.add(found)
        return found

    @functools.cached_property
    def on_cpu(self) -> bool:
        """Whether it runs on the CPU, whose compiler needs other operations than those of accelerators."""
        from didax.xla.platforms import platform

        return platform() == "cpu"

    @property
    def on_one_cpu(self) -> bool:
        """Whether it runs on the CPU, on one device, so that no partitioner has to know its operations."""
        return self.devices is None and self.on_cpu

    @property
    def partitioned_here(self) -> bool:
        """Whether XLA's partitioner cuts what is being written over several devices."""
        return self.devices is not None and self.devices.partitioned_here

    @property
    def token(self) -> Any:
        """The type of tokens: on several devices that of a number."""
        return TOKEN if self.devices is None else _NUMBER

    def number_of(self, callback: HostCallback) -> int:
        """The number of a callback in this module."""
        for number, known in enumerate(self.callbacks):
            if known.same_as(callback):
                return number
        self.callbacks.append(callback)
        return len(self.callbacks) - 1

    def _fresh_name(self, wish: str) -> str:
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in wish) or "f"
        base = base if base[0].isalpha() else f"f{base}"
        name, n = base, 0
        while name in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.add(name)
        return name


class FunctionContext:
    """Collects the lines of one function body, or of a region inside it, and names its values.

    Regions share the counter of their function, so names stay unique where regions see outer values.

    >>> import didax as dx
    >>> class Negated(dx.extend.core.Primitive):
    ...     def type(self, x):
    ...         return x
    ...
    ...     def lower(self, ctx, x):  # `ctx` is a FunctionContext
    ...         return ctx.op("negate", [x])
    >>> negated_p = Negated("example_negated")
    >>> float(dx.jit(lambda x: negated_p.bind(x))(2.0))
    -2.0
    """

    # Whether programs inside others are written where they are called, and not as functions.
    inlines = False

    __slots__ = (
        "constants",
        "counter",
        "factors",
        "lines",
        "masks",
        "module",
        "of_loops",
        "out_avals",
        "path",
        "place",
        "ramps",
        "run",
        "stored",
        "stretched",
        "tokens",
        "transposed",
    )

    def __init__(self, module: Module, outer: FunctionContext | None = None):
        self.module = module
        self.lines: list[str] = []
        # The function's name, which stands before the names of its operations.
        self.path: str = "" if outer is None else outer.path
        self.place: str = "" if outer is None else outer.place  # written behind each operation
        self.counter: Any = itertools.count() if outer is None else outer.counter
        self.run = RunNumber() if outer is None else outer.run
        # The token that the next operation with an ordered effect waits for; none where there is no such operation.
        self.tokens: list[Value] = [] if outer is None else list(outer.tokens)
        self.constants: dict[Any, Value] = {}
        # Names of values that lie in memory before the program starts: the arguments of `main`.
        self.stored: frozenset[str] = frozenset() if outer is None else outer.stored
        self.masks: dict[str, Value] = {}  # the booleans that a value was converted from, by its name
        self.ramps: dict[str, int] = {}  # the axis along which a value counts 0, 1, 2, ..., by its name
        self.transposed: dict[str, Value] = {}  # the matrix that a value is the transpose of, by its name
        # The two arrays that a value is the product of, by its name.
        self.factors: dict[str, tuple[Value, Value]] = {}
        # The value that a value repeats, and the axes of the result that are its own, by the name of the result.
        self.stretched: dict[str, tuple[Value, tuple[int, ...]]] = {}
        self.of_loops: set[str] = set()  # the names of results of loops
        self.out_avals: tuple[ShapedArray, ...] = ()

    def emit(self, text: str, aval: ShapedArray) -> Value:
        """Write an operation with one result."""
        name = f"%{next(self.counter)}"
        self.lines.append(f"{name} = {text}{self.place}")
        return Value(name, aval)

    def emit_many(self, text: str, avals: Sequence[ShapedArray]) -> list[Value]:
        """Write an operation with any number of results."""
        if not avals:
            self.lines.append(f"{text}{self.place}")
            return []
        name = f"%{next(self.counter)}"
        if len(avals) == 1:
            self.lines.append(f"{name} = {text}{self.place}")
            return [Value(name, avals[0])]
        self.lines.append(f"{name}:{len(avals)} = {text}{self.place}")
        return [Value(f"{name}#{i}", aval) for i, aval in enumerate(avals)]

    def op(self, name: str, operands: Sequence[Value], aval: ShapedArray | None = None) -> Value:
        """Write `stablehlo.<name>` in its function-typed form, `name %a, %b : (T, T) -> U`.

        A name with its dialect, such as "chlo.sinh", is taken as it is. Without `aval` the result has the type of
        the first operand.
        """
        out = operands[0].aval if aval is None else aval
        applied = f'"{name}"({names(operands)})' if "." in name else f"stablehlo.{name} {names(operands)}"
        return self.emit(f"{applied} : {function_type(operands, [out])}", out)

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """A constant of that type; a scalar `value` fills it. Equal constants are written once per function."""
        text = dense(value, aval.dtype)
        found = self.constants.get((text, aval))
        if found is None:
            found = self.emit(f"stablehlo.constant dense<{text}> : {tensor_type(aval)}", aval)
            if aval.dtype in _NOT_TO_FOLD:
                found = self.barrier(found)
            found.constant = value if np.ndim(value) == 0 else None
            self.constants[text, aval] = found
        return found

    def barrier(self, x: Value) -> Value:
        """The same value behind a barrier, across which XLA does not simplify."""
        return self.emit(f"stablehlo.optimization_barrier {x} : {x.type}", x.aval)

    def by_rows(self, x: Value) -> Value:
        """The same value, laid out in memory row after row, even where operations that read it prefer another order."""
        layout = layout_text(range(x.aval.ndim)[::-1])
        return self.emit(
            f"stablehlo.custom_call @LayoutConstraint({x}) {{operand_layouts = [{layout}], "
            f"result_layouts = [{layout}]}} : ({x.type}) -> {x.type}",
            x.aval,
        )

    def numbers(self, values: Sequence[Any], dtype: np.dtype[Any]) -> Value:
        """A constant vector of integers."""
        return self.constant(np.array(values, dtype), ShapedArray((len(values),), dtype))

    def shapes_for(self, outs: Sequence[ShapedArray]) -> list[Value]:
        """The shapes of results as operands of a call of a library; none where the types have them."""
        return []

    def scalar(self, value: Any, dtype: np.dtype[Any]) -> Value:
        """A scalar constant."""
        return self.constant(value, ShapedArray((), dtype))

    def fill(self, x: Value, aval: ShapedArray) -> Value:
        """A scalar stretched to a shape."""
        if x.aval.shape == aval.shape:
            return x
        aval = aval.update(dtype=x.aval.dtype)
        if x.constant is not None:
            return self.constant(x.constant, aval)
        return self.broadcast(x, aval, ())

    def broadcast(self, x: Value, aval: ShapedArray, dims: Iterable[int]) -> Value:
        """`broadcast_in_dim`: axis i of `x` becomes axis dims[i] of the result."""
        axes = tuple(dims)
        found = self.emit(
            f"stablehlo.broadcast_in_dim {x}, dims = {list(axes)} : ({x.type}) -> {tensor_type(aval)}", aval
        )
        self.stretched[found.name] = x, axes
        return found

    def convert(self, x: Value, dtype: np.dtype[Any]) -> Value:
        """Change the dtype."""
        return x if x.aval.dtype == dtype else self.op("convert", [x], x.aval.update(dtype=dtype))

    def compare(self, direction: str, x: Value, y: Value, kind: str | None = None) -> Value:
        """`compare`: direction EQ, NE, LT, LE, GT or GE; the kind follows from the dtype."""
        return self.emit(
            f"stablehlo.compare {direction}, {x}, {y}, {kind or compare_kind(x.aval.dtype)} : "
            f"({x.type}, {y.type}) -> {tensor_type(x.aval.update(dtype=np.dtype(bool)))}",
            x.aval.update(dtype=np.dtype(bool), weak_type=False),
        )

    def select(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        """Elementwise choice."""
        return self.emit(
            f"stablehlo.select {condition}, {on_true}, {on_false} : {condition.type}, {on_true.type}",
            on_true.aval,
        )

    def iota(self, aval: ShapedArray, dimension: int) -> Value:
        """0, 1, 2, ... along one axis of an array of that type."""
        found = self.emit(f"stablehlo.iota dim = {dimension} : {tensor_type(aval)}", aval)
        self.ramps[found.name] = dimension
        return found

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in row-major order, in another shape."""
        return self.op("reshape", [x], x.aval.update(shape=tuple(shape)))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Axis i of the result is axis permutation[i] of `x`."""
        if list(permutation) == sorted(permutation):
            return x
        out = x.aval.update(shape=tuple([x.aval.shape[i] for i in permutation]))
        text = f"stablehlo.transpose {x}, dims = {list(permutation)} : ({x.type}) -> {tensor_type(out)}"
        found = self.emit(text, out)
        if out.ndim == 2:
            self.transposed[found.name] = x
        return found

    def slice(
        self, x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """`x[start:limit:stride, ...]`, with bounds for every axis."""
        if strides is None:
            shape = [j - i for i, j in zip(starts, limits, strict=True)]
            ranges = ", ".join([f"{i}:{j}" for i, j in zip(starts, limits, strict=True)])
        else:
            bounds = list(zip(starts, limits, strides, strict=True))
            shape = [-(-(j - i) // k) for i, j, k in bounds]
            ranges = ", ".join([f"{i}:{j}:{k}" if k > 1 else f"{i}:{j}" for i, j, k in bounds])
        out = x.aval.update(shape=tuple(shape))
        return self.emit(f"stablehlo.slice {x} [{ranges}] : ({x.type}) -> {tensor_type(out)}", out)

    def slice_axis(self, x: Value, start: int, limit: int, axis: int, stride: int = 1) -> Value:
        """`x[start:limit:stride]` along one axis, whole along the others."""
        starts, limits, strides = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
        starts[axis], limits[axis], strides[axis] = start, limit, stride
        return self.slice(x, starts, limits, strides)

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        """The window of these sizes at starts that the program computes, one for each axis."""
        out = x.aval.update(shape=tuple(sizes))
        return self.emit(
            f"stablehlo.dynamic_slice {x}, {names(starts)}, sizes = {list(sizes)} : "
            f"({x.type}, {types(starts)}) -> {tensor_type(out)}",
            out,
        )

    def dynamic_update_slice(self, x: Value, update: Value, starts: Sequence[Value]) -> Value:
        """`x` with a window replaced. See Note [Updates in place] in `primitives/gather.py` before using it."""
        return self.emit(
            f"stablehlo.dynamic_update_slice {x}, {update}, {names(starts)} : "
            f"({x.type}, {update.type}, {types(starts)}) -> {x.type}",
            x.aval,
        )

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """The arrays one after the other along an axis."""
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].aval.shape)
        shape[axis] = sum([x.aval.shape[axis] for x in xs])
        out = xs[0].aval.update(shape=tuple(shape))
        text = f"stablehlo.concatenate {names(xs)}, dim = {axis} : ({types(xs)}) -> {tensor_type(out)}"
        return self.emit(text, out)

    def pad(self, x: Value, value: Value, config: Sequence[tuple[int, int, int]]) -> Value:
        """`x` with a scalar before, behind and between the elements of each axis: (low, high, interior) times."""
        low, high, interior = [list(part) for part in zip(*config, strict=True)]
        lengths = [n + max(n - 1, 0) * between for n, between in zip(x.aval.shape, interior, strict=True)]
        shape = [a + n + b for a, n, b in zip(low, lengths, high, strict=True)]
        out = x.aval.update(shape=tuple(shape))
        return self.emit(
            f"stablehlo.pad {x}, {value}, low = {low}, high = {high}, interior = {interior} : "
            f"({x.type}, {value.type}) -> {tensor_type(out)}",
            out,
        )

    def reduce(self, x: Value, axes: Sequence[int], op: str, init: Any) -> Value:
        """All elements along some axes combined by an operation of two operands, whose identity is `init`."""
        out = x.aval.update(shape=tuple([n for i, n in enumerate(x.aval.shape) if i not in axes]))
        start = self.scalar(init, x.aval.dtype)
        return self.emit(
            f"stablehlo.reduce({x} init: {start}) applies stablehlo.{op} across dimensions = {list(axes)} : "
            f"({x.type}, {start.type}) -> {tensor_type(out)}",
            out,
        )

    def gather(
        self,
        x: Value,
        indices: Value,
        dims: Sequence[Sequence[int]],
        sizes: Sequence[int],
        out: ShapedArray,
        indices_are_sorted: bool = False,
    ) -> Value:
        """Windows of `x`; `dims` are the fields of `GatherDimensionNumbers` (`primitives/window_positions.py`)."""
        where = gather_dimensions(dims, indices, indices_are_sorted)
        return self.emit(
            f'"stablehlo.gather"({x}, {indices}) <{{{where}, slice_sizes = {int_array(sizes)}}}> : '
            f"({x.type}, {indices.type}) -> {tensor_type(out)}",
            out,
        )

    def scatter(
        self,
        x: Value,
        indices: Value,
        updates: Value,
        dims: Sequence[Sequence[int]],
        op: str | None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Value:
        """`x` with windows combined with updates by an operation of two operands; without `op` they are replaced.

        `dims` are the fields of `ScatterDimensionNumbers` (`primitives/window_positions.py`).
        """
        element = x.aval.update(shape=())
        body = self.region()
        (old, new), header = self.block([element, element])
        result = new if op is None else lower_combination(body, op, old, new)
        return self.emit(
            f'"stablehlo.scatter"({x}, {indices}, {updates}) <{{'
            f"indices_are_sorted = {_flag(indices_are_sorted)}, "
            f"scatter_dimension_numbers = #stablehlo.scatter<"
            f"{_dims_text(dims, _SCATTER_FIELDS)}, index_vector_dim = {indices.aval.ndim - 1}>, "
            f"unique_indices = {_flag(unique_indices)}}}> ({body.body([result], header)}) : "
            f"({x.type}, {indices.type}, {updates.type}) -> {x.type}",
            x.aval,
        )

    def loop(
        self,
        carry: Sequence[Value],
        condition: Callable[[FunctionContext, list[Value]], Value],
        body: Callable[[FunctionContext, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Write `stablehlo.while`; the functions write its regions, which see the values around them."""
        inside = [Value(f"%{next(self.counter)}", x.aval, None, x.sources) for x in carry]
        test, step = self.region(), self.region()
        regions = test.body([condition(test, inside)]), step.body(body(step, inside))
        header = ", ".join([f"{x} = {start}" for x, start in zip(inside, carry, strict=True)])
        text = f"stablehlo.while({header}) : {types(inside)} cond {regions[0]} do {regions[1]}"
        outs = self.emit_many(text, [x.aval for x in carry])
        self.of_loops.update([x.name for x in outs])
        return outs

    def region(self) -> FunctionContext:
        """A context for a region: it sees this function's values, but its own constants stay inside."""
        return type(self)(self.module, self)

    def body(self, outs: Sequence[Value], header: str = "") -> str:
        """The text of this region: `{`, the header of its block, its lines, the return of `outs`, `}`."""
        # Asking for the names of literals writes their constants, so it comes before the lines are taken.
        ending = f"stablehlo.return {names(outs)} : {types(outs)}" if outs else "stablehlo.return"
        return "\n".join(["{", *([header] if header else []), *self.lines, ending, "}"])

    def block(self, arg_avals: Sequence[ShapedArray]) -> tuple[list[Value], str]:
        """Arguments for a region's block and its header line `^bb0(%1: T, ...):`."""
        args = [Value(f"%{next(self.counter)}", aval) for aval in arg_avals]
        header = f"^bb0({', '.join(f'{x}: {x.type}' for x in args)}):" if args else ""
        return args, header


_GATHER_FIELDS = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER_FIELDS = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


def gather_dimensions(dims: Sequence[Sequence[int]], indices: Value, are_sorted: bool) -> str:
    """The attributes of a gather, except for its sizes."""
    fields = f"{_dims_text(dims, _GATHER_FIELDS)}, index_vector_dim = {indices.aval.ndim - 1}"
    return f"dimension_numbers = #stablehlo.gather<{fields}>, indices_are_sorted = {_flag(are_sorted)}"


def _dims_text(dims: Sequence[Sequence[int]], fields: Sequence[str]) -> str:
    """Dimension numbers in StableHLO's order of fields; empty ones are left out."""
    texts = {field: f"{field} = {list(axes)}" for field, axes in zip(fields, dims, strict=True) if axes}
    return ", ".join([texts[fields[i]] for i in (0, 1, 3, 4, 2) if fields[i] in texts])


def _flag(value: bool) -> str:
    return "true" if value else "false"


# Note [NaN in extrema]
# XLA's CPU compiler hands reductions, with operations that it fuses into them, to a library that loses NaN in `maximum`
# and `minimum` (jaxlib 0.10; JAX has this too). An extremum that is rounded to the precision it has anyway
# is compiled by XLA itself and keeps NaN. For elementwise extrema this costs nothing measurable; for reductions see
# Note [NaN in reduced extrema]. Compilers for accelerators keep NaN, and get plain extrema. Programs on several devices
# compare integers instead: there the partitioner knows only plain extrema, and the exchange between devices loses NaN
# (`primitives/reductions.py`).


def lower_combination(ctx: FunctionContext, op: str, x: Value, y: Value) -> Value:
    """An operation on two arrays. `maximum` and `minimum` order complex numbers lexicographically, which XLA does not.

    Of two complex numbers that are equal, or both NaN, they return the first one, as NumPy does.
    """
    if op not in ("maximum", "minimum") or not dtypes.is_complex(x.aval.dtype):
        return ctx.op(op, [x, y])
    wins = lower_order(ctx, "GE" if op == "maximum" else "LE", x, y)
    return ctx.select(ctx.op("or", [ctx.compare("NE", x, x), wins]), x, y)


def lower_parts(ctx: FunctionContext, x: Value) -> list[Value]:
    """The real and the imaginary parts of complex numbers."""
    part = x.aval.update(dtype=dtypes.real_dtype(x.aval.dtype))
    return [ctx.op(name, [x], part) for name in ("real", "imag")]


def lower_order(ctx: FunctionContext, direction: str, x: Value, y: Value) -> Value:
    """`x > y` for the direction GT; likewise GE, LT, LE. Complex numbers in lexicographic order; False beside NaN."""
    if not dtypes.is_complex(x.aval.dtype):
        return ctx.compare(direction, x, y)
    (x_re, x_im), (y_re, y_im) = lower_parts(ctx, x), lower_parts(ctx, y)
    tie = ctx.op("and", [ctx.compare("EQ", x_re, y_re), ctx.compare(direction, x_im, y_im)])
    beyond = ctx.op("or", [ctx.compare(direction[0] + "T", x_re, y_re), tie])
    return ctx.op("and", [beyond, ctx.compare("EQ", y, y)])


def keep_nan(ctx: FunctionContext, extremum: Value) -> Value:
    """The same value, rounded to its own precision. See Note [NaN in extrema].

    Floats of a byte stay as they are: they are compared in wider dtypes, and `reduce_precision` takes few of them.
    """
    dtype = extremum.aval.dtype
    if not dtypes.is_float(dtype) or dtype.itemsize == 1 or not ctx.module.on_one_cpu:
        return extremum
    info = dtypes.finfo(dtype)
    return ctx.emit(
        f"stablehlo.reduce_precision {extremum}, format = e{info.nexp}m{info.nmant} : {extremum.type}",
        extremum.aval,
    )


def compare_kind(dtype: np.dtype[Any]) -> str:
    """How StableHLO compares values of a dtype."""
    if dtypes.is_inexact(dtype):
        return "FLOAT"
    return "SIGNED" if dtypes.is_integer(dtype) and dtypes.is_signed(dtype) else "UNSIGNED"


def names(values: Iterable[Value]) -> str:
    """`%1, %2`."""
    return ", ".join([x.name for x in values])


def types(values: Iterable[Value]) -> str:
    """`T1, T2`."""
    return ", ".join([tensor_type(x.aval) for x in values])


def function_type(operands: Iterable[Value], outs: Sequence[ShapedArray]) -> str:
    """`(T1, T2) -> U`, or `-> (U1, U2)` for several results."""
    results = ", ".join([tensor_type(aval) for aval in outs])
    return f"({types(operands)}) -> {results if len(outs) == 1 else f'({results})'}"


def layout_text(axes: Sequence[int]) -> str:
    """How an array lies in memory: its axes, from the one whose elements are neighbours to the slowest."""
    return f"dense<{list(axes) if axes else ''}> : tensor<{len(axes)}xindex>"


def int_array(values: Iterable[int]) -> str:
    """`array<i64: 1, 2>`."""
    text = ", ".join(map(str, values))
    return f"array<i64: {text}>" if text else "array<i64>"


def int_matrix(rows: Sequence[Sequence[int]], columns: int) -> str:
    """`dense<[[1, 2]]> : tensor<1x2xi64>`."""
    shape = f"tensor<{len(rows)}x{columns}xi64>"
    return f"dense<{[list(row) for row in rows]}> : {shape}" if rows else f"dense<> : {shape}"
