"""Products of matrices with few rows or columns, as products of vectors.

    x @ w        becomes        concatenate([x[0] @ w, x[1] @ w, ...])

When an axis of a product of matrices is 8 or longer, XLA calls a library for it, which is a kernel of its own. A
product with a vector becomes a part of the function that it stands in. So a loop whose products are small can be one
function after all: a tanh net of 32 units, batch 8, takes 0.6 of the time (forward).
Read next: `one_function.py`, which asks for this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from didax.core.avals import aval_of
from didax.core.jaxpr import Atom, Eqn, Jaxpr
from didax.passes.loops.rewrite import equations_of, substitute
from didax.primitives.dot import dot_general_p, free_axes
from didax.primitives.elementwise import mul
from didax.primitives.shape import broadcast_in_dim, reduce_sum_p, reshape, transpose
from didax.primitives.slicing import concatenate_p, slice_axis
from didax.transforms.cache import cached_on_jaxpr

MAX_ROWS = 8
MANY_ROWS = 4  # a concatenation of more rows than this costs more to read
MAX_SUM = 1024  # multiplications of a batch of products that is written as multiplications and a sum
LIBRARY_SIZE = 8  # XLA calls a library for a product of matrices with an axis of this length or longer


class ProductSizes(NamedTuple):
    """The sizes of a product of matrices: rows and columns of the result, length of the sums, batch axes."""

    rows: int
    columns: int
    inner: int
    batch: int
    batched: bool

    @property
    def size(self) -> int:
        """How many multiplications it takes."""
        return self.batch * self.rows * self.columns * self.inner

    @property
    def in_library(self) -> bool:
        """Whether XLA calls a library for the product."""
        return max(self[:3]) >= LIBRARY_SIZE and min(self.rows, self.columns) > 1


def product_of(eqn: Eqn) -> ProductSizes:
    """The sizes of a `dot_general`."""
    x, y = (v.aval for v in eqn.invars)
    (x_contract, y_contract), (x_batch, y_batch) = eqn.params["dimension_numbers"]
    return ProductSizes(
        math.prod(x.shape[i] for i in free_axes(x.ndim, x_contract, x_batch)),
        math.prod(y.shape[i] for i in free_axes(y.ndim, y_contract, y_batch)),
        math.prod(x.shape[i] for i in x_contract),
        math.prod(x.shape[i] for i in x_batch),
        bool(x_batch),
    )


def becomes_sum(eqn: Eqn) -> bool:
    """Whether `by_rows` writes a batch of products as multiplications and a sum."""
    product = product_of(eqn)
    return product.batched and product.size <= MAX_SUM and eqn.params["preferred_element_type"] is None


def has_few_rows(eqn: Eqn) -> bool:
    """Whether `by_rows` can write the product by vectors: one operand has one free axis, which is short."""
    return _side(eqn) is not None


def products_by_rows(jaxpr: Jaxpr) -> list[tuple[int, bool]]:
    """The size of each product that becomes many rows, and whether it is computed from another such product."""
    found: list[tuple[int, bool]] = []
    made: set[Any] = set()  # the variables that are computed from such products
    for eqn in jaxpr.eqns:
        inner = [product for jaxpr in eqn.jaxprs for product in products_by_rows(jaxpr)]
        if eqn.primitive is dot_general_p and _rewriting(eqn) is _by_vectors and _num_rows(eqn) > MANY_ROWS:
            inner = [(product_of(eqn).size, False)]
        depends = any(x in made for x in eqn.invars)
        found += [(size, chained or depends) for size, chained in inner]
        if inner or depends:
            made.update(eqn.outvars)
    return found


def _num_rows(eqn: Eqn) -> int:
    side = _side(eqn)
    return 0 if side is None else eqn.invars[side[0]].aval.shape[side[1]]


def _side(eqn: Eqn) -> tuple[int, int] | None:
    """The operand with few rows, and the axis that they lie along."""
    contract, batch = eqn.params["dimension_numbers"]
    if batch[0]:
        return None
    found: list[tuple[int, int, int]] = []
    for k, x in enumerate(eqn.invars):
        free = free_axes(x.aval.ndim, contract[k], ())
        if len(free) == 1 and x.aval.shape[free[0]] <= MAX_ROWS:
            found.append((x.aval.shape[free[0]], k, free[0]))
    return min(found)[1:] if found else None


@cached_on_jaxpr
def by_rows(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its small products written by rows or as sums, also inside of loops and branches."""
    eqns: list[Eqn] = []
    names: dict[Any, Atom] = {}
    for eqn in jaxpr.eqns:
        eqn = substitute(eqn, names)
        rewrite = _rewriting(eqn)
        if rewrite is not None:
            more, (result,) = equations_of(
                lambda x, y, eqn=eqn, rewrite=rewrite: [rewrite(eqn, x, y)], eqn.invars, eqn.source
            )
            names[eqn.outvars[0]] = result
            eqns += more
        else:
            eqns.append(eqn.map_jaxprs(by_rows))
    return Jaxpr(jaxpr.invars, eqns, [names.get(x, x) for x in jaxpr.outvars], jaxpr.name)


def _rewriting(eqn: Eqn) -> Callable[..., Any] | None:
    if eqn.primitive is not dot_general_p:
        return None
    if becomes_sum(eqn):
        return _sum_of_products
    return _by_vectors if product_of(eqn).in_library and has_few_rows(eqn) else None


def _sum_of_products(eqn: Eqn, x: Any, y: Any) -> Any:
    """The product with axes in the order batch, free, summed over."""
    (x_contract, y_contract), (x_batch, y_batch) = eqn.params["dimension_numbers"]
    x_free = free_axes(aval_of(x).ndim, x_contract, x_batch)
    y_free = free_axes(aval_of(y).ndim, y_contract, y_batch)
    shape = eqn.outvars[0].aval.shape
    whole = (*shape, *(aval_of(x).shape[i] for i in x_contract))
    first, last = len(x_batch), len(shape)
    places = range(len(whole))
    x_wide = _spread(
        x, whole, (*x_batch, *x_free, *x_contract), [*places[: first + len(x_free)], *places[last:]]
    )
    y_wide = _spread(
        y, whole, (*y_batch, *y_free, *y_contract), [*places[:first], *places[first + len(x_free) :]]
    )
    return reduce_sum_p.bind(mul(x_wide, y_wide), axes=tuple(places[last:]))


def _spread(x: Any, shape: tuple[int, ...], order: tuple[int, ...], places: list[int]) -> Any:
    """`x` with its axes in this order at these places, repeated along the others."""
    return broadcast_in_dim(transpose(x, order), shape, tuple(places))


def _by_vectors(eqn: Eqn, *operands: Any) -> Any:
    side = _side(eqn)
    assert side is not None
    k, axis = side
    contract, batch = eqn.params["dimension_numbers"]
    numbers = list(contract)
    numbers[k] = tuple([i - (i > axis) for i in contract[k]])
    params = {**eqn.params, "dimension_numbers": (tuple(numbers), batch)}
    shape = list(eqn.outvars[0].aval.shape)
    place = 0 if k == 0 else len(shape) - 1
    shape[place] = 1
    aval = aval_of(operands[k])
    rest = aval.shape[:axis] + aval.shape[axis + 1 :]
    rows: list[Any] = []
    for i in range(aval.shape[axis]):
        vector = reshape(slice_axis(operands[k], i, i + 1, axis), rest)
        pair = (vector, operands[1]) if k == 0 else (operands[0], vector)
        rows.append(reshape(dot_general_p.bind(*pair, **params), tuple(shape)))
    return concatenate_p.bind(*rows, dimension=place)
