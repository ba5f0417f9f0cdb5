"""The text of a program that XLA has optimised: its computations, their instructions, and where each comes from.

    text = text_of(executable.loaded)
    for name, instructions in computations(text).items(): ...    the entry's name is ""
    Places(text).frames(instruction.attributes)                   the user's lines, from the outermost call inward

Instructions carry the names and lines that the lowering wrote into the module (`lowering.py`); those that XLA made
itself carry none. Programs are remembered by what they compute, so a program that was compiled earlier may have other
lines than the source has now: compare `origins_of` with `origins_in`.
Read next: `collectives.py`, `shares.py` (what is read in such texts).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple


class Origin(NamedTuple):
    """Where an operation comes from: its names, and a line of the user's program."""

    name: str
    file: str
    line: int


class Instruction(NamedTuple):
    """A line of a computation: `name = result opcode(operands), attributes`."""

    name: str
    opcode: str
    result: str  # its type
    operands: str  # their types and names, in parentheses
    attributes: str


def text_of(loaded: Any) -> str:
    """The text of XLA's executable."""
    (module,) = loaded.hlo_modules()
    found: str = module.to_string(_print_options())
    return found


def text_of_serialized(module: bytes) -> str:
    """The text of a serialized `HloModuleProto`."""
    from didax.xla.client import hlo  # loads jaxlib: on first need

    found: str = hlo.HloModule.from_serialized_hlo_module_proto(module).to_string(_print_options())
    return found


def module_name(text: str) -> str:
    """The name of the program in a text.

    >>> module_name("HloModule jit_f, is_scheduled=true")
    'jit_f'
    """
    return text.partition(",")[0].removeprefix("HloModule ")


def origins_of(loaded: Any) -> set[Origin]:
    """All that the operations of an executable come from."""
    return Places(text_of(loaded)).origins()


def origins_in(located: str) -> set[Origin]:
    """All that the operations of a module come from, by its text with locations."""
    return {Origin(name, file, int(line)) for name, file, line in _LOCATION.findall(located)}


_LOCATION = re.compile(r'loc\("((?:[^"\\]|\\.)*)"\("((?:[^"\\]|\\.)*)":(\d+):')


def _print_options() -> Any:
    from didax.xla.client import hlo  # loads jaxlib: on first need

    options = hlo.HloPrintOptions.short_parsable()
    options.print_metadata = options.print_operand_shape = options.print_backend_config = True
    options.include_layout_in_shapes = options.print_large_constants = False
    return options


# --- Computations ----------------------------------------------------------------------------------------------------


_START = re.compile(r"\s+(?:ROOT )?%?(\S+) = ")
_CALLED = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=%?([^\s,{}]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ARRAY = re.compile(r"\b([a-z]\w*)\[([^\]]*)\]")


def computations(text: str) -> dict[str, list[Instruction]]:
    """The instructions of each computation, by its name; that of the entry is ''."""
    found: dict[str, list[Instruction]] = {}
    instructions: list[Instruction] = []
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            instructions = found["" if line.startswith("ENTRY") else line.split()[0].lstrip("%")] = []
        elif (start := _START.match(line)) is not None:
            instructions.append(_instruction(start[1], line[start.end() :]))
    return found


def _instruction(name: str, text: str) -> Instruction:
    result, rest = _balanced(text) if text.startswith("(") else text.split(" ", 1)
    opcode, _, rest = rest.lstrip().partition("(")
    operands, attributes = _balanced("(" + rest)
    return Instruction(name, opcode, result, operands, attributes)


def _balanced(text: str) -> tuple[str, str]:
    """What a text has up to the end of the parenthesis that it begins with, and the rest."""
    depth = 0
    for found in _PARENTHESIS.finditer(text):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return text[: found.end()], text[found.end() :]
    raise ValueError(text)


_PARENTHESIS = re.compile(r"[()]")


def calls(instruction: Instruction) -> Iterator[tuple[str, int | None]]:
    """The computations that an instruction runs, and how often; None where that depends on values."""
    if not any(word in instruction.attributes for word in _HOLDERS):
        return
    attributes = _STRING.sub("", instruction.attributes)
    if instruction.opcode == "while":
        trips = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', instruction.attributes)
        for role, more in ("body", 0), ("condition", 1):
            called = re.search(rf"{role}=%?([^\s,]+)", attributes)
            assert called is not None
            yield called[1], None if trips is None else int(trips[1]) + more
        return
    once = None if instruction.opcode == "conditional" else 1
    for called in _CALLED.finditer(attributes):
        yield called[1], once
    for branches in _BRANCHES.finditer(attributes):
        for name in branches[1].split(","):
            yield name.strip().lstrip("%"), once


_HOLDERS = ("calls=", "to_apply=", "body=", "_computation")


def operand_names(instruction: Instruction) -> list[str]:
    """The names of the instructions whose results an instruction takes."""
    return _OPERAND.findall(instruction.operands)


_OPERAND = re.compile(r"%?([\w.-]+)(?=[,)])")


def arrays(types: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The arrays in a text of types, each its element's type and its shape.

    >>> list(arrays("(f32[2,<=3] x, pred[] y)"))
    [('f32', (2, 3)), ('pred', ())]
    """
    for element, shape in _ARRAY.findall(types):
        yield element, tuple([int(n.removeprefix("<=")) for n in shape.split(",") if n])


def elements(types: str) -> int:
    """How many elements all arrays in a text of types have."""
    return sum(math.prod(shape) for _, shape in arrays(types))


# --- Where instructions come from ------------------------------------------------------------------------------------


_INLINE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_FIELD = re.compile(r"(\w+)=(\d+)")


def name_of(attributes: str) -> str:
    """The names of an instruction, from the outermost to that of the operation; '' for one that XLA made."""
    found = _NAME.search(attributes)
    return found[1] if found else ""


class Places:
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
        # Where the number of a frame's parent is one too large, the first frame seems to be its own parent.
        self._shift = 1 if self._field("StackFrames", "1", "parent_frame_id") == "1" else 0

    def of(self, attributes: str) -> Origin | None:
        """Where an instruction comes from: the innermost line."""
        frames = self.frames(attributes)
        return frames[-1] if frames else None

    def frames(self, attributes: str) -> tuple[Origin, ...]:
        """Where an instruction comes from: the lines of the calls that it is in, and its own line last."""
        found = _INLINE.search(attributes)
        if found is not None:
            origin = Origin(name_of(attributes), found[1], int(found[2]))
            return () if origin.file == _THE_TEXT else (origin,)
        frame = _FRAME.search(attributes)
        origins: list[Origin] = []
        number = frame[1] if frame else "0"
        while len(origins) < _DEEPEST and (
            location := self._field("StackFrames", number, "file_location_id")
        ):
            if (origin := self._origin(location)) is not None:
                origins.insert(0, origin)
            number = str(int(self._field("StackFrames", number, "parent_frame_id") or 0) - self._shift)
        return tuple(origins)

    def origins(self) -> set[Origin]:
        """All places that the text names."""
        found = {self._origin(location) for location in self._tables["FileLocations"]}
        found |= {self.of(line) for line in self._text.splitlines() if "source_file" in line}
        return {origin for origin in found if origin is not None}

    def _origin(self, location: str) -> Origin | None:
        fields = ("function_name_id", "file_name_id", "line")
        name, file, line = (self._field("FileLocations", location, field) for field in fields)
        if not name or not file or not line:
            return None
        path = self._tables["FileNames"][file][1:-1]
        if path == _THE_TEXT:
            return None
        return Origin(self._tables["FunctionNames"][name][1:-1], path, int(line))

    def _field(self, table: str, number: str, field: str) -> str | None:
        return dict(_FIELD.findall(self._tables[table].get(number, ""))).get(field)


_DEEPEST = 100
_THE_TEXT = "-"  # for operations without a place MLIR names the line of the module's own text
