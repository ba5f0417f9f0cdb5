"""The faults of `make mutations` still have their places: code that moves takes its mutations along."""

from pathlib import Path

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation, arguments_of


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_applies_and_its_tests_are_there(mutation: Mutation) -> None:
    file = ROOT / mutation.file
    assert file.exists() and mutation.text in file.read_text(), f"{mutation.file} has no {mutation.text!r}"
    words = arguments_of(mutation.tests)
    tests = words[: words.index("-k")] if "-k" in words else words
    assert tests and all((ROOT / Path(test)).exists() for test in tests)
