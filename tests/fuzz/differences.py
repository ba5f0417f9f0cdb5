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
    ("jax refuses", r"Derivatives of non-symmetric eigenvectors", "eigenvectors of eig have derivatives"),
    ("jax refuses", r"scatter_apply JVP not implemented", "scatter_apply has derivatives"),
]


def reason(finding: Finding) -> str | None:
    """Why a finding is meant, or None."""
    about = " ".join([finding.where, finding.message, *finding.program.lines()])
    about += " ".join(line for statement in finding.program.refused for line in statement.lines())
    for kind, pattern, why in KNOWN:
        if re.search(kind, finding.kind) and re.search(pattern, about):
            return why
    return None
