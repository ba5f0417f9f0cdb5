"""Sums with arrays that are zero outside a window, as updates of that window.

    x + dynamic_update_slice(0, u, i)    becomes    dynamic_update_slice(x, dynamic_slice(x, i) + u, i)
    x + scatter_add(0, i, u)             becomes    scatter_add(x, i, u)
    pad(u) + pad(v), side by side        becomes    concatenate(u, v)

The cotangent of `x` in `x[i]` is such an array. Made in full and added, it costs the size of `x` at each step of a
loop that reads one element. As an update it costs the size of that element, since a loop writes in place. The third
line is the transpose of a body that slices an array into parts, such as the gates of an LSTM.
Read next: `transposition.py`, which passes the bodies of transposed loops through this; `order.py`, which keeps the
updates in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.rule_types import as_list
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.layout import Values
from didax.primitives.elementwise import add
from didax.primitives.gather import scatter_add_p
from didax.primitives.shape import broadcast_in_dim_p
from didax.primitives.slicing import concatenate_p, dynamic_slice_p, dynamic_update_slice_p, pad_p
from didax.transforms.rewriting import interpret, trace_closed

AddTo = Callable[[Any], Any]  # the sum of its argument and an array that is zero outside a window


def accumulate_in_place(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with each such sum written as an update or a concatenation; same inputs, equal outputs."""
    if not any(eqn.primitive is add for eqn in jaxpr.eqns):
        return jaxpr
    new = trace_closed(lambda *args: _run(jaxpr, args), jaxpr.in_avals, what="transpose")
    return dce_jaxpr(new, (True,) * len(new.outvars), keep_inputs=True)[0]


def _run(jaxpr: Jaxpr, args: Values) -> list[Any]:
    zeros: set[Var] = set()
    windows: dict[Any, AddTo] = {}
    parts: dict[Any, _Parts] = {}

    def apply(eqn: Eqn, inputs: list[Any]) -> list[Any]:
        if eqn.primitive is add:
            if (joined := _joined(*[parts.get(x) for x in eqn.invars])) is not None:
                parts[eqn.outvars[0]] = joined
                return [_concatenated(joined, eqn.outvars[0].aval)]
            if (k := _window_among(eqn.invars, windows)) is not None:
                return [windows[eqn.invars[k]](inputs[1 - k])]
        outs = as_list(eqn.primitive, eqn.primitive.bind(*inputs, **eqn.params))
        if eqn.primitive is broadcast_in_dim_p and _is_zero(eqn.invars[0], zeros):
            zeros.add(eqn.outvars[0])
        elif (window := _window(eqn, inputs, zeros)) is not None:
            windows[eqn.outvars[0]] = window
            if (part := _part(eqn, inputs)) is not None:
                parts[eqn.outvars[0]] = part
        return outs

    return interpret(jaxpr, args, apply)


def _window_among(terms: Sequence[Atom], windows: dict[Any, AddTo]) -> int | None:
    """Which of the two terms of a sum is a window, with the shape of the other."""
    if terms[0].aval.shape != terms[1].aval.shape:
        return None
    return next((k for k in (1, 0) if terms[k] in windows), None)


def _is_zero(x: Atom, zeros: set[Var]) -> bool:
    return x in zeros if type(x) is Var else isinstance(x, Literal) and not np.any(np.asarray(x.val))


def _window(eqn: Eqn, inputs: Values, zeros: set[Var]) -> AddTo | None:
    """How to add the result of the equation to an array, if it is zero outside a window."""
    if eqn.primitive is scatter_add_p and _is_zero(eqn.invars[0], zeros):
        _, indices, updates = inputs
        return lambda x: scatter_add_p.bind(x, indices, updates, **eqn.params)
    if eqn.primitive is dynamic_update_slice_p and _is_zero(eqn.invars[0], zeros):
        _, update, *starts = inputs
        return lambda x: _add_at(x, update, eqn.invars[1].aval.shape, starts)
    if eqn.primitive is pad_p and _is_zero(eqn.invars[1], zeros):
        low, high, interior = zip(*eqn.params["padding_config"], strict=True)
        if min(*low, *high) >= 0 and not any(interior):
            starts = [np.int32(start) for start in low]
            return lambda x: _add_at(x, inputs[0], eqn.invars[0].aval.shape, starts)
    return None


class _Parts(NamedTuple):
    """An array that is zero except for parts along one axis: where each starts, and the part."""

    axis: int
    length: int
    parts: tuple[tuple[int, Any], ...]

    def ends(self) -> list[tuple[int, int]]:
        """Where each part starts and ends."""
        return [(start, start + aval_of(part).shape[self.axis]) for start, part in self.parts]


def _part(eqn: Eqn, inputs: Values) -> _Parts | None:
    """The result of the equation as an array of one part, if it pads `inputs[0]` along one axis only."""
    if eqn.primitive is not pad_p:
        return None
    padded = [i for i, (low, high, _) in enumerate(eqn.params["padding_config"]) if low or high]
    if len(padded) != 1:
        return None
    (axis,) = padded
    start = eqn.params["padding_config"][axis][0]
    return _Parts(axis, eqn.outvars[0].aval.shape[axis], ((start, inputs[0]),))


def _joined(x: _Parts | None, y: _Parts | None) -> _Parts | None:
    """The sum of two such arrays, if their parts lie side by side."""
    if x is None or y is None or (x.axis, x.length) != (y.axis, y.length):
        return None
    both = x._replace(parts=tuple(sorted([*x.parts, *y.parts], key=lambda part: part[0])))
    ends = both.ends()
    disjoint = all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ends))
    return both if disjoint else None


def _concatenated(whole: _Parts, aval: ShapedArray) -> Any:
    """The array, with zeros between its parts."""
    pieces: list[Any] = []
    at = 0
    for (start, stop), (_, part) in zip(
        [*whole.ends(), (whole.length,) * 2], [*whole.parts, (0, None)], strict=True
    ):
        if start > at:
            gap = (*aval.shape[: whole.axis], start - at, *aval.shape[whole.axis + 1 :])
            pieces.append(array_ops.zeros(aval.update(shape=gap, weak_type=False)))
        if part is not None:
            pieces.append(part)
        at = stop
    return concatenate_p.bind(*pieces, dimension=whole.axis)


def _add_at(x: Any, update: Any, sizes: tuple[int, ...], starts: Values) -> Any:
    there = dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)
    return dynamic_update_slice_p.bind(x, add(there, update), *starts)
