"""`python -m benchmarks.scaling`: what more devices and more processes bring, and what they cost.

A data-parallel training step of a network of three layers, 3 MB of weights, on one device, on two devices of one
process, and on two processes that exchange by Gloo on loopback; each device computes with one thread. Strong scaling
shares one batch among the devices; weak scaling gives each device a batch of its own. Below it stand what exchanges
cost, and what a job pays once: meeting, agreeing on a program, compiling, saving a checkpoint. All figures are the
least of many measurements, because other programs use the machine too.

    python -m benchmarks.scaling [--steps 60] [--json out.json]

`docs/scaling.md` says what follows for larger jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import machine_line

WIDTH, LAYERS, BATCH = 512, 3, 256
SETUPS = {"1 device": (1, 1), "2 devices of 1 process": (1, 2), "2 processes": (2, 1)}
SIZES = (4, 1 << 16, 1 << 22)  # bytes of an all_reduce


def least(call: Callable[[], Any], count: int) -> float:
    """The shortest of so many calls, in seconds; the first one compiles."""
    call()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def worker(steps: int) -> dict[str, float]:
    """What a process of a setup measures."""
    started = time.perf_counter()
    import numpy as np

    import didax as dx
    import didax.numpy as dnp
    from didax import checkpoints, lax, tree

    found: dict[str, float] = {}
    if os.environ["DIDAX_NUM_PROCESSES"] != "1":
        begun = time.perf_counter()
        dx.distributed.initialize()
        found["meet"] = time.perf_counter() - begun
    count = dx.device_count()
    mesh = dx.make_mesh((count,), ("data",))
    rows, whole = dx.NamedSharding(mesh, dx.P("data")), dx.NamedSharding(mesh, dx.P())
    found["start"] = time.perf_counter() - started

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = dnp.tanh(x @ w)
        return (x**2).mean()

    @dx.jit
    def step(weights: Any, x: Any) -> Any:
        grads = dx.grad(loss)(weights, x)
        return tree.map(lambda w, g: w - 0.1 * g, weights, grads)

    weights = dx.device_put([np.full((WIDTH, WIDTH), 0.01, np.float32)] * LAYERS, whole)
    for kind, batch in ("strong", BATCH), ("weak", BATCH * count):
        part = np.ones((batch // dx.process_count(), WIDTH), np.float32)
        x = dx.make_array_from_process_local_data(rows, part)
        begun = time.perf_counter()
        compiled = step.lower(weights, x).compile()
        found[f"compile {kind}"] = time.perf_counter() - begun
        found[f"bytes {kind}"] = sum(c.bytes for c in compiled.collectives())
        found[kind] = least(lambda x=x: dx.block_until_ready(step(weights, x)), steps)
    total = dx.jit(
        dx.shard_map(lambda v: lax.psum(v, "data"), mesh=mesh, in_specs=whole.spec, out_specs=whole.spec)
    )
    for size in SIZES:
        v = dx.device_put(np.ones(size // 4, np.float32), whole)
        found[f"all_reduce {size}"] = least(lambda v=v: total(v).block_until_ready(), steps)
    if dx.process_count() > 1:
        found["agree"] = _agreement(range(dx.process_count()))
    with tempfile.TemporaryDirectory() as own:
        folder = os.environ.get("DIDAX_SCALING_FOLDER", own)
        state = dx.device_put(np.ones((count * 1024, 4096), np.float32), rows)  # 16 MB on each device
        found["save"] = least(lambda: checkpoints.save(folder, state, keep=1), 3)
    return found if dx.process_index() == 0 else {}


def _agreement(processes: Sequence[int]) -> float:
    from didax.core import job
    from didax.xla.agreement import agree

    numbers = iter(range(1000))
    return least(lambda: agree(job.in_force(), f"program {next(numbers)}", tuple(processes)), 20)


def measure(processes: int, devices: int, steps: int) -> dict[str, float]:
    """What the first process of a setup measures."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "DIDAX_PLATFORMS": "cpu",
            "DIDAX_NUM_CPU_DEVICES": str(devices),
            "DIDAX_NUM_PROCESSES": str(processes),
            "DIDAX_ENABLE_COMPILATION_CACHE": "0",
            "DIDAX_SCALING_FOLDER": folder,
            "NPROC": str(devices),  # threads that XLA computes with
        }
        command = [sys.executable, "-m", "benchmarks.scaling", "--worker", "--steps", str(steps)]
        if processes > 1:
            own = ["-m", "didax.launch", "-n", str(processes), "-m", *command[2:]]
            command = [sys.executable, *own]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if "{" in line and len(line) > 20]
    if done.returncode or not lines:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(lines[0][lines[0].index("{") :])


def table(found: dict[str, dict[str, float]]) -> str:
    """The measurements as Markdown."""
    one = found["1 device"]
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---:|' * len(found)}"]
    names = list(dict.fromkeys(name for column in found.values() for name in column))
    for name in names:
        cells = []
        for column in found.values():
            value = column.get(name)
            text = "" if value is None else f"{value:,.0f}" if "bytes" in name else f"{1e3 * value:.2f} ms"
            if name in ("strong", "weak") and value and column is not one:
                gain = one[name] / value * (2 if name == "weak" else 1)  # two devices share the weak batches
                text += f" ({gain:.2f} x)"
            cells.append(text)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every setup and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description="Scaling, weak and strong."
    )
    parser.add_argument("--steps", type=int, default=60, help="calls of which the shortest counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        if found := worker(options.steps):
            print(json.dumps(found), flush=True)
        return
    print(machine_line(["didax"]), "", sep="\n")
    found = {name: measure(*setup, options.steps) for name, setup in SETUPS.items()}
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
