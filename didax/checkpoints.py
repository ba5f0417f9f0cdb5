"""Checkpoints: pytrees of arrays on disk, also of arrays that lie on the devices of many processes.

    checkpoints.save("runs/7", {"params": params, "key": key, "step": 12})
    state = checkpoints.restore("runs/7", like=state)

A checkpoint is on the disk as a whole or not at all, whenever the process is killed, and earlier checkpoints stay. Each
process writes the parts of arrays that its own devices hold. `restore` may lay the arrays out in another way, which
`like` says, on any number of devices and processes. Not to be confused with `didax.checkpoint`, which saves memory, not
arrays.

On disk a checkpoint is a folder `step-00000012`: for each process a file of arrays in the safetensors format and a list
of the parts in it, and a manifest, which process 0 writes. Everything is written to a hidden folder beside it, flushed
to the disk, and then renamed. Read next: `didax/runtime/tensor_files.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from didax.core import dtypes, job, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.sharding import NamedSharding
from didax.runtime.array import ConcreteArray, PlacedArray
from didax.runtime.sharded import ShardedArray, from_callback
from didax.runtime.tensor_files import TensorFile, write

__all__ = ["restore", "save", "steps"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

_FORMAT = "didax checkpoint 1"
_MANIFEST = "manifest.json"
_HIDDEN = ".saving-"
_Path = str | os.PathLike[str]


@api_boundary
def save(directory: _Path, tree: Any, *, step: int | None = None, keep: int | None = None) -> str:
    """Save a pytree of arrays, NumPy arrays and Python numbers; returns the folder. Each process of a job calls it.

    When it returns, the checkpoint is on the disk. All processes must see the same directory.

    Args:
      directory: holds the checkpoints of all steps; made where there is none.
      tree: any pytree. What does not lie on several devices is written by process 0.
      step: the number of the checkpoint; by default the one after the last.
      keep: how many checkpoints to keep; older ones are removed when the new one is there. By default all.

    Raises:
      FileExistsError: where there is a checkpoint of that step. OSError: where it cannot be written.

    >>> import tempfile, didax.numpy as dnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save(folder, {"w": dnp.arange(2), "step": 3})
    ...     restore(folder)
    {'step': 3, 'w': Array([0, 1], dtype=int32)}
    """
    root = os.fspath(directory)
    if keep is not None and keep < 1:
        rule = "keep is the number of checkpoints that stay, 1 or more."
        raise ValueError(message(rule, f"keep: {keep}", fix="Leave it out to keep all."))
    paths, _ = pytree.flatten_with_path(tree)
    leaves = [_leaf(path, x) for path, x in paths]
    hidden, final = _together("begin", lambda: _begin(root, step)).split("\n")
    try:
        _together("write", lambda: _write_parts(hidden, leaves), everyone=True)
        _together("finish", lambda: _finish(root, hidden, final, tree, leaves, keep))
    except BaseException:
        if job.own_index() == 0:
            shutil.rmtree(hidden, ignore_errors=True)
        raise
    return final


@api_boundary
def steps(directory: _Path) -> list[int]:
    """The numbers of the checkpoints in a directory, the oldest first.

    >>> steps("no/such/folder")
    []
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(found[1]) for name in names if (found := re.fullmatch(r"step-(\d+)", name)))


@api_boundary
def restore(directory: _Path, like: Any = None, *, step: int | None = None) -> Any:
    """The pytree of the last checkpoint, or of that of a step. Each process of a job calls it.

    `like` is a pytree of arrays, or of `ShapeDtypeStruct`s, of the structure, shapes and dtypes that were saved; what
    is restored lies on devices as these do (`x.sharding`). Without it the containers are those that were saved (dicts,
    lists, tuples), and arrays lie on the default device. Python numbers and NumPy arrays are restored as such.

    Raises:
      FileNotFoundError: where there is no checkpoint. ValueError: where it does not fit `like`, or is damaged.

    >>> import tempfile, didax as dx, didax.numpy as dnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save(folder, {"w": dnp.arange(2)})
    ...     restore(folder, like={"w": dx.ShapeDtypeStruct((2,), "int32")})
    {'w': Array([0, 1], dtype=int32)}
    """
    folder = _folder_of(os.fspath(directory), step)
    with open(os.path.join(folder, _MANIFEST)) as file:
        manifest = json.load(file)
    if manifest["format"] != _FORMAT:
        rule = f"This version reads checkpoints of the format {_FORMAT!r}."
        raise ValueError(
            message(rule, f"{folder}: {manifest['format']!r}", fix="Use the version that wrote it.")
        )
    saved = _Saved(folder, manifest)
    if like is None:
        return _rebuilt(saved, manifest["structure"], folder)
    paths, structure = pytree.flatten_with_path(like)
    _check_paths(saved, [pytree.keystr(path) for path, _ in paths], folder)
    leaves = [_restored_like(saved, i, pytree.keystr(path), x) for i, (path, x) in enumerate(paths)]
    return pytree.unflatten(structure, leaves)


# Saving.


class _Leaf(NamedTuple):
    """What is saved of one leaf: how it is to be restored, and the parts that this process writes."""

    path: str
    about: dict[str, Any]
    dtype: Any
    parts: list[_Part]


class _Part(NamedTuple):
    """A part of an array of numbers: for each axis where it begins and ends, and a function that returns it."""

    bounds: list[list[int]]
    value: Callable[[], Any]


def _leaf(path: Any, x: Any) -> _Leaf:
    where = pytree.keystr(path)
    if isinstance(x, np.ndarray | np.generic):
        value = np.array(x)
        aval = ShapedArray(value.shape, _checked_dtype(value, where))
        kind = "numpy" if isinstance(x, np.ndarray) else "scalar"
        return _Leaf(where, _about(where, kind, aval), value.dtype, _whole(aval, lambda: value))
    if isinstance(x, bool | int | float | complex):  # as written, with all digits
        value = [x.real, x.imag] if isinstance(x, complex) else x
        return _Leaf(where, {"path": where, "kind": type(x).__name__, "value": value}, None, [])
    array = _checked(x, where)
    parts = _whole(array.aval, array.host_value)
    if isinstance(array, ShardedArray):
        parts = [
            _Part(_bounds(shard.index, array.aval), shard.data.host_value)
            for shard in array.addressable_shards
            if shard.replica_id == 0
        ]
    return _Leaf(where, _about(where, "array", array.aval), array.aval.physical.dtype, parts)


def _about(where: str, kind: str, aval: ShapedArray) -> dict[str, Any]:
    dtype, shape = dtypes.short_name(aval.dtype), list(aval.shape)
    return {"path": where, "kind": kind, "dtype": dtype, "shape": shape, "weak_type": aval.weak_type}


def _whole(aval: ShapedArray, value: Callable[[], Any]) -> list[_Part]:
    """The one part of an array that does not lie on several devices, which process 0 writes."""
    return [_Part(_bounds((), aval), value)] if job.own_index() == 0 else []


def _checked_dtype(value: np.ndarray[Any, Any], where: str) -> Any:
    if value.dtype in dtypes.ALL_DTYPES:
        return value.dtype
    rule = "A checkpoint holds arrays of numbers."
    raise TypeError(message(rule, f"{where or 'the value'}: dtype {value.dtype}", fix="Leave it out."))


def _checked(x: Any, where: str) -> ConcreteArray:
    if not isinstance(x, ConcreteArray):
        rule, fix = "A checkpoint holds arrays and numbers.", "Leave it out, or save what it consists of."
        raise TypeError(message(rule, f"{where or 'the value'}: {x!r:.100}", fix=fix))
    if x.is_deleted():
        rule = "An array that was donated or deleted cannot be saved."
        fix = "Save it before, or what has taken its place."
        raise ValueError(message(rule, f"{where or 'the value'}: {x.aval}", fix=fix))
    return x


def _bounds(index: Sequence[slice], aval: ShapedArray) -> list[list[int]]:
    """For each axis of the array of numbers, where a part begins and ends."""
    shape = aval.physical.shape
    slices = [*index, *[slice(None)] * (len(shape) - len(index))]
    return [list(s.indices(n)[:2]) for s, n in zip(slices, shape, strict=True)]


def _together(purpose: str, work: Callable[[], str], everyone: bool = False) -> str:
    """The result of process 0's work, in every process; with `everyone` each works. What fails in one fails in all."""
    result, error = "", None
    if everyone or job.own_index() == 0:
        try:
            result = work()
        except Exception as failed:
            error = failed
    if job.current is None:
        if error is not None:
            raise error
        return result
    from didax.xla.agreement import told_by_all

    told = told_by_all(
        job.current, f"save {purpose}", json.dumps([result, "" if error is None else str(error)])
    )
    if error is not None:
        raise error
    for process, words in enumerate(told):
        if failed := json.loads(words)[1]:
            raise OSError(
                message("A checkpoint was not saved.", f"process {process}: {failed}", fix="Save it again.")
            )
    return json.loads(told[0])[0]


def _begin(root: str, step: int | None) -> str:
    """Make the hidden folder; returns its path and the path that it will have."""
    os.makedirs(root, exist_ok=True)
    _clean(root)
    number = max(steps(root), default=-1) + 1 if step is None else step
    final = os.path.join(root, f"step-{number:08d}")
    if os.path.exists(final):
        rule, fix = "A checkpoint is never overwritten.", "Choose another step, or remove the folder."
        raise FileExistsError(message(rule, f"step {number}: {final}", fix=fix))
    hidden = _hidden_name(root, number)
    os.mkdir(hidden)
    _begun.add(os.path.basename(hidden))
    return f"{hidden}\n{final}"


def _hidden_name(root: str, number: int) -> str:
    """A path for a checkpoint that is not complete yet, or is being removed; the name says which process it is of."""
    name = f"{_HIDDEN}{number:08d}-{os.getpid()}-{time.time_ns()}-{socket.gethostname()}"
    return os.path.join(root, name)


def _clean(root: str) -> None:
    """Remove what unfinished saves have left."""
    for name in os.listdir(root):
        found = re.fullmatch(re.escape(_HIDDEN) + r"\d+-(\d+)-\d+-(.*)", name)
        if found and name not in _begun:
            path, here = os.path.join(root, name), found[2] == socket.gethostname()
            with contextlib.suppress(OSError):
                old = time.time() - os.path.getmtime(path) > 86_400  # another machine may still write there
                if (here and not _is_alive(int(found[1]))) or old:
                    shutil.rmtree(path)


_begun: set[str] = set()  # hidden folders of this process


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write_parts(hidden: str, leaves: Sequence[_Leaf]) -> str:
    """Write the parts of this process, and the list of them."""
    me = job.own_index()
    arrays: dict[str, Any] = {}
    listed: list[dict[str, Any]] = []
    for number, leaf in enumerate(leaves):
        for bounds, value in leaf.parts:
            name = f"{leaf.path}{bounds}" if len(leaf.path) < 200 else f"{number}{bounds}"
            shape = tuple(end - begin for begin, end in bounds)
            arrays[name] = leaf.dtype, shape, value
            listed.append({"array": number, "name": name, "bounds": bounds})
    checks = write(os.path.join(hidden, f"process-{me:05d}.safetensors"), arrays, {"format": _FORMAT})
    for part in listed:
        part["crc32"] = checks[part["name"]]
    _write_json(os.path.join(hidden, f"process-{me:05d}.json"), listed)
    return ""


def _finish(root: str, hidden: str, final: str, tree: Any, leaves: Sequence[_Leaf], keep: int | None) -> str:
    """Write the manifest, and give the folder its name: from here on the checkpoint is there."""
    manifest = {
        "format": _FORMAT,
        "processes": job.own_count(),
        "structure": _outline(tree, iter(range(len(leaves)))),
        "arrays": [leaf.about for leaf in leaves],
    }
    _write_json(os.path.join(hidden, _MANIFEST), manifest)
    _sync_folder(hidden)
    os.rename(hidden, final)
    _sync_folder(root)
    for old in steps(root)[:-keep] if keep is not None else []:
        going = _hidden_name(root, old)  # first out of sight, as a whole
        os.rename(os.path.join(root, f"step-{old:08d}"), going)
        shutil.rmtree(going, ignore_errors=True)
    return ""


def _outline(tree: Any, numbers: Iterator[int]) -> Any:
    """The containers of a pytree as JSON has them; leaves are numbers. Those of classes are told by name only."""
    children, structure = pytree.flatten(tree, lambda x: x is not tree)
    if structure.node_data() is None:
        return next(numbers)
    inner = [_outline(child, numbers) for child in children]
    if tree is None:
        return {"none": []}
    if type(tree) is dict and all(type(key) in (str, int) for key in tree):
        return {"dict": [list(pair) for pair in zip(sorted(tree), inner, strict=True)]}
    if type(tree) in (list, tuple):
        return {type(tree).__name__: inner}
    return {"class": f"{type(tree).__module__}.{type(tree).__qualname__}"}


def _write_json(path: str, content: Any) -> None:
    with open(path, "x") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: str) -> None:
    with contextlib.suppress(OSError, AttributeError):  # Windows opens no folders
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Restoring.


class _Saved:
    """A checkpoint on the disk."""

    def __init__(self, folder: str, manifest: Any):
        self.arrays: list[Any] = manifest["arrays"]
        self._parts: list[list[tuple[str, Any]]] = [[] for _ in self.arrays]
        self._files: dict[str, TensorFile] = {}
        for process in range(manifest["processes"]):
            stem = os.path.join(folder, f"process-{process:05d}")
            with open(f"{stem}.json") as file:
                for part in json.load(file):
                    self._parts[part["array"]].append((f"{stem}.safetensors", part))

    def aval(self, number: int) -> ShapedArray:
        """The type of an array."""
        about = self.arrays[number]
        dtype = dtypes.from_short_name(about["dtype"])
        return ShapedArray(tuple(about["shape"]), dtype, about["weak_type"])

    def read(self, number: int, index: Sequence[slice]) -> np.ndarray[Any, Any]:
        """A part of the array of numbers that stands for an array."""
        physical = self.aval(number).physical
        wanted = _bounds(index, self.aval(number))
        result = np.empty([end - begin for begin, end in wanted], physical.dtype)
        filled = 0
        for path, part in self._parts[number]:
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, part["bounds"], strict=True)]
            if all(begin < end for begin, end in common):
                shape = tuple(end - begin for begin, end in part["bounds"])
                inside = _shifted(common, part["bounds"])
                found = self._file(path).read(part["name"], physical.dtype, shape, inside, part["crc32"])
                result[_shifted(common, wanted)] = found
                filled += found.size
        if filled != result.size:
            rule = "A checkpoint has every part of its arrays."
            facts = f"{self.arrays[number]['path']}: {filled} of {result.size} elements are there"
            raise ValueError(
                message(rule, facts, fix="Restore its files from a copy, or use another checkpoint.")
            )
        return result

    def _file(self, path: str) -> TensorFile:
        if path not in self._files:
            self._files[path] = TensorFile(path)
        return self._files[path]


def _shifted(bounds: Sequence[Sequence[int]], origin: Sequence[Sequence[int]]) -> tuple[slice, ...]:
    return tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(bounds, origin, strict=True))


def _folder_of(root: str, step: int | None) -> str:
    found = steps(root)
    if not found or (step is not None and step not in found):
        rule = "There is no such checkpoint."
        listed = ", ".join(map(str, found[-10:])) or "none"
        raise FileNotFoundError(
            message(
                rule,
                f"directory: {root}, step: {'the last' if step is None else step}, steps there: {listed}",
                fix="Correct the directory or the step.",
            )
        )
    return os.path.join(root, f"step-{found[-1] if step is None else step:08d}")


def _restored(saved: _Saved, number: int, sharding: Any = None) -> Any:
    """What was saved, as an array on devices as the sharding says, a NumPy array or a Python number."""
    about = saved.arrays[number]
    if about["kind"] in _NUMBERS:
        return _NUMBERS[about["kind"]](about["value"])
    aval = saved.aval(number)
    if isinstance(sharding, NamedSharding):
        sharding.check_shape(aval.shape, f"array: {saved.arrays[number]['path']}")
        return from_callback(aval, sharding, lambda index: saved.read(number, index))
    value = saved.read(number, ())
    made = {"numpy": lambda: value, "scalar": lambda: value[()], "array": lambda: ConcreteArray(aval, value)}
    return made[about["kind"]]()


_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": lambda pair: complex(*pair),
}


def _restored_like(saved: _Saved, number: int, path: str, x: Any) -> Any:
    if saved.arrays[number]["kind"] in _NUMBERS:
        return _restored(saved, number)
    wanted, found = _type_of(x), saved.aval(number)
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        raise ValueError(
            message(
                "What is restored has the shapes and dtypes of `like`.",
                f"{path or 'the value'}: saved as {found}, `like` has {wanted}",
                fix="Restore it as it was saved, and convert it then (x.astype, x.reshape).",
            )
        )
    sharding = getattr(x, "sharding", None)
    restored = _restored(saved, number, sharding)
    is_said = isinstance(x, PlacedArray) or not isinstance(x, ConcreteArray)
    if is_said and isinstance(restored, ConcreteArray) and not isinstance(sharding, NamedSharding | None):
        from didax.api.devices import device_put

        return device_put(restored, sharding)
    return restored


def _type_of(x: Any) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype) if isinstance(x, np.ndarray | np.generic) else aval_of(x)


def _check_paths(saved: _Saved, wanted: Sequence[str], folder: str) -> None:
    found = [about["path"] for about in saved.arrays]
    if found == list(wanted):
        return
    missing = [path for path in wanted if path not in found]
    others = [path for path in found if path not in wanted]
    raise ValueError(
        message(
            "What is restored has the structure of `like`.",
            f"checkpoint: {folder}",
            f"only in `like`: {_some(missing)}",
            f"only in the checkpoint: {_some(others)}",
            fix="Pass a tree like the one that was saved, or leave `like` out to see what there is.",
        )
    )


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:5]) or "nothing"
    return shown + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


def _rebuilt(saved: _Saved, outline: Any, folder: str) -> Any:
    """The pytree that was saved, from what its outline says."""
    if isinstance(outline, int):
        return _restored(saved, outline)
    ((kind, content),) = outline.items()
    if kind == "class":
        rule = "A checkpoint says which class a container has, not how to make it."
        fix = "Pass `like`, a tree of the same structure, for example one of ShapeDtypeStructs."
        raise ValueError(message(rule, f"checkpoint: {folder}, class: {content}", fix=fix))
    if kind == "none":
        return None
    if kind == "dict":
        return {key: _rebuilt(saved, inner, folder) for key, inner in content}
    return {"list": list, "tuple": tuple}[kind](_rebuilt(saved, inner, folder) for inner in content)
