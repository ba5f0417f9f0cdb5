"""`gaussian_kde`: an estimate of a density, the average of normal densities around the points of a sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import didax.numpy as dnp
from didax import random
from didax.core import dtypes
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.value import Array
from didax.lax import linalg
from didax.numpy.promotion import ArrayLike, as_array, promote_dtypes
from didax.scipy.special import logsumexp, ndtr
from didax.tree_util import register_pytree_node_class


@register_pytree_node_class
class gaussian_kde:
    """A density around the points of `dataset`, of shape (d, n) or (n,), which may have weights.

    Each point has a normal density, whose covariance is that of the dataset times the square of a factor: "scott" (the
    default), n_eff^(-1 / (d + 4)), "silverman", (n_eff (d + 2) / 4)^(-1 / (d + 4)), a number, or a function of the
    estimate. It is a pytree, so it may be passed to compiled functions.

    >>> from didax.scipy import stats
    >>> density = stats.gaussian_kde(dnp.array([0.0, 1.0, 4.0]))
    >>> round(float(density.integrate_box_1d(-100, 100)), 4)
    1.0
    """

    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array
    neff: Array

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: str | float | Callable[[Any], Any] | None = None,
        weights: ArrayLike | None = None,
    ):
        given = [dataset] if weights is None else [dataset, weights]
        points, *rest = [dnp.asarray(x) for x in promote_dtypes("gaussian_kde", *given, to_inexact=True)]
        points = dnp.atleast_2d(points.astype(points.dtype))
        if any(dtypes.is_complex(x.dtype) for x in (points, *rest)):
            facts = [f"dataset: {points.aval}", *[f"weights: {w.aval}" for w in rest]]
            fix = "Stack real and imaginary parts as two coordinates."
            raise ArgumentError(message("gaussian_kde takes real numbers.", *facts, fix=fix))
        if points.ndim != 2 or points.shape[1] < 2 or (rest and rest[0].shape != points.shape[1:]):
            facts = [f"dataset: {points.aval}", *[f"weights: {w.aval}" for w in rest]]
            fix = "Pass a dataset of shape (d, n) or (n,), and weights of shape (n,)."
            raise ArgumentError(
                message("gaussian_kde takes two points or more, one a column.", *facts, fix=fix)
            )
        d, n = points.shape
        w = rest[0] if rest else dnp.ones(n, points.dtype)
        self.dataset, self.weights = points, w / w.sum()
        self.neff = 1 / (self.weights**2).sum()
        factor = _factor(self, bw_method, d)
        away = points - (points * self.weights).sum(1, keepdims=True)
        unit = (away * self.weights) @ away.T / (1 - (self.weights**2).sum())
        self.covariance = unit * factor**2
        self.inv_cov = dnp.linalg.inv(unit) / factor**2

    def tree_flatten(self) -> tuple[tuple[Array, ...], None]:
        """Return the arrays of the estimate."""
        return (self.dataset, self.weights, self.covariance, self.inv_cov, self.neff), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """Return an estimate of these arrays."""
        made = object.__new__(cls)
        made.dataset, made.weights, made.covariance, made.inv_cov, made.neff = children
        return made

    @property
    def d(self) -> int:
        """The number of coordinates of a point."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    @api_boundary
    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at points of shape (d, m), or (m,) where d is 1, or (d,) for one."""
        return self._log_mixture(self._points("x", x), self.covariance, self.weights)

    @api_boundary
    def evaluate(self, points: ArrayLike) -> Array:
        """Return the density at points."""
        return dnp.exp(self.logpdf(points))

    @api_boundary
    def pdf(self, x: ArrayLike) -> Array:
        """Return the density at points, as `evaluate`."""
        return dnp.exp(self.logpdf(x))

    __call__ = evaluate

    @api_boundary
    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Return the integral of the estimate times a normal density."""
        centre = dnp.atleast_1d(dnp.squeeze(dnp.asarray(mean)))
        spread = dnp.atleast_2d(dnp.asarray(cov))
        if centre.shape != (self.d,) or spread.shape != (self.d, self.d):
            facts = f"mean: {centre.aval}, cov: {spread.aval}, d: {self.d}"
            fix = "Pass a mean of shape (d,) and a covariance of shape (d, d)."
            raise ArgumentError(
                message("integrate_gaussian takes a density of d coordinates.", facts, fix=fix)
            )
        total = self.covariance + spread
        return dnp.exp(self._log_mixture(centre[:, None], total, self.weights))[0]

    @api_boundary
    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Return the probability between two bounds, of numbers (d = 1)."""
        if self.d != 1:
            fix = "Sample from it (resample) to estimate probabilities of boxes."
            raise ArgumentError(message("integrate_box_1d takes numbers, d = 1.", f"d: {self.d}", fix=fix))
        spread = dnp.sqrt(self.covariance[0, 0])
        bounds = dnp.asarray(low), dnp.asarray(high)
        if bounds[0].ndim or bounds[1].ndim:
            facts = f"low: {bounds[0].aval}, high: {bounds[1].aval}"
            fix = "Map it over the bounds: vmap(density.integrate_box_1d)(low, high)."
            raise ArgumentError(message("integrate_box_1d takes two numbers.", facts, fix=fix))
        shares = [ndtr((bound - self.dataset[0]) / spread) for bound in bounds]
        return (self.weights * (shares[1] - shares[0])).sum()

    @api_boundary
    def integrate_box(
        self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None
    ) -> Array:
        """Return the probability of a box, where d is 1; NotImplementedError for more coordinates."""
        if self.d != 1:
            rule = "integrate_box takes numbers, d = 1."
            fix = "Sample from it (resample) to estimate probabilities of boxes."
            raise NotImplementedError(message(rule, f"d: {self.d}", fix=fix))
        return self.integrate_box_1d(
            dnp.squeeze(dnp.asarray(low_bounds)), dnp.squeeze(dnp.asarray(high_bounds))
        )

    @api_boundary
    def integrate_kde(self, other: gaussian_kde) -> Array:
        """Return the integral of the product of two estimates."""
        if other.d != self.d:
            fix = "Estimate both from points of as many coordinates."
            raise ArgumentError(
                message("integrate_kde takes estimates of one kind.", f"d: {self.d}, {other.d}", fix=fix)
            )
        total = self.covariance + other.covariance
        values = dnp.exp(self._log_mixture(other.dataset, total, self.weights))
        return (values * other.weights).sum()

    @api_boundary
    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Return new points of shape (d, *shape), drawn from the estimate."""
        which, noise = random.split(key)
        chosen = random.choice(which, self.n, shape=shape, p=self.weights)
        drawn = random.multivariate_normal(
            noise, dnp.zeros(self.d, self.covariance.dtype), self.covariance, shape
        )
        return self.dataset[:, chosen] + dnp.moveaxis(drawn, -1, 0)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """NotImplementedError: an estimate does not change. Make another with `bw_method`."""
        raise NotImplementedError(
            message(
                "An estimate keeps its bandwidth.",
                f"bw_method: {bw_method!r:.100}",
                fix="Make another: gaussian_kde(dataset, bw_method).",
            )
        )

    def _points(self, name: str, x: Any) -> Any:
        points = dnp.atleast_2d(dnp.asarray(x))
        if dtypes.is_complex(points.dtype):
            fix = "Stack real and imaginary parts as two coordinates."
            raise ArgumentError(
                message("The points of an estimate are real.", f"{name}: {points.aval}", fix=fix)
            )
        if points.shape[0] != self.d and points.shape == (1, self.d):
            points = points.T
        if points.ndim != 2 or points.shape[0] != self.d:
            fix = f"Pass an array of shape ({self.d}, m)."
            rule = "The points of an estimate are columns."
            raise ArgumentError(message(rule, f"{name}: {points.aval}, d: {self.d}", fix=fix))
        return points

    def _log_mixture(self, points: Any, covariance: Any, weights: Any) -> Any:
        """The logarithm of the weighted sum of normal densities around the dataset, at points as columns."""
        covariance, data, points = promote_dtypes("gaussian_kde", covariance, self.dataset, points)
        factor = linalg.cholesky(covariance)
        data, at = [linalg.triangular_solve(factor, x, left_side=True, lower=True) for x in (data, points)]
        squares = ((data[:, :, None] - at[:, None, :]) ** 2).sum(0)
        log_det = dnp.log(dnp.diagonal(factor)).sum()
        constant = 0.5 * self.d * math.log(2 * math.pi) + log_det
        return logsumexp(-0.5 * squares, b=weights[:, None], axis=0) - constant


def _factor(estimate: gaussian_kde, method: Any, d: int) -> Any:
    text = method if isinstance(method, str) else None
    if method is None or text == "scott":
        return estimate.neff ** (-1 / (d + 4))
    if text == "silverman":
        return (estimate.neff * (d + 2) / 4) ** (-1 / (d + 4))
    if callable(method):
        return method(estimate)
    if text is not None or as_array("gaussian_kde", method, "bw_method").ndim:
        fix = "Use 'scott', 'silverman', a number or a function."
        raise ArgumentError(message("gaussian_kde knows two rules.", f"bw_method: {method!r:.100}", fix=fix))
    return method
