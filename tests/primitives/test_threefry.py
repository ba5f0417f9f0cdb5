"""The generator itself: published vectors, and one cipher however it is evaluated."""

from __future__ import annotations

import numpy as np
import pytest

import didax as dx
from didax.primitives import threefry_cipher
from didax.primitives.random_bits import random_bits_p, random_fold_in_p, random_split_p
from didax.primitives.threefry_cipher import threefry2x32_p

KEY = np.array([0x13198A2E, 0x03707344], "uint32")


@pytest.mark.parametrize("run", [lambda f: f, dx.jit])
@pytest.mark.parametrize(
    "key, counter, want",
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_published_vectors(run, key, counter, want):
    """The known answers of Threefry-2x32 with 20 rounds (Random123, kat_vectors)."""
    operands = [np.full(3, word, "uint32") for word in (*key, *counter)]
    words = run(threefry2x32_p.bind)(*operands)
    assert [np.asarray(w).tolist() for w in words] == [[w] * 3 for w in want]


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257])
def test_big_integers_are_the_same_cipher(n):
    """Small draws take another road to the same words."""
    counters = np.arange(n, dtype="uint32") * np.uint32(0x9E3779B9)
    with np.errstate(over="ignore"):
        want = threefry_cipher._blocks_numpy(KEY[:1], KEY[1:], np.uint32(0), counters)
    got = threefry_cipher._blocks_big_integer(int(KEY[0]), int(KEY[1]), counters)
    assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (300,)])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bits_are_the_same_compiled_and_batched(shape, width):
    """Keys may come in arrays of any shape, batched anywhere."""

    def draw(keys):
        return random_bits_p.bind(keys, shape=shape, bit_width=width)

    keys = np.stack([KEY, KEY + 1, KEY + 2])
    one = np.asarray(draw(KEY))
    assert one.dtype == f"uint{width}" and one.shape == shape
    for many in (draw(keys), dx.jit(draw)(keys), dx.vmap(draw)(keys), dx.vmap(draw, 1)(keys.T)):
        assert np.asarray(many).shape == (3, *shape)
        assert np.array_equal(np.asarray(many)[0], one)


def test_split_keys_are_those_that_fold_in_gives():
    """Both encrypt the counter."""
    split = np.asarray(random_split_p.bind(KEY, shape=(2, 2))).reshape(4, 2)
    folded = dx.vmap(random_fold_in_p.bind, (None, 0))(KEY, np.arange(4, dtype="uint32"))
    assert np.array_equal(split, np.asarray(folded))
    assert np.array_equal(
        split,
        np.asarray(dx.jit(dx.vmap(random_fold_in_p.bind, (None, 0)))(KEY, np.arange(4, dtype="uint32"))),
    )


def test_keys_have_no_derivatives():
    """A float0 tangent of a key ends at the bits."""
    tangent = np.zeros((2,), dx.float0)
    _, bits_dot = dx.jvp(lambda k: random_bits_p.bind(k, shape=(3,), bit_width=32), (KEY,), (tangent,))
    assert bits_dot.dtype == dx.float0 and bits_dot.shape == (3,)


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: random_bits_p.bind(KEY.astype("int32"), shape=(), bit_width=32),
            r"takes keys.*\n  got: int32\[2\]\nMake keys with",
        ),
        (lambda: random_split_p.bind(KEY[:1], shape=()), r"got: uint32\[1\]"),
        (lambda: random_bits_p.bind(KEY, shape=(), bit_width=7), "bit_width: 7"),
        (
            lambda: random_fold_in_p.bind(KEY, np.int32(1)),
            r"one uint32 for each key.\n  keys: uint32\[2\], data: int32",
        ),
        (lambda: threefry2x32_p.bind(KEY, KEY, KEY, KEY[:1]), "four uint32 arrays of one shape"),
    ],
)
def test_misuse_is_explained(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call()
