"""What the classes of sparse arrays share: `JAXSparse`, the shape of a batch, and how functions run over a batch.

A sparse array is a pytree. Its buffers are the leaves, so that `jit`, `grad` and loops take it as they take any pytree.
Whatever the length of a batch axis in the array, it may be 1 in a buffer, which all elements share then (`over_batch`).
Read next: `bcoo.py`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.vmap import has_batch_axes, vmap
from didax.core import dtypes, pytree
from didax.core.dims import as_length
from didax.core.errors import message
from didax.core.tracing import Tracer
from didax.core.value import Array

Shape = tuple[int, ...]


class SparseEfficiencyError(ValueError):
    """A result would need far more memory than its operand.

    >>> from didax.experimental import sparse
    >>> sparse.eye(3).update_layout(n_batch=1)
    Traceback (most recent call last):
    didax.experimental.sparse._base.SparseEfficiencyError: For matrix of shape (3, 3), increasing n_batch from...
    Set the on_inefficient argument of bcoo_update_layout to 'warn' or None.
    """


class SparseEfficiencyWarning(UserWarning):
    """A result needs far more memory than its operand.

    >>> import warnings
    >>> from didax.experimental import sparse
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     rows = sparse.eye(3).update_layout(n_batch=1, on_inefficient="warn")
    >>> caught[0].category.__name__
    'SparseEfficiencyWarning'
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """For programs that silence it: Didax does not call cuSPARSE.

    >>> import warnings
    >>> from didax.experimental import sparse
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", sparse.CuSparseEfficiencyWarning)
    ...     y = sparse.eye(2) @ dnp.ones(2)
    """


class JAXSparse(abc.ABC):
    """The class of sparse arrays: buffers (`_buffers` names them, `data` first), a shape and flags (`_flags`).

    >>> from didax.experimental import sparse
    >>> eye = sparse.eye(3)
    >>> isinstance(eye, JAXSparse), isinstance(eye.todense(), JAXSparse)
    (True, False)
    >>> eye.shape, eye.dtype, eye.nse, eye.size
    ((3, 3), dtype('float32'), 3, 9)
    """

    _buffers: ClassVar[tuple[str, ...]]
    _flags: ClassVar[tuple[str, ...]] = ()
    _sparse_rank: ClassVar[int] = 0  # the number of axes after the batch in the buffer of indices
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    data: Any
    _shape: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_buffers" in cls.__dict__:
            pytree.register_node(cls, _flatten, lambda aux, leaves: _unflatten(cls, aux, leaves))
            has_batch_axes(cls)

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int], **flags: bool):
        for name, x in zip(self._buffers, args, strict=True):
            # An array stays the object that it is: arrays with the same indices are recognised by that.
            setattr(self, name, x if isinstance(x, Array) else dnp.asarray(x))
        for name in self._flags:
            setattr(self, name, flags.get(name, False))
        self._shape = tuple(map(as_length, shape))

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return cast("Shape", self._shape)

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._buffers)

    def _with_data(self, data: Any) -> Self:
        """The array with other entries at the same places; further leading axes of `data` become batch axes."""
        extra = data.ndim - self.data.ndim
        others = [x[(None,) * extra] if extra else x for x in self._bufs[1:]]
        flags = {name: getattr(self, name) for name in self._flags}
        return type(self)((data, *others), shape=(*data.shape[:extra], *self.shape), **flags)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries."""
        return cast("np.dtype[Any]", self.data.dtype)

    @property
    def nse(self) -> int:
        """The number of entries that are stored, in each element of the batch."""
        return int(self.data.size)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return self.transpose()

    @abc.abstractmethod
    def transpose(self, axes: Any = None) -> Any:
        """The array with its axes in another order."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """The dense array."""

    def block_until_ready(self) -> Self:
        """Wait until the buffers are computed."""
        for x in self._bufs:
            x.block_until_ready()
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            counts = {name: getattr(self, name, 0) for name in ("nse", "n_batch", "n_dense")}
            facts = ", ".join(f"{name}={n}" for name, n in counts.items() if n or name == "nse")
            text = f"{type(self).__name__}({self.dtype}{list(self.shape)}, {facts})"
        except Exception:  # the leaves need not be arrays
            return f"{type(self).__name__}(<invalid>)"
        return f"{type(self.data).__name__}[{text}]" if isinstance(self.data, Tracer) else text


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: JAXSparse, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(
            message(
                f"{type(self).__name__} has no {name}.", f"array: {self!r}", fix="Use a BCOO, or todense()."
            )
        )

    return refuse


for _name in ("neg", "pos", "matmul", "rmatmul", "mul", "rmul", "add", "radd", "sub", "rsub", "getitem"):
    setattr(JAXSparse, f"__{_name}__", _refused(f"__{_name}__"))
JAXSparse.sum = _refused("sum")  # type: ignore[attr-defined]


# --- Sparse arrays as pytrees --------------------------------------------------------------------------------


def _flatten(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The buffers, and what does not follow from them: the shape without the batch axes, which the buffers have.

    So an array with a batch may be mapped by vmap and scanned: its elements are arrays with one batch axis less. Only
    where a batch axis has length 1 in all buffers, and is longer, is the whole shape stated.
    """
    n_batch = getattr(x, "n_batch", 0)
    shape = x._shape
    if n_batch and _batch_shape(x._bufs, n_batch) == shape[:n_batch]:
        shape, n_batch = shape[n_batch:], 0
    return x._bufs, (shape, n_batch, *(getattr(x, name) for name in x._flags))


def _unflatten(cls: type[JAXSparse], aux: tuple[Any, ...], leaves: Sequence[Any]) -> JAXSparse:
    x = object.__new__(cls)
    for name, leaf in zip(cls._buffers, leaves, strict=True):
        setattr(x, name, leaf)
    shape, n_batch, *flags = aux
    for name, flag in zip(cls._flags, flags, strict=True):
        setattr(x, name, flag)
    try:
        now = x.n_batch if hasattr(cls, "n_batch") else 0  # type: ignore[attr-defined]
        known = _batch_shape(x._bufs, now) if now else ()
    # The leaves are not arrays where a tree is mapped to something else.
    except (AttributeError, TypeError):
        now, known = n_batch, ()
    # Axes that the whole shape has said stay; those in front of them came or went with vmap.
    kept = min(now, n_batch)
    x._shape = (*known[: now - kept], *shape[n_batch - kept :])
    return x


def _batch_shape(buffers: Sequence[Any], n_batch: int) -> Shape:
    return lax.broadcast_shapes(*(tuple(x.shape[:n_batch]) for x in buffers))


# --- Functions over a batch ----------------------------------------------------------------------------------


def over_batch(function: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """The function mapped over so many leading axes of its arguments, where a length of 1 stands for any length."""
    if not n_batch:
        return function
    inner = over_batch(function, n_batch - 1)

    def mapped(*args: Any) -> Any:
        lengths = {x.shape[0] for x in args} - {1}
        if len(lengths) > 1:
            rule = "The batch axes of the operands have equal lengths, or length 1."
            raise ValueError(message(rule, f"lengths: {sorted(lengths)}", fix="Broadcast the operands."))
        size = lengths.pop() if lengths else 1
        shared = [x.shape[0] == 1 != size for x in args]
        args = tuple(x[0] if whole else x for x, whole in zip(args, shared, strict=True))
        return vmap(inner, in_axes=tuple(None if whole else 0 for whole in shared))(*args)

    return mapped


def check_axes_of_scipy(n_batch: int, n_dense: int, fix: str) -> None:
    """NotImplementedError where a SciPy sparse matrix is to become an array with batch or dense axes."""
    if n_dense or n_batch:
        rule = "SciPy's sparse matrices have no batch and no dense axes."
        raise NotImplementedError(message(rule, f"asked for: n_batch={n_batch}, n_dense={n_dense}", fix=fix))


def check_index_dtype(x: Any, what: str) -> None:
    """Raise TypeError unless the indices are integers."""
    if not dtypes.is_integer(x.dtype):
        rule = f"{what} are integers."
        raise TypeError(message(rule, f"their dtype: {x.dtype}", fix="Cast them."))


def no_dense(what: str, primitive: str) -> NotImplementedError:
    """The error for a result that would be dense."""
    rule = f"sparse rule for {primitive} is not implemented because it would result in dense output."
    return NotImplementedError(
        message(
            rule, f"operands: {what}", fix="If this is your intent, use sparse.todense() on the arguments."
        )
    )
