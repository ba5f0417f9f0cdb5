"""Functions on pytrees, with the names of `jax.tree`: `didax.tree.map`, `flatten`, `reduce`, `transpose`, ...

A pytree is a leaf or a nested container of leaves: the parameters of a model, a batch, the state of an
optimizer. These functions are built on `didax/core/pytree.py`, which says what a node is and how a class of
your own becomes one; read it next. `didax/tree_util.py` has the same functions under the names of
`jax.tree_util`. `show` is a table of a tree's leaves.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from didax.core import pytree
from didax.core.errors import api_boundary
from didax.core.modules import on_access
from didax.core.pytree import IsLeaf, KeyPath, flatten, flatten_with_path, leaves, map, structure, unflatten

if TYPE_CHECKING:
    from didax.core.pytree import PyTreeDef
    from didax.tree._show import show as show
else:
    __getattr__, __dir__ = on_access(__name__, show="_show")

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "show",
    "static",
    "structure",
    "transpose",
    "unflatten",
]

_MISSING: Any = object()


@api_boundary
def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether every leaf is true.

    >>> all([True, {"a": True}]), all([True, {"a": False}]), all([])
    (True, False, True)
    """
    return builtins.all(leaves(tree, is_leaf))


@api_boundary
def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Return a pytree like `full_tree`, with each leaf replaced by the leaf of `prefix_tree` at or above it.

    >>> broadcast((1, 2), (0, {"a": 0, "b": [0]}))
    (1, {'a': 2, 'b': [2]})
    """
    values = pytree.broadcast_prefix(
        prefix_tree, full_tree, "broadcast's prefix_tree", is_leaf, of="full_tree"
    )
    return structure(full_tree).unflatten(values)


@api_boundary
def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the leaves of a pytree, each with the path of keys that leads to it.

    >>> leaves_with_path([7, {"a": 8}])
    [((SequenceKey(idx=0),), 7), ((SequenceKey(idx=1), DictKey(key='a')), 8)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


@api_boundary
def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Return the pytree of `f(path, leaf, *rest_leaves)`; `tree` must be a tree prefix of each tree in `rest`.

    >>> map_with_path(lambda path, x: f"{pytree.keystr(path)} = {x}", {"a": [1, 2]})
    {'a': ["['a'][0] = 1", "['a'][1] = 2"]}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = pytree.flatten_each_up_to(treedef, rest)
    paths, values = [path for path, _ in pairs], [x for _, x in pairs]
    return treedef.unflatten(list(builtins.map(f, paths, values, *columns)))


@api_boundary
def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """Combine the leaves from left to right, starting at `initializer` where there is one.

    >>> reduce(lambda x, y: x + y, [1, (2, 3)], 10)
    16
    """
    values = leaves(tree, is_leaf)
    if initializer is not _MISSING:
        return functools.reduce(function, values, initializer)
    _require_leaves("reduce", values, tree, "initializer")
    return functools.reduce(function, values)


@api_boundary
def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves as a balanced tree, of logarithmic depth; a tree without leaves gives `identity`.

    >>> reduce_associative(lambda x, y: f"({x}{y})", ["a", ("b", "c"), "d"])
    '((ab)(cd))'
    """
    values = leaves(tree, is_leaf)
    if not values and identity is not _MISSING:
        return identity
    _require_leaves("reduce_associative", values, tree, "identity")
    return _reduce_halves(operation, values)


@api_boundary
def static(**kwargs: Any) -> Any:
    """Return a `dataclasses.field` that `register_dataclass` makes part of the structure; it takes the same arguments.

    >>> dict(static(default="relu").metadata)
    {'static': True}
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(**kwargs, metadata=metadata)


@api_boundary
def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Exchange an outer tree and the inner trees that are its leaves; without `inner_treedef` the first one is taken.

    >>> transpose(structure([0, 0]), None, [(1, 2, 3), (4, 5, 6)])
    ([1, 4], [2, 5], [3, 6])
    """
    values, treedef = flatten(pytree_to_transpose)
    inner = inner_treedef or _inner_structure(outer_treedef, pytree_to_transpose)
    expected = outer_treedef.compose(inner)
    if treedef != expected:
        parts = pytree.mismatch(treedef, expected, "the tree", "outer_treedef of inner_treedef", "tree")
        raise TypeError(
            "transpose needs an outer tree of inner trees that all have one structure.\n"
            f"{textwrap.indent(parts, '  ')}\n"
            "Pass the structures in the order (outer, inner), and give each inner tree the same structure."
        )
    n = inner.num_leaves
    return inner.unflatten([outer_treedef.unflatten(values[i::n]) for i in range(n)])


def _inner_structure(outer_treedef: PyTreeDef, tree: Any) -> PyTreeDef:
    (subtrees,) = pytree.flatten_each_up_to(outer_treedef, [tree])
    _require_leaves("transpose", subtrees, tree, "inner_treedef")
    return structure(subtrees[0])


def _reduce_halves(operation: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return operation(_reduce_halves(operation, values[:middle]), _reduce_halves(operation, values[middle:]))


def _require_leaves(function: str, values: list[Any], tree: Any, remedy: str) -> None:
    if not values:
        raise TypeError(
            f"{function} has nothing to start from when the tree has no leaves.\n"
            f"  tree is {structure(tree)}\n"
            f"Pass `{remedy}`."
        )
