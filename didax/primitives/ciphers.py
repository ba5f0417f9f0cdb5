"""The generators `philox2x32`, `philox4x32` and `threefry4x32`: other ciphers of counters than the default one.

    philox4x32_p.bind(k0, k1, x0, x1, x2, x3) -> 128 random bits   (Salmon et al., "Parallel random numbers: as
    easy as 1, 2, 3")

Where Threefry adds and rotates, Philox multiplies, and takes half as many rounds. The generators have the keys and the
bits of JAX's of these names, on every backend. A key draws with counters in the first two words, and new keys are
made with counters in the last two. Both begin at 0, so a key is either drawn from or split, as with all generators.
Read next: `threefry_cipher.py`, the default cipher; `keys.py`, what a generator is.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import may_exceed
from didax.core.errors import message
from didax.primitives import padded
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.elementwise import mul, shift_right_logical, xor
from didax.primitives.keys import UINT32, KeyPrimitive, PRNGImpl
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import concatenate
from didax.primitives.threefry import joined_halves, seed_words, words_of
from didax.primitives.threefry_cipher import PARITY, Words, rotate_numpy, rotate_words
from didax.xla.lowering import lower_function

_UINT64 = np.dtype(np.uint64)
_MULTIPLIERS = {2: (0xD256D193,), 4: (0xD2511F53, 0xCD9E8D57)}  # by the words of a counter
_STEPS = (0x9E3779B9, 0xBB67AE85)  # of the words of Philox's key, from round to round
_ROUNDS = 10
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


# --- the ciphers ------------------------------------------------------------------------------------------


class _Arithmetic(NamedTuple):
    """What the ciphers do with words beside `+` and `^`, for arrays of one kind."""

    number: Callable[[int], Any]
    rotate: Callable[[Any, int], Any]
    product: Callable[[Any, int], tuple[Any, Any]]  # its upper and its lower half


def _product_numpy(x: Any, factor: int) -> tuple[Any, Any]:
    wide = x.astype(_UINT64) * np.uint64(factor)
    return (wide >> np.uint64(32)).astype(UINT32), wide.astype(UINT32)


def _product_words(x: Words, factor: int) -> tuple[Words, Words]:
    """The upper and the lower half of a product."""
    wide = mul.bind(convert_element_type(x.value, _UINT64), np.uint64(factor))
    high = shift_right_logical.bind(wide, np.uint64(32))
    return Words(convert_element_type(high, UINT32)), Words(convert_element_type(wide, UINT32))


_NUMPY = _Arithmetic(np.uint32, rotate_numpy, _product_numpy)
_WORDS = _Arithmetic(lambda n: Words(np.uint32(n)), rotate_words, _product_words)


def _philox(of: _Arithmetic, keys: Sequence[Any], words: Sequence[Any]) -> list[Any]:
    """Philox, of two or four words of counter and half as many of key."""
    for i in range(_ROUNDS):
        if i:
            keys = [key + of.number(step) for key, step in zip(keys, _STEPS, strict=False)]
        products = [of.product(x, m) for x, m in zip(words[::2], _MULTIPLIERS[len(words)], strict=True)]
        mixed = [
            (high ^ odd ^ key, low)
            for (high, low), odd, key in zip(reversed(products), words[1::2], keys, strict=True)
        ]
        words = [word for pair in mixed for word in pair]
    return list(words)


def _threefry4x32(of: _Arithmetic, keys: Sequence[Any], words: Sequence[Any]) -> list[Any]:
    """Threefry of four words of counter and four of key, with 20 rounds."""
    keys = [*keys, functools.reduce(operator.xor, keys) ^ of.number(PARITY)]
    x = [word + key for word, key in zip(words, keys, strict=False)]
    for i in range(20):
        pairs = ((0, 1), (2, 3)) if i % 2 == 0 else ((0, 3), (2, 1))
        for (a, b), distance in zip(pairs, _ROTATIONS[i % 8], strict=True):
            x[a] = x[a] + x[b]
            x[b] = of.rotate(x[b], distance) ^ x[a]
        if i % 4 == 3:
            n = i // 4 + 1
            x = [word + keys[(k + n) % 5] for k, word in enumerate(x)]
            x[3] = x[3] + of.number(n)
    return x


class Cipher(KeyPrimitive):
    """A block cipher, elementwise: words of a key and of a counter to as many words as the counter has."""

    multiple_results = True
    padded = padded.elementwise

    def __init__(self, name: str, key_words: int, words: int, function: Callable[..., Any]):
        super().__init__(name)
        self.key_words, self.words, self.function = key_words, words, function

    def type(self, *operands: ShapedArray) -> list[ShapedArray]:
        count, shape = self.key_words + self.words, operands[0].shape
        if len(operands) != count or any(x.dtype != UINT32 or x.shape != shape for x in operands):
            raise TypeError(
                message(
                    f"{self.name} takes {count} uint32 arrays of one shape.",
                    f"operands: {', '.join(map(str, operands))}",
                    fix="Cast (x.astype('uint32')) and broadcast them.",
                )
            )
        return [ShapedArray(shape, UINT32)] * self.words

    def eager(self, *operands: Any) -> list[Any]:
        arrays = [np.asarray(x) for x in operands]
        return self.function(_NUMPY, arrays[: self.key_words], arrays[self.key_words :])

    def lower(self, ctx: Any, *operands: Any) -> Any:
        return lower_function(ctx, self._on_arrays, operands)

    def _on_arrays(self, *operands: Any) -> list[Any]:
        words = list(map(Words, operands))
        return [y.value for y in self.function(_WORDS, words[: self.key_words], words[self.key_words :])]


philox2x32_p = Cipher("philox2x32", 1, 2, _philox)
philox4x32_p = Cipher("philox4x32", 2, 4, _philox)
threefry4x32_p = Cipher("threefry4x32", 4, 4, _threefry4x32)


# --- the generators ---------------------------------------------------------------------------------------


def _encrypted(
    cipher: Cipher, key: Sequence[Any], counter: Sequence[Any], shape: tuple[int, ...]
) -> list[Any]:
    """Blocks of that shape, of words which are arrays of that shape or scalars."""
    words = [x if aval_of(x).shape == shape else broadcast_in_dim(x, shape, ()) for x in (*key, *counter)]
    return cipher.bind(*words)


def _counters(shape: tuple[int, ...]) -> list[Any]:
    """The high and the low words of 0, 1, 2, ... in an array of a shape."""
    count = math.prod(shape)
    if not may_exceed(count, 1 << 32):
        return [np.uint32(0), reshape(iota(UINT32, (count,), 0), shape)]
    wide = reshape(iota(_UINT64, (count,), 0), shape)
    return [convert_element_type(x, UINT32) for x in (shift_right_logical.bind(wide, np.uint64(32)), wide)]


def _stacked(words: Sequence[Any]) -> Any:
    shape = aval_of(words[0]).shape
    return concatenate([reshape(x, (*shape, 1)) for x in words], len(shape))


def _generator(
    cipher: Cipher, tag: str, seed: Callable[[Any], Any], halves: Callable[[Sequence[Any]], tuple[Any, Any]]
) -> PRNGImpl:
    """A generator of a cipher; `halves` makes the two halves of 64 random bits of a block."""
    zeros = [np.uint32(0)] * (cipher.words - 2)

    def new_keys(words: Any, counter: Sequence[Any], shape: tuple[int, ...]) -> Any:
        blocks = _encrypted(cipher, words_of(words), [*zeros, *counter], shape)
        return _stacked(blocks[: cipher.key_words])

    def random_bits(words: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
        blocks = _encrypted(cipher, words_of(words), [*_counters(shape), *zeros], shape)
        if bit_width == 64:
            return joined_halves(*halves(blocks))
        return convert_element_type(functools.reduce(xor.bind, blocks), np.dtype(f"uint{bit_width}"))

    return PRNGImpl(
        key_shape=(cipher.key_words,),
        seed=seed,
        split=lambda words, shape: new_keys(words, _counters(shape), shape),
        random_bits=random_bits,
        fold_in=lambda words, data: new_keys(words, [np.uint32(0), data], ()),
        name=cipher.name,
        tag=tag,
    )


def _seeded(cipher: Cipher, position: int) -> Callable[[Any], Any]:
    """The words of a key: a block whose words from `position` on are those of the seed, and the others 0."""

    def seed(number: Any) -> Any:
        given = [np.uint32(0)] * (cipher.key_words + cipher.words)
        given[position : position + 2] = words_of(seed_words(number))
        return _stacked(cipher.bind(*given)[: cipher.key_words])

    return seed


philox2x32 = _generator(philox2x32_p, "phx2", _seeded(philox2x32_p, 1), lambda blocks: (blocks[0], blocks[1]))
philox4x32 = _generator(philox4x32_p, "phx4", _seeded(philox4x32_p, 2), lambda blocks: (blocks[0], blocks[1]))
threefry4x32 = _generator(
    threefry4x32_p,
    "fry4",
    _seeded(threefry4x32_p, 0),
    lambda blocks: (xor.bind(blocks[0], blocks[2]), xor.bind(blocks[1], blocks[3])),
)
