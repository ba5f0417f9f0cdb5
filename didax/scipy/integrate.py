"""Integrals of sampled functions: `trapezoid`."""

from didax.numpy import trapezoid

__all__ = ["trapezoid"]
