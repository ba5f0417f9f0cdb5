"""The version of Didax, and the range of jaxlib versions on which it runs.

`import didax` calls `check_jaxlib(installed_jaxlib())`, so that a jaxlib outside the range is one clear error
at the import and not a missing attribute deep inside a compilation. The check has to be cheap: it reads the
name of the `jaxlib-*.dist-info` folder beside the package (0.2 ms), where `importlib.metadata` would cost 40
ms and importing jaxlib 10 ms.

The range is written here and in the dependencies of pyproject.toml; a test compares both. docs/versions.md
says what a release promises about the range.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from didax.core.modules import on_access as _on_access

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)

__version__ = "0.1.0"

JAXLIB_MIN = "0.10.2"
JAXLIB_BELOW = "0.12"


def installed_jaxlib() -> str | None:
    """Return the version of the jaxlib that an import would load, or None; imports nothing of it.

    >>> from didax import version
    >>> found = version.installed_jaxlib()
    >>> version.check_jaxlib(found)  # raises ImportError where the version does not suit
    """
    spec = find_spec("jaxlib")
    if spec is None or spec.origin is None:  # not installed, or an empty folder left by an uninstall
        return None
    site = os.path.dirname(os.path.dirname(spec.origin))
    versions = (re.fullmatch(r"jaxlib-([^-]+)\.dist-info", name) for name in os.listdir(site))
    return next((match[1] for match in versions if match), None) or _version_from_metadata()


def check_jaxlib(version: str | None) -> None:
    """Raise ImportError unless `version`, as `installed_jaxlib` returns it, lies in the supported range.

    >>> check_jaxlib("0.10.2")
    """
    if version is not None and _release(JAXLIB_MIN) <= _release(version) < _release(JAXLIB_BELOW):
        return
    wanted = f"jaxlib>={JAXLIB_MIN},<{JAXLIB_BELOW}"
    found = "No installed jaxlib was found." if version is None else f"jaxlib {version} is installed."
    newer = version is not None and _release(version) >= _release(JAXLIB_BELOW)
    or_upgrade = ', or a newer Didax: pip install --upgrade "didax"' if newer else ""
    raise ImportError(
        f"Didax {__version__} runs on {wanted}.\n"
        f"  {found}\n"
        f'Install a jaxlib in that range: pip install "{wanted}"{or_upgrade}'
    )


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; a suffix such as rc1 or .dev20260101 does not count."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _version_from_metadata() -> str | None:
    """Find the version slowly, for a jaxlib whose metadata does not lie beside its package (an editable build)."""
    from importlib.metadata import PackageNotFoundError, version  # 40 ms, and almost never needed

    try:
        return version("jaxlib")
    except PackageNotFoundError:
        return None
