"""Arithmetic, comparison, logic and elementary functions: tables of operations with their derivatives.

Each line reads: name, StableHLO operation, NumPy function, derivative. Read next: `families.py` for what a line means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.primitives.families import binary, unary

# --- linear and bilinear arithmetic ------------------------------------------------------------------------------

neg = unary("neg", hlo="negate", eager=np.negative, accepts="iufc",
            jvp=lambda t, y, x: neg(t), transpose=lambda ct, x: neg(ct))  # fmt: skip
add = binary("add", eager=np.add,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: t),
             transpose=(lambda ct, x, y: ct, lambda ct, x, y: ct))  # fmt: skip
sub = binary("sub", hlo="subtract", eager=np.subtract,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(t)),
             transpose=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)))  # fmt: skip
mul = binary("mul", hlo="multiply", eager=np.multiply,
             jvp=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
             transpose=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)))  # fmt: skip

# --- elementary functions ----------------------------------------------------------------------------------------

exp = unary("exp", hlo="exponential", eager=np.exp, jvp=lambda t, y, x: mul(t, y))
sin = unary("sin", hlo="sine", eager=np.sin, jvp=lambda t, y, x: mul(t, cos(x)))
cos = unary("cos", hlo="cosine", eager=np.cos, jvp=lambda t, y, x: neg(mul(t, sin(x))))


