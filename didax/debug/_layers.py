"""The layout of a graph in rows: what a node needs stands above it, and no box lies on another one.

    layout(program) -> Layout: boxes with their places, and edges as points that a line goes through

1. A node's row is one below the lowest of its sources; a node without sources stands just above what uses it.
2. An edge that passes a row gets a narrow place there, so that it goes past boxes and never through them.
3. Each row is sorted by the mean place of what its nodes are connected to, downward and upward in turn.
4. Each node moves to that mean, as far as the order and the distances in its row allow (`_spread`).

The programs inside of a node are laid out first; the node is as large as they need. This is the method of Sugiyama,
Tagawa and Toda (1981) in its simplest form. Read next: `_graph.py`, which makes nodes of programs and draws them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Sequence


@dataclasses.dataclass
class Node:
    """A node of a program: its text, line by line, what it is, and the nodes of the same program that it needs."""

    lines: list[str]
    kind: str  # "input", "output", "operation" or "rest", which stands for several
    sources: list[int]
    title: str = ""
    programs: list[Program] = dataclasses.field(default_factory=list["Program"])


@dataclasses.dataclass
class Program:
    """Nodes, each after those that it needs."""

    name: str
    nodes: list[Node]


@dataclasses.dataclass
class Box:
    """A node at its place: the left upper corner, the size, and what is inside."""

    node: Node
    x: float
    y: float
    width: float
    height: float
    inside: list[Layout] = dataclasses.field(default_factory=list["Layout"])


@dataclasses.dataclass
class Layout:
    """A program at its place within what it is in."""

    name: str
    boxes: list[Box]
    edges: list[list[tuple[float, float]]]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


LETTER, LINE = 6.7, 14.0  # the size of a letter
PAD, GAP, ROW_GAP = 8.0, 14.0, 30.0
_NARROW = 4.0  # the place of an edge in a row
_SWEEPS = 4


def layout(program: Program) -> Layout:
    """The places of a program's nodes, and of the programs inside of them."""
    boxes = [_box(node) for node in program.nodes]
    rows = _Rows(program.nodes, [box.width for box in boxes])
    # Of each place: its middle, the top of its row, its own top and bottom, the bottom of its row.
    top, places = 0.0, dict[int, tuple[float, ...]]()
    for row in rows.rows:
        height = max(boxes[i].height for i in row if i < len(boxes))
        for i in row:
            own = boxes[i].height if i < len(boxes) else height
            start = top + (height - own) / 2
            places[i] = rows.middle[i], top, start, start + own, top + height
            if i < len(boxes):
                boxes[i].x, boxes[i].y = rows.middle[i] - boxes[i].width / 2, start
        top += height + ROW_GAP
    edges = [_edge([places[i] for i in path]) for path in rows.paths]
    left = min([box.x for box in boxes] + [x for edge in edges for x, _ in edge], default=0.0)
    for box in boxes:
        box.x -= left
    edges = [[(x - left, y) for x, y in edge] for edge in edges]
    right = max([box.x + box.width for box in boxes] + [x for edge in edges for x, _ in edge], default=0.0)
    return Layout(program.name, boxes, edges, right, max(0.0, top - ROW_GAP))


def _box(node: Node) -> Box:
    width = LETTER * max(map(len, node.lines)) + 2 * PAD
    height = LINE * len(node.lines) + PAD
    inside = [layout(program) for program in node.programs]
    if inside:
        x = PAD
        for each in inside:
            each.x, each.y = x, height + (LINE if each.name else 0.0)
            x += max(each.width, LETTER * len(each.name)) + 2 * PAD
        width = max(width, x - PAD)
        height = max(each.y + each.height for each in inside) + PAD
    return Box(node, 0.0, 0.0, width, height, inside)


def _edge(places: Sequence[tuple[float, ...]]) -> list[tuple[float, float]]:
    """The points of an edge, which is vertical within rows: out of the first place, past boxes, into the last place."""
    (x, _, _, bottom, end), *between, (to_x, start, top, _, _) = places
    past = [point for place in between for point in ((place[0], place[1]), (place[0], place[4]))]
    return [(x, bottom), (x, end), *past, (to_x, start), (to_x, top)]


class _Rows:
    """The rows of a program: nodes by number, and after them the places of edges that pass a row."""

    def __init__(self, nodes: Sequence[Node], widths: Sequence[float]):
        self._widths = list(widths)
        level = _levels(nodes)
        self.rows: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
        for i, row in enumerate(level):
            self.rows[row].append(i)
        self.paths: list[list[int]] = []
        passed: dict[tuple[int, int], int] = {}  # the place of the edges of a node in a row
        for i, node in enumerate(nodes):
            for source in dict.fromkeys(node.sources):
                path = [source]
                for row in range(level[source] + 1, level[i]):
                    if (source, row) not in passed:
                        passed[source, row] = len(self._widths)
                        self.rows[row].append(len(self._widths))
                        self._widths.append(_NARROW)
                    path.append(passed[source, row])
                self.paths.append([*path, i])
        self._above: dict[int, set[int]] = defaultdict(set)
        self._below: dict[int, set[int]] = defaultdict(set)
        for path in self.paths:
            for upper, lower in itertools.pairwise(path):
                self._above[lower].add(upper)
                self._below[upper].add(lower)
        self.middle: dict[int, float] = {}
        for row in self.rows:
            self._pack(row)
        for _ in range(_SWEEPS):
            self._sweep(self.rows, self._above, order=True)
            self._sweep(self.rows[::-1], self._below, order=True)
        for _ in range(_SWEEPS):
            self._sweep(self.rows, self._above, order=False)
            self._sweep(self.rows[::-1], self._below, order=False)

    def _sweep(self, rows: Sequence[list[int]], neighbours: dict[int, set[int]], order: bool) -> None:
        for row in rows:
            wanted = {
                i: sum(self.middle[j] for j in near) / len(near)
                if (near := neighbours[i])
                else self.middle[i]
                for i in row
            }
            held = [wanted[i] for i in row if self._above[i] or self._below[i]]
            for i in row:
                if held and not self._above[i] and not self._below[i]:  # near the others
                    wanted[i] = sum(held) / len(held)
            if order:
                row.sort(key=wanted.__getitem__)
            distances = [(self._widths[a] + self._widths[b]) / 2 + GAP for a, b in itertools.pairwise(row)]
            self.middle.update(zip(row, _spread([wanted[i] for i in row], distances), strict=True))

    def _pack(self, row: Sequence[int]) -> None:
        x = 0.0
        for i in row:
            self.middle[i] = x + self._widths[i] / 2
            x += self._widths[i] + GAP


def _levels(nodes: Sequence[Node]) -> list[int]:
    """The row of each node."""
    level: list[int] = []
    users: dict[int, list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        level.append(max([level[source] + 1 for source in node.sources], default=0))
        for source in node.sources:
            users[source].append(i)
    last = max([row for row, node in zip(level, nodes, strict=True) if node.kind != "output"], default=-1)
    for i, node in enumerate(nodes):
        if node.kind == "output":
            level[i] = last + 1
    for i in range(len(nodes) - 1, -1, -1):
        if not nodes[i].sources and users[i]:
            level[i] = min(level[user] for user in users[i]) - 1
    rows = {row: n for n, row in enumerate(sorted(set(level)))}  # none is empty
    return [rows[row] for row in level]


def _spread(wanted: Sequence[float], distances: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, by squares, that keep the order and the distances between neighbours.

    Without the distances this is isotonic regression, by pooling neighbours that are in each other's way.

    >>> _spread([0.0, 0.0, 10.0], [2.0, 2.0])
    [-1.0, 1.0, 10.0]
    """
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, int]] = []  # the sum of the places that its members want, and their number
    for place, offset in zip(wanted, offsets, strict=False):
        total, count = place - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            more, number = pools.pop()
            total, count = total + more, count + number
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
