"""Programs of symbolic shapes as text: their jaxpr, which is read again for the sizes of a call.

    data = write_text(name, {"cpu": (jaxpr, consts)}, constraints)     rules left out, beside what it captured
    TextProgram(data).at((("b", 3),))                                  a function of arrays of these sizes

A jaxpr states every shape, so nothing of the program is computed twice, and all that XLA sees is concrete.
What has no text is in tables. Arrays that the program captured are its leading inputs, so they are no part of what is
compiled. Those within loops and branches, and exported programs that are called, are parameters of their equations,
where the text has their numbers.
Read next: `didax/core/jaxpr_parse.py`; `_exported.py`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from didax import primitives
from didax.api.jit import jit
from didax.core import config, dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import read_jaxpr
from didax.core.jaxpr_print import jaxpr_text
from didax.core.primitive import Primitive
from didax.export._file import SCHEMA, read_aval, write_aval
from didax.export._flatbuffers import read, write
from didax.primitives.custom.call import rules_call_p
from didax.primitives.custom.constant import Held, constant_p
from didax.primitives.exported import Artifact, exported_p
from didax.primitives.keys import impl_of, random_unwrap_p, random_wrap_p
from didax.runtime.array import ConcreteArray
from didax.xla.platforms import platform

MARK = b"DIDAX-JAXPR\0"


def write_text(
    name: str,
    programs: Mapping[str, tuple[Jaxpr, Sequence[Any]]],
    constraints: Sequence[str],
    obstacle: str = "",
) -> bytes:
    """The bytes of the jaxprs for platforms, whose leading inputs have the values beside them.

    `obstacle` says why the program has no module of open lengths.
    """
    first, *others = [_table(name, *program) for program in programs.values()]
    if any(other != first for other in others):
        first["platforms"] = list(programs)
        first["others"] = others
    first |= {"constraints": list(constraints), "obstacle": obstacle}
    return MARK + bytes(write(SCHEMA, "Text", first))


def _table(name: str, jaxpr: Jaxpr, consts: Sequence[Any]) -> dict[str, Any]:
    tables = _Tables()
    plain = tables.numbered(jaxpr, outermost=True)
    plain = Jaxpr([*[var for var, _ in tables.inputs], *plain.invars], plain.eqns, plain.outvars)
    values = [*[held.value for _, held in tables.inputs], *consts]
    text = jaxpr_text(plain)
    try:
        read_jaxpr(text, lambda _: 97)  # the types are not looked at
    except ValueError as error:
        rule = "A program with symbolic shapes is saved as text, and one of its operations has none."
        facts = f"program: {name}", *str(error).split("\n")[1:3]
        raise ValueError(
            message(rule, *[fact.strip() for fact in facts], fix="Export it with concrete shapes.")
        ) from None
    return {
        "jaxpr": text,
        "constants": [_write_array(x, v.aval) for x, v in zip(values, plain.invars, strict=False)],
        "held": [_write_array(held.value, held.aval) for held in tables.of[constant_p]],
        "called": list(map(_write_artifact, tables.of[exported_p])),
    }


class _Tables:
    """What the text of a jaxpr refers to by number, and the arrays that become its leading inputs."""

    parameters: Final[dict[Primitive, str]] = {constant_p: "held", exported_p: "artifact"}

    def __init__(self) -> None:
        self.inputs: list[tuple[Var, Held]] = []
        self.of: dict[Primitive, list[Any]] = {primitive: [] for primitive in self.parameters}

    def numbered(self, jaxpr: Jaxpr, outermost: bool = False) -> Jaxpr:
        """The jaxpr with numbers in it, and with the bodies of functions with rules in the place of their calls."""
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
                if eqn.primitive is constant_p and outermost:
                    self.inputs.append((outs[0], eqn.params["held"]))
                else:
                    found = self.number(eqn.map_jaxprs(self.numbered))
                    eqns.append(found.replace(invars=operands, outvars=outs))
            return [env.get(x, x) for x in inner.outvars]

        return Jaxpr(jaxpr.invars, eqns, run(jaxpr))

    def number(self, eqn: Eqn) -> Eqn:
        name = self.parameters.get(eqn.primitive)
        if name is None:
            return eqn
        table = self.of[eqn.primitive]
        if eqn.params[name] not in table:
            table.append(eqn.params[name])
        return eqn.replace(params={name: table.index(eqn.params[name])})

    def restored(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr with what stands in the tables in the place of its numbers."""
        eqns = [
            eqn.replace(params={name: self.of[eqn.primitive][eqn.params[name]]})
            if (name := self.parameters.get(eqn.primitive)) is not None
            else eqn.map_jaxprs(self.restored)
            for eqn in jaxpr.eqns
        ]
        return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars)


def numbers_of(x: Any, aval: ShapedArray) -> Any:
    """The numbers of an array of this type, the words of keys."""
    words = x if impl_of(aval.dtype) is None else random_unwrap_p.bind(x)
    return np.asarray(words).astype(aval.physical.dtype)


def _write_array(x: Any, aval: ShapedArray) -> dict[str, Any]:
    return {"type": write_aval(aval), "data": numbers_of(x, aval).tobytes()}


def _read_array(table: dict[str, Any]) -> Any:
    aval = _read_type(table["type"])
    if aval.dtype == dtypes.float0:  # no bytes: the cotangent of an array of integers or keys
        return np.zeros(aval.shape, dtypes.float0)
    of_numbers = aval.physical
    numbers = np.frombuffer(table["data"] or b"", of_numbers.dtype).reshape(of_numbers.shape)
    found = ConcreteArray(of_numbers, numbers)  # 64 bits stay, whatever the default width
    return found if of_numbers is aval else random_wrap_p.bind(found, dtype=aval.dtype)


def _read_type(table: dict[str, Any]) -> ShapedArray:
    return read_aval(table, lambda name: 0)


def _write_artifact(artifact: Artifact) -> dict[str, Any]:
    in_types, out_types = [list(map(write_aval, xs)) for xs in (artifact.in_avals, artifact.out_avals)]
    return {
        "name": artifact.name,
        "module": artifact.data,
        "in_types": in_types,
        "out_types": out_types,
        "kept": artifact.kept,
        "platform": artifact.platform_index,
        "symbolic": artifact.symbolic,
    }


def _read_artifact(table: dict[str, Any]) -> Artifact:
    in_avals, out_avals = [list(map(_read_type, table[name] or ())) for name in ("in_types", "out_types")]
    kept, index, symbolic = table["kept"] or (), table["platform"], bool(table["symbolic"])
    return Artifact(table["name"] or "", table["module"] or b"", in_avals, out_avals, kept, index, symbolic)


class TextProgram:
    """A jaxpr as text, with the arrays that it captured, and those for other platforms where they differ."""

    def __init__(self, data: bytes):
        self.data = data
        table = read(SCHEMA, "Text", data[len(MARK) :])
        self.obstacle: str = table["obstacle"] or ""
        self.constraints: list[str] = table["constraints"] or []
        programs = [_Program(part) for part in (table, *(table["others"] or ()))]
        self.text = programs[0].text
        self._first = programs[0]
        platforms: list[str] = table["platforms"] or []
        self._of_platforms = dict(zip(platforms, programs, strict=False))

    @property
    def by_platform(self) -> bool:
        """Whether platforms have programs of their own."""
        return bool(self._of_platforms)

    def at(self, sizes: tuple[tuple[str, Any], ...]) -> Callable[..., list[Any]]:
        """The program where dimensions have these sizes, as a function of all arrays."""
        return self._of_platforms.get(platform(), self._first).at(sizes)


class _Program:
    def __init__(self, table: dict[str, Any]):
        self.text: str = table["jaxpr"] or ""
        self.constants = list(map(_read_array, table["constants"] or ()))
        self.tables = _Tables()
        self.tables.of[constant_p] = [Held(_read_array(x)) for x in table["held"] or ()]
        self.tables.of[exported_p] = list(map(_read_artifact, table["called"] or ()))
        self.at = functools.lru_cache(maxsize=64)(self._at)

    def _at(self, sizes: tuple[tuple[str, Any], ...]) -> Callable[..., list[Any]]:
        jaxpr = self.tables.restored(_parsed(self.text, dict(sizes).__getitem__))
        check_jaxpr(jaxpr)
        wide = next(_widths(jaxpr), None)

        def program(*xs: Any) -> list[Any]:
            with config.override(enable_x64=config.state().enable_x64 if wide is None else wide):
                return eval_jaxpr(jaxpr, [*self.constants, *xs])

        return jit(program)


def _widths(jaxpr: Jaxpr) -> Iterator[bool]:
    """Whether Python's numbers in a program have 64 bits. It is read with the width with which it was written."""
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if isinstance(x, Literal) and x.aval.weak_type and x.aval.dtype != bool:
                yield x.aval.dtype.itemsize // (1 + (x.aval.dtype.kind == "c")) == 8
        for inner in eqn.jaxprs:
            yield from _widths(inner)


def _parsed(text: str, size: Callable[[str], Any]) -> Jaxpr:
    try:
        return read_jaxpr(text, size)
    except ValueError as error:
        if "no primitive has this name" not in str(error):
            raise
    for module in pkgutil.walk_packages(primitives.__path__, f"{primitives.__name__}."):
        importlib.import_module(module.name)  # some are loaded on first use
    importlib.import_module("didax.scipy.stats")  # which has one more
    return read_jaxpr(text, size)
