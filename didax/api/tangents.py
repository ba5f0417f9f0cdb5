"""Tangents and cotangents that users pass, or that their rules return: each must fit the primal it belongs to.

A tangent has the shape and dtype of its primal, and a cotangent those of its result; where the dtype is an integer or a
boolean, both have dtype float0 and carry no numbers. `check_tangent` converts what fits (a Python number for a
float32 scalar) and raises an error that names the argument for what does not. Read next: `autodiff.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.api.flat import as_array, narrowed_scalar, result_name
from didax.core import dtypes, pytree
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.errors import ArgumentError, message
from didax.primitives.convert import convert_element_type


def check_tangents(
    caller: str, avals: Sequence[ShapedArray], tangents: Sequence[Any], name: Callable[[int], str]
) -> list[Any]:
    """Tangents of primals of these types, in the dtypes they must have; a float0 tangent becomes a symbolic zero.

    TypeError for one that does not fit; `name(i)` is the user's name for the i-th primal.
    """
    return [
        check_tangent(caller, aval, t, lambda i=i: name(i), "primal", "tangent")
        for i, (aval, t) in enumerate(zip(avals, tangents, strict=True))
    ]


def check_cotangents(
    caller: str, out_tree: Any, out_avals: Sequence[ShapedArray], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of results of these types, in the dtypes they must have; a float0 cotangent becomes a symbolic zero.

    TypeError for one that does not fit.
    """
    return [
        check_tangent(caller, aval, ct, lambda i=i: result_name(out_tree, i), "result", "cotangent")
        for i, (aval, ct) in enumerate(zip(out_avals, cotangents, strict=True))
    ]


def flatten_cotangents(rule: str, cotangents: Any, out_tree: Any) -> list[Any]:
    """The leaves of the cotangents; ArgumentError, which states the `rule`, unless they have the result's structure."""
    cts, ct_tree = pytree.flatten(cotangents)
    if ct_tree != out_tree:
        raise ArgumentError(
            message(
                rule,
                *pytree.mismatch(out_tree, ct_tree, "the result", "the cotangent").splitlines(),
                fix="Pass one cotangent for each result, in the same structure.",
            )
        )
    return cts


def mismatch(rule: str, primals: Any, tangents: Any, fix: str) -> TypeError:
    """The error for tangents that have another structure than the primals."""
    facts = pytree.mismatch(primals, tangents, "primals", "tangents", root="args")
    return TypeError(message(rule, *facts.splitlines(), fix=fix))


def check_tangent(
    caller: str, aval: ShapedArray, t: Any, name: Callable[[], str], owner: str, kind: str
) -> Any:
    """`t` in the dtype of a tangent of `aval`; a symbolic zero for float0.

    `kind` is "tangent" or "cotangent", and `owner` says what it belongs to: a primal, a result, an argument. A
    cotangent of an integer or boolean result may have any dtype. TypeError where `t` does not fit; `name()` is the
    user's name for the owner.
    """
    wanted = aval.tangent()
    if wanted.dtype == dtypes.float0:
        found = getattr(t, "dtype", None)
        if found == dtypes.float0 and t.shape == wanted.shape:
            return Zero(wanted)
        if kind == "cotangent" and is_array_like(t) and aval_of(t).shape == wanted.shape:
            return Zero(wanted)  # nothing depends on it, and users like to pass the results as cotangents
    elif is_array_like(t):
        t = t if aval_of(t).dtype == wanted.dtype else narrowed_scalar(t)
        found_aval = aval_of(t)
        if found_aval.shape == wanted.shape and (
            found_aval.dtype == wanted.dtype or _weakly_fits(found_aval, wanted)
        ):
            weak = wanted.weak_type and (found_aval.weak_type or kind != "cotangent")
            return convert_element_type(t, wanted.dtype, weak)
    zero = wanted.dtype == dtypes.float0
    raise ArgumentError(
        message(
            f"In {caller} a {kind} has the shape and dtype of its {owner} "
            "(float0 where that is an integer or boolean).",
            f"{name()}: {owner} {aval}, {kind} {type_text(t)}, expected {wanted}",
            fix=f"Pass np.zeros({wanted.shape}, didax.float0)."
            if zero
            else f"Cast or reshape the {kind}, or the {owner}.",
        )
    )


def _weakly_fits(found: ShapedArray, wanted: ShapedArray) -> bool:
    """True for a weakly typed number of a kind that `wanted` includes: an integer fits a float."""
    kinds = "biufc"
    return found.weak_type and kinds.index(dtypes.kind_of(found.dtype)) <= kinds.index(
        dtypes.kind_of(wanted.dtype)
    )


def type_text(x: Any) -> str:
    """What an error says of a value: the type of an array, or the value itself with its Python type."""
    return str(aval_of(x)) if is_array_like(x) else f"{x!r:.100} of type {type(x).__name__}"


def materialise(t: Any) -> Any:
    """The array for a tangent or cotangent that may be a symbolic zero (a NumPy array of float0 for integers)."""
    return as_array(instantiate(t))
