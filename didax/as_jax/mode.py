"""What Didax does otherwise while it stands in for JAX: `enter()`, which `install()` calls."""

from __future__ import annotations

from typing import Any

from didax.api.jit import JitFunction
from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.dtypes import short_name
from didax.core.errors import CheckError
from didax.core.value import Array
from didax.runtime.array import ConcreteArray
from didax.runtime.sharded import ShardedArray

# Programs look at the names of classes: at `PjitFunction` to see that a function is jitted.
NAMED_IN_JAX: dict[type, tuple[str, str]] = {
    Array: ("jax", "Array"),
    ConcreteArray: ("jaxlib._jax", "ArrayImpl"),
    ShardedArray: ("jaxlib._jax", "ArrayImpl"),
    JitFunction: ("jaxlib._jax", "PjitFunction"),
    CheckError: ("jax._src.checkify", "JaxRuntimeError"),
}


def enter() -> None:
    """Behave as JAX does where Didax differs on purpose.

    Classes have the names that they have in JAX. Under `as_in_jax` dtypes of 64 bits are truncated unless x64 is on,
    static positions out of range are no errors, callbacks are given arrays of the library, and their exceptions are
    JaxRuntimeErrors. A random key may be used again.
    """
    config.update("as_in_jax", True)
    config.update("debug_key_reuse", "off")
    for kind, (module, name) in NAMED_IN_JAX.items():
        kind.__module__, kind.__qualname__, kind.__name__ = module, name, name
    shown: Any = ShapedArray
    if shown.__str__ is object.__str__:
        shown.__str__, shown.__repr__ = shown.__repr__, _with_its_class
        shown.str_short = _short


def _short(aval: ShapedArray, short_dtypes: bool = False) -> str:
    """The text of a type in JAX: `uint8[2,3]`, or `u8[2,3]`."""
    text = str(aval)
    return short_name(aval.dtype) + text[text.index("[") :] if short_dtypes else text


def _with_its_class(aval: ShapedArray) -> str:
    """The repr of a type in JAX. Its text, which is in messages and jaxprs, is Didax's repr."""
    return f"ShapedArray({aval}{', weak_type=True' * aval.weak_type})"
