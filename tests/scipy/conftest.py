"""Each test draws the same numbers, whichever tests ran before it."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def reseed(request: pytest.FixtureRequest) -> None:
    """Set back the generator that the tests of a file share."""
    if (shared := getattr(request.module, "RNG", None)) is not None:
        shared.bit_generator.state = np.random.default_rng(0).bit_generator.state
