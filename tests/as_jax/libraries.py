"""Run a program of each library on `didax.as_jax`, and compare its numbers with those that JAX gave.

    python tests/as_jax/libraries.py                  all of them, a table of what runs
    python tests/as_jax/libraries.py optax equinox    some
    python tests/as_jax/libraries.py --record         write library_numbers.json anew, with the jax that is installed

`make libraries` makes an environment without JAX for it, from `libraries.txt`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NUMBERS = HERE / "library_numbers.json"
DISTRIBUTIONS = {
    "optax": "optax", "chex": "chex", "equinox": "equinox", "lineax": "lineax", "optimistix": "optimistix",
    "diffrax": "diffrax", "linen": "flax", "nnx": "flax", "blackjax": "blackjax", "numpyro": "numpyro",
    "distrax": "distrax", "jaxtyping": "jaxtyping", "einops": "einops", "orbax": "orbax-checkpoint",
    "quax": "quax",
}  # fmt: skip


def version(library: str) -> str | None:
    """The installed version of a library's distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS[library])
    except importlib.metadata.PackageNotFoundError:
        return None


def run(library: str, *layer: str) -> tuple[list[float], float]:
    """What the program of a library prints, on jax or on the layer, and the CPU seconds that it took."""
    paths = [str(HERE.parents[1]), *([] if layer else [os.environ.get("JAX_AT", "")])]
    settings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONWARNINGS": "ignore",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, *layer, "library_programs.py", library]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=settings, capture_output=True, text=True, cwd=HERE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout.splitlines()[-1]), seconds


def check(library: str) -> float:
    """AssertionError unless the program gives the numbers of JAX on the layer; the CPU seconds that it took."""
    found, seconds = run(library, "-m", "didax.as_jax")
    wanted = json.loads(NUMBERS.read_text())[library]["numbers"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
    return seconds


def record(libraries: list[str]) -> None:
    """Write the numbers that jax gives."""
    known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for library in libraries:
        numbers, seconds = run(library)
        known[library] = {"version": version(library), "seconds": round(seconds, 1), "numbers": numbers}
        print(library, f"{seconds:.1f} s", flush=True)
        entries = [f'"{name}": {json.dumps(known[name])}' for name in sorted(known)]
        NUMBERS.write_text("{\n" + ",\n".join(entries) + "\n}\n")


def main(arguments: list[str]) -> int:
    """Run those that are named, or all; 1 where one fails."""
    libraries = [name for name in arguments if not name.startswith("-")] or list(DISTRIBUTIONS)
    if "--record" in arguments:
        record(libraries)
        return 0
    failed = 0
    known = json.loads(NUMBERS.read_text())
    print(f"{'library':12}{'version':10}{'CPU s':>8}{'on jax':>8}")
    for library in libraries:
        line = f"{library:12}{version(library) or '-':10}"
        try:
            print(f"{line}{check(library):8.1f}{known[library]['seconds']:8.1f}", flush=True)
        except (AssertionError, RuntimeError) as error:
            failed += 1
            print(f"{line}FAILED\n{error}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
