"""The tests of `tests/devices/`, each file in a process of its own whose CPU is divided into eight devices.

How many devices there are is decided once for a process, when XLA starts. `DIDAX_NUM_CPU_DEVICES=8 pytest
tests/devices/test_shard_map.py` runs one file alone, test by test.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "devices"


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_on_eight_devices(file: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {"DIDAX_NUM_CPU_DEVICES": "8", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(FOLDER / file)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, cwd=FOLDER.parent.parent
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
