"""The programs that a page shows: the function's own, its gradient's, the batched one, the two halves of its
linearization.

Each is staged, its equations are numbered (`marks.py`), and it becomes a `View`: what a page needs of it.
Read next: `texts.py`, `costs.py`, `memory.py`, then `page.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from didax.api.autodiff import grad
from didax.api.jit import JitFunction, jit
from didax.api.stages import ShapeDtypeStruct, Traced, struct_of
from didax.api.vmap import vmap
from didax.core import dtypes, pytree
from didax.core.errors import ArgumentError, message
from didax.core.source import function_name
from didax.debug._explore.marks import Numbered, number
from didax.runtime.compiled import Program
from didax.transforms.linearize import linearize_jaxpr

TRANSFORMS = ("grad", "vmap", "linearize")
BATCH = 8  # how many examples a batch of `vmap` has


class View(NamedTuple):
    """A program to look at."""

    name: str
    label: str
    numbered: Numbered
    num_consts: int
    inputs: Sequence[str]  # names of the inputs
    program: Program | None  # of the numbered jaxpr; None where it cannot be compiled by itself
    partition: Any = None  # where it runs on several devices
    # Runs it; None where there are no arguments.
    call: tuple[Callable[..., Any], Sequence[Any], dict[str, Any]] | None = None

    def stablehlo(self) -> str | None:
        """The module, whose operations say where they come from."""
        return None if self.program is None else self.program.text(partition=self.partition, located=True)

    def executable(self) -> Any:
        """XLA's program, compiled anew: one that is remembered may come from other lines. None without a program."""
        return None if self.program is None else self.program.compiled_anew(self.partition).loaded


class Absent(NamedTuple):
    """A transformation that the function has no program for, and why."""

    name: str
    why: str


class Call(NamedTuple):
    """A function with its arguments: jitted as it is called, and as a function of data alone, to be transformed."""

    jitted: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    fun: Callable[..., Any]
    data: tuple[Sequence[Any], dict[str, Any]]
    names: Sequence[str]  # of the arrays

    @staticmethod
    def of(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """The call of any function; of a jitted one the static arguments are no data."""
        jitted = fun if isinstance(fun, JitFunction) else jit(fun)
        static = jitted._static  # pyright: ignore[reportPrivateUsage]
        plain, data, named, names = static.of_data(args, kwargs)
        return Call(jitted, args, kwargs, plain, (data, named), names)


def views(call: Call, wanted: Sequence[str] | None) -> Iterator[View | Absent]:
    """The function's own program, then the transformed ones.

    Of transformations that nobody asked for by name, those that cannot be applied are `Absent`.
    """
    traced = call.jitted.trace(*call.args, **call.kwargs)
    yield _view("none", function_name(call.jitted), traced, call.names, (call.jitted, call.args, call.kwargs))
    for name in TRANSFORMS if wanted is None else [name for name in wanted if name != "none"]:
        try:
            yield from _TRANSFORMED[name](call, traced)
        except Exception as error:
            if wanted is not None:
                raise
            yield Absent(name, str(error).partition("\n")[0])


def checked_transforms(transform: Any) -> Sequence[str] | None:
    """The names of the transformations that are asked for; None for all that apply."""
    if transform is None:
        return None
    given = (
        tuple(transform)
        if isinstance(transform, Iterable) and not isinstance(transform, str)
        else (transform,)
    )
    for name in given:
        if name not in ("none", *TRANSFORMS):
            rule = "explore shows a function as it is, and transformed by grad, vmap or linearize."
            names = ", ".join(map(repr, TRANSFORMS))
            fix = f"Pass {names} or several of them, or explore the function that is transformed."
            raise ArgumentError(message(rule, f"transform: {name!r:.100}", fix=fix))
    return given


def _view(name: str, label: str, traced: Traced, inputs: Sequence[str], call: Any) -> View:
    consts = len(traced.closed.consts)
    numbered = number(traced.closed.jaxpr)
    program, partition = traced.program_of(numbered.jaxpr) or (None, None)
    captured = [f"captured array {i}" for i in range(consts)]
    return View(name, label, numbered, consts, [*captured, *inputs], program, partition, call)


def _gradient(call: Call, traced: Traced) -> Iterator[View]:
    staged, (args, kwargs) = jit(grad(call.fun)), call.data
    label = f"grad({function_name(call.jitted)})"
    yield _view("grad", label, staged.trace(*args, **kwargs), call.names, (staged, args, kwargs))


def _batched(call: Call, traced: Traced) -> Iterator[View]:
    def several(x: Any) -> ShapeDtypeStruct:
        one = ShapeDtypeStruct.like(x)
        return one.update(shape=(BATCH, *one.shape), sharding=None)

    args, kwargs = pytree.map(several, call.data)
    batched = jit(vmap(call.fun)).trace(*args, **kwargs)
    yield _view("vmap", f"vmap({function_name(call.jitted)})", batched, call.names, None)


def _halves(call: Call, traced: Traced) -> Iterator[View]:
    consts, names = traced.closed.consts, call.names
    differentiated = [dtypes.is_inexact(aval.dtype) for aval in traced.closed.in_avals]
    if not any(differentiated):
        rule = "linearize needs a floating-point argument."
        raise TypeError(message(rule, fix="Pass floating-point numbers."))
    jaxpr = traced.closed.jaxpr
    split = linearize_jaxpr(jaxpr, (*[False] * len(consts), *differentiated))
    inputs = [*[f"captured array {i}" for i in range(len(consts))], *names]
    known, unknown = number(split.known), number(split.unknown)
    residuals = [inputs[k] if kind == "in" else f"residual {k}" for kind, k in split.residuals]
    tangents = [f"tangent of {name}" for name, live in zip(names, differentiated, strict=True) if live]
    label, alone = f"linearize({function_name(call.jitted)})", traced.program_of(jaxpr) is not None
    yield _half("linearize", f"{label}, forward half", known, consts, inputs, alone)
    yield _half("linear", f"{label}, linear half", unknown, (), [*residuals, *tangents], alone)


def _half(
    name: str, label: str, numbered: Numbered, consts: Sequence[Any], inputs: Sequence[str], alone: bool
) -> View:
    if not alone:
        return View(name, label, numbered, len(consts), inputs, None)
    program = Program(numbered.jaxpr, consts)
    partition = program.partition_for(list(map(struct_of, numbered.jaxpr.in_avals[len(consts) :])))
    return View(name, label, numbered, len(consts), inputs, program, partition)


_TRANSFORMED = {"grad": _gradient, "vmap": _batched, "linearize": _halves}
