"""docs/accuracy.md states an error of every special function, or says why it has no row."""

import re
from pathlib import Path

from didax.scipy import special

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"


def test_every_special_function_has_a_row_or_a_reason() -> None:
    named = set(re.findall(r"`(\w+)(?: \([^`]*\))?`", PAGE.read_text()))
    assert set(special.__all__) - named == set()
