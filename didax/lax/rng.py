"""Random bits from XLA's own generator, without keys: the caller keeps the state.

Use `didax.random` for everything else: its draws are the same on each platform. A key of `random.key(0,
impl="rbg")` uses the generator of this module. Read next: `primitives/rbg.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.dtypes import DTypeLike
from didax.core.value import Array
from didax.lax.operands import operation
from didax.primitives.rbg import RandomAlgorithm, rng_bit_generator_p

__all__ = ["RandomAlgorithm", "rng_bit_generator"]


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
    shape = tuple(operator.index(n) for n in shape)
    state, bits = rng_bit_generator_p.bind(key, shape=shape, dtype=dtypes.dtype(dtype), algorithm=algorithm)
    return state, bits
