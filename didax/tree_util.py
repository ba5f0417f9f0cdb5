"""The functions of `didax.tree` and `didax.core.pytree` under the names of `jax.tree_util`.

Everything here is another name for the same function, or registers a class by its methods. Write `didax.tree`
in new code; read `didax/core/pytree.py` for what a node is. The classes `PyTreeDef`, `SequenceKey`,
`DictKey`, `GetAttrKey`, `FlattenedIndexKey` and the `default_registry` are jaxlib's: the first use of one
loads jaxlib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from didax import tree
from didax.core import pytree
from didax.core.errors import api_boundary
from didax.core.missing_names import missing
from didax.core.pytree import (
    KeyEntry,
    KeyPath,
    Partial,
    all_leaves,
    flatten_one_level,
    flatten_one_level_with_keys,
    keystr,
    register_dataclass,
    register_static,
    treedef_tuple,
)

if TYPE_CHECKING:
    from didax.core.pytree import DictKey, FlattenedIndexKey, GetAttrKey, PyTreeDef, SequenceKey

    default_registry: Any

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

C = TypeVar("C", bound=type)

tree_all = tree.all
tree_broadcast = tree.broadcast
tree_flatten = tree.flatten
tree_flatten_with_path = tree.flatten_with_path
tree_leaves = tree.leaves
tree_leaves_with_path = tree.leaves_with_path
tree_map = tree.map
tree_map_with_path = tree.map_with_path
tree_reduce = tree.reduce
tree_reduce_associative = tree.reduce_associative
tree_structure = tree.structure
tree_transpose = tree.transpose
tree_unflatten = tree.unflatten
is_tree_node = pytree.is_node
register_pytree_node = pytree.register_node

_LAZY = {"DictKey", "FlattenedIndexKey", "GetAttrKey", "PyTreeDef", "SequenceKey", "default_registry"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise missing(__name__, name)
    return getattr(pytree, name)


@api_boundary
def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Register a class as a node with keys: `flatten_with_keys(node)` gives pairs (key, child), and metadata.

    >>> from didax.tree_util import GetAttrKey
    >>> class Scale:
    ...     def __init__(self, factor):
    ...         self.factor = factor
    >>> register_pytree_with_keys(
    ...     Scale, lambda s: ([(GetAttrKey("factor"), s.factor)], None), lambda _, children: Scale(*children)
    ... )
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path(Scale(2.0))]
    [('.factor', 2.0)]
    """

    def without_keys(node: Any) -> tuple[list[Any], Any]:
        pairs, metadata = flatten_with_keys(node)
        return [child for _, child in pairs], metadata

    pytree.register_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


@api_boundary
def register_pytree_node_class(cls: C) -> C:
    """Register a class as a node, by its methods `tree_flatten` and (a classmethod) `tree_unflatten`.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...     def tree_flatten(self):
    ...         return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> tree_leaves(Pair(1, [2]))
    [1, 2]
    """
    node: Any = cls
    pytree.register_node(cls, node.tree_flatten, node.tree_unflatten)
    return cls


@api_boundary
def register_pytree_with_keys_class(cls: C) -> C:
    """Register a class as a node with keys, by `tree_flatten_with_keys`; `tree_flatten` is optional.

    >>> from didax.tree_util import GetAttrKey
    >>> @register_pytree_with_keys_class
    ... class Shift:
    ...     def __init__(self, offset):
    ...         self.offset = offset
    ...     def tree_flatten_with_keys(self):
    ...         return [(GetAttrKey("offset"), self.offset)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path(Shift(2.0))]
    [('.offset', 2.0)]
    """
    node: Any = cls
    flatten = getattr(cls, "tree_flatten", None)
    register_pytree_with_keys(cls, node.tree_flatten_with_keys, node.tree_unflatten, flatten)
    return cls


@api_boundary
def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the children; none for a leaf.

    >>> treedef_children(tree_structure((1, [2])))
    [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


@api_boundary
def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure has no children: a leaf, but also None or an empty container.

    >>> treedef_is_leaf(tree_structure(1)), treedef_is_leaf(tree_structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1
