"""Random generators of your own: `define_prng_impl` makes one that `didax.random` draws from.

A generator is four functions of the words of one key, written in the library's own operations; `vmap`, `jit`, arrays of
keys and every distribution follow from them. Read next: `PRNGImpl` in `primitives/keys.py`, `docs` of `didax.random`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.errors import api_boundary, message
from didax.primitives.keys import PRNGImpl
from didax.primitives.rbg import rbg as rbg_prng_impl
from didax.primitives.rbg import unsafe_rbg as unsafe_rbg_prng_impl
from didax.primitives.threefry import threefry as threefry_prng_impl

__all__ = ["PRNGImpl", "define_prng_impl", "rbg_prng_impl", "threefry_prng_impl", "unsafe_rbg_prng_impl"]

_BUILT_IN = (threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl)


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
