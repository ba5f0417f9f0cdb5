"""`shard_map_p`: a program that each device runs on its own part of the arrays.

    in_specs say how each operand is cut into the devices' parts, out_specs how the results are put together

The jaxpr knows the types of parts. Along the mesh axes in `axes` the function decides itself what devices exchange, by
collectives; along all other axes of the mesh the partitioner decides, as ever. With `tracked` the types say along which
axes the devices' values may differ, so that what a spec leaves out is known to be the same on all devices, and reverse
mode communicates only where it has to (`varying.py`). Without it, what a spec leaves out is taken to be the same; the
cotangent of such a result is divided among the devices, and the cotangents of such an operand are summed.
Read next: `varying.py`, `collectives.py`; `didax/api/shard_map.py` for the face.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.device_types import split_of
from didax.core.errors import message
from didax.core.given import given_by
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.mesh import Mesh
from didax.core.primitive import Primitive
from didax.core.sharding import NamedSharding, PartitionSpec, entry_names
from didax.passes.checkify import Kinds, Report, checkify_jaxpr, report_of
from didax.passes.simplify import dce_jaxpr
from didax.passes.uneven import Axes, Follow, agreeing, differing
from didax.primitives.call import fill_zeros, scatter_cotangents
from didax.primitives.check import row
from didax.primitives.control_flow.agreement import agreed, lowest
from didax.primitives.elementwise import div, not_
from didax.primitives.reductions import argmin_p
from didax.primitives.scalars import scalar_like
from didax.primitives.shape import reshape
from didax.primitives.varying import sum_over
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.named_axes import axis_env
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.split import Split
from didax.transforms.transpose import is_undef, transpose_jaxpr
from didax.transforms.weak_types import strong_cotangents
from didax.xla.device_text import Manual
from didax.xla.lowering import has_order, lower_jaxpr_body
from didax.xla.text import RunNumber, names, tensor_type, types

Specs = tuple[PartitionSpec, ...]


class ShardMap(Primitive):
    """`shard_map_p.bind(*args, jaxpr=..., mesh=..., axes=..., in_specs=..., out_specs=..., tracked=...)`."""

    multiple_results = True
    evaluate = given_by("didax.runtime.compiled")

    def bind(self, *args: Any, jaxpr: Jaxpr, in_specs: Specs, **params: Any) -> list[Any]:
        """As for every primitive, except that devices agree before they exchange if types do not say what differs."""
        if not params["tracked"]:
            jaxpr = _agreeing(jaxpr, in_specs, params["mesh"], params["axes"])
        return super().bind(*args, jaxpr=jaxpr, in_specs=in_specs, **params)

    def differs(
        self,
        follow: Follow,
        choose: Any,
        operands: Sequence[Axes],
        *,
        jaxpr: Jaxpr,
        axes: Sequence[str],
        **_: Any,
    ) -> list[Axes]:
        """Results may differ along the axes of a `shard_map` around this one, not along its own."""
        return [found.difference(axes) for found in follow(jaxpr, operands)]

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["jaxpr"].axis_names - frozenset(params["axes"])

    def type(
        self, *avals: ShapedArray, jaxpr: Jaxpr, out_specs: Specs, in_specs: Specs = (), **how: Any
    ) -> list[ShapedArray]:
        return [whole(v.aval, spec, **how) for v, spec in zip(jaxpr.outvars, out_specs, strict=True)]

    def lower(
        self,
        ctx: Any,
        *args: Any,
        jaxpr: Jaxpr,
        mesh: Mesh,
        axes: Any,
        in_specs: Any,
        out_specs: Any,
        **_: Any,
    ) -> Any:
        devices, out_avals = ctx.module.devices, ctx.out_avals
        count = int(has_order(jaxpr.effects))  # of tokens
        parts, _ = ctx.block([*[ctx.module.token] * count, *jaxpr.in_avals])
        body, outer = ctx.region(), devices.manual
        body.tokens, body.run = parts[:count], RunNumber(f"%run{next(ctx.counter)}")
        devices.manual = Manual(mesh, frozenset(axes).union(outer.axes if outer is not None else ()))
        try:
            outs = lower_jaxpr_body(body, jaxpr, parts[count:])
            outs = [*body.tokens, *outs]
            # First: it may write constants.
            ending = f"sdy.return {names(outs)} : {types(outs)}" if outs else "sdy.return"
        finally:
            devices.manual = outer
        # The tokens that order calls of Python are passed on with the operands, and so is the number of the run.
        run = [ctx.run.use()] if body.run.used else []
        args = (*run, *ctx.tokens[:count], *args)
        parts, out_avals = (
            [*[body.run.value] * len(run), *parts],
            [*[ctx.module.token] * count, *out_avals],
        )
        in_specs = (*[PartitionSpec()] * (len(run) + count), *in_specs)
        out_specs = (*[PartitionSpec()] * count, *out_specs)
        laid_in = [
            devices.manual_sharding(mesh, axes, s, x.aval.ndim) for s, x in zip(in_specs, args, strict=True)
        ]
        laid_out = [
            devices.manual_sharding(mesh, axes, s, a.ndim) for s, a in zip(out_specs, out_avals, strict=True)
        ]
        manual = ", ".join(f'"{name}"' for name in axes)
        header = ", ".join(f"{x}: {x.type}" for x in parts)
        lines = "\n".join([*body.lines, ending])
        results = ctx.emit_many(
            f"sdy.manual_computation({names(args)}) in_shardings=[{', '.join(laid_in)}] "
            f"out_shardings=[{', '.join(laid_out)}] manual_axes={{{manual}}} ({header}) {{\n{lines}\n}} : "
            f"({types(args)}) -> ({', '.join(map(tensor_type, out_avals))})",
            out_avals,
        )
        if count:
            ctx.tokens = results[:count]
        return results[count:]

    def jvp(
        self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, in_specs: Any, out_specs: Any, **how: Any
    ) -> Any:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        with manual_axes(**how):
            new, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
        in_specs += tuple(s for s, nz in zip(in_specs, nonzero, strict=True) if nz)
        out_dot_specs = tuple(s for s, nz in zip(out_specs, nonzero_out, strict=True) if nz)
        given = [t for t in tangents if type(t) is not Zero]
        specs = {"in_specs": in_specs, "out_specs": out_specs + out_dot_specs}
        outs = self.bind(*primals, *given, jaxpr=new, **specs, **how)
        n = len(jaxpr.outvars)
        avals = self.type(jaxpr=jaxpr, out_specs=out_specs, **how)
        return outs[:n], fill_zeros(outs[n:], nonzero_out, avals)

    def linearize(
        self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, in_specs: Any, out_specs: Any, **how: Any
    ) -> tuple[list[Any], list[Any]]:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        with manual_axes(**how):
            split = linearize_jaxpr(jaxpr, nonzero)
        n = len(jaxpr.outvars)
        known, specs = _returning_residuals(split, n, in_specs, **how)
        outs = self.bind(*primals, jaxpr=known, in_specs=in_specs, out_specs=out_specs + specs, **how)
        residuals = split.residual_values(primals, outs[n:])
        residual_specs = tuple(split.residual_values(in_specs, specs))
        given = [t for t in tangents if type(t) is not Zero]
        in_specs = residual_specs + tuple(s for s, nz in zip(in_specs, nonzero, strict=True) if nz)
        out_dot_specs = tuple(s for s, nz in zip(out_specs, split.unknown_out, strict=True) if nz)
        unknown = _taking_residuals(split, specs, **how)
        out_dots = self.bind(
            *residuals, *given, jaxpr=unknown, in_specs=in_specs, out_specs=out_dot_specs, **how
        )
        avals = self.type(jaxpr=jaxpr, out_specs=out_specs, **how)
        return outs[:n], fill_zeros(out_dots, split.unknown_out, avals)

    def partial_eval(
        self, unknown: Sequence[bool], *args: Any, jaxpr: Jaxpr, in_specs: Any, out_specs: Any, **how: Any
    ) -> list[Any]:
        with manual_axes(**how):
            split = partial_eval_jaxpr(jaxpr, tuple(unknown))
        known_args = [x for x, unk in zip(args, unknown, strict=True) if not unk]
        known_specs = tuple(s for s, unk in zip(in_specs, unknown, strict=True) if not unk)
        known_out = tuple(s for s, unk in zip(out_specs, split.unknown_out, strict=True) if not unk)
        n = len(known_out)
        known, specs = _returning_residuals(split, n, known_specs, **how)
        outs = self.bind(*known_args, jaxpr=known, in_specs=known_specs, out_specs=known_out + specs, **how)
        residuals = split.residual_values(known_args, outs[n:])
        later_in = tuple(split.residual_values(known_specs, specs))
        later_in += tuple(s for s, unk in zip(in_specs, unknown, strict=True) if unk)
        later_out = tuple(s for s, unk in zip(out_specs, split.unknown_out, strict=True) if unk)
        later_args = [*residuals, *(x for x, unk in zip(args, unknown, strict=True) if unk)]
        later = _taking_residuals(split, specs, **how)
        unknown_outs = iter(
            self.bind(*later_args, jaxpr=later, in_specs=later_in, out_specs=later_out, **how)
        )
        known_outs = iter(outs[:n])
        return [next(unknown_outs if unk else known_outs) for unk in split.unknown_out]

    def transpose(
        self, cts: Sequence[Any], *args: Any, jaxpr: Jaxpr, in_specs: Any, out_specs: Any, **how: Any
    ) -> list[Any]:
        linear = tuple(is_undef(x) for x in args)
        nonzero_ct = tuple(type(ct) is not Zero for ct in cts)
        with manual_axes(**how):
            new, nonzero = transpose_jaxpr(jaxpr, linear, nonzero_ct, strong_ct=strong_cotangents(cts, jaxpr))
        ct_specs = [s for s, nz in zip(out_specs, nonzero_ct, strict=True) if nz]
        linear_specs = [s for s, lin in zip(in_specs, linear, strict=True) if lin]
        x_specs = tuple(s for s, nz in zip(linear_specs, nonzero, strict=True) if nz)
        known = [x for x in args if not is_undef(x)]
        known_specs = [s for s, lin in zip(in_specs, linear, strict=True) if not lin]
        if not how["tracked"]:
            new = _sharing_cotangents(new, len(known), ct_specs, x_specs, **how)
        given = [ct for ct in cts if type(ct) is not Zero]
        cts_x = self.bind(
            *known, *given, jaxpr=new, in_specs=(*known_specs, *ct_specs), out_specs=x_specs, **how
        )
        return scatter_cotangents(cts_x, nonzero, linear)

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        jaxpr: Jaxpr,
        in_specs: Any,
        out_specs: Any,
        **how: Any,
    ) -> Any:
        split = tuple(name for name in axis.split_over if name in how["axes"])
        if split:
            jaxpr, axis = _split_batch(jaxpr, axis, split, dims, **how)
        with manual_axes(**how):
            new, batched = batch_jaxpr(jaxpr, axis, tuple(dims))
        in_specs = tuple(
            s if d is None else _with_entry(s, d, split) for s, d in zip(in_specs, dims, strict=True)
        )
        out_specs = tuple(
            _with_entry(s, 0, split) if b else s for s, b in zip(out_specs, batched, strict=True)
        )
        outs = self.bind(*args, jaxpr=new, in_specs=in_specs, out_specs=out_specs, **how)
        return outs, [0 if b else None for b in batched]

    def checkify(
        self, kinds: Kinds, *args: Any, jaxpr: Jaxpr, in_specs: Any, out_specs: Any, **how: Any
    ) -> tuple[list[Any], Report | None]:
        """Each device reports; the report of the first device whose check failed becomes the report of all."""
        with manual_axes(**how):
            new = checkify_jaxpr(jaxpr, kinds)
        n, reported = len(jaxpr.outvars), len(new.jaxpr.outvars) - len(jaxpr.outvars)

        def run(*parts: Any) -> list[Any]:
            outs = _inline(new.jaxpr, parts)
            return [*outs[:n], *[reshape(x, (1, *aval_of(x).shape)) for x in outs[n:]]]

        rows = _staged(run, new.jaxpr.in_avals, jaxpr.name, **how)
        if not how["tracked"]:  # a check that fails ends a loop: on all devices, as the others would wait
            rows = _choosing_by(lowest, rows, in_specs, **how)
        devices = PartitionSpec(tuple(name for name in how["mesh"].axis_names if name in how["axes"]))
        out_specs += (devices,) * reported
        found = self.bind(*args, jaxpr=rows, in_specs=in_specs, out_specs=out_specs, **how)
        outs, report = new.split(found)
        if report is None:
            return outs, None
        first = argmin_p.bind(not_(report.failed), axes=(0,), index_dtype=np.dtype(np.int32))
        return outs, report_of([row(x, first) for x in report.arrays()], new.sites)

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        new, used_in = dce_jaxpr(params["jaxpr"], tuple(used))
        in_specs = tuple(s for s, use in zip(params["in_specs"], used_in, strict=True) if use)
        out_specs = tuple(s for s, use in zip(params["out_specs"], used, strict=True) if use)
        return eqn.replace(
            invars=[x for x, use in zip(eqn.invars, used_in, strict=True) if use],
            outvars=[v for v, use in zip(eqn.outvars, used, strict=True) if use],
            params={**params, "jaxpr": new, "in_specs": in_specs, "out_specs": out_specs},
        )

    def recompute(
        self, eqn: Eqn, needed: tuple[bool, ...], divide: Callable[[Jaxpr, tuple[bool, ...]], Split[Jaxpr]]
    ) -> tuple[Eqn, Eqn, list[Var]]:
        params = eqn.params
        how = {name: params[name] for name in ("mesh", "axes", "tracked")}
        with manual_axes(**how):
            split = divide(params["jaxpr"], needed)
        n = len(needed)
        known, specs = _returning_residuals(split, n, params["in_specs"], **how)
        out_specs = params["out_specs"] + specs
        types_ = self.type(jaxpr=known, out_specs=out_specs, **how)
        saved = [Var(aval) for aval in types_[n:]]
        first = eqn.replace(
            outvars=[*eqn.outvars, *saved], params={**params, "jaxpr": known, "out_specs": out_specs}
        )
        again = eqn.replace(
            invars=split.residual_values(eqn.invars, saved),
            outvars=[v for v, need in zip(eqn.outvars, needed, strict=True) if need],
            params={
                **params,
                "jaxpr": _taking_residuals(split, specs, **how),
                "in_specs": tuple(split.residual_values(params["in_specs"], specs)),
                "out_specs": tuple(s for s, need in zip(params["out_specs"], needed, strict=True) if need),
            },
        )
        return first, again, saved


shard_map_p = ShardMap("shard_map")


@contextlib.contextmanager
def manual_axes(mesh: Mesh, axes: Sequence[str], tracked: bool) -> Generator[None]:
    """Bring the manual axes of a mesh into scope."""
    added = {name: AxisData(name, mesh.shape[name], True, tracked) for name in axes}
    token = axis_env.set({**axis_env.get(), **added})
    try:
        yield
    finally:
        axis_env.reset(token)


def split_axes(spec: PartitionSpec) -> tuple[str, ...]:
    """The mesh axes that a spec names."""
    return tuple(name for entry in spec for name in entry_names(entry))


def whole(
    aval: ShapedArray, spec: PartitionSpec, mesh: Mesh, axes: Sequence[str], tracked: bool
) -> ShapedArray:
    """The type of the array whose parts have this type."""
    entries = NamedSharding(mesh, spec).entries(aval.ndim)
    shape = tuple(
        n * math.prod(mesh.shape[name] for name in e) for n, e in zip(aval.shape, entries, strict=True)
    )
    split = [(*names, *within) for names, within in zip(entries, split_of(aval), strict=True)]
    sharding = NamedSharding(mesh, PartitionSpec(*split))
    return aval.update(shape=shape, vma=aval.vma.difference(axes), sharding=sharding)


def part(
    aval: ShapedArray, spec: PartitionSpec, mesh: Mesh, axes: Sequence[str], tracked: bool
) -> ShapedArray:
    """The type of one device's part of the array, which may itself be split over other explicit mesh axes."""
    shape = NamedSharding(mesh, spec).shard_shape(aval.shape)
    vma = aval.vma.union(split_axes(spec)) if tracked else aval.vma
    return aval.update(shape=shape, vma=vma, sharding=_beside(aval.layout, axes))


def _beside(layout: NamedSharding | None, axes: Sequence[str]) -> NamedSharding | None:
    """What a type still says of a layout where the function itself decides along these mesh axes."""
    if layout is None:
        return None
    spec = [tuple(name for name in entry_names(e) if name not in axes) for e in layout.spec]
    return layout.update(spec=spec).in_types(len(spec))


def _with_entry(spec: PartitionSpec, dim: int, split: tuple[str, ...]) -> PartitionSpec:
    """The spec for arrays with one more axis, which is split over these mesh axes."""
    entries: list[Any] = [*spec, *[None] * (dim - len(spec))]
    entries.insert(dim, split)
    return PartitionSpec(*entries)


def _split_batch(
    jaxpr: Jaxpr,
    axis: AxisData,
    split: tuple[str, ...],
    dims: Sequence[int | None],
    mesh: Mesh,
    axes: Sequence[str],
    tracked: bool,
) -> tuple[Jaxpr, AxisData]:
    """The program and the axis of one device's part of a batch that is split over manual mesh axes."""
    count = math.prod(mesh.shape[name] for name in split)
    used = jaxpr.axis_names.intersection([*split, *([axis.name] if axis.name is not None else [])])
    if axis.size % count or used:
        raise ValueError(
            message(
                "A batch is split over mesh axes in equal parts, between which the function exchanges nothing.",
                f"spmd_axis_name: {', '.join(split)}; batch: {axis.size} elements, {axis.size} % {count} = "
                f"{axis.size % count}; collectives over: {', '.join(sorted(used)) or 'neither'}",
                fix="Change the length of the batch, or leave spmd_axis_name out.",
            )
        )
    if tracked:
        avals = [
            a if dim is None else a.update(vma=a.vma.union(split))
            for a, dim in zip(jaxpr.in_avals, dims, strict=True)
        ]
        jaxpr = _staged(
            lambda *args: _inline(jaxpr, args), avals, jaxpr.name, mesh=mesh, axes=axes, tracked=tracked
        )
    rest = tuple(name for name in axis.split_over if name not in split)
    return jaxpr, axis._replace(size=axis.size // count, split_over=rest, layout=_beside(axis.layout, axes))


# --- Devices that choose ------------------------------------------------------------------------------


@cached_on_jaxpr
def _agreeing(jaxpr: Jaxpr, in_specs: Specs, mesh: Mesh, axes: tuple[str, ...]) -> Jaxpr:
    """The program in which devices compare the values by which they choose a branch or loop length around a collective.

    It is for a program whose types do not say what differs.
    """
    return _choosing_by(agreed, jaxpr, in_specs, mesh=mesh, axes=axes, tracked=False)


def _choosing_by(compare: Callable[[Any, Axes], Any], jaxpr: Jaxpr, in_specs: Specs, **how: Any) -> Jaxpr:
    with manual_axes(**how):
        return agreeing(jaxpr, list(map(_split_over, in_specs)), frozenset(how["axes"]), compare)


def _split_over(spec: PartitionSpec) -> Axes:
    return frozenset(split_axes(spec))


# Note [Residuals of a shard_map]
# Every device keeps residuals of its own. Outside, they are one array: the devices' residuals one after the other,
# along the first axis, for the axes along which they differ. A scalar gets an axis for it.


def _residual_specs(split: Split[Jaxpr], n: int, in_specs: Specs, how: dict[str, Any]) -> Specs:
    """The specs of the residuals: the results of the known half from `n` on."""
    mesh, axes = how["mesh"], frozenset[str](how["axes"])
    if how["tracked"]:
        differ = [aval.vma for aval in split.known.out_avals[n:]]
    else:  # the other half may choose by a residual, which must not be taken to differ where it is the same
        differ = differing(split.known, list(map(_split_over, in_specs)), axes)[n:]
    names = [tuple([name for name in mesh.axis_names if name in axes & d]) for d in differ]
    return tuple([PartitionSpec(over) if over else PartitionSpec() for over in names])


def _returning_residuals(split: Split[Jaxpr], n: int, in_specs: Specs, **how: Any) -> tuple[Jaxpr, Specs]:
    """The known half, whose residuals have an axis to join them along, and their specs."""
    known = split.known
    specs = _residual_specs(split, n, in_specs, how)
    if all(aval.ndim or not len(spec) for aval, spec in zip(known.out_avals[n:], specs, strict=True)):
        return known, specs

    def run(*args: Any) -> list[Any]:
        outs = _inline(known, args)
        return [
            *outs[:n],
            *(
                reshape(x, (1,)) if len(s) and not aval_of(x).ndim else x
                for x, s in zip(outs[n:], specs, strict=True)
            ),
        ]

    return _staged(run, known.in_avals, known.name, **how), specs


def _taking_residuals(split: Split[Jaxpr], specs: Specs, **how: Any) -> Jaxpr:
    """The unknown half, for residuals as `_returning_residuals` returns them."""
    unknown = split.unknown
    widened = [
        kind == "out" and not aval.ndim and len(specs[k]) > 0
        for (kind, k), aval in zip(split.residuals, unknown.in_avals[: len(split.residuals)], strict=True)
    ]
    if True not in widened:
        return unknown

    def run(*args: Any) -> list[Any]:
        m = len(widened)
        residuals = [reshape(x, ()) if wide else x for x, wide in zip(args[:m], widened, strict=True)]
        return _inline(unknown, [*residuals, *args[m:]])

    avals = [
        aval.update(shape=(1,)) if i < len(widened) and widened[i] else aval
        for i, aval in enumerate(unknown.in_avals)
    ]
    return _staged(run, avals, unknown.name, **how)


def _sharing_cotangents(
    jaxpr: Jaxpr, num_known: int, ct_specs: Sequence[PartitionSpec], x_specs: Specs, **how: Any
) -> Jaxpr:
    """The transposed program where types do not say what differs: see the head of this module."""
    mesh, axes = how["mesh"], how["axes"]

    def run(*args: Any) -> list[Any]:
        cts = [
            _divided(ct, _left_out(s, axes), mesh) for ct, s in zip(args[num_known:], ct_specs, strict=True)
        ]
        outs = _inline(jaxpr, [*args[:num_known], *cts])
        return [sum_over(x, _left_out(s, axes)) for x, s in zip(outs, x_specs, strict=True)]

    return _staged(run, jaxpr.in_avals, jaxpr.name, **how)


def _left_out(spec: PartitionSpec, axes: Sequence[str]) -> list[str]:
    return [name for name in axes if name not in split_axes(spec)]


def _divided(ct: Any, axes: Sequence[str], mesh: Mesh) -> Any:
    size = math.prod(mesh.shape[name] for name in axes)
    return ct if size == 1 else div(instantiate(ct), scalar_like(size, aval_of(ct).dtype))


def _inline(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    return eval_jaxpr(jaxpr, args)


def _staged(run: Callable[..., Any], avals: Sequence[ShapedArray], name: str, **how: Any) -> Jaxpr:
    with manual_axes(**how):
        return trace_closed(run, avals, what="shard_map", name=name)
