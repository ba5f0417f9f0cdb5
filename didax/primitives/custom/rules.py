"""`Rules`: a function with rules of its own, on flat lists of arrays; and what transformations make of it.

    CustomCall     (didax/api/custom_call.py)  one call of a function, with Python functions over pytrees as rules
    StagedRules    the function after staging: its operands are the values it captured, then its arguments
    EnclosedRules  the function called by another such function, whose captured values have been replaced
    BatchedRules   the function and all of its derivative rules over a batch, so that vmap loses none
    SelectedRules  the function with only some of its results

Each is a `Rules` again, so transformations nest in any order. Rules run when a transformation asks for them, under the
trace that is current at that time; `ClosureTrace` replaces the values that they closed over by the values under this
trace.
Tangents and cotangents may be symbolic `Zero`s on both sides. Read next: `call.py`, the primitives that ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, NamedTuple, TypeVar

from didax.core import dtypes
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.primitive import Trace
from didax.core.tracing import Tracer, current_trace, set_current_trace
from didax.primitives.custom.constant import Held, constant_p
from didax.primitives.shape import reduce_sum
from didax.transforms.batching import (
    AxisData,
    BatchTrace,
    BatchTracer,
    batched_aval,
    element_aval,
    move_batch_axis,
)
from didax.transforms.closure import Replace, closed_over, run_closure
from didax.transforms.named_axes import extend_axis_env
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import is_undef

R = TypeVar("R")
Values = Sequence[Any]
Dims = Sequence[int | None]


class Forward(NamedTuple):
    """The outcome of the forward pass of a vjp rule: results, residuals, and the backward pass."""

    outs: list[Any]
    residuals: list[Any]
    # (residuals, cotangents of results) -> cotangents of arguments
    backward: Callable[[Values, Values], list[Any]]


class Rules:
    """A function on flat lists, and its rules.

    `given` maps the name of each rule that the function has to the words that errors use for it.
    """

    __slots__ = ("given", "name", "optimize_remat")
    DERIVATIVES: ClassVar = frozenset({"jvp", "vjp", "linearize", "transpose"})

    def __init__(self, name: str, given: Mapping[str, str], optimize_remat: bool = False):
        self.name = name
        self.given = given
        self.optimize_remat = optimize_remat  # see forward_pass.py

    def run(self, *args: Any) -> list[Any]:
        """The function itself."""
        raise NotImplementedError

    def jvp(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        """Results, and their tangents."""
        raise NotImplementedError

    def forward(self, primals: Values, perturbed: tuple[bool, ...]) -> Forward:
        """The forward pass of reverse mode; `perturbed` tells which arguments are differentiated."""
        raise NotImplementedError

    def linearize(self, primals: Values) -> tuple[list[Any], Callable[[Values], list[Any]]]:
        """Results, and the linear function from tangents of arguments to tangents of results."""
        raise NotImplementedError

    def along(self, primals: Values, tangents: Values) -> list[Any]:
        """Operands with which a linear function computes its tangents; arguments without derivatives stay."""
        fixed = [aval_of(x).tangent().dtype == dtypes.float0 for x in primals]
        return [x if stays else instantiate(t) for x, t, stays in zip(primals, tangents, fixed, strict=True)]

    def transpose(self, args: Values, cts: Values) -> list[Any]:
        """Cotangents of the arguments of a function that is linear in all of them; only captured values are known."""
        raise NotImplementedError

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        """Results over a batch, and which of them have a batch axis; batch axes come first in arguments and results."""
        raise NotImplementedError

    def for_types(self, avals: Sequence[ShapedArray]) -> Rules | None:
        """The same function and rules for arguments of other shapes; None where they are those of one call."""
        return None

    @property
    def __name__(self) -> str:
        """The function's name without its file and line."""
        return self.name.partition(" (")[0]

    def held_tracers(self) -> list[Any]:
        """Tracers that are found in the closures of the rules, whether or not the function uses them."""
        return []

    def __repr__(self) -> str:
        return f"{', '.join(sorted(self.given))} of {self.name}"


# --- Values from outside --------------------------------------------------------------------------------------------


def hold(x: Any) -> Any:
    """An array from outside, written into the program that is being staged."""
    return constant_p.bind(held=Held(x))


def held_in_scope(rules: Rules, trace: Trace) -> list[Tracer]:
    """Tracers of `trace`, and of the traces around it, that the rules hold; to be asked before the trace ends."""
    held = {id(x): x for x in rules.held_tracers() if isinstance(x, Tracer)}
    return [x for x in held.values() if _is_around(x.owner, trace)]


def _is_around(owner: Trace, trace: Trace) -> bool:
    while trace is not owner and trace is not trace.parent:
        trace = trace.parent
    return trace is owner


def with_held(held: Values, now: Values, f: Callable[..., Values], *args: Any) -> Values:
    """`f(*args)`, with the tracers `held` replaced by the first values of `now`."""
    if not held:
        return f(*args)
    found = {id(x): y for x, y in zip(held, now, strict=False)}
    return run_closure("", lambda: f(*args), (), lambda x: found.get(id(x)))


def closed_jaxpr(name: str, f: Callable[..., Values], avals: Sequence[ShapedArray]) -> Jaxpr:
    """`f` staged; arrays that it closed over are written into the jaxpr."""
    jaxpr, captured = trace_to_jaxpr(lambda *xs: run_closure(name, f, xs, constant=hold), avals, what=name)
    assert not captured, "arrays become constants, and tracers of other traces are refused"
    return jaxpr


class Over:
    """Runs functions on the elements of batches along an axis; tracers of this axis that they hold remain valid."""

    __slots__ = ("axis", "name")

    def __init__(self, axis: AxisData, name: str):
        self.axis = axis
        self.name = name

    def __call__(
        self, f: Callable[..., Values], values: Values, dims: Dims
    ) -> tuple[list[Any], list[int | None]]:
        """Results of `f` on the batch, and where their batch axes are."""
        trace = BatchTrace(current_trace(), self.axis)
        args = [
            Zero(element_aval(x.aval, dim)) if type(x) is Zero else trace.join(x, dim)
            for x, dim in zip(values, dims, strict=True)
        ]

        def replace(x: Any) -> Any:
            if type(x) is BatchTracer and x.owner is not trace and x.owner.axis is self.axis:  # type: ignore[attr-defined]
                return trace.join(x.value, x.batch_dim)
            return None

        try:
            with set_current_trace(trace), extend_axis_env(self.axis):
                pairs = [trace.split(y) for y in run_closure(self.name, f, args, replace)]
        finally:
            trace.ended = True
        return [y for y, _ in pairs], [dim for _, dim in pairs]


# --- The same function elsewhere ------------------------------------------------------------------------------------


def _flat_forward(
    rules: Rules, perturbed: tuple[bool, ...], run: Callable[[Callable[..., list[Any]]], R]
) -> tuple[R, int, Callable[[Values, Values], list[Any]]]:
    """`(what run makes of the flat forward pass, how many of its results are not residuals, backward)`.

    Backward functions live as long as programs do, so they hold no tracers.
    """
    found: list[tuple[int, Callable[[Values, Values], list[Any]]]] = []

    def forward(*xs: Any) -> list[Any]:
        outs, residuals, backward = rules.forward(xs, perturbed)
        found.append((len(outs), backward))
        return [*outs, *residuals]

    return (run(forward), *found[0])


class _Elsewhere(Rules):
    """A function whose captured values are replaced; its first operands may be the new values of some of them."""

    __slots__ = ("_captured", "_held", "_inner")

    def __init__(self, inner: Rules, captured: Sequence[Any], held: Sequence[Any] = ()):
        super().__init__(inner.name, inner.given, inner.optimize_remat)
        self._inner = inner
        self._held = frozenset(map(id, held))  # captured values that only the rules use
        # Values that are not tracers are the same under every trace.
        self._captured = [x if isinstance(x, Tracer) else None for x in captured]

    def _with(self, operands: Values) -> tuple[Callable[..., list[Any]], Values]:
        """A runner of functions with the captured values replaced, and the operands that are arguments."""
        raise NotImplementedError

    def _check(self, perturbed: Sequence[bool]) -> None:
        """The error for a perturbed value that the function itself captured."""
        for x, moves in zip(self._captured, perturbed, strict=False):
            if moves and x is not None and id(x) not in self._held:
                raise closed_over(self.name, x)

    def jvp(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        self._check([type(t) is not Zero for t in tangents])
        run, args = self._with(primals)
        dots = tangents[len(primals) - len(args) :]
        ys = run(lambda *xs: _joined(self._inner.jvp(xs[: len(args)], xs[len(args) :])), *args, *dots)
        return _halves(ys)

    def forward(self, primals: Values, perturbed: tuple[bool, ...]) -> Forward:
        self._check(perturbed)
        run, args = self._with(primals)
        captured = primals[: len(primals) - len(args)]
        avals = [aval_of(x).tangent() for x in captured]
        ys, m, inner_backward = _flat_forward(
            self._inner, perturbed[len(captured) :], lambda forward: run(forward, *args)
        )

        def backward(residuals: Values, cts: Values) -> list[Any]:
            run, inner = self._with(residuals)
            ct_xs = run(lambda *xs: inner_backward(xs[: len(inner)], xs[len(inner) :]), *inner, *cts)
            return [*map(Zero, avals), *ct_xs]

        return Forward(ys[:m], [*captured, *ys[m:]], backward)

    def linearize(self, primals: Values) -> tuple[list[Any], Callable[[Values], list[Any]]]:
        run, args = self._with(primals)
        n = len(primals) - len(args)
        found: list[Any] = []

        def linearize(*xs: Any) -> list[Any]:
            outs, apply = self._inner.linearize(xs)
            found.append(apply)
            return outs

        def apply(tangents: Values) -> list[Any]:
            self._check([type(t) is not Zero for t in tangents])
            return run(lambda *dots: found[0](dots), *tangents[n:])

        return run(linearize, *args), apply

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        run, rest = self._with(args)
        n = len(args) - len(rest)
        if any(batched[:n]):
            raise ValueError(
                message(
                    "A function with a vmap rule of its own closed over a value that is being batched: its rule "
                    "batches its arguments only.",
                    f"function: {self.name}",
                    f"values: {', '.join(str(aval_of(x)) for x in compress(args[:n], batched))}",
                    fix="Pass the value as an argument of the function (and of its rule).",
                )
            )
        flags: list[bool] = []

        def vmap(*xs: Any) -> list[Any]:
            outs, found = self._inner.vmap(size, xs, batched[n:])
            flags.extend(found)
            return outs

        return run(vmap, *rest), flags

    def along(self, primals: Values, tangents: Values) -> list[Any]:
        n = len(self._captured)
        self._check([type(t) is not Zero for t in tangents[:n]])
        return [*primals[:n], *self._inner.along(primals[n:], tangents[n:])]

    def transpose(self, args: Values, cts: Values) -> list[Any]:
        run, rest = self._with(args)
        captured = args[: len(args) - len(rest)]
        self._check([is_undef(x) for x in captured])
        return [*[None] * len(captured), *run(lambda *ys: self._inner.transpose(rest, ys), *cts)]


class StagedRules(_Elsewhere):
    """A function that was staged: its operands are the values it captured, then its arguments."""

    __slots__ = ("_jaxpr",)

    def __init__(self, inner: Rules, jaxpr: Jaxpr, captured: Sequence[Any], held: Sequence[Any]):
        super().__init__(inner, [*captured, *held], held)
        self._jaxpr = jaxpr

    def run(self, *args: Any) -> list[Any]:
        return eval_jaxpr(self._jaxpr, args)

    def _with(self, operands: Values) -> tuple[Callable[..., list[Any]], Values]:
        n = len(self._captured)
        now = {id(x): y for x, y in zip(self._captured, operands[:n], strict=True) if x is not None}

        def run(f: Callable[..., Values], *args: Any) -> list[Any]:
            return run_closure(self.name, f, args, lambda x: now.get(id(x)), hold)

        return run, operands[n:]


class EnclosedRules(_Elsewhere):
    """A function that was called in a closure: values that are replaced there are replaced in its rules too."""

    __slots__ = ("_constant", "_replace")

    def __init__(self, inner: Rules, replace: Replace | None, constant: Replace | None):
        super().__init__(inner, ())
        self._replace = replace
        self._constant = constant

    def held_tracers(self) -> list[Any]:
        replaced = [self._replace(x) if self._replace else None for x in self._inner.held_tracers()]
        return [
            x if new is None else new for x, new in zip(self._inner.held_tracers(), replaced, strict=True)
        ]

    def run(self, *args: Any) -> list[Any]:
        return self._with(args)[0](self._inner.run, *args)

    def _with(self, operands: Values) -> tuple[Callable[..., list[Any]], Values]:
        def run(f: Callable[..., Values], *args: Any) -> list[Any]:
            return run_closure(self.name, f, args, self._replace, self._constant)

        return run, operands


class SelectedRules(Rules):
    """A function with only some of its results."""

    __slots__ = ("_avals", "_inner", "_used")

    def __init__(self, inner: Rules, used: Sequence[bool], avals: Sequence[ShapedArray]):
        super().__init__(inner.name, inner.given, inner.optimize_remat)
        self._inner = inner
        self._avals = tuple(avals)
        self._used = tuple(used)

    def held_tracers(self) -> list[Any]:
        return self._inner.held_tracers()

    def run(self, *args: Any) -> list[Any]:
        return self._of(self._inner.run(*args))

    def _of(self, values: Values) -> list[Any]:
        return list(compress(values, self._used))

    def _all(self, cts: Values) -> list[Any]:
        """Cotangents of all results: zeros of those not used."""
        given = iter(cts)
        return [
            next(given) if use else Zero(aval.tangent())
            for use, aval in zip(self._used, self._avals, strict=True)
        ]

    def jvp(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        outs, dots = self._inner.jvp(primals, tangents)
        return self._of(outs), self._of(dots)

    def forward(self, primals: Values, perturbed: tuple[bool, ...]) -> Forward:
        outs, residuals, backward = self._inner.forward(primals, perturbed)
        return Forward(self._of(outs), residuals, lambda res, cts: backward(res, self._all(cts)))

    def linearize(self, primals: Values) -> tuple[list[Any], Callable[[Values], list[Any]]]:
        outs, apply = self._inner.linearize(primals)
        return self._of(outs), lambda tangents: self._of(apply(tangents))

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        outs, flags = self._inner.vmap(size, args, batched)
        return self._of(outs), list(compress(flags, self._used))

    def along(self, primals: Values, tangents: Values) -> list[Any]:
        return self._inner.along(primals, tangents)

    def transpose(self, args: Values, cts: Values) -> list[Any]:
        return self._inner.transpose(args, self._all(cts))


class BatchedRules(Rules):
    """A function over a batch. The batch axis of its i-th argument is at `dims[i]`, the batch axes of its results at 0.

    If any argument has a batch axis, all results have one. If none does, the results have one if the function closed
    over batched values; `out_batched` is known once the function has run.
    """

    __slots__ = ("_axis", "_dims", "_inner", "_over", "out_batched")

    def __init__(self, inner: Rules, axis: AxisData, dims: Dims, out_batched: bool | None = None):
        everywhere = any(dim is not None for dim in dims)
        # A vmap rule has done its work where an argument is batched.
        given = {rule: f for rule, f in inner.given.items() if not (rule == "vmap" and everywhere)}
        super().__init__(inner.name, given, inner.optimize_remat)
        self._inner = inner
        self._axis = axis
        self._dims = tuple(dims)
        self._over = Over(axis, inner.name)
        self.out_batched = everywhere or out_batched

    def held_tracers(self) -> list[Any]:
        return [
            x.value if type(x) is BatchTracer and x.owner.axis is self._axis else x  # type: ignore[attr-defined]
            for x in self._inner.held_tracers()
        ]

    def run(self, *args: Any) -> list[Any]:
        if "vmap" in self._inner.given and "vmap" not in self.given:
            return [
                y if has_axis else move_batch_axis(y, None, 0, self._axis.size)
                for y, has_axis in zip(*by_vmap_rule(self._inner, self._axis, args, self._dims), strict=True)
            ]
        return self._placed(*self._over(self._inner.run, args, self._dims))

    def _placed(self, outs: Values, dims: Dims) -> list[Any]:
        """Results, all with their batch axes at 0 or all without."""
        if self.out_batched is None:
            self.out_batched = any(dim is not None for dim in dims)
        if self.out_batched:
            return [self._first(y, dim) for y, dim in zip(outs, dims, strict=True)]
        if any(dim is not None for dim in dims):
            raise ValueError(
                message(
                    "A function's own rule depends on a batched value that the function does not depend on.",
                    f"function: {self.name}",
                    fix="Pass the value as an argument of the function.",
                )
            )
        return list(outs)

    def _first(self, y: Any, dim: int | None) -> Any:
        if type(y) is Zero:
            return Zero(batched_aval(y.aval, 0, self._axis.size))
        return move_batch_axis(y, dim, 0, self._axis.size)

    def jvp(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        n = len(primals)
        ys, dims = self._over(
            lambda *xs: _joined(self._inner.jvp(xs[:n], xs[n:])), [*primals, *tangents], self._dims * 2
        )
        return _halves(self._placed(ys, dims))

    def forward(self, primals: Values, perturbed: tuple[bool, ...]) -> Forward:
        (ys, dims), m, inner_backward = _flat_forward(
            self._inner, perturbed, lambda forward: self._over(forward, primals, self._dims)
        )
        outs = self._placed(ys[:m], dims[:m])
        in_avals = [aval_of(x).tangent() for x in primals]

        def backward(residuals: Values, cts: Values) -> list[Any]:
            r = len(residuals)
            ct_xs, x_dims = self._over(
                lambda *xs: inner_backward(xs[:r], xs[r:]),
                [*residuals, *cts],
                [*dims[m:], *[0 if self.out_batched else None] * len(cts)],
            )
            return [self._for_argument(*x) for x in zip(ct_xs, x_dims, self._dims, in_avals, strict=True)]

        return Forward(outs, ys[m:], backward)

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        """The vmap rule for another axis, where no argument has this one. In the results this axis comes second."""
        flags: list[bool] = []

        def rule(*xs: Any) -> list[Any]:
            outs, found = self._inner.vmap(size, xs, batched)
            flags[:] = found
            return outs

        ys, dims = self._over(rule, args, self._dims)
        if self.out_batched is None:
            self.out_batched = any(dim is not None for dim in dims)
        if self.out_batched:
            ys = [
                move_batch_axis(y, dim, int(flag), self._axis.size)
                for y, dim, flag in zip(ys, dims, flags, strict=True)
            ]
        return ys, flags

    def along(self, primals: Values, tangents: Values) -> list[Any]:
        return self._inner.along(primals, tangents)

    def transpose(self, args: Values, cts: Values) -> list[Any]:
        ct_dims = [0 if self.out_batched else None] * len(cts)
        ct_xs, x_dims = self._over(lambda *ys: self._inner.transpose(args, ys), cts, ct_dims)
        found = zip(ct_xs, x_dims, self._dims, args, strict=True)
        return [None if x is None else self._for_argument(x, at, dim, arg.aval) for x, at, dim, arg in found]

    def _for_argument(self, ct_x: Any, found: int | None, dim: int | None, aval: ShapedArray) -> Any:
        """The cotangent of an argument: batched as the argument is, or the sum over the batch that shares it."""
        if type(ct_x) is Zero or (self.out_batched and not self._axis.size):  # an empty batch has no results
            return Zero(aval)
        if dim is not None:
            return move_batch_axis(ct_x, found, dim, self._axis.size)
        if not self.out_batched:
            return self._placed([ct_x], [found])[0]
        return reduce_sum(self._first(ct_x, found), (0,))

    def linearize(self, primals: Values) -> tuple[list[Any], Callable[[Values], list[Any]]]:
        found: list[Any] = []

        def linearize(*xs: Any) -> list[Any]:
            outs, apply = self._inner.linearize(xs)
            found.append(apply)
            return outs

        outs = self._placed(*self._over(linearize, primals, self._dims))

        def apply(tangents: Values) -> list[Any]:
            return self._placed(*self._over(lambda *dots: found[0](dots), tangents, self._dims))

        return outs, apply


def by_vmap_rule(rules: Rules, axis: AxisData, args: Values, dims: Dims) -> tuple[list[Any], list[bool]]:
    """Results over a batch by the function's own vmap rule, and which of them have a batch axis, at 0."""
    rows = [
        x if dim is None else move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)
    ]
    return rules.vmap(axis.size, rows, [dim is not None for dim in dims])


def _joined(pair: tuple[Values, Values]) -> list[Any]:
    return [*pair[0], *pair[1]]


def _halves(ys: list[Any]) -> tuple[list[Any], list[Any]]:
    n = len(ys) // 2
    return ys[:n], ys[n:]
