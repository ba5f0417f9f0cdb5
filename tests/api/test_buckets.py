"""`jit(..., bucket=)`: results are those of the function without it, whatever lies beyond the real length."""

import functools
from typing import Any
from unittest import mock

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random
from didax.core import pytree
from didax.core.avals import aval_of
from didax.core.dtypes import iinfo
from didax.ops import segment_sum
from didax.runtime import bucketed
from didax.runtime.array import ConcreteArray

_EXACT = 0.0
_SUMS = 2e-6  # relative: sums over padded axes are added up in another order

# --- Functions of x:f32[n], y:f32[n,3], m:f32[4,n], k:i32[n], b:bool[n] -------------------------------------

PARTS = {
    "last": lambda x, y, m, k, b: (x[-1], x[-2:], y[-1, 1:], x[x.shape[0] // 2], x[x.shape[0] // 2 :]),
    "turned": lambda x, y, m, k, b: (x[::-1], y[::-1, ::-1], x[::2], x[::-2], m[:, ::-1]),
    "cut": lambda x, y, m, k, b: (x[1:], x[:-1], m[:, 1:-1], x[:4], y[-3:]),
    "joined": lambda x, y, m, k, b: (
        dnp.concatenate([x, x[1:], x]),
        dnp.concatenate([m, m], 1),
        dnp.append(x, 7.0),
    ),
    "stacked": lambda x, y, m, k, b: (dnp.stack([x, -x]), dnp.vstack([m, x]), dnp.column_stack([x, y])),
    "rolled": lambda x, y, m, k, b: (dnp.roll(x, 1), dnp.roll(m, -2, axis=1), dnp.roll(y, 1)),
    "padded": lambda x, y, m, k, b: (
        dnp.pad(x, (2, 1), constant_values=5.0),
        dnp.pad(y, ((1, 2), (0, 1))),
        dnp.pad(m, 1, mode="edge"),
        lax.pad(x, 3.0, [(-1, -1, 2)]),
        dnp.pad(x, 1, mode="wrap"),
        dnp.pad(x, (1, 2), mode="reflect"),
    ),
    "reshaped": lambda x, y, m, k, b: (
        y.reshape(-1),
        m.reshape(-1),
        m.ravel()[-2:],
        m.T.reshape(2, -1),
        x.reshape(-1, 1, 1),
        m.reshape(2, -1, 2),
        dnp.outer(x, x).reshape(-1),
        y.T.reshape(-1)[::-1],
    ),
    "tiled": lambda x, y, m, k, b: (
        dnp.tile(x, 3),
        dnp.repeat(x, 2),
        dnp.repeat(y, 2, axis=0),
        dnp.tile(y, (2, 2)),
    ),
    "split": lambda x, y, m, k, b: dnp.split(dnp.concatenate([x, x]), 2),
    "taken": lambda x, y, m, k, b: (
        x[k],
        y[k],
        m[:, k],
        x.at[k].get(mode="clip"),
        x.at[k].get(mode="fill", fill_value=-1.0),
        dnp.take(x, k, mode="wrap"),
        dnp.take_along_axis(m, m.argsort(1), 1),
        x[dnp.array([0, -1])],
    ),
    "written": lambda x, y, m, k, b: (
        x.at[k].add(1.0),
        x.at[k].set(9.0),
        x.at[-1].set(9.0),
        x.at[1:].mul(2.0),
        m.at[:, -1].add(x[:4].sum()),
        x.at[k].add(x, mode="clip"),
        y.at[k].max(y),
        dnp.zeros(3).at[k].add(x),
        dnp.zeros(3).at[k].set(x, mode="clip"),
    ),
    "windows": lambda x, y, m, k, b: (
        lax.dynamic_slice(x, (k[0],), (2,)),
        lax.dynamic_slice(x, (99,), (2,)),
        lax.dynamic_slice(y, (-1, 9), (1, 2)),
        lax.dynamic_update_slice(x, dnp.ones(2), (99,)),
        lax.dynamic_update_slice(x, x[1:], (k[0],)),
        lax.dynamic_index_in_dim(y, 99, 0),
        lax.dynamic_slice(x, (1,), (x.shape[0] - 1,)),
    ),
    "chosen": lambda x, y, m, k, b: (
        dnp.where(b, x, -x),
        dnp.select([b, x > 0], [x, x + 1], 3.0),
        dnp.triu(m),
        dnp.tri(x.shape[0], 3),
    ),
    "counted": lambda x, y, m, k, b: (
        dnp.arange(x.shape[0]),
        dnp.arange(x.shape[0])[::-1] * k,
        dnp.full(x.shape[0] + 1, 2),
        dnp.eye(x.shape[0]),
        x.shape[0] * dnp.ones(2),
        dnp.zeros_like(m),
        dnp.indices((2, x.shape[0])),
    ),
    "sorted": lambda x, y, m, k, b: (
        dnp.sort(x),
        dnp.argsort(x),
        dnp.sort(k),
        dnp.argsort(-k),
        dnp.sort(m, 1)[:, ::-1],
        dnp.sort(b),
        dnp.lexsort((x, k)),
        dnp.argsort(x, descending=True),
        lax.sort((k, x), num_keys=2),
        lax.top_k(x, 2),
        lax.top_k(-k, 2),
        lax.top_k(m, 1),
    ),
    "searched": lambda x, y, m, k, b: (
        dnp.argmax(x),
        dnp.argmin(x),
        dnp.argmax(m, 1),
        dnp.argmin(y, 0),
        dnp.argmax(-k),
        dnp.argmax(b),
        dnp.argmin(m),
        dnp.nanargmax(x),
        dnp.searchsorted(dnp.sort(x), dnp.array([-9.0, 0.1, 9.0])),
        dnp.count_nonzero(b),
    ),
    "extrema": lambda x, y, m, k, b: (
        x.max(),
        x.min(),
        m.max(1),
        y.min(0),
        k.max(),
        k.min(),
        b.any(),
        b.all(),
        dnp.ptp(x),
        x.max(initial=2.0),
        dnp.max(x, where=b, initial=-5.0),
        nn.relu(x).max(),
        dnp.minimum.reduce(m, axis=None),
    ),
    "running": lambda x, y, m, k, b: (
        lax.cummax(x),
        lax.cummin(x, reverse=True),
        lax.cummax(k, reverse=True),
        dnp.cumsum(k),
        dnp.cumsum(k[::-1]),
        lax.cumsum(k, reverse=True),
        dnp.diff(k),
        lax.cumsum(m.astype(int), 1, reverse=True),
    ),
    "integers": lambda x, y, m, k, b: (
        k.sum(),
        k.prod(),
        k @ k,
        dnp.bincount(dnp.abs(k), length=4),
        (k[:, None] == k).sum(1),
        dnp.histogram(x, dnp.array([-1.0, 0.0, 1.0]))[0],
        segment_sum(k, dnp.abs(k) % 3, 3),
        dnp.isin(k, k[1:]),
        k[:1] // k,
    ),
    "drawn": lambda x, y, m, k, b: (
        random.bits(random.key(0), x.shape),
        random.uniform(random.key(1), y.shape),
        random.bits(random.key(2), m.shape),
        random.randint(random.key(3), (x.shape[0] + 1,), 0, 9),
        random.key_data(random.split(random.key(4), x.shape[0])),
        random.bernoulli(random.key(5), shape=m.T.shape),
        dx.vmap(random.bits)(random.split(random.key(6), x.shape[0])),
    ),
    "steps": lambda x, y, m, k, b: (
        lax.scan(lambda c, r: (c * 3 + r[1], c), 0, (x, k)),
        lax.scan(lambda c, r: (c * 3 + r, c), 0, k, reverse=True),
        lax.fori_loop(0, x.shape[0], lambda i, c: c * 2 + k[i], 1),
        lax.scan(lambda c, _: (c + 1, c), 0, None, x.shape[0]),
        lax.while_loop(lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, c[1] ^ k[-1 - c[0]]), (0, 0)),
        lax.map(lambda r: r[::-1], y),
        lax.scan(lambda c, r: (dnp.maximum(c, r), r + c), x[0], x, reverse=True),
    ),
    "endless": lambda x, y, m, k, b: lax.scan(
        lambda c, r: (c + lax.while_loop(lambda z: z != 1.0, lambda z: dnp.ones_like(z), r), c), 0.0, x
    ),
    "branches": lambda x, y, m, k, b: (
        lax.cond(x[-1] > 0, lambda: x[::-1], lambda: x + 1),
        lax.switch(k[0] % 3, [dnp.sort, lambda z: z[::-1], dnp.negative], x),
    ),
}

SUMS = {
    "sums": lambda x, y, m, k, b: (
        x.sum(),
        y.sum(0),
        m.sum(1),
        x.mean(),
        m.mean(1),
        x.var(),
        y.std(0),
        dnp.average(x, weights=x**2),
        x.prod(),
        dnp.median(x),
        dnp.quantile(x, 0.3),
        dnp.nanmean(x),
        dnp.ptp(m, 1),
        dnp.trapezoid(x),
        x.mean(where=x > 0),
    ),
    "products": lambda x, y, m, k, b: (
        x @ y,
        m @ x,
        m @ y,
        x @ x,
        dnp.einsum("in,nj,n->ij", m, y, x),
        dnp.tensordot(y, m.T, 2 * [[0]]),
        dnp.kron(x, x),
        dnp.cov(m),
        dnp.corrcoef(y.T),
        dnp.outer(x, x) @ y,
        dnp.linalg.norm(x),
        dnp.linalg.norm(y, axis=0),
        dnp.cross(y, y[::-1]),
    ),
    "cumulative": lambda x, y, m, k, b: (
        dnp.cumsum(x),
        lax.cumsum(x, reverse=True),
        dnp.cumprod(x),
        lax.cumlogsumexp(x, reverse=True),
        lax.cumprod(m, 1, True),
    ),
    "softmax": lambda x, y, m, k, b: (
        nn.softmax(x),
        nn.log_softmax(m),
        nn.softmax(y, 0),
        nn.logsumexp(m, 1),
        dnp.linspace(0, 1, x.shape[0] + 1),
        nn.standardize(m),
        nn.one_hot(k, 3),
        nn.softmax(x, where=b),
        lax.exp(x - x.max()) / x.sum(),
    ),
    "matrices": lambda x, y, m, k, b: (
        dnp.linalg.inv(y[:, :, None] * y[:, None] + 3 * dnp.eye(3)),
        dnp.linalg.det(y[:, :, None] + dnp.eye(3)),
        dnp.linalg.cholesky(y[:, :, None] * y[:, None] + dnp.eye(3)),
        dnp.linalg.solve(m @ m.T + dnp.eye(4), m.sum(1)),
        dnp.linalg.eigvalsh(m @ m.T),
        dnp.linalg.lstsq(m @ m.T + dnp.eye(4), m.sum(1))[0],
    ),
    "convolved": lambda x, y, m, k, b: (
        dnp.convolve(x, dnp.array([1.0, 2.0]), "same"),
        dnp.convolve(x, dnp.array([1.0, 2.0])),
        lax.reduce_window(m, -dnp.inf, lax.max, (1, 2), (1, 2), "VALID"),
        lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "SAME"),
        lax.reduce_window(y, 0.0, lax.add, (2, 1), (1, 1), "VALID"),
        lax.conv(m[:, None], dnp.ones((2, 1, 2)), (1,), "SAME"),
        lax.reduce_window(y, dnp.inf, lax.min, (3, 1), (2, 1), ((1, 1), (0, 0))),
    ),
}


def arguments(n: int) -> tuple[Any, ...]:
    """Of length n; positions in and out of range, and no value that repeats."""
    rng = np.random.default_rng(n)
    x = rng.permutation(np.linspace(-2, 3, n)).astype(np.float32)
    y, m = rng.standard_normal((n, 3), np.float32), rng.standard_normal((4, n), np.float32)
    return x, y, m, rng.integers(-n - 1, n + 2, n).astype(np.int32), rng.random(n) < 0.5


_POISONS: list[Any] = [(np.nan, lambda d: iinfo(d).max, True), (np.inf, lambda d: iinfo(d).min, False)]


def poisoned(x: Any, shape: tuple[int, ...], poison: Any) -> Any:
    """Like `padded_operand`, with the worst there is beyond the real length."""
    aval = aval_of(x)
    if aval.shape == shape:
        return x
    number, integer, truth = poison
    fill = {"f": number, "b": truth}.get(aval.dtype.kind)
    out = np.full(shape, integer(aval.dtype) if fill is None else fill, aval.dtype)
    out[tuple(map(slice, aval.shape))] = x
    return ConcreteArray(aval.update(shape=shape), out)


def check(found: Any, wanted: Any, rtol: float = _EXACT) -> None:
    paths, structure = pytree.flatten_with_path(wanted)
    assert pytree.structure(found) == structure
    for y, (path, z) in zip(pytree.leaves(found), paths, strict=True):
        assert aval_of(y) is aval_of(z), pytree.keystr(path)
        scale = np.abs(z)[np.isfinite(z)].max(initial=1.0) if rtol else 1
        np.testing.assert_allclose(y, z, rtol, rtol * scale, err_msg=pytree.keystr(path))


def table(functions: dict[str, Any]) -> Any:
    return lambda *args: {name: f(*args) for name, f in functions.items()}


AXES = ("n", "n, _", "_, n", "n", "n")


@pytest.mark.parametrize(("functions", "rtol"), [(PARTS, _EXACT), (SUMS, _SUMS)], ids=["exact", "sums"])
def test_what_lies_beyond_the_real_length_is_never_seen(functions, rtol, monkeypatch):
    padded = dx.jit(table(functions), bucket=AXES)
    for n in (5, 7, 8):
        wanted = table(functions)(*map(dnp.asarray, arguments(n)))
        for poison in _POISONS:
            fill = mock.Mock(side_effect=functools.partial(poisoned, poison=poison))
            monkeypatch.setattr(bucketed, "padded_operand", fill)
            check(padded(*arguments(n)), wanted, rtol)
            assert fill.called  # sizes that coincide would run without padding
    assert padded._cache_size() <= 3  # what some functions decide by the length is decided anew


def test_parts_are_updated_alone() -> None:
    """Also where nothing else of the program says how long the array is."""
    for update in (lambda x: x.at[1:].mul(2.0), lambda x: x.at[:-1].add(x[1:]), lambda x: x.at[2:].min(0.5)):
        padded = dx.jit(update, bucket="n")
        for n in (5, 7):
            x = dnp.arange(float(n))
            check(padded(x), update(x))


def test_lengths_that_coincide_run_without_padding(monkeypatch):
    """Halves of halves of an array are 1 long in the end, where the trace took all of them for different."""
    monkeypatch.setattr(bucketed, "padded_operand", mock.Mock(side_effect=AssertionError))
    padded = dx.jit(lambda m: lax.associative_scan(dnp.multiply, m, axis=1, reverse=True), bucket="_, n")
    for n in (5, 7):
        m = arguments(n)[2]
        check(padded(m), lax.associative_scan(dnp.multiply, m, axis=1, reverse=True), _SUMS)


def test_lengths_are_bounded_by_what_the_trace_decided() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        return dnp.ones(n % (2 * n - 2)) if n >= 4 else x

    padded = dx.jit(f, bucket="n")
    for n in (5, 7):
        check(padded(dnp.zeros(n)), dnp.ones(n))


# --- Programs -----------------------------------------------------------------------------------------------


def attention(weights, x, lengths):
    """Of texts of different lengths, padded by the caller to the longest, in a batch of any number."""
    q, k, v = (x @ w for w in weights)
    scores = q @ k.swapaxes(1, 2) / x.shape[2] ** 0.5
    seen = dnp.arange(x.shape[1]) < lengths[:, None]
    out = nn.softmax(dnp.where(seen[:, None], scores, -dnp.inf)) @ v
    return (out * seen[..., None]).sum(1)


def recurrent(weights, xs):
    w, u = weights[:2]
    last, hs = lax.scan(lambda h, x: 2 * (dnp.tanh(h @ w + x @ u),), dnp.ones(3), xs)
    return last @ hs.mean(0)


def normalised(x):
    return (x - x.mean(0)) / dnp.sqrt(x.var(0) + 1e-3) * x[-1]


def neighbours(x, queries):
    distances = ((queries[:, None] - x) ** 2).sum(-1)
    found, at = lax.top_k(-distances, 2)
    return found, at, x[at].mean(1)


def step(weights, x, y):
    loss = lambda ws: ((dnp.tanh(x @ ws[0]) @ ws[1] @ ws[2] - y) ** 2).mean()
    value, grads = dx.value_and_grad(loss)(weights)
    return value, [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]


def program_arguments(b, n):
    rng = np.random.default_rng(b + 10 * n)
    weights = [np.float32(rng.standard_normal((3, 3))) for _ in range(3)]
    x = np.float32(rng.standard_normal((b, n, 3)))
    return weights, x, rng.integers(1, n + 1, b).astype(np.int32)


def test_programs_that_differ_in_lengths():
    padded = {
        "attention": dx.jit(attention, bucket=(None, "b, n, _", "b")),
        "recurrent": dx.jit(recurrent, bucket={"xs": "n, _"}),
        "normalised": dx.jit(normalised, bucket="n, _"),
        "neighbours": dx.jit(neighbours, bucket=("n, _", "m, _")),
        "step": dx.jit(step, bucket=(None, "n, _", "n, _")),
    }
    for b, n in [(5, 9), (4, 13)]:
        weights, x, lengths = program_arguments(b, n)
        calls = {
            "attention": (attention, (weights, x, lengths)),
            "recurrent": (recurrent, (weights, x[0])),
            "normalised": (normalised, (x[0],)),
            "neighbours": (neighbours, (x[0], x[:, 0])),
            "step": (step, (weights, x[0], x[1])),
        }
        for name, (f, args) in calls.items():
            check(padded[name](*args), f(*pytree.map(dnp.asarray, args)), 1e-5)
    assert [f._cache_size() for f in padded.values()] == [1, 1, 1, 1, 1]


TRANSFORMED = {
    "value_and_grad": lambda f: dx.value_and_grad(lambda x, y: dnp.sin(f(x, y)).sum(), (0, 1)),
    "of a batch": lambda f: dx.grad(lambda x, y: dx.vmap(f, (0, None))(dnp.stack([x, 2 * x]), y).sum()),
    "second": lambda f: dx.grad(lambda x, y: dx.grad(lambda x: f(x, y).prod())(x)[0]),
    "jvp": lambda f: lambda x, y: dx.jvp(f, (x, y), (x, y)),
    "vjp": lambda f: lambda x, y: dx.vjp(f, x, y)[1](f(x, y)),
    "linearize": lambda f: lambda x, y: dx.linearize(lambda x: f(x, y), x)[1](x),
    "vmap": lambda f: lambda x, y: dx.vmap(f, (0, None))(dnp.stack([x, 2 * x]), y),
    "jit": lambda f: dx.jit(lambda x, y: f(x, y) + 1),
    "checkpoint": lambda f: dx.grad(lambda x, y: dx.checkpoint(f)(x, y).sum()),
}


def curve(x, y):
    """1 / 0 and log 0 where an argument is 0: the derivatives there must not get into those of y."""
    return dnp.concatenate([dnp.log(x * x) / x * y, x[::-1] * y[-1:], dnp.cumsum(x)[:1] * x.max()])


@pytest.mark.parametrize(
    "name",
    [name if i < 2 else pytest.param(name, marks=pytest.mark.slow) for i, name in enumerate(TRANSFORMED)],
)
def test_transformations_go_around_and_into_it(name, monkeypatch):
    transformed = TRANSFORMED[name]
    monkeypatch.setattr(bucketed, "padded_operand", functools.partial(poisoned, poison=(0.0, None, False)))
    outside = transformed(dx.jit(curve, bucket=("n", "_")))
    inside = dx.jit(transformed(curve), bucket=("n", "_"))
    for n in (5, 6):
        args = dnp.asarray(arguments(n)[0]) + 0.3, dnp.array([2.0])
        wanted = transformed(curve)(*args)
        check(outside(*args), wanted, 1e-4)
        check(inside(*args), wanted, 1e-4)
