"""The example that trains on several processes too."""

import subprocess
import sys

import pytest

from tests.distributed.jobs import ROOT, environment


@pytest.mark.slow
def test_data_parallel_digits_over_four_processes() -> None:
    pytest.importorskip("sklearn")
    script = str(ROOT / "examples" / "data_parallel.py")
    command = [sys.executable, "-m", "didax.launch", "-n", "4", script, "--job", "--steps", "3"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[0] 4 processes with 1 devices each" in done.stdout
    # 9,610 parameters and the loss, of which each of four devices sends 2 * 3 / 4 around
    assert "[0] all_reduce of 38444 bytes among 4 devices, once: each sends 57666 bytes" in done.stdout
    assert "[0] equal to one device: parameters differ by at most" in done.stdout
