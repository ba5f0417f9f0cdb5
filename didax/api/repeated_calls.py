"""The hot path of `jit`: calls of a jitted function with arguments like those of an earlier call.

The first call of a signature stages and compiles (`JitFunction.call_by_signature`), or runs what is compiled
(`Compiled.call_by_signature`). It leaves a record of what a call of this kind comes down to. The second call writes it
as code, which `RepeatedCalls.__call__` tries from then on before anything else; a call of another kind goes the long
way. Read next: `call_code.py` (the code), `jit_cache.py` (the records), `jit.py` (the long way).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from didax.api.call_code import call_code, kind_of
from didax.api.jit_cache import ABSENT, JitCache, RepeatedCall
from didax.api.specialization import Results, Specialization
from didax.api.static import StaticArguments
from didax.core import config, pytree
from didax.core.avals import ShapedArray
from didax.core.errors import strip_internal_frames
from didax.core.exact import exact_key
from didax.core.primitive import current_trace_var, eager_trace
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.runtime.array import ConcreteArray
from didax.transforms.named_axes import axis_env

if TYPE_CHECKING:
    from didax.xla.compile import Executable

P = ParamSpec("P")
R = TypeVar("R")

# Note [The hottest path]
# XLA runs a small program in 4 us, and JAX adds 1 us in C++. So `__call__` and the code that it calls come down to few
# bytecodes: what is read every time is a slot; context variables are asked by bound methods made once, as Python 3.11
# would make one each time for `imported_name.get()`; XLA's functions are called as methods of their objects; results
# are made without their `__init__`. A plain function instead of an object with `__call__` would save 0.2 us more, but
# `functools.wraps` would copy its `lower` and `trace` to functions that compute something else.

_get_current = current_trace_var.get
_CODES_MAX = 4  # that are tried one after the other


class RepeatedCalls(Generic[P, R]):
    """A compiled function as it is called: by what it remembers of earlier calls, where that applies."""

    __slots__ = ("__dict__", "__weakref__", "_buckets", "_cache", "_codes")
    _buckets: Any  # a BucketCalls, where jit got bucket=
    _cache: JitCache
    _codes: dict[Any, tuple[Callable[..., Any], ...]]  # those of the cache
    _has_static: bool
    _static: StaticArguments

    def call_by_signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for any arguments."""
        raise NotImplementedError

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, x=ABSENT, /, *rest, **kwargs):
            # See Note [The hottest path]
            try:
                if _get_current() is eager_trace:
                    for code in self._codes.get(x.aval if type(x) is ConcreteArray else None, ()):
                        result = code(x, rest, kwargs)
                        if result is not ABSENT:
                            return result
                return self.call_by_signature(() if x is ABSENT else (x, *rest), kwargs)
            except Exception as error:
                strip_internal_frames(error)
                raise

    def _repeat(
        self, kind: tuple[Any, ...], leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a call of a kind that has a record, but no code that was tried already; else `ABSENT`.

        `kind` are the structure of the arguments that are data, the static ones, and the options.
        """
        if not self._cache.repeated_calls:
            return ABSENT
        try:
            call = self._cache.repeated_calls.get((*kind, *map(kind_of, leaves)))
        except TypeError:  # a Ref is no value
            return ABSENT
        if call is None:
            return ABSENT
        first = args[0] if args else ABSENT
        key = first.aval if type(first) is ConcreteArray else None
        codes = self._codes.get(key, ())
        if call.code is None:
            call.code = call_code(call, args, kwargs, [where for where, _, _ in kind[1]], leaves)
        elif call.code in codes:
            return ABSENT
        self._codes[key] = (call.code, *codes[: _CODES_MAX - 1])
        return call.code(first, args[1:], kwargs)

    def one_array_call(self, aval: ShapedArray) -> RepeatedCall | None:
        """What repeats a call with one array of this type for one result; None where there was no such call."""
        tree = pytree.structure(((aval,), {}))
        call = self._cache.repeated_calls.get((tree, (), config.state(), aval))
        return call if call is not None and call.is_plain else None

    # Note [What a program was staged under]
    # A program depends on the options and the named axes that were in force: `specializations` is keyed by both. The
    # hot path compares only the options, so a call is remembered for it where no axis has a name. Eager evaluation does
    # not imply that: a callback or a custom rule runs inside of `vmap`. And where the function, or another thread,
    # changes the options while it is staged, the program serves this call and is not kept.

    def _run_first(self, specialization: Specialization, kind: tuple[Any, ...], leaves: list[Any]) -> Any:
        """The result of a call; those of its kind are repeated from now on, where nothing but the run is to do."""
        outs = specialization.run(leaves)
        if specialization.refs is None:
            self._remember(specialization, kind, leaves)
        return specialization.result(outs)

    def _remember(
        self, results: Results, kind: tuple[Any, ...], leaves: list[Any], executable: Executable | None = None
    ) -> None:
        """Repeat calls of this kind from now on, where nothing but a run is to do: of `executable`, if there is one."""
        program, state = results.program, kind[2]
        # See Note [What a program was staged under]
        if (
            program is None
            or axis_env.get()
            or config.state() is not state
            or (ready := program.ready_to_run(leaves)) is None
            or ready.executable is not (executable or ready.executable)
        ):
            return
        key_flow = program.key_flow if key_reuse_is_on() else None
        donated = program.donated if True in program.donated else None
        call = RepeatedCall(
            ready.executable, results, state, ready.captured, donated, ready.kept, key_flow, ready.layouts
        )
        self._cache.repeated_calls.setdefault((*exact_key(kind), *map(kind_of, leaves)), call)
