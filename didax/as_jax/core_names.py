"""What `jax.core` and `jax.extend.core` have besides jaxprs and primitives: types of values, current trace, axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.as_jax.primitive import OpaqueTraceState, get_opaque_trace_state
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.changed_types import AbstractValue
from didax.core.compile_time import ensure_compile_time_eval
from didax.core.dtypes import PYTHON_SCALARS, tangent_dtype
from didax.core.errors import ConcretizationTypeError, message
from didax.core.jaxpr import Jaxpr as DidaxJaxpr
from didax.core.jaxpr_check import check_jaxpr as check_didax_jaxpr
from didax.core.primitive import Trace
from didax.core.tracing import Tracer, current_trace, known_value, set_current_trace
from didax.core.value import Array
from didax.transforms.batching import BatchTrace, batched_aval, element_aval
from didax.transforms.named_axes import axis_env
from didax.transforms.staging import StagingTrace

__all__ = [
    "AbstractValue", "Effect", "Effects", "OpaqueTraceState", "check_jaxpr", "concrete_or_error",
    "ensure_compile_time_eval", "eval_context", "find_top_trace", "get_aval", "get_opaque_trace_state",
    "is_concrete", "is_constant_dim", "is_constant_shape", "literalable_types", "mapped_aval", "max_dim",
    "min_dim", "no_effects", "nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype", "pytype_aval_mappings",
    "set_current_trace", "take_current_trace", "trace_state_clean", "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
]  # fmt: skip


Value = Atom = Any
ParamDict = dict[str, Any]


class Effect:
    """The class of effects that programs declare. Didax has effects of its own only: a primitive cannot state one."""


Effects = frozenset
no_effects: frozenset[Any] = frozenset()
literalable_types: set[type] = {*PYTHON_SCALARS, Array, np.ndarray, *np.ScalarType}
get_aval = aval_of

# Functions by the class of a value, in which libraries enter classes of their own. Didax takes values with
# `__jax_array__` or `__array__` without being told, and does not look here.
pytype_aval_mappings: dict[type, Any] = {np.ndarray: aval_of}
canonicalize_dtype_handlers: dict[type, Any] = {np.ndarray: np.asarray}


# --- Types ------------------------------------------------------------------------------------------------


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one element of a batch whose axis is `axis`."""
    return element_aval(aval, axis)


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray, *_: Any) -> ShapedArray:
    """The type of a batch of such elements."""
    return batched_aval(aval, axis, size)


def primal_dtype_to_tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype."""
    return tangent_dtype(np.dtype(dtype))


def valid_jaxtype(x: Any) -> bool:
    """Whether a value can be an argument of a jitted function."""
    return is_array_like(x)


def is_constant_dim(dim: Any) -> bool:
    """Whether a length is a number."""
    return isinstance(dim, (int, np.integer))


def is_constant_shape(shape: Any) -> bool:
    """Whether all lengths are numbers."""
    return all(map(is_constant_dim, shape))


def max_dim(d1: int, d2: int) -> int:
    """The larger of two lengths."""
    return max(d1, d2)


def min_dim(d1: int, d2: int) -> int:
    """The smaller of two lengths."""
    return min(d1, d2)


def check_jaxpr(jaxpr: Any) -> None:
    """Raise unless a jaxpr is well formed."""
    check_didax_jaxpr(jaxpr if isinstance(jaxpr, DidaxJaxpr) else jaxpr.didax())


# --- Values -----------------------------------------------------------------------------------------------


def is_concrete(x: Any) -> bool:
    """Whether the numbers of `x` are known."""
    return known_value(x) is not None


def to_concrete_value(x: Any) -> Any:
    """The numbers of `x`, or None."""
    return known_value(x)


def concrete_or_error(force: Any, value: Any, context: str = "") -> Any:
    """`force(value)`, for a value whose numbers are known; ConcretizationTypeError otherwise."""
    known = known_value(value)
    if known is None and isinstance(value, Tracer):
        text = context or "The numbers of a traced array are not known while tracing."
        raise ConcretizationTypeError(message(text, *value.facts()))
    return known if force is None else force(known)


# --- Traces -----------------------------------------------------------------------------------------------


def find_top_trace(_: Any = None) -> Trace:
    """The current trace."""
    return current_trace()


class take_current_trace:
    """Context manager that gives the current trace; inside the block, evaluation takes its place."""

    def __enter__(self) -> Trace:
        trace = current_trace()
        self._inside = set_current_trace(trace.parent)
        self._inside.__enter__()
        return trace

    def __exit__(self, *exc: object) -> None:
        self._inside.__exit__(*exc)


def eval_context() -> Any:
    """Context manager: operations on known values run at once inside the block."""
    return ensure_compile_time_eval()


def trace_state_clean() -> bool:
    """Whether no transformation is running."""
    trace = current_trace()
    return trace is trace.parent


def _traces() -> list[Trace]:
    found = [current_trace()]
    while found[-1] is not found[-1].parent:
        found.append(found[-1].parent)
    return found


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a function is being staged."""
    return any(isinstance(trace, StagingTrace) for trace in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether a function is being mapped."""
    return any(isinstance(trace, BatchTrace) for trace in _traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[str]:
    """Names of the mapped axes."""
    return list(axis_env.get())


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether an axis with a name is mapped."""
    return bool(axis_env.get())
