"""`argnums`: the positional arguments that `grad` and the Jacobians differentiate, and what these must be.

`chosen_arguments` finds them in a call, and `as_function_of` fixes all others. Arguments and results must have a dtype
that has derivatives: the checks here raise errors that name the argument or the result by its path. Read next:
`autodiff.py` (grad), `jacobians.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.api.flat import leaf_avals, positional_names, result_name
from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, message
from didax.core.source import describe_function


def chosen_arguments(caller: str, fun: Any, numbers: Sequence[int], args: tuple[Any, ...]) -> list[int]:
    """The positions that `numbers`, which may count from the end, stand for in a call with these arguments."""
    chosen = [i + len(args) if i < 0 else i for i in numbers]
    if any(not 0 <= i < len(args) for i in chosen):
        raise ArgumentError(
            message(
                f"argnums of {caller} must number positional arguments of the call.",
                f"argnums: {tuple(numbers)}, positional arguments: {len(args)}",
                f"function: {describe_function(fun)}",
                fix="Pass the arguments to differentiate by position, and number them from 0.",
            )
        )
    if len(chosen) > 1 and len(set(chosen)) < len(chosen):
        raise ArgumentError(
            message(
                f"argnums of {caller} must number each argument once.",
                f"argnums: {tuple(numbers)}, positional arguments: {len(args)}",
                f"function: {describe_function(fun)}",
                fix="Leave out what is there twice: an argument has one derivative.",
            )
        )
    return chosen


def chosen_avals(
    caller: str, fun: Any, args: tuple[Any, ...], chosen: Sequence[int], leaves: Sequence[Any]
) -> list[ShapedArray]:
    """The types of the `leaves` of the chosen arguments; TypeError, which names the argument, where one has none."""
    try:
        return [aval_of(x) for x in leaves]
    except TypeError:
        for i in chosen:
            only_this = [x if i == j else None for j, x in enumerate(args)]
            leaf_avals(caller, fun, only_this, {})  # raises
        raise


def as_function_of(
    chosen: Sequence[int], fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """`fun` as a function of the chosen positional arguments; all others stay as they are in this call."""

    def of_chosen(*values: Any) -> Any:
        filled = list(args)
        for i, x in zip(chosen, values, strict=True):
            filled[i] = x
        return fun(*filled, **kwargs)

    # Error messages look through `__wrapped__`. `functools.wraps` sets it as well, but takes 4 us a call.
    of_chosen.__wrapped__ = fun  # pyright: ignore[reportFunctionMemberAccess]
    return of_chosen


def check_arguments_differentiable(
    caller: str,
    fun: Any,
    args: Any,
    chosen: Sequence[int],
    avals: Sequence[ShapedArray],
    holomorphic: bool,
    allow_int: bool = False,
    forward: bool = False,
) -> None:
    """TypeError for a leaf of the chosen arguments whose dtype cannot be differentiated.

    In `forward` mode a complex argument would need two columns of the Jacobian, one for each of its parts.
    """
    for i, aval in enumerate(avals):
        if holomorphic:
            if dtypes.is_complex(aval.dtype):
                continue
            rule, fix = f"{caller} with holomorphic=True takes complex arguments", "Cast it to complex."
        elif dtypes.is_complex(aval.dtype) and forward:
            rule = f"{caller} takes real arguments: by a complex one there are two derivatives"
            others = ["Pass holomorphic=True", "differentiate by real and imaginary parts"]
            others += ["use jacrev of a real result"] if caller == "jacfwd" else []
            fix = f"{', '.join(others[:-1])}, or {others[-1]}."
        elif allow_int or dtypes.is_inexact(aval.dtype):
            continue
        else:
            rule = f"{caller} takes floating-point arguments"
            other = "or choose other argnums" if forward else "choose other argnums, or pass allow_int=True"
            fix = f"Cast it to a floating-point type, {other}."
        names = positional_names(fun, len(args))
        paths = [
            names[j] + pytree.keystr(path) for j in chosen for path, _ in pytree.flatten_with_path(args[j])[0]
        ]
        raise TypeError(message(f"{rule}.", f"argument {paths[i]}: {aval}", fix=fix))


def check_scalar(caller: str, fun: Any, out: Any, holomorphic: bool) -> None:
    """TypeError unless the result of `fun` is one scalar of a dtype that has a gradient."""
    leaves = pytree.leaves(out)
    aval = aval_of(leaves[0]) if len(leaves) == 1 else None
    if aval is None or (not hasattr(out, "dtype") and not isinstance(out, int | float | complex)):
        rule, fact = "a single scalar", f"result: {pytree.map(aval_of, out)}"
        fix = "Return one scalar; use has_aux=True for other data."
    elif aval.shape != ():
        rule, fact = "a scalar", f"result: {aval}"
        fix = "Sum or average it, or use jacrev or jacfwd for the Jacobian."
    elif holomorphic and not dtypes.is_complex(aval.dtype):
        rule, fact, fix = "a complex scalar (holomorphic=True)", f"result: {aval}", "Drop holomorphic=True."
    elif not holomorphic and not dtypes.is_float(aval.dtype):
        rule, fact = "a real floating-point scalar", f"result: {aval}"
        fix = "Cast it to a floating-point type, or take its real part (holomorphic=True for holomorphic functions)."
    else:
        return
    says = f"The function given to {caller} must return {rule}."
    raise TypeError(message(says, f"function: {describe_function(fun)}", fact, fix=fix))


def check_results_differentiable(caller: str, fun: Any, out: Any, holomorphic: bool) -> None:
    """TypeError for a result whose dtype has no cotangents of its own (a complex one needs `holomorphic`)."""
    accepted = dtypes.is_complex if holomorphic else dtypes.is_float
    for i, y in enumerate(pytree.leaves(out)):
        if not accepted(aval_of(y).dtype):
            kind = "complex arrays (holomorphic=True)" if holomorphic else "real floating-point arrays"
            part = ", take its real part (holomorphic=True for holomorphic functions)"
            other = part if dtypes.is_complex(aval_of(y).dtype) else ""
            raise TypeError(
                message(
                    f"The function given to {caller} must return {kind}.",
                    f"function: {describe_function(fun)}",
                    f"{result_name(pytree.structure(out), i)}: {aval_of(y)}",
                    fix=f"Cast it{other}, or return it by has_aux=True.",
                )
            )
