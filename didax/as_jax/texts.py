"""Names of classes and texts of values as they are in JAX: `enter()`, which `mode.enter()` calls."""

from __future__ import annotations

import sys
from typing import Any

from didax.api.jit import JitFunction
from didax.api.stages import ShapeDtypeStruct, Traced
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import CheckError
from didax.core.jaxpr import Literal, Var
from didax.core.ref import RefType
from didax.core.value import Array
from didax.numpy.scalar_types import ScalarType
from didax.primitives.keys import KeyDtype
from didax.runtime.array import ConcreteArray
from didax.runtime.sharded import ShardedArray
from didax.transforms.batching import BatchTracer
from didax.transforms.jvp import JVPTracer
from didax.transforms.linearize import LinearizeTracer
from didax.transforms.staging import StagingTracer

# Programs look at the names of classes: at `PjitFunction` to see that a function is jitted.
NAMED_IN_JAX: dict[type, tuple[str, str]] = {
    Array: ("jax", "Array"),
    ConcreteArray: ("jaxlib._jax", "ArrayImpl"),
    ShardedArray: ("jaxlib._jax", "ArrayImpl"),
    JitFunction: ("jaxlib._jax", "PjitFunction"),
    CheckError: ("jax._src.checkify", "JaxRuntimeError"),
    ShapeDtypeStruct: ("jax", "ShapeDtypeStruct"),
    dtypes.extended: ("jax.dtypes", "extended"),
    dtypes.prng_key: ("jax.dtypes", "prng_key"),
    KeyDtype: ("jax._src.random.prng", "KeyTy"),
    StagingTracer: ("jax._src.interpreters.partial_eval", "DynamicJaxprTracer"),
    LinearizeTracer: ("jax._src.interpreters.ad", "LinearizeTracer"),
    JVPTracer: ("jax._src.interpreters.ad", "JVPTracer"),
    BatchTracer: ("jax._src.interpreters.batching", "BatchTracer"),
}


def enter() -> None:
    """Give classes, types and tracers their names and texts in JAX."""
    for kind, (module, name) in NAMED_IN_JAX.items():
        kind.__module__, kind.__qualname__, kind.__name__ = module, name, name
    _set(StagingTracer, __repr__=_staged)
    _set(LinearizeTracer, __repr__=_linearized)
    _set(JVPTracer, __repr__=_pair)
    _set(BatchTracer, __repr__=_batched)
    _set(Var, __repr__=lambda x: f"Var(id={id(x)}):{_short(x.aval)}")
    _set(Literal, __repr__=lambda x: f"Literal({x.val})")
    _set(ShapedArray, __str__=_text, __repr__=_with_its_class, str_short=_short)
    _set(RefType, str_short=_short_of_ref)
    _set(Array, __array_namespace__=_namespace)
    _set(ScalarType, __repr__=lambda kind: f"<class 'jax.numpy.{kind.__name__}'>")
    _set(Traced, jaxpr=property(_program))


def _set(kind: type, **attributes: Any) -> None:
    for name, value in attributes.items():
        setattr(kind, name, value)


_own_text = ShapedArray.__repr__
_own_namespace: Any = Array.__array_namespace__


def _namespace(x: Array, *, api_version: str | None = None) -> Any:
    own = _own_namespace(x, api_version=api_version)
    return sys.modules.get("jax.numpy", own)


def _program(traced: Traced) -> Any:
    from didax.as_jax.programs import closed_view  # on first need: most programs look at no jaxpr

    return closed_view(traced.closed)


def _text(aval: ShapedArray) -> str:
    """The text of a type in JAX: a weak type begins with a tilde."""
    return f"{'~' * aval.weak_type}{_own_text(aval)}"


def _with_its_class(aval: ShapedArray) -> str:
    return f"ShapedArray({_own_text(aval)}{', weak_type=True' * aval.weak_type})"


def _short(aval: ShapedArray, short_dtypes: bool = False) -> str:
    """`uint8[2,3]`, or `u8[2,3]`."""
    text = _own_text(aval)
    return dtypes.short_name(aval.dtype) + text[text.index("[") :] if short_dtypes else text


def _short_of_ref(kind: RefType, short_dtypes: bool = False) -> str:
    return f"Ref{{{_short(kind.aval, short_dtypes)}}}"


def _staged(x: StagingTracer) -> str:
    return f"JitTracer({x.aval})"


def _linearized(x: LinearizeTracer) -> str:
    return f"GradTracer(primal={x.primal}, typeof(tangent)={_short(x.tangent.aval, short_dtypes=True)})"


def _pair(x: JVPTracer) -> str:
    return f"JVPTracer(primal={x.primal}, tangent={x.tangent})"


def _batched(x: BatchTracer) -> str:
    return f"VmapTracer(aval={x.aval}, batched={aval_of(x.value)})"
