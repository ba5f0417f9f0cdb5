"""What tests compare with: the published checks of `didax/extend/testing.py`, and how many examples a property gets."""

from __future__ import annotations

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
    "check_jvp", "check_linearize", "check_vjp", "examples", "finite_scale", "inexact_leaves", "is_inexact",
    "numerical_jvp", "numpy_of", "pairing", "random_like", "wide",
]  # fmt: skip


def examples(fraction: float) -> settings:
    """That part of the examples that the profile of Hypothesis asks for, which is 50 in `make test`."""
    return settings(max_examples=max(1, round(settings.default.max_examples * fraction)))
