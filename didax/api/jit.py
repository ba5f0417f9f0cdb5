"""`jit`: stage a function once per signature, compile it, run the compiled program from then on.

A call flattens its arguments and looks for the `Specialization` of their signature: structure, types, static values,
options. Where there is none the function is staged. Under another transformation the call stays a call: a `jit_p`
equation with the staged jaxpr. Calls like an earlier one take a shorter way (`repeated_calls.py`).
Read next: `specialization.py`, `runtime/compiled.py` (running), `primitives/call.py` (transforming), `stages.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from didax.api.buckets import UNPADDED, BucketCalls, as_buckets
from didax.api.cache_misses import explain_miss, tell, traced_before
from didax.api.donation import DonatedArguments
from didax.api.flat import FlatFunction, argument_names, check_callable, flatten_arguments
from didax.api.function_objects import FunctionObject, update_wrapper
from didax.api.jit_cache import ABSENT, Remembering, cache_of
from didax.api.jit_options import JitOptions, JitSettings, check_place
from didax.api.jit_shardings import laid_out
from didax.api.refs import RefArguments, check_not_captured, leaf_types
from didax.api.repeated_calls import RepeatedCalls
from didax.api.specialization import Specialization
from didax.api.stages import Lowered, Traced
from didax.api.static import StaticArguments, as_names, as_numbers, with_gaps
from didax.core import config, monitoring, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary
from didax.core.exact import exact_key
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.ref import RefType, ref_type
from didax.core.source import name_of
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.key_reuse import summarise
from didax.transforms.named_axes import axis_env
from didax.transforms.staging import stage_program, values_of

P = ParamSpec("P")
R = TypeVar("R")


class JitFunction(RepeatedCalls[P, R], Remembering, FunctionObject):
    """A function that runs compiled; made by `jit`. `RepeatedCalls` has its `__call__`."""

    __slots__ = ()

    def __init__(self, fun: Callable[P, R], settings: JitSettings):
        update_wrapper(self, fun)
        self._fun = fun
        self._settings = settings
        self._static = StaticArguments("jit", fun, *settings.static)
        self._has_static = bool(self._static)
        self._donated = DonatedArguments(fun, *settings.donated)
        self._cache = cache_of(fun, settings.key)
        self._codes = self._cache.codes
        if settings.bucket is not None:
            self._buckets = BucketCalls(fun, settings, self._static, self._cache)

    def call_by_signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        dynamic, named, static = self._static.split(args, kwargs) if self._has_static else (args, kwargs, ())
        leaves, tree = flatten_arguments(dynamic, named)
        try:
            avals = tuple([aval_of(x) for x in leaves])
        except TypeError:  # a Ref; or no array, which is an error that names the argument
            avals = self._types(dynamic, named, static)
        state = config.state()
        if state.disable_jit:
            return self._fun(*args, **kwargs)
        if self._settings.bucket is not None:
            outs = self._buckets.result((tree, state, avals, static), dynamic, named, leaves)
            if outs is not UNPADDED:
                return outs
        eager = current_trace_var.get() is eager_trace
        kind = (tree, static, state)
        if eager and (result := self._repeat(kind, leaves, args, kwargs)) is not ABSENT:
            return result
        found = self._cache.specializations.get((tree, state, avals, static, ())) if eager else None
        if found is None:
            found = self._specialize(dynamic, named, static, tree, avals, state)
        if found.refs is not None:
            check_not_captured("jit", self._fun, found.captured, leaves)
        if not eager or found.program is None:
            return found.result(found.bind(leaves))
        return self._run_first(found, kind, leaves)

    def _specialize(
        self, args: Sequence[Any], kwargs: Any, static: Any, tree: Any, avals: Any, state: config.State
    ) -> Specialization:
        """The function staged for a signature under these options: from the cache, or by tracing."""
        signature = (tree, config.of_programs(state), avals, static, tuple(axis_env.get().items()))
        found = self._cache.specializations.get(signature)
        found = found or traced_before(self._fun, self._cache.specializations, signature)
        if found is None:
            given, args = args, with_gaps(args, static)
            names = argument_names(self._fun, args, kwargs)
            if state.explain_cache_misses:
                tell(explain_miss(self._fun, signature, self._cache.specializations, names))
            flat = FlatFunction(self._static.filled(static), tree, "jit")
            flat = laid_out(self._fun, flat, self._settings.shardings, given, kwargs, names)
            refs = [i for i, aval in enumerate(avals) if isinstance(aval, RefType)]
            of_values = RefArguments(flat, refs)
            in_avals = [aval.aval if isinstance(aval, RefType) else aval for aval in avals]
            fun = of_values if refs else flat
            with monitoring.Elapsed(monitoring.TRACED, fun_name=name_of(self._fun)):
                staged = stage_program(fun, in_avals, function=self._fun, arg_names=names)
            if key_reuse_is_on():
                summarise(staged.jaxpr)  # which reports the keys that the function itself uses twice
            donated = self._donated.of_leaves(args, kwargs)
            found = Specialization(staged, of_values, flat, donated, self._settings, names)
            # See Note [What a program was staged under]
            if not found.captures_tracers and config.state() is state:
                self._cache.add(exact_key(signature), found)
        return found

    def _types(self, args: Any, kwargs: Any, static: Any) -> tuple[ShapedArray | RefType, ...]:
        """Types of the leaves; errors name the argument that has none."""
        avals, refs = leaf_types("jit", self._fun, with_gaps(args, static), kwargs)
        return tuple([ref_type(aval) if i in refs else aval for i, aval in enumerate(avals)])

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stage for these arguments (arrays or `ShapeDtypeStruct`s) without running: `.jaxpr`, `.lower()`."""
        dynamic, named, static = self._static.split(args, kwargs)
        leaves, tree = pytree.flatten((dynamic, named))
        avals = self._types(dynamic, named, static)
        name = name_of(self) or name_of(self._fun) or type(self._fun).__name__  # callable objects have none
        if self._settings.bucket is not None:
            padded = self._buckets.traced(name, (tree, config.state(), avals, static), dynamic, named, leaves)
            if padded is not None:
                return padded
        found = self._specialize(dynamic, named, static, tree, avals, config.state())
        donated = self._donated.of_leaves(with_gaps(dynamic, static), named)
        refs = [] if found.refs is None else found.captured[found.refs.num_constants :]
        again = lambda: self.trace(*args, **kwargs)
        rest = found.program, found.run, len(found.written), [*refs, *leaves], donated, again
        return Traced(name, found.jaxpr, values_of(found.captured), tree, found.out_tree, *rest)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stage and lower for these arguments: `.as_text()`, `.compile()`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Shapes and dtypes of the results, without computing them."""
        return self.trace(*args, **kwargs).out_info

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """What compilation for these arguments does to each loop, and why not more."""
        return self.trace(*args, **kwargs).explain()


@overload
def jit(fun: Callable[P, R], **options: Unpack[JitOptions]) -> JitFunction[P, R]: ...
@overload
def jit(**options: Unpack[JitOptions]) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
@api_boundary
def jit(
    fun: Any = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    compiler_options: dict[str, Any] | None = None,
    inline: bool = False,
    keep_unused: bool = False,
    compile_in_background: bool | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    backend: str | None = None,
    device: Any = None,
    bucket: Any = None,
) -> Any:
    """Compile `fun` with XLA: traced once per signature of its arguments, then run as a compiled program.

    Args:
      fun: function over arrays and pytrees of them; its side effects happen while tracing only.
      static_argnums, static_argnames: arguments that are not data but part of the program: hashable, and a new value
        means a new trace.
      donate_argnums, donate_argnames: arguments whose memory may be reused for results; they are gone afterwards.
      compiler_options: XLA debug options by name.
      inline: accepted for compatibility; calls are never inlined.
      keep_unused: hand the program also the arguments that no result depends on; by default they are left out.
      compile_in_background: evaluate calls until their program is compiled; None: as the option of that name says.
      in_shardings, out_shardings: how the positional arguments and the results lie on devices: a prefix of the tuple of
        arguments and of the results; None leaves them where they are, and to the partitioner.
      backend, device: deprecated; the ones of the process are accepted, as programs run there.
      bucket: pad axes of many lengths to few: shapes with names for these lengths (`bucket="n, ..."`), or a `Buckets`.

    Without `fun` (`jit(static_argnums=1)`) it returns a decorator.

    >>> import didax as dx
    >>> f = dx.jit(lambda x: x * 2 + 1)
    >>> float(f(3.0))
    7.0
    """
    check_place(backend, device)
    settings = JitSettings(
        (as_numbers(static_argnums, "static_argnums"), as_names(static_argnames)),
        (as_numbers(donate_argnums, "donate_argnums"), as_names(donate_argnames)),
        compiler_options,
        keep_unused,
        compile_in_background,
        (in_shardings, out_shardings),
        None if bucket is None else as_buckets(bucket),
    )

    def jitted(fun: Any) -> Any:
        check_callable("jit", fun)
        settings.check(fun)
        return JitFunction(fun, settings)

    return api_boundary(jitted) if fun is None else jitted(fun)
