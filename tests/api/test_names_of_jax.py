"""Functions at the top of the package that programs of JAX use: guards, contexts, halves of reverse mode, memory."""

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jax_options import OptionWithoutEffect


def test_no_tracing() -> None:
    f = dx.jit(lambda x: x + 1)
    f(1.0)
    with dx.no_tracing():
        assert f(2.0) == 3.0
        with pytest.raises(
            RuntimeError, match=r"traced anew\.\n  function: <lambda> .*\n  arguments: int32\[\]"
        ):
            f(2)
    assert f(2) == 3


def test_no_execution() -> None:
    f, x = dx.jit(lambda x: x + 1), dnp.ones(3)
    f(x)
    with dx.no_execution():
        for run in (lambda: f(x), lambda: x + 1, lambda: x[1], lambda: dx.random.normal(dx.random.key(0))):
            with pytest.raises(RuntimeError, match="Inside of no_execution nothing is computed"):
                run()
        assert dx.eval_shape(f, x).shape == (3,)
        f.lower(x)
    assert f(x).tolist() == [2, 2, 2]


def test_user_contexts_are_part_of_what_programs_are_staged_under() -> None:
    scale, other, traced = dx.make_user_context(1), dx.make_user_context("a"), []
    f = dx.jit(lambda x: traced.append(other.value) or x * scale.value)
    with scale(3), other("b"), scale(4):
        assert (f(5), scale.value, other.value) == (20, 4, "b")
    assert (f(5), f(6), scale.value) == (5, 6, 1)
    with other("b"), scale(4):
        assert f(5) == 20
    assert traced == ["b", "a"]
    with pytest.raises(TypeError, match="hashable"):
        scale([1])


def test_halves_of_reverse_mode() -> None:
    forward, backward = dx.fwd_and_bwd(
        lambda x, w, k: ((x @ w) * k, "aux"), argnums=(1, -1), has_aux=True, jitted=False
    )
    x = dnp.arange(3.0)
    y, residuals, aux = forward(x, x, 2.0)
    assert (float(y), aux) == (10.0, "aux")
    ct_w, ct_k = backward(residuals, 1.0)
    np.testing.assert_array_equal(ct_w, 2 * x)
    assert ct_k == 5
    forward, backward = dx.fwd_and_bwd(dnp.sin, 0)
    assert backward(forward(0.0)[1], 2.0) == 2.0
    with pytest.raises(ValueError, match="argnums of fwd_and_bwd"):
        dx.fwd_and_bwd(dnp.sin, 1)[0](0.0)


@pytest.mark.cpu
def test_arrays_that_live() -> None:
    x = dnp.arange(7) + 0
    assert any(found is x for found in dx.live_arrays())
    x.delete()
    assert not any(found is x for found in dx.live_arrays("cpu"))
    with pytest.raises(ValueError, match="asked for: 'tpu'"):
        dx.live_arrays("tpu")


def test_maps_over_an_axis_of_the_mesh() -> None:
    x, y = dnp.arange(4.0), dnp.ones((2, 3))
    with dx.set_mesh(dx.make_mesh((1,), ("x",))):
        total = dx.smap(lambda x: lax.psum(x.sum(), "x"), in_axes=(0,), out_axes=None, axis_name="x")
        assert total(x) == 6
        add = dx.smap(in_axes=(1, None), out_axes=1, axis_name="x")(lambda a, b: a["k"] + b)
        np.testing.assert_array_equal(add({"k": y}, y), 2 * y)
    with pytest.raises(TypeError, match="in_axes: -1"):
        dx.smap(lambda x: x, in_axes=-1, out_axes=0, axis_name="x")
    with pytest.raises(TypeError, match="Use shard_map for several axes"):
        dx.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("x", "y"))


def test_memory_shards_and_devices() -> None:
    x = dx.device_put({"x": 1.0}, dx.memory.Space.Host)
    assert x["x"] == dx.device_put(1.0, dx.memory.Space.Device)
    assert isinstance(dx.devices()[0], dx.Device)
    assert isinstance(dnp.ones(2).addressable_shards[0], dx.Shard)
    assert (dx.host_count(), dx.host_id(), dx.host_ids()) == (1, 0, [0])
    assert "jaxlib" in (dx.print_environment_info(return_string=True) or "")


@pytest.mark.parametrize(
    "name",
    ["allow_f16_reductions", "auto_pcast", "enable_custom_prng", "jax2tf_associative_scan_reductions",
     "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp"],
)  # fmt: skip
def test_switches_that_have_no_effect(name: str) -> None:
    with getattr(dx, name)(True) as nothing:
        assert nothing is None
    assert isinstance(dx.legacy_prng_key("error"), OptionWithoutEffect)


def test_shardings_by_name() -> None:
    from didax import sharding

    device = dx.devices()[0]
    assert sharding.make_single_device_sharding(device, memory_kind="device").device_set == {device}
    host = sharding.make_single_device_sharding(device, memory_kind="pinned_host")
    assert host.memory_kind == "pinned_host" and host.device_set == {device}
    with pytest.raises(TypeError, match="without devices"):
        sharding.use_abstract_mesh(dx.make_mesh((1,), ("x",)))
