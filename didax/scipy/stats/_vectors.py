"""Distributions of vectors: `dirichlet`, `multinomial`, `multivariate_normal`."""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import max_dim
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.value import Array
from didax.lax import linalg, stop_gradient
from didax.numpy.promotion import ArrayLike, as_array, broadcast, broadcast_shapes, promote_dtypes
from didax.scipy.stats._distributions import made_of
from didax.scipy.stats._parts import log_gamma_density, log_poisson


def _strong(name: str, *args: Any) -> tuple[list[Array], Any]:
    """The arguments in one floating dtype of at least 32 bits, and the dtype to which the result is rounded."""
    values = [dnp.asarray(x) for x in promote_dtypes(name, *args, to_inexact=True)]
    dtype = values[0].dtype
    return [x.astype(dtypes.at_least_single(dtype)) for x in values], dtype


def _excess_over_one(x: Any, axis: int) -> Any:
    """The sum of x, less 1, without the rounding of a sum near 1: leading halves of the digits add up exactly."""
    scale = 2.0 ** (int(dnp.finfo(x.dtype).nmant) // 2)
    lead = dnp.round(x * scale) / scale
    return (lead.sum(axis) - 1) + (x - lead).sum(axis)


def _log_terms(
    log_density: Any, parameter: Any, scale: Any, share: Any, power: Any, apart: bool
) -> tuple[Any, Any]:
    """The logarithms of densities at `scale * share`; if `apart`, without factors share^power that are 0, and these.

    Where such a factor vanishes, the density has derivatives, but its logarithm has none.
    """
    if not apart:
        return log_density(parameter, scale * share), 1
    zero = (share == 0) & (power > 0)
    logs = log_density(parameter, scale * dnp.where(zero, 1, share)) + dnp.where(zero, scale * (1 - share), 0)
    return logs, dnp.where(zero, share, 1) ** power


def _density(log_terms: Any, factors: Any, axis: int) -> Any:
    """exp(log_terms) times the factors, 0 where one of them vanishes, however large the exponential of the rest is."""
    factor = dnp.prod(factors, axis)
    vanishes = (factor == 0) & (log_terms < math.inf)
    limit = math.log(float(dnp.finfo(log_terms.dtype).max)) - 1
    return dnp.exp(dnp.where(vanishes, dnp.minimum(log_terms, limit), log_terms)) * factor


@evaluated_whole
@api_boundary
def dirichlet_logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Return the logarithm of the density of the Dirichlet distribution of `alpha` at x, along its first axis.

    x has as many entries as alpha, or one less, where the last one follows from the sum 1; -inf off the simplex.

    >>> from didax.scipy import stats
    >>> round(float(stats.dirichlet.pdf(dnp.array([0.2, 0.8]), dnp.array([1.0, 1.0]))), 4)
    1.0
    """
    value, _, dtype = _log_dirichlet(x, alpha, apart=False)
    return value.astype(dtype)


def _log_dirichlet(x: Any, alpha: Any, *, apart: bool) -> tuple[Array, Any, Any]:
    (point, shape), dtype = _strong("dirichlet.logpdf", x, alpha)
    if shape.ndim != 1 or not point.ndim or point.shape[0] not in (shape.shape[0], shape.shape[0] - 1):
        raise ArgumentError(
            message(
                "dirichlet takes a vector of parameters and points with as many entries, or one less.",
                f"x: {point.aval}, alpha: {shape.aval}",
                fix="Pass x of shape (n, ...) or (n - 1, ...), and alpha of shape (n,).",
            )
        )
    if point.shape[0] != shape.shape[0]:
        point = dnp.concatenate([point, 1 - point.sum(0, keepdims=True)])
    tolerance = max(1e-10, 10 * float(dnp.finfo(dtype).eps) * point.shape[0])
    inside = ((point >= 0) & (point <= 1)).all(0) & (abs(point.sum(0) - 1) < tolerance)
    column, total = shape.reshape(-1, *[1] * (point.ndim - 1)), shape.sum()
    share = dnp.where(inside, point, 1 / max_dim(shape.shape[0], 1))
    # From densities of gamma variables, given their sum: the gamma functions themselves cancel where alpha is large.
    # Any number in place of `scale` gives the same, so it has no derivative.
    scale = stop_gradient(total)
    logs, factors = _log_terms(log_gamma_density, column, scale, share, column - 1, apart)
    value = logs.sum(0) - log_gamma_density(total, scale)
    value = value + (shape.shape[0] - 1) * dnp.log(scale) + scale * _excess_over_one(share, 0)
    value = dnp.where(inside, value, -math.inf)
    return dnp.where((shape > 0).all(), value, math.nan), factors, dtype


@evaluated_whole
@api_boundary
def dirichlet_pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Return the density of the Dirichlet distribution: the exponential of `logpdf`."""
    value, factors, dtype = _log_dirichlet(x, alpha, apart=True)
    return _density(value, factors, 0).astype(dtype)


@evaluated_whole
@api_boundary
def multinomial_logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Return the logarithm of the probability of the counts x, along the last axis, among n trials with chances p.

    >>> from didax.scipy import stats
    >>> round(float(stats.multinomial.pmf(dnp.array([1, 1]), 2, dnp.array([0.5, 0.5]))), 4)
    0.5
    """
    value, _, dtype = _log_multinomial(x, n, p, apart=False)
    return value.astype(dtype)


def _log_multinomial(x: Any, n: Any, p: Any, *, apart: bool) -> tuple[Array, Any, Any]:
    (counts, chances), dtype = _strong("multinomial.logpmf", x, p)
    trials = as_array("multinomial.logpmf", n, "n").astype(counts.dtype)
    valid = (counts >= 0).all(-1) & (counts == dnp.floor(counts)).all(-1) & (counts.sum(-1) == trials)
    safe, trials = dnp.where(valid[..., None], counts, 0), dnp.where(valid, trials, 0)
    # From Poisson variables, given their sum: the factorials themselves cancel where the counts are large.
    logs, factors = _log_terms(log_poisson, safe, trials[..., None], chances, safe, apart)
    value = logs.sum(-1) - log_poisson(trials, trials) + trials * _excess_over_one(chances, -1)
    return dnp.where(valid, value, -math.inf), factors, dtype


@evaluated_whole
@api_boundary
def multinomial_pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Return the probability of the counts x: the exponential of `logpmf`."""
    value, factors, dtype = _log_multinomial(x, n, p, apart=True)
    return _density(value, factors, -1).astype(dtype)


@evaluated_whole
@api_boundary
def multivariate_normal_logpdf(
    x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: bool | None = None
) -> Array:
    """Return the logarithm of the density of the normal distribution at x, whose last axis holds the vectors.

    `mean` and `cov`, matrices in the last two axes, broadcast against x; a scalar `cov` multiplies the identity, and
    where `mean` is a scalar too, each element of x is a number by itself. A singular `cov` gives NaN.

    Raises NotImplementedError for `allow_singular=True`.

    >>> from didax.scipy import stats
    >>> round(float(stats.multivariate_normal.logpdf(dnp.zeros(2), dnp.zeros(2), dnp.eye(2))), 4)
    -1.8379
    """
    if allow_singular:
        rule = "multivariate_normal needs regular covariances."
        fact = f"allow_singular: {allow_singular!r}"
        raise NotImplementedError(message(rule, fact, fix="Leave allow_singular out."))
    value, dtype = _log_normal(x, mean, cov)
    return value.astype(dtype)


def _log_normal(x: Any, mean: Any, cov: Any) -> tuple[Array, Any]:
    (point, centre, cov_), dtype = _strong("multivariate_normal.logpdf", x, mean, cov)
    if not centre.ndim:  # numbers, each by itself
        variance = cov_
        return -0.5 * ((point - centre) ** 2 / variance + math.log(2 * math.pi) + dnp.log(variance)), dtype
    n = centre.shape[-1]
    if not cov_.ndim:
        cov_ = cov_ * dnp.eye(n, dtype=cov_.dtype)
    if cov_.ndim < 2 or cov_.shape[-2:] != (n, n):
        raise ArgumentError(
            message(
                "multivariate_normal takes a covariance of the size of the mean.",
                f"mean: {centre.aval}, cov: {cov_.aval}",
                fix="Pass cov of shape (..., n, n) for a mean of shape (..., n).",
            )
        )
    factor = linalg.cholesky(cov_)
    away = dnp.asarray(point - centre)
    batch = broadcast_shapes("multivariate_normal.logpdf", [away.shape[:-1], factor.shape[:-2]])
    own = batch[len(batch) - factor.ndim + 2 :]
    shared = math.prod(batch[: len(batch) - len(own)])  # points of one factor are the columns of one matrix
    columns = dnp.moveaxis(broadcast(away, (*batch, n)).reshape(shared, *own, n), 0, -1)
    white = linalg.triangular_solve(broadcast(factor, (*own, n, n)), columns, lower=True, left_side=True)
    squares = dnp.moveaxis((white**2).sum(-2), -1, 0).reshape(batch)
    log_det = dnp.log(dnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * squares - 0.5 * n * math.log(2 * math.pi) - log_det, dtype


@evaluated_whole
@api_boundary
def multivariate_normal_pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Return the density of the normal distribution: the exponential of `logpdf`."""
    value, dtype = _log_normal(x, mean, cov)
    return dnp.exp(value).astype(dtype)


VECTORS = [
    made_of("dirichlet", "The Dirichlet distribution on the simplex.",
            {"logpdf": dirichlet_logpdf, "pdf": dirichlet_pdf}),
    made_of("multinomial", "The multinomial distribution.", {"logpmf": multinomial_logpmf, "pmf": multinomial_pmf}),
    made_of("multivariate_normal", "The normal distribution of vectors.",
            {"logpdf": multivariate_normal_logpdf, "pdf": multivariate_normal_pdf}),
]  # fmt: skip
