"""Generators beside the default one are those of jax, and anyone may define another."""

from __future__ import annotations

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, random
from didax.core.dtypes import from_short_name
from didax.core.jaxpr_parse import parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text
from didax.extend.random import define_prng_impl
from didax.primitives.rbg import RandomAlgorithm, rng_bit_generator_p
from tests.checks import first

pytestmark = pytest.mark.usefixtures("any_use_of_keys")


RBG = ("rbg", "unsafe_rbg")
CIPHERS = ("threefry4x32", "philox2x32", "philox4x32")


def words(keys):
    """The words of keys, those of jax or ours."""
    return np.asarray((jax if isinstance(keys, jax.Array) else dx).random.key_data(keys))


DRAWS = {
    "split": lambda r, k: r.key_data(r.split(k)),
    "split shape": lambda r, k: r.key_data(r.split(k, (2, 3))),
    "split none": lambda r, k: r.key_data(r.split(k, 0)),
    "fold_in": lambda r, k: r.key_data(r.fold_in(k, 77)),
    "fold_in array": lambda r, k: r.key_data(r.fold_in(k, np.int32(-1))),
    **{f"bits {w}": lambda r, k, w=w: r.bits(k, (5,), f"uint{w}") for w in (8, 16, 32)},
    "bits scalar": lambda r, k: r.bits(k),
    "bits of none": lambda r, k: r.bits(k, (0, 2)),
    "bits large": lambda r, k: r.bits(k, (400, 200)),
    "uniform": lambda r, k: r.uniform(k, (3, 2)),
    "randint": lambda r, k: r.randint(k, (9,), 3, 103),
    "permutation": lambda r, k: r.permutation(k, 20),
}


@pytest.fixture(
    scope="module",
    params=[(impl, True) for impl in (*RBG, *CIPHERS)] + [("threefry2x32", False), ("rbg", False)],
)
def drawn(request):
    """What jax draws, from one key and from three mapped; the large draw by its own program: it is not remembered."""
    impl, partitionable = request.param
    with jax.threefry_partitionable(partitionable):
        return impl, partitionable, *drawn_by_jax(impl)


def drawn_by_jax(impl):
    key = jax.random.key(3, impl=impl)
    keys = jax.random.split(key, 3)
    one, mapped = {}, {}
    for names in (sorted(DRAWS.keys() - {"bits large"}), ["bits large"]):

        def everything(key, names=names):
            return {name: DRAWS[name](jax.random, key) for name in names}

        both = jax.jit(lambda key, keys, f=everything: (f(key), jax.vmap(f)(keys)))(key, keys)
        one |= both[0]
        mapped |= both[1]
    return one, mapped, words(keys)


def test_bits_are_those_of_jax(drawn):
    """Eager, compiled, and mapped, where rbg draws a whole batch from its first key."""
    impl, partitionable, one, mapped, three = drawn
    with dx.threefry_partitionable(partitionable):
        check_bits(impl, one, mapped, three)


def check_bits(impl, one, mapped, three):
    key = random.key(3, impl=impl)
    keys = random.split(key, 3)
    assert np.array_equal(words(keys), three)

    def everything(keys):
        return {name: draw(random, keys) for name, draw in DRAWS.items()}

    both = dx.jit(lambda key, keys: (everything(key), dx.vmap(everything)(keys)))
    compiled, compiled_mapped = both(key, keys)
    for got, want in ((everything(key), one), (compiled, one), (compiled_mapped, mapped)):
        for name in DRAWS:
            x, y = np.asarray(got[name]), np.asarray(want[name])
            assert (x.shape, x.dtype) == (y.shape, y.dtype), name
            assert np.array_equal(x, y), name


@pytest.mark.parametrize("impl", CIPHERS)
@pytest.mark.parametrize("x64", [False, True])
def test_keys_and_wide_bits_of_ciphers_are_those_of_jax(impl, x64):
    """From seeds of both signs and of more than 32 bits; the draws of 64 bits join the halves in each cipher's way."""
    with dx.enable_x64(x64), jax.enable_x64(x64):
        for seed in (0, -3, np.uint32(4_000_000_000), np.int64(2**40 + 3)):
            ours, theirs = (m.random.key(seed, impl=impl) for m in (dx, jax))
            assert np.array_equal(words(ours), words(theirs)) and str(ours.dtype) == str(theirs.dtype)
        if x64:
            draws = [
                np.asarray(m.random.bits(key, (2, 3), "uint64")) for m, key in ((dx, ours), (jax, theirs))
            ]
            assert draws[0].dtype == np.uint64 and np.array_equal(*draws)


def test_a_cipher_counts_beyond_32_bits():
    """What is drawn after 2**32 blocks is staged, not run: its counters have a high word."""
    for impl in CIPHERS:
        key = random.key(0, impl=impl)
        draw = lambda key, n: random.bits(key, (n,))
        texts = [dx.jit(lambda key, n=n: draw(key, n)).lower(key).as_text() for n in (2**32, 2**32 + 1)]
        assert ["ui64>" in text.split("iota")[1].splitlines()[0] for text in texts] == [False, True]


@pytest.mark.parametrize("impl", (*RBG, *CIPHERS))
def test_nested_maps_are_those_of_jax(impl):
    """Over arrays of keys of two axes, mapped in either order, with data shared or not, and over none."""
    ours, theirs = (m.random.split(m.random.key(1, impl=impl), (2, 3)) for m in (dx, jax))
    for f in (lambda r, k: r.bits(k), lambda r, k: r.key_data(r.fold_in(k, 3))):
        for outer in (0, 1):
            got, want = (
                m.vmap(m.vmap(lambda k, m=m: f(m.random, k)), outer)(ks)
                for m, ks in ((dx, ours), (jax, theirs))
            )
            assert np.array_equal(np.asarray(got), np.asarray(want))
    several = np.array([5, 6])
    for axes, pick, data in (
        ((0, 0), slice(None), several),
        ((0, None), slice(None), 5),
        ((None, 0), 0, several),
    ):
        got, want = (
            m.vmap(m.vmap(m.random.fold_in, (0, None)), axes)(ks[pick], data)
            for m, ks in ((dx, ours), (jax, theirs))
        )
        assert np.array_equal(words(got), words(want))
    empty = random.split(random.key(1, impl=impl), 0)
    assert dx.vmap(random.bits)(empty).shape == (0,) and dx.vmap(random.split)(empty).shape == (0, 2)


@pytest.mark.parametrize("impl", first(RBG))
def test_draws_by_rejection_go_on_for_a_whole_batch(impl):
    """The draws of a mapped round come from the first key, which is not to stand still when its element is done."""
    keys = random.split(random.key(9, impl=impl), 2000)
    draws = {
        "poisson": (lambda k: random.poisson(k, 4.5), 4.5, 4.5),  # the first, because the others ran forever
        "binomial": (lambda k: random.binomial(k, 10, 0.4), 4.0, 2.4),
        "gamma": (lambda k: random.gamma(k, 2.5), 2.5, 2.5),
        "many": (lambda k: random.poisson(k, 50.0), 50.0, 50.0),
    }
    for name, (draw, mean, variance) in draws.items():
        mapped = dx.vmap(dx.vmap(draw))(keys.reshape(40, 50)) if name == "poisson" else dx.vmap(draw)(keys)
        assert abs(float(mapped.mean()) - mean) < 5 * math.sqrt(variance / 2000), name
        assert 0.8 < float(mapped.var()) / variance < 1.25, name


@pytest.mark.parametrize("impl", RBG)
def test_bits_of_64(impl):
    with dx.enable_x64(True), jax.enable_x64(True):
        for draw in (lambda r, k: r.bits(k, (3,)), lambda r, k: r.uniform(k, (3,), "float64")):
            got, want = (
                draw(random, random.key(2**40, impl=impl)),
                draw(jax.random, jax.random.key(2**40, impl=impl)),
            )
            assert np.array_equal(np.asarray(got), np.asarray(want)) and got.dtype == want.dtype


def test_keys_draw_as_the_option_says_at_the_draw():
    """As in jax: whatever was in force when the key was made. New keys have the dtype of the key they come from."""
    key, raw = random.key(0), random.PRNGKey(0)
    new = random.bits(key, (3,))
    with dx.threefry_partitionable(False):
        old_key = random.key(0)
        old = random.bits(old_key, (3,))
        assert not np.array_equal(old, new)
        for k in (key, raw):
            assert np.array_equal(random.bits(k, (3,)), old)
            assert np.array_equal(dx.jit(lambda k: random.bits(k, (3,)))(k), old)
            assert random.split(k).dtype == random.fold_in(k, 1).dtype == k.dtype
        assert np.array_equal(words(random.split(key)), random.split(raw))
        assert old_key.dtype == key.dtype and old_key == key
        with dx.enable_x64():
            assert random.bits(key, (3,), "uint64").tolist() == [
                10597664315880824766, 1838883807893689961, 13686855971547664781]  # fmt: skip
    assert np.array_equal(random.bits(old_key, (3,)), new)
    assert np.array_equal(words(random.split(old_key)), words(random.split(key)))
    with dx.threefry_partitionable(False), pytest.raises(NotImplementedError, match="fewer than 2"):
        dx.jit(lambda: random.bits(random.key(0), (1 << 33,))).lower().as_text()


def test_the_default_implementation_is_an_option():
    """`key`, `PRNGKey` and raw keys follow it, compiled functions too."""
    draw = dx.jit(lambda: random.bits(random.key(0)))
    before = int(draw())
    dx.config.update("jax_default_prng_impl", "rbg")
    try:
        with jax.default_prng_impl("rbg"):
            raw, theirs = random.PRNGKey(1), jax.random.PRNGKey(1)
            assert (
                str(random.key(1).dtype) == "key<rbg>" and random.key_impl(raw) == "rbg" and raw.shape == (4,)
            )
            for f in (lambda r, k: r.split(k), lambda r, k: r.fold_in(k, 2), lambda r, k: r.bits(k, (3,))):
                assert np.array_equal(np.asarray(f(random, raw)), np.asarray(f(jax.random, theirs)))
            assert random.clone(raw).shape == (4,) and draw() != before
            with pytest.raises(TypeError, match=r"a uint32 array of shape \(4,\).\n  key: uint32\[2\]"):
                random.bits(np.zeros(2, "uint32"))
    finally:
        dx.config.update("default_prng_impl", "threefry2x32")
    assert int(draw()) == before


# --- the generator itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", RandomAlgorithm)
@pytest.mark.parametrize("state", [np.arange(4, dtype="uint32"), np.arange(2, dtype="uint64")])
def test_rng_bit_generator_is_that_of_jax(algorithm, state):
    """States of either width, every algorithm, the next state included."""
    with dx.enable_x64(True), jax.enable_x64(True):
        got = rng_bit_generator_p.bind(state, shape=(2, 3), dtype=np.dtype("uint16"), algorithm=algorithm)
        theirs = jax.lax.RandomAlgorithm(algorithm.value)
        want = jax.lax.rng_bit_generator(jnp.asarray(state), (2, 3), "uint16", theirs)
        for x, y in zip(got, want, strict=True):
            assert np.array_equal(np.asarray(x), np.asarray(y)) and x.dtype == y.dtype


def test_states_of_numpy_are_batched():
    states = np.arange(8, dtype="uint32").reshape(2, 4)
    new, bits = dx.vmap(lambda state: lax.rng_bit_generator(state, (3,), dtype=np.uint32))(states)
    want_new, want_bits = jax.vmap(lambda state: jax.lax.rng_bit_generator(state, (3,), dtype=np.uint32))(
        states
    )
    assert np.array_equal(new, want_new) and np.array_equal(bits, want_bits)


@pytest.mark.parametrize(
    "state, dtype, text",
    [
        (np.zeros(3, "uint32"), "uint32", r"a state of four uint32 or two uint64.\n  key: uint32\[3\]"),
        (np.zeros(4, "uint32"), "int32", "dtype: int32"),
        (np.zeros(4, "uint32"), "uint4", "dtype: uint4"),
    ],
)
def test_bad_states_are_explained(state, dtype, text):
    with pytest.raises(TypeError, match=text):
        rng_bit_generator_p.bind(
            state, shape=(), dtype=dx.dtypes.canonicalize_dtype(dtype), algorithm=RandomAlgorithm.RNG_DEFAULT
        )


# --- a generator of one's own -----------------------------------------------------------------------------


def mixed(x):
    """The finaliser of MurmurHash3: a bijection of 32-bit words."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x ^ (x >> 16)


def counted(words, n):
    """n hashes of counters, of the words of a key."""
    return mixed(mixed(words[0] + dnp.arange(n, dtype="uint32") * np.uint32(0x9E3779B9)) ^ words[1])


def bits_of(words, bit_width, shape):
    low = counted(words, math.prod(shape))
    if bit_width == 64:
        high = counted(words + 1, math.prod(shape))
        return ((high.astype("uint64") << 32) | low).reshape(shape)
    return (low >> (32 - bit_width)).astype(f"uint{bit_width}").reshape(shape)


MURMUR = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: dnp.stack([mixed(dnp.asarray(seed).astype("uint32")), dnp.uint32(0)]),
    split=lambda words, shape: counted(words, 2 * math.prod(shape)).reshape(*shape, 2),
    random_bits=bits_of,
    fold_in=lambda words, data: mixed(words ^ dnp.stack([data, ~data])),
    name="murmur",
    tag="mur",
)


def test_a_generator_of_ones_own():
    """Its keys draw, split, move, map and compile like any others."""
    key = random.key(7, impl=MURMUR)
    assert str(key.dtype) == "key<mur>" and random.key_impl(key) is MURMUR
    keys = random.split(key, 4)
    draw = lambda k: random.normal(k, (3,))  # a function in many compositions
    want = np.stack([np.asarray(draw(k)) for k in keys])
    assert len(np.unique(want)) == 12
    for f in (dx.vmap(draw), dx.jit(dx.vmap(draw)), dx.vmap(dx.jit(draw))):
        assert np.allclose(np.asarray(f(keys)), want, rtol=1e-6)
    assert random.key_data(random.fold_in(keys[::-1][0], 3)).shape == (2,)
    both = dx.jit(lambda k: lax.cond(random.bits(k) >= 0, random.split, lambda k: random.split(k)[::-1], k))(
        key
    )
    assert bool((both == random.split(key)).all())
    numbers = np.asarray(random.uniform(key, (10000,)))
    assert abs(numbers.mean() - 0.5) < 0.015 and abs(numbers.var() - 1 / 12) < 0.01


def test_a_generator_of_ones_own_in_text_and_pickles():
    key = random.key(7, impl=MURMUR)
    text = jaxpr_text(dx.make_jaxpr(lambda s: random.split(random.key(s, impl=MURMUR)))(7).jaxpr)
    assert "random_wrap[dtype=key<mur>]" in text and jaxpr_text(parse_jaxpr(text)) == text
    assert pickle.loads(pickle.dumps(key)) == key and from_short_name("key<mur>") is key.dtype
    with pytest.raises(ValueError, match=r"(?s)no dtype has this name.*found: 'key<none>'"):
        parse_jaxpr(text.replace("=key<mur>", "=key<none>"))


def broken(**functions):
    parts = dict(
        key_shape=(2,), seed=MURMUR.seed, split=MURMUR.split, random_bits=bits_of, fold_in=MURMUR.fold_in
    )
    return random.key(0, impl=define_prng_impl(**parts | functions))


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (
            lambda: random.bits(broken(random_bits=lambda words, width, shape: words[0] * 1.0), (2,)),
            TypeError,
            r"random_bits returned .*\n  returned: float32\[\], asked for: uint32\[2\], generator: <unnamed>",
        ),
        (
            lambda: random.split(broken(split=lambda words, shape: words)),
            TypeError,
            r"asked for: uint32\[2,2\]",
        ),
        (lambda: random.fold_in(broken(fold_in=lambda words, data: data), 1), TypeError, r"fold_in returned"),
        (lambda: broken(seed=lambda seed: dnp.zeros(3, "uint32")), TypeError, r"got: uint32\[3\]"),
        (
            lambda: broken(tag="fry"),
            ValueError,
            r"tag: 'fry'.*\nChoose another than 'fry', 'rbg', 'urbg', .*'phx4', 'fry_halved', 'rbg_halved'",
        ),
        (lambda: broken(tag="a b"), ValueError, "without spaces"),
    ],
)
def test_what_a_generator_returns_is_checked(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
