"""Integrals of sampled functions: `trapezoid`."""

from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.numpy import trapezoid

__all__ = ["trapezoid"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
