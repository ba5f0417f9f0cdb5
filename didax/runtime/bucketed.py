"""Calls of padded programs on concrete arrays: the arguments are padded with zeros, and the results are cut.

On the CPU arrays are copied into zeros by NumPy, and results are views of what the program returned, so that nothing is
compiled for a length except the program of its bucket. On accelerators padding and cutting are operations, each a small
program for each length. Read first: `didax/primitives/bucketed.py`. Read next: `compiled.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.given import give
from didax.core.jaxpr import Jaxpr
from didax.passes.buckets import Bucket, Lengths, pad_jaxpr
from didax.primitives.bucketed import Sizes, at_sizes, bucketed_p, cut, grown, numbers_of
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.compiled import Program
from didax.transforms.cache import cached_on_jaxpr, on_clear

_SHARED = 1 << 15  # bytes; smaller results are copied, so that they do not keep the memory of the padded ones


class Fitting(NamedTuple):
    """How the arrays of a call become those of a padded program, and back."""

    operands: list[tuple[int, ...]]  # padded shapes
    results: list[ShapedArray]  # real types
    numbers: list[ConcreteArray]  # the real sizes, as arrays whose buffers serve all calls


@cached_on_jaxpr
def fitting_of(jaxpr: Jaxpr, sizes: Sizes, bucket: Bucket) -> Fitting:
    """Found once for all calls at these sizes."""
    lengths = Lengths(bucket)
    operands = [lengths.shape(aval.shape) for aval in jaxpr.in_avals]
    results = [at_sizes(aval, sizes) for aval in jaxpr.out_avals]
    return Fitting(operands, results, [as_concrete(n) for n in numbers_of(sizes)])


def padded_operand(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` padded with zeros at the end of each axis to a shape; `x` itself where it has that shape."""
    aval = aval_of(x)
    if aval.shape == shape:
        return x
    on_host = isinstance(x, np.ndarray) or (
        type(x) is ConcreteArray and not x.committed and x._reads_in_place()
    )
    if not on_host:
        return grown(x, shape)
    out = np.zeros(shape, aval.dtype)
    out[tuple(map(slice, aval.shape))] = x.host_value() if type(x) is ConcreteArray else x
    return ConcreteArray(aval.update(shape=shape), out)


def real_result(y: Any, aval: ShapedArray) -> Any:
    """A result without its padding."""
    if y.aval.shape == aval.shape:
        y.aval = aval  # weakly typed as the function says
        return y
    if type(y) is not ConcreteArray or y.committed or not y._reads_in_place():
        return cut(y, aval.shape)
    value = y.host_value()[tuple(map(slice, aval.shape))]
    if value.nbytes < _SHARED or not value.flags.c_contiguous:
        value = value.copy()
    return ConcreteArray(aval, value)


def run_program(program: Program, args: Sequence[Any], constants: int, fitting: Fitting) -> list[Any]:
    """The results of a padded program whose first inputs are constants that it has."""
    operands = [padded_operand(x, shape) for x, shape in zip(args, fitting.operands[constants:], strict=True)]
    outs = program.run([*operands, *fitting.numbers])
    return [real_result(y, aval) for y, aval in zip(outs, fitting.results, strict=True)]


_programs: WeakKeyDictionary[Jaxpr, dict[Bucket, Program]] = WeakKeyDictionary()
on_clear(_programs.clear)


@give(bucketed_p, "evaluate")
def run_bucketed(*args: Any, jaxpr: Jaxpr, sizes: Sizes, bucket: Bucket) -> list[Any]:
    """Run a call that a transformation made."""
    programs = _programs.setdefault(jaxpr, {})
    if bucket not in programs:
        programs[bucket] = Program(pad_jaxpr(jaxpr, bucket))
    return run_program(programs[bucket], args, 0, fitting_of(jaxpr, sizes, bucket))
