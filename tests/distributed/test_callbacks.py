# ruff: noqa: E501 (the script is wide)
"""Callbacks into Python from programs of several processes: who calls, who gets the results, who is told of errors."""

from pathlib import Path

import pytest

from tests.distributed.jobs import check

pytestmark = pytest.mark.ci  # starts processes

CALLS = """
import contextlib

@contextlib.contextmanager
def refused(kind, *words):
    try:
        yield
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"no {kind.__name__}")

F32 = dx.ShapeDtypeStruct((), "float32")
x = dx.make_array_from_callback((8,), split, lambda i: np.arange(8, dtype="float32")[i])
everywhere = lambda f: dx.shard_map(f, mesh=mesh, in_specs=dx.P("data"), out_specs=dx.P())
calls = []

# On whole values the process of the first device calls; all have the results, to the last bit.
def several(a):
    calls.append(a.tolist())
    return a * 2, np.float32(-0.0), np.array([True, False]), np.array([1 + 2j, np.nan], "complex64"), np.int8([-3])

@dx.jit
def once(x):
    outs = [x, F32, dx.ShapeDtypeStruct((2,), bool), dx.ShapeDtypeStruct((2,), "complex64"), dx.ShapeDtypeStruct((1,), "int8")]
    y, *rest = dx.pure_callback(several, outs, x)
    dx.debug.print("sum {}", x.sum())
    dx.debug.callback(lambda s: calls.append(float(s)), x.sum())
    return y + x, rest

y, rest = once(x)
assert multihost_utils.process_allgather(y, tiled=True).tolist() == [3.0 * i for i in range(8)]
assert calls == ([[*range(8)], 28.0] if me == 0 else []), calls
assert np.signbit(rest[0]) and rest[1].tolist() == [True, False] and rest[3].tolist() == [-3]
assert rest[2][0] == 1 + 2j and np.isnan(rest[2][1])

# What is ordered keeps its order.
order = []
def counted(i):
    order.append(int(i))
    return np.float32(i + 1)
steps = lambda x: lax.scan(lambda c, _: (dx.io_callback(counted, F32, c, ordered=True), None), x[0], None, length=3)[0]
assert float(dx.jit(steps)(x)) == 3 and order == ([0, 1, 2] if me == 0 else [])

# Within shard_map every process calls for its own devices; callbacks may compute on one device.
calls.clear()
large = dx.jit(lambda a: dnp.sin(a @ a) @ a)
def own(a):
    calls.append(a.tolist())
    return np.float32(a.sum() + 0 * large(np.ones((200, 200), "float32")).sum())
assert float(dx.jit(everywhere(lambda a: lax.psum(dx.pure_callback(own, F32, a), "data")))(x)) == 28
assert sorted(calls) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]][me]

# Over some axes of a mesh there is a call for each part, by the process of the part's first device.
grid = dx.sharding.Mesh(mesh.devices.reshape(2, 2), ("a", "b"))
def twice(a):
    calls.append(a.tolist())
    return a * 2
for axis, here in (("a", [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]), ("b", [[[0, 1, 2, 3], [4, 5, 6, 7]], []])):
    calls.clear()
    part = dx.shard_map(lambda a: dx.pure_callback(twice, a, a), mesh=grid, in_specs=dx.P(axis), out_specs=dx.P(axis), axis_names={axis})
    assert float(dx.jit(lambda x: (part(x) * dnp.arange(8)).sum())(x)) == 280 and sorted(calls) == here[me], calls

# What fails in one process is an error in all that depend on it, and the next program runs.
for failing, kind, words in (
    (lambda a: 1 / 0, ZeroDivisionError, ("process 0", "ZeroDivisionError: division by zero")),
    (lambda a: np.asarray(once(x)[0]), RuntimeError, ("process 0", "cannot run another program on several devices")),
):
    with refused(*((kind,) if me == 0 else (dx.errors.DistributedError, *words))):
        dx.jit(lambda x: dx.pure_callback(failing, F32, x.sum()))(x)
with refused(*((KeyError,) if me == 1 else (dx.errors.DistributedError, "process 1", "KeyError"))):
    dx.jit(everywhere(lambda a: lax.psum(dx.pure_callback(lambda a: np.float32({0.0: 1, 2.0: 2}[float(a[0])]), F32, a), "data")))(x)
with refused(dx.errors.CheckError, "too large"):
    def checked(x):
        dx.debug.check(x.sum() < 9, "too large")
        return x * 2
    dx.jit(checked)(x)
with refused(dx.errors.CheckError, "would leave the others waiting"):
    uneven = lambda a: lax.cond(a[0] > 2, lambda a: lax.psum(a, "data"), lambda a: a, a)
    dx.jit(dx.shard_map(uneven, mesh=mesh, in_specs=dx.P("data"), out_specs=dx.P("data"), check_vma=False))(x)
assert float(x.sum()) == 28
"""


def test_programs_of_two_processes_call_python(tmp_path: Path) -> None:
    output = check(tmp_path, CALLS, "-n", "2", "--devices", "2")
    assert output.count("sum 28.0") == 1 and "[0] sum 28.0" in output
