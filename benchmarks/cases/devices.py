"""Calls on several devices: each library in a process of its own whose CPU is divided into eight devices.

How many devices there are is decided once for a process. So the measured process stays and is asked for one sample
after the other, in turn with that of the other library. `python -m benchmarks.scaling` compares more devices with
fewer.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import textwrap

from benchmarks.harness import Case, Sampler

CALL = """
    import sys, time
    import LIB
    import LIB.numpy as np
    from LIB.sharding import NamedSharding, PartitionSpec

    mesh = LIB.sharding.Mesh(LIB.devices(), ("data",))
    x = LIB.device_put(np.arange(16.0), NamedSharding(mesh, PartitionSpec("data")))
    f = LIB.jit(lambda x: x * 2 + 1)
    f(f(x)).block_until_ready()
    for line in sys.stdin:
        start = time.thread_time()
        for _ in range(100):
            y = f(x)
        print((time.thread_time() - start) / 100, flush=True)
        y.block_until_ready()
"""


def _side(code: str, name: str) -> Sampler:
    environment = os.environ | {
        "DIDAX_NUM_CPU_DEVICES": "8",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code).replace("LIB", name)],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(child.kill)

    def sample() -> float:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    sample()
    return Sampler(sample)


CASES = [
    Case(
        "devices.call",
        "Calling a jitted function: 1 array on 8 devices (own thread)",
        {name: functools.partial(_side, CALL, name) for name in ("didax", "jax")},
        1.0,
        samples=15,
    )
]
