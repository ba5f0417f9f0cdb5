"""Random numbers without hidden state: every function takes a key, and the same key gives the same numbers.

    key = random.key(0)
    key, subkey = random.split(key)
    x = random.normal(subkey, (3,))

A key is used once: split it, or `fold_in` a number, for more. Numbers are those of `jax.random` for the same
key; they are the same eager, compiled and mapped. Read next: `_keys.py` (keys), `_samplers.py`
(distributions), `_choices.py` (permutations and choices).
"""

from didax.random._choices import categorical, choice, permutation
from didax.random._keys import PRNGKey, fold_in, key, split
from didax.random._samplers import (
    bernoulli,
    bits,
    exponential,
    gumbel,
    normal,
    rademacher,
    randint,
    truncated_normal,
    uniform,
)

__all__ = [
    "PRNGKey", "fold_in", "key", "split",
    "bernoulli", "bits", "exponential", "gumbel", "normal", "rademacher", "randint", "truncated_normal",
    "uniform", "categorical", "choice", "permutation",
]  # fmt: skip
