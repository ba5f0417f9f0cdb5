"""`python -m didax.as_jax --check PATH...`: the names of jax that sources use, and which of them Didax has.

The sources are read, not run. An `import jax.numpy as jnp` gives a name to a module; what follows it in
`jnp.linalg.norm`, and what `from jax import lax` imports, is looked up as the layer would. Each name is listed with the
places that use it: as missing, as one that this JAX does not have either (libraries ask for such names where another
version is installed), as there with a difference, or as there. `docs/differences.md` tells what else differs in Didax.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from didax.as_jax.hook import JAX_VERSION, find, install, is_module, names_of_jax, refusal
from didax.as_jax.table import difference


class Use(NamedTuple):
    """A name of jax, where a source uses it."""

    name: str
    place: str


def report(paths: Sequence[str]) -> int:
    """Print the names that sources use; 1 where some are missing."""
    if not paths:
        print("--check takes the paths of files or folders", file=sys.stderr)
        return 2
    install()
    uses: dict[str, list[str]] = {}
    for path in paths:
        for use in uses_in(Path(path)):
            uses.setdefault(use.name, []).append(use.place)
    groups: dict[str, list[str]] = {
        "missing": [],
        f"neither here nor in JAX {JAX_VERSION}": [],
        "there, with a difference": [],
        "there": [],
    }
    missing, unknown, different, there = groups.values()
    for name in sorted(uses):
        places = uses[name]
        reason = absent(name)
        line = f"  {name}  ({len(places)}: {', '.join(places[:3])}{', ...' if len(places) > 3 else ''})"
        if reason is not None:
            (missing if in_jax(name) else unknown).append(line)
        elif (text := difference(name)) is not None:
            different.append(f"{line}: {text}")
        else:
            there.append(f"  {name}")
    for title, lines in groups.items():
        print(f"{title}: {len(lines)}", *lines, sep="\n")
    return 1 if missing else 0


def uses_in(path: Path) -> Iterator[Use]:
    """The names of jax in a file, or in the files of a folder."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for file in files:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError) as error:
            print(f"{file}: not read: {error}", file=sys.stderr)
            continue
        for name, line in _Reader().names(tree):
            yield Use(name, f"{file}:{line}")


class _Reader(ast.NodeVisitor):
    """Follows the imports of a file. A name that is bound anew elsewhere in the file is still taken for the module."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}  # name in the file -> path in jax
        self.found: list[tuple[str, int]] = []

    def names(self, tree: ast.AST) -> list[tuple[str, int]]:
        """Dotted names of jax with their lines."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        self.visit(tree)
        return self.found

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == "jax":
                self.modules[alias.asname or "jax"] = alias.name if alias.asname else "jax"
                if alias.name != "jax":
                    self.found.append((alias.name, node.lineno))

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or "").split(".")[0] != "jax":
            return
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            self.found.append((path if alias.name != "*" else str(node.module), node.lineno))
            if alias.name != "*":
                self.modules[alias.asname or alias.name] = path

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
            return
        # Attributes of values are left out: jax.Array.shape, jnp.float32.dtype.
        while not is_module(path.rpartition(".")[0]):
            path = path.rpartition(".")[0]
        self.found.append((path, node.lineno))

    def _path(self, node: ast.expr) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.modules:
            return None
        root = self.modules[node.id]
        return ".".join([root, *reversed(parts)]) if is_module(root) else None


def in_jax(name: str) -> bool:
    """Whether the JAX that Didax follows may have a name: `names.txt` lists no private ones, and not all modules."""
    path, _, last = name.rpartition(".")
    if name.startswith("jax._src."):
        return True
    if path not in names_of_jax() or last.startswith("_"):
        return is_module(path)
    return is_module(name) or last in names_of_jax()[path]


def absent(name: str) -> str | None:
    """Why a name of jax is not there; None for one that is."""
    path, _, last = name.rpartition(".")
    try:
        if is_module(name) and refusal(name) is None:
            importlib.import_module(name)
        else:
            find(path, last)
    except (AttributeError, ImportError) as error:
        return str(error)
    return None
