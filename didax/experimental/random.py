"""`stateful_rng`: a generator that keeps its own state, as NumPy's `default_rng` does, inside programs, too.

    rng = stateful_rng(0)
    rng.normal(size=3)      each draw gives other numbers, eagerly and in each call of a jitted function

The state is a mutable array that counts the draws; the key of draw number i is `fold_in(key, i)`, and the numbers are
those that `didax.random` draws with it. What Refs may not do, a generator may not: be a result of a transformed
function, or a carry of a loop. Read next: `didax/ref.py`, `didax/random/`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax import random
from didax.core import dtypes, pytree
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.primitive import eager_trace
from didax.core.ref import Ref
from didax.core.tracing import current_trace
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, DTypeLike
from didax.ref import addupdate, new_ref

__all__ = ["StatefulPRNG", "stateful_rng"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

Size = int | Sequence[int] | None


def _shape(size: Size, *parameters: ArrayLike) -> tuple[int, ...]:
    """The shape that is asked for; without one, that to which the parameters broadcast."""
    if size is None:
        return dnp.broadcast_shapes(*[dnp.shape(x) for x in parameters])
    return tuple(map(operator.index, size)) if isinstance(size, Sequence) else (operator.index(size),)


@dataclass(frozen=True)
class StatefulPRNG:
    """A generator, made by `stateful_rng`; a pytree of its key and the Ref that counts its draws.

    >>> rng = stateful_rng(0)
    >>> rng.normal(size=3).shape, rng.integers(10, size=(2, 2)).dtype
    ((3,), dtype('int32'))
    >>> bool(rng.random() == rng.random())
    False
    """

    _base_key: Array
    _counter: Ref

    @api_boundary
    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """Return a new key, or an array of new keys; ValueError for one that `split` made, outside `vmap`."""
        if self._base_key.shape:
            rule = "A generator that was split draws within vmap, which gives each element one of its own."
            fix = "Map the function that draws over it, or use spawn, which returns a list."
            raise ValueError(message(rule, f"shape of its keys: {self._base_key.shape}", fix=fix))
        made = random.fold_in(self._base_key, self._counter[...])
        addupdate(self._counter, ..., 1)
        lengths = _shape(shape)
        return random.split(made, lengths) if lengths else made

    def random(self, size: Size = None, dtype: DTypeLike = float) -> Array:
        """Return uniform numbers from 0 on, below 1."""
        return random.uniform(self.key(), _shape(size), dtype=dtype)

    def uniform(
        self, low: ArrayLike = 0, high: ArrayLike = 1, size: Size = None, *, dtype: DTypeLike = float
    ) -> Array:
        """Return uniform numbers from `low` on, below `high`."""
        return random.uniform(self.key(), _shape(size, low, high), dtype=dtype, minval=low, maxval=high)

    def normal(
        self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: Size = None, *, dtype: DTypeLike = float
    ) -> Array:
        """Return normal numbers of this mean and standard deviation."""
        drawn = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return (dnp.asarray(loc) + dnp.asarray(scale) * drawn).astype(dtype)

    def integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: Size = None, *, dtype: DTypeLike = int
    ) -> Array:
        """Return integers from `low` on, below `high`; with one limit only, from 0 on and below it."""
        low, high = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _shape(size, low, high), minval=low, maxval=high, dtype=dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Return independent generators as one, for functions that `vmap` maps over it."""
        return StatefulPRNG(self.key(num), new_ref(dnp.zeros(num, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Return a list of independent generators."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


pytree.register_dataclass(StatefulPRNG, data_fields=["_base_key", "_counter"], meta_fields=[])


@api_boundary
def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """Return a generator for a seed; without one, eagerly, for a seed that the operating system draws.

    TypeError without a seed in a transformed function, whose numbers would be the same in each call.

    >>> rng = stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """
    if seed is None:
        if current_trace() is not eager_trace:
            rule = "stateful_rng needs a seed in a transformed function."
            fix = "Pass a seed, or make the generator outside."
            raise TypeError(message(rule, f"traced by: {current_trace().transformation}", fix=fix))
        seed = np.random.default_rng().integers(2**63 if dtypes.default_dtype("i").itemsize == 8 else 2**31)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
