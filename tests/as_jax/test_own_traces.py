"""Interpreters that a program writes itself, run with jax and with the layer: the same numbers."""

import gc
import types
import weakref

import jax
import jax._src.core as jax_core
import numpy as np
import pytest
from jax._src import literals as jax_literals
from jax.extend import linear_util as jax_lu

import didax as dx
import didax.numpy as dnp
from didax.as_jax import core_names, linear_util, own_traces, private, programs
from didax.core.tracing import Tracer

JAX = types.SimpleNamespace(
    jax=jax, jnp=jax.numpy, lu=jax_lu, Trace=jax_core.Trace, Tracer=jax_core.Tracer, TraceTag=jax_core.TraceTag,
    take=jax_core.take_current_trace, set=jax_core.set_current_trace, typeof=jax.typeof,
    jit_p=jax.extend.core.primitives.jit_p, as_fun=jax.extend.core.jaxpr_as_fun,
)  # fmt: skip
OURS = types.SimpleNamespace(
    jax=dx, jnp=dnp, lu=linear_util, Trace=own_traces.Trace, Tracer=Tracer, TraceTag=own_traces.TraceTag,
    take=core_names.take_current_trace, set=core_names.set_current_trace, typeof=dx.typeof,
    jit_p=programs.primitive_named("jit"), as_fun=programs.jaxpr_as_fun,
)  # fmt: skip


def interpreter(n):
    """`run(f)(*xs)`: f with a number beside each value, which counts the products on the longest way to it."""

    class Counted(n.Tracer):
        def __init__(self, trace, value, count):
            super().__init__(trace, n.typeof(value))
            self.value, self.count = value, count

    class Counting(n.Trace):
        def __init__(self, parent_trace, tag):
            super().__init__()
            self.parent_trace, self.tag = parent_trace, tag

        def of(self, x):
            return (x.value, x.count) if isinstance(x, Counted) and x._trace.tag is self.tag else (x, 0)

        def process_primitive(self, primitive, tracers, params):
            values, counts = zip(*map(self.of, tracers), strict=True)
            count = max(counts) + (primitive.name == "mul")
            with n.set(self.parent_trace):
                if primitive is n.jit_p:
                    outs = run(n.as_fun(params["jaxpr"]), counts)(*values)
                    return [Counted(self, value, c) for value, c in outs]
                out = primitive.bind(*values, **params)
            if primitive.multiple_results:
                return [Counted(self, x, count) for x in out]
            return Counted(self, out, count)

        def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
            values, counts = zip(*map(self.of, tracers), strict=True)
            avals = tuple(map(n.typeof, values))
            params = {"subfuns": (fun, jvp), "symbolic_zeros": symbolic_zeros}
            outs = primitive.bind_with_trace(self.parent_trace, values, avals, params)
            return [Counted(self, x, max(counts) + 100) for x in outs]

    def run(f, counts=None):
        def ran(*xs):
            with n.take() as parent:
                trace = Counting(parent, n.TraceTag())
                tracers = [Counted(trace, x, c) for x, c in zip(xs, counts or [0] * len(xs), strict=True)]
                with n.set(trace):
                    outs = f(*tracers)
                return [trace.of(x) for x in (outs if isinstance(outs, list) else [outs])]

        return ran

    return run


def results(n):
    run = interpreter(n)
    x = n.jnp.asarray(np.array([0.5, 2.0], np.float32))
    squared = n.jax.custom_jvp(lambda x: x * x)
    squared.defjvp(lambda primals, tangents: (squared(primals[0]), 7.0 * tangents[0]))  # not the slope
    f = lambda x: (x * x) * n.jnp.sin(x)
    first = lambda f: lambda *xs: run(f)(*xs)[0][0]
    return [
        run(f)(x),
        run(n.jax.jit(f))(x),
        run(lambda x: n.jax.grad(lambda y: y[0] * y[1])(x))(x)[0][0],
        n.jax.grad(lambda x: first(f)(x).sum())(x),
        n.jax.jit(first(f))(x),
        n.jax.vmap(first(f))(x),
        run(squared)(x),
        n.jax.grad(lambda x: first(squared)(x).sum())(x),
        n.jax.jit(n.jax.grad(lambda x: first(lambda x: squared(x * 3))(x).sum()))(x),
        first(lambda x: first(lambda y: x * y)(x))(x),
    ]


def test_an_interpreter_of_a_programs_own() -> None:
    ours, theirs = results(OURS), results(JAX)
    assert [c for _, c in ours[0]] == [2] and [c for _, c in ours[6]] == [100]
    leaves = [dx.tree.leaves(ours), jax.tree.leaves(theirs)]
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def test_each_trace_is_one() -> None:
    seen = []
    dx.grad(lambda x: seen.append(x._trace) or x)(1.0)
    assert isinstance(seen[0], own_traces.Trace) and issubclass(own_traces.Trace, type(seen[0]).__mro__[-2])
    assert not isinstance(seen[0], type("Own", (own_traces.Trace,), {}))
    assert own_traces.Trace().full_raise(3) == 3


def test_what_an_interpreter_leaves_out() -> None:
    class Nothing(own_traces.Trace):
        pass

    squared = dx.custom_vjp(lambda x: x * x)
    squared.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
    with core_names.set_current_trace(Nothing()):
        with pytest.raises(NotImplementedError, match="Nothing has no process_primitive"):
            dnp.sin(np.float32(1))
        with pytest.raises(NotImplementedError, match="Nothing has no process_custom_vjp_call"):
            squared(1.0)

    class OwnFwd(own_traces.Trace):
        def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, *, out_trees, symbolic_zeros):
            with pytest.raises(NotImplementedError, match="run by Didax alone"):
                fwd.call_wrapped(*tracers)
            return fun.call_wrapped(*tracers)

    with core_names.set_current_trace(OwnFwd()):
        assert float(squared(3.0)) == 9


def test_a_program_seen_twice_is_one_object() -> None:
    def seen():
        inner = dx.jit(lambda x: x * 2)
        found = [programs.make_jaxpr(lambda x: inner(x))(1.0).eqns[0].params["jaxpr"] for _ in range(2)]
        assert found[0] is found[1]
        return weakref.ref(found[0])

    program = seen()
    dx.clear_caches()
    gc.collect()
    assert program() is None


def test_stores_of_which_one_has_run() -> None:
    first, second = linear_util.Store(), linear_util.Store()
    with pytest.raises(linear_util.StoreException):
        linear_util.merge_linear_aux(first, second)
    second.store(3)
    assert linear_util.merge_linear_aux(first, second) == (False, 3)
    first.store(4)
    with pytest.raises(linear_util.StoreException):
        linear_util.merge_linear_aux(first, second)


def test_primitives_that_are_in_no_program() -> None:
    reduce_p = programs.primitive_named("reduce")
    assert programs.primitive_named("reduce") is reduce_p and {reduce_p: 1}[reduce_p] == 1
    with pytest.raises(NotImplementedError, match=r"'reduce' is in no program.*\n.*function of jax.lax"):
        reduce_p.bind(1.0, 2.0)


def test_dtypes_made_in_the_private_way_have_no_arrays() -> None:
    class Mine(private.ExtendedDType):
        pass

    for make in (lambda: dnp.zeros(3, Mine()), lambda: dnp.ones(3).astype(Mine())):
        with pytest.raises(TypeError, match=r"have no arrays here.*\n.*\nKeep such values in float32"):
            make()


def test_numbers_with_a_dtype() -> None:
    for module in (private, jax_literals):
        x = module.TypedFloat(1.5, np.dtype("float32"))
        assert x == 1.5 and x.dtype == np.float32 and isinstance(x, float)
        assert module.TypedInt(3, np.dtype("int8")).dtype == np.int8
