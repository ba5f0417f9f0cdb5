"""The tests of `tests/devices/`, in two processes whose CPU is divided into eight devices.

How many devices there are is decided once for a process, when XLA starts. A process costs three seconds before its
first test, so two run all files, side by side where tests have two processes. `DIDAX_NUM_CPU_DEVICES=8 pytest
tests/devices/test_shard_map.py` runs one file alone, test by test.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.quickly import on_devices

FOLDER = Path(__file__).parent / "devices"
FILES = sorted(path.name for path in FOLDER.glob("test_*.py"))
LARGEST = "test_shard_map.py"  # takes as long as all others
HALVES = [[LARGEST], [file for file in FILES if file != LARGEST]]


@pytest.mark.parametrize("files", HALVES, ids=" ".join)
def test_on_eight_devices(files: list[str]) -> None:
    assert " passed" in run(*files)


@pytest.mark.ci
def test_other_cases_on_eight_devices() -> None:
    assert " passed" in run(*FILES, options=["-m", "ci and not slow"])


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_slow_cases_on_eight_devices(file: str) -> None:
    run(file, options=["-m", "slow"])


def run(*files: str, options: Sequence[str] = ()) -> str:
    """What pytest writes of these files in a process that has eight devices."""
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
        *[str(FOLDER / file) for file in files],
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=1800, cwd=FOLDER.parent.parent
    )
    nothing_to_do = 5
    assert done.returncode in (0, nothing_to_do), done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout
