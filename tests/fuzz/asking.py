"""What a worker can be asked: see workers.py, which starts the process that imports this module."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as onp

from tests.fuzz.comparison import Outcome, attempt, check, run_jax
from tests.fuzz.differences import reason
from tests.fuzz.generator import generate
from tests.fuzz.libraries import Refusal, jax_, kind_of
from tests.fuzz.program import Program
from tests.fuzz.workers import Answer, Found


def seed(number: int) -> Answer:
    """Generate the program of a seed and check it."""
    program = generate(number)
    return answer(program, check(program, compile_too=number % 2 == 0))


def program(given: tuple[Program, bool]) -> Answer:
    """Check a given program, with types found anew; the flag says whether it is also compiled by Didax."""
    known = retyped(given[0])
    return answer(known, check(known, given[1])) if known else Answer()


def retyped(given: Program) -> Program | None:
    """The program with the types that jax says its variables have, which shrinking has changed; None if it refuses."""
    types = dict(given.types)
    with jax_.options(given.x64):
        for statement in given.statements:
            try:
                found, _ = jax_.types_of(statement, types)
            except Refusal:
                return None
            types |= zip(statement.targets, found, strict=True)
    return replace(given, types=types)


def generated(number: int) -> Program:
    return generate(number)


def oracle(given: Program) -> bool:
    """Run the program in jax only, to learn whether it is jax that dies."""
    with jax_.options(given.x64):
        attempt(lambda: run_jax(given))
    return True


def values(given: Program) -> dict[str, Any]:
    """What the variables of a program's statements are, in jax and without transformations."""
    names = [t for s in given.statements for t in s.targets if kind_of(given.types[t].dtype) != "k"]
    plain = Program(given.x64, given.inputs, given.statements, tuple(names), types=given.types)
    with jax_.options(given.x64):
        found = jax_.root.jit(jax_.program(plain))(*given.inputs.values())
    arrays = dict(zip(names, [onp.asarray(x) for x in found], strict=True))
    return {n: x.item() if given.types[n].weak and not x.shape else x for n, x in arrays.items()}


def answer(given: Program, outcome: Outcome) -> Answer:
    return Answer(
        findings=[Found(f.kind, f.where, f.message, reason(f), f.program) for f in outcome.findings],
        elements=outcome.elements,
        unstable=outcome.unstable,
        statements=len(given.statements),
        refused=outcome.refused,
        names=sorted(given.public_names()),
        stack=[name for name, _ in given.stack],
    )
