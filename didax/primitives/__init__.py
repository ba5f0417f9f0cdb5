"""The primitives, a family per file, each declared once with all of its rules.

Loading this package gives the interpreters the operations that all of them need (`core/basis.py`).
Read in this order: `shape.py`, `families.py`, `elementwise.py`, then any other.
"""

from didax.core.basis import basis
from didax.core.given import give
from didax.primitives import shape
from didax.primitives.check import check_condition, no_nan
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add
from didax.primitives.select import where

give(basis, "zeros", __name__)(shape.zeros)
give(basis, "add", __name__)(add)
give(basis, "move_axis", __name__)(shape.move_axis)
give(basis, "broadcast_axis", __name__)(shape.broadcast_axis)
give(basis, "convert", __name__)(convert_element_type)
give(basis, "select", __name__)(where)
give(basis, "check", __name__)(check_condition)
give(basis, "no_nan", __name__)(no_nan)
