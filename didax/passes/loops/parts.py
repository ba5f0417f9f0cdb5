"""Splits as slices, for the other passes: they look at each part of an array on its own.

    a, b = split[sizes=(2, 3) axis=0] x      becomes      a = slice x; b = slice x

Parts that nobody reads are left out.
Read next: `driver.py`.
"""

from __future__ import annotations

from didax.core.jaxpr import Eqn, Jaxpr
from didax.passes.loops.rewrite import uses
from didax.primitives.slicing import part_bounds, slice_p, split_p
from didax.transforms.cache import cached_on_jaxpr


def with_slices(jaxpr: Jaxpr) -> Jaxpr:
    """The program with slices in the place of splits; the same object if it has none."""
    return _with_slices(jaxpr) if _has_splits(jaxpr) else jaxpr


def _has_splits(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive is split_p or any(map(_has_splits, eqn.jaxprs)) for eqn in jaxpr.eqns)


@cached_on_jaxpr
def _with_slices(jaxpr: Jaxpr) -> Jaxpr:
    used = uses(jaxpr)
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is split_p:
            eqns += [part for part in _slices(eqn) if part.outvars[0] in used]
        else:
            eqns.append(eqn.map_jaxprs(with_slices) if any(map(_has_splits, eqn.jaxprs)) else eqn)
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.name)


def _slices(eqn: Eqn) -> list[Eqn]:
    (x,), axis, shape = eqn.invars, eqn.params["axis"], eqn.invars[0].aval.shape
    slices: list[Eqn] = []
    for v, (start, end) in zip(eqn.outvars, part_bounds(eqn.params["sizes"]), strict=True):
        bounds = {
            "start_indices": tuple([start if i == axis else 0 for i in range(len(shape))]),
            "limit_indices": tuple([end if i == axis else n for i, n in enumerate(shape)]),
            "strides": None,
        }
        slices.append(Eqn(slice_p, [x], bounds, [v], eqn.source))
    return slices
