"""Asking XLA's partitioner how values of a program lie on devices.

The lowering of `inspect_sharding_p` writes a call of `InspectSharding`, an operation that the partitioner answers and
removes. Its text has the number of the question, so that equal programs have equal texts; XLA gets the text with the
address of a function instead (`Listener.addressed`). What that function hears while XLA compiles is told to the user's
functions afterwards (`Listener.tell`), in the thread of the caller, so what they raise is raised there.
Read next: `primitives/inspection.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from didax.core.mesh import Mesh
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.xla.device_text import Manual, Partition

if TYPE_CHECKING:
    from didax.xla.compile import Executable


class Inspection:
    """The user's question about one value; `callback` takes the sharding."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[Any], Any]):
        self.callback = callback

    def tell(self, sharding: Any, axes: tuple[int, ...], ndim: int) -> None:
        """Call the user's function with the sharding of an array with `ndim` axes, of which the value has some."""
        if isinstance(sharding, NamedSharding) and axes != tuple(range(ndim)):
            entries = dict(enumerate(sharding.spec))
            of_value = [entries.get(axis) for axis in axes]
            while of_value and of_value[-1] is None:
                of_value.pop()
            sharding = sharding.update(spec=of_value)
        self.callback(sharding)


class _Question(NamedTuple):
    inspection: Inspection
    axes: tuple[int, ...]  # of the array, those that the value has
    ndim: int  # of the array
    manual: Manual | None  # the `shard_map` that the value is in


class Listener:
    """The questions of a program, by number, and what is heard of them while XLA compiles it."""

    def __init__(self) -> None:
        self._asked: list[_Question] = []
        self._heard: list[tuple[int, Any]] = []
        self._functions: list[Any] = []  # XLA has their addresses

    def __bool__(self) -> bool:
        return bool(self._asked)

    def number_of(
        self, inspection: Inspection, axes: tuple[int, ...], ndim: int, manual: Manual | None
    ) -> int:
        """The number of a question about an array with `ndim` axes, of which the value has some."""
        question = _Question(inspection, axes, ndim, manual)
        if question not in self._asked:
            self._asked.append(question)
        return self._asked.index(question)

    @staticmethod
    def mark(number: int) -> str:
        """What the text of a program has in place of a question's address, until the text goes to XLA."""
        return f"question {number} of the program"

    def addressed(self, text: str) -> str:
        """The text with the addresses of functions that hear the answers."""
        from didax.xla.client import xe  # loads jaxlib: on first need

        for number in range(len(self._asked)):
            hear = functools.partial(self._hear, number)
            self._functions.append(hear)
            address = "".join(f"\\{byte:02X}" for byte in xe.encode_inspect_sharding_callback(hear))
            text = text.replace(f'"{self.mark(number)}"', f'"{address}"')
        return text

    def _hear(self, number: int, sharding: Any) -> None:
        self._heard.append((number, sharding))

    def tell(self, partition: Partition | None, executable: Executable) -> None:
        """Tell the user's functions, in the order of the program."""
        if not self._asked:
            return
        from didax.xla.client import backend

        if partition is None or len(partition.devices) == 1:  # no partitioner runs
            for question in self._asked:
                whole = partition and NamedSharding(partition.mesh, PartitionSpec())
                sharding = whole or backend().shardings[executable.device]
                question.inspection.tell(sharding, question.axes, question.ndim)
            return
        for number, found in sorted(self._heard, key=lambda heard: heard[0]):
            question = self._asked[number]
            sharding = _sharding(found, partition.mesh, question)
            question.inspection.tell(sharding, question.axes, question.ndim)


def _sharding(found: Any, mesh: Mesh, question: _Question) -> NamedSharding:
    """XLA's answer about an array as a sharding over the mesh; along manual axes each device has its own value."""
    from didax.xla.partition import found_sharding

    if question.manual is None:
        return found_sharding(found, mesh, question.ndim)
    mesh, manual = question.manual
    if found.is_manual() or manual.issuperset(mesh.axis_names):
        return NamedSharding(mesh, PartitionSpec())
    # XLA numbers the devices along the other axes.
    names = [name for name in mesh.axis_names if name not in manual]
    of_one = mesh.devices[tuple(0 if name in manual else slice(None) for name in mesh.axis_names)]
    part = Mesh(of_one, names)
    inside = found_sharding(found, part, question.ndim)
    return NamedSharding(mesh, inside.spec) if inside.mesh is part else inside
