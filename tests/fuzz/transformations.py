"""The stack of transformations around a program.

Each maps a function of arrays that returns a list of arrays to another one, in either library: `grad(lib, f)`. Scripts
of findings hold the source of those in use, so each uses nothing of this module but `HELPERS`.
"""

import numpy as onp


def is_inexact(lib, x):
    return lib.numpy.issubdtype(lib.numpy.result_type(x), lib.numpy.inexact)


def split(lib, f, xs):
    """f as a function of its inexact arguments, and these; it returns its inexact results."""
    chosen = [i for i, x in enumerate(xs) if is_inexact(lib, x)]

    def g(*ys):
        full = list(xs)
        for i, y in zip(chosen, ys, strict=True):
            full[i] = y
        return [y for y in f(*full) if is_inexact(lib, y)]

    return g, [xs[i] for i in chosen]


def direction(lib, x):
    """A fixed tangent or cotangent for x."""
    numbers = onp.cos(1.0 + onp.arange(onp.size(x) if onp.ndim(x) else 1)).reshape(onp.shape(x))
    return lib.numpy.asarray(numbers).astype(lib.numpy.result_type(x))


def total(lib, ys):
    """The sum of all results, a real scalar of the default width."""
    dtype = lib.numpy.zeros(()).dtype
    return sum([lib.numpy.sum(lib.numpy.real(y)).astype(dtype) for y in ys], lib.numpy.zeros(()))


def jit(lib, f):
    return lib.jit(f)


def checkpoint(lib, f):
    return lib.checkpoint(f)


def grad(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        return list(lib.grad(lambda *ys: total(lib, g(*ys)), tuple(range(len(ys))))(*ys))

    return transformed


def value_and_grad(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        value, grads = lib.value_and_grad(lambda *ys: total(lib, g(*ys)), tuple(range(len(ys))))(*ys)
        return [value, *grads]

    return transformed


def jvp(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        out, out_dot = lib.jvp(g, tuple(ys), tuple(direction(lib, y) for y in ys))
        return [*out, *out_dot]

    return transformed


def vjp(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        out, pull = lib.vjp(g, *ys)
        return [*out, *pull([direction(lib, y) for y in out])]

    return transformed


def linearize(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        out, push = lib.linearize(g, *ys)
        return [*out, *push(*[direction(lib, y) for y in ys])]

    return transformed


def transpose(lib, f):
    """The derivative of f, linearised and then transposed as a linear function."""

    def transformed(*xs):
        g, ys = split(lib, f, xs)
        out, push = lib.linearize(g, *ys)
        return list(lib.linear_transpose(push, *ys)([direction(lib, y) for y in out]))

    return transformed


def scanned(lib, f):
    """f in the body of a loop over batches of the first argument; the other arguments come from outside."""

    def transformed(*xs):
        firsts = batch(lib, xs[0], 0, 2)
        return lib.lax.scan(lambda c, x: (c + 1, f(x, *xs[1:])), 0, firsts)[1]

    return transformed


def branched(lib, f):
    """f in a branch that is taken, chosen by a condition that is known only at run time."""

    def transformed(*xs):
        zeros = lambda *xs: [lib.numpy.zeros_like(y) for y in f(*xs)]
        return lib.lax.cond(lib.numpy.sum(xs[0] != xs[0]) >= 0, f, zeros, *xs)

    return transformed


def hessian(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        return [lib.hessian(lambda y: total(lib, g(y, *ys[1:])))(ys[0])]

    return transformed


def jacfwd(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        return lib.jacfwd(lambda y: g(y, *ys[1:]))(ys[0])

    return transformed


def jacrev(lib, f):
    def transformed(*xs):
        g, ys = split(lib, f, xs)
        real = lambda y: [lib.numpy.real(out) for out in g(y, *ys[1:])]
        return lib.jacrev(real)(ys[0])

    return transformed


def batch(lib, x, axis, size):
    """x and variations of it, along a new axis."""
    rolled = [lib.numpy.roll(x, k) for k in range(size)]
    if is_inexact(lib, x):
        rolled = [(y * (1 - k / 8)).astype(lib.numpy.result_type(x)) for k, y in enumerate(rolled)]
    return lib.numpy.stack(rolled, axis)


def vmap(lib, f, in_axes, out_axes, size):
    def transformed(*xs):
        batches = [x if a is None else batch(lib, x, a, size) for x, a in zip(xs, in_axes, strict=True)]
        return lib.vmap(f, in_axes=tuple(in_axes), out_axes=out_axes)(*batches)

    return transformed


HELPERS = (is_inexact, split, direction, total, batch)
TRANSFORMATIONS = {
    f.__name__: f
    for f in (
        *(jit, checkpoint, scanned, branched, grad, value_and_grad, jvp, vjp, linearize, transpose),
        *(hessian, jacfwd, jacrev, vmap),
    )
}


def apply_stack(lib, f, stack):
    for name, parameters in stack:
        f = TRANSFORMATIONS[name](lib, f, **parameters)
    return f
