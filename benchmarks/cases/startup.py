"""From the start of a process to its first result."""

from __future__ import annotations

import tempfile
import textwrap

from benchmarks.harness import Case, Sampler, process

IMPORT = "import LIB"

FIRST_GRADIENT = """
    import LIB
    import LIB.numpy as np
    float(LIB.grad(lambda x: np.sin(x) * 2.0 - x)(1.0))
"""

# A gradient of a small network, compiled.
FIRST_COMPILED = """
    import numpy
    import LIB
    import LIB.numpy as np

    def loss(weights, x):
        for w in weights:
            x = np.tanh(x @ w)
        return np.mean(x**2)

    weights = [numpy.full((64, 64), 0.01, numpy.float32) for _ in range(8)]
    gradient = LIB.jit(LIB.grad(loss))(weights, numpy.ones((32, 64), numpy.float32))
    float(gradient[0][0, 0])
"""

_cache = tempfile.TemporaryDirectory(prefix="benchmarks-cache-")


def _side(code: str, name: str) -> Sampler:
    """Both libraries keep what they compile in a directory of this run, and the timed processes read it."""
    return process(
        textwrap.dedent(code).replace("LIB", name),
        whole=code != IMPORT,
        DIDAX_ENABLE_COMPILATION_CACHE="1",
        DIDAX_COMPILATION_CACHE_DIR=f"{_cache.name}/didax",
        JAX_ENABLE_COMPILATION_CACHE="1",
        JAX_COMPILATION_CACHE_DIR=f"{_cache.name}/jax",
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )


def _case(name: str, title: str, code: str, budget: float) -> Case:
    sides = {library: lambda library=library: _side(code, library) for library in ("didax", "jax")}
    return Case(name, title, sides, budget)


CASES = [
    _case("startup.import", "import", IMPORT, 0.5),
    _case("startup.gradient", "process start to the first eager gradient", FIRST_GRADIENT, 0.4),
    _case("startup.compiled", "second process, warm cache, to a compiled result", FIRST_COMPILED, 0.5),
]
