"""Operations that stay as they are written: `dce_sink` and `rng_uniform`."""

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax


def test_a_sink_keeps_what_computes_its_operand() -> None:
    def f(x, compiled):
        def step(carry, y):
            lax.dce_sink({"a": lax.cos(carry + y), "b": 1.0}, prevent_mlir_dce=compiled)
            return carry * y, None

        return lax.scan(step, x, dnp.arange(1.0, 4.0))[0]

    kept, lost = (dx.jit(lambda x, c=c: f(x, c)).lower(2.0) for c in (True, False))
    assert "stablehlo.cosine" in lost.as_text()
    assert "custom-call" in kept.compile().as_text() and "custom-call" not in lost.compile().as_text()
    run = dx.jit(dx.vmap(dx.value_and_grad(lambda x: f(x, True))))
    y, dy = run(dnp.array([2.0, 3.0]))
    assert (y.tolist(), dy.tolist()) == ([12.0, 18.0], [6.0, 6.0])
    assert float(dx.grad(lambda x: lax.dce_sink(x) or x)(3.0)) == 1.0


def test_uniform_numbers_of_nobody_s_state() -> None:
    def draws(low, high):
        pair = [lax.rng_uniform(low, high, (2, 50)) for _ in range(2)]  # equal calls draw different numbers
        _, steps = lax.scan(lambda c, _: (c, lax.rng_uniform(low, high, (4,))), 0, None, 3)
        mapped = dx.vmap(lambda h: lax.rng_uniform(low, h, (100,)))(dnp.stack([high, 3 * high]))
        return *pair, steps, mapped

    for dtype in ("float32", "int32"):
        one, other, steps, mapped = map(
            np.asarray, dx.jit(draws)(dnp.ones((), dtype), dnp.full((), 1000, dtype))
        )
        assert one.dtype == dtype and (one != other).any() and (steps[0] != steps[1]).any()
        for x in (one, other, steps, mapped[0]):
            assert (x >= 1).all() and (x < 1000).all()
        assert mapped[1].max() >= 1000
    assert lax.rng_uniform(0.0, 1.0, ()).weak_type
    for args, error, text in (
        ((0.0, 1, ()), ValueError, "two scalars of one dtype"),
        ((dnp.zeros(2), dnp.ones(2), ()), ValueError, "two scalars of one dtype"),
        ((dnp.int8(0), dnp.int8(1), ()), TypeError, "rng_uniform draws float16"),
    ):
        with pytest.raises(error, match=text):
            lax.rng_uniform(*args)
    with pytest.raises(Exception, match="another call draws other numbers"):
        dx.grad(lambda x: lax.rng_uniform(0.0, x, ()))(1.0)
