"""`check_elements`, for batching rules of primitives that would take an operand of the wrong rank for a batch.

A primitive that works on the last axes of its operand cannot tell a matrix from a batch of vectors.
Read next: `batching.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import aval_of
from didax.core.primitive import Primitive, infer
from didax.transforms.batching import element_aval


def check_elements(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> None:
    """Raise what the primitive raises for the elements of these batches. Types are remembered: it costs little."""
    infer(
        primitive, tuple([element_aval(aval_of(x), dim) for x, dim in zip(args, dims, strict=True)]), params
    )
