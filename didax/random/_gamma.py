"""Distributions drawn by rejection: gamma and those derived from it, Poisson, binomial and multinomial.

All elements are drawn at once: a round draws candidates for the whole array, each element keeps the first
candidate that is accepted, and rounds continue while an element has none. In a large array, rounds after the first work
on blocks of the elements that still have none. Keys are split as in jax.random, and candidates are accepted by the same
rules, so the numbers agree; the rules are computed without cancellation here, so a candidate that stands within
rounding errors of its limit may be accepted by one library alone. Samples of the gamma family are differentiable in
their parameters, by implicit differentiation (`primitives/random_gamma.py`); counts are not. Read next:
`_transformed.py` for distributions in closed form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.flat import narrowed_scalar
from didax.api.results import array_function
from didax.api.vmap import vmap
from didax.core import dtypes, sharding
from didax.core.avals import aval_of
from didax.core.device_types import loosened, pinned
from didax.core.dims import as_length, is_symbolic
from didax.core.errors import message
from didax.primitives.convert import materialize_p
from didax.primitives.densities import log_power_of_gamma
from didax.primitives.gamma_quotients import minus_log1p
from didax.primitives.keys import impl_of, random_clone_p
from didax.primitives.random_bits import random_split_p
from didax.primitives.random_gamma import random_gamma_p
from didax.primitives.shape import reshape
from didax.primitives.slicing import slice_axis
from didax.primitives.threefry import threefry
from didax.random._keys import child
from didax.random._programs import compiled_program
from didax.random._rejection import Proposal, rounds_while, transformed_rejection
from didax.random._samplers import (
    arguments,
    common_shape,
    dtype_of_counts,
    exponential_floats,
    normal_floats,
    parameters,
    signs,
    unit_floats,
)
from didax.random._transformed import check, draw, positive
from didax.transforms.rewriting import trace_closed
from didax.xla.platforms import platform

_MANY = 1 << 14  # elements; in larger arrays only few take part in all rounds (`_rounds_of_few`)
_MOST = 1 << 30  # elements: int32 holds their positions, and those of the block behind the last one


def _float_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which samplers compute: float32, or float64 if the result is float64."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


# --- Gamma ------------------------------------------------------------------------------------------------


@array_function
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return floats of the gamma distribution, whose density is x^(a - 1) exp(-x) / Gamma(a), for a > 0.

    >>> from didax import random
    >>> bool((random.gamma(random.key(0), 2.0, (3,)) > 0).all())
    True
    """
    return _gamma_family("gamma", key, {"a": a}, shape, dtype, _gamma)


@array_function
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return logarithms of gamma samples; they are finite also where `a` is so small that the samples would be 0.

    >>> from didax import random
    >>> bool(dnp.isfinite(random.loggamma(random.key(0), 1e-4, (3,))).all())
    True
    """
    return _gamma_family("loggamma", key, {"a": a}, shape, dtype, _loggamma)


def _gamma_family(
    name: str, key: Any, values: dict[str, Any], shape: Any, dtype: Any, sampler: Callable[..., Any]
) -> Any:
    """Draw with a `sampler(words, *parameters)`; all parameters must be above 0."""
    positive(name, **values)
    return draw(name, sampler, key, shape, dtype, values, _float_for)


@compiled_program
def _gamma(words: Any, a: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return gamma_floats(words, a, shape).astype(dtype)


@compiled_program
def _loggamma(words: Any, a: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return loggamma_floats(words, a, shape).astype(dtype)


def gamma_floats(words: Any, a: Any, shape: tuple[int, ...]) -> Any:
    """Return samples of the gamma distribution, in the dtype of `a`."""
    return _gamma_samples(words, dnp.broadcast_to(a, shape), log_space=False)


def loggamma_floats(words: Any, a: Any, shape: tuple[int, ...]) -> Any:
    """Return logarithms of samples of the gamma distribution, in the dtype of `a`."""
    return _gamma_samples(words, dnp.broadcast_to(a, shape), log_space=True)


def _gamma_samples(words: Any, a: Any, log_space: bool) -> Any:
    """Return samples that are split over explicit mesh axes as `a` is; no type says how their keys are split."""
    layout, a = aval_of(a).layout, loosened(a)
    jaxpr = _gamma_jaxpr(
        aval_of(words), aval_of(a).strip_weak_type(), log_space, may_be_split=sharding.in_use
    )
    return pinned(random_gamma_p.bind(words, a, jaxpr=jaxpr, log_space=log_space), layout)


@functools.cache
def _gamma_jaxpr(words: Any, a: Any, log_space: bool, may_be_split: bool) -> Any:
    run = lambda words, a: [_marsaglia_tsang(words, a, log_space, may_be_split)]
    return trace_closed(run, [words, a], what="random.gamma")


def _marsaglia_tsang(words: Any, a: Any, log_space: bool, may_be_split: bool) -> Any:
    """Draw by the method of Marsaglia and Tsang (2000).

    A candidate is a cube of a normal number, accepted with a probability of at least 0.95. For a below 1 the
    draw is for a + 1, and is scaled. Each element has a key of its own. A normal number whose cube is negative is
    replaced by the next one of the same round: `retry` marks elements that wait for it.
    """
    shape, dtype = a.shape, a.dtype
    a = a.reshape(-1)
    valid = (a > 0) & (a < dnp.inf)
    d = dnp.where(valid, dnp.where(a < 1, a + 1, a), 1) - 1 / 3
    c = 1 / (3 * dnp.sqrt(d))
    element_keys = random_split_p.bind(words, shape=a.shape)
    is_large = _is_large(element_keys, may_be_split)
    # XLA would run the cipher in each kernel that reads a number, and search constants for one below 1 by itself.
    kept = (lambda x: materialize_p.bind(x)[0]) if is_large else lambda x: x
    normals = lambda keys: kept(vmap(lambda key: normal_floats(key, (), dtype))(keys))
    uniforms = lambda keys: kept(vmap(lambda key: unit_floats(key, (), dtype))(keys))

    def judge(c: Any, d: Any, x: Any, u: Any) -> tuple[Any, Any]:
        w = dnp.maximum(c * x, -1)
        # 1 - v + log v for v = (1 + w)^3, without cancellation
        bend = -(3 * w * w + w * w * w + 3 * minus_log1p(w))
        return w, (w > -1) & (dnp.log(u) < 0.5 * x * x + d * bend)

    def step(c: Any, d: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        waiting, retry, keys, normal_keys, u, found = state
        next_keys, first_normal_keys, uniform_keys = _split_each(keys, 3)
        keys = _choose_keys(retry, keys, next_keys)
        u = dnp.where(retry, u, uniforms(uniform_keys))
        normal_keys, drawn = _split_each(_choose_keys(retry, normal_keys, first_normal_keys), 2)
        w, accepted = judge(c, d, normals(drawn), u)
        found = dnp.where(waiting & accepted, w, found)
        return waiting & ~accepted, w <= -1, keys, normal_keys, u, found

    def extra(last_keys: Any) -> Any:
        rest = -dnp.log1p(-uniforms(last_keys))  # exponential: -log of a uniform number
        return dnp.where(small, rest / dnp.where(small, a, 1), 0)

    small = kept(a < 1)
    if is_large:
        keys = child(element_keys, 0)
        w, accepted = judge(c, d, normals(child(child(keys, 1), 1)), uniforms(child(keys, 2)))
        found = dnp.where(accepted & valid, w, 0)
        w = _rounds_of_few(step, c, d, valid & ~accepted, keys, found)
        power = lax.cond(
            dnp.any(small),
            lambda keys: extra(child(keys, 1)),
            lambda keys: dnp.zeros_like(c),
            random_clone_p.bind(element_keys),
        )
    else:
        keys, last_keys = _split_each(element_keys, 2)
        w = _rounds(step, c, d, valid, keys)
        power = extra(last_keys)
    found = dnp.log(d) + 3 * dnp.log1p(w) - power if log_space else d * (1 + w) ** 3 * dnp.exp(-power)
    limit = dnp.where(a == dnp.inf, dnp.inf, dnp.nan)
    return dnp.where(valid, found, limit).astype(dtype).reshape(shape)


def _is_large(keys: Any, may_be_split: bool) -> bool:
    """Whether all elements of an array are tried once before those that wait are drawn, by `_rounds_of_few`.

    All elements of a small array take part in each round. So do all of an array that is or may be split over devices,
    which would exchange what they look up, and all on accelerators, which are best at few large rounds. Generators
    other than threefry draw for all keys of a batch from the first.
    """
    n = aval_of(keys).size
    is_large = not is_symbolic(n) and _MANY <= n <= _MOST and impl_of(aval_of(keys).dtype) is threefry
    return is_large and not may_be_split and platform() == "cpu"


def _rounds(step: Callable[..., Any], c: Any, d: Any, waiting: Any, keys: Any) -> Any:
    """Return what `step` accepts for each element that is waiting, 0 for others.

    `step(c, d, state)` draws a candidate for each element; the state is (waiting, retry, keys, normal keys, uniform
    numbers, found).
    """
    start = (waiting, dnp.zeros_like(waiting), keys, keys, dnp.zeros_like(c), dnp.zeros_like(c))
    return rounds_while(lambda state: state[0], functools.partial(step, c, d), start, keys)[-1]


def _rounds_of_few(step: Callable[..., Any], c: Any, d: Any, waiting: Any, keys: Any, found: Any) -> Any:
    """Return `found`, and what `step` accepts for each element that is waiting: a few of a large array, in blocks.

    The slowest of 100,000 elements takes six rounds, in which the others need not take part. Each element has a key of
    its own, so the order of work changes no number. Processor milliseconds of 100,000 numbers, one loaded core: rounds
    of all elements 21.7, elements in places that the next one took when one was found 8.8, this 3.4.
    """
    n = aval_of(found).size
    length = n // 64
    rank = dnp.cumsum(waiting, dtype=np.int32)
    count = rank[-1]
    places = dnp.where(waiting, rank - 1, n + length)
    order = dnp.full(n + length, n, np.int32).at[places].set(dnp.arange(n, dtype=np.int32), mode="drop")

    def block(state: tuple[Any, Any]) -> tuple[Any, Any]:
        first, found = state
        elements = lax.dynamic_slice(order, (first,), (length,))
        c_here, d_here, keys_here = [x.at[elements].get(mode="clip") for x in (c, d, keys)]
        new = _rounds(step, c_here, d_here, elements < n, keys_here)
        return first + length, found.at[elements].set(new, mode="drop")

    return lax.while_loop(lambda state: state[0] < count, block, (np.int32(0), found))[1]


def _split_each(keys: Any, count: int) -> list[Any]:
    """Return `count` arrays of keys: the children of each key of an array.

    One split makes them, because each application of the cipher is a hundred operations for XLA to compile.
    """
    children, shape = random_split_p.bind(keys, shape=(count,)), aval_of(keys).shape
    return [reshape(slice_axis(children, i, i + 1, 1), shape) for i in range(count)]


def _choose_keys(mask: Any, these: Any, others: Any) -> Any:
    """Return the first keys where the mask holds, and the others elsewhere."""
    return dnp.where(mask.reshape(-1, *[1] * (aval_of(these).ndim - 1)), these, others)


# --- Made of gammas ---------------------------------------------------------------------------------------


@array_function
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return floats in (0, 1) whose density is proportional to x^(a - 1) (1 - x)^(b - 1).

    >>> from didax import random
    >>> random.beta(random.key(0), 2.0, 3.0, (3,)).shape
    (3,)
    """
    return _gamma_family("beta", key, {"a": a, "b": b}, shape, dtype, _beta)


@compiled_program
def _beta(words: Any, a: Any, b: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    log_x, log_y = (loggamma_floats(child(words, i), v, shape) for i, v in enumerate((a, b)))
    return lax.logistic(log_x - log_y).astype(dtype)


@array_function
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return sums of the squares of `df` standard normal numbers (df > 0 need not be an integer).

    >>> from didax import random
    >>> random.chisquare(random.key(0), 3.0, (3,)).shape
    (3,)
    """
    return _gamma_family("chisquare", key, {"df": df}, shape, dtype, _chisquare)


@compiled_program
def _chisquare(words: Any, df: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return (2 * gamma_floats(words, df / 2, shape)).astype(dtype)


@array_function
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return quotients of two chi-square numbers, each divided by its degrees of freedom.

    >>> from didax import random
    >>> random.f(random.key(0), 3.0, 5.0, (3,)).shape
    (3,)
    """
    return _gamma_family("f", key, {"dfnum": dfnum, "dfden": dfden}, shape, dtype, _f)


@compiled_program
def _f(words: Any, dfnum: Any, dfden: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    below, above = (gamma_floats(child(words, i), df / 2, shape) / df for i, df in enumerate((dfden, dfnum)))
    return (above / below).astype(dtype)


@array_function
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return floats of Student's t: a standard normal number over the root of a chi-square number divided by `df`.

    >>> from didax import random
    >>> random.t(random.key(0), 3.0, (3,)).shape
    (3,)
    """
    return _gamma_family("t", key, {"df": df}, shape, dtype, _t)


@compiled_program
def _t(words: Any, df: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    x = normal_floats(child(words, 0), shape, aval_of(df).dtype)
    half = df / 2
    return (x * dnp.sqrt(half / gamma_floats(child(words, 1), half, shape))).astype(dtype)


@array_function
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return floats whose density is proportional to exp(-|x|^p), for p > 0.

    >>> from didax import random
    >>> random.generalized_normal(random.key(0), 1.5, (3,)).shape
    (3,)
    """
    return _gamma_family("generalized_normal", key, {"p": p}, shape or None, dtype, _generalized_normal)


@compiled_program
def _generalized_normal(words: Any, p: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return _generalized_normal_floats(words, p, shape).astype(dtype)


def _generalized_normal_floats(words: Any, p: Any, shape: tuple[int, ...]) -> Any:
    lengths = dnp.exp(loggamma_floats(child(words, 0), 1 / p, shape) / p)
    return lengths * signs(child(words, 1), shape, aval_of(p).dtype)


@array_function
def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Return points uniformly distributed in the unit ball of the p-norm in `d` dimensions: shape (*shape, d).

    >>> from didax import random
    >>> bool((dnp.linalg.norm(random.ball(random.key(0), 3, shape=(5,)), axis=-1) < 1).all())
    True
    """
    positive("ball", p=p)
    d = as_length(d)
    words, shape, dtype = arguments("ball", key, shape, dtype)
    (p,) = parameters("ball", shape, _float_for(dtype), p=p)
    return _ball(words, p, shape=(*shape, d), dtype=dtype)


@compiled_program
def _ball(words: Any, p: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Normalise coordinates and one exponential number together (Barthe, Guedon, Mendelson and Naor, 2005)."""
    powers = p[..., None] if aval_of(p).ndim else p
    x = _generalized_normal_floats(child(words, 0), powers, shape)
    e = exponential_floats(child(words, 1), shape[:-1], aval_of(p).dtype)
    norm = (dnp.sum(dnp.abs(x) ** powers, -1) + e) ** (1 / p)
    return (x / norm[..., None]).astype(dtype)


@array_function
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return vectors of positive numbers that sum to 1, with concentrations `alpha` along its last axis.

    `shape` is the shape of the batch: the result has shape (*shape, alpha.shape[-1]).

    >>> from didax import random
    >>> random.dirichlet(random.key(0), dnp.ones(3), (5,)).sum(-1).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    aval = aval_of(alpha)
    if aval.ndim < 1:
        raise ValueError(
            message(
                "dirichlet takes concentrations along the last axis of an array.",
                f"alpha: {aval}",
                fix="Pass a vector with one concentration for each component.",
            )
        )
    positive("dirichlet", alpha=alpha)
    batch = aval.shape[:-1] if shape is None else shape
    words, batch, dtype = arguments("dirichlet", key, batch, dtype)
    full = (*batch, aval.shape[-1])
    (alpha,) = parameters("dirichlet", full, _float_for(dtype), alpha=alpha)
    return _dirichlet(words, alpha, shape=full, dtype=dtype)


@compiled_program
def _dirichlet(words: Any, alpha: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    logs = loggamma_floats(words, alpha, shape)
    shares = dnp.exp(logs - lax.stop_gradient(dnp.max(logs, -1, keepdims=True, initial=-dnp.inf)))
    return (shares / shares.sum(-1, keepdims=True)).astype(dtype)


# --- Counts -----------------------------------------------------------------------------------------------


@array_function
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return counts of independent events, of which there are `lam` on average.

    >>> from didax import random
    >>> random.poisson(random.key(0), 4.0, (3,)).dtype
    dtype('int32')
    """
    check("poisson", "lam", lam, lambda v: v >= 0, "of at least 0")
    out = dtype_of_counts("poisson", dtype, "i")
    lam = narrowed_scalar(lam)
    wide = _float_for(aval_of(lam).dtype)
    words, shape, _ = arguments("poisson", key, common_shape("poisson", shape, lam=lam), wide)
    (lam,) = parameters("poisson", shape, wide, lam=lam)
    return _poisson(words, lam, shape=shape, dtype=out)


@compiled_program
def _poisson(words: Any, lam: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    many = lam >= 10
    few = _count_arrivals(words, dnp.broadcast_to(dnp.where(many, 0, lam), shape))
    mean = dnp.where(many, lam, 1e5)
    found = transformed_rejection(
        random_clone_p.bind(words), dnp.any(many), _poisson_proposal, [mean], shape, np.dtype("float32")
    )
    return dnp.where(many, found, few).astype(dtype)


def _poisson_proposal(mean: Any) -> Proposal:
    b = 0.931 + 2.53 * dnp.sqrt(mean)
    height, quick = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    log_ratio = lambda k: log_power_of_gamma(k, mean)
    return Proposal(-0.059 + 0.02483 * b, b, mean + 0.43, height, quick, dnp.inf, log_ratio)


def _count_arrivals(words: Any, lam: Any) -> Any:
    """Return how many exponential waiting times fit into `lam` (Knuth, 1969), for small means; -1 for NaN."""

    def arrive(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        key, count, time = state
        drawn = unit_floats(child(key, 1), lam.shape, np.dtype("float32"))
        return child(key, 0), dnp.where(time < lam, count + 1, count), time - dnp.log(drawn.astype(lam.dtype))

    start = words, dnp.zeros_like(lam), dnp.zeros_like(lam)
    count = rounds_while(lambda state: state[2] < lam, arrive, start, words)[1]
    return dnp.where(lam == 0, 0, count - 1)


@array_function
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return counts of successes among `n` trials, each with probability `p`, as floats.

    >>> from didax import random
    >>> random.binomial(random.key(0), 10.0, 0.3, (3,)).shape
    (3,)
    """
    check("binomial", "n", n, lambda v: v >= 0, "of at least 0")
    check("binomial", "p", p, lambda v: (v >= 0) & (v <= 1), "between 0 and 1")
    p = narrowed_scalar(p)
    words, shape, dtype = arguments("binomial", key, common_shape("binomial", shape, n=n, p=p), dtype)
    fine = (
        _float_for(aval_of(p).dtype)
        if aval_of(p).dtype.kind == "f"
        else _float_for(dtypes.default_dtype("f"))
    )
    n, p = parameters("binomial", shape, _float_for(dtype), n=n, p=p)
    return _binomial(words, n, p, shape=shape, dtype=dtype, fine=fine)


@compiled_program
def _binomial(
    words: Any, n: Any, p: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], fine: np.dtype[Any]
) -> Any:
    return binomial_counts(words, n, p, shape, fine).astype(dtype)


def binomial_counts(words: Any, n: Any, p: Any, shape: tuple[int, ...], fine: np.dtype[Any]) -> Any:
    """Return counts of successes, as floats; NaN for invalid parameters. Uniform numbers are drawn in dtype `fine`.

    The rarer outcome is counted; where this is failure, the count of successes is `n` minus it.
    """
    valid = (n >= 0) & (p >= 0) & (p <= 1)
    finite = valid & (n < dnp.inf)
    n, p = dnp.where(finite, dnp.floor(n), 0), dnp.where(finite, p, 0)
    rare = dnp.where(p < 0.5, p, 1 - p)
    many = n * rare > 10
    few = _count_gaps(words, dnp.broadcast_to(dnp.where(many, 0, n), shape), rare, fine)
    trials, q = dnp.where(many, n, 1e4), dnp.where(many, rare, 0.5)
    at_mode = _log_binomial(dnp.floor((trials + 1) * q), trials, q)
    found = transformed_rejection(
        random_clone_p.bind(words), dnp.any(many), _binomial_proposal, [trials, q, at_mode], shape, fine
    )
    count = dnp.where(many, found, few)
    return dnp.where(
        finite, dnp.where(p < 0.5, count, n - count), dnp.where(valid, dnp.inf, dnp.nan).astype(count.dtype)
    )


def _log_binomial(k: Any, trials: Any, q: Any) -> Any:
    """Add logarithms of Poisson probabilities of successes and failures: no term is large (Loader, 2000)."""
    return log_power_of_gamma(k, trials * q) + log_power_of_gamma(trials - k, trials * (1 - q))


def _binomial_proposal(trials: Any, q: Any, at_mode: Any) -> Proposal:
    deviation = dnp.sqrt(trials * q * (1 - q))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * q
    log_ratio = lambda k: _log_binomial(k, trials, q) - at_mode
    height, quick = (2.83 + 5.1 / b) * deviation, 0.92 - 4.2 / b
    return Proposal(a, b, trials * q + 0.5, height, quick, trials, log_ratio)


def _count_gaps(words: Any, n: Any, p: Any, fine: np.dtype[Any]) -> Any:
    """Return how many gaps between successes, each geometric, fit into `n` trials; for few expected successes."""
    possible = p > 0
    scale = dnp.log1p(-dnp.where(possible, p, 0.5))
    end = dnp.where(possible, n, -1)

    def gap(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        key, count, used = state
        drawn = unit_floats(child(key, 0), end.shape, fine).astype(end.dtype)
        count = dnp.where(used <= end, count + 1, count)
        return child(key, 1), count, used + dnp.maximum(dnp.ceil(dnp.log(drawn) / scale), 1)

    start = words, dnp.zeros_like(end), dnp.zeros_like(end)
    count = rounds_while(lambda state: state[2] <= end, gap, start, words)[1]
    return dnp.maximum(count - 1, 0)


@array_function
def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1
) -> Any:
    """Return how often each outcome occurs in `n` trials, with probabilities along the last axis of `p`.

    `shape` is the shape of the whole result: the batch and the number of outcomes. `dtype` is by default a float.
    `unroll` is the `unroll` of the loop over outcomes.

    >>> from didax import random
    >>> float(random.multinomial(random.key(0), 10.0, dnp.array([0.2, 0.3, 0.5])).sum())
    10.0
    """
    aval = aval_of(p)
    if aval.ndim < 1:
        raise ValueError(
            message(
                "multinomial takes probabilities along the last axis of an array.",
                f"p: {aval}",
                fix="Pass a vector with one probability for each outcome.",
            )
        )
    check("multinomial", "n", n, lambda v: v >= 0, "of at least 0")
    check("multinomial", "p", p, lambda v: (v >= 0) & (v <= 1), "between 0 and 1")
    if shape is None:
        shape = (
            *common_shape("multinomial", None, n=n, p=aval.update(shape=aval.shape[:-1])),
            aval.shape[-1],
        )
    dtype = dtype_of_counts("multinomial", dtype, "f")
    wide = _float_for(dtype)
    words, shape, _ = arguments("multinomial", key, shape, wide)
    if shape[-1:] != aval.shape[-1:]:
        raise ValueError(
            message(
                "The shape of multinomial ends in the number of outcomes.",
                f"p: {aval}, shape: {shape}",
                fix=f"Pass a shape that ends in {aval.shape[-1]}.",
            )
        )
    (n,) = parameters("multinomial", shape[:-1], wide, n=n)
    (p,) = parameters("multinomial", shape, wide, p=p)
    return _multinomial(words, n, p, shape=shape, dtype=dtype, unroll=unroll)


@compiled_program
def _multinomial(
    words: Any, n: Any, p: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], unroll: int | bool
) -> Any:
    """Draw each outcome in turn: it is binomial among the trials that had no earlier outcome."""
    p = dnp.moveaxis(dnp.broadcast_to(p, shape), -1, 0)
    left = dnp.flip(dnp.cumsum(dnp.flip(p, 0), 0), 0)
    share = dnp.where(left > 0, p / dnp.where(left > 0, left, 1), 0)
    last = dnp.arange(shape[-1]) == shape[-1] - 1
    share = dnp.where(last.reshape(-1, *[1] * (p.ndim - 1)), 1, dnp.clip(share, 0, 1))

    def outcome(remaining: Any, step: tuple[Any, Any]) -> tuple[Any, Any]:
        key, q = step
        count = binomial_counts(key, remaining, q, aval_of(remaining).shape, aval_of(q).dtype)
        return remaining - count, count

    steps = random_split_p.bind(words, shape=shape[-1:]), share
    _, counts = lax.scan(outcome, dnp.broadcast_to(n, shape[:-1]), steps, unroll=unroll)
    return dnp.moveaxis(counts, 0, -1).astype(dtype)
