"""Products of matrices in a loop's body, split into a part that needs the carry and a part that does not.

    concatenate([x, h]) @ w        becomes        x @ w[:n] + h @ w[n:]
    (x @ u + h @ w)[:, :n]         becomes        x @ u[:, :n] + (h @ w)[:, :n]
    (h @ w)[:, :n], read alone     becomes        h @ w[:, :n]

Here `x` does not need the carry, so that `hoist.py` can then move its products out of the loop. The second form
matters because XLA vectorises a kernel that reads rows of stacks only if it reads each row in one place: with gates
that are slices of one row, an LSTM takes twice as long.
Read next: `hoist.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any, TypeGuard

from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.passes.loops.one_function import is_small
from didax.passes.loops.rewrite import definitions, equations_of, num_bytes, substitute, uses
from didax.passes.loops.rows import product_of
from didax.primitives.convert import convert_element_type_p
from didax.primitives.dot import dot_general_p, free_axes
from didax.primitives.elementwise import add
from didax.primitives.families import Elementwise
from didax.primitives.select import select_n_p
from didax.primitives.shape import broadcast_in_dim_p, reshape_p, transpose_p
from didax.primitives.slicing import concatenate, concatenate_p, rev_p, slice_, slice_axis, slice_p

CALL = 350.0  # nanoseconds to start a product, besides its multiplications
MULTIPLICATION = 0.014  # nanoseconds saved by a second core, which a product of all steps keeps busy
BYTE = 0.04  # nanoseconds to write a byte of the product before the loop, and to read it in a step
FACTOR_BYTE = 0.25  # the same for a factor that is computed: a step would find it in the cache
ONE_CORE = 1 << 19  # multiplications in a product that XLA leaves to one core
FAR = 1 << 20  # bytes of weights that stay in no cache of a core
PART = 20_000.0  # nanoseconds that all steps have to save by a part: XLA compiles several products in place of one
PARTS = (concatenate_p, slice_p)
_MOVES = (broadcast_in_dim_p, convert_element_type_p, reshape_p, rev_p, select_n_p, transpose_p, *PARTS)
_SPLIT_DTYPES = ("float32", "float64", "complex64", "complex128")  # precise enough to be summed in parts


def gain(eqn: Eqn) -> float:
    """Nanoseconds that a step saves if the product is computed for all steps at once, besides `CALL`."""
    return MULTIPLICATION * product_of(eqn).size - BYTE * num_bytes(eqn.outvars[0].aval)


def call_cost(scan: Eqn) -> float:
    """What it costs to start a product in a step of the scan: nothing where the loop is one function."""
    return 0.0 if is_small(scan) else CALL


def is_product(eqn: Eqn | None) -> TypeGuard[Eqn]:
    """Whether the equation is a product of matrices without batch axes."""
    return eqn is not None and eqn.primitive is dot_general_p and not eqn.params["dimension_numbers"][1][0]


class CarryFree:
    """The values of a body that do not need the carry, and which products of them pay if computed before the loop."""

    def __init__(self, consts: Iterable[Any], rows: Iterable[Any], call: float, steps: int = 1) -> None:
        self.steady = set(consts)  # the values that are the same at every step
        self.rows = set(rows)
        self.values = self.steady | self.rows
        self.call = call
        self.steps = steps

    def grow(self, eqns: Sequence[Eqn]) -> None:
        """Add what these equations compute from such values."""
        for eqn in filter(may_move, eqns):
            operands = [x for x in eqn.invars if type(x) is Var]
            if self.values.issuperset(operands):
                self.values.update(eqn.outvars)
            if self.steady.issuperset(operands):
                self.steady.update(eqn.outvars)

    def pays_whole(self, eqn: Eqn) -> bool:
        """Whether the equation is a product that is better computed before the loop."""
        return self._has_product(eqn) and self._gain(eqn) + self.call > 0

    def pays_in_part(self, eqn: Eqn) -> bool:
        """Whether that also pays for a part that is split off a product: it saves no start of a kernel."""
        if not self._has_product(eqn) or self._gain(eqn) * self.steps < PART:
            return False
        far = max(num_bytes(x.aval) for x in eqn.invars) >= FAR
        return far or product_of(eqn).size <= ONE_CORE

    def _has_product(self, eqn: Eqn) -> bool:
        return is_product(eqn) and eqn.outvars[0] in self.values

    def _gain(self, eqn: Eqn) -> float:
        computed = {x for x in eqn.invars if type(x) is Var}.difference(self.steady, self.rows)
        return gain(eqn) - FACTOR_BYTE * sum(num_bytes(x.aval) for x in computed)


def split_products(body: Jaxpr, carry_free: CarryFree) -> Jaxpr:
    """The body with its products split, or the same object if that gains nothing.

    `carry_free` grows by the values of the body that do not need the carry.
    """
    return _slices_of_terms(_products_of_parts(body, carry_free), carry_free)


def may_move(eqn: Eqn) -> bool:
    """Whether the equation is a product, or arithmetic on elements, or moves them."""
    return eqn.primitive in _MOVES or isinstance(eqn.primitive, Elementwise) or is_product(eqn)


# --- Products of concatenated parts ----------------------------------------------------------------


def _products_of_parts(body: Jaxpr, carry_free: CarryFree) -> Jaxpr:
    eqns: list[Eqn] = []
    names: dict[Any, Atom] = {}
    made_by = definitions(body)
    for eqn in body.eqns:
        new = [substitute(eqn, names)]
        side = _mixed_side(new[0], made_by, carry_free)
        if side is not None:
            joined = substitute(made_by[new[0].invars[side]], names)
            parts, (total,) = _by_parts(new[0], side, joined, carry_free)
            carry_free.grow(parts)
            if any(map(carry_free.pays_in_part, parts)):
                new, names[eqn.outvars[0]] = parts, total
        carry_free.grow(new)
        eqns += new
    return Jaxpr(body.invars, eqns, [names.get(x, x) for x in body.outvars], body.name) if names else body


def _mixed_side(eqn: Eqn, made_by: dict[Any, Eqn], carry_free: CarryFree) -> int | None:
    """The operand that is a concatenation, along a summed axis, of parts that need the carry and of others."""
    if not is_product(eqn) or eqn.outvars[0].aval.dtype.name not in _SPLIT_DTYPES:
        return None
    for k, x in enumerate(eqn.invars):
        parts = made_by.get(x)
        if parts is not None and parts.primitive is concatenate_p:
            summed = parts.params["dimension"] in eqn.params["dimension_numbers"][0][k]
            if summed and len({p in carry_free.values for p in parts.invars}) == 2:
                return k
    return None


def _by_parts(eqn: Eqn, k: int, parts: Eqn, carry_free: CarryFree) -> tuple[list[Eqn], list[Atom]]:
    """The product as a sum of products, of neighbouring parts that all need the carry or all do not."""
    axis = parts.params["dimension"]
    contract = eqn.params["dimension_numbers"][0]
    other_axis = contract[1 - k][contract[k].index(axis)]
    counts = [len(list(group)) for _, group in groupby(parts.invars, lambda x: x in carry_free.values)]
    stops = [0, *accumulate(counts)]

    def total(other: Any, *xs: Any) -> list[Any]:
        terms: list[Any] = []
        begin = 0
        for i, j in pairwise(stops):
            end = begin + sum(x.shape[axis] for x in xs[i:j])
            pair = [slice_axis(other, begin, end, other_axis)]
            pair.insert(k, concatenate(xs[i:j], axis))
            terms.append(dot_general_p.bind(*pair, **eqn.params))
            begin = end
        result = terms[0]
        for term in terms[1:]:
            result = add(result, term)
        return [result]

    return equations_of(total, [eqn.invars[1 - k], *parts.invars], eqn.source)


# --- Slices of sums and of products ----------------------------------------------------------------


def _slices_of_terms(body: Jaxpr, carry_free: CarryFree) -> Jaxpr:
    terms = _Terms(body, carry_free)
    eqns: list[Eqn] = []
    names: dict[Any, Atom] = {}
    for eqn in body.eqns:
        if eqn.primitive is slice_p and terms.is_better_sliced(eqn.invars[0]):
            more, total = terms.sliced(eqn.invars[0], eqn)
            more = [substitute(e, names) for e in more]  # a term may read a slice that has another name now
            names[eqn.outvars[0]] = total
            carry_free.grow(more)
            eqns += more
        else:
            eqns.append(substitute(eqn, names))
    return Jaxpr(body.invars, eqns, [names.get(x, x) for x in body.outvars], body.name) if names else body


class _Terms:
    """The sums and products of a body, and who reads them."""

    def __init__(self, body: Jaxpr, carry_free: CarryFree) -> None:
        self.eqns = body.eqns
        self.made_by = definitions(body)
        self.count = uses(body)
        self.slices = Counter([eqn.invars[0] for eqn in body.eqns if eqn.primitive is slice_p])
        self.moved = {eqn.outvars[0] for eqn in body.eqns if carry_free.pays_whole(eqn)}
        self.with_moved = set(self.moved)  # these products, and the sums that have one as a term
        for eqn in body.eqns:
            if _is_sum(eqn) and not self.with_moved.isdisjoint(eqn.invars):
                self.with_moved.update(eqn.outvars)

    def is_better_sliced(self, x: Any) -> bool:
        """Whether only slices read `x`, and they are better computed from slices of its terms or factors."""
        if self.count[x] != self.slices[x]:
            return False
        return x in self.with_moved or (self._is_read_once(x) and is_product(self.made_by.get(x)))

    def _is_read_once(self, x: Any) -> bool:
        return self.count[x] == self.slices[x] == 1

    def sliced(self, x: Atom, cut: Eqn) -> tuple[list[Eqn], Atom]:
        """The equations of the slice of `x` as a sum of slices of its terms, and its name."""
        sums = self._sums(x)
        terms = dict.fromkeys([x, *(y for eqn in sums for y in eqn.invars)])
        eqns: list[Eqn] = []
        parts: dict[Any, Atom] = {}
        for y in terms:
            if self.made_by.get(y) not in sums:
                more, (parts[y],) = self._sliced_term(y, cut)
                eqns += more
        for eqn in sums:
            pair = [parts[y] for y in eqn.invars]
            more, (parts[eqn.outvars[0]],) = equations_of(lambda *pair: [add(*pair)], pair, eqn.source)
            eqns += more
        return eqns, parts[x]

    def _sums(self, x: Atom) -> list[Eqn]:
        """The additions that `x` is made by, in the order of the body."""
        found: set[Eqn] = set()
        todo = [x]
        while todo:
            eqn = self.made_by.get(todo.pop())
            if _is_sum(eqn) and eqn not in found:
                found.add(eqn)
                todo += eqn.invars
        return [eqn for eqn in self.eqns if eqn in found]

    def _sliced_term(self, x: Atom, cut: Eqn) -> tuple[list[Eqn], list[Atom]]:
        eqn = self.made_by.get(x)
        if is_product(eqn) and (self._is_read_once(x) or x in self.moved):
            return equations_of(lambda *pair: [_sliced_product(eqn, cut, *pair)], eqn.invars, eqn.source)
        return equations_of(lambda y: [slice_p.bind(y, **cut.params)], [x], cut.source)


def _is_sum(eqn: Eqn | None) -> TypeGuard[Eqn]:
    if eqn is None or eqn.primitive is not add:
        return False
    return eqn.invars[0].aval.shape == eqn.invars[1].aval.shape


def _sliced_product(eqn: Eqn, cut: Eqn, x: Any, y: Any) -> Any:
    """A slice of the product as a product of slices."""
    starts, limits, strides = (cut.params[name] for name in ("start_indices", "limit_indices", "strides"))
    ranges = list(zip(starts, limits, strides or (1,) * len(starts), strict=True))
    x_contract, y_contract = eqn.params["dimension_numbers"][0]
    x_free, y_free = free_axes(len(x.shape), x_contract, ()), free_axes(len(y.shape), y_contract, ())
    parts = _cut(x, x_free, ranges[: len(x_free)]), _cut(y, y_free, ranges[len(x_free) :])
    return dot_general_p.bind(*parts, **eqn.params)


def _cut(x: Any, axes: Sequence[int], ranges: Sequence[tuple[int, int, int]]) -> Any:
    """`x` with these ranges of these axes."""
    if not axes:
        return x  # It may be a scalar, which has no slices.
    along = dict(zip(axes, ranges, strict=True))
    starts, limits, strides = zip(*[along.get(i, (0, n, 1)) for i, n in enumerate(x.shape)], strict=True)
    return slice_(x, starts, limits, strides)
