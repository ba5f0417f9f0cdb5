"""The modes that `accuracy=` of elementwise functions may name. Every program is as accurate as both ask.

`errors.py` imports this file, to tell which values of the keyword change nothing.
Read next: `Tolerance` in `lax/composites.py`.
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
