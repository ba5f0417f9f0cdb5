"""Where the Python numbers among the arguments of a call stand in its program.

    nn.leaky_relu(x, 0.1)                 # staged as it is:             lt x 0.0;  mul x 0.1;  select ...
    nn.leaky_relu(x, t), t a tracer       # staged with a weak number:   lt x 0.0;  mul x t;    select ...

A Python number may steer a library function: it may be compared, rounded, put into a parameter, be a length or an axis,
or be computed with in 64 bits. `places` tells whether it did none of this, by staging the call twice and reading both
programs side by side. A tracer raises where its value is asked for, and so a function that asks has no second program.
Otherwise the programs have to be equal, equation by equation, but for literals of the first that stand where the second
has the number, or the number in another dtype, and that have the bits of the number in this dtype. Then each of these
places may take the number of another call. Where the first program holds something that was computed from the number
(`1.0 - t` in 64 bits, an index that counts from the end), the second one has an equation more, and the number is not an
argument.

What is left are functions that ask for the type first and then for the value (`type(t) is float and t == 0`). They ask
for zeros, ones, infinities and NaN, so `whole_functions.py` takes none of these for an argument, and for integers that
do not fit a dtype, so it takes none of more than 32 bits, and here their places have dtypes that hold these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from didax.api.numpy_functions import evaluated_jaxpr, have_equal_bits, value_of
from didax.core.avals import ShapedArray
from didax.core.dtypes import numpy_scalar
from didax.core.exact import exact
from didax.core.jaxpr import Eqn, Jaxpr, Literal
from didax.primitives.convert import convert_element_type_p


class Number(NamedTuple):
    """A number of the call, by its position among them, in the dtype of `aval`."""

    position: int
    aval: ShapedArray


def places(
    program: Jaxpr, captured: Sequence[Any], general: Jaxpr, also: Sequence[Any], numbers: Sequence[float]
) -> dict[int, int] | None:
    """By id of a literal in the program of a call: which number it is; None where a number is not an argument.

    `general` is the program with the numbers as its last inputs; the first inputs are the captured values of each.
    """
    n = len(general.invars) - len(numbers)
    if len(captured) != len(also) or not all(map(have_equal_bits, captured, also)):
        return None
    pairs = _Pairs(numbers)
    first = dict[Any, Any](zip(program.invars, program.invars, strict=True))
    second = dict[Any, Any](zip(general.invars[:n], program.invars, strict=True))
    second |= {x: Number(i, x.aval) for i, x in enumerate(general.invars[n:])}
    return pairs.found if pairs.are_equal(program, first, general, second) else None


class _Pairs:
    """Two programs, read side by side."""

    def __init__(self, numbers: Sequence[float]):
        self.numbers: Sequence[float] = numbers
        self.found: dict[int, int] = {}

    def are_equal(self, x: Jaxpr, xs: dict[Any, Any], y: Jaxpr, ys: dict[Any, Any]) -> bool:
        """Whether programs are equal but for numbers; `xs` and `ys` have what their variables stand for."""
        i = 0
        for eqn in y.eqns:
            other = x.eqns[i] if i < len(x.eqns) else None
            if other is None or not self.are_same(other, xs, eqn, ys):
                if not _is_cast(eqn, ys):
                    return False
                # The first program has the number written in this dtype.
                ys[eqn.outvars[0]] = Number(ys[eqn.invars[0]].position, eqn.outvars[0].aval)
            else:
                i += 1
        return i == len(x.eqns) and self.stand_for_the_same(x.outvars, xs, y.outvars, ys)

    def are_same(self, x: Eqn, xs: dict[Any, Any], y: Eqn, ys: dict[Any, Any]) -> bool:
        if x.primitive is not y.primitive or _strong_types(x.outvars) != _strong_types(y.outvars):
            return False
        inner = evaluated_jaxpr(x), evaluated_jaxpr(y)
        if inner[0] is None or inner[1] is None:
            if exact(tuple(x.params.items())) != exact(tuple(y.params.items())):
                return False
            if not self.stand_for_the_same(x.invars, xs, y.invars, ys):
                return False
        else:
            inner_xs = {v: xs.get(a, a) for v, a in zip(inner[0].invars, x.invars, strict=True)}
            inner_ys = {v: ys.get(a, a) for v, a in zip(inner[1].invars, y.invars, strict=True)}
            if not self.are_equal(inner[0], inner_xs, inner[1], inner_ys):
                return False
        xs |= zip(x.outvars, x.outvars, strict=True)
        ys |= zip(y.outvars, x.outvars, strict=True)
        return True

    def stand_for_the_same(
        self, x: Sequence[Any], xs: dict[Any, Any], y: Sequence[Any], ys: dict[Any, Any]
    ) -> bool:
        return len(x) == len(y) and all(
            [self.is_same(xs.get(a, a), ys.get(b, b)) for a, b in zip(x, y, strict=True)]
        )

    def is_same(self, x: Any, y: Any) -> bool:
        if type(x) is not Literal or type(y) not in (Literal, Number):
            return x is y
        value = value_of(x)
        if type(y) is Literal:
            return x.aval is y.aval and have_equal_bits(value, value_of(y))
        number = cast("Number", y)  # it may be weak in one of the programs only: its bits are the same
        if not have_equal_bits(value, numpy_scalar(self.numbers[number.position], number.aval.dtype)):
            return False
        return self.found.setdefault(id(x), number.position) == number.position


def _strong_types(outvars: Sequence[Any]) -> list[ShapedArray]:
    """The types of results, each with its shape, without saying which of them are weak."""
    return [v.aval.strip_weak_type() for v in outvars]


def _is_cast(eqn: Eqn, ys: dict[Any, Any]) -> bool:
    """Whether an equation converts a number to a dtype that holds all such numbers."""
    if eqn.primitive is not convert_element_type_p or type(ys.get(eqn.invars[0])) is not Number:
        return False
    given, dtype = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    return np.issubdtype(dtype, np.inexact) or (given.kind == dtype.kind == "i" and dtype.itemsize >= 4)
