"""`bucketed_p`: the call of a program over symbolic sizes, at some sizes, as the program of their bucket.

    bucketed_p.bind(f32[5]; jaxpr={ lambda ; a:f32[n]. ... }, sizes=(("n", 5),), bucket=(("n", 8),))

Its operands and results have their real shapes. Transformations go through the symbolic jaxpr, so a derivative or a
batch is staged once for all sizes. Only the program that is left after all transformations is padded, so no derivative
depends on what lies beyond the real length. Within another compiled program, the padding is part of that program.
Read next: `didax/passes/buckets.py`; `didax/runtime/bucketed.py`, which runs it; `didax/api/buckets.py`, for users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import evaluate
from didax.core.errors import ArgumentError, message
from didax.core.given import given_by
from didax.core.jaxpr import Jaxpr
from didax.passes.buckets import Bucket, Lengths, pad_jaxpr
from didax.primitives import real_lengths  # noqa: F401, what padded rules are made of
from didax.primitives.call import Jit, jit_p
from didax.primitives.slicing import pad, slice_
from didax.xla.lowering import lower_as

Sizes = tuple[tuple[str, int], ...]  # the real size of each name


def at_sizes(aval: ShapedArray, sizes: Sizes) -> ShapedArray:
    """The type `aval` with the real sizes in place of their names."""
    values = dict(sizes)
    return aval.update(shape=tuple([evaluate(n, values) for n in aval.shape]))


def numbers_of(sizes: Sizes) -> list[Any]:
    """The real sizes as a padded program takes them."""
    return [np.int32(n) for _, n in sizes]


def grown(x: Any, shape: Sequence[int]) -> Any:
    """`x` with zeros after it, up to a shape."""
    aval = aval_of(x)
    after = tuple((0, n - m, 0) for n, m in zip(shape, aval.shape, strict=True))
    return pad(x, aval.dtype.type(0), after) if aval.ndim else x


def cut(y: Any, shape: Sequence[int]) -> Any:
    """The first elements of `y` along each axis."""
    return slice_(y, (0,) * len(shape), tuple(shape)) if shape else y


def _padded_call(*args: Any, jaxpr: Jaxpr, sizes: Sizes, bucket: Bucket) -> list[Any]:
    """The call written out: operands are padded, the padded program runs, and its results are cut to real sizes."""
    lengths = Lengths(bucket)
    operands = [grown(x, lengths.shape(aval.shape)) for x, aval in zip(args, jaxpr.in_avals, strict=True)]
    outs = jit_p.bind(*operands, *numbers_of(sizes), jaxpr=pad_jaxpr(jaxpr, bucket))
    return [cut(y, at_sizes(aval, sizes).shape) for y, aval in zip(outs, jaxpr.out_avals, strict=True)]


class Bucketed(Jit):
    """A call of a jitted function with `bucket=`; see the module's docstring."""

    kind = "jitted function with bucket="
    evaluate = given_by("didax.runtime.bucketed")
    lower = lower_as(_padded_call)
    # Whatever stages a function calls jitted ones in it without buckets, so these passes never meet the primitive.
    padded = checkify = sparsity = run_jaxprs = recompute = None  # pyright: ignore[reportAssignmentType]

    def type(
        self, *avals: ShapedArray, jaxpr: Jaxpr, sizes: Sizes, bucket: Bucket, **_: Any
    ) -> Sequence[ShapedArray]:
        wanted = [at_sizes(aval, sizes) for aval in jaxpr.in_avals]
        if [a.strip_weak_type() for a in avals] != [a.strip_weak_type() for a in wanted]:
            facts = f"operands: {', '.join(map(str, avals))}, at these sizes: {', '.join(map(str, wanted))}"
            raise ArgumentError(message(f"The operands of a {self.kind} have its types.", facts))
        return [at_sizes(aval, sizes) for aval in jaxpr.out_avals]

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        return _with_zeros(super().jvp(primals, tangents, **params), params["sizes"])

    def linearize(self, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        return _with_zeros(super().linearize(primals, tangents, **params), params["sizes"])


def _with_zeros(outs_and_dots: Any, sizes: Sizes) -> tuple[list[Any], list[Any]]:
    """Results and tangents, where symbolic zeros have real shapes."""
    outs, dots = outs_and_dots
    return outs, [Zero(at_sizes(t.aval, sizes)) if type(t) is Zero else t for t in dots]


bucketed_p = Bucketed("bucketed")
