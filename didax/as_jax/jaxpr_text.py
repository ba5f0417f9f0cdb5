"""Texts of jaxprs as JAX writes them: the names, parameters and layout of the layer's view, not of Didax's program.

    { lambda a:f32[3]; b:f32[]. let c:f32[3] = mul a b in (c,) }

A program, an equation or its parameters stand on one line where they fit into 80 columns; otherwise each equation, or
each parameter, has a line. Weak types are not marked. A jitted function that is called twice, or is long, is written
before the program; the variables of any other are named like the operands and results of its call. Didax's own texts,
which it can read back, are in `core/jaxpr_print.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.changed_types import dims_text
from didax.core.jaxpr import Literal
from didax.core.jaxpr_print import variable_names
from didax.core.ref import RefType
from didax.core.value import Array

WIDTH = 80
LONG = 10  # equations

# Parameters that JAX does not write while they have these values, by primitive; "" stands for all primitives.
HIDDEN: dict[str, dict[str, Any]] = {
    "broadcast_in_dim": {"broadcast_dimensions": (), "shape": ..., "sharding": None},
    "convert_element_type": {"sharding": None},
    "cond": {"linear": None},
    "custom_jvp_call": {"num_consts": 0},
    "custom_vjp_call": {"num_consts": 0, "out_trees": ...},
    "dot_general": {"precision": None, "out_sharding": None, "preferred_element_type": None},
    "jit": {
        "donated_invars": ..., "inline": False, "keep_unused": False, "in_shardings": ..., "out_shardings": ...,
        "in_layouts": ..., "out_layouts": ..., "ctx_mesh": None, "compiler_options_kvs": (),
    },
    "mul": {"out_dtype": None},
    "": {"accuracy": None},
}  # fmt: skip
RENAMED = {"jvp_jaxpr_fun": "jvp", "fwd_jaxpr_thunk": "fwd"}


def type_text(aval: Any) -> str:
    """`f32[2,3]`."""
    if isinstance(aval, RefType):
        return f"Ref{{{type_text(aval.aval)}}}"
    return f"{dtypes.short_name(aval.dtype)}[{dims_text(aval)}]"


def jaxpr_text(jaxpr: Any) -> str:
    """The text of a program of the layer."""
    writer = _Writer(_written_before(jaxpr))
    before = [
        f"let {name} = {writer.jaxpr(shared, '', start=len(name) + 10)} in\n"
        for shared, name in writer.before.values()
    ]
    return "".join(before) + writer.jaxpr(jaxpr, "")


def eqn_text(eqn: Any) -> str:
    """The text of one equation."""
    return _Writer({}).eqn(eqn, "")


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Any]:
    """The programs in parameters, without their constants."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "eqns"):  # a program, closed or open
                yield getattr(item, "jaxpr", item)


def _written_before(jaxpr: Any) -> dict[int, tuple[Any, str]]:
    """The programs of jitted functions that are called twice or are long, with names, by their ids."""
    calls: dict[int, list[Any]] = {}

    def count(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            for inner in jaxprs_in_params(eqn.params):
                if eqn.primitive.name == "jit":
                    calls.setdefault(id(inner), []).append((inner, eqn.params["name"]))
                    if len(calls[id(inner)]) > 2:
                        continue
                count(inner)

    count(jaxpr)
    found: dict[int, tuple[Any, str]] = {}
    used: Counter[str] = Counter()
    for key, [(inner, name), *further] in calls.items():
        if further or len(inner.eqns) > LONG:
            name = name.strip("<>")
            found[key] = inner, f"{name}{used[name] or ''}"
            used[name] += 1
    return found


class _Writer:
    """Writes programs, drawing names from one sequence. `pad` is the indentation; None asks for a single line."""

    def __init__(self, before: dict[int, tuple[Any, str]]) -> None:
        self.before = before  # programs that are written before, and are named where they are called
        self._names: dict[Any, str] = {}
        self._fresh = variable_names()

    def jaxpr(self, jaxpr: Any, pad: str | None, start: int = 0) -> str:
        """`{ lambda consts; inputs. let equations in (results) }`; `start` columns are taken on its first line."""
        consts, inputs = ([self._bound(v) for v in group] for group in (jaxpr.constvars, jaxpr.invars))
        words = ["{", "lambda", *consts, ";", *inputs]
        if consts:
            words[-len(inputs) - 2 : len(words) - len(inputs)] = [f"{consts[-1]};"]
        words = [*words[:-1], f"{words[-1]}.", "let"] if inputs else [*words, ".", "let"]
        used = {id(x) for x in jaxpr.outvars}.union(*({id(x) for x in e.invars} for e in jaxpr.eqns))
        if pad is None:
            eqns = "; ".join(self.eqn(e, None, used) for e in jaxpr.eqns)
            return f"{' '.join(words)} {eqns} in {self._results(jaxpr)} }}"
        if len(jaxpr.eqns) < WIDTH // 8 and _fits(line := self.jaxpr(jaxpr, None), pad, start):
            return line
        eqns = [pad + "    " + self.eqn(e, pad + "    ", used) for e in jaxpr.eqns]
        return "\n".join([_filled(words, pad, "    "), *eqns, f"{pad}  in {self._results(jaxpr)} }}"])

    def eqn(self, eqn: Any, pad: str | None, used: set[int] | None = None) -> str:
        """`results = primitive[parameters] operands`."""
        results = [
            self._bound(v) if used is None or id(v) in used else f"_:{type_text(v.aval)}" for v in eqn.outvars
        ]
        operands = [self._operand(x) for x in eqn.invars] or [""]
        head = " ".join([*results, *["="] * bool(results), eqn.primitive.name])
        params = self._params(eqn, None)
        if pad is None:
            return " ".join([head + params, *operands])
        if not _fits(head + params, pad):
            params = self._params(eqn, pad)
        if "\n" in params:
            return f"{_filled([*head.split(' ')], pad, '  ')}{params}{''.join(f' {x}' for x in operands)}"
        return _filled([head + params, *operands], pad, "  ")

    def _params(self, eqn: Any, pad: str | None) -> str:
        given = self._shown(eqn)
        if eqn.primitive.name == "jit":
            self._call_names(eqn)
        if not given:
            return ""
        items = [
            f"{_shown_name(name)}={self._value(value, None if pad is None else pad + '  ', name)}"
            for name, value in given.items()
        ]
        if pad is None:
            return f"[{' '.join(items)}]"
        return "\n".join(["[", *(f"{pad}  {item}" for item in items), f"{pad}]"])

    def _shown(self, eqn: Any) -> dict[str, Any]:
        hidden = {**HIDDEN[""], **HIDDEN.get(eqn.primitive.name, {})}
        given = {
            name: eqn.params[name]
            for name in sorted(eqn.params, key=_shown_name)
            if name not in hidden or (hidden[name] is not ... and hidden[name] != eqn.params[name])
        }
        if eqn.primitive.name == "jit":
            donated = (
                {"donated_invars": eqn.params["donated_invars"]} if any(eqn.params["donated_invars"]) else {}
            )
            return {"name": given.pop("name"), **donated, **given}
        if eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
            return {"name": eqn.params["call_jaxpr"].jaxpr.debug_info.func_name, **given}
        return given

    def _call_names(self, eqn: Any) -> None:
        """Call the variables of a jitted function as the operands and results of its call."""
        inner = eqn.params["jaxpr"].jaxpr
        if id(inner) in self.before:
            return
        taken: set[str] = set()
        for own, outer in zip((*inner.invars, *inner.outvars), (*eqn.invars, *eqn.outvars), strict=False):
            name = self._names.get(outer)
            if name is not None and name not in taken and not isinstance(own, Literal):
                taken.add(self._names.setdefault(own, name))

    def _value(self, value: Any, pad: str | None, name: str) -> str:
        if hasattr(value, "eqns"):  # a program, closed or open
            inner = getattr(value, "jaxpr", value)
            if id(inner) in self.before:
                return self.before[id(inner)][1]
            return self.jaxpr(inner, pad, start=len(name) + 1)
        if isinstance(value, (tuple, list)) and any(hasattr(item, "eqns") for item in value):
            items = [self._value(item, None if pad is None else pad + "  ", name) for item in value]
            if pad is None:
                return f"( {' '.join(items)} )"
            return "\n".join(["(", *(f"{pad}  {item}" for item in items), f"{pad})"])
        if name == "dimension_numbers" and isinstance(value, tuple) and not hasattr(value, "_fields"):
            contracted, batched = (", ".join(str(list(axes)) for axes in side) for side in value)
            return f"(({contracted}), ({batched}))"
        if isinstance(value, np.dtype) or callable(value):
            return str(getattr(value, "name", None) or getattr(value, "__name__", value))
        return str(value)

    def _results(self, jaxpr: Any) -> str:
        results = [self._operand(x) for x in jaxpr.outvars]
        return f"({results[0]},)" if len(results) == 1 else f"({', '.join(results)})"

    def _bound(self, var: Any) -> str:
        return f"{self._name(var)}:{type_text(var.aval)}"

    def _name(self, var: Any) -> str:
        if var not in self._names:
            self._names[var] = next(self._fresh)
        return self._names[var]

    def _operand(self, x: Any) -> str:
        if not isinstance(x, Literal):
            return self._name(x)
        value = x.val.item() if isinstance(x.val, (Array, np.generic)) and _is_number(x.aval) else x.val
        return f"{value}:{type_text(x.aval)}"


def _shown_name(name: str) -> str:
    return RENAMED.get(name, name)


def _is_number(aval: ShapedArray) -> bool:
    return not aval.shape and not dtypes.as_extended(aval.dtype)


def _fits(text: str, pad: str, start: int = 0) -> bool:
    return "\n" not in text and start + len(pad) + len(text) <= WIDTH


def _filled(words: Sequence[str], pad: str, further: str) -> str:
    """The words on lines of at most 80 columns; the first is indented already."""
    lines, column = [[words[0]]], len(pad) + len(words[0])
    for word in words[1:]:
        if column + 1 + len(word) > WIDTH:
            lines.append([])
            column = len(pad) + len(further) - 1
        lines[-1].append(word)
        column += 1 + len(word)
    return f"\n{pad}{further}".join(" ".join(line) for line in lines)
