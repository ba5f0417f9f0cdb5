"""What programs written for JAX ask of Didax itself, without the layer."""

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from didax.sharding import NamedSharding, PartitionSpec


def test_types_are_spelt_as_in_jax() -> None:
    aval = dx.typeof(np.ones(2, "float32"))
    assert (
        dx.core.ShapedArray([2], dnp.float32)
        is aval
        is dx.core.ShapedArray((2,), "float32", sharding=aval.sharding)
    )
    assert aval.sharding.mesh.axis_names == () and aval.to_tangent_aval() is aval


def test_keywords_that_ask_for_nothing() -> None:
    x = dnp.ones(2)
    nowhere = dx.typeof(x).sharding
    assert dx.jit(lambda x: (x, x), in_shardings=(None,), out_shardings=(None, None))(x)[0].shape == (2,)
    assert dx.random.bernoulli(dx.random.key(0), 0.5, (2,), out_sharding=nowhere).shape == (2,)
    assert not dnp.iscomplexobj(dx.random.key(0)) and dnp.isrealobj(dx.random.key(0))
    assert dnp.allclose(dx.random.key(0), dx.random.key(0))
    assert not dnp.allclose(dx.random.key(0), dx.random.key(1))


def test_functions_tell_their_rules() -> None:
    f = dx.custom_jvp(lambda x, n: x, nondiff_argnums=(1,))
    assert f.nondiff_argnums == (1,) and f.jvp is None
    rule = f.defjvp(lambda n, primals, tangents: (primals[0], tangents[0]))
    assert f.jvp is rule
    g, fwd, bwd = dx.custom_vjp(dnp.sin), lambda x: (x, None), lambda _, ct: (ct,)
    g.defvjp(fwd, bwd, symbolic_zeros=True)
    assert (g.fwd, g.bwd, g.symbolic_zeros, g.optimize_remat) == (fwd, bwd, True, False)


def test_the_type_of_a_ref() -> None:
    ref = dx.new_ref(dnp.ones(3))
    assert dx.typeof(ref) == dx.typeof(dx.new_ref(dnp.zeros(3))) != dx.typeof(ref[...])
    assert dx.typeof(ref).inner_aval is dx.typeof(ref[...]) and dx.typeof(ref).shape == (3,)


def test_where_an_array_lies() -> None:
    x = dnp.ones((2, 3))
    (device,) = x.sharding.addressable_devices
    assert x.sharding.num_devices == 1
    everywhere = NamedSharding(dx.make_mesh((1,), "x"), PartitionSpec("x"))
    assert isinstance(x.sharding, dx.sharding.Sharding) and everywhere.is_equivalent_to(x.sharding, 2)
    assert x.sharding.devices_indices_map(x.shape) == {device: (slice(None), slice(None))}
    heard = []
    dx.debug.callback(heard.append, x, partitioned=True)
    assert heard[0].shape == (2, 3)


def test_einsum_with_a_product_of_its_own() -> None:
    asked = []

    def product(x, y, numbers, **how):
        asked.append((numbers, how))
        return lax.dot_general(x, y, numbers, **how)

    x = dnp.arange(6.0).reshape(2, 3)
    out = dnp.einsum("ij,kj->ik", x, x, _dot_general=product)
    np.testing.assert_array_equal(out, np.asarray(x) @ np.asarray(x).T)
    assert asked == [((((1,), (1,)), ((), ())), {"precision": None, "preferred_element_type": x.dtype})]


def test_cond_traces_its_true_branch_first() -> None:
    order = []
    dx.make_jaxpr(lambda p: lax.cond(p, lambda: order.append("true"), lambda: order.append("false")))(True)
    dx.make_jaxpr(lambda i: lax.switch(i, [lambda: order.append(0), lambda: order.append(1)]))(0)
    assert order == ["true", "false", 0, 1]


def test_dtypes_as_in_jax() -> None:
    """The option narrows what programs state, with a warning, and nothing that they ask about."""
    with config.override(as_in_jax=True):
        for make in (
            lambda: dnp.zeros(2, "float64"),
            lambda: dnp.ones(2, "float32").astype(np.float64),
            lambda: lax.convert_element_type(1, "float64"),
            lambda: dx.random.uniform(dx.random.key(0), (2,), "float64"),
            lambda: dx.jit(lambda x: dnp.asarray(x, "float64"))(np.ones(2, "float32")),
        ):
            with pytest.warns(UserWarning, match="truncated to float32"):
                assert make().dtype == "float32"
        assert dnp.finfo("float64").bits == 64 and dnp.iinfo("int64").bits == 64
        assert (
            dnp.promote_types("float64", "float32") == "float64" and dnp.result_type("float64") == "float32"
        )
        with dx.enable_x64():
            assert dnp.zeros(2, "float64").dtype == "float64" == dnp.result_type("float64")
    assert dnp.zeros(2, "float64").dtype == "float64"


def test_callbacks_as_in_jax() -> None:
    def host(x):
        assert isinstance(x, dx.Array)
        if x < 0:
            raise ValueError("below zero")
        return np.asarray(x)

    with config.override(as_in_jax=True):
        eager = lambda x: dx.pure_callback(host, x, x)
        for f in (eager, dx.jit(eager)):
            assert f(np.float32(1)) == 1
            with pytest.raises(dx.errors.JaxRuntimeError, match="below zero") as caught:
                f(np.float32(-1))
            assert isinstance(caught.value.__cause__, ValueError)


def test_check_takes_its_arguments_by_name() -> None:
    with pytest.raises(dx.errors.CheckError, match="no 3"):
        dx.checkify.check(pred=False, msg="no {}".format(3))  # noqa: UP032 - as chex calls it
    with pytest.raises(RuntimeError, match="Unknown backend 'tpu'"):
        dx.devices("tpu")
