"""One program of the extension interface, run with jax and with the layer's modules: the same numbers."""

import types

import jax
import numpy as np
import pytest
from jax.extend import core as jax_core
from jax.interpreters import ad, batching, mlir

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.as_jax import core_names, primitive, programs
from didax.as_jax.interpreters import ad as our_ad
from didax.as_jax.interpreters import batching as our_batching
from didax.as_jax.interpreters import mlir as our_mlir
from didax.as_jax.interpreters import partial_eval as our_pe
from didax.as_jax.programs import primitive_named

JAX = types.SimpleNamespace(
    jax=jax, jnp=jax.numpy, Primitive=jax_core.Primitive, ShapedArray=jax.core.ShapedArray, ad=ad, batching=batching,
    mlir=mlir,
)  # fmt: skip
OURS = types.SimpleNamespace(
    jax=dx, jnp=dnp, Primitive=primitive.Primitive, ShapedArray=core_names.ShapedArray, ad=our_ad,
    batching=our_batching, mlir=our_mlir,
)  # fmt: skip


def declare(n):
    """`x * y + c`, and a sum and a difference at once, with their rules."""
    scaled = n.Primitive("scaled_product")
    scaled.def_impl(lambda x, y, *, c: n.jnp.asarray(x) * y + c[0])
    scaled.def_abstract_eval(lambda x, y, *, c: n.ShapedArray(x.shape, x.dtype))
    n.mlir.register_lowering(
        scaled, n.mlir.lower_fun(lambda x, y, *, c: x * y + c[0], multiple_results=False)
    )
    n.ad.defjvp(
        scaled,
        lambda t, x, y, *, c: scaled.bind(t, y, c=(0.0,)),
        lambda t, x, y, *, c: scaled.bind(x, t, c=(0.0,)),
    )

    def transpose(ct, x, y, *, c):
        assert n.ad.is_undefined_primal(x) != n.ad.is_undefined_primal(y)
        if n.ad.is_undefined_primal(x):
            return scaled.bind(ct, y, c=(0.0,)), None
        return None, scaled.bind(x, ct, c=(0.0,))

    n.ad.primitive_transposes[scaled] = transpose

    def batch(args, dims, *, c):
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        return scaled.bind(
            *[n.batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)], c=c
        ), 0

    n.batching.primitive_batchers[scaled] = batch

    both = n.Primitive("sum_and_difference")
    both.multiple_results = True
    both.def_impl(lambda x, y: [x + y, x - y])
    both.def_abstract_eval(lambda x, y: [n.ShapedArray(x.shape, x.dtype)] * 2)
    n.mlir.register_lowering(both, n.mlir.lower_fun(lambda x, y: (x + y, x - y)))
    n.ad.deflinear2(both, lambda cts, x, y: both.bind(*map(n.ad.instantiate_zeros, cts)))
    seen = []

    def batch_both(size, name, kind, args, dims):
        assert type(args) is type(dims) is tuple  # equinox builds prefixes of them
        seen.append((size, name))
        return both.bind(*[n.batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]), [
            0,
            0,
        ]

    n.batching.axis_primitive_batchers[both] = batch_both
    return scaled, both, seen


def results(n):
    """Numbers out of all interpreters."""
    scaled, both, seen = declare(n)
    x, y = np.float32([1.0, 2.0, 3.0]), np.float32([0.5, -1.0, 2.0])

    def f(x, y):
        a, b = both.bind(scaled.bind(x, y, c=(1.0,)), y)
        return (a * a - b).sum()

    jax_ = n.jax
    yield scaled.bind(x, y, c=(1.0,))
    yield both.bind(x, y)
    yield f(x, y)
    yield jax_.jit(jax_.value_and_grad(f, (0, 1)))(x, y)
    yield jax_.grad(f, (0, 1))(x, y)
    yield jax_.jvp(f, (x, y), (y, x))
    yield jax_.vmap(f, (0, None))(np.stack([x, y]), y)
    yield jax_.jit(jax_.vmap(jax_.grad(f), (None, 0)))(x, np.stack([x, y]))
    yield jax_.jvp(jax_.grad(f), (x, y), (y, x))
    assert seen[0][0] == 2


def test_rules_give_the_numbers_of_jax() -> None:
    for found, wanted in zip(results(OURS), results(JAX), strict=True):
        ours, theirs = dx.tree.leaves(found), jax.tree.leaves(wanted)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_rule_that_is_absent_is_an_error() -> None:
    p = primitive.Primitive("bare")
    for run, kind, text in [
        (lambda: p.bind(1.0), NotImplementedError, "Evaluation rule for 'bare' not implemented"),
        (lambda: dx.make_jaxpr(p.bind)(1.0), NotImplementedError, "cannot be staged"),
        (lambda: dx.grad(p.bind)(1.0), NotImplementedError, "no jvp rule"),
        (lambda: dx.vmap(p.bind)(np.ones(2)), NotImplementedError, "no batch rule"),
        (lambda: our_ad.primitive_jvps[p], KeyError, "bare"),
    ]:
        with pytest.raises(kind, match=text):
            run()
    assert p not in our_ad.primitive_jvps
    p.def_effectful_abstract_eval(lambda x: (x, {"noise"}))
    with pytest.raises(NotImplementedError, match="states effects of its own"):
        dx.make_jaxpr(p.bind)(1.0)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="no lower rule"):
        dx.jit(p.bind)(1.0)
    our_mlir.register_lowering(p, our_mlir.lower_fun(lambda x: -x, multiple_results=False), platform="tpu")
    our_mlir.register_lowering(
        p, our_mlir.lower_fun(lambda x: x + np.float32(1), multiple_results=False), platform="cpu"
    )
    assert dx.jit(p.bind)(1.0) == 2.0


def test_lowering_to_a_callback() -> None:
    p = primitive.Primitive("on_the_host")
    p.def_abstract_eval(lambda x: x)

    def lower(ctx, x):
        out, _, alive = our_mlir.emit_python_callback(
            ctx, lambda v: (np.sort(v),), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False
        )
        ctx.module_context.add_keepalive(alive)
        return out

    our_mlir.register_lowering(p, lower)
    np.testing.assert_array_equal(dx.jit(p.bind)(np.float32([3, 1, 2])), [1, 2, 3])


def test_lowering_with_the_builders_of_jaxlib() -> None:
    """A rule may build operations; the constants of all dtypes arrive."""
    from jaxlib.mlir.dialects import stablehlo

    p = primitive.Primitive("built")
    p.multiple_results = True
    p.def_abstract_eval(lambda x, *, mask: (x, dx.typeof(np.array(mask))))

    built = []

    def build(ctx, x, *, mask):
        built.append(ctx.avals_in)
        negated = stablehlo.negate(x)
        two = our_mlir.ir_constant(np.full(ctx.avals_in[0].shape, 2, ctx.avals_in[0].dtype))
        assert our_mlir.aval_to_ir_type(ctx.avals_in[0]) == x.type
        return [stablehlo.add(negated, two), [our_mlir.ir_constant(np.array(mask))]]

    our_mlir.register_lowering(p, build)
    for dtype in ("float32", "int8", "bfloat16"):
        out, mask = dx.jit(lambda x: p.bind(x, mask=(True, False, True)))(
            np.array([1, 2, 5], dnp.dtype(dtype))
        )
        np.testing.assert_array_equal(out.astype("float32"), [1, 0, -3])
        np.testing.assert_array_equal(mask, [True, False, True])
    assert [avals[0].dtype for avals in built] == ["float32", "int8", dnp.bfloat16], (
        "called once for each type"
    )
    q = primitive.Primitive("mistaken")
    q.def_abstract_eval(lambda x: x)
    our_mlir.register_lowering(q, lambda ctx, x: [x + 1])
    with pytest.raises(dx.errors.RuleError, match="mistaken"):
        dx.jit(q.bind)(1.0)


def test_rules_of_didax_by_the_registries() -> None:
    add, mul = primitive_named("add"), primitive_named("mul")
    x = np.float32([1.0, 2.0])
    out, out_dot = our_ad.primitive_jvps[mul]((x, x), (x, our_ad.Zero(dx.typeof(x))))
    np.testing.assert_allclose(out_dot, x * x)
    (ct, other) = our_ad.primitive_transposes[mul](x, our_ad.UndefinedPrimal(dx.typeof(x)), 2 * x)
    np.testing.assert_allclose(ct, 2 * x * x)
    assert other is None
    out, dim = our_batching.primitive_batchers[add]((x, np.float32(1)), (0, None))
    assert dim == 0 and out.shape == (2,)
    with pytest.raises(TypeError, match="hold no programs"):
        our_ad.primitive_jvps[primitive_named("jit")] = lambda *_: None
    stop = primitive_named("stop_gradient")
    our_ad.primitive_transposes[stop] = lambda ct, x: (ct,)
    try:
        assert dx.linear_transpose(stop.bind, 1.0)(3.0)[0] == 3.0
    finally:
        del our_ad.primitive_transposes[stop]
    with pytest.raises(NotImplementedError):
        dx.linear_transpose(stop.bind, 1.0)(3.0)


def test_the_current_trace() -> None:
    state = core_names.get_opaque_trace_state()
    assert state == core_names.get_opaque_trace_state() and core_names.trace_state_clean()
    found = []

    def f(x):
        trace = core_names.find_top_trace((x,))
        found.append(
            (isinstance(x, our_ad.JVPTracer) and x._trace.main is trace.main, core_names.is_concrete(x))
        )
        assert core_names.get_opaque_trace_state() != state and not core_names.trace_state_clean()
        return x * 2

    dx.jvp(f, (1.0,), (1.0,))
    assert found == [(True, True)]
    dx.jit(lambda x: found.append(core_names.unsafe_am_i_under_a_jit_DO_NOT_USE()) or x)(1.0)
    dx.vmap(lambda x: found.append(core_names.unsafe_get_axis_names_DO_NOT_USE()) or x, axis_name="i")(
        np.ones(1)
    )
    assert found[1:] == [True, ["i"]]
    with pytest.raises(dx.errors.ConcretizationTypeError, match="because I say so"):
        dx.jit(lambda x: core_names.concrete_or_error(int, x, "because I say so"))(1)
    assert core_names.mapped_aval(3, 1, dx.typeof(np.ones((2, 3)))).shape == (2,)
    assert core_names.valid_jaxtype(1.0) and not core_names.valid_jaxtype("x")


def test_partial_evaluation() -> None:
    """Results of known values are known, and the program holds the rest."""
    y = dnp.arange(3.0)
    unknown = our_pe.PartialVal.unknown(dx.typeof(y))
    program, outs, consts = our_pe.trace_to_jaxpr_nounits(
        lambda x, y: [dnp.sin(y), x * dnp.sin(y)], [unknown, our_pe.PartialVal.known(y)]
    )
    assert [p.is_known() for p in outs] == [True, False] and outs[1].get_aval() is dx.typeof(y)
    np.testing.assert_allclose(outs[0].get_known(), np.sin(y))
    np.testing.assert_allclose(programs.eval_jaxpr(program, consts, y)[0], y * np.sin(y), rtol=1e-6)
    staged, avals, consts = our_pe.trace_to_jaxpr_dynamic(
        lambda x: [lax.sin(x), y * 2, x + y], [dx.typeof(y)]
    )
    pruned, used = our_pe.dce_jaxpr(staged, [False, True, False])
    assert len(avals) == 3 and len(pruned.eqns) == 1 and used == [True, False] and len(consts) == 1


def test_numbers_that_an_implementation_returns_have_the_default_width() -> None:
    p = primitive.Primitive("of_numpy")
    p.multiple_results = True
    p.def_impl(lambda x, y: [np.multiply(x, y), np.add(np.ones(2), x)])
    assert [x.dtype for x in p.bind(2.0, 3.0)] == ["float32", "float32"]
    with dx.enable_x64(True):
        assert [x.dtype for x in p.bind(2.0, 3.0)] == ["float64", "float64"]
