"""What tests compare with: the published checks of `didax/extend/testing.py`, and which cases a test gets where.

The tiers of tests, `make test`, `make test-ci` and `make test-all`, are described in CONTRIBUTING.md.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

from didax.extend.testing import (
    RTOL,
    Trial,
    assert_close,
    assert_close_arrays,
    assert_round_trips,
    check_grads,
    check_jvp,
    check_linearize,
    check_vjp,
    finite_scale,
    inexact_leaves,
    is_inexact,
    numerical_jvp,
    numpy_of,
    pairing,
    random_like,
    wide,
)

__all__ = [
    "RTOL", "Trial", "assert_close", "assert_close_arrays", "assert_round_trips", "check_grads",
    "check_jvp", "check_linearize", "check_vjp", "ci_unless", "examples", "finite_scale", "first", "in_sample",
    "inexact_leaves", "is_inexact", "numerical_jvp", "numpy_of", "pairing", "random_like", "sampled", "slow_unless",
    "wide",
]  # fmt: skip


def examples(fraction: float) -> settings:
    """This fraction of the examples that the profile of Hypothesis asks for, which is 50 in `make test`."""
    return settings(max_examples=max(1, round(settings.default.max_examples * fraction)))


def sampled(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Arguments for `parametrize`, of which `make test` tries one in so many, and `make test-all` every one.

    A case is a tuple where the test has several parameters. Its text decides, so it must be the same in every process.
    """
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*row, marks=slow_unless(in_sample(str(row), one_in))) for row in rows]


def slow_unless(condition: bool) -> list[Any]:
    """The marks of a case that `make test` tries on this condition."""
    return [] if condition else [pytest.mark.slow]


def ci_unless(condition: bool) -> list[Any]:
    """The marks of a case that `make test` tries on this condition, and `make test-ci` otherwise."""
    return [] if condition else [pytest.mark.ci]


def first(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Arguments for `parametrize`, of which `make test` tries the first, or so many, and `make test-ci` the others.

    A case is a tuple where the test has several parameters, or a `pytest.param`.
    """
    found = []
    for i, case in enumerate(cases):
        values, marks, name = case if hasattr(case, "marks") else _as_parameters(case)
        found.append(pytest.param(*values, marks=[*marks, *ci_unless(i < count)], id=name))
    return found


def _as_parameters(case: Any) -> Any:
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


def in_sample(name: str, one_in: int) -> bool:
    """Whether a case of this name is in the sample of one in so many: its hash decides, so that the sample stays."""
    return hashlib.blake2b(name.encode()).digest()[0] % one_in == 0


def python_calls(f: Any, *args: Any, **kwargs: Any) -> int:
    """How many functions of Didax one call runs, after four calls like it."""
    count = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and "didax" in frame.f_code.co_filename

    for _ in range(4):
        f(*args, **kwargs)
    sys.setprofile(note)
    try:
        f(*args, **kwargs)
    finally:
        sys.setprofile(None)
    return count
