"""Where does the NaN come from? Looking at the results of programs, and running them again to find its origin.

    debug_nans = "on"        the first operation that made a NaN out of numbers
    debug_nans = "outputs"   the first one whose NaN reached a result of the program; what is masked later is let pass

A NaN that came in is nobody's fault: an operation is to blame that has one in its results and none in its operands.
Compiled programs are looked at through their results, as NaN or not; one with a NaN that was not in its arguments runs
again, equation by equation, into the bodies of loops and branches (the `run_jaxprs` rule of the primitives that hold
them). `debug_infs` does the same for infinities.
Read next: `runtime/eager.py` and `runtime/compiled.py`, which call this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.errors import NaNError, message
from didax.core.jaxpr import Eqn, Jaxpr, Literal, Var
from didax.core.jaxpr_print import eqn_text, type_text
from didax.core.primitive import Primitive, eager_trace
from didax.core.rule_types import as_list, check_list
from didax.core.source import SourceLine, user_line
from didax.core.tracing import set_current_trace
from didax.transforms.rewriting import interpret

_SHOWN_ELEMENTS = 8


class Search(NamedTuple):
    """What is looked for ('NaN', 'infinity', '' for nothing), and whether it has to reach the program's results."""

    what: str
    reaching: bool

    def hits(self, x: Any) -> Any:
        """Where in an array it is."""
        value = np.asarray(x)
        return np.isnan(value) if self.what == "NaN" else np.isinf(value)

    def is_in(self, xs: Sequence[Any]) -> bool:
        """Whether it is in any of the arrays."""
        if not self.what:
            return False
        return any(bool(self.hits(x).any()) for x in xs if dtypes.is_inexact(aval_of(x).dtype))

    def made(self, args: Sequence[Any], outs: Sequence[Any]) -> bool:
        """Whether it is in results and in no operand."""
        return self.is_in(outs) and not self.is_in(args)


class _Found(Exception):
    """The equation to blame, with its operands, its results, and the bodies around it."""

    def __init__(self, eqn: Eqn, args: Sequence[Any], outs: Sequence[Any], places: tuple[str, ...]):
        super().__init__()
        self.eqn, self.operands, self.outs, self.places = eqn, args, outs, places


class _NotRepeatable(Exception):
    """An equation with an effect gives results: it cannot run again."""


_NOTHING = Search("", False)


def searches() -> list[Search]:
    """What the options in force ask to look for."""
    state = config.state()
    asked = ("NaN", state.debug_nans), ("infinity", state.debug_infs)
    return [Search(what, mode == "outputs") for what, mode in asked if mode != "off"]


def look_at_operation(
    primitive: Primitive, args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]
) -> None:
    """Raise NaNError if an operation that was evaluated on its own made what is looked for."""
    for search in searches():
        if not search.reaching and search.made(args, outs):
            raise _error(search, _Found(_equation(primitive, args, outs, params), args, outs, ()))


def look_at_program(jaxpr: Jaxpr, args: Sequence[Any], outs: Sequence[Any], repeatable: bool = True) -> None:
    """Raise NaNError if a compiled program made what is looked for; `args` are all of its inputs."""
    for search in searches():
        if search.made(args, outs):
            if not repeatable:
                raise _unexplained(search, jaxpr)
            with config.override(debug_nans="off", debug_infs="off"), set_current_trace(eager_trace):
                found = _origin(search, jaxpr, args)
            raise _error(search, found) if found is not None else _unexplained(search, jaxpr)


def _equation(primitive: Primitive, args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Eqn:
    inputs = [Literal(x) if aval_of(x).ndim == 0 else Var(aval_of(x)) for x in args]
    return Eqn(primitive, inputs, params, [Var(aval_of(y)) for y in outs], user_line())


def _origin(search: Search, jaxpr: Jaxpr, args: Sequence[Any]) -> _Found | None:
    try:
        _run(search, jaxpr, args, ())
    except _Found as found:
        return found
    except _NotRepeatable:
        pass
    return None


def _run(search: Search, jaxpr: Jaxpr, args: Sequence[Any], places: tuple[str, ...]) -> list[Any]:
    """Run equation by equation; raises _Found at the one to blame."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, args, strict=True))
    culprits: dict[Var, _Found] = {}

    def apply(eqn: Eqn, inputs: list[Any]) -> list[Any]:
        outs = as_list(eqn.primitive, _repeat(eqn, inputs))
        env.update(zip(eqn.outvars, outs, strict=True))
        if search.made(inputs, outs):
            found = _Found(eqn, inputs, outs, places)
            if not search.reaching:
                _look_inside(search, found)
            culprits.update(dict.fromkeys(eqn.outvars, found))
        return outs

    results = interpret(jaxpr, args, apply)
    sources = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    hit = [x for x, y in zip(jaxpr.outvars, results, strict=True) if type(x) is Var and search.is_in([y])]
    for found in _reaching(search, hit, env, sources, culprits):
        _look_inside(search, found)
    return results


def _repeat(eqn: Eqn, args: Sequence[Any]) -> Any:
    """The results of an equation, without its effects: these have happened already."""
    if not eqn.effects:
        return eqn.primitive.bind(*args, **eqn.params)
    if not eqn.outvars:
        return []
    if eqn.primitive.run_jaxprs is None:
        raise _NotRepeatable

    def run(jaxpr: Jaxpr, args: Sequence[Any], place: str) -> list[Any]:
        return _run(_NOTHING, jaxpr, args, ())

    outs = eqn.primitive.run_jaxprs(run, *args, **eqn.params)
    check_list(eqn.primitive, "run_jaxprs", outs, len(eqn.outvars))
    return outs


def _look_inside(search: Search, found: _Found) -> None:
    """Raise `found`, or what is to blame inside of it."""
    eqn = found.eqn
    if eqn.primitive.run_jaxprs is not None:

        def run(jaxpr: Jaxpr, args: Sequence[Any], place: str) -> list[Any]:
            return _run(search, jaxpr, args, (place, *found.places))

        eqn.primitive.run_jaxprs(run, *found.operands, **eqn.params)
    raise found


def _reaching(
    search: Search,
    hit: Sequence[Any],
    env: dict[Var, Any],
    sources: dict[Var, Eqn],
    culprits: dict[Var, _Found],
) -> list[_Found]:
    """The equations to blame for what is in the variables `hit`, in the order of `culprits`."""
    seen: set[Var] = set()
    waiting = list(hit)
    while waiting:
        var = waiting.pop()
        if var not in seen and var not in culprits and var in sources:
            waiting += [x for x in sources[var].invars if type(x) is Var and search.is_in([env[x]])]
        seen.add(var)
    return [found for var, found in culprits.items() if var in seen]


# --- Telling ----------------------------------------------------------------------------------------------

_OPTIONS = {"NaN": "debug_nans", "infinity": "debug_infs"}


def _error(search: Search, found: _Found) -> NaNError:
    eqn, option = found.eqn, _OPTIONS[search.what]
    line: SourceLine | None = eqn.source or user_line()
    article = "a" if search.what == "NaN" else "an"
    facts = [f"primitive: {eqn.primitive.name}", f"line: {line}"]
    facts += [f"inside of: {', in '.join(found.places)}"] if found.places else []
    facts += [f"equation: {eqn_text(eqn)}"] if "\n" not in eqn_text(eqn) else []
    facts += [f"operand {i}: {_summary(x)}" for i, x in enumerate(found.operands)]
    facts += [f"result: {_summary(y)}, {_count(search, y)}" for y in found.outs if search.is_in([y])]
    return NaNError(
        message(
            f"An operation made {article} {search.what} out of numbers that hold none.",
            *facts,
            fix=f"Keep its operands where it is defined. The option {option} can be 'outputs', which reports only what "
            "reaches the results of a jitted function, or 'off'.",
        )
    )


def _unexplained(search: Search, jaxpr: Jaxpr) -> NaNError:
    return NaNError(
        message(
            f"A compiled program made {search.what} out of numbers, and the operation that did was not found.",
            f"program: {jaxpr.name or 'unnamed'}, results: {', '.join(map(type_text, jaxpr.out_avals))}",
            f"line: {user_line()}",
            fix="Run it operation by operation (disable_jit). Programs that call io_callback are not run again; or XLA "
            "computed in another order, near the limits of the dtype.",
        )
    )


def _summary(x: Any) -> str:
    """Type and values of an array; of a large one, their range."""
    aval, value = aval_of(x), np.asarray(x)
    if value.size <= _SHOWN_ELEMENTS:
        return f"{aval} {np.array2string(value, separator=', ')}"
    if not dtypes.is_inexact(aval.dtype) or dtypes.is_complex(aval.dtype):
        return str(aval)
    return f"{aval} from {np.fmin.reduce(value, axis=None)} to {np.fmax.reduce(value, axis=None)}"


def _count(search: Search, x: Any) -> str:
    hits = search.hits(x)
    first = tuple(int(i) for i in np.argwhere(hits)[0])
    place = f", first at {first}" if first else ""
    return f"{search.what} in {int(hits.sum())} of {hits.size}{place}"
