"""docs/promotion.md and its picture are what their generator writes from the lattice."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from didax.core import dtypes

SCRIPT = Path(__file__).parent.parent / "docs" / "make_promotion.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_promotion", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_and_picture_are_current(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.page(), "run: python docs/make_promotion.py"
    assert generator.PICTURE.read_text() == generator.picture(), "run: python docs/make_promotion.py"


def test_the_picture_shows_every_edge_left_to_right(generator: ModuleType) -> None:
    places = [generator.place(node) for node in generator.NODES]
    assert len(set(places)) == len(places)
    edges = [
        (low, high) for low in generator.NODES for high in dtypes.PROMOTION[low] if high in generator.NODES
    ]
    assert generator.picture().count("<line") == len(edges)
    assert all(generator.place(low)[0] < generator.place(high)[0] for low, high in edges)
