"""Checkpoints: what is saved is restored bit by bit, what does not fit is told, and no kill leaves half of one."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import checkpoints, random
from didax.core import dtypes
from didax.runtime.tensor_files import TensorFile
from tests.distributed.jobs import check, environment


def same(one: Any, two: Any) -> bool:
    if isinstance(one, dx.Array) and dx.dtypes.issubdtype(one.dtype, dx.dtypes.prng_key):
        one, two = random.key_data(one), random.key_data(two)
    if isinstance(one, dx.Array | np.ndarray | np.generic):
        a, b = np.asarray(one), np.asarray(two)
        return (
            type(one) is type(two)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    return type(one) is type(two) and one == two


def test_every_kind_of_leaf_comes_back_bit_by_bit(tmp_path: Path):
    tree = {
        "dtypes": {
            str(dtype): np.arange(6).reshape(2, 3).astype(dtype)
            for dtype in dtypes.ALL_DTYPES
            if dtypes.dtype_name(dtype) != "float0"
        },
        "nan": dnp.array([np.nan, -0.0, np.inf]),
        "keys": [random.key(3), random.split(random.key(1, impl="rbg"), (2, 2))],
        "empty": (dnp.zeros((0, 3)), {}, [], None),
        "weak": dnp.asarray(2.0),
        "numbers": (True, 10**30, 0.1, 1 - 2j, float("inf")),
        "numpy": (np.arange(3.0), np.float64(0.1)),
        7: dnp.arange(4)[None],
    }
    tree = {str(name): value for name, value in tree.items()}
    tree["arrays"] = {name: dnp.asarray(x) for name, x in tree["dtypes"].items() if x.dtype.itemsize < 8}
    folder = checkpoints.save(tmp_path / "new" / "run", tree, step=3)
    assert os.path.basename(folder) == "step-00000003" and checkpoints.steps(tmp_path / "new" / "run") == [3]
    for restored in (
        checkpoints.restore(tmp_path / "new" / "run"),
        checkpoints.restore(tmp_path / "new" / "run", tree, step=3),
    ):
        assert dx.tree.structure(restored) == dx.tree.structure(tree)
        leaves = zip(dx.tree.leaves(tree), dx.tree.leaves(restored), strict=True)
        assert not [(x, y) for x, y in leaves if not same(x, y)]
        assert restored["weak"].weak_type and restored["keys"][1].dtype == tree["keys"][1].dtype


Point = namedtuple("Point", "x y")


def test_containers_of_classes_need_like(tmp_path: Path):
    checkpoints.save(tmp_path, {"p": Point(dnp.ones(2), 1)})
    with pytest.raises(ValueError, match=r"which class[\s\S]*Point[\s\S]*Pass `like`"):
        checkpoints.restore(tmp_path)
    like = {"p": Point(dx.ShapeDtypeStruct((2,), "float32"), 0)}
    assert checkpoints.restore(tmp_path, like)["p"].y == 1


def test_what_does_not_fit_is_told(tmp_path: Path):
    with pytest.raises(
        FileNotFoundError, match=r"no such checkpoint[\s\S]*step: the last, steps there: none"
    ):
        checkpoints.restore(tmp_path / "nowhere")
    tree = {"w": dnp.ones((2, 3)), "k": random.key(0)}
    checkpoints.save(tmp_path, tree)
    with pytest.raises(FileNotFoundError, match="step: 5, steps there: 0"):
        checkpoints.restore(tmp_path, step=5)
    with pytest.raises(FileExistsError, match="never overwritten"):
        checkpoints.save(tmp_path, tree, step=0)
    with pytest.raises(ValueError, match="keep: 0"):
        checkpoints.save(tmp_path, tree, keep=0)
    for like, text in [
        ({"w": tree["w"]}, r"only in `like`: nothing\n.*only in the checkpoint: \['k'\]"),
        ({"w": tree["w"], "v": 1}, r"only in `like`: \['v'\]"),
        (tree | {"w": dnp.ones((3, 2))}, r"\['w'\]: saved as float32\[2,3\], `like` has float32\[3,2\]"),
        (tree | {"w": dnp.ones((2, 3), "bfloat16")}, r"`like` has bfloat16\[2,3\]"),
        (tree | {"k": random.key(0, impl="rbg")}, r"\['k'\]: saved as key<fry>\[\], `like` has key<rbg>\[\]"),
    ]:
        with pytest.raises(ValueError, match=text):
            checkpoints.restore(tmp_path, like)
    for leaf, text in [("a", "arrays and numbers"), (np.array(["a"]), "arrays of numbers")]:
        with pytest.raises(TypeError, match=rf"{text}[\s\S]*\['s'\]"):
            checkpoints.save(tmp_path, {"s": leaf})
    gone = dnp.ones(3)
    gone.delete()
    with pytest.raises(ValueError, match="donated or deleted cannot be saved"):
        checkpoints.save(tmp_path, [gone])
    with pytest.raises(TypeError, match="arrays and numbers"):
        dx.jit(lambda x: checkpoints.save(tmp_path, x))(dnp.ones(2))
    assert checkpoints.steps(tmp_path) == [0] and len(os.listdir(tmp_path)) == 1


def test_damage_is_seen(tmp_path: Path):
    folder = Path(checkpoints.save(tmp_path, {"w": dnp.arange(100.0)}))
    file = folder / "process-00000.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-7] + bytes(7))
    with pytest.raises(ValueError, match=r"damaged[\s\S]*has changed since it was written"):
        checkpoints.restore(tmp_path)
    for length in (0, 5, 100, len(content) - 1):
        file.write_bytes(content[:length])
        with pytest.raises(ValueError, match="damaged"):
            checkpoints.restore(tmp_path)
    file.write_bytes(content)
    (folder / "process-00000.json").write_text("[]")
    with pytest.raises(ValueError, match=r"\['w'\]: 0 of 100 elements are there"):
        checkpoints.restore(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": "didax checkpoint 9"}))
    with pytest.raises(ValueError, match="didax checkpoint 9"):
        checkpoints.restore(tmp_path)


def test_old_checkpoints_go_when_the_new_one_is_there(tmp_path: Path):
    for step in (1, 2, 30):
        checkpoints.save(tmp_path, step, step=step, keep=2)
    assert checkpoints.steps(tmp_path) == [2, 30]
    checkpoints.save(tmp_path, 31, keep=1)
    assert checkpoints.steps(tmp_path) == [31] and checkpoints.restore(tmp_path) == 31
    left = tmp_path / f".saving-00000001-{2**22 + 1}-1-{os.uname().nodename}"  # by a process that is no more
    left.mkdir()
    checkpoints.save(tmp_path, 32)
    assert not left.exists()


def test_other_libraries_read_the_files(tmp_path: Path):
    library = pytest.importorskip("safetensors.numpy")
    tree = {"w": dnp.arange(6.0).reshape(2, 3), "h": dnp.ones(3, "float16"), "b": dnp.array([True])}
    folder = checkpoints.save(tmp_path, tree)
    found = library.load_file(os.path.join(folder, "process-00000.safetensors"))
    assert sorted(x.tobytes() for x in found.values()) == sorted(
        np.asarray(x).tobytes() for x in tree.values()
    )
    library.save_file({"x": np.arange(3, dtype=np.int16)}, str(tmp_path / "theirs"))
    theirs = TensorFile(str(tmp_path / "theirs"))
    assert theirs.entries["x"]["dtype"] == "I16"
    assert theirs.read("x", np.dtype(np.int16), (3,), (slice(1, 3),), 0).tolist() == [1, 2]


# A parent forks children that save and save. Each is killed at a random moment; what it had reported must be there.
KILLS = """
import os, random, signal, sys, time
import numpy as np
from didax import checkpoints
folder, count = sys.argv[1], int(sys.argv[2])
random.seed(0)
interrupted = 0

def save(step):
    tree = {"a": np.full((64, 64), step, "float32"), "b": [np.full(1000, step), step]}
    checkpoints.save(folder, tree, step=step, keep=3)

def work(pipe):
    step = max(checkpoints.steps(folder))
    while True:
        step += 1
        save(step)
        os.write(pipe, b"%d\\n" % step)

def timed(step):
    begun = time.perf_counter()
    save(step)
    return time.perf_counter() - begun

save(0)  # loads what children need
usual = min(map(timed, range(1, 6)))  # the least: other processes make a save slow, and would make all waits long
for turn in range(count):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(write)
        finally:
            os._exit(1)
    os.close(write)
    first = os.read(read, 1 << 20) if turn % 2 else b""  # on a busy machine no child might come to an end else
    time.sleep(random.uniform(0.0, 2.5 * usual))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it ended by itself"
    reported = (first + os.read(read, 1 << 20)).split()
    os.close(read)
    interrupted += any(name.startswith(".saving") for name in os.listdir(folder))
    there = checkpoints.steps(folder)
    assert not reported or int(reported[-1]) in there, (reported, there)
    for step in there:
        tree = checkpoints.restore(folder, step=step)
        assert tree["b"][1] == step and (tree["a"] == step).all() and (tree["b"][0] == step).all()
print("interrupted in the middle:", interrupted)
assert interrupted and there[-1] > 5
"""


@pytest.mark.ci
@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_kill_loses_or_tears_a_checkpoint(tmp_path: Path, count: int):
    command = [sys.executable, "-c", KILLS, str(tmp_path), str(count)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


JOB = """
import sys
from didax import checkpoints
folder, mode = sys.argv[1:]
mesh2 = dx.make_mesh((2, dx.device_count() // 2), ("a", "b"))
grid = np.arange(64.0, dtype="f").reshape(8, 8)
layouts = {"w": dx.NamedSharding(mesh2, dx.P("a", "b")), "k": dx.NamedSharding(mesh, dx.P("data")),
           "r": whole, "h": dx.NamedSharding(mesh2, dx.P(None, "a"))}
values = {"w": grid, "k": random.split(random.key(5), 8), "r": dnp.ones(3, "bfloat16"), "h": grid.astype("int8")}
tree = {"arrays": dx.device_put(values, layouts), "step": 7, "local": dnp.arange(3)}
if mode == "save":
    path = checkpoints.save(folder, tree)
    assert path.endswith("step-00000000") and checkpoints.steps(folder) == [0]
    try:
        checkpoints.save(folder, tree, step=0)
    except OSError as error:
        assert "never overwritten" in str(error)
    checkpoints.save(folder, tree, keep=1)
other = {"w": dx.NamedSharding(mesh, dx.P(None, "data")), "k": whole, "r": whole, "h": split}
like = {"arrays": {n: dx.ShapeDtypeStruct(x.shape, x.dtype, sharding=other[n]) for n, x in values.items()},
        "step": 0, "local": dnp.zeros(3, int)}
for wanted in (tree, like):
    found = checkpoints.restore(folder, wanted)
    assert found["step"] == 7 and found["local"].tolist() == [0, 1, 2]
    for name, x in found["arrays"].items():
        assert x.sharding is wanted["arrays"][name].sharding
        for shard in x.addressable_shards:
            assert (shard.data == dnp.asarray(values[name])[shard.index]).all(), name
"""


@pytest.mark.ci
def test_each_process_saves_its_parts_and_any_number_restores_them(tmp_path: Path):
    check(tmp_path, JOB, "-n", "2", "--devices", "2", arguments=(str(tmp_path / "run"), "save"))
    names = sorted(os.listdir(tmp_path / "run" / "step-00000001"))
    assert [name for name in names if name.endswith("safetensors")] == [
        "process-00000.safetensors",
        "process-00001.safetensors",
    ]
    here = checkpoints.restore(tmp_path / "run")  # this process, alone
    assert (here["arrays"]["w"] == np.arange(64).reshape(8, 8)).all() and here["arrays"][
        "r"
    ].dtype == dnp.bfloat16
    assert (here["arrays"]["k"] == random.split(random.key(5), 8)).all()
    size = [
        os.path.getsize(tmp_path / "run" / "step-00000001" / f"process-0000{i}.safetensors") for i in (0, 1)
    ]
    assert abs(size[0] - size[1]) < 400  # what is whole in both is written once


@pytest.mark.slow
def test_another_number_of_processes_restores(tmp_path: Path):
    check(tmp_path, JOB, "-n", "2", "--devices", "2", arguments=(str(tmp_path / "run"), "save"))
    for count, devices in (("1", "4"), ("4", "2"), ("4", "1")):
        check(tmp_path, JOB, "-n", count, "--devices", devices, arguments=(str(tmp_path / "run"), "restore"))
