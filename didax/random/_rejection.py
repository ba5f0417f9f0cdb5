"""Counts by transformed rejection, which fits Poisson and binomial distributions (Hörmann, 1993).

A round draws a candidate for each element and accepts most of them. Rounds go on until every element has a candidate,
and each element keeps the last one that was accepted, as in jax.random. So an element that has one early takes part in
all rounds of the slowest element, up to nine for 100,000 elements. Large arrays on the CPU go through the rounds twice,
block by block (`_twice`): forward for the number of rounds, backward for the last candidates. Processor milliseconds,
one loaded core, in pairs with JAX: 100,000 numbers of Poisson's distribution of mean 50 took 22.9 (JAX 15.4), and take
0.58 of JAX's time; 20,000 binomial numbers 10.0 (5.4), and 3.4 (5.3). Read next: `_gamma.py`, which gives the
distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.custom import custom_vmap
from didax.core import dtypes, sharding
from didax.core.avals import aval_of
from didax.core.dims import is_symbolic
from didax.primitives.elementwise import or_, shift_left, xor
from didax.primitives.keys import impl_of, random_unwrap_p
from didax.primitives.threefry import threefry
from didax.primitives.threefry_cipher import threefry2x32_p
from didax.random._keys import child
from didax.random._samplers import floats_of_bits, unit_floats
from didax.xla.platforms import platform

_MANY = 1 << 14  # elements: arrays of more are drawn in blocks
_MOST = 1 << 30  # elements: int32 holds their positions, and those of the block behind the last one
_BLOCKS = 16


class Proposal(NamedTuple):
    """How a pair of uniform numbers gives a count, by constants that Hörmann fitted to the standard deviation."""

    a: Any
    b: Any
    center: Any
    height: Any
    quick: Any  # pairs whose second number is below are accepted, unless the first is near an end
    largest: Any  # count
    log_ratio: Callable[[Any], Any]  # logarithm of the probability of a count, but for a constant in `height`

    def candidates(self, u: Any, v: Any) -> tuple[Any, Any]:
        """Counts of pairs, and whether they are accepted: most by a quick test, the others by their probability."""
        a, b, center, height, quick, largest, log_ratio = self
        u = u - 0.5
        distance = 0.5 - dnp.abs(u)
        edge = dnp.maximum(distance, dtypes.finfo(b.dtype).tiny)
        k = dnp.floor((2 * a / edge + b) * u + center)
        inside = (k >= 0) & (k <= largest)
        exact = dnp.log(v * height / (a / (edge * edge) + b)) <= log_ratio(dnp.where(inside, k, 0))
        return k, inside & (exact | (distance >= 0.07) & (v <= quick))


def transformed_rejection(
    words: Any,
    is_wanted: Any,
    propose: Callable[..., Proposal],
    parameters: Sequence[Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Any:
    """Return counts by `propose(*parameters)`, from pairs of uniform numbers in `dtype`; zeros where none is wanted."""
    parameters = [dnp.broadcast_to(x, shape) for x in parameters]
    like = parameters[0]
    n = aval_of(like).size
    is_large = not is_symbolic(n) and _MANY <= n <= _MOST and dtype.itemsize >= 4
    draws_by_position = impl_of(aval_of(words).dtype) in (None, threefry)
    if is_large and draws_by_position and not sharding.in_use and platform() == "cpu":
        flat = [dnp.reshape(x, (n,)) for x in parameters]
        return _twice(words, is_wanted, propose, flat, dtype).reshape(shape)
    proposal = propose(*parameters)

    def round_(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        key, missing, found = state
        u, v = (unit_floats(child(key, i, 3), shape, dtype).astype(like.dtype) for i in (1, 2))
        k, accepted = proposal.candidates(u, v)
        return child(key, 0, 3), missing & ~accepted, dnp.where(accepted, k, found)

    start = words, dnp.zeros_like(like, bool) | is_wanted, dnp.zeros_like(like)
    return rounds_while(lambda state: state[1], round_, start, words)[2]


def rounds_while(is_missing: Callable[..., Any], round_: Callable[..., Any], start: Any, keys: Any) -> Any:
    """Return the state after rounds, which go on while `is_missing(state)` says that an element waits.

    Under vmap each element of the batch has rounds of its own, after which its key stands still. Generators other than
    threefry draw for the whole batch from its first key, and would repeat themselves once that stands still: with them
    the rounds go on for all while any element of the batch waits.
    """
    impl = impl_of(aval_of(keys).dtype)
    in_any = dnp.any if impl is None or impl is threefry else _in_any_of_the_batch
    return lax.while_loop(lambda state: in_any(is_missing(state)), round_, start)


@custom_vmap
def _in_any_of_the_batch(x: Any) -> Any:
    return dnp.any(x)


@_in_any_of_the_batch.def_vmap
def _(axis_size: int, in_batched: list[bool], x: Any) -> tuple[Any, bool]:
    return _in_any_of_the_batch(x), False


class _Sweep(NamedTuple):
    """Rounds in one direction. `missing` begins with the positions of the elements of this round, `count` of them.

    Those of the next round are written over those that were read.
    """

    round_: Any
    key: Any
    missing: Any
    count: Any
    read: Any
    kept: Any
    found: Any


def _twice(
    words: Any,
    is_wanted: Any,
    propose: Callable[..., Proposal],
    parameters: Sequence[Any],
    dtype: np.dtype[Any],
) -> Any:
    """The same counts of a large vector.

    Forward, an element leaves at its first accepted candidate; the round in which the last ones leave is the last of
    all. Backward from there, an element leaves at its last accepted candidate. So an element takes part in some 2.3
    rounds. Both directions run the same code, so that a candidate is accepted in both or in neither.
    """
    if impl_of(aval_of(words).dtype) is not None:
        words = random_unwrap_p.bind(words)  # one use, though both directions draw from the same keys
    like = parameters[0]
    n = aval_of(like).size
    block = n // _BLOCKS
    lane = dnp.arange(block, dtype=np.int32)
    after = lambda key: child(key, 0, 3)

    def draw(key: Any, i: int, positions: Any) -> Any:
        return _floats_at(child(key, i, 3), positions, dtype).astype(like.dtype)

    def sweep(direction: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        last, found = carry
        step = 1 - 2 * direction

        def body(s: _Sweep) -> _Sweep:
            positions = lax.dynamic_slice(s.missing, (s.read,), (block,))
            there = s.read + lane < s.count
            here = [x.at[positions].get(mode="clip") for x in parameters]
            k, accepted = propose(*here).candidates(draw(s.key, 1, positions), draw(s.key, 2, positions))
            found = s.found.at[dnp.where(there & accepted, positions, n)].set(k, mode="drop")
            still = there & ~accepted
            places = s.kept + dnp.cumsum(still, dtype=np.int32)
            missing = s.missing.at[dnp.where(still, places - 1, n + block)].set(positions, mode="drop")
            read, kept = s.read + block, places[-1]
            ends = read >= s.count
            round_ = dnp.where(ends, s.round_ + step, s.round_)
            key = lax.fori_loop(
                0, dnp.where(ends, round_, 0), lambda _, key: after(key), dnp.where(ends, words, s.key)
            )
            zero = np.int32(0)
            return _Sweep(
                round_,
                key,
                missing,
                dnp.where(ends, kept, s.count),
                dnp.where(ends, zero, read),
                dnp.where(ends, zero, kept),
                found,
            )

        key = lax.fori_loop(0, last, lambda _, key: after(key), words)
        positions = dnp.arange(n + block, dtype=np.int32)
        zero = np.int32(0)
        start = _Sweep(last, key, positions, dnp.where(is_wanted, np.int32(n), zero), zero, zero, found)
        end = lax.while_loop(lambda s: (s.count > 0) & (s.round_ >= 0), body, start)
        return dnp.maximum(end.round_ - 1, 0), end.found

    return lax.fori_loop(0, 2, sweep, (np.int32(0), dnp.zeros_like(like)))[1]


def _floats_at(words: Any, positions: Any, dtype: np.dtype[Any]) -> Any:
    """The elements at these positions of what `unit_floats` draws, from the words of one key of threefry."""
    low = positions.astype(np.uint32)
    k0, k1 = (dnp.broadcast_to(words[i], low.shape) for i in (0, 1))
    first, second = threefry2x32_p.bind(k0, k1, dnp.zeros_like(low), low)
    if dtype.itemsize == 4:
        return floats_of_bits(xor.bind(first, second), dtype)
    high = shift_left.bind(first.astype(np.uint64), np.uint64(32))
    return floats_of_bits(or_.bind(high, second.astype(np.uint64)), dtype)
