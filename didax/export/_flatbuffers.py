"""Trees of Python values as flatbuffers, and back: https://flatbuffers.dev/internals.

    SCHEMA = {"Point": ["x:i32", "name:string", "next:Point", "weights:[u16]"]}
    data = write(SCHEMA, "Point", {"x": 3, "name": "a"}, header=b"")
    read(SCHEMA, "Point", data)                       {"x": 3, "name": "a", "next": None, "weights": None}

A table is a dict; a field that is None is absent. Fields are numbers (bool, i8, u8, i16, u16, i32, u32), strings,
tables of the schema, and vectors of these; vectors of bytes are `bytes`. A field's number is its place in the list.
Reading raises ValueError where an offset leads out of the data. Read next: `_file.py`, which has a schema.
"""

from __future__ import annotations

import struct
from typing import Any

Schema = dict[str, list[str]]
_NUMBERS = {"bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I"}
_DEEPEST = 200  # tables within tables: more are damage


def write(schema: Schema, table: str, value: dict[str, Any], header: bytes = b"") -> bytearray:
    """The table as bytes, with a header of the caller's behind the four bytes that say where the table is."""
    out = bytearray(4) + header
    struct.pack_into("<I", out, 0, _write_table(schema, table, value, out))
    return out


def _align(out: bytearray, size: int) -> None:
    out.extend(bytes(-len(out) % size))


def _write_table(schema: Schema, table: str, value: dict[str, Any], out: bytearray) -> int:
    """Append a table, its fields behind it; its position."""
    fields = [field.split(":") for field in schema[table]]
    given = [(i, name, kind) for i, (name, kind) in enumerate(fields) if value.get(name) is not None]
    places: dict[int, int] = {}
    end = 4
    for i, _, kind in sorted(given, key=lambda field: -_width(field[2])):  # so no field needs padding
        places[i], end = end, end + _width(kind)
    slots = [places.get(i, 0) for i in range(len(fields))]
    _align(out, 2)
    start = len(out)
    out += struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), end, *slots)
    _align(out, 4)
    here = len(out)
    out += struct.pack("<i", here - start) + bytes(end - 4)
    for i, name, kind in given:
        at, item = here + places[i], value[name]
        if kind in _NUMBERS:
            struct.pack_into(f"<{_NUMBERS[kind]}", out, at, item)
        else:
            struct.pack_into("<I", out, at, _write_value(schema, kind, item, out) - at)
    return here


def _width(kind: str) -> int:
    return struct.calcsize(_NUMBERS.get(kind, "I"))


def _write_value(schema: Schema, kind: str, value: Any, out: bytearray) -> int:
    """Append what a field refers to; its position."""
    if kind in schema:
        return _write_table(schema, kind, value, out)
    item = kind.strip("[]")
    data = value.encode() if kind == "string" else value
    letter = _NUMBERS.get("u8" if kind == "string" else item, "I")
    _align(out, 4)
    here = len(out)
    out += struct.pack("<I", len(data))
    if kind == "string" or item in _NUMBERS:
        out += bytes(data) if letter == "B" else struct.pack(f"<{len(data)}{letter}", *data)
        out += b"\0" if kind == "string" else b""
        return here
    out += bytes(4 * len(data))
    for at, x in zip(range(here + 4, here + 4 + 4 * len(data), 4), data, strict=True):
        struct.pack_into("<I", out, at, _write_value(schema, item, x, out) - at)
    return here


def read(schema: Schema, table: str, data: bytes) -> dict[str, Any]:
    """The table that `write` wrote, every field of the schema in it."""
    try:
        return _Reader(schema, data).table(table, *struct.unpack_from("<I", data), depth=0)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise ValueError(f"no {table}: {error}") from None


class _Reader:
    def __init__(self, schema: Schema, data: bytes):
        self.schema = schema
        self.data = data

    def number(self, letter: str, at: int) -> Any:
        if at < 0:
            raise ValueError("an offset leads out of the data")
        return struct.unpack_from(f"<{letter}", self.data, at)[0]

    def table(self, name: str, at: int, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} tables lie within each other")
        start = at - self.number("i", at)
        count = (self.number("H", start) - 4) // 2
        found: dict[str, Any] = {}
        for i, field in enumerate(self.schema[name]):
            key, kind = field.split(":")
            place = self.number("H", start + 4 + 2 * i) if i < count else 0
            found[key] = self.field(kind, at + place, depth + 1) if place else None
        return found

    def field(self, kind: str, at: int, depth: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind], at)
        return self.value(kind, at + self.number("I", at), depth)

    def value(self, kind: str, at: int, depth: int) -> Any:
        if kind in self.schema:
            return self.table(kind, at, depth)
        length, start, item = self.number("I", at), at + 4, kind.strip("[]")
        letter = _NUMBERS.get("u8" if kind == "string" else item, "I")
        if start + length * struct.calcsize(letter) > len(self.data):
            raise ValueError("a vector is longer than the data")
        if kind == "string" or item == "u8":
            part = self.data[start : start + length]
            return part.decode() if kind == "string" else part
        return [self.field(item, start + i * struct.calcsize(letter), depth) for i in range(length)]
