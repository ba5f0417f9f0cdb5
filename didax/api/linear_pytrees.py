"""Linear functions that are pytrees: what `linearize` and `vjp` return besides the results.

The leaves are the arrays in the function's program, and the structure is all else. Two such functions have equal
structures when their programs are the same but for these arrays: one function, at arguments of the same types, wherever
and however often it was linearised. So they can be results of the branches of a `cond`, and be carried by a loop.
Read next: `autodiff.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from didax.core import pytree
from didax.core.jaxpr import Atom, Eqn, Literal, Var, nested_jaxprs
from didax.runtime.array import Array
from didax.transforms.linearize import LinearProgram


class LinearFunction:
    """A function that runs a linear program.

    It is a pytree, whose leaves are the arrays of the program. So it may be returned from a transformed function, and a
    forward rule may pass it to its backward rule.
    """

    __slots__ = ("_avals", "_inexact", "_out_tree", "_structure", "_tree", "program")
    # The attributes that are part of the structure, beside the program.
    static_fields: ClassVar[tuple[str, ...]] = ("_avals", "_out_tree", "_tree")

    def __init_subclass__(cls) -> None:
        pytree.register_node(cls, cls.flatten, lambda structure, arrays: structure.filled(tuple(arrays)))

    def __init__(self, program: LinearProgram, tree: Any, avals: Any, inexact: Any, out_tree: Any):
        self.program = program
        self._tree = tree  # of the arguments, whose leaves have the types `avals`
        self._avals = avals
        self._inexact = inexact
        self._out_tree = out_tree
        self._structure: _Structure | None = None

    def __repr__(self) -> str:
        types = [*map(str, self._avals[:4]), *(["..."] if len(self._avals) > 4 else [])]
        return f"<{type(self).__name__} of {', '.join(types)}, linear steps: {len(self.program.eqns)}>"

    def flatten(self) -> tuple[list[Any], _Structure]:
        """The arrays of the program, and the rest."""
        if self._structure is None:
            self._structure = _Structure(self)
        return self._structure.arrays_of(self.program), self._structure

    def with_program(self, program: LinearProgram, structure: _Structure | None = None) -> LinearFunction:
        """The same function of another program."""
        new = copy.copy(self)
        new.program, new._structure = program, structure
        return new


class _ArrayPlace:
    """The place of an array in a program without arrays."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index


class _Structure:
    """A linear function without the arrays of its program: equal to another of the same program."""

    __slots__ = ("_function", "_key")

    def __init__(self, function: LinearFunction):
        places: dict[int, _ArrayPlace] = {}

        def without_array(x: Atom) -> Atom:
            value: Any = x.val if type(x) is Literal else None
            if isinstance(value, Array | np.ndarray):
                return Literal(places.setdefault(id(cast(Any, value)), _ArrayPlace(len(places))), x.aval)
            return x

        self._function = function.with_program(_with_operands(function.program, without_array))
        self._key: Hashable = None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Structure) and self.key == other.key)

    def __hash__(self) -> int:
        return hash((type(self._function), tuple([eqn.primitive for eqn in self._function.program.eqns])))

    @property
    def key(self) -> Hashable:
        """What makes this function: its program, with variables by their number, and what its results are made into."""
        if self._key is None:
            fields = [getattr(self._function, name) for name in self._function.static_fields]
            fields = [tuple(cast("list[Any]", x)) if isinstance(x, list) else x for x in fields]
            self._key = (type(self._function), *fields, *_program_key(self._function.program))
        return self._key

    def arrays_of(self, program: LinearProgram) -> list[Any]:
        """The arrays in a program that fills this one, each once."""
        found: dict[int, Any] = {}
        for emptied, eqn in zip(self._function.program.eqns, program.eqns, strict=True):
            for place, x in zip(emptied.invars, eqn.invars, strict=True):
                if type(place) is Literal and type(place.val) is _ArrayPlace:
                    assert type(x) is Literal
                    found[place.val.index] = x.val
        return [found[i] for i in range(len(found))]

    def filled(self, arrays: Sequence[Any]) -> LinearFunction:
        """The function with these arrays."""

        def fill(x: Atom) -> Atom:
            return (
                Literal(arrays[x.val.index], x.aval)
                if type(x) is Literal and type(x.val) is _ArrayPlace
                else x
            )

        return self._function.with_program(_with_operands(self._function.program, fill), self)


def _with_operands(program: LinearProgram, change: Callable[[Atom], Atom]) -> LinearProgram:
    eqns = [eqn.replace(invars=[change(x) for x in eqn.invars]) for eqn in program.eqns]
    return program._replace(eqns=eqns)


def _program_key(program: LinearProgram) -> tuple[Hashable, ...]:
    numbers: dict[Var, int] = {}

    def name(x: Any) -> Hashable:
        if type(x) is Var:
            return numbers.setdefault(x, len(numbers)), x.aval
        if type(x) is not Literal:
            return "zero", x.aval
        value: Any = x.val
        return value.index if type(value) is _ArrayPlace else repr(value), x.aval

    ins = [name(v) for v in program.invars]
    eqns = [_equation_key(eqn, name) for eqn in program.eqns]
    return (*ins, *eqns, *[name(x) for x in program.outs])


def _equation_key(eqn: Eqn, name: Callable[[Any], Hashable]) -> Hashable:
    params = tuple([(key, _parameter_key(value)) for key, value in sorted(eqn.params.items())])
    return eqn.primitive, params, *map(name, eqn.invars), *map(name, eqn.outvars)


def _parameter_key(value: Any) -> Hashable:
    """The value; programs in it by their text: they are written anew each time a function is traced."""
    held = next(nested_jaxprs(value), None)
    return value if held is None else str(value)
