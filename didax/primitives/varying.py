"""Values that differ from device to device: along which manual mesh axes, and how the interpreters keep to it.

    pvary(x, axes)       the same value, from here on free to differ along these axes

Inside `shard_map` a type says along which mesh axes the devices' values may differ (`ShapedArray.vma`). An operation on
operands that vary along different axes gives a result that varies along all of them: it uses the operand that is the
same everywhere on every device. So the cotangent of this operand is the sum over devices, and that is the one place
where reverse mode has to communicate: `match_devices` puts the sum where a cotangent varies along more axes than its
operand. Where it varies along fewer, nothing has to be done but to say so.
Read next: `collectives.py`; `shard_map.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from didax.core.avals import ShapedArray, aval_of
from didax.primitives import padded, split
from didax.primitives.collectives import psum_p
from didax.primitives.shape import LinearUnary
from didax.primitives.sharding import with_layout
from didax.transforms.named_axes import AxisData, named_axis


class PVary(LinearUnary):
    """The operand, free to differ along more manual axes."""

    moves_elements = True
    sets_varying = True
    sharding = split.kept
    padded = padded.elementwise

    def bind(self, x: Any, *, axes: tuple[str, ...]) -> Any:
        """As for every primitive, except that there is nothing to do where the operand varies along the axes already.

        A program is staged again on operands that vary along more axes (`control_flow/varying.py`).
        """
        missing = tuple(name for name in axes if name not in aval_of(x).vma)
        return super().bind(x, axes=missing) if missing else x

    def type(self, x: ShapedArray, *, axes: tuple[str, ...]) -> ShapedArray:
        return x.update(vma=x.vma.union(axes))

    def eager(self, x: Any, *, axes: tuple[str, ...]) -> Any:
        return x

    def lower(self, ctx: Any, x: Any, *, axes: tuple[str, ...]) -> Any:
        return x

    def transpose(self, ct: Any, x: Any, *, axes: tuple[str, ...]) -> list[Any]:
        return [sum_over(ct, axes)]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return self.bind(args[0], **params), dims[0]


pvary_p = PVary("pvary")


def sum_over(x: Any, axes: Sequence[str]) -> Any:
    """The sum over devices along manual axes."""
    if not axes:
        return x
    size = math.prod(named_axis(name).size for name in axes)
    return psum_p.bind(x, axis_name=tuple(axes), axis_size=size)


def pvary(x: Any, axes: Iterable[str]) -> Any:
    """The value, free to differ along these manual axes too."""
    names = tuple(sorted(axes))
    return pvary_p.bind(x, axes=names) if names else x


def match_devices(x: Any, aval: ShapedArray) -> Any:
    """The tangent or cotangent `x` made to have the type `aval`, if it varies along, or is split over, other axes.

    It is summed over the axes along which `aval` does not vary.
    """
    extra = aval_of(x).vma - aval.vma
    if extra:
        x = sum_over(x, sorted(extra))
    x = pvary(x, sorted(aval.vma))
    return x if aval_of(x).layout is aval.layout else with_layout(x, aval.layout)
