"""A compiled program as bytes: XLA's executable, the arrays that the program captured, and what is known about both.

    | "DIDXPROG" | format | SHA-256 of the rest | length of the facts | facts, in JSON | arrays, executable |
    |     8      |   4    |         32          |          8          |      ...       |        ...         |

The facts say who can run it (the version of jaxlib, the platform, the kind of device and of processor), the types of
arguments and results, and how these lie on devices, which are numbered by their order. There is no pickle.
Read next: `loaded.py`, the program that is made of it; `xla/compile.py`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dtypes import from_short_name, short_name
from didax.core.errors import message
from didax.core.mesh import AbstractMesh, AnyMesh, AxisType, Mesh
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.version import installed_jaxlib
from didax.xla.device_text import Partition
from didax.xla.platforms import platform

_MARK, _FORMAT = b"DIDXPROG", 1
_HEADER = struct.Struct("<8sI32sQ")


class ProgramFile(NamedTuple):
    """What the bytes of a program say.

    `facts` are the program's own, `constants` the words of the captured arrays with their types, and `executable` is
    XLA's executable.
    """

    facts: dict[str, Any]
    constants: list[tuple[ShapedArray, np.ndarray[Any, Any]]]
    executable: bytes


def write_program(file: ProgramFile, device: Any) -> bytes:
    """The bytes of a program for devices of the kind of this one."""
    arrays = [np.ascontiguousarray(array) for _, array in file.constants]
    facts = file.facts | {
        "place": _place(device),
        "constants": [write_type(aval) for aval, _ in file.constants],
    }
    text = json.dumps(facts, separators=(",", ":")).encode()
    rest = b"".join(
        [struct.pack("<Q", len(text)), text, *[array.tobytes() for array in arrays], file.executable]
    )
    return _HEADER.pack(_MARK, _FORMAT, _digest(rest), len(rest)) + rest


def read_program(data: bytes, device: Any) -> ProgramFile:
    """What the bytes say; ValueError for bytes that are not a program, or one that devices like this cannot run."""
    if not isinstance(data, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule = "A saved program is bytes."
        raise TypeError(
            message(rule, f"got: {type(data).__name__}", fix="Pass what serialize returned first.")
        )
    data = bytes(data)
    fix = "Pass the bytes that serialize returned."
    if len(data) < _HEADER.size or not data.startswith(_MARK):
        rule = "These bytes are not a compiled program that Didax has saved."
        raise ValueError(message(rule, f"first bytes: {data[:12]!r}, length: {len(data)}", fix=fix))
    _, found, digest, length = _HEADER.unpack_from(data)
    if found != _FORMAT:
        rule = "The saved program has another format than this version of Didax reads."
        raise ValueError(message(rule, f"format: {found}, read: {_FORMAT}", fix="Save it again."))
    rest = data[_HEADER.size :]
    if len(rest) != length or _digest(rest) != digest:
        rule = "The saved program is damaged."
        wrong = f"bytes: {len(data)}, wanted: {_HEADER.size + length}"
        raise ValueError(message(rule, wrong, fix="Copy or save it again."))
    (size,) = struct.unpack_from("<Q", rest)
    facts: dict[str, Any] = json.loads(rest[8 : 8 + size])
    _check_place(facts["place"], _place(device))
    constants: list[tuple[ShapedArray, np.ndarray[Any, Any]]] = []
    begin = 8 + size
    for aval in map(read_type, facts["constants"]):
        words = aval.physical
        array = np.frombuffer(rest, words.dtype, words.size, begin).reshape(words.shape)
        constants.append((aval, array))
        begin += array.nbytes
    return ProgramFile(facts, constants, rest[begin:])


def _digest(rest: bytes) -> bytes:
    import hashlib  # on first need

    return hashlib.sha256(rest).digest()


# --- Who can run it -----------------------------------------------------------------------------------------------


def _place(device: Any) -> dict[str, str]:
    from didax.xla.compile import processor  # loads jaxlib: on first need

    name = platform()
    found = {"jaxlib": str(installed_jaxlib()), "platform": name, "kind of device": device.device_kind}
    return found | ({"processor": _digest(processor().encode()).hex()[:16]} if name == "cpu" else {})


def _check_place(saved: dict[str, str], here: dict[str, str]) -> None:
    if saved != here:
        names = [name for name in {**saved, **here} if saved.get(name) != here.get(name)]
        rule = "A compiled program runs with the jaxlib that compiled it, on devices of the same kind."
        facts = [f"{name}: saved with {saved.get(name)}, here {here.get(name)}" for name in names]
        fix = "Compile it here; didax.export saves programs that other versions and machines compile."
        raise ValueError(message(rule, *facts, fix=fix))


# --- Types and places ---------------------------------------------------------------------------------------------


def write_type(aval: ShapedArray) -> dict[str, Any]:
    """The facts of a type."""
    found: dict[str, Any] = {"shape": aval.shape, "dtype": short_name(aval.dtype)}
    if aval.weak_type:
        found["weak"] = True
    if aval.layout is not None:
        found["layout"] = write_sharding(aval.layout, ())
    return found


def read_type(facts: dict[str, Any]) -> ShapedArray:
    """The type of these facts."""
    layout = facts.get("layout")
    return ShapedArray(
        tuple(facts["shape"]),
        from_short_name(facts["dtype"]),
        facts.get("weak", False),
        sharding=None if layout is None else read_sharding(layout, ()),
    )


def write_partition(partition: Partition) -> dict[str, Any]:
    """The facts of a partition, except for its devices."""
    devices = partition.devices
    return {
        "mesh": _write_mesh(partition.mesh, devices),
        "arguments": [write_sharding(s, devices) for s in partition.arguments],
        "meshes": [_write_mesh(mesh, devices) for mesh in partition.meshes],
        "results": [write_sharding(s, devices) for s in partition.results],
        "memories": partition.memories,
    }


def read_partition(facts: dict[str, Any], devices: Sequence[Any]) -> Partition:
    """The partition of these facts, on these devices."""
    return Partition(
        _read_mesh(facts["mesh"], devices),
        tuple([read_sharding(s, devices) for s in facts["arguments"]]),
        tuple([_read_mesh(mesh, devices) for mesh in facts["meshes"]]),
        tuple([read_sharding(s, devices) for s in facts["results"]]),
        tuple(facts["memories"]),
    )


def write_sharding(sharding: NamedSharding | None, devices: Sequence[Any]) -> dict[str, Any] | None:
    """The facts of a sharding over some of these devices."""
    if sharding is None:
        return None
    found = {"mesh": _write_mesh(sharding.mesh, devices), "spec": list(sharding.spec)}
    return found if sharding.kind is None else {**found, "memory": sharding.kind}


def read_sharding(facts: dict[str, Any] | None, devices: Sequence[Any]) -> Any:
    """The sharding of these facts."""
    if facts is None:
        return None
    spec = PartitionSpec(*[tuple(entry) if isinstance(entry, list) else entry for entry in facts["spec"]])
    return NamedSharding(_read_mesh(facts["mesh"], devices), spec, memory_kind=facts.get("memory"))


def _write_mesh(mesh: AnyMesh, devices: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sizes": mesh.axis_sizes,
        "names": mesh.axis_names,
        "types": [kind.name for kind in mesh.axis_types],
    }
    if isinstance(mesh, Mesh):
        found["devices"] = [devices.index(device) for device in mesh.devices.flat]
    return found


def _read_mesh(facts: dict[str, Any], devices: Sequence[Any]) -> Any:
    types = tuple([AxisType[name] for name in facts["types"]])
    if "devices" not in facts:
        return AbstractMesh(facts["sizes"], facts["names"], types)
    placed = np.empty(len(facts["devices"]), object)
    placed[:] = [devices[i] for i in facts["devices"]]
    return Mesh(placed.reshape(facts["sizes"]), facts["names"], types)
