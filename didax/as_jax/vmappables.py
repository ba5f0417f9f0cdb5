"""Values of a library's own classes, which `vmap` maps by functions of the library: `batching.register_vmappable`.

    register_vmappable(Rows, int, int, to_elt, from_elt, None)
    to_elt(cont, get_index, rows, axis)     what the function gets: cont(x, axis) is the element of an array x
    from_elt(cont, size, row, axis)         what vmap returns: cont(size, y, axis) is the batch of elements y

`vmap` maps a function of the arrays that `to_elt` asks for. The function makes elements of them, calls the user's
function, and returns the arrays that `from_elt` asks for. Without registered classes, `vmap` is Didax's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import didax
from didax.core import pytree
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.numpy import moveaxis

_kinds: dict[type, tuple[type, Callable[..., Any], Callable[..., Any]]] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Have `vmap` map values of a class by these functions; NotImplementedError for batches of no one length."""
    if make_iota is not None:
        rule, fix = "A batch has one length, an int.", "Leave make_iota out (None)."
        raise NotImplementedError(message(rule, f"class: {data_type}, make_iota: {make_iota}", fix=fix))
    _kinds[data_type] = spec_type, to_elt, from_elt


def unregister_vmappable(data_type: type) -> None:
    """Forget a class."""
    del _kinds[data_type]


def is_vmappable(x: Any) -> bool:
    """Whether a value is of a registered class."""
    return type(x) in _kinds


def _no_index() -> Any:
    rule = "An element of a registered class does not know its number in the batch."
    fix = "Map over an arange."
    raise NotImplementedError(message(rule, "asked by: to_elt of register_vmappable", fix=fix))


def _element(leaf: Callable[[Any, Any], Any], x: Any, spec: Any) -> Any:
    """An element of `x`, whose arrays `leaf` gives."""
    if not is_vmappable(x):
        return leaf(x, spec)
    return _kinds[type(x)][1](functools.partial(_element, leaf), _no_index, x, spec)


def _batch(leaf: Callable[[Any, Any], Any], size: Any, y: Any, spec: Any) -> Any:
    """The batch of the elements `y`, whose arrays `leaf` gives."""
    if not is_vmappable(y):
        return leaf(y, spec)
    return _kinds[type(y)][2](functools.partial(_batch, leaf), size, y, spec)


class _Arrays:
    """Arrays of values with their axes, in the order in which the functions of their classes ask for them."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.axes: list[int | None] = []

    def __call__(self, x: Any, axis: int | None) -> Any:
        self.arrays.append(x)
        self.axes.append(axis)
        return x


def _specs(axes: Any, tree: Any, what: str) -> list[Any]:
    """The spec of each leaf of a structure, where a value of a registered class is a leaf."""
    kinds = tuple(spec_type for spec_type, _, _ in _kinds.values())
    is_leaf = lambda x: x is None or (isinstance(x, kinds) and not isinstance(x, int))
    return pytree.broadcast_prefix(axes, pytree.unflatten(tree, [0] * tree.num_leaves), what, is_leaf=is_leaf)


@functools.wraps(didax.vmap)
def vmap(fun: Any, in_axes: Any = 0, out_axes: Any = 0, *positional: Any, **options: Any) -> Any:
    """As `didax.vmap`, for values of registered classes, too."""
    if not _kinds:
        return didax.vmap(fun, in_axes, out_axes, *positional, **options)
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.flatten((args, kwargs), is_vmappable)
        specs = _specs((in_axes, 0), tree, "vmap in_axes")
        given, returned, told = _Arrays(), _Arrays(), list[Any]()
        for x, spec in zip(leaves, specs, strict=True):
            _element(given, x, spec)
        lengths = [
            aval_of(x).shape[i] for x, i in zip(given.arrays, given.axes, strict=True) if i is not None
        ]
        stated = positional[1] if len(positional) > 1 else options.get("axis_size")
        size = stated or next(iter(lengths), None)

        def on_arrays(*arrays: Any) -> Any:
            remaining = iter(arrays)
            elements = [_element(_next(remaining), x, spec) for x, spec in zip(leaves, specs, strict=True)]
            args, kwargs = pytree.unflatten(tree, elements)
            results, out_tree = pytree.flatten(fun(*args, **kwargs), is_vmappable)
            asked = _specs(out_axes, out_tree, "vmap out_axes")
            returned.__init__()
            for y, spec in zip(results, asked, strict=True):
                _batch(returned, size, y, spec)
            told[:] = results, out_tree, asked
            pairs = list(zip(returned.arrays, returned.axes, strict=True))
            return [y for y, axis in pairs if axis is not None], [y for y, axis in pairs if axis is None]

        over = didax.vmap(on_arrays, tuple(given.axes), (0, None), *positional, **options)
        batched, whole = map(iter, over(*given.arrays))
        results, out_tree, asked = told
        arrays = iter([next(whole) if i is None else moveaxis(next(batched), 0, i) for i in returned.axes])
        outs = [_batch(_next(arrays), size, y, spec) for y, spec in zip(results, asked, strict=True)]
        return pytree.unflatten(out_tree, outs)

    return mapped


def _next(arrays: Iterator[Any]) -> Callable[[Any, Any], Any]:
    return lambda x, axis: next(arrays)
