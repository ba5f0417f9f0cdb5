"""The exceptions that Didax raises by name, to be caught: those of `core/errors.py`, and what XLA raises.

    try: f(x)
    except didax.errors.TracerBoolConversionError: ...

`JaxRuntimeError` is jaxlib's, for programs that fail while they run: the first use of it loads jaxlib.
"""

from __future__ import annotations

from typing import Any

from didax.core.errors import (
    CheckError,
    ConcretizationTypeError,
    DivisionByZeroError,
    JaxprTypeError,
    KeyReuseError,
    KeyReuseWarning,
    MissingRuleError,
    NaNError,
    NonConcreteBooleanIndexError,
    NonlinearError,
    OutOfBoundsError,
    RuleTypeError,
    TracerArrayConversionError,
    TracerAttributeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
)

__all__ = [
    "CheckError",
    "ConcretizationTypeError",
    "DivisionByZeroError",
    "JaxprTypeError",
    "KeyReuseError",
    "KeyReuseWarning",
    "MissingRuleError",
    "NaNError",
    "NonConcreteBooleanIndexError",
    "NonlinearError",
    "OutOfBoundsError",
    "RuleTypeError",
    "TracerArrayConversionError",
    "TracerAttributeError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]


def __getattr__(name: str) -> Any:
    if name != "JaxRuntimeError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from didax.xla import client

    return client.xe.JaxRuntimeError
