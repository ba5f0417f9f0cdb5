"""Which linear equations run rules that a user wrote, and so may send cotangents where they get none.

`transpose.py` asks: it runs such equations for zeros, and no others. Read next: `primitives/custom/linear_map.py`.
"""

from __future__ import annotations

from didax.core.jaxpr import Eqn, Jaxpr
from didax.transforms.cache import cached_on_jaxpr


def may_send_more(eqn: Eqn) -> bool:
    """Whether the equation is or holds a rule of the user's, which may send more than multiples of its inputs."""
    if eqn.primitive.transposes_zeros is None:
        return False
    return any(map(_holds_rules, eqn.jaxprs)) if eqn.jaxprs else True


@cached_on_jaxpr
def _holds_rules(jaxpr: Jaxpr) -> bool:
    return any(
        [any(map(_holds_rules, inner)) if (inner := eqn.jaxprs) else may_send_more(eqn) for eqn in jaxpr.eqns]
    )
