"""Arrays and programs on the devices of several processes, with real processes and collectives on this machine."""

from pathlib import Path

import pytest

from tests.distributed.jobs import check, launch

pytestmark = pytest.mark.ci  # starts processes

EVERYTHING = """
# Who is there.
assert count == 2 and dx.distributed.is_initialized() and dx.process_indices() == [0, 1]
assert dx.device_count() == 4 and dx.local_device_count() == 2 and mesh.is_multi_process
assert [d.process_index for d in dx.devices()] == [0, 0, 1, 1]
assert dx.local_devices() == dx.local_devices(me) == dx.devices()[2 * me : 2 * me + 2]

# Arrays of all processes, of which each has its parts.
x = dx.make_array_from_process_local_data(split, np.arange(4.0) + 4 * me)
assert x.shape == (8,) and not x.is_fully_addressable and x.sharding is split
assert [s.index for s in x.addressable_shards] == [(slice(4 * me + i, 4 * me + i + 2, None),) for i in (0, 2)]
assert [s.data is None for s in x.global_shards] == ([False] * 2 + [True] * 2)[:: 1 if me == 0 else -1]
assert str(x) == repr(x) == f"Array(shape=(8,), dtype=float32, sharding={split})"
grid = np.arange(16, dtype=np.int8).reshape(8, 2)
y = dx.make_array_from_callback((8, 2), split, lambda index: grid[index])
same = dx.device_put(np.arange(8.0), split)  # the same in all
assert all((a.data == b.data).all() for a, b in zip(x.addressable_shards, same.addressable_shards))

# Programs, eager and compiled: each process runs its part, and they exchange.
assert float(x.sum()) == 28 and int(y[::2].sum()) == grid[::2].sum()
gradient = dx.jit(dx.grad(lambda x: (dnp.sin(x) ** 2).sum() * x.mean()))(x)
wanted = dx.grad(lambda x: (dnp.sin(x) ** 2).sum() * x.mean())(dnp.arange(8.0))
assert np.allclose(multihost_utils.process_allgather(gradient, tiled=True), wanted, atol=1e-5)
ring = dx.shard_map(lambda v: lax.ppermute(v, "data", [(i, (i + 1) % 4) for i in range(4)]),
                    mesh=mesh, in_specs=dx.P("data"), out_specs=dx.P("data"))
assert multihost_utils.process_allgather(ring(x), tiled=True).tolist() == [6, 7, 0, 1, 2, 3, 4, 5]
draws = random.normal(random.key(0), (8,))
spread = dx.jit(lambda key: lax.with_sharding_constraint(random.normal(key, (8,)), split))(random.key(0))
assert (multihost_utils.process_allgather(spread, tiled=True) == draws).all()
assert float(dx.jit(lambda v: v * 2)(dnp.full(1000, float(me))).sum()) == 2000 * me  # a process's own arrays

for _ in range(100):  # none waits for the one before; Gloo hangs when two run at once
    total = x.sum()
assert float(total) == 28

# From one layout to another; keys too.
square = dx.NamedSharding(dx.make_mesh((2, 2), ("a", "b")), dx.P("b", "a"))
assert (np.asarray(dx.device_put(dx.device_put(y, square), whole)) == grid).all()
keys = dx.device_put(random.split(random.key(1), 4), split)
assert (dx.device_put(keys, whole) == random.split(random.key(1), 4)).all()

# Memory of the host: back and forth, into another layout, through a program.
host = dx.device_put(dx.device_put(x, dx.memory.Space.Host), dx.memory.Space.Host)
assert host.sharding == split.with_memory_kind("pinned_host") and float((host + 1).sum()) == 36
assert dx.device_put(host, dx.memory.Space.Device).sharding is split
assert np.asarray(dx.device_put(host, whole.with_memory_kind("pinned_host"))).tolist() == list(range(8))
doubled = dx.jit(lambda v: dx.device_put(v * 2, dx.memory.Space.Host))(host)
assert doubled.sharding == host.sharding and float(doubled.sum()) == 56

# What cannot be is an error, in each process.
def refused(kind, *texts):
    class Refused:
        def __enter__(self): pass
        def __exit__(self, found, error, _):
            assert found is kind, (found, error)
            assert all(text in str(error) for text in texts), error
            return True
    return Refused()

with refused(RuntimeError, "sees only its own part", "process_allgather"):
    np.asarray(x)
with refused(ValueError, "the same in each of them", "process 1 has another array than process 0"):
    dx.device_put(np.arange(8.0) + me, split)
with refused(dx.errors.DistributedError, "process 0, scaled, line", "process 1, scaled, line", "0x3F800000"):
    def scaled(x): return x * 2 + float(me)
    dx.jit(scaled)(x)
with refused(ValueError, "this process's devices"):
    dx.device_put(1.0, dx.local_devices(1 - me)[0])
with refused(ValueError, "axis_shapes: (5,), so 5 devices; there are 4"):
    dx.make_mesh((5,), ("data",))
with refused(ValueError, "of which its own devices hold parts", f"processes [{1 - me}]; this is process {me}"):
    dx.device_put(np.ones(2), dx.NamedSharding(dx.sharding.Mesh(dx.local_devices(1 - me), "d"), dx.P()))
with refused(RuntimeError, "takes part in one job"):
    dx.distributed.initialize()

# multihost_utils
values = {"a": np.int64(me << 40), "b": dnp.array([me > 0, True]), "c": np.zeros((0, 2))}
gathered = multihost_utils.process_allgather(values)
assert gathered["a"].tolist() == [0, 1 << 40] and gathered["a"].dtype == np.int64
assert gathered["b"].tolist() == [[False, True], [True, True]] and gathered["c"].shape == (2, 0, 2)
tiled = multihost_utils.process_allgather((dnp.full((1, 2), me, dnp.bfloat16), float(me)), tiled=True)
assert tiled[0].tolist() == [[0, 0], [1, 1]] and tiled[0].dtype == dnp.bfloat16 and tiled[1].tolist() == [0, 1]
assert multihost_utils.broadcast_one_to_all({"s": np.arange(3) + me})["s"].tolist() == [0, 1, 2]
assert multihost_utils.broadcast_one_to_all(-0.0 - me, is_source=me == 1) == -1
multihost_utils.sync_global_devices("here")
multihost_utils.assert_equal({"w": np.array([1.0, np.nan]), "key": random.key(0), "x": x})
with refused(AssertionError, "the weights", "process 1", "['w']"):
    multihost_utils.assert_equal({"w": np.ones(2) * me}, "the weights")
with refused(AssertionError, "same name", f"'at {me}'"):
    multihost_utils.sync_global_devices(f"at {me}")
with refused(dx.errors.ArgumentError, "same shapes", f"int64[{me}]"):
    multihost_utils.process_allgather(np.arange(me))
with refused(dx.errors.ArgumentError, "tiled=True"):
    multihost_utils.process_allgather(x)
with refused(ValueError, "One process is the source", "sources: 2"):
    multihost_utils.broadcast_one_to_all(1, is_source=True)
mine = {"k": random.split(random.key(me), 2), "v": np.arange(4)}
joined = multihost_utils.host_local_array_to_global_array(mine, mesh, dx.P("data"))
assert joined["v"].shape == (8,) and joined["k"].shape == (4,)
back = multihost_utils.global_array_to_host_local_array(joined, mesh, dx.P("data"))
assert (back["k"] == random.split(random.key(me), 2)).all() and back["v"].tolist() == [0, 1, 2, 3]
print("done")
"""


def test_two_processes_share_arrays_programs_and_errors(tmp_path: Path) -> None:
    output = check(tmp_path, EVERYTHING, "-n", "2", "--devices", "2")
    assert "[0] done" in output and "[1] done" in output


TRAINING = """
# A network on data of which each process has its part; parameters whole, or split over the devices of all ("tensor").
import sys
tensor = sys.argv[1] == "tensor"
data = np.random.default_rng(0)
xs, ys = data.normal(size=(16, 8)).astype("f"), data.normal(size=(16, 1)).astype("f")
weights = {"in": data.normal(size=(8, 8)).astype("f"), "out": data.normal(size=(8, 1)).astype("f")}

def loss(w, x, y):
    return ((dnp.tanh(x @ w["in"]) @ w["out"] - y) ** 2).mean()

@dx.jit
def step(w, x, y):
    value, g = dx.value_and_grad(loss)(w, x, y)
    return value, dx.tree.map(lambda w, g: w - 0.1 * g, w, g)

def train(w, x, y):
    for _ in range(5):
        value, w = step(w, x, y)
    return value, w

value, w = train(weights, xs, ys)  # alone
if tensor:
    split_in, split_out = dx.NamedSharding(mesh, dx.P(None, "data")), split
    there = dx.device_put(weights, {"in": split_in, "out": split_out})
    x, y = dx.device_put((xs, ys), whole)
else:
    there = dx.device_put(weights, whole)
    mine = slice(16 // count * me, 16 // count * (me + 1))
    x, y = dx.make_array_from_process_local_data(split, (xs[mine], ys[mine]))
together, w_together = train(there, x, y)
assert w_together["out"].sharding.is_fully_replicated == (not tensor)
assert np.allclose(value, together, rtol=1e-5)
for name in w:
    assert np.allclose(w[name], multihost_utils.process_allgather(w_together[name], tiled=True), rtol=1e-4, atol=1e-6)
"""


@pytest.mark.parametrize(
    "count, kind",
    [
        (2, "data"),
        pytest.param(2, "tensor", marks=pytest.mark.slow),
        pytest.param(4, "data", marks=pytest.mark.slow),
        pytest.param(4, "tensor", marks=pytest.mark.slow),
    ],
)
def test_training_together_equals_training_alone(tmp_path: Path, count: int, kind: str) -> None:
    check(tmp_path, TRAINING, "-n", str(count), arguments=(kind,))


@pytest.mark.slow
def test_processes_with_different_programs_are_told(tmp_path: Path) -> None:
    """Before the first collective, where they would wait for each other or exchange what does not fit."""
    script = """
    x = dx.make_array_from_process_local_data(split, np.ones(2))
    f = (lambda x: x.sum()) if me == 0 else (lambda x: x.max())
    f.__name__ = "total" if me == 0 else "largest"
    dx.jit(f)(x)
    """
    done = launch(tmp_path, script, "-n", "2")
    assert done.returncode == 1
    for process in "[0]", "[1]":
        lines = [line for line in done.stderr.splitlines() if line.startswith(process)]
        (at,) = [i for i, line in enumerate(lines) if "run the same programs" in line]
        assert "process 0, total, line" in lines[at + 1] and "process 1, largest, line" in lines[at + 2]
