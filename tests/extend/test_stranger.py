"""Two primitives of another package, written from `docs/extending.md` alone: a running `and`, and a banded product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.extend import core, rules, testing


class CumulativeAnd(core.Primitive):
    """Whether all elements up to here, along the last axis, are true."""

    holes = {"jvp": "truth values have no derivative"}

    def type(self, x: Any) -> Any:
        if x.dtype != np.dtype(bool) or not x.shape:
            raise TypeError(f"cumulative_and takes truth values along an axis, got {x}")
        return x

    def eager(self, x: Any) -> Any:
        return np.logical_and.accumulate(x, -1)

    lower = rules.lower_as(lambda x: dnp.cumsum(~x, -1) == 0)

    def batch(self, axis: Any, args: Any, dims: Any) -> Any:
        return self.bind(rules.move_batch_axis(args[0], dims[0], 0, axis.size)), 0


class BandedProduct(core.Primitive):
    """`y[i] = sum over k of bands[k, i] x[i + k - width]`, with zeros beyond the ends of x."""

    def type(self, bands: Any, x: Any, *, width: int) -> Any:
        if bands.shape != (2 * width + 1, *x.shape) or x.ndim != 1 or bands.dtype != x.dtype:
            raise TypeError(
                f"banded_product takes {2 * width + 1} bands of the length of x, got {bands} and {x}"
            )
        return x

    def eager(self, bands: Any, x: Any, *, width: int) -> Any:
        padded = np.pad(x, width)
        return sum(band * padded[k : k + len(x)] for k, band in enumerate(bands)).astype(x.dtype)

    @rules.lower_as
    def lower(bands: Any, x: Any, *, width: int) -> Any:
        padded = dnp.pad(x, width)
        return sum(bands[k] * padded[k : k + len(x)] for k in range(2 * width + 1))

    def jvp(self, primals: Any, tangents: Any, *, width: int) -> Any:
        (bands, x), (bands_dot, x_dot) = primals, tangents
        y_dot: Any = rules.Zero(core.aval_of(x).tangent())
        if type(bands_dot) is not rules.Zero:
            y_dot = rules.add_tangents(y_dot, self.bind(bands_dot, x, width=width))
        if type(x_dot) is not rules.Zero:
            y_dot = rules.add_tangents(y_dot, self.bind(bands, x_dot, width=width))
        return self.bind(bands, x, width=width), y_dot

    def transpose(self, y_bar: Any, bands: Any, x: Any, *, width: int) -> Any:
        n, places = y_bar.shape[0], range(2 * width + 1)
        if rules.is_undef(bands):
            padded = dnp.pad(x, width)
            return [dnp.stack([y_bar * padded[k : k + n] for k in places]), None]
        padded = sum(dnp.pad(bands[k] * y_bar, (k, 2 * width - k)) for k in places)
        return [None, padded[width : width + n]]

    def batch(self, axis: Any, args: Any, dims: Any, *, width: int) -> Any:
        bands, x = [rules.move_batch_axis(a, d, 0, axis.size) for a, d in zip(args, dims, strict=True)]
        rows = [self.bind(bands[i], x[i], width=width) for i in range(axis.size)]
        return dnp.stack(rows), 0


cumulative_and_p = CumulativeAnd("stranger_cumulative_and")
banded_product_p = BandedProduct("stranger_banded_product")


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_a_running_and(shape: tuple[int, ...]) -> None:
    testing.check(cumulative_and_p, [np.random.default_rng(0).random(shape) < 0.7])


def test_a_banded_product() -> None:
    bands, x = np.arange(1.0, 13.0, dtype="float32").reshape(3, 4) / 7, np.float32([0.5, -1.0, 2.0, 3.0])
    testing.check(banded_product_p, [bands, x], {"width": 1}, signed_zeros=False)
    matrix = np.diag(bands[1]) + np.diag(bands[0][1:], -1) + np.diag(bands[2][:-1], 1)
    np.testing.assert_allclose(banded_product_p.bind(bands, x, width=1), matrix @ x, rtol=1e-6)
    with pytest.raises(TypeError, match="takes 5 bands of the length of x"):
        dx.jit(lambda x: banded_product_p.bind(bands, x, width=2))(x)
