"""The modes that `accuracy=` of elementwise functions names, which every program meets.

This file is below `errors.py`, which asks it what a keyword may be. Read next: `Tolerance` in `lax/composites.py`.
"""

from __future__ import annotations

import enum


class AccuracyMode(enum.Enum):
    """What `accuracy=` of elementwise functions may name. `HIGHEST` is what every program gets."""

    HIGHEST = 1
    DEFAULT = 2
