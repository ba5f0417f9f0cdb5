"""`Program`: inputs, statements and a stack of transformations; all of it text and plain data.

    v1 = np.sin(v0)                        a Statement of one array
    v2, v3 = leaves(np.linalg.qr(v1))      a Statement of several
    def f0(v4): ...                        a Block, the body of a statement such as `v5 = lax.map(f0, v3)`

Variables are called v0, v1, ... and are assigned once, so that a statement's operands can be read off its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

VARIABLE = re.compile(r"\bv\d+\b")
# Modules by the names that they have in programs
MODULES = {
    "np": "numpy",
    "lax": "lax",
    "nn": "nn",
    "random": "random",
    "special": "scipy.special",
    "ops": "ops",
    "image": "image",
    "sla": "scipy.linalg",
    "sfft": "scipy.fft",
    "signal": "scipy.signal",
    "ndimage": "scipy.ndimage",
    "integrate": "scipy.integrate",
    "vq": "scipy.cluster.vq",
}
NAME = re.compile(rf"\b(?:lib|{'|'.join(MODULES)})\.(?:[a-z]\w*\.)*\w+")


@dataclass(frozen=True)
class Type:
    """The type of a variable. The dtype is a name: "float32", "bfloat16", "key"."""

    shape: tuple[int, ...]
    dtype: str
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{'*' if self.weak else ''}"


@dataclass(frozen=True)
class Block:
    """A function of parameters, defined beside the statement that uses it; it may use variables of outer scopes."""

    name: str
    params: tuple[str, ...]
    statements: tuple[Statement, ...]
    result: str  # the text of the expression that it returns

    def lines(self) -> list[str]:
        inner = [line for statement in self.statements for line in statement.lines()]
        return [
            f"def {self.name}({', '.join(self.params)}):",
            *[f"    {x}" for x in (*inner, f"return {self.result}")],
        ]

    def used(self) -> list[str]:
        """Variables of outer scopes that the block reads."""
        bound = {*self.params, *(t for statement in self.statements for t in statement.targets)}
        names = [n for statement in self.statements for n in statement.used()] + VARIABLE.findall(self.result)
        return [n for n in dict.fromkeys(names) if n not in bound]


@dataclass(frozen=True)
class Statement:
    targets: tuple[str, ...]
    text: str
    blocks: tuple[Block, ...] = ()
    # The expression is one array; otherwise a pytree, of which the targets are the leaves.
    single: bool = True

    def lines(self, wrap: str = "{}") -> list[str]:
        """The statement as Python; `wrap` is put around what its targets get."""
        right = wrap.format(self.text if self.single else f"leaves({self.text})")
        left = ", ".join(self.targets) + ("," if not self.single and len(self.targets) == 1 else "")
        return [*(line for block in self.blocks for line in block.lines()), f"{left or '_'} = {right}"]

    def used(self) -> list[str]:
        """Variables that the statement reads, blocks included."""
        names = VARIABLE.findall(self.text) + [n for block in self.blocks for n in block.used()]
        return list(dict.fromkeys(names))

    def operation(self) -> str:
        """The public name that the statement is about: the first one in its text."""
        found = NAME.search(self.text)
        return found.group() if found else self.text


@dataclass(frozen=True)
class Program:
    """`inputs` holds NumPy arrays and Python scalars, by name; `stack` transformations, the innermost first."""

    x64: bool
    inputs: dict[str, Any]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    stack: tuple[tuple[str, dict[str, Any]], ...] = ()
    types: dict[str, Type] = field(default_factory=dict)
    refused: tuple[Statement, ...] = ()  # what jax refused while the program was made

    def lines(self) -> list[str]:
        body = [line for statement in self.statements for line in statement.lines()]
        return [
            f"def program({', '.join(self.inputs)}):",
            *[f"    {line}" for line in (*body, f"return [{', '.join(self.results)}]")],
        ]

    def public_names(self) -> set[str]:
        """The public names in the program's text, as `np.linalg.qr`."""
        return set(NAME.findall("\n".join(self.lines()))) | {f"lib.{name}" for name, _ in self.stack}
