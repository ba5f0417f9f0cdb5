"""Types of tangents and cotangents beside those of their values: weak types, and placements over devices.

An operation that has strongly typed operands casts its weakly typed operands to a strong type. So the tangent of a
strongly typed result is strong, though the operand's may be weak; and the cotangent of a weakly typed operand is weak,
though the result's may be strong. No rule of a primitive sees to that: the interpreters do, with the functions here.
Read next: `jvp.py`, `linearize.py`, `transpose.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Jaxpr
from didax.core.primitive import Trace
from didax.core.tracing import set_current_trace


def fitted_tangent(trace: Trace, tangent: Any, aval: ShapedArray) -> Any:
    """The tangent of a result of type `aval`, placed over devices as the result is, and strong if the result is.

    `trace` receives the operations.
    """
    found = aval_of(tangent)
    with set_current_trace(trace):
        if found.vma != aval.vma or found.layout is not aval.layout:
            tangent = array_ops.match_devices(tangent, aval)
        if found.weak_type and not aval.weak_type:
            tangent = array_ops.convert(tangent, found.dtype, False)
    return tangent


def weak_cotangent(ct: Any) -> Any:
    """A strongly typed cotangent of a weakly typed operand, cast to weak: the transpose of the operand's cast."""
    return array_ops.convert(ct, aval_of(ct).dtype, True)


def strong_cotangents(cts: Sequence[Any], *jaxprs: Jaxpr) -> tuple[bool, ...]:
    """The `strong_ct` of `transpose_jaxpr`: which of the outputs' cotangents are strong though an output is weak.

    All of the jaxprs have such outputs, as the branches of a `cond` have. Empty where there is no such cotangent.
    """
    strong = tuple(
        [
            type(ct) is not Zero
            and any([jaxpr.outvars[i].aval.weak_type for jaxpr in jaxprs])
            and not aval_of(ct).weak_type
            for i, ct in enumerate(cts)
        ]
    )
    return strong if True in strong else ()


def cotangent_avals(jaxpr: Jaxpr, strong_ct: tuple[bool, ...]) -> Sequence[ShapedArray]:
    """The types of the outputs' cotangents: those of the outputs, but strong where `strong_ct` says so."""
    if not strong_ct:
        return jaxpr.out_avals
    return [a.strip_weak_type() if s else a for a, s in zip(jaxpr.out_avals, strong_ct, strict=True)]
