"""What Python, NumPy and pickle ask of an array, as a traced array answers: it has no numbers, and says what to do.

Where the numbers are known, as in eager differentiation, Python gets them (`known`) for a choice, a count or a text. A
`float`, and NumPy, would compute with them and lose the derivative, so they do not get them. What only arrays in memory
have (`device`, `delete`) raises as well. Read next: `tracing.py`.
"""

from __future__ import annotations

import operator
from typing import Any, Self

from didax.core.avals import ShapedArray
from didax.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerAttributeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    message,
)
from didax.core.value import Array


class TracerConversions(Array):
    """The base class of tracers that has their conversions."""

    __slots__ = ()
    owner: Any
    # Its name in JAX, whose programs may derive classes of their own from tracers.
    _trace: Any = property(lambda self: self.owner, lambda self, trace: setattr(self, "owner", trace))

    def __init__(self, trace: Any = None, aval: ShapedArray | None = None):
        """As in JAX; classes that set both by themselves pass neither."""
        if aval is not None:
            self.owner, self.aval = trace, aval

    def known(self) -> Any | None:
        """The concrete value behind this tracer, or None where only the type is known."""
        raise NotImplementedError

    def facts(self) -> list[str]:
        """What errors say of it."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        if (value := self.known()) is not None:
            return bool(value)
        raise TracerBoolConversionError(
            message(
                "Python cannot branch on a traced array: its truth value is not known while tracing.",
                *self.facts(),
                fix="Use didax.lax.cond or didax.numpy.where, for loops didax.lax.while_loop; or make it static "
                f"({self._keyword()}).",
            )
        )

    def _keyword(self) -> str:
        """What makes an argument static: jit and checkpoint, which both trace all others, have different keywords."""
        kind = getattr(self.owner, "transformation", None)
        return "static_argnums of checkpoint" if kind == "checkpoint" else "static_argnames of jit"

    def _scalar(self, kind: type, fix: str) -> Any:
        if (value := self.known()) is not None:
            if kind is not int:
                self.check_has_no_slope(f"A Python {kind.__name__}", f"{kind.__name__}(lax.stop_gradient(x))")
            return kind(value)
        error = TracerIntegerConversionError if kind is int else ConcretizationTypeError
        raise error(
            message(
                f"A traced array has no {kind.__name__} value: its numbers are not known while tracing.",
                *self.facts(),
                fix=fix,
            )
        )

    def check_has_no_slope(self, what: str, number: str) -> None:
        """Refuse to give Python a float to compute with; the text `number` makes one that has no derivative."""
        if self.dtype.kind in "biu":
            return
        rule = f"{what} would hold a traced array's number and lose its derivative."
        fix = f"Keep it an array (didax.numpy instead of math); {number} is a number that no derivative goes through."
        raise ConcretizationTypeError(message(rule, *self.facts(), fix=fix))

    def __int__(self) -> int:
        return self._scalar(int, f"Keep it an array, or make the argument static ({self._keyword()}).")

    def __float__(self) -> float:
        return self._scalar(float, "Keep it an array (didax.numpy instead of math), or compute it outside.")

    def __complex__(self) -> complex:
        return self._scalar(
            complex, "Keep it an array (didax.numpy instead of cmath), or compute it outside."
        )

    def __index__(self) -> int:
        if (value := self.known()) is not None:
            return operator.index(value)
        raise TracerIntegerConversionError(
            message(
                "A traced array cannot be a Python index, a length or part of a shape.",
                *self.facts(),
                fix="Index an array (not a list) with it, loop with didax.lax.fori_loop (not over a range), compute "
                f"shapes from x.shape, or make the argument static ({self._keyword()}).",
            )
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        known = self.known() is not None
        raise TracerArrayConversionError(
            message(
                "NumPy would see a traced array's numbers and lose its derivative."
                if known
                else "NumPy needs numbers, and a traced array has none yet.",
                *self.facts(),
                fix="Use the function of the same name in didax.numpy, or compute this part outside the "
                "transformation.",
            )
        )

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if (value := self.known()) is not None:
            return format(value, spec)
        fix = "Print it as it is, f'{x}', or its numbers when the program runs: didax.debug.print('{x:.2f}', x=x)."
        raise self._not_concrete("A traced array has no digits to format", fix)

    def __reduce__(self) -> Any:
        raise self._not_concrete("A traced array cannot be pickled", "Return it, and pickle the result.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def block_until_ready(self) -> Self:
        """The array itself: there is nothing to wait for while tracing."""
        return self

    def _not_concrete(self, rule: str, fix: str) -> ConcretizationTypeError:
        rule = f"{rule}: it is not in memory while tracing."
        return ConcretizationTypeError(message(rule, *self.facts(), fix=fix))

    def __hash__(self) -> int:
        raise TypeError(
            message(
                "Arrays are not hashable, traced or not.",
                *self.facts(),
                fix="Hash a static value instead, or use id(x) for identity.",
            )
        )


def _only_in_memory(name: str) -> Any:
    """A method that only arrays in memory have: on a tracer it raises."""

    def refuse(self: TracerConversions, *args: Any, **kwargs: Any) -> Any:
        rule = f"A traced array has no {name}: it is not in memory while tracing."
        fix = "Ask for it outside of the transformed function, of an argument or a result."
        raise TracerAttributeError(message(rule, *self.facts(), fix=fix))

    refuse.__name__, refuse.__qualname__ = name, f"Tracer.{name}"
    return refuse


_IN_MEMORY_PROPERTIES = (
    "addressable_shards",
    "device",
    "format",
    "global_shards",
    "is_fully_addressable",
    "is_fully_replicated",
    "sharding",
)
_IN_MEMORY_METHODS = (
    "addressable_data", "copy_to_host_async", "delete", "devices", "is_deleted", "is_ready",
    "on_device_size_in_bytes", "platform", "unsafe_buffer_pointer", "__dlpack__", "__dlpack_device__",
)  # fmt: skip
for _name in _IN_MEMORY_METHODS:
    setattr(TracerConversions, _name, _only_in_memory(_name))
for _name in _IN_MEMORY_PROPERTIES:
    setattr(TracerConversions, _name, property(_only_in_memory(_name)))
