"""Distributions and statistics, with the names and arguments of `jax.scipy.stats`.

    from didax.scipy import stats
    stats.norm.logpdf(x, loc, scale), stats.gaussian_kde(sample)(points), stats.rankdata(x)

Each distribution has the functions that JAX has for it, with SciPy's parameters: `norm.cdf(x, loc=0, scale=1)`. Read
next: `_distributions.py` (how they are made), `_tables.py` (their formulas), `_vectors.py`, `_samples.py`, `_kde.py`.
"""

import sys
from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.scipy.stats._kde import gaussian_kde
from didax.scipy.stats._samples import mode, rankdata, sem
from didax.scipy.stats._tables import CONTINUOUS, DISCRETE
from didax.scipy.stats._vectors import VECTORS

norm, expon, gamma, chi2, beta, cauchy, gennorm, gumbel_r, gumbel_l, laplace, logistic, pareto = CONTINUOUS[
    :12
]
t, truncnorm, uniform, vonmises, wrapcauchy = CONTINUOUS[12:]
bernoulli, binom, betabinom, geom, nbinom, poisson = DISCRETE
dirichlet, multinomial, multivariate_normal = VECTORS
sys.modules.update(
    {d.__name__: d for d in (*CONTINUOUS, *DISCRETE, *VECTORS)}
)  # for `import didax.scipy.stats.norm`

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gaussian_kde",
    "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode", "multinomial", "multivariate_normal",
    "nbinom", "norm", "pareto", "poisson", "rankdata", "sem", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
