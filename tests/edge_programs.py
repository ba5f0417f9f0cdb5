"""One operation with its parameters at their edges, run where it may end the process.

XLA answers some programs with a failed check, which ends the process. Here are families of such programs: shapes
with 0 and 1, padding that cuts off, dilations, empty windows and batches. `python -m tests.edge_programs LOG
windows/3 sorts/0` runs these cases one after another, each compiled with its derivatives and batches. It writes
to the log which case is about to run and what was wrong with it, and may die at any of them; `run_cases` starts such
processes until all cases have had their turn.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import MissingRuleError

Rng = np.random.Generator
SECONDS = 120  # for one case, on a busy machine


class Case(NamedTuple):
    """A function and its arguments; `text` tells them apart."""

    text: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]


# --- Drawing ------------------------------------------------------------------------------------------------


def _some(rng: Rng, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def _ints(rng: Rng, low: int, high: int, n: int) -> tuple[int, ...]:
    return tuple(rng.integers(low, high + 1, n).tolist())


def _shape(rng: Rng, most: int = 3, least: int = 0) -> tuple[int, ...]:
    return tuple(_some(rng, 0, 1, 1, 2, 3) for _ in range(rng.integers(least, most + 1)))


def _array(rng: Rng, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    numbers = rng.integers(-4, 5, shape) / 2 if shape else rng.integers(-4, 5) / 2
    return dnp.asarray(np.asarray(numbers, np.float32)).astype(dtype)


DTYPES = "float32", "float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool", "complex64"
NARROW = (
    "int4",
    "uint4",
    "int2",
    "uint2",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float4_e2m1fn",
)


def _case(fun: Callable[..., Any], *args: Any, **params: Any) -> Case:
    kinds = ", ".join(f"{x.dtype}{list(x.shape)}" for x in args)
    return Case(f"{kinds}; {', '.join(f'{name}={value}' for name, value in params.items())}", fun, args)


# --- Families -----------------------------------------------------------------------------------------------


def windows(rng: Rng) -> Case:
    shape = _shape(rng, 2, 1)
    n = len(shape)
    name = _some(rng, "add", "add", "max", "min", "mul")
    dtype = _some(rng, "float32", "float32", "float32", "bfloat16", "int32", "int4", "float8_e5m2")
    args = (
        _ints(rng, 1, 3, n), _ints(rng, 1, 3, n), [_ints(rng, -2, 3, 2) for _ in shape],
        _ints(rng, 1, 2, n), _ints(rng, 1, 2, n),
    )  # fmt: skip
    init = {"add": 0, "max": -np.inf, "min": np.inf, "mul": 1}[name]

    def fun(x: Any) -> Any:
        return lax.reduce_window(x, init, getattr(lax, name), *args)

    return _case(fun, _array(rng, shape, dtype), name=name, args=args)


def convolutions(rng: Rng) -> Case:
    n = rng.integers(0, 3)
    groups = _some(rng, 1, 1, 1, 2)
    batch_groups = _some(rng, 1, 1, 2) if groups == 1 else 1
    channels = _some(rng, 0, 1, 2)
    out = _some(rng, 0, 1, 2) * groups * batch_groups
    x = _array(rng, (_some(rng, 0, 1, 2) * batch_groups, channels * groups, *_ints(rng, 0, 4, n)))
    kernel = _array(rng, (out, channels, *_ints(rng, 0, 3, n)))
    params = {
        "window_strides": _ints(rng, 1, 3, n), "padding": [_ints(rng, -2, 3, 2) for _ in range(n)],
        "lhs_dilation": _ints(rng, 1, 2, n), "rhs_dilation": _ints(rng, 1, 2, n),
        "feature_group_count": groups, "batch_group_count": batch_groups,
    }  # fmt: skip
    return _case(lambda x, k: lax.conv_general_dilated(x, k, **params), x, kernel, **params)


def pads(rng: Rng) -> Case:
    shape, dtype = _shape(rng), _some(rng, *DTYPES, *NARROW)
    config = [(*_ints(rng, -3, 3, 2), _some(rng, 0, 0, 1, 2)) for _ in shape]
    return _case(
        lambda x, v: lax.pad(x, v, config), _array(rng, shape, dtype), _array(rng, (), dtype), config=config
    )


def slices(rng: Rng) -> Case:
    shape = _shape(rng, 3, 1)
    x = _array(rng, shape, _some(rng, *DTYPES, *NARROW))
    starts = [_some(rng, 0, n // 2, n) for n in shape]
    sizes = [_some(rng, 0, 1, n - i) if n > i else 0 for i, n in zip(starts, shape, strict=True)]
    strides = _ints(rng, 1, 3, len(shape))
    ends = [i + n for i, n in zip(starts, sizes, strict=True)]
    at = [dnp.int32(i) for i in _ints(rng, -5, 5, len(shape))]
    update = _array(rng, tuple(sizes), str(x.dtype))
    fun: Any = {
        "slice": lambda x, u: lax.rev(lax.slice(x, starts, ends, strides), (0,)),
        "dynamic_slice": lambda x, u: lax.dynamic_slice(x, at, sizes),
        "dynamic_update_slice": lambda x, u: lax.dynamic_update_slice(x, u, at),
        "concatenate": lambda x, u: lax.concatenate([x, x[:0], x], 0),
    }
    name = _some(rng, *fun)
    return _case(fun[name], x, update, name=name, starts=starts, sizes=sizes, strides=strides, at=at)


def indexing(rng: Rng) -> Case:
    shape = _shape(rng, 3, 1)
    x = _array(rng, shape, _some(rng, *DTYPES, *NARROW))
    mode = _some(rng, "clip", "fill", "promise_in_bounds")
    count = _shape(rng, 2)
    high = 1 if mode == "promise_in_bounds" else 4
    index = dnp.asarray(rng.integers(0, high, count).astype("int32"))
    axis = int(rng.integers(len(shape)))
    where = (slice(None),) * axis + (index,)
    name = _some(rng, "get", "set", "add", "mul", "min", "max", "apply")
    if name == "get":
        return _case(lambda x, i: x.at[where].get(mode=mode), x, index, axis=axis, mode=mode)
    update = _array(rng, (*shape[:axis], *count, *shape[axis + 1 :]), str(x.dtype))
    if name == "apply":
        return _case(
            lambda x, u: x.at[where].apply(lambda y: y * y), x, update, index=count, axis=axis, mode=mode
        )
    return _case(
        lambda x, u: getattr(x.at[where], name)(u, mode=mode), x, update, name=name, axis=axis, mode=mode
    )


def gathers(rng: Rng) -> Case:
    shape = _shape(rng, 3, 1)
    x = _array(rng, shape, _some(rng, "float32", "bfloat16", "int8", "int4", "complex64"))
    sizes = tuple(int(rng.integers(0, n + 1)) for n in shape)
    named = tuple(i for i in range(len(shape)) if rng.random() < 0.6)
    collapsed = tuple(i for i in named if sizes[i] <= 1 and shape[i] and rng.random() < 0.5)
    sizes = tuple(1 if i in collapsed else k for i, k in enumerate(sizes))
    batch = _shape(rng, 2)
    kept = len(shape) - len(collapsed)
    offset = tuple(range(len(batch), len(batch) + kept)) if rng.random() < 0.5 else tuple(range(kept))
    index = dnp.asarray(
        rng.integers(-2, 4, (*batch, len(named))).astype(_some(rng, "int32", "int8", "uint32"))
    )
    mode = _some(rng, "clip", "fill")
    window = [k for i, k in enumerate(sizes) if i not in collapsed]
    out = [0] * (len(batch) + kept)
    places = iter(batch)
    for i in range(len(out)):
        out[i] = window[offset.index(i)] if i in offset else next(places)
    update = _array(rng, tuple(out), str(x.dtype))
    dims = (offset, collapsed, named)
    name = _some(rng, "gather", "scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max")
    if name == "gather":
        fun: Any = lambda x, u: lax.gather(x, index, lax.GatherDimensionNumbers(*dims), sizes, mode=mode)
    else:
        fun = lambda x, u: getattr(lax, name)(x, index, u, lax.ScatterDimensionNumbers(*dims), mode=mode)
    return _case(
        fun, x, update, name=name, dims=dims, sizes=sizes, index=f"{index.dtype}{index.shape}", mode=mode
    )


def sorts(rng: Rng) -> Case:
    shape = _shape(rng, 3, 1)
    x = _array(rng, shape, _some(rng, *DTYPES, *NARROW))
    axis = int(rng.integers(len(shape)))
    k = int(rng.integers(0, shape[-1] + 1))
    y = _array(rng, shape)
    fun: Any = {
        "sort": lambda x, y: lax.sort(x, axis),
        "two": lambda x, y: lax.sort((x, y), axis, num_keys=1),
        "two keys": lambda x, y: lax.sort((x, y), axis, is_stable=False, num_keys=2),
        "top_k": lambda x, y: lax.top_k(x, k),
        "argsort": lambda x, y: dnp.argsort(x, axis=axis),
        "median": lambda x, y: dnp.median(y, axis=axis),
        "searchsorted": lambda x, y: dnp.searchsorted(y.ravel(), y),
        "unique": lambda x, y: dnp.unique(x, size=2),
        "argmax": lambda x, y: lax.argmax(x, axis, np.int32),
        "approx": lambda x, y: lax.approx_max_k(y, k),
    }
    name = _some(rng, *fun)
    return _case(fun[name], x, y, name=name, axis=axis, k=k)


def ffts(rng: Rng) -> Case:
    rank = int(rng.integers(1, 4))
    shape = _shape(rng, 4, rank)
    kind = _some(rng, "fft", "ifft", "rfft", "irfft")
    x = _array(rng, shape, "float32" if kind == "rfft" else "complex64")
    lengths = list(shape[len(shape) - rank :])
    if kind == "irfft":
        lengths[-1] = _some(rng, max(2 * lengths[-1] - 1, 0), max(2 * lengths[-1] - 2, 0))
    return _case(lambda x: lax.fft(x, kind, tuple(lengths)), x, kind=kind, lengths=lengths)


def dots(rng: Rng) -> Case:
    m, n, k, b = (_some(rng, 0, 1, 2, 3) for _ in range(4))
    dtype = _some(rng, *DTYPES, "int4", "int2", "float8_e4m3fn", "float64", "complex128", "int64")
    batched, free = rng.random() < 0.5, rng.random() < 0.7
    first = ((b,) if batched else ()) + ((m,) if free else ()) + (k,)
    second = ((b,) if batched else ()) + (k, n)
    batch = ((0,), (0,)) if batched else ((), ())
    contract = ((len(first) - 1,), (int(batched),)) if rng.random() < 0.8 else ((), ())
    x, y = _array(rng, first, dtype), _array(rng, second, dtype)
    wide = _some(rng, None, None, "float32", "int32") if dtype not in ("bool", "complex64") else None
    return _case(
        lambda x, y: lax.dot_general(x, y, (contract, batch), preferred_element_type=wide),
        x, y, contract=contract, batch=batch, wide=wide,
    )  # fmt: skip


def ragged(rng: Rng) -> Case:
    m, k, n, g = (_some(rng, 0, 1, 3) for _ in range(4))
    sizes = dnp.asarray(rng.integers(0, 3, g).astype("int32"))
    return _case(
        lambda x, y: lax.ragged_dot(x, y, sizes), _array(rng, (m, k)), _array(rng, (g, k, n)), sizes=sizes
    )


def reductions(rng: Rng) -> Case:
    shape = _shape(rng)
    axes = tuple(i for i in range(len(shape)) if rng.random() < 0.6)
    x = _array(rng, shape, _some(rng, *DTYPES, *NARROW))
    name = _some(rng, "sum", "prod", "max", "min", "and", "or", "xor")
    if rng.random() < 0.7:
        return _case(lambda x: getattr(lax, f"reduce_{name}")(x, axes), x, name=name, axes=axes)
    return _case(lambda x: lax.reduce(x, 1, lambda a, b: a * b + a, axes), x, name="reduce", axes=axes)


def statistics(rng: Rng) -> Case:
    shape = _shape(rng, 3, 1)
    axis = _some(rng, None, *range(len(shape)))
    name = _some(rng, "mean", "var", "std", "max", "argmax", "nanmax", "nansum", "ptp", "quantile", "cumsum", "all",
                 "count_nonzero", "average", "prod", "median", "nanmean", "diff", "trapezoid")  # fmt: skip
    more = (0.5,) if name == "quantile" else ()
    axis = -1 if name in ("diff", "trapezoid") else axis
    return _case(lambda x: getattr(dnp, name)(x, *more, axis=axis), _array(rng, shape), name=name, axis=axis)


def cumulatives(rng: Rng) -> Case:
    shape = (*_shape(rng, 2), _some(rng, 0, 1, 3, 5, 33), *_shape(rng, 1))
    axis = int(rng.integers(len(shape)))
    x = _array(
        rng, shape, _some(rng, "float32", "float16", "bfloat16", "int8", "uint8", "complex64", "float8_e5m2")
    )
    name, reverse = _some(rng, "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), bool(rng.integers(2))
    return _case(lambda x: getattr(lax, name)(x, axis, reverse), x, name=name, axis=axis, reverse=reverse)


def shapes(rng: Rng) -> Case:
    shape = _shape(rng, 3)
    x = _array(rng, shape, _some(rng, *DTYPES, *NARROW))
    n = len(shape)
    order = tuple(rng.permutation(n).tolist())
    fun: Any = {
        "transpose": lambda x: lax.transpose(x, order),
        "rev": lambda x: lax.rev(x, order[:1]),
        "reshape": lambda x: lax.reshape(x, (1, x.size, 1)),
        "broadcast": lambda x: lax.broadcast_in_dim(x, (2, 0, *shape), range(2, n + 2)),
        "select": lambda x: lax.select_n(lax.full(shape, True), x, x),
        "tile": lambda x: dnp.tile(x, (0, 2)),
        "stack": lambda x: dnp.stack([x, x], -1),
        "roll": lambda x: dnp.roll(x, 1),
        "diagonal": lambda x: dnp.trace(dnp.broadcast_to(x, (0, 3, *shape))),
        "convert": lambda x: [
            x.astype(d) for d in ("float16", "int8", "bool", "complex64", "int4", "float8_e5m2")
        ],
        "bits": lambda x: [lax.bitcast_convert_type(x, d) for d in ("uint8", "int8")],
        "clamp": lambda x: lax.clamp(x, x, x),
    }
    name = _some(rng, *fun)
    return _case(fun[name], x, name=name)


def matrices(rng: Rng) -> Case:
    m, n, k = (_some(rng, 0, 1, 2, 3) for _ in range(3))
    batch, dtype = _shape(rng, 1), _some(rng, "float32", "float64", "complex64")
    square = _array(rng, (*batch, n, n), dtype) + 4 * dnp.eye(n, dtype=dtype)
    square = square + dnp.conj(square.mT) + dnp.diag(dnp.arange(n)).astype(dtype)
    x, y = _array(rng, (*batch, m, n), dtype), _array(rng, (*batch, n, k), dtype)
    la: Any = lax.linalg
    fun: Any = {
        "cholesky": lambda a, x, y: la.cholesky(a),
        "qr": lambda a, x, y: la.qr(x, full_matrices=bool(m < n)),
        "lu": lambda a, x, y: la.lu(x),
        "svd": lambda a, x, y: la.svd(x, full_matrices=False),
        "singular values": lambda a, x, y: la.svd(x, compute_uv=False),
        "eigh": lambda a, x, y: la.eigh(a),
        "eig": lambda a, x, y: la.eig(a, compute_left_eigenvectors=False),
        "triangular_solve": lambda a, x, y: la.triangular_solve(a, y, left_side=True),
        "solve": lambda a, x, y: dnp.linalg.solve(a, y),
        "inv": lambda a, x, y: dnp.linalg.inv(a),
        "det": lambda a, x, y: dnp.linalg.det(a),
        "tridiagonal_solve": lambda a, x, y: la.tridiagonal_solve(y[..., 0], y[..., 0] + 4, y[..., 0], y),
        "pinv": lambda a, x, y: dnp.linalg.pinv(x),
        "lstsq": lambda a, x, y: dnp.linalg.lstsq(x, x),
        "norm": lambda a, x, y: dnp.linalg.norm(x, axis=(-2, -1)),
        "matrix_power": lambda a, x, y: dnp.linalg.matrix_power(a, 3),
    }
    name = _some(rng, *fun)
    return _case(fun[name], square, x, y, name=name)


def draws(rng: Rng) -> Case:
    shape, key, width = _shape(rng, 3), dx.random.key(0), _some(rng, 8, 16, 32, 64)
    fun: Any = {
        "bits": lambda x: dx.random.bits(key, shape, f"uint{width}"),
        "uniform": lambda x: dx.random.uniform(key, shape) * x,
        "normal": lambda x: dx.random.normal(key, shape, "bfloat16"),
        "randint": lambda x: dx.random.randint(key, shape, 0, 3),
        "permutation": lambda x: dx.random.permutation(key, lax.broadcast(x, (0,))),
        "choice": lambda x: dx.random.choice(key, 3, shape),
        "gamma": lambda x: dx.random.gamma(key, 2.0 + x, shape),
        "categorical": lambda x: dx.random.categorical(key, lax.broadcast(x, (*shape, 1))),
        "split": lambda x: dx.random.key_data(dx.random.split(key, shape)),
        "generator": lambda x: lax.rng_bit_generator(dnp.zeros(4, "uint32"), shape),
    }
    name = _some(rng, *fun)
    return _case(fun[name], _array(rng, ()), name=name, shape=shape)


def loops(rng: Rng) -> Case:
    n, shape = _some(rng, 0, 1, 3), _shape(rng, 2)
    fun: Any = {
        "scan": lambda x, y: lax.scan(lambda c, z: (c * 2, c.sum() * z), y, x),
        "scan back": lambda x, y: lax.scan(lambda c, z: (c + z, c), y, x, reverse=True),
        "fori": lambda x, y: lax.fori_loop(0, n, lambda i, c: c * 2, y),
        "while": lambda x, y: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * y), (0, y), max_steps=4
        ),
        "map": lambda x, y: lax.map(lambda z: z * 2, x),
        "cond": lambda x, y: lax.cond(x.size < n, lambda: y, lambda: y * 2),
        "associative_scan": lambda x, y: lax.associative_scan(lax.mul, x),
        "checkpoint": lambda x, y: dx.checkpoint(lambda x: dnp.sin(x) * 2)(x),
    }
    name = _some(rng, *fun)
    return _case(fun[name], _array(rng, (n, *shape)), _array(rng, shape), name=name)


def elementwise(rng: Rng) -> Case:
    unary = ("abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc "
             "exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg population_count clz real reciprocal "
             "bitwise_not round rsqrt sign sin sinh sqrt square tan tanh conj")  # fmt: skip
    binary = ("add atan2 bitwise_and div eq igamma igammac lt max min mul nextafter pow rem shift_left "
              "shift_right_arithmetic shift_right_logical sub zeta complex polygamma mulhi")  # fmt: skip
    shape, dtype = (
        _some(rng, (), (0,), (3,), (1, 3)),
        _some(rng, *DTYPES, *NARROW, "float64", "complex128", "uint64"),
    )
    if rng.random() < 0.1:
        bits = (int(rng.integers(1, 9)), int(rng.integers(0, 24)))
        return _case(lambda x: lax.reduce_precision(x, *bits), _array(rng, shape, dtype), bits=bits)
    name = _some(rng, *unary.split(), *binary.split())
    args = [_array(rng, shape, dtype) for _ in range(1 if name in unary.split() else 2)]
    return _case(lambda *xs: getattr(lax, name)(*xs), *args, name=name)


_ALL = (
    windows, convolutions, pads, slices, indexing, gathers, sorts, ffts, dots, ragged, reductions, statistics,
    cumulatives, shapes, matrices, draws, loops, elementwise,
)  # fmt: skip
FAMILIES: dict[str, Callable[[Rng], Case]] = {f.__name__: f for f in _ALL}


def case(name: str) -> Case:
    """The program of a name "family/number", always the same one."""
    family, number = name.split("/")
    return FAMILIES[family](np.random.default_rng((zlib.crc32(family.encode()), int(number))))


# --- Running ------------------------------------------------------------------------------------------------


def transformed(fun: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Callable[..., Any]]:
    """The value of a program, its first two derivatives, and batches of both."""
    places = [i for i, x in enumerate(args) if dx.numpy.issubdtype(x.dtype, dnp.inexact)]

    def total(*args: Any) -> Any:
        outs = [y for y in dx.tree.leaves(fun(*args)) if dnp.issubdtype(y.dtype, dnp.inexact)]
        return sum([dnp.real(dnp.sum(y * y)).astype("float32") for y in outs], dnp.float32(0))

    def first(*args: Any) -> Any:
        def of(*some: Any) -> Any:
            given = list(args)
            for i, x in zip(places, some, strict=True):
                given[i] = x
            return total(*given)

        return dx.grad(of, argnums=tuple(range(len(places))))(*[args[i] for i in places])

    def second(*args: Any) -> Any:
        bars = first(*args)
        return sum([dnp.real(dnp.sum(y * y)).astype("float32") for y in bars], dnp.float32(0))

    found: dict[str, Callable[..., Any]] = {"value": fun}
    if places:
        found["gradient"] = first
        found["second derivative"] = lambda *args: dx.jvp(
            lambda *some: first(*[dict(zip(places, some, strict=True)).get(i, x) for i, x in enumerate(args)]),
            [args[i] for i in places], [args[i] for i in places],
        )[1]  # fmt: skip
    for size in (0, 2):
        found[f"batch of {size}"] = lambda *args, n=size: dx.vmap(found["gradient" if places else "value"])(
            *[dnp.broadcast_to(x, (n, *x.shape)) for x in args]
        )
        found[f"values of {size}"] = lambda *args, n=size: dx.vmap(fun, in_axes=-1)(
            *[dnp.broadcast_to(x[..., None], (*x.shape, n)) for x in args]
        )
    return found


def check(case: Case) -> str | None:
    """What is wrong with a program, such as an error that only its transformations raise; None if nothing is."""
    try:
        eager = case.fun(*case.args)
    except (TypeError, ValueError, NotImplementedError, IndexError):
        return None  # refused
    programs, ready = transformed(case.fun, case.args), {}
    for name, program in programs.items():
        try:
            dx.make_jaxpr(program)(*case.args)
        except MissingRuleError:
            continue
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
        else:
            ready[name] = program
    try:
        outs = dx.jit(lambda *args: {name: program(*args) for name, program in ready.items()})(*case.args)
        dx.block_until_ready(outs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return differ(eager, outs["value"])


def differ(eager: Any, compiled: Any) -> str | None:
    for x, y in zip(dx.tree.leaves(eager), dx.tree.leaves(compiled), strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"types differ: {x.aval} at once, {y.aval} compiled"
        wide = "complex128" if x.dtype.kind == "c" else "float64"
        a, b = (np.asarray(z).astype(wide) for z in (x, y))
        if not np.allclose(a, b, rtol=0.05, atol=1e-3, equal_nan=True):
            return f"values differ: {a.ravel()[:6]} at once, {b.ravel()[:6]} compiled"
    return None


def main(log: str, *names: str) -> None:
    with Path(log).open("a", buffering=1) as lines:
        for name in names:
            lines.write(f"{name}\n")
            signal.alarm(SECONDS)
            if (wrong := check(case(name))) is not None:
                lines.write(f"# {name}: {wrong.replace(chr(10), ' | ')}\n")
        lines.write("done\n")


def run_cases(names: Sequence[str], folder: Path) -> list[str]:
    """What was wrong with these cases, each in a line that begins with its name."""
    log, found = folder / "cases.log", []
    while names:
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.edge_programs", str(log), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        *lines, last = log.read_text().splitlines() if log.exists() else [names[0]]
        found += [line[2:] for line in (*lines, last) if line.startswith("#")]
        if last == "done":
            break
        at = next(line for line in (last, *reversed(lines)) if not line.startswith("#"))
        said = done.stderr.strip().splitlines() or [""]
        reason = next((line for line in said if "heck failed" in line), said[-1])
        found.append(f"{at}: the process ended ({done.returncode}): {reason}")
        names = names[names.index(at) + 1 :]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
