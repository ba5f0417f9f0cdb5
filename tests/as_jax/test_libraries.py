"""Libraries written for JAX, those that are installed: each program gives the numbers that it gives on jax."""

import pytest

from tests.as_jax.libraries import DISTRIBUTIONS, check, version


@pytest.mark.slow  # a process for each, which imports and compiles a lot; `make libraries` runs all
@pytest.mark.parametrize("library", DISTRIBUTIONS)
def test_programs_give_the_numbers_of_jax(library: str) -> None:
    if version(library) is None:
        pytest.skip(f"{library} is not installed")
    check(library)
