"""What a program is: types, pytrees, primitives, traces, jaxprs. Knows no XLA and no NumPy API.

Read in this order: `value.py`, `avals.py`, `primitive.py`, `tracing.py`, `jaxpr.py`. The package itself offers what
programs ask of `jax.core`: `isinstance(x, didax.core.Tracer)`, `ShapedArray`, `Trace` and `eval_jaxpr`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from didax.core.modules import on_access

# jaxlib's C++ side logs at INFO to stderr unless told otherwise before it is loaded, by whichever module comes first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from didax.core.avals import ShapedArray as ShapedArray
    from didax.core.changed_types import AbstractValue as AbstractValue
    from didax.core.compile_time import ensure_compile_time_eval as ensure_compile_time_eval
    from didax.core.dims import max_dim as max_dim
    from didax.core.dims import min_dim as min_dim
    from didax.core.jaxpr import Atom as Atom
    from didax.core.jaxpr import Jaxpr
    from didax.core.primitive import Trace as Trace
    from didax.core.tracing import Tracer as Tracer
else:
    _homes = {"Atom": "jaxpr", "ShapedArray": "avals", "Trace": "primitive", "Tracer": "tracing"}
    _homes |= {"AbstractValue": "changed_types", "ensure_compile_time_eval": "compile_time"}
    __getattr__, __dir__ = on_access(__name__, **_homes, max_dim="dims", min_dim="dims")

Value = Any
"""What a variable of a jaxpr stands for, in annotations: an array, or a tracer of one."""
ParamDict = dict[str, Any]
"""The static parameters of an equation, in annotations."""


def eval_context() -> AbstractContextManager[Any]:
    """A block whose operations are computed at once, also while a function is traced. They take no traced values.

    `ensure_compile_time_eval` is the same for operations that may also depend on traced values.

    >>> import didax as dx, didax.numpy as dnp
    >>> @dx.jit
    ... def f(x):
    ...     with dx.core.eval_context():
    ...         count = int(dnp.ones(3).sum())
    ...     return x * count
    >>> f(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    from didax.core.primitive import eager_trace
    from didax.core.tracing import set_current_trace

    return set_current_trace(eager_trace)


def eval_jaxpr(jaxpr: Jaxpr, consts: Any, *args: Any) -> list[Any]:
    """Run a jaxpr on the arrays that it captured and on arguments, with the arguments of `jax.core.eval_jaxpr`.

    >>> import didax as dx
    >>> closed = dx.make_jaxpr(lambda x: x * 2.0)(1.0)
    >>> dx.core.eval_jaxpr(closed.jaxpr, closed.consts, 4.0)
    [Array(8., dtype=float32, weak_type=True)]
    """
    from didax.core import jaxpr as jaxprs

    return jaxprs.eval_jaxpr(jaxpr, [*consts, *args])
