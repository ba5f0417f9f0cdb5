"""Notebooks of the tour and of three programs: `make notebooks` writes them into out/notebooks.

They are made of README.md and of examples/, and are kept nowhere, so they cannot differ from these. Each example of the
tour becomes a cell, and so does each function of a program; the last cells do what its command line does. Tests run the
cells (`tests/test_notebooks.py`).

    python docs/make_notebooks.py [folder]
"""

from __future__ import annotations

import ast
import doctest
import itertools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROGRAMS = ("digits", "gaussian_process", "hamiltonian")
RAISES = "raises-exception"  # the tag by which notebooks go on after an error that is meant

Cell = dict[str, Any]


def markdown(text: str) -> Cell:
    """A cell of text; links to files of the repository start at the notebook."""
    return {
        "cell_type": "markdown",
        "metadata": {},
        "source": re.sub(r"\]\((?!http|#)", "](../../", text.strip()),
    }


def code(text: str, *tags: str) -> Cell:
    """A cell of Python."""
    metadata = {"tags": list(tags)} if tags else {}
    cell = {"cell_type": "code", "metadata": metadata, "source": text.strip()}
    return {**cell, "execution_count": None, "outputs": []}


def tour() -> Iterator[Cell]:
    """The first program of README.md, and its tour."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    yield markdown("# Didax: a tour")
    start = readme.index("```python")
    yield markdown(readme[readme.index("\n") : start])
    yield code(readme[start:].split("```")[1].removeprefix("python"))
    text = readme[readme.index("\n## A tour") : readme.index("\n## Where to read on")]
    text = text[: text.index("An error states the rule")].replace("## A tour", "")
    for i, part in enumerate(re.split(r"```(?:python)?\n", text)):
        if i % 2 == 0:
            if part.strip():
                yield markdown(part)
        else:
            yield from examples(part)


def examples(text: str) -> Iterator[Cell]:
    """Cells of examples with prompts, each of which ends with what shows something."""
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(text):
        lines.append(example.source)
        if example.want:
            yield code("".join(lines), *([RAISES] if example.exc_msg else []))
            lines = []
    if lines:
        yield code("".join(lines))


def program(name: str, options: Sequence[str] = ()) -> Iterator[Cell]:
    """A program of examples/ in its sections, then a call with these options of its command line."""
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    head, *statements = ast.parse(source).body
    assert isinstance(head, ast.Expr) and head.end_lineno is not None and statements
    title, _, about = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    yield markdown(f"# {title.partition(':')[0].rstrip('.')}\n{about}")
    body = "\n".join(source.splitlines()[head.end_lineno :]).partition('if __name__ == "__main__":')[0]
    for part in parts_of(body):
        heading = re.match(r"# --- (.*?) -+$", part, flags=re.MULTILINE)
        if heading is not None:
            yield markdown(f"## {heading[1][0].upper()}{heading[1][1:]}")
            part = part[heading.end() :].strip()
        if part:
            yield code(part)
    picture = f"{name}.png"
    yield markdown("## Run it")
    argv = [name, "--picture", picture, *options]
    yield code(f"import sys\n\nsys.argv = {argv!r}  # as on a command line\nmain()")
    yield code(f'from IPython.display import Image\n\nImage("{picture}")')


def parts_of(source: str) -> Iterator[str]:
    """The source in parts, each of which begins with a function or a class, or with a heading."""
    lines = source.splitlines()
    starts = {i for i, line in enumerate(lines) if line.startswith("# --- ")}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            start = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
            while start > 0 and lines[start - 1].startswith("#") and start not in starts:
                start -= 1
            starts.add(start)
    ends = sorted({0, *starts, len(lines)})
    for start, stop in itertools.pairwise(ends):
        part = "\n".join(lines[start:stop]).strip()
        if part:
            yield part


def notebook(cells: Iterator[Cell]) -> dict[str, Any]:
    """The content of an .ipynb file."""
    numbered = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, cells in {"tour": tour(), **{name: program(name) for name in PROGRAMS}}.items():
        path = folder / f"{name}.ipynb"
        path.write_text(json.dumps(notebook(cells), indent=1), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
