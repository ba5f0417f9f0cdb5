"""Generated expressions of mixed dtypes have JAX's dtypes, weak types and values, eagerly and compiled.

An expression is a random tree of operators and functions over arrays of random dtypes, Python scalars, NumPy
scalars and weakly typed arrays, written as text and evaluated with didax.numpy and jax.numpy. The trees are drawn
from fixed seeds. Questions of rounding are kept out: what jumps (floor_divide, comparisons) is applied only to what
is computed without rounding.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from tests.numpy.oracle import wide

# What JAX and NumPy say of some expressions, and Didax of casts that `at` makes as both have it.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{name}Warning") for name in ("Deprecation", "Future", "Runtime")
]

COUNT, BULK = 300, 50  # expressions in each mode, in each compiled function
NARROW = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bfloat16", "float16", "float32")
DTYPES = {
    False: (*NARROW, "complex64"),
    True: (*NARROW, "int64", "uint64", "float64", "complex64", "complex128"),
}
PYTHON = ("2", "3", "True", "0.5", "1.5", "-2", "1j")
NUMPY = (
    "onp.float32(0.5)",
    "onp.float64(1.5)",
    "onp.int64(3)",
    "onp.int8(2)",
    "onp.uint16(1)",
    "onp.bool_(True)",
)
WEAK = ("np.asarray(2)", "np.asarray(0.5)", "np.broadcast_to(np.asarray(3), (3,))", "np.asarray(1j)")
ARITHMETIC = ("({} + {})", "({} - {})", "({} * {})", "np.maximum({}, {})", "np.minimum({}, {})",
              "np.where({} > 1, {}, 2)", "np.where(np.asarray(True), {}, {})", "np.add({}, {})",
              "np.stack([np.ravel({})[:1], np.ravel({})[:1]])", "np.outer({}, {})")  # fmt: skip
BITS = ("({} & {})", "({} | {})", "({} ^ {})")
ROUNDED = ("({} / {})", "np.divide({}, {})", "np.float_power(abs({}), abs({}))")
UNARY = ("(-{})", "abs({})", "np.square({})", "np.sum({})", "np.real({})", "np.conj({})", "np.prod({})",
         "np.cumsum(np.ravel({}))", "np.sign({})", "np.floor({})", "np.asarray({}).astype('float32')", "np.sort({})",
         "np.expand_dims({}, -1)", "np.full_like({}, 2)", "np.clip({}, 0, 2)", "np.asarray({})",
         "np.ravel({}).at[0].set(1)")  # fmt: skip
ROUNDED_UNARY = ("np.sin({})", "np.sqrt({})", "np.mean({})", "({} ** 0.5)", "np.tanh({})", "np.log1p({})", "np.var({})",
                 "(2.5 ** {})", "np.reciprocal({})")  # fmt: skip
JUMPS = ("({} // {})", "({} % {})", "({} << {})", "({} >> {})", "({} < {})", "({} == {})")
POWERS = ("({} ** 2)", "({} ** 3)", "({} ** np.asarray(2.0))", "({} ** np.asarray([1, 2, 3], 'int8'))",
          "({} ** np.asarray([1, 2, 3], 'float32'))", "({} ** np.asarray([1, 2, 3], 'bfloat16'))")  # fmt: skip


def leaf(rng: random.Random, x64: bool) -> str:
    """An operand."""
    kind = rng.random()
    if kind < 0.55:
        shape, dtype = rng.choice(("", "(3,)")), rng.choice(DTYPES[x64])
        values = "[1, 2, 3]" if shape else rng.choice(("1", "2", "3"))
        return f"np.asarray({values}, {dtype!r})"
    return rng.choice(PYTHON if kind < 0.72 else NUMPY if kind < 0.85 else WEAK)


def expression(rng: random.Random, x64: bool, depth: int, rounded: bool = True) -> str:
    """A tree at most `depth` high; only such as are computed exactly unless `rounded`."""
    if depth == 0 or rng.random() < 0.1:
        return leaf(rng, x64)
    draw = functools.partial(expression, rng, x64, depth - 1)
    kind = rng.random()
    if kind < 0.05:
        return rng.choice(POWERS).format(draw(False))
    if kind < 0.15:
        return rng.choice(JUMPS).format(draw(False), leaf(rng, x64))
    if kind < 0.45:
        return rng.choice(ARITHMETIC).format(draw(rounded), draw(rounded))
    if kind < 0.75 or not rounded:
        return rng.choice(UNARY).format(draw(rounded))
    if kind < 0.8:
        return rng.choice(BITS).format(draw(False), draw(False))
    if kind < 0.9:
        return rng.choice(ROUNDED).format(draw(), draw())
    return rng.choice(ROUNDED_UNARY).format(leaf(rng, x64))


def evaluate(text: str, module: Any) -> Any:
    """The value of an expression."""
    return eval(text, {"np": module, "onp": np})


def is_accepted(text: str) -> bool:
    """Whether JAX computes it; what it refuses Didax must refuse too."""
    try:
        found = jax.eval_shape(lambda: jnp.asarray(evaluate(text, jnp)))
    except (TypeError, ValueError):
        return False
    return found.size <= 30


def expressions(x64: bool) -> Iterator[str]:
    """Expressions that combine something."""
    rng = random.Random(f"promotion {x64}")
    while True:
        text = expression(rng, x64, rng.choice((1, 2, 2, 3)))
        if "np." in text and text not in WEAK:
            yield text


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.ci)], ids=["x32", "x64"])
def drawn(request: pytest.FixtureRequest) -> Iterator[tuple[list[str], list[str]]]:
    """Expressions that JAX accepts, and some that it refuses."""
    with ExitStack() as stack:
        stack.enter_context(dx.enable_x64(request.param))
        stack.enter_context(jax.enable_x64(request.param))
        accepted: dict[str, None] = {}
        refused: dict[str, None] = {}
        for text in expressions(request.param):
            (accepted if is_accepted(text) else refused)[text] = None
            if len(accepted) == COUNT:
                break
        yield list(accepted), list(refused)


def all_of(module: Any, texts: list[str]) -> Any:
    return lambda: tuple([module.asarray(evaluate(text, module)) for text in texts])


def assert_equal(text: str, ours: Any, theirs: Any) -> None:
    weak = bool(theirs.weak_type) and theirs.dtype != bool  # booleans are never weak here
    assert (ours.dtype, ours.weak_type, ours.shape) == (theirs.dtype, weak, theirs.shape), text
    coarse = any(name in text for name in ("bfloat16", "float16"))
    tolerance = 0.05 if coarse else 1e-4
    a, b = wide(ours), wide(theirs)
    scale = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0))) if b.dtype != bool else 1.0
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=text)


def test_there_is_variety(drawn: tuple[list[str], list[str]]) -> None:
    accepted, refused = drawn
    assert len(accepted) == COUNT and len(refused) > 20
    for template in (*ARITHMETIC, *BITS, *ROUNDED, *UNARY, *ROUNDED_UNARY, *JUMPS, *POWERS):
        pattern = re.compile(re.escape(template).replace(r"\{\}", ".+"))
        assert any(pattern.search(text) for text in accepted), template


def test_eager_and_jitted_expressions_equal_jax(drawn: tuple[list[str], list[str]]) -> None:
    texts = drawn[0]
    for start in range(0, COUNT, BULK):
        bulk = texts[start : start + BULK]
        theirs = jax.jit(all_of(jnp, bulk))()
        eager = all_of(dnp, bulk)()
        jitted = dx.jit(all_of(dnp, bulk))()
        for text, a, b, c in zip(bulk, eager, jitted, theirs, strict=True):
            assert_equal(text, a, c)
            assert_equal(text, b, c)


def test_what_jax_refuses_is_refused(drawn: tuple[list[str], list[str]]) -> None:
    for text in drawn[1]:
        try:
            size = evaluate(text, dnp).size
        except (TypeError, ValueError):
            continue
        assert size > 30, text
