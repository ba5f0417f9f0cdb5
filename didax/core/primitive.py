"""`Primitive`: an operation, declared once with all of its rules. `Trace`: an interpreter, which asks for them.

The two know each other: `Primitive.bind` hands an operation to the current trace, and a trace processes primitives.
A primitive is one object. Its class holds, as methods, what every interpreter needs to know of it; nothing is
registered anywhere else. Arrays are positional arguments, static parameters are hashable keywords:

    class Cumsum(Primitive):
        def type(self, x, *, axis): ...                  # abstract values in, abstract value(s) out; raises on misuse
        def eager(self, x, *, axis): ...                 # NumPy values in, NumPy value(s) out
        def lower(self, ctx, x, *, axis): ...            # StableHLO operands in, results out
        def jvp(self, primals, tangents, *, axis): ...   # -> (outs, out tangents)
        def transpose(self, ct, x, *, axis): ...         # cotangent of the result -> one per argument
        def batch(self, axis_data, args, dims, *, axis): ...  # -> (outs, their batch dimensions)
        moves_elements = True                            # only moves them: it may move random keys too

    cumsum_p = Cumsum("cumsum")

An interpreter that needs an absent rule raises `MissingRuleError`. Two rules are derived from others: linearize from
jvp, eager from the lowering. Families of elementwise primitives, which need 2-4 lines each, are in
`didax/primitives/families.py`. Read next: `tracing.py` (tracers), `didax/transforms/` (interpreters).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

from didax.core.avals import ShapedArray
from didax.core.declarations import check_declaration, check_extended, check_process, missing_rule
from didax.core.device_types import placed_types, plain_types
from didax.core.dtypes import is_sub_byte, supported_dtype
from didax.core.effects import NO_EFFECTS, Effects, union_within
from didax.core.exact import exact, holds_floats
from didax.core.given import given_by
from didax.core.primitive_names import register_name
from didax.core.rule_types import check_fit, result_types, unhashable
from didax.core.source import describe_function
from didax.core.value import Array

Rule = Callable[..., Any] | None
_type_cache: dict[Any, tuple[ShapedArray, ...]] = {}
_TYPE_CACHE_MAX = 100_000


class Trace:
    """An interpreter of primitives. `process` receives every operation bound while the trace is current.

    A trace passes operations that do not concern it on to its `parent`, the trace that was current when it began.
    """

    __slots__ = ("ended", "function", "parent")
    transformation: str = "trace"
    main: Any = property(lambda self: self)  # as JAX calls what tells traces apart

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_process(cls)

    def __init__(self, parent: Trace, function: Any = None):
        self.parent = parent
        self.function = function
        self.ended = False

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply `primitive`; a single result, or a list when `primitive.multiple_results`."""
        raise NotImplementedError(f"{type(self).__name__} has no `process` method, which a Trace needs.")

    def replacement(self, tracer: Array) -> Any | None:
        """The value to use here for a tracer whose trace has ended; None without one. See transforms/closure.py."""
        return None if self.parent is self else self.parent.replacement(tracer)

    def describe(self) -> str:
        """`vmap of f (file:line)`."""
        name = self.transformation
        return name if self.function is None else f"{name} of {describe_function(self.function)}"


class EagerTrace(Trace):
    """The end of every chain of parents: `process`, from `didax/runtime/eager.py`, evaluates operations at once."""

    __slots__ = ()
    transformation = "eager evaluation"
    process = given_by("didax.runtime.eager")

    def __init__(self) -> None:
        super().__init__(parent=self)


eager_trace = EagerTrace()
current_trace_var: ContextVar[Trace] = ContextVar("didax_trace", default=eager_trace)
_get_current = current_trace_var.get


class Primitive:
    """An operation with its rules; `bind` applies it under the current trace.

    `RULES` of `declarations.py` names the rules, which are None where absent. With `multiple_results` every rule
    returns lists instead of single values.
    """

    multiple_results: ClassVar[bool] = False
    # True for products of matrices and the like, whose operands XLA writes to memory instead of fusing their
    # computation into the product: a large program may be cut before such an operation (passes/outline.py).
    materializes_operands: ClassVar[bool] = False
    # False where a weak operand beside strong ones is not cast, nor its cotangent cast back (transforms/transpose.py).
    casts_weak_operands: ClassVar[bool] = True
    # What the transpose rule gets for a `Zero` that a later rule sent; None: it is not asked (transforms/transpose.py).
    transposes_zeros: ClassVar[Any] = None
    # True for primitives whose type rule says itself along which manual axes the results vary (primitives/varying.py),
    # and how they are split over explicit axes (primitives/sharding.py).
    sets_varying: ClassVar[bool] = False
    sets_sharding: ClassVar[bool] = False
    # False for primitives whose parameters hold objects that the type cache must not keep alive.
    caches_types: ClassVar[bool] = True
    # True for primitives that only move elements, of whatever dtype (passes/physical.py).
    moves_elements: bool = False
    # True for primitives that are compiled in `dtypes.supported_dtype`, as all that move elements are.
    in_supported_dtype: bool = False
    # True for random bits, which cost more to compute again than to keep (xla/lowering.py).
    is_drawn: bool = False
    # True for primitives that are linear in all operands that carry derivatives, taken together (transforms/jet.py).
    linear: bool = False
    # True for primitives whose jvp rule takes `forward`, which transforms the jaxprs they hold (transforms/jvp.py).
    pushes_programs: ClassVar[bool] = False
    # True where 0.0 and -0.0 are different parameters. `infer` sets it when it first meets a parameter that is a float.
    exact_params: bool = False

    type: Rule = None  # types of the results
    eager: Rule = None  # the results, from NumPy values
    eager_text: Rule = None  # eager as an expression of NumPy, for given types; see api/whole_functions.py
    evaluate: Rule = None  # like eager, from Arrays: for primitives that run programs of their own
    lower: Rule = None  # StableHLO
    jvp: Rule = None  # results, and their tangents
    taylor: Rule = None  # the next coefficient of the result's power series; see transforms/jet.py
    linearize: Rule = None  # like jvp, but splits off the linear part: for primitives that hold jaxprs
    transpose: Rule = None  # cotangents of the linear operands
    batch: Rule = None  # results, and their batch dimensions
    partial_eval: Rule = None  # the part that depends on known operands only, and the rest
    dce: Rule = None  # the equation without what only unused results need
    recompute: Rule = None  # what of an equation is saved, what runs again: for primitives that hold jaxprs
    sharding: Rule = None  # how results are split over explicit mesh axes; see core/device_types.py
    physical: Rule = None  # on the numbers behind extended dtypes; those that only move elements need none
    keys: Rule = None  # which random keys it uses up or returns; see passes/key_reuse.py
    conditions: Rule = None  # what must hold of the values of its operands; see passes/checkify.py
    checkify: Rule = None  # its application with failed checks as data: for primitives that hold jaxprs
    sparsity: Rule = None  # which elements of operands its results depend on; see passes/sparsity.py
    stage: Rule = None  # stages another primitive in its place: for primitives that hold Python functions
    replace_captured: Rule = None  # replaces what its Python functions captured; see transforms/closure.py
    run_jaxprs: Rule = None  # runs its jaxprs one at a time, on concrete arrays; see passes/nans.py
    padded: Rule = None  # on arrays with arbitrary elements after their own; see passes/buckets.py
    differs: Rule = None  # along which manual axes its results may differ; see passes/uneven.py
    agree: Rule = None  # lets devices choose alike: for loops and branches
    memories: Rule = None  # in which memories its results lie; see passes/memories.py
    holes: ClassVar[dict[str, str]] = {}  # rule name -> why it is absent on purpose

    def __init__(self, name: str):
        check_declaration(self, name)
        self.name = name
        register_name(name, self)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive to arrays under the current trace."""
        return _get_current().process(self, args, params)

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Rule:
        """The eager rule, or None for operands on which it would differ from the compiled primitive."""
        strange = [a for a in avals if is_sub_byte(a.dtype) or supported_dtype(a.dtype) != a.dtype]
        return self.eager if self.moves_elements or not strange else None

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        """Names of the mapped axes this application refers to; for a primitive that holds jaxprs, all that they do."""
        return _NO_AXES if self.dce is None else union_within(tuple(params.values()), "axis_names")

    def effects(self, params: dict[str, Any]) -> Effects:
        """What this application does besides computing results; for a primitive that holds jaxprs, what they do."""
        return NO_EFFECTS if self.dce is None else union_within(tuple(params.values()), "effects")

    def __repr__(self) -> str:
        return self.name


_NO_AXES: frozenset[str] = frozenset()


def infer(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> tuple[ShapedArray, ...]:
    """Types of the results, by the primitive's type rule; remembered, since types are interned and params hashable."""
    try:
        key = application_key(primitive, avals, params)
        found = _type_cache.get(key)
    except TypeError as error:
        raise unhashable(primitive, params) or error from None
    if found is None:
        check_extended(primitive, avals)
        operands = plain_types(primitive, avals)
        rule = require(primitive, "type")
        try:
            out = rule(*operands, **params)
        except TypeError as error:
            check_fit(primitive, "type", operands, params, error)
            raise
        found = result_types(primitive, out)
        if operands is not avals:
            found = placed_types(primitive, avals, found, params)
        if primitive.dce is not None or not primitive.caches_types:  # its parameters may hold jaxprs
            return found
        if len(_type_cache) > _TYPE_CACHE_MAX:
            _type_cache.clear()
        if not primitive.exact_params and any(map(holds_floats, params.values())):
            primitive.exact_params = True
            key = application_key(primitive, avals, params)
        _type_cache[key] = found
    return found


def application_key(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> tuple[Any, ...]:
    """A key that only equal applications of a primitive share."""
    if primitive.exact_params:
        return (primitive, avals, exact(tuple(params.items())))
    return (primitive, avals, *params.items()) if params else (primitive, avals)


clear_types = _type_cache.clear


def require(primitive: Primitive, rule: str) -> Callable[..., Any]:
    """The primitive's rule of that name; MissingRuleError when it has none."""
    found = getattr(primitive, rule)
    if found is None:
        raise missing_rule(primitive, rule)
    return found
