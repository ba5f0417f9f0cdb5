"""The miniature of Didax that the book builds: the code of its chapters, joined by make_book.py."""


# Chapter 1. Arrays and primitives

import itertools
from collections import namedtuple
from contextvars import ContextVar, copy_context
from functools import cache, partial, reduce

import numpy as np

FLOAT, BOOL, INT = map(np.dtype, ("float32", "bool", "int32"))


class ShapedArray(namedtuple("ShapedArray", "shape dtype")):
    """The type of an array: its shape and its dtype, without its numbers."""

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
        self.value = np.asarray(value, BOOL if np.asarray(value).dtype == BOOL else FLOAT)
        self.aval = ShapedArray(self.value.shape, self.value.dtype)

    __bool__ = lambda self: bool(self.value)
    __float__ = lambda self: float(self.value)
    __repr__ = lambda self: f"Array({number(self.value)}, {self.aval})"


# The text of NumPy's numbers, with four decimals.
number = partial(np.array2string, precision=4, separator=", ")


def array(x):
    """`x` as an array; numbers and NumPy's arrays become concrete."""
    return x if isinstance(x, Array) else ConcreteArray(x)


def avals_of(xs):
    """The types of arrays, or of variables."""
    return [x.aval for x in xs]


class Primitive:
    """An operation, declared once with all of its rules. A rule that is None is absent."""

    type = lower = batch = jvp = transpose = None

    def __init__(self, name, **rules):
        self.name = name
        vars(self).update(rules)

    def bind(self, *args, **params):
        """Apply the operation to arrays under the current trace: a list of results."""
        return current_trace().process(self, list(map(array, args)), params)

    def __call__(self, *args, **params):
        """The same for an operation with one result: that result."""
        return self.bind(*args, **params)[0]

    def rule(self, name):
        """The rule of this name, which has to be there."""
        if getattr(self, name) is None:
            raise NotImplementedError(f"The primitive {self.name} has no {name} rule.")
        return getattr(self, name)

    def eager(self, *values, **params):
        """NumPy values in and out. Without a NumPy function of its own, the operation is compiled."""
        return compiled(self, tuple(avals_of(map(array, values))), tuple(params.items()))(*values)


class Trace:
    """An interpreter of primitives. What does not concern it, it passes to its parent.

    What `extra` holds, it gives to the rules of primitives before the operands.
    """

    def __init__(self, parent, *extra):
        self.parent, self.extra = parent, extra

    # Is this value a tracer of mine?
    owns = lambda self, x: isinstance(x, Tracer) and x.trace is self


class EagerTrace(Trace):
    """The end of every chain of parents: computes at once."""

    def process(self, primitive, args, params):
        if lost := [x for x in args if not isinstance(x, ConcreteArray)]:
            raise TypeError(f"{lost[0]} was used outside of the transformation that made it.")
        with np.errstate(all="ignore"):
            return list(map(ConcreteArray, primitive.eager(*[x.value for x in args], **params)))


current_trace_var = ContextVar("current_trace", default=EagerTrace(None))
current_trace = current_trace_var.get


def run_under(trace, fun, *args, **params):
    """`fun(*args, **params)` with `trace` current."""
    context = copy_context()
    context.run(current_trace_var.set, trace)
    return context.run(fun, *args, **params)


class Elementwise(Primitive):
    """One number of the result for the numbers at one position of operands of one shape.

    `shares` has a function for each operand in which there is a derivative: from the tangent
    `t` of that operand, the result and the operands, to a share of the result's tangent.
    """

    def __init__(self, name, signature, numpy, hlo, shares=(), attributes=""):
        super().__init__(name, signature=signature, numpy=numpy, hlo=hlo, shares=shares)
        self.attributes = attributes

    def __call__(self, *args):
        args = list(map(array, args))
        shape = max([x.shape for x in args], key=len)
        return super().__call__(*[broadcast_to(x, shape) for x in args])

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
        pairs = [(share, t) for share, t in zip(self.shares, tangents) if share and t is not None]
        shares = [share(t, out, *primals) for share, t in pairs]
        return [out], [reduce(add, shares) if shares else None]

    def transpose(self, cts, *args):
        pairs = zip(self.shares, args)
        return [share(*cts, None, *args) if isinstance(x, Var) else None for share, x in pairs]


# What StableHLO's comparison compares by: GT is greater than, NE not equal.
direction = "comparison_direction = #stablehlo<comparison_direction {}>".format


def broadcast_to(x, shape):
    """`x` with the leading axes of `shape` that it lacks."""
    lacking = shape[: len(shape) - len(x.shape)]
    return reduce(lambda x, size: broadcast(x, axis=0, size=size), reversed(lacking), x)


# fmt: off
neg = Elementwise("neg", "f->f", np.negative, "negate", [lambda t, y, x: -t])
add = Elementwise("add", "ff->f", np.add, "add", [lambda t, z, x, y: t, lambda t, z, x, y: t])
mul = Elementwise("mul", "ff->f", np.multiply, "multiply",
                  [lambda t, z, x, y: t * y, lambda t, z, x, y: x * t])
div = Elementwise("div", "ff->f", np.divide, "divide",
                  [lambda t, z, x, y: t / y, lambda t, z, x, y: -(t * z / y)])
sin = Elementwise("sin", "f->f", np.sin, "sine", [lambda t, y, x: t * cos(x)])
cos = Elementwise("cos", "f->f", np.cos, "cosine", [lambda t, y, x: -(t * sin(x))])
exp = Elementwise("exp", "f->f", np.exp, "exponential", [lambda t, y, x: t * y])
log = Elementwise("log", "f->f", np.log, "log", [lambda t, y, x: t / x])
tanh = Elementwise("tanh", "f->f", np.tanh, "tanh", [lambda t, y, x: t * (1 - y * y)])
greater = Elementwise("greater", "ff->b", np.greater, "compare", attributes=direction("GT"))
where = Elementwise("where", "baa->a", np.where, "select",
                    [None, lambda t, z, p, x, y: where(p, t, 0), lambda t, z, p, x, y: where(p, 0, t)])
# fmt: on


class Movement(Primitive):
    """A linear operation on one array: the tangent goes through it like the array itself."""

    def jvp(self, primals, tangents, **params):
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def batch(self, size, args, dims, /, *, axis, **params):
        return self.bind(*args, axis=axis + 1, **params), dims


# fmt: off
broadcast = Movement(  # repeats an array `size` times along a new axis
    "broadcast",
    type=lambda x, axis, size: [x._replace(shape=(*x.shape[:axis], size, *x.shape[axis:]))],
    eager=lambda x, axis, size: [np.repeat(np.expand_dims(x, axis), size, axis)],
    lower=lambda ctx, x, axis, size: ctx.op(
        "broadcast_in_dim", [x], broadcast.type(x.aval, axis, size),
        f"broadcast_dimensions = {integers(i + (i >= axis) for i in range(len(x.aval.shape)))}"),
    transpose=lambda cts, x, axis, size: reduce_sum.bind(*cts, axis=axis))
reduce_sum = Movement(  # adds the numbers along an axis, which goes away
    "reduce_sum",
    type=lambda x, axis: [x._replace(shape=(*x.shape[:axis], *x.shape[axis + 1:]))],
    eager=lambda x, axis: [np.sum(x, axis)],
    lower=lambda ctx, x, axis: ctx.op(
        "reduce", [x, ctx.constant(np.float32(0))], reduce_sum.type(x.aval, axis),
        f"dimensions = {integers([axis])}", [ctx.region([ShapedArray((), FLOAT)] * 2, partial(add.lower, ctx))]),
    transpose=lambda cts, x, axis: broadcast.bind(*cts, axis=axis, size=x.aval.shape[axis]))
# fmt: on


def zeros(aval):
    """An array of that type, of zeros (or of False)."""
    return broadcast_to(ConcreteArray(np.zeros((), aval.dtype)), aval.shape)


# Chapter 2. Traces: jvp and vmap


class Tracer(Array):
    """A value in flight through `trace`, and what the trace keeps beside it."""

    def __init__(self, trace, aval, value, beside=None):
        self.trace, self.aval, self.value, self.beside = trace, aval, value, beside

    def __bool__(self):
        raise TypeError(f"Python cannot branch on {self}: use cond or where.")

    __repr__ = lambda self: f"Traced<{self.aval}>({type(self.trace).__name__})"


class PairTrace(Trace):
    """Runs a rule of each primitive on values, and on what is beside them (None: nothing)."""

    def process(self, primitive, args, params):
        pairs = list(map(self.split, args))
        if all(beside is None for _, beside in pairs):
            return self.parent.process(primitive, args, params)
        rule = primitive.rule(self.rule)
        found = run_under(self.parent, rule, *self.extra, *zip(*pairs), **params)
        return list(map(self.join, *found))

    def split(self, x):
        """The two parts of a tracer of this trace; what is not of this trace is a value."""
        return (x.value, x.beside) if self.owns(x) else (x, None)

    def join(self, value, beside):
        """A tracer, or just the value where nothing is beside it."""
        aval = value.aval._replace(shape=value.shape[self.hidden :])
        return value if beside is None else Tracer(self, aval, value, beside)

    def run(self, fun, values, beside):
        """`fun` on tracers, with this trace current: the two parts of its results."""
        return zip(*map(self.split, run_under(self, fun, *map(self.join, values, beside))))


class JVPTrace(PairTrace):
    """Carries tangents along."""

    rule, hidden = "jvp", 0


def jvp_flat(fun, primals, tangents):
    """Results of `fun`, and their tangents; all are lists."""
    outs, out_dots = JVPTrace(current_trace()).run(fun, primals, tangents)
    return list(outs), instantiate(out_dots, avals_of(outs))


def instantiate(tangents, avals):
    """Tangents of values of these types: numbers, zeros where they vanish, as those of bools do."""
    return [zeros(x._replace(dtype=FLOAT)) if t is None else t for t, x in zip(tangents, avals)]


def tree_leaves(tree):
    """The leaves of nested tuples and lists, as arrays."""
    if isinstance(tree, tuple | list):
        return [x for part in tree for x in tree_leaves(part)]
    return [array(tree)]


def tree_unflatten(tree, leaves):
    """A tree like `tree`, with its leaves from an iterator."""
    if isinstance(tree, tuple | list):
        return type(tree)(tree_unflatten(part, leaves) for part in tree)
    return next(leaves)


def flat_function(f, args):
    """`f` from leaves to leaves, the leaves of `args`, and what makes a result of leaves."""
    results = []

    def fun(*leaves):
        results.append(f(*tree_unflatten(args, iter(leaves))))
        return tree_leaves(results[0])

    return fun, tree_leaves(args), lambda outs: tree_unflatten(results[0], iter(outs))


def jvp(f, primals, tangents):
    """`f(*primals)`, and its derivative along `tangents`."""
    fun, leaves, unflatten = flat_function(f, primals)
    return tuple(map(unflatten, jvp_flat(fun, leaves, tree_leaves(tangents))))


class BatchTrace(PairTrace):
    """Moves a batch along; beside a value is 0, the axis of the batch. Rules are given its size."""

    rule, hidden = "batch", 1


def repeat_unbatched(size, args, dims):
    """All operands with a batch axis, those that had none repeated along it."""
    return [broadcast(x, axis=0, size=size) if d is None else x for x, d in zip(args, dims)]


def vmap_flat(fun, size, xs):
    """Results of `fun` on a batch, all of them with a batch axis."""
    return repeat_unbatched(size, *BatchTrace(current_trace(), size).run(fun, xs, [0] * len(xs)))


def vmap(f):
    """`f` along the leading axes of its arguments."""

    def batched_f(*args):
        fun, leaves, unflatten = flat_function(f, args)
        return unflatten(vmap_flat(fun, leaves[0].shape[0], leaves))

    return batched_f


# Chapter 3. Programs as data


class Var:
    """A variable: bound once, by an input of a program or by one equation."""

    def __init__(self, aval):
        self.aval = aval


Eqn = namedtuple("Eqn", "primitive invars params outvars")  # outvars = primitive[params] invars


class Jaxpr:
    """A typed, closed program: inputs, equations in order, outputs."""

    def __init__(self, invars, eqns, outvars):
        self.invars, self.eqns, self.outvars = list(invars), list(eqns), list(outvars)
        self.in_avals, self.out_avals = avals_of(self.invars), avals_of(self.outvars)

    def __repr__(self):
        names = {}

        def text(x):
            if isinstance(x, ConcreteArray):
                return number(x.value)
            return names.setdefault(x, chr(97 + len(names) % 26) + "'" * (len(names) // 26))

        typed = lambda xs: " ".join(f"{text(x)}:{x.aval}" for x in xs)
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
    for eqn in jaxpr.eqns:
        operands = [env.get(x, x) for x in eqn.invars]  # a constant stands for itself
        outs = eqn.primitive.bind(*operands, **eqn.params)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [env.get(x, x) for x in jaxpr.outvars]


def check_jaxpr(jaxpr):
    """TypeError unless every variable is bound once, before its uses, and has its right type."""
    bound = set(jaxpr.invars)
    for eqn in [*jaxpr.eqns, Eqn(return_p, jaxpr.outvars, {}, [])]:
        if any(isinstance(x, Var) and x not in bound for x in eqn.invars):
            raise TypeError(f"{eqn.primitive.name} uses a variable that is not bound, in\n{jaxpr}")
        wanted = eqn.primitive.type(*avals_of(eqn.invars), **eqn.params)
        if wanted != avals_of(eqn.outvars) or not bound.isdisjoint(eqn.outvars):
            raise TypeError(f"{eqn.primitive.name} has new results of types {wanted}, in\n{jaxpr}")
        bound.update(eqn.outvars)


return_p = Primitive("return", type=lambda *avals: [])  # what a program does with its outputs


class StagingTrace(Trace):
    """Writes every operation down as an equation."""

    def __init__(self, parent):
        super().__init__(parent)
        self.eqns, self.captured = [], {}  # arrays from outside, and their variables

    def process(self, primitive, args, params):
        outvars = list(map(Var, primitive.type(*avals_of(args), **params)))
        self.eqns.append(Eqn(primitive, list(map(self.atom, args)), params, outvars))
        return [Tracer(self, var.aval, var) for var in outvars]

    def atom(self, x):
        """A value in the program: a number is a constant, another array from outside an input."""
        if self.owns(x):
            return x.value
        if isinstance(x, ConcreteArray) and x.shape == ():
            return x
        return self.captured.setdefault(x, Var(x.aval))


def trace_to_jaxpr(fun, in_avals, trace_class=StagingTrace):
    """The program of `fun`, and the arrays it captured, which are the program's last inputs."""
    trace, invars = trace_class(current_trace()), list(map(Var, in_avals))
    outs = run_under(trace, fun, *[Tracer(trace, var.aval, var) for var in invars])
    outvars = list(map(trace.atom, outs))
    jaxpr = Jaxpr([*invars, *trace.captured.values()], trace.eqns, outvars)
    check_jaxpr(jaxpr)
    return jaxpr, list(trace.captured)


def trace_function(f, args):
    """The program of `f`, the arrays it captured, and what makes a result of the program's outputs."""
    fun, leaves, unflatten = flat_function(f, args)
    return *trace_to_jaxpr(fun, avals_of(leaves)), unflatten


def make_jaxpr(f):
    """`f` as a program, for arguments of the types of those given."""
    return lambda *args: trace_function(f, args)[0]


def staged(fun, in_avals):
    """The program of a function that captures nothing."""
    jaxpr, captured = trace_to_jaxpr(fun, in_avals)
    assert not captured, "transformed programs are closed"
    return jaxpr


@cache
def batch_jaxpr(jaxpr, size):
    """The program over a batch: all of its inputs and outputs have a batch axis."""
    avals = [aval._replace(shape=(size, *aval.shape)) for aval in jaxpr.in_avals]
    return staged(lambda *args: vmap_flat(partial(eval_jaxpr, jaxpr), size, args), avals)


def split_at(xs, size):
    """The parts of a list: the first of this size, and the rest."""
    return list(xs[:size]), list(xs[size:])


# Chapter 4. jit

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # XLA shall not talk while it starts

from jaxlib import _hlo as hlo
from jaxlib import _jax as xla


def tensor(aval):
    """A type as StableHLO writes it: tensor<3x4xf32>."""
    kind = {FLOAT: "f32", BOOL: "i1", INT: "i32"}[aval.dtype]
    return f"tensor<{'x'.join([*map(str, aval.shape), kind])}>"


def listed(form, values):
    """Values in a text, by a form such as "{name}: {type}", with commas between them."""
    return ", ".join(form.format(name=x.value, type=tensor(x.aval)) for x in values)


def integers(numbers):
    """A list of integers as StableHLO writes it: array<i64: 0, 2>."""
    return f"array<i64: {', '.join(map(str, numbers))}>".replace(": >", ">")


class LoweringTrace(Trace):
    """Writes every operation as StableHLO text. The value of a tracer is its name there."""

    def __init__(self):
        super().__init__(None)
        self.lines, self.counter = [], itertools.count()

    def process(self, primitive, args, params):
        return primitive.rule("lower")(self, *map(self.operand, args), **params)

    def operand(self, x):
        """A tracer of this trace: `x`, or a constant with the number of `x`."""
        return x if self.owns(x) else self.constant(x.value[()])

    def new(self, avals):
        """Tracers with new names."""
        return [Tracer(self, aval, f"%{next(self.counter)}") for aval in avals]

    def op(self, name, operands, avals, attributes="", regions=()):
        """Write an operation with results of these types; the results."""
        outs = self.new(avals)
        text = f'{listed("{name}", outs)} = "stablehlo.{name}"({listed("{name}", operands)})'
        text += f" <{{{attributes}}}>" if attributes else ""
        text += f" ({', '.join(regions)})" if regions else ""
        self.lines.append(f"{text} : ({listed('{type}', operands)}) -> ({listed('{type}', outs)})")
        return outs

    def constant(self, number):
        """A number; one of floating point by its bits, so that it stays exactly the same."""
        aval = ShapedArray((), number.dtype)
        text = f"0x{number.view(np.uint32):08X}" if number.dtype == FLOAT else str(number).lower()
        return self.op("constant", [], [aval], f"value = dense<{text}> : {tensor(aval)}")[0]

    def region(self, avals, body, head="{{\n^bb0({args}):", end="stablehlo.return"):
        """The text of a block: what `body` writes for values of these types."""
        outer, self.lines = self.lines, []
        args = self.new(avals)
        outs = list(map(self.operand, run_under(self, body, *args)))
        inner, self.lines = self.lines, outer
        head = head.format(args=listed("{name}: {type}", args), outs=listed("{type}", outs))
        end = f"{end} {listed('{name}', outs)} : {listed('{type}', outs)}"
        return "\n".join([head, *inner, end, "}"])


def lower(jaxpr):
    """A program as StableHLO text."""
    head = "func.func public @main({args}) -> ({outs}) {{"
    return LoweringTrace().region(jaxpr.in_avals, partial(eval_jaxpr, jaxpr), head, "return")


devices = xla.get_tfrt_cpu_client(asynchronous=False, num_devices=2).local_devices()


@cache
def compiled(primitive, avals, params, device=devices[0]):
    """A program of one operation, compiled: a function from NumPy values to NumPy values."""
    jaxpr = staged(lambda *args: primitive.bind(*args, **dict(params)), avals)
    options = xla.CompileOptions()
    options.device_assignment = xla.DeviceAssignment.create(np.array([[device.id]], np.int32))
    program = device.client.compile_and_load(lower(jaxpr), xla.DeviceList((device,)), options)
    place = xla.GSPMDSharding([device], hlo.HloSharding.replicate())  # whole arrays on one device
    put = partial(xla.batched_device_put, sharding=place, devices=[device], enable_x64=True)

    def run(*values):
        buffers = [put(aval, xs=[np.asarray(x)]) for aval, x in zip(avals, values, strict=True)]
        outs = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(x) for (x,) in outs]

    return run


class Call(Primitive):
    """Runs one of the programs `jaxprs` on its operands; rules run transformed programs instead.

    The first `lead` operands are not for the program, but choose it.
    """

    lead = 0

    def type(self, *avals, jaxprs, **params):
        wanted = (list(avals[self.lead :]), jaxprs[0].out_avals)
        if any((jaxpr.in_avals, jaxpr.out_avals) != wanted for jaxpr in jaxprs):
            raise TypeError(f"{self.name} has operands {avals}, which do not suit\n{jaxprs}")
        return jaxprs[0].out_avals

    def lower(self, ctx, *args, jaxprs):
        return eval_jaxpr(*jaxprs, *args)

    def batch(self, size, args, dims, *, jaxprs, **params):
        choice, args = args[: self.lead], repeat_unbatched(size, args, dims)[self.lead :]
        jaxprs = tuple(batch_jaxpr(jaxpr, size) for jaxpr in jaxprs)
        outs = self.bind(*choice, *args, jaxprs=jaxprs, **params)
        return outs, [0] * len(outs)

    def jvp(self, primals, tangents, *, jaxprs, **params):
        known, unknown = linearize_jaxprs(jaxprs)
        n = len(jaxprs[0].outvars)
        outs, residuals = split_at(self.bind(*primals, jaxprs=known, **params), n)
        tangents = instantiate(tangents, avals_of(primals))[self.lead :]
        operands = [*primals[: self.lead], *tangents, *residuals]
        return outs, self.bind(*operands, jaxprs=unknown, **params)

    def transpose(self, cts, *args, jaxprs, **params):
        cts = instantiate(cts, self.type(*avals_of(args), jaxprs=jaxprs, **params))
        choice, args = split_at(args, self.lead)
        n = max(i + 1 for i, x in enumerate(args) if isinstance(x, Var))
        jaxprs = tuple(transpose_jaxpr(jaxpr, n) for jaxpr in jaxprs)
        found = self.bind(*choice, *cts, *args[n:], jaxprs=jaxprs, **params)
        return [None] * len(choice) + found + [None] * len(args[n:])


jit_p = Call("jit")


def jit(f):
    """`f` as one compiled program for each combination of types of its arguments."""
    programs = {}

    def jitted(*args):
        leaves = tree_leaves(args)
        key = repr(tree_unflatten(args, iter(avals_of(leaves))))
        jaxpr, captured, unflatten = found = programs.get(key) or trace_function(f, args)
        if not any(isinstance(x, Tracer) for x in captured):
            programs[key] = found
        return unflatten(jit_p.bind(*leaves, *captured, jaxprs=(jaxpr,)))

    return jitted


# Chapter 5. grad


class PartialEvalTrace(StagingTrace):
    """Passes what is known to its parent; records what touches an unknown."""

    def process(self, primitive, args, params):
        trace = super() if any(map(self.owns, args)) else self.parent
        return trace.process(primitive, args, params)


def linearize_flat(fun, primals):
    """Results of `fun`; its derivative there, a linear program; the residuals, its last inputs."""
    outs = []

    def derivative(*tangents):
        outs[:], out_dots = jvp_flat(fun, primals, tangents)
        return out_dots

    avals = [aval._replace(dtype=FLOAT) for aval in avals_of(primals)]
    return outs, *trace_to_jaxpr(derivative, avals, PartialEvalTrace)


def linearize(f, *primals):
    """`f(*primals)`, and its derivative there, a function of tangents."""
    fun, leaves, unflatten = flat_function(f, primals)
    outs, program, residuals = linearize_flat(fun, leaves)
    f_jvp = lambda *tangents: unflatten(eval_jaxpr(program, *tree_leaves(tangents), *residuals))
    return unflatten(outs), f_jvp


def backward(program, residuals, cts):
    """Cotangents of the inputs of a linear program, before its residuals, for those of its outputs."""
    invars, last = split_at(program.invars, len(program.invars) - len(residuals))
    known, sums = dict(zip(last, residuals)), {}

    def send(x, ct):
        if isinstance(x, Var) and ct is not None:
            sums[x] = sums[x] + ct if x in sums else ct

    list(map(send, program.outvars, cts))
    for eqn in reversed(program.eqns):
        cts = [sums.pop(v, None) for v in eqn.outvars]
        if any(ct is not None for ct in cts):
            args = [known.get(x, x) for x in eqn.invars]
            list(map(send, eqn.invars, eqn.primitive.rule("transpose")(cts, *args, **eqn.params)))
    return instantiate([sums.get(v) for v in invars], avals_of(invars))


def vjp(f, *primals):
    """`f(*primals)`, and the function from a cotangent of the result to those of the arguments."""
    fun, leaves, unflatten = flat_function(f, primals)
    outs, program, residuals = linearize_flat(fun, leaves)
    f_vjp = lambda ct: tree_unflatten(primals, iter(backward(program, residuals, tree_leaves(ct))))
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
    """A program in two: inputs to outputs and residuals; tangents and residuals to tangents."""
    halves = []

    def known(*args):
        outs, half, residuals = linearize_flat(partial(eval_jaxpr, jaxpr), args)
        halves.append(half)
        return [*outs, *residuals]

    return staged(known, jaxpr.in_avals), *halves


@cache
def transpose_jaxpr(jaxpr, n):
    """Cotangents of the outputs, and the inputs after the first n, to cotangents of these n."""
    unknown, known = split_at(jaxpr.in_avals, n)

    def transposed(*args):
        cts, values = split_at(args, len(jaxpr.outvars))
        fun = lambda *xs: eval_jaxpr(jaxpr, *xs, *values)
        return backward(*trace_to_jaxpr(fun, unknown, PartialEvalTrace), cts)

    return staged(transposed, [*jaxpr.out_avals, *known])


@cache
def linearize_jaxprs(jaxprs):
    """The known halves and the unknown halves of programs of which one will run.

    Whichever program runs returns the residuals of all, with zeros for those of the others.
    """
    halves = list(map(linearize_jaxpr, jaxprs))
    num_outs = len(jaxprs[0].outvars)
    avals = [known.out_avals[num_outs:] for known, _ in halves]

    def known_half(k, *args):
        outs, residuals = split_at(eval_jaxpr(halves[k][0], *args), num_outs)
        return [*outs, *among(residuals, avals, k, zeros)]

    known = [staged(partial(known_half, k), j.in_avals) for k, j in enumerate(jaxprs)]
    unknown = [widen(half, avals, k) for k, (_, half) in enumerate(halves)]
    return tuple(known), tuple(unknown)


def among(own, avals, k, make):
    """The values `own` at place k, and what `make` makes of the types `avals` of the other places."""
    return [x for i, types in enumerate(avals) for x in (own if i == k else map(make, types))]


def widen(jaxpr, avals, k):
    """Program k, whose last inputs have the types `avals[k]`, with inputs for all of `avals`."""
    first, own = split_at(jaxpr.invars, len(jaxpr.invars) - len(avals[k]))
    return Jaxpr([*first, *among(own, avals, k, Var)], jaxpr.eqns, jaxpr.outvars)


# Chapter 6. Branches and loops


class Cond(Call):
    """Runs `jaxprs[0]` if the first operand is true, else `jaxprs[1]`, on the other operands."""

    lead = 1

    def lower(self, ctx, predicate, *args, jaxprs):
        regions = [ctx.region([], partial(eval_jaxpr, jaxpr, *args)) for jaxpr in jaxprs]
        return ctx.op("if", [predicate], jaxprs[0].out_avals, regions=regions)

    def batch(self, size, args, dims, *, jaxprs):
        if dims[0] is None:
            return super().batch(size, args, dims, jaxprs=jaxprs)
        runs = [jit_p.batch(size, args[1:], dims[1:], jaxprs=(jaxpr,))[0] for jaxpr in jaxprs]
        # Under vmap there is one bool for a whole element.
        return [vmap(where)(args[0], x, y) for x, y in zip(*runs)], [0] * len(runs[0])


cond_p = Cond("cond")


def cond(predicate, true_fun, false_fun, *operands):
    """`true_fun(*operands)` if the predicate is true, else `false_fun(*operands)`."""
    found = [trace_function(f, operands) for f in (true_fun, false_fun)]
    programs, captured, (unflatten, _) = zip(*found)
    avals = list(map(avals_of, captured))
    jaxprs = tuple(widen(jaxpr, avals, k) for k, jaxpr in enumerate(programs))
    operands = [predicate, *tree_leaves(operands), *captured[0], *captured[1]]
    return unflatten(cond_p.bind(*operands, jaxprs=jaxprs))


def row(aval):
    """The type of a row: what one step of a loop reads."""
    return aval._replace(shape=aval.shape[:-1])


def stack(aval, length):
    """The type of so many rows: they lie side by side along the last axis."""
    return aval._replace(shape=(*aval.shape, length))


class Scan(Call):
    """Runs a program `length` times: on what it carries, and on a row of each other operand.

    The first `carry` operands, and results, are carried from one step to the next. The other
    results are stacked from the rows that the steps return.
    """

    def type(self, *avals, jaxprs, carry, length, reverse):
        first, stacks = split_at(avals, carry)
        last, rows = split_at(super().type(*first, *map(row, stacks), jaxprs=jaxprs), carry)
        if first != last or {x.shape[-1] for x in stacks} - {length}:
            raise TypeError(f"scan carries {first}, then {last}; {length} rows, not {stacks}.")
        return [*last, *[stack(y, length) for y in rows]]

    def lower(self, ctx, *args, jaxprs, carry, length, reverse):
        integer = lambda n: ctx.constant(np.int32(n))
        at = lambda i, x: [*[integer(0) for _ in x.shape[1:]], i]
        start, stop, by = (length - 1, -1, -1) if reverse else (0, length, 1)

        def read(i, x):
            one = stack(row(x.aval), 1)
            sizes = f"slice_sizes = {integers(one.shape)}"
            part = ctx.op("dynamic_slice", [x, *at(i, x)], [one], sizes)
            return ctx.op("reshape", part, [row(x.aval)])[0]

        def write(i, x, y):
            one = ctx.op("reshape", [y], [stack(y.aval, 1)])
            return ctx.op("dynamic_update_slice", [x, *one, *at(i, x)], [x.aval])[0]

        def more(i, *state):
            return ctx.op("compare", [i, integer(stop)], [ShapedArray((), BOOL)], direction("NE"))

        def step(i, *state):
            rows = [read(i, x) for x in args[carry:]]
            outs = list(map(ctx.operand, eval_jaxpr(*jaxprs, *state[:carry], *rows)))
            stacks = [write(i, x, y) for x, y in zip(state[carry:], outs[carry:])]
            return [*ctx.op("add", [i, integer(by)], [i.aval]), *outs[:carry], *stacks]

        blank = [zeros(stack(aval, length)) for aval in jaxprs[0].out_avals[carry:]]
        state = [integer(start), *args[:carry], *map(ctx.operand, blank)]
        regions = [ctx.region(avals_of(state), body) for body in (more, step)]
        return ctx.op("while", state, avals_of(state), regions=regions)[1:]

    def transpose(self, cts, *args, carry, reverse, **params):
        # A carry may be known when the loop begins, and depends on unknown values after a step.
        args = [*[Var(x.aval) for x in args[:carry]], *args[carry:]]
        return super().transpose(cts, *args, carry=carry, reverse=not reverse, **params)


scan_p = Scan("scan")


def scan(f, init, xs, reverse=False):
    """Runs `carry, y = f(carry, x)` for the rows x of `xs`: the last carry, and the stacked ys."""
    fun, leaves, unflatten = flat_function(f, (init, xs))
    first, stacks = split_at(leaves, len(tree_leaves(init)))
    jaxpr, captured = trace_to_jaxpr(fun, [*avals_of(first), *map(row, avals_of(stacks))])
    # What the function captured is carried too, unchanged.
    invars, last = split_at(jaxpr.invars, len(leaves))
    jaxpr = Jaxpr([*last, *invars], jaxpr.eqns, [*last, *jaxpr.outvars])
    params = {"carry": len(last) + len(first), "length": stacks[0].shape[-1], "reverse": reverse}
    return unflatten(scan_p.bind(*captured, *leaves, jaxprs=(jaxpr,), **params)[len(last) :])
