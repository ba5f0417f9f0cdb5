"""`checkpoint`: save memory in reverse mode by computing intermediate values again; and reports of what is saved.

    grad(f)              runs f, keeps what the backward pass needs of it, runs the backward pass
    grad(checkpoint(f))  runs f, keeps its arguments, runs f again and the backward pass

`checkpoint_name` names values for the policies that decide what is kept nevertheless (`didax/checkpoint_policies.py`),
`saved_residuals` lists what is kept. Read next: `didax/primitives/checkpoint.py`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, overload

from didax.api.flat import (
    FlatFunction,
    argument_names,
    as_array,
    check_callable,
    flatten_arguments,
    leaf_avals,
)
from didax.api.refs import closing_over_refs, leaf_types, other_leaves, store
from didax.api.static import StaticArguments, as_names, as_numbers, check_arguments_exist, with_gaps
from didax.api.traced import trace_with_refs
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.source import SourceLine, wraps
from didax.primitives.call import Call
from didax.primitives.checkpoint import Policy, checkpoint_name_p, checkpoint_p
from didax.primitives.sharding import memory_p
from didax.transforms.linearize import linearize_flat
from didax.transforms.split import prune
from didax.transforms.staging import trace_to_jaxpr, values_of

P = ParamSpec("P")
R = TypeVar("R")


@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Callable[P, R]: ...
@overload
def checkpoint(
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@api_boundary
def checkpoint(
    fun: Any = None,
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """`fun`, of which differentiation keeps only the arguments; all else that it needs is computed again from these.

    Args:
      fun: function over arrays and pytrees of them; it is traced, so its side effects happen while tracing only.
      prevent_cse: keep the compiler from merging the second computation with the first, which would undo it. Inside a
        loop's body it cannot merge them, and False lets it fuse more. In a sequence of bools, one True is enough.
      policy: which intermediate values may be kept nevertheless; see `didax.checkpoint_policies`. None: none.
      static_argnums, static_argnames: arguments that are not data but part of the program: hashable, and a new value
        means a new trace.

    Without `fun` (`checkpoint(policy=...)`) it returns a decorator. `remat` is the same function.

    >>> import didax as dx, didax.numpy as dnp
    >>> f = dx.checkpoint(lambda x: dnp.sin(dnp.sin(x)))
    >>> float(f(0.0)), float(dx.grad(f)(0.0))
    (0.0, 1.0)
    >>> dx.ad_checkpoint.print_saved_residuals(f, 0.0)
    float32[], 4 bytes: argument x
    """
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    check_callable("checkpoint", fun)
    _check_policy(policy)
    static = StaticArguments(
        "checkpoint",
        fun,
        as_numbers(static_argnums, "static_argnums"),
        as_names(static_argnames),
        hashable=False,
    )
    check_arguments_exist("checkpoint", fun, "static", static.numbers, tuple(static.names))
    barrier = prevent_cse if isinstance(prevent_cse, bool) else any(prevent_cse)
    functions: dict[Any, Callable[..., Any]] = {(): fun}
    of_others = functools.partial(checkpoint, prevent_cse=prevent_cse, policy=policy)

    @wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if config.state().disable_jit:
            return fun(*args, **kwargs)
        dynamic, named, key = static.split(args, kwargs) if static else (args, kwargs, ())
        filled = static.filled(key)
        # With a static argument that is not hashable the function is traced anew in each call.
        with contextlib.suppress(TypeError):
            filled = functions.setdefault(key, filled)
        leaves, tree = flatten_arguments(dynamic, named)
        avals, refs = leaf_types("checkpoint", fun, with_gaps(dynamic, key), named)
        if refs:
            return of_others(closing_over_refs(filled, leaves, tree))(*other_leaves(leaves))
        traced = trace_with_refs("checkpoint", filled, tree, tuple(avals))
        operands = [*values_of(traced.captured), *leaves]
        outs = checkpoint_p.bind(*operands, jaxpr=traced.jaxpr, prevent_cse=barrier, policy=policy)
        outs = store(traced.written, outs)
        return pytree.unflatten(traced.out_tree, [as_array(y) for y in outs])

    return api_boundary(checkpointed)


remat = checkpoint


def _check_policy(policy: Any) -> None:
    try:
        hash(policy)
        good = policy is None or callable(policy)
    except TypeError:
        good = False
    if not good:
        raise TypeError(
            message(
                "The policy of checkpoint is None or a hashable function: policy(primitive, *avals, **params) -> bool.",
                f"policy: {policy!r:.100} of type {type(policy).__name__}",
                fix="Pass one of didax.checkpoint_policies, or a function.",
            )
        )


@api_boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, an array or a pytree of arrays, with a name that policies of `checkpoint` know it by.

    >>> import didax as dx
    >>> float(dx.checkpoint_name(2.0, "hidden"))
    2.0
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            message(
                "The name that checkpoint_name gives is a string.",
                f"name: {name!r:.100} of type {type(name).__name__}",
                fix="Call checkpoint_name(x, name).",
            )
        )
    leaves, tree = flatten_arguments((x,), {})
    leaf_avals("checkpoint_name", checkpoint_name, (x,), {})
    (named,), _ = pytree.unflatten(tree, [checkpoint_name_p.bind(leaf, name=name) for leaf in leaves])
    return named


# --- Reports --------------------------------------------------------------------------------------


class Residual(NamedTuple):
    """A value that is kept from the forward pass to the backward pass.

    `saved_residuals` lists them.

    >>> import didax as dx, didax.numpy as dnp
    >>> (found,) = dx.ad_checkpoint.saved_residuals(dnp.sin, 1.0)
    >>> found.aval, found.nbytes, found.origin
    (float32[], 4, 'output of cos')
    """

    aval: ShapedArray
    nbytes: int
    origin: str
    line: SourceLine | None

    def __str__(self) -> str:
        where = f" from {self.line}" if self.line is not None else ""
        return f"{self.aval}, {self.nbytes} bytes: {self.origin}{where}"


@api_boundary
def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Residual]:
    """The values that `vjp` of `fun` keeps for the backward pass: arguments, captured arrays, then computed values.

    Every floating-point or complex argument counts as differentiated; arguments are arrays or `ShapeDtypeStruct`s.

    >>> import didax as dx, didax.numpy as dnp
    >>> [r.origin for r in dx.ad_checkpoint.saved_residuals(lambda x: dnp.sin(dnp.sin(x)), 1.0)]
    ['output of cos', 'output of cos']
    """
    check_callable("saved_residuals", fun)
    _, tree = flatten_arguments(args, kwargs)
    avals = leaf_avals("saved_residuals", fun, args, kwargs)
    flat = FlatFunction(fun, tree, "saved_residuals")
    inexact = [dtypes.is_inexact(a.dtype) for a in avals]

    def residuals(*xs: Any) -> list[Any]:
        _, program = linearize_flat(flat, xs, inexact, function=fun)
        tape = prune(program.eqns, [y for y in program.outs if isinstance(y, Var)])
        return [x.val for eqn in tape for x in eqn.invars if isinstance(x, Literal)]

    jaxpr, captured = trace_to_jaxpr(residuals, avals, function=fun, what="saved_residuals")
    names = [
        *(["captured array"] * len(captured)),
        *(f"argument {n}" for n in argument_names(fun, args, kwargs)),
    ]
    found = dict.fromkeys(v for v in jaxpr.outvars if isinstance(v, Var))
    inputs = [v for v in (*jaxpr.invars[len(captured) :], *jaxpr.invars[: len(captured)]) if v in found]
    computed = [v for v in found if v not in inputs]
    places = dict(zip(jaxpr.invars, names, strict=True))
    return [_residual(jaxpr, v, places) for v in (*inputs, *computed)]


def _residual(jaxpr: Jaxpr, v: Var, places: dict[Any, str]) -> Residual:
    nbytes = v.aval.physical.size * v.aval.physical.dtype.itemsize
    found, kind = _producer(jaxpr, v)
    lies = "" if kind is None else f", in {kind}"
    if not isinstance(found, Eqn):
        return Residual(v.aval, nbytes, places.get(found, "constant") + lies, None)
    name = found.params["name"] if found.primitive is checkpoint_name_p else None
    origin = f"named {name!r}" if name is not None else f"output of {found.primitive}"
    return Residual(v.aval, nbytes, origin + lies, found.source)


def _producer(jaxpr: Jaxpr, v: Atom) -> tuple[Eqn | Atom, str | None]:
    """The equation that computes a variable, looked for inside calls and loops as well; or the input that it is.

    With it comes the kind of memory that the value was moved to.
    """
    eqn = next((eqn for eqn in jaxpr.eqns if v in eqn.outvars), None)
    if eqn is None:
        return v, None
    if eqn.primitive is memory_p:
        return _producer(jaxpr, eqn.invars[0])[0], eqn.params["kind"]
    inner = eqn.params.get("jaxpr")
    if not isinstance(inner, Jaxpr) or len(inner.outvars) != len(eqn.outvars):
        return eqn, None
    found, kind = _producer(inner, inner.outvars[list(eqn.outvars).index(v)])  # pyright: ignore[reportArgumentType]
    if isinstance(found, Eqn):
        return found, kind
    if isinstance(eqn.primitive, Call) and isinstance(found, Var):
        return _producer(jaxpr, eqn.invars[inner.invars.index(found)])
    return eqn, kind


@api_boundary
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what `vjp` of `f` keeps for the backward pass, a line for each value: type, bytes, where it is from.

    >>> import didax as dx
    >>> dx.ad_checkpoint.print_saved_residuals(lambda x, y: x * y, 2.0, 3.0)
    float32[], 4 bytes: argument x
    float32[], 4 bytes: argument y
    """
    for residual in saved_residuals(f, *args, **kwargs):
        print(residual)
