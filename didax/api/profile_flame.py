"""The flame picture of a profile, an SVG: a call that takes long is wide, and the calls inside of it stand below.

    Flame(root, time).svg()    the picture; a notebook shows it

The picture needs nothing else: no script, no fonts; it takes the colours of a dark page where there is one.
Read next: `profile_report.py`, whose times it shows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Node:
    """A part of the time: its name, its seconds, and the parts in it."""

    def __init__(self, name: str):
        self.name = name
        self.seconds = 0.0
        self.parts: dict[str, Node] = {}

    def add(self, path: Sequence[str], seconds: float) -> None:
        """Add seconds to the part at a path, and to all that it is in."""
        node = self
        node.seconds += seconds
        for name in path:
            node = node.parts.setdefault(name, Node(name))
            node.seconds += seconds


class _Box(NamedTuple):
    name: str
    seconds: float
    left: float
    width: float
    depth: int


_WIDTH, _ROW, _MARGIN = 960.0, 20.0, 8.0
_THINNEST = 1.0  # of a box that is drawn
_LETTER = 6.6  # the width of a letter
_COLOURS = ("#ffd8a8", "#ffc9c9", "#ffec99", "#d3f9d8", "#c5f6fa", "#d0ebff", "#e5dbff", "#fcc2d7")


class Flame:
    """The times as a picture: `svg()` is its text."""

    def __init__(self, root: Node, time: Callable[[float], str]):
        self._root, self._time = root, time

    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        from html import escape  # not needed where nobody draws

        boxes = list(self._boxes())
        total = self._root.seconds
        height = _ROW * (1 + max(box.depth for box in boxes)) + 2 * _MARGIN
        left_out = self._count(self._root) - len(boxes)
        note = f"{left_out:,} of the parts are too short to be drawn" if left_out else ""
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height + (_ROW if note else 0):.0f}" '
            f'width="100%" style="max-width: {_WIDTH:.0f}px; background: #ffffff00" '
            'font-family="ui-monospace, monospace" font-size="11" role="img">',
            f"<title>{escape(f'Where the time of {self._root.name} goes')}</title>",
        ]
        for box in boxes:
            share = f"{100 * box.seconds / total:.1f} %" if total else ""
            colour = _COLOURS[zlib.crc32(box.name.encode()) % len(_COLOURS)]
            top = _MARGIN + box.depth * _ROW
            letters = int((box.width - 6) / _LETTER)
            text = (
                box.name if len(box.name) <= letters else box.name[: letters - 1] + "…" if letters > 3 else ""
            )
            out.append(
                f"<g><title>{escape(f'{box.name}: {self._time(box.seconds)}, {share}')}</title>"
                f'<rect x="{box.left:.2f}" y="{top:.1f}" width="{box.width:.2f}" height="{_ROW - 1:.1f}" rx="2" '
                f'fill="{colour}" stroke="#868e96" stroke-width="0.5"/>'
                + (
                    f'<text x="{box.left + 4:.2f}" y="{top + 13.5:.1f}" fill="#212529">{escape(text)}</text>'
                    if text
                    else ""
                )
                + "</g>"
            )
        if note:
            out.append(f'<text x="{_MARGIN}" y="{height + 4:.1f}" fill="#868e96">{note}</text>')
        return "\n".join([*out, "</svg>"])

    _repr_svg_ = svg

    def _boxes(self) -> Iterator[_Box]:
        """The boxes that are wide enough to be seen, each below that which it is a part of."""
        across = (_WIDTH - 2 * _MARGIN) / self._root.seconds if self._root.seconds else 0.0
        todo = [(self._root, _MARGIN, 0)]
        while todo:
            node, left, depth = todo.pop()
            yield _Box(node.name, node.seconds, left, max(node.seconds * across, 0.0), depth)
            for part in sorted(node.parts.values(), key=lambda part: -part.seconds):
                if part.seconds * across >= _THINNEST:
                    todo.append((part, left, depth + 1))
                left += part.seconds * across

    def _count(self, node: Node) -> int:
        return 1 + sum(map(self._count, node.parts.values()))
