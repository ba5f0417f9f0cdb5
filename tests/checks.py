"""What tests compare with: the published checks of `didax/extend/testing.py`, and how large programs are compiled."""

from __future__ import annotations

from typing import Any

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
from didax.version import installed_jaxlib

__all__ = [
    "COMPILE_QUICKLY", "RTOL", "Trial", "assert_close", "assert_close_arrays", "assert_round_trips", "check_grads",
    "check_jvp", "check_linearize", "check_vjp", "finite_scale", "inexact_leaves", "is_inexact", "numerical_jvp",
    "numpy_of", "pairing", "random_like", "wide",
]  # fmt: skip

# compiler options for large programs that run once, in Didax and in the oracle
COMPILE_QUICKLY: dict[str, Any] = {"xla_backend_optimization_level": 0}
if (installed_jaxlib() or "").startswith("0.10."):  # later versions refuse the name
    COMPILE_QUICKLY["xla_cpu_use_fusion_emitters"] = False
