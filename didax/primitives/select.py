"""`select_n`: choose among arrays, element by element.

    select_n(which, a, b, c)[i] = (a, b, c)[which[i]][i]

`which` is boolean (False takes the first case) or int32; an index out of range takes the nearest case.
Scalars among `which` and the cases stretch, so a mask beside a scalar zero needs no array of zeros. The
function is linear in the cases: the tangents are chosen from as the cases are, and each element of the cotangent
goes back to the case that was chosen there.
Read next: `elementwise/`, whose derivatives choose elements with `where`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, moved, stretched, union
from didax.primitives import numpy_rules, padded, split
from didax.primitives.scalars import scalar_like
from didax.primitives.stretching import align_batches, stretch, unstretch
from didax.transforms.batching import AxisData
from didax.transforms.transpose import is_undef

_INT32 = np.dtype(np.int32)


class SelectN(Primitive):
    """`select_n(which, *cases)`: the element of the case that `which` names."""

    linear = True
    moves_elements = True
    sharding = split.elementwise
    padded = padded.elementwise

    def type(self, which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
        self._check_which(which, cases)
        shapes = {aval.shape for aval in (which, *cases)} - {()}
        if len(shapes) > 1 or len({aval.dtype for aval in cases}) != 1:
            raise self._error("takes cases of one dtype, and arrays of one shape (or scalars)", which, cases,
                              "Cast or broadcast them first.")  # fmt: skip
        weak = all([aval.weak_type for aval in cases])
        return ShapedArray(shapes.pop() if shapes else (), cases[0].dtype, weak)

    def _check_which(self, which: ShapedArray, cases: Sequence[ShapedArray]) -> None:
        if not cases:
            raise self._error("needs at least one case", which, cases, "Add the arrays to choose from.")
        if which.dtype != np.bool_ and which.dtype != _INT32:
            raise self._error(
                "chooses by a bool or int32 array", which, cases, "Cast `which` (which.astype('int32'))."
            )
        if which.dtype == np.bool_ and len(cases) > 2:
            raise self._error("chooses between at most two cases by a bool", which, cases,
                              "Choose by an int32 array.")  # fmt: skip

    def _error(self, rule: str, which: ShapedArray, cases: Sequence[ShapedArray], fix: str) -> ArgumentError:
        facts = f"which: {which}, cases: {', '.join(map(str, cases)) or 'none'}"
        return ArgumentError(message(f"select_n {rule}.", facts, fix=fix))

    def eager(self, which: Any, *cases: Any) -> Any:
        out, *others = cases
        for i, case in enumerate(others, 1):
            out = numpy_rules.where(which if which.dtype == np.bool_ else which >= i, case, out)
        return out if others else np.broadcast_to(out, np.broadcast_shapes(which.shape, out.shape))

    def eager_text(self, source: Any, names: Sequence[str], avals: Sequence[ShapedArray]) -> str | None:
        if len(names) != 3 or avals[0].dtype != np.bool_:
            return None
        shape = max([aval.shape for aval in avals], key=len)
        off, on = [source.at_full_shape(name, shape) for name in names[1:]]  # half the time of a scalar
        return f"{source.given(numpy_rules.where)}({names[0]}, {on}, {off})"

    def lower(self, ctx: Any, which: Any, *cases: Any) -> Any:
        out, *others = [ctx.fill(case, ctx.out_avals[0]) for case in cases]
        for i, case in enumerate(others, 1):
            takes = (
                which
                if which.aval.dtype == np.bool_
                else ctx.compare("GE", which, ctx.constant(i, which.aval))
            )
            out = ctx.select(takes, case, out)
        return out

    def sparsity(self, operands: Sequence[Dependence]) -> Any:
        which, *cases = operands
        if which.value is not None:
            return moved(self, operands, {})[0]
        shape = max([x.aval.shape for x in operands], key=len)
        return union([stretched(x, shape) for x in cases])

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self.bind(*primals)
        if all(type(t) is Zero for t in tangents):
            return out, Zero(aval_of(out).tangent())
        return out, stretch(self.bind(primals[0], *[_scalar_zero(t) for t in tangents[1:]]), out)

    def transpose(self, ct: Any, which: Any, *cases: Any) -> list[Any]:
        zero = scalar_like(0, aval_of(ct).dtype)
        ct_xs = []
        for i, case in enumerate(cases):
            picked = [ct if j == i else zero for j in range(len(cases))]
            ct_xs.append(unstretch(self.bind(which, *picked), case.aval) if is_undef(case) else None)
        return [None, *ct_xs]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
        values, dim = align_batches(axis, args, dims)
        return self.bind(*values), dim


def _scalar_zero(t: Any) -> Any:
    return scalar_like(0, t.aval.dtype) if type(t) is Zero else t


select_n_p = SelectN("select_n")


def select_n(which: Any, *cases: Any) -> Any:
    """The element of the case that `which` names."""
    return select_n_p.bind(which, *cases)


def where(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where the condition holds, else `on_false`; scalars stretch."""
    return select_n_p.bind(condition, on_false, on_true)
