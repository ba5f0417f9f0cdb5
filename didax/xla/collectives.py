"""The collectives of a compiled program: what devices exchange, how many bytes, how often, and for which line.

XLA's partitioner writes them into the optimised program, whose text is read here. What a device sends follows from the
number n of bytes that it puts in, and the number g of devices in its group, for exchanges that send least:

    all_reduce             2 n (g - 1) / g      each part is summed on one device, and then sent to all
    reduce_scatter, all_to_all  n (g - 1) / g   the device's own part stays
    all_gather             n (g - 1)            its part goes to all the others
    collective_permute, collective_broadcast  n

Read next: `api/stages.py` (`Compiled.collectives`), `docs/scaling.md` (what follows from the bytes).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import Any

import numpy as np

from didax.xla.device_text import Collective, Groups
from didax.xla.hlo import Instruction, Places, arrays, calls, computations, name_of, text_of

_KINDS = {
    name.replace("_", "-"): name
    for name in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "ragged_all_to_all",
        "collective_permute",
        "collective_broadcast",
    )
}


def collectives_of(loaded: Any) -> list[Collective]:
    """The collectives of XLA's executable, in the order of its text."""
    text = text_of(loaded)
    stated = re.search(r"num_partitions=(\d+)", text[: text.find("\n")])
    partitions = int(stated[1]) if stated else 1
    places, bodies = Places(text), computations(text)
    times = _times(bodies)
    return [
        _collective(op, kind, times[name], places, partitions)
        for name, ops in bodies.items()
        for op in ops
        if (kind := _kind(op)) is not None
    ]


def _kind(op: Instruction) -> str | None:
    """The kind of a collective; None for other instructions."""
    if op.opcode.endswith("-start") and "calls=" in op.attributes:
        return None  # the collective stands in the computation that is called
    return _KINDS.get(op.opcode.removesuffix("-start"))


def _times(bodies: dict[str, list[Instruction]]) -> dict[str, int | None]:
    """How often each computation runs in a run of the program; None where that depends on values."""
    callers: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for caller, ops in bodies.items():
        for op in ops:
            for callee, count in calls(op):
                callers[callee].append((caller, count))
    counts: dict[str, int | None] = {"": 1}

    def times(name: str) -> int | None:
        if name not in counts:
            each = [(times(caller), n) for caller, n in callers[name]]
            known = [outer * n for outer, n in each if outer is not None and n is not None]
            counts[name] = sum(known) if known and len(known) == len(each) else None
        return counts[name]

    return {name: times(name) for name in bodies}


# --- One collective -------------------------------------------------------------------------------------------------


def _collective(op: Instruction, kind: str, times: int | None, places: Places, partitions: int) -> Collective:
    groups = _groups(op, kind, partitions)
    n, g = _bytes(op.operands), max(map(len, groups), default=1)
    sent = {
        "all_reduce": 2 * n * (g - 1) / g,
        "all_gather": n * (g - 1),
        "reduce_scatter": n * (g - 1) / g,
        "all_to_all": n * (g - 1) / g,
        "ragged_all_to_all": n,
    }.get(kind, n)
    moves = g > 1 and (kind != "collective_permute" or any(a != b for a, b in groups))
    name, origin = name_of(op.attributes), places.of(op.attributes)
    where = None if origin is None else f"{origin.file}:{origin.line}"
    if where is not None and "/transpose/" in f"/{name}":
        where += ", in the backward pass"
    return Collective(kind, groups, n, _result_bytes(op, kind), math.ceil(sent) * moves, times, where, name)


_BITS = re.compile(r"([a-z]+)(\d+)")


def _bytes(types: str) -> int:
    """The bytes of all arrays in a text of types: `(f32[2,3] x, s4[8] y)` has 28."""
    return sum(_array_bytes(element, shape) for element, shape in arrays(types))


def _array_bytes(element: str, shape: tuple[int, ...]) -> int:
    if element == "token":
        return 0
    bits = 8 if element == "pred" else int(found[2]) if (found := _BITS.match(element)) else 0
    return math.ceil(bits * math.prod(shape) / 8)


def _result_bytes(op: Instruction, kind: str) -> int:
    """What a device has afterwards. A collective whose end is awaited elsewhere returns its operands first."""
    if not op.opcode.endswith("-start") or kind == "all_reduce":
        return _bytes(op.result)
    if kind == "collective_permute":
        return _bytes(op.operands)
    return _bytes(op.result) - _bytes(op.operands)


def _groups(op: Instruction, kind: str, partitions: int) -> Groups:
    pairs = re.search(r"source_target_pairs=(\{[\d{},]*\})", op.attributes)
    if pairs is not None:
        return _lists(pairs[1])
    everyone = (tuple(range(partitions)),)
    among_replicas = kind in ("all_reduce", "all_gather", "reduce_scatter")
    if among_replicas and "use_global_device_ids=true" not in op.attributes:
        return everyone  # groups of replicas of the program: there is one, on all devices
    found = _GROUPS.search(op.attributes)
    return (_groups_from(found[1], partitions) if found else ()) or everyone


_GROUPS = re.compile(
    r"replica_groups=(\{(?:\{[\d,]*\},?)*\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?|@?mesh.*?\{[^}]*\})"
)


def _groups_from(text: str, partitions: int) -> Groups:
    """Groups as XLA writes them: as lists, as axes of an array of devices, or as named axes of a mesh.

    >>> _groups_from("{{0,1},{2,3}}", 4)
    ((0, 1), (2, 3))
    >>> _groups_from("[2,2]<=[2,2]T(1,0)", 4)
    ((0, 2), (1, 3))
    >>> _groups_from("mesh['x'=2,'y'=2] {'x'}", 4)
    ((0, 2), (1, 3))
    """
    if text.startswith("{"):
        return _lists(text)
    if text.startswith("["):
        shape, _, source = text.partition("<=")
        return _rows(_transposed(source).reshape(_numbers(shape)))
    return _groups_of_mesh(text, partitions)


def _transposed(text: str) -> np.ndarray[Any, Any]:
    """The array of devices that XLA writes as `[2,4]T(1,0)`."""
    sizes, _, order = text.partition("T")
    devices = np.arange(math.prod(_numbers(sizes))).reshape(_numbers(sizes))
    return devices.transpose(_numbers(order)) if order else devices


_AXIS = re.compile(r"'?([\w.]+)'?=(\d+)")
_PART = re.compile(r"'?([\w.]+)'?(?::\((\d+)\)(\d+))?")


def _groups_of_mesh(text: str, partitions: int) -> Groups:
    """Groups along named axes, or parts of axes: `'x':(2)4` is the part of length 4 after a first part of length 2.

    >>> _groups_of_mesh("mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x':(2)2}", 8)
    ((0, 1), (4, 5), (2, 3), (6, 7))
    """
    mesh, _, along = text.rpartition(" {")
    axes = {name: int(size) for name, size in _AXIS.findall(mesh.partition("]")[0])}
    parts = {name: (int(before or 1), int(size or axes[name])) for name, before, size in _PART.findall(along)}
    # Every axis becomes three: the part that the groups extend over, with the parts before and after it.
    split: list[int] = []
    for name, size in axes.items():
        before, part = parts.get(name, (1, 1))
        split += [before, part, size // before // part]
    members = [3 * list(axes).index(name) + 1 for name in parts]
    others = [i for i in range(len(split)) if i not in members]
    devices = _devices_of_mesh(mesh, partitions).reshape(split).transpose([*others, *members])
    return _rows(devices.reshape(-1, math.prod(size for _, size in parts.values())))


def _devices_of_mesh(mesh: str, partitions: int) -> np.ndarray[Any, Any]:
    found = re.search(r"device_ids=\((.*)\)", mesh)
    if found is None:
        return np.arange(partitions)
    return _transposed(found[1]) if found[1].startswith("[") else np.array(_numbers(found[1]))


def _rows(devices: np.ndarray[Any, Any]) -> Groups:
    return tuple(map(tuple, devices.tolist()))


def _lists(text: str) -> Groups:
    return tuple(tuple(_numbers(inner)) for inner in re.findall(r"\{([\d,\s]+)\}", text))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]
