"""`debug.graph`: programs as pictures. What overlaps is computed from the SVG itself."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax

SVG = "{http://www.w3.org/2000/svg}"


def loss(w: Any, x: Any) -> Any:
    x = lax.scan(lambda c, w: (dnp.tanh(c @ w), None), x, w)[0]
    x = lax.cond(x[0, 0] > 0, lambda x: x * 2.5, lambda x: dnp.sin(x) + w[0], x)
    return (dx.jit(dnp.square)(x) - x).sum()


ARGUMENTS = dnp.ones((3, 8, 8)), dnp.ones((8, 8))


def checked(graph: Any) -> Any:
    """The picture, no box of which lies on another one, unless it is inside of it; no line runs through a box."""
    root = ET.fromstring(graph.svg())
    check(root, None)
    return root


def box_of(group: Any) -> tuple[float, ...]:
    x, y, width, height = (
        float(group.find(f"{SVG}rect").get(name)) for name in ("x", "y", "width", "height")
    )
    return x, y, x + width, y + height


def check(group: Any, outer: Any) -> None:
    inside = group.findall(f"{SVG}g")
    boxes = [box_of(each) for each in inside]
    for i, a in enumerate(boxes):
        assert outer is None or (outer[0] < a[0] and outer[1] < a[1] and a[2] < outer[2] and a[3] < outer[3])
        for b in boxes[:i]:
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1], (a, b)
    for path in group.findall(f"{SVG}path"):
        points = path.get("d").replace("M", " ").replace("L", " ").replace("C", " ").split()
        for x, y in zip(map(float, points[::2]), map(float, points[1::2]), strict=True):
            assert not any(a[0] < x < a[2] and a[1] + 0.2 < y < a[3] - 0.2 for a in boxes)
    for each in inside:
        check(each, box_of(each))


def texts(root: Any, kind: str) -> list[str]:
    return [each.find(f"{SVG}text").text for each in root.iter(f"{SVG}g") if each.get("class") == kind]


def test_jaxprs_are_drawn_with_the_programs_inside_of_them() -> None:
    jaxpr = dx.make_jaxpr(dx.grad(loss))(*ARGUMENTS)
    graph = dx.debug.graph(jaxpr)
    root = checked(graph)
    found = texts(root, "operation")
    assert len(found) == graph.operations and graph.left_out == 0
    assert {"scan", "cond", "dot_general", "tanh", "mul 2.5"} <= set(found)
    assert texts(root, "input")[:2] == ["f32[3,8,8]", "f32[8,8]"] and "f32[3,8,8]" in texts(root, "output")
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert any("test_graph.py:" in title and "tanh" in title for title in titles)
    assert repr(graph) == f"<graph of loss: {graph.operations} operations>"
    assert graph._repr_svg_() == graph.svg() == dx.debug.graph(jaxpr.jaxpr).svg()
    assert dx.debug.graph(dx.jit(dx.grad(loss)).trace(*ARGUMENTS)).operations == graph.operations


def test_large_programs_are_cut_and_the_picture_says_so() -> None:
    jaxpr = dx.make_jaxpr(dx.grad(loss))(*ARGUMENTS)
    whole = dx.debug.graph(jaxpr).operations
    for most in (1, 6, 15):
        graph = dx.debug.graph(jaxpr, max_operations=most)
        root = checked(graph)
        assert graph.operations == len(texts(root, "operation")) == most
        assert graph.operations + graph.left_out == whole
        told = [
            text.text for text in root.iter(f"{SVG}text") if "more op" in text.text or "inside" in text.text
        ]
        assert told and f"{graph.left_out:,} more are left out" in repr(graph)

    def long(x: Any) -> Any:
        for _ in range(300):
            x = dnp.sin(x) + x
        return x

    assert dx.debug.graph(dx.make_jaxpr(long)(1.0)).left_out == 600 - 150
    checked(dx.debug.graph(dx.make_jaxpr(long)(1.0), max_operations=1000))


def test_compiled_programs_are_drawn(tmp_path: Path) -> None:
    compiled = dx.jit(loss).lower(*ARGUMENTS).compile()
    graph = dx.debug.graph(compiled)
    root = checked(graph)
    assert "parameter" in texts(root, "input") and texts(root, "output")[-1] == "f32[]"
    assert {"dot", "tanh"} <= set(texts(root, "operation"))
    checked(dx.debug.graph(compiled, max_operations=3))
    graph.save(tmp_path / "a.svg")
    assert ET.parse(tmp_path / "a.svg").getroot().tag == f"{SVG}svg"
    with pytest.raises(ValueError, match=r"saved as a picture of the kind SVG.\n.*a\.png"):
        graph.save(tmp_path / "a.png")
    assert repr(compiled) == "<Compiled loss: (float32[3,8,8], float32[8,8]) -> (float32[])>"
    assert repr(dx.jit(loss).trace(*ARGUMENTS)).startswith("<Traced loss: (float32[3,8,8]")


def test_small_programs_and_names_that_need_escapes() -> None:
    checked(dx.debug.graph(dx.make_jaxpr(lambda: ())()))
    checked(dx.debug.graph(dx.make_jaxpr(lambda x: (x, x, 2.0))(1.0)))
    svg = dx.debug.graph(dx.make_jaxpr(dx.jit(lambda x: x + 1))(1.0)).svg()
    assert "<lambda>" not in svg and "&lt;lambda&gt;" in svg


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"(?s)draws jaxprs and compiled programs.*of type function.*make_jaxpr"
    ):
        dx.debug.graph(loss)
    with pytest.raises(ValueError, match=r"(?s)how many operations are drawn.*max_operations: 0"):
        dx.debug.graph(dx.make_jaxpr(lambda x: x)(1.0), max_operations=0)
