"""`random_gamma`: a sampler of the gamma distribution that can be differentiated by its parameter.

    random_gamma(key, a; jaxpr)     samples of the shape of `a`: what the jaxpr makes of the key and of `a`

The sampler is a rejection loop, through which no derivative can flow: how a sample moves with `a` is instead
read off the distribution function, dx/da = -(dP/da) / (dP/dx) (Figurnov, Mohamed and Mnih, 2018, implicit
reparameterization gradients). With `log_space` samples are logarithms. Read next: `special.py` for the
derivative, `didax/random/_gamma.py` for the sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.core.primitive import Primitive
from didax.passes.key_reuse import call_keys
from didax.primitives import padded
from didax.primitives.call import jit_p
from didax.primitives.elementwise import mul
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.special import log_random_gamma_grad, random_gamma_grad
from didax.transforms.batching import AxisData, batch_jaxpr, move_batch_axis
from didax.xla.lowering import call


class RandomGamma(Primitive):
    """Samples for each element of `a`, drawn by `jaxpr`."""

    holes = {"transpose": NOT_LINEAR}
    keys = call_keys
    padded = padded.called_without_rules(jit_p)

    def type(self, key: ShapedArray, a: ShapedArray, *, jaxpr: Jaxpr, log_space: bool) -> ShapedArray:
        check_jaxpr_operands("a gamma sampler", jaxpr, [key, a])
        return jaxpr.out_avals[0]

    def lower(self, ctx: Any, key: Any, a: Any, *, jaxpr: Jaxpr, log_space: bool) -> Any:
        return call(ctx, jaxpr, [key, a])[0]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (_, a), (_, t) = primals, tangents
        sample = self.bind(*primals, **params)
        if type(t) is Zero:
            return sample, Zero(aval_of(sample).tangent())
        slope = log_random_gamma_grad if params["log_space"] else random_gamma_grad
        return sample, mul(t, slope(a, sample))

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        jaxpr: Jaxpr,
        log_space: bool,
    ) -> tuple[Any, int]:
        """`a` always gets the batch axis: the derivative takes samples and parameters element by element."""
        key, a = args
        new, _ = batch_jaxpr(jaxpr, axis, (dims[0], 0), (True,))
        return self.bind(key, move_batch_axis(a, dims[1], 0, axis.size), jaxpr=new, log_space=log_space), 0

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        return eqn  # its only result is used, or the equation is gone


random_gamma_p = RandomGamma("random_gamma")
