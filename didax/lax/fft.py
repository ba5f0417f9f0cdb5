"""The discrete Fourier transform of XLA: along the last one to three axes, whose lengths are given.

`didax.numpy.fft` has NumPy's functions, which take any axes, pad, normalise and promote. Read next:
`didax/primitives/fft.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.api.flat import as_array
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.dims import as_length
from didax.core.errors import message
from didax.core.value import Array
from didax.lax.operands import operation
from didax.primitives.convert import convert_element_type
from didax.primitives.fft import FftType, fft_p

__all__ = ["FftType", "fft"]


@operation
def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Return the transform `fft_type` (a member of `FftType`, or its name) of the last `len(fft_lengths)` axes.

    FFT and IFFT give complex numbers with the shape of the operand, also from real numbers. RFFT takes real
    numbers and gives the first n // 2 + 1 results along the last axis; IRFFT computes the real numbers from
    these results. The inverse transforms divide by n. Along no axes, `fft_lengths=()`, they are the operand.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.fft(np.float32([1, 2, 3, 4]), lax.FftType.RFFT, (4,))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind = _fft_type(fft_type)
    lengths = tuple([as_length(n) for n in fft_lengths])
    if kind is not FftType.RFFT and dtypes.is_float(aval_of(x).dtype):
        x = convert_element_type(x, dtypes.complex_dtype(aval_of(x).dtype))
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths) if lengths else as_array(x)


def _fft_type(given: FftType | str) -> FftType:
    if isinstance(given, FftType):
        return given
    found = FftType.__members__.get(given.upper()) if isinstance(given, str) else None
    if found is None:
        raise ValueError(
            message(
                "fft has four types of transform.",
                f"fft_type: {given!r}",
                fix="Use one of lax.FftType: FFT, IFFT, RFFT, IRFFT.",
            )
        )
    return found
