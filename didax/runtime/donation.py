"""Donation: a compiled program takes the memory of an argument for its results, and the array is gone.

Before the run, `detach` sees to it that no other array has that memory; afterwards `forget` lets go of it. `explain`
turns PJRT's errors for donated or deleted buffers into errors that name the argument. Read next: `compiled.py`;
`array.py` for Note [Arrays that share a buffer].
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, compress
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.core.source import user_line
from didax.runtime.array import ConcreteArray


def detach(args: Sequence[Any], donated: Sequence[bool]) -> None:
    """Give donated arrays buffers of their own, where they share them. See Note [Arrays that share a buffer]."""
    for x in compress(args, donated):
        if isinstance(x, ConcreteArray):
            x.own_buffer()


def forget(args: Sequence[Any], donated: Sequence[bool], delete: bool) -> None:
    """Let go of the buffers that the program has taken; with `delete` also of those that it has only read."""
    for x in compress(args, donated):
        if isinstance(x, ConcreteArray) and x._buffer is not None:
            if delete:
                x._buffer.delete()
            if x._buffer.is_deleted():
                x.forget_donated()


def warn_of_unusable(jaxpr: Jaxpr, num_constants: int, donated: Sequence[bool], replaced: Any) -> None:
    """Warn of donated inputs that have the size of no result: nothing takes their memory."""
    left = Counter([_bytes(aval) for i, aval in enumerate(jaxpr.out_avals) if i not in replaced.values()])
    unusable: list[str] = []
    for i, is_donated in enumerate(donated, num_constants):
        if not is_donated or i in replaced:
            continue
        aval = jaxpr.in_avals[i]
        if left[_bytes(aval)]:
            left[_bytes(aval)] -= 1
        else:
            unusable.append(str(aval.strip_weak_type()))
    if unusable:
        text = message(
            "Some donated buffers were not usable: no result has their size.",
            f"donated: {', '.join(unusable)}",
            fix="Donate arguments that results replace, such as the parameters of an update.",
        )
        line = user_line()
        warnings.warn_explicit(text, UserWarning, line.file if line else __file__, line.line if line else 1)


def take(args: Sequence[Any], donated: Sequence[bool], outs: Sequence[Any]) -> None:
    """Let go of donated arrays as a compiled program with these results does: of one for each result of its size."""
    sizes = [_size(y) for y in outs]
    for x in compress(args, donated):
        if isinstance(x, ConcreteArray) and _size(x) in sizes:
            sizes.remove(_size(x))
            x._value = x._buffer = None  # results may be views of the memory, which lives as long as they do


def _size(x: Any) -> int:
    return x.aval.size * x.aval.dtype.itemsize


def _bytes(aval: ShapedArray) -> int:
    return aval.physical.size * aval.physical.dtype.itemsize


def check(
    args: Sequence[Any], donated: Sequence[bool], captured: Sequence[Any], names: Sequence[str] = ()
) -> None:
    """Raise what a compiled program raises for arrays that are gone, or donated in one place and needed in another."""
    if any(isinstance(x, ConcreteArray) and x.is_deleted() for x in args):
        raise explain(RuntimeError("deleted"), args, donated, names=names)
    if True in donated:
        refuse_twice(args, donated, captured, names)


def refuse_twice(
    args: Sequence[Any], donated: Sequence[bool], captured: Sequence[Any], names: Sequence[str] = ()
) -> None:
    """RuntimeError where an array is donated in one place, and passed in another or captured.

    On one device XLA raises an error itself. A program on several devices would end the process.
    """
    arrays = [x for x in (*args, *captured) if isinstance(x, ConcreteArray)]
    buffers = [id(x if x._buffer is None else x._buffer) for x in arrays]
    if len(set(buffers)) == len(buffers):
        return
    raised = RuntimeError("same buffer twice")
    if (explained := explain(raised, args, donated, captured, names)) is not raised:
        raise explained


def explain(
    error: Exception,
    args: Sequence[Any],
    donated: Sequence[bool],
    captured: Sequence[Any] = (),
    names: Sequence[str] = (),
) -> Exception:
    """The error to raise for one of PJRT's: ours where it is about a donated or deleted buffer, else the same."""
    names = names or [f"array {i}" for i in range(len(args))]
    text = str(error) if isinstance(error, RuntimeError) else ""  # what a callback raised may have no text
    if "same call" in text or "same buffer twice" in text:
        for i, x in enumerate(args):
            if i < len(donated) and donated[i] and any(_is_one_buffer(x, y) for y in captured):
                return RuntimeError(
                    message(
                        "A donated array is also one that the compiled function captured.",
                        f"{names[i]}: {x.aval}",
                        fix="Pass a copy (x.copy()), do not donate it, or make what is captured an argument.",
                    )
                )
        for i, j in _pairs_with_donated(len(args), donated):
            if _is_one_buffer(x := args[i], args[j]):
                return RuntimeError(
                    message(
                        "A donated array was passed to a compiled function twice.",
                        f"{names[i]} and {names[j]}: {x.aval}",
                        fix="Pass a copy in one place (x.copy()), or do not donate it.",
                    )
                )
    for i, x in enumerate(args):
        if isinstance(x, ConcreteArray) and x.is_deleted():
            return RuntimeError(
                message(
                    "A donated or deleted array was passed to a compiled function.",
                    f"{names[i]}: {x.aval}",
                    fix="Use the result of the call it was donated to, or do not donate it.",
                )
            )
    return error


def _is_one_buffer(x: Any, y: Any) -> bool:
    if not (isinstance(x, ConcreteArray) and isinstance(y, ConcreteArray)):
        return False
    return x is y or (x._buffer is not None and x._buffer is y._buffer)


def _pairs_with_donated(count: int, donated: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Pairs of positions of arguments, at least one of which is donated."""
    is_donated = [*donated, *[False] * (count - len(donated))]
    return ((i, j) for i, j in combinations(range(count), 2) if is_donated[i] or is_donated[j])
