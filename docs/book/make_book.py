"""Write what the book has beside its chapters: the file of the miniature, and the pictures.

    python docs/book/make_book.py

`miniature.py` is the code of chapters 1 to 6, joined. The pictures are drawn from objects of the miniature: traces that
are running, a tape, a program in two halves, a trained network. A test compares all of them with what this would write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

BOOK = Path(__file__).parent
CHAPTERS = sorted(BOOK.glob("[1-7]-*.md"))
EXERCISES = BOOK / "exercises.md"
HEAD = '"""The miniature of Didax that the book builds: the code of its chapters, joined by make_book.py."""\n'


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """The blocks of Python of a page, each with its line."""
    text = page.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text[: block.start()].count("\n") + 1, block[1]


def programs(page: Path) -> Iterator[tuple[int, str]]:
    """Those blocks that are programs: they have no prompts."""
    return ((line, block) for line, block in blocks(page) if ">>> " not in block)


def miniature() -> str:
    """The code of the chapters in which the library is built."""
    parts = [HEAD]
    for page in CHAPTERS[:6]:
        title = page.read_text().partition("\n")[0].removeprefix("# ")
        code = "\n\n".join(block for _, block in programs(page))
        gap = "\n\n\n" if code.startswith(("class ", "def ", "@")) else "\n\n"
        parts.append(f"# Chapter {title}{gap}{code}")
    return "\n\n".join(parts)


def run(pages: list[Path], names: dict[str, Any]) -> dict[str, Any]:
    """Run the programs of pages, in these names."""
    for page in pages:
        for line, block in programs(page):
            exec(compile("\n" * line + block, str(page), "exec"), names)
    return names


# Pictures. They have a light ground of their own, so that they can be read on a dark page.

INK, FAINT, PAPER = "#1f2430", "#8b93a5", "#fbfbfd"
BLUE, GREEN, ORANGE, GREY = "#dbe7fb", "#d9f0e1", "#fbe6cf", "#eceef3"
LINE = 19


class Picture:
    """An SVG picture: boxes of text, labels, arrows."""

    def __init__(self, width: int, height: int, title: str):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        ]

    def text(self, x: float, y: float, text: str, color: str = INK, anchor: str = "start") -> None:
        words = escape(text).replace(" ", "&#160;")
        self.parts.append(
            f'<text x="{x}" y="{y}" fill="{color}" text-anchor="{anchor}">{words}</text>'
        )

    def box(self, x: float, y: float, width: float, lines: list[str], fill: str) -> float:
        """A box of lines of text; the y of its lower edge."""
        height = LINE * len(lines) + 14
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}"/>'
        )
        for i, line in enumerate(lines):
            self.text(x + 10, y + 20 + LINE * i, line)
        return y + height

    def arrow(self, path: str, color: str = INK) -> None:
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.5" marker-end="url(#tip)"/>'
        )

    def __str__(self) -> str:
        return "\n".join([*self.parts, "</svg>\n"])


def trace_chain(m: dict[str, Any]) -> str:
    """The traces that `sin(x)` visits under vmap of jvp, what arrives at each, and the tracer x."""
    arrivals: dict[Any, list[str]] = {}
    tracers: list[Any] = []

    def log(trace: Any) -> Any:
        process = trace.process

        def logging(primitive: Any, args: list[Any], params: dict[str, Any]) -> Any:
            arrivals.setdefault(trace, []).append(
                f"{primitive.name} {' '.join(str(x.aval) for x in args)}"
            )
            return process(primitive, args, params)

        return logging

    def probe(x: Any) -> Any:
        tracers.append(x)
        trace, logged = m["current_trace"](), []
        while trace is not None:
            trace.process = log(trace)
            logged.append(trace)
            trace = trace.parent
        try:
            return m["sin"](x)
        finally:
            for trace in logged:
                del trace.process

    m["vmap"](lambda x: m["jvp"](probe, (x,), (1.0,)))(m["array"]([0.0, 3.0]))
    picture = Picture(780, 300, "sin(x) passes through a JVPTrace, a BatchTrace and the EagerTrace")
    fills = (BLUE, GREEN, GREY)
    for i, (trace, arrived) in enumerate(arrivals.items()):
        x = 20 + 255 * i
        picture.box(x, 20, 200, [type(trace).__name__], fills[i])
        picture.text(x + 10, 80, "receives", FAINT)
        for j, operation in enumerate(arrived):
            picture.text(x + 10, 100 + LINE * j, operation)
        if trace.parent is not None:
            picture.arrow(f"M{x + 202} 37H{x + 252}")
            picture.text(x + 228, 30, "parent", FAINT, "middle")
    (x,) = tracers
    value = x.value.value
    picture.text(20, 196, "The argument x, as the function sees it:", FAINT)
    picture.box(20, 208, 740, [f"tracer {x.aval}, of the {type(x.trace).__name__}", "", ""], BLUE)
    picture.text(600, 256, f"tangent: {x.beside.value}")
    inner = f"primal: tracer {x.value.aval}, of the {type(x.value.trace).__name__}, axis {x.value.beside} of"
    picture.box(30, 236, 550, [inner], GREEN)
    picture.text(480, 256, m["number"](value.value))
    return str(picture)


def tape(m: dict[str, Any]) -> str:
    """The linear program of f at 3: its equations with tangents, and with the cotangents that walk back."""
    _, program, _ = m["linearize_flat"](lambda x: [m["sin"](x) * 2.0 + x], [m["array"](3.0)])
    names = {
        v: "abcdefgh"[i]
        for i, v in enumerate([*program.invars, *(e.outvars[0] for e in program.eqns)])
    }
    tangents, cotangents = (
        {program.invars[0]: m["array"](1.0)},
        {program.outvars[0]: m["array"](1.0)},
    )
    for eqn in program.eqns:
        (out,) = eqn.primitive.bind(
            *[tangents[x] if x in names else x for x in eqn.invars], **eqn.params
        )
        tangents[eqn.outvars[0]] = out
    backward: dict[Any, str] = {}
    for eqn in reversed(program.eqns):
        ct = cotangents[eqn.outvars[0]]
        found = eqn.primitive.transpose([ct], *eqn.invars, **eqn.params)
        sent = []
        for x, ct_x in zip(eqn.invars, found, strict=True):
            if x in names:
                cotangents[x] = cotangents[x] + ct_x if x in cotangents else ct_x
                sent.append(f"{names[x]} += {m['number'](ct_x.value)}")
        backward[eqn.outvars[0]] = ",  ".join(sent)

    def text(x: Any) -> str:
        return names[x] if x in names else m["number"](x.value)

    first = program.invars[0]
    picture = Picture(780, 300, "A tape: tangents go down, cotangents go up")
    picture.text(30, 32, "forwards: tangents", FAINT)
    picture.text(500, 32, "backwards: cotangents", FAINT)
    rows = [
        (f"{names[first]}", tangents[first], f"{names[first]}  is  {text_of(m, cotangents[first])}")
    ]
    for eqn in program.eqns:
        out = eqn.outvars[0]
        line = f"{names[out]} = {eqn.primitive.name} {' '.join(map(text, eqn.invars))}"
        rows.append((line, tangents[out], backward[out]))
    for i, (line, tangent, back) in enumerate(rows):
        y = 48 + 56 * i
        picture.box(30, y, 230, [line], ORANGE if i else GREY)
        picture.text(275, y + 20, m["number"](tangent.value))
        picture.box(500, y, 250, [back], BLUE if i else GREY)
        if i:
            picture.arrow(f"M145 {y - 23}V{y - 2}")
            picture.arrow(f"M625 {y - 2}V{y - 23}")
    out = names[program.outvars[0]]
    picture.text(30, 280, f"the tangent of f is {out}: {text_of(m, tangents[program.outvars[0]])}")
    picture.text(500, 280, f"begins with {out} = 1.")
    return str(picture)


def text_of(m: dict[str, Any], x: Any) -> str:
    return m["number"](x.value)


def split(m: dict[str, Any]) -> str:
    """The two halves of a program, and the residual that goes from one to the other."""
    jaxpr = m["make_jaxpr"](lambda x: m["sin"](x) * 2.0 + x)(3.0)
    known, unknown = m["linearize_jaxpr"](jaxpr)
    picture = Picture(780, 240, "A known and an unknown half, and the residual between them")
    picture.text(30, 32, "known: now", FAINT)
    picture.text(430, 32, "unknown: later, linear in the first input", FAINT)
    left, right = repr(known).split("\n"), repr(unknown).split("\n")
    bottom = picture.box(30, 48, 300, left, GREEN)
    picture.box(430, 48, 320, right, ORANGE)
    num_outs, num_residuals = len(jaxpr.outvars), len(known.outvars) - len(jaxpr.outvars)
    outputs = f"{num_outs} output, {num_residuals} residual"
    picture.text(30, bottom + 24, f"returns {outputs}")
    picture.arrow(f"M{30 + 250} {bottom + 20}H380V{48 + 16}H428")
    picture.text(430, bottom + 24, f"takes {len(jaxpr.invars)} tangent, {num_residuals} residual")
    return str(picture)


def moons(m: dict[str, Any]) -> str:
    """What the trained network says on a grid, and the points."""
    columns, rows, size = 32, 20, 20
    corners = [(x, y) for y in range(rows) for x in range(columns)]
    places = [(-1.9 + 4.8 * (x + 0.5) / columns, 1.75 - 3 * (y + 0.5) / rows) for x, y in corners]
    predict = m["vmap"](lambda x: m["predict"](m["trained"], x))
    scores = predict(m["array"](places)).value[:, 0]
    picture = Picture(
        columns * size, rows * size, "The network's answer over the plane, and the points"
    )
    shades = ["#f3c58f", "#f8dfc2", "#eef0f5", "#cfe0f9", "#a8c7f2"]
    for (x, y), score in zip(corners, scores, strict=True):
        shade = shades[sum(bool(score > bound) for bound in (-3, -1, 1, 3))]
        picture.parts.append(
            f'<path d="M{x * size} {y * size}h{size}v{size}h-{size}z" fill="{shade}"/>'
        )
    for (x, y), label in zip(m["points"], m["labels"], strict=True):
        fill = "#2458a6" if label > 0 else "#b4641c"
        at = f'cx="{(x + 1.9) / 4.8 * columns * size:.1f}" cy="{(1.75 - y) / 3 * rows * size:.1f}"'
        picture.parts.append(f'<circle {at} r="4" fill="{fill}"/>')
    return str(picture)


PICTURES = {"trace-chain": trace_chain, "tape": tape, "split": split, "moons": moons}

if __name__ == "__main__":
    (BOOK / "miniature.py").write_text(miniature())
    names = run(CHAPTERS, {"__name__": "book"})
    for name, draw in PICTURES.items():
        (BOOK / f"{name}.svg").write_text(draw(names))
