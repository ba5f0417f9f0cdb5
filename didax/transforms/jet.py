"""Taylor mode: each value travels with the coefficients of a power series, and operations act on whole series.

    f(x_0 + x_1 t + x_2 t^2 + ...) = y_0 + y_1 t + y_2 t^2 + ...        up to a given order

A `JetTracer` has a `Series`, whose coefficients are computed when they are asked for. The coefficients of a result
follow from the coefficients of the operands in one of four ways:

    linear         y_k is the operation on the x_k: the tangent of its jvp rule along them
    `taylor` rule  y_k by a recurrence that the primitive states, as products and quotients do
    programs       the primitive's jvp rule, with programs pushed forward by `jet_jaxpr` in place of `jvp_jaxpr`
    all others     the jvp rule as a differential equation, y' = rule(x', y, x): k y_k is coefficient k - 1 of it

The last is why no function needs a formula of its own: the rule of tanh, y' = x' (1 - y^2), runs once, on series. A
rule may need the series that it is computing: the rule of exp applies exp again, and the rule of sin applies cos, whose
rule applies sin. What the rules behind one operation apply to the same operands is applied once (`Applications`), so
such an application finds the series that is being computed. The cost grows with the square of the order, whereas the
cost of nested jvps doubles with each order.
Read next: `jvp.py`, whose rules these are; `didax/experimental/jet.py`, what users call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import Zero, add_tangents, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.exact import exact
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.leaks import check_leaks
from didax.core.primitive import Primitive, Trace, require
from didax.core.rule_types import check_fit, check_type
from didax.core.tracing import Tracer, current_trace, known_value, run_under, set_current_trace
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed

Row = list[Any]  # the coefficients of one power of t, one for each result of an operation
Step = Callable[[int], Row]


class PendingError(Exception):
    """A coefficient was asked for while it was being computed."""


class Expansion:
    """The coefficients of the results of an operation: those known so far, and how the next ones are computed."""

    __slots__ = ("busy", "rows", "step")

    def __init__(self, rows: list[Row], step: Step):
        self.rows = rows
        self.step: Step | None = step
        self.busy = False

    def row(self, k: int) -> Row:
        """The coefficients of t^k; PendingError while they are being computed."""
        while len(self.rows) <= k:
            if self.busy:
                raise PendingError
            assert self.step is not None
            self.busy = True
            try:
                self.rows.append(self.step(len(self.rows)))
            finally:
                self.busy = False
        return self.rows[k]

    def complete(self, order: int) -> None:
        """Compute the coefficients up to this order, and forget how."""
        self.row(order)
        self.step = None


class Series:
    """The coefficients of one value: `series[k]`, a symbolic zero where it is known to vanish."""

    __slots__ = ("expansion", "index")

    def __init__(self, expansion: Expansion, index: int = 0):
        self.expansion = expansion
        self.index = index

    def __getitem__(self, k: int) -> Any:
        return self.expansion.row(k)[self.index]


def constant(x: Any) -> Series:
    """The series of a value that does not depend on t."""
    return Series(Expansion([[x]], lambda k: [Zero(aval_of(x).tangent())]))


class JetTracer(Tracer):
    """A value with its power series."""

    __slots__ = ("derivative", "series")

    def __init__(self, trace: Trace, series: Series):
        self.owner = trace
        self.series = series
        self.derivative: JetTracer | None = None  # its derivative, once a rule has asked for it
        self.aval = aval_of(series[0])

    @property
    def primal(self) -> Any:
        """The coefficient of t^0."""
        return self.series[0]

    def known(self) -> Any | None:
        return known_value(self.primal)


class JetTrace(Trace):
    """Carries power series along, up to `order`."""

    __slots__ = ("order",)
    transformation = "jet"

    def __init__(self, parent: Trace, order: int, function: Any = None):
        super().__init__(parent, function)
        self.order = order

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply, and compute all coefficients at once: series that wait would nest as deep as the program is long."""
        out = self.expand(primitive, args, params)
        if not primitive.multiple_results:
            return self._complete(out)
        return [self._complete(y) for y in out]

    def _complete(self, y: Any) -> Any:
        """A tracer with all of its coefficients, or just the primal where the others vanish."""
        if not self.owns(y):
            return y
        y.series.expansion.complete(self.order)
        vanishes = all(type(y.series[k]) is Zero for k in range(1, self.order + 1))
        return y.primal if vanishes else y

    def expand(
        self,
        primitive: Primitive,
        args: tuple[Any, ...],
        params: dict[str, Any],
        applied: Applications | None = None,
        depth: int = 0,
    ) -> Any:
        """Apply a primitive to series, lazily; `applied` is what a rule that does so finds, None outside of rules."""
        if not any(map(self.owns, args)):
            return self.parent.process(primitive, args, params)
        return Operation(self, primitive, args, params, applied, depth).results()

    def owns(self, x: Any) -> bool:
        """True for tracers of this trace."""
        return type(x) is JetTracer and x.owner is self

    def series_of(self, x: Any) -> Series:
        """The series of any value."""
        return x.series if self.owns(x) else constant(x)

    def derivative(self, x: Any) -> Any:
        """The series of dx/dt as a tracer; a symbolic zero of a constant.

        A coefficient is a symbolic zero only if all after it are, so the first one tells.
        """
        if not self.owns(x) or type(x.series[1]) is Zero:
            return Zero(aval_of(x).tangent())
        if x.derivative is None:
            series = x.series

            def step(k: int) -> Row:
                with set_current_trace(self.parent):
                    return [scaled(series[k + 1], k + 1)]

            with set_current_trace(self.parent):
                x.derivative = JetTracer(self, Series(Expansion([[series[1]]], step)))
        return x.derivative


Application = tuple[Primitive, tuple[Any, ...], dict[str, Any]]


class Applications:
    """The operations that the rules behind one operation have applied, with their results.

    The key is the primitive, its operands and its parameters. A derivative by several operands is the same in any
    order of the operands: without this table the number of operations would double with each order.
    """

    __slots__ = ("results",)

    def __init__(self) -> None:
        self.results: dict[Any, tuple[Any, Any]] = {}  # with the operands, whose identities are in the keys

    def find(self, application: Application) -> Any | None:
        """The results, or None."""
        found = self.results.get(self._key(application))
        return None if found is None else found[1]

    def add(self, application: Application, outs: Any) -> None:
        """Remember the results."""
        self.results[self._key(application)] = application[1], outs

    def _key(self, application: Application) -> Any:
        primitive, args, params = application
        operands = [exact(x) if type(x) in PYTHON_SCALARS else id(x) for x in args]
        return primitive, tuple(map(type, args)), tuple(operands), exact(tuple(params.items()))


class Operation:
    """One application of a primitive to series, and the ways to the coefficients of its results."""

    __slots__ = (
        "applied",
        "args",
        "depth",
        "dots",
        "outs",
        "params",
        "primals",
        "primitive",
        "rows",
        "series",
        "trace",
    )

    def __init__(
        self,
        trace: JetTrace,
        primitive: Primitive,
        args: tuple[Any, ...],
        params: dict[str, Any],
        applied: Applications | None,
        depth: int,
    ):
        self.trace, self.applied, self.depth = trace, applied, depth
        self.rows: list[Row] = []
        self.primitive, self.args, self.params = primitive, args, params
        self.series = [trace.series_of(x) for x in args]
        self.primals = tuple([series[0] for series in self.series])
        self.outs: Any = None  # what the primitive returns, as tracers
        self.dots: list[Series] | None = None  # series of the derivatives of the results, by the jvp rule

    def results(self) -> Any:
        """The results, as tracers where they may depend on t."""
        primitive, order = self.primitive, self.trace.order
        if primitive.pushes_programs and self.applied is None:
            expansion = Expansion(self._push(order), self._never)
        else:
            out = self.trace.parent.process(primitive, self.primals, self.params)
            row = list(out) if primitive.multiple_results else [out]
            expansion = Expansion([row], self._typed(self._step()))
        outs = [
            JetTracer(self.trace, Series(expansion, i)) if aval_of(y).tangent() is aval_of(y) else y
            for i, y in enumerate(expansion.rows[0])
        ]
        self.outs = outs if primitive.multiple_results else outs[0]
        return self.outs

    def _step(self) -> Step:
        if self.primitive.pushes_programs:
            return self._pushed
        if self.primitive.linear:
            return self._linear
        return self._flow if self.primitive.taylor is None else self._recurrence

    def _typed(self, step: Step) -> Step:
        """The step, with the weak types of the results: a rule need not see to them."""

        def typed(k: int) -> Row:
            moving = any(type(series[1]) is not Zero for series in self.series)
            with set_current_trace(self.trace.parent):
                coefficients = step(k) if moving else map(Zero, map(aval_of, self._row(0)))
                return [
                    self._fitting(y, aval_of(y0)) for y, y0 in zip(coefficients, self._row(0), strict=True)
                ]

        return typed

    def _row(self, k: int) -> Row:
        outs = self.outs if self.primitive.multiple_results else [self.outs]
        return [y.series[k] if self.trace.owns(y) else y for y in outs]

    def _fitting(self, y: Any, wanted: ShapedArray) -> Any:
        if type(y) is Zero:
            return Zero(wanted.tangent())
        if (found := aval_of(y)) is wanted:
            return y
        if found.update(weak_type=wanted.weak_type) is not wanted:
            check_type(self.primitive, "jvp", "The tangent of a result", found, wanted.tangent())
        return array_ops.convert(y, wanted.dtype, wanted.weak_type)

    def _never(self, k: int) -> Row:
        raise AssertionError("all coefficients are known")

    # --- The ways -------------------------------------------------------------------------------------

    def _linear(self, k: int) -> Row:
        dots = [series[k] for series in self.series]
        out = self._row(0) if self.primitive.multiple_results else self._row(0)[0]
        applied = Applications()
        applied.add((self.primitive, self.primals, self.params), out)
        return self._jvp(RuleScope(self.trace.parent, applied), self.primals, dots)

    def _recurrence(self, k: int) -> Row:
        rule = require(self.primitive, "taylor")
        return [rule(k, self.outs.series, self.series, **self.params)]

    def _flow(self, k: int) -> Row:
        if self.dots is None:
            tangents = [self.trace.derivative(x) for x in self.args]
            applied = Applications() if self.applied is None else self.applied
            applied.add((self.primitive, self.args, self.params), self.outs)
            found = self._jvp(LazyScope(self.trace, applied, self.depth + 1), self.args, tangents)
            self.dots = [self.trace.series_of(y) for y in found]
        return [scaled(dot[k - 1], 1 / k) for dot in self.dots]

    def _pushed(self, k: int) -> Row:
        """Coefficient k within a rule, and with it all others that do not depend on the series the rule is run for."""
        if len(self.rows) <= k:
            most = max(k, self.trace.order - self.depth)
            try:
                for series in self.series:
                    series[most]
            except PendingError:
                most = k
            self.rows = self._push(most)
        return self.rows[k]

    def _push(self, order: int) -> list[Row]:
        """All coefficients up to an order, by programs that compute them all; in between they are one array."""
        with set_current_trace(self.trace.parent):
            dots = [stacked([series[k] for k in range(1, order + 1)]) for series in self.series]
            rule = require(self.primitive, "jvp")
            outs, out_dots = rule(self.primals, dots, forward=jet_to(order), **self.params)
            columns = [unstacked(dot, order) for dot in out_dots]
        return [list(outs), *([column[k] for column in columns] for k in range(order))]

    def _jvp(self, scope: RuleScope, primals: Sequence[Any], tangents: Sequence[Any]) -> Row:
        """Tangents of the results, by the jvp rule."""
        rule = require(self.primitive, "jvp")
        with set_current_trace(scope):
            try:
                _, out_dot = rule(primals, tangents, **self.params)
            except TypeError as error:
                check_fit(self.primitive, "jvp", (primals, tangents), self.params, error)
                raise
        return list(out_dot) if self.primitive.multiple_results else [out_dot]


class RuleScope(Trace):
    """Where a jvp rule runs: what was `applied`, such as the operation that the rule belongs to, has known results."""

    __slots__ = ("applied",)
    transformation = "jet"

    def __init__(self, parent: Trace, applied: Applications):
        super().__init__(parent)
        self.applied = applied

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        found = self.applied.find((primitive, args, params))
        return self.parent.process(primitive, args, params) if found is None else found


class LazyScope(RuleScope):
    """A scope in which series wait: their coefficients may depend on those that the rule is run for."""

    __slots__ = ("depth",)

    def __init__(self, parent: Trace, applied: Applications, depth: int):
        super().__init__(parent, applied)
        self.depth = depth

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        application = primitive, args, params
        found = self.applied.find(application)
        if found is None:
            trace = self.parent
            assert isinstance(trace, JetTrace)
            found = trace.expand(*application, self.applied, self.depth)
            if not primitive.effects(params):  # every application with effects is wanted
                self.applied.add(application, found)
        return found


def cauchy(product: Callable[[Any, Any], Any], k: int, x: Series, y: Series, start: int = 0) -> Any:
    """Coefficient k of a product of two series, the sum of product(x_j, y_{k-j}) over j from `start` to k."""
    total: Any = None
    for j in range(start, k + 1):
        if type(x[j]) is not Zero and type(y[k - j]) is not Zero:
            term = product(x[j], y[k - j])
            total = term if total is None else array_ops.add(total, term)
    return Zero(aval_of(y[0]).tangent()) if total is None else total


def quotient(
    over: Callable[[Any, Any], Any],
    times: Callable[[Any, Any], Any],
    k: int,
    z: Series,
    x: Series,
    y: Series,
) -> Any:
    """Coefficient k of z = x over y, from z times y = x: z_k = (x_k - sum of z_{k-j} times y_j over j > 0) over y_0."""
    known = cauchy(lambda y, z: times(z, y), k, y, z, start=1)
    rest = add_tangents(x[k], scaled(known, -1))
    return rest if type(rest) is Zero else over(rest, y[0])


def scaled(x: Any, number: float) -> Any:
    """A coefficient times a number."""
    return x if type(x) is Zero or number == 1 else array_ops.scale(x, number)


def stacked(coefficients: Sequence[Any]) -> Any:
    """The coefficients as one array, along a new last axis: a scan goes along the first. A symbolic zero if all are."""
    if all(type(x) is Zero for x in coefficients):
        aval = aval_of(coefficients[0])
        return Zero(aval.with_axis(aval.ndim, len(coefficients)))
    return array_ops.stack(list(map(instantiate, coefficients)))


def unstacked(x: Any, order: int) -> list[Any]:
    """The inverse of `stacked`."""
    return [x] * order if type(x) is Zero else array_ops.unstack(x)


def jet_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int,
    function: Any = None,
) -> tuple[list[Any], list[list[Any]]]:
    """Results of `fun` and the coefficients of their series, from 1 to `order`; of both sides some may be `Zero`s.

    A primal without coefficients, an empty list, is constant.
    """
    trace = JetTrace(current_trace(), order, fun if function is None else function)

    def join(x: Any, coefficients: Sequence[Any]) -> Any:
        if all(type(c) is Zero for c in coefficients):
            return x
        expansion = Expansion([[x], *([c] for c in coefficients)], lambda k: [])
        return JetTracer(trace, Series(expansion))

    def split(y: Any) -> tuple[Any, list[Any]]:
        found = trace.series_of(y)
        return found[0], [found[k] for k in range(1, order + 1)]

    try:
        args = [join(x, coefficients) for x, coefficients in zip(primals, series, strict=True)]
        outs = run_under(trace, fun, args)
        pairs = [split(y) for y in outs]
    finally:
        trace.ended = True
    args, outs = [], []
    check_leaks(trace)
    return [y for y, _ in pairs], [coefficients for _, coefficients in pairs]


@cached_on_jaxpr
def jet_jaxpr(
    jaxpr: Jaxpr, order: int, nonzero_in: tuple[bool, ...], nonzero_out: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """A jaxpr on series: inputs and stacked nonzero coefficients of inputs to the same of outputs.

    Also returns which outputs have coefficients; `nonzero_out` asks for at least these.
    """
    found: list[bool] = []

    def jet_of_jaxpr(*args: Any) -> list[Any]:
        given = iter(args[len(jaxpr.invars) :])
        series = [unstacked(next(given), order) if nz else [] for nz in nonzero_in]
        outs, out_series = jet_flat(
            lambda *xs: eval_jaxpr(jaxpr, xs), args[: len(jaxpr.invars)], series, order
        )
        dots = [stacked(coefficients) for coefficients in out_series]
        wanted = nonzero_out or (False,) * len(outs)
        found.extend(type(dot) is not Zero or want for dot, want in zip(dots, wanted, strict=True))
        return [*outs, *(instantiate(dot) for dot, nz in zip(dots, found, strict=True) if nz)]

    tangents = [v.aval.tangent() for v, nz in zip(jaxpr.invars, nonzero_in, strict=True) if nz]
    stacks = [aval.with_axis(aval.ndim, order) for aval in tangents]
    return trace_closed(jet_of_jaxpr, [*jaxpr.in_avals, *stacks], what="jet"), tuple(found)


@functools.cache
def jet_to(order: int) -> Callable[..., tuple[Jaxpr, tuple[bool, ...]]]:
    """`jet_jaxpr` of that order, in the form of `jvp_jaxpr`."""

    def forward(
        jaxpr: Jaxpr, nonzero_in: tuple[bool, ...], nonzero_out: tuple[bool, ...] | None = None
    ) -> tuple[Jaxpr, tuple[bool, ...]]:
        return jet_jaxpr(jaxpr, order, nonzero_in, nonzero_out)

    return forward
