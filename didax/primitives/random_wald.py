"""`wald_sample(x, mean)`: x, drawn from the Wald distribution of that mean, as a differentiable function of the mean.

The sampler takes one of two roots by a random choice, whose chances depend on the mean. Differentiated along the root
that was taken, the mean of the samples would grow too fast. As in `random_gamma.py` a sample keeps its share instead,
dx/dmean = -(dF/dmean) / (dF/dx). The distribution function is

    F(x) = Phi((x / mean - 1) / sqrt(x)) + exp(2 / mean) Phi(-(x / mean + 1) / sqrt(x))

and so

    dx/dmean = 2 x^(3/2) / mean^2 Phi(-t) / phi(t)     t = (x / mean + 1) / sqrt(x)

Read next: `didax/random/_transformed.py`, the sampler.
"""

from __future__ import annotations

import math
from typing import Any

from didax.primitives.composed import composed
from didax.primitives.elementwise import add, div, mul, sqrt
from didax.primitives.fitted import erfcx


def _slope_by_mean(x: Any, mean: Any) -> Any:
    root = sqrt(x)
    tail = mul(erfcx(div(add(div(x, mean), 1), mul(root, math.sqrt(2)))), math.sqrt(math.pi / 2))
    return mul(mul(div(mul(x, 2), mean), div(root, mean)), tail)


wald_sample = composed(
    "wald_sample",
    lambda x, mean: x,
    lambda t, y, x, mean: t,
    lambda t, y, x, mean: mul(t, _slope_by_mean(y, mean)),
)
