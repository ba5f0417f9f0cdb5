"""One call of a function with rules of its own: from the user's functions over pytrees to rules over flat lists.

`Definition` is what the decorators of `custom.py` collect: a function and its rules. `CustomCall` is one call of the
function: it gives each rule its arguments in the user's structures, and checks what the rule returns against the
structures, shapes and dtypes that follow from the arguments and results. Errors show both, by path.
Read next: `custom.py`, the decorators; `didax/primitives/custom/rules.py`, who calls these rules.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from didax.api.flat import as_array, narrowed_scalar, positional_names, result_name
from didax.api.symbolic_zeros import CustomVJPPrimal, SymbolicZero
from didax.api.tangents import check_tangent, type_text
from didax.core import pytree
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.errors import ArgumentError, message
from didax.core.source import describe_function, in_blocks_of_equation
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.primitives.custom.rules import Forward, Rules
from didax.transforms.batching import element_aval
from didax.transforms.closure import run_closure

Values = Sequence[Any]


_TAKES = {
    "jvp": "jvp(*nondiff, primals, tangents)",
    "argument's": "rule(tangent, result, *args)",
    "fwd": "fwd(*args)",
    "bwd": "bwd(*nondiff, residuals, cotangent)",
    "linearize": "linearize(*args)",
    "transpose": "transpose(*nondiff, cotangent)",
    "vmap": "vmap(axis_size, in_batched, *args)",
}


def call_rule(kind: str, function: Any, rule: Callable[..., Any], *args: Any) -> Any:
    """The result of a rule of a function, or of one of that name; TypeError where the rule takes other arguments."""
    try:
        return rule(*args)
    except TypeError:
        if (misfit := _misfit(rule, args)) is None:
            raise
        raise TypeError(
            message(
                f"The {kind} rule of a function takes other arguments than it gets: {misfit}.",
                f"function: {function if type(function) is str else describe_function(function)}",
                f"rule: {describe_function(rule)}, which takes {inspect.signature(rule)}; it got {len(args)}",
                fix=f"Write it as {_TAKES[kind]}.",
            )
        ) from None


def _misfit(f: Callable[..., Any], args: Sequence[Any]) -> str | None:
    """Why a function does not take these arguments; None where it does, or where nothing is known."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args)
    except TypeError as error:
        return str(error)
    return None


@dataclass(slots=True, frozen=True)
class Definition:
    """A function and the rules that were given for it. `given` maps the name of each rule to what errors call it."""

    fun: Callable[..., Any]
    jvp: Callable[..., Any] | None = None
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    linearize: Callable[..., Any] | None = None
    transpose: Callable[..., Any] | None = None
    vmap: Callable[..., Any] | None = None
    symbolic_jvp: bool = False
    symbolic_vjp: bool = False
    optimize_remat: bool = False
    name: str = field(init=False)
    given: dict[str, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        rules = {rule: getattr(self, rule) for rule in ("jvp", "vjp", "linearize", "transpose", "vmap")}
        given = {rule: f"the {rule} rule {_describe_rule(f)}" for rule, f in rules.items() if f is not None}
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "name", describe_function(self.fun))


class CustomCall(Rules):
    """A call with its arguments fixed but for the leaves of those that are differentiated.

    `fixed` are the positions and values of arguments that no rule gives derivatives for. `out_tree` is the structure of
    the result, known when the function or one of its rules has run.
    """

    __slots__ = ("_avals", "_definition", "_fixed", "_tree", "out_avals", "out_tree")

    def __init__(
        self,
        definition: Definition,
        fixed: Sequence[tuple[int, Any]],
        tree: Any,
        avals: Sequence[ShapedArray],
    ):
        super().__init__(definition.name, definition.given, definition.optimize_remat)
        self._definition = definition
        self._fixed = fixed
        self._tree = tree
        self._avals = avals
        self.out_tree: Any = None
        self.out_avals: list[ShapedArray] = []

    # --- the function and its rules -----------------------------------------------------------------------

    def run(self, *args: Any) -> list[Any]:
        return self._closure(lambda *xs: self._results(self._apply(self._definition.fun, xs)), args)

    def jvp(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        n, rule = len(primals), self._definition.jvp
        assert rule is not None

        def jvp(*xs: Any) -> list[Any]:
            dots = [self._zero(t, self._definition.symbolic_jvp) for t in xs[n:]]
            args = self._arguments(xs[:n]), pytree.unflatten(self._tree, dots)
            result = self._call("jvp", rule, *self._fixed_values(), *args)
            out, out_dot = self._pair("jvp", result, "(result, tangent of the result)")
            outs = self._results(out, "jvp")
            return [*outs, *self._tangents("jvp", outs, out_dot)]

        ys = self._closure(jvp, [*primals, *tangents])
        return ys[: len(ys) // 2], ys[len(ys) // 2 :]

    def forward(self, primals: Values, perturbed: tuple[bool, ...]) -> Forward:
        assert self._definition.vjp is not None
        fwd, _ = self._definition.vjp
        found: list[_Residuals] = []

        def forward(*xs: Any) -> list[Any]:
            if self._definition.symbolic_vjp:
                xs = tuple(map(CustomVJPPrimal, xs, perturbed))
            out, residuals = self._pair("fwd", self._apply(fwd, xs, "fwd"), "(result, residuals)")
            outs = self._results(out, "fwd")
            found.append(_Residuals(residuals))
            return [*outs, *found[0].take()]

        ys = self._closure(forward, primals)
        m = len(self.out_avals)

        def backward(residuals: Values, cts: Values) -> list[Any]:
            r = len(residuals)
            return self._closure(
                lambda *xs: self._cotangents(found[0].filled(xs[:r]), xs[r:]), [*residuals, *cts]
            )

        return Forward(ys[:m], ys[m:], backward)

    def linearize(self, primals: Values) -> tuple[list[Any], Callable[[Values], list[Any]]]:
        rule = self._definition.linearize
        assert rule is not None
        found: list[Callable[..., Any]] = []

        def linearize(*xs: Any) -> list[Any]:
            out, f_lin = self._pair(
                "linearize", self._apply(rule, xs, "linearize"), "(result, linear function)"
            )
            found.append(f_lin)
            return self._results(out, "linearize")

        outs = self._closure(linearize, primals)

        def apply(tangents: Values) -> list[Any]:
            def f_lin(*ts: Any) -> list[Any]:
                return self._tangents("linearize", outs, found[0](*self._arguments(map(instantiate, ts))))

            return self._closure(f_lin, tangents)

        return outs, apply

    def transpose(self, args: Values, cts: Values) -> list[Any]:
        rule = self._definition.transpose
        assert rule is not None

        def transpose(*ys: Any) -> list[Any]:
            ct = pytree.unflatten(self.out_tree, [as_array(instantiate(y)) for y in ys])
            return self._of_arguments("transpose", self._call("transpose", rule, *self._fixed_values(), ct))

        return self._closure(transpose, cts)

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        rule = self._definition.vmap
        assert rule is not None
        flags: list[bool] = []

        def vmap(*xs: Any) -> list[Any]:
            in_batched = self._positional(pytree.unflatten(self._tree, batched), False)
            result = self._call("vmap", rule, size, in_batched, *self._positional(self._arguments(xs)))
            out, out_batched = self._pair("vmap", result, "(result, which parts of it are batched)")
            flags.extend(self._flags(out, out_batched))
            return self._results(out, "vmap", (size, flags))

        return self._closure(vmap, args), flags

    def for_types(self, avals: Sequence[ShapedArray]) -> Rules:
        return type(self)(self._definition, self._fixed, self._tree, avals)

    def held_tracers(self) -> list[Any]:
        definition = self._definition
        functions = (
            definition.jvp,
            definition.vjp,
            definition.linearize,
            definition.transpose,
            definition.vmap,
        )
        return list(tracers_in((self._fixed, functions)))

    # --- structures in --------------------------------------------------------------------------------------

    def _closure(self, f: Callable[..., Values], args: Values) -> list[Any]:
        values = [x if type(x) is Zero else as_array(x) for x in args]
        return in_blocks_of_equation(lambda: run_closure(self.name, f, values))

    def _arguments(self, leaves: Any) -> tuple[Any, ...]:
        return pytree.unflatten(self._tree, leaves)

    def _positional(self, args: tuple[Any, ...], fixed: Any = None) -> list[Any]:
        """Arguments with the fixed ones put back in their places (as `fixed`, where that is given)."""
        every = list(args)
        for position, value in self._fixed:
            every.insert(position, value if fixed is None else fixed)
        return every

    def _fixed_values(self) -> list[Any]:
        return [value for _, value in self._fixed]

    def _apply(self, f: Callable[..., Any], leaves: Any, rule: str | None = None) -> Any:
        args = self._positional(self._arguments(leaves))
        return f(*args) if rule is None else self._call(rule, f, *args)

    def _call(self, rule: str, f: Callable[..., Any], *args: Any) -> Any:
        return call_rule(rule, self.name, f, *args)

    @staticmethod
    def _zero(t: Any, symbolic: bool) -> Any:
        if type(t) is not Zero:
            return t
        return SymbolicZero(t.aval) if symbolic else as_array(instantiate(t))

    # --- structures out -------------------------------------------------------------------------------------

    def _pair(self, rule: str, result: Any, wanted: str) -> tuple[Any, Any]:
        if isinstance(result, tuple | list) and len(cast("Sequence[Any]", result)) == 2:
            first, second = cast("Sequence[Any]", result)
            return first, second
        raise TypeError(
            message(
                f"The {rule} rule of a function returns a pair {wanted}.",
                f"function: {self.name}",
                f"returned: {_describe(result)}",
                fix=f"Return {wanted}.",
            )
        )

    def _results(
        self, out: Any, rule: str | None = None, batch: tuple[int, Sequence[bool]] | None = None
    ) -> list[Any]:
        """Leaves of the result of the function, or of one of its rules; remembers its structure and types.

        `batch` is the size of a batch, and which of the leaves have it.
        """
        leaves, tree = pytree.flatten(out)
        if self.out_tree is not None and tree != self.out_tree:
            raise self._other_structure(f"the {rule} rule", tree, "the function", self.out_tree)
        for i, y in enumerate(leaves):
            if not is_array_like(y):
                raise TypeError(
                    message(
                        "A function with rules of its own, and each of its rules, returns arrays, scalars, or pytrees "
                        "of them.",
                        f"function: {self.name}",
                        f"{result_name(tree, i)}{f' of the {rule} rule' if rule else ''}: {_describe(y)}",
                        fix="Return an array there.",
                    )
                )
        outs = [as_array(narrowed_scalar(y)) for y in leaves]
        avals = [aval_of(y) for y in outs]
        if batch is not None:
            _check_batch(self.name, *batch, outs, tree)
            avals = [element_aval(a, 0 if has else None) for a, has in zip(avals, batch[1], strict=True)]
        if self.out_tree is not None:
            self._check_types(rule, tree, avals)
        self.out_tree, self.out_avals = tree, avals
        return outs

    def _check_types(self, rule: str | None, tree: Any, avals: Sequence[ShapedArray]) -> None:
        differing = [
            f"{result_name(tree, i)} is {new} in the {rule} rule, {old} in the function"
            for i, (old, new) in enumerate(zip(self.out_avals, avals, strict=True))
            if old.shape != new.shape or old.dtype != new.dtype
        ]
        if differing:
            raise TypeError(
                message(
                    "A rule returns the function's result in the shapes and dtypes of the function.",
                    f"function: {self.name}",
                    *differing,
                    fix="Compute the result in the rule as the function does, or call the function there.",
                )
            )

    def _other_structure(self, one: str, tree: Any, two: str, other: Any) -> TypeError:
        return TypeError(
            message(
                f"In {one} of a function, the structure of what it returns follows from that of {two}.",
                f"function: {self.name}",
                *pytree.mismatch(tree, other, one, two, root="result").splitlines(),
                fix="Return the same containers.",
            )
        )

    def _tangents(self, rule: str, outs: Values, out_dot: Any) -> list[Any]:
        dots, tree = pytree.flatten(out_dot)
        if tree != self.out_tree:
            raise self._other_structure("the tangent", tree, "the result", self.out_tree)
        return [
            Zero(aval_of(y).tangent())
            if type(t) is SymbolicZero
            else check_tangent(
                f"the {rule} rule of {self.name}",
                aval_of(y),
                t,
                lambda i=i: result_name(self.out_tree, i),
                "result",
                "tangent",
            )
            for i, (y, t) in enumerate(zip(outs, dots, strict=True))
        ]

    def _cotangents(self, residuals: Any, cts: Values) -> list[Any]:
        assert self._definition.vjp is not None
        _, bwd = self._definition.vjp
        leaves = [self._zero(ct, self._definition.symbolic_vjp) for ct in cts]
        ct = pytree.unflatten(self.out_tree, leaves)
        return self._of_arguments("bwd", self._call("bwd", bwd, *self._fixed_values(), residuals, ct))

    def _of_arguments(self, rule: str, ct_xs: Any) -> list[Any]:
        """Cotangents of the arguments' leaves; None stands for zeros of a whole argument or part of one."""
        if not isinstance(ct_xs, tuple | list) or len(cast("Sequence[Any]", ct_xs)) != self._num_arguments():
            raise TypeError(
                message(
                    f"The {rule} rule of a function returns a tuple with one cotangent for each argument that is "
                    "differentiated.",
                    f"function: {self.name}",
                    f"arguments: {', '.join(self._argument_names())}",
                    f"returned: {_describe(ct_xs)}",
                    fix="Return a tuple of that length, with None for an argument whose cotangent is zero.",
                )
            )
        ct_xs = tuple(cast("Sequence[Any]", ct_xs))
        leaves = self._aligned(rule, ct_xs)
        return [
            self._cotangent(rule, aval, x, i)
            for i, (aval, x) in enumerate(zip(self._avals, leaves, strict=True))
        ]

    def _aligned(self, rule: str, ct_xs: tuple[Any, ...]) -> list[Any]:
        """A cotangent, or None, for each leaf of the arguments."""
        places = pytree.unflatten(self._tree, range(self._tree.num_leaves))
        given = pytree.leaves(ct_xs, is_leaf=_is_none)
        try:
            leaves: list[Any] = pytree.broadcast_prefix(ct_xs, places, is_leaf=_is_none)
            fits = sum(x is not None for x in given) == sum(x is not None for x in leaves)
        except ValueError:
            leaves, fits = [], False
        if not fits:
            wanted = pytree.structure(places)
            facts = pytree.mismatch(wanted, ct_xs, "the arguments", f"the result of {rule}", root="args")
            raise ArgumentError(
                message(
                    f"The {rule} rule of a function returns cotangents in the structure of its arguments.",
                    f"function: {self.name}",
                    *facts.splitlines(),
                    fix="Return the containers of the arguments, with None for parts whose cotangents are zero.",
                )
            )
        return leaves

    def _cotangent(self, rule: str, aval: ShapedArray, ct_x: Any, i: int) -> Any:
        if ct_x is None or type(ct_x) is SymbolicZero or aval.tangent() is not aval:
            return Zero(aval.tangent())
        return check_tangent(
            f"the {rule} rule of {self.name}",
            aval,
            ct_x,
            lambda: self._leaf_name(i),
            "argument",
            "cotangent",
        )

    def _flags(self, out: Any, out_batched: Any) -> list[bool]:
        try:
            flags = pytree.broadcast_prefix(out_batched, out)
        except ValueError:
            flags = [None]
        if all(isinstance(flag, bool | np.bool_) for flag in flags):
            return [bool(flag) for flag in flags]
        raise TypeError(
            message(
                "The vmap rule of a function returns, beside its result, a bool for each part of it: is it batched?",
                f"function: {self.name}",
                *pytree.mismatch(out_batched, out, "out_batched", "the result", root="result").splitlines(),
                f"out_batched: {out_batched!r:.200}",
                fix="Return (result, True), or a pytree of bools in the structure of the result.",
            )
        )

    # --- names ------------------------------------------------------------------------------------------------

    def _num_arguments(self) -> int:
        return len(self._tree.children())

    def _argument_names(self) -> list[str]:
        fixed = {position for position, _ in self._fixed}
        names = positional_names(self._definition.fun, self._num_arguments() + len(fixed))
        return [name for i, name in enumerate(names) if i not in fixed]

    def _leaf_name(self, i: int) -> str:
        paths = pytree.flatten_with_path(pytree.unflatten(self._tree, range(self._tree.num_leaves)))[0]
        (position, *rest), _ = paths[i]
        number: int = position.idx
        return self._argument_names()[number] + pytree.keystr(tuple(rest))


class _Residuals:
    """What a forward rule keeps: the arrays in it, and all else as it is (Python numbers stay Python numbers)."""

    __slots__ = ("_leaves", "_places", "_tree")

    def __init__(self, residuals: Any):
        self._leaves, self._tree = pytree.flatten(residuals)
        self._places = [
            i for i, x in enumerate(self._leaves) if isinstance(x, Array | np.ndarray | np.generic)
        ]

    def take(self) -> list[Any]:
        """The arrays, which are not kept: the rest lives as long as programs do."""
        arrays = [as_array(narrowed_scalar(self._leaves[i])) for i in self._places]
        for i in self._places:
            self._leaves[i] = None
        return arrays

    def filled(self, arrays: Values) -> Any:
        """The residuals, with these arrays."""
        leaves = list(self._leaves)
        for i, x in zip(self._places, arrays, strict=True):
            leaves[i] = x
        return pytree.unflatten(self._tree, leaves)


def tracers_in(x: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Tracers in containers and in the closures of functions."""
    seen = set() if seen is None else seen
    if isinstance(x, Tracer):
        yield x
        return
    if id(x) in seen:
        return
    seen.add(id(x))
    parts = pytree.leaves(x)
    if len(parts) == 1 and parts[0] is x:
        cells = getattr(x, "__closure__", None) or ()
        parts = [cell.cell_contents for cell in cells if cell != _EMPTY_CELL]
        if isinstance(x, functools.partial):
            parts = [x.func, x.args, x.keywords]
    for part in parts:
        yield from tracers_in(part, seen)


_EMPTY_CELL = types.CellType()


def _describe_rule(rule: Any) -> str:
    """The rule's function by name and line, of several the first."""
    first: Any = cast("tuple[Any, ...]", rule)[0] if isinstance(rule, tuple) else rule
    return describe_function(first)


def _is_none(x: Any) -> bool:
    return x is None


def _describe(x: Any) -> str:
    leaves = pytree.leaves(x)
    if len(leaves) == 1 and leaves[0] is x:
        return type_text(x)
    return f"{type(x).__name__} {pytree.map(type_text, x)}"


def _check_batch(name: str, size: int, flags: Sequence[bool], outs: Values, tree: Any) -> None:
    for i, (y, batched) in enumerate(zip(outs, flags, strict=True)):
        if batched and y.shape[:1] != (size,):
            raise ValueError(
                message(
                    "The vmap rule of a function returns batched results with the batch axis first.",
                    f"function: {name}",
                    f"{result_name(tree, i)}: {type_text(y)}, for a batch of {size}",
                    fix="Move the axis to the front, or say that the result is not batched.",
                )
            )
