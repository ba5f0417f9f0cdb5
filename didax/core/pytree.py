"""Pytrees: nested containers of leaves, taken apart and put together again.

A *pytree* is a leaf, or a node whose children are pytrees. None (no children), tuples, namedtuples, lists,
dicts (in the order of their sorted keys), OrderedDicts and defaultdicts are nodes; a class becomes a node
through `register_node`, `register_dataclass` or `register_static`. Everything else is a leaf. Transformations
work on the list of leaves:

    leaves, treedef = flatten(tree)        unflatten(treedef, leaves) == tree

The walk over the tree is C++ code of jaxlib, with a registry of our own. Loading jaxlib takes a fifth of a
second, so the first flatten loads it, and not the import; registrations made earlier wait in a queue. For the
same reason `PyTreeDef` and the key classes (`SequenceKey`, ...) are looked up late: write `pytree.PyTreeDef`, or
import the name under `TYPE_CHECKING` only, because `from didax.core.pytree import PyTreeDef` loads jaxlib at
once.

Read next: `didax/tree/__init__.py`, the public face, and `didax/tree_util.py`, the same functions under
longer names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from didax.core.errors import api_boundary, message, strip_internal_frames
from didax.core.process import import_to_the_end, lock_for_forks

C = TypeVar("C", bound=type)

IsLeaf = Callable[[Any], bool]
KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]

if TYPE_CHECKING:

    class PyTreeDef:
        """The structure of a pytree: nodes, and a hole for each leaf. Immutable and hashable."""

        @property
        def num_leaves(self) -> int: ...
        @property
        def num_nodes(self) -> int: ...
        def unflatten(self, leaves: Iterable[Any], /) -> Any: ...
        def flatten_up_to(self, tree: Any) -> list[Any]: ...
        def children(self) -> list[PyTreeDef]: ...
        def node_data(self) -> tuple[type, Any] | None: ...
        def compose(self, inner: PyTreeDef, /) -> PyTreeDef: ...

    class SequenceKey:
        """The step `[idx]` into a tuple or list."""

        idx: int

        def __init__(self, idx: int) -> None: ...

    class DictKey:
        """The step `[key]` into a dict."""

        key: Hashable

        def __init__(self, key: Hashable) -> None: ...

    class GetAttrKey:
        """The step `.name` into a namedtuple, a dataclass or another class."""

        name: str

        def __init__(self, name: str) -> None: ...

    class FlattenedIndexKey:
        """The step to child number `key` of a class that was registered without keys."""

        key: int

        def __init__(self, key: int) -> None: ...


# --- The registry: loaded at first use ------------------------------------------------------------

_lock = lock_for_forks(threading.RLock())
_cxx: Any = None  # the module jaxlib._jax.pytree
_registry: Any = None  # its PyTreeRegistry that holds our nodes
_registered: set[type] = {type(None), tuple, list, dict}
_queue: list[tuple[str, tuple[Any, ...]]] = []
_LAZY_CLASSES = ("PyTreeDef", "SequenceKey", "DictKey", "GetAttrKey", "FlattenedIndexKey")


def _load() -> Any:
    """The registry; the first call loads jaxlib and defines `_LAZY_CLASSES` in this module."""
    global _cxx, _registry, _flatten
    if _registry is not None:
        return _registry
    with _lock:
        if _registry is None:
            _cxx = import_to_the_end("jaxlib._jax").pytree
            globals().update({name: getattr(_cxx, name) for name in _LAZY_CLASSES})
            _registry = _filled_registry()
            _flatten = _registry.flatten
    return _registry


def _filled_registry() -> Any:
    filled = _cxx.PyTreeRegistry()
    # A pickled PyTreeDef names its registry by module and name, which lead to __getattr__ below.
    filled.__module__, filled.__name__ = __name__, "default_registry"
    for method, arguments in _queue:
        getattr(filled, method)(*arguments)
    _queue.clear()
    return filled


def __getattr__(name: str) -> Any:
    if name == "default_registry":
        return _load()
    if name in _LAZY_CLASSES:
        _load()
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _load_and_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    return _load().flatten(tree, is_leaf)


_flatten: Callable[[Any, IsLeaf | None], tuple[list[Any], PyTreeDef]] = _load_and_flatten


# --- Taking apart and putting together ------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree, in order, and its structure; a subtree where `is_leaf` holds counts as a leaf.

    >>> flatten({"b": [1, 2], "a": (3, None)})
    ([3, 1, 2], PyTreeDef({'a': (*, None), 'b': [*, *]}))
    """
    # Each jitted call comes through here, so a call that succeeds does nothing but call C++.
    try:
        return _flatten(tree, is_leaf)
    except (ValueError, TypeError) as error:
        if is_leaf is not None:
            _check_function("is_leaf", is_leaf)
        _raise_if_unsortable(tree, error)
        raise
    except SystemError as error:
        raise _too_deep(tree, error) from None


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of this structure with these leaves: the inverse of `flatten`.

    >>> unflatten(structure([0, (0, 0)]), "abc")
    ['a', ('b', 'c')]
    """
    expected = getattr(treedef, "num_leaves", None)
    if expected is None:
        raise TypeError(
            "unflatten takes a structure, then the leaves.\n"
            f"  treedef is of type {type(treedef).__name__}\n"
            "Pass what `structure(tree)` or `flatten(tree)[1]` returns as the first argument."
        )
    values = leaves if isinstance(leaves, list) else list(leaves)
    if len(values) != expected:
        raise ValueError(
            "unflatten needs exactly one leaf for each hole of the structure.\n"
            f"  treedef has {expected}, leaves has {len(values)}: {_clip(str(treedef))}\n"
            "Pass the leaves of a tree of the same structure."
        )
    return treedef.unflatten(values)


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a pytree, without its leaves.

    >>> structure((1, {"a": 2})) == structure((3, {"a": 4}))
    True
    """
    return flatten(tree, is_leaf)[1]


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a pytree, in order.

    >>> leaves({"b": [1, 2], "a": (3, None)})
    [3, 1, 2]
    """
    return flatten(tree, is_leaf)[0]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The pytree of `f(leaf, *rest_leaves)`. `tree` must be a tree prefix of each tree in `rest`.

    >>> map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    {'a': 11, 'b': (22,)}
    """
    try:  # what `api_boundary` does, without the time of its call
        first, treedef = flatten(tree, is_leaf)
        columns = [first, *flatten_each_up_to(treedef, rest)]
        return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])
    except Exception as error:
        strip_internal_frames(error, map, (f, tree, *rest), {"is_leaf": is_leaf})
        raise


def flatten_each_up_to(treedef: PyTreeDef, rest: Iterable[Any]) -> list[list[Any]]:
    """For each tree of a map's `rest`, its subtrees at the holes of `treedef`."""
    rule = "map needs the first tree to be a tree prefix of the others."
    return [_flatten_up_to(treedef, tree, rule, "tree", f"rest[{i}]") for i, tree in enumerate(rest)]


@api_boundary
def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every element is a leaf.

    >>> all_leaves([1, "a"]), all_leaves([1, None])
    (True, False)
    """
    return all(structure(x, is_leaf).node_data() is None for x in iterable)


@api_boundary
def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose elements have these structures.

    >>> treedef_tuple([structure(1), structure([2])])
    PyTreeDef((*, [*]))
    """
    given = list(treedefs)
    for i, treedef in enumerate(given):
        if not hasattr(treedef, "num_leaves"):
            rule, fact = "treedef_tuple takes structures.", f"treedefs[{i}]: {treedef!r:.100}"
            raise TypeError(message(rule, fact, fix="Pass what `structure(tree)` returns."))
    return _with_children((tuple, None), given)


def with_children(cls: type, metadata: Any, children: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a node of a class, with metadata, whose children have these structures."""
    return _with_children((cls, metadata), children)


def _with_children(node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]) -> PyTreeDef:
    registry = _load()
    return _cxx.PyTreeDef.from_node_data_and_children(registry, node_data, list(children))


# --- Paths ----------------------------------------------------------------------------------------


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Like `flatten`, with the path of keys that leads to each leaf; `is_leaf(path, x)` if it takes the path.

    >>> flatten_with_path([1, {"a": 2}])[0]
    [((SequenceKey(idx=0),), 1), ((SequenceKey(idx=1), DictKey(key='a')), 2)]
    """
    if is_leaf is not None:
        _check_function("is_leaf", is_leaf)
    try:
        if is_leaf is None or is_leaf_takes_path:
            return _walk_with_path(tree, is_leaf)
        return _walk_with_path(tree, lambda _path, x: is_leaf(x))
    except (ValueError, TypeError) as error:
        _raise_if_unsortable(tree, error)
        raise
    except SystemError as error:
        raise _too_deep(tree, error) from None


def _walk_with_path(
    tree: Any, is_leaf: Callable[[KeyPath, Any], bool] | None
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    return _load().flatten_with_path(tree, is_leaf)


@api_boundary
def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of a node and its metadata; ValueError for a leaf.

    >>> flatten_one_level({"b": [1, 2], "a": 3})
    ((3, [1, 2]), ('a', 'b'))
    """
    level = _load().flatten_one_level(tree)
    if level is None:
        raise ValueError(
            "flatten_one_level takes a pytree node.\n"
            f"  tree is a leaf of type {type(tree).__name__}\n"
            "Pass a container, or register the class with `register_pytree_node`."
        )
    return level


@api_boundary
def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[KeyEntry, Any]], Any]:
    """The children of a node, each with its key, and the node's metadata; ValueError for a leaf.

    >>> flatten_one_level_with_keys({"a": [1]})
    ([(DictKey(key='a'), [1])], ('a',))
    """
    _, metadata = flatten_one_level(tree)
    return _keyed_children(tree), metadata


def _keyed_children(node: Any) -> list[tuple[KeyEntry, Any]]:
    # jaxlib's flatten_one_level_with_keys gives every child of a namedtuple the key of the first child.
    pairs, _ = _walk_with_path(node, lambda path, _x: len(path) == 1)
    return [(path[0], child) for path, child in pairs]


@api_boundary
def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text; `simple` leaves out brackets, quotes and dots.

    >>> path = flatten_with_path({"w": [0, 1]})[0][1][0]
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['w'][1]", 'w/1')
    """
    return separator.join([_simple_key(key) if simple else str(key) for key in keys])


def _simple_key(key: KeyEntry) -> str:
    _load()  # defines the key classes
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, GetAttrKey):
        return key.name
    return str(key.key) if isinstance(key, (DictKey, FlattenedIndexKey)) else str(key)


# --- Registering classes --------------------------------------------------------------------------


def is_registered(kind: type) -> bool:
    """Whether a class is a node of pytrees by registration; a NamedTuple is one without."""
    return kind in _registered


@api_boundary
def register_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Makes a class a pytree node. `flatten_func(node)` gives `(children, metadata)`, and
    `unflatten_func(metadata, children)` gives the node back, for any objects as children. Metadata is hashable.

    >>> class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    >>> register_node(Box, lambda box: ((box.content,), None), lambda _, children: Box(*children))
    >>> leaves(Box([1, 2]))
    [1, 2]
    """
    _check_class(nodetype)
    _check_function("flatten_func", flatten_func)
    _check_function("unflatten_func", unflatten_func)
    if flatten_with_keys_func is not None:
        _check_function("flatten_with_keys_func", flatten_with_keys_func)
    _register("register_node", nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


@overload
def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C: ...
@overload
def register_dataclass(
    nodetype: None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Callable[[C], C]: ...
@api_boundary
def register_dataclass(
    nodetype: type | None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Makes a dataclass a pytree node: data fields are children, meta fields are hashable metadata.

    Without the two lists, fields declared with `metadata={"static": True}` are meta fields, and the others are
    data fields. Fields that the constructor does not take, and `drop_fields`, are not part of the pytree.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     activation: str = dataclasses.field(default="relu", metadata={"static": True})
    >>> map(lambda w: 2 * w, Layer(3.0))
    Layer(weight=6.0, activation='relu')
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass, data_fields=data_fields, meta_fields=meta_fields, drop_fields=drop_fields
        )
    _check_class(nodetype)
    data, meta = _split_fields(nodetype, data_fields, meta_fields, drop_fields)
    _register("register_dataclass_node", nodetype, data, meta)
    return nodetype


@api_boundary
def register_static(cls: C) -> C:
    """Makes a class a node without leaves: an instance is all metadata, compared by `==`. Returns the class.

    >>> @register_static
    ... class Mode(str):
    ...     pass
    >>> leaves((1, Mode("fast")))
    [1]
    """
    register_node(cls, lambda instance: ((), instance), lambda instance, _: instance)
    return cls


@api_boundary
def is_node(typ: type) -> bool:
    """Whether instances of this class are pytree nodes.

    >>> is_node(list), is_node(int)
    (True, False)
    """
    _check_class(typ)
    return _load().is_node(typ)


def _check_class(nodetype: Any) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(
            "Only a class can be a pytree node.\n"
            f"  nodetype is {nodetype!r:.100}, of type {type(nodetype).__name__}\n"
            "Pass the class itself, not an instance."
        )


def _check_function(name: str, f: Any) -> None:
    if not callable(f):
        rule, fact = f"{name} is a function.", f"{name}: {f!r:.100} of type {type(f).__name__}"
        raise TypeError(message(rule, fact, fix="Pass a function, or leave it out where it is optional."))


def _register(method: str, nodetype: type, *arguments: Any) -> None:
    with _lock:
        if nodetype in _registered:
            raise ValueError(
                "A class can be registered as a pytree node only once.\n"
                f"  {nodetype.__module__}.{nodetype.__qualname__} is registered already\n"
                "Keep one registration; to treat a class in another way, register a subclass of it."
            )
        if _registry is None:
            _queue.append((method, (nodetype, *arguments)))
        else:
            getattr(_registry, method)(nodetype, *arguments)
        _registered.add(nodetype)


def _split_fields(
    nodetype: Any, data: Sequence[str] | None, meta: Sequence[str] | None, drop: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The data and meta fields, inferred or as given, checked against those the constructor takes."""
    is_dataclass = dataclasses.is_dataclass(nodetype)
    said = f"{nodetype.__name__} is {'' if is_dataclass else 'not '}a dataclass"
    if (data is None) != (meta is None) or (data is None and not is_dataclass):
        raise TypeError(
            "register_dataclass takes data_fields and meta_fields, or for a dataclass neither.\n"
            f"  {said}; data_fields={data}, meta_fields={meta}\n"
            "Name all fields in the two lists, or decorate the class with dataclasses.dataclass."
        )
    if not is_dataclass:
        return list(data or ()), list(meta or ())
    fields = {f.name: f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop}
    if data is None or meta is None:
        static = {name for name, field in fields.items() if field.metadata.get("static", False)}
        return [n for n in fields if n not in static], [n for n in fields if n in static]
    _check_fields(nodetype, fields, [*data, *meta])
    return list(data), list(meta)


def _check_fields(nodetype: Any, fields: Iterable[str], given: list[str]) -> None:
    if sorted(given) != sorted(fields):
        missing = [name for name in fields if name not in given]
        unexpected = [name for name in given if name not in fields]
        raise ValueError(
            "data_fields and meta_fields must name each field of the constructor once, and nothing else.\n"
            f"  {nodetype.__name__}: missing {missing}, unexpected {unexpected}, given {given}\n"
            "Correct the lists, name fields to leave out in drop_fields, or give neither list."
        )


def _ordered(mapping: Any) -> tuple[Any, Any]:
    return tuple(mapping.values()), tuple(mapping)


def _default(mapping: Any) -> tuple[Any, Any]:
    keys = tuple(sorted(mapping))
    return tuple(mapping[key] for key in keys), (mapping.default_factory, keys)


def _with_dict_keys(flatten_func: Callable[[Any], tuple[Any, Any]], keys_of: Callable[[Any], Any]) -> Any:
    def flatten_with_keys(mapping: Any) -> tuple[Any, Any]:
        children, metadata = flatten_func(mapping)
        return tuple((DictKey(k), x) for k, x in zip(keys_of(metadata), children, strict=True)), metadata

    return flatten_with_keys


register_node(
    OrderedDict,
    _ordered,
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
    _with_dict_keys(_ordered, lambda keys: keys),
)
register_node(
    defaultdict,
    _default,
    lambda metadata, children: defaultdict(metadata[0], zip(metadata[1], children, strict=True)),
    _with_dict_keys(_default, lambda metadata: metadata[1]),
)


# --- Functions with bound arguments ---------------------------------------------------------------


class _Opaque:
    """A callable around a partial. `functools.partial` would merge with the partial itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opaque) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial[Any]):
    """A `functools.partial` that is a pytree: bound arguments are children, the function is metadata.

    A Partial of a Partial binds more arguments of the same function; arguments that a plain `functools.partial`
    has bound stay part of the function.

    >>> scale = Partial(lambda factor, x: factor * x, 3)
    >>> leaves(scale), map(lambda factor: 2 * factor, scale)(10)
    ([3], 60)
    """

    def __new__(cls, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Partial:
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = _Opaque(cast("Callable[..., Any]", func))
        if not callable(func):
            rule = "Partial takes a function, and arguments for it."
            raise TypeError(
                message(rule, f"func: {func!r:.100} of type {type(func).__name__}", fix="Pass it first.")
            )
        return super().__new__(cls, func, *args, **kwargs)


register_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
)


# --- Two structures side by side ------------------------------------------------------------------


def broadcast_prefix(
    prefix: Any, tree: Any, what: str = "prefix", is_leaf: IsLeaf | None = None, of: str = "args"
) -> list[Any]:
    """For each leaf of `tree`, the leaf of `prefix` at or above it. Raises ValueError if there is none.

    In the error, `what` names the prefix, the last word of `what` names a value, and `of` names the tree.

    >>> broadcast_prefix((0, None), ([1, 2], {"a": 3}), "vmap in_axes", is_leaf=lambda x: x is None)
    [0, 0, None]
    """
    values, treedef = flatten(prefix, is_leaf)
    subtrees = _flatten_up_to(treedef, tree, f"{what} must be a tree prefix of {of}.", what.split()[-1], of)
    return [
        x for x, subtree in zip(values, subtrees, strict=True) for _ in range(structure(subtree).num_leaves)
    ]


def mismatch(tree1: Any, tree2: Any, name1: str, name2: str, root: str = "out") -> str:
    """The places where the structures of two trees (or treedefs) differ, one a line; empty if they are equal.

    >>> print(mismatch({"a": (1, 2)}, {"a": {"x": 1, "y": 2}}, "true_fun", "false_fun"))
    out['a'] is a tuple of 2 in true_fun, a dict with keys 'x', 'y' in false_fun
    """
    differences = _differences(_as_treedef(tree1), _as_treedef(tree2))
    return "\n".join(
        f"{root}{keystr(path)} is {one} in {name1}, {two} in {name2}" for path, one, two in differences
    )


def _as_treedef(tree: Any) -> PyTreeDef:
    _load()  # defines PyTreeDef
    return tree if isinstance(tree, PyTreeDef) else structure(tree)


def _flatten_up_to(treedef: PyTreeDef, tree: Any, rule: str, prefix_name: str, tree_name: str) -> list[Any]:
    """The subtrees of `tree` at the holes of `treedef`; an error that states `rule` if the tree does not fit."""
    try:
        return treedef.flatten_up_to(tree)
    except ValueError:
        full = structure(tree)
        differences = list(_differences(treedef, full, prefix=True))
        if not differences:  # the flatten function of a class raised the error
            raise
    paths = [(keystr(path), one, two) for path, one, two in differences]
    where = [f"  {prefix_name}{at} is {one}, but {tree_name}{at} is {two}" for at, one, two in paths]
    both = [f"  {prefix_name}: {_clip(str(treedef))}", f"  {tree_name}: {_clip(str(full))}"]
    fix = f"Give {prefix_name} the containers of {tree_name} there, or one leaf in place of a whole subtree."
    raise ValueError("\n".join([rule, *where, *both, fix]))


def _differences(
    one: PyTreeDef, two: PyTreeDef, prefix: bool = False, path: KeyPath = ()
) -> Iterator[tuple[KeyPath, str, str]]:
    """Yields (path, node of one, node of two) where they differ. A leaf of a prefix fits any subtree."""
    if one == two or (prefix and one.node_data() is None):
        return
    children = _child_structures(one)
    others = {str(key): child for key, child in _child_structures(two)}
    if one.node_data() != two.node_data() or len(children) != len(two.children()):
        yield path, *_describe_both(one, two)
    if _kind(one) is _kind(two):
        for key, child in children:
            if str(key) in others:
                yield from _differences(child, others[str(key)], prefix, (*path, key))


def _kind(treedef: PyTreeDef) -> type | None:
    data = treedef.node_data()
    return None if data is None else data[0]


def _child_structures(treedef: PyTreeDef) -> list[tuple[KeyEntry, PyTreeDef]]:
    """The children of a structure and their keys. Only an instance knows the keys, so one is made of dummies."""
    children = treedef.children()
    n = len(children)
    # A class that refuses dummies must not break an error report: its children are numbered.
    with contextlib.suppress(Exception):
        shallow = _with_children(treedef.node_data(), [_with_children(None, ())] * n)
        keys = [key for key, _ in _keyed_children(shallow.unflatten([object()] * n))] if n else []
        return list(zip(keys, children, strict=True))
    return [(FlattenedIndexKey(i), child) for i, child in enumerate(children)]


def _describe_both(one: PyTreeDef, two: PyTreeDef) -> tuple[str, str]:
    texts = _describe(one), _describe(two)
    if texts[0] != texts[1]:
        return texts
    # The words are the same, so the number of children, the metadata or the module of the class differs.
    data1, data2 = one.node_data(), two.node_data()
    if data1 == data2:
        return f"{texts[0]} of {len(one.children())}", f"{texts[1]} of {len(two.children())}"
    assert data1 is not None and data2 is not None, "a leaf and a node have different words"
    if data1[0] is data2[0]:
        return f"{texts[0]} with metadata {data1[1]!r}", f"{texts[1]} with metadata {data2[1]!r}"
    return f"{texts[0]} ({data1[0].__module__})", f"{texts[1]} ({data2[0].__module__})"


def _describe(treedef: PyTreeDef) -> str:
    data = treedef.node_data()
    if data is None:
        return "a leaf"
    kind, _ = data
    if kind is type(None):
        return "None"
    keys = [key for key, _ in _child_structures(treedef)]
    name = f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"
    if issubclass(kind, dict):
        listed = ", ".join(repr(key.key) for key in keys)
        return f"{name} with keys {listed}" if keys else f"{name} without keys"
    return f"{name} of {len(keys)}" if kind in (tuple, list) else name


def _raise_if_unsortable(tree: Any, error: Exception) -> None:
    """Raises an error that names the dict whose keys have no order, if there is one."""
    pairs: list[tuple[KeyPath, Any]] = []
    # The flatten function of a class may have raised the error, and may raise it here again: the caller reports it.
    with contextlib.suppress(ValueError, TypeError):
        pairs, _ = _walk_with_path(tree, lambda _path, x: _unsortable(x))
    for path, mapping in pairs:
        if _unsortable(mapping):
            keys = ", ".join(f"{key!r} ({type(key).__name__})" for key in mapping)
            raise ValueError(
                "The keys of a dict in a pytree must be sortable: their order is the order of the leaves.\n"
                f"  tree{keystr(path)} has keys {keys}\n"
                "Use keys of one type, or an OrderedDict, which keeps the order of insertion."
            ) from error


def _too_deep(tree: Any, error: SystemError) -> Exception:
    """The error to raise where jaxlib's recursion reached Python's limit, for which jaxlib raises a SystemError."""
    if not isinstance(error.__cause__ or error.__context__, RecursionError):
        return error
    cycle = _path_to_itself(tree)
    if cycle is not None:
        inner, outer = cycle
        return ValueError(
            "A pytree cannot contain itself.\n"
            f"  tree{keystr(outer)} is one object with tree{keystr(inner)}\n"
            "Put a copy, or something else, in one of the two places."
        )
    rule = "A pytree is nested too deeply to be taken apart."
    fix = "Make it flatter, such as one list of all levels"
    if sys.version_info >= (3, 12):  # from which on compiled functions have a limit of their own
        return RecursionError(f"{rule}\n{fix}: the limit of compiled functions is Python's own and fixed.")
    return RecursionError(
        f"{rule}\n"
        f"  Python's limit (sys.getrecursionlimit()): {sys.getrecursionlimit()} levels of calls\n"
        f"{fix}, or raise the limit by sys.setrecursionlimit."
    )


def _path_to_itself(tree: Any) -> tuple[KeyPath, KeyPath] | None:
    """The paths to an object within a node and to this node, if they are one object; None without a cycle."""
    path: list[KeyEntry] = []
    above: dict[int, int] = {}  # id of a node on the path -> how deep it is
    nodes: list[tuple[Any, Iterator[tuple[KeyEntry, Any]]]] = []

    def enter(node: Any) -> None:
        above[id(node)] = len(path)
        children = [] if _load().flatten_one_level(node) is None else _keyed_children(node)
        nodes.append((node, iter(children)))

    enter(tree)
    while nodes:
        node, children = nodes[-1]
        entry = next(children, None)
        if entry is None:
            nodes.pop()
            del above[id(node)], path[-1:]
            continue
        path.append(entry[0])
        if id(entry[1]) in above:
            return tuple(path), tuple(path[: above[id(entry[1])]])
        enter(entry[1])
    return None


def _unsortable(x: Any) -> bool:
    if type(x) not in (dict, defaultdict):
        return False
    try:
        sorted(x)
    except TypeError:
        return True
    return False


def _clip(text: str) -> str:
    return text if len(text) <= 300 else text[:296] + " ..."
