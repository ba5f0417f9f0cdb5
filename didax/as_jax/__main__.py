"""`python -m didax.as_jax script.py args...`, `-m module args...`, `-c code args...`, or `--check path/`."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from didax.as_jax import install

USAGE = """\
usage: python -m didax.as_jax script.py [arguments]     run a program that imports jax
       python -m didax.as_jax -m module [arguments]     run a module, such as pytest
       python -m didax.as_jax -c code [arguments]       run a line
       python -m didax.as_jax --check PATH...           list the names of jax that sources use, and which are missing
       python -m didax.as_jax --missing                 list the public names of jax that are missing
       python -m didax.as_jax --startup                 the folder that gives jax to processes with it on PYTHONPATH
"""


STARTUP = Path(__file__).parent / "startup"


def main(arguments: list[str]) -> int | None:
    """Run what the command line names."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    first, *rest = arguments
    if first == "--check":
        from didax.as_jax.check import report

        return report(rest)
    if first == "--missing":
        from didax.as_jax import missing

        print(missing())
        return 0
    if first == "--startup":
        print(STARTUP)
        return 0
    install()
    hand_on_to_children()
    if first == "-m" and rest:
        sys.argv, sys.path[0] = rest, os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c" and rest:
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif first.startswith("-"):
        print(USAGE, end="", file=sys.stderr)
        return 2
    else:
        sys.argv, sys.path[0] = arguments, str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")
    return None


def hand_on_to_children() -> None:
    """Processes that this one starts get the layer too, when they import jax: see `startup/sitecustomize.py`."""
    folder, package = str(STARTUP), str(Path(__file__).parents[2])
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *[p for p in path if p and p != folder], package])
    os.environ["DIDAX_AS_JAX"] = "1"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
