"""Operations close to XLA: no promotion, no broadcasting of anything but scalars, every parameter explicit.

Names and arguments are those of jax.lax. `didax.numpy` is the friendlier layer above; control flow (`cond`,
`switch`) and collectives (`psum`, ...) exist only here. Each module is the public interface of one family of
primitives, a file in `didax/primitives/`.
"""

# ruff: noqa: F403
from typing import TYPE_CHECKING

from didax.core.modules import on_access as _on_access
from didax.lax import composites as _composites
from didax.lax import control_flow as _control_flow
from didax.lax import convert as _convert
from didax.lax import convolution as _convolution
from didax.lax import cumulative as _cumulative
from didax.lax import dot as _dot
from didax.lax import elementwise as _elementwise
from didax.lax import fft as _fft
from didax.lax import linalg as linalg
from didax.lax import loops as _loops
from didax.lax import parallel as _parallel
from didax.lax import ragged as _ragged
from didax.lax import ragged_exchange as _ragged_exchange
from didax.lax import reductions as _reductions
from didax.lax import rng as _rng
from didax.lax import select as _select
from didax.lax import shape as _shape
from didax.lax import slicing as _slicing
from didax.lax import solvers as _solvers
from didax.lax import sort as _sort
from didax.lax import special as _special
from didax.lax import windows as _windows
from didax.lax.composites import *
from didax.lax.control_flow import *
from didax.lax.convert import *
from didax.lax.convolution import *
from didax.lax.cumulative import *
from didax.lax.dot import *
from didax.lax.elementwise import *
from didax.lax.fft import *
from didax.lax.loops import *
from didax.lax.parallel import *
from didax.lax.ragged import *
from didax.lax.ragged_exchange import *
from didax.lax.reductions import *
from didax.lax.rng import *
from didax.lax.select import *
from didax.lax.shape import *
from didax.lax.slicing import *
from didax.lax.solvers import *
from didax.lax.sort import *
from didax.lax.special import *
from didax.lax.windows import *

__all__: list[str] = ["linalg"]
__all__ += _composites.__all__
__all__ += _control_flow.__all__
__all__ += _convert.__all__
__all__ += _convolution.__all__
__all__ += _cumulative.__all__
__all__ += _dot.__all__
__all__ += _ragged.__all__
__all__ += _ragged_exchange.__all__
__all__ += _elementwise.__all__
__all__ += _fft.__all__
__all__ += _loops.__all__
__all__ += _parallel.__all__
__all__ += _reductions.__all__
__all__ += _rng.__all__
__all__ += _select.__all__
__all__ += _shape.__all__
__all__ += _slicing.__all__
__all__ += _solvers.__all__
__all__ += _sort.__all__
__all__ += _special.__all__
__all__ += _windows.__all__

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)
