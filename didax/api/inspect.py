"""Looking at programs and values without running anything: `make_jaxpr`, `eval_shape`, `explain`, `typeof`.

`make_jaxpr` shows the program to which a function is staged, `eval_shape` the types of its results, `explain` what the
passes for loops do to it, and `typeof` the type of a value. The first three trace through the cache of `jit`, so what
they show is what is compiled. Read next: `stages.py` (the same program, lowered and compiled), `jit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from didax.api.flat import check_callable, narrowed_scalar
from didax.api.jit import JitFunction, jit
from didax.api.stages import ShapeDtypeStruct
from didax.api.static import as_numbers
from didax.core import pytree
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.ref import Ref, RefType, ref_type
from didax.core.source import wraps


@api_boundary
def make_jaxpr(
    fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), return_shape: bool = False
) -> Callable[..., Any]:
    """The jaxpr that `fun` is staged to for given arguments.

    With `return_shape` the result is a pair of the jaxpr and the shapes of the results in their structure.

    >>> import didax as dx
    >>> print(dx.make_jaxpr(lambda x: x * 2.0)(1.0))
    { lambda ; a:f32[]*. let
        b:f32[]* = mul a 2.0:f32[]*
      in (b,) }
    """
    staged = _jitted("make_jaxpr", fun, static_argnums)

    @wraps(fun)
    def to_jaxpr(*args: Any, **kwargs: Any) -> Any:
        traced = staged.trace(*args, **kwargs)
        return (traced.closed, traced.out_info) if return_shape else traced.closed

    return api_boundary(to_jaxpr)


def _jitted(caller: str, fun: Callable[..., Any], static_argnums: Any) -> JitFunction[..., Any]:
    """`jit(fun)`; TypeError where the arguments of `fun` are given in the place of the numbers of its static ones."""
    check_callable(caller, fun)
    try:
        as_numbers(static_argnums, "static_argnums")
    except TypeError:
        rule = f"{caller} takes a function, and returns a function of its arguments."
        fact = f"static_argnums: {static_argnums!r:.100} of type {type(static_argnums).__name__}"
        raise TypeError(
            message(rule, fact, fix=f"Write {caller}(f)(x) in place of {caller}(f, x).")
        ) from None
    return jit(fun, static_argnums=static_argnums)


@api_boundary
def explain(fun: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., str]:
    """What compilation does to each loop of `fun` for given arguments, and why not more, as a text.

    Each loop stands with the line that made it and the passes that look at it: `yes` where one was applied. The option
    `optimize_loops` turns all of them off. On several devices the program is compiled, and the text says what they
    exchange, by line (`docs/devices.md`); loops are compiled as they are there.

    >>> import didax as dx
    >>> print(dx.explain(lambda x: x + 1.0)(0.0))
    <lambda>: no loops
    """
    staged = _jitted("explain", fun, static_argnums)

    @wraps(fun)
    def to_text(*args: Any, **kwargs: Any) -> str:
        return staged.explain(*args, **kwargs)

    return api_boundary(to_text)


@api_boundary
def typeof(x: Any) -> ShapedArray | RefType:
    """The type of an array, traced or not, or of a number: shape, dtype and whether the dtype is weak.

    The type of a Ref holds that of its arrays. TypeError for what is none of these.

    >>> import didax as dx, didax.numpy as dnp
    >>> print(dx.typeof(dnp.ones((2, 3))))
    float32[2,3]
    """
    if isinstance(x, Ref):
        return ref_type(x.type)
    return x.aval if isinstance(x, ShapeDtypeStruct) else aval_of(narrowed_scalar(x))


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of the results of `fun`, without computing anything.

    Arguments are arrays or `ShapeDtypeStruct`s, and so may be the results of `fun`. The structs that a jitted function
    gives have its `out_shardings`.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.eval_shape(lambda x: x + 1, dx.ShapeDtypeStruct((2,), "float32"))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    try:
        if isinstance(fun, JitFunction):
            return cast("JitFunction[..., Any]", fun).eval_shape(*args, **kwargs)
        return make_jaxpr(fun, return_shape=True)(*args, **kwargs)[1]
    except TypeError:
        found = _shapes_with_given(cast(Any, fun), args, kwargs)
        if found is None:
            raise
        return found


def _shapes_with_given(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`eval_shape` of a function that returns types, for which zeros stand in; None if it returns none."""
    given: list[Any] = []

    @wraps(fun)
    def computed(*args: Any, **kwargs: Any) -> Any:
        out = fun(*args, **kwargs)
        given.extend([x for x in pytree.leaves(out) if isinstance(x, ShapeDtypeStruct)])
        return pytree.map(_zeros_of, out)

    try:
        found = make_jaxpr(computed, return_shape=True)(*args, **kwargs)[1]
    except TypeError:
        return None
    return found if given else None


def _zeros_of(x: Any) -> Any:
    """Zeros for a type; anything else as it is."""
    return array_ops.zeros(x.aval) if isinstance(x, ShapeDtypeStruct) else x
