"""The primitives, a family per file, each declared once with all of its rules.

Loading this package installs the operations every interpreter needs (`core/array_ops.py`).
Read in this order: `shape.py`, `families.py`, `elementwise.py`, then any other.
"""

from didax.core.array_ops import array_ops
from didax.primitives import shape
from didax.primitives.check import check_condition, no_nan
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add
from didax.primitives.select import where
from didax.primitives.varying import match_varying


class _Basis:
    zeros = staticmethod(shape.zeros)
    add = staticmethod(add)
    move_axis = staticmethod(shape.move_axis)
    broadcast_axis = staticmethod(shape.broadcast_axis)
    convert = staticmethod(convert_element_type)
    match_varying = staticmethod(match_varying)
    select = staticmethod(where)
    check = staticmethod(check_condition)
    no_nan = staticmethod(no_nan)


array_ops.install(_Basis())
