"""Tests that are run once more with `compile_in_background`: what calls return, raise and do is the same.

Tests of compiled programs themselves (their text, the cache on disk, counts of compilations, errors of lowering rules)
cannot pass with the option, and are not among these files.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = ["api/test_jit.py", "api/test_bucket_calls.py", "test_effects.py", "test_refs.py", "test_loops.py"]


@pytest.mark.ci
def test_with_compilation_in_the_background() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *[str(HERE / x) for x in FILES],
    ]
    done = subprocess.run(
        command,
        env=environment | {"DIDAX_COMPILE_IN_BACKGROUND": "1"},
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
