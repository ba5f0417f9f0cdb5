"""Products of arrays: `dot_general` and its common special cases.

The product of two dtypes has the dtype of greater range here; `didax.numpy` (matmul, einsum, tensordot) promotes.
Read next: `primitives/dot.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.lax.operands import as_ints, operation
from didax.primitives.convert import convert_element_type
from didax.primitives.dot import PRECISIONS, Precision, dot_general_p
from didax.primitives.scalars import match_scalars

__all__ = [
    "DotDimensionNumbers",
    "DotAlgorithm",
    "DotAlgorithmPreset",
    "Precision",
    "PrecisionLike",
    "batch_matmul",
    "dot",
    "dot_general",
]

_SUMS = {"F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64}
_FLOAT8 = [
    getattr(ml_dtypes, f"float8_{x}") for x in ("e4m3fn", "e5m2", "e5m2fnuz", "e4m3fnuz", "e4m3b11fnuz")
]

DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class DotAlgorithmPreset(enum.Enum):
    """Algorithms of products by the dtypes of their operands and sums: as a `precision`, one bounds the rounding.

    Any algorithm is taken on any backend, for operands of any dtype. The backend computes the product in a way of its
    own that rounds no more than the algorithm: mostly in the dtype of the operands, and in float64 where the algorithm
    names float64. The result has the dtype that it has without an algorithm. The properties say for which dtypes an
    algorithm is meant.

    >>> import numpy as np
    >>> dot(np.float32([1, 2]), np.float32([3, 4]), precision=DotAlgorithmPreset.F32_F32_F32)
    Array(11., dtype=float32)
    """

    DEFAULT = "default"
    ANY_F8_ANY_F8_F32 = "default", 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "default", 2
    ANY_F8_ANY_F8_ANY = "default", 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = "default", 4
    F16_F16_F16 = "default", 5
    F16_F16_F32 = "default", 6
    BF16_BF16_BF16 = "default", 7
    BF16_BF16_F32 = "default", 8
    TF32_TF32_F32 = "high", 1
    BF16_BF16_F32_X3 = "highest", 1  # "high" has the 11 bits of TF32 on GPUs; three products have about 16
    BF16_BF16_F32_X6 = "highest", 2
    BF16_BF16_F32_X9 = "highest", 3
    TF32_TF32_F32_X3 = "highest", 4
    F32_F32_F32 = "highest", 5
    F64_F64_F64 = "highest", 6

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name

    def _parts(self) -> Sequence[str]:
        """The parts of the name: what operands are rounded to, twice, what is summed, and how often it is split."""
        parts = ["ANY"] * 3 if self.value == "default" else self.name.replace("ANY_F8", "F8").split("_")
        return [*parts, ""]

    @property
    def accumulation_type(self) -> Any:
        """The dtype of the sums; None where it is chosen by the operands and `preferred_element_type`.

        >>> DotAlgorithmPreset.BF16_BF16_F32_X3.accumulation_type
        <class 'numpy.float32'>
        """
        return _SUMS.get(self._parts()[2])

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """The dtypes of the left operand, before it is rounded; None for any, or any of 8 bits."""
        kind, _, _, split, *_ = self._parts()
        return {
            "F16": (np.float16,),
            "BF16": (np.float32,) if split else (ml_dtypes.bfloat16, np.float32),
            "F64": (np.float64,),
            "TF32": (np.float32,),
            "F32": (np.float32,),
        }.get(kind)

    @property
    def supported_rhs_types(self) -> tuple[Any, ...] | None:
        """The dtypes of the right operand: those of the left one."""
        return self.supported_lhs_types

    def supported_output_types(self, lhs_dtype: Any, rhs_dtype: Any) -> tuple[Any, ...] | None:
        """The dtypes of the result for operands of two dtypes; None for any.

        >>> DotAlgorithmPreset.F16_F16_F32.supported_output_types("float16", "float16")
        (<class 'numpy.float32'>, <class 'numpy.float16'>)
        """
        kind, _, sums, split, *_ = self._parts()
        if sums == "ANY":
            return None
        if (kind, sums) == ("F8", "F32"):
            return np.float32, np.float16, ml_dtypes.bfloat16, *_FLOAT8
        own = _SUMS[kind] if kind in ("F16", "BF16") and kind != sums and not split else None
        is_own = own is not None and dtypes.promote_types(lhs_dtype, rhs_dtype) == np.dtype(own)
        return (_SUMS[sums], own) if is_own else (_SUMS[sums],)


class DotAlgorithm(NamedTuple):
    """An algorithm of products, by the dtypes to which operands are rounded and in which products are summed.

    `num_primitive_operations` counts the products of parts of operands into which one product is split. As a
    `precision`, an algorithm is taken as one of `DotAlgorithmPreset` is.

    >>> import numpy as np
    >>> algorithm = DotAlgorithm(np.float32, np.float32, np.float32)
    >>> algorithm.precision()
    Precision.HIGHEST
    >>> dot(np.float32([1, 2]), np.float32([3, 4]), precision=algorithm)
    Array(11., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    def precision(self) -> Precision:
        """The precision that rounds no more; ValueError for what no backend rounds to."""
        kinds = {dtypes.dtype(x) for x in (self.lhs_precision_type, self.rhs_precision_type)}
        if not all(dtypes.is_float(x) for x in kinds) or self.num_primitive_operations not in (1, 3, 6, 9):
            rule = "A DotAlgorithm rounds operands to floats, in 1, 3, 6 or 9 products of their parts."
            names = f"dtypes: {', '.join(sorted(x.name for x in kinds))}"
            facts = f"{names}, num_primitive_operations: {self.num_primitive_operations}"
            raise ValueError(message(rule, facts, fix="Use one of lax.DotAlgorithmPreset, or a Precision."))
        is_one_of_halves = self.num_primitive_operations == 1 and all(x.itemsize <= 2 for x in kinds)
        return Precision.DEFAULT if is_one_of_halves else Precision.HIGHEST


PrecisionLike = (
    None | str | Precision | DotAlgorithm | DotAlgorithmPreset | tuple[str, str] | tuple[Precision, Precision]
)


@operation
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the product of two arrays, summed over contracting axes, element by element over batch axes.

    `dimension_numbers` is `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`. The result has the
    batch axes, then the other axes of `lhs`, then the other axes of `rhs`. `preferred_element_type` is the
    dtype of the sums and the result. Operands of two dtypes, such as two formats of 8-bit floats, are multiplied in a
    dtype that holds both; without a preferred one the result has the dtype of greater range. Raises TypeError for axes
    whose lengths do not fit.

    >>> import numpy as np
    >>> from didax import lax
    >>> a, b = np.ones((5, 2, 3), "float32"), np.ones((5, 3, 4), "float32")
    >>> lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs, rhs = match_scalars((lhs, rhs))
    x, y = getattr(lhs, "aval", lhs), getattr(rhs, "aval", rhs)
    if getattr(x, "dtype", None) != getattr(y, "dtype", None):
        # A NumPy array of 64 bits counts with its narrowed dtype, which may be that of the other operand.
        left, right = aval_of(lhs).dtype, aval_of(rhs).dtype
        if left != right:
            out, wide = _dtypes_of_product(left, right)
            lhs, rhs = convert_element_type(lhs, wide), convert_element_type(rhs, wide)
            if preferred_element_type is None:
                return convert_element_type(dot_general(lhs, rhs, dimension_numbers, precision), out)
    element = canonicalize_element_type(preferred_element_type)
    precisions = canonicalize_precision(precision)
    if precisions is not None and _names_float64(precision):
        own = aval_of(lhs).dtype
        wide = np.dtype(np.complex128 if dtypes.is_complex(own) else np.float64)
        if dtypes.is_inexact(own) and {own, element or own} != {wide}:
            lhs, rhs = convert_element_type(lhs, wide), convert_element_type(rhs, wide)
            return convert_element_type(dot_general(lhs, rhs, dimension_numbers, precision), element or own)
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=(
            (as_ints(lhs_contract), as_ints(rhs_contract)),
            (as_ints(lhs_batch), as_ints(rhs_batch)),
        ),
        precision=precisions,
        preferred_element_type=element,
    )


@operation
def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the product of vectors and matrices; for other arrays `dimension_numbers` is needed, as in `dot_general`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.dot(np.arange(3.0, dtype="float32"), np.arange(3.0, dtype="float32"))
    Array(5., dtype=float32)
    """
    if dimension_numbers is None:
        x, y = aval_of(lhs), aval_of(rhs)
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]):
            raise ValueError(
                message(
                    "dot takes vectors and matrices; it sums over the last axis of lhs and the first of rhs.",
                    f"lhs: {x}, rhs: {y}",
                    fix="Make these axes equally long, or say with dimension_numbers which axes to sum over.",
                )
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


@operation
def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Any:
    """Return the matrix products of two stacks: the last two axes are matrices, the axes before them agree.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.batch_matmul(np.ones((5, 2, 3), "float32"), np.ones((5, 3, 4), "float32")).shape
    (5, 2, 4)
    """
    x, y = aval_of(lhs), aval_of(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ValueError(
            message(
                "batch_matmul takes two stacks of matrices with as many axes, at least two.",
                f"lhs: {x}, rhs: {y}",
                fix="Broadcast one of them, or use didax.numpy.matmul, which does.",
            )
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)


def _dtypes_of_product(x: np.dtype[Any], y: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Of two dtypes, the one of greater range, and one that holds the numbers of both."""
    if _range(x) == _range(y):
        rule = "dot_general takes operands of one dtype, or of two of which one has the greater range."
        raise TypeError(message(rule, f"lhs: {x.name}, rhs: {y.name}", fix="Cast one of them (x.astype)."))
    out = wide = max(x, y, key=_range)
    for dtype in filter(dtypes.is_inexact, (x, y)):
        wide = dtypes.join(dtypes.at_least_single(wide), False, dtypes.at_least_single(dtype), False)[0]
    return out, wide


def _range(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """How far the numbers of a dtype reach: by kind, then by their greatest exponent or their bits, then by digits."""
    kind = dtypes.kind_of(dtype)
    if dtypes.is_inexact(dtype):
        info = dtypes.finfo(dtype)
        return dtypes.KIND_RANKS[kind], info.maxexp, info.nmant
    return dtypes.KIND_RANKS[kind], *((dtypes.iinfo(dtype).bits, kind == "i") if kind in "iu" else (0, 0))


def canonicalize_precision(precision: PrecisionLike) -> tuple[Precision, Precision] | None:
    """Return a precision for each operand; None where neither the caller nor default_matmul_precision gives one."""
    if precision is None:
        default = config.state().default_matmul_precision
        return None if default == "default" else (_precision(default), _precision(default))
    if isinstance(precision, tuple | list) and len(precision) == 2:  # a DotAlgorithm is a longer tuple
        return _precision(precision[0]), _precision(precision[1])
    return _precision(precision), _precision(precision)


def _precision(given: Any) -> Precision:
    if isinstance(given, DotAlgorithm):
        return given.precision()
    if isinstance(given, DotAlgorithmPreset):
        given = given.value if isinstance(given.value, str) else given.value[0]
    found = given if isinstance(given, Precision) else None
    if isinstance(given, str):
        found = PRECISIONS.get(given)
        if found is None and given in DotAlgorithmPreset.__members__:
            return _precision(DotAlgorithmPreset[given])
    if found is None:
        raise ValueError(
            message(
                "precision is a Precision, its name, or a pair of these for the two operands.",
                f"precision: {given!r}",
                fix=f"Use one of {', '.join(map(repr, PRECISIONS))}, or the name of a DotAlgorithmPreset.",
            )
        )
    return found


def _names_float64(precision: PrecisionLike) -> bool:
    """Whether an algorithm is asked for that computes in float64, which no Precision says of narrower operands."""
    given = config.state().default_matmul_precision if precision is None else precision
    if isinstance(given, DotAlgorithm):
        return np.dtype(np.float64) in map(dtypes.dtype, given[:3])
    return str(given) == DotAlgorithmPreset.F64_F64_F64.name


def canonicalize_element_type(dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that `preferred_element_type` names, None for None."""
    return None if dtype is None else dtypes.dtype(dtype)
