"""`checkify` finds what JAX's finds, in every order of transformations; failures are data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify as jax_checkify

import didax as dx
import didax.numpy as dnp
from didax import checkify

SETS = (
    "user_checks",
    "nan_checks",
    "index_checks",
    "div_checks",
    "float_checks",
    "automatic_checks",
    "all_checks",
)


class Library:
    """The same programs, written with one library or the other."""

    def __init__(self, np_: Any, lax: Any, checkify: Any, jit: Any, vmap: Any, grad: Any):
        self.np, self.lax, self.checkify = np_, lax, checkify
        self.jit, self.vmap, self.grad = jit, vmap, grad


OURS = Library(dnp, dx.lax, checkify, dx.jit, dx.vmap, dx.grad)
THEIRS = Library(jnp, jax.lax, jax_checkify, jax.jit, jax.vmap, jax.grad)


def positive(lib: Library, x: Any) -> Any:
    lib.checkify.check(x > 0, "x is {x}", x=x)
    return x


ONES, TABLE = np.ones(3, "f"), np.ones((3, 2), "f")
PROGRAMS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "user": (lambda lib: lambda x: positive(lib, x), [(1.0,), (-1.0,)]),
    "log": (lambda lib: lib.np.log, [(1.0,), (-1.0,), (0.0,)]),
    "divide": (lambda lib: lambda x, y: x / y, [(1.0, 2.0), (1.0, 0.0), (0.0, 0.0)]),
    "integer divide": (lambda lib: lib.lax.div, [(4, 2), (4, 0)]),
    "read": (lambda lib: lambda x, i: x[i], [(ONES, 2), (ONES, 5), (ONES, -4)]),
    "read many": (lambda lib: lambda x, i: x[i], [(ONES, np.array([0, 2])), (ONES, np.array([0, 3]))]),
    "read matrix": (lambda lib: lambda x, i, j: x[i, j], [(TABLE, 2, 1), (TABLE, 2, 2)]),
    "write": (lambda lib: lambda x, i: x.at[i].set(0), [(ONES, 2), (ONES, 3)]),
    "add at": (lambda lib: lambda x, i: x.at[i].add(1), [(ONES, np.array([1, 1])), (ONES, np.array([1, 4]))]),
    "slice": (lambda lib: lambda x, i: lib.lax.dynamic_slice(x, (i,), (2,)), [(ONES, 1), (ONES, 2)]),
    "update": (lambda lib: lambda x, i: lib.lax.dynamic_update_slice(x, x[:2], (i,)), [(ONES, 1), (ONES, 2)]),
    "jit": (lambda lib: lambda x: lib.jit(lambda y: positive(lib, lib.np.sin(y)))(x), [(1.0,), (-1.0,), (np.inf,)]),
    "vmap": (lambda lib: lib.vmap(lambda x: positive(lib, x)), [(ONES,), (np.array([1.0, -2.0], "f"),)]),
    "grad": (lambda lib: lib.grad(lambda x: lib.np.sqrt(x) * 0), [(1.0,), (0.0,)]),
    "grad user": (lambda lib: lib.grad(lambda x: positive(lib, x) ** 2), [(1.0,), (-1.0,)]),
    "scan": (
        lambda lib: lambda x: lib.lax.scan(lambda c, y: (positive(lib, c - y), lib.np.log(c)), x, lib.np.arange(3.0)),
        [(9.0,), (2.0,), (-1.0,)],
    ),
    "while": (
        lambda lib: lambda x: lib.lax.while_loop(lambda c: c < 3, lambda c: positive(lib, c) + lib.np.sqrt(c), x),
        [(1.0,), (-1.0,), (5.0,)],
    ),
    "cond": (
        lambda lib: lambda x: lib.lax.cond(x < 0, lambda x: positive(lib, -x - 1), lambda x: lib.np.log(x - 1), x),
        [(-3.0,), (-1.0,), (2.0,), (0.5,)],
    ),
    "switch": (
        lambda lib: lambda i, x: lib.lax.switch(i, [lib.np.sin, lambda x: positive(lib, x), lib.np.log], x),
        [(0, -1.0), (1, -1.0), (1, 1.0), (2, -1.0), (2, 1.0)],
    ),
    "nested loops": (
        lambda lib: lambda x: lib.lax.scan(
            lambda c, _: (lib.lax.fori_loop(0, 3, lambda i, d: positive(lib, d - i), c), None), x, None, length=2
        )[0],
        [(20.0,), (5.0,)],
    ),
    "checkpoint": (
        lambda lib: lib.grad((dx if lib is OURS else jax).checkpoint(lambda x: positive(lib, lib.np.sin(x)))),
        [(1.0,), (-1.0,)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_failures_are_found_where_jax_finds_them(name: str):
    make, inputs = PROGRAMS[name]
    for errors in ("user_checks", "float_checks", "all_checks"):
        ours = checkify.checkify(make(OURS), errors=getattr(checkify, errors))
        compiled = dx.jit(ours)
        theirs = jax.jit(jax_checkify.checkify(make(THEIRS), errors=getattr(jax_checkify, errors)))
        for args in inputs:
            expected, wanted = theirs(*args)
            for err, out in (ours(*map(dnp.asarray, args)), compiled(*args)):
                assert (err.get() is None) == (expected.get() is None), (
                    errors,
                    args,
                    err.get(),
                    expected.get(),
                )
                if err.get() is None or name not in (
                    "while",
                    "nested loops",
                ):  # a failure ends a while_loop here
                    for y, z in zip(dx.tree.leaves(out), jax.tree.leaves(wanted), strict=True):
                        np.testing.assert_allclose(y, z, rtol=1e-5)


@pytest.mark.parametrize("name", SETS)
def test_the_sets_have_the_sizes_of_jaxs(name: str):
    assert len(getattr(checkify, name)) == len(getattr(jax_checkify, name))


def test_a_failure_says_what_where_and_with_which_values():
    def f(x: Any, i: Any) -> Any:
        return x[i] / (x[0] - x[1])

    found = checkify.checkify(f, errors=checkify.all_checks)
    err, _ = found(dnp.array([1.0, 2.0]), 4)
    assert err.get().startswith(
        "out-of-bounds indexing for array of shape (2,): index 4 is out of bounds for axis 0 with size 2."
    )
    assert f"checked at {__file__}:{f.__code__.co_firstlineno + 1}" in err.get()
    with pytest.raises(checkify.OutOfBoundsError, match="index 4"):
        err.throw()
    err, _ = found(dnp.array([1.0, 1.0]), 0)
    with pytest.raises(checkify.DivisionByZeroError, match="division by zero"):
        err.throw()
    err, _ = checkify.checkify(f, errors=checkify.nan_checks)(dnp.zeros(2), 0)
    with pytest.raises(checkify.NaNError, match="nan generated by primitive: div"):
        err.throw()
    err, _ = found(dnp.array([1.0, 2.0]), 0)
    assert err.get() is None
    err.throw()


def test_an_operation_of_the_backward_pass_is_told_by_the_line_of_its_forward_pass():
    def f(x: Any) -> Any:
        return dnp.sqrt(x) * 0.0

    for g in (dx.grad(f), dx.jit(dx.grad(f)), dx.grad(dx.jit(f))):
        err, _ = checkify.checkify(g, errors=checkify.nan_checks)(0.0)
        assert f"{__file__}:{f.__code__.co_firstlineno + 1}" in err.get()
        assert "in the backward pass" in err.get()


def test_of_several_failures_the_first_is_told():
    def f(x: Any) -> Any:
        checkify.check(x < 3, "first at {x}", x=x)
        checkify.check(x < 2, "second at {x}", x=x)
        return x

    for value, text in [(1.0, None), (2.5, "second at 2.5"), (4.0, "first at 4.0")]:
        got = checkify.checkify(f)(value)[0].get()
        assert got is text or got.startswith(text)
    err, _ = checkify.checkify(lambda xs: dx.lax.scan(lambda c, x: (c, f(x)), 0, xs))(
        dnp.array([1.0, 2.5, 4.0])
    )
    assert err.get().startswith("second at 2.5")


def test_mapped_errors_tell_their_elements():
    err, out = dx.vmap(checkify.checkify(lambda x: positive(OURS, x)))(dnp.array([1.0, -2.0, -3.0]))
    assert out.tolist() == [1.0, -2.0, -3.0]
    assert [line for line in err.get().splitlines() if "mapped" in line] == [
        "at mapped index 1: x is -2.0",
        "at mapped index 2: x is -3.0",
    ]
    with pytest.raises(checkify.CheckError, match="at mapped index 1"):
        err.throw()
    with pytest.raises(checkify.CheckError, match=r"^x is -2\.0"):
        checkify.check_error(err)


@pytest.mark.parametrize(
    "way", [dx.grad, lambda f: dx.jit(dx.grad(f)), lambda f: dx.grad(dx.jit(f)), dx.jacfwd]
)
def test_a_checkified_function_is_differentiated(way: Any):
    def f(x: Any) -> Any:
        positive(OURS, x)
        return dx.lax.fori_loop(0, 3, lambda i, c: positive(OURS, c * x), x)

    checked = checkify.checkify(f)
    assert float(way(lambda x: checked(x)[1])(2.0)) == 32.0
    grad, err = dx.grad(lambda x: checked(x)[::-1], has_aux=True)(-1.0)
    assert float(grad) == -4.0
    assert err.get().startswith("x is -1.0")


def test_results_are_arrays_where_the_function_returns_its_argument():
    _, outs = checkify.checkify(lambda x: (x, 2, dx.lax.cond(x > 0, abs, lambda z: z, x)))(-1.0)
    assert [x.dtype for x in outs] == ["float32", "int32", "float32"]


def test_checks_inside_and_outside_of_checkify_are_one():
    def f(x: Any) -> Any:
        err, y = checkify.checkify(lambda x: positive(OURS, x))(x)
        checkify.check_error(err)
        return y

    for g in (f, dx.jit(f)):
        with pytest.raises(checkify.CheckError, match=r"x is -1\.0"):
            g(-1.0)
        assert checkify.checkify(g)(-1.0)[0].get().startswith("x is -1.0")
        assert checkify.checkify(g)(1.0)[0].get() is None
    checkify.check_error(checkify.checkify(lambda x: x)(1.0)[0])


def test_debug_checks_exist_only_as_data():
    def f(x: Any) -> Any:
        checkify.debug_check(x > 0, "never raised")
        return x

    assert float(f(-1.0)) == float(dx.jit(f)(-1.0)) == -1.0
    assert checkify.checkify(f)(-1.0)[0].get().startswith("never raised")


def test_a_custom_rule_survives_checkify():
    @dx.custom_jvp
    def f(x: Any) -> Any:
        return positive(OURS, x)

    f.defjvp(lambda primals, tangents: (f(*primals), 10 * tangents[0]))
    checked = checkify.checkify(lambda x: f(x) * 2)
    err, out = checked(-1.0)
    assert err.get().startswith("x is -1.0")
    assert float(out) == -2.0
    assert float(dx.grad(lambda x: checked(x)[1])(1.0)) == 20.0


def test_an_infinite_loop_ends_at_its_first_failure():
    def body(c: Any) -> Any:
        checkify.check(c < 5, "at {c}", c=c)
        return c + 1

    err, _ = dx.jit(checkify.checkify(lambda: dx.lax.while_loop(lambda c: True, body, 0)))()
    assert err.get().startswith("at 5")


@pytest.mark.parametrize("bound", [{"max_steps": 20}, {"max_steps": 40}, {"checkpoints": 3}], ids=str)
def test_bounded_loops_report_and_keep_their_reverse_mode(bound: Any):
    def body(c: Any) -> Any:
        checkify.check(c < 5, "at {c}", c=c)
        return c * 1.5

    def loop(x: Any) -> Any:
        return dx.lax.while_loop(lambda c: c < 5, body, x, **bound)

    checked = checkify.checkify(loop)
    assert checked(4.0)[0].get() is None
    for gradient in (dx.grad(lambda x: checked(x)[1]), lambda x: checkify.checkify(dx.grad(loop))(x)[1]):
        np.testing.assert_allclose(gradient(1.0), 1.5**4, rtol=1e-6)
    failing = checkify.checkify(lambda x: dx.lax.while_loop(lambda c: c < 9, body, x, **bound))
    assert failing(4.0)[0].get().startswith("at 6.0")


def test_a_linear_solve_reports_and_keeps_its_derivative():
    a = np.array([[2.0, 1.0], [1.0, 3.0]], "f")

    def solver(matvec: Any, b: Any) -> Any:
        checkify.check(b[0] > 0, "b is {b}", b=b)
        return dnp.linalg.solve(a, b)

    checked = checkify.checkify(
        lambda b: dx.lax.custom_linear_solve(lambda x: a @ x, b, solver, symmetric=True)
    )
    assert checked(dnp.array([-1.0, 1.0]))[0].get().startswith("b is [-1.  1.]")
    np.testing.assert_allclose(dx.grad(lambda b: checked(b)[1].sum())(dnp.ones(2)), [0.4, 0.2], rtol=1e-5)


def test_the_condition_of_a_loop_may_check_too():
    def holds(c: Any) -> Any:
        checkify.check(c < 5, "asked at {c}", c=c)
        return c < 9

    loop = checkify.checkify(lambda x: dx.lax.while_loop(holds, lambda c: c + 1, x))
    assert loop(3)[0].get().startswith("asked at 5")
    assert loop(6)[0].get().startswith("asked at 6")


def test_no_checks_no_cost():
    f = checkify.checkify(lambda x: x * 2)
    assert len(dx.make_jaxpr(f)(1.0).eqns) == 1
    assert f(1.0)[0].get() is None
    assert repr(f(1.0)[0]) == "Error(None)"


def test_equations_keep_their_lines_whatever_passes_are_loaded():
    import didax.passes.nans
    import didax.passes.uneven  # noqa: F401 - another pass that follows the lines of equations

    @dx.jit
    def f(x: Any) -> Any:
        y = dnp.sin(x)
        return y * 2

    (call,) = dx.make_jaxpr(lambda x: checkify.checkify(f)(x)[1])(1.0).jaxpr.eqns
    sources = [eqn.source for eqn in call.jaxprs[0].eqns]
    assert [str(source).partition("(")[2].endswith("f)") for source in sources] == [True, True]


def test_arguments_of_other_kinds_are_refused():
    with pytest.raises(ValueError, match="kinds of errors"):
        checkify.checkify(lambda x: x, errors={ValueError})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="check_error takes an Error"):
        checkify.check_error("no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checkify takes a function"):
        checkify.checkify(3)  # type: ignore[arg-type]
