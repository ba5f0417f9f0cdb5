"""StableHLO of open lengths, `tensor<?x3xf32>`: one module for all sizes, which other libraries refine and compile.

    lower_open_module(jaxpr, scope) -> text whose `main` takes arrays, and checks their shapes

The lowering rules are those of every program. Their context writes the dynamic form of an operation where a length
is symbolic: the shape is an operand, computed at the head of `main` from the lengths of its arguments. XLA folds
these computations when it knows the arguments, and makes every shape static before it compiles. What has no such
form raises NoOpenForm, which names the operation.
Read next: `text.py`, the methods that are replaced here; `didax/export/_exported.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dims import (
    Dim,
    Factor,
    Scope,
    Size,
    bounds,
    is_symbolic,
    max_dim,
    size_of,
    variable,
    variables,
)
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.passes.simplify import simplify_jaxpr
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import (
    FunctionContext,
    Module,
    NoOpenForm,
    Value,
    dense,
    gather_dimensions,
    names,
    quoted,
    tensor_type,
    types,
)

_SIZE = ShapedArray((), np.dtype(np.int64))
_LENGTH = ShapedArray((), np.dtype(np.int32))


def _is_open(shape: Iterable[Size]) -> bool:
    return any(map(is_symbolic, shape))


class OpenModule(Module):
    """A module whose sizes are computed at the head of `main`, and seen by everything after it."""

    def __init__(self) -> None:
        super().__init__(alone=True)
        self.head = OpenContext(self)
        self.variables: dict[str, Value] = {}
        self.sizes: dict[Any, Value] = {}

    def add(self, text: str, name: str, calls_python: bool) -> str:
        """A function of its own: two of one text may be called with arrays of different lengths."""
        found = self._fresh_name(name)
        self.functions.append(f"func.func private @{found}{text}")
        return found


class OpenContext(FunctionContext):
    """Writes dynamic forms where a length is symbolic. Programs inside others are written where they are called."""

    __slots__ = ()
    inlines = True
    module: OpenModule

    # --- Sizes

    def size(self, n: Size) -> Value:
        """A size as a scalar, which the head computes."""
        found = self.module.sizes.get(n)
        if found is None:
            head = self.module.head
            found = self.module.sizes[n] = (
                head.computed(n) if isinstance(n, Dim) else head.scalar(n, _SIZE.dtype)
            )
        return found

    def computed(self, n: Dim) -> Value:
        """The sum of the terms."""
        terms: list[Value] = []
        for monomial, count in n.terms:
            factors = [self._factor(factor) for factor, power in monomial for _ in range(power)]
            if count != 1 or not factors:
                factors.append(self.size(count))
            terms.append(self._folded("multiply", factors))
        return self._folded("add", terms)

    def _folded(self, op: str, xs: list[Value]) -> Value:
        out = xs[0]
        for x in xs[1:]:
            out = self.op(op, [out, x])
        return out

    def _factor(self, factor: Factor) -> Value:
        if not factor.args:
            return self.module.variables[factor.op]
        x, y = map(self.size, factor.args)
        if factor.op in ("max", "min"):
            return self.op(f"{factor.op}imum", [x, y])
        rest = self.op("remainder", [x, y])
        if bounds(factor.args[0])[0] < 0 or bounds(factor.args[1])[0] < 0:  # the rest has the sign of y
            zero = self.size(0)
            signs = [self.compare("LT", z, zero) for z in (rest, y)]
            wrong = self.op("and", [self.compare("NE", rest, zero), self.compare("NE", signs[0], signs[1])])
            rest = self.select(wrong, self.op("add", [rest, y]), rest)
        return rest if factor.op == "mod" else self.op("divide", [self.op("subtract", [x, rest]), y])

    def vector(self, shape: Sequence[Size]) -> Value:
        """Sizes as an operand of an operation."""
        key = tuple(shape)
        found = self.module.sizes.get(key)
        if found is None:
            head = self.module.head
            parts = [FunctionContext.reshape(head, self.size(n), (1,)) for n in shape]
            found = self.module.sizes[key] = (
                head.concatenate(parts, 0) if parts else head.constant(np.zeros(0), _SIZE.update(shape=(0,)))
            )
        return found

    def numbers(self, values: Sequence[Size], dtype: np.dtype[Any]) -> Value:
        if not _is_open(values):
            return super().numbers(values, dtype)
        return self.convert(self.vector(values), dtype)

    def shapes_for(self, outs: Sequence[ShapedArray]) -> list[Value]:
        return (
            [self.vector(aval.shape) for aval in outs] if any(_is_open(aval.shape) for aval in outs) else []
        )

    # --- Operations with a dynamic form

    def op(self, name: str, operands: Sequence[Value], aval: ShapedArray | None = None) -> Value:
        if name == "reshape" and aval is not None and _is_open([*aval.shape, *operands[0].aval.shape]):
            return self.reshape(operands[0], aval.shape)
        if name == "bitcast_convert" and aval is not None and aval.ndim != operands[0].aval.ndim:
            raise NoOpenForm("a change of width has no form of open lengths: XLA does not refine it")
        return super().op(name, operands, aval)

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        if is_symbolic(value):
            return self.convert(self.size(value), aval.dtype)
        if not _is_open(aval.shape):
            return super().constant(value, aval)
        text = dense(value, aval.dtype)
        found = self.constants.get((text, aval))
        if found is None:
            scalar = super().constant(value, aval.update(shape=()))
            found = self.constants[text, aval] = self.broadcast(scalar, aval, ())
            found.constant = value
        return found

    def broadcast(self, x: Value, aval: ShapedArray, dims: Iterable[int]) -> Value:
        if not _is_open(aval.shape):
            return super().broadcast(x, aval, dims)
        text = f"stablehlo.dynamic_broadcast_in_dim {x}, {{}}, dims = {list(dims)}"
        return self._with_vectors(text, [x], [aval.shape], aval)

    def iota(self, aval: ShapedArray, dimension: int) -> Value:
        if not _is_open(aval.shape):
            return super().iota(aval, dimension)
        return self._with_vectors(f"stablehlo.dynamic_iota {{}}, dim = {dimension}", [], [aval.shape], aval)

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        if not _is_open([*shape, *x.aval.shape]):
            return super().reshape(x, shape)
        out = x.aval.update(shape=tuple(shape))
        return self._with_vectors(f"stablehlo.dynamic_reshape {x}, {{}}", [x], [shape], out)

    def slice(
        self, x: Value, starts: Sequence[Size], limits: Sequence[Size], strides: Sequence[int] | None = None
    ) -> Value:
        if not _is_open([*starts, *limits]):
            return super().slice(x, starts, limits, strides)
        steps = [1] * len(starts) if strides is None else list(strides)
        shape = [-(-(j - i) // k) for i, j, k in zip(starts, limits, steps, strict=True)]
        out = x.aval.update(shape=tuple(shape))
        text = f"stablehlo.real_dynamic_slice {x}, {{}}, {{}}, {{}}"
        return self._with_vectors(text, [x], [starts, limits, steps], out)

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Sequence[Size]) -> Value:
        if not _is_open(sizes):
            return super().dynamic_slice(x, starts, sizes)
        rooms = [self.size(n - k) for n, k in zip(x.aval.shape, sizes, strict=True)]
        moved = [
            self.op("clamp", [self.size(0), self.convert(start, _SIZE.dtype), room])
            for start, room in zip(starts, rooms, strict=True)
        ]
        first = self.concatenate([FunctionContext.reshape(self, i, (1,)) for i in moved], 0)
        limits = self.op("add", [first, self.vector(sizes)])
        steps = self.vector([1] * len(sizes))
        out = x.aval.update(shape=tuple(sizes))
        operands = [x, first, limits, steps]
        return self.emit(
            f"stablehlo.real_dynamic_slice {names(operands)} : ({types(operands)}) -> {tensor_type(out)}", out
        )

    def pad(self, x: Value, value: Value, config: Sequence[tuple[Size, Size, int]]) -> Value:
        low, high, interior = [list(part) for part in zip(*config, strict=True)]
        if not _is_open([*low, *high, *x.aval.shape]):
            return super().pad(x, value, config)
        lengths = [
            max_dim(n + (n - 1) * between, 0) for n, between in zip(x.aval.shape, interior, strict=True)
        ]
        shape = [a + n + b for a, n, b in zip(low, lengths, high, strict=True)]
        out = x.aval.update(shape=tuple(shape))
        text = f"stablehlo.dynamic_pad {x}, {value}, {{}}, {{}}, {{}}"
        return self._with_vectors(text, [x, value], [low, high, interior], out)

    def gather(
        self,
        x: Value,
        indices: Value,
        dims: Sequence[Sequence[int]],
        sizes: Sequence[Size],
        out: ShapedArray,
        indices_are_sorted: bool = False,
    ) -> Value:
        if not _is_open(sizes):
            return super().gather(x, indices, dims, sizes, out, indices_are_sorted)
        where = gather_dimensions(dims, indices, indices_are_sorted)
        text = f'"stablehlo.dynamic_gather"({x}, {indices}, {{}}) <{{{{{where}}}}}>'
        return self._with_vectors(text, [x, indices], [sizes], out)

    def _with_vectors(
        self, text: str, operands: Sequence[Value], vectors: Sequence[Sequence[Size]], out: ShapedArray
    ) -> Value:
        """An operation of these operands, then of vectors of sizes, whose names the text has places for."""
        sizes = [self.vector(vector) for vector in vectors]
        ins = types([*operands, *sizes])
        return self.emit(f"{text.format(*[x.name for x in sizes])} : ({ins}) -> {tensor_type(out)}", out)

    # --- What arguments must be

    def check(self, holds: Value, text: str, facts: Sequence[Value]) -> None:
        """Refuse shapes for which a scalar is false; `{0}` in the text stands for the first of the facts."""
        self.emit_many(
            f"stablehlo.custom_call @shape_assertion({names([holds, *facts])}) "
            f"{{error_message = {quoted(text)}, has_side_effect = true}} : ({types([holds, *facts])}) -> ()",
            [],
        )


def lower_open_module(
    jaxpr: Jaxpr, captured: Sequence[Any], scope: Scope, name: str, platforms: int = 1
) -> str:
    """The text of a module for a jaxpr of symbolic shapes, whose first inputs are `captured`, keys as their words.

    For several `platforms`, `main` takes the number of the platform first. Raises NoOpenForm for what has no such form.
    """
    module = OpenModule()
    head = module.head
    avals = [v.aval for v in jaxpr.invars[len(captured) :]]
    args = [Value(f"%arg{i}", aval) for i, aval in enumerate(avals)]
    _compute_variables(head, args, scope, name)
    ctx = OpenContext(module, head)
    consts = [ctx.constant(x, v.aval.physical) for x, v in zip(captured, jaxpr.invars, strict=False)]
    outs = lower_jaxpr_body(ctx, simplify_jaxpr(jaxpr), [*consts, *args])
    parameters = [f"{x}: {x.type}" for x in args]
    if platforms > 1:
        parameters.insert(0, "%platform: tensor<i32>")
    ending = f"return {names(outs)} : {types(outs)}" if outs else "return"
    return "\n".join(
        [
            "module @exported attributes {jax.uses_shape_polymorphism = true} {",
            *module.functions,
            f"func.func public @main({', '.join(parameters)}) -> ({types(outs)}) {{",
            *head.lines,
            *ctx.lines,
            ending,
            "}",
            "}",
        ]
    )


def _compute_variables(head: OpenContext, args: Sequence[Value], scope: Scope, name: str) -> None:
    """Compute the variables from the lengths of arguments, and check that all lengths and constraints fit."""
    known = head.module.variables
    lengths = {
        (i, axis): n for i, x in enumerate(args) for axis, n in enumerate(x.aval.shape) if is_symbolic(n)
    }
    measured = {place: _length(head, args[place[0]], place[1]) for place in lengths}
    wanted = variables(lengths.values())
    while len(known) < len(wanted):
        found = next(
            (
                (v, n, count, place)
                for place, n in lengths.items()
                for v in wanted
                if v not in known and (count := _count_of(n, v)) and set(variables([n])) <= {v, *known}
            ),
            None,
        )
        if found is None:
            rule = "The sizes of symbolic dimensions do not follow from the shapes of the arguments."
            facts = f"dimensions: {', '.join(map(str, lengths.values()))}"
            raise NoOpenForm(message(rule, facts, fix="Give each name an axis of its own."))
        v, n, count, place = found
        rest = n - count * variable(v, scope)
        left = head.op("subtract", [measured[place], head.size(rest)]) if rest != 0 else measured[place]
        known[v] = head.op("divide", [left, head.size(count)]) if count != 1 else left
    for v in wanted:
        one = head.size(1)
        head.check(
            head.compare("GE", known[v], one),
            f"{name}: the dimension {v} is from 1 on, and is {{0}}",
            [known[v]],
        )
    for place, n in lengths.items():
        size = head.size(n)
        if size is not measured[place]:
            text = f"{name}: axis {place[1]} of argument {place[0]} has length {n} = {{0}}, and is {{1}}"
            head.check(head.compare("EQ", size, measured[place]), text, [size, measured[place]])
    for constraint in scope.constraints:
        size = head.size(constraint.size)
        holds = head.compare("EQ" if constraint.equal else "GE", size, head.size(0))
        head.check(holds, f"{name}: the shapes break the constraint {constraint.text}", [])


def _count_of(n: Size, v: str) -> Size:
    """The factor of a variable in a size that is linear in it: a number, or a size of other variables; otherwise 0."""
    terms = [(m, a) for m, a in n.terms if v in variables([size_of({m: 1}, n.scope)])]
    if len(terms) != 1 or (Factor(v), 1) not in terms[0][0]:
        return 0
    others = tuple([(factor, power) for factor, power in terms[0][0] if factor != Factor(v)])
    count = size_of({others: terms[0][1]}, n.scope)
    return 0 if v in variables([count]) else count


def _length(head: OpenContext, x: Value, axis: int) -> Value:
    text = f"stablehlo.get_dimension_size {x}, dim = {axis} : ({x.type}) -> tensor<i32>"
    return head.convert(head.emit(text, _LENGTH), _SIZE.dtype)
