"""Operations on arrays that the user placed: each is a program, which runs where its operands are.

Where an operand lies on several devices, XLA partitions the program.
Read next: `compiled.py`; `sharded.py`, the arrays on several devices.
"""

from __future__ import annotations

from typing import Any

from didax.core import config
from didax.core.given import give
from didax.core.primitive import Primitive, application_key, infer
from didax.core.sharding import NamedSharding
from didax.primitives.sharding import sharding_constraint_p
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.compiled import Program, application_jaxpr
from didax.runtime.sharded import ShardedArray
from didax.runtime.value_checks import run_watched

_PROGRAMS_MAX = 20_000
_programs: dict[Any, Program] = {}  # by `application_key`


class Placed(Exception):
    """An operand was put on devices by the user. An exception, because that costs other operations nothing."""


def run_placed(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Evaluate an operation where its operands are, as the options ask for it."""
    if config.operations_were_watched and config.watches_operations():
        return run_watched(lambda args: _run(primitive, args, params), primitive, args, params)
    return _run(primitive, args, params)


def _run(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    args = tuple([x if isinstance(x, ConcreteArray) else as_concrete(x) for x in args])
    avals = tuple([x.aval for x in args])
    key = application_key(primitive, avals, params)
    program = _programs.get(key)
    if program is None:
        if len(_programs) > _PROGRAMS_MAX:
            _programs.clear()
        jaxpr = application_jaxpr(primitive, avals, infer(primitive, avals, params), params)
        program = _programs[key] = Program(jaxpr, keep_unused=True, is_operation=True)
    outs = program.run(args)
    return outs if primitive.multiple_results else outs[0]


def clear_placed() -> None:
    """Forget the program of every operation."""
    _programs.clear()


@give(ShardedArray, "exchanged")
def exchanged(array: ShardedArray, sharding: NamedSharding) -> ShardedArray:
    """The array, laid out by a program in which the devices exchange parts."""
    return run_placed(sharding_constraint_p, (array,), {"sharding": sharding})
