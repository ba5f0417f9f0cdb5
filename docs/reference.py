"""The reference: a page for each public module, of the docstrings of its names. `make_site.py` puts them into the site.

Many public names are made from tables when their module is imported, so the docstrings are those of the objects.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import didax

ROOT = Path(__file__).parent.parent
# These come first in the site, then the others by name.
FIRST = ["didax", "didax.numpy", "didax.numpy.fft", "didax.numpy.linalg", "didax.lax", "didax.lax.linalg"]
FIRST += ["didax.nn", "didax.nn.initializers", "didax.random", "didax.tree"]
# The floors below what users import, and packages whose modules are collected in the package itself.
FLOORS = ("core", "transforms", "passes", "xla", "primitives", "runtime", "api", "as_jax")
FACES = ("didax.lax", "didax.numpy", "didax.nn", "didax.experimental.sparse")
WIDTH = 88
CONSTANTS = (int, float, complex, str, tuple, dict, frozenset, np.dtype, type(None))
# Operands of examples, by their number: floats in most domains, floats from 1 on, integers, booleans.
OPERANDS = {
    1: (
        ("dnp.array([0.25, 0.5])",),
        ("dnp.array([1.0, 2.0])",),
        ("dnp.array([1, 6])",),
        ("dnp.array(True)",),
    ),
    2: (
        ("dnp.array([0.5, 3.0])", "2.0"),
        ("dnp.array([0.25, 0.5])", "0.5"),
        ("dnp.array([1, 6])", "3"),
        ("3", "dnp.array([0.25, 0.5])"),
    ),
    3: (("2.0", "3.0", "dnp.array([0.25, 0.5])"),),
    4: (("1.0", "2.0", "3.0", "dnp.array([0.25, 0.5])"),),
}
# Sections for names whose docstrings hold no example, by module and name: prose, and a session of Python.
WRITTEN = {
    section.partition("\n")[0]: section.partition("\n")[2].strip()
    for section in (ROOT / "docs/reference_examples.txt").read_text().split("\n## ")[1:]
}


def public_modules() -> list[str]:
    """The modules that users import and that define names."""
    found = list(FIRST)
    for module in pkgutil.walk_packages(didax.__path__, "didax."):
        package, parts = module.name.rpartition(".")[0], module.name.split(".")
        hidden = parts[1] in FLOORS or package in FACES or any(part[0] == "_" for part in parts)
        if not hidden and module.name not in FIRST and names_of(importlib.import_module(module.name)):
            found.append(module.name)
    return found


def page_of(module: str) -> str:
    """The path of a module's page."""
    return f"reference/{module}.md"


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module but for modules in it: those of `__all__`, or those that the package defines."""
    if listed := getattr(module, "__all__", None):
        names = list(listed)
    else:
        names = [name for name, x in vars(module).items() if name[0] != "_" and defined_here(module, x)]
    return sorted((n for n in names if not inspect.ismodule(getattr(module, n))), key=str.lower)


def defined_here(module: ModuleType, x: Any) -> bool:
    """True for what the package defines, and for constants."""
    if isinstance(x, int | float):
        return True
    home = getattr(x, "__module__", None) or ""
    package = module.__name__ if "example" in module.__name__ else "didax"
    return home.startswith(package) and not inspect.ismodule(x)


def docstring_of(x: Any, name: str = "", module: str = "") -> str:
    """The docstring of an object, or of what it is an instance of, with the section written for it; "" without any."""
    prose, session = written(name, x, module)
    return "\n\n".join(filter(None, [prose or inspect.getdoc(x) or "", session]))


def written(name: str, x: Any, module: str) -> tuple[str, str]:
    """The prose and the session of the section of a name; where a name is that of another module, its section there."""
    section = WRITTEN.get(f"{module}.{name}", "")
    if not section and not is_constant(x):
        section = next((text for key, text in WRITTEN.items() if object_of(key) is x), "")
    prose, mark, session = section.partition(">>> ")
    return prose.strip(), mark + session


def object_of(key: str) -> Any:
    """The object that a section is about."""
    module, _, name = key.rpartition(".")
    return getattr(importlib.import_module(module), name)


def is_constant(x: Any) -> bool:
    """True for numbers and the like, which show themselves."""
    return not callable(x) and isinstance(x, CONSTANTS)


def undocumented(module: str) -> list[str]:
    """The public names of a module without a docstring."""
    loaded = importlib.import_module(module)
    values = {name: getattr(loaded, name) for name in names_of(loaded)}
    return [name for name, x in values.items() if not is_constant(x) and not docstring_of(x, name, module)]


def page(module: str) -> str:
    """The page of reference of a module, in Markdown."""
    loaded = importlib.import_module(module)
    if missing := undocumented(module):
        raise SystemExit(f"{module} has public names without docstrings: {', '.join(missing)}")
    entries = {name: getattr(loaded, name) for name in names_of(loaded)}
    rows = [
        f"| [`{name}`](#{anchor(name)}) | {first_sentence(name, x, module)} |" for name, x in entries.items()
    ]
    parts = [
        f"# {module}",
        markdown(docstring_of(loaded)),
        "| name | what it is |\n|---|---|\n" + "\n".join(rows),
    ]
    for name, x in entries.items():
        parts.append(entry(name, x, module))
    return "\n\n".join(parts) + "\n"


def anchor(name: str) -> str:
    plain = name.replace("__", "-")  # which Markdown would take for bold text
    return f"name-{plain.lower()}" if plain != plain.lower() else f"name-{plain}-"


def first_sentence(name: str, x: Any, module: str = "") -> str:
    """The first sentence of a docstring, for a table."""
    if is_constant(x):
        return f"`{x!r}`".replace("|", "\\|")
    paragraph = " ".join(docstring_of(x, name, module).partition("\n\n")[0].split())
    sentence = re.match(r".*?\.(?= |$)", paragraph)
    return escaped(sentence[0] if sentence else paragraph.rstrip(":")).replace("|", "\\|")


def entry(name: str, x: Any, module: str = "") -> str:
    """The section of a name."""
    head = f"## `{name}` {{ #{anchor(name)} }}"
    if is_constant(x):
        return f"{head}\n\n`{x!r}`"
    parts = [head]
    if text := signature(name, x):
        parts.append(f"```python\n{text}\n```")
    parts.append(markdown(docstring_of(x, name, module)))
    if ">>> " not in docstring_of(x, name, module) and (text := example(name, x, module)):
        parts.append(f"```pycon\n{text}\n```")
    if (place := source(x)) is not None:
        parts.append(f'<a href="../source/{place[0]}.html#L-0-{place[1]}">Source</a>')
    return "\n\n".join(parts)


def example(name: str, x: Any, module: str) -> str:
    """A call of an elementwise function, or of a dtype, with its result; "" of anything else.

    These are made from tables, without an example in their docstrings. The operands are the first that suit.
    """
    operands = OPERANDS.get(x.nin, ()) if isinstance(x, didax.numpy.ufunc) else ()
    if isinstance(x, type(didax.numpy.float32)):
        operands = (("1.5",), ("1",))
    for texts in operands:
        names = {"dnp": didax.numpy}
        try:
            result = x(*(eval(text, names) for text in texts))
        except (TypeError, ValueError, OverflowError):
            continue
        if all(np.isfinite(np.asarray(y, "complex64")).all() for y in didax.tree.leaves(result)):
            home = "dnp" if module == "didax.numpy" else module.rpartition(".")[2]
            return f">>> {home}.{name}({', '.join(texts)})\n{result!r}"
    return ""


def signature(name: str, x: Any) -> str:
    """How to call it, without annotations, which the docstring says in words."""
    try:
        found = inspect.signature(x)
    except (TypeError, ValueError):
        return ""
    empty = inspect.Parameter.empty
    parameters = [plain(p.replace(annotation=empty)) for p in found.parameters.values()]
    kinds = [p.kind for p in parameters]
    found = found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    text = f"{name}{found}"
    if len(text) <= WIDTH:
        return text
    inner = [str(p) for p in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        inner.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        inner.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    return f"{name}(\n" + "".join(f"    {line},\n" for line in inner) + ")"


class _Shown:
    """A default value by the text that shows it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter, with a default that does not show addresses of memory."""
    default = parameter.default
    text = repr(default)
    if default is parameter.empty or not re.search(r" at 0x|^<", text):
        return parameter
    name = getattr(default, "__name__", None)
    return parameter.replace(default=_Shown(name if name and name.isidentifier() else "..."))


def source(x: Any) -> tuple[str, int] | None:
    """The file of the repository, and the line, where something is defined."""
    try:
        inner = inspect.unwrap(x)
        path = Path(inspect.getsourcefile(inner) or "").resolve()
        line = inspect.getsourcelines(inner)[1]
        return path.relative_to(ROOT).as_posix(), max(line, 1)
    except (TypeError, OSError, ValueError):
        return None


def markdown(text: str) -> str:
    """A docstring as Markdown: its examples become blocks of code, its lists of arguments lists."""
    out: list[str] = []
    state = ""
    for line in text.split("\n"):
        if state and not line.strip():
            out += ["```"] if state == "example" else []
            state = ""
        elif state != "example" and line.lstrip().startswith(">>> "):
            indent, state = len(line) - len(line.lstrip()), "example"
            out += ["", "```pycon"]
        elif heading := re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line):
            out += ["", f"**{heading[1]}**", ""]
            state = "list"
            continue
        elif state == "list" and not line.startswith("    "):
            state = ""
        if state == "example":
            out.append(line[indent:])
        elif state == "list":
            out.append(item(line[4:]))
        else:
            out.append(line if line.startswith("    ") else escaped(line))
    return "\n".join([*out, "```"] if state == "example" else out)


def item(line: str) -> str:
    """A line of a list of arguments: it begins one, or goes on."""
    if line.startswith(" "):
        return f"  {escaped(line.strip())}"
    name, colon, rest = line.partition(": ")
    return f"- `{name}`: {escaped(rest)}" if colon and "`" not in name else f"- {escaped(line)}"


def escaped(line: str) -> str:
    """Text without what Markdown would take for HTML or a link, but for words in backticks."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"([<*_\[])", r"\\\1", p) for p in parts)


MODULES = public_modules()
