"""Programs on extended dtypes as programs on numbers: what is compiled and evaluated where random keys are.

    physical_jaxpr({ lambda ; a:key<fry>[2,3]. let b:key<fry>[6] = reshape[new_sizes=(6,)] a in (b,) })
                =  { lambda ; a:u32[2,3,2].    let b:u32[6,2]    = reshape[new_sizes=(6, 2)] a in (b,) }

An array of keys of shape (3,) stands on an array of words of shape (3, 2): element axes come last
(`ShapedArray.physical`). Three kinds of primitives meet such arrays. Primitives that only move data (`moves_elements`)
move each word of a key alike: the words are a batch along the element axes, and the batch rule says what to do, so
these primitives need no rule for keys. Primitives that know what an element means state a `physical` rule. Primitives
that hold jaxprs (jit, cond, loops) get physical jaxprs. All other primitives refuse such arrays, by `infer`. Every
other transformation sees keys as opaque elements, and lowering never sees them.
Read next: `primitives/keys.py` (random keys), `xla/lowering.py` and `didax/runtime/eager.py` (who calls this).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.primitive import Primitive
from didax.core.rule_types import as_list, check_results
from didax.transforms.batching import AxisData, move_batch_axis, vmap_flat
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import rewritten


def is_physical(avals: Sequence[ShapedArray]) -> bool:
    """Whether none of the types has an extended dtype."""
    return all([aval.physical is aval for aval in avals])


def physical_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr on the numbers behind its extended dtypes; itself where it binds no variable of such a dtype."""
    for v in jaxpr.invars:
        if v.aval.physical is not v.aval:
            return _physical_jaxpr(jaxpr)
    for eqn in jaxpr.eqns:
        for v in eqn.outvars:
            if v.aval.physical is not v.aval:
                return _physical_jaxpr(jaxpr)
    return jaxpr


@cached_on_jaxpr
def _physical_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    in_avals = [v.aval.physical for v in jaxpr.invars]
    return rewritten(jaxpr, _physical_application, what="lowering", in_avals=in_avals)


def _physical_application(eqn: Eqn, args: Sequence[Any]) -> Sequence[Any]:
    """The equation's results, as numbers, for operands as numbers."""
    primitive, params = eqn.primitive, eqn.params
    in_avals = tuple([x.aval for x in eqn.invars])
    if is_physical((*in_avals, *[v.aval for v in eqn.outvars])):
        return as_list(primitive, primitive.bind(*args, **params))
    if primitive.physical is not None:
        outs = primitive.physical(in_avals, *args, **params)
        check_results(primitive, "physical", outs, [v.aval.physical for v in eqn.outvars])
        return as_list(primitive, outs)
    if primitive.moves_elements:
        return _move(primitive, in_avals, args, params)
    return as_list(primitive, primitive.bind(*args, **eqn.map_jaxprs(physical_jaxpr).params))


def _move(
    primitive: Primitive, in_avals: Sequence[ShapedArray], args: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    extended = [dtypes.as_extended(aval.dtype) for aval in in_avals]
    dtype = next(d for d in extended if d is not None)

    def move(*xs: Any) -> Sequence[Any]:
        return as_list(primitive, primitive.bind(*xs, **params))

    return map_element_axes(move, dtype.element_shape, [d is not None for d in extended])(*args)


def map_element_axes(
    f: Callable[..., Sequence[Any]], sizes: Sequence[int], mapped: Sequence[bool]
) -> Callable[..., Sequence[Any]]:
    """`f` on each index of the last axes of its `mapped` arguments; what depends on these has them last as well."""
    for size in sizes:
        f = _map_last_axis(f, AxisData(None, size), mapped)
    return f


def _map_last_axis(
    f: Callable[..., Sequence[Any]], axis: AxisData, mapped: Sequence[bool]
) -> Callable[..., Sequence[Any]]:
    def batched(*args: Any) -> Sequence[Any]:
        dims = [aval_of(x).ndim - 1 if on else None for x, on in zip(args, mapped, strict=True)]
        outs, out_dims = vmap_flat(f, axis, dims, args)
        return [
            y if dim is None else move_batch_axis(y, dim, aval_of(y).ndim - 1, axis.size)
            for y, dim in zip(outs, out_dims, strict=True)
        ]

    return batched
