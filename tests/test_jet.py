"""Taylor mode equals nested forward mode: on every operation, in loops, branches, linear algebra, the user's rules."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, tree
from didax.experimental.jet import jet
from didax.primitives import beta, densities, gamma, hypergeometric, special
from tests.checks import is_inexact
from tests.operations.row import Operation
from tests.test_operations import ROWS, mode_for

SECOND_ORDER = [(family, row) for family, row in ROWS if row.differentiable and row.second_order]
# A sample in which every family occurs; the sums of the names spread it over the rows.
QUICK = {row.name for family, row in SECOND_ORDER if zlib.crc32(f"{family}{row.name}".encode()) % 9 == 0}


def nested(f: Callable[..., Any], primals: Any, series: Any, order: int) -> Any:
    """The derivative of that order of t -> f(x + x1 t + x2 t^2 / 2 + ...) at 0, by nested jvps."""

    def along(t: Any) -> Any:
        def term(x: Any, *dots: Any) -> Any:
            return sum((d * (t**k / math.factorial(k)).astype(d.dtype) for k, d in enumerate(dots, 1)), x)

        return f(*[tree.map(term, x, *terms) for x, terms in zip(primals, series, strict=True)])

    derivative = along
    for _ in range(order):
        derivative = lambda t, f=derivative: dx.jvp(f, (t,), (dnp.ones_like(t),))[1]
    return derivative(dnp.zeros((), dnp.float64))


def draw(rng: np.random.Generator, like: Any) -> Any:
    x = rng.standard_normal(np.shape(like)) * 0.3
    return np.asarray(x + 1j * x[::-1] if np.iscomplexobj(like) and np.ndim(like) else x, like.dtype)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=() if row.name in QUICK else pytest.mark.slow, id=f"{family}-{row.name}")
        for family, row in SECOND_ORDER
    ],
)
def test_every_operation_has_series(row: Operation) -> None:
    dtype = next((d for d in ("float64", "complex128") if d in row.dtypes), None)
    if dtype is None:
        pytest.skip("no wide dtype")
    with mode_for(dtype):
        f, primals, series = curve_through(row, dtype, 3)
        _, found = jet(f, primals, series)
        for order in (1, 3):
            for y, want in zip(found, nested(f, primals, series, order), strict=True):
                narrow = "float16" in row.name
                scale = np.max(np.abs(want), initial=1.0)
                np.testing.assert_allclose(
                    y[order - 1], want, rtol=1e-6, atol=scale * (1e-2 if narrow else 1e-7)
                )


def curve_through(row: Operation, dtype: str, order: int) -> tuple[Callable[..., list[Any]], Any, Any]:
    """The operation of its differentiable arguments, their values, and series of random terms."""
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    args = row.args(rng, np.dtype(dtype))
    chosen = [i for i, x in enumerate(args) if row.argnums is None or i in row.argnums]
    chosen = [i for i in chosen if all(is_inexact(leaf) for leaf in tree.leaves(args[i]))]

    def f(*moving: Any) -> list[Any]:
        every = [*args]
        for i, x in zip(chosen, moving, strict=True):
            every[i] = x
        return [y for y in tree.leaves(row.fun(*every)) if is_inexact(y)]

    primals = tuple(args[i] for i in chosen)
    return f, primals, [[tree.map(lambda x: draw(rng, x), x) for _ in range(order)] for x in primals]


@pytest.mark.slow
def test_no_operation_has_a_large_program_of_series() -> None:
    for family, row in SECOND_ORDER:
        dtype = row.dtypes[0]
        with mode_for(dtype):
            f, primals, series = curve_through(row, dtype, 6)
            program = dx.make_jaxpr(lambda xs, series, f=f: jet(f, xs, series))(primals, series)
            assert equations_in(program.jaxpr) < 40_000, f"{family}-{row.name}"


@dx.custom_jvp
def cubed(x: Any) -> Any:
    return x**3


@cubed.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return cubed(primals[0]), 3 * primals[0] ** 2 * tangents[0]


@dx.custom_vjp
def doubled_sine(x: Any) -> Any:
    return 2 * dnp.sin(x)


doubled_sine.defvjp(lambda x: (doubled_sine(x), x), lambda x, ct: (2 * ct * dnp.cos(x),))

MATRIX = np.array([[2.0, 0.5], [0.5, 3.0]])


def positive(x: Any) -> Any:
    return MATRIX + dnp.outer(x, x)


def newton(x: Any) -> Any:
    """The root of y^3 + y = x, by its equation."""
    steps = lambda f, y: lax.fori_loop(0, 30, lambda i, y: y - f(y) / (3 * y**2 + 1), y)
    return lax.custom_root(lambda y: y**3 + y - x, x, steps, lambda g, y: y / g(dnp.ones_like(y)))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "functions": lambda x: dnp.tanh(x) * dnp.exp(-(x**2)) / (1 + dnp.sqrt(2 + x)) + dnp.log1p(x * x) ** 2.5,
    "inverse functions": lambda x: dnp.arctan(x) + dnp.arcsin(x / 4) + dnp.cbrt(2 + x) + dnp.arccosh(3 + x),
    "special functions": lambda x: lax.erf(x) + lax.lgamma(3 + x) + lax.erf_inv(x / 3),
    "scan": lambda x: lax.scan(lambda c, row: (dnp.sin(c) * row, c + row), x, dnp.stack([x, x**2, x + 1])),
    "while_loop": lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, dnp.cos(c[1]) * x), (0, x)
    )[1],
    "while_loop, bounded": lambda x: lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * x), (0, x), max_steps=4
    )[1],
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: dnp.sin(x) * x, dnp.cos, x),
    "jit": lambda x: dx.jit(lambda x, y: dnp.exp(x) / y)(x, 3 + x[::-1]),
    "checkpoint": dx.checkpoint(lambda x: dnp.sin(x) ** 3),
    "custom_jvp": cubed,
    "custom_vjp": lambda x: doubled_sine(x) * x,
    "custom_root": newton,
    "cholesky": lambda x: dnp.linalg.cholesky(positive(x)),
    "eigh": lambda x: dnp.linalg.eigh(positive(x)),
    "solve": lambda x: dnp.linalg.solve(positive(x), x),
    "logdet": lambda x: dnp.linalg.slogdet(positive(x))[1],
    "gradient": dx.grad(lambda x: (dnp.sin(x) * x[::-1]).prod()),
    "vmap": dx.vmap(lambda x: dnp.where(x > 0, x**3, dnp.exp(x))),
}


@pytest.mark.parametrize(
    "order", [3, pytest.param(4, marks=pytest.mark.ci), pytest.param(6, marks=pytest.mark.slow)]
)
def test_programs_have_series(order: int) -> None:
    """One program for all: series and nested jvps of everything that holds programs or rules."""
    rng = np.random.default_rng(0)
    with dx.enable_x64(True):
        x, series = np.array([0.4, -0.3]), [list(rng.standard_normal((order, 2)) * 0.5)]

        def both(x: Any, series: Any) -> Any:
            return {
                name: (jet(f, (x,), series)[1], nested(f, (x,), series, order))
                for name, f in PROGRAMS.items()
            }

        eager = {name: jet(f, (x,), series) for name, f in PROGRAMS.items()}
        for name, (terms, wants) in dx.jit(both)(x, series).items():
            out, once = eager[name]
            plain = PROGRAMS[name](x)
            for y, want in zip(tree.leaves((out, terms)), tree.leaves((plain, once)), strict=True):
                np.testing.assert_allclose(y, want, rtol=1e-9, atol=1e-9, err_msg=name)
            for y, want in zip(tree.leaves(terms)[order - 1 :: order], tree.leaves(wants), strict=True):
                np.testing.assert_allclose(y, want, rtol=1e-7, atol=1e-7, err_msg=name)


def test_structures_types_and_scaling() -> None:
    out, terms = jet(
        lambda p, n: {"y": p["a"] * n}, ({"a": 2.0}, 3.0), ([{"a": 1.0}, {"a": 4.0}], [0.0, 1.0])
    )
    assert out == {"y": 6.0}
    assert [float(t) for t in terms["y"]] == [3.0, 14.0]
    assert terms["y"][0].weak_type
    half = dnp.ones(2, "bfloat16")
    _, (first, second) = jet(lambda x: x * x, (half,), ([half, half],), factorial_scaled=False)
    assert first.dtype == second.dtype == half.dtype
    assert float(second[0]) == 3.0  # 2 x_0 x_2 + x_1 x_1
    assert jet(dnp.sin, (0.0,), ([],))[1] == []
    _, (constant,) = jet(lambda x: dnp.floor(x), (1.5,), ([1.0],))
    assert float(constant) == 0.0


def test_the_cost_grows_with_the_square_of_the_order() -> None:
    def equations(order: int) -> int:
        f = lambda x: dnp.sin(dnp.tanh(x)) / (1 + x * x)
        return len(dx.make_jaxpr(lambda x, c: jet(f, (x,), (c,)))(1.0, [0.5] * order).eqns)

    assert equations(12) < 9 * equations(4)


@pytest.mark.parametrize("f", [dx.scipy.special.i0e, dx.scipy.special.i1e])
def test_rules_that_apply_each_other_are_run_once(f: Any) -> None:
    """The derivative of each is made of both: a series that is being computed is found, not started anew."""

    def equations(order: int) -> int:
        return len(dx.make_jaxpr(lambda x, c: jet(f, (x,), (c,)))(1.3, [0.5] * order).eqns)

    assert equations(6) < 3 * equations(4)


@pytest.mark.parametrize(
    ("f", "xs", "most"),
    [
        (gamma.lgamma, [2.5], 200),
        (beta.betaln, [2.5, 1.5], 700),
        (densities.log_beta_density, [2.5, 1.5, 0.3], 1400),
        (special.igamma, [2.5, 1.5], 4000),
        (hypergeometric.hyp1f1, [1.3, 2.2, 0.4], 22_000),
    ],
)
def test_programs_of_special_functions_stay_small(f: Any, xs: list[float], most: int) -> None:
    """Each derivative is an operation, and is applied once; by parameters all of them are one series of a formula.

    Differentiated again and again the formulas had 5,000 to 800,000 equations.
    """
    primals = [np.float32(x) for x in xs]
    series = [[np.float32(1), *[np.float32(0)] * 5]] * len(xs)
    jaxpr = dx.make_jaxpr(lambda xs, series: jet(f, xs, series))(primals, series)
    assert equations_in(jaxpr.jaxpr) < most


def equations_in(jaxpr: Any) -> int:
    """The equations of a program and of those within."""
    params = [value for eqn in jaxpr.eqns for value in eqn.params.values()]
    within = [x for value in params for x in (value if isinstance(value, tuple) else [value])]
    return len(jaxpr.eqns) + sum(equations_in(x) for x in within if hasattr(x, "eqns"))


def test_programs_in_rules_may_depend_on_what_the_rule_is_run_for() -> None:
    """Where they do their coefficients come one by one, else all at once."""
    times_one = dx.jit(lambda y: y * 1)

    @dx.custom_jvp
    def f(x: Any) -> Any:
        return dnp.exp(x)

    f.defjvp(lambda x, t: (f(*x), times_one(f(*x)) * times_one(t[0]) * times_one(x[0] ** 0)))
    _, terms = jet(f, (0.0,), ([1.0, 0.0, 0.0, 0.0],))
    assert [float(t) for t in terms] == [1.0] * 4


def test_a_rule_runs_once_and_known_values_choose() -> None:
    calls: list[Any] = []

    @dx.custom_jvp
    def f(x: Any) -> Any:
        return dnp.exp(x)

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        calls.append(1)
        y = dnp.exp(primals[0])
        return y, (y if primals[0] > -1 else 0 * y) * tangents[0]

    _, terms = jet(lambda x: f(x) if x < 1 else x, (0.0,), ([1.0, 0.0, 0.0, 0.0],))
    assert [float(t) for t in terms] == [1.0] * 4
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("primals", "series", "error", "part"),
    [
        (1.0, [[1.0]], TypeError, "tuple of lists of terms"),
        ((1.0,), (1.0,), TypeError, "series\\[0\\]: float"),
        ((1.0, 2.0), ([1.0], [1.0, 2.0]), ValueError, "terms in their series: \\[1, 2\\]"),
        ((1.0,), ([1.0], [1.0]), ValueError, "arguments: 1"),
        (({"a": 1.0},), ([{"b": 1.0}],), TypeError, "containers of its argument"),
        (
            (np.ones(2, "float32"),),
            ([np.ones(3, "float32")],),
            TypeError,
            "terms of order 1.*\\n  x: primal float32\\[2\\]",
        ),
        ((3,), ([1],), TypeError, "float0"),
    ],
)
def test_errors(primals: Any, series: Any, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        jet(lambda x, *_: x, primals, series)


def test_a_rule_that_closes_over_a_series_is_refused() -> None:
    def f(x: Any) -> Any:
        @dx.custom_vjp
        def g(y: Any) -> Any:
            return y * x

        g.defvjp(lambda y: (y * x, None), lambda _, ct: (ct * x,))
        return g(1.0)

    with pytest.raises(Exception, match="closed over a value that is being differentiated"):
        jet(f, (2.0,), ([1.0],))
