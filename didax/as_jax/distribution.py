"""What `importlib.metadata` says of jax under the layer. A file of its own, because that module is slow to import."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any


class JaxDistribution(importlib.metadata.Distribution):
    """The distribution `jax`, of the version that Didax follows."""

    def __init__(self, version: str):
        self._version = version

    def read_text(self, filename: str) -> str | None:
        """The metadata: name and version."""
        return (
            f"Metadata-Version: 2.1\nName: jax\nVersion: {self._version}\n"
            if filename == "METADATA"
            else None
        )

    def locate_file(self, path: Any) -> Any:
        """A path beside this file."""
        return Path(__file__).parent / path
