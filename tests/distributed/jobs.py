"""Scripts that run as several processes: each test is a script, and its processes make the assertions."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
START = """
import time
import numpy as np
import didax as dx
import didax.numpy as dnp
from didax import lax, random
from didax.experimental import multihost_utils

dx.distributed.initialize(initialization_timeout=120, program_timeout_seconds=200)
me, count = dx.process_index(), dx.process_count()
mesh = dx.make_mesh((dx.device_count(),), ("data",))
split, whole = dx.NamedSharding(mesh, dx.P("data")), dx.NamedSharding(mesh, dx.P())
"""


def environment(**variables: str) -> dict[str, str]:
    """The environment of a process that imports this repository's package, without a job."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DIDAX_NUM_CPU")}
    return kept | {"PYTHONPATH": str(ROOT), "DIDAX_PLATFORMS": "cpu"} | variables


def launch(
    folder: Path, script: str, *options: str, arguments: tuple[str, ...] = (), start: str = START
) -> "subprocess.CompletedProcess[str]":
    """Run a script, after `start`, by `didax.launch` with these options."""
    path = folder / "script.py"
    path.write_text(start + textwrap.dedent(script))
    command = [sys.executable, "-m", "didax.launch", *options, str(path), *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)


def check(folder: Path, script: str, *options: str, arguments: tuple[str, ...] = ()) -> str:
    """The output of a script whose processes all end well."""
    done = launch(folder, script, *options, arguments=arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
