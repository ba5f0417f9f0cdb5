"""`script(...)`: a finding as a stand-alone script that prints what both libraries make of a program."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as onp

from tests.fuzz import transformations
from tests.fuzz.program import MODULES, Program

TEMPLATE = '''"""{title}"""

import importlib

import ml_dtypes
import numpy as onp

{helpers}
def make(lib, {short}):
    leaves = lib.tree.leaves

{program}

    return program


inputs = [{inputs}]
for name in ("didax", "jax"):
    lib = importlib.import_module(name)
    for module in ("lax.linalg", "nn.initializers"):
        importlib.import_module(f"{{name}}.{{module}}")
    modules = [importlib.import_module(f"{{name}}.{{module}}") for module in {long}]
    with lib.enable_x64({x64}):
        f = make(lib, *modules)
{stack}        for way, g in (("eager", f), ("jit", lib.jit(f))):
            try:
                for y in g(*[lib.numpy.asarray(x) if isinstance(x, onp.ndarray) else x for x in inputs]):
                    print(name, way, lib.typeof(y), "weak" if lib.typeof(y).weak_type else "", onp.asarray(y).tolist())
            except Exception as e:
                print(name, way, type(e).__name__, str(e)[:300])
'''


def script(program: Program, title: str) -> str:
    if program.refused:  # the refused statement is what the script runs
        program = Program(program.x64, program.inputs, program.refused, ("found",))
    lines = program.lines()
    if program.results == ("found",):
        statement = program.statements[0]
        blocks = [f"    {line}" for block in statement.blocks for line in block.lines()]
        lines = [lines[0], *blocks, f"    return leaves({statement.text})"]
    used = [
        transformations.TRANSFORMATIONS[name] for name in dict.fromkeys(name for name, _ in program.stack)
    ]
    helpers = [*transformations.HELPERS, *used] if used else []
    return TEMPLATE.format(
        title=title.replace('"""', "'''"),
        helpers="\n".join(f"\n{inspect.getsource(f)}" for f in helpers),
        program="\n".join(f"    {line}" for line in lines),
        inputs=", ".join(written(x) for x in program.inputs.values()),
        x64=program.x64,
        short=", ".join(MODULES),
        long=list(MODULES.values()),
        stack="".join(
            f"        f = {name}(lib, f{''.join(f', {k}={v!r}' for k, v in parameters.items())})\n"
            for name, parameters in program.stack
        ),
    )


def written(x: Any) -> str:
    """An input as an expression."""
    if not isinstance(x, onp.ndarray):
        text = repr(x)
    elif x.dtype.kind in "biufc":
        text = f"onp.array({x.tolist()!r}, '{x.dtype}').reshape({x.shape})"
    else:
        text = f"onp.array({x.astype('float32').tolist()!r}).astype(ml_dtypes.{x.dtype}).reshape({x.shape})"
    for special in ("nan", "inf"):
        text = text.replace(special, f"onp.{special}")
    return text
