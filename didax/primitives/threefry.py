"""The generator `threefry`, which makes the keys of `didax.random` unless another one is asked for.

A key is the two words of a Threefry key; the cipher encrypts counters under it. Read next: `random_bits.py` (the
primitives), `threefry_cipher.py` (the cipher), `rbg.py` (other generators).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.primitive import eager_trace
from didax.core.tracing import current_trace
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import shift_right_logical
from didax.primitives.keys import UINT32, PRNGImpl
from didax.primitives.random_bits import random_bits_p, random_fold_in_p, random_split_p
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate


def seed_words(seed: Any) -> Any:
    """Two words for an integer: its high half, which is 0 unless it has 64 bits, and its low half."""
    if isinstance(seed, np.integer) and current_trace() is eager_trace:
        return np.array(
            [(int(seed) >> 32) & 0xFFFFFFFF if seed.itemsize == 8 else 0, int(seed) & 0xFFFFFFFF], UINT32
        )
    dtype = aval_of(seed).dtype
    low = convert_element_type(seed, UINT32)
    high: Any = np.uint32(0)
    if dtype.itemsize == 8:
        high = convert_element_type(shift_right_logical.bind(seed, dtype.type(32)), UINT32)
    return concatenate([reshape(high, (1,)), reshape(low, (1,))], 0)


threefry = PRNGImpl(
    key_shape=(2,),
    seed=seed_words,
    split=lambda words, shape: random_split_p.bind(words, shape=shape),
    random_bits=lambda words, bit_width, shape: random_bits_p.bind(words, shape=shape, bit_width=bit_width),
    fold_in=random_fold_in_p.bind,
    name="threefry2x32",
    tag="fry",
)
