"""First calls of jitted functions in new processes, with no compiled program kept from an earlier one; compile times.

In first calls Didax runs with the option `compile_in_background`, so they do not wait for XLA; JAX's column is a plain
`jit`. Compile times are those of XLA, lowered programs to executables, on the processor in all of its threads.
"""

from __future__ import annotations

import textwrap

from benchmarks.harness import Case, Sampler, process

# What is before `_t` is not timed.
CHAIN = """
    import numpy
    import LIB
    import LIB.numpy as np

    def loss(x):
        for i in range(500):
            x = np.sin(x) * 1.01 + i
        return np.sum(x)

    f, args = LIB.grad(loss), [numpy.linspace(0, 1, 100, dtype=numpy.float32)]
"""

TRANSFORMER = """
    import numpy
    import LIB
    import LIB.numpy as np

    def softmax(x):
        y = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return y / np.sum(y, axis=-1, keepdims=True)

    def norm(x):
        x = x - np.mean(x, axis=-1, keepdims=True)
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5)

    def layer(w, x):
        qkv = np.reshape(norm(x) @ w["qkv"], (16, 3, 4, 8))
        q, k, v = (np.transpose(qkv[:, i], (1, 0, 2)) for i in range(3))
        heads = softmax(q @ np.transpose(k, (0, 2, 1)) / 8**0.5) @ v
        x = x + np.reshape(np.transpose(heads, (1, 0, 2)), (16, 32)) @ w["out"]
        return x + np.maximum(norm(x) @ w["up"], 0) @ w["down"]

    def loss(weights, x):
        for w in weights:
            x = layer(w, x)
        return np.mean(x * x)

    shapes = {"qkv": (32, 96), "out": (32, 32), "up": (32, 128), "down": (128, 32)}
    draw = numpy.random.default_rng(0).standard_normal
    weights = [{k: 0.1 * draw(s).astype(numpy.float32) for k, s in shapes.items()} for _ in range(12)]
    f, args = LIB.grad(loss), [weights, draw((16, 32)).astype(numpy.float32)]
"""

PERCEPTRON = """
    import numpy
    import LIB
    import LIB.numpy as np

    def loss(layers, x):
        for w, b in layers:
            x = np.tanh(x @ w + b)
        return np.mean(x * x)

    draw = numpy.random.default_rng(0).standard_normal
    layers = [(0.1 * draw((32, 32), numpy.float32), numpy.zeros(32, numpy.float32)) for _ in range(50)]
    f, args = LIB.grad(loss), [layers, draw((16, 32), numpy.float32)]
"""

MOTION = """
    import numpy
    import LIB
    import LIB.numpy as np

    def loss(state):
        for _ in range(60):
            x, y, z = state
            state = state + 0.01 * np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        return np.sum(state * state)

    f, args = loss, [numpy.ones(3, numpy.float32)]
"""

COMPILE = """
    lowered = LIB.jit(f).lower(*args)
    lowered.as_text()
    _t = time.process_time()
    lowered.compile()
"""

FIRST_CALL = """
    _t = time.monotonic()
    result = CALL(f)(*args)
    while not hasattr(result, "dtype"):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    numpy.asarray(result)
"""

# As a test suite does: functions and their gradients, each with every shape twice.
SHAPES = """
    import numpy
    import LIB
    import LIB.numpy as np

    functions = [
        lambda x: np.sum(np.tanh(x) ** 2),
        lambda x: np.mean((x - np.mean(x, axis=0)) ** 2),
        lambda x: np.sum(np.sort(x, axis=-1)[..., 0] * np.max(x, axis=-1)),
        lambda x: np.sum(np.linalg.solve(x @ x.T + np.eye(x.shape[0]), x)),
    ]
    jitted = [CALL(g) for f in functions for g in (f, LIB.grad(f))]
    draw = numpy.random.default_rng(0).standard_normal
    _t = time.monotonic()
    for i in range(NUMBER):
        x = draw((1 + i % 16, 1 + i // 16)).astype(numpy.float32)
        for g in jitted:
            numpy.asarray(g(x)), numpy.asarray(g(2 * x))
"""


def _side(code: str, library: str, call: str = "LIB.jit") -> Sampler:
    code = textwrap.dedent(code).replace("CALL", call).replace("LIB", library)
    return process(code, whole=False, warm_up=False, DIDAX_COMPILE_IN_BACKGROUND="1")


def _case(name: str, title: str, code: str, budget: float) -> Case:
    sides = {library: lambda library=library: _side(code, library) for library in ("didax", "jax")}
    return Case(name, title, sides, budget, samples=1)


def _compile_case(name: str, title: str, code: str) -> Case:
    def side(library: str) -> Sampler:
        code_of = textwrap.dedent(code + COMPILE).replace("LIB", library)
        return process(code_of, whole=False, warm_up=False, clock="process_time")

    sides = {library: lambda library=library: side(library) for library in ("didax", "jax")}
    return Case(f"compile.{name}", f"compile {title}", sides, 1.2, samples=3)


def _beside_eager(code: str) -> Sampler:
    """The first jitted call of a process over the first call that is not jitted, in a process of its own."""
    jitted, eager = _side(code, "didax"), _side(code, "didax", "")
    return Sampler(lambda: jitted.sample() / eager.sample())


def _eager_case(name: str, title: str, code: str) -> Case:
    return Case(name, title, {"didax": lambda: _beside_eager(code)}, 1.5, absolute=True, unit="x")


# Programs of this suite are few, because JAX compiles each of them; the ratio does not depend on their number.
SUITE = SHAPES.replace("NUMBER", "4")
THOUSANDS = SHAPES.replace("NUMBER", "250")

CASES = [
    _case("first.chain", "first gradient of 1,000 operations", CHAIN + FIRST_CALL, 0.2),
    _case("first.transformer", "first gradient of a 12-layer transformer", TRANSFORMER + FIRST_CALL, 0.2),
    _eager_case("first.chain/eager", "the same of 1,000 operations, over eager", CHAIN + FIRST_CALL),
    _eager_case("first.transformer/eager", "the same of the transformer, over eager", TRANSFORMER + FIRST_CALL),
    _case("first.suite", "32 programs, each called twice", SUITE, 0.33),
    Case(
        "first.thousands", "2,000 programs, each called twice", {"didax": lambda: _side(THOUSANDS, "didax")},
        60.0, absolute=True, samples=1,
    ),
    _compile_case("chain", "a gradient of 1,000 operations", CHAIN),
    _compile_case("perceptron", "a gradient of 50 layers", PERCEPTRON),
    _compile_case("transformer", "a 12-layer transformer", TRANSFORMER.replace("LIB.grad(loss)", "loss")),
    _compile_case("transformer.grad", "its gradient", TRANSFORMER),
    _compile_case("motion", "60 steps of an equation of motion", MOTION),
]  # fmt: skip
