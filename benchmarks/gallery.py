"""`python -m benchmarks.gallery`: the programs of the gallery beside the same programs on JAX.

    python -m benchmarks.gallery                  all of them, some minutes
    python -m benchmarks.gallery gpt vae          these

A program runs whole, in a process of its own: start, imports, tracing, compilation without a cache, training, picture.
For JAX, its text is read with `jax` for `didax`. The table shows processor seconds of the process and its threads,
which other processes on the machine change little, as Markdown.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = (
    "digits", "cnn", "vae", "gpt", "lstm", "gaussian_process", "kalman", "hamiltonian", "pendulum", "neural_ode",
    "trust_region", "ppo",
)  # fmt: skip
ONLY_DIDAX = {"trust_region"}  # JAX has no sparse_hessian


def on_jax(text: str) -> str:
    """The text of a program, for JAX, which has no progress bar for loops inside compiled programs."""
    return re.sub(r"dx\.debug\.progress\((lax\.\w+), .*\)", r"\1", re.sub(r"\bdidax\b", "jax", text))


def processor_seconds(text: str, folder: Path) -> float:
    """How long the processors work for a program, which writes its picture into the folder."""
    program = folder / "program.py"
    program.write_text(text)
    environment = os.environ | {
        "DIDAX_ENABLE_COMPILATION_CACHE": "0",
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(EXAMPLES.parent),
    }
    child = subprocess.Popen(
        [sys.executable, str(program)], env=environment, cwd=folder, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"a program of the gallery failed, see above: {text.splitlines()[0]}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery")
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    print("| program | JAX | Didax | ratio |\n|---|---:|---:|---:|")
    for name in parser.parse_args().programs:
        text = (EXAMPLES / f"{name}.py").read_text()
        with tempfile.TemporaryDirectory() as folder:
            ours = processor_seconds(text, Path(folder))
            jax = None if name in ONLY_DIDAX else processor_seconds(on_jax(text), Path(folder))
        theirs, ratio = ("", "") if jax is None else (f"{jax:.0f} s", f"{ours / jax:.2f}")
        print(f"| {name} | {theirs} | {ours:.0f} s | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
