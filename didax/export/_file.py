"""The file of an exported program: the flatbuffer of `jax.export`, behind a header with a format and a checksum.

    | offset of the table | "DIDX" | format | length of the file | SHA-256 of the rest | the table |
    |          4          |    4   |   4    |         8          |         32          |    ...    |

Readers of flatbuffers follow the offset and see no header, so jax reads these files, and files of jax, which have no
header, are read here. A program of symbolic shapes is text of Didax's own beside the StableHLO module, or in its place.
Read next: `_flatbuffers.py`; `_exported.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray
from didax.core.dims import parse_dims
from didax.core.errors import message
from didax.export._flatbuffers import Schema, read, write
from didax.random._keys import IMPLEMENTATIONS

SCHEMA: Schema = {
    "Tree": ["kind:i8", "children:[Tree]", "keys:[string]", "custom:string", "auxiliary:[u8]"],
    "Aval": ["kind:i8", "shape:[string]", "dtype:i8", "memory:i8"],
    "Spec": ["partitions:[Names]", "reduced:[string]", "unreduced:[string]"],
    "Names": ["names:[string]"],
    "Mesh": ["sizes:[u32]", "names:[string]", "types:[i8]"],
    "NamedSharding": ["mesh:Mesh", "spec:Spec", "memory_kind:string", "mesh_index:u32"],
    "Sharding": ["kind:i8", "hlo:[u8]", "named:NamedSharding"],
    "Effect": ["name:string"],
    "Check": ["kind:i8", "target:string"],
    # Not jax's: the module of symbolic shapes.
    "Text": [
        "jaxpr:string",
        "constants:[Constant]",
        "constraints:[string]",
        "obstacle:string",
        "held:[Constant]",
        "called:[Called]",
        "platforms:[string]",
        "others:[Text]",
    ],
    "Constant": ["type:Aval", "data:[u8]"],
    "Called": [
        "name:string",
        "module:[u8]",
        "in_types:[Aval]",
        "out_types:[Aval]",
        "kept:[u32]",
        "platform:i32",
        "symbolic:bool",
    ],
    "Program": [
        "version:u16",
        "name:string",
        "in_tree:Tree",
        "in_avals:[Aval]",
        "out_tree:Tree",
        "out_avals:[Aval]",
        "devices_16:i16",
        "in_shardings:[Sharding]",
        "out_shardings:[Sharding]",
        "platforms:[string]",
        "ordered_effects:[Effect]",
        "unordered_effects:[Effect]",
        "checks:[Check]",
        "module:[u8]",
        "convention:u16",
        "kept:[u16]",
        "global_constants:bool",
        "vjp:Program",
        "devices:u32",
        "types:[Aval]",
        "meshes:[Mesh]",
        "shardings:[NamedSharding]",
        "in_types:[u32]",
        "out_types:[u32]",
        "in_places:[u32]",
        "out_places:[u32]",
        *[f"of_jax_{i}:u8" for i in range(26, 64)],  # for what later versions of jax may write
        "text:[u8]",  # Didax's own: a program of symbolic shapes, beside its module for others
    ],
}
VERSIONS = range(2, 12)  # of the table, which jax 0.10 writes as 3
CONVENTIONS = range(9, 11)  # how the module takes its arguments

_KINDS = ("leaf", "none", "tuple", "list", "dict", "custom")
_CONTAINERS: dict[Any, str] = {type(None): "none", tuple: "tuple", list: "list", dict: "dict"}
_CLASSES = {name: cls for cls, name in _CONTAINERS.items()}
_FLOAT8 = ("e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")
_DTYPES = [
    *(
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ),
    *(
        "complex64",
        "complex128",
        "bfloat16",
        "int4",
        "uint4",
        *[f"float8_{name}" for name in _FLOAT8],
        "float0",
    ),
    *("float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn"),
    *("key<fry>", "key<rbg>", "key<urbg>", "key<fry4>", "key<phx2>", "key<phx4>"),
]
_KEYS = {impl.dtype.name: impl.dtype for impl in IMPLEMENTATIONS.values()}
_CHECKS = ("platform", "custom_call", "shape_assertions")


class Custom(NamedTuple):
    """How the nodes of a class are written."""

    cls: type
    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    build: Callable[[Any, Sequence[Any]], Any] | None


customs: list[Custom] = []


# --- The header ---------------------------------------------------------------------------------------------

_MARK, _FORMAT = b"DIDX", 2
_HEADER = struct.Struct("<4sIQ32s")
_START = 4 + _HEADER.size


def write_file(program: dict[str, Any]) -> bytearray:
    """The bytes of a program's table."""
    data = write(SCHEMA, "Program", program, bytes(_HEADER.size))
    _HEADER.pack_into(data, 4, _MARK, _FORMAT, len(data), _digest(bytes(data[_START:])))
    return data


def read_file(data: bytes) -> dict[str, Any]:
    """The table of a program; ValueError for bytes that are none, damaged, too new or too old."""
    if data.startswith(b"DIDAX-EXPORT"):
        raise _age("an older", "format: 1, read: 2", "Export it again.")
    if data[4:8] == _MARK and len(data) >= _START:
        _, found, length, digest = _HEADER.unpack_from(data, 4)
        if found != _FORMAT:
            newer = found > _FORMAT
            fix = "Update Didax." if newer else "Export it again."
            raise _age("a newer" if newer else "an older", f"format: {found}, read: {_FORMAT}", fix)
        if len(data) != length or _digest(data[_START:]) != digest or not _points_behind_header(data):
            raise damaged(f"bytes: {len(data)}, wanted: {length}")
    try:
        program = read(SCHEMA, "Program", data)
        missing = [name for name in ("name", "in_tree", "out_tree", "module") if program[name] is None]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
    except ValueError as error:
        fix = "Pass the bytes that Exported.serialize returned."
        facts = f"first bytes: {data[:12]!r}, {error}"
        raise ValueError(message("These bytes are no exported program.", facts, fix=fix)) from None
    _check_versions(program)
    return program


def _points_behind_header(data: bytes) -> bool:
    """Whether the first bytes, which the checksum leaves out, lead to the table whose list of fields comes first."""
    at, fields = struct.unpack_from("<I", data)[0], struct.unpack_from("<H", data, _START)[0]
    return at == _START + -(-fields // 4) * 4


def _check_versions(program: dict[str, Any]) -> None:
    for what, known in (("version", VERSIONS), ("convention", CONVENTIONS)):
        found = program[what] or 0
        if found not in known:
            newer = found >= known.stop
            facts = f"{what}: {found}, read: {known.start} to {known.stop - 1}"
            raise _age(
                "a newer" if newer else "an older", facts, "Update Didax." if newer else "Export it again."
            )
    if program["vjp"] is not None:
        _check_versions(program["vjp"])


def _age(age: str, facts: str, fix: str) -> ValueError:
    return ValueError(
        message(f"The exported program is of {age} format than this version of Didax reads.", facts, fix=fix)
    )


def damaged(facts: str) -> ValueError:
    """The error for bytes that were a program once."""
    return ValueError(message("The exported program is damaged.", facts, fix="Copy or export it again."))


def _digest(payload: bytes) -> bytes:
    import hashlib  # on first need

    return hashlib.sha256(payload).digest()


# --- Structures ---------------------------------------------------------------------------------------------


def write_tree(tree: Any) -> dict[str, Any]:
    """The table of a structure."""
    node = tree.node_data()
    if node is None:
        return {"kind": _KINDS.index("leaf")}
    cls, data = node
    found: dict[str, Any] = {"children": list(map(write_tree, tree.children()))}
    if cls in _CONTAINERS:
        found["kind"] = _KINDS.index(_CONTAINERS[cls])
        if cls is dict:
            found["keys"] = [_text_key(key) for key in data]
        return found
    custom = next((c for c in customs if c.cls is cls), None)
    if custom is None:
        rule = "Arguments and results of an exported program are tuples, lists and dicts, or of registered classes."
        fix = "Register it: export.register_pytree_node_serialization or export.register_namedtuple_serialization."
        raise ValueError(message(rule, f"container: {cls.__qualname__}", fix=fix))
    auxiliary = custom.write(data)
    if not isinstance(auxiliary, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule = "serialize_auxdata of register_pytree_node_serialization returns bytes."
        facts = f"class: {cls.__qualname__}, got: {type(auxiliary).__name__}"
        raise ValueError(message(rule, facts, fix="Encode the data of the node."))
    return {**found, "kind": _KINDS.index("custom"), "custom": custom.name, "auxiliary": auxiliary}


def _text_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    rule = "The dicts of arguments and results of an exported program have strings as keys."
    raise ValueError(
        message(rule, f"key: {key!r} of type {type(key).__name__}", fix="Use strings, or a list.")
    )


def read_tree(table: dict[str, Any]) -> Any:
    """The structure of a table."""
    children = list(map(read_tree, table["children"] or ()))
    kind = table["kind"] or 0
    name = _KINDS[kind] if 0 <= kind < len(_KINDS) else ""
    keys = table["keys"] or []
    if name == "custom":
        return _read_custom(table, children)
    if not name or (name in ("leaf", "none") and children) or (name == "dict" and len(keys) != len(children)):
        raise damaged(f"a container of kind {kind} with {len(children)} parts")
    if name in ("leaf", "none"):
        return pytree.structure(0 if name == "leaf" else None)
    return pytree.with_children(_CLASSES[name], keys if name == "dict" else None, children)


def _read_custom(table: dict[str, Any], children: list[Any]) -> Any:
    custom = next((c for c in customs if c.name == table["custom"]), None)
    if custom is None:
        rule = "The exported program has a container of a class that is not registered for reading."
        fix = "Call export.register_pytree_node_serialization or register_namedtuple_serialization with this name."
        raise ValueError(message(rule, f"serialized_name: {table['custom']!r}", fix=fix))
    data = custom.read(table["auxiliary"] or b"")
    if custom.build is not None:
        return pytree.structure(
            custom.build(data, [pytree.unflatten(c, [0] * c.num_leaves) for c in children])
        )
    return pytree.with_children(custom.cls, data, children)


# --- Types --------------------------------------------------------------------------------------------------


def write_aval(aval: ShapedArray) -> dict[str, Any]:
    """The table of a type; weak types are not written."""
    name = dtypes.dtype_name(aval.dtype)
    if name not in _DTYPES:
        rule = "The file of an exported program has no name for this dtype."
        raise ValueError(message(rule, f"array: {aval}", fix=f"Use one of {', '.join(_DTYPES)}."))
    return {"kind": 0, "shape": list(map(str, aval.shape)), "dtype": _DTYPES.index(name), "memory": 1}


def read_aval(table: dict[str, Any], variable: Callable[[str], Any]) -> ShapedArray:
    """The type of a table."""
    kind, memory = table["dtype"] or 0, table["memory"] or 0
    if not 0 <= kind < len(_DTYPES) or table["kind"] or memory not in (0, 1):
        rule = "The exported program has arguments or results that Didax does not take."
        facts = f"dtype: number {kind} of the format, memory: {('', 'device', 'host', 'any')[memory % 4]}"
        raise ValueError(
            message(rule, facts, fix="Export it with arrays of numbers in the memory of the device.")
        )
    name = _DTYPES[kind]
    dtype = dtypes.float0 if name == "float0" else _KEYS.get(name) or dtypes.exact_dtype(name)
    lengths = table["shape"] or []
    return ShapedArray(parse_dims(", ".join(lengths), variable) if lengths else (), dtype)


def write_check(check: str) -> dict[str, Any]:
    """The table of a `DisabledSafetyCheck`, from its text."""
    kind, _, target = check.partition(":")
    return {"kind": _CHECKS.index(kind), "target": target or None}


def read_check(table: dict[str, Any]) -> str:
    """The text of a `DisabledSafetyCheck`."""
    kind = table["kind"] or 0
    if not 0 <= kind < len(_CHECKS):
        raise damaged(f"a disabled check of kind {kind}")
    return _CHECKS[kind] + (f":{table['target']}" if table["target"] else "")
