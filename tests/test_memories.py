"""Memories of the host: where arrays lie, what programs bring to the device, and what they leave in another memory.

On the CPU all memories are one, but XLA tells them apart: it refuses a buffer that lies elsewhere than its array says.
What programs for GPUs move is read in their texts.
"""

import copy
import functools
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import checkpoints, lax
from didax.sharding import SingleDeviceSharding
from tests.checks import python_calls

HOST, DEVICE = dx.memory.Space.Host, dx.memory.Space.Device
X = np.arange(12, dtype="float32").reshape(3, 4)


def kind(x: Any) -> Any:
    return dx.tree.map(lambda x: x.sharding.memory_kind, x)


def pinned(device: Any = None) -> Any:
    return SingleDeviceSharding(device or dx.devices()[0], memory_kind="pinned_host")


def on_host() -> Any:
    return dx.device_put(X, pinned())


def moves(f: Callable[..., Any], *args: Any) -> list[str]:
    """The kinds of memory that values are moved to in the program for a GPU, in the order of its text."""
    text = dx.jit(f).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    return re.findall(r'_xla_buffer_placement = "(\w+)"', text)


# --- Arrays ---------------------------------------------------------------------------------------------------------


def test_an_array_lies_in_the_memory_that_its_sharding_says() -> None:
    x = on_host()
    assert kind(x) == "pinned_host" and x.sharding == pinned() and x.devices() == {dx.devices()[0]}
    assert hash(x.sharding) == hash(pinned()) and x.sharding != pinned().with_memory_kind("device")
    assert repr(x.sharding).endswith("memory_kind=pinned_host)") and x.committed
    assert x.format.sharding == x.sharding and x.addressable_shards[0].data is x
    for there in (HOST, {"a": HOST}, pinned().with_memory_kind("device").with_memory_kind("pinned_host")):
        assert kind(dx.device_put({"a": X}, there)) == {"a": "pinned_host"}
    for back in (DEVICE, dx.devices()[0], SingleDeviceSharding(dx.devices()[0])):
        assert kind(dx.device_put(x, back)) == "device"
    assert kind(dx.device_put((x, x, X), (None, DEVICE, HOST))) == ("pinned_host", "device", "pinned_host")
    assert kind(dx.device_put(x, dx.memory.Space.Any)) == "pinned_host"


def test_the_numbers_of_an_array_in_host_memory_are_read_and_copied_as_of_others() -> None:
    x = on_host()
    assert np.array_equal(np.asarray(x), X) and float(x[1, 1]) == 5 and f"{x}" == f"{X}"
    same = [x.copy(), dnp.array(x), copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
    assert all(np.array_equal(y, X) for y in same)
    assert kind([*same, dnp.zeros_like(x)]) == ["pinned_host"] * 6
    assert np.array_equal(np.from_dlpack(x), X)
    x.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="gone"):
        x + 1


def test_moved_arrays_are_arrays_of_their_own() -> None:
    x = dx.device_put(X)
    there, same = dx.device_put(x, HOST), on_host()
    twin = dx.device_put(same, pinned())
    x.delete(), same.delete()
    assert np.array_equal(there, X) and np.array_equal(twin, X)


def test_operations_compute_in_the_memory_of_the_device() -> None:
    x = on_host()
    outs = [x + 1, x * x, x[1:], x.at[0].set(0.0), dnp.concatenate([x, X]), x.sum(), dnp.sort(x)]
    assert kind(outs) == ["device"] * len(outs)
    assert np.array_equal(outs[3], np.where(np.arange(3)[:, None] == 0, 0, X)) and float(outs[5]) == X.sum()


def test_random_keys_lie_in_host_memory() -> None:
    keys = dx.device_put(dx.random.split(dx.random.key(0), 2), HOST)
    assert kind(keys) == "pinned_host"
    assert dx.random.normal(keys[1]) == dx.random.normal(dx.random.split(dx.random.key(0), 2)[1])


def test_a_memory_that_a_device_has_not_is_an_error_that_names_those_it_has() -> None:
    for make in (
        lambda: SingleDeviceSharding(dx.devices()[0], memory_kind="attic"),
        lambda: dx.NamedSharding(dx.make_mesh((1,), ("a",)), dx.P(), memory_kind="attic"),
        lambda: on_host().sharding.with_memory_kind("attic"),
        lambda: dx.jit(dx.grad(dx.checkpoint(lambda x: dnp.sin(x @ x).sum(), policy=ATTIC)))(np.eye(2)),
    ):
        with pytest.raises(
            ValueError, match=r"memory kind: 'attic', device: .*\n.*memories.*: device, pinned_host"
        ):
            make()


def test_checkpoints_are_restored_into_the_memory_of_what_they_are_to_be_like(tmp_path: Any) -> None:
    x = on_host()
    named = dx.NamedSharding(dx.make_mesh((1,), ("a",)), dx.P("a"), memory_kind="pinned_host")
    checkpoints.save(tmp_path, {"x": x, "y": dx.device_put(X, named)})
    like = {"x": x, "y": dx.ShapeDtypeStruct(X.shape, X.dtype, sharding=named)}
    found = checkpoints.restore(tmp_path, like)
    assert kind(found) == {"x": "pinned_host", "y": "pinned_host"}
    assert np.array_equal(found["x"], X) and np.array_equal(found["y"], X)
    struct = {"x": dx.ShapeDtypeStruct(X.shape, X.dtype, sharding=x.sharding), "y": X}
    assert kind(checkpoints.restore(tmp_path, struct)) == {"x": "pinned_host", "y": "device"}


# --- Programs -------------------------------------------------------------------------------------------------------


def test_programs_take_arguments_where_they_lie_and_leave_results_where_they_put_them() -> None:
    x = on_host()

    @dx.jit
    def f(x: Any, y: Any) -> Any:
        there = dx.device_put(x * y, HOST)
        return x + 1, there, there + 1, dx.device_put(there, DEVICE), dx.device_put(y, pinned()), x

    for a, b in [(x, X), (x, x), (X, x), (X, X)] * 2:
        outs = f(a, b)
        same = "pinned_host" if a is x else "device"
        assert kind(outs) == ("device", "pinned_host", "device", "device", "pinned_host", same)
        assert [
            np.array_equal(u, v) for u, v in zip(outs, [X + 1, X * X, X * X + 1, X * X, X, X], strict=True)
        ]


def test_repeated_calls_tell_memories_apart() -> None:
    kinds = [memory.kind for memory in dx.devices()[0].addressable_memories()]
    arrays = [dx.device_put(X, pinned().with_memory_kind(name)) for name in kinds]
    f = dx.jit(lambda x: (x, x + 1))
    for _ in range(4):
        assert [kind(f(x)) for x in arrays] == [(name, "device") for name in kinds]


def test_results_of_calls_and_loops_lie_where_their_bodies_put_them() -> None:
    x = on_host()
    inner = dx.jit(lambda x: (dx.device_put(x * 2, HOST), x + 1))
    assert kind(dx.jit(lambda x: inner(x))(X)) == ("pinned_host", "device")
    assert kind(dx.jit(lambda x: inner(x)[0] + 1)(x)) == "device"
    f = lambda xs: lax.scan(lambda c, x: (c + x, dx.device_put(c, HOST)), dnp.zeros(4), xs)
    for outs in (f(x), dx.jit(f)(x)):
        assert kind(outs) == ("device", "pinned_host")
        assert np.array_equal(outs[1], np.cumsum(X, 0) - X)
    branch = dx.jit(lambda x: lax.cond(x[0, 0] > 0, lambda x: dx.device_put(x, HOST), lambda x: x + 1, x))
    assert kind(branch(x)) == "device" and np.array_equal(branch(x + 1), X + 1)


def test_branches_move_nothing() -> None:
    """XLA refuses a program for GPUs in which a branch moves its operand, or what computes with it, to the host."""

    def branch(x: Any) -> Any:
        there = lambda x: dx.jit(lambda x: dx.device_put(x, HOST))(x) * 2
        loop = lambda x: lax.scan(lambda c, x: (c, dx.device_put(x, HOST)), 0.0, x)[1]
        return lax.cond(x[0, 0] >= 0, there, loop, x)

    assert moves(branch, X) == [] and moves(branch, on_host()) == ["device"]
    assert np.array_equal(dx.jit(branch)(X), 2 * X) and np.array_equal(dx.jit(branch)(X - 1), X - 1)
    named = dx.NamedSharding(dx.make_mesh((1,), ("a",)), dx.P("a"), memory_kind="pinned_host")
    split = lambda x: lax.with_sharding_constraint(x * 2, named)
    f = dx.jit(lambda x: lax.cond(x[0, 0] >= 0, split, lambda x: x, x))
    text = f.trace(dx.device_put(X, named.with_memory_kind("device"))).lower().as_text()
    assert '<@mesh, [{"a"}, {}]>' in text  # the layout that it asks for stays


def test_shardings_of_arguments_and_results_say_memories() -> None:
    x = on_host()
    f = dx.jit(lambda x, y: (x + y, x * y), in_shardings=(pinned(), None), out_shardings=(pinned(), None))
    for a in (x, X, dx.device_put(X)):
        outs = f(a, X)
        assert kind(outs) == ("pinned_host", "device") and np.array_equal(outs[0], X + X)
    compiled = f.lower(X, X).compile()
    (first, _), _ = compiled.input_shardings
    assert first == pinned() and compiled.output_shardings[0] == pinned()
    assert kind(compiled.out_info) == ("pinned_host", "device") == kind(compiled(X, X))
    struct = dx.ShapeDtypeStruct(X.shape, X.dtype, sharding=pinned())
    compiled = dx.jit(lambda x: x + 1).lower(struct).compile()
    assert compiled.input_shardings[0] == (pinned(),)
    assert np.array_equal(compiled(x), X + 1) and np.array_equal(compiled(X), X + 1)


@pytest.mark.cpu
def test_donated_arrays_in_host_memory_are_given_to_results_there() -> None:
    step = dx.jit(lambda x: dx.device_put(x + 1, HOST), donate_argnums=0)
    x = on_host()
    other = copy.copy(x)
    y = step(step(x))
    assert kind(y) == "pinned_host" and np.array_equal(y, X + 2) and np.array_equal(other, X)
    y = before = on_host()
    for _ in range(3):  # repeated calls
        y, before = step(y), y
        assert before.is_deleted()
    twin = dx.device_put(y, HOST)
    assert np.array_equal(step(y), X + 4) and np.array_equal(twin, X + 3)
    with pytest.raises(RuntimeError, match="donated or deleted"):
        step(before)
    text = step.trace(y).lower(lowering_platforms=("cuda",)).as_text()
    assert "buffer_donor" not in text and "buffer_donor" in step.lower(X).as_text()
    z = dx.jit(lambda x: x + 1, donate_argnums=0)(other)
    assert kind(z) == "device" and np.array_equal(z, X + 1)


def test_programs_that_call_python_take_and_leave_arrays_in_host_memory() -> None:
    double = lambda x: dx.pure_callback(lambda a: a * 2, dx.ShapeDtypeStruct(x.shape, x.dtype), x)
    y = dx.jit(lambda x: dx.device_put(double(x) + 1, HOST))(on_host())
    assert kind(y) == "pinned_host" and np.array_equal(y, X * 2 + 1)


def test_a_program_is_told_in_which_memory_arguments_and_results_lie() -> None:
    text = dx.jit(lambda x: (x + 1, dx.device_put(x, HOST))).lower(on_host()).as_text()
    main = text[text.index("@main") :].splitlines()[0]
    assert main.count('mhlo.memory_kind = "pinned_host"') == 2
    assert "memory_kind" not in dx.jit(lambda x: x + 1).lower(X).as_text()


def test_a_gpu_moves_what_is_computed_with_once_and_never_computes_in_host_memory() -> None:
    x = on_host()
    assert moves(lambda x: x * 2 + dnp.sin(x), x) == ["device"]
    assert moves(lambda x: x, x) == []
    assert moves(lambda x: dx.device_put(x, HOST), x) == []
    assert moves(lambda x: dx.device_put(x * 2, HOST), X) == ["pinned_host"]
    assert moves(lambda x: dx.device_put(dx.device_put(x, DEVICE) * 2, DEVICE), x) == ["device"]
    there = lambda x: dx.device_put(dnp.sin(x), HOST)
    assert moves(lambda x: (there(x) + 1, there(x) * 2), X) == ["pinned_host", "device"]
    # rows of a loop, forward and backward
    step = lambda h, w: (dnp.sin(h * dx.device_put(w, DEVICE)), dx.device_put(h, HOST))
    assert moves(lambda w: lax.scan(step, dnp.ones(4), w), x) == ["device", "pinned_host"]
    assert (
        moves(lambda w: lax.scan(step, dnp.ones(4), w, unroll=3), x)
        == ["device"] + ["pinned_host", "device"] * 3
    )


# --- Derivatives ----------------------------------------------------------------------------------------------------


def test_moves_are_linear_and_cotangents_go_to_the_memory_of_the_primal() -> None:
    x, square = on_host(), lambda x: (dx.device_put(x, DEVICE) ** 2).sum()
    assert kind(dx.grad(square)(x)) == "pinned_host" and np.array_equal(dx.grad(square)(x), 2 * X)
    assert kind(dx.grad(square)(dx.device_put(X))) == "device"
    there = lambda x: (dx.device_put(dnp.sin(x), HOST) * 2).sum()
    for grad in (dx.grad(there), dx.jit(dx.grad(there)), dx.vmap(dx.grad(there))):
        assert kind(grad(x)) == "device"
        np.testing.assert_allclose(grad(x), 2 * np.cos(X), rtol=1e-6)
    traced = lambda x: (dx.device_put(x, DEVICE, src=HOST) ** 2).sum()
    assert kind(dx.jit(dx.grad(traced))(x)) == "pinned_host"
    y, y_dot = dx.jvp(lambda x: dx.device_put(x * x, HOST), (X,), (X,))
    assert kind((y, y_dot)) == ("pinned_host", "pinned_host") and np.array_equal(y_dot, 2 * X * X)
    np.testing.assert_allclose(dx.hessian(there)(dnp.ones(2)), -2 * np.sin(1) * np.eye(2), atol=1e-6)


NAMES = dx.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["h"],
    offload_src="device",
    offload_dst="pinned_host",
)
DOTS = dx.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")


ATTIC = dx.checkpoint_policies.offload_dot_with_no_batch_dims("device", "attic")


def layer(x: Any, w: Any) -> Any:
    return dnp.cos(dx.checkpoint_name(dnp.sin(x @ w), "h"))


def in_a_loop(layer: Any, ws: Any, x: Any) -> Any:
    return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0].sum()


def written_out(layer: Any, ws: Any, x: Any) -> Any:
    return functools.reduce(layer, list(ws), x).sum()


@pytest.mark.parametrize("policy", [NAMES, DOTS])
@pytest.mark.parametrize("network", [written_out, in_a_loop])
def test_policies_offload_residuals_to_host_memory(network: Any, policy: Any) -> None:
    ws, x = np.linspace(-1, 1, 32, dtype="float32").reshape(2, 4, 4), np.ones((3, 4), "float32")
    offloaded = functools.partial(network, dx.checkpoint(layer, policy=policy))
    wanted = dx.grad(functools.partial(network, layer))(ws, x)
    for grad in (dx.grad(offloaded), dx.jit(dx.grad(offloaded))):
        np.testing.assert_allclose(grad(ws, x), wanted, atol=1e-5)
        assert kind(grad(ws, x)) == "device"
    _, back = dx.vjp(offloaded, ws, x)
    kept = [y.sharding.memory_kind for y in dx.tree.leaves(back) if isinstance(y, dx.Array)]
    count = 2 if network is written_out else 1
    assert kept.count("pinned_host") == count
    found = dx.ad_checkpoint.saved_residuals(offloaded, ws, x)
    assert len([r for r in found if r.origin.endswith(", in pinned_host")]) == count
    assert sorted(moves(dx.grad(offloaded), ws, x)) == ["device"] * count + ["pinned_host"] * count
    text = dx.jit(dx.grad(offloaded)).trace(ws, x).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("optimization_barrier") == count  # which the way back to the device waits for


def test_calls_on_one_device_are_as_short_when_other_arrays_lie_in_host_memory() -> None:
    x, f = dx.device_put(X), dx.jit(lambda x: x + 1)
    before = [f(x) is None or f(x) is None or python_calls(f, x), python_calls(lambda: x + 1)]
    on_host()
    assert [python_calls(f, x), python_calls(lambda: x + 1)] == before


def test_a_sharding_of_one_device_is_its_own_copy() -> None:
    """Trees that are copied, as states of training are, hold shardings; a pickle could not name the device."""
    for place in (SingleDeviceSharding(dx.devices()[0]), dnp.ones(2).sharding):
        assert copy.copy(place) is place and copy.deepcopy({"at": place})["at"] is place
        with pytest.raises(TypeError, match=r"bound to a device[^\n]*\n  sharding: Single.*\n.*position"):
            pickle.dumps(place)
