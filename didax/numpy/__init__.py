"""`didax.numpy`: NumPy's functions on Didax arrays, with the names and arguments of `jax.numpy`.

    import didax.numpy as dnp

Promotion follows the lattice of `core/dtypes.py`, arrays are immutable, and shapes that depend on values need
`size=` under jit. Loading this package gives `didax.Array` its operators and methods.
Read in this order: `promotion.py`, `ufunc.py`, `ufuncs.py`, `creation.py`, then any other.
"""

# ruff: noqa: F403  (the public face: each module lists its names in __all__)
from typing import TYPE_CHECKING

from didax.core.modules import on_access as _on_access
from didax.core.value import Array as ndarray
from didax.numpy import array_methods as _array_methods
from didax.numpy import fft as fft
from didax.numpy import linalg as linalg
from didax.numpy.array_api import *
from didax.numpy.bits import *
from didax.numpy.creation import *
from didax.numpy.files import *
from didax.numpy.functional import *
from didax.numpy.grids import *
from didax.numpy.inspection import *
from didax.numpy.joining import *
from didax.numpy.linear import *
from didax.numpy.manipulation import *
from didax.numpy.order_statistics import *
from didax.numpy.padding import *
from didax.numpy.polynomials import *
from didax.numpy.positions import *
from didax.numpy.reductions import *
from didax.numpy.scalar_types import *
from didax.numpy.scalar_types import SCALAR_TYPES as _SCALAR_TYPES
from didax.numpy.selection import *
from didax.numpy.sets import *
from didax.numpy.signals import *
from didax.numpy.statistics import *
from didax.numpy.ufunc import ufunc
from didax.numpy.ufunc_methods import *
from didax.numpy.ufuncs import *

globals().update(_SCALAR_TYPES)

if TYPE_CHECKING:
    from didax.numpy.scalar_types import ScalarType

    bfloat16: ScalarType
    bool_: ScalarType
    complex64: ScalarType
    complex128: ScalarType
    complex_: ScalarType
    float16: ScalarType
    float32: ScalarType
    float64: ScalarType
    float_: ScalarType
    int8: ScalarType
    int16: ScalarType
    int32: ScalarType
    int64: ScalarType
    int_: ScalarType
    uint: ScalarType
    uint8: ScalarType
    uint16: ScalarType
    uint32: ScalarType
    uint64: ScalarType
else:
    __getattr__, __dir__ = _on_access(__name__)
