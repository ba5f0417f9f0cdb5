"""`sparsify`: functions of dense arrays as functions of sparse ones; and the operators of sparse arrays.

    sparsify(lambda A, x: dnp.sin(A) @ x)(A, x)      for a BCOO array A

`SparseTrace` lets a function run on sparse arrays in place of dense ones: each operation on one is done by the rule in
`RULES` or `ROW_RULES` for its primitive, whose operands are BCOO (BCSR) arrays beside dense ones, under the trace that
was current before. So `sparsify` composes with all other transformations.

An elementwise operation is applied to the entries, and once to the value of all other elements, which is 0 at first. So
every function with f(0) = 0 works, whatever it is made of. A function such as `cos`, whose result would be dense, is an
error that says so when the result is asked for. Where a function has derivative rules of its own, its body runs.
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
from didax.api.inspect import eval_shape
from didax.api.jit import jit
from didax.core import pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.primitive import Primitive, Trace, eager_trace
from didax.core.tracing import Tracer, current_trace, known_value, run_under, set_current_trace
from didax.core.value import Array
from didax.experimental.sparse import _products, _shapes, bcoo, bcsr
from didax.experimental.sparse._base import JAXSparse, no_dense
from didax.experimental.sparse.bcoo import BCOO
from didax.experimental.sparse.bcsr import BCSR
from didax.primitives.control_flow.layout import BodyLayout, WhileLayout
from didax.primitives.custom.call import python_call_p
from didax.primitives.families import Elementwise
from didax.primitives.shape import broadcast_in_dim_p

_TODENSE = "didax.experimental.sparse.todense"  # the name of a value that `todense` has been asked of
Rule = Callable[..., Any]  # operands, sparse or dense, and parameters to a result, or a list of them


def is_sparse(x: Any) -> bool:
    """Whether a value is an array that `sparsify` follows."""
    return isinstance(x, BCOO | BCSR)


def dense_aval(sparse: Any) -> ShapedArray:
    """The type of the dense array."""
    data = aval_of(sparse.data)
    return ShapedArray(sparse.shape, data.dtype, data.weak_type)


class SparseTracer(Tracer):
    """A sparse array in place of a dense one; the elements that it has no entries for are `rest`, mostly 0.

    >>> import didax.numpy as dnp
    >>> a = BCOO.fromdense(dnp.eye(2))
    >>> sparsify(lambda x: print(type(x).__name__, x.shape) or 2 * x)(a)
    SparseTracer (2, 2)
    BCOO(float32[2, 2], nse=2)
    """

    __slots__ = ("made_by", "rest", "sparse")

    def __init__(self, trace: Trace, sparse: Any, rest: Any = 0, made_by: str = ""):
        self.owner = trace
        self.sparse = sparse
        self.rest = rest
        self.made_by = made_by  # the operation that gave a rest other than 0
        self.aval = dense_aval(sparse)

    def with_unique_places(self) -> Any:
        """The array with one entry for each place, from now on."""
        if not self.sparse.unique_indices:
            self.sparse = self.sparse.sum_duplicates(nse=self.sparse.nse, remove_zeros=False)
        return self.sparse


class SpreadTracer(Tracer):
    """A number in the shape of an array, which is not made unless an operation needs it."""

    __slots__ = ("number",)

    def __init__(self, trace: Trace, number: Any, shape: tuple[int, ...]):
        self.owner = trace
        self.number = number
        self.aval = aval_of(number).update(shape=shape)

    def array(self) -> Any:
        """The array, made outside the `SparseTrace`, which would spread the number again."""
        with set_current_trace(self.owner.parent):
            return dnp.broadcast_to(self.number, self.aval.shape)

    def known(self) -> Any:
        with set_current_trace(eager_trace):
            return dnp.broadcast_to(dnp.asarray(known_value(self.number)), self.aval.shape)


class StretchedTracer(Tracer):
    """A sparse array broadcast to a shape, which is not made if the next operation multiplies it by a sparse array.

    A sparse axis of length 1 cannot be made longer, but the product has entries only where both arrays have some.
    """

    __slots__ = ("params", "sparse")

    def __init__(self, trace: SparseTrace, sparse: BCOO, params: dict[str, Any]):
        self.owner = trace
        self.sparse = sparse
        self.params = params
        self.aval = dense_aval(sparse).update(shape=params["shape"])

    def narrow(self) -> BCOO:
        """The array with as many axes as the shape, of which those that were stretched have length 1."""
        at = self.params["broadcast_dimensions"]
        lengths = dict(zip(at, self.sparse.shape, strict=True))
        shape = tuple([lengths.get(axis, 1) for axis in range(self.aval.ndim)])
        return _shapes.bcoo_broadcast_in_dim(self.sparse, shape=shape, broadcast_dimensions=at)

    def whole(self) -> SparseTracer:
        """The array in its shape; NotImplementedError where a sparse axis would become longer."""
        return SparseTracer(self.owner, RULES["broadcast_in_dim"](self.sparse, **self.params))


class SparseTrace(Trace):
    """Runs operations on sparse arrays by their rules."""

    __slots__ = ("by_entries",)
    transformation = "sparsify"

    def __init__(self, parent: Trace, function: Any):
        super().__init__(parent, function)
        self.by_entries = True  # whether all operations so far acted on each element by itself

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if any(map(self._is_stretched, args)):
            return self._with_stretched(primitive, args, params)
        mine = [x for x in args if self._is_mine(x)]
        if not mine:
            if (
                primitive is broadcast_in_dim_p
                and not aval_of(args[0]).ndim
                and known_value(args[0]) is not None
            ):
                return SpreadTracer(self, args[0], params["shape"])
            return self.parent.process(primitive, tuple(map(self.plain, args)), params)
        if primitive is python_call_p:
            return self._call_with_rules(args, mine, params["rules"])
        with set_current_trace(self.parent):
            found = self._by_entries(primitive, args, mine, params)
            if found is not None:
                return found
            self.by_entries = False
            operands = [self.result(x) for x in args]  # raises where one would be dense
            if primitive is broadcast_in_dim_p and type(operands[0]) is BCOO and operands[0].ndim:
                return StretchedTracer(self, operands[0], params)
            rule = (ROW_RULES if any(isinstance(x.sparse, BCSR) for x in mine) else RULES).get(primitive.name)
            if rule is None:
                raise _without_rule(primitive, operands)
            out = rule(*operands, **params)
        return list(map(self.traced, out)) if primitive.multiple_results else self.traced(out)

    def _with_stretched(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """An operation on stretched operands: a product of sparse arrays takes them as they were before."""
        if primitive.name == "mul":
            with set_current_trace(self.parent):
                found: list[Any] = [
                    x.narrow() if self._is_stretched(x) else self.result(x) if self._is_mine(x) else None
                    for x in args
                ]
                if all(type(x) is BCOO for x in found):
                    return self.traced(_products.bcoo_multiply_sparse(*found))
        whole = tuple([x.whole() if self._is_stretched(x) else x for x in args])
        return self.process(primitive, whole, params)

    def _call_with_rules(self, args: Sequence[Any], mine: Sequence[SparseTracer], rules: Any) -> list[Any]:
        """The results of the function's body; where it acts on each element by itself, those of a call for the entries.

        Such a call keeps the derivatives that the function has by its rules.
        """
        outer, self.by_entries = self.by_entries, True
        with set_current_trace(self):
            outs: list[Any] = rules.run(*args)
        elementwise, self.by_entries = self.by_entries, self.by_entries and outer
        if not elementwise or not all(self._is_mine(y) for y in outs):
            return outs
        first = mine[0].with_unique_places()
        if not all(_same_places(first, x.with_unique_places()) for x in (*mine[1:], *outs)):
            return outs
        entries = [x.sparse.data if self._is_mine(x) else _stretched(x, first.data.shape) for x in args]
        of_entries = rules.for_types([aval_of(x) for x in entries])
        if of_entries is None:
            return outs
        with set_current_trace(self.parent):
            data = python_call_p.bind(*entries, rules=of_entries)
        return [
            SparseTracer(self, first._with_data(z), y.rest, y.made_by)
            for y, z in zip(outs, data, strict=True)
        ]

    def _by_entries(
        self, primitive: Primitive, args: Sequence[Any], mine: Sequence[SparseTracer], params: dict[str, Any]
    ) -> SparseTracer | None:
        """The result of an elementwise operation on the entries, and on the rest.

        None unless the arrays have their entries at the same places, and all other operands are known numbers.
        """
        name, zeros = primitive.name, all(_is_zero(x.rest) for x in mine)
        if not (isinstance(primitive, Elementwise) or name in _ELEMENT_BY_ELEMENT):
            return None
        if name == "add" and len(mine) == 1:
            if not mine[0].aval.ndim:
                return None  # a scalar is not a sparse array that would become dense
            if zeros and any(type(x) is SpreadTracer for x in args):
                return None  # the sum with an array of one number, unlike that with the number, is dense
        rests = [x.rest if self._is_mine(x) else _number(x) for x in args]
        if any(y is None for y in rests) or (name == "div" and zeros and self._is_mine(args[1])):
            return None
        scaled = name in ("mul", "div") and len(mine) == 1 and zeros
        linear = name in _LINEAR or scaled or (name in ("add", "sub") and len(mine) == 2)
        arrays = [x.sparse if linear else x.with_unique_places() for x in mine]
        if not all(_same_places(arrays[0], y) for y in arrays[1:]):
            return None
        rests = [np.asarray(y, aval_of(x).dtype) for x, y in zip(args, rests, strict=True)]
        with set_current_trace(eager_trace):  # a sparse array times infinity has no NaN
            rest = 0 if scaled else np.asarray(primitive.bind(*rests, **params))
        shape = arrays[0].data.shape
        entries = [x.sparse.data if self._is_mine(x) else _stretched(x, shape) for x in args]
        made_by = next((x.made_by for x in mine if x.made_by), name)
        return SparseTracer(self, arrays[0]._with_data(primitive.bind(*entries, **params)), rest, made_by)

    def plain(self, x: Any) -> Any:
        """The value, as an array if it is a number that was spread."""
        return x.array() if type(x) is SpreadTracer and x.owner is self else x

    def _is_mine(self, x: Any) -> bool:
        return type(x) is SparseTracer and x.owner is self

    def _is_stretched(self, x: Any) -> bool:
        return type(x) is StretchedTracer and x.owner is self

    def traced(self, x: Any) -> Any:
        """The value with which the function runs."""
        return SparseTracer(self, x) if is_sparse(x) else x

    def result(self, x: Any) -> Any:
        """The value that the function returned."""
        if self._is_stretched(x):
            x = x.whole()
        if not self._is_mine(x):
            return self.plain(x)
        if not _is_zero(x.rest):
            raise no_dense(repr(x.sparse), x.made_by)
        return x.sparse


def _is_zero(x: Any) -> bool:
    return bool(x == 0)


def _number(x: Any) -> Any:
    """The number that every element of an operand is; None where there is none, or it is not known."""
    known = known_value(x.number if type(x) is SpreadTracer else x)
    return known if known is not None and np.ndim(known) == 0 else None


def _stretched(x: Any, shape: tuple[int, ...]) -> Any:
    return dnp.broadcast_to(x.number, shape) if type(x) is SpreadTracer else x


def _without_rule(primitive: Primitive, operands: Sequence[Any]) -> NotImplementedError:
    what = ", ".join(repr(x) if is_sparse(x) else str(aval_of(x)) for x in operands)
    if isinstance(primitive, Elementwise):
        return no_dense(what, primitive.name)
    rule = f"sparse rule for {primitive.name} is not implemented."
    fix = "Use todense() on the operand, or write the operation with others."
    return NotImplementedError(message(rule, f"operands: {what}", fix=fix))


@api_boundary
def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Return the function for sparse arrays (BCOO, BCSR) in place of dense ones, anywhere in its arguments.

    Results are sparse where an operation keeps zeros: products, sums of sparse arrays, functions with f(0) = 0,
    transposes, slices, reshapes, sums over axes. `use_tracer`, which chooses between two ways in JAX, is accepted.

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
    """The dense array of a sparse one, also within `sparsify`; a dense array as it is.

    >>> import didax.numpy as dnp
    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> todense(a)
    Array([[0., 2.],
           [1., 0.]], dtype=float32)
    >>> sparsify(lambda x: dnp.cos(todense(x)))(BCOO.fromdense(dnp.zeros(2)))
    Array([1., 1.], dtype=float32)
    """
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
# What else acts on each element by itself, beside elementwise primitives.
_ELEMENT_BY_ELEMENT = _names("convert_element_type copy reduce_precision select_n stop_gradient")


def _rule(names: str, rules: Sequence[dict[str, Rule]] = (RULES,)) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        for table in rules:
            table.update(dict.fromkeys(names.split(), rule))
        return rule

    return add


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


@_rule("reshape", (ROW_RULES,))
def _reshape_rows(x: Any, *, new_sizes: Sequence[int]) -> Any:
    lead = len(new_sizes) - x.ndim
    if tuple(new_sizes) != (1,) * lead + x.shape:
        rule = "A sparse array by rows is reshaped by axes of length 1 in front of it only."
        raise NotImplementedError(
            message(rule, f"shape: {x.shape}, new: {new_sizes}", fix="Use a BCOO array.")
        )
    return bcsr.bcsr_broadcast_in_dim(x, shape=new_sizes, broadcast_dimensions=range(lead, len(new_sizes)))


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


def _same_places(x: Any, y: Any) -> bool:
    rows = getattr(x, "indptr", None) is getattr(y, "indptr", None)
    return rows and x.indices is y.indices and x.shape == y.shape


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


Flags = list[dict[str, bool]]  # what is known about the indices of each value; nothing for dense ones


def _flags(values: Sequence[Any]) -> Flags:
    return [{name: getattr(x, name) for name in x._flags} if is_sparse(x) else {} for x in values]


def _with_flags(values: Sequence[Any], flags: Flags) -> list[Any]:
    return [
        type(x)(x._bufs, shape=x.shape, **known) if is_sparse(x) else x
        for x, known in zip(values, flags, strict=True)
    ]


def _in_all(*flags: Flags) -> Flags:
    """What is known about each value in all cases: in all steps of a loop, or in all branches."""
    return [
        {name: all(known.get(name) for known in each) for name in each[0]}
        for each in zip(*flags, strict=True)
    ]


def _settled(step: Callable[[list[Any]], Sequence[Any]], carry: Sequence[Any]) -> Flags:
    """What is known about the indices of a loop's carry in each step: what holds at the start and after every step."""
    flags = _flags(carry)
    while any(True in known.values() for known in flags):
        kept = _in_all(flags, _flags(eval_shape(step, _with_flags(carry, flags))))
        if kept == flags:
            break
        flags = kept
    return flags


@_rule("jit", (RULES, ROW_RULES))
def _jit(*args: Any, jaxpr: Jaxpr) -> list[Any]:
    def program(*xs: Any) -> list[Any]:
        return run_jaxpr(jaxpr, xs)

    program.__name__ = jaxpr.name or "jit"
    found: list[Any] = jit(program)(*args)
    return found


@_rule("rules_call", (RULES, ROW_RULES))
def _rules_call(*args: Any, jaxpr: Jaxpr, rules: Any) -> list[Any]:
    return run_jaxpr(jaxpr, args)


@_rule("while", (RULES, ROW_RULES))
def _while(*args: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **sizes: int) -> list[Any]:
    params = {"cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr, **sizes}
    for_cond, for_body, carry = WhileLayout.of(params).split(args)

    def step(carry: list[Any]) -> list[Any]:
        return run_jaxpr(body_jaxpr, [*for_body, *carry])

    flags = _settled(step, carry)
    return lax.while_loop(  # type: ignore[no-any-return]
        lambda c: run_jaxpr(cond_jaxpr, [*for_cond, *c])[0],
        lambda c: _with_flags(step(c), flags),
        _with_flags(carry, flags),
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
        return outs[:num_carry], outs[num_carry:]

    def once(carry: Any) -> list[Any]:
        return step(carry, pytree.map(lambda x: x[0], list(xs)))[0] if params["length"] else carry

    def settled(carry: Any, x: Any) -> tuple[Any, Any]:
        carry, ys = step(carry, x)
        return _with_flags(carry, flags), ys

    flags = _settled(once, carry)
    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    start = _with_flags(carry, flags)
    carry, ys = lax.scan(settled, start, list(xs), **options)
    return [*carry, *ys]


@_rule("cond", (RULES, ROW_RULES))
def _cond(index: Any, *operands: Any, branches: Sequence[Jaxpr], **params: Any) -> list[Any]:
    found = [eval_shape(lambda *xs, jaxpr=jaxpr: run_jaxpr(jaxpr, xs), *operands) for jaxpr in branches]
    flags = _in_all(*map(_flags, found))
    runs = [lambda *xs, jaxpr=jaxpr: _with_flags(run_jaxpr(jaxpr, xs), flags) for jaxpr in branches]
    return lax.switch(index, runs, *operands)  # type: ignore[no-any-return]
