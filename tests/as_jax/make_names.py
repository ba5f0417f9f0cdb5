"""Writes `didax/as_jax/names.txt`: the public modules of the installed jax, and the public names in each.

    python tests/as_jax/make_names.py

A line has the path of a module and then the names in it; `name/` is a module. Names that jax gives with a warning that
they are deprecated count; names that jax has removed do not.
"""

import importlib
import inspect
import pkgutil
import textwrap
import types
import warnings
from pathlib import Path

import jax

from didax.as_jax.hook import PUBLIC_DUNDERS

TARGET = Path(__file__).parents[2] / "didax" / "as_jax" / "names.txt"
# Modules for other hardware, and programs of jax's own, which are started from a shell.
LEFT_OUT = ("jax.experimental.jax2tf", "jax.experimental.mosaic", "jax.tools", "jax.experimental.pallas.",
            "jax.collect_profile", "jax.experimental.roofline", "jax.extend.ifrt_programs",
            "jax.experimental.colocated_python.", "jax.extend.mlir.")  # fmt: skip
# Modules whose files also show what they import.
PLAIN = ("jax.experimental.", "jax.example_libraries.opt", "jax.extend.lin", "jax.scipy.stats")


def public_modules() -> list[str]:
    """Paths of the public modules, parents first."""
    found = ["jax"]
    for info in pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda _: None):
        if not any(part.startswith("_") for part in info.name.split(".")) and not info.name.startswith(
            LEFT_OUT
        ):
            found.append(info.name)
    return found


def names_of(path: str) -> list[str]:
    """Names of a module, as this page of names writes them."""
    module = importlib.import_module(path)
    deprecated = getattr(module, "_deprecations", {})
    names = {n for n in vars(module) if not n.startswith("_") or n in PUBLIC_DUNDERS}
    names |= {n for n, entry in deprecated.items() if entry[1] is not None}
    names -= {n for n, entry in deprecated.items() if entry[1] is None}
    names |= {n for n in getattr(module, "__all__", ()) if not n.startswith("_")}
    found = []
    for name in sorted(names - {"annotations", "TYPE_CHECKING", "Any"}):
        value = getattr(module, name, None)
        if isinstance(value, types.ModuleType):
            if value.__name__ == f"{path}.{name}":
                found.append(name + "/")
            elif value.__name__.startswith("jax.") and "_src" not in value.__name__:
                found.append(name)
        elif not (path.startswith(PLAIN) and is_imported(value, path)):
            found.append(name)
    return found


def is_imported(value: object, path: str) -> bool:
    """True for what the module at `path` only uses: values of other packages and of jax's public modules."""
    home = getattr(value, "__module__", None) or ""
    if home.startswith(("typing", "collections")) and not isinstance(value, types.GenericAlias):
        return True
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return False
    root = path.rsplit(".", 1)[0] if path.count(".") > 2 else path
    return not home.startswith((root, "jax._src"))


def main() -> None:
    """Write the file."""
    lines = [f"# The public names of jax {jax.__version__}. Written by tests/as_jax/make_names.py."]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in public_modules():
            try:
                names = names_of(path)
            except Exception:  # a module for hardware or packages that are not here
                continue
            lines.append(path)
            lines += textwrap.wrap(
                " ".join(names), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )
    TARGET.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
