"""Modules that are loaded when they are first asked for: `import didax as dx; dx.scipy.special.gammaln(1.0)`.

    if TYPE_CHECKING:
        from didax import scipy as scipy
    else:
        __getattr__, __dir__ = on_access(__name__, "scipy")

So `import didax` stays fast, every public module is an attribute of its package, and `dir` lists it. Only type checkers
read the import. A name that is nowhere in the package raises `MissingNameError`, which says where such a name is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from didax.core.missing_names import missing


def on_access(
    package: str, *modules: str, **homes: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package that loads modules of its own, or names from them (`homes`)."""

    def find(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")  # which makes it an attribute of the package
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        raise missing(package, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *homes})

    return find, names
