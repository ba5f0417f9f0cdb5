"""The miniature of Didax that the book builds: the code of its chapters, joined by make_book.py."""


# Chapter 1. Arrays and primitives

import itertools
from contextvars import ContextVar
from functools import cache, partial, reduce
from typing import NamedTuple

import numpy as np

FLOAT, BOOL, INT = map(np.dtype, ("float32", "bool", "int32"))


class ShapedArray(NamedTuple):
    """The type of an array: its shape and its dtype, without its numbers."""

    shape: tuple
    dtype: np.dtype
    weak_type = False  # XLA's client asks for it

    def __repr__(self):
        kind = {FLOAT: "f32", BOOL: "bool", INT: "i32"}[self.dtype]
        return f"{kind}[{','.join(map(str, self.shape))}]"


class Array:
    """A value in a program. Its type is `aval`; its operators apply primitives."""

    shape = property(lambda self: self.aval.shape)
    __array_ufunc__ = None  # `numpy_array * x` asks x, instead of looping over x

    __neg__ = lambda x: neg(x)
    __add__ = __radd__ = lambda x, y: add(x, y)
    __sub__ = lambda x, y: add(x, neg(y))
    __rsub__ = lambda x, y: add(y, neg(x))
    __mul__ = __rmul__ = lambda x, y: mul(x, y)
    __truediv__ = lambda x, y: div(x, y)
    __rtruediv__ = lambda x, y: div(y, x)
    __gt__ = lambda x, y: greater(x, y)
    __lt__ = lambda x, y: greater(y, x)


class ConcreteArray(Array):
    """An array with its numbers: float32, or bool."""

    def __init__(self, value):
        value = np.asarray(value)
        self.value = value if value.dtype == BOOL else value.astype(FLOAT)
        self.aval = ShapedArray(value.shape, self.value.dtype)

    __bool__ = lambda self: bool(self.value)
    __float__ = lambda self: float(self.value)
    __repr__ = lambda self: f"Array({number(self.value)}, {self.aval})"


def number(value):
    """The text of NumPy's numbers, with four decimals."""
    return np.array2string(value, precision=4, separator=", ")


def array(x):
    """`x` as an array; numbers and NumPy's arrays become concrete."""
    return x if isinstance(x, Array) else ConcreteArray(x)


def avals_of(xs):
    """The types of arrays, or of variables."""
    return [x.aval for x in xs]


class Primitive:
    """An operation, declared once with all of its rules. A rule that is None is absent."""

    type = lower = batch = jvp = linearize = transpose = None

    def __init__(self, name):
        self.name = name

    def bind(self, *args, **params):
        """Apply the operation to arrays under the current trace: a list of results."""
        return current_trace().process(self, list(map(array, args)), params)

    def __call__(self, *args, **params):
        """The same for an operation with one result: that result."""
        return self.bind(*args, **params)[0]

    def rule(self, *names):
        """The first of these rules that the primitive has."""
        for name in names:
            if getattr(self, name) is not None:
                return getattr(self, name)
        raise NotImplementedError(f"The primitive {self.name} has no {names[-1]} rule.")

    def eager(self, *values, **params):
        """NumPy values in and out. Without a NumPy function of its own, the operation is compiled."""
        return compiled(self, tuple(avals_of(map(array, values))), tuple(params.items()))(*values)


class Trace:
    """An interpreter of primitives. What does not concern it, it passes to its parent."""

    def __init__(self, parent):
        self.parent = parent

    def process(self, primitive, args, params):
        """Apply `primitive` to arrays: a list of results."""
        raise NotImplementedError


class EagerTrace(Trace):
    """The end of every chain of parents: computes at once."""

    def process(self, primitive, args, params):
        if lost := [x for x in args if not isinstance(x, ConcreteArray)]:
            raise TypeError(f"{lost[0]} was used outside of the transformation that made it.")
        with np.errstate(all="ignore"):
            outs = primitive.eager(*[x.value for x in args], **params)
        return list(map(ConcreteArray, outs))


current_trace_var = ContextVar("current_trace", default=EagerTrace(None))
current_trace = current_trace_var.get


def run_under(trace, fun, *args, **params):
    """`fun(*args, **params)` with `trace` current."""
    token = current_trace_var.set(trace)
    try:
        return fun(*args, **params)
    finally:
        current_trace_var.reset(token)


class Elementwise(Primitive):
    """One number of the result for the numbers at one position of operands of one shape.

    `jvp` has a function for each operand: from the tangent `t` of that operand, the result
    and the operands, to the operand's share of the result's tangent. `transpose` has a
    function for each operand in which the operation is linear: from the cotangent `ct` of
    the result and the operands, to the cotangent of that operand.
    """

    def __init__(self, name, signature, numpy, hlo, jvp=(), transpose=(), attributes=""):
        super().__init__(name)
        self.signature, self.numpy, self.hlo = signature, numpy, hlo
        self.jvps, self.transposes, self.attributes = jvp, transpose, attributes

    def __call__(self, *args):
        return super().__call__(*match_shapes(args))

    def type(self, *avals):
        operands, result = self.signature.split("->")
        kinds = {"f": FLOAT, "b": BOOL}  # the letter "a" stands for either
        fits = [kinds.setdefault(kind, x.dtype) == x.dtype for kind, x in zip(operands, avals)]
        if len(avals) != len(operands) or not all(fits) or len({x.shape for x in avals}) > 1:
            raise TypeError(f"{self.name} takes {self.signature} of one shape, not {avals}.")
        return [ShapedArray(avals[0].shape, kinds[result])]

    def eager(self, *values):
        return [self.numpy(*values)]

    def lower(self, ctx, *args):
        return ctx.op(self.hlo, args, self.type(*avals_of(args)), self.attributes)

    def batch(self, size, args, dims):
        return self.bind(*repeat_unbatched(size, args, dims)), [0]

    def jvp(self, primals, tangents):
        out = self(*primals)
        pairs = [(rule, t) for rule, t in zip(self.jvps, tangents) if rule and t is not None]
        shares = [rule(t, out, *primals) for rule, t in pairs]
        return [out], [reduce(add, shares) if shares else None]

    def transpose(self, cts, *args):
        rules = zip(self.transposes, args, strict=True)
        return [rule(*cts, *args) if isinstance(x, Undef) else None for rule, x in rules]


def match_shapes(args):
    """The operands with the leading axes that some of them lack, as NumPy adds them."""
    args = list(map(array, args))
    shape = max([x.shape for x in args], key=len)
    for i, x in enumerate(args):
        for size in reversed(shape[: len(shape) - len(x.shape)]):
            args[i] = broadcast(args[i], axis=0, size=size)
    return args


# fmt: off
neg = Elementwise("neg", "f->f", np.negative, "negate",
                  jvp=[lambda t, y, x: -t], transpose=[lambda ct, x: -ct])
add = Elementwise("add", "ff->f", np.add, "add",
                  jvp=[lambda t, z, x, y: t, lambda t, z, x, y: t],
                  transpose=[lambda ct, x, y: ct, lambda ct, x, y: ct])
mul = Elementwise("mul", "ff->f", np.multiply, "multiply",
                  jvp=[lambda t, z, x, y: t * y, lambda t, z, x, y: x * t],
                  transpose=[lambda ct, x, y: ct * y, lambda ct, x, y: x * ct])
div = Elementwise("div", "ff->f", np.divide, "divide", transpose=[lambda ct, x, y: ct / y, None],
                  jvp=[lambda t, z, x, y: t / y, lambda t, z, x, y: -(t * z / y)])
sin = Elementwise("sin", "f->f", np.sin, "sine", jvp=[lambda t, y, x: t * cos(x)])
cos = Elementwise("cos", "f->f", np.cos, "cosine", jvp=[lambda t, y, x: -(t * sin(x))])
exp = Elementwise("exp", "f->f", np.exp, "exponential", jvp=[lambda t, y, x: t * y])
log = Elementwise("log", "f->f", np.log, "log", jvp=[lambda t, y, x: t / x])
tanh = Elementwise("tanh", "f->f", np.tanh, "tanh", jvp=[lambda t, y, x: t * (1 - y * y)])
greater = Elementwise("greater", "ff->b", np.greater, "compare",
                      attributes="comparison_direction = #stablehlo<comparison_direction GT>")
where = Elementwise("where", "baa->a", np.where, "select",
                    jvp=[None, lambda t, z, p, x, y: where(p, t, 0), lambda t, z, p, x, y: where(p, 0, t)],
                    transpose=[None, lambda ct, p, x, y: where(p, ct, 0), lambda ct, p, x, y: where(p, 0, ct)])
# fmt: on


class Movement(Primitive):
    """A linear operation on one array: the tangent goes through it like the array itself."""

    def __init__(self, name, **rules):
        super().__init__(name)
        vars(self).update(rules)

    def jvp(self, primals, tangents, **params):
        return self.bind(*primals, **params), self.bind(*tangents, **params)


# fmt: off
broadcast = Movement(  # repeats an array `size` times along a new axis
    "broadcast",
    type=lambda x, axis, size: [x._replace(shape=(*x.shape[:axis], size, *x.shape[axis:]))],
    eager=lambda x, axis, size: [np.repeat(np.expand_dims(x, axis), size, axis)],
    lower=lambda ctx, x, axis, size: ctx.op(
        "broadcast_in_dim", [x], broadcast.type(x.aval, axis, size),
        f"broadcast_dimensions = {integers(i + (i >= axis) for i in range(len(x.aval.shape)))}"),
    batch=lambda n, args, dims, axis, size: (broadcast.bind(*args, axis=axis + 1, size=size), [0]),
    transpose=lambda cts, x, axis, size: reduce_sum.bind(*cts, axis=axis))
reduce_sum = Movement(  # adds the numbers along an axis, which goes away
    "reduce_sum",
    type=lambda x, axis: [x._replace(shape=(*x.shape[:axis], *x.shape[axis + 1:]))],
    eager=lambda x, axis: [np.sum(x, axis)],
    lower=lambda ctx, x, axis: ctx.op(
        "reduce", [x, ctx.constant(np.float32(0))], reduce_sum.type(x.aval, axis),
        f"dimensions = {integers([axis])}", [ctx.region([ShapedArray((), FLOAT)] * 2, partial(add.lower, ctx))]),
    batch=lambda n, args, dims, axis: (reduce_sum.bind(*args, axis=axis + 1), [0]),
    transpose=lambda cts, x, axis: broadcast.bind(*cts, axis=axis, size=x.shape[axis]))
transpose = Movement(  # puts the axes in another order: axis i of the result was axis order[i]
    "transpose",
    type=lambda x, order: [x._replace(shape=tuple(x.shape[i] for i in order))],
    eager=lambda x, order: [np.transpose(x, order)],
    lower=lambda ctx, x, order: ctx.op(
        "transpose", [x], transpose.type(x.aval, order), f"permutation = {integers(order)}"),
    batch=lambda n, args, dims, order: (transpose.bind(*args, order=(0, *[i + 1 for i in order])), [0]),
    transpose=lambda cts, x, order: transpose.bind(*cts, order=tuple(map(int, np.argsort(order)))))
# fmt: on


def zeros(aval):
    """An array of that type, of zeros (or of False)."""
    number = ConcreteArray(np.zeros((), aval.dtype))
    return reduce(lambda x, size: broadcast(x, axis=0, size=size), reversed(aval.shape), number)


# Chapter 2. Traces: jvp and vmap


class Tracer(Array):
    """An array in flight through `trace`: its type is known, its numbers need not be."""

    def __init__(self, trace, aval):
        self.trace, self.aval = trace, aval

    def __bool__(self):
        raise TypeError(f"Python cannot branch on {self}: use cond or where.")

    def __repr__(self):
        return f"Traced<{self.aval}>({type(self.trace).__name__})"


class PairTracer(Tracer):
    """A value, and what its trace keeps beside it: a tangent, or a batch axis."""

    def __init__(self, trace, value, beside, aval):
        super().__init__(trace, aval)
        self.value, self.beside = value, beside


class PairTrace(Trace):
    """Runs a rule of each primitive on values, and on what is beside them (None: nothing)."""

    def process(self, primitive, args, params):
        pairs = list(map(self.split, args))
        if all(beside is None for _, beside in pairs):
            return self.parent.process(primitive, args, params)
        found = run_under(self.parent, self.apply_rule, primitive, *zip(*pairs), params)
        return list(map(self.join, *found))

    def split(self, x):
        """The two parts of a tracer of this trace; what is not of this trace is a value."""
        mine = isinstance(x, PairTracer) and x.trace is self
        return (x.value, x.beside) if mine else (x, None)

    def join(self, value, beside):
        """A tracer, or just the value where nothing is beside it."""
        return value if beside is None else PairTracer(self, value, beside, self.aval(value))

    def run(self, fun, values, beside):
        """`fun` on tracers, with this trace current: the two parts of its results."""
        outs = run_under(self, fun, *map(self.join, values, beside))
        return tuple(zip(*map(self.split, outs)))


class JVPTrace(PairTrace):
    """Carries tangents along."""

    rules = ("jvp",)  # the first of these that a primitive has; chapter 5 adds one

    def apply_rule(self, primitive, primals, tangents, params):
        return primitive.rule(*self.rules)(primals, tangents, **params)

    def aval(self, primal):
        return primal.aval


def jvp_flat(fun, primals, tangents):
    """Results of `fun`, and their tangents; all are lists."""
    outs, out_dots = JVPTrace(current_trace()).run(fun, primals, tangents)
    return outs, instantiate(out_dots, outs)


def instantiate(tangents, xs):
    """The tangents of `xs`, with zeros for those that vanish."""
    return [zeros(tangent_aval(x.aval)) if t is None else t for t, x in zip(tangents, xs)]


def tangent_aval(aval):
    """The type of a tangent: numbers; those of bools are always zero."""
    return aval._replace(dtype=FLOAT)


def tree_flatten(tree):
    """The leaves of nested tuples and lists as arrays, and their structure: nested tuples."""
    if not isinstance(tree, tuple | list):
        return [array(tree)], None
    parts = [tree_flatten(part) for part in tree]
    return [x for leaves, _ in parts for x in leaves], (type(tree), *[s for _, s in parts])


def tree_unflatten(structure, leaves):
    """The tree of that structure with these leaves."""
    leaves = iter(leaves)
    if structure is None:
        return next(leaves)
    return structure[0](tree_unflatten(part, leaves) for part in structure[1:])


def flat_function(f, args):
    """`f` from leaves to leaves, the leaves of `args`, and what makes a result of leaves."""
    leaves, in_structure = tree_flatten(args)
    out_structures = []

    def fun(*leaves):
        outs, structure = tree_flatten(f(*tree_unflatten(in_structure, leaves)))
        out_structures.append(structure)
        return outs

    return fun, leaves, lambda outs: tree_unflatten(out_structures[0], outs)


def jvp(f, primals, tangents):
    """`f(*primals)`, and its derivative along `tangents`."""
    fun, leaves, unflatten = flat_function(f, tuple(primals))
    return tuple(map(unflatten, jvp_flat(fun, leaves, tree_flatten(tuple(tangents))[0])))


class BatchTrace(PairTrace):
    """Moves a batch of `size` elements along; beside a value is 0, the axis of the batch."""

    def __init__(self, parent, size):
        super().__init__(parent)
        self.size = size

    def apply_rule(self, primitive, values, dims, params):
        return primitive.rule("batch")(self.size, values, dims, **params)

    def aval(self, value):
        return value.aval._replace(shape=value.shape[1:])


def repeat_unbatched(size, args, dims):
    """All operands with a batch axis, those that had none repeated along it."""
    return [broadcast(x, axis=0, size=size) if d is None else x for x, d in zip(args, dims)]


def vmap_flat(fun, size, args, dims):
    """Results of `fun` on a batch, all of them with a batch axis."""
    return repeat_unbatched(size, *BatchTrace(current_trace(), size).run(fun, args, dims))


def vmap(f, in_axes=0):
    """`f` along the leading axes of its arguments, but of those whose entry in `in_axes` is None."""

    def batched_f(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        dims = [axis for x, axis in zip(args, axes, strict=True) for _ in tree_flatten(x)[0]]
        fun, leaves, unflatten = flat_function(f, args)
        (size,) = {x.shape[0] for x, dim in zip(leaves, dims) if dim == 0}
        return unflatten(vmap_flat(fun, size, leaves, dims))

    return batched_f


# Chapter 3. Programs as data


class Var:
    """A variable: bound once, by an input of a program or by one equation."""

    def __init__(self, aval):
        self.aval = aval


class Literal:
    """A value that is written into a program."""

    def __init__(self, val):
        self.val, self.aval = val, val.aval


class Eqn(NamedTuple):
    """`outvars = primitive[params] invars`."""

    primitive: Primitive
    invars: list
    params: dict
    outvars: list


class Jaxpr:
    """A typed, closed program: inputs, equations in order, outputs."""

    def __init__(self, invars, eqns, outvars):
        self.invars, self.eqns, self.outvars = list(invars), list(eqns), list(outvars)
        self.in_avals, self.out_avals = avals_of(self.invars), avals_of(self.outvars)

    def __repr__(self):
        names = {}

        def text(x):
            if isinstance(x, Literal):
                return number(x.val.value) if isinstance(x.val, ConcreteArray) else str(x.val)
            return names.setdefault(x, chr(97 + len(names) % 26) + "'" * (len(names) // 26))

        def typed(xs):
            return " ".join(f"{text(x)}:{x.aval}" for x in xs)

        lines = [f"{{ lambda {typed(self.invars)} . let"]
        for eqn in self.eqns:
            params = " ".join(f"{name}={value}" for name, value in eqn.params.items())
            operation = f"{eqn.primitive.name}[{params}]" if params else eqn.primitive.name
            line = f"{typed(eqn.outvars)} = {operation} {' '.join(map(text, eqn.invars))}"
            lines.append("    " + line.replace("\n", "\n    "))
        return "\n".join([*lines, f"  in ({', '.join(map(text, self.outvars))}) }}"])


def eval_jaxpr(jaxpr, *args):
    """Run a program: each equation is bound under the current trace."""
    env = dict(zip(jaxpr.invars, args, strict=True))

    def read(x):
        return x.val if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        outs = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        env.update(zip(eqn.outvars, outs, strict=True))
    return list(map(read, jaxpr.outvars))


def check_jaxpr(jaxpr):
    """TypeError unless every variable is bound once, before its uses, and has its right type."""
    bound = set(jaxpr.invars)

    def use(xs):
        if any(isinstance(x, Var) and x not in bound for x in xs):
            raise TypeError(f"A variable is used before it is bound, in\n{jaxpr}")
        return avals_of(xs)

    for eqn in jaxpr.eqns:
        wanted = eqn.primitive.type(*use(eqn.invars), **eqn.params)
        if wanted != avals_of(eqn.outvars) or not bound.isdisjoint(eqn.outvars):
            raise TypeError(f"{eqn.primitive.name} has new results of types {wanted}, in\n{jaxpr}")
        bound.update(eqn.outvars)
    use(jaxpr.outvars)


class VarTracer(Tracer):
    """A variable of a program that is being written."""

    def __init__(self, trace, aval):
        super().__init__(trace, aval)
        self.var = Var(aval)


class StagingTrace(Trace):
    """Writes every operation down as an equation."""

    def __init__(self, parent):
        super().__init__(parent)
        self.eqns, self.captured = [], {}

    def process(self, primitive, args, params):
        outs = [VarTracer(self, aval) for aval in primitive.type(*avals_of(args), **params)]
        invars, outvars = list(map(self.atom, args)), [y.var for y in outs]
        self.eqns.append(Eqn(primitive, invars, params, outvars))
        return outs

    def owns(self, x):
        return isinstance(x, VarTracer) and x.trace is self

    def atom(self, x):
        """A value in the program: a number is a literal, another array from outside an input."""
        if self.owns(x):
            return x.var
        if isinstance(x, ConcreteArray) and x.shape == ():
            return Literal(x)
        return self.captured.setdefault(id(x), (Var(x.aval), x))[0]


def trace_to_jaxpr(fun, in_avals):
    """The program of `fun`, and the arrays it captured, which are the program's first inputs."""
    trace = StagingTrace(current_trace())
    args = [VarTracer(trace, aval) for aval in in_avals]
    outvars = list(map(trace.atom, run_under(trace, fun, *args)))
    variables, captured = split_pairs(trace.captured.values())
    jaxpr = Jaxpr([*variables, *[x.var for x in args]], trace.eqns, outvars)
    check_jaxpr(jaxpr)
    return jaxpr, captured


def split_pairs(pairs):
    """The first and the second items of pairs."""
    return [a for a, _ in pairs], [b for _, b in pairs]


def make_jaxpr(f):
    """`f` as a program, for arguments of the types of those given."""

    def traced(*args):
        fun, leaves, _ = flat_function(f, args)
        return trace_to_jaxpr(fun, avals_of(leaves))[0]

    return traced


def staged(fun, in_avals):
    """The program of a function that captures nothing."""
    jaxpr, captured = trace_to_jaxpr(fun, in_avals)
    assert not captured, "transformed programs are closed"
    return jaxpr


@cache
def jvp_jaxpr(jaxpr):
    """The jvp of a program: inputs and their tangents to outputs and their tangents."""

    def fun(*args):
        primals, tangents = split_at(args, len(jaxpr.invars))
        return itertools.chain(*jvp_flat(partial(eval_jaxpr, jaxpr), primals, tangents))

    return staged(fun, [*jaxpr.in_avals, *map(tangent_aval, jaxpr.in_avals)])


@cache
def batch_jaxpr(jaxpr, size, dims):
    """The program over a batch: all of its outputs have a batch axis."""
    pairs = zip(jaxpr.in_avals, dims)
    avals = [a if d is None else a._replace(shape=(size, *a.shape)) for a, d in pairs]
    return staged(lambda *args: vmap_flat(partial(eval_jaxpr, jaxpr), size, args, dims), avals)


def split_at(xs, *sizes):
    """The parts of a list: the first of these sizes, and the rest."""
    bounds = [0, *itertools.accumulate(sizes), len(xs)]
    return [list(xs[start:stop]) for start, stop in itertools.pairwise(bounds)]


# Chapter 4. jit

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # XLA shall not talk while it starts

from jaxlib import _hlo as hlo
from jaxlib import _jax as xla


class Value(NamedTuple):
    """A value in the text of a program: its name, and its type."""

    name: str
    aval: ShapedArray


def tensor(aval):
    """A type as StableHLO writes it: tensor<3x4xf32>."""
    kind = {FLOAT: "f32", BOOL: "i1", INT: "i32"}[aval.dtype]
    return f"tensor<{'x'.join([*map(str, aval.shape), kind])}>"


def tensors(values, named=False):
    """The types of values, with or without their names."""
    return ", ".join(f"{x.name}: {tensor(x.aval)}" if named else tensor(x.aval) for x in values)


def integers(numbers):
    """A list of integers as StableHLO writes it: array<i64: 0, 2>."""
    return f"array<i64: {', '.join(map(str, numbers))}>".replace(": >", ">")


class FunctionContext:
    """The text of a function while it is being written."""

    def __init__(self):
        self.lines, self.counter = [], itertools.count()

    def new(self, avals):
        """Values with new names."""
        return [Value(f"%{next(self.counter)}", aval) for aval in avals]

    def op(self, name, operands, avals, attributes="", regions=()):
        """Write an operation with results of these types; the results."""
        outs = self.new(avals)
        text = f"{', '.join(y.name for y in outs)} = " if outs else ""
        text += f'"{name if "." in name else f"stablehlo.{name}"}"({", ".join(x.name for x in operands)})'
        text += f" <{{{attributes}}}>" if attributes else ""
        text += f" ({', '.join(regions)})" if regions else ""
        self.lines.append(f"{text} : ({tensors(operands)}) -> ({tensors(outs)})")
        return outs

    def constant(self, number):
        """A number; one of floating point by its bits, so that it stays exactly the same."""
        aval = ShapedArray((), number.dtype)
        text = f"0x{number.view(np.uint32):08X}" if number.dtype == FLOAT else str(number).lower()
        return self.op("constant", [], [aval], f"value = dense<{text}> : {tensor(aval)}")[0]

    def region(self, avals, body):
        """The text of a block within an operation: what `body` writes for values of these types."""
        outer, self.lines = self.lines, []
        args = self.new(avals)
        self.op("return", body(*args), [])
        inner, self.lines = self.lines, outer
        return "\n".join(["{", f"^bb0({tensors(args, named=True)}):" if args else "", *inner, "}"])


def lower_jaxpr(ctx, jaxpr, args):
    """Write the equations of a program; the values of its outputs."""
    env = dict(zip(jaxpr.invars, args, strict=True))

    def read(x):
        return ctx.constant(x.val.value[()]) if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        outs = eqn.primitive.rule("lower")(ctx, *map(read, eqn.invars), **eqn.params)
        env.update(zip(eqn.outvars, outs, strict=True))
    return list(map(read, jaxpr.outvars))


def lower(jaxpr):
    """A program as StableHLO text."""
    ctx = FunctionContext()
    args = ctx.new(jaxpr.in_avals)
    outs = lower_jaxpr(ctx, jaxpr, args)
    ctx.op("func.return", outs, [])
    head = f"func.func public @main({tensors(args, named=True)}) -> ({tensors(outs)}) {{"
    return "\n".join(["module @miniature {", head, *ctx.lines, "}", "}"])


client = xla.get_tfrt_cpu_client(asynchronous=False, num_devices=2)
devices = client.local_devices()


class OneDevice(xla.SingleDeviceSharding):
    """Whole arrays on one device."""

    memory_kind = None

    def _to_xla_hlo_sharding(self, rank):
        return hlo.HloSharding.replicate()


def compile_jaxpr(jaxpr, device):
    """The compiled program, as a function from NumPy values to NumPy values."""
    place, options = OneDevice(device), xla.CompileOptions()
    options.device_assignment = xla.DeviceAssignment.create(np.array([[device.id]], np.int32))
    program = client.compile_and_load(lower(jaxpr), xla.DeviceList((device,)), options)
    more = () if hasattr(xla.ArrayImpl, "_to_np_array_did_copy") else (True,)  # before jaxlib 0.11
    handlers = [xla.array_result_handler(aval, place, True, *more) for aval in jaxpr.out_avals]

    def run(*values):
        put = partial(xla.batched_device_put, enable_x64=True)
        pairs = zip(jaxpr.in_avals, values, strict=True)
        buffers = [put(aval, place, [np.asarray(x)], [device], True) for aval, x in pairs]
        outs = program.execute_sharded(buffers).consume_with_handlers(handlers, False)
        return list(map(np.asarray, outs))

    return run


@cache
def compiled(primitive, avals, params, device=devices[0]):
    """A program of one operation, compiled."""
    return compile_jaxpr(staged(lambda *xs: primitive.bind(*xs, **dict(params)), avals), device)


class Call(Primitive):
    """Runs one of the programs `jaxprs` on its operands; rules run transformed programs instead.

    The first `lead` operands are not for the program, but choose it. `carried` marks operands
    and results of loops; see `arrange`.
    """

    lead = 0

    def type(self, *avals, jaxprs, **params):
        if any(
            list(avals[self.lead :]) != j.in_avals or j.out_avals != jaxprs[0].out_avals
            for j in jaxprs
        ):
            raise TypeError(f"{self.name} has operands {avals}, which do not suit\n{jaxprs}")
        return jaxprs[0].out_avals

    def lower(self, ctx, *args, jaxprs):
        return lower_jaxpr(ctx, *jaxprs, args)

    def batch(self, size, args, dims, *, jaxprs, **params):
        jaxprs = tuple(batch_jaxpr(jaxpr, size, tuple(dims[self.lead :])) for jaxpr in jaxprs)
        outs = self.bind(*args, jaxprs=jaxprs, **params)
        return outs, [0] * len(outs)

    def jvp(self, primals, tangents, *, jaxprs, **params):
        tangents = instantiate(tangents, primals)[self.lead :]
        params = arrange(params, lambda ins, outs: (ins + ins, outs + outs))
        outs = self.bind(*primals, *tangents, jaxprs=tuple(map(jvp_jaxpr, jaxprs)), **params)
        return split_at(outs, len(outs) // 2)

    def linearize(self, primals, tangents, *, jaxprs, **params):
        known, unknown, more = linearize_jaxprs(jaxprs)
        now = arrange(params, lambda ins, outs: (ins, outs + more))
        later = arrange(params, lambda ins, outs: (more + ins, outs))
        outs = self.bind(*primals, jaxprs=known, **now)
        outs, residuals = split_at(outs, len(outs) - len(more))
        choice, tangents = primals[: self.lead], instantiate(tangents, primals)[self.lead :]
        return outs, self.bind(*choice, *residuals, *tangents, jaxprs=unknown, **later)

    def transpose(self, cts, *args, jaxprs, **params):
        cts = instantiate(cts, map(Var, self.type(*avals_of(args), jaxprs=jaxprs, **params)))
        choice, args = split_at(args, self.lead)
        linear = tuple(isinstance(x, Undef) for x in args)
        known = [x for x, lin in zip(args, linear) if not lin]
        more = (False,) * len(known)
        params = arrange(
            params, lambda ins, outs: (more + outs, tuple(itertools.compress(ins, linear)))
        )
        jaxprs = tuple(transpose_jaxpr(jaxpr, linear) for jaxpr in jaxprs)
        found = iter(self.bind(*choice, *known, *cts, jaxprs=jaxprs, **params))
        return [None] * self.lead + [next(found) if lin else None for lin in linear]


def arrange(params, change):
    """Parameters with `carried`, a pair of masks, changed as operands and results are."""
    return {k: change(*value) if k == "carried" else value for k, value in params.items()}


jit_p = Call("jit")


def jit(f):
    """`f` as one compiled program for each combination of types of its arguments."""
    programs = {}

    def jitted(*args):
        fun, leaves, unflatten = flat_function(f, args)
        key = (tree_flatten(args)[1], *avals_of(leaves))
        found = programs.get(key) or (*trace_to_jaxpr(fun, avals_of(leaves)), unflatten)
        jaxpr, captured, unflatten = found
        if not any(isinstance(x, Tracer) for x in captured):
            programs[key] = found
        return unflatten(jit_p.bind(*captured, *leaves, jaxprs=(jaxpr,)))

    return jitted


# Chapter 5. grad


class PartialEvalTrace(StagingTrace):
    """Passes what is known to its parent; records what touches an unknown."""

    def process(self, primitive, args, params):
        trace = super() if any(map(self.owns, args)) else self.parent
        return trace.process(primitive, args, params)

    def atom(self, x):
        return x.var if self.owns(x) else Literal(x)


class LinearProgram(NamedTuple):
    """A tape: linear equations from tangents to tangents, in which all literals are known."""

    invars: list
    eqns: list
    outvars: list

    def close(self):
        """The tape as a program whose first inputs are the known arrays, and these arrays."""
        residuals = {}

        def atom(x):
            if isinstance(x, Var) or (isinstance(x.val, ConcreteArray) and x.val.shape == ()):
                return x
            return residuals.setdefault(id(x.val), (Var(x.aval), x.val))[0]

        eqns = [eqn._replace(invars=list(map(atom, eqn.invars))) for eqn in self.eqns]
        outvars = list(map(atom, self.outvars))
        variables, values = split_pairs(residuals.values())
        return Jaxpr([*variables, *self.invars], eqns, outvars), values


class LinearizeTrace(JVPTrace):
    """A JVPTrace whose parent is a tape, and whose tangents are unknown."""

    rules = ("linearize", "jvp")


def linearize_flat(fun, primals):
    """Results of `fun`, and the tape from tangents of `primals` to tangents of the results."""
    tape = PartialEvalTrace(current_trace())
    tangents = [VarTracer(tape, tangent_aval(x.aval)) for x in primals]
    outs, out_dots = LinearizeTrace(tape).run(fun, primals, tangents)
    out_dots = list(map(tape.atom, instantiate(out_dots, outs)))
    return outs, LinearProgram([t.var for t in tangents], tape.eqns, out_dots)


def linearize(f, *primals):
    """`f(*primals)`, and its derivative there, a function of tangents."""
    fun, leaves, unflatten = flat_function(f, primals)
    outs, program = linearize_flat(fun, leaves)

    def f_jvp(*tangents):
        return unflatten(eval_jaxpr(Jaxpr(*program), *tree_flatten(tangents)[0]))

    return unflatten(outs), f_jvp


class Undef(Array):
    """Stands for a linear operand in a transpose rule: only its type is known."""

    def __init__(self, aval):
        self.aval = aval


def backward(program, cotangents):
    """Cotangents of the inputs of a tape, for cotangents of its outputs."""
    sums = {}

    def send(x, ct):
        if isinstance(x, Var) and ct is not None:
            sums[x] = sums[x] + ct if x in sums else ct

    list(map(send, program.outvars, cotangents))
    for eqn in reversed(program.eqns):
        cts = [sums.pop(v, None) for v in eqn.outvars]
        if any(ct is not None for ct in cts):
            args = [Undef(x.aval) if isinstance(x, Var) else x.val for x in eqn.invars]
            list(map(send, eqn.invars, eqn.primitive.rule("transpose")(cts, *args, **eqn.params)))
    return instantiate([sums.get(v) for v in program.invars], program.invars)


def vjp(f, *primals):
    """`f(*primals)`, and the function from a cotangent of the result to those of the arguments."""
    fun, leaves, unflatten = flat_function(f, primals)
    outs, program = linearize_flat(fun, leaves)

    def f_vjp(cotangent):
        found = backward(program, tree_flatten(cotangent)[0])
        return tree_unflatten(tree_flatten(primals)[1], found)

    return unflatten(outs), f_vjp


def value_and_grad(f):
    """The number that `f` returns, and its gradient with respect to the first argument."""

    def f_and_grad(x, *args):
        y, f_vjp = vjp(lambda x: f(x, *args), x)
        return y, f_vjp(1.0)[0]

    return f_and_grad


def grad(f):
    """The gradient with respect to the first argument of a function that returns one number."""
    return lambda *args: value_and_grad(f)(*args)[1]


@cache
def linearize_jaxpr(jaxpr):
    """A program in two: inputs to outputs and residuals; residuals and tangents to tangents."""
    halves = []

    def known(*args):
        outs, program = linearize_flat(partial(eval_jaxpr, jaxpr), args)
        half, residuals = program.close()
        halves.append(half)
        return [*outs, *residuals]

    return staged(known, jaxpr.in_avals), *halves


@cache
def transpose_jaxpr(jaxpr, linear):
    """Known inputs and cotangents of the outputs, to cotangents of the linear inputs."""
    known = [aval for aval, lin in zip(jaxpr.in_avals, linear) if not lin]

    def transposed(*args):
        values, cts = split_at(args, len(known))
        tape, values = PartialEvalTrace(current_trace()), iter(values)
        pairs = zip(jaxpr.in_avals, linear)
        args = [VarTracer(tape, aval) if lin else next(values) for aval, lin in pairs]
        outs = run_under(tape, eval_jaxpr, jaxpr, *args)
        invars = [x.var for x in args if tape.owns(x)]
        return backward(LinearProgram(invars, tape.eqns, map(tape.atom, outs)), cts)

    return staged(transposed, [*known, *jaxpr.out_avals])


@cache
def linearize_jaxprs(jaxprs):
    """The known halves and the unknown halves of programs of which one will run.

    Whichever program runs returns the residuals of all, with zeros for those of the others.
    The third result has a False for each residual: a loop, in chapter 6, does not carry it.
    """
    splits = list(map(linearize_jaxpr, jaxprs))
    num_outs = len(jaxprs[0].outvars)
    avals = [known.out_avals[num_outs:] for known, _ in splits]

    def known_half(k):
        def fun(*args):
            outs, residuals = split_at(eval_jaxpr(splits[k][0], *args), num_outs)
            parts = [residuals if i == k else map(zeros, avals[i]) for i in range(len(jaxprs))]
            return [*outs, *itertools.chain(*parts)]

        return staged(fun, jaxprs[k].in_avals)

    known = tuple(map(known_half, range(len(jaxprs))))
    unknown = tuple(widen(half, avals, k) for k, (_, half) in enumerate(splits))
    return known, unknown, (False,) * sum(map(len, avals))


def widen(jaxpr, avals, k):
    """Program k, whose first inputs have the types `avals[k]`, with inputs for all of `avals`."""
    own, rest = split_at(jaxpr.invars, len(avals[k]))
    parts = [own if i == k else map(Var, types) for i, types in enumerate(avals)]
    return Jaxpr([*itertools.chain(*parts), *rest], jaxpr.eqns, jaxpr.outvars)


# Chapter 6. Branches and loops


class Cond(Call):
    """Runs `jaxprs[0]` if the first operand is true, else `jaxprs[1]`, on the other operands."""

    lead = 1

    def lower(self, ctx, predicate, *args, jaxprs):
        regions = [ctx.region([], partial(lower_jaxpr, ctx, jaxpr, args)) for jaxpr in jaxprs]
        return ctx.op("if", [predicate], jaxprs[0].out_avals, regions=regions)

    def batch(self, size, args, dims, *, jaxprs):
        if dims[0] is None:
            return super().batch(size, args, dims, jaxprs=jaxprs)
        runs = [jit_p.batch(size, args[1:], dims[1:], jaxprs=(jaxpr,))[0] for jaxpr in jaxprs]
        choose = vmap(lambda p, x, y: where(p, x, y))  # one bool for a whole element
        return [choose(args[0], x, y) for x, y in zip(*runs)], [0] * len(runs[0])


cond_p = Cond("cond")


def cond(predicate, true_fun, false_fun, *operands):
    """`true_fun(*operands)` if the predicate is true, else `false_fun(*operands)`."""
    funs = [flat_function(f, operands) for f in (true_fun, false_fun)]
    (_, leaves, unflatten), _ = funs
    programs, captured = split_pairs([trace_to_jaxpr(fun, avals_of(leaves)) for fun, _, _ in funs])
    avals = list(map(avals_of, captured))
    jaxprs = tuple(widen(jaxpr, avals, k) for k, jaxpr in enumerate(programs))
    return unflatten(cond_p.bind(predicate, *captured[0], *captured[1], *leaves, jaxprs=jaxprs))


class Scan(Call):
    """Runs a program `length` times: on what it carries, and on a row of each other operand.

    `carried` marks the operands, and the results, that are carried from one step to the next.
    The other results are stacked from the rows that the steps return.
    """

    def type(self, *avals, jaxprs, length, reverse, carried):
        if any(not c and x.shape[0] != length for x, c in zip(avals, carried[0], strict=True)):
            raise TypeError(f"scan runs {length} times, along leading axes, not along {avals}.")
        rows = [x if c else x._replace(shape=x.shape[1:]) for x, c in zip(avals, carried[0])]
        outs = super().type(*rows, jaxprs=jaxprs)
        first, last = (list(itertools.compress(*x)) for x in zip((rows, outs), carried))
        if first != last:
            raise TypeError(f"What scan carries keeps its type: {first} became {last}.")
        pairs = zip(outs, carried[1])
        return [y if c else y._replace(shape=(length, *y.shape)) for y, c in pairs]

    def lower(self, ctx, *args, jaxprs, length, reverse, carried):
        count, params = ShapedArray((), INT), {"length": length, "reverse": reverse}
        out_avals = self.type(*avals_of(args), jaxprs=jaxprs, carried=carried, **params)
        integer = lambda n: ctx.constant(np.int32(n))

        def at(i, x):
            return [i, *[integer(0) for _ in x.aval.shape[1:]]]

        def read(i, x):
            row = x.aval._replace(shape=x.aval.shape[1:])
            sizes = f"slice_sizes = {integers([1, *row.shape])}"
            one = row._replace(shape=(1, *row.shape))
            return ctx.op("reshape", ctx.op("dynamic_slice", [x, *at(i, x)], [one], sizes), [row])[
                0
            ]

        def write(i, x, row):
            one = ctx.op("reshape", [row], [row.aval._replace(shape=(1, *row.aval.shape))])
            return ctx.op("dynamic_update_slice", [x, *one, *at(i, x)], [x.aval])[0]

        def more(i, *state):
            less = "comparison_direction = #stablehlo<comparison_direction LT>"
            return ctx.op("compare", [i, integer(length)], [ShapedArray((), BOOL)], less)

        def step(i, *state):
            (k,) = ctx.op("subtract", [integer(length - 1), i], [count]) if reverse else (i,)
            carry = itertools.compress(state, carried[1])
            pairs = zip(args, carried[0])
            outs = lower_jaxpr(ctx, *jaxprs, [next(carry) if c else read(k, x) for x, c in pairs])
            triples = zip(state, outs, carried[1])
            after = [y if c else write(k, x, y) for x, y, c in triples]
            return [*ctx.op("add", [i, integer(1)], [count]), *after]

        first = itertools.compress(args, carried[0])
        blank = lambda aval: lower_jaxpr(ctx, staged(lambda: [zeros(aval)], []), [])[0]
        state = [next(first) if c else blank(aval) for aval, c in zip(out_avals, carried[1])]
        state = [integer(0), *state]
        regions = [ctx.region(avals_of(state), body) for body in (more, step)]
        return ctx.op("while", state, avals_of(state), regions=regions)[1:]

    def batch(self, size, args, dims, *, carried, **params):
        carry = repeat_unbatched(size, args, dims)
        triples = zip(args, carry, dims, carried[0])
        args = [y if c else x if d is None else swap_leading(x) for x, y, d, c in triples]
        dims = [0 if c else d for d, c in zip(dims, carried[0])]
        outs, dims = super().batch(size, args, dims, carried=carried, **params)
        return [y if c else swap_leading(y) for y, c in zip(outs, carried[1])], dims

    def transpose(self, cts, *args, carried, reverse, **params):
        # A carry may be known when the loop begins, and depends on unknown values after a step.
        args = [Undef(x.aval) if c else x for x, c in zip(args, carried[0])]
        return super().transpose(cts, *args, carried=carried, reverse=not reverse, **params)


def swap_leading(x):
    """`x` with its first two axes exchanged."""
    return transpose(x, order=(1, 0, *range(2, len(x.shape))))


scan_p = Scan("scan")


def scan(f, init, xs, reverse=False):
    """Runs `carry, y = f(carry, x)` for the rows x of `xs`: the last carry, and the stacked ys."""
    fun, leaves, unflatten = flat_function(f, (init, xs))
    num_carry = len(tree_flatten(init)[0])
    length = leaves[num_carry].shape[0]
    rows = [x.aval._replace(shape=x.shape[1:]) for x in leaves[num_carry:]]
    jaxpr, captured = trace_to_jaxpr(fun, [*avals_of(leaves[:num_carry]), *rows])
    # What the function captured is carried too, unchanged.
    n, m = len(captured), len(captured) + num_carry
    jaxpr = Jaxpr(jaxpr.invars, jaxpr.eqns, [*jaxpr.invars[:n], *jaxpr.outvars])
    carried = tuple(tuple(i < m for i in range(len(xs))) for xs in (jaxpr.invars, jaxpr.outvars))
    params = {"length": length, "reverse": reverse, "carried": carried}
    return unflatten(scan_p.bind(*captured, *leaves, jaxprs=(jaxpr,), **params)[n:])
