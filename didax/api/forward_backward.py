"""`fwd_and_bwd`: the two halves of reverse mode as functions of their own. Read next: `autodiff.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.api.argnums import as_function_of, chosen_arguments
from didax.api.autodiff import vjp
from didax.api.flat import check_callable
from didax.api.jit import jit
from didax.core.errors import api_boundary


@api_boundary
def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward pass `fwd(*args)` of a function, and the backward pass `bwd(residuals, cotangent)`.

    The forward pass returns the result and the residuals, a pytree. With `has_aux`, `fun` returns a pair, whose second
    part is auxiliary data, the third result of the forward pass. The backward pass returns the cotangent of the
    argument that `argnums` numbers, or a tuple of cotangents if `argnums` is a sequence. Both are jitted, unless
    `jitted` is False; the backward pass is compiled once for all calls.

    >>> import didax as dx
    >>> fwd, bwd = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> y, residuals = fwd(2.0, 5.0)
    >>> [float(ct) for ct in bwd(residuals, 1.0)]
    [5.0, 2.0]
    """
    check_callable("fwd_and_bwd", fun)
    single = isinstance(argnums, int)
    numbers = (argnums,) if single else tuple(argnums)

    def forward(*args: Any) -> Any:
        chosen = chosen_arguments("fwd_and_bwd", fun, numbers, args)
        of_chosen = as_function_of(chosen, fun, args, {})
        return vjp(of_chosen, *[args[i] for i in chosen], has_aux=has_aux)

    def backward(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if single else found

    return (jit(forward), jit(backward)) if jitted else (forward, backward)
