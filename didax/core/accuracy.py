"""What `accuracy=` of elementwise functions names: a mode, which every program meets, or a tolerance, which is refused.

This file is below `errors.py`, which asks it what a keyword may be.
"""

from __future__ import annotations

import dataclasses
import enum


class AccuracyMode(enum.Enum):
    """What `accuracy=` of elementwise functions may name. `HIGHEST` is what every program gets."""

    HIGHEST = 1
    DEFAULT = 2


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The error that an elementwise function may have, for `accuracy=`: absolute, relative, in ulp.

    ValueError for negative numbers, for all of them 0, and for `rtol` beside `ulps`.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        sizes = (self.atol, self.rtol, self.ulps)
        if min(sizes) < 0 or not any(sizes) or (self.rtol and self.ulps):
            raise ValueError(
                "A tolerance has one or two sizes above 0: atol, and rtol or ulps.\n"
                f"  tolerance: {self}\nLeave out the sizes that do not count."
            )
