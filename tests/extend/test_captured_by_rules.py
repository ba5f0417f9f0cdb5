"""Rules of users' primitives may use arrays from outside; in programs they are written where they are used."""

from __future__ import annotations

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.extend import core
from didax.transforms.rewriting import trace_closed

WEIGHTS = np.array([1, 2, 4], "float32")


class Weighted(core.Primitive):
    """`x * x * weights`, whose rules use an array of their own."""

    weights = dnp.asarray(WEIGHTS)

    def type(self, x):
        return x

    def evaluate(self, x):
        return x * x * self.weights

    def lower(self, ctx, x):
        return ctx.op("multiply", [ctx.op("multiply", [x, x]), ctx.constant(WEIGHTS, x.aval)])

    def jvp(self, primals, tangents):
        (x,), (t,) = primals, tangents
        return self.bind(x), scaled_p.bind(2 * x * t)

    def batch(self, axis, args, dims):
        x = dnp.moveaxis(args[0], dims[0], 0)
        return x * x * self.weights, 0


class Scaled(core.Primitive):
    """`x * weights`, which is linear."""

    linear = True

    def type(self, x):
        return x

    def evaluate(self, x):
        return x * Weighted.weights

    def lower(self, ctx, x):
        return ctx.op("multiply", [x, ctx.constant(WEIGHTS, x.aval)])

    def jvp(self, primals, tangents):
        return self.bind(*primals), self.bind(*tangents)

    def transpose(self, ct, x):
        return [ct * Weighted.weights]

    def batch(self, axis, args, dims):
        return dnp.moveaxis(args[0], dims[0], 0) * Weighted.weights, 0


weighted_p, scaled_p = Weighted("weighted_by_a_capture"), Scaled("scaled_by_a_capture")


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: dx.grad(f),
        lambda f: dx.grad(dx.jit(f)),
        lambda f: dx.jit(dx.grad(f)),
        lambda f: dx.jit(dx.grad(dx.checkpoint(f))),
        lambda f: dx.jacfwd(dx.jit(f)),
        lambda f: lambda x: dx.vmap(dx.grad(dx.jit(f)))(x[None])[0],
    ],
    ids=["grad", "grad of jit", "jit of grad", "checkpoint", "jacfwd of jit", "vmap of grad of jit"],
)
def test_rules_use_arrays_from_outside(transform) -> None:
    x = dnp.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(transform(lambda x: weighted_p.bind(x).sum())(x), 2 * x * WEIGHTS)


def test_values_of_a_transformation_are_not_written_into_a_program() -> None:
    def leaks(x):
        return trace_closed(lambda y: [x * y], [dx.typeof(x)])

    with pytest.raises(dx.errors.UnexpectedTracerError):
        dx.grad(leaks)(1.0)
