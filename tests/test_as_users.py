"""Tests that need XLA's own settings, where all others are compiled with cheap ones (`tests/quickly.py`).

With the cheap ones a few formats of numbers lose what they must not, and a few functions are rounded otherwise from one
program to the next. These tests are marked `as_users`, and run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quickly import XLA_FLAGS

HERE = Path(__file__).parent
FILES = ["test_narrow_dtypes.py", "random/test_distributions.py"]


@pytest.mark.ci
@pytest.mark.skipif(
    os.environ["XLA_FLAGS"] != XLA_FLAGS, reason="this process has XLA's own settings already"
)
def test_with_the_settings_of_users() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"XLA_FLAGS": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "as_users and not slow",
        "-p",
        "no:cacheprovider",
        *[str(HERE / file) for file in FILES],
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=HERE.parent, timeout=600
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_every_file_with_such_tests_is_run() -> None:
    marked = {
        str(path.relative_to(HERE)) for path in HERE.rglob("test_*.py") if "mark.as_users" in path.read_text()
    }
    assert marked - {"test_as_users.py"} == set(FILES)
