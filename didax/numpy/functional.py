"""Functions that take functions: `vectorize`, `apply_along_axis`, `apply_over_axes`, `piecewise`.

They map with `vmap`, so that their results can be differentiated, batched and compiled. Read next:
`didax/api/vmap.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.vmap import vmap
from didax.core.dims import is_symbolic
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.manipulation import expand_dims, squeeze
from didax.numpy.promotion import ArrayLike, as_array, as_array_of, broadcast, broadcast_shapes
from didax.numpy.reductions import canonical_axis

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise", "vectorize"]


@array_function
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    """Apply `func1d` to every vector along an axis; the axes of its result take the place of this axis.

    >>> import didax.numpy as dnp
    >>> dnp.apply_along_axis(dnp.sum, 1, dnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    x = as_array("apply_along_axis", arr, "arr")
    dimension = canonical_axis("apply_along_axis", axis, x.ndim)

    def function(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    for _ in range(dimension + 1, x.ndim):
        function = vmap(function, in_axes=-1, out_axes=-1)
    for _ in range(dimension):
        function = vmap(function)
    return function(x)


@array_function
def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: Any) -> Array:
    """Apply `func(x, axis)` for each axis in turn; where `func` removes the axis, an axis of length 1 is put back.

    >>> import didax.numpy as dnp
    >>> dnp.apply_over_axes(dnp.sum, dnp.ones((2, 3)), [0, 1])
    Array([[6.]], dtype=float32)
    """
    x = as_array("apply_over_axes", a, "a")
    for axis in axes if hasattr(axes, "__iter__") else (axes,):
        dimension = canonical_axis("apply_over_axes", axis, x.ndim)
        out = func(x, dimension)
        if out.ndim == x.ndim - 1:
            out = expand_dims(out, dimension)
        if out.ndim != x.ndim:
            raise ValueError(
                message(
                    "apply_over_axes takes a function that keeps the axes, or removes the one it is given.",
                    f"axis: {dimension}, from {x.aval} to {out.aval}",
                    fix="Return an array with as many axes, or one less.",
                )
            )
        x = out
    return x


@array_function
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Return for each element the result of the function (or the constant) of the last condition that holds.

    One more function than conditions is the function of the elements for which no condition holds. An array of
    scalar conditions, one for each function, chooses the function of all elements.

    Every function is computed for all of `x`: where one has a NaN or infinite derivative, replace its operand
    there.

    >>> import didax.numpy as dnp
    >>> x = dnp.array([-2.0, 3.0])
    >>> dnp.piecewise(x, [x < 0], [lambda x: -x, 10.0])
    Array([ 2., 10.], dtype=float32)
    """
    value = as_array("piecewise", x)
    if isinstance(condlist, Array | np.ndarray) and condlist.ndim == value.ndim:
        condlist = (
            condlist if _are_scalar_conditions(condlist.shape, value.shape, len(funclist)) else [condlist]
        )
    conditions = [as_array("piecewise", c, "condlist") for c in condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            message(
                "piecewise takes a function for each condition, and one more for the rest.",
                f"conditions: {len(conditions)}, functions: {len(funclist)}",
                fix="Pair them.",
            )
        )
    *rest, last = [f(value, *args, **kw) if callable(f) else f for f in funclist] if funclist else [0]
    outs, default = ((*rest, last), 0) if len(funclist) == len(conditions) else (rest, last)
    result = broadcast(as_array_of("piecewise", default, value.dtype), value.shape)
    for condition, out in zip(conditions, outs, strict=True):
        result = ufuncs.where(condition, as_array_of("piecewise", out, value.dtype), result)
    return result


def _are_scalar_conditions(conditions: tuple[int, ...], shape: tuple[int, ...], functions: int) -> bool:
    """Whether an array of conditions has one for each function, where it may have one for each element."""
    if (
        len(conditions) != 1
        or is_symbolic(conditions[0])
        or functions not in (conditions[0], conditions[0] + 1)
    ):
        return False
    return functions > 2 or conditions != shape


# --- vectorize ----------------------------------------------------------------------------------------------

_AXES = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_SIGNATURE = rf"\s*{_AXES}(?:\s*,\s*{_AXES})*\s*->\s*{_AXES}(?:\s*,\s*{_AXES})*\s*"
Dims = list[tuple[str, ...]]


def _parse(signature: str) -> tuple[Dims, Dims]:
    """Parse a signature like "(n,m),(m)->(n)" into the names of the core axes of the arguments and results."""
    if not isinstance(signature, str) or not re.fullmatch(_SIGNATURE, signature):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = "Write the core axes of arguments and results, as in '(n,m),(m)->(n)'."
        raise ArgumentError(
            message("vectorize takes a signature of NumPy's form.", f"signature: {signature!r}", fix=fix)
        )
    sides = [re.findall(r"\(([^)]*)\)", side) for side in signature.split("->")]
    inputs, outputs = [[tuple(re.findall(r"\w+", axes)) for axes in side] for side in sides]
    return inputs, outputs


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """Make a function of arrays that broadcast from a function of scalars (or of the core axes in `signature`).

    Arguments whose position or name is in `excluded` are passed unchanged, and so are all keyword arguments and each
    positional argument that is None. Without a signature the function may return arrays of any shape.

    Raises ValueError where core axes of one name have different lengths, an argument has fewer axes than the signature
    says, or is None where this names axes, or `excluded` holds a negative number; TypeError where numbers of arguments
    or results differ from the signature's, or `excluded` holds anything but integers and names.

    >>> import didax.numpy as dnp
    >>> dnp.vectorize(dnp.dot, signature="(n),(n)->()")(dnp.ones((2, 3)), dnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    _check_excluded(excluded)
    core = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    @array_function
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        given = [i for i in range(len(args)) if i not in excluded]
        if core is not None and len(core[0]) != len(given):
            raise _wrong_number("arguments", len(core[0]), len(given))
        mapped = [i for i in given if args[i] is not None]
        _check_absent(core, [args[i] for i in given])
        arrays = [as_array("vectorize", args[i], i) for i in mapped]

        def function(*values: Any) -> Any:
            moved = dict(zip(mapped, values, strict=True))
            out = pyfunc(*[moved.get(i, x) for i, x in enumerate(args)], **kwargs)
            if core is not None:
                _check_outputs(out, core[1], sizes)
            return out

        inputs = [() if core is None else core[0][given.index(i)] for i in mapped]
        sizes = _core_sizes(inputs, arrays)
        return _map_broadcast(function, arrays, [len(dims) for dims in inputs])

    return vectorized


def _check_absent(core: tuple[Dims, Dims] | None, args: Sequence[Any]) -> None:
    for i, (x, dims) in enumerate(zip(args, core[0] if core else [()] * len(args), strict=True)):
        if x is None and dims:
            raise ValueError(
                message(
                    "An argument of a vectorized function that is None has no core axes.",
                    f"argument {i + 1}: None, its part of the signature: ({','.join(dims)})",
                    fix="Name it in excluded, or write () for it in the signature.",
                )
            )


def _check_excluded(excluded: Collection[int | str]) -> None:
    listed = isinstance(excluded, Collection)  # pyright: ignore[reportUnnecessaryIsInstance]
    for x in excluded if listed else [excluded]:
        if (
            not listed
            or isinstance(x, bool)
            or not isinstance(x, int | str)
            or (isinstance(x, int) and x < 0)
        ):
            raise (ValueError if isinstance(x, int) and not isinstance(x, bool) else TypeError)(
                message(
                    "vectorize excludes arguments by position, counted from the front, or by name.",
                    f"excluded: {excluded!r:.100}",
                    fix="Pass a set of integers from 0 on, and strings.",
                )
            )


def _wrong_number(what: str, wanted: int, found: int) -> TypeError:
    return TypeError(
        message(
            f"A vectorized function has the {what} of its signature.",
            f"signature: {wanted} {what}, call: {found} {what}",
            fix="Correct the signature, or name arguments that it leaves out in excluded.",
        )
    )


def _core_sizes(inputs: Sequence[tuple[str, ...]], arrays: Sequence[Array]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for dims, x in zip(inputs, arrays, strict=True):
        lengths = x.shape[x.ndim - len(dims) :] if dims else ()
        if len(lengths) != len(dims) or any(
            sizes.setdefault(name, n) != n for name, n in zip(dims, lengths, strict=True)
        ):
            facts = f"signature part: ({','.join(dims)}), argument: {x.aval}, lengths so far: {sizes}"
            raise ValueError(
                message("Core axes of one name have one length.", facts, fix="Transpose or pad the argument.")
            )
    return sizes


def _check_outputs(out: Any, outputs: Dims, sizes: dict[str, int]) -> None:
    given = list(out) if isinstance(out, tuple) else [out]
    if len(given) != len(outputs):
        raise _wrong_number("results", len(outputs), len(given))
    shapes = [np.shape(x) if not isinstance(x, Array) else x.shape for x in given]
    fits = all(
        len(shape) == len(dims) and all(sizes.setdefault(d, n) == n for d, n in zip(dims, shape, strict=True))
        for shape, dims in zip(shapes, outputs, strict=True)
    )
    if not fits:
        wanted = ", ".join([f"({','.join(dims)})" for dims in outputs])
        raise ValueError(
            message(
                "A vectorized function returns arrays with the core axes of its signature.",
                f"wanted: {wanted}, returned shapes: {', '.join(map(str, shapes))}",
                fix="Give a signature that names the axes of the results.",
            )
        )


def _map_broadcast(function: Callable[..., Any], arrays: Sequence[Array], core_ndims: Sequence[int]) -> Any:
    """Return `function` mapped over the leading axes of the arrays, which broadcast."""
    leads = [x.shape[: x.ndim - n] for x, n in zip(arrays, core_ndims, strict=True)]
    shape = broadcast_shapes("vectorize", leads) if leads else ()
    is_mapped = [_mapped_axes(lead, shape) for lead in leads]
    values = [
        squeeze(
            x, [i - len(shape) + len(lead) for i in range(len(shape) - len(lead), len(shape)) if not flags[i]]
        )
        for x, lead, flags in zip(arrays, leads, is_mapped, strict=True)
    ]
    for axis in reversed(range(len(shape))):
        function = vmap(function, in_axes=tuple([0 if flags[axis] else None for flags in is_mapped]))
    return function(*values)


def _mapped_axes(lead: tuple[int, ...], shape: tuple[int, ...]) -> list[bool]:
    """Say for each axis of the common shape whether the array varies along it; it repeats along the others."""
    missing = len(shape) - len(lead)
    return [i >= missing and (lead[i - missing] != 1 or n == 1) for i, n in enumerate(shape)]
