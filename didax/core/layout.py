"""Layouts: in which order the elements of an array lie in the memory of its device.

Didax leaves the order to XLA, whose arrays are row-major between programs. A program may ask for another order; the
numbers stay the same. Read next: `sharding.py`, which part of an array lies on which device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from didax.core.errors import ArgumentError, api_boundary, message


class Layout:
    """The order of the axes in memory, the slowest first, and how elements are grouped in tiles.

    `Layout.AUTO` leaves the order to XLA.

    >>> Layout((1, 0))
    Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("major_to_minor", "sub_byte_element_size_in_bits", "tiling")
    AUTO: ClassVar[Any]
    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None
    sub_byte_element_size_in_bits: int

    @api_boundary
    def __init__(
        self, major_to_minor: Sequence[int], tiling: Any = None, sub_byte_element_size_in_bits: int = 0
    ):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _parts(self) -> tuple[Any, ...]:
        return self.major_to_minor, self.tiling or (), self.sub_byte_element_size_in_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return (
            f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
            f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})"
        )


class _Auto:
    def __repr__(self) -> str:
        return "Layout.AUTO"


Layout.AUTO = _Auto()


class Format:
    """A layout and a sharding, either of them None where nothing is said of it.

    TypeError for what is no layout or no sharding; ValueError for a `Layout` without a sharding.

    >>> import didax as dx, didax.numpy as dnp
    >>> Format(Layout((0,)), dnp.ones(3).sharding).layout
    Layout(major_to_minor=(0,), tiling=None, sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Any = None, sharding: Any = None):
        if not (layout is None or isinstance(layout, Layout | _Auto)):
            fix = "Pass a Layout, Layout.AUTO or None."
            raise TypeError(
                message("The layout of a Format is a Layout.", f"layout: {layout!r:.100}", fix=fix)
            )
        if not (sharding is None or hasattr(sharding, "device_set")):
            facts, fix = f"sharding: {sharding!r:.100}", "Pass the sharding of an array, or None."
            raise TypeError(message("The sharding of a Format is a sharding.", facts, fix=fix))
        if isinstance(layout, Layout) and sharding is None:
            facts = f"layout: {layout}, sharding: None"
            fix = "Pass the sharding too: Format(layout, x.sharding)."
            raise ValueError(message("A Format with an order of axes says on which devices.", facts, fix=fix))
        self.layout, self.sharding = layout, sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and other.layout == self.layout and other.sharding == self.sharding

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def row_major(ndim: int, sharding: Any) -> Format:
    """The format that XLA gives arrays between programs."""
    return Format(Layout(range(ndim), ()), sharding)


def check_rank(layout: Any, shape: Sequence[int]) -> None:
    """ArgumentError unless a layout has each axis of an array of this shape once."""
    if isinstance(layout, Layout) and sorted(layout.major_to_minor) != list(range(len(shape))):
        facts = f"layout: {layout}, shape: {tuple(shape)}"
        fix = "Name the axes from 0 on, the slowest first."
        raise ArgumentError(message("A layout orders the axes of its array.", facts, fix=fix))
