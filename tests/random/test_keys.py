"""Typed keys: arrays of a dtype of their own, that move like any array and take part in no arithmetic."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import didax as dx
import didax.numpy as dnp
from didax import dtypes, lax, random
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text

pytestmark = pytest.mark.usefixtures("any_use_of_keys")


IMPLS = ("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32")


def words(keys):
    """The words of keys, those of jax or ours."""
    return np.asarray((jax if isinstance(keys, jax.Array) else dx).random.key_data(keys))


def both(impl=None, shape=(3,), seed=7):
    """The same keys, of jax and ours."""
    return tuple(m.random.split(m.random.key(seed, impl=impl), shape) for m in (jax, dx))


def check(got, want):
    """Keys or numbers that equal those of jax."""
    if isinstance(want, list | tuple):
        for g, w in zip(got, want, strict=True):
            check(g, w)
    elif isinstance(want, jax.Array) and jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key):
        assert (got.shape, str(got.dtype)) == (want.shape, str(want.dtype))
        assert np.array_equal(words(got), words(want))
    else:
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert np.array_equal(np.asarray(got), np.asarray(want))


# --- what moves -------------------------------------------------------------------------------------------

# name -> f(numpy-like module, lax-like module, keys of shape (3,), one key)
MOVES = {
    "index": lambda n, l, ks, k: ks[1],
    "negative index": lambda n, l, ks, k: ks[-1],
    "slice": lambda n, l, ks, k: ks[1:],
    "step": lambda n, l, ks, k: ks[::-2],
    "new axis": lambda n, l, ks, k: ks[None, :, None],
    "ellipsis": lambda n, l, ks, k: ks.reshape(3, 1)[..., 0],
    "index array": lambda n, l, ks, k: ks[n.array([[2, 0], [1, 1]])],
    "index of many axes": lambda n, l, ks, k: ks.reshape(3, 1)[n.array([2, 0]), n.array([0, 0])],
    "numpy index": lambda n, l, ks, k: ks[np.array([0, 2])],
    "fill": lambda n, l, ks, k: ks.at[np.array([1, 9])].get(mode="fill"),
    "fill value": lambda n, l, ks, k: ks.at[np.array([1, 9])].get(mode="fill", fill_value=5),
    "take": lambda n, l, ks, k: n.take(ks, n.array([2, 0, 2])),
    "set": lambda n, l, ks, k: ks.at[1].set(k),
    "set many": lambda n, l, ks, k: ks.at[n.array([0, 2])].set(k),
    "set slice": lambda n, l, ks, k: ks.at[1:].set(ks[:2]),
    "drop": lambda n, l, ks, k: ks.at[n.array([1, 9])].set(k, mode="drop"),
    "reshape": lambda n, l, ks, k: ks.reshape(1, 3, 1),
    "ravel": lambda n, l, ks, k: n.ravel(ks.reshape(3, 1)),
    "transpose": lambda n, l, ks, k: ks.reshape(1, 3).T,
    "squeeze": lambda n, l, ks, k: n.squeeze(ks[:1]),
    "expand_dims": lambda n, l, ks, k: n.expand_dims(ks, 1),
    "broadcast_to": lambda n, l, ks, k: n.broadcast_to(ks, (2, 3)),
    "concatenate": lambda n, l, ks, k: n.concatenate([ks, ks[:1]]),
    "stack": lambda n, l, ks, k: n.stack([k, ks[0]]),
    "array": lambda n, l, ks, k: n.array([k, k]),
    "split": lambda n, l, ks, k: n.split(ks, 3),
    "iterate": lambda n, l, ks, k: list(ks),
    "flip": lambda n, l, ks, k: n.flip(ks),
    "roll": lambda n, l, ks, k: n.roll(ks, 1),
    "tile": lambda n, l, ks, k: n.tile(ks, 2),
    "repeat": lambda n, l, ks, k: n.repeat(ks, 2),
    "where": lambda n, l, ks, k: n.where(n.array([True, False, True]), ks, k),
    "select": lambda n, l, ks, k: l.select(n.array([True, False, True]), ks, ks[::-1]),
    "select_n": lambda n, l, ks, k: l.select_n(n.array([0, 1, 0]), ks, ks[::-1]),
    "dynamic_slice": lambda n, l, ks, k: l.dynamic_slice(ks, (n.array(1),), (2,)),
    "dynamic_update_slice": lambda n, l, ks, k: l.dynamic_update_slice(ks, ks[:1], (n.array(2),)),
    "dynamic_index_in_dim": lambda n, l, ks, k: l.dynamic_index_in_dim(ks, n.array(1)),
    "rev": lambda n, l, ks, k: l.rev(ks, (0,)),
    "optimization_barrier": lambda n, l, ks, k: l.optimization_barrier((ks, k, n.arange(2)))[:2],
    "copy": lambda n, l, ks, k: ks.copy(),
    "zeros_like": lambda n, l, ks, k: n.zeros_like(ks),
    "empty": lambda n, l, ks, k: n.empty((2, 1), ks.dtype),
    "full": lambda n, l, ks, k: n.full((2,), k),
    "equal": lambda n, l, ks, k: ks == ks[::-1],
    "not equal": lambda n, l, ks, k: ks != ks[1],
    "array_equal": lambda n, l, ks, k: n.array_equal(ks, ks),
    "cond": lambda n, l, ks, k: l.cond(
        n.array(True), lambda a, b: (a, b[:1]), lambda a, b: (b[0], b[1:2]), k, ks
    ),
}


def everything(n, l):
    """All moves, as one function to compile."""
    return lambda ks, k: {name: move(n, l, ks, k) for name, move in MOVES.items()}


def batch(n, ks, k):
    """Two of each argument."""
    return n.stack([ks, ks[::-1]]), n.stack([k, ks[0]])


@pytest.fixture(scope="module")
def want():
    """What jax makes of the moves, for two elements of a batch."""
    move = jax.jit(jax.vmap(everything(jnp, jax.lax)))
    args = batch(jnp, both()[0], jax.random.key(8))
    return move(*args)


@pytest.fixture(scope="module")
def compiled():
    """The moves compiled, and mapped in a compiled function."""
    keys, key = both()[1], random.key(8)
    f = everything(dnp, lax)
    plain = dx.jit(f)(keys, key)
    return plain, dx.jit(dx.vmap(f))(*batch(dnp, keys, key))


@pytest.mark.parametrize("name", MOVES)
def test_keys_move_like_any_array(name, want, compiled):
    """Eager, compiled and mapped as in jax."""
    keys, key = both()[1], random.key(8)
    first = jax.tree.map(lambda x: x[0], want[name])
    check(MOVES[name](dnp, lax, keys, key), first)
    check(compiled[0][name], first)
    check(compiled[1][name], want[name])


@pytest.mark.parametrize("name", ["index", "set", "where", "concatenate", "dynamic_slice", "equal"])
def test_keys_are_mapped_eagerly(name, want):
    """vmap without jit."""
    f = dx.vmap(lambda ks, k: MOVES[name](dnp, lax, ks, k))
    check(f(*batch(dnp, both()[1], random.key(8))), want[name])


def test_padding_with_a_key():
    """Between and around the keys; batches of paddings too."""
    _, keys = both()
    padded = lax.pad(keys, random.key(1), [(1, 2, 1)])
    assert np.array_equal(words(padded)[[1, 3, 5]], words(keys))
    assert np.array_equal(words(padded)[[0, 2, 4, 6, 7]], [[0, 1]] * 5)
    assert bool(
        (dx.jit(dx.vmap(lambda k: lax.pad(keys, k, [(1, 2, 1)])))(random.key(1)[None])[0] == padded).all()
    )


@pytest.mark.parametrize("name", MOVES)
def test_programs_on_keys_are_checked_and_read_back(name):
    """Their jaxprs are well typed, and text -> jaxpr -> text is the identity."""
    ours = random.wrap_key_data(np.arange(12, dtype="uint32").reshape(3, 4), impl="rbg")
    jaxpr = dx.make_jaxpr(lambda ks, k: MOVES[name](dnp, lax, ks, k))(ours, ours[0])
    check_jaxpr(jaxpr.jaxpr)
    text = jaxpr_text(jaxpr.jaxpr)
    assert "key<rbg>[3]" in text
    assert jaxpr_text(parse_jaxpr(text)) == text


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_reshapes_transposes_and_slices_of_any_shape(data):
    """Keys of generated shapes, empty ones too, eager and compiled."""
    shape = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    theirs, ours = both(shape=tuple(shape))
    order = data.draw(st.permutations(range(len(shape))))
    stop = data.draw(st.integers(0, shape[0]))

    def f(ks):
        return ks.transpose(order).reshape(-1), ks[:stop][::-1]

    check(f(ours), f(theirs))
    check(dx.jit(f)(ours), f(theirs))


def test_large_arrays_of_keys_move_compiled():
    """Beyond what NumPy does eagerly."""
    theirs, ours = both(shape=(300, 300))
    check(ours[::-1].T[3], theirs[::-1].T[3])


# --- what a key is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "impl, tag, size",
    [
        *[("threefry2x32", "fry", 2), ("rbg", "rbg", 4), ("unsafe_rbg", "urbg", 4)],
        *[("threefry4x32", "fry4", 4), ("philox2x32", "phx2", 1), ("philox4x32", "phx4", 2)],
    ],
)
def test_the_dtype_carries_the_implementation(impl, tag, size):
    """As `key<fry>`, of shape () for one key."""
    key = random.key(0, impl=impl)
    assert key.shape == () and key.ndim == 0 and key.size == 1 and str(key.dtype) == f"key<{tag}>"
    assert key.dtype.name == f"key<{tag}>" and key.itemsize == key.nbytes == 4 * size
    assert random.key_impl(key) == impl and key.dtype == random.key_dtype(impl)
    assert random.key_data(key).shape == (size,) and random.key_data(key).dtype == "uint32"
    assert dtypes.issubdtype(key.dtype, dtypes.prng_key) and dnp.issubdtype(key.dtype, dtypes.extended)
    assert not dnp.issubdtype(key.dtype, np.integer) and not dtypes.issubdtype(np.uint32, dtypes.extended)
    assert key.dtype != random.PRNGKey(0).dtype and np.dtype("uint32") != key.dtype
    assert random.wrap_key_data(random.key_data(key), impl=impl) == key


def test_repr_shows_the_words():
    assert repr(random.key(5)) == "Array((), dtype=key<fry>) overlaying:\n[0 5]"
    keys = random.wrap_key_data(np.arange(4, dtype="uint32").reshape(2, 2))
    assert str(keys) == f"{keys}" == "Array((2,), dtype=key<fry>) overlaying:\n[[0 1]\n [2 3]]"


def test_types_without_values():
    """eval_shape, ShapeDtypeStruct and jaxprs know the dtype."""
    keys = random.split(random.key(0), (2, 3))
    struct = dx.eval_shape(lambda k: random.split(k, (2, 3)), random.key(0))
    assert (struct.shape, struct.dtype) == ((2, 3), keys.dtype)
    assert str(dx.ShapeDtypeStruct((3,), keys.dtype)) == "ShapeDtypeStruct(shape=(3,), dtype=key<fry>)"
    assert (
        dx.jit(random.normal).lower(dx.ShapeDtypeStruct((), keys.dtype)).compile()(random.key(1)).shape == ()
    )


@pytest.mark.ci
def test_pickles_copies_and_other_processes():
    """A key comes back equal, of the same dtype, also in another process."""
    keys = random.split(random.key(3, impl="rbg"), 2)
    for again in (pickle.loads(pickle.dumps(keys)), copy.copy(keys), copy.deepcopy(keys)):
        assert again.dtype is keys.dtype and bool((again == keys).all())
    program = "import pickle, sys, didax as dx\n" \
        "k = pickle.load(sys.stdin.buffer)\n" \
        "assert k.dtype == dx.random.key_dtype('rbg')\n" \
        "sys.stdout.buffer.write(pickle.dumps(dx.random.bits(k[0]).item()))"  # fmt: skip
    out = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(keys), capture_output=True, check=True
    )
    assert pickle.loads(out.stdout) == random.bits(keys[0]).item()


def test_pytrees_devices_and_donation():
    """Keys are leaves; they go to devices, and may be donated."""
    state = {"key": random.key(0), "x": dnp.ones(2)}
    moved = dx.device_put(state, dx.devices()[0])
    assert moved["key"] == state["key"] and dx.device_get(state)["key"] is state["key"]
    step = dx.jit(lambda s: {"key": random.fold_in(s["key"], 1), "x": s["x"] + 1}, donate_argnums=0)
    new = step(moved)
    assert new["key"] == random.fold_in(random.key(0), 1) and new["key"].block_until_ready().is_ready()


def test_closures_capture_keys():
    """A compiled function may use a key from outside, of shape () too."""
    key, keys = both(shape=())[1], both()[1]
    draw = dx.jit(lambda n: random.bits(random.fold_in(key, n)) + random.bits(keys[0]))
    assert draw(3) == random.bits(random.fold_in(key, 3)) + random.bits(keys[0])


# --- under transformations --------------------------------------------------------------------------------


def test_gradients_pass_by_keys():
    """A key among the arguments has a float0 tangent and does not disturb the others."""

    def f(x, key):
        first, second = random.split(dnp.where(True, key, key))
        return x * random.normal(first) + lax.cond(x > 0, random.uniform, random.normal, second) * x**2

    key = random.key(1)
    first, second = random.split(key)
    want = float(random.normal(first) + 4.0 * random.uniform(second))
    for g in (dx.grad(f), dx.jit(dx.grad(f)), dx.grad(dx.jit(f))):
        assert abs(float(g(2.0, key)) - want) < 1e-5
    many = dx.vmap(dx.grad(f), (None, 0))(2.0, dnp.stack([key, key]))
    assert np.allclose(np.asarray(many), want, atol=1e-5)
    zero = dx.grad(f, argnums=1, allow_int=True)(2.0, key)
    assert zero.dtype == dx.float0 and zero.shape == ()
    _, out_dot = dx.jvp(lambda k: (random.split(k), random.bits(k)), (key,), (np.zeros((), dx.float0),))
    assert [t.dtype for t in out_dot] == [dx.float0] * 2 and out_dot[0].shape == (2,)


def test_keys_are_residuals():
    """A linear function keeps the keys that it needs."""
    keys = random.split(random.key(0), 2)
    y, f_jvp = dx.linearize(dx.jit(lambda x: x * random.normal(keys[1])), 3.0)
    assert float(f_jvp(1.0)) * 3 == pytest.approx(float(y))


def test_every_composition_draws_the_same_bits():
    """Eager, compiled, mapped, mapped in a compiled function, in a compiled cond."""
    keys = random.split(random.key(9), 5)
    want = np.stack([np.asarray(random.bits(k, (3,))) for k in keys])

    def draw(k):
        return random.bits(k, (3,))

    def chosen(k):
        return lax.cond(random.bits(k) > 0, draw, draw, k)

    for f in (draw, dx.jit(draw), chosen, dx.jit(chosen)):
        for mapped in (dx.vmap(f), dx.jit(dx.vmap(f)), lambda ks, f=f: dnp.stack([f(k) for k in ks])):
            assert np.array_equal(np.asarray(mapped(keys)), want)
    grid = keys[:4].reshape(2, 2)
    assert np.array_equal(
        np.asarray(dx.vmap(dx.vmap(draw, 0), 1)(grid)), want[:4].reshape(2, 2, 3).swapaxes(0, 1)
    )


def loops(m, n):
    """Keys as carry, as input and as output of loops; `m` is jax or Didax, `n` its NumPy."""
    r = m.random

    def body(carry, key):
        own, x = carry
        own, used = r.split(own)
        return (own, x + r.uniform(used)), (used, r.bits(key))

    def run(key, keys):
        (own, x), ys = m.lax.scan(body, (key, n.float32(0)), keys)
        backwards = m.lax.scan(body, (own, x), keys, reverse=True)
        late, count = m.lax.while_loop(lambda s: s[1] < 5, lambda s: (r.fold_in(*s), s[1] + 1), (own, 0))
        return (own, x), ys, backwards, late, count, m.lax.fori_loop(0, 3, lambda i, k: r.split(k)[0], key)

    return run


def test_loops_carry_keys():
    """scan, while_loop and fori_loop, eager, compiled and mapped, as in jax."""
    (theirs, ours), (their_key, key) = both(), both(shape=(), seed=8)
    args, run = batch(dnp, ours, key)[::-1], loops(dx, dnp)
    want = jax.tree.leaves(jax.jit(jax.vmap(loops(jax, jnp)))(*batch(jnp, theirs, their_key)[::-1]))
    for f, pick in ((run, 0), (dx.jit(run), 0), (dx.jit(dx.vmap(run)), slice(None))):
        got = dx.tree.leaves(f(*[x[pick] for x in args]))
        for x, y in zip(got, want, strict=True):
            check(x, y[pick])


def test_gradients_through_loops_that_carry_keys():
    """The keys of each step are drawn from again on the way back."""

    def product(m):
        def step(carry, _):
            key, x = carry
            return (m.random.split(key)[0], x * m.random.uniform(key) + x**2), key

        return lambda x, key: m.lax.scan(step, (key, x), None, length=3)[0][1]

    want = float(jax.grad(product(jax))(0.5, jax.random.key(2)))
    for g in (dx.grad(product(dx)), dx.jit(dx.grad(product(dx)))):
        assert float(g(0.5, random.key(2))) == pytest.approx(want, rel=1e-5)


# --- making keys ------------------------------------------------------------------------------------------

SEEDS = (0, 1, -1, 42, True, 2**31, 2**32 - 1, -(2**31), 2**40 + 5, 2**63 - 1, -(2**63), np.int8(-3), np.uint32(7),
         np.int64(-1), np.int64(2**40 + 5), np.uint64(2**63), np.array(5), np.array(-5, "int16"))  # fmt: skip


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("x64", [False, True])
def test_seeds_are_those_of_jax(impl, x64):
    """Python's and NumPy's integers of 64 bits and less, with and without enable_x64."""
    with dx.enable_x64(x64), jax.enable_x64(x64):
        for seed in SEEDS:
            check(random.key(seed, impl=impl), jax.random.key(seed, impl=impl))
            check(random.PRNGKey(seed, impl=impl), jax.random.PRNGKey(seed, impl=impl))
        traced, mapped = dx.jit(random.key), dx.vmap(lambda s: random.key(s, impl=impl))
        check(traced(-7), jax.jit(jax.random.key)(-7))
        check(mapped(dnp.arange(4)), jax.vmap(lambda s: jax.random.key(s, impl=impl))(jnp.arange(4)))
    assert dx.vmap(random.key)(dnp.arange(4)).shape == (4,)


@settings(max_examples=25, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1), st.booleans())
def test_any_seed_splits_and_folds_in_as_in_jax(seed, data, x64):
    with dx.enable_x64(x64), jax.enable_x64(x64):
        ours, theirs = random.key(seed), jax.random.key(seed)
        check(ours, theirs)
        check(random.fold_in(ours, data), jax.random.fold_in(theirs, data))
        check(random.split(ours, 3), jax.random.split(theirs, 3))


def test_raw_keys_stay_raw():
    """split, fold_in and clone give back what they were given; both kinds of a key draw the same numbers."""
    raw, typed = random.PRNGKey(4), random.key(4)
    for f in (lambda k: random.split(k, (2, 2)), lambda k: random.fold_in(k, 3), random.clone):
        assert f(raw).dtype == "uint32" and str(f(typed).dtype) == "key<fry>"
        assert np.array_equal(np.asarray(f(raw)), words(f(typed)))
    for draw in (
        random.bits,
        random.normal,
        lambda k: random.permutation(k, 9),
        lambda k: random.choice(k, 5, (3,)),
    ):
        assert np.array_equal(np.asarray(draw(raw)), np.asarray(draw(typed)))
    assert random.key_impl(raw) == "threefry2x32" and np.array_equal(np.asarray(random.key_data(raw)), [0, 4])


def test_programs_on_disk_know_the_implementation(tmp_path):
    """Two dtypes of one size are two programs."""
    draw = dx.jit(lambda k: random.split(k, 2))
    rbg, unsafe = (random.wrap_key_data(np.arange(4, dtype="uint32"), impl=i) for i in ("rbg", "unsafe_rbg"))
    assert not np.array_equal(words(draw(rbg)), words(draw(unsafe)))


# --- what is refused --------------------------------------------------------------------------------------

KEY = random.key(0)
KEYS = random.split(KEY, 3)
ADVICE = "Draw numbers from a key .*random.split.*random.key_data"
REFUSED = {
    "add": (lambda k, ks: k + 1, r"add takes numbers, and random keys are none.\n  operands: key<fry>\[\], int32\[\]"),
    "add to": (lambda k, ks: 1.5 + k, r"operands: float32\[\], key<fry>\[\]"),
    "add keys": (lambda k, ks: k + k, r"operands: key<fry>\[\], key<fry>\[\]"),
    "negative": (lambda k, ks: -k, "negative takes numbers"),
    "less": (lambda k, ks: k < k, "less takes numbers"),
    "sin": (lambda k, ks: dnp.sin(ks), r"sin takes numbers.*\n  operands: key<fry>\[3\]"),
    "lax": (lambda k, ks: lax.mul(ks, ks), "mul takes numbers"),
    "sum": (lambda k, ks: ks.sum(), "takes numbers"),
    "max": (lambda k, ks: ks.max(), "max takes numbers"),
    "sort": (lambda k, ks: dnp.sort(ks), "sort takes numbers"),
    "astype": (lambda k, ks: ks.astype("uint32"), r"takes numbers.*\n  operands: key<fry>\[3\]"),
    "cast to keys": (lambda k, ks: dnp.arange(3).astype(ks.dtype), r"operands: int32\[3\], key<fry>\[3\]"),
    "add at": (lambda k, ks: ks.at[0].add(k), "takes numbers"),
    "compare to a number": (lambda k, ks: k == 0, "no dtype in common with others.\n  inputs: key<fry>, weak int32"),
    "where": (lambda k, ks: dnp.where(True, k, 0), "inputs: key<fry>, weak int32"),
    "set numbers": (lambda k, ks: ks.at[0].set(3), "no dtype in common"),
    "set words": (lambda k, ks: ks.at[0].set(random.PRNGKey(0)), "inputs: uint32, key<fry>"),
    "two implementations": (lambda k, ks: dnp.stack([k, random.key(0, impl="rbg")]), "inputs: key<fry>, key<rbg>"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("traced", [False, True])
def test_arithmetic_is_refused(name, traced):
    """Eagerly and while tracing, with the dtypes by name and what to do instead."""
    f, text = REFUSED[name]
    with pytest.raises(TypeError, match=f"(?s){text}.*{ADVICE}"):
        (dx.jit(f) if traced else f)(KEY, KEYS)


@pytest.mark.parametrize(
    "convert", [np.asarray, float, int, bool, complex, lambda k: k.item(), lambda k: k.tolist(), range]
)
def test_keys_are_no_numbers_to_python_either(convert):
    with pytest.raises(TypeError, match=rf"(?s)takes numbers.*\n  operands: key<fry>\[\]\n{ADVICE}"):
        convert(KEY)


BAD = {
    "float seed": (lambda: random.key(1.5), TypeError, r"A seed is one integer.\n  seed: float32\[\]\nUse vmap"),
    "float array seed": (lambda: random.PRNGKey(np.float32(1)), TypeError, r"seed: float32\[\]"),
    "text seed": (lambda: random.PRNGKey("a"), TypeError, r"A seed is one integer.\n  seed: 'a' of type str\n"),
    "many seeds": (lambda: random.key(np.arange(3)), TypeError, r"seed: int32\[3\]\nUse vmap"),
    "key seed": (lambda: random.key(KEY), TypeError, r"seed: key<fry>\[\]"),
    "long seed": (lambda: random.key(2**64), OverflowError, "integer of 64 bits"),
    "unknown": (lambda: random.key(0, impl="nope"), ValueError, r"impl: 'nope'.*\nUse one of 'threefry2x32', 'rbg'"),
    "no name": (lambda: random.key(0, impl=3), TypeError, "impl: 3 of type int"),
    "words of 3": (lambda: random.wrap_key_data(np.zeros(3, "uint32")), TypeError, r"\(2,\).\n  got: uint32\[3\]"),
    "signed words": (lambda: random.wrap_key_data(np.zeros(2, "int32")), TypeError, r"got: int32\[2\]"),
    "wrapped": (lambda: random.wrap_key_data(KEY), TypeError, r"got: key<fry>\[\]"),
    "data of numbers": (lambda: random.key_data(np.arange(3)), TypeError, r"key_data takes a key.*\n  key: int32\[3\]"),
    "split many": (lambda: random.split(KEYS), ValueError, r"takes a single key.\n  key: key<fry>\[3\].*\nUse vmap"),
    "draw many": (lambda: random.uniform(KEYS), ValueError, "uniform takes a single key"),
    "fold in float": (lambda: random.fold_in(KEY, 1.5), TypeError, "fold_in takes one integer"),
    "fold in long": (lambda: random.fold_in(KEY, 2**32), OverflowError, "integer of 32 bits"),
    "fold in negative": (lambda: random.fold_in(KEY, -1), OverflowError, "data: -1"),
    "option": (lambda: dx.config.update("default_prng_impl", "nope"), ValueError, "takes one of"),
    "grad": (lambda: dx.grad(lambda k: 1.0)(KEY), TypeError, r"key<fry>\[\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_misuse_is_explained(case):
    call, kind, text = BAD[case]
    with pytest.raises(kind, match=text):
        call()


def test_many_keys_are_made_as_few_are():
    """Of one key, of each of many (along the short and the long axis), and folded in."""
    key, n = random.key(3), 2100
    many = random.split(key, n)
    some = random.split(key, 5)  # few keys are made by NumPy
    pairs, folded, rows = dx.jit(
        lambda many, some: (
            dx.vmap(lambda k: random.split(k, (1, 3)))(many),
            dx.vmap(random.fold_in)(many, dnp.arange(n)),
            dx.vmap(lambda k: random.split(k, n))(some),
        )
    )(many, some)
    assert (words(many[:5]) == words(some)).all()
    assert pairs.shape == (n, 1, 3) and rows.shape == (5, n)
    for i in (0, 4):
        assert (words(pairs[i, 0]) == words(random.split(some[i], 3))).all()
        assert (words(folded[i]) == words(random.fold_in(some[i], i))).all()
        assert (
            words(rows[i, -2:]) == np.stack([words(random.fold_in(some[i], j)) for j in (n - 2, n - 1)])
        ).all()
