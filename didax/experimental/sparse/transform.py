"""`sparsify`: functions of dense arrays as functions of sparse ones; and the operators of sparse arrays.

    sparsify(lambda A, x: dnp.sin(A) @ x)(A, x)      for a BCOO array A

`SparseTrace` lets a function run on sparse arrays in the place of dense ones: each operation on one is done by the rule
in `RULES` or `ROW_RULES` for its primitive, whose operands are BCOO (BCSR) arrays beside dense ones, under the trace
from before. So `sparsify` composes with all other transformations. An operation without a rule, such as `cos`, whose
result would be dense, is an error that says so.
Read next: `bcoo.py`, `_shapes.py`, `_products.py`, which compute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.checkpoint import checkpoint_name
from didax.api.jit import jit
from didax.core import pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.primitive import Primitive, Trace
from didax.core.tracing import (
    Tracer,
    current_trace,
    known_value,
    run_under,
    set_current_trace,
)
from didax.core.value import Array
from didax.experimental.sparse import _products, _shapes, bcoo, bcsr
from didax.experimental.sparse._base import JAXSparse, no_dense
from didax.experimental.sparse.bcoo import BCOO
from didax.experimental.sparse.bcsr import BCSR
from didax.primitives.control_flow.layout import BodyLayout, WhileLayout

_TODENSE = "didax.experimental.sparse.todense"  # the name of a value that `todense` has been asked of
Rule = Callable[..., Any]  # operands, sparse or dense, and parameters to a result, or a list of them


def is_sparse(x: Any) -> bool:
    """Whether a value is an array that `sparsify` follows."""
    return isinstance(x, BCOO | BCSR)


class SparseTracer(Tracer):
    """A sparse array in the place of a dense one."""

    __slots__ = ("sparse",)

    def __init__(self, trace: Trace, sparse: Any):
        self.owner = trace
        self.sparse = sparse
        data = aval_of(sparse.data)
        self.aval = ShapedArray(sparse.shape, data.dtype, data.weak_type)


class SparseTrace(Trace):
    """Runs operations on sparse arrays by their rules."""

    __slots__ = ()
    transformation = "sparsify"

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        operands = [x.sparse if type(x) is SparseTracer and x.owner is self else x for x in args]
        if not any(map(is_sparse, operands)):
            return self.parent.process(primitive, args, params)
        rules = ROW_RULES if any(isinstance(x, BCSR) for x in operands) else RULES
        rule = rules.get(primitive.name) or _to_entries(primitive)
        if rule is None:
            raise _without_rule(primitive, operands)
        with set_current_trace(self.parent):
            found = rule(*operands, **params)
        return list(map(self.traced, found)) if primitive.multiple_results else self.traced(found)

    def traced(self, x: Any) -> Any:
        """The value with which the function runs."""
        return SparseTracer(self, x) if is_sparse(x) else x

    def result(self, x: Any) -> Any:
        """The value that the function returned."""
        return x.sparse if type(x) is SparseTracer and x.owner is self else x


def _to_entries(primitive: Primitive) -> Rule | None:
    """The rule of an operation on each element that keeps zeros."""
    linear = primitive.name in _LINEAR

    def rule(x: Any, **params: Any) -> Any:
        x = x if linear else _unique(x)
        return x._with_data(primitive.bind(x.data, **params))

    return rule if linear or primitive.name in _KEEP_ZERO else None


def _without_rule(primitive: Primitive, operands: Sequence[Any]) -> NotImplementedError:
    what = ", ".join(repr(x) if is_sparse(x) else str(aval_of(x)) for x in operands)
    if primitive.name in _DENSE:
        return no_dense(what, primitive.name)
    rule = f"sparse rule for {primitive.name} is not implemented."
    fix = "Use todense() on the operand, or write the operation with others."
    return NotImplementedError(message(rule, f"operands: {what}", fix=fix))


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Return the function for sparse arrays (BCOO, BCSR) in the place of dense ones, anywhere in its arguments.

    Results are sparse where an operation keeps zeros: products, sums of sparse arrays, functions with f(0) = 0,
    transposes, slices, reshapes, sums over axes. `use_tracer` is accepted: both ways of JAX are one here.

    >>> import didax.numpy as dnp
    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> sparsify(lambda a, x: (2 * a.T) @ x)(a, dnp.ones(2))
    Array([6., 4.], dtype=float32)
    """

    @functools.wraps(f)
    def sparse_function(*args: Any, **kwargs: Any) -> Any:
        trace = SparseTrace(current_trace(), f)
        try:
            traced = pytree.map(trace.traced, (args, kwargs), is_leaf=is_sparse)
            out = run_under(trace, lambda: f(*traced[0], **traced[1]), ())
            return pytree.map(trace.result, out, is_leaf=is_sparse)
        finally:
            trace.ended = True

    return api_boundary(sparse_function)


@api_boundary
def todense(arr: Any) -> Array:
    """The dense array of a sparse one, also within `sparsify`; a dense array as it is."""
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return checkpoint_name(arr, _TODENSE) if isinstance(arr, Tracer) else dnp.asarray(arr)


# --- Rules ---------------------------------------------------------------------------------------------------

RULES: dict[str, Rule] = {}  # by the name of the primitive, for BCOO arrays beside dense ones
ROW_RULES: dict[str, Rule] = {}  # where a BCSR array is among the operands


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# f(x + y) = f(x) + f(y): entries at one place may stay apart.
_LINEAR = _names("conj copy imag neg real stop_gradient")
# f(0) = 0
_KEEP_ZERO = _names(
    """
    abs asin asinh atan atanh bessel_i1 bessel_i1e cbrt ceil convert_element_type erf erf_inv expm1 floor log1p
    reduce_precision round sign sin sinh sqrt square tan tanh
    """
)
_DENSE = _names(
    """
    acos acosh bessel_i0 bessel_i0e cos cosh digamma erfc exp exp2 lgamma log logistic rsqrt eq ge gt le lt ne not xor
    is_finite pow integer_pow
    """
)


def _rule(names: str, rules: Sequence[dict[str, Rule]] = (RULES,)) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        for table in rules:
            table.update(dict.fromkeys(names.split(), rule))
        return rule

    return add


def _unique(x: Any) -> Any:
    return x if x.unique_indices else x.sum_duplicates(nse=x.nse, remove_zeros=False)


@_rule("integer_pow", (RULES, ROW_RULES))
def _integer_pow(x: Any, *, y: int) -> Any:
    if y <= 0:
        raise no_dense(f"{x!r}, exponent: {y}, which is a non-positive exponent", "integer_pow")
    x = _unique(x)
    return x._with_data(lax.integer_pow(x.data, y))


@_rule("pow")
def _pow(x: Any, y: Any) -> Any:
    exponent = None if is_sparse(y) or aval_of(y).ndim else known_value(y)
    if exponent is None or not is_sparse(x) or not (np.isreal(exponent) and np.real(exponent) > 0):
        raise no_dense(f"{x!r}, exponent: {y!r}", "pow")
    x = _unique(x)
    return x._with_data(lax.pow(x.data, y))


@_rule("name", (RULES, ROW_RULES))
def _name(x: Any, *, name: str) -> Any:
    return x.todense() if name == _TODENSE else x


_MOVING: dict[str, Rule] = {
    "broadcast_in_dim": _shapes.bcoo_broadcast_in_dim,
    "conv_general_dilated": _products.bcoo_conv_general_dilated,
    "dot_general": _products.bcoo_dot_general,
    "dynamic_slice": lambda x, *starts, slice_sizes: _shapes.bcoo_dynamic_slice(x, starts, slice_sizes),
    "gather": _shapes.bcoo_gather,
    "reshape": _shapes.bcoo_reshape,
    "rev": lambda x, *, dimensions: _shapes.bcoo_rev(x, dimensions),
    "slice": _shapes.bcoo_slice,
    "transpose": bcoo.bcoo_transpose,
}
RULES.update(_MOVING)
ROW_RULES.update({"dot_general": bcsr.bcsr_dot_general, "broadcast_in_dim": bcsr.bcsr_broadcast_in_dim})


@_rule("concatenate")
def _concatenate(*operands: Any, dimension: int) -> Any:
    return _shapes.bcoo_concatenate(operands, dimension=dimension)


@_rule("concatenate", (ROW_RULES,))
def _concatenate_rows(*operands: Any, dimension: int) -> Any:
    return bcsr.bcsr_concatenate(operands, dimension=dimension)


@_rule("reduce_sum")
def _reduce_sum(x: BCOO, *, axes: Sequence[int]) -> Any:
    out = _shapes.bcoo_reduce_sum(x, axes=axes)
    return out if out.ndim else out.todense()


# --- Arithmetic: what both operands do ------------------------------------------------------------------------


def _same_places(x: BCOO, y: BCOO) -> bool:
    return x.indices is y.indices and x.shape == y.shape


@_rule("add")
def _add(x: Any, y: Any) -> Any:
    if is_sparse(x) and is_sparse(y):
        return _add_sparse(x, y)
    sparse, dense = (x, y) if is_sparse(x) else (y, x)
    if dnp.shape(dense) != sparse.shape:
        rule = "Addition between a sparse array X and a dense array Y is not implemented when the output shape is "
        rule += "larger than Y.shape: it would make the sparse array dense silently."
        facts = f"X: {sparse!r}, Y: {aval_of(dense)}"
        raise NotImplementedError(message(rule, facts, fix="Use todense() on the sparse array."))
    return sparse.todense() + dense


def _add_sparse(x: BCOO, y: BCOO) -> BCOO:
    facts = f"operands: {x!r}, {y!r}"
    if x.shape != y.shape:
        rule = "Addition between sparse matrices of different shapes."
        raise NotImplementedError(message(rule, facts, fix="Broadcast one to the shape of the other."))
    if _same_places(x, y):
        return x._with_data(x.data + y.data)
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        rule = "Addition between sparse matrices with different batch/dense dimensions."
        raise NotImplementedError(message(rule, facts, fix="Use update_layout on one."))
    joined = []
    for one, other in zip(x._bufs, y._bufs, strict=True):
        batch = [max(a, b) for a, b in zip(one.shape[: x.n_batch], other.shape[: x.n_batch], strict=True)]
        whole = [dnp.broadcast_to(z, (*batch, *z.shape[x.n_batch :])) for z in (one, other)]
        joined.append(dnp.concatenate(whole, x.n_batch))
    return BCOO(joined, shape=x.shape)  # type: ignore[arg-type]


@_rule("sub")
def _sub(x: Any, y: Any) -> Any:
    if not (is_sparse(x) and is_sparse(y)):
        rule = "Subtraction between sparse and dense array."
        facts = f"operands: {x!r:.200}, {y!r:.200}"
        raise NotImplementedError(message(rule, facts, fix="Use todense() on the sparse array."))
    return _add_sparse(x, y._with_data(-y.data))


@_rule("mul")
def _mul(x: Any, y: Any) -> Any:
    if is_sparse(x) and is_sparse(y):
        if _same_places(x, y) and x.unique_indices:
            return x._with_data(x.data * y.data)
        return _products.bcoo_multiply_sparse(x, y)
    sparse, dense = (x, y) if is_sparse(x) else (y, x)
    return sparse._with_data(_products.bcoo_multiply_dense(sparse, dense))


@_rule("div")
def _div(x: Any, y: Any) -> Any:
    if is_sparse(y):
        rule = "Division by a sparse array is not implemented because it would result in dense output."
        fix = "If this is your intent, use sparse.todense() on it."
        raise NotImplementedError(message(rule, f"divisor: {y!r}", fix=fix))
    y = dnp.asarray(y)
    return x._with_data(lax.div(x.data, y if not y.ndim else _divisors(x, y)))


def _divisors(x: BCOO, y: Any) -> Any:
    found = _products.entries_of(x, y, 1)
    return dnp.broadcast_to(found, x.data.shape) if found.shape != x.data.shape else found


# --- Programs within programs: the public functions take sparse arrays as the pytrees that they are -------------


def run_jaxpr(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr for operands that may be sparse."""
    found: list[Any] = sparsify(lambda *xs: eval_jaxpr(jaxpr, xs))(*args)
    return found


def _plain(values: Sequence[Any]) -> list[Any]:
    """The values without what is known of their indices, which steps of a loop and branches may differ in."""
    return [type(x)(x._bufs, shape=x.shape) if is_sparse(x) else x for x in values]


@_rule("jit", (RULES, ROW_RULES))
def _jit(*args: Any, jaxpr: Jaxpr) -> list[Any]:
    def program(*xs: Any) -> list[Any]:
        return run_jaxpr(jaxpr, xs)

    program.__name__ = jaxpr.name or "jit"
    found: list[Any] = jit(program)(*args)
    return found


@_rule("while", (RULES, ROW_RULES))
def _while(*args: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **sizes: int) -> list[Any]:
    params = {"cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr, **sizes}
    for_cond, for_body, carry = WhileLayout.of(params).split(args)
    return lax.while_loop(  # type: ignore[no-any-return]
        lambda c: run_jaxpr(cond_jaxpr, [*for_cond, *c])[0],
        lambda c: _plain(run_jaxpr(body_jaxpr, [*for_body, *c])),
        _plain(carry),
    )


@_rule("scan", (RULES, ROW_RULES))
def _scan(*args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    consts, carry, xs = BodyLayout.of(params).split(args)
    if any(is_sparse(x) and not getattr(x, "n_batch", 0) for x in xs):
        rule = "sparse rule for scan with x values needs a batch axis to run over."
        facts = f"xs: {', '.join(map(repr, xs)):.200}"
        raise NotImplementedError(message(rule, facts, fix="Use update_layout(n_batch=1)."))
    num_carry = len(carry)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        outs = run_jaxpr(jaxpr, [*consts, *carry, *x])
        return _plain(outs[:num_carry]), outs[num_carry:]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    carry, ys = lax.scan(step, _plain(carry), list(xs), **options)
    return [*carry, *ys]


@_rule("cond", (RULES, ROW_RULES))
def _cond(index: Any, *operands: Any, branches: Sequence[Jaxpr], **params: Any) -> list[Any]:
    runs = [functools.partial(lambda jaxpr, *xs: _plain(run_jaxpr(jaxpr, xs)), jaxpr) for jaxpr in branches]
    return lax.switch(index, runs, *operands)  # type: ignore[no-any-return]
