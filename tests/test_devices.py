"""The tests of `tests/devices/`, each file in a process of its own whose CPU is divided into eight devices.

How many devices there are is decided once for a process, when XLA starts. `DIDAX_NUM_CPU_DEVICES=8 pytest
tests/devices/test_shard_map.py` runs one file alone, test by test.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.quickly import on_devices

FOLDER = Path(__file__).parent / "devices"


FILES = pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))


@FILES
def test_on_eight_devices(file: str) -> None:
    assert " passed" in run(file)


@pytest.mark.slow
@FILES
def test_slow_cases_on_eight_devices(file: str) -> None:
    run(file, "-m", "slow")


def run(file: str, *options: str) -> str:
    """What pytest writes of a file in a process that has eight devices."""
    environment = {k: v for k, v in on_devices(8).items() if not k.startswith("PYTEST_")}
    environment["DIDAX_NUM_CPU_DEVICES"] = "8"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *options,
        str(FOLDER / file),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=1800, cwd=FOLDER.parent.parent
    )
    nothing_to_do = 5
    assert done.returncode in (0, nothing_to_do), done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout
