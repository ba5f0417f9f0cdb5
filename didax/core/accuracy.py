"""The modes that `accuracy=` of elementwise functions names, which every program meets.

This file is below `errors.py`, which asks it what a keyword may be. Read next: `Tolerance` in `lax/composites.py`.
"""

from __future__ import annotations

import enum


class AccuracyMode(enum.Enum):
    """What `accuracy=` of elementwise functions may name. `HIGHEST` is what every program gets.

    >>> import didax as dx
    >>> dx.lax.exp(0.0, accuracy=dx.lax.AccuracyMode.HIGHEST)
    Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2
