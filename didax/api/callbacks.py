"""Python functions inside of array programs: `pure_callback`, `io_callback`, `debug_callback`, `effects_barrier`.

A callback gets read-only NumPy arrays and returns arrays of the declared types. It runs on the host, in the middle of
the program; what it raises is raised by the call of the program. Arguments of more than 256 KiB are views of XLA's
memory, valid until the callback returns. Callbacks may call Didax.
Read next: `primitives/callback.py` (under transformations), `xla/callbacks.py` (in a compiled program).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.flat import check_callable, flatten_arguments, leaf_avals
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.effects import REPORT, Effect
from didax.core.errors import InconclusiveDimensionOperation, api_boundary, message
from didax.core.given import give
from didax.primitives.callback import (
    DEBUG,
    VMAP_METHODS,
    CallPython,
    FlatCallback,
    debug_callback_p,
    io_callback_p,
    pure_callback_p,
)
from didax.runtime.array import ConcreteArray, as_concrete
from didax.xla import callbacks
from didax.xla.callbacks import checked_results, raised_in_jax


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Results of a Python function without side effects, in any program: compiled, batched, in a loop.

    Args:
      callback: gets NumPy arrays in the structure of `args` and `kwargs`. It may be called any number of times.
      result_shape_dtypes: what it returns, as a pytree of anything with `shape` and `dtype`.
      sharding: accepted for compatibility: the callback runs on the host.
      vmap_method: how it is called under vmap. 'sequential': once for each element ('sequential_unrolled': without a
        loop). 'expand_dims': once, with leading batch axes, of length 1 for an argument that is not batched.
        'broadcast_all': the same, with such arguments repeated. None: vmap is refused.

    Raises ValueError under differentiation, TypeError when the callback returns arrays of other types.

    >>> import didax as dx, numpy as np
    >>> f = dx.jit(lambda x: dx.pure_callback(np.sort, x, x))
    >>> f(dx.numpy.array([3.0, 1.0, 2.0]))
    Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            message(
                "vmap_method of pure_callback says how its callback is mapped.",
                f"vmap_method: {vmap_method!r}",
                fix=f"Use one of {', '.join(map(repr, VMAP_METHODS))}, or None.",
            )
        )
    options = {"sharding": _checked_sharding(sharding), "vmap_method": vmap_method}
    return _call("pure_callback", pure_callback_p, callback, result_shape_dtypes, args, kwargs, options)


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Results of a Python function with side effects: it is called once each time the program comes to it.

    Args:
      callback: gets NumPy arrays in the structure of `args` and `kwargs`.
      result_shape_dtypes: what it returns, as a pytree of anything with `shape` and `dtype`; None for nothing.
      sharding: accepted for compatibility: the callback runs on the host.
      ordered: keep the order of the program among ordered calls. Refused under vmap.

    Raises ValueError under differentiation, TypeError when the callback returns arrays of other types.

    >>> import didax as dx
    >>> log = []
    >>> @dx.jit
    ... def f(x):
    ...     dx.io_callback(lambda y: log.append(float(y)), None, x, ordered=True)
    ...     return x * 2
    >>> float(f(1.5)), log
    (3.0, [1.5])
    """
    options = {"sharding": _checked_sharding(sharding), "ordered": bool(ordered)}
    return _call("io_callback", io_callback_p, callback, result_shape_dtypes, args, kwargs, options)


@api_boundary
def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with values of a program, wherever they are computed; what it returns is not used.

    It sees the primal values under differentiation, each element under vmap, each step of a loop. Arguments that are no
    arrays are passed as they are. Calls keep the order of the program, also without `ordered`, and are given whole
    arrays, also with `partitioned`; both are accepted for compatibility. Without a callback (`callback(ordered=True)`)
    it returns a function that takes the callback and its arguments.

    >>> import didax as dx
    >>> f = dx.jit(lambda x: dx.debug.callback(lambda y: print("got", y), x) or x * 2)
    >>> float(dx.grad(f)(3.0))
    got 3.0
    2.0
    """
    if callback is None:
        check_two_calls("debug.callback", args, kwargs)

        def with_options(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
            _debug(callback, args, kwargs, ordered)

        return with_options
    _debug(callback, args, kwargs, ordered)
    return None


def report(callback: Callable[..., Any], *args: Any) -> None:
    """A `debug_callback` that shows how far the program is, for which a batch is not taken apart: see `REPORT`."""
    _debug(callback, args, {}, False, REPORT)


def check_two_calls(name: str, args: Any, kwargs: Any) -> None:
    """TypeError if the first of the two calls `name(ordered=True)(...)` has arguments besides options."""
    if args or kwargs:
        raise TypeError(
            message(
                f"The first of the two calls {name}(ordered=...)(...) takes options only.",
                f"got: {len(args)} arguments, keywords {', '.join(kwargs) or 'none'}",
                fix="Pass the arguments in the second call.",
            )
        )


def effects_barrier() -> None:
    """Wait until the effects of every program that has been started have happened, in all threads.

    A call of a program with callbacks returns after them, so within one thread there is nothing to wait for.

    >>> import didax as dx
    >>> dx.effects_barrier()
    """
    callbacks.wait_for_runs()


# --- Flat calls -----------------------------------------------------------------------------------


def _call(
    name: str,
    primitive: CallPython,
    callback: Any,
    results: Any,
    args: Any,
    kwargs: Any,
    options: dict[str, Any],
) -> Any:
    check_callable(name, callback)
    leaves, tree = flatten_arguments(args, kwargs)
    avals = leaf_avals(name, callback, args, kwargs)
    structs, out_tree = pytree.flatten(results)
    result_avals = tuple([_declared(name, x, results) for x in structs])
    flat = _flat_callback(callback, tree, leaves, [True] * len(leaves), avals)
    return pytree.unflatten(
        out_tree, primitive.bind(*leaves, callback=flat, result_avals=result_avals, **options)
    )


def _debug(callback: Any, args: Any, kwargs: Any, ordered: bool, effect: Effect = DEBUG) -> None:
    check_callable("debug.callback", callback)
    leaves, tree = flatten_arguments(args, kwargs)
    is_array = [is_array_like(x) for x in leaves]
    arrays = [x for x, yes in zip(leaves, is_array, strict=True) if yes]
    flat = _flat_callback(callback, tree, leaves, is_array, list(map(aval_of, arrays)), effect)
    debug_callback_p.bind(*arrays, callback=flat, ordered=bool(ordered))


def _flat_callback(
    callback: Any,
    tree: Any,
    leaves: Sequence[Any],
    is_array: Sequence[bool],
    avals: Sequence[ShapedArray],
    effect: Effect | None = None,
) -> FlatCallback:
    """The callback as a function of flat arrays, which puts leaves that are no arrays back in their places.

    A debug callback has an effect, and nobody asks what it returns.
    """
    fixed = {i: x for i, (x, yes) in enumerate(zip(leaves, is_array, strict=True)) if not yes}
    places = [i for i, yes in enumerate(is_array) if yes]
    kinds = [dtypes.as_extended(aval.dtype) and aval.dtype for aval in avals]
    count = len(leaves)

    def call(*arrays: Any) -> list[Any]:
        filled = dict(fixed)
        filled.update(zip(places, map(_of_kind, arrays, kinds), strict=True))
        args, kwargs = pytree.unflatten(tree, [filled[i] for i in range(count)])
        found = callback(*args, **kwargs)
        return pytree.leaves(found) if effect is None else []

    key = tree, tuple(kinds), tuple((i, id(x)) for i, x in fixed.items()), effect
    return FlatCallback(callback, key, call, effect or DEBUG)


def _of_kind(x: np.ndarray[Any, Any], dtype: Any) -> Any:
    """The array of random keys with these words, where `dtype` is a key dtype; else the array itself.

    As in JAX, it is an array of the library under the option `as_in_jax`.
    """
    if not dtype:
        return ConcreteArray(ShapedArray(x.shape, x.dtype), np.array(x)) if config.state().as_in_jax else x
    extended = dtypes.as_extended(dtype)
    assert extended is not None
    shape = x.shape[: x.ndim - len(extended.element_shape)]
    return ConcreteArray(ShapedArray(shape, dtype), np.array(x))


def _declared(name: str, x: Any, results: Any) -> ShapedArray:
    """The type that a leaf of result_shape_dtypes stands for."""
    try:
        aval = ShapedArray(tuple([int(n) for n in x.shape]), dtypes.dtype(x.dtype))
    except InconclusiveDimensionOperation:  # Python would have to know the length
        raise
    except (AttributeError, TypeError):
        raise TypeError(
            message(
                f"result_shape_dtypes of {name} is a pytree of what has a shape and a dtype.",
                f"result_shape_dtypes: {results!r:.200}, which holds {x!r:.50} of type {type(x).__name__}",
                fix="Write ShapeDtypeStruct(shape, dtype), or pass an array of the type.",
            )
        ) from None
    if dtypes.as_extended(aval.dtype) is not None:
        rule = f"The callback of {name} returns numbers, and {aval.dtype} is none."
        fix = "Return the words of the keys, and wrap them with random.wrap_key_data."
        raise TypeError(message(rule, f"declared: {aval}", fix=fix))
    return aval


def _checked_sharding(sharding: Any) -> None:
    """None; a sharding of one device is accepted, as callbacks run on the host wherever the program does."""
    if sharding is not None and len(getattr(sharding, "device_set", ())) != 1:
        raise NotImplementedError(
            message(
                "A callback is called from one device.",
                f"sharding: {sharding!r:.200}",
                fix="Pass a sharding of a single device, or leave it out.",
            )
        )


@give(CallPython, "evaluate")
def _evaluate(
    self: CallPython,
    *args: Any,
    callback: FlatCallback,
    result_avals: tuple[ShapedArray, ...] = (),
    **options: Any,
) -> list[ConcreteArray]:
    """Call the callback now, with views of the arrays' memory."""
    try:
        outs = callback(*map(_read_only, args))
        results = [] if self is debug_callback_p else checked_results(self.name, outs, result_avals)
    except Exception as error:
        raised = raised_in_jax(error) if config.state().as_in_jax else error
        if raised is error:
            raise
        raise raised from error
    return [ConcreteArray(aval, np.array(y)) for aval, y in zip(result_avals, results, strict=True)]


def _read_only(x: Any) -> np.ndarray[Any, Any]:
    view = np.asarray(as_concrete(x).host_value()).view()
    view.flags.writeable = False
    return view
