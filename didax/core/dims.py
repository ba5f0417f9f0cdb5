"""Dimensions that are known by name only: `f32[b,2*b]`, for programs that are exported for all `b`.

    Dim = integer polynomial in variables and in floordiv, mod, max and min of such

A `Dim` stands where shapes have ints, with their arithmetic. Each variable is from 1 to `LONGEST`. A constant
polynomial becomes an int: `b - b + 3` is 3. Two dimensions are equal if they are the same polynomial. Bounds (of the
variables, and by the constraints of their `Scope`) decide which of two is larger; where they do not, the comparison
raises InconclusiveDimensionOperation, which names the expression and the fix.
`parse_dims` reads texts, and computes them where the variables have sizes.
Read next: `didax/export/_symbolic.py`, where users make them; `primitives/dimension.py`, where they become numbers.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from math import inf
from typing import Any, Final, NamedTuple, cast

from didax.core.errors import InconclusiveDimensionOperation, message
from didax.core.given import given_by

LONGEST: Final = 2**31 - 1
"""No axis is longer; each call of an exported program checks that."""


class Factor(NamedTuple):
    """A variable (`op` is its name, no `args`), or floordiv, mod, max or min of two sizes."""

    op: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})" if self.args else self.op


# Factors with their powers, sorted by their texts; () is the constant 1.
Monomial = tuple[tuple[Factor, int], ...]
Terms = dict[Monomial, int]
Size = Any  # int or Dim


class Constraint(NamedTuple):
    """What the caller promises: `size >= 0`, or `== 0`, with the text to show."""

    size: Size
    equal: bool
    text: str


class Scope:
    """What is known of variables that are used together. Compared by identity."""

    def __init__(self, longest: Mapping[str, int] | None = None) -> None:
        self.constraints: tuple[Constraint, ...] = ()
        self.same: dict[Monomial, Size] = {}  # products that the caller says are equal to a simpler size
        # Sizes that are at least 0 because of what floordiv, mod, ... on the left side of a constraint mean.
        self.implied: tuple[Size, ...] = ()
        self.longest = dict(longest or {})  # the largest sizes of variables, where they are below LONGEST

    def settle(self, x: Dim) -> bool | None:
        """Whether x >= 0 where bounds do not decide; None if that is unknown. `api/buckets.py` knows the sizes."""
        return None

    def told_apart(self, x: Dim, other: object) -> None:
        """Called when == has said that two sizes differ because they are different expressions."""


class Dim:
    """A size that is no int. Immutable; made by `size_of` and by arithmetic."""

    __slots__ = ("_hash", "scope", "terms")
    __array_ufunc__ = None  # NumPy's scalars leave arithmetic to this class
    __jax_array__ = given_by("didax.primitives.dimension")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], scope: Scope):
        self.terms = terms
        self.scope = scope
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        equal = (
            isinstance(other, Dim)
            and self._hash == other._hash
            and self.terms == other.terms
            and self.scope is other.scope
        )
        if not equal:
            self.scope.told_apart(self, other)
        return equal

    def __repr__(self) -> str:
        text = ""
        for monomial, factor in self.terms:
            parts = [str(f) if power == 1 else f"{f}^{power}" for f, power in monomial]
            size = abs(factor)
            body = "*".join([*([str(size)] if size != 1 or not parts else []), *parts])
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            text += sign + body
        return text

    # --- Arithmetic

    def __add__(self, other: Any) -> Any:
        return (
            self.__jax_array__() + other if isinstance(other, float | complex) else _combined(self, other, 1)
        )

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __neg__(self) -> Size:
        return self * -1

    def __pos__(self) -> Size:
        return self

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float | complex):
            return self.__jax_array__() * other
        other = _as_size(other)
        if other is NotImplemented:
            return NotImplemented
        terms: Terms = {}
        for m, a in self.terms:
            for n, b in _terms(other).items():
                product = _times(m, n)
                terms[product] = terms.get(product, 0) + a * b
        return size_of(terms, common_scope(self, other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, float | complex):
            return self.__jax_array__() ** power
        return functools.reduce(operator.mul, [self] * operator.index(power), 1)

    def __floordiv__(self, other: Any) -> Size:
        return _pair(floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Size:
        return _pair(floordiv, other, self)

    def __mod__(self, other: Any) -> Size:
        return _pair(mod, self, other)

    def __rmod__(self, other: Any) -> Size:
        return _pair(mod, other, self)

    def __divmod__(self, other: Any) -> tuple[Size, Size]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Size, Size]:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self.__jax_array__() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__jax_array__()

    def __abs__(self) -> Size:
        return max_dim(self, -self)

    # --- Order

    def __ge__(self, other: Any) -> bool:
        return _decide(self, other, ">=")

    def __gt__(self, other: Any) -> bool:
        return _decide(self, other, ">")

    def __le__(self, other: Any) -> bool:
        return _decide(self, other, "<=")

    def __lt__(self, other: Any) -> bool:
        return _decide(self, other, "<")

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0:
            return True
        positive = self.scope.settle(self - 1)
        if positive is None:
            raise _inconclusive(f"{self} != 0", f"{self} >= 1")
        return positive or bool(self.scope.settle(-self - 1))

    # --- What only an int can be

    def _no_int(self) -> Any:
        rule = "A symbolic dimension has no value while the program is traced."
        fix = "Compute with shapes by + - * // % and didax.core.max_dim, loop along an axis with didax.lax.scan or "
        fix += "map, or give an int for this dimension: export with one, or leave it out of bucket=."
        raise InconclusiveDimensionOperation(message(rule, f"dimension: {self}", fix=fix))

    __int__ = __index__ = __float__ = __complex__ = _no_int


def is_symbolic(x: Any) -> bool:
    """Whether a size is no int."""
    return type(x) is Dim


def way_to_equal(x: Any, y: Any) -> str:
    """What makes sizes equal that differ as expressions; the empty text for numbers."""
    if not is_symbolic(x - y):
        return ""
    return f'If they are always equal, say so: symbolic_shape(..., constraints=["{x} == {y}"]).'


def as_length(n: Any) -> Any:
    """The length of an axis: a `Dim` as it is, any other integer as an int."""
    return n if type(n) is Dim else operator.index(n)


def size_of(terms: Mapping[Monomial, int], scope: Scope | None) -> Size:
    """The int or Dim of a sum of products."""
    if scope is not None:
        for m in [m for m in terms if m in scope.same]:
            rest = dict(terms)
            return (
                size_of(rest, scope) if not (a := rest.pop(m)) else size_of(rest, scope) + scope.same[m] * a
            )
    kept = {m: a for m, a in terms.items() if a}
    if not kept or (len(kept) == 1 and () in kept):
        return kept.get((), 0)
    assert scope is not None
    order = sorted(kept, key=lambda m: (-sum(p for _, p in m), [(str(f), p) for f, p in m]))
    return Dim(tuple([(m, kept[m]) for m in order]), scope)


def variable(name: str, scope: Scope) -> Size:
    """The size that a name stands for."""
    return size_of({((Factor(name), 1),): 1}, scope)


def _as_size(x: Any) -> Any:
    if isinstance(x, Dim):
        return x
    if hasattr(x, "aval") or isinstance(x, float | complex):
        return NotImplemented  # an array: the dimension becomes a number in it
    try:
        return operator.index(x)
    except TypeError:
        return NotImplemented


def _terms(x: Size) -> Terms:
    return dict(x.terms) if isinstance(x, Dim) else {(): x}


def common_scope(*sizes: Any) -> Scope | None:
    """The scope of the symbolic sizes among these; ValueError if they are of several scopes."""
    found = [x for x in sizes if isinstance(x, Dim)]
    for x in found[1:]:
        if x.scope is not found[0].scope:
            rule = "Symbolic dimensions that meet come from one scope."
            fix = "Make all shapes by one symbolic_args_specs, or pass scope=SymbolicScope() to each symbolic_shape."
            raise ValueError(message(rule, f"dimensions: {found[0]} and {x}", fix=fix))
    return found[0].scope if found else None


def _times(m: Monomial, n: Monomial) -> Monomial:
    powers = dict(m)
    for factor, power in n:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _combined(x: Dim, other: Any, sign: int) -> Size:
    other = _as_size(other)
    if other is NotImplemented:
        return NotImplemented
    terms = _terms(x)
    for m, a in _terms(other).items():
        terms[m] = terms.get(m, 0) + sign * a
    return size_of(terms, common_scope(x, other))


def _pair(f: Callable[[Size, Size], Size], x: Any, y: Any) -> Size:
    x, y = _as_size(x), _as_size(y)
    return NotImplemented if NotImplemented in (x, y) else f(x, y)


def _atom(op: str, x: Size, y: Size) -> Size:
    return size_of({((Factor(op, (x, y)), 1),): 1}, common_scope(x, y))


def floordiv(x: Size, y: Size) -> Size:
    """x // y; what divides evenly comes out of the quotient."""
    if not isinstance(x, Dim) and not isinstance(y, Dim):
        return x // y
    if not isinstance(y, Dim) and y < 0:
        return floordiv(-x, -y)
    if isinstance(x, Dim) and not isinstance(y, Dim) and (found := _quotient_of_choice(x, y)) is not None:
        return found
    whole, rest = _divided(x, y)
    if isinstance(rest, Dim) or isinstance(y, Dim):
        return whole + _quotient_of_rest(*_one_quotient(rest, y))
    return whole + rest // y


def _quotient_of_choice(x: Dim, y: int) -> Size | None:
    """x // y where x has a term a * max(p, q), or min, and the order of the quotients for p and for q is known.

    Quotients grow with x, so that of the larger is the larger: -max(2*n - 1, 0) // 2 is -n.
    """
    for factor in _choices(x):
        monomial = ((factor, 1),)
        if not (a := _terms(x).get(monomial, 0)):
            continue  # a factor of a product
        rest = x - size_of({monomial: a}, x.scope)
        first, second = [floordiv(rest + a * size, y) for size in factor.args]
        low, high = bounds(first - second)
        if low >= 0 or high <= 0:
            return first if (low >= 0) == ((factor.op == "max") == (a > 0)) else second
    return None


def _quotient_of_rest(x: Size, y: Size) -> Size:
    """x // y where y divides no term of x; an int if the bounds leave only one value."""
    low, high = bounds(x)
    if isinstance(y, Dim):
        return 0 if low >= 0 and bounds(x - y)[1] < 0 else _atom("floordiv", x, y)
    only = y > 0 and inf not in (-low, high) and low // y == high // y
    return int(low // y) if only else _atom("floordiv", x, y)


def _one_quotient(x: Size, y: Size) -> tuple[Size, Size]:
    """x and y, where x is floordiv(a, p) + r: a + r * p and p * y, which have the same quotient."""
    terms = _terms(x)
    rest = terms.pop((), 0)
    if isinstance(y, Dim) or y < 1 or list(terms.values()) != [1]:
        return x, y
    ((factor, power), *others) = next(iter(terms))
    if factor.op != "floordiv" or not factor.args or power != 1 or others:
        return x, y
    a, p = factor.args
    return (x, y) if isinstance(p, Dim) or p < 1 else (a + rest * p, p * y)


def mod(x: Size, y: Size) -> Size:
    """x % y."""
    if not isinstance(x, Dim) and not isinstance(y, Dim):
        return x % y
    _, rest = _divided(x, y)
    if not isinstance(rest, Dim) and not isinstance(y, Dim):
        return rest % y
    below = rest == 0 or (bounds(rest)[0] >= 0 and bounds(rest - y)[1] < 0)
    return rest if below else _atom("mod", rest, y)


def _divided(x: Size, y: Size) -> tuple[Size, Size]:
    """A quotient and the rest of x whose terms y does not divide: x == quotient * y + rest."""
    if not isinstance(y, Dim):
        if y == 0:
            raise ZeroDivisionError("a dimension is divided by 0")
        terms = _terms(x)
        whole, rest = {m: a // y for m, a in terms.items()}, {m: a % y for m, a in terms.items()}
        return size_of(whole, common_scope(x)), size_of(rest, common_scope(x))
    quotient: Size = 0
    rest = x
    leading, factor = y.terms[0]
    for _ in range(len(_terms(x)) * 4):  # long division; each step removes a leading term
        for m, a in _terms(rest).items():
            part = _without(m, leading)
            if part is not None and a % factor == 0:
                step = size_of({part: a // factor}, y.scope)
                quotient, rest = quotient + step, rest - step * y
                break
        else:
            break
    if rest == 0:
        return quotient, rest
    low, below = bounds(rest)[0], bounds(rest - y)[1]
    if low >= 0 and below < 0:
        return quotient, rest
    if bounds(rest)[1] < 0 and bounds(rest + y)[0] >= 0:
        return quotient - 1, rest + y
    return 0, x


def _without(m: Monomial, n: Monomial) -> Monomial | None:
    powers = dict(m)
    for factor, power in n:
        powers[factor] = powers.get(factor, 0) - power
    if any(p < 0 for p in powers.values()):
        return None
    return tuple([(f, p) for f, p in powers.items() if p])


def max_dim(d1: Size, d2: Size) -> Size:
    """The larger of two sizes, as an expression where their order is not known."""
    return _first_or_second("max", d1, d2, d1 - d2)


def min_dim(d1: Size, d2: Size) -> Size:
    """The smaller of two sizes, as an expression where their order is not known."""
    return _first_or_second("min", d1, d2, d2 - d1)


def _first_or_second(op: str, x: Size, y: Size, lead: Size) -> Size:
    """x if `lead` is never negative, y if it is never positive; otherwise an expression, the same for either order."""
    low, high = bounds(lead)
    if low >= 0 or high <= 0:
        return x if low >= 0 else y
    return _atom(op, *sorted([x, y], key=lambda size: (not isinstance(size, Dim), str(size))))


def may_exceed(x: Size, y: Size) -> bool:
    """Whether x > y; for symbolic sizes, whether x > y may hold."""
    return bool(x > y) if not isinstance(x, Dim) and not isinstance(y, Dim) else bounds(x - y)[1] > 0


def longest(n: Size) -> int:
    """The largest value that the length of an axis can have."""
    return int(min(bounds(n)[1], LONGEST))


def is_count(x: Any, least: int = 1) -> bool:
    """Whether a value is an integer, which a boolean is not, and not below the least one that is allowed."""
    try:
        return not isinstance(x, bool) and operator.index(x) >= least
    except TypeError:
        return False


def lengths_of(shape: Any) -> tuple[Size, ...]:
    """The lengths in a shape, which is a single length or any iterable of them; TypeError for anything else."""
    if hasattr(shape, "__iter__") and getattr(shape, "ndim", 1):
        return tuple(map(as_length, shape))
    return (as_length(shape),)


def broadcast_lengths(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """The shape to which shapes broadcast by NumPy's rules; None where there is none."""
    ndim = max([len(shape) for shape in shapes], default=0)
    columns = zip(*[(1,) * (ndim - len(shape)) + shape for shape in shapes], strict=True)
    lengths = [set(column) - {1} or {1} for column in columns]
    return None if any([len(found) > 1 for found in lengths]) else tuple([found.pop() for found in lengths])


def slice_of(item: slice, n: Size) -> tuple[Size, Size, int]:
    """Start, length and step of a slice of an axis of length n, as NumPy reads it."""
    step = 1 if item.step is None else operator.index(item.step)
    if not step:
        raise ValueError("a slice has a step other than 0")
    lowest, highest = (0, n) if step > 0 else (-1, n - 1)

    def bound(i: Any, default: Size) -> Size:
        if i is None:
            return default
        i = as_length(i)
        return max_dim(i + n, lowest) if i < 0 else min_dim(i, highest)

    start = bound(item.start, lowest if step > 0 else highest)
    stop = bound(item.stop, highest if step > 0 else lowest)
    return start, max_dim(-floordiv(start - stop, step), 0), step


# --- Bounds -------------------------------------------------------------------------------------------------

Bounds = tuple[float, float]


def _decide(x: Dim, other: Any, relation: str) -> Any:
    other = _as_size(other)
    if other is NotImplemented:
        return NotImplemented
    left = {">=": x - other, ">": x - other - 1, "<=": other - x, "<": other - x - 1}[relation]
    low, high = bounds(left)
    if low >= 0 or high < 0:
        return low >= 0
    holds = x.scope.settle(left)
    if holds is None:
        texts = {">=": f">= {other}", ">": f">= {other + 1}", "<=": f"<= {other}", "<": f"<= {other - 1}"}
        raise _inconclusive(f"{x} {relation} {other}", f"{x} {texts[relation]}")
    return holds


def _inconclusive(question: str, constraint: str) -> InconclusiveDimensionOperation:
    rule = f"Whether {question} depends on the sizes of symbolic dimensions."
    fix = (
        f'If it always holds, say so: symbolic_shape(..., constraints=["{constraint}"]); '
        "else compute with didax.core.max_dim and min_dim."
    )
    return InconclusiveDimensionOperation(message(rule, fix=fix))


def bounds(x: Size) -> Bounds:
    """The least and the largest value that a size can have, as far as that is found; infinite ones are floats."""
    if not isinstance(x, Dim):
        return x, x
    return _bounds_within(x, x.scope.constraints, _steps_left.get())


# Bounds follow from facts about sizes. A fact refers to other sizes, whose bounds are found in the same way. Each use
# of a fact is one step, and at most this many steps follow one another. Bounds of operands of floordiv, mod, ... take
# no step.
_steps_left = ContextVar("steps_left", default=4)


@functools.lru_cache(maxsize=4096)
def _bounds_within(x: Dim, _constraints: tuple[Constraint, ...], steps: int) -> Bounds:
    depth = min(2, steps)
    return _lowest(x, depth), -_lowest(-x, depth)


def _lowest(x: Size, depth: int) -> float:
    """A lower bound: by its terms, or by what is left when a size that is not negative is taken off."""
    if not isinstance(x, Dim):
        return x
    best = sum([_scaled(_product_bounds(m, x.scope), a)[0] for m, a in x.terms])
    if not depth:
        return best
    before = _steps_left.set(_steps_left.get() - 1)
    try:
        return max(best, _lowest_by_what_is_known(x, depth - 1))
    finally:
        _steps_left.reset(before)


def _lowest_by_what_is_known(x: Dim, depth: int) -> float:
    best = -inf
    for choice in _choices(x):  # a choice equals one of its two sizes
        either = [_lowest(evaluate(x, {str(choice): size}), depth) for size in choice.args]
        linear = dict(x.terms).get(((choice, 1),), 0)
        alone = sum(choice in dict(m) for m, _ in x.terms) == 1 and linear
        best = max(best, max(either) if alone and (choice.op == "max") == (linear > 0) else min(either))
    for known in _known(x):
        for m, a in known.terms:
            b = dict(x.terms).get(m, 0)
            if m and b * a > 0:
                found = _lowest(x * abs(a) - known * abs(b), depth) / abs(a)
                best = max(best, -((-found) // 1) if found != -inf else found)
    return best


def _choices(x: Dim) -> list[Factor]:
    """The max and min among the factors of a size."""
    return [factor for m, _ in x.terms for factor, _ in m if factor.op in ("max", "min")]


def _known(x: Dim) -> list[Dim]:
    """Sizes that are at least 0: by the constraints of the scope, and by what products, floordiv, mod, ... mean."""
    found: list[Any] = list(x.scope.implied)
    for constraint in x.scope.constraints:
        found += [constraint.size, -constraint.size] if constraint.equal else [constraint.size]
    for monomial, _ in x.terms:
        positive = len(monomial) > 1 and all(
            _factor_bounds(factor, x.scope)[0] >= 1 for factor, _ in monomial
        )
        for factor, _power in monomial:
            if positive:  # a product is at least what is left without one of its factors
                rest = _without(monomial, ((factor, 1),)) or ()
                found.append(size_of({monomial: 1, rest: -1}, x.scope))
            if factor.args:
                found += meaning(factor, size_of({((factor, 1),): 1}, x.scope))
    return [size for size in found if isinstance(size, Dim)]


def meaning(factor: Factor, value: Size) -> list[Size]:
    """Sizes that are at least 0 where the factor, no variable, has a value."""
    x, y = factor.args
    if factor.op == "max":
        return [value - x, value - y]
    if factor.op == "min":
        return [x - value, y - value]
    if bounds(y)[0] < 1:
        return []
    if factor.op == "mod":
        return [value, y - 1 - value, *([x - value] if bounds(x)[0] >= 0 else [])]
    return [x - value * y, value * y + y - 1 - x]


def _product_bounds(monomial: Monomial, scope: Scope) -> Bounds:
    found: Bounds = (1, 1)
    for factor, power in monomial:
        for _ in range(power):
            found = _interval(found, _factor_bounds(factor, scope))
    return found


def _interval(x: Bounds, y: Bounds) -> Bounds:
    ends = [0 if 0 in (a, b) else a * b for a in x for b in y]
    return min(ends), max(ends)


def _scaled(x: Bounds, a: int) -> Bounds:
    return _interval(x, (a, a))


def _factor_bounds(factor: Factor, scope: Scope) -> Bounds:
    if not factor.args:
        return 1, scope.longest.get(factor.op, LONGEST)
    (a, b), (c, d) = map(bounds, factor.args)
    match factor.op:
        case "max":
            return max(a, c), max(b, d)
        case "min":
            return min(a, c), min(b, d)
        case "mod":
            return (
                (0, min(d - 1, b) if a >= 0 else d - 1)
                if c > 0
                else (c + 1 if d < 0 else -inf, 0 if d < 0 else inf)
            )
        case _:
            if c <= 0:
                return -inf, inf
            ends = [_quotient(p, q) for p in (a, b) for q in (c, d)]
            return min(ends), max(ends)


def _quotient(p: float, q: float) -> float:
    if q == inf:
        return 0 if p >= 0 else -1
    return p if p in (inf, -inf) else p // q


# --- Text ---------------------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[[Size, Size], Size]] = {
    "floordiv": floordiv,
    "mod": mod,
    "max": max_dim,
    "min": min_dim,
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda x, y: x // y,
    ast.Mod: operator.mod,
    ast.Pow: lambda x, y: x**y,
}


def parse_dims(text: str, names: Callable[[str], Size]) -> tuple[Size, ...]:
    """The sizes of expressions such as "2*b + max(n, 3), 4", with what their variables stand for."""
    node = parse_expression(f"({text},)", text)
    return tuple([compute(item, names) for item in node.elts]) if isinstance(node, ast.Tuple) else ()


def parse_expression(text: str, written: str | None = None) -> ast.expr:
    """The tree of an expression over sizes; ValueError for text that is none, which shows what was `written`."""
    try:
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise not_a_size(text if written is None else written) from None


def not_a_size(text: str) -> ValueError:
    """The error for text that is no expression over sizes."""
    rule = "A symbolic dimension is written with names, ints, + - * ^ // %, floordiv, mod, max and min."
    return ValueError(
        message(
            rule,
            f"dimension: {text:.100}",
            fix='Write it like "2*b" or "max(b, 3) - 1", with commas between dimensions.',
        )
    )


def compute(node: ast.expr, names: Callable[[str], Size]) -> Size:
    """The size of a tree."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return names(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -compute(inner, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](compute(left, names), compute(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name in _FUNCTIONS and len(args) == 2
        ):
            return _FUNCTIONS[name](*[compute(arg, names) for arg in args])
        case _:
            raise not_a_size(ast.unparse(node))


def variables(sizes: Iterable[Any]) -> list[str]:
    """The names in sizes, in the order of their first use."""
    found: dict[str, None] = {}

    def visit(x: Any) -> None:
        if not isinstance(x, Dim):
            return
        for monomial, _ in x.terms:
            for factor, _power in cast(Any, monomial):
                if factor.args:
                    list(map(visit, factor.args))
                else:
                    found.setdefault(factor.op)

    for x in sizes:
        visit(x)
    return list(found)


def evaluate(x: Size, sizes: Mapping[str, Size]) -> Size:
    """A size with `sizes` in place of its variables, or of factors by their text; what `sizes` does not name stays."""
    if not isinstance(x, Dim):
        return x
    total: Size = 0
    for monomial, a in x.terms:
        term: Size = a
        for factor, power in monomial:
            name = str(factor)
            if name in sizes:
                value = sizes[name]
            elif factor.args:
                value = _FUNCTIONS[factor.op](*[evaluate(arg, sizes) for arg in factor.args])
            else:
                value = variable(factor.op, x.scope)
            term = term * value**power
        total = total + term
    return total
