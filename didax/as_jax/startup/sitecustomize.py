"""Python runs this at its start where this folder is on PYTHONPATH: `import jax` is to give Didax, if DIDAX_AS_JAX=1.

`python -m didax.as_jax` sets both for the processes that it starts, and so may a shell, for all of a process tree.
Didax itself is loaded when jax is first imported. A sitecustomize of another package, further on in the path, runs too.
"""

import importlib.machinery
import importlib.util
import os
import sys


class _WaitForJax:
    """Finds no module; when jax is asked for, it gives its place to the finder of Didax."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "jax" or _WaitForJax not in sys.meta_path:
            return None
        sys.meta_path.remove(_WaitForJax)
        from didax.as_jax import install

        install()
        return importlib.util.find_spec("jax")


def _run_the_next():
    """The sitecustomize that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    rest = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("DIDAX_AS_JAX", "0") not in ("", "0"):
    sys.meta_path.insert(0, _WaitForJax)
_run_the_next()
