"""Which of XLA's options a program is compiled with, where its user chooses none.

LLVM writes a loop of few steps out as that many copies of its body, and then spends most of the time of compiling on
the copies. A program whose arrays are all small takes microseconds either way, so its loops stay loops: it compiles in
0.45 to 0.8 of the time, and runs about as fast. Large arrays keep the copies, which some of the library's own lowerings
rely on (the maximum of 10,000,000 elements takes 2.6 times as long without). So do loops that are compiled as one
function, because their steps are repeated many times. docs/design/compiling.md has the measurements.
Read next: `xla/compile.py`.
"""

from __future__ import annotations

from typing import Any

from didax.core.jaxpr import Eqn, Jaxpr
from didax.passes.loops.one_function import is_small, one_function_p
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.control_flow.while_loop import while_p
from didax.primitives.convolution import conv_general_dilated_p
from didax.transforms.cache import cached_on_jaxpr
from didax.xla.platforms import platform

SMALL = 4096  # elements; arrays four times as large gained an eighth of the time of compiling
_LOOPS = (scan_p, while_p)


def options_for(jaxpr: Jaxpr) -> dict[str, Any]:
    """XLA's options, by name, for a program that runs on one device; `jaxpr` is the program as it is lowered."""
    if platform() != "cpu" or not _has_small_arrays(jaxpr):
        return {}
    return {"xla_cpu_disable_loop_unrolling": True}


@cached_on_jaxpr
def _has_small_arrays(jaxpr: Jaxpr) -> bool:
    return all(map(_is_of_small_arrays, jaxpr.eqns))


def _is_of_small_arrays(eqn: Eqn) -> bool:
    """Whether what XLA makes of an equation works on small arrays only. A library computes contractions.

    It computes convolutions, too, but in one order of axes, which loops of XLA's bring about.
    """
    if eqn.primitive is one_function_p or (eqn.primitive in _LOOPS and is_small(eqn)):
        return False
    if inner := eqn.jaxprs:
        return all(map(_has_small_arrays, inner))
    if eqn.primitive.materializes_operands and eqn.primitive is not conv_general_dilated_p:
        return True
    read = () if eqn.primitive.moves_elements else eqn.invars  # a slice reads no more than it returns
    sizes = [x.aval.physical.size for x in (*read, *eqn.outvars)]
    # The size of an array inside a padded call may have names: such an array does not count as small.
    return all([type(size) is int and size <= SMALL for size in sizes])
