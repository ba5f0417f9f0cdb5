"""Functions that bring their own rules: what the decorators promise, in every place where such a function is met.

That no transformation loses a rule is the business of test_custom_rules_matrix.py.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.custom_batching
import jax.custom_derivatives
import jax.dtypes
import jax.numpy
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import TracerBoolConversionError, UnexpectedTracerError
from didax.custom_derivatives import CustomVJPPrimal, SymbolicZero, closure_convert, linear_call

XS = np.float32([0.3, 0.5, 0.7])


def close(found: Any, wanted: Any, rtol: float = 1e-5) -> None:
    """Equal in structure, shape and (nearly) value; float0 to float0."""

    def check(a: Any, b: Any) -> None:
        if getattr(b, "dtype", None) == jax.dtypes.float0:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
        else:
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-6)

    dx.tree.map(check, found, wanted)


def text_of(error: type[Exception], f: Callable[[], Any]) -> str:
    with pytest.raises(error) as found:
        f()
    return str(found.value)


# --- The problems of the proposal ---------------------------------------------------------------------------


def test_vmap_keeps_a_custom_jvp():
    """The proposal's example: grad of a vmapped function is the vmapped custom gradient, whatever the order."""

    @dx.custom_jvp
    def f(x):
        return dnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * tangents[0]))
    ones = 2 * np.ones(3, np.float32)
    close(dx.vmap(dx.grad(f))(XS), ones)
    close(dx.grad(lambda x: dx.vmap(f)(x).sum())(XS), ones)
    close(dx.grad(dx.jit(lambda x: dx.vmap(dx.jit(f))(x).sum()))(XS), ones)
    close(dx.vmap(dx.vmap(dx.grad(f)))(XS[None]), ones[None])
    close(dx.grad(lambda x: dx.vmap(dx.vmap(f), 1, 1)(x).sum())(XS[None]), ones[None])


def test_python_runs_in_the_function_and_its_rules_where_values_are_known():
    seen = []

    @dx.custom_vjp
    def f(x):
        return dnp.sin(x) if x > 0 else dnp.cos(x)

    def fwd(x):
        seen.append(("fwd", float(x)))
        return f(x), (x > 0, x)

    def bwd(residuals, ct):
        positive, x = residuals
        seen.append(("bwd", float(ct)))
        return (ct * 2.0 if positive else ct * x,)

    f.defvjp(fwd, bwd)
    assert float(f(0.0)) == 1.0
    close(dx.grad(lambda x: 3.0 * f(x))(0.5), 6.0)
    close(dx.grad(f)(-0.5), -0.5)
    assert seen == [("fwd", 0.5), ("bwd", 3.0), ("fwd", -0.5), ("bwd", 1.0)]


def test_a_debugger_stops_inside_a_backward_rule(monkeypatch):
    """breakpoint() in the rule sees the user's own frame, and arrays with values."""
    found = []

    def hook():
        frame = sys._getframe(1)
        found.append((frame.f_code.co_name, np.isnan(frame.f_locals["ct"]).item()))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @dx.custom_vjp
    def nan_hunter(x):
        return x

    def bwd(_, ct):
        if np.isnan(ct):
            breakpoint()
        return (ct,)

    nan_hunter.defvjp(lambda x: (x, None), bwd)
    dx.grad(lambda x: dnp.sqrt(nan_hunter(x) - 1.0) * 0.0)(1.0)
    assert found == [("bwd", True)]


def test_a_stable_rule_of_a_library_function():
    @dx.custom_jvp
    def log1pexp(x):
        return dnp.log(1.0 + dnp.exp(x))

    @log1pexp.defjvp
    def _(primals, tangents):
        (x,), (x_dot,) = primals, tangents
        return log1pexp(x), (1 - 1 / (1 + dnp.exp(x))) * x_dot

    close(dx.grad(log1pexp)(100.0), 1.0)
    close(dx.vmap(dx.jit(dx.grad(log1pexp)))(np.float32([0.0, 100.0])), [0.5, 1.0])


def test_a_fixed_point_differentiates_its_equation():
    """The proposal's advanced user: a while loop, whose derivative is that of the equation it solves."""

    @functools.partial(dx.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x_guess):
        def going(carry):
            before, x = carry
            return dnp.abs(before - x) > 1e-6

        return lax.while_loop(going, lambda carry: (carry[1], f(a, carry[1])), (x_guess, f(a, x_guess)))[1]

    def fwd(f, a, x_init):
        x_star = fixed_point(f, a, x_init)
        return x_star, (a, x_star)

    def bwd(f, residuals, x_bar):
        a, x_star = residuals
        _, vjp_a = dx.vjp(lambda a: f(a, x_star), a)
        w = fixed_point(functools.partial(backward, f), (a, x_star, x_bar), x_star)
        return vjp_a(w)[0], dnp.zeros_like(x_star)

    def backward(f, packed, u):
        a, x_star, x_bar = packed
        _, vjp_x = dx.vjp(lambda x: f(a, x), x_star)
        return x_bar + vjp_x(u)[0]

    fixed_point.defvjp(fwd, bwd)

    def newton_sqrt(a):
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    close(newton_sqrt(2.0), np.sqrt(2))
    close(dx.grad(newton_sqrt)(2.0), 0.5 / np.sqrt(2), rtol=1e-4)
    close(dx.grad(dx.jit(newton_sqrt))(2.0), 0.5 / np.sqrt(2), rtol=1e-4)
    close(dx.jit(dx.vmap(dx.grad(newton_sqrt)))(XS), 0.5 / np.sqrt(XS), rtol=1e-4)
    close(dx.grad(dx.grad(newton_sqrt))(2.0), -0.25 * 2**-1.5, rtol=1e-3)


# --- As in jax ----------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


def structured(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    """Pytrees for arguments, results and residuals; a rule of its own for each part."""

    @m.custom_vjp
    def f(params, pair):
        return {"out": params["w"] * pair.first, "aux": (pair.second,)}

    def fwd(params, pair):
        return f(params, pair), {"w": params["w"], "rest": [pair.first, None]}

    def bwd(residuals, ct):
        return (
            {"w": 2.0 * ct["out"] * residuals["rest"][0], "unused": None},
            Pair(3.0 * ct["out"] * residuals["w"], 5.0 * ct["aux"][0]),
        )

    f.defvjp(fwd, bwd)
    return f, ({"w": XS, "unused": XS}, Pair(2 * XS, 3 * XS))


def integers(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    @m.custom_vjp
    def f(x, n, flag):
        return x * n

    f.defvjp(lambda x, n, flag: (x * n, n), lambda n, ct: (7.0 * n * ct, None, None))
    return f, (XS, 3, np.True_)


def integers_forward(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    @m.custom_jvp
    def f(x, n):
        return x * n, n

    def rule(primals, tangents):
        (x, n), (x_dot, n_dot) = primals, tangents
        assert n_dot.dtype == jax.dtypes.float0
        return f(x, n), (7.0 * n * x_dot, n_dot)

    f.defjvp(rule)
    return f, (XS, 3)


def by_argument(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    @m.custom_jvp
    def f(x, y, z=2.0):
        return x * y * z

    f.defjvps(lambda t, ans, x, y, z: 2 * t * ans, None, lambda t, ans, x, y, z: 3 * t * x)
    return f, (XS, 2 * XS, XS)


def none_anywhere(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    @m.custom_vjp
    def f(x, tree):
        return x * tree[0]

    f.defvjp(lambda x, tree: (f(x, tree), x), lambda x, ct: (ct, None))
    return f, (XS, (XS, [XS]))


def gradient(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    return m.custom_gradient(lambda x, y: (x * y, lambda ct: (2 * ct * y, 3 * ct * x))), (XS, 2 * XS)


def own_vmap(m: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    @m.custom_batching.custom_vmap
    def f(x, y):
        return m.numpy.sin(x) * y

    @f.def_vmap
    def _(size, in_batched, x, y):
        assert size == 3 and all(in_batched)
        return 10 * m.numpy.sin(x) * y, True

    return f, (XS, 2 * XS)


CASES = [structured, integers, integers_forward, by_argument, none_anywhere, gradient]


def results(m: ModuleType, make: Callable[..., Any]) -> list[Any]:
    """A function with rules under grad, vmap, jit and vjp."""
    f, args = make(m)
    sizes = [i for i, arg in enumerate(args) if np.ndim(jax.tree.leaves(arg)[0]) == 1]
    axes = [0 if i in sizes else None for i in range(len(args))]

    def total(*args: Any) -> Any:
        return sum(y.sum() for y in jax.tree.leaves(f(*args)) if y.dtype == np.float32)

    def by_vjp(*moving: Any) -> Any:
        _, f_vjp = m.vjp(lambda *xs: total(*xs, *args[len(xs) :]), *moving)
        return f_vjp(m.numpy.float32(2.0))

    slopes = m.grad(total, sizes)
    return [
        f(*args),
        slopes(*args),
        m.jit(slopes)(*args),
        m.grad(m.jit(total), sizes)(*args),
        m.vmap(slopes, axes)(*args),
        m.grad(lambda *xs: m.vmap(total, axes)(*xs).sum(), sizes)(*args),
        by_vjp(*args[: len(sizes)]),
    ]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_results_are_those_of_jax(make):
    close(results(dx, make), results(jax, make))


def test_a_vmap_rule_gives_what_it_gives_in_jax():
    for m in (dx, jax):
        f, args = own_vmap(m)
        close(m.vmap(f)(*args), 10 * np.sin(XS) * 2 * XS)
        close(f(*args), np.sin(XS) * 2 * XS)
        close(m.jit(m.vmap(f))(*args), 10 * np.sin(XS) * 2 * XS)
        close(m.jvp(m.vmap(f), args, args)[1], m.vmap(lambda x, y: m.jvp(f, (x, y), (x, y))[1])(*args))


# --- Signatures ---------------------------------------------------------------------------------------------


def test_keyword_arguments_and_defaults_go_to_their_positions():
    seen = []

    @dx.custom_jvp
    def f(x, y, z=3.0):
        return x * y * z

    @f.defjvp
    def _(primals, tangents):
        seen.append(len(primals))
        x, y, z = primals
        return f(x, y, z), tangents[1] * 10

    close(dx.grad(lambda y: f(2.0, y=y))(1.0), 10.0)
    close(dx.grad(lambda y: f(z=1.0, x=2.0, y=y))(1.0), 10.0)
    assert seen == [3, 3]


def test_keywords_may_leave_defaults_before_them_out():
    """What stands before them in the signature has its default, for the function and for its rule."""
    for wrap in (dx.custom_jvp, dx.custom_vjp):

        def f(x: Any, scale: float = 2.0, power: Any = None, shift: Any = 0.0, *, unused: int = 3) -> Any:
            return scale * x + (0.0 if power is None else power) + shift + unused - 3

        f = wrap(f, nondiff_argnums=(1,))
        if wrap is dx.custom_jvp:
            f.defjvp(lambda scale, primals, tangents: (f(primals[0], scale, *primals[1:]), 10 * tangents[0]))
        else:
            f.defvjp(
                lambda x, scale, *rest: (f(x, scale, *rest), None), lambda scale, _, ct: (10 * ct, None, ct)
            )
        assert float(f(1.0, shift=1.0)) == 3.0 and float(f(1.0, power=1.0, scale=3.0)) == 4.0
        assert float(dx.jit(dx.grad(lambda x: f(x, shift=1.0)))(1.0)) == 10.0


def test_keyword_only_arguments_are_refused():
    f = dx.custom_vjp(lambda x, *, y: x * y)
    f.defvjp(lambda x, y: (x, None), lambda _, ct: (ct, ct))
    text = text_of(TypeError, lambda: f(1.0, y=2.0))
    assert "Rules get arguments by position" in text and "keyword arguments without a position: y" in text


def test_arguments_that_are_not_differentiated_come_first():
    @functools.partial(dx.custom_jvp, nondiff_argnums=(0, -1))
    def f(g, x, n):
        return g(x) * n

    @f.defjvp
    def _(g, n, primals, tangents):
        (x,), (x_dot,) = primals, tangents
        return f(g, x, n), 100.0 * n * x_dot

    close(dx.grad(lambda x: f(dnp.sin, x, 3))(1.0), 300.0)
    close(dx.grad(dx.jit(lambda x: f(dnp.sin, x, n=3)))(1.0), 300.0)

    @functools.partial(dx.custom_vjp, nondiff_argnames=("g", "n"))
    def h(g, x, n):
        return g(x) * n

    h.defvjp(lambda g, x, n: (h(g, x, n), x), lambda g, n, x, ct: (100.0 * n * ct,))
    close(dx.grad(lambda x: h(dnp.sin, x, n=3))(1.0), 300.0)
    text = text_of(ValueError, lambda: dx.custom_vjp(lambda x: x, nondiff_argnames="y"))
    assert "names: 'y'; parameters: x" in text


def test_arguments_that_are_not_differentiated_may_be_arrays_traced_or_not():
    @functools.partial(dx.custom_vjp, nondiff_argnums=(1,))
    def f(x, scale):
        return x * scale

    f.defvjp(lambda x, scale: (f(x, scale), None), lambda scale, _, ct: (5.0 * scale * ct,))

    def slope(s):
        return dx.grad(lambda x: f(x, s))(1.0)

    close(slope(dnp.float32(2.0)), 10.0)
    close(dx.jit(slope)(2.0), 10.0)
    close(dx.vmap(slope)(XS), 5 * XS)
    text = text_of(UnexpectedTracerError, lambda: dx.grad(lambda s: f(1.0, s))(2.0))
    assert "closed over a value that is being differentiated" in text


def test_a_method_can_have_rules():
    class Layer:
        @functools.partial(dx.custom_jvp, nondiff_argnums=(0,))
        def apply(self, x):
            return x * 2.0

        @apply.defjvp
        def _(self, primals, tangents):
            return self.apply(*primals), 50.0 * tangents[0]

    close(dx.grad(Layer().apply)(1.0), 50.0)
    close(dx.vmap(dx.grad(Layer().apply))(XS), [50.0] * 3)


def test_the_name_and_the_docstring_stay():
    @dx.custom_vjp
    def f(x):
        """Doc."""
        return x

    assert (f.__name__, f.__doc__, f.__wrapped__.__name__) == ("f", "Doc.", "f")
    assert repr(f).startswith("<custom_vjp of f (")


def test_decorators_stack():
    """A custom_vjp of a custom_vmap, as jax asks for: rules of the inner function are set through the outer."""

    @dx.custom_vjp
    @dx.custom_batching.custom_vmap
    def f(x):
        return dnp.sin(x)

    f.def_vmap(lambda size, batched, x: (4.0 * dnp.sin(x), True))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3.0 * dnp.cos(x) * ct,))
    close(dx.vmap(f)(XS), 4 * np.sin(XS))
    close(dx.grad(lambda x: dx.vmap(f)(x).sum())(XS), 3 * np.cos(XS))
    close(dx.vmap(dx.grad(f))(XS), 3 * np.cos(XS))


# --- Zeros --------------------------------------------------------------------------------------------------


def test_symbolic_zeros_tell_a_jvp_rule_what_does_not_move():
    seen = []

    @dx.custom_jvp
    def f(x, y, n):
        return x * y, n

    def rule(primals, tangents):
        (x, y, n), (x_dot, y_dot, n_dot) = primals, tangents
        seen.append(tuple(type(t) is SymbolicZero for t in tangents))
        out_dot = x_dot * y if type(y_dot) is SymbolicZero else x * y_dot
        return f(x, y, n), (out_dot, n_dot)

    f.defjvp(rule, symbolic_zeros=True)
    close(dx.grad(lambda x: f(x, 3.0, 1)[0])(2.0), 3.0)
    close(dx.jvp(lambda y: dx.jit(f)(2.0, y, 1)[0], (3.0,), (1.0,))[1], 2.0)
    assert seen == [(False, True, True), (True, False, True)]


def test_symbolic_zeros_tell_a_vjp_rule_what_is_not_differentiated():
    seen = []

    @dx.custom_vjp
    def f(x, y):
        return x * y, x + y

    def fwd(x, y):
        assert type(x) is CustomVJPPrimal and type(y) is CustomVJPPrimal
        seen.append((x.perturbed, y.perturbed))
        return f(x.value, y.value), (x.value, y.value)

    def bwd(residuals, cts):
        seen.append(tuple(type(ct) is SymbolicZero for ct in cts))
        assert cts[1].shape == () and cts[1].dtype == np.float32
        return cts[0] * residuals[1], cts[1]

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    close(dx.grad(lambda x: f(x, 3.0)[0])(2.0), 3.0)
    assert seen == [(True, False), (False, True)]
    close(dx.grad(dx.jit(lambda x: f(x, 3.0)[0]))(2.0), 3.0)


def test_zeros_of_primals():
    from didax.custom_derivatives import custom_vjp_primal_tree_values, zero_from_primal

    close(zero_from_primal({"a": XS, "n": 3}), {"a": 0 * XS, "n": np.zeros((), dx.float0)})
    zero = zero_from_primal(XS, symbolic_zeros=True)
    assert (zero.shape, zero.ndim, zero.size, repr(zero)) == ((3,), 1, 3, "SymbolicZero(float32[3])")
    close(zero.instantiate(), 0 * XS)
    assert custom_vjp_primal_tree_values([CustomVJPPrimal(2, True)]) == [2]
    assert "leaf: int32[]" in text_of(TypeError, lambda: custom_vjp_primal_tree_values(3))


def test_without_them_zeros_are_arrays():
    f = dx.custom_jvp(lambda x, n: x * n)

    def rule(primals, tangents):
        assert isinstance(tangents[0], dx.Array) and tangents[1].dtype == dx.float0
        return f(*primals), tangents[0]

    f.defjvp(rule)
    close(dx.grad(f)(2.0, 3), 1.0)


# --- Closures -----------------------------------------------------------------------------------------------


def closing(y: Any, kind: str) -> Any:
    """A function whose own derivative is 10 y; `late` closes over y in its rule only."""
    if kind == "vjp":
        f = dx.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (10.0 * y * ct,))
    else:
        f = dx.custom_jvp((lambda x: x * y) if kind == "jvp" else (lambda x: x * 2.0))
        f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * y * tangents[0]))
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp", "late"])
def test_functions_and_rules_close_over_tracers(kind):
    """Of jit and vmap, inside and outside of grad, and after these have ended."""

    def slope(y, x):
        return dx.grad(lambda x: closing(y, kind)(x))(x)

    def staged(y, x):
        return dx.grad(lambda x: dx.jit(closing(y, kind))(x))(x)

    for f in (slope, staged):
        close(f(2.0, 3.0), 20.0)
        close(dx.jit(f)(2.0, 3.0), 20.0)
        close(dx.vmap(f)(XS, XS), 10 * XS)
        close(dx.jit(dx.vmap(f))(XS, XS), 10 * XS)
        close(dx.vmap(dx.jit(f))(XS, XS), 10 * XS)

    def batched(y, x):
        return closing(y, kind)(x)

    for inner in (batched, dx.jit(batched)):
        for outer in (lambda f: f, dx.jit):
            close(dx.grad(outer(lambda x: dx.vmap(inner)(XS, x).sum()))(XS), 10 * XS)
            close(dx.jit(dx.grad(outer(lambda x: dx.vmap(inner)(XS, x).sum())))(XS), 10 * XS)
    close(dx.hessian(dx.jit(lambda x, y: closing(y, kind)(x) ** 2))(3.0, 2.0), 800.0)
    looped = lambda x: lax.scan(lambda c, y: (closing(y, kind)(c), None), x, XS)[0]
    close(dx.grad(looped)(2.0), 1000 * np.prod(XS))


def stacked(v: Any) -> Any:
    return dnp.stack([v, v * 0.5, v * 0.25])


# Functions of (y, x), differentiated by x.
AROUND: dict[str, Callable[[Any], Any]] = {
    "jit": dx.jit,
    "checkpoint": dx.checkpoint,
    "vmap": lambda f: lambda y, x: dx.vmap(f)(stacked(y), stacked(x)).sum(0),
    "vmap of y": lambda f: lambda y, x: dx.vmap(f, (0, None))(stacked(y), x).sum(0),
    "vmap of x": lambda f: lambda y, x: dx.vmap(f, (None, 0))(y, stacked(x)).sum(0),
    "grad": lambda f: lambda y, x: dx.grad(lambda x: f(y, x).sum())(x),
    "jvp": lambda f: lambda y, x: dx.jvp(lambda x: f(y, x), (x,), (dnp.ones_like(x),))[1],
    "linearize": lambda f: lambda y, x: dx.linearize(lambda x: f(y, x), x)[1](dnp.ones_like(x)),
    "scan": lambda f: lambda y, x: lax.scan(lambda c, row: (f(row, c), None), x, stacked(y))[0],
    "cond": lambda f: lambda y, x: lax.cond(dnp.sum(y) > -9.0, f, lambda y, x: x, y, x),
}


def explicit(y: Any, x: Any) -> Any:
    """As `closing`, with y an argument."""
    f = dx.custom_jvp(lambda y, x: dnp.sin(x * y))
    f.defjvp(lambda p, t: (dnp.sin(p[1] * p[0]), 3.0 * p[0] * dnp.cos(p[0] * p[1]) * t[1]))
    return f(y, x)


def own_slope(y: Any, kind: str) -> Any:
    """x -> sin(x y), whose derivative is 3 y cos(x y), and closes over y."""

    def slope(x: Any) -> Any:
        return 3.0 * y * dnp.cos(x * y)

    def sine(x: Any) -> Any:
        return dnp.sin(x * y)

    rules: dict[str, Callable[[], Any]] = {
        "jvp": lambda: dx.custom_rules(sine, jvp=lambda p, t: (sine(p[0]), slope(p[0]) * t[0])),
        "vjp": lambda: dx.custom_rules(sine, vjp=(lambda x: (sine(x), x), lambda x, ct: (slope(x) * ct,))),
        "linearize": lambda: dx.custom_rules(sine, linearize=lambda x: (sine(x), lambda t: slope(x) * t)),
        "gradient": lambda: dx.custom_gradient(lambda x: (sine(x), lambda ct: slope(x) * ct)),
    }
    return rules[kind]()


@pytest.mark.parametrize("kind", ["jvp", "vjp", "linearize", "gradient"])
@pytest.mark.parametrize(
    "names",
    [
        ("linearize", "vmap of y"),
        ("cond", "grad"),
        ("scan", "grad", "jvp"),
        ("linearize", "grad", "vmap of y"),
        ("vmap", "jit", "jvp"),
        ("checkpoint", "vmap of x", "linearize", "cond"),
        ("cond", "vmap", "scan", "jit", "linearize"),
    ],
    ids="-".join,
)
def test_values_that_rules_close_over_are_found_in_deep_nestings(kind, names):
    def found(y, x):
        return own_slope(y, kind)(x)

    wanted = explicit
    for name in names:
        found, wanted = AROUND[name](found), AROUND[name](wanted)
    close(found(np.float32(0.7), np.float32(0.4)), wanted(np.float32(0.7), np.float32(0.4)), rtol=1e-4)


def test_control_flow_inside_of_a_rule_sees_values_closed_over():
    """The rule is staged when the trace that these belong to has ended."""

    def loss(y, x):
        f = dx.custom_jvp(lambda x: x * y)
        f.defjvp(
            lambda p, t: (
                f(*p),
                lax.cond(p[0] > 0, lambda: 3.0 * y, lambda: y) * dx.jit(lambda t: t * y)(t[0]),
            )
        )
        return f(x)

    close(dx.grad(dx.jit(lambda x, y: loss(y, x)))(1.0, 2.0), 12.0)
    close(dx.grad(lambda x: dx.vmap(dx.jit(loss))(XS, x).sum())(XS), 3 * XS * XS)


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("how", ["eager", "jit", "vmap", "grad"])
def test_differentiating_a_closed_over_value_is_an_error(kind, how):
    wrap = {
        "eager": lambda f: f,
        "jit": dx.jit,
        "vmap": lambda f: lambda x: dx.vmap(f)(x[None])[0],
        "grad": dx.grad,
    }
    x = dnp.float32(3.0)
    text = text_of(UnexpectedTracerError, lambda: dx.grad(lambda y: wrap[how](closing(y, kind))(x))(2.0))
    assert text.startswith(
        "A function with derivative rules of its own closed over a value that is being diff"
    )
    assert "value: float32[], traced by linearize (grad, vjp) of" in text
    assert "Pass the value as an argument of the function" in text
    text = text_of(UnexpectedTracerError, lambda: dx.jvp(lambda y: closing(y, kind)(x), (2.0,), (1.0,)))
    assert "traced by jvp of" in text


def test_closed_over_constants_of_rules_are_written_into_programs():
    """A rule is staged after its program was closed: arrays that it makes or finds are constants there."""
    table = np.float32([1, 2, 3])
    f = dx.custom_jvp(lambda x: x * 2.0)

    def rule(primals, tangents):
        steps = dnp.asarray(np.linspace(0, 1, 3, dtype=np.float32))
        return f(*primals), (steps * table * tangents[0]).sum()

    f.defjvp(rule)
    close(dx.grad(dx.jit(f))(1.0), 4.0)
    close(dx.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(1.0), 16.0)
    close(dx.vmap(dx.grad(lambda x: lax.cond(x > 0, f, f, x)))(table), [4.0] * 3)


def test_random_keys_are_closed_over_too():
    key = dx.random.key(3)
    f = dx.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda primals, tangents: (f(*primals), dx.random.uniform(dx.random.clone(key)) * tangents[0]))
    close(dx.grad(dx.jit(f))(1.0), dx.random.uniform(key))


def test_closure_convert_makes_arguments_of_closed_over_values():
    @functools.partial(dx.custom_vjp, nondiff_argnums=(0,))
    def apply(f, x, *values):
        return f(x, *values)

    def fwd(f, x, *values):
        return f(x, *values), (x, values)

    def bwd(f, residuals, ct):
        x, values = residuals
        _, f_vjp = dx.vjp(f, x, *values)
        return tuple(2 * x_bar for x_bar in f_vjp(ct))

    apply.defvjp(fwd, bwd)

    def user(a, x):
        f, values = dx.closure_convert(lambda x: a * dnp.sin(x), x)
        return apply(f, x, *values)

    close(dx.grad(user, (0, 1))(3.0, 1.0), (2 * np.sin(1), 6 * np.cos(1)))
    close(dx.jit(dx.grad(user, (0, 1)))(3.0, 1.0), (2 * np.sin(1), 6 * np.cos(1)))
    f, values = closure_convert(lambda x: x["a"] * XS, {"a": 1.0})
    assert values == []
    close(f({"a": 2.0}), 2 * XS)
    assert "args[0] is a dict with keys 'a' in the examples" in text_of(TypeError, lambda: f(2.0))


# --- Forward mode by a backward rule ------------------------------------------------------------------------


def test_forward_mode_runs_the_transpose_of_the_backward_rule():
    """A TypeError in jax. The rule decides: its Jacobian is one, in both modes."""
    f = dx.custom_vjp(lambda x, y: (dnp.sin(x) * y).sum())
    f.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda r, ct: (7.0 * dnp.cos(r[0]) * r[1] * ct, 5.0 * dnp.sin(r[0]) * ct),
    )
    for g in (f, dx.jit(f)):
        close(dx.jacfwd(g, (0, 1))(XS, XS), dx.jacrev(g, (0, 1))(XS, XS))
        close(dx.hessian(g)(XS, XS), dx.jacrev(dx.jacrev(g))(XS, XS))
        close(dx.jacfwd(dx.jacfwd(g))(XS, XS), dx.jacrev(dx.jacrev(g))(XS, XS))
        close(dx.linearize(g, XS, XS)[1](XS, XS), dx.jvp(g, (XS, XS), (XS, XS))[1])
        close(
            dx.vmap(lambda x: dx.jvp(g, (x, XS), (x, XS))[1])(XS[None]),
            dx.jvp(g, (XS, XS), (XS, XS))[1][None],
        )
        close(dx.grad(lambda x: dx.jvp(g, (x, XS), (XS, XS))[1])(XS), dx.jvp(dx.grad(g), (XS, XS), (XS, 0 * XS))[1] +
              5.0 * np.cos(XS) * XS, rtol=1e-4)  # fmt: skip


def test_a_backward_rule_that_is_not_linear_has_no_forward_mode():
    f = dx.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (dnp.clip(ct, -1, 1),))
    text = text_of(TypeError, lambda: dx.jvp(f, (1.0,), (1.0,)))
    assert "must be linear in the tangents or cotangents" in text and "custom_rules(f, jvp=" in text
    f.defvjp(lambda x: (x, None), lambda _, ct: (dnp.ones_like(ct),))
    text = text_of(TypeError, lambda: dx.jvp(f, (1.0,), (1.0,)))
    assert "does not depend on the cotangent" in text


NONLINEAR_RULES = {  # by the operation that stops it
    "tanh": lambda t: dnp.tanh(t),
    "mul": lambda t: t * t,
    "div": lambda t: 1.0 / (1.0 + t),
    "select_n": lambda t: dnp.where(t > 0, 1.0, 2.0),
    "cond": lambda t: lax.cond(t > 0, lambda t: t, lambda t: -t, t),
    "jit": lambda t: dx.jit(dnp.tanh)(t),
    "scan": lambda t: lax.scan(lambda c, _: (dnp.tanh(c), None), t, length=2)[0],
    "dynamic_slice": lambda t: dnp.arange(3.0)[t.astype("int32")],
}
REVERSE_MODES = {
    "grad": lambda f: dx.grad(f)(1.0),
    "grad of jit": lambda f: dx.grad(dx.jit(f))(1.0),
    "jit of grad": lambda f: dx.jit(dx.grad(f))(1.0),
    "vjp": lambda f: dx.vjp(f, 1.0)[1](1.0),
    "vmap of grad": lambda f: dx.vmap(dx.grad(f))(XS),
    "grad of scan": lambda f: dx.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, length=2)[0])(1.0),
    "grad of checkpoint": lambda f: dx.grad(dx.checkpoint(f))(1.0),
    "linear_transpose of linearize": lambda f: dx.linear_transpose(dx.linearize(f, 1.0)[1], 1.0)(1.0),
}


def rule_lines(kind: str, tangent: Callable[[Any], Any]) -> tuple[Any, int]:
    """sin with a rule of that kind whose tangents are `tangent(t)`; the line of the rule."""

    def jvp(primals, tangents):
        return dnp.sin(*primals), tangent(*tangents)

    def linearize(x):
        return dnp.sin(x), tangent

    f = dx.custom_rules(dnp.sin, **{kind: {"jvp": jvp, "linearize": linearize}[kind]})
    return f, {"jvp": jvp, "linearize": linearize}[kind].__code__.co_firstlineno


@pytest.mark.parametrize("operation", NONLINEAR_RULES)
@pytest.mark.parametrize("kind", ["jvp", "linearize"])
def test_reverse_mode_names_the_rule_that_is_not_linear(operation, kind):
    f, line = rule_lines(kind, NONLINEAR_RULES[operation])
    for way in ("grad", "grad of jit"):
        text = text_of(TypeError, lambda way=way: REVERSE_MODES[way](f))
        assert text.startswith(
            "A derivative rule must be linear in the tangents: reverse mode transposes it."
        ), way
        assert f"rule: the {kind} rule {kind} ({__file__}:{line}) of sin" in text, way
        assert f"operation: {operation} of " in text and f"line: {__file__}:" in text, way
        assert text.endswith("custom_rules(f, jvp=..., vjp=(fwd, bwd)).")


@pytest.mark.parametrize("way", REVERSE_MODES)
def test_a_rule_that_is_not_linear_is_named_wherever_it_is_transposed(way):
    f, line = rule_lines("jvp", dnp.tanh)
    text = text_of(TypeError, lambda: REVERSE_MODES[way](f))
    assert f"rule: the jvp rule jvp ({__file__}:{line}) of sin" in text


def test_a_rule_that_branches_on_a_tangent_is_named():
    f, line = rule_lines("jvp", lambda t: t if t > 0 else -t)
    for way in ("grad", "grad of jit", "jit of grad", "vjp", "linear_transpose of linearize"):
        text = text_of(TracerBoolConversionError, lambda way=way: REVERSE_MODES[way](f))
        assert (
            f"the jvp rule jvp ({__file__}:{line})" in text and "which must be linear in its tangents" in text
        )


def test_a_function_that_is_not_linear_has_no_transpose():
    for f in (lambda x: x * x, lambda x: dnp.where(x > 0, 1.0, 2.0), dx.jit(lambda x: x * dnp.sin(x))):
        text = text_of(TypeError, lambda f=f: dx.linear_transpose(f, 1.0)(1.0))
        assert "Only functions that are linear in their arguments can be transposed." in text
        assert f"line: {__file__}:" in text


# --- Several rules ------------------------------------------------------------------------------------------


def scaled(**slopes: float) -> Any:
    """sin, with as many times its derivative as is said for each rule."""

    def jvp(primals, tangents):
        return f(*primals), slopes["jvp"] * dnp.cos(primals[0]) * tangents[0]

    def linearize(x):
        return f(x), lambda t: slopes["linearize"] * dnp.cos(x) * t

    fwd_bwd = (lambda x: (f(x), dnp.cos(x))), lambda r, ct: (slopes["vjp"] * r * ct,)
    rules = {"jvp": jvp, "linearize": linearize, "vjp": fwd_bwd}
    f = dx.custom_rules(dnp.sin, **{name: rules[name] for name in slopes})
    return f


@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit, dx.checkpoint], ids=["eager", "jit", "checkpoint"])
@pytest.mark.parametrize(
    "slopes, forward, reverse",
    [
        ({"jvp": 2.0}, 2.0, 2.0),
        ({"vjp": 3.0}, 3.0, 3.0),
        ({"linearize": 5.0}, 5.0, 5.0),
        ({"jvp": 2.0, "vjp": 3.0}, 2.0, 3.0),
        ({"jvp": 2.0, "linearize": 5.0}, 2.0, 5.0),
        ({"vjp": 3.0, "linearize": 5.0}, 5.0, 5.0),
        ({"jvp": 2.0, "vjp": 3.0, "linearize": 5.0}, 2.0, 5.0),
    ],
)
def test_each_mode_takes_the_rule_that_suits_it(slopes, forward, reverse, wrap):
    f = wrap(scaled(**slopes))
    cos = np.cos(0.5)
    close(dx.grad(f)(0.5), reverse * cos)
    close(dx.vmap(dx.grad(f))(XS), reverse * np.cos(XS))
    close(dx.grad(lambda x: dx.vmap(f)(x).sum())(XS), reverse * np.cos(XS))
    if wrap is not dx.checkpoint or forward == reverse:
        close(dx.jvp(f, (0.5,), (1.0,))[1], forward * cos)


def test_the_linear_map_of_linearize_and_its_transpose_may_have_rules_of_their_own():
    f = scaled(jvp=2.0, vjp=3.0)
    for g in (f, dx.jit(f)):
        _, f_lin = dx.linearize(g, 0.5)
        close(f_lin(1.0), 2 * np.cos(0.5))
        close(dx.linear_transpose(f_lin, 0.5)(1.0)[0], 3 * np.cos(0.5))


def test_a_linear_function_with_a_transpose():
    a = np.float32([[1, 2, 3], [4, 5, 6]])
    f = dx.custom_rules(lambda x: dnp.asarray(a) @ x, transpose=lambda ct: (10.0 * dnp.asarray(a).T @ ct,))
    ct = np.float32([1, -1])
    for g in (f, dx.jit(f)):
        close(dx.vjp(g, XS)[1](ct), (10 * a.T @ ct,))
        close(dx.jvp(g, (XS,), (XS,))[1], a @ XS)
        close(dx.linear_transpose(g, XS)(ct), (10 * a.T @ ct,))
        close(dx.grad(lambda x: (dx.vmap(g)(dnp.stack([x, 2 * x])) * ct).sum())(XS), 30 * a.T @ ct)
        close(
            dx.grad(lambda x: dx.vmap(lambda s: (s * g(x) * ct).sum())(XS).sum())(XS),
            XS.sum() * 10 * a.T @ ct,
        )


def in_all_orders(f: Any) -> list[Any]:
    """The derivative by the first argument, over a batch of it: grad and vmap in both orders, with jit in between."""

    def outside(g: Any) -> Any:
        return dx.grad(lambda x: dx.vmap(g, (0, None))(x, 2.0).sum())

    grads = [dx.grad(f), dx.jit(dx.grad(f)), dx.grad(dx.jit(f))]
    mapped = [dx.vmap(g, (0, None))(XS, 2.0) for g in grads]
    mapped += [dx.jit(dx.vmap(g, (0, None)))(XS, 2.0) for g in grads]
    return [*mapped, outside(f)(XS), outside(dx.jit(f))(XS), dx.jit(outside(dx.jit(f)))(XS)]


def test_a_vmap_rule_holds_in_all_orders_of_vmap_and_grad():
    """Not in jax, where such a function has no reverse mode: what is differentiated is the rule."""
    f = dx.custom_batching.custom_vmap(lambda x, y: dnp.sin(x) * y)
    f.def_vmap(lambda size, batched, x, y: (10.0 * dnp.sin(x) * y, True))
    for found in in_all_orders(f):
        close(found, 20 * np.cos(XS))
    close(dx.vmap(dx.grad(dx.grad(f)), (0, None))(XS, 2.0), -20 * np.sin(XS))
    close(dx.vmap(dx.grad(f, 1), (None, 0))(0.5, XS), [10 * np.sin(0.5)] * 3)
    close(dx.grad(lambda y: dx.vmap(f, (0, None))(XS, y).sum())(2.0), 10 * np.sin(XS).sum())
    close(dx.vmap(lambda x: dx.linearize(f, x, 2.0)[1](1.0, 0.0))(XS), 20 * np.cos(XS))


def test_a_vmap_rule_beside_a_derivative_rule_in_all_orders():
    f = dx.custom_rules(
        lambda x, y: dnp.sin(x) * y,
        vjp=(lambda x, y: (dnp.sin(x) * y, (x, y)), lambda r, ct: (3.0 * dnp.cos(r[0]) * r[1] * ct, None)),
        vmap=lambda size, batched, x, y: (10.0 * dnp.sin(x) * y, True),
    )
    for found in in_all_orders(f):
        close(found, 6 * np.cos(XS))
    close(dx.vmap(f, (0, None))(XS, 2.0), 20 * np.sin(XS))
    close(dx.vmap(dx.jit(f), (0, None))(XS, 2.0), 20 * np.sin(XS))


def test_a_vmap_rule_sees_which_arguments_are_batched():
    seen = []

    @dx.custom_batching.custom_vmap
    def f(tree, y):
        return {"a": tree["x"] + y, "b": y}

    @f.def_vmap
    def _(size, in_batched, tree, y):
        seen.append((size, in_batched, tree["x"].shape, y.shape))
        return {"a": tree["x"] + y, "b": y}, {"a": True, "b": in_batched[1]}

    close(dx.vmap(f, ({"x": 1}, None))({"x": XS[None]}, 2.0), {"a": XS[:, None] + 2, "b": [2.0] * 3})
    close(dx.vmap(f, (None, 0))({"x": 1.0}, XS), {"a": 1 + XS, "b": XS})
    assert seen == [(3, [{"x": True}, False], (3, 1), ()), (3, [{"x": False}, True], (), (3,))]


def test_sequential_vmap_loops():
    f = dx.custom_batching.sequential_vmap(lambda x, y: x * y.sum())
    close(dx.vmap(f, (0, None))(XS, XS), XS * XS.sum())
    assert "scan" in str(dx.make_jaxpr(dx.vmap(f, (0, None)))(XS, XS))
    close(dx.vmap(dx.grad(f), (0, None))(XS, XS), [XS.sum()] * 3)


def test_linear_calls_transpose_back_and_forth():
    def transposed(f, x):
        return lambda y: dx.linear_transpose(f, x)(y)[0]

    def f(x):
        return linear_call(lambda _, x: x, lambda _, t: 7.0 * t, (), x)

    back = transposed(f, 1.0)
    close([f(1.0), back(1.0), transposed(back, 1.0)(1.0)], [1.0, 7.0, 1.0])
    scaled = lambda r: dx.grad(lambda x: linear_call(lambda _, x: x * r, lambda _, t: 7.0 * t * r, (), x))(
        2.0
    )
    close([scaled(3.0), dx.jit(scaled)(3.0), dx.grad(scaled)(3.0)], [21.0, 21.0, 7.0])
    close(dx.vmap(scaled)(XS), 7 * XS)
    text = text_of(TypeError, lambda: linear_call(lambda r, x: {"a": x}, lambda r, t: t, 1.0, 2.0))
    assert "x is a dict with keys 'a' in its result, a leaf in linear_args" in text


@pytest.mark.parametrize("wrong", [lambda x: x, lambda x: (x, x), lambda x: (x, abs, abs)])
def test_a_custom_gradient_returns_a_result_and_a_function(wrong):
    """An array is no pair, though it has elements: its first one was the result."""
    for call in (dx.custom_gradient(wrong), dx.grad(lambda x: dx.custom_gradient(wrong)(x).sum())):
        with pytest.raises(TypeError, match="its result and a function of the cotangent"):
            call(dnp.ones(2))


def test_a_custom_gradient_may_branch_on_values_and_close_over_them():
    @dx.custom_gradient
    def f(x):
        if x > 0:
            return x * x, lambda ct: 3.0 * ct * x
        return x * x, lambda ct: 5.0 * ct * x

    close([dx.grad(f)(2.0), dx.grad(f)(-2.0)], [6.0, -10.0])

    @dx.custom_gradient
    def g(x):
        y = dnp.sin(x)
        return y, lambda ct: 3.0 * ct * y

    for found in (dx.vmap(dx.grad(g))(XS), dx.grad(lambda x: dx.vmap(g)(x).sum())(XS)):
        close(found, 3 * np.sin(XS))
    close(dx.grad(dx.jit(lambda x: dx.vmap(g)(x).sum()))(XS), 3 * np.sin(XS))
    close([dx.grad(dx.jit(g))(0.5), dx.jit(dx.grad(g))(0.5)], [3 * np.sin(0.5)] * 2)


# --- Collectives, checkpoint, effects -----------------------------------------------------------------------


def test_collectives_in_functions_and_rules():
    f = dx.custom_jvp(lambda x: lax.psum(x, "i"))
    f.defjvp(lambda primals, tangents: (f(*primals), 3.0 * lax.psum(tangents[0], "i")))
    for g in (f, dx.jit(f)):
        mapped = dx.vmap(g, axis_name="i")
        close(dx.jvp(mapped, (XS,), (XS,)), ([XS.sum()] * 3, [3 * XS.sum()] * 3))
        close(dx.grad(lambda x: mapped(x)[0])(XS), [3.0] * 3)
        close(dx.vmap(lambda _: g(1.0), axis_name="i")(XS), [3.0] * 3)


def test_optimize_remat_runs_the_function_where_residuals_are_not_needed():
    """The forward pass is opaque: dead parts of it could not be left out."""
    shape = dx.ShapeDtypeStruct((3,), np.float32)

    def fwd(x):
        return dx.pure_callback(lambda x: (np.sin(x), np.exp(x)), (shape, shape), x)

    def program(optimize_remat: bool) -> str:
        f = dx.custom_vjp(dnp.sin)
        f.defvjp(fwd, lambda r, ct: (ct * r,), optimize_remat=optimize_remat)
        g = dx.checkpoint(lambda x: (f(x) * 2.0).sum())
        close(dx.grad(g)(XS), 2 * np.exp(XS))
        return str(dx.make_jaxpr(lambda x: dx.vjp(g, x)[0])(XS))

    assert "pure_callback" in program(False)
    assert "pure_callback" not in program(True)


def test_optimize_remat_changes_no_number():
    f = dx.custom_vjp(dnp.sin)
    f.defvjp(lambda x: (f(x), dnp.exp(x)), lambda r, ct: (ct * r,), optimize_remat=True)
    g = dx.checkpoint(lambda x: (f(x) * 2.0).sum())
    close(dx.vmap(dx.grad(g))(XS[:, None]), 2 * np.exp(XS)[:, None])
    close(dx.grad(lambda x: dx.grad(g)(x).sum())(XS), 2 * np.exp(XS))
    close(dx.jit(dx.vmap(dx.hessian(dx.jit(f))))(XS), np.exp(XS))


def test_effects_of_a_function_are_kept(capsys):
    f = dx.custom_jvp(lambda x: (dx.debug.print("f {x}", x=x), dnp.sin(x))[1])
    f.defjvp(lambda primals, tangents: (f(*primals), 3.0 * tangents[0]))
    dx.jit(lambda x: (f(x), x)[1])(2.0)
    dx.effects_barrier()
    assert capsys.readouterr().out.startswith("f 2")


def test_dead_results_do_not_lose_the_rule():
    f = dx.custom_rules(
        lambda x: (dnp.sin(x), dnp.cos(x)),
        vjp=(lambda x: ((dnp.sin(x), dnp.cos(x)), x), lambda x, cts: (3.0 * cts[0] + 5.0 * cts[1],)),
    )
    g = dx.jit(lambda x: f(x)[1])
    jaxpr = dx.make_jaxpr(lambda x: lax.scan(lambda c, _: (f(c)[1], None), x, None, length=1)[0])
    close([dx.grad(g)(0.5), dx.jvp(g, (0.5,), (1.0,))[1]], [5.0, 5.0])
    assert "rules_call" in str(jaxpr(0.5))


def test_programs_show_the_function_and_name_the_rules():
    f = dx.custom_rules(dnp.sin, jvp=lambda p, t: (dnp.sin(*p), *t), vmap=lambda n, b, x: (x, True))
    text = str(dx.make_jaxpr(f)(1.0))
    assert "rules_call[" in text and "= sin " in text and "rules=<jvp, vmap of sin" in text


# --- Misuse -------------------------------------------------------------------------------------------------


def test_a_function_without_its_rule_says_how_to_define_one():
    text = text_of(AttributeError, lambda: dx.custom_jvp(lambda x: x)(1.0))
    assert "custom_jvp is called after its rule is defined" in text and "f.defjvp(rule)" in text
    text = text_of(AttributeError, lambda: dx.custom_vjp(lambda x: x)(1.0))
    assert "f.defvjp(fwd, bwd)" in text
    assert "f.def_vmap(rule)" in text_of(AttributeError, lambda: dx.custom_batching.custom_vmap(abs)(1.0))
    assert "with one at least" in text_of(AttributeError, lambda: dx.custom_rules(abs)(1.0))


def test_what_is_no_function_is_refused():
    assert "takes a function" in text_of(TypeError, lambda: dx.custom_jvp(3))
    f = dx.custom_vjp(lambda x: x)
    assert "takes a function" in text_of(TypeError, lambda: f.defvjp(lambda x: x, None))
    assert "takes a function" in text_of(TypeError, lambda: dx.custom_jvp(lambda x: x).defjvp(3))


def test_arguments_that_are_no_arrays_are_named():
    f = dx.custom_jvp(lambda x, opts: x)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    text = text_of(TypeError, lambda: f(1.0, {"mode": "fast"}))
    assert "argument opts['mode']: 'fast' of type str" in text


def with_jvp(rule: Callable[..., Any], fun: Callable[..., Any] = lambda x: {"a": x, "b": (x, x)}) -> Any:
    f = dx.custom_jvp(fun)
    f.defjvp(rule)
    return f


def leaf(f: Any) -> Any:
    return lambda x: f(x)["a"].sum()


def test_a_jvp_rule_returns_a_pair():
    text = text_of(TypeError, lambda: dx.grad(with_jvp(lambda p, t: t[0], lambda x: x))(XS[0]))
    assert "returns a pair (result, tangent of the result)" in text and "returned: float32[]" in text


def test_a_jvp_rule_returns_a_tangent_like_its_result():
    rule = lambda p, t: ({"a": p[0], "b": (p[0], p[0])}, {"a": t[0], "b": [t[0], t[0]]})
    text = text_of(TypeError, lambda: dx.grad(leaf(with_jvp(rule)))(XS))
    assert "result['b'] is a list of 2 in the tangent, a tuple of 2 in the result" in text
    rule = lambda p, t: ({"a": p[0], "b": (p[0], p[0])}, {"a": t[0], "b": (t[0], t[0].sum())})
    text = text_of(TypeError, lambda: dx.grad(leaf(with_jvp(rule)))(XS))
    assert "result['b'][1]: result float32[3], tangent float32[], expected float32[3]" in text
    assert "In the jvp rule of <lambda> (" in text
    rule = lambda p, t: ({"a": p[0], "b": (p[0], p[0])}, {"a": t[0], "b": (t[0], dnp.int32(p[0]))})
    assert "tangent int32[3]" in text_of(TypeError, lambda: dx.grad(leaf(with_jvp(rule)))(XS))


def test_a_rule_returns_the_functions_result():
    """Known to differ where the function is staged before its rule is asked."""
    rule = lambda p, t: ({"a": p[0], "b": [p[0], p[0]]}, {"a": t[0], "b": [t[0], t[0]]})
    text = text_of(TypeError, lambda: dx.grad(dx.jit(leaf(with_jvp(rule))))(XS))
    assert "result['b'] is a list of 2 in the jvp rule, a tuple of 2 in the function" in text
    rule = lambda p, t: ({"a": p[0], "b": (p[0], p[0][0])}, {"a": t[0], "b": (t[0], t[0][0])})
    text = text_of(TypeError, lambda: dx.grad(dx.jit(leaf(with_jvp(rule))))(XS))
    assert "result['b'][1] is float32[] in the jvp rule, float32[3] in the function" in text


def with_vjp(fwd: Any, bwd: Any, fun: Callable[..., Any] = lambda params, x: params["w"][0] * x) -> Any:
    f = dx.custom_vjp(fun)
    f.defvjp(fwd, bwd)
    return lambda params: f(params, XS).sum()


PARAMS = {"w": (XS, XS), "b": XS}


def fwd(params, x):
    return params["w"][0] * x, None


def test_a_forward_rule_returns_a_pair():
    text = text_of(TypeError, lambda: dx.grad(with_vjp(lambda p, x: p["w"][0] * x, lambda r, ct: ct))(PARAMS))
    assert "The fwd rule of a function returns a pair (result, residuals)." in text


@pytest.mark.parametrize(
    "result, wanted",
    [
        (lambda ct: ct, "a tuple with one cotangent for each argument"),
        (lambda ct: (ct,), "arguments: params, x"),
        (lambda ct: ({"w": (ct, ct)}, ct), "args[0] is a dict with keys 'b', 'w' in the arguments"),
        (
            lambda ct: ({"w": [ct, ct], "b": ct}, ct),
            "args[0]['w'] is a tuple of 2 in the arguments, a list of 2 in",
        ),
        (
            lambda ct: ({"w": ct, "b": ct}, ct),
            "args[0]['w'] is a tuple of 2 in the arguments, a leaf in the result",
        ),
        (
            lambda ct: ({"w": (ct, ct[0]), "b": ct}, ct),
            "params['w'][1]: argument float32[3], cotangent float32[]",
        ),
        (lambda ct: ({"w": (ct, ct), "b": ct}, "no"), "x: argument float32[3], cotangent 'no' of type str"),
    ],
)
def test_a_backward_rule_returns_cotangents_like_the_arguments(result, wanted):
    f = with_vjp(fwd, lambda _, ct: result(ct))
    for g in (f, dx.jit(f)):
        text = text_of(TypeError, lambda: dx.grad(g)(PARAMS))
        assert wanted in text and "bwd rule of" in text


def test_none_is_a_zero_cotangent_at_any_depth():
    for x_bars in ((None, None), ({"w": None, "b": None}, None), ({"w": (None, None), "b": None}, None)):
        found = dx.grad(with_vjp(fwd, lambda _, ct: x_bars))(PARAMS)
        close(found, dx.tree.map(np.zeros_like, PARAMS))


def test_a_backward_rule_runs_where_the_rules_after_it_sent_zeros():
    """What it returns need not be a multiple of its cotangent: statistics of a pass are sent so. JAX runs it too."""

    @dx.custom_vjp
    def counted(x):
        return x * 1.0

    @dx.custom_vjp
    def silent(x):
        return x * 2.0

    counted.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (dnp.full_like(ct, 7.0),))
    silent.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (None,))
    for f, wanted in (
        (lambda x: silent(counted(x)), 7),
        (lambda x: silent(dnp.sin(counted(x))) + x, 8),
        (lambda x: lax.scan(lambda c, _: (silent(counted(c)), None), x, None, 2)[0], 7),
        (lambda x: silent(lax.scan(lambda c, _: (counted(c), None), x, None, 2)[0]), 7),
        (lambda x: dnp.round(counted(x)), 0),  # no derivative: nothing leads back to the rule
        (lambda x: (counted(x), x * 1.0)[1], 1),
    ):
        assert float(dx.grad(f)(2.0)) == wanted, f
        assert float(dx.jit(dx.grad(f))(2.0)) == wanted, f
        assert dx.vmap(dx.grad(f))(dnp.ones(2)).tolist() == [wanted] * 2, f


def test_results_have_to_be_arrays():
    f = with_jvp(lambda p, t: (p[0], t[0]), lambda x: {"a": x, "b": "text"})
    text = text_of(TypeError, lambda: f(1.0))
    assert "result['b']: 'text' of type str" in text


def test_a_vmap_rule_returns_batches():
    f = dx.custom_batching.custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: (x.sum(), True))
    text = text_of(ValueError, lambda: dx.vmap(f)(XS))
    assert "with the batch axis first" in text and "result: float32[], for a batch of 3" in text
    f.def_vmap(lambda size, batched, x: (x, "yes"))
    assert "out_batched: 'yes'" in text_of(TypeError, lambda: dx.vmap(f)(XS))
    f.def_vmap(lambda size, batched, x: x)
    assert "returns a pair (result, which parts of it are batched)" in text_of(
        TypeError, lambda: dx.vmap(f)(XS)
    )


def test_defjvps_does_not_go_with_arguments_that_are_not_differentiated():
    f = dx.custom_jvp(lambda n, x: x, nondiff_argnums=(0,))
    assert "does not go with nondiff_argnums" in text_of(TypeError, lambda: f.defjvps(None))


def test_the_last_frame_of_an_error_is_the_users():
    f = dx.custom_jvp(lambda x: x)
    with pytest.raises(AttributeError) as found:
        f(1.0)
    assert found.traceback[-1].path.name == "test_custom_rules.py"


def test_a_jvp_rule_may_push_primals_and_tangents_through_one_jitted_call() -> None:
    """The gradient of a jitted function inside the rule: what depends on primals alone is known in reverse mode."""
    product = dx.jit(lambda y, a: a @ y)
    y = np.array([0.1, 0.5], "float32")
    a = np.array([[0.3, -0.1], [0.2, 0.4]], "float32")
    slope = lambda a: dx.grad(lambda y: (product(y, a) ** 2).sum())(y)
    f = dx.custom_jvp(slope)
    f.defjvp(lambda primals, tangents: dx.jvp(slope, primals, tangents))
    wanted = dx.grad(lambda a: slope(a).sum())(a)
    for g in (f, dx.jit(f)):
        np.testing.assert_allclose(dx.grad(lambda a, g=g: g(a).sum())(a), wanted, atol=1e-6)


# --- Rules that take other arguments ------------------------------------------------------------------------


def _with_rules(decorate: Any, *rules: Any) -> Any:
    f = decorate(lambda x, y: x * y)
    (f.defjvp if len(rules) == 1 else f.defvjp)(*rules)
    return f


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (
            lambda: dx.grad(_with_rules(dx.custom_vjp, lambda x: (x, x), lambda r, g: (g, g)))(1.0, 2.0),
            r"The fwd rule .*\n  rule: <lambda> .*, which takes \(x\); it got 2\nWrite it as fwd\(\*args\)",
        ),
        (
            lambda: dx.grad(_with_rules(dx.custom_vjp, lambda x, y: (x, x), lambda g: (g, g)))(1.0, 2.0),
            r"The bwd rule .*which takes \(g\); it got 2\nWrite it as bwd\(\*nondiff, residuals, cotangent\)",
        ),
        (
            lambda: dx.jvp(_with_rules(dx.custom_jvp, lambda p: (p, p)), (1.0, 2.0), (1.0, 1.0)),
            r"The jvp rule .*which takes \(p\); it got 2\nWrite it as jvp\(\*nondiff, primals, tangents\)",
        ),
        (
            lambda: dx.grad(_by_argument(lambda t: t, None))(1.0, 2.0),
            r"The argument's rule .*which takes \(t\); it got 4\nWrite it as rule\(tangent, result, \*args\)",
        ),
        (
            lambda: dx.grad(_by_argument(None))(1.0, 2.0),
            r"a rule for each argument.*rules: 1, arguments: 2\nPass None",
        ),
        (
            lambda: dx.vmap(_mapped(lambda n, batched: (n, batched)))(dnp.ones(2)),
            r"The vmap rule .*; it got 3\nWrite it as vmap\(axis_size, in_batched, \*args\)",
        ),
    ],
    ids=["fwd", "bwd", "jvp", "argument", "count", "vmap"],
)
def test_a_rule_that_takes_other_arguments(misuse: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"(?s){text}"):
        misuse()


def _by_argument(*rules: Any) -> Any:
    f = dx.custom_jvp(lambda x, y: x * y)
    f.defjvps(*rules)
    return f


def _mapped(rule: Any) -> Any:
    f = dx.custom_batching.custom_vmap(lambda x: x)
    f.def_vmap(rule)
    return f


def test_what_a_rule_itself_raises_stays() -> None:
    def bwd(res: Any, ct: Any) -> Any:
        return res + None

    with pytest.raises(TypeError, match=r"^unsupported operand type\(s\) for \+: 'Array' and 'NoneType'"):
        dx.grad(_with_rules(dx.custom_vjp, lambda x, y: (x, x), bwd))(1.0, 2.0)


def test_a_rule_of_the_other_decorator() -> None:
    with pytest.raises(
        AttributeError, match=r"(?s)A custom_vjp has no attribute 'defjvp'.*Define its rule by f.defvjp"
    ):
        dx.custom_vjp(lambda x: x).defjvp  # type: ignore[attr-defined]  # noqa: B018
