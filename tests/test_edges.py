"""Operations with their parameters at their edges: no program ends the process, or is refused only when compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge_programs import FAMILIES, case, run_cases


@pytest.mark.ci
def test_sample_of_edge_programs(tmp_path: Path) -> None:
    assert run_cases([f"{family}/1" for family in FAMILIES], tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_edge_programs(family: str, tmp_path: Path) -> None:
    found = run_cases([f"{family}/{number}" for number in range(40)], tmp_path)
    assert [f"{line}\n  {case(line.split(':')[0]).text}" for line in found] == []


@pytest.mark.ci
def test_the_case_that_ends_the_process_is_named(tmp_path: Path) -> None:
    """An unknown family ends it as well; the cases after that one have their turn."""
    found = run_cases(["missing/1", "shapes/0"], tmp_path)
    assert len(found) == 1 and found[0].startswith("missing/1: the process ended (1): KeyError")
