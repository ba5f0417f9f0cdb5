"""Programs for platforms that the process may not have: a module for one, or one module for several.

A module for several has the number of the platform as the first argument of `main`, as JAX's exported programs have,
and calls the program of that platform. Read next: `lowering.py`, `api/stages.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from didax.core import config
from didax.core.errors import message

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def platform() -> str:
    """The platform that programs are written for: "cpu" or "cuda"; the process's own, unless another was asked for."""
    asked = config.state().lowering_platform
    if asked is not None:
        return asked
    from didax.xla.client import backend  # loads jaxlib: on first need

    return backend().platform


def check_platforms(option: str, asked: Sequence[str]) -> None:
    """ValueError unless these are platforms, each once."""
    if len(set(asked)) < len(asked) or not set(asked) <= set(PLATFORMS):
        rule = "A program is lowered for platforms of XLA, each named once."
        facts = f"{option}: {', '.join(map(str, asked))}"
        raise ValueError(message(rule, facts, fix=f"Name some of {', '.join(PLATFORMS)}."))


_DEFINED = re.compile(r"^func\.func (?:private|public) @(\w+)", re.MULTILINE)
_MAIN = re.compile(r"^func\.func public @main\((.*)\) -> \((.*)\) \{$", re.MULTILINE)


def joined(texts: Mapping[str, str]) -> str:
    """One module of the modules for several platforms, whose arguments and results have the same types."""
    if len(texts) == 1:
        return next(iter(texts.values()))
    parts = [_renamed(text, name) for name, text in texts.items()]
    found = _MAIN.search(next(iter(texts.values())))
    assert found is not None
    types = re.findall(r"%arg\d+: (tensor<[^\s,{)]+>)", found[1])
    operands = [f"%arg{i}" for i in range(len(types))]
    results = re.findall(r"tensor<[^\s,{)]+>", found[2])
    kind = f"({', '.join(types)}) -> ({', '.join(results)})"
    branches: list[str] = []
    for name in texts:
        head, outs = _named_results("own", results)
        call = f"{head}func.call @main_{name}({', '.join(operands)}) : {kind}"
        branches.append(f"{{\n{call}\nstablehlo.return {outs}\n}}")
    arguments = ["%platform: tensor<i32>", *[f"{x}: {t}" for x, t in zip(operands, types, strict=True)]]
    head, outs = _named_results("out", results)
    case = (
        f'{head}"stablehlo.case"(%platform) ({", ".join(branches)}) : (tensor<i32>) -> ({", ".join(results)})'
    )
    main = f"func.func public @main({', '.join(arguments)}) -> ({', '.join(results)}) {{"
    return "\n".join(["module @several_platforms {", *parts, main, case, f"return {outs}", "}", "}", ""])


def _named_results(name: str, types: Sequence[str]) -> tuple[str, str]:
    """What stands before an operation that has results of these types, and how they are returned."""
    if not types:
        return "", ""
    values = [f"%{name}#{i}" for i in range(len(types))] if len(types) > 1 else [f"%{name}"]
    count = f":{len(types)}" if len(types) > 1 else ""
    return f"%{name}{count} = ", f"{', '.join(values)} : {', '.join(types)}"


def _renamed(text: str, name: str) -> str:
    """The functions of a module, with the platform in their names."""
    defined = "|".join(map(re.escape, sorted(_DEFINED.findall(text), key=len, reverse=True)))
    body = text[text.index("{\n") + 2 : text.rindex("}")].rstrip()
    body = re.sub(rf"(?<!custom_call )@({defined})\b", rf"@\1_{name}", body)
    return body.replace("func.func public @main_", "func.func private @main_", 1)
