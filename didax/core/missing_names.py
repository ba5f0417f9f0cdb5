"""What a public module says of a name that it lacks: where such a name is.

    >>> import didax
    >>> didax.sin
    Traceback (most recent call last):
    didax.core.missing_names.MissingNameError: module 'didax' has no attribute 'sin'.
    Use didax.numpy.sin or didax.lax.sin.
    >>> didax.numpy.argmx
    Traceback (most recent call last):
    didax.core.missing_names.MissingNameError: module 'didax.numpy' has no attribute 'argmx'.
    Did you mean didax.numpy.argmax?

Read next: `modules.py`, whose `on_access` gives a module its `__getattr__`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

# The modules that users name, those that hold what most programs want first. They are imported only when the text of
# an error is asked for, so no floor of the house depends on them.
_PUBLIC = (
    "didax", "didax.numpy", "didax.lax", "didax.nn", "didax.random", "didax.tree", "didax.numpy.linalg",
    "didax.numpy.fft", "didax.scipy", "didax.scipy.special", "didax.scipy.linalg", "didax.scipy.stats",
    "didax.scipy.signal", "didax.scipy.optimize", "didax.scipy.integrate", "didax.scipy.interpolate",
    "didax.scipy.ndimage", "didax.scipy.spatial.transform", "didax.lax.linalg", "didax.nn.initializers",
    "didax.image", "didax.ops", "didax.debug", "didax.sharding", "didax.dtypes", "didax.errors",
    "didax.custom_derivatives", "didax.checkpoint_policies", "didax.flatten_util", "didax.tree_util",
    "didax.test_util", "didax.profiler", "didax.export", "didax.experimental", "didax.experimental.jet",
    "didax.experimental.ode", "didax.experimental.rnn", "didax.experimental.sparse",
    "didax.experimental.sparse_derivatives", "didax.example_libraries.optimizers",
    "didax.example_libraries.stax",
)  # fmt: skip


class MissingNameError(AttributeError):
    """A public module lacks a name; the text says where that name is, or which names are like it.

    `hasattr` and `getattr` with a default throw the error away, so the text is made only when it is asked for.

    >>> import didax
    >>> didax.sin
    Traceback (most recent call last):
    didax.core.missing_names.MissingNameError: module 'didax' has no attribute 'sin'.
    Use didax.numpy.sin or didax.lax.sin.
    """

    def __str__(self) -> str:
        module, name = self.args
        rule = f"module {module!r} has no attribute {name!r}"
        if name.startswith("_"):
            return rule
        if homes := [f"{place}.{name}" for place in _PUBLIC if name in _names(place)]:
            return f"{rule}.\nUse {_choice(homes)}."
        for place in (module, *_PUBLIC):
            if alike := _alike(name, _names(place)):
                return f"{rule}.\nDid you mean {_choice(f'{place}.{other}' for other in alike)}?"
        return rule


def _names(place: str) -> list[str]:
    module = importlib.import_module(place)
    if names := getattr(module, "__all__", None):
        return list(names)
    return [name for name, value in vars(module).items() if _is_public(place, name, value)]


def _is_public(place: str, name: str, value: Any) -> bool:
    is_imported = isinstance(value, ModuleType) and value.__name__ != f"{place}.{name}"
    return not name.startswith("_") and not is_imported


def _alike(name: str, others: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, others, n=2, cutoff=0.8)


def _choice(names: Iterable[str]) -> str:
    return " or ".join(list(names)[:3])
