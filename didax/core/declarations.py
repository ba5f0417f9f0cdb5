"""What the declaration of a primitive must be, and the errors for a declaration that is wrong.

A primitive is declared once, as a class with its rules: see `primitive.py`. The checks here help those who write one.
They find a misspelt rule, a name that programs cannot be written with, and a rule that is asked for but absent. They
help those who write an interpreter as well: what its `process` returns is checked.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.dtypes import as_extended
from didax.core.errors import MissingRuleError, RuleTypeError, message
from didax.core.primitive_names import is_of_library
from didax.core.source import describe_function

RULES = (
    "type", "eager", "eager_text", "evaluate", "lower", "jvp", "taylor", "linearize", "transpose", "batch",
    "partial_eval", "dce", "recompute", "sharding", "physical", "keys", "conditions", "checkify", "sparsity", "stage",
    "replace_captured", "run_jaxprs", "padded", "differs", "agree", "memories",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w*(-[A-Za-z]\w*)*")  # as the parser of programs reads names


def check_declaration(primitive: Any, name: str) -> None:
    """TypeError or ValueError for a primitive whose declaration breaks a rule."""
    kind: Any = primitive.__class__
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            message(
                "The name of a primitive is a word: programs are written, and read again, by these names.",
                f"name: {name!r}, of {kind.__name__}",
                fix="Use letters, digits and underscores, and a letter first.",
            )
        )
    for rule in RULES:
        if (found := getattr(kind, rule)) is not None and not callable(found):
            raise TypeError(
                message(
                    "A rule is a function; None says that there is none.",
                    f"rule: {rule} of {name!r}",
                    f"given: {found!r:.100}",
                    fix=f"Give {kind.__name__} a `{rule}` method.",
                )
            )
    if unknown := [rule for rule in primitive.holes if rule not in RULES]:
        raise ValueError(
            message(
                "`holes` gives the reasons why rules are absent.",
                f"name: {name!r}, holes: {', '.join(map(repr, unknown))}",
                fix=f"Name rules: {', '.join(RULES)}.",
            )
        )


_WORDS = {
    "type": "staged",
    "eager": "evaluated",
    "lower": "compiled",
    "jvp": "differentiated",
    "transpose": "transposed (reverse-mode differentiated)",
    "batch": "batched by vmap",
    "checkify": "checkified",
}


def missing_rule(primitive: Any, rule: str) -> MissingRuleError:
    """The error for a rule that an interpreter asks for, and that the primitive has not."""
    why = primitive.holes.get(rule)
    return MissingRuleError(
        message(
            f"Primitive {primitive.name!r} cannot be {_WORDS.get(rule, rule)}: it has no {rule} rule.",
            *([f"reason: {why}"] if why else []),
            *_misnamed(primitive, rule),
            fix=f"{_advice(primitive, rule)} the operation out of that transformation.",
        )
    )


def _advice(primitive: Any, rule: str) -> str:
    """What to do about a rule that is absent: nobody gives a method to a class of this library."""
    kind: Any = primitive.__class__
    if kind.__module__.partition(".")[0] != "didax":
        return f"Give {kind.__name__} a `{rule}` method, or keep"
    if is_of_library(primitive):
        return "Keep"
    return f"Declare {primitive.name!r} with a {rule} rule, or keep"


# What a rule is called elsewhere, or by mistake.
_OTHER_NAMES = {
    "type": ("abstract_eval", "abstract", "infer", "types", "typing", "shape"),
    "lower": ("lowering", "lowers", "hlo", "stablehlo", "mlir"),
    "batch": ("batching", "batcher", "vmap", "batches"),
    "jvp": ("jvps", "derivative", "tangent", "forward"),
    "transpose": ("transposes", "transposition", "vjp", "backward"),
    "eager": ("impl", "numpy"),
}


def _misnamed(primitive: Any, rule: str) -> list[str]:
    """A method of the class that may be meant for the rule, as a fact."""
    kind: Any = primitive.__class__
    own: dict[str, Any] = kind.__dict__
    return [
        f"found: {name}, which no interpreter asks for" for name in _OTHER_NAMES.get(rule, ()) if name in own
    ]


def check_extended(primitive: Any, avals: tuple[ShapedArray, ...]) -> None:
    """TypeError where elements are no numbers (but random keys), and the primitive does more than move them."""
    if primitive.moves_elements or primitive.physical is not None or primitive.dce is not None:
        return
    if (error := no_numbers(primitive.name, avals)) is not None:
        raise error


def no_numbers(name: str, avals: Sequence[ShapedArray]) -> TypeError | None:
    """The error of a function `name` for operands whose elements are no numbers; None where all are numbers."""
    for aval in avals:
        if (dtype := as_extended(aval.dtype)) is not None:
            rule = f"{name} takes numbers, and {dtype.noun} are none."
            return TypeError(message(rule, f"operands: {', '.join(map(str, avals))}", fix=dtype.advice))
    return None


# --- Interpreters -----------------------------------------------------------------------------------------


def check_process(kind: Any) -> None:
    """Have the `process` of a class of traces that is not of this library raise where it returns no result."""
    process = kind.__dict__.get("process")
    if kind.__module__.partition(".")[0] == "didax" or not inspect.isfunction(process):
        return

    @functools.wraps(process)
    def checked(self: Any, primitive: Any, args: Any, params: Any) -> Any:
        out: Any = process(self, primitive, args, params)
        outs: Any = out if primitive.multiple_results else [out]
        if not isinstance(outs, list | tuple) or not all(map(_is_result, outs)):  # pyright: ignore[reportUnknownArgumentType]
            raise _no_result(kind, self, primitive, out)
        return out

    kind.process = checked


def _is_result(x: Any) -> bool:
    return x is not None and not isinstance(x, list | tuple)


def _no_result(kind: Any, trace: Any, primitive: Any, out: Any) -> RuleTypeError:
    what = (
        "the list of an operation's results" if primitive.multiple_results else "the result of an operation"
    )
    form = "a list of arrays or tracers" if primitive.multiple_results else "an array or a tracer"
    return RuleTypeError(
        message(
            f"The `process` of a trace returns {what}: {form}.",
            f"trace: {kind.__name__} ({trace.describe()})",
            f"primitive: {primitive.name!r}",
            f"returned: {out!r:.100}",
            f"by: {describe_function(kind.process)}",
            fix=f"Return {form} from {kind.__name__}.process, or what its parent returns: "
            "`return self.parent.process(primitive, args, params)`.",
        )
    )
