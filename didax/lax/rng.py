"""Random bits from XLA's own generator, without keys: the caller keeps the state, or nobody does (`rng_uniform`).

Use `didax.random` for everything else: its draws are the same on each platform. A key of `random.key(0,
impl="rbg")` uses the generator of this module. Read next: `primitives/rbg.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.dims import as_length
from didax.core.dtypes import DTypeLike
from didax.core.value import Array
from didax.lax.operands import operation
from didax.primitives.kept import rng_uniform_p
from didax.primitives.rbg import RandomAlgorithm, rng_bit_generator_p

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]


@operation
def rng_bit_generator(
    key: Any,
    shape: Sequence[int],
    dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
) -> tuple[Array, Array]:
    """Return the next state and random bits, unsigned integers of a shape.

    The state is four uint32 or two uint64.

    The bits differ between platforms; under `vmap` the first state gives the bits of all elements.

    >>> import numpy as np
    >>> from didax import lax
    >>> state, bits = lax.rng_bit_generator(np.uint32([1, 2, 3, 4]), (2, 3), "uint8")
    >>> bits.shape
    (2, 3)
    """
    shape = tuple(map(as_length, shape))
    state, bits = rng_bit_generator_p.bind(key, shape=shape, dtype=dtypes.dtype(dtype), algorithm=algorithm)
    return state, bits


@operation
def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Array:
    """Return numbers of a shape from [a, b), which differ from call to call: `didax.random` has draws that repeat.

    `a` and `b` are scalars of one dtype, floats or integers of 32 bits and more. Floats of 16 bits are rounded, so
    that they may be b.

    >>> from didax import lax
    >>> drawn = lax.rng_uniform(0.0, 1.0, (3,))
    >>> bool((drawn >= 0).all() & (drawn < 1).all())
    True
    """
    out: Array = rng_uniform_p.bind(a, b, shape=tuple(map(as_length, shape)))[0]
    return out
