"""`jit(in_shardings=, out_shardings=)`: how the arguments and results of a jitted function lie on devices.

Inside the program both are constraints, so that they hold under every transformation. The compiled program also wants
its arguments laid out so: one that was placed nowhere is laid out on the way in, one that was placed otherwise is an
error.
Read next: `layouts.py`; `runtime/partitioned.py`, where such programs run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.api.flat import FlatFunction, result_name
from didax.api.layouts import constrained, spread
from didax.core import pytree
from didax.core.errors import message
from didax.core.ref import Ref
from didax.core.sharding import NamedSharding
from didax.core.source import describe_function
from didax.runtime.partitioned import Asked


class LaidOut:
    """A flat function whose arguments and results are constrained to shardings."""

    __slots__ = ("asked", "flat", "fun", "of_results", "out_shardings")

    def __init__(
        self, fun: Callable[..., Any], flat: FlatFunction, asked: Sequence[Asked | None], out_shardings: Any
    ):
        self.fun = fun
        self.flat = flat
        self.asked = asked
        self.out_shardings = out_shardings
        self.of_results: list[NamedSharding | None] = []  # those of the last result's leaves

    @property
    def out_tree(self) -> Any:
        """The structure of the last result."""
        return self.flat.out_tree

    def __call__(self, *leaves: Any) -> list[Any]:
        inputs = [
            _constrained(x, how) for x, how in zip(leaves, self.asked or [None] * len(leaves), strict=True)
        ]
        outs = self.flat(*inputs)
        results = pytree.unflatten(self.flat.out_tree, range(len(outs)))
        each = self.of_results = spread("jit out_shardings", self.out_shardings, results, "the results")
        facts = f"function: {describe_function(self.fun)}"
        names = [f"{facts}, {result_name(self.flat.out_tree, i)}" for i in range(len(outs))]
        return [constrained(y, s, name, as_stated=True) for y, s, name in zip(outs, each, names, strict=True)]


def _constrained(x: Any, asked: Asked | None) -> Any:
    if asked is None:
        return x
    if isinstance(x, Ref):
        rule, fix = "A Ref lies where the array lies that it holds.", "Give None as the sharding of a Ref."
        raise ValueError(message(rule, asked.where, f"in_shardings: {asked.sharding}", fix=fix))
    return constrained(x, asked.sharding.on_device, asked.where)


def laid_out(
    fun: Callable[..., Any],
    flat: FlatFunction,
    shardings: tuple[Any, Any],
    args: Any,
    kwargs: Any,
    names: Sequence[str],
) -> FlatFunction | LaidOut:
    """The flat function that lays out arguments and results, where shardings are given for them."""
    in_shardings, out_shardings = shardings
    if in_shardings is None and out_shardings is None:
        return flat
    return LaidOut(fun, flat, _asked(fun, in_shardings, args, kwargs, names), out_shardings)


def _asked(
    fun: Callable[..., Any], in_shardings: Any, args: Any, kwargs: Any, names: Sequence[str]
) -> list[Asked | None]:
    if in_shardings is None:
        return []
    if kwargs:
        raise ValueError(
            message(
                "in_shardings of jit are those of positional arguments.",
                f"function: {describe_function(fun)}, keywords: {', '.join(sorted(kwargs))}",
                fix="Pass the arguments by position.",
            )
        )
    if isinstance(in_shardings, list):
        in_shardings = tuple(in_shardings)  # type: ignore[arg-type]
    each = spread("jit in_shardings", in_shardings, tuple(args), "the positional arguments")
    where = f"function: {describe_function(fun)}, argument"
    return [s and Asked(s, f"{where} {name}") for s, name in zip(each, names, strict=True)]
