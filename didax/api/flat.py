"""From functions over pytrees to functions over flat lists, and names for arguments in error messages.

    flat, leaves = FlatFunction(f, in_tree, "grad"), ...      flat(*leaves) -> the leaves of f's result
    argument_names(f, args, kwargs)                           x, params['w'][0], ... in the order of the leaves

Interpreters know lists of arrays only, so each transformation of this floor flattens the arguments, transforms a
`FlatFunction`, and puts the result together by `out_tree`, which the call has left there. Results are checked here:
arrays, or scalars that become arrays. Read next: `core/pytree.py`, `autodiff.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.core.masked import check_no_mask
from didax.core.ref import Ref
from didax.core.source import describe_function
from didax.core.tracing import Tracer, current_trace, leaked
from didax.core.value import Array
from didax.runtime.array import ConcreteArray, as_concrete


class FlatFunction:
    """`f` over pytrees as a function from leaves to leaves; remembers the structure of its last result."""

    __slots__ = ("caller", "f", "in_tree", "out_tree")

    def __init__(self, f: Callable[..., Any], in_tree: Any, caller: str):
        self.f = f
        self.in_tree = in_tree
        self.caller = caller
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.unflatten(self.in_tree, leaves)
        out, self.out_tree = pytree.flatten(self.f(*args, **kwargs))
        for i, x in enumerate(out):
            if isinstance(x, Tracer) and x.owner.ended:
                out[i] = current_trace().replacement(x)
                if out[i] is None:
                    raise leaked(x)
        return [x if hasattr(x, "aval") else as_result(self, out, x) for x in out]


def as_result(flat: FlatFunction, out: Sequence[Any], x: Any) -> Any:
    """A NumPy or Python result as an array; TypeError, with its path, when it is neither array nor scalar."""
    try:
        aval = aval_of(x)
        return x if aval.dtype == dtypes.float0 else as_concrete(narrowed_scalar(x))
    except TypeError:
        if is_symbolic(x):
            return x.__jax_array__()
        name = result_name(flat.out_tree, next(i for i, y in enumerate(out) if y is x))
        if isinstance(x, Ref):
            rule = f"The function given to {flat.caller} cannot return a Ref: return the array that it holds."
            function = f"function: {describe_function(flat.f)}"
            raise ValueError(message(rule, function, name, *x.facts(), fix="Return ref[...].")) from None
        raise TypeError(
            message(
                f"The function given to {flat.caller} must return arrays, scalars, or pytrees of them.",
                f"function: {describe_function(flat.f)}",
                f"{name}: {x!r:.100} of type {type(x).__name__}",
                fix="Return an array there, or return the value by other means (outside the transformation).",
            )
        ) from None


def as_array(x: Any) -> Any:
    """An `Array` for an array, a NumPy array or a scalar; arrays of float0, without numbers, are NumPy's."""
    if getattr(x, "dtype", None) == dtypes.float0:
        return np.asarray(x) if type(x) is ConcreteArray else x
    return x if isinstance(x, Array) else as_concrete(x)


def result_name(out_tree: Any, i: int) -> str:
    """A name for the i-th leaf of a result: `result`, `result['loss'][0]`."""
    paths = pytree.flatten_with_path(pytree.unflatten(out_tree, range(out_tree.num_leaves)))[0]
    return "result" + pytree.keystr(paths[i][0])


def narrowed_scalar(x: Any) -> Any:
    """`x`; a NumPy scalar of 64 bits in the default width, as nobody stated its dtype to us."""
    if not isinstance(x, np.generic):
        return x
    scalar = cast("np.generic[Any]", x)
    if scalar.dtype.kind not in "iufc":  # booleans, dtypes of ml_dtypes, strings and objects
        return scalar
    return scalar.astype(dtypes.narrowed(scalar.dtype))


def flatten_arguments(args: Any, kwargs: Any) -> tuple[list[Any], Any]:
    """Leaves and structure of a call's arguments; 64-bit NumPy scalars get the default width, as NumPy arrays do."""
    leaves, tree = pytree.flatten((args, kwargs))
    return [x if type(x) is ConcreteArray else narrowed_scalar(x) for x in leaves], tree


def leaf_avals(caller: str, f: Any, args: Any, kwargs: Any) -> list[ShapedArray]:
    """Types of all leaves; TypeError naming the argument for a leaf that is no array or scalar."""
    leaves, _ = flatten_arguments(args, kwargs)
    try:
        return [aval_of(x) for x in leaves]
    except TypeError:
        names = argument_names(f, args, kwargs)
        name, leaf = next((n, x) for n, x in zip(names, leaves, strict=True) if not is_array_like(x))
        check_no_mask(leaf, f"function given to {caller}: {describe_function(f)}", f"argument {name}")
        fix = "Convert it to an array, close over it, or mark it static (static_argnums or static_argnames of jit)."
        if dataclasses.is_dataclass(leaf):
            fix = "Decorate the class with didax.tree_util.register_dataclass, or mark the argument static "
            fix += "(static_argnums or static_argnames of jit)."
        elif hasattr(leaf, "__dict__") and not callable(leaf):
            fix = f"Say with didax.tree_util.register_pytree_node which arrays it holds. {fix}"
        raise TypeError(
            message(
                f"The arguments of a function given to {caller} must be arrays, scalars, or pytrees of them.",
                f"function: {describe_function(f)}",
                f"argument {name}: {leaf!r:.100} of type {type(leaf).__name__}",
                fix=f"{leaf.how_to_read} The function may close over the Ref."
                if isinstance(leaf, Ref)
                else fix,
            )
        ) from None


def argument_names(f: Any, args: Sequence[Any], kwargs: Any) -> list[str]:
    """A name for each leaf of the arguments: `x`, `params['w']`, `args[1][0]`."""
    parameters = positional_names(f, len(args))
    names: list[str] = []
    for name, arg in [*zip(parameters, args, strict=True), *sorted(kwargs.items())]:
        names += [name + pytree.keystr(path) for path, _ in pytree.flatten_with_path(arg)[0]]
    return names


def positional_names(f: Any, count: int) -> list[str]:
    """Names of the first `count` positional arguments of `f`."""
    names, rest = _parameter_names(f)
    return [names[i] if i < len(names) else f"{rest}[{i - len(names)}]" for i in range(count)]


_known_names: WeakKeyDictionary[Any, tuple[list[str], str]] = WeakKeyDictionary()


def _parameter_names(f: Any) -> tuple[list[str], str]:
    """Names of the positional parameters of `f`, and of the one for the rest; read once per function."""
    try:
        found = _known_names.get(f)
        if found is None:
            found = _known_names[f] = _read_parameter_names(f)
        return found
    except TypeError:  # a callable that cannot be hashed or weakly referred to
        return _read_parameter_names(f)


def _read_parameter_names(f: Any) -> tuple[list[str], str]:
    names: list[str] = []
    rest = "args"
    try:
        for p in inspect.signature(f).parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind is p.VAR_POSITIONAL:
                rest = p.name
    except (TypeError, ValueError):
        pass
    return names, rest


def check_callable(caller: str, f: Any) -> None:
    """TypeError unless `f` can be called."""
    if not callable(f):
        raise TypeError(
            message(
                f"{caller} takes a function.",
                f"got: {f!r:.100} of type {type(f).__name__}",
                fix=f"Pass the function itself, {caller}(f), and call the result.",
            )
        )
