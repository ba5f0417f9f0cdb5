"""Loops made faster before they are compiled: passes from jaxpr to jaxpr, each in a file of its own.

    optimize_loops(jaxpr) -> (jaxpr, notes)

The passes run when a program is about to be lowered, after every transformation, so that they see the loops that
are left: a forward scan that stacks residuals, a backward scan that reads them. In this order:

* `written_out.py`: equal steps that a program writes out become a scan;
* `parts.py`: splits become slices, part by part;
* `hoist.py`: products of matrices that do not need the carry are computed before the loop, for all steps at once
  (`split_products.py`: also those that are parts of others);
* `recompute.py`: residuals that a forward scan stacks are computed again in the backward scan, where that is cheaper;
* `contract.py`: a sum of products that a loop carries becomes one product after the loop;
* `defer.py`: products that only stacked results need are computed after the loop;
* `unroll.py`: loops of a few scalar operations take several steps at a time;
* `one_function.py`: a loop of small steps is compiled as one function instead of a list of kernels (`rows.py`: with
  its small products of matrices).

Each pass has a rule, from measurements, that says where it pays; results are equal within rounding. The option
`optimize_loops="off"` leaves programs as they are; `didax.explain` prints the notes.
Read next: `driver.py`.
"""

from didax.passes.loops.driver import optimize_loops
from didax.passes.loops.notes import Note
from didax.passes.loops.report import report

__all__ = ["Note", "optimize_loops", "report"]
