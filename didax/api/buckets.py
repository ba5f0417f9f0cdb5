"""`jit(..., bucket=)`: arrays of many lengths, and few programs.

The function is traced once, over symbolic sizes (`BucketTrace`). A call finds the sizes in the shapes of its arguments,
takes the padded size of each from `Buckets`, and runs the program of this bucket, which serves all lengths in it.
A trace serves the calls for which its comparisons of sizes come out the same. Other calls get a trace of their own. If
a size is 0, or equals a size that the trace took to be a different one, the call gets a program without padding.
Read next: `didax/primitives/bucketed.py`, the call; `didax/passes/buckets.py`, the program; `docs/buckets.md`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from didax.api.cache_misses import tell
from didax.api.donation import DonatedArguments
from didax.api.flat import FlatFunction, argument_names, positional_names
from didax.api.jit_cache import JitCache
from didax.api.jit_options import JitSettings
from didax.api.stages import Traced
from didax.api.static import StaticArguments, with_gaps
from didax.core import config, dtypes, monitoring, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import Constraint, Dim, Scope, Size, bounds, evaluate, is_symbolic
from didax.core.errors import ArgumentError, message
from didax.core.exact import exact_key, exact_structure
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import eager_trace
from didax.core.ref import Ref, RefType
from didax.core.source import describe_function, name_of
from didax.core.symbolic_shapes import shape_of_text, sizes_of
from didax.core.tracing import Tracer, current_trace
from didax.passes.buckets import Bucket, pad_jaxpr
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.key_reuse import summarise
from didax.primitives.bucketed import Sizes, bucketed_p
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.bucketed import Fitting, fitting_of, run_program
from didax.runtime.compiled import Program
from didax.runtime.sharded import ShardedArray
from didax.transforms.named_axes import axis_env
from didax.transforms.staging import StagingTrace, stage_program

_SMALLEST = 8  # the smallest bucket where none are given: shorter arrays cost as much


@dataclasses.dataclass(frozen=True)
class Buckets:
    """Which axes `jit` pads, and to which lengths.

    Args:
      axes: shapes with names in the place of the lengths that vary, as texts: `"n, 3"`, or `"n, ..."` for an array of
        any number of axes. One text is for all arrays of the arguments; a tuple has one for each positional argument, a
        dictionary for arguments by name, and each may be a pytree prefix of its argument. None leaves arrays as they
        are, and `_` leaves a length as it is. Arrays without axes are never padded.
      sizes: the lengths to pad to, in order: a sequence of ints, a function of the real length, or a dictionary of
        these by name. Without it they are the powers of two from 8 on.

    >>> import didax as dx, didax.numpy as dnp
    >>> mean = dx.jit(lambda x: x.mean(), bucket=dx.Buckets("n", sizes=(100, 1000)))
    >>> float(mean(dnp.arange(5.0))), float(mean(dnp.arange(99.0)))
    (2.0, 49.0)
    """

    axes: Any
    sizes: Any = None

    def __post_init__(self) -> None:
        for text in pytree.leaves(self.axes):
            if not isinstance(text, str):
                rule = "bucket= has texts such as 'n, 3' in the places of arrays, or None."
                fix = "Write bucket='n, ...'."
                raise ArgumentError(message(rule, f"got: {text!r:.100} in {self.axes!r:.100}", fix=fix))
        given = cast("Mapping[str, Any]", self.sizes)
        for sizes in given.values() if isinstance(self.sizes, Mapping) else [self.sizes]:
            if sizes is None or callable(sizes):
                continue
            lengths = list(sizes)
            if (
                not lengths
                or any(not isinstance(n, int) or n < 1 for n in lengths)
                or lengths != sorted(lengths)
            ):
                rule = "The sizes of buckets are ints from 1 on, in ascending order, or a function of the length."
                raise ArgumentError(
                    message(rule, f"sizes: {sizes!r:.100}", fix="Write sizes=(64, 256, 1024).")
                )

    def _of(self, name: str) -> Any:
        by_name = cast("Mapping[str, Any]", self.sizes)
        return by_name.get(name) if isinstance(self.sizes, Mapping) else self.sizes

    def longest(self, name: str) -> int | None:
        """The largest length that an axis of that name may have, if the sizes say so."""
        sizes = self._of(name)
        return None if sizes is None or callable(sizes) else max(sizes)

    def padded(self, name: str, n: int) -> int:
        """The length to which an axis of length n is padded."""
        sizes = self._of(name)
        if sizes is None:
            return max(_SMALLEST, 1 << (n - 1).bit_length())
        if callable(sizes):
            found: Any = sizes(n)
            if not hasattr(found, "__index__") or found < n:
                rule = "The function of bucket= returns a length that is not below the one it gets."
                fix = "Round up, for example to a multiple: lambda n: -(-n // 64) * 64."
                raise ValueError(message(rule, f"{name} = {n}, returned: {found!r:.100}", fix=fix))
            return int(found)
        fitting = [size for size in sizes if size >= n]
        if not fitting:
            rule = "An axis is longer than the largest size of bucket=."
            fix = "Add a larger size, or cut the array."
            raise ValueError(message(rule, f"{name} = {n}, sizes: {tuple(sizes)}", fix=fix))
        return fitting[0]

    @property
    def key(self) -> Hashable:
        """Equal for buckets that make the same programs."""
        by_name = cast("Mapping[str, Any]", self.sizes)
        given: Any = tuple(by_name.items()) if isinstance(self.sizes, Mapping) else self.sizes
        return repr(self.axes), given if callable(given) else repr(given)


def as_buckets(bucket: Any) -> Buckets:
    """The option `bucket` of `jit`; what is no `Buckets` names the axes."""
    return bucket if isinstance(bucket, Buckets) else Buckets(bucket)


# --- Which axes have names ----------------------------------------------------------------------------------


def _texts(fun: Any, axes: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str | None]:
    """A text or None for each leaf of the arguments."""
    names = positional_names(fun, len(args))
    given = [*zip(names, args, strict=True), *sorted(kwargs.items())]
    if isinstance(axes, dict):
        by_name = cast("dict[str, Any]", axes)
        if unknown := sorted(set(map(str, by_name)) - {name for name, _ in given}):
            rule = "A dictionary of bucket= names arguments of the call."
            facts = f"not arguments: {', '.join(unknown)}; arguments: {', '.join(name for name, _ in given)}"
            raise ArgumentError(message(rule, facts, fix="Use the parameter names of the function."))
    elif isinstance(axes, tuple | list):
        entries = cast("Sequence[Any]", axes)
        if len(entries) != len(args):
            rule = "A tuple of bucket= has one entry for each positional argument."
            facts = f"bucket: {axes!r:.200} ({len(entries)} entries), positional arguments: {len(args)}"
            raise ArgumentError(
                message(rule, facts, fix="Write None for those without named axes, or a dictionary.")
            )
        by_name = dict(zip(names, entries, strict=True))
    else:
        by_name = {name: axes for name, _ in given}
    found: list[Any] = []
    for name, arg in given:
        found += pytree.broadcast_prefix(
            by_name.get(name), arg, f"bucket[{name!r}]", is_leaf=lambda x: x is None, of=name
        )
    return found


def _symbolic_types(
    texts: Sequence[str | None], avals: Sequence[ShapedArray], names: Sequence[str], scope: Scope
) -> list[ShapedArray]:
    """The types of the arguments with names in the place of lengths."""
    types: list[ShapedArray] = []
    for text, aval, name in zip(texts, avals, names, strict=True):
        if text is None or not aval.ndim:
            types.append(aval)
            continue
        try:
            shape = shape_of_text(text, scope, aval.shape)
        except ValueError as error:
            raise ArgumentError(f"{error}\nThis is bucket= for argument {name}, {aval}.") from None
        if any(map(is_symbolic, shape)) and dtypes.as_extended(aval.dtype) is not None:
            rule = "bucket= pads arrays of numbers."
            fix = "Leave the axis without a name, or pass random.key_data."
            raise ArgumentError(message(rule, f"argument {name}: {aval}", fix=fix))
        types.append(aval.update(shape=shape))
    return types


# --- The trace over all sizes -------------------------------------------------------------------------------


class ObservedScope(Scope):
    """Sizes with known examples. Where Python compares a size, the example decides, and the decision is noted.

    `decided` are the sizes that have to be at least 0 where the trace is used, `apart` those that were taken to be
    different from 0; `constraints` are what bounds follow from.
    """

    def __init__(self, longest: Mapping[str, int]):
        super().__init__(longest)
        self.sizes: dict[str, int] | None = None  # None when the function is not being traced
        self.decided: list[Size] = []
        self.apart: dict[Dim, None] = {}

    def settle(self, x: Dim) -> bool | None:
        if self.sizes is None:
            return None
        holds = evaluate(x, self.sizes) >= 0
        known: Size = x if holds else -x - 1
        self.decided.append(known)
        if not any(factor.args for monomial, _ in known.terms for factor, _ in monomial):
            self.constraints += (Constraint(known, False, f"{known} >= 0"),)
        return holds

    def told_apart(self, x: Dim, other: object) -> None:
        if self.sizes is None or not isinstance(other, int | np.integer | Dim):
            return
        if isinstance(other, Dim) and other.scope is not self:
            return
        sizes, self.sizes = self.sizes, None  # the arithmetic compares sizes, too
        try:
            difference: Size = x - other
            low, high = bounds(difference)
            if isinstance(difference, Dim) and low <= 0 <= high:
                self.apart[difference] = None
        finally:
            self.sizes = sizes

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the decisions are those at these sizes."""
        return all(evaluate(size, sizes) >= 0 for size in self.decided)

    def coincides(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes that were taken to be different are the same."""
        return any(evaluate(x, sizes) == 0 for x in self.apart)


class BucketTrace:
    """The function staged over symbolic sizes, and its programs by bucket."""

    def __init__(self, jaxpr: Jaxpr, captured: Sequence[Any], flat: FlatFunction, scope: ObservedScope):
        self.jaxpr = jaxpr
        self.captured = [x if isinstance(x, Tracer) else as_concrete(x) for x in captured]
        self.out_tree = flat.out_tree
        self.scope = scope
        self.programs: dict[Bucket, Program] = {}

    @property
    def captures_tracers(self) -> bool:
        """Whether the function closed over values of an enclosing transformation: it serves this call only."""
        return any(isinstance(x, Tracer) for x in self.captured)


@dataclasses.dataclass(frozen=True, slots=True)
class BucketCall:
    """All that calls with arguments of some types need."""

    trace: BucketTrace
    sizes: Sizes
    bucket: Bucket

    def bind(self, leaves: Sequence[Any]) -> Any:
        """The result under the current trace."""
        trace = self.trace
        outs = bucketed_p.bind(
            *trace.captured, *leaves, jaxpr=trace.jaxpr, sizes=self.sizes, bucket=self.bucket
        )
        return pytree.unflatten(trace.out_tree, outs)

    def run(self, leaves: Sequence[Any], program: Program, donated: Sequence[bool]) -> Any:
        """The result for concrete arguments."""
        trace = self.trace
        fitting: Fitting = fitting_of(trace.jaxpr, self.sizes, self.bucket)
        outs = run_program(program, leaves, len(trace.captured), fitting)
        for x, is_donated in zip(leaves, donated, strict=False):
            if is_donated and type(x) is ConcreteArray and not x.is_deleted():
                x.delete()  # the program had a padded copy
        return pytree.unflatten(trace.out_tree, outs)


UNPADDED: Any = object()  # the result of a call that runs without padding
_MAX_CALLS = 4096  # types of arguments that are remembered


class BucketCalls:
    """What a function that is jitted with `bucket=` does in the place of `JitFunction.call_by_signature`."""

    def __init__(self, fun: Any, settings: JitSettings, static: StaticArguments, cache: JitCache):
        self._fun = fun
        self._settings = settings
        self._static = static
        self._donated = DonatedArguments(fun, *settings.donated)
        self._cache = cache

    def result(self, signature: Any, args: Sequence[Any], kwargs: Any, leaves: Sequence[Any]) -> Any:
        """The result of a call, or `UNPADDED`."""
        _, state, avals, static = signature
        if state.inspects_values or state.error_checking_behavior_oob == "raise" or is_staged():
            return UNPADDED  # checks of values would see the padding; a program has the shapes that it was staged for
        call = self._found(signature, args, kwargs)
        if call is None:
            return UNPADDED
        if any(isinstance(x, ShardedArray) for x in leaves):
            rule = "A function jitted with bucket= takes arrays that lie on one device."
            facts = ", ".join(str(aval) for aval in avals)
            raise ValueError(
                message(rule, f"arguments: {facts}", fix="Pad the arrays before they are distributed.")
            )
        if current_trace() is not eager_trace or call.trace.captures_tracers:
            return call.bind(leaves)
        donated = self._donated.of_leaves(with_gaps(args, static), kwargs)
        return call.run(leaves, self._program(call, donated), donated)

    def _found(self, signature: Any, args: Sequence[Any], kwargs: Any) -> BucketCall | None:
        """What is known of calls with these types: from the cache, or by tracing."""
        signature = *signature, tuple(axis_env.get().items())
        calls = self._cache.bucket_calls
        call = calls.get(signature, UNPADDED)
        if call is UNPADDED:
            call = self.call_for(signature, args, kwargs)
            if len(calls) >= _MAX_CALLS:
                calls.clear()
            if call is None or not call.trace.captures_tracers:
                calls[exact_key(signature)] = call
        return call

    def traced(
        self, name: str, signature: Any, args: Sequence[Any], kwargs: Any, leaves: Sequence[Any]
    ) -> Any:
        """The call staged for types of arguments: one equation, which is lowered with its padding; None without."""
        tree, _, avals, static = signature
        call = self._found(signature, args, kwargs)
        if call is None:
            return None
        trace = call.trace
        invars = [Var(aval_of(x)) for x in [*trace.captured, *avals]]
        params: dict[str, Any] = {"jaxpr": trace.jaxpr, "sizes": call.sizes, "bucket": call.bucket}
        outvars = [Var(aval) for aval in bucketed_p.type(*[v.aval for v in invars], **params)]
        jaxpr = Jaxpr(invars, [Eqn(bucketed_p, invars, params, outvars)], outvars, trace.jaxpr.name)
        donated = self._donated.of_leaves(with_gaps(args, static), kwargs)
        options = self._settings.compiler_options
        program = None if trace.captures_tracers else Program(jaxpr, trace.captured, donated, options)

        def run(leaves: Sequence[Any], program: Program) -> list[Any]:
            return program.run(leaves)

        return Traced(name, jaxpr, trace.captured, tree, trace.out_tree, program, run, 0, leaves, donated)

    def call_for(self, signature: Any, args: Sequence[Any], kwargs: Any) -> BucketCall | None:
        """What calls with these types need; None where they run without padding."""
        tree, state, avals, static, axes = signature
        options = config.of_programs(state)
        buckets: Buckets = self._settings.bucket
        given = with_gaps(args, static)
        if any(isinstance(aval, RefType) for aval in avals):
            rule = "A function jitted with bucket= takes no Refs."
            raise ValueError(message(rule, f"function: {describe_function(self._fun)}", fix="Pass ref[...]."))
        if any(is_symbolic(n) for aval in avals for n in aval.shape):
            return None
        names = argument_names(self._fun, given, kwargs)
        texts = _texts(self._fun, buckets.axes, given, kwargs)
        scope = ObservedScope({})
        types = _symbolic_types(texts, avals, names, scope)
        shown = ", ".join(f"{name}: {aval}" for name, aval in zip(names, types, strict=True))
        found = ", ".join(f"{name}: {aval}" for name, aval in zip(names, avals, strict=True))
        asked = f"arguments: {found}, bucket: {shown}"
        labels = [f"argument {name}" for name in names]
        sizes = sizes_of(describe_function(self._fun), types, avals, asked, labels)
        if not sizes:
            rule = "bucket= names at least one axis of the arguments."
            raise ArgumentError(
                message(rule, asked, fix="Name the axis whose length varies: bucket='n, ...'.")
            )
        bucket = tuple([(name, buckets.padded(name, n)) for name, n in sizes.items()])
        if not all(n > 0 for n in sizes.values()):
            return None
        kinds = tuple([(str(aval), aval.weak_type, aval.vma) for aval in types])
        traces = self._cache.traces.setdefault((exact_structure(tree), options, kinds, static, axes), [])
        trace = next((trace for trace in traces if trace.scope.holds(sizes)), None)
        if trace is None:
            function = self._static.filled(static)
            trace = self._staged(function, tree, texts, avals, names, sizes, bool(traces))
            if not trace.captures_tracers and config.state() is state:
                traces.append(trace)
        return None if trace.scope.coincides(sizes) else BucketCall(trace, tuple(sizes.items()), bucket)

    def _staged(
        self, function: Any, tree: Any, texts: Any, avals: Any, names: Any, sizes: dict[str, int], again: bool
    ) -> BucketTrace:
        if config.state().explain_cache_misses:
            of = ", ".join(f"{name} = {n}" for name, n in sizes.items())
            why = "its other traces do not hold at these sizes" if again else "its first call"
            tell("%s is traced for all sizes, from %s: %s.", describe_function(self._fun), of, why)
        longest = {name: self._settings.bucket.longest(name) for name in sizes}
        scope = ObservedScope({name: n for name, n in longest.items() if n is not None})
        types = _symbolic_types(texts, avals, names, scope)
        flat = FlatFunction(function, tree, "jit")
        scope.sizes = sizes
        try:
            with monitoring.Elapsed(monitoring.TRACED, fun_name=name_of(self._fun)):
                staged = stage_program(flat, types, function=self._fun, arg_names=names)
        finally:
            scope.sizes = None
        refs = [x for x in staged.captured if isinstance(x, Ref)]
        if refs:
            rule = "A function jitted with bucket= uses no Refs."
            raise ValueError(message(rule, *refs[0].facts(), fix="Pass the value, and return the new one."))
        if key_reuse_is_on():
            summarise(staged.jaxpr)
        return BucketTrace(staged.jaxpr, staged.captured, flat, scope)

    def _program(self, call: BucketCall, donated: Sequence[bool]) -> Program:
        """The compiled program of a bucket."""
        trace, settings = call.trace, self._settings
        found = trace.programs.get(call.bucket)
        if found is None:
            if config.state().explain_cache_misses:
                sizes = [
                    f"{name} = {n} padded to {most}"
                    for (name, n), (_, most) in zip(call.sizes, call.bucket, strict=True)
                ]
                tell(
                    "%s is compiled for a bucket: %s. It has %s others.",
                    describe_function(self._fun), ", ".join(sizes), len(trace.programs),
                )  # fmt: skip
            found = trace.programs[call.bucket] = Program(
                pad_jaxpr(trace.jaxpr, call.bucket),
                trace.captured,
                [*donated, *[False] * len(call.bucket)] if donated else (),
                settings.compiler_options,
                keep_unused=settings.keep_unused,
                in_background=settings.compile_in_background,
            )
        return found


def is_staged() -> bool:
    """Whether operations are written into a program now, whose own shapes decide what is compiled."""
    trace = current_trace()
    while trace.parent is not trace:
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False
