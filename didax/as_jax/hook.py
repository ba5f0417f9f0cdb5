"""The import hook: a module of its own for each public module of jax.

`install()` puts a finder before all others. It answers for `jax` and what is below it with `JaxModule`s, whose names
are looked up when they are first asked for, so an import of `jax` costs no more than one of `didax`. A name is found

1. where `table.py` says, for what has another home in Didax, or is an adapter of this package;
2. as a module of jax;
3. in Didax's module of the same path, if jax has the name (`names.txt`).

Everything else is an AttributeError that names the list. Read next: `table.py`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from didax.as_jax.table import HOMES, IMPLEMENTED, JAXLIB, KERNELS, PRIVATE, REFUSED
from didax.core.errors import message

JAX_VERSION = "0.10.2"
_LIST = "python -m didax.as_jax --missing"


@functools.cache
def names_of_jax() -> dict[str, tuple[str, ...]]:
    """The public names of each public module of jax; `name/` is a module."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in (Path(__file__).parent / "names.txt").read_text().splitlines():
        if line.startswith("  "):
            names += line.split()
        elif not line.startswith("#"):
            names = found[line] = []
    for path in found:  # jax has more modules than it imports by itself
        parent, _, name = path.rpartition(".")
        if parent in found and f"{name}/" not in found[parent]:
            found[parent].append(f"{name}/")
    return {path: tuple(names) for path, names in found.items()}


def is_module(path: str) -> bool:
    """Whether jax has a module at the path, public, or private and needed by libraries, or refused here."""
    parent, _, name = path.rpartition(".")
    if (
        path == "jax"
        or path in names_of_jax()
        or path in HOMES
        or path in REFUSED
        or f"{name}/" in names_of_jax().get(parent, ())
    ):
        return True
    if (other := _in_jaxlib(path)) is not None:
        try:
            return importlib.util.find_spec(other) is not None
        except ModuleNotFoundError:  # the parent is not a package
            return False
    private = (*PRIVATE, *IMPLEMENTED)
    return path in private or any(other.startswith(path + ".") for other in private)


def _in_jaxlib(path: str) -> str | None:
    """The jaxlib module that jax has at a path, too; None for other paths."""
    for start, home in JAXLIB.items():
        if path == start or path.startswith(start + "."):
            return home + path.removeprefix(start)
    return None


# Public names in modules of jax that begin with underscores: versions, and what the array API standard asks for.
PUBLIC_DUNDERS = ("__version__", "__version_info__", "__array_api_version__", "__array_namespace_info__")


class JaxModule(ModuleType):
    """A module of jax, whose names come from Didax."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_") and hasattr(self, n)]
        if name.startswith("__") and name not in PUBLIC_DUNDERS:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = find(self.__name__, name)
        setattr(self, name, value)
        return value

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        """All names with their values, which `vars(module)` asks for: each is looked up."""
        for name in dir(self):
            getattr(self, name, None)
        return _namespace(self)

    def __dir__(self) -> list[str]:
        known = names_of_jax().get(self.__name__, ()) or PRIVATE.get(self.__name__, {})
        names = (name.rstrip("/") for name in known)
        return sorted(
            {*_namespace(self), *(name for name in names if refusal(f"{self.__name__}.{name}") is None)}
        )


_namespace: Any = vars(ModuleType)["__dict__"].__get__  # the names of a module that were looked up


def find(path: str, name: str) -> Any:
    """What the module of jax at `path` has under `name`; AttributeError for what is missing."""
    if path in PRIVATE and name in PRIVATE[path]:
        return _load(PRIVATE[path][name] or path.replace("jax._src", "didax.as_jax.private"), name)
    if (other := _in_jaxlib(path)) is not None and not is_module(f"{path}.{name}"):
        return getattr(importlib.import_module(other), name)
    home = HOMES.get(path, {}).get(name)
    if home is not None:
        return _load(home, name)
    if is_module(f"{path}.{name}") and refusal(f"{path}.{name}") is None:
        return importlib.import_module(f"{path}.{name}")
    if name in names_of_jax().get(path, ()):
        for module in (*HOMES.get(path, {}).get("*", "").split(), "didax" + path.removeprefix("jax")):
            try:
                return getattr(_module(module), name)
            except AttributeError:
                continue
    for public in IMPLEMENTED.get(path, ()):
        if name in names_of_jax()[public]:
            return find(public, name)
    raise AttributeError(_absent(path, name), name=name, obj=sys.modules.get(path))


def _module(path: str) -> ModuleType | None:
    if path in sys.modules:
        return sys.modules[path]
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise
        return None


def _load(home: str, name: str) -> Any:
    """The value at a home: `module`, where it has the same name, or `module:name`."""
    module, _, own = home.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for part in (own or name).split("."):
            value = getattr(value, part)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("didax"):
            raise
        raise AttributeError(
            message(f"{name} has no counterpart in Didax yet.", f"wanted: {home}", fix=f"The list: {_LIST}"),
            name=name,
        ) from None
    return value


def _absent(path: str, name: str) -> str:
    reason = refusal(f"{path}.{name}")
    known = reason is not None or name in names_of_jax().get(path, ())
    if path.startswith("jax._src"):
        rule = (
            f"{path}.{name} is private to JAX, and none of the private names that Didax gives to libraries."
        )
    elif known:
        rule = f"{path}.{name} is missing: JAX {JAX_VERSION} has it, Didax has no counterpart."
    else:
        rule = f"module {path!r} has no attribute {name!r}, neither here nor in JAX {JAX_VERSION}."
    return message(
        rule, *([f"reason: {reason}"] if reason else []), fix=f"The list of what is missing: {_LIST}"
    )


def refusal(path: str) -> str | None:
    """Why a module of jax, or a name in it, is absent on purpose; None for another."""
    return next(
        (why for start, why in REFUSED.items() if path == start or path.startswith(start + ".")), None
    )


def _has_kernels(path: str) -> bool:
    """Whether the module at `path` is absent, but imported: libraries call its kernels on accelerators alone.

    `names.txt` does not have all modules below these: a name that it lacks is taken for one.
    """
    parent, _, name = path.rpartition(".")
    if path in KERNELS:
        return True
    below = path.startswith(tuple(f"{start}." for start in KERNELS))
    return below and name not in names_of_jax().get(parent, ())


def missing() -> str:
    """The public names of jax that this layer lacks, a line for each module that lacks some."""
    lines: list[str] = []
    for path, names in names_of_jax().items():
        module = JaxModule(path)
        absent = [name for name in names if not name.endswith("/") and not hasattr(module, name)]
        if absent:
            lines.append(f"{path}: {' '.join(absent)}")
    return "\n".join(lines)


class _Finder:
    """Answers for `jax` and all below it, and for the metadata of the distribution of this name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        asked = sys._getframe(2).f_code.co_name != "_find_and_load_unlocked"  # by `importlib.util.find_spec`
        if (is_module(fullname) and refusal(fullname) is None) or (not asked and _has_kernels(fullname)):
            return importlib.machinery.ModuleSpec(
                fullname, _Loader(), origin=f"didax.as_jax:{fullname}", is_package=True
            )
        if asked:
            return None  # `find_spec` returns None for a missing module
        # Python replaces an error that names a.b by its own in `from a import b`. The missing module is Didax's, too.
        name = "didax" + fullname.removeprefix("jax")
        raise ModuleNotFoundError(_absent(*fullname.rpartition(".")[::2]), name=name)

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """The distribution of the name jax, for `importlib.metadata`, which asks every finder that has this method."""
        if context is None or context.name != "jax":
            return []
        return [importlib.import_module("didax.as_jax.distribution").JaxDistribution(JAX_VERSION)]


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return JaxModule(spec.name, f"The module {spec.name} of JAX, as Didax has it. See didax.as_jax.")

    def exec_module(self, module: ModuleType) -> None:
        pass


def installed() -> bool:
    """Whether `import jax` gives the modules of this layer."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def install() -> None:
    """From now on `import jax` gives Didax, in this process. RuntimeError where another jax was imported before."""
    if installed():
        return
    if "jax" in sys.modules:
        rule = "didax.as_jax.install() has to run before jax is imported."
        origin = getattr(sys.modules["jax"], "__file__", "a module without a file")
        raise RuntimeError(message(rule, f"imported: {origin}", fix="Make it the first line of the program."))
    finder: Any = _Finder()
    sys.meta_path.insert(0, finder)
    importlib.import_module("didax.as_jax.mode").enter()
