"""The collectives of a compiled program: what devices exchange, how many bytes, how often, and for which line.

XLA's partitioner writes them into the optimised program; here its text is read. What a device sends follows from the
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
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from didax.xla.device_text import Collective, Groups


class Origin(NamedTuple):
    """Where an operation comes from: its names, and a line of the user's program."""

    name: str
    file: str
    line: int


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
    """The collectives of an executable of XLA's, in the order of its text."""
    text = _text_of(loaded)
    partitions = (
        int(found[1]) if (found := re.search(r"num_partitions=(\d+)", text[: text.find("\n")])) else 1
    )
    places, computations = _Places(text), dict(_computations(text))
    times = _times(computations)
    return [
        _collective(op, times[name], places, partitions)
        for name, ops in computations.items()
        for op in ops
        if op.kind is not None
    ]


def origins_of(loaded: Any) -> set[Origin]:
    """All that the operations of an executable come from."""
    return _Places(_text_of(loaded)).origins()


def origins_in(located: str) -> set[Origin]:
    """All that the operations of a module come from, whose text says so."""
    return {Origin(name, file, int(line)) for name, file, line in _LOCATION.findall(located)}


_LOCATION = re.compile(r'loc\("((?:[^"\\]|\\.)*)"\("((?:[^"\\]|\\.)*)":(\d+):')


def _text_of(loaded: Any) -> str:
    (module,) = loaded.hlo_modules()
    return module.to_string(_print_options())


def _print_options() -> Any:
    from didax.xla.client import hlo  # loads jaxlib: on first need

    options = hlo.HloPrintOptions.short_parsable()
    options.print_metadata = options.print_operand_shape = options.print_backend_config = True
    options.include_layout_in_shapes = options.print_large_constants = False
    return options


# --- The text --------------------------------------------------------------------------------------------------------


class _Operation(NamedTuple):
    """A line of a computation that is a collective, or that calls other computations."""

    opcode: str
    result: str  # its type
    operands: str  # their types and names
    attributes: str
    kind: str | None  # of a collective


_OPERATION = re.compile(r"\s+(?:ROOT )?\S+ = ")
_CALLED = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=%?([^\s,{}]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _computations(text: str) -> Iterator[tuple[str, list[_Operation]]]:
    """The name of each computation with its operations of interest; that of the entry is ''."""
    ops: list[_Operation] = []
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            ops = []
            yield ("" if line.startswith("ENTRY") else line.split()[0].lstrip("%")), ops
        elif (start := _OPERATION.match(line)) and (op := _operation(line[start.end() :])) is not None:
            ops.append(op)


def _operation(text: str) -> _Operation | None:
    result, rest = _balanced(text) if text.startswith("(") else text.split(" ", 1)
    opcode, _, rest = rest.lstrip().partition("(")
    operands, attributes = _balanced("(" + rest)
    kind = _KINDS.get(opcode.removesuffix("-start"))
    if opcode.endswith("-start") and "calls=" in attributes:
        kind = None  # the collective stands in the computation that is called
    calls = any(word in attributes for word in ("calls=", "to_apply=", "body=", "_computation"))
    return _Operation(opcode, result, operands, attributes, kind) if kind or calls else None


def _balanced(text: str) -> tuple[str, str]:
    """The parenthesis that a text begins with, and the rest."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return text[: i + 1], text[i + 1 :]
    raise ValueError(text)


def _times(computations: dict[str, list[_Operation]]) -> dict[str, int | None]:
    """How often each computation runs in a run of the program; None where that depends on values."""
    callers: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for caller, ops in computations.items():
        for op in ops:
            for callee, count in _calls(op):
                callers[callee].append((caller, count))
    found: dict[str, int | None] = {"": 1}

    def times(name: str) -> int | None:
        if name not in found:
            each = [(times(caller), n) for caller, n in callers[name]]
            known = [outer * n for outer, n in each if outer is not None and n is not None]
            found[name] = sum(known) if known and len(known) == len(each) else None
        return found[name]

    return {name: times(name) for name in computations}


def _calls(op: _Operation) -> Iterator[tuple[str, int | None]]:
    """The computations that an operation runs, and how often."""
    attributes = _STRING.sub("", op.attributes)
    if op.opcode == "while":
        trips = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', op.attributes)
        for role, more in ("body", 0), ("condition", 1):
            called = re.search(rf"{role}=%?([^\s,]+)", attributes)
            assert called is not None
            yield called[1], None if trips is None else int(trips[1]) + more
        return
    once = None if op.opcode == "conditional" else 1
    for called in _CALLED.finditer(attributes):
        yield called[1], once
    for branches in _BRANCHES.finditer(attributes):
        for name in branches[1].split(","):
            yield name.strip().lstrip("%"), once


# --- One collective -------------------------------------------------------------------------------------------------


def _collective(op: _Operation, times: int | None, places: _Places, partitions: int) -> Collective:
    assert op.kind is not None
    groups = _groups(op, partitions)
    n, g = _bytes(op.operands), max(map(len, groups), default=1)
    sent = {
        "all_reduce": 2 * n * (g - 1) / g,
        "all_gather": n * (g - 1),
        "reduce_scatter": n * (g - 1) / g,
        "all_to_all": n * (g - 1) / g,
        "ragged_all_to_all": n,
    }.get(op.kind, n)
    moves = g > 1 and (op.kind != "collective_permute" or any(a != b for a, b in groups))
    name, origin = _name_of(op.attributes), places.of(op.attributes)
    where = None if origin is None else f"{origin.file}:{origin.line}"
    if where is not None and "/transpose/" in f"/{name}":
        where += ", in the backward pass"
    return Collective(op.kind, groups, n, _result_bytes(op), math.ceil(sent) * moves, times, where, name)


def _name_of(operation: str) -> str:
    found = re.search(r'op_name="((?:[^"\\]|\\.)*)"', operation)
    return found[1] if found else ""


_BITS = re.compile(r"([a-z]+)(\d+)")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([^\]]*)\]")


def _bytes(types: str) -> int:
    """The bytes of all arrays in a text of types: `(f32[2,3] x, s4[8] y)` has 28."""
    return sum(_array_bytes(*array.groups()) for array in _ARRAY.finditer(types))


def _array_bytes(element: str, shape: str) -> int:
    if element == "token":
        return 0
    bits = 8 if element == "pred" else int(found[2]) if (found := _BITS.match(element)) else 0
    return math.ceil(bits * math.prod(int(n.removeprefix("<=")) for n in shape.split(",") if n) / 8)


def _result_bytes(op: _Operation) -> int:
    """What a device has afterwards. One that is waited for elsewhere returns what it was given first."""
    if not op.opcode.endswith("-start") or op.kind == "all_reduce":
        return _bytes(op.result)
    if op.kind == "collective_permute":
        return _bytes(op.operands)
    return _bytes(op.result) - _bytes(op.operands)


def _groups(op: _Operation, partitions: int) -> Groups:
    pairs = re.search(r"source_target_pairs=(\{[\d{},]*\})", op.attributes)
    if pairs is not None:
        return _lists(pairs[1])
    everyone = (tuple(range(partitions)),)
    among_replicas = op.kind in ("all_reduce", "all_gather", "reduce_scatter")
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
    # Every axis becomes three: what is before the part that the groups extend over, the part, and what is after it.
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


_INLINE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')


class _Places:
    """The tables of a module's text that say where operations come from."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tables: dict[str, dict[str, str]] = defaultdict(dict)
        table = ""
        for line in text.splitlines():
            if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
                table = line
            elif not line or line.endswith("{"):
                table = ""
            elif table:
                number, _, content = line.partition(" ")
                self._tables[table][number] = content

    def of(self, operation: str) -> Origin | None:
        """Where an operation comes from."""
        found = _INLINE.search(operation)
        if found is not None:
            return Origin(_name_of(operation), found[1], int(found[2]))
        frame = re.search(r"stack_frame_id=(\d+)", operation)
        location = frame and self._field("StackFrames", frame[1], "file_location_id")
        return self._origin(location) if location else None

    def origins(self) -> set[Origin]:
        """All of them."""
        found = {self._origin(location) for location in self._tables["FileLocations"]}
        found |= {self.of(line) for line in self._text.splitlines() if "source_file" in line}
        return {origin for origin in found if origin is not None}

    def _origin(self, location: str) -> Origin | None:
        fields = ("function_name_id", "file_name_id", "line")
        name, file, line = (self._field("FileLocations", location, field) for field in fields)
        if not name or not file or not line:
            return None
        tables = self._tables
        return Origin(tables["FunctionNames"][name][1:-1], tables["FileNames"][file][1:-1], int(line))

    def _field(self, table: str, number: str, field: str) -> str | None:
        found = re.search(rf"\b{field}=(\d+)", self._tables[table].get(number, ""))
        return found[1] if found else None
