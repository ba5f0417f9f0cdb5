"""Jaxprs as JAX has them: names and parameters of equations, evaluation, programs that walk and change them."""

import threading

import jax
import jax.extend.core
import numpy as np
import pytest
from jax.extend.core import primitives as jax_primitives

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.as_jax import jaxprs, linear_util, programs
from didax.as_jax.linear_util import flatten_fun, transformation_with_aux, wrap_init
from didax.runtime.array import ConcreteArray, written_numbers

X = np.float32([1.0, 2.0, 3.0])


@dx.custom_jvp
def doubled(x):
    return x * 2


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 3 * tangents[0]))


@dx.custom_vjp
def tripled(x):
    return x * 3


tripled.defvjp(lambda x: (tripled(x), None), lambda _, ct: (5 * ct,))


@jax.custom_jvp
def jax_doubled(x):
    return x * 2


jax_doubled.defjvp(lambda primals, tangents: (jax_doubled(*primals), 3 * tangents[0]))


@jax.custom_vjp
def jax_tripled(x):
    return x * 3


jax_tripled.defvjp(lambda x: (jax_tripled(x), None), lambda _, ct: (5 * ct,))

# Programs in either library, given its modules.
PROGRAMS = {
    "jit": lambda m, np_, x: m.jit(np_.sin)(x),
    "cond": lambda m, np_, x: m.lax.cond(x[0] > 0, np_.sin, np_.cos, x),
    "scan": lambda m, np_, x: m.lax.scan(lambda c, y: (c + y, c * y), 0.0, x),
    "while": lambda m, np_, x: m.lax.while_loop(lambda c: c[0] < 9.0, lambda c: c * 2, x),
    "checkpoint": lambda m, np_, x: m.checkpoint(np_.sin)(x),
    "custom_jvp": lambda m, np_, x: (doubled if m is dx else jax_doubled)(x),
    "custom_vjp": lambda m, np_, x: (tripled if m is dx else jax_tripled)(x),
    "dot": lambda m, np_, x: x @ x,
    "elementwise": lambda m, np_, x: m.lax.select(x > 1, m.lax.exp(x), m.lax.rsqrt(x)) ** 3,
    "shapes": lambda m, np_, x: m.lax.rev(m.lax.transpose(m.lax.broadcast_in_dim(x, (2, 3), (1,)), (1, 0)), (0,)),
    "reductions": lambda m, np_, x: (np_.sum(x), m.lax.cumsum(x), m.lax.argmax(x, 0, np.int32), m.lax.top_k(x, 2)),
    "slices": lambda m, np_, x: (m.lax.dynamic_slice(x, (1,), (2,)), m.lax.slice(x, (0,), (2,))),
    "pad": lambda m, np_, x: m.lax.pad(x, 0.0, [(1, 0, 0)]),
    "scatter": lambda m, np_, x: m.lax.scatter_add(
        x, np_.array([[1]]), np_.array([9.0]), m.lax.ScatterDimensionNumbers((), (0,), (0,))
    ),
    "solve": lambda m, np_, x: m.lax.custom_linear_solve(lambda v: 2.0 * v, x, lambda f, b: b / 2, lambda f, b: b / 2),
}  # fmt: skip
AS_IN_0_10 = pytest.mark.skipif(
    not jax.__version__.startswith("0.10."), reason="the jaxprs are those of JAX 0.10"
)
SPLIT_IN_JAX = {"broadcast_in_dim", "select_n", "convert_element_type", "squeeze", "reshape", "slice"}


@AS_IN_0_10
@pytest.mark.parametrize("name", PROGRAMS)
def test_equations_have_the_form_of_jax(name: str) -> None:
    found = programs.make_jaxpr(lambda x: PROGRAMS[name](dx, dnp, x))(X)
    wanted = jax.make_jaxpr(lambda x: PROGRAMS[name](jax, jax.numpy, x))(X)
    ours = {eqn.primitive.name: eqn for eqn in found.eqns}
    theirs = {eqn.primitive.name: eqn for eqn in wanted.eqns}
    assert set(theirs) - set(ours) <= SPLIT_IN_JAX, set(ours)
    kinds = {jax.extend.core.ClosedJaxpr: programs.ClosedJaxpr, jax.extend.core.Jaxpr: programs.Jaxpr}
    for key in set(ours) & set(theirs):
        assert set(ours[key].params) >= set(theirs[key].params) - {"const_lengths"}, key
        for parameter, value in theirs[key].params.items():
            if type(value) in kinds and parameter != "update_jaxpr":
                assert type(ours[key].params[parameter]) is kinds[type(value)], (key, parameter)
    outs = programs.eval_jaxpr(found.jaxpr, found.consts, X)
    again = interpret(found, X)
    for a, b, c in zip(outs, again, jax.tree.leaves(PROGRAMS[name](jax, jax.numpy, X)), strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-6)
        np.testing.assert_allclose(b, c, rtol=1e-6)


def interpret(closed, *args):
    """Bind each equation with its parameters, as a program for JAX 0.10 does (until 0.9 functions came apart)."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    read = lambda x: x.val if isinstance(x, programs.Literal) else env[x]
    for eqn in closed.jaxpr.eqns:
        outs = eqn.primitive.bind(*map(read, eqn.invars), **eqn.primitive.get_bind_params(eqn.params))
        env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True))
    return [read(x) for x in closed.jaxpr.outvars]


def test_numbers_in_a_changed_program_are_read() -> None:
    closed = programs.make_jaxpr(lambda x: x * 2.5 + 1.0)(X)
    jaxpr = closed.jaxpr.replace(eqns=list(closed.jaxpr.eqns))
    np.testing.assert_allclose(programs.eval_jaxpr(jaxpr, closed.consts, X)[0], X * 2.5 + 1.0)


def test_constants_stand_apart() -> None:
    y = dnp.arange(3.0)
    closed, shape = programs.make_jaxpr(lambda x: x + y, return_shape=True)(X)
    assert len(closed.consts) == len(closed.jaxpr.constvars) == len(closed.jaxpr.invars) == 1
    assert shape.shape == (3,) and closed.in_avals == closed.out_avals == [dx.typeof(X)]
    np.testing.assert_allclose(programs.jaxpr_as_fun(closed)(X)[0], X + y)
    other = closed.replace(consts=[dnp.ones(3)])
    np.testing.assert_allclose(programs.jaxpr_as_fun(other)(X)[0], X + 1)
    assert "add" in str(closed) and "lambda" in str(closed.jaxpr)


def test_rules_survive_a_walk() -> None:
    """Interpreting the equation of a function with rules of its own keeps the rules."""
    for f, slope in ((doubled, 3.0), (tripled, 5.0)):
        closed = programs.make_jaxpr(f)(1.0)
        assert dx.grad(lambda x, closed=closed: interpret(closed, x)[0])(1.0) == slope
        (eqn,) = closed.eqns
        held = eqn.params.get("jvp_jaxpr_fun", eqn.params.get("fwd_jaxpr_thunk"))
        with pytest.raises(NotImplementedError, match="run by Didax alone"):
            held(1.0)


def test_changed_programs_run() -> None:
    """A program exchanges a primitive within a scan; what it makes can be evaluated, compiled and differentiated."""

    def f(x):
        return lax.scan(lambda c, _: (dnp.sin(c), None), x, None, length=2)[0]

    def exchanged(jaxpr):
        eqns = []
        for eqn in jaxpr.eqns:
            params = {
                key: value.map_jaxpr(exchanged) if isinstance(value, programs.ClosedJaxpr) else value
                for key, value in eqn.params.items()
            }
            new = programs.cos_p if eqn.primitive is programs.sin_p else eqn.primitive
            eqns.append(eqn.replace(primitive=new, params=params))
        return jaxpr.replace(eqns=eqns)

    closed = programs.make_jaxpr(f)(0.5)
    assert [sub.eqns[0].primitive for sub in programs.subjaxprs(closed.jaxpr)] == [programs.sin_p]
    new = programs.jaxpr_as_fun(closed.map_jaxpr(exchanged))
    wanted = jax.value_and_grad(lambda x: jax.numpy.cos(jax.numpy.cos(x)))(0.5)
    np.testing.assert_allclose(dx.jit(dx.value_and_grad(lambda x: new(x)[0]))(0.5), wanted, rtol=1e-6)


@AS_IN_0_10
def test_every_primitive_of_jax_is_there_or_known_to_be_absent() -> None:
    names = {name.removesuffix("_p") for name in dir(jax_primitives) if name.endswith("_p")}
    names |= {name.removesuffix("_p") for name in dir(jax.lax) if name.endswith("_p")}
    absent = {name for name in names if not hasattr(programs, f"{name}_p")}
    known = """after_all approx_top_k create_token custom_lin dce_sink device_put empty2 eq_to get le_to lt_to
        ragged_all_to_all reduce reduce_window rng_uniform select_and_gather_add select_and_scatter
        select_and_scatter_add stage swap cholesky_update hessenberg ormqr schur tridiagonal"""
    assert absent <= set(known.split())
    assert programs.squeeze_p.bind(dnp.ones((1, 2)), dimensions=(0,)).shape == (2,)
    assert [x.shape for x in programs.split_p.bind(X, sizes=(1, 2), axis=0)] == [(1,), (2,)]
    with pytest.raises(NotImplementedError, match="has one value"):
        programs.reshape_p.bind(X, new_sizes=(3,), dimensions=(0,), sharding=None)


def test_functions_of_leaves() -> None:
    flat, out_tree = flatten_fun(
        wrap_init(lambda x, *, y: {"a": x, "b": (y,)}), dx.tree.structure(((1,), {"y": 2}))
    )
    leaves = flat.call_wrapped(3, 4)
    assert dx.tree.unflatten(out_tree(), leaves) == {"a": 3, "b": (4,)}

    @transformation_with_aux
    def logged(*args):
        out = yield (args[0] + 1, *args[1:]), {}
        yield out * 2, "told"

    f, told = logged(wrap_init(lambda x, y: x - y))
    assert f.call_wrapped(5, 2) == 8 and told() == "told"


def test_captured_scalars_are_constants() -> None:
    """As arrays are, in the order of their first use: closures of equal code get equal structures, traced or not."""
    one = np.float32(1)

    def closed_over(a, b):
        found = jaxprs.make_jaxpr(lambda x: x * a + b * x)(one)
        assert [c.shape for c in found.consts] == [a.shape, b.shape]
        return jaxprs.eval_jaxpr(found.jaxpr, found.consts, one)

    for a, b in ((dnp.float32(2), dnp.ones(2)), (dnp.ones(2), dnp.float32(2))):
        np.testing.assert_array_equal(closed_over(a, b)[0], [3, 3])
        np.testing.assert_array_equal(dx.jit(closed_over)(a, b)[0], [3, 3])


def test_numbers_that_a_function_makes_are_no_constants() -> None:
    """Neither results that are numbers, nor arrays that functions of the library make of them; nor traced again."""
    captured = dnp.float32(3)
    x = np.float32(2)
    dx.jit(dnp.zeros_like)(x)  # a program that is remembered
    for f, count in (
        (dnp.zeros_like, 0),
        (lambda x: (x, 1.0, True, np.float32(2), np.array(2, "float32")), 0),
        (lambda x: dnp.where(x > 0, x, 0.0) + dnp.float32(2), 0),
        (lambda x: dx.grad(lambda y: 2.0)(x), 0),
        (lambda x: (x * captured, captured, True), 1),
    ):
        closed = jaxprs.make_jaxpr(f)(x)
        again = jaxprs.make_jaxpr(jaxprs.jaxpr_as_fun(closed))(x)
        assert len(closed.consts) == len(again.consts) == count
        outs = jaxprs.eval_jaxpr(closed.jaxpr, closed.consts, x)
        wanted = dx.jit(f)(x)
        for found, want in zip(outs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert dx.typeof(found) == dx.typeof(want) and found == want


def test_axes_by_name_may_be_in_scope() -> None:
    closed = jaxprs.make_jaxpr(lambda x: lax.psum(x, "i") / lax.axis_size("i"), axis_env=[("i", 4)])(
        np.float32(1)
    )
    assert [eqn.primitive.name for eqn in closed.eqns] == ["psum", "div"]
    mapped = dx.vmap(lambda x: jaxprs.jaxpr_as_fun(closed)(x)[0], axis_name="i")(dnp.arange(4.0))
    np.testing.assert_array_equal(mapped, np.full(4, 1.5))


@linear_util.transformation2
def times(f, factor, x):
    return f(factor * x)


def test_transformations_are_decorators() -> None:
    assert times(wrap_init(lambda x: x + 1), 3).call_wrapped(2) == 7


def test_numbers_are_recorded_by_who_stages_alone() -> None:
    """Outside of a recording a number costs what an array costs; inside, other threads are not recorded."""
    assert written_numbers.array is ConcreteArray
    made_elsewhere = []
    with written_numbers.recorded() as outer:
        first = dnp.asarray(1.0)
        with written_numbers.recorded() as inner:
            second = dnp.asarray(2.0)
            dnp.asarray(np.ones(3))  # is no number
            thread = threading.Thread(target=lambda: made_elsewhere.append(dnp.asarray(3.0)))
            thread.start()
            thread.join()
    assert {id(x) for x in inner} >= {id(second)} and {id(x) for x in outer} >= {id(first), id(second)}
    assert id(made_elsewhere[0]) not in {id(x) for x in outer} and all(not x.shape for x in outer)
    assert written_numbers.array is ConcreteArray


def collectives(n):
    """Collectives over an axis of two, on a vector of four."""
    return {
        "psum": lambda x: n.lax.psum(x, "i"),
        "pmax": lambda x: n.lax.pmax(x, ("i",)),
        "ppermute": lambda x: n.lax.ppermute(x, "i", [(0, 1), (1, 0)]),
        "all_gather": lambda x: n.lax.all_gather(x, "i", tiled=True),
        "reduce_scatter": lambda x: n.lax.psum_scatter(x, "i", tiled=True),
        "all_to_all": lambda x: n.lax.all_to_all(x, "i", 0, 0, tiled=True),
        "axis_index": lambda x: x * n.lax.axis_index("i"),
    }


@pytest.mark.parametrize("name", collectives(jax))
def test_collectives_have_jaxs_parameters_and_are_bound_with_them(name: str) -> None:
    x = np.arange(4, dtype="float32")
    ours, theirs = (
        make(collectives(n)[name], axis_env=[("i", 2)])(x).eqns[0]
        for n, make in ((dx, jaxprs.make_jaxpr), (jax, jax.make_jaxpr))
    )
    assert ours.primitive.name == theirs.primitive.name == name and ours.params == theirs.params
    if name != "axis_index":
        xs = np.stack([x, x * x])
        bound = dx.vmap(lambda x: ours.primitive.bind(x, **theirs.params), axis_name="i")(xs)
        np.testing.assert_array_equal(bound, dx.vmap(collectives(dx)[name], axis_name="i")(xs))


def test_collectives_that_didax_composes_are_refused() -> None:
    params = {"all_gather_dimension": 0, "axis_name": ("i",), "axis_size": 2, "tiled": False}
    with pytest.raises(
        NotImplementedError, match=r"tiled of 'all_gather' has one value.*\n.*jax.lax.all_gather"
    ):
        dx.vmap(lambda x: programs.primitive_named("all_gather").bind(x, **params), axis_name="i")(
            np.ones((2, 3))
        )
