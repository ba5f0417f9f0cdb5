"""`Space`: the kinds of memory that an array may be in, for programs that name them."""

from __future__ import annotations

import enum


class Space(enum.Enum):
    """Where an array is: in the memory of its device, or of the host.

    Arrays are kept in the memory of their devices. `device_put(x, Space.Host)` is accepted on the CPU, whose memory is
    the host's.

    >>> import didax as dx, didax.numpy as dnp
    >>> x = dx.device_put(dnp.arange(3.0), dx.memory.Space.Device)
    >>> x.sharding.memory_kind
    'device'
    """

    Device = 1
    Host = 2
    Any = 3

    def __repr__(self) -> str:
        return f"Space.{self.name}"
