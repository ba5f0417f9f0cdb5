"""Programs of symbolic shapes as text: their jaxpr, which is read again for the sizes of a call.

    data = write_text(jaxpr, consts, constraints)          the jaxpr, its rules left out, beside what it captured
    read_text(data).at({"b": 3})                           a function of arrays of these sizes

A jaxpr states every shape, so nothing of the program is computed twice, and all that XLA sees is concrete.
Read next: `didax/core/jaxpr_parse.py`; `_exported.py`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from didax import primitives
from didax.api.jit import jit
from didax.core import config, dtypes
from didax.core.errors import message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from didax.core.jaxpr_parse import parse_jaxpr, read_jaxpr
from didax.core.jaxpr_print import jaxpr_text
from didax.export._file import SCHEMA, read_aval, write_aval
from didax.export._flatbuffers import read, write
from didax.primitives.custom.call import rules_call_p
from didax.primitives.custom.constant import constant_p
from didax.runtime.array import ConcreteArray

MARK = b"DIDAX-JAXPR\0"


def write_text(
    name: str, jaxpr: Jaxpr, consts: Sequence[Any], constraints: Sequence[str], obstacle: str = ""
) -> bytes:
    """The bytes of a jaxpr whose leading inputs have the values `consts`.

    `obstacle` says why the program has no module of open lengths.
    """
    held: list[tuple[Var, Any]] = []
    plain = _without_rules(jaxpr, held)
    plain = Jaxpr([*[var for var, _ in held], *plain.invars], plain.eqns, plain.outvars)
    values = [*[value.value for _, value in held], *consts]
    text = jaxpr_text(plain)
    try:
        read_jaxpr(text, lambda _: 97)  # the types are not looked at
    except ValueError as error:
        rule = "A program with symbolic shapes is saved as text, and one of its operations has none."
        facts = f"program: {name}", *str(error).split("\n")[1:3]
        raise ValueError(
            message(rule, *[fact.strip() for fact in facts], fix="Export it with concrete shapes.")
        ) from None
    constants = [
        {"type": write_aval(v.aval), "data": _bytes(x, v)} for v, x in zip(plain.invars, values, strict=False)
    ]
    table = {"jaxpr": text, "constants": constants, "constraints": list(constraints), "obstacle": obstacle}
    return MARK + bytes(write(SCHEMA, "Text", table))


def _bytes(x: Any, var: Var) -> bytes:
    if dtypes.as_extended(var.aval.dtype) is not None:
        rule = "A program with symbolic shapes cannot capture random keys."
        raise ValueError(
            message(rule, f"array: {var.aval}", fix="Capture random.key_data(key), and wrap it inside.")
        )
    return np.asarray(x).astype(var.aval.dtype).tobytes()


def _without_rules(jaxpr: Jaxpr, held: list[tuple[Var, Any]]) -> Jaxpr:
    """The jaxpr with the bodies of functions with rules in the place of their calls, and held arrays as inputs."""
    env: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []

    def run(inner: Jaxpr) -> list[Atom]:
        for eqn in inner.eqns:
            operands = [env.get(x, x) for x in eqn.invars]
            if eqn.primitive is rules_call_p:
                body = eqn.params["jaxpr"]
                env.update(zip(body.invars, operands, strict=True))
                env.update(zip(eqn.outvars, run(body), strict=True))
                continue
            outs = [Var(v.aval) for v in eqn.outvars]
            env.update(zip(eqn.outvars, outs, strict=True))
            if eqn.primitive is constant_p:
                held.append((outs[0], eqn.params["held"]))
            else:
                eqns.append(eqn.map_jaxprs(_closed_without_rules).replace(invars=operands, outvars=outs))
        return [env.get(x, x) for x in inner.outvars]

    return Jaxpr(jaxpr.invars, eqns, run(jaxpr))


def _closed_without_rules(jaxpr: Jaxpr) -> Jaxpr:
    held: list[tuple[Var, Any]] = []
    found = _without_rules(jaxpr, held)
    return jaxpr if held else found  # whose held array has no text, and is refused by name


class TextProgram:
    """A jaxpr as text, with the arrays that it captured."""

    def __init__(self, data: bytes):
        table = read(SCHEMA, "Text", data[len(MARK) :])
        self.data = data
        self.text: str = table["jaxpr"] or ""
        self.obstacle: str = table["obstacle"] or ""
        self.constraints: list[str] = table["constraints"] or []
        self.constants: list[Any] = []
        for constant in table["constants"] or ():
            aval = read_aval(constant["type"], lambda name: 0)
            if aval.dtype == dtypes.float0:  # no bytes: the cotangent of a captured array of integers or keys
                self.constants.append(np.zeros(aval.shape, dtypes.float0))
                continue
            numbers = np.frombuffer(constant["data"] or b"", aval.dtype).reshape(aval.shape)
            self.constants.append(ConcreteArray(aval, numbers))  # 64 bits stay, whatever the default width
        self.at = functools.lru_cache(maxsize=64)(self._at)

    def _at(self, sizes: tuple[tuple[str, Any], ...]) -> Callable[..., list[Any]]:
        jaxpr = _parsed(self.text, dict(sizes).__getitem__)
        wide = next(_widths(jaxpr), None)

        def program(*xs: Any) -> list[Any]:
            with config.override(enable_x64=config.state().enable_x64 if wide is None else wide):
                return eval_jaxpr(jaxpr, [*self.constants, *xs])

        return jit(program)


def _widths(jaxpr: Jaxpr) -> Iterator[bool]:
    """Whether Python's numbers in a program have 64 bits: what it was written with is what it is read with."""
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if isinstance(x, Literal) and x.aval.weak_type and x.aval.dtype != bool:
                yield x.aval.dtype.itemsize // (1 + (x.aval.dtype.kind == "c")) == 8
        for inner in eqn.jaxprs:
            yield from _widths(inner)


def _parsed(text: str, size: Callable[[str], Any]) -> Jaxpr:
    try:
        return parse_jaxpr(text, size)
    except ValueError as error:
        if "no primitive has this name" not in str(error):
            raise
    for module in pkgutil.walk_packages(primitives.__path__, f"{primitives.__name__}."):
        importlib.import_module(module.name)  # some are loaded on first use
    return parse_jaxpr(text, size)
