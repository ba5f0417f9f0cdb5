"""Named axes: the names that collectives (`lax.psum(x, "i")`) refer to, with the size of each axis in scope.

`vmap(f, axis_name="i")` brings its axis into scope while it runs `f`. Programs that are staged meanwhile depend on the
sizes, so these are part of the keys under which programs are remembered. Read next: `primitives/collectives.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

from didax.core.errors import message
from didax.core.sharding import NamedSharding


class AxisData(NamedTuple):
    """The mapped axis: its size, and its name if it has one.

    >>> axis = AxisData("i", 3)
    >>> axis.name, axis.size
    ('i', 3)
    """

    name: str | None
    size: int
    manual: bool = False  # an axis of devices, of `shard_map`
    tracked: bool = False  # types say which values vary along it
    # The mesh axes that a batch is split over where values lie on several devices.
    split_over: tuple[str, ...] = ()
    # The same for explicit mesh axes, as the sharding of an array of one axis.
    layout: NamedSharding | None = None


axis_env: ContextVar[Mapping[str, AxisData]] = ContextVar("didax_axis_env", default=MappingProxyType({}))


def axis_size(name: str) -> int:
    """Size of the mapped axis of that name; NameError when no enclosing transformation maps one."""
    return named_axis(name).size


def named_axis(name: str) -> AxisData:
    """The mapped axis of that name; NameError when no enclosing transformation maps one."""
    axes = axis_env.get()
    if name not in axes:
        raise NameError(
            message(
                f"No mapped axis is named {name!r} here.",
                f"axes in scope: {', '.join(map(str, axes)) or 'none'}",
                fix=f"Map the function with vmap(..., axis_name={name!r}), or use one of the names in scope.",
            )
        )
    return axes[name]


def manual_names() -> list[str]:
    """The manual mesh axes of every `shard_map` that encloses what is running now."""
    return [name for name, axis in axis_env.get().items() if axis.manual]


@contextlib.contextmanager
def extend_axis_env(axis: AxisData) -> Generator[None]:
    """Bring an axis into scope inside the block, if it has a name."""
    if axis.name is None:
        yield
        return
    token = axis_env.set({**axis_env.get(), axis.name: axis})
    try:
        yield
    finally:
        axis_env.reset(token)


def run_in_axis(axis: AxisData, fun: Callable[..., Sequence[Any]], args: Sequence[Any]) -> Sequence[Any]:
    """`fun(*args)` with an axis in scope. It resets the scope wherever an interrupt arrives: see `run_under`."""
    if axis.name is None:
        return fun(*args)
    outer = axis_env.get()
    try:
        axis_env.set({**outer, axis.name: axis})
        return fun(*args)
    finally:
        axis_env.set(outer)
