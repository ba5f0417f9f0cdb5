"""docs/promotion.md and its picture are what their generator writes, and say what the published table says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from didax.core import dtypes

ROOT = Path(__file__).parent.parent
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_promotion", ROOT / "docs" / "make_promotion.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_the_picture_are_current(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.page(), "run: python docs/make_promotion.py"
    assert generator.PICTURE.read_text() == generator.picture(), "run: python docs/make_promotion.py"


def test_the_table_is_the_published_one(generator: ModuleType) -> None:
    lines = generator.page().split("\n")
    columns, _, *body = [line.replace("|", " ").replace("**`", "").replace("`**", "").replace("`", "").split()
                         for line in lines if line.startswith("|")]  # fmt: skip
    found = {(row[0], b): cell for row in body for b, cell in zip(columns, row[1:], strict=True)}
    published = (ROOT / "tests" / "core" / "promotion_table.txt").read_text().split("\n")
    header, *cells = [line.split() for line in published if line and not line.startswith("#")]
    assert found == {(row[0], b): cell for row in cells for b, cell in zip(header, row[1:], strict=True)}


def test_the_picture_has_every_node_and_edge_inside_it(generator: ModuleType) -> None:
    svg = ElementTree.fromstring(generator.picture())
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    circles = {e[2].text: (float(e[1].attrib["cx"]), float(e[1].attrib["cy"])) for e in svg.iter(f"{SVG}g")}
    assert set(circles) == set(generator.PLACES) and len(set(circles.values())) == 18
    assert all(generator.RADIUS <= x <= width - generator.RADIUS for x, _ in circles.values())
    assert all(generator.RADIUS <= y <= height - generator.RADIUS for _, y in circles.values())
    edges = [(a, b) for a in circles for b in dtypes.PROMOTION[a] if b in circles]
    assert len(list(svg.iter(f"{SVG}line"))) == len(edges) == 24


def test_what_lies_above_is_drawn_to_the_right(generator: ModuleType) -> None:
    places = generator.PLACES
    for below, (column, _) in places.items():
        assert all(places[node][0] > column for node in dtypes.PROMOTION[below] if node in places)
