"""didax.random draws what jax.random draws: eager, compiled and mapped."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import nn, random
from didax.random import _programs, _samplers
from tests.checks import assert_close, python_calls

pytestmark = pytest.mark.usefixtures("any_use_of_keys")


KEY = random.PRNGKey(3)
LOGITS = np.random.default_rng(0).normal(size=(3, 7)).astype("float32")
WEIGHTS = np.arange(1, 51, dtype="float32") / 1275
FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")

# name -> draw(module, key); `module` is didax.random or jax.random
EXACT = {
    "split": lambda r, k: r.split(k),
    "split shape": lambda r, k: r.split(k, (2, 3)),
    "split none": lambda r, k: r.split(k, 0),
    "fold_in": lambda r, k: r.fold_in(k, 77),
    "fold_in negative": lambda r, k: r.fold_in(k, np.int32(-1)),
    "bits": lambda r, k: r.bits(k, (2, 3)),
    "bits scalar": lambda r, k: r.bits(k),
    "bits large": lambda r, k: r.bits(k, (9000,)),
    **{f"uniform {d}": lambda r, k, d=d: r.uniform(k, (300,), d) for d in (*FLOATS, "float8_e5m2")},
    "bernoulli": lambda r, k: r.bernoulli(k, 0.3, (300,)),
    "bernoulli default": lambda r, k: r.bernoulli(k),
    "bernoulli array": lambda r, k: r.bernoulli(k, np.array([[0.1], [0.9]], "float16"), (2, 50)),
    "rademacher": lambda r, k: r.rademacher(k, (300,)),
    "rademacher float": lambda r, k: r.rademacher(k, (3,), "float32"),
    **{f"randint {d}": lambda r, k, d=d: r.randint(k, (300,), 3, 103, d) for d in INTS},
    "randint all": lambda r, k: r.randint(k, (300,), 0, 256, "uint8"),
    "randint clipped": lambda r, k: r.randint(k, (300,), -300, 300, "int8"),
    "randint wide": lambda r, k: r.randint(k, (300,), -(2**31), 2**31 - 1),
    "randint empty": lambda r, k: (dx if r is random else jax).jit(lambda n: r.randint(k, (3,), 5, n))(2),
    "randint arrays": lambda r, k: r.randint(k, (4, 3), np.arange(3), np.array([[9], [500], [3], [100000]])),
    "randint arrays clipped": lambda r, k: r.randint(
        k, (3,), np.arange(3), np.array([10, 500, 100000]), "uint8"
    ),
    "permutation": lambda r, k: r.permutation(k, 100),
    "permutation of two rounds": lambda r, k: r.permutation(k, 3000),
    "permutation of none": lambda r, k: r.permutation(k, 0),
    "permutation of rows": lambda r, k: r.permutation(k, LOGITS),
    "permutation of columns": lambda r, k: r.permutation(k, LOGITS, axis=-1),
    "permutation of each row": lambda r, k: r.permutation(k, LOGITS, axis=1, independent=True),
    "choice": lambda r, k: r.choice(k, 5, (2, 3)),
    "choice of rows": lambda r, k: r.choice(k, LOGITS, (2, 2), axis=1),
    "choice of different rows": lambda r, k: r.choice(k, LOGITS, (2, 3), replace=False, axis=1),
    "choice by weight": lambda r, k: r.choice(k, 50, (40,), p=WEIGHTS),
    "choice by counts": lambda r, k: r.choice(k, 5, (9,), p=np.array([1, 2, 0, 4, 1], "int32")),
    "choice by a mask": lambda r, k: r.choice(k, 4, (2,), False, np.array([True, False, True, True])),
    "choice of different ones by weight": lambda r, k: r.choice(k, np.sqrt(WEIGHTS), (8,), False, WEIGHTS),
    "categorical": lambda r, k: r.categorical(k, LOGITS),
    "categorical axis": lambda r, k: r.categorical(k, LOGITS, axis=0, shape=(4, 7)),
    "categorical of many": lambda r, k: r.categorical(k, LOGITS, shape=(500, 3)),
    "categorical of longer axes": lambda r, k: r.categorical(k, LOGITS[None, :1], 2, (2, 3, 5)),
    "categorical of a longer last axis": lambda r, k: r.categorical(k, LOGITS[..., None], 0, (7, 4)),
    "categorical of no draws": lambda r, k: r.categorical(k, LOGITS[:1], shape=(0, 2)),
    "categorical high": lambda r, k: r.categorical(k, LOGITS, mode="high"),
    "categorical of different ones": lambda r, k: r.categorical(k, LOGITS, shape=(2, 2, 3), replace=False),
    "categorical axis of different ones": lambda r, k: r.categorical(k, LOGITS, 0, (3, 7), False, "high"),
    "choice high": lambda r, k: r.choice(k, 50, (8,), False, WEIGHTS, mode="high"),
    "bernoulli high": lambda r, k: r.bernoulli(k, 1e-3, (300,), mode="high"),
}
CLOSE = {
    **{
        f"{name} {d}": lambda r, k, f=name, d=d: getattr(r, f)(k, (300,), d)
        for d in FLOATS
        for name in ("normal", "exponential", "gumbel", "laplace")
    },
    "gumbel high": lambda r, k: r.gumbel(k, (300,), mode="high"),
    "normal complex": lambda r, k: r.normal(k, (300,), "complex64"),
    "normal large": lambda r, k: r.normal(k, (9000,)),
    "normal in triples": lambda r, k: r.normal(k, (3000, 3)),
    "exponential in pairs": lambda r, k: r.exponential(k, (3, 1500, 2), "bfloat16"),
    "gumbel high in rows": lambda r, k: r.gumbel(k, (300, 30), mode="high"),
    **{
        f"truncated_normal {d}": lambda r, k, d=d: r.truncated_normal(k, -1.5, 2.0, (300,), d) for d in FLOATS
    },
    "uniform bounds": lambda r, k: r.uniform(k, (300,), minval=-2.5, maxval=7.0),
    "uniform arrays": lambda r, k: r.uniform(k, (2, 3), minval=np.zeros((2, 1)), maxval=np.arange(1.0, 4.0)),
    "uniform without a range": lambda r, k: r.uniform(k, (3,), minval=5.0, maxval=1.0),
}
DRAWS = EXACT | CLOSE
RTOL = {"float32": 1e-5, "complex64": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


MAPPED_EAGERLY = ("uniform float32", "normal float32", "randint int32", "permutation", "split")


# In a program with others, from one key: each draw of many numbers compiles a program of its own when it is called.
FROM_ONE_KEY = list(DRAWS)[::4]


def everything(module, names=tuple(DRAWS)):
    """Draws from one key, as one function to compile."""
    return lambda key: {name: DRAWS[name](module, key) for name in names}


@pytest.fixture(scope="module")
def want():
    """What jax draws, for three keys: by a program for each draw, small enough to be remembered."""
    keys = jax.random.split(jax.random.PRNGKey(3), 3)
    return {
        name: jax.jit(jax.vmap(lambda key, draw=draw: draw(jax.random, key)))(keys)
        for name, draw in DRAWS.items()
    }


@pytest.fixture(scope="module")
def compiled():
    """What Didax draws compiled: mapped over the same keys, and some from the first of them."""
    keys = random.split(KEY, 3)
    mapped = dx.jit(dx.vmap(everything(random)))(keys)
    return mapped, dx.jit(everything(random, FROM_ONE_KEY))(np.asarray(keys)[0])


def check(name, got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if name in EXACT:
        assert np.array_equal(got, want)
    else:
        assert_close(got, want, RTOL[want.dtype.name])


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_jax(name, want):
    """Bits and integers exactly, floats to rounding."""
    draw, keys = DRAWS[name], random.split(KEY, 3)
    check(name, draw(random, np.asarray(keys)[0]), want[name][0])
    if name in MAPPED_EAGERLY:
        check(name, dx.vmap(lambda key: draw(random, key))(keys), want[name])


@pytest.mark.ci  # a program of all draws, which are programs of their own above
@pytest.mark.parametrize("name", DRAWS)
def test_draws_within_a_program_are_those_of_jax(name, want, compiled):
    check(name, compiled[0][name], want[name])
    if name in FROM_ONE_KEY:
        check(name, compiled[1][name], want[name][0])


def test_draws_in_64_bits_are_those_of_jax(x64):
    """Under enable_x64 the default dtypes are wide."""
    draws = {
        "uniform": lambda r, k: r.uniform(k, (50,)),
        "normal": lambda r, k: r.normal(k, (50,)),
        "randint": lambda r, k: r.randint(k, (50,), -(2**40), 2**40),
        "bits": lambda r, k: r.bits(k, (50,)),
        "permutation": lambda r, k: r.permutation(k, 50),
        "choice": lambda r, k: r.choice(k, 5, (50,)),
    }
    want = jax.jit(lambda k: {name: draw(jax.random, k) for name, draw in draws.items()})(
        jax.random.PRNGKey(5)
    )
    compiled = dx.jit(lambda k: {name: draw(random, k) for name, draw in draws.items()})(random.PRNGKey(5))
    for name, draw in draws.items():
        for got in (draw(random, random.PRNGKey(5)), compiled[name]):
            assert got.dtype == want[name].dtype
            np.testing.assert_allclose(
                np.asarray(got), np.asarray(want[name]), rtol=1e-12 if name == "normal" else 0
            )


SEEDS = [
    0, 42, -1, 2**31, 2**32, 2**40 + 5, -(2**40) - 3, 2**63 - 1, -(2**63), True,
    np.int64(2**40 + 5), np.int32(-3), np.uint32(2**32 - 1), np.uint64(2**63 + 7), np.uint8(200), np.int8(-3),
]  # fmt: skip


def check_seeds():
    for seed in SEEDS:
        assert np.array_equal(np.asarray(random.PRNGKey(seed)), np.asarray(jax.random.PRNGKey(seed))), seed
    seeds = np.arange(-2, 3)
    for make in (dx.vmap(random.PRNGKey), dx.jit(dx.vmap(random.PRNGKey))):
        assert np.array_equal(np.asarray(make(seeds)), np.asarray(jax.vmap(jax.random.PRNGKey)(seeds)))
    assert np.array_equal(np.asarray(dx.jit(random.PRNGKey)(-5)), np.asarray(jax.jit(jax.random.PRNGKey)(-5)))


def test_seeds_are_those_of_jax():
    """Python ints and NumPy scalars of any sign and width."""
    check_seeds()


def test_seeds_are_those_of_jax_in_64_bits(x64):
    """Under enable_x64 the upper half of a seed counts."""
    check_seeds()


def test_a_sample_is_differentiable_in_its_parameters():
    """uniform is linear in its bounds."""
    x_dot = dx.jvp(lambda m: random.uniform(KEY, (4,), maxval=m), (2.0,), (1.0,))[1]
    np.testing.assert_allclose(np.asarray(x_dot), np.asarray(random.uniform(KEY, (4,))), rtol=1e-6)


@pytest.mark.cpu
def test_a_small_draw_compiles_nothing(monkeypatch):
    """NumPy makes it on the spot, as long as there were few of its kind."""
    dx.clear_caches()
    monkeypatch.setattr("didax.xla.compile.compile_text", lambda *args, **kwargs: pytest.fail("compiled"))
    key = random.split(random.key(123))[1]
    random.uniform(key, (17, 3))
    random.randint(key, (17, 5), 0, 10)
    random.bernoulli(key, 0.25, (17, 7))
    random.permutation(key, 17)


REPEATED = {
    name: EXACT[name]
    for name in (
        "split",
        "bits",
        "uniform float32",
        "uniform bfloat16",
        "bernoulli",
        "rademacher",
        "randint all",
    )
} | {
    "randint": lambda r, k: r.randint(k, (40,), -5, 1000),
    "permutation": lambda r, k: r.permutation(k, 40),
}


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("name", REPEATED)
def test_draws_stay_the_same_once_they_are_compiled(name, impl, monkeypatch):
    """NumPy makes the first few, bit for bit as the program that makes those that follow."""
    key, draw = random.key(11, impl=impl), REPEATED[name]
    monkeypatch.setattr(_programs, "FIRST_DRAWS", 10**9)
    first = draw(random, random.clone(key))
    monkeypatch.setattr(_programs, "FIRST_DRAWS", 0)
    later = draw(random, random.clone(key))
    if name == "split":
        first, later = random.key_data(first), random.key_data(later)
    assert np.array_equal(np.asarray(first), np.asarray(later))


SPANS = (1, 2, 3, 5, 1000, 65535, 65536, 65537, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1, 0)


def test_remainders_of_words_by_multiplication_are_exact():
    """At every size of divisor, with numbers next to its multiples; a divisor of 0 leaves the number."""
    for span in SPANS:
        multiples = span * np.arange(1, 50, dtype="uint64") if span else np.arange(49, dtype="uint64")
        words = np.concatenate([multiples - 1, multiples, multiples + 1, np.uint64(2**32 - 1) - multiples])
        words = np.asarray(words & np.uint64(2**32 - 1), "uint32")
        want = words % np.uint32(span) if span else words
        assert np.array_equal(np.asarray(_samplers._remainder(words, np.uint32(span))), want), span
        compiled = dx.jit(_samplers._remainder)(words, np.uint32(span))
        assert np.array_equal(np.asarray(compiled), want), span


ERRORS = {
    "float seed": (
        lambda: random.PRNGKey(1.5),
        TypeError,
        r"A seed is one integer.\n  seed: float32\[\]\nUse vmap",
    ),
    "seeds": (lambda: random.PRNGKey(np.arange(2)), TypeError, r"seed: int"),
    "huge seed": (lambda: random.PRNGKey(2**64), OverflowError, "seed: 18446744073709551616"),
    "no key": (
        lambda: random.split(5),
        TypeError,
        "split takes a key, or its words: a uint32 array of shape.*\n  key: 5 of type int\nMake one with",
    ),
    "short key": (
        lambda: random.normal(np.zeros(3, "uint32")),
        TypeError,
        r"normal takes a key.*\n  key: uint32\[3\]",
    ),
    "signed key": (lambda: random.bits(np.zeros(2, "int32")), TypeError, r"key: int32\[2\]"),
    "array of keys": (
        lambda: random.split(random.split(KEY)),
        ValueError,
        r"single key.\n.*array of keys of shape \(2,\)\nUse vmap",
    ),
    "fold_in float": (lambda: random.fold_in(KEY, 1.5), TypeError, "fold_in takes one integer.\n  data: 1.5"),
    "fold_in array": (lambda: random.fold_in(KEY, np.arange(3)), TypeError, "Use vmap"),
    "fold_in wide": (lambda: random.fold_in(KEY, 2**40), OverflowError, "data: 1099511627776"),
    "shape": (
        lambda: random.uniform(KEY, (2, -3)),
        ValueError,
        r"uniform takes a shape.*\n  shape: \(2, -3\)",
    ),
    "integer uniform": (
        lambda: random.uniform(KEY, (), int),
        ValueError,
        "a floating-point dtype.\n  dtype: int32",
    ),
    "integer normal": (
        lambda: random.normal(KEY, (), "int32"),
        ValueError,
        "floating-point or complex dtype",
    ),
    "signed bits": (lambda: random.bits(KEY, (), "int32"), ValueError, "an unsigned integer dtype"),
    "boolean signs": (lambda: random.rademacher(KEY, (), bool), ValueError, "rademacher draws numbers"),
    "float randint": (lambda: random.randint(KEY, (), 0, 5, float), ValueError, "an integer dtype"),
    "no integer between": (
        lambda: random.randint(KEY, (3,), 5, 5),
        ValueError,
        "minval is to be less than maxval.\n  minval: 5, maxval: 5\nRaise",
    ),
    "no integer between arrays": (
        lambda: random.randint(KEY, (3,), np.int32([0, 4, 5]), np.uint8([9, 3, 9])),
        ValueError,
        "minval: 4, maxval: 3",
    ),
    "bounds": (
        lambda: random.uniform(KEY, (3,), minval=np.zeros(2)),
        ValueError,
        r"minval: float\d\d\[2\], shape: \(3,\)",
    ),
    "integer p": (lambda: random.bernoulli(KEY, 1), TypeError, r"p: int32\[\]\nWrite 1.0 for 1"),
    "p too large": (lambda: random.bernoulli(KEY, 2.0), ValueError, "between 0 and 1.\n  p: 2.0"),
    "p is not a number": (lambda: random.bernoulli(KEY, np.float32("nan")), ValueError, "p: nan"),
    "p does not fit": (
        lambda: random.bernoulli(KEY, np.full(3, 0.5), (2,)),
        ValueError,
        r"p: float\d\d\[3\], shape: \(2,\)",
    ),
    "too many": (
        lambda: random.choice(KEY, 5, (7,), replace=False),
        ValueError,
        r"elements: 5, shape: \(7,\), replace: False",
    ),
    "from none": (lambda: random.choice(KEY, 0, (7,)), ValueError, "none from an empty axis"),
    "weights": (
        lambda: random.choice(KEY, 5, (7,), p=np.ones(4)),
        ValueError,
        r"p: float\d\d\[4\], elements: 5",
    ),
    "permuted float": (lambda: random.permutation(KEY, 3.0), TypeError, r"x: float32\[\]"),
    "permuted tracer": (lambda: dx.jit(lambda n: random.permutation(KEY, n))(3), TypeError, "traced"),
    "too many categories": (
        lambda: random.categorical(KEY, LOGITS, shape=(8, 3), replace=False),
        ValueError,
        r"at most once.\n  logits: float32\[3,7\], axis: 1, shape: \(8, 3\), draws: 8\nDraw at most 7",
    ),
    "mode": (
        lambda: random.gumbel(KEY, (), mode="fine"),
        ValueError,
        "The mode of gumbel says.*\n  mode: 'fine'\nUse",
    ),
    "mode of bernoulli": (
        lambda: random.bernoulli(KEY, mode="top"),
        ValueError,
        "bernoulli.*\n  mode: 'top'",
    ),
    "mode of choice": (lambda: random.choice(KEY, 3, mode=1), ValueError, "choice.*\n  mode: 1"),
    "mode of categorical": (
        lambda: random.categorical(KEY, LOGITS, mode="x"),
        ValueError,
        "categorical.*\n  mode: 'x'",
    ),
    "logits axis": (lambda: random.categorical(KEY, LOGITS, axis=2), ValueError, "axis: 2, axes: 2"),
    "logits shape": (
        lambda: random.categorical(KEY, LOGITS, shape=(5,)),
        ValueError,
        r"Pass a shape that ends in \(3,\)",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_misuse_is_explained(case):
    """Errors name the argument, what it was, and the way out."""
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize(
    "bounds", [(0, 10.0), (-2.7, 3.7), (np.float32(1.5), np.array([3.5, 9.0], "float32"))]
)
def test_bounds_of_randint_lose_their_fractions_as_in_jax(bounds):
    ours, theirs = [library.random.randint(library.random.key(3), (2,), *bounds) for library in (dx, jax)]
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    traced = dx.jit(lambda low, high: dx.random.randint(dx.random.key(3), (2,), low, high))(*bounds)
    assert np.array_equal(np.asarray(traced), np.asarray(theirs))


def test_a_bound_of_randint_that_comes_again_is_kept():
    (low, high, _), (again, other, _) = [_samplers._bounds(0, n, np.dtype(np.int32)) for n in (5, 6)]
    assert low is again and [int(low), int(high), int(other)] == [0, 5, 6]
    for n in (5, 6, 7):
        draws = np.asarray(random.randint(random.key(n), (200,), 0, n))
        assert set(draws) == set(range(n)) and draws.dtype == np.int32
        assert random.randint(random.key(n), (200,), 0, n, np.uint8).dtype == np.uint8


def test_bounds_of_randint_are_finite_and_real():
    for bad in (float("inf"), float("nan"), 1j):
        with pytest.raises(ValueError, match="randint takes numbers as bounds"):
            dx.random.randint(dx.random.key(0), (), 0, bad)


def test_permutation_of_no_rows() -> None:
    for shape, axis in [((0, 3), 0), ((2, 0), 1), ((0, 3), 1)]:
        assert random.permutation(random.key(0), np.zeros(shape, "float32"), axis).shape == shape


def test_nothing_is_drawn_from_nothing() -> None:
    assert random.choice(KEY, 0, (0,)).shape == random.randint(KEY, (0,), 5, 5).shape == (0,)


@pytest.mark.parametrize("draw", ["normal", "exponential", "gumbel"])
def test_numbers_with_a_short_last_axis_are_written_as_a_vector(draw):
    """XLA makes no instructions of vectors for a loop over three numbers."""
    for shape, vector in (((30, 3), ["90"]), ((3, 300), []), ((10, 3), [])):
        f = dx.jit(lambda key, shape=shape: getattr(random, draw)(key, shape))
        calls = re.findall(r"call @materialized.*: \(tensor<([0-9x]+)xf32>\)", f.lower(KEY).as_text())
        assert calls == vector


@pytest.mark.cpu
def test_numbers_that_several_operations_read_are_drawn_once():
    """XLA would draw them again in each loop that reads them."""
    several = dx.jit(lambda key: (lambda x: (x.max(), x.mean()))(random.normal(key, (300,))))
    one = dx.jit(lambda key: random.normal(key, (300,)).max())
    few = dx.jit(lambda key: (lambda x: (x.max(), x.mean()))(random.normal(key, (3,))))
    assert ["call @materialized" in f.lower(KEY).as_text() for f in (several, one, few)] == [
        True,
        False,
        False,
    ]


@pytest.mark.cpu
def test_what_is_computed_of_random_numbers_is_computed_once():
    """XLA would draw again in each loop that reads what is computed of a draw."""

    def calls(f):
        text = dx.jit(lambda key: f(2 * random.normal(key, (64,)))).lower(KEY).as_text()
        return text.count("call @materialized")

    assert calls(lambda x: (x - x.mean()) / x.std()) == 1
    assert calls(lambda x: x + dnp.roll(x, 1)) == 1
    assert calls(lambda x: (dnp.sin(x), dnp.sin(x) * 3)) == 1
    assert calls(lambda x: x * dnp.sin(x) + x) == 0  # one loop reads it
    assert calls(lambda x: dnp.ones((9, 64)) * (x + 1)) == 1  # each number is read nine times
    assert calls(lambda x: dnp.ones((9, 64)) * x[0]) == 0
    gumbel = dx.jit(lambda key: nn.softmax(2 * random.gumbel(key, (8, 64)))).lower(KEY).as_text()
    assert "call @materialized" not in gumbel  # XLA's library takes logarithms with the sums


def test_numbers_that_several_operations_read_beside_an_operation_without_results(capfd):
    """An equation without a result was asked for its first one."""

    @dx.jit
    def f(key):
        x = random.normal(key, (100,))
        dx.debug.print("{}", x.max())
        return x.min(), x.max()

    least, most = map(float, f(KEY))
    drawn = np.asarray(random.normal(KEY, (100,)))
    np.testing.assert_allclose([least, most], [drawn.min(), drawn.max()], rtol=1e-6)
    dx.effects_barrier()
    assert float(capfd.readouterr().out) == pytest.approx(most)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16"])
def test_counts_of_other_dtypes(dtype):
    for draw in (
        lambda dtype: random.multinomial(KEY, 20.0, np.float32([0.2, 0.3, 0.5]), dtype=dtype),
        lambda dtype: random.poisson(KEY, 3.0, (4,), dtype=dtype),
        lambda dtype: random.geometric(KEY, 0.3, (4,), dtype=dtype),
    ):
        found = draw(dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, draw(None))
        for other in ("bool", "complex64"):
            with pytest.raises(TypeError, match="draws an integer or a floating-point dtype"):
                draw(other)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_factors_of_16_bit_matrices_are_computed_in_float32(dtype):
    for draw in (
        lambda dtype: random.multivariate_normal(KEY, np.zeros(2), np.eye(2) * 4, dtype=dtype),
        lambda dtype: random.orthogonal(KEY, 2, dtype=dtype),
    ):
        found = draw(dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, draw("float32").astype(dtype))


def test_a_shape_without_axes_is_a_shape():
    assert random.t(KEY, np.float32([1.0, 8.0])).shape == (2,)
    with pytest.raises(ValueError, match="broadcast to the shape of the result"):
        random.t(KEY, np.float32([1.0, 8.0]), ())


def test_no_elements_of_none_with_probabilities():
    assert random.choice(KEY, 0, (0,), p=np.zeros(0, np.float32)).shape == (0,)


@pytest.mark.parametrize(
    "draw",
    [
        lambda k: random.uniform(k, (4,), minval=-1.0, maxval=1),
        lambda k: random.truncated_normal(k, -2.0, 2.0, (4,)),
        lambda k: random.gamma(k, 2.0, (4,)),
        lambda k: random.weibull_min(k, 1.0, 2, (4,)),
    ],
    ids=["uniform", "truncated_normal", "gamma", "weibull_min"],
)
def test_parameters_that_are_numbers_are_brought_to_the_device_once(draw) -> None:
    """A call was 65 to 102 Python calls, of which each parameter took 24."""
    for _ in range(4):
        first = draw(KEY)
    assert python_calls(draw, KEY) <= 36
    np.testing.assert_array_equal(draw(KEY), first)


def test_numbers_that_are_equal_are_parameters_of_their_own() -> None:
    low = [np.asarray(_samplers.parameters("f", (), np.dtype("float32"), a=x)[0]) for x in (0.0, -0.0, 0)]
    assert [bool(np.signbit(x)) for x in low] == [False, True, False]
    high = [random.uniform(KEY, (2,), d, 0.5, 2) for d in ("float32", "float16")]
    assert [x.dtype for x in high] == ["float32", "float16"]
