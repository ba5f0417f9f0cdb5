"""Rows: the primitives of random numbers, on raw key words, against jax's generators."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend
import numpy as np
from jax._src.random import philox2x32 as jax_philox2x32
from jax._src.random import philox4x32 as jax_philox4x32
from jax._src.random import threefry4x32 as jax_threefry4x32

from didax.primitives.ciphers import philox2x32_p, philox4x32_p, threefry4x32_p
from didax.primitives.keys import random_clone_p, random_unwrap_p, random_wrap_p
from didax.primitives.random_bits import random_bits_p, random_fold_in_p, random_split_p
from didax.primitives.rbg import RandomAlgorithm, rng_bit_generator_p
from didax.primitives.threefry import threefry
from didax.primitives.threefry_cipher import threefry2x32_p
from tests.operations.row import Operation


def words(rng: np.random.Generator, shape: tuple[int, ...] = (2,)) -> np.ndarray[Any, Any]:
    return rng.integers(0, 1 << 32, shape, np.uint32)


def split_by_jax(key: np.ndarray) -> np.ndarray:
    return np.asarray(jax.random.split(key, 3))


def cipher(primitive: Any, operands: int, of_jax: Any) -> Operation:
    return Operation(
        primitive.name,
        primitive.bind,
        lambda *xs: [np.asarray(x) for x in of_jax.bind(*xs)],
        lambda rng, dtype: tuple(words(rng, (3,)) for _ in range(operands)),
        ("uint32",),
    )


def bits(width: int) -> Operation:
    return Operation(
        f"random_bits-{width}",
        lambda key: random_bits_p.bind(key, shape=(2, 3), bit_width=width),
        lambda key: np.asarray(jax.random.bits(key, (2, 3), f"uint{width}")),
        lambda rng, dtype: (words(rng),),
        ("uint64",) if width == 64 else ("uint32",),  # 64 bits in 64-bit mode
    )


ROWS = [
    Operation(
        "threefry2x32",
        threefry2x32_p.bind,
        lambda *operands: [np.asarray(x) for x in jax.extend.random.threefry2x32_p.bind(*operands)],
        lambda rng, dtype: tuple(words(rng, (3,)) for _ in range(4)),
        ("uint32",),
    ),
    cipher(philox2x32_p, 3, jax_philox2x32.philox2x32_p),
    cipher(philox4x32_p, 6, jax_philox4x32.philox4x32_p),
    cipher(threefry4x32_p, 8, jax_threefry4x32.threefry4x32_p),
    *map(bits, (8, 16, 32, 64)),
    Operation(
        "random_split",
        lambda key: random_split_p.bind(key, shape=(3,)),
        split_by_jax,
        lambda rng, dtype: (words(rng),),
        ("uint32",),
    ),
    Operation(
        "random_fold_in",
        random_fold_in_p.bind,
        lambda key, data: np.asarray(jax.random.fold_in(key, data)),
        lambda rng, dtype: (words(rng), words(rng, ())),
        ("uint32",),
    ),
    Operation(
        "keys",  # words become keys, and words again
        lambda words: random_unwrap_p.bind(
            random_clone_p.bind(random_wrap_p.bind(words, dtype=threefry.dtype))
        ),
        lambda words: words,
        lambda rng, dtype: (words(rng, (3, 2)),),
        ("uint32",),
    ),
    Operation(
        "rng_bit_generator",
        lambda state: rng_bit_generator_p.bind(
            state, shape=(2, 3), dtype=np.dtype("uint16"), algorithm=RandomAlgorithm.RNG_DEFAULT
        ),
        lambda state: [np.asarray(x) for x in jax.lax.rng_bit_generator(state, (2, 3), "uint16")],
        lambda rng, dtype: (words(rng, (4,)),),
        ("uint32",),
        batchable=False,  # a batch is drawn from its first state
    ),
]
