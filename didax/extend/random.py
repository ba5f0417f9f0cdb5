"""Random generators of your own: `define_prng_impl` makes one that `didax.random` draws from.

A generator is four functions of the words of one key, written in the library's own operations; `vmap`, `jit`, arrays of
keys and every distribution follow from them. Read next: `PRNGImpl` in `primitives/keys.py`, the docstring of
`didax.random`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from didax.api.flat import as_array
from didax.api.vmap import vmap
from didax.core.avals import aval_of
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.modules import on_access
from didax.primitives.keys import PRNGImpl
from didax.primitives.rbg import halved_rbg
from didax.primitives.rbg import rbg as rbg_prng_impl
from didax.primitives.rbg import unsafe_rbg as unsafe_rbg_prng_impl
from didax.primitives.shape import reshape
from didax.primitives.threefry import halved_blocks, halved_threefry
from didax.primitives.threefry import threefry as threefry_prng_impl
from didax.random import key
from didax.random._keys import IMPLEMENTATIONS

__all__ = [
    "PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry_2x32",
    "threefry_prng_impl", "unsafe_rbg_prng_impl",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

UINT32 = np.dtype(np.uint32)
_BUILT_IN = (*IMPLEMENTATIONS.values(), halved_threefry, halved_rbg)


@api_boundary
def define_prng_impl(
    *,
    key_shape: Sequence[int],
    seed: Callable[[Any], Any],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGImpl:
    """A random generator, for `impl=` of `random.key` and `random.wrap_key_data`; its dtype is `key<tag>`.

    With `words` a uint32 array of shape `key_shape`: `seed(integer)` gives words, `split(words, shape)` words of shape
    `(*shape, *key_shape)`, `fold_in(words, data)` words, and `random_bits(words, bit_width, shape)` an array of
    uint8, uint16, uint32 or uint64. Each is given a single key and traced.

    >>> import math
    >>> import didax.numpy as dnp
    >>> from didax import random
    >>> def hashed(words, n):  # no good generator, but a short one
    ...     return (words[0] + dnp.arange(n, dtype="uint32")) * 2654435761
    >>> counter = define_prng_impl(
    ...     key_shape=(1,),
    ...     seed=lambda seed: dnp.asarray(seed).astype("uint32")[None],
    ...     split=lambda words, shape: hashed(words, math.prod(shape)).reshape(*shape, 1),
    ...     random_bits=lambda words, width, shape: hashed(words, math.prod(shape))
    ...     .astype(f"uint{width}")
    ...     .reshape(shape),
    ...     fold_in=lambda words, data: words * 69069 + data,
    ...     name="counter",
    ...     tag="ctr",
    ... )
    >>> random.split(random.key(3, impl=counter), 2)
    Array((2,), dtype=key<ctr>) overlaying:
    [[3668339987]
     [2027808452]]
    """
    if any(impl.tag == tag for impl in _BUILT_IN) or not tag or any(c.isspace() or c in "<>" for c in tag):
        raise ValueError(
            message(
                "The tag of a generator is a word of its own: its dtype is known by it.",
                f"tag: {tag!r}, name: {name!r}",
                fix=f"Choose another than {', '.join(repr(impl.tag) for impl in _BUILT_IN)}, without spaces.",
            )
        )
    return PRNGImpl(tuple(key_shape), seed, split, random_bits, fold_in, name, tag)


@api_boundary
def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """Return keys of a generator, one made from each integer of `seeds`.

    >>> import didax as dx
    >>> random_seed(dx.numpy.arange(3), impl=threefry_prng_impl)[2] == dx.random.key(2)
    Array(True, dtype=bool)
    """
    make = functools.partial(key, impl=impl)
    for _ in range(aval_of(seeds).ndim):
        make = vmap(make)
    return make(seeds)


def seed_with_impl(impl: PRNGImpl, seed: Any) -> Any:
    """Return `random_seed(seed, impl)`.

    >>> import didax as dx
    >>> from didax.extend import random as generators
    >>> generators.seed_with_impl(generators.threefry_prng_impl, 7) == dx.random.key(7)
    Array(True, dtype=bool)
    """
    return random_seed(seed, impl)


@api_boundary
def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Return the numbers that the cipher Threefry-2x32 makes of an array of counters, in its shape.

    The first half of the counters, in row-major order, are the first words of blocks, the second half the second ones;
    an odd number of them is padded by a 0. `keypair` is two words of key. Raises ArgumentError unless all are uint32.
    The source is Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with 20 rounds.

    >>> import numpy as np
    >>> threefry_2x32(np.zeros(2, "uint32"), np.zeros(2, "uint32"))
    Array([1797259609, 2579123966], dtype=uint32)
    """
    words, counts = [as_array(word) for word in keypair], as_array(count)
    if len(words) != 2 or any(x.dtype != UINT32 or x.ndim for x in words) or counts.dtype != UINT32:
        facts = f"keypair: {', '.join(str(x.aval) for x in words)}, count: {counts.aval}"
        rule = "threefry_2x32 takes two words of a key and an array of counters, of uint32."
        raise ArgumentError(message(rule, facts, fix="Cast them (x.astype('uint32'))."))
    return reshape(halved_blocks(words, reshape(counts, (counts.size,))), counts.shape)
