"""Jaxprs as JAX has them: constants apart from inputs, inner programs closed, parameters by JAX's names.

A `Jaxpr` made of one of Didax's shows the same variables and equations, and evaluating it evaluates that program. One
that a program writes itself, equation by equation, is evaluated equation by equation; where Didax needs it as an inner
program (of a scan, say), it is staged. Read next: `programs.py`, which completes them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

from didax.api.inspect import make_jaxpr as make_didax_jaxpr
from didax.as_jax.jaxpr_text import eqn_text, jaxpr_text, jaxprs_in_params
from didax.as_jax.primitive import Primitive
from didax.core import jaxpr as core
from didax.core.avals import ShapedArray
from didax.core.dtypes import as_extended
from didax.core.effects import NO_EFFECTS
from didax.core.given import given_by
from didax.core.jaxpr import Atom, Literal, Var
from didax.core.value import Array
from didax.runtime.array import written_numbers
from didax.transforms.named_axes import AxisData, extend_axis_env
from didax.transforms.rewriting import trace_closed
from didax.transforms.staging import trace_to_jaxpr

__all__ = [
    "Atom", "ClosedJaxpr", "DebugInfo", "DropVar", "Jaxpr", "JaxprEqn", "Literal", "Var", "eval_jaxpr", "jaxpr_as_fun",
    "jaxprs_in_params", "make_jaxpr", "new_jaxpr_eqn", "subjaxprs",
]  # fmt: skip


class DropVar:
    """JAX's variable for a result that nobody uses. Didax has ordinary variables there: nothing is an instance."""

    def __init__(self, *_: Any):
        raise NotImplementedError("Didax gives results that nobody uses ordinary variables: use Var.")


class DebugInfo:
    """What a jaxpr was traced from: names for texts."""

    def __init__(
        self,
        traced_for: str = "jit",
        func_src_info: str = "",
        arg_names: Any = None,
        result_paths: Any = None,
    ):
        self.traced_for, self.func_src_info = traced_for, func_src_info
        self.arg_names, self.result_paths = arg_names, result_paths

    @property
    def func_name(self) -> str:
        """The function's name."""
        return self.func_src_info.split(" ")[0]

    def _replace(self, **changes: Any) -> DebugInfo:
        return DebugInfo(**{**vars(self), **changes})


class SourceInfo:
    """Where an equation comes from."""

    def __init__(self, line: Any):
        self.traceback, self.name_stack = line, ""

    def replace(self, **_: Any) -> SourceInfo:
        """The same: Didax keeps the line alone."""
        return self


class JaxprEqn:
    """`outvars = primitive[params] invars`."""

    def __init__(
        self,
        invars: Sequence[Any],
        outvars: Sequence[Any],
        primitive: Primitive,
        params: dict[str, Any],
        effects: Any = NO_EFFECTS,
        source_info: Any = None,
        ctx: Any = None,
    ):
        self.invars, self.outvars = list(invars), list(outvars)
        self.primitive, self.params, self.effects = primitive, params, effects
        self.source_info, self.ctx = source_info or SourceInfo(None), ctx

    def replace(self, **changes: Any) -> JaxprEqn:
        """The same equation with some fields replaced."""
        return JaxprEqn(**{**vars(self), **changes})

    def __repr__(self) -> str:
        return eqn_text(self)


def new_jaxpr_eqn(
    invars: Sequence[Any], outvars: Sequence[Any], primitive: Primitive, params: dict[str, Any],
    effects: Any = NO_EFFECTS, source_info: Any = None, ctx: Any = None,
) -> JaxprEqn:  # fmt: skip
    """An equation."""
    return JaxprEqn(invars, outvars, primitive, params, effects, source_info, ctx)


def gensym() -> Callable[[Any], Var]:
    """A function that makes a new variable of a type."""
    return Var


class Jaxpr:
    """A typed program; `constvars` are the inputs for captured values."""

    view_eqn = given_by("didax.as_jax.programs")  # an equation of Didax's as JAX has it

    def __init__(
        self,
        constvars: Sequence[Any],
        invars: Sequence[Any],
        outvars: Sequence[Any],
        eqns: Sequence[JaxprEqn],
        effects: Any = NO_EFFECTS,
        debug_info: Any = None,
        is_high: bool = False,
    ):
        self.constvars, self.invars, self.outvars = list(constvars), list(invars), list(outvars)
        self._eqns: list[JaxprEqn] | None = list(eqns)
        self.effects, self.is_high = effects, is_high
        self.debug_info = debug_info or DebugInfo()
        self._didax: core.Jaxpr | None = None

    @property
    def eqns(self) -> list[JaxprEqn]:
        """The equations, in order."""
        if self._eqns is None:
            assert self._didax is not None
            self._eqns = [Jaxpr.view_eqn(eqn) for eqn in self._didax.eqns]
        return self._eqns

    @property
    def in_avals(self) -> list[ShapedArray]:
        """Types of the inputs after the constants."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """Types of the outputs."""
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> Jaxpr:
        """The same program with some fields replaced."""
        fields = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info", "is_high")
        return Jaxpr(
            **{name: changes.pop(name) if name in changes else getattr(self, name) for name in fields},
            **changes,
        )

    def didax(self) -> core.Jaxpr:
        """The program as Didax has it: constants are leading inputs."""
        if self._didax is None:
            avals = [v.aval for v in (*self.constvars, *self.invars)]
            n = len(self.constvars)
            run = lambda *args: _interpret(self, args[:n], args[n:])
            self._didax = trace_closed(run, avals, what="a jaxpr")
        return self._didax

    def __repr__(self) -> str:
        return jaxpr_text(self)

    def pretty_print(self, **_: Any) -> str:
        """The program's text."""
        return repr(self)


_views: WeakValueDictionary[tuple[int, int], Jaxpr] = WeakValueDictionary()


def view(jaxpr: core.Jaxpr, num_consts: int = 0) -> Jaxpr:
    """A program of Didax's as JAX has it; the same object as long as somebody holds it."""
    # The view holds the jaxpr, so the number stays the jaxpr's while the entry lives.
    key = id(jaxpr), num_consts
    found = _views.get(key)
    if found is None:
        found = Jaxpr(jaxpr.invars[:num_consts], jaxpr.invars[num_consts:], jaxpr.outvars, [], jaxpr.effects)
        found.debug_info = DebugInfo(func_src_info=jaxpr.name)
        found._eqns, found._didax = None, jaxpr
        _views[key] = found
    return found


class ClosedJaxpr:
    """A program with the values of its constants."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        self.jaxpr, self.consts = jaxpr, list(consts)

    in_avals = property(lambda self: self.jaxpr.in_avals)
    out_avals = property(lambda self: self.jaxpr.out_avals)
    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    literals = property(lambda self: self.consts)
    is_high = property(lambda self: self.jaxpr.is_high)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None) -> ClosedJaxpr:
        """The same with another program, or other constants."""
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def map_jaxpr(self, change: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """The same with a changed program."""
        return ClosedJaxpr(change(self.jaxpr), self.consts)

    def didax(self) -> core.Jaxpr:
        """The program as an inner program of Didax's, which has no constants of its own."""
        own = self.jaxpr.didax()
        if not self.consts:
            return own
        avals = [v.aval for v in self.jaxpr.invars]
        found, captured = trace_to_jaxpr(
            lambda *args: core.eval_jaxpr(own, [*self.consts, *args]), avals, what="a jaxpr"
        )
        if captured:
            raise NotImplementedError(
                "A jaxpr that is closed over arrays cannot be an inner program in Didax. Make the arrays its inputs."
            )
        return found

    def __repr__(self) -> str:
        return repr(self.jaxpr)

    def pretty_print(self, **_: Any) -> str:
        """The program's text."""
        return repr(self)


def closed_view(closed: core.ClosedJaxpr) -> ClosedJaxpr:
    """A closed program of Didax's as JAX has it."""
    return ClosedJaxpr(view(closed.jaxpr, len(closed.consts)), closed.consts)


def evaluate(jaxpr: Any, args: Sequence[Any]) -> list[Any]:
    """Results of a jaxpr, closed or without constants."""
    if isinstance(jaxpr, ClosedJaxpr):
        return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)
    return eval_jaxpr(jaxpr, (), *args)


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True
) -> list[Any]:
    """Run a program, each equation bound under the current trace."""
    if jaxpr._didax is not None:
        return core.eval_jaxpr(jaxpr._didax, [*consts, *args])
    return _interpret(jaxpr, consts, args)


def _interpret(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = {
        **dict(zip(jaxpr.constvars, consts, strict=True)),
        **dict(zip(jaxpr.invars, args, strict=True)),
    }

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        outs = eqn.primitive.bind(*map(read, eqn.invars), **eqn.primitive.get_bind_params(eqn.params))
        env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True))
    return [read(x) for x in jaxpr.outvars]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a function of flat arguments that returns the list of its results."""
    return functools.partial(eval_jaxpr, closed_jaxpr.jaxpr, closed_jaxpr.consts)


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: Any = (), axis_env: Any = None, return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """The jaxpr that `fun` is staged to for given arguments, as JAX has it."""
    asked = _asked(abstracted_axes=abstracted_axes)
    make_didax_jaxpr(fun, static_argnums, return_shape, **asked)  # looks at the arguments now
    axes = [AxisData(name, size) for name, size in axis_env or ()]

    @functools.wraps(fun)
    def to_jaxpr(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as scope:
            for axis in axes:
                scope.enter_context(extend_axis_env(axis))
            made = scope.enter_context(written_numbers.recorded())
            # Staged anew at each call, because no numbers are recorded for a program that is remembered.
            anew = functools.wraps(fun)(lambda *args, **kwargs: fun(*args, **kwargs))
            found = make_didax_jaxpr(anew, static_argnums, return_shape)(*args, **kwargs)
        if return_shape:
            return closed_view(_with_scalars_captured(found[0], made)), found[1]
        return closed_view(_with_scalars_captured(found, made))

    return to_jaxpr


def _with_scalars_captured(closed: core.ClosedJaxpr, made: Sequence[Array]) -> core.ClosedJaxpr:
    """The program with its captured scalar arrays as constants, not as literals, in the order of their first use.

    Libraries convert closures to programs with constants, and ask that those of two branches have equal structures.
    Scalars that were `made` while the function was traced stay literals, as numbers, as in JAX.
    """
    count = len(closed.consts)
    given = dict(zip(closed.jaxpr.invars[:count], closed.consts, strict=True))
    own = {id(x) for x in made}
    captured: dict[Any, tuple[Var, Any]] = {}

    def atom(x: Any) -> Any:
        if type(x) is Literal and isinstance(x.val, Array):
            if id(x.val) in own:
                return _number(x)
            return captured.setdefault(id(x.val), (Var(x.aval), x.val))[0]
        if x in given:
            captured.setdefault(x, (x, given[x]))
        return x

    eqns = [eqn.replace(invars=[atom(x) for x in eqn.invars]) for eqn in closed.jaxpr.eqns]
    outvars = [atom(x) for x in closed.jaxpr.outvars]
    found = [*captured.values(), *[(x, value) for x, value in given.items() if x not in captured]]
    invars = [*[x for x, _ in found], *closed.jaxpr.invars[count:]]
    return core.ClosedJaxpr(
        core.Jaxpr(invars, eqns, outvars, closed.jaxpr.name), tuple(value for _, value in found)
    )


def _number(literal: Literal) -> Literal:
    """The literal with a Python or NumPy number in place of an array without axes."""
    if as_extended(literal.aval.dtype):
        return literal
    value = literal.val.host_value()
    return Literal(value.item() if literal.aval.weak_type else value[()], literal.aval)


def _asked(**keywords: Any) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if value is not None}


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs directly inside the equations of one."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)
