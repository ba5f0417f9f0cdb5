"""`jax.extend.linear_util` and `jax.api_util`: functions on flat lists, built from functions on pytrees.

    f = wrap_init(fun, debug_info=...)
    flat, out_tree = flatten_fun(f, in_tree)        flat.call_wrapped(*leaves); out_tree() after the call

A transformation is a generator: it yields arguments for the function inside, is sent its result, and yields its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from didax import tree_util
from didax.api.stages import ShapeDtypeStruct
from didax.as_jax.jaxprs import DebugInfo
from didax.core.avals import ShapedArray, aval_of

__all__ = [
    "Store", "StoreException", "WrappedFun", "argnums_partial", "debug_info", "donation_vector", "flatten_axes",
    "flatten_fun", "flatten_fun_nokwargs", "merge_linear_aux", "rebase_donate_argnums", "safe_map", "safe_zip",
    "shaped_abstractify", "transformation", "transformation2", "transformation_with_aux", "transformation_with_aux2",
    "wrap_init",
]  # fmt: skip


class StoreException(Exception):
    """What a transformation tells beside its result was read before the call, or told twice."""


class Store:
    """What a transformation tells beside its result."""

    def __init__(self) -> None:
        self._told: list[Any] = []

    def store(self, value: Any) -> None:
        """Tell it; once."""
        if self._told:
            raise StoreException("Store occupied")
        self._told.append(value)

    def __bool__(self) -> bool:
        return bool(self._told)

    @property
    def val(self) -> Any:
        """What was told."""
        if not self._told:
            raise StoreException("Store empty")
        return self._told[0]

    def __call__(self) -> Any:
        return self.val


class WrappedFun:
    """A function, with what was wrapped around it."""

    def __init__(
        self, call: Callable[..., Any], f: Callable[..., Any], info: Any, params: dict[str, Any] | None = None
    ):
        self.call_wrapped, self.f, self.debug_info, self.params = call, f, info, params or {}

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def with_unknown_names(self) -> WrappedFun:
        """The same: names of arguments are not kept."""
        return self

    def __repr__(self) -> str:
        return f"Wrapped function: {self.__name__}"


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """The function, ready to be wrapped; `params` are keywords that it is called with."""
    return WrappedFun(functools.partial(f, **params) if params else f, f, debug_info or DebugInfo(), params)


def _around(fun: WrappedFun, call: Callable[..., Any]) -> WrappedFun:
    return WrappedFun(functools.partial(call, fun.call_wrapped), fun.f, fun.debug_info, fun.params)


def _of_function(transform: Callable[..., Any]) -> Callable[..., Any]:
    """`transform(gen, fun, *given)`, which decorates `gen` where it is called with nothing else."""

    @functools.wraps(transform)
    def curried(gen: Callable[..., Any], *given: Any) -> Any:
        return transform(gen, *given) if given else functools.partial(transform, gen)

    return curried


def merge_linear_aux(first: Store, second: Store) -> tuple[bool, Any]:
    """What one of two transformations told, of which one has run; and whether it was the first."""
    told = [bool(store) for store in (first, second)]
    if told[0] == told[1]:
        raise StoreException("neither store occupied" if not told[0] else "both stores occupied")
    return told[0], (first if told[0] else second).val


@_of_function
def transformation2(gen: Callable[..., Any], fun: WrappedFun, *given: Any) -> WrappedFun:
    """`gen(f, *given, *args)` calls `f` itself."""
    return _around(fun, lambda inner, *args, **kwargs: gen(inner, *given, *args, **kwargs))


@_of_function
def transformation_with_aux2(
    gen: Callable[..., Any], fun: WrappedFun, *given: Any
) -> tuple[WrappedFun, Store]:
    """`gen(f, store, *given, *args)` calls `f` itself and tells something with `store.store(value)`."""
    store = Store()
    return _around(fun, lambda inner, *args, **kwargs: gen(inner, store, *given, *args, **kwargs)), store


def _run(
    gen: Callable[..., Any], given: Sequence[Any], inner: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    steps = gen(*given, *args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(inner(*inner_args, **inner_kwargs))


@_of_function
def transformation(gen: Callable[..., Any], fun: WrappedFun, *given: Any) -> WrappedFun:
    """A generator as a transformation: a function of a `WrappedFun` and more arguments."""
    return _around(fun, lambda inner, *args, **kwargs: _run(gen, given, inner, args, kwargs))


@_of_function
def transformation_with_aux(
    gen: Callable[..., Any], fun: WrappedFun, *given: Any
) -> tuple[WrappedFun, Store]:
    """As `transformation`; the generator's last value is a pair of the result and what it tells."""
    store = Store()

    def call(inner: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        out, told = _run(gen, given, inner, args, kwargs)
        store.store(told)
        return out

    return _around(fun, call), store


# --- jax.api_util -------------------------------------------------------------------------------------------


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Store]:
    """A function of leaves, from one of the arguments and keywords that `in_tree` is the structure of."""

    def flat(inner: Callable[..., Any], store: Store, *leaves: Any) -> list[Any]:
        args, kwargs = tree_util.tree_unflatten(in_tree, leaves)
        out, out_tree = tree_util.tree_flatten(inner(*args, **kwargs))
        store.store(out_tree)
        return out

    return transformation_with_aux2(flat, fun)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Store]:
    """As `flatten_fun`, for arguments without keywords."""

    def flat(inner: Callable[..., Any], store: Store, *leaves: Any) -> list[Any]:
        out, out_tree = tree_util.tree_flatten(inner(*tree_util.tree_unflatten(in_tree, leaves)))
        store.store(out_tree)
        return out

    return transformation_with_aux2(flat, fun)


def debug_info(
    traced_for: str, fun: Callable[..., Any], args: Any = (), kwargs: Any = None, **_: Any
) -> DebugInfo:
    """What is traced, and why."""
    return DebugInfo(traced_for, getattr(fun, "__name__", repr(fun)))


def argnums_partial(
    fun: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, list[Any]]:
    """A function of the numbered arguments alone, and these; the others keep their values."""
    wanted = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    places = [i % len(args) for i in wanted]

    def call(inner: Callable[..., Any], *given: Any, **kwargs: Any) -> Any:
        full = list(args)
        for i, x in zip(places, given, strict=True):
            full[i] = x
        return inner(*full, **kwargs)

    return _around(fun, call), [args[i] for i in places]


def safe_map(f: Callable[..., Any], *lists: Any) -> list[Any]:
    """`map` over lists of one length, as a list."""
    return [f(*items) for items in zip(*lists, strict=True)]


def safe_zip(*lists: Any) -> list[Any]:
    """`zip` of lists of one length, as a list."""
    return list(zip(*lists, strict=True))


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of an array, or of what has a shape and a dtype."""
    return ShapedArray(tuple(x.shape), x.dtype) if isinstance(x, ShapeDtypeStruct) else aval_of(x)


def flatten_axes(name: str, treedef: Any, axis_tree: Any, **_: Any) -> list[Any]:
    """The leaves of a prefix of a structure, one for each leaf of the structure."""
    filled = tree_util.tree_unflatten(treedef, [0] * treedef.num_leaves)
    found: list[Any] = []
    is_none = lambda x: x is None
    tree_util.tree_map(
        lambda axes, part: found.extend([axes] * tree_util.tree_structure(part).num_leaves),
        axis_tree, filled, is_leaf=is_none,
    )  # fmt: skip
    return found


def donation_vector(
    donate_argnums: Any, donate_argnames: Any, in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Whether each leaf of `(args, kwargs)` is donated."""
    args, kwargs = tree_util.tree_unflatten(in_tree, [0] * in_tree.num_leaves)
    count = lambda x: tree_util.tree_structure(x).num_leaves
    marks = [[i in tuple(donate_argnums)] * count(x) for i, x in enumerate(args)]
    marks += [[name in tuple(donate_argnames or ())] * count(kwargs[name]) for name in sorted(kwargs)]
    return tuple(mark for part in marks for mark in part)


def rebase_donate_argnums(donate_argnums: Any, static_argnums: Any) -> tuple[int, ...]:
    """Positions of donated arguments once the static ones are taken out."""
    static = sorted(static_argnums)
    return tuple(i - sum(s < i for s in static) for i in sorted(donate_argnums) if i not in static)
