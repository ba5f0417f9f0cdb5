"""The exceptions that Didax raises by name, for `except`: those of `core/errors.py`, and the error that XLA raises.

    try: f(x)
    except didax.errors.TracerBoolConversionError: ...

`JaxRuntimeError` is jaxlib's, for programs that fail while they run: its first use loads jaxlib.
"""

from __future__ import annotations

from typing import Any

from didax.core.errors import (
    ArgumentError,
    CheckError,
    ConcretizationTypeError,
    DistributedError,
    DivisionByZeroError,
    FormatKeyError,
    InconclusiveDimensionOperation,
    JAXIndexError,
    JaxprTypeError,
    JAXTypeError,
    KeyReuseError,
    KeyReuseWarning,
    MissingRuleError,
    NaNError,
    NonConcreteBooleanIndexError,
    NonlinearError,
    OutOfBoundsError,
    PositionError,
    RuleError,
    RuleTypeError,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerAttributeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TracerSliceError,
    TypePromotionError,
    UnexpectedTracerError,
)
from didax.core.missing_names import MissingImportError, MissingNameError, missing

__all__ = [
    "ArgumentError",
    "CheckError",
    "ConcretizationTypeError",
    "DistributedError",
    "DivisionByZeroError",
    "FormatKeyError",
    "InconclusiveDimensionOperation",
    "JAXIndexError",
    "JAXTypeError",
    "JaxprTypeError",
    "KeyReuseError",
    "KeyReuseWarning",
    "MissingImportError",
    "MissingNameError",
    "MissingRuleError",
    "NaNError",
    "NonConcreteBooleanIndexError",
    "NonlinearError",
    "OutOfBoundsError",
    "PositionError",
    "RuleError",
    "RuleTypeError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerAttributeError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerSliceError",
    "TypePromotionError",
    "UnexpectedTracerError",
]


def __getattr__(name: str) -> Any:
    if name != "JaxRuntimeError":
        raise missing(__name__, name)
    from didax.xla import client

    return client.xe.JaxRuntimeError
