"""Symbolic zeros: how a rule of the user's with `symbolic_zeros=True` sees tangents and cotangents that vanish.

Its forward rule of reverse mode is told which arguments are differentiated (`CustomVJPPrimal`). Read next: `custom.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from didax.api.flat import as_array
from didax.api.tangents import type_text
from didax.core import pytree
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message


class SymbolicZero:
    """A tangent or cotangent that is zero, as rules with `symbolic_zeros=True` get it and may return it.

    It has the `shape` and `dtype` of the tangent, and no numbers: `instantiate` makes the array.

    >>> import numpy as np
    >>> zero = SymbolicZero.from_primal_value(np.ones(2, "float32"))
    >>> zero, zero.instantiate()
    (SymbolicZero(float32[2]), Array([0., 0.], dtype=float32))
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype: float0 for integers and bools."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    def instantiate(self) -> Any:
        """The array of zeros."""
        return as_array(instantiate(Zero(self.aval)))

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return zero_from_primal(val, symbolic_zeros=True)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


@api_boundary
def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of each leaf of a pytree: an array, or with `symbolic_zeros` a `SymbolicZero`.

    >>> import numpy as np
    >>> zero_from_primal((np.float32(2.0), 3), symbolic_zeros=True)
    (SymbolicZero(float32[]), SymbolicZero(float0[]))
    """

    def zero(x: Any) -> Any:
        symbolic = SymbolicZero(aval_of(x).tangent())
        return symbolic if symbolic_zeros else symbolic.instantiate()

    return pytree.map(zero, val)


@dataclass(slots=True)
class CustomVJPPrimal:
    """An argument as a forward rule with `symbolic_zeros=True` gets it: `perturbed` says if it is differentiated.

    >>> import didax as dx
    >>> f = dx.custom_vjp(lambda x, y: x * y)
    >>> def fwd(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, (x.value, y.value)
    >>> f.defvjp(fwd, lambda res, z_bar: (z_bar * res[1], z_bar * res[0]), symbolic_zeros=True)
    >>> float(dx.grad(f)(2.0, 5.0))
    True False
    5.0
    """

    value: Any
    perturbed: bool


@api_boundary
def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The arguments of a forward rule with `symbolic_zeros=True`, without what is said of perturbation.

    Raises TypeError for a leaf that is no `CustomVJPPrimal`.

    >>> custom_vjp_primal_tree_values({"x": CustomVJPPrimal(2.0, True), "y": CustomVJPPrimal(5.0, False)})
    {'x': 2.0, 'y': 5.0}
    """

    def value(leaf: Any) -> Any:
        if isinstance(leaf, CustomVJPPrimal):
            return leaf.value
        rule = "custom_vjp_primal_tree_values takes what a forward rule with symbolic_zeros=True gets."
        raise TypeError(message(rule, f"leaf: {type_text(leaf)}", fix="Pass arguments of that rule."))

    return pytree.map(value, tree)
