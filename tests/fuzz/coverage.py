"""`coverage(names)`: how many of the public names programs have called, and which they never call, and why not."""

from __future__ import annotations

import importlib
import types
from collections import Counter
from typing import Any

from tests.fuzz import program, table_control, table_lax, table_numpy, table_scipy

TABLES = (table_numpy, table_lax, table_scipy, table_control)

MODULES = {
    "lib": "",
    **program.MODULES,
    "np.linalg": "numpy.linalg",
    "np.fft": "numpy.fft",
    "lax.linalg": "lax.linalg",
    "nn.initializers": "nn.initializers",
}


def public_functions() -> set[str]:
    """Functions that jax and Didax both have, as programs call them: `np.linalg.qr`."""
    found = set()
    for short, path in MODULES.items():
        theirs, ours = [importlib.import_module(f"{root}.{path}".rstrip(".")) for root in ("jax", "didax")]
        found |= {
            f"{short}.{name}" for name in dir(theirs) if is_function(theirs, name) and hasattr(ours, name)
        }
    return found


def is_function(module: Any, name: str) -> bool:
    value = getattr(module, name, None)
    public = not name.startswith("_") and not name.endswith("_p")
    return public and callable(value) and not isinstance(value, (type, types.ModuleType))


def excluded() -> dict[str, str]:
    """Names that programs do not call, with the reason."""
    reasons = [item for table in TABLES for item in table.EXCLUDED.items()]
    return {name: reason for names, reason in reasons for name in names.split()}


def coverage(names: Counter[str]) -> str:
    reasons = excluded()
    wanted = {name for name in public_functions() if name.split(".")[-1] not in reasons}
    missing = sorted(wanted - set(names))
    counts = sorted(names[name] for name in wanted)
    lines = [
        f"public functions called: {len(wanted) - len(missing)} of {len(wanted)}"
        f" (median {counts[len(counts) // 2]} programs each); not yet: {' '.join(missing[:40]) or 'none'}",
        f"excluded: {len(reasons)} names",
        *[f"  {names}: {reason}" for t in TABLES for names, reason in t.EXCLUDED.items()],
    ]
    return "\n".join(lines)
