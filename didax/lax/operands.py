"""`operation`: the decorator of every public function of `didax.lax`, which prepares its arguments.

    lax.mul(x, np.sqrt(2))              # of a float32 x, although np.sqrt(2) is an np.float64
    lax.psum({"n": np.int64(2)}, "i")   # in pytrees, too

Inside the library a NumPy scalar is a constant of a stated dtype. A NumPy scalar that a user passes has no
stated dtype: NumPy makes 64-bit scalars by default, and here they have the dtype that NumPy's arrays have. So
this decorator narrows them, and it removes the frames of the library from the traceback of an error. Results
are arrays of their own (`api/results.py`). Read next: `narrowed` in `core/dtypes.py`, `elementwise.py`.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from didax.api.explicit import split_result
from didax.api.flat import narrowed_scalar
from didax.api.results import own_result
from didax.core import pytree
from didax.core.errors import asks_for_split, strip_internal_frames, without_idle
from didax.core.value import Array
from didax.runtime.array import ConcreteArray

P = ParamSpec("P")
R = TypeVar("R")

# The types of arguments that cannot hold a NumPy scalar; their values need no inspection.
_settled: set[type] = {
    ConcreteArray, np.ndarray, bool, int, float, complex, str, types.NoneType, types.FunctionType, slice, type,
}  # fmt: skip


@overload
def operation(f: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def operation(*, exact: Sequence[str]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def operation(f: Any = None, /, *, exact: Sequence[str] = ()) -> Any:
    """Decorate a public function: 64-bit NumPy scalars are narrowed, and errors show only the user's frames.

    The arguments named in `exact` are passed unchanged, with all of their digits. A function needs this if it
    converts the argument to a dtype that another argument states.
    """
    if f is None:
        return functools.partial(_decorated, exact=exact)
    return _decorated(f, exact)


def _decorated(f: Any, exact: Sequence[str]) -> Any:
    kept: frozenset[int | str] = frozenset([*exact, *map(f.__code__.co_varnames.index, exact)])

    all_settled = _settled.issuperset  # runs in C

    @functools.wraps(f)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            if not all_settled(map(type, args)) and not _are_settled(args):
                args = tuple([x if i in kept else narrowed(x) for i, x in enumerate(args)])
            if kwargs:
                if asks_for_split(f, kwargs):
                    return split_result(public, args, kwargs)
                kwargs = without_idle(f, kwargs)
                if not _are_settled(kwargs.values()):
                    kwargs = {name: x if name in kept else narrowed(x) for name, x in kwargs.items()}
            return own_result(f(*args, **kwargs), args, kwargs)
        except Exception as error:
            strip_internal_frames(error, f, args, kwargs)
            raise

    return public


def as_ints(values: Iterable[Any]) -> tuple[int, ...]:
    """Axes or lengths as Python's integers; TypeError where one is none."""
    return tuple([operator.index(n) for n in values])


def _are_settled(values: Iterable[Any]) -> bool:
    """Whether all values are of settled types, or tuples of settled types, which shapes and axes are."""
    for x in values:
        kind = type(x)
        if kind not in _settled and (kind is not tuple or not _settled.issuperset(map(type, x))):
            return False
    return True


def narrowed(x: Any) -> Any:
    """Return `x` with its 64-bit NumPy scalars converted to the dtype that NumPy's arrays have here."""
    kind = type(x)
    if kind in _settled:
        return x
    if isinstance(x, np.generic):
        return narrowed_scalar(x)
    if isinstance(x, Array):
        _settled.add(kind)
        return x
    leaves, tree = pytree.flatten(x)
    if any([isinstance(leaf, np.generic) for leaf in leaves]):
        return pytree.unflatten(tree, [narrowed_scalar(leaf) for leaf in leaves])
    return x
