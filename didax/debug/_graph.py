"""`debug.graph`: a program as a picture: operations, what they need above them, the programs inside of them as boxes.

    dx.debug.graph(dx.make_jaxpr(f)(x))                 the jaxpr
    dx.debug.graph(dx.jit(f).lower(x).compile())        the program as XLA has optimised it

A notebook shows the picture, an SVG that needs nothing else. Read next: `_layers.py` (where things stand).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from didax.api.stages import Compiled, Traced
from didax.core.dims import is_count
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from didax.core.jaxpr_print import eqn_text, type_text
from didax.debug._layers import LINE, PAD, Box, Layout, Node, Program, layout

_MARGIN = 10.0
# Fill and frame; letters are dark on each, so the picture is good on light and dark pages.
_COLOURS = {
    "input": ("#d3f9d8", "#2b8a3e"),
    "output": ("#ffe3e3", "#c92a2a"),
    "operation": ("#e7f5ff", "#1971c2"),
    "rest": ("#fff3bf", "#e67700"),
}
_INSIDE = ("#f8f9fa", "#ffffff")  # of boxes that hold programs, by depth
_LONGEST = 600  # letters of what is shown of a node while the mouse is over it


@api_boundary
def graph(program: Any, *, max_operations: int = 150) -> Graph:
    """Return a picture of a program: of a jaxpr, of what `jit(f).trace(x)` returns, or of a compiled program.

    Args:
      program: a `Jaxpr` or `ClosedJaxpr` (`make_jaxpr(f)(x)`), a `Traced`, or a `Compiled`, whose operations are
        those that XLA made of the program, fusions as boxes.
      max_operations: how many operations are drawn, the outermost first; those that are left out become one box,
        which says how many they are.

    A notebook shows the result; `svg()` is its text, `save(path)` writes it to a file. Inputs are green, outputs red;
    a program inside of an operation (of a loop, of a branch, of a jitted function) is drawn in its box. Raises
    TypeError for anything else, ValueError for `max_operations` below 1.

    >>> import didax as dx
    >>> picture = graph(dx.make_jaxpr(lambda x: dx.numpy.sin(x) * 2.0)(1.0))
    >>> picture
    <graph of <lambda>: 2 operations>
    >>> picture.svg()[:4]
    '<svg'
    """
    if not is_count(max_operations):
        rule = "max_operations of debug.graph is how many operations are drawn."
        raise ArgumentError(message(rule, f"max_operations: {max_operations!r}", fix="Pass 1 or more."))
    if isinstance(program, Compiled):
        from didax.xla.hlo import text_of  # loads jaxlib: on first need

        of_text = _OfCompiled(text_of(program.runtime_executable()), max_operations)
        return Graph(of_text.program(""), of_text.budget)
    jaxpr = program.jaxpr if isinstance(program, Traced | ClosedJaxpr) else program
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    if not isinstance(jaxpr, Jaxpr):
        rule = "debug.graph draws jaxprs and compiled programs."
        fix = "Pass make_jaxpr(f)(x), jit(f).trace(x), or jit(f).lower(x).compile()."
        raise TypeError(message(rule, f"given: {program!r:.100} of type {type(program).__name__}", fix=fix))
    of_jaxpr = _OfJaxpr(max_operations)
    return Graph(of_jaxpr.program(jaxpr), of_jaxpr.budget)


class Graph:
    """A picture of a program: what `debug.graph` returns.

    Attributes:
      operations: how many operations are drawn; left_out: how many are not.
    """

    def __init__(self, program: Program, budget: _Budget):
        self.operations, self.left_out = budget.taken, budget.left_out
        self._program = program

    def __repr__(self) -> str:
        more = f", {self.left_out:,} more are left out" if self.left_out else ""
        return f"<graph of {self._program.name or 'a program'}: {self.operations:,} operations{more}>"

    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        return _drawn(layout(self._program), self._program.name)

    _repr_svg_ = svg

    def save(self, path: os.PathLike[str] | str) -> None:
        """Write the picture to an SVG file, whose name ends in .svg; ValueError for other endings."""
        if not os.fspath(path).endswith(".svg"):
            rule = "A graph is saved as a picture of the kind SVG."
            raise ArgumentError(
                message(rule, f"path: {os.fspath(path)!r}", fix="Give the file the ending .svg.")
            )
        Path(path).write_text(self.svg(), encoding="utf-8")


class _Budget:
    """How many operations may still be drawn."""

    def __init__(self, most: int):
        self.most, self.taken, self.left_out = most, 0, 0

    def take(self, count: int) -> int:
        """How many of so many operations are drawn."""
        taken = min(count, self.most - self.taken)
        self.taken += taken
        return taken


# --- Nodes of jaxprs -------------------------------------------------------------------------------------------------


class _OfJaxpr:
    """Programs to be drawn, of jaxprs."""

    def __init__(self, most: int):
        self.budget = _Budget(most)

    def program(self, jaxpr: Jaxpr) -> Program:
        """The nodes of a jaxpr: its inputs, its equations, its outputs."""
        maker: dict[Var, int] = {v: i for i, v in enumerate(jaxpr.invars)}
        nodes = [
            Node([type_text(v.aval)], "input", [], f"input number {i}") for i, v in enumerate(jaxpr.invars)
        ]
        count = self.budget.take(len(jaxpr.eqns))
        for eqn in jaxpr.eqns[:count]:
            maker |= dict.fromkeys(eqn.outvars, len(nodes))
            nodes.append(Node(_lines_of(eqn), "operation", _sources(eqn.invars, maker), _title(eqn)))
        inside = [
            (node, eqn.jaxprs) for node, eqn in zip(nodes[len(jaxpr.invars) :], jaxpr.eqns, strict=False)
        ]
        for node, jaxprs in inside:  # after the equations around them: the outermost come first
            self._fill(node, jaxprs)
        if rest := jaxpr.eqns[count:]:
            used = [x for eqn in rest for x in eqn.invars]
            maker_of_rest = dict(maker)
            maker |= {v: len(nodes) for eqn in rest for v in eqn.outvars}
            self.budget.left_out += len(rest) + sum(_size(inner) for eqn in rest for inner in eqn.jaxprs)
            nodes.append(Node([f"{len(rest):,} more operations"], "rest", _sources(used, maker_of_rest)))
        for x in jaxpr.outvars:
            text = type_text(x.aval) if isinstance(x, Var) else _text_of_literal(x)
            nodes.append(Node([text], "output", _sources([x], maker), "output"))
        return Program(jaxpr.name, nodes)

    def _fill(self, node: Node, jaxprs: Sequence[Jaxpr]) -> None:
        if jaxprs and self.budget.taken < self.budget.most:
            node.programs += [self.program(inner) for inner in jaxprs]
        elif jaxprs:
            size = sum(map(_size, jaxprs))
            self.budget.left_out += size
            node.lines.append(f"{size:,} operations inside")


def _size(jaxpr: Jaxpr) -> int:
    """How many equations a jaxpr has, those inside of others included."""
    return len(jaxpr.eqns) + sum(_size(inner) for eqn in jaxpr.eqns for inner in eqn.jaxprs)


def _sources(atoms: Sequence[Atom], maker: dict[Var, int]) -> list[int]:
    return list(dict.fromkeys(maker[x] for x in atoms if isinstance(x, Var) and x in maker))


def _lines_of(eqn: Eqn) -> list[str]:
    literals = [_text_of_literal(x) for x in eqn.invars if isinstance(x, Literal)]
    types = [type_text(v.aval) for v in eqn.outvars]
    more = f", {len(types) - 2} more" if len(types) > 2 else ""
    return [" ".join([eqn.primitive.name, *literals]), ", ".join(types[:2]) + more]


def _text_of_literal(x: Literal) -> str:
    return (
        f"{x.val!r:.12}"
        if getattr(x.val, "ndim", 0)
        else f"{x.val:.6g}"
        if _is_float(x.val)
        else f"{x.val!s:.12}"
    )


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or getattr(getattr(x, "dtype", None), "kind", "") == "f"


def _title(eqn: Eqn) -> str:
    text = eqn_text(eqn) if not eqn.jaxprs else eqn.primitive.name
    return f"{text[:_LONGEST]}\n{eqn.source}" if eqn.source is not None else text[:_LONGEST]


# --- Nodes of compiled programs --------------------------------------------------------------------------------------


_NO_WORK = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")


class _OfCompiled:
    """Programs to be drawn, of the computations in the text of an optimised program."""

    def __init__(self, text: str, most: int):
        from didax.xla.hlo import computations, module_name  # loads jaxlib: on first need

        self.budget = _Budget(most)
        self._bodies = computations(text)
        self._name = module_name(text)

    def program(self, name: str) -> Program:
        """The nodes of a computation; constants are left out, and so are instructions that only rename."""
        from didax.xla.hlo import calls, name_of, operand_names

        instructions = [it for it in self._bodies.get(name, []) if it.opcode != "constant"]
        work = [it for it in instructions if it.opcode not in _NO_WORK]
        drawn = {it.name for it in work[: self.budget.take(len(work))]}
        nodes: list[Node] = []
        maker: dict[str, list[int]] = {}
        holders: list[tuple[Node, list[str]]] = []
        for it in instructions:
            sources = [i for name in operand_names(it) for i in maker.get(name, ())]
            sources = list(dict.fromkeys(sources))
            if it.opcode in _NO_WORK and it.opcode != "parameter":
                maker[it.name] = sources
                continue
            if it.name not in drawn and it.opcode != "parameter":
                maker[it.name] = []
                continue
            kind = "input" if it.opcode == "parameter" else "operation"
            title = f"{it.name}\n{name_of(it.attributes)}"
            node = Node([it.opcode, _short(it.result)], kind, sources, title)
            maker[it.name] = [len(nodes)]
            nodes.append(node)
            if it.opcode in ("fusion", "while", "conditional", "call", "async-start"):
                holders.append((node, [callee for callee, _ in calls(it)]))
        self._fill(holders)
        if missing := len(work) - len(drawn):
            self.budget.left_out += missing
            last = [i for i, node in enumerate(nodes) if node.kind != "input"][-1:]
            nodes.append(Node([f"{missing:,} more operations"], "rest", last))
        elif instructions:
            root = instructions[-1]
            nodes.append(Node([_short(root.result)], "output", maker[root.name], "output"))
        return Program(name or self._name, nodes)

    def _fill(self, holders: Sequence[tuple[Node, list[str]]]) -> None:
        for node, callees in holders:
            if self.budget.taken < self.budget.most:
                node.programs += [self.program(callee) for callee in callees]
            else:
                size = sum(len(self._bodies.get(callee, ())) for callee in callees)
                self.budget.left_out += size
                node.lines.append(f"{size:,} instructions inside")


_LAYOUT = re.compile(r"\{[^}]*\}")


def _short(result: str) -> str:
    """The type of a result without its layout."""
    text = _LAYOUT.sub("", result)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


_WIDEST = 40


# --- The drawing -----------------------------------------------------------------------------------------------------


def _drawn(placed: Layout, name: str) -> str:
    from html import escape  # not needed where nobody draws

    width, height = placed.width + 2 * _MARGIN, placed.height + 2 * _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" width="{width:.0f}" '
            f'height="{height:.0f}" font-family="ui-monospace, monospace" font-size="11" role="img">',
            f"<title>{escape(f'The program {name}')}</title>",
            *_shapes(placed, _MARGIN, _MARGIN, 0),
            "</svg>",
        ]
    )


def _shapes(placed: Layout, left: float, top: float, depth: int) -> Iterator[str]:
    """What is drawn for a program whose corner is there: edges, and boxes on top of them."""
    for edge in placed.edges:
        points = [(x + left, y + top) for x, y in edge]
        yield f'<path d="{_curve(points)}" fill="none" stroke="#868e96" stroke-width="1.2"/>'
    for box in placed.boxes:
        yield from _box(box, left + box.x, top + box.y, depth)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A line through the points: curved between rows, straight within them."""
    (x, y), *rest = points
    out = [f"M{x:.1f} {y:.1f}"]
    for end_x, end_y in rest:
        middle = (y + end_y) / 2
        straight = abs(end_x - x) < 0.05
        out.append(
            f"L{end_x:.1f} {end_y:.1f}"
            if straight
            else f"C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}"
        )
        x, y = end_x, end_y
    return "".join(out)


def _box(box: Box, x: float, y: float, depth: int) -> Iterator[str]:
    from html import escape  # not needed where nobody draws

    fill, frame = _COLOURS[box.node.kind]
    fill = _INSIDE[depth % len(_INSIDE)] if box.inside else fill
    yield (
        f'<g class="{box.node.kind}"><title>{escape(box.node.title)}</title><rect x="{x:.1f}" y="{y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="4" fill="{fill}" stroke="{frame}"/>'
    )
    for i, line in enumerate(box.node.lines):
        weight = ' font-weight="bold"' if not i and box.node.kind == "operation" else ""
        yield _text(line, x + box.width / 2, y + PAD / 2 + LINE * (i + 0.8), f' text-anchor="middle"{weight}')
    for inner in box.inside:
        left, top = x + inner.x, y + inner.y
        if inner.name:
            yield _text(inner.name, left, top - LINE * 0.4, ' fill-opacity="0.7"')
        yield from _shapes(inner, left, top, depth + 1)
    yield "</g>"


def _text(text: str, x: float, y: float, more: str) -> str:
    from html import escape  # not needed where nobody draws

    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#212529"{more}>{escape(text)}</text>'
