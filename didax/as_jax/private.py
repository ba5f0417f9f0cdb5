"""The private names of JAX that libraries use: `table.PRIVATE` lists them, this file has those without a public home.

None of them is a promise. A name is here because a library of `docs/from-jax.md` imports it.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.api.static import as_names, as_numbers
from didax.core import dtypes, job, pytree, source
from didax.core.avals import ShapedArray
from didax.core.errors import UnfilteredStackTrace as UnfilteredStackTrace
from didax.core.errors import api_boundary as api_boundary
from didax.core.errors import message
from didax.numpy import asarray, promotion

DType = np.dtype
logger = logging.getLogger("jax._src.callback")


# --- api_util ------------------------------------------------------------------------------------------------


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: int | Sequence[int] | None, argnames: str | Iterable[str] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The positions and names of arguments that may be given either way, where only one of the two is stated."""
    numbers, names = as_numbers(argnums, "argnums"), as_names(argnames)
    either = [
        (i, name) for i, (name, p) in enumerate(sig.parameters.items()) if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    if argnums is None:
        numbers = tuple([i for i, name in either if name in names])
    if argnames is None:
        names = tuple([name for i, name in either if i in numbers])
    return numbers, names


# --- traceback_util ------------------------------------------------------------------------------------------

_exclude_paths = source.hidden_paths


def register_exclusion(path: str) -> None:
    """Leave the frames of a file, or of a folder, out of tracebacks, as those of Didax are."""
    _exclude_paths.append(path)


def include_frame(frame: Any) -> bool:
    """Whether a frame is the user's."""
    return not source.is_hidden(frame.f_code)


# --- values and types ----------------------------------------------------------------------------------------


class ExtendedDType:
    """The class of dtypes whose elements are not numbers; libraries derive from it to declare one.

    No array can have such a dtype: functions that take dtypes refuse it. `didax.extend.dtypes` makes dtypes that arrays
    can have.
    """

    why_no_arrays = (
        "Dtypes that are made in JAX's private way (jax._src.dtypes.ExtendedDType) have no arrays here: they bring "
        "rules for JAX's own compiler, and none for sums, zeros and tangents.",
        "Keep such values in float32 (flax trains in 8 bits so: Fp8DotGeneral), or register a dtype whose elements "
        "are only moved: didax.extend.dtypes.",
    )


class _Typed:
    """A number with a dtype, to which JAX pins what it is given while it traces. Didax makes none."""

    dtype: DType

    def __new__(cls, value: Any, dtype: Any) -> Any:
        made: Any = super().__new__(cls, value)  # type: ignore[call-arg]  # int, float or complex comes next
        made.dtype = np.dtype(dtype)
        return made


class TypedInt(_Typed, int):
    """An integer with a dtype."""


class TypedFloat(_Typed, float):
    """A float with a dtype."""


class TypedComplex(_Typed, complex):
    """A complex number with a dtype."""


class EArray:
    """An array of a dtype made in JAX's private way."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        rule = "Didax has no arrays of dtypes that are made in JAX's private way."
        raise NotImplementedError(message(rule, fix="Register a dtype with didax.extend.dtypes."))


def to_complex_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of complex numbers whose parts hold the numbers of a dtype."""
    return np.dtype("complex128" if dtypes.promote_types(dtype, "float32") == "float64" else "complex64")


def promote_dtypes(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype."""
    return list(map(asarray, promotion.promote_dtypes("promote_dtypes", *args)))


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype, or a float dtype for it."""
    return list(map(asarray, promotion.promote_dtypes("promote_dtypes_inexact", *args, to_inexact=True)))


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """The arguments as arrays of complex numbers that hold those of their common dtype."""
    return [x.astype(to_complex_dtype(x.dtype)) for x in promote_dtypes_inexact(*args)]


def supports_inf(dtype: Any) -> bool:
    """Whether a dtype of floats has infinities."""
    return bool(np.isinf(np.asarray(np.inf).astype(dtype)))


def physical_aval(aval: ShapedArray) -> ShapedArray:
    """The type of the numbers behind an array."""
    return aval.physical


global_result_handlers: dict[Any, Callable[..., Any]] = {}


# --- programs ------------------------------------------------------------------------------------------------


def wait_for_tokens() -> None:
    """Wait for the effects of programs, which have happened when a program returns."""


class _Backends(Mapping[str, Any]):
    """XLA's clients by platform; empty until one is started, as `_backends` is in JAX."""

    def _now(self) -> dict[str, Any]:
        from didax.xla.client import backend, is_started  # loads jaxlib: on first need

        return {backend().platform: backend().client} if is_started() else {}

    def __getitem__(self, platform: str) -> Any:
        return self._now()[platform]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


_backends = _Backends()
_backend_lock = threading.Lock()


def backend_compile(*_: Any, **__: Any) -> Any:
    """The function of JAX that compiles; Didax compiles elsewhere, and never calls it."""
    rule = "Didax has no function jax._src.compiler.backend_compile."
    raise NotImplementedError(message(rule, fix="Use jax.jit(f).lower(x).compile()."))


backend_compile_and_load = backend_compile

# --- several processes -------------------------------------------------------------------------------------------


class _GlobalState:
    """Which of several processes this one is, and the client of XLA's key-value store that they share."""

    @property
    def process_id(self) -> int:
        return job.current.index if job.current else 0

    @property
    def num_processes(self) -> int:
        return job.current.count if job.current else 1

    @property
    def client(self) -> Any:
        return getattr(job.current, "client", None)


global_state = _GlobalState()

# --- pytrees ---------------------------------------------------------------------------------------------------


class _RegistryEntry(NamedTuple):
    """How a node is taken apart, into children and the rest, and made of both."""

    to_iter: Callable[[Any], tuple[Sequence[Any], Any]]
    from_iter: Callable[[Any, Iterable[Any]], Any]


class _Registry:
    """The classes that are nodes of pytrees. The rest of a node is a structure here, of its own class."""

    def __contains__(self, kind: type) -> bool:
        return pytree.is_registered(kind)

    def __getitem__(self, kind: type) -> _RegistryEntry:
        if kind not in self:
            raise KeyError(kind)
        return _RegistryEntry(
            lambda node: pytree.flatten(node, lambda x: x is not node),
            lambda rest, children: pytree.unflatten(rest, list(children)),
        )


_registry = _Registry()


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: Any = None) -> list[Callable[[str], ValueError]]:
    """An empty list for a prefix; otherwise one function, from a name to the error that names all differences."""

    def error(name: str) -> ValueError | None:
        try:
            pytree.broadcast_prefix(prefix_tree, full_tree, name, is_leaf)
        except ValueError as found:
            return found
        return None

    return [] if error("prefix") is None else [error]  # type: ignore[list-item]  # it returned an error before
