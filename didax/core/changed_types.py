"""Types made of other types: with some parts replaced, with one axis more or less; and the texts of their parts.

Read first: `avals.py`, whose `ShapedArray` has these methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from didax.core import dtypes

if TYPE_CHECKING:
    import numpy as np

    from didax.core.manual_axes import ManualAxisType

_SAME: Any = object()


class AbstractValue:
    """The class of types: those of arrays (`ShapedArray`), of Refs, and of JAX's experimental types of values."""

    __slots__ = ()


class LowType(AbstractValue):
    """What JAX's experimental types of values (`as_jax/hijax.py`) ask of the types of arrays and Refs."""

    __slots__ = ()

    def lo_ty(self) -> list[Self]:
        """The types that a value of this type is stored as: itself."""
        return [self]

    def lower_val(self, value: Any) -> list[Any]:
        """What a value is stored as: itself."""
        return [value]

    def raise_val(self, value: Any) -> Any:
        """The value that is stored as this one: itself."""
        return value


class ChangedTypes(LowType):
    """What a type offers to make others of it."""

    __slots__ = ()
    if TYPE_CHECKING:
        shape: tuple[int, ...]
        dtype: np.dtype[Any]
        weak_type: bool
        vma: frozenset[str]
        layout: Any

        def __init__(
            self, shape: Any, dtype: Any, weak_type: bool = ..., vma: Any = ..., sharding: Any = ...
        ): ...

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """Along which manual axes the values of devices may differ."""
        from didax.core.manual_axes import ManualAxisType

        return ManualAxisType(varying=self.vma)

    def update(
        self,
        shape: Any = None,
        dtype: Any = None,
        weak_type: bool | None = None,
        vma: Any = None,
        sharding: Any = _SAME,
    ) -> Self:
        """The same type with some parts replaced. With another shape it is split over no mesh axes."""
        if sharding is _SAME:
            sharding = self.layout if shape is None or shape == self.shape else None
        shape, dtype = self.shape if shape is None else shape, self.dtype if dtype is None else dtype
        weak_type = self.weak_type if weak_type is None else weak_type
        vma = self.vma if vma is None else frozenset(vma)
        return self.__class__(shape, dtype, weak_type, vma, sharding)

    def with_axis(self, axis: int, size: int, names: Any = None) -> Self:
        """The type with one more axis at `axis`, split over the mesh axes `names`."""
        shape, layout = (*self.shape[:axis], size, *self.shape[axis:]), self.layout
        return self.update(shape, sharding=layout and layout.with_entry(axis, names))

    def without_axis(self, axis: int = 0) -> Self:
        """The type of one element along an axis: that of the array, without the axis."""
        shape, layout = self.shape[:axis] + self.shape[axis + 1 :], self.layout
        return self.update(shape, sharding=layout and layout.without_entry(axis))

    def strip_weak_type(self) -> Self:
        """The same type, strong."""
        return self.update(weak_type=False) if self.weak_type else self

    def tangent(self) -> Self:
        """The type of tangents and cotangents: itself for inexact dtypes, float0 of the same shape otherwise."""
        dtype = dtypes.tangent_dtype(self.dtype)
        return (
            self if dtype == self.dtype else self.__class__(self.shape, dtype, False, self.vma, self.layout)
        )

    to_tangent_aval = to_ct_aval = at_least_vspace = tangent  # as JAX calls it


def dims_text(aval: Any) -> str:
    """The lengths of the axes, each with the mesh axes that it is split over: `8@x,2`."""
    lengths = map(str, aval.shape)
    return ",".join(lengths) if aval.layout is None else ",".join(aval.layout.dims_text(lengths))


def varying_text(aval: Any) -> str:
    """The manual axes along which a value varies, as its type shows them: `{V:x}`, `{V:(x,y)}`, or nothing."""
    names = ",".join(sorted(aval.vma))
    return f"{{V:{f'({names})' if len(aval.vma) > 1 else names}}}" if names else ""
