"""`shrink(program, fails)`: a small program that fails in the same way.

Each step proposes smaller programs, and takes the first that still fails: one transformation fewer, half of the
results, the operands of a result in its place, an input (with the value it had) in place of a statement, a parameter in
place of a statement of a block, plainer numbers. Statements and inputs that nothing reads are dropped at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as onp

from tests.fuzz.program import Block, Program, Statement

Values = Callable[[Program], dict[str, Any]]  # the values that variables have


def shrink(
    program: Program,
    fails: Callable[[Program], bool],
    values: Values,
    trials: int = 40,
    seconds: float = 60.0,
) -> Program:
    """The smallest program found in so many trials (runs of `fails`) or seconds."""
    end = time.monotonic() + seconds
    program, found = pruned(program), True
    while found:
        found = False
        for smaller in candidates(program, values):
            if trials == 0 or time.monotonic() > end:
                return program
            trials -= 1
            if fails(smaller):
                program, found = smaller, True
                break
    return program


def candidates(program: Program, values: Values) -> Iterator[Program]:
    for i in range(len(program.stack)):
        yield replace(program, stack=program.stack[:i] + program.stack[i + 1 :])
    if len(program.results) > 1:
        half = len(program.results) // 2
        yield pruned(replace(program, results=program.results[:half]))
        yield pruned(replace(program, results=program.results[half:]))
    for statement in program.statements[::-1]:  # an earlier variable in place of a result
        if set(statement.targets) & set(program.results) and not statement.blocks:
            rest = tuple(r for r in program.results if r not in statement.targets)
            made = [name for name in statement.used() if name not in program.inputs]
            if made:
                yield pruned(replace(program, results=(*rest, *made)))
    if program.statements:
        known = values(program)
        count = len(program.statements)
        for i in (count * 3 // 4, count // 2, count // 4):
            yield from without(program, range(i), known)
        for i in range(count - 1, -1, -1):
            yield from without(program, [i], known)
    for i, statement in enumerate(program.statements):
        for smaller in smaller_blocks(statement):
            yield pruned(
                replace(program, statements=program.statements[:i] + (smaller,) + program.statements[i + 1 :])
            )
    for name, value in program.inputs.items():
        for plain in plainer(value):
            yield replace(program, inputs={**program.inputs, name: plain})


def without(program: Program, indices: Sequence[int], known: dict[str, Any]) -> Iterator[Program]:
    """Inputs in place of what these statements compute, as far as that is possible."""
    cut = [
        s
        for s in (program.statements[i] for i in indices)
        if all(t in known and t not in program.results for t in s.targets)
    ]
    targets = [t for s in cut for t in s.targets]
    if not targets:
        return
    stack = tuple(
        (name, {**given, "in_axes": given["in_axes"] + (0,) * len(targets)} if name == "vmap" else given)
        for name, given in program.stack
    )
    yield pruned(
        replace(
            program,
            inputs={**program.inputs, **{t: known[t] for t in targets}},
            statements=tuple(s for s in program.statements if s not in cut),
            stack=stack,
        )
    )


def smaller_blocks(statement: Statement) -> Iterator[Statement]:
    for i, block in enumerate(statement.blocks):
        for j, inner in enumerate(block.statements):
            if len(inner.targets) == 1 and not inner.text.startswith("np.full"):
                for source in (*block.params, "1.0"):
                    text = f"np.asarray({source})"
                    changed = Statement(inner.targets, text)
                    statements = block.statements[:j] + (changed,) + block.statements[j + 1 :]
                    if inner.text != text:
                        blocks = (
                            statement.blocks[:i]
                            + (replace(block, statements=statements),)
                            + statement.blocks[i + 1 :]
                        )
                        yield replace(statement, blocks=blocks)


def plainer(value: Any) -> Iterator[Any]:
    array = onp.asarray(value)
    if array.dtype.kind not in "fc" and array.dtype.name != "bfloat16":
        return
    for plain in (
        onp.ones_like(array),
        onp.round(array.astype(onp.result_type(array.dtype, "float32")) * 4) / 4,
    ):
        plain = onp.asarray(plain).astype(array.dtype)
        if not onp.array_equal(plain, array, equal_nan=True) and not onp.array_equal(
            array, onp.ones_like(array)
        ):
            yield plain if isinstance(value, onp.ndarray) else plain.item()


def pruned(program: Program) -> Program:
    """The program without statements and inputs that no result needs."""
    statements = kept(program.statements, program.results)
    read = {name for statement in statements for name in statement.used()} | set(program.results)
    keep = [name in read for name in program.inputs]
    if not any(keep) and keep:
        keep[0] = True
    stack = tuple(
        (
            name,
            {**parameters, "in_axes": tuple(a for a, k in zip(parameters["in_axes"], keep, strict=True) if k)}
            if name == "vmap"
            else parameters,
        )
        for name, parameters in program.stack
    )
    inputs = {name: value for (name, value), k in zip(program.inputs.items(), keep, strict=True) if k}
    return replace(program, inputs=inputs, statements=statements, stack=stack, refused=())


def kept(statements: Sequence[Statement], results: Sequence[str]) -> tuple[Statement, ...]:
    """The statements that these results need, with the statements of their blocks pruned likewise."""
    needed = set(results)
    found: list[Statement] = []
    for statement in reversed(statements):
        if needed.intersection(statement.targets):
            blocks = tuple(pruned_block(block) for block in statement.blocks)
            found.append(replace(statement, blocks=blocks))
            needed.update(found[-1].used())
    return tuple(reversed(found))


def pruned_block(block: Block) -> Block:
    return replace(block, statements=kept(block.statements, re.findall(r"\bv\d+\b", block.result)))
