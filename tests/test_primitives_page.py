"""docs/primitives.md is what its generator writes, and every absent rule has a reason."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "docs" / "make_primitives.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_primitives", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator: ModuleType) -> None:
    """But for the numbers of lines, which `make format` writes anew."""
    written, wanted = map(generator.without_lines, (generator.PAGE.read_text(), generator.page()))
    assert written == wanted, "run: python docs/make_primitives.py"


def test_every_link_of_the_page_leads_to_its_primitive(generator: ModuleType) -> None:
    for p, (path, line) in generator.homes().items():
        text = "\n".join((generator.ROOT / path).read_text().splitlines()[line - 1 : line + 2])
        assert p.name in text, (p.name, path, line)


def test_every_hole_has_a_reason(generator: ModuleType) -> None:
    unexplained = {
        p.name: rule for p in generator.primitives() for rule, why in generator.holes(p) if not why
    }
    assert not unexplained


def test_no_reason_is_given_for_a_rule_that_is_there(generator: ModuleType) -> None:
    stale = {p.name: rule for p in generator.primitives() for rule in p.holes if generator.has(p, rule)}
    assert not stale
