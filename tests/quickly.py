"""XLA's settings for tests, most of which ask for values, and each program of which runs once.

    AS_USERS         compiler options that undo them, for a test that asks what the compiled program is like
    on_devices(2)    the environment of a process with two devices

They compile one operation in half the time, and a program of sixteen in a tenth: XLA would make a library of each.
Processes that a test starts inherit them. This module imports no library, because libraries read such settings when
they start.
"""

import os
from importlib.metadata import version
from typing import Any

# These passes look for what loops compute again and again, a quarter of the time that a program with large loops takes.
OF_LOOPS = "while-loop-invariant-code-motion,simplify-while-loops,reshape-mover"

# As single operations are compiled for users (`xla/compile.py`). LLVM's level 0 takes a fifth less of the time, but its
# code can be wrong: a test would fail, or pass, for another program than the one users run.
COMPILE_QUICKLY: dict[str, Any] = {"xla_backend_optimization_level": 1, "xla_disable_hlo_passes": OF_LOOPS}
AS_USERS: dict[str, Any] = {"xla_backend_optimization_level": 3, "xla_disable_hlo_passes": ""}
if version("jaxlib").startswith("0.10."):  # later ones end the process over a name they do not know
    COMPILE_QUICKLY |= {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
    AS_USERS["xla_cpu_use_fusion_emitters"] = True


def on_devices(count: int) -> dict[str, str]:
    """The environment of a process that has so many devices, all of them this machine's CPU."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    return os.environ | {"XLA_FLAGS": flags, "DIDAX_PLATFORMS": "cpu"}


XLA_FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in COMPILE_QUICKLY.items())
