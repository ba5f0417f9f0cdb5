"""What is timed, in the order of the table: `startup`, `first_calls`, `eager`, `staging`, `programs`,
`loops`, `random`, `devices`.

Didax and JAX share their API, so a case is written once, for a `Library`; what a library lacks is an
ImportError or AttributeError there, which the table shows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from benchmarks.harness import Sampler


class Library(NamedTuple):
    """A library and its NumPy module."""

    api: ModuleType
    np: ModuleType


def library(name: str) -> Library:
    """Import `didax` or `jax`, with its numpy."""
    return Library(importlib.import_module(name), importlib.import_module(f"{name}.numpy"))


def both(build: Callable[[Library], Sampler]) -> dict[str, Callable[[], Sampler]]:
    """The sides of a case that is the same program in both libraries."""
    return {name: lambda name=name: build(library(name)) for name in ("didax", "jax")}
