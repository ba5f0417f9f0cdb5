"""What runs: the versions of what is installed, and the arrays that this process holds."""

from __future__ import annotations

import gc
import platform
import sys

import numpy as np

from didax.api.devices import default_backend, device_count, process_count
from didax.core.errors import api_boundary, message
from didax.runtime.array import ConcreteArray
from didax.version import __version__, installed_jaxlib


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions of what runs, and the machine; or return the text. `python -m didax doctor` tells more.

    >>> import didax as dx
    >>> dx.print_environment_info(return_string=True).split()[:2] == ["didax:", dx.__version__]
    True
    """
    rows = {
        "didax": __version__, "jaxlib": installed_jaxlib(), "numpy": np.__version__, "python": sys.version,
        "devices": f"{device_count()} of {default_backend()}", "processes": process_count(),
        "platform": platform.platform(),
    }  # fmt: skip
    text = "\n".join(f"{name + ':':10} {value}" for name, value in rows.items())
    if return_string:
        return text
    print(text)
    return None


@api_boundary
def live_arrays(platform: str | None = None) -> list[ConcreteArray]:
    """Return the arrays that this process holds, by looking through its memory.

    Deleted and donated arrays are left out. ValueError for a platform other than that of the process.

    >>> import didax as dx, didax.numpy as dnp
    >>> x = dnp.arange(3)
    >>> any(found is x for found in dx.live_arrays())
    True
    """
    names = {default_backend(), {"gpu": "cuda"}.get(default_backend(), default_backend())}
    if platform is not None and platform not in names:
        rule = "The arrays of a process are on one platform."
        raise ValueError(
            message(rule, f"asked for: {platform!r}, there is: {min(names)!r}", fix="Leave it out.")
        )
    found = [x for x in gc.get_objects() if isinstance(x, ConcreteArray)]
    return [x for x in found if not x.is_deleted()]
