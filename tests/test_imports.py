"""The house stands: imports run downward only, in no cycle, and each outside library has its place.

The test reads the source, so imports inside functions count as well, and so do those under `if TYPE_CHECKING:`, which
only a type checker reads, and `import_module("...")` with a literal name.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "didax").rglob("*.py"))
}

# The first entry that a module's name begins with gives its floor; all others stand on the top one.
FLOORS = {
    "didax.core": 1,
    "didax.version": 1,
    "didax.transforms": 2,
    "didax.passes.loops": 4,
    "didax.passes": 2,
    "didax.xla": 2,
    "didax.primitives": 3,
    "didax.runtime": 4,
    "didax.api": 4,
}
TOP = 5

Import = tuple[str, int]  # the module imported, the line


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def floor(module: str) -> int:
    return next((floor for package, floor in FLOORS.items() if within(module, package)), TOP)


def absolute(name: str, level: int, package: str) -> str:
    """The full name that `level` leading dots and `name` stand for inside `package`."""
    if not level:
        return name
    parents = package.split(".")[: len(package.split(".")) - (level - 1)]
    return ".".join([*parents, name] if name else parents)


def is_importer(function: ast.expr) -> bool:
    name = getattr(function, "attr", getattr(function, "id", ""))
    return name in ("import_module", "__import__") and ast.unparse(function) in (
        "import_module",
        "importlib.import_module",
        "__import__",
    )


def names_in(node: ast.AST, package: str, modules: set[str]) -> list[str]:
    """The modules that an import statement, or a call of import_module with a literal, loads."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            base = absolute(node.module or "", node.level, package)
            return [
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names
            ]
        case ast.Call(func=called, args=[ast.Constant(str(name)), *_]) if is_importer(called):
            return [absolute(name.lstrip("."), len(name) - len(name.lstrip(".")), package)]
    return []


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a node, at any depth: far fewer than the nodes."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


parsed = functools.cache(ast.parse)  # two tests read every file


def imports_of(source: str, module: str, *, is_package: bool, modules: set[str]) -> list[Import]:
    """What a file imports."""
    package = module if is_package else module.rpartition(".")[0]
    has_calls = "import_module" in source or "__import__" in source
    return [
        (name, node.lineno)
        for node in (ast.walk if has_calls else statements)(parsed(source))
        for name in dict.fromkeys(names_in(node, package, modules))
    ]


@functools.cache
def all_imports() -> dict[str, list[Import]]:
    """What each file imports. Reading them all takes seconds, so no process does it that does not run these tests."""
    return {
        module: imports_of(
            path.read_text(), module, is_package=path.name == "__init__.py", modules=set(FILES)
        )
        for module, path in FILES.items()
    }


def places(wrong: Callable[[str, str], bool]) -> str:
    """The imports of which `wrong(module, imported)` holds, as lines for the assertion's message."""
    return "\n".join(
        f"{FILES[module].relative_to(ROOT)}:{line} imports {name}"
        for module, found in all_imports().items()
        for name, line in found
        if wrong(module, name)
    )


def test_imports_run_downward_only():
    upward = places(lambda module, name: within(name, "didax") and floor(name) > floor(module))
    assert not upward, f"imports go to the same floor or a lower one:\n{upward}"


def test_the_import_graph_has_no_cycle():
    graph = {
        module: {name for name, _ in found if name in FILES and name != module}
        for module, found in all_imports().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("modules import each other in a circle: " + " <- ".join(error.args[1]))


def test_every_import_of_didax_names_a_module_that_exists():
    missing = places(lambda module, name: within(name, "didax") and name not in FILES)
    assert not missing, missing


def test_only_xla_and_the_pytrees_import_jaxlib():
    homes = ("didax.xla", "didax.core.pytree", "didax.as_jax.interpreters.mlir")
    strays = places(
        lambda module, name: within(name, "jaxlib") and not any(within(module, home) for home in homes)
    )
    assert not strays, f"jaxlib is imported in {' and '.join(homes)} only:\n{strays}"


def test_nothing_imports_jax():
    strays = places(lambda module, name: within(name, "jax"))
    assert not strays, f"jax is a test oracle, never a dependency:\n{strays}"


@pytest.mark.ci
def test_import_didax_loads_what_the_first_operations_need():
    """XLA, SciPy and jax cost hundreds of milliseconds, each module half of one, and so does a search for garbage."""
    program = (
        "import gc, sys\n"
        "def searches(): return sum(generation['collections'] for generation in gc.get_stats())\n"
        "before = searches(); import didax; print(searches() - before, gc.isenabled())\n"
        "print(len(gc.get_objects(0)) + len(gc.get_objects(1)), gc.get_freeze_count(), *sys.modules, sep='\\n')\n"
    )
    output = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True)
    searches, enabled, young, frozen, *loaded = output.split()
    assert int(searches) < 20  # of 120
    assert enabled == "True"
    assert int(young) < 5000 and frozen == "0"  # of 30,000, which the next searches would go through
    assert "didax.numpy" in loaded
    late = {"jaxlib._jax", "scipy", "jax", "logging", "difflib", "bdb", "tempfile"}
    late |= {"didax.checkify", "didax.debug", "didax.extend", "didax.nn", "didax.scipy"}
    assert not late & set(loaded)
    assert sum(within(name, "didax") for name in loaded) <= 361


SOURCE = """
import didax.core.dtypes
from didax import api, grad
from . import dtypes, zeros
from .dtypes import lattice
from ..xla import client
def f():
    from jaxlib import _jax
    return import_module("didax.nn"), importlib.import_module(".tree", __package__)
if TYPE_CHECKING:
    from didax.runtime.array import Array
else:
    import jax.numpy
"""


def test_the_reader_of_imports_sees_every_form():
    modules = {"didax", "didax.api", "didax.core", "didax.core.dtypes", "didax.xla", "didax.xla.client"}
    found = imports_of(SOURCE, "didax.core.aval", is_package=False, modules=modules)
    assert sorted(found, key=lambda entry: entry[1]) == [
        *[
            ("didax.core.dtypes", 2),
            ("didax.api", 3),
            ("didax", 3),
            ("didax.core.dtypes", 4),
            ("didax.core", 4),
        ],
        *[
            ("didax.core.dtypes", 5),
            ("didax.xla.client", 6),
            ("jaxlib", 8),
            ("didax.nn", 9),
            ("didax.core.tree", 9),
        ],
        *[("didax.runtime.array", 11), ("jax.numpy", 13)],
    ]
    in_init = imports_of("from .dtypes import lattice", "didax.core", is_package=True, modules=modules)
    assert in_init == [("didax.core.dtypes", 1)]


def assignments_to_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Attributes that a module sets, at its top level, on what it imported."""
    tree = parsed(path.read_text())
    imported = {
        alias.asname or alias.name
        for node in statements(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        for inner in ast.walk(node) if isinstance(node, ast.For) else [node]:
            if isinstance(inner, ast.Assign):
                targets = [t.value for t in inner.targets if isinstance(t, ast.Attribute)]
            elif isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
                call = inner.value
                is_setter = isinstance(call.func, ast.Name) and call.func.id == "setattr"
                targets = call.args[:1] if is_setter else []
            else:
                targets = []
            for target in targets:
                if isinstance(target, ast.Name) and target.id in imported:
                    yield target.id, inner.lineno


def test_a_lower_floor_is_given_what_it_lacks_in_one_way() -> None:
    """By `given_by` and `give` of core/given.py, in which both places name each other."""
    found = {module: list(assignments_to_imports(path)) for module, path in FILES.items()}
    assert not {module: places for module, places in found.items() if places}
