"""The primitives, a family per file, each declared once with all of its rules.

Loading this package gives the interpreters the operations that all of them need (`core/array_ops.py`).
Read in this order: `shape.py`, `families.py`, `elementwise/`, then any other.
"""

from didax.core.array_ops import array_ops
from didax.core.given import give
from didax.primitives import shape, slicing
from didax.primitives.check import check_condition, no_nan
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, mul
from didax.primitives.select import where
from didax.primitives.sharding import in_memory, with_layout, zeros
from didax.primitives.varying import match_devices

give(array_ops, "zeros", __name__)(zeros)
give(array_ops, "add", __name__)(add)
give(array_ops, "scale", __name__)(mul)
give(array_ops, "stack", __name__)(slicing.stack_last)
give(array_ops, "unstack", __name__)(slicing.unstack_last)
give(array_ops, "move_axis", __name__)(shape.move_axis)
give(array_ops, "broadcast_axis", __name__)(shape.broadcast_axis)
give(array_ops, "convert", __name__)(convert_element_type)
give(array_ops, "match_devices", __name__)(match_devices)
give(array_ops, "with_layout", __name__)(with_layout)
give(array_ops, "in_memory", __name__)(in_memory)
give(array_ops, "select", __name__)(where)
give(array_ops, "check", __name__)(check_condition)
give(array_ops, "no_nan", __name__)(no_nan)
