"""The names of primitives, each of one primitive only: programs are written, and read again, by these names."""

from __future__ import annotations

import sys
from typing import Any

from didax.core.errors import message

# Every primitive by name: the jaxpr parser and the generated rule table read it.
by_name: dict[str, Any] = {}
_defined_in: dict[str, str] = {}  # name of a primitive -> the module that made it


def register_name(name: str, primitive: Any) -> None:
    """Note the name; ValueError where another module has a primitive of this name.

    The module that made a primitive may make it anew, as when it is reloaded, or a cell of a notebook runs again.
    """
    module = _defining_module()
    if name in by_name and _defined_in[name] != module:
        raise ValueError(
            message(
                "A primitive needs a name of its own: programs are written, and read again, by these names.",
                f"name: {name!r}",
                f"taken by: {type(by_name[name]).__name__} of module {_defined_in[name]}",
                f"module: {module}",
                fix=f"Choose another name, such as {module.rpartition('.')[2].strip('_') + '_' + name!r}. "
                "Only the module that made it may make it anew: reloaded, or as a cell of a notebook that runs again.",
            )
        )
    by_name[name], _defined_in[name] = primitive, module


def is_of_library(primitive: Any) -> bool:
    """Whether a module of this package made the primitive."""
    return _defined_in[primitive.name].partition(".")[0] == "didax"


def _defining_module() -> str:
    """The module that calls for a new primitive, past the constructors of this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__") in _CONSTRUCTORS:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


_CONSTRUCTORS = {__name__, "didax.as_jax.primitive", "didax.core.primitive", "didax.primitives.families"}
