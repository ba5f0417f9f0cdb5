"""What can be told of an installation without importing the rest of Didax: versions, the machine, the environment.

`python -m didax doctor` prints it first. Where `import didax` itself fails (no jaxlib, or one outside the range; an
environment variable that cannot be read) `tell_if_import_fails` makes the command print it with the reason, in place of
a traceback. So this file imports the standard library and `version.py` only. Read next: `__main__.py`.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import types
from collections.abc import Callable, Iterable

from didax.version import JAXLIB_BELOW, JAXLIB_MIN, __version__, check_jaxlib, installed_jaxlib

Rows = list[tuple[str, str]]

NEEDED = ("numpy", "ml_dtypes", "opt_einsum")
# What else changes what Didax can do, and what bug reports are about.
OTHERS = (
    "scipy",
    "jax",
    "jax-cuda13-plugin",
    "jax-cuda12-plugin",
    "rich",
    "matplotlib",
    "torch",
    "safetensors",
)
# Variables that are not Didax's own, and that it or the libraries that it loads depend on.
FOREIGN = (
    *("XLA_FLAGS", "XDG_CACHE_HOME", "TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"),
    *("OMP_NUM_THREADS", "PYTHONPATH"),
)


def section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """The text of a part of the report: a title, and a line for each row, its name and its value in two columns.

    A failure that is that of the row before is not written twice.

    >>> print(section("versions", [("didax", "0.1.0"), ("jaxlib", "not installed.\\nInstall it.")]))
    versions
      didax   0.1.0
      jaxlib  not installed.
              Install it.
    """
    rows = list(rows) or [("(none)", "")]
    width = max(len(name) for name, _ in rows)
    indent = "\n" + " " * (width + 4)
    lines, before = [title], ""
    for name, value in rows:
        shown = "FAILED in the same way" if value == before and value.startswith("FAILED") else value
        lines.append(f"  {name:{width}}  {indent.join(shown.splitlines())}".rstrip())
        before = value
    return "\n".join(lines)


def guarded(name: str, find: Callable[[], str]) -> tuple[str, str]:
    """A row of what `find` returns; where it raises, the row says so."""
    try:
        return name, find()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return name, failure(error)


def failure(error: BaseException) -> str:
    """An error as the value of a row."""
    return f"FAILED: {type(error).__name__}: {error}"


def versions() -> Rows:
    """Didax, Python, and the packages that Didax needs or can use."""
    python = f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})"
    rows = [("didax", f"{__version__} ({os.path.dirname(os.path.abspath(__file__))})"), ("python", python)]
    rows.append(guarded("jaxlib", _jaxlib))
    rows += [(name, version_of(name) or "MISSING: Didax needs it") for name in NEEDED]
    return rows + [(name, found) for name in OTHERS if (found := version_of(name))]


def version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _jaxlib() -> str:
    version = installed_jaxlib()
    try:
        check_jaxlib(version)
    except ImportError:
        return f"{version or 'MISSING'}: Didax needs jaxlib>={JAXLIB_MIN},<{JAXLIB_BELOW}"
    return str(version)


def machine() -> Rows:
    """The operating system, the processors that this process may use, and the memory."""
    return [
        guarded("system", platform.platform),
        guarded("processors", _processors),
        guarded("memory", _memory),
    ]


def _processors() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{usable} of {os.cpu_count()} ({platform.machine()})"


def _memory() -> str:
    return size(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def size(count: float) -> str:
    """A number of bytes as a person reads it.

    >>> size(812), size(3 * 2**20)
    ('812 B', '3.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def environment() -> Rows:
    """The variables that are set, of those that Didax or XLA read."""
    found = [name for name in os.environ if name.startswith("DIDAX_")]
    return [(name, os.environ[name]) for name in (*sorted(found), *FOREIGN) if name in os.environ]


def tell_if_import_fails() -> None:
    """Where this process is `python -m didax doctor`, print a report if the import of Didax, which goes on, fails."""
    if sys.argv[:2] == ["-m", "doctor"] and "didax" in sys.orig_argv:
        sys.excepthook = _report_of_failed_import


def _report_of_failed_import(
    kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None
) -> None:
    parts = [("versions", versions()), ("machine", machine()), ("environment", environment())]
    parts.append(("self-test", [("import didax", failure(error))]))
    print("\n\n".join(section(title, rows) for title, rows in parts))
