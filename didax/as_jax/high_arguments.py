"""Values of declared types (`hijax.py`) as arguments and results: `jit`, `eval_shape`.

    jit(f)(box, x)      changes, out = program(arrays of the box, x);    the box takes the changes

The function of the program takes the arrays: it makes a value of them, calls `f`, and returns what `f` changed. All
else is as in Didax, whose functions these are. Functions given to other transformations may close over such values, but
not take them as arguments.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import didax
from didax.api.flat import argument_names
from didax.api.jit import JitFunction
from didax.as_jax.hijax import changes, cur_qdd, is_high, note_made, typeof
from didax.as_jax.texts import NAMED_IN_JAX
from didax.core import config, pytree
from didax.core.errors import api_boundary, message
from didax.core.source import describe_function
from didax.tree_util import register_pytree_node


class Lowered:
    """A value as a pytree of its arrays."""

    __slots__ = ("arrays", "kind", "qdd")

    def __init__(self, kind: Any, qdd: Any, arrays: Any):
        self.kind, self.qdd, self.arrays = kind, qdd, arrays

    @classmethod
    def of(cls, x: Any) -> Lowered:
        """The value's arrays, as they are now."""
        kind = typeof(x)
        if changes(x):
            qdd = cur_qdd(x)
            return cls(kind, qdd, tuple(kind.read_loval(qdd, x)))
        if not hasattr(kind, "lower_val"):
            rule = "A value can be the argument or the result of a jitted function if its type has lower_val."
            raise TypeError(
                message(rule, f"type: {kind!r:.100}", fix="Close over the value, or pass its arrays.")
            )
        return cls(kind, None, tuple(kind.lower_val(x)))

    def value(self) -> Any:
        """A value of the arrays, at home in the current trace."""
        if self.qdd is None:
            return self.kind.raise_val(*self.arrays)
        made = self.kind.new_from_loval(self.qdd, *self.arrays)
        note_made(made)
        return made


register_pytree_node(
    Lowered, lambda x: (x.arrays, (x.kind, x.qdd)), lambda aux, arrays: Lowered(aux[0], aux[1], arrays)
)


def lower(tree: Any) -> Any:
    """The tree with arrays in place of values."""
    return pytree.map(lambda x: Lowered.of(x) if is_high(x) else x, tree)


def raised(tree: Any) -> Any:
    """The tree with values again in place of their arrays."""
    is_lowered = lambda x: isinstance(x, Lowered)
    return pytree.map(lambda x: x.value() if is_lowered(x) else x, tree, is_leaf=is_lowered)


def on_arrays(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` as a function of arrays: its result, and for each value that may change its new arrays, or None."""

    @functools.wraps(fun)
    def lowered(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = raised((args, kwargs))
        given = [(x, Lowered.of(x)) for x in pytree.leaves((args, kwargs)) if changes(x)]
        out = lower(fun(*args, **kwargs))
        return out, [_if_changed(before, Lowered.of(x)) for x, before in given]

    return lowered


def _if_changed(before: Lowered, after: Lowered) -> Lowered | None:
    same = len(before.arrays) == len(after.arrays) and before.qdd == after.qdd
    return None if same and all(map(operator.is_, before.arrays, after.arrays)) else after


class HighJitFunction(JitFunction[Any, Any]):
    """A jitted function whose arguments may be values of declared types."""

    __slots__ = ()

    def call_by_signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for any arguments."""
        try:
            return super().call_by_signature(args, kwargs)
        except TypeError:
            values = [x for x in pytree.leaves((args, kwargs)) if is_high(x)]
            if not values:
                raise
        if config.state().disable_jit:
            return self._fun(*args, **kwargs)
        self._check_distinct(args, kwargs)
        lowered_args, lowered_kwargs = lower((args, kwargs))
        out, after = self._on_arrays()(*lowered_args, **lowered_kwargs)
        for x, changed in zip(filter(changes, values), after, strict=True):
            if changed is not None:
                changed.kind.update_from_loval(changed.qdd, x, *changed.arrays)
        return raised(out)

    def _on_arrays(self) -> JitFunction[Any, Any]:
        found = vars(self).get("_jit_on_arrays")
        if found is None:
            settings, (ins, outs) = self._settings, self._settings.shardings
            if outs is not None:
                settings = settings._replace(shardings=(ins, (outs, None)))
            found = vars(self)["_jit_on_arrays"] = JitFunction(on_arrays(self._fun), settings)
        return found

    def _check_distinct(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        places: dict[int, str] = {}
        for x, name in zip(
            pytree.leaves((args, kwargs)), argument_names(self._fun, args, kwargs), strict=True
        ):
            if changes(x) and (other := places.setdefault(id(x), name)) != name:
                rule = "A function given to jit meets one value that changes in two places."
                facts = f"function: {describe_function(self._fun)}", f"places: {other}, {name}"
                raise ValueError(message(rule, *facts, fix="Pass it once."))


HighJitFunction.__module__, HighJitFunction.__qualname__ = NAMED_IN_JAX[JitFunction]
HighJitFunction.__name__ = HighJitFunction.__qualname__


@functools.wraps(didax.jit)
def jit(fun: Any = None, **options: Any) -> Any:
    """As `didax.jit`; the jitted function takes values of declared types, too."""
    if fun is None:
        return api_boundary(lambda fun: jit(fun, **options))
    made: Any = didax.jit(fun, **options)
    return HighJitFunction(made._fun, made._settings)


@functools.wraps(didax.eval_shape)
def eval_shape(fun: Any, *args: Any, **kwargs: Any) -> Any:
    """As `didax.eval_shape`, for arguments and results of declared types, too."""
    return raised(didax.eval_shape(on_arrays(fun), *lower(args), **lower(kwargs))[0])
