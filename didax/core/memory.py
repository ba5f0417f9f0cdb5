"""`Space`: the kinds of memory that an array may be in, for programs that name them."""

from __future__ import annotations

import enum

# Names of kinds of memory, as XLA has them.
DEVICE = "device"
PINNED_HOST = "pinned_host"


class Space(enum.Enum):
    """Where an array is: in the memory of its device, or of the host.

    `Space.Host` is the memory of the host that the device reads and writes by itself, `"pinned_host"` as a
    `memory_kind=` of shardings.

    >>> import didax as dx, didax.numpy as dnp
    >>> x = dx.device_put(dnp.arange(3.0), dx.memory.Space.Host)
    >>> x.sharding.memory_kind
    'pinned_host'
    >>> dx.device_put(x, dx.memory.Space.Device).sharding.memory_kind
    'device'
    """

    Device = 1
    Host = 2
    Any = 3

    def __repr__(self) -> str:
        return f"Space.{self.name}"

    @property
    def kind(self) -> str | None:
        """The name of this kind of memory; None for any."""
        return {Space.Device: DEVICE, Space.Host: PINNED_HOST}.get(self)
