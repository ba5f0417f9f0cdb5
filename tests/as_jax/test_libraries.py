"""Libraries written for JAX, those that are installed: each program gives the numbers that it gives on jax."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
LIBRARIES = ["optax", "chex", "equinox", "lineax", "optimistix", "diffrax", "flax", "blackjax", "numpyro"]


def results(library: str, *layer: str) -> list[float]:
    """What the program of a library prints, on jax or on the layer."""
    settings = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1]),
        "PYTHONWARNINGS": "ignore",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, *layer, "library_programs.py", library]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow  # two processes for each, which import and compile a lot
@pytest.mark.parametrize("library", LIBRARIES)
def test_programs_give_the_numbers_of_jax(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    wanted, found = results(library), results(library, "-m", "didax.as_jax")
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
