"""Rows for `conv_general_dilated`: strides, padding, dilations, groups, layouts, depthwise windows."""

from __future__ import annotations

from typing import Any

from didax import lax
from tests.operations.dot import draw
from tests.operations.row import Operation


def convolution(
    name: str,
    lhs: Any,
    rhs: Any,
    strides: Any,
    padding: Any,
    dtypes: Any = ("float32", "float64"),
    **more: Any,
) -> Operation:
    """A row that convolves arrays of two shapes."""
    import jax

    return Operation(
        name,
        lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **more),
        lambda x, w: jax.lax.conv_general_dilated(x, w, strides, padding, **more),
        lambda rng, dtype: (draw(rng, lhs, dtype), draw(rng, rhs, dtype)),
        dtypes=dtypes,
        signed_zeros=False,  # sums may begin with a zero of either sign
    )


LAST = ("NHWC", "HWIO", "NHWC")
EVERY = ("float32", "float64", "float16", "bfloat16", "complex64", "int32")
ROWS = [
    convolution("line", (2, 3, 8), (4, 3, 3), (1,), "SAME", EVERY),
    convolution("no_space", (2, 3), (4, 3), (), "VALID"),
    convolution("image", (2, 5, 6, 3), (3, 2, 3, 4), (2, 1), "SAME", dimension_numbers=LAST),
    convolution("valid", (2, 3, 6, 5), (4, 3, 2, 3), (1, 2), "VALID", rhs_dilation=(2, 1)),
    convolution("low", (1, 2, 7), (2, 2, 4), (2,), "SAME_LOWER"),
    convolution(
        "spread",
        (2, 3, 4, 3),
        (2, 3, 2, 3),
        (2, 3),
        ((1, 2), (-1, 4)),
        lhs_dilation=(2, 3),
        rhs_dilation=(1, 2),
    ),
    convolution(
        "mixed", (6, 2, 5, 3), (3, 4, 2, 2), (1, 1), "SAME", dimension_numbers=("HNWC", "IOHW", "CWNH")
    ),
    convolution("volume", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 1, 1), "SAME", ("float32",)),
    convolution("groups", (2, 4, 5), (6, 2, 3), (1,), "SAME", feature_group_count=2),
    convolution("batch_groups", (4, 3, 5), (6, 3, 3), (2,), "VALID", batch_group_count=2),
    convolution("depthwise", (2, 3, 6, 5), (6, 1, 3, 2), (1, 2), "SAME", EVERY, feature_group_count=3),
    convolution(
        "depthwise_last",
        (2, 5, 4, 3),
        (2, 2, 1, 3),
        (1, 1),
        "SAME",
        dimension_numbers=LAST,
        feature_group_count=3,
    ),
    convolution(
        "depthwise_spread",
        (1, 2, 4),
        (2, 1, 3),
        (2,),
        ((2, -1),),
        lhs_dilation=(3,),
        rhs_dilation=(2,),
        feature_group_count=2,
    ),
    convolution("empty_batch", (0, 3, 5), (2, 3, 3), (1,), "SAME", ("float32",)),
    convolution("window_too_large", (1, 2, 2), (2, 2, 5), (1,), "VALID", ("float32",)),
    convolution(
        "wide_sums",
        (2, 3, 6),
        (4, 3, 3),
        (1,),
        "SAME",
        ("bfloat16", "float16"),
        preferred_element_type="float32",
    ),
]
