"""Random numbers without hidden state: every function takes a key, and the same key gives the same numbers.

    key = random.key(0)
    key, subkey = random.split(key)
    x = random.normal(subkey, (3,))

A key is used once: to draw more numbers, `split` it, or `fold_in` an integer. The numbers are those of
`jax.random` for the same key, wherever jax draws in the same way; eager, compiled and mapped draws are equal.
Read next: `_keys.py` (keys), `_samplers.py`, `_transformed.py`, `_gamma.py`, `_rejection.py` and `_matrices.py`
(distributions), `_choices.py` (permutations and choices).
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access as _on_access
from didax.random._choices import categorical, choice, permutation
from didax.random._gamma import (
    ball,
    beta,
    binomial,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    multinomial,
    poisson,
    t,
)
from didax.random._keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from didax.random._matrices import multivariate_normal, orthogonal
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
from didax.random._transformed import (
    cauchy,
    double_sided_maxwell,
    geometric,
    laplace,
    logistic,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)

__all__ = [
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split", "wrap_key_data",
    "bernoulli", "bits", "exponential", "gumbel", "normal", "rademacher", "randint", "truncated_normal",
    "uniform", "categorical", "choice", "permutation",
    "cauchy", "double_sided_maxwell", "geometric", "laplace", "logistic", "lognormal", "maxwell", "pareto",
    "rayleigh", "triangular", "wald", "weibull_min",
    "ball", "beta", "binomial", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma",
    "multinomial", "poisson", "t", "multivariate_normal", "orthogonal",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)
