"""What a primitive's rules must return, and the errors of rules that return something else.

    type       a type for each result
    eager      NumPy values of these types
    lower      `Value`s of these types
    jvp        results and tangents; the tangent of a result has the tangent type of the result (so does linearize)
    transpose  an entry for each operand; the cotangent of an operand has the type of the operand
    batch      results and the places of their batch axes; one element of a result has the type of the result

A wrong shape that is passed on becomes a wrong number, or an error far from its cause. The interpreters compare
interned types, which costs next to nothing, and ask here only where the types are not the same object. What
costs a type inference is compared under DIDAX_CHECK=1 only: the results of jvp and batch rules with those of the type
rule.
Every error names the rule, the primitive, what was returned and what was wanted, and where the rule is written.
Read next: `primitive.py`, which has the rules, and `didax/extend/testing.py`, which checks all rules of a primitive.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from didax.core import config, source
from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import Effect
from didax.core.errors import RuleError, RuleTypeError, message

Primitive: TypeAlias = Any  # the class of `primitive.py`, which asks here
_LISTS = (list, tuple)


def wrong(primitive: Primitive, rule: str, what: str, *facts: str) -> RuleTypeError:
    """The error of a rule that broke its contract, which `what` states; it says where the rule is written."""
    return RuleTypeError(_text(primitive, rule, what, *facts))


def _text(primitive: Primitive, rule: str, what: str, *facts: str) -> str:
    kind: Any = primitive.__class__
    of_library = kind.__module__.startswith("didax.")  # a family, say, whose class is not the user's
    owner = repr(primitive.name) if of_library else kind.__name__
    fix = f"Correct the `{rule}` of {owner}; the program that uses the primitive is not at fault."
    return message(what, f"rule: {rule} of {primitive.name!r}", *facts, *_place(primitive, rule), fix=fix)


def _place(primitive: Primitive, rule: str) -> list[str]:
    """Where a rule of the user's is written, as a fact."""
    function = inspect.unwrap(getattr(primitive, rule, None) or len)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or source.is_internal(code):
        return []
    return [f"written at: {source.name_of_file(code.co_filename)}:{code.co_firstlineno}"]


def shown(x: Any) -> str:
    """A value that a rule returned, as errors show it: the type of an array, a list item by item."""
    if type(x) in _LISTS:
        items = ", ".join([shown(item) for item in x[:8]]) + (", ..." if len(x) > 8 else "")
        return f"[{items}]" if type(x) is list else f"({items}{',' if len(x) == 1 else ''})"
    try:
        return str(aval_of(x)) if hasattr(x, "dtype") and hasattr(x, "shape") else f"{x!r:.100}"
    except TypeError:
        return f"{x!r:.100}"


# --- Calls of rules ---------------------------------------------------------------------------------------


def check_fit(
    primitive: Primitive,
    rule: str,
    args: Sequence[Any],
    params: dict[str, Any],
    error: TypeError,
    depth: int = 1,
) -> None:
    """RuleTypeError where a call of a rule, `depth` frames below, raised `error`: the rule takes no such arguments."""
    place = error.__traceback__
    for _ in range(depth):
        place = None if place is None else place.tb_next
    while place is not None and place.tb_frame.f_globals.get("__name__") == "didax.core.device_types":
        place = place.tb_next  # that module wraps rules once a program has made an explicit mesh
    if place is not None:
        return  # raised within the rule
    try:
        signature = inspect.signature(getattr(primitive, rule))
    except (TypeError, ValueError):  # a function of C that does not tell
        return
    try:
        signature.bind(*args, **params)
    except TypeError as mismatch:
        what = "A rule does not take what it is called with."
        facts = [
            f"called with positional arguments: {len(args)}, parameters: {', '.join(params) or 'none'}",
            f"takes: {signature}",
            f"reason: {mismatch}",
        ]
        if rule != "type":
            raise wrong(primitive, rule, what, *facts) from None
        # The first rule that an application meets, so its arguments are those of the program.
        fix = "Apply the primitive to what its `type` takes, or correct this rule."
        facts = [f"rule: type of {primitive.name!r}", *facts, *_place(primitive, rule)]
        raise RuleTypeError(message(what, *facts, fix=fix)) from None


def unhashable(primitive: Primitive, params: dict[str, Any]) -> TypeError | None:
    """The error of an application with a parameter that cannot be hashed; None where all can."""
    for name, value in params.items():
        try:
            hash(value)
        except TypeError:
            is_data = hasattr(value, "dtype")
            fix = (
                "Pass arrays as operands, by position: parameters are static."
                if is_data
                else "Pass tuples instead of lists, and frozen dataclasses or NamedTuples instead of dicts."
            )
            what = "The parameters of a primitive must be hashable: programs are remembered by them."
            fact = f"{name}: {value!r:.200} of type {type(value).__qualname__}"
            return TypeError(message(what, f"primitive: {primitive.name!r}", fact, fix=fix))
    return None


# --- What rules return ------------------------------------------------------------------------------------


def check_type(primitive: Primitive, rule: str, what: str, found: ShapedArray, wanted: ShapedArray) -> None:
    """RuleTypeError unless the two types agree in shape and dtype; either may be weak."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise wrong(primitive, rule, f"{what} has the wrong type.", f"returned: {found}, wanted: {wanted}")


def type_of(
    primitive: Primitive, rule: str, what: str, x: Any, wanted: ShapedArray | None = None
) -> ShapedArray:
    """The type of an array that a rule returned; RuleTypeError where it is no array."""
    try:
        return aval_of(x)
    except TypeError:
        of_type = "" if wanted is None else f": {wanted}"
        raise wrong(
            primitive, rule, f"{what} is no array.", f"returned: {shown(x)}, wanted: an array{of_type}"
        ) from None


def check_arrays(primitive: Primitive, rule: str, primal: Any, tangent: Any) -> None:
    """RuleTypeError unless a result and its tangent, as a rule returned them, are arrays."""
    wanted = type_of(primitive, rule, "A result", primal)
    type_of(primitive, rule, "The tangent of a result", tangent, wanted.tangent())


def check_known_tangent(primitive: Primitive, rule: str, primal: Any, tangent: Any) -> None:
    """RuleTypeError unless a tangent that depends on no other has its type; under DIDAX_CHECK=1, unless it is zero."""
    wanted = type_of(primitive, rule, "A result", primal).tangent()
    check_value(primitive, rule, "The tangent of a result", tangent, wanted)
    if config.state().check and not hasattr(tangent, "owner"):  # it is no tracer
        numbers: Any = np.asarray(tangent)
        if numbers.dtype != wanted.dtype or not np.any((numbers != 0) & (numbers == numbers)):
            return
        raise wrong(
            primitive, rule, "The tangent of a result is linear in the tangents of the operands.",
            f"returned: {numbers!r:.200}, which depends on no tangent, wanted: {wanted} of zeros, or a Zero",
        )  # fmt: skip


def check_value(primitive: Primitive, rule: str, what: str, x: Any, wanted: ShapedArray) -> None:
    """RuleTypeError unless `x` is an array of that type, weak or not."""
    check_type(primitive, rule, what, type_of(primitive, rule, what, x, wanted), wanted)


def check_results(primitive: Primitive, rule: str, outs: Any, wanted: Sequence[ShapedArray]) -> None:
    """RuleTypeError unless a rule returned the results of an application: a list of them with `multiple_results`."""
    check_list(primitive, rule, outs, len(wanted))
    for i, (y, aval) in enumerate(zip(as_list(primitive, outs), wanted, strict=True)):
        check_value(primitive, rule, f"Result {i}", y, aval)


def as_list(primitive: Primitive, outs: Any) -> Any:
    """The results as a list."""
    return outs if primitive.multiple_results else [outs]


def check_list(primitive: Primitive, rule: str, outs: Any, count: int | None = None) -> None:
    """RuleTypeError unless there are as many results, in a list if the primitive has `multiple_results`."""
    if not primitive.multiple_results:
        if type(outs) in _LISTS:
            raise wrong(
                primitive, rule, "A primitive without `multiple_results` has a single result.",
                f"returned: {shown(outs)}, wanted: one value, not in a list",
            )  # fmt: skip
        return
    how_many = "the results" if count is None else f"{count} results"
    if type(outs) not in _LISTS or count not in (None, len(outs)):
        raise wrong(
            primitive, rule, "A primitive with `multiple_results` has a list of results.",
            f"returned: {shown(outs)}, wanted: a list of {how_many}",
        )  # fmt: skip


_SECOND = {
    "jvp": ("tangent", "tangents"),
    "linearize": ("tangent", "tangents"),
    "batch": ("batch axis", "batch axes"),
}


def check_pair(primitive: Primitive, rule: str, found: Any) -> None:
    """RuleTypeError unless a rule returned results, and a tangent or a batch axis for each of them."""
    several = primitive.multiple_results
    second, seconds = _SECOND[rule]
    wanted = f"(results, {seconds}), two lists" if several else f"(result, {second})"
    if type(found) not in _LISTS or len(found) != 2:
        raise wrong(
            primitive, rule, f"A {rule} rule returns a pair.", f"returned: {shown(found)}, wanted: {wanted}"
        )
    if not several:
        return
    if any(type(part) not in _LISTS for part in found) or len(found[0]) != len(found[1]):
        raise wrong(
            primitive, rule, f"A {rule} rule returns one {second} for each result.",
            f"returned: {shown(found)}, wanted: {wanted} of one length",
        )  # fmt: skip


def wrong_cotangents(primitive: Primitive, found: Any, count: int) -> RuleTypeError:
    """The error of a transpose rule that returned no list of `count` cotangents."""
    return wrong(
        primitive, "transpose", "A transpose rule returns one entry for each operand: a cotangent or None.",
        f"returned: {shown(found)}, wanted: a list of {count}",
    )  # fmt: skip


def check_batch(
    primitive: Primitive, outs: Sequence[Any], dims: Sequence[int | None], wanted: Sequence[ShapedArray]
) -> None:
    """RuleTypeError unless one element of each result, whose batch axis is where it must be, has its wanted type."""
    if len(outs) != len(wanted):
        facts = f"returned: {len(outs)} results and {len(dims)} axes, wanted: {len(wanted)}"
        raise wrong(primitive, "batch", "There are too many or too few batched results.", facts)
    for i, (y, dim, aval) in enumerate(zip(outs, dims, wanted, strict=True)):
        found = type_of(primitive, "batch", f"Result {i}", y, aval)
        if dim is None:
            check_type(primitive, "batch", f"Result {i}, which is not batched,", found, aval)
            continue
        element = found.update(shape=found.shape[:dim] + found.shape[dim + 1 :])
        check_type(primitive, "batch", f"One element of batched result {i}", element, aval)


def check_axis(primitive: Primitive, size: int, value: Any, dim: Any) -> None:
    """RuleTypeError unless a value has an axis of that length at `dim`."""
    found = type_of(primitive, "batch", "A batched result", value)
    if not hasattr(dim, "__index__") or not 0 <= dim < found.ndim or found.shape[dim] != size:
        raise wrong(
            primitive, "batch", "A batched result has its batch axis where the rule says.",
            f"returned: {found} with its batch axis at {shown(dim)}",
            f"wanted: None, or the place from 0 on of an axis of length {size}",
        )  # fmt: skip


def result_types(primitive: Primitive, found: Any) -> tuple[ShapedArray, ...]:
    """The types that a type rule returned; RuleTypeError unless they are types."""
    several = primitive.multiple_results
    avals: Any = found if several else (found,)
    if type(avals) in _LISTS and all([type(aval) is ShapedArray for aval in avals]):
        return tuple(avals)
    wanted = "a list of ShapedArrays, one for each result" if several else "the ShapedArray of the result"
    raise wrong(
        primitive, "type", "A type rule returns types.", f"returned: {shown(found)}, wanted: {wanted}"
    )


def check_parts(primitive: Primitive, rule: str, found: Any, *parts: str) -> None:
    """RuleTypeError unless a rule returned as many values as there are `parts`, which name them."""
    if type(found) not in _LISTS or len(found) != len(parts):
        what = f"A {rule} rule returns {len(parts)} values."
        raise wrong(primitive, rule, what, f"returned: {shown(found)}, wanted: ({', '.join(parts)})")


def check_effects(primitive: Primitive, found: Any) -> None:
    """RuleTypeError unless an `effects` rule returned a frozenset of effects."""
    effects: Any = found
    if type(found) is not frozenset or not all(map(_is_effect, effects)):
        what = "The effects of an application are a frozenset of Effects."
        raise wrong(primitive, "effects", what, f"returned: {found!r:.100}, wanted: frozenset([Effect(...)])")


def _is_effect(x: Any) -> bool:
    return isinstance(x, Effect)


def check_numpy(primitive: Primitive, outs: Any, wanted: Sequence[ShapedArray]) -> None:
    """RuleTypeError unless an eager rule returned NumPy values of the wanted types."""
    check_list(primitive, "eager", outs, len(wanted))
    for i, (y, aval) in enumerate(zip(as_list(primitive, outs), wanted, strict=True)):
        numbers = aval.physical
        dtype = getattr(y, "dtype", None)
        if dtype != numbers.dtype or getattr(y, "shape", None) != numbers.shape:
            kind = f"{dtype}[{','.join(map(str, y.shape))}]" if dtype is not None else f"{y!r:.100}"
            raise wrong(
                primitive, "eager", f"Result {i} is no NumPy value of the type that the type rule tells.",
                f"returned: {kind} ({type(y).__name__}), wanted: {numbers}",
            )  # fmt: skip


def refused_text(primitive: Primitive, operands: Sequence[ShapedArray], text: str, said: str) -> RuleError:
    """The error of a lowering that XLA does not take: what XLA said, and the lines that the rule wrote."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "@main" in line) + 1
    written = [f"  {line}" for line in lines[start:-2] if not line.startswith("return ")]
    said = next((line.partition("error: ")[2] for line in said.splitlines() if "error: " in line), said)
    facts = [
        f"operands: {', '.join(map(str, operands))}",
        f"XLA says: {said:.500}",
        "written:",
        *written[:20],
    ]
    return RuleError(_text(primitive, "lower", "XLA does not take what a lower rule wrote.", *facts))


def failed(primitive: Primitive, rule: str, operands: Sequence[Any], error: Exception) -> Exception:
    """The error of a rule that raised where it must not; `error` itself where the error names a primitive already."""
    if isinstance(error, (NotImplementedError, RuleError)):
        return error
    facts = (
        f"operands: {', '.join(str(x.aval) for x in operands)}",
        f"raised: {type(error).__name__}: {error}",
    )
    return RuleError(_text(primitive, rule, f"A {rule} rule raised an exception.", *facts))


def check_kind(
    primitive: Primitive, rule: str, found: Any, kind: type | tuple[type, ...], wanted: str
) -> Any:
    """What a rule returned; RuleTypeError unless it is of that kind."""
    if not isinstance(found, kind):
        what = f"A {rule} rule returned something of another kind."
        raise wrong(primitive, rule, what, f"returned: {shown(found)}, wanted: {wanted}")
    return found
