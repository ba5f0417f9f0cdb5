"""`jax.core.Trace`: an interpreter that a program writes itself, as JAX has it.

    class MyTrace(jax.core.Trace):
        def process_primitive(self, primitive, tracers, params): ...

    with take_current_trace() as parent:
        with set_current_trace(MyTrace(parent)):
            f(MyTracer(...))

It is one of Didax's traces, whose `process` hands each operation on with JAX's primitive and parameters. While it runs,
operations go to the trace around it. Read next: `programs.py`, which has the primitives as JAX knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.as_jax.linear_util import WrappedFun, wrap_init
from didax.as_jax.programs import CUSTOM, view_of
from didax.core.array_ops import instantiate
from didax.core.errors import message
from didax.core.jaxpr import eval_jaxpr
from didax.core.primitive import Primitive, eager_trace
from didax.core.primitive import Trace as DidaxTrace
from didax.core.tracing import set_current_trace
from didax.primitives.custom.call import python_call_p, rules_call_p
from didax.primitives.custom.rules import Rules


class TraceTag:
    """What tells apart the tracers of different runs of one interpreter: equal to itself alone."""


class _AnyTrace(type):
    """Each of Didax's traces is an instance of JAX's class of traces."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, DidaxTrace) if cls is Trace else type.__instancecheck__(cls, x)


class Trace(DidaxTrace, metaclass=_AnyTrace):
    """The base class of interpreters that define `process_primitive(primitive, tracers, params)`.

    The trace around it is `parent_trace`, which its class sets; without it operations are evaluated.
    """

    transformation = "an interpreter of the program's own"
    ended = False  # pyright: ignore[reportAssignmentType]
    function = None  # pyright: ignore[reportAssignmentType]
    parent: Any = property(lambda self: getattr(self, "parent_trace", eager_trace))
    requires_low = True

    def __init__(self) -> None:
        """Nothing: classes that derive from it need not call it."""

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        with set_current_trace(self.parent):
            if primitive is python_call_p or primitive is rules_call_p:
                return self._process_rules(params["rules"], params.get("jaxpr"), args)
            view = view_of(primitive)
            return self.process_primitive(view, list(args), view.to_jax(params))

    def _process_rules(self, rules: Rules, jaxpr: Any, args: Sequence[Any]) -> Any:
        run = rules.run if jaxpr is None else lambda *xs: eval_jaxpr(jaxpr, xs)
        if "jvp" not in rules.given:
            return self.process_custom_vjp_call(
                CUSTOM["custom_vjp_call"], wrap_init(run), _by_didax(rules), _by_didax(rules), list(args),
                out_trees=None, symbolic_zeros=False,
            )  # fmt: skip
        return self.process_custom_jvp_call(
            CUSTOM["custom_jvp_call"],
            wrap_init(run),
            wrap_init(_jvp(rules)),
            list(args),
            symbolic_zeros=False,
        )

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        """Apply an operation; every interpreter defines it."""
        raise NotImplementedError(
            f"{type(self).__name__} has no process_primitive, which an interpreter needs."
        )

    def process_custom_jvp_call(
        self, primitive: Any, fun: WrappedFun, jvp: WrappedFun, tracers: Any, /, *, symbolic_zeros: bool
    ) -> Any:
        """Call a function with a jvp rule: `jvp` takes primals, then tangents, and returns results, then tangents."""
        raise _undefined(self, "process_custom_jvp_call", fun)

    def process_custom_vjp_call(
        self, primitive: Any, fun: WrappedFun, fwd: Any, bwd: Any, tracers: Any, /, *, out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:  # fmt: skip
        """Call a function with a vjp rule. `fwd` and `bwd` are run by Didax alone."""
        raise _undefined(self, "process_custom_vjp_call", fun)

    def stage_value(self, val: Any) -> Any:
        """A tracer of this interpreter for a value; Didax does not ask for one."""
        raise NotImplementedError(f"{type(self).__name__} has no stage_value.")

    def full_raise(self, x: Any) -> Any:
        """The value itself."""
        return x


def _undefined(trace: Trace, method: str, fun: WrappedFun) -> NotImplementedError:
    rule = f"{type(trace).__name__} has no {method}, which a function with derivative rules of its own needs."
    return NotImplementedError(message(rule, f"function: {fun.__name__}"))


def _jvp(rules: Rules) -> Any:
    def jvp(*xs: Any) -> list[Any]:
        half = len(xs) // 2
        outs, tangents = rules.jvp(xs[:half], xs[half:])
        return [*outs, *map(instantiate, tangents)]

    return jvp


def _by_didax(rules: Rules) -> Any:
    def run(*_: Any) -> Any:
        rule = "The vjp rule of a function is run by Didax alone, not by an interpreter of the program's own."
        fix = "Give the function a jvp rule (jax.custom_jvp), or call fun, which leaves the rule out."
        raise NotImplementedError(message(rule, f"function: {rules.name}", fix=fix))

    return wrap_init(run)
