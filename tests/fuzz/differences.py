"""Differences from jax that are meant: a finding that matches a row is counted under its reason, and is no fault.

The first two columns are regular expressions for the kind of a finding and for what it is about (the operation, the
message and the text of the program, in one string). The reasons are those of docs/differences.md.
"""

from __future__ import annotations

import re

from tests.fuzz.comparison import Finding

KNOWN = [
    # kind, about, reason
    ("jax refuses", r"Differentiation rule for 'p(max|min)'", "pmax and pmin have derivatives"),
    ("jax refuses", r"Derivatives of non-symmetric eigenvectors", "eig has derivatives"),
    ("jax refuses", r"scatter_apply JVP not implemented", "scatter_apply has derivatives"),
    ("jax refuses", r"forward-mode autodiff \(jvp\) to a custom_vjp", "forward mode through a custom_vjp"),
    ("jax refuses", r"lax\.clamp\(-?\d", "Python scalars take the dtype of the array they are clamped to"),
    ("jax refuses", r"np\.fft\.\w+\(.*float16", "fft of float16 and bfloat16 is computed in float32"),
    ("didax refuses", r"hfft transforms at least one point", "hfft of one point, as in NumPy"),
    ("didax refuses", r"random_gamma_grad has no derivative", "a hole in docs/primitives.md"),
    ("weak type", r"^(nn|special)\.", "weak types by the rule of docs/promotion.md"),
    ("value", r"jax \[[^\]]*nan.*np\.linalg\.(vector_|matrix_)?norm", "derivatives of norm at 0"),
    ("value", r"didax \[-?0\..*\.(abs|absolute|fabs)\(", "the derivative of abs at 0"),
]


def reason(finding: Finding) -> str | None:
    """Why a finding is meant, or None."""
    types = [
        str(finding.program.types[name]) for name in finding.program.inputs if name in finding.program.types
    ]
    lines = [line for statement in finding.program.refused for line in statement.lines()]
    about = " ".join([finding.where, finding.message, *finding.program.lines(), *lines, *types])
    if finding.kind.startswith("value") and len(finding.program.statements) > 3:
        return None  # only a program that is shrunk tells which operation it is
    for kind, pattern, why in KNOWN:
        if re.search(kind, finding.kind) and re.search(pattern, about):
            return why
    return None
