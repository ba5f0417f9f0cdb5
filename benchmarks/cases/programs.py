"""Compiled programs, from arguments on the device to results that are computed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from benchmarks.cases import Library, both
from benchmarks.harness import Case, Sampler, repeated, wait

Program = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> numpy.ndarray[Any, Any]:
    """Standard normal float32 numbers."""
    return numpy.random.default_rng(seed).standard_normal(shape, numpy.float32)


def _case(
    name: str,
    title: str,
    program: Callable[[Library], Program],
    args: Callable[[], Sequence[numpy.ndarray[Any, Any]]],
    numpy_program: Program | None = None,
    torch_program: Callable[[Any], Program] | None = None,
) -> Case:
    """A program of both libraries, and in NumPy and PyTorch where they have its like."""

    def build(lib: Library) -> Sampler:
        return _repeated(lib.api.jit(program(lib)), [lib.np.asarray(x) for x in args()])

    sides = both(build)
    if numpy_program is not None:
        sides["numpy"] = lambda: _repeated(numpy_program, args())
    if torch_program is not None:
        sides["torch"] = lambda: _torch_side(torch_program, args())
    return Case(f"program.{name}", title, sides, 1.0)


def _repeated(f: Program, arrays: Sequence[Any]) -> Sampler:
    return repeated(lambda: wait(f(*arrays)))


def _torch_side(program: Callable[[Any], Program], arrays: Sequence[Any]) -> Sampler:
    torch = importlib.import_module("torch")
    return _repeated(program(torch), [torch.from_numpy(x) for x in arrays])


def _chain(lib: Library) -> Program:
    return lambda x: lib.np.tanh(x * 2.0 + 1.0) * x - x * x / 3.0


def _mlp_step(lib: Library) -> Program:
    """One step of gradient descent on a network of three layers."""
    np = lib.np

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w in weights[:-1]:
            x = np.tanh(x @ w)
        return np.mean((x @ weights[-1] - y) ** 2)

    def step(w0: Any, w1: Any, w2: Any, x: Any, y: Any) -> Any:
        weights = [w0, w1, w2]
        return [w - 0.1 * g for w, g in zip(weights, lib.api.grad(loss)(weights, x, y), strict=True)]

    return step


def _softmax(np: Any) -> Program:
    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    return softmax


def _attention(lib: Library) -> Program:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = lib.np.einsum("bhqd,bhkd->bhqk", q, k) / 8.0
        return lib.np.einsum("bhqk,bhkd->bhqd", lib.api.nn.softmax(scores, -1), v)

    return attend


def _conv(lib: Library) -> Program:
    layout = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: lib.api.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout)


CASES = [
    _case("chain", "elementwise chain, 1M elements", _chain, lambda: [normal(1 << 20)],
          lambda x: numpy.tanh(x * 2.0 + 1.0) * x - x * x / 3.0,
          lambda torch: lambda x: torch.tanh(x * 2.0 + 1.0) * x - x * x / 3.0),
    _case("matmul", "matrix product, 512 x 512", lambda lib: lib.np.matmul,
          lambda: [normal(512, 512), normal(512, 512, seed=1)], numpy.matmul, lambda torch: torch.matmul),
    _case("mlp", "training step of a network, batch 64, width 256", _mlp_step,
          lambda: [normal(256, 256) / 16, normal(256, 256, seed=1) / 16, normal(256, 10, seed=2) / 16,
                   normal(64, 256), normal(64, 10)]),
    _case("softmax", "softmax, 1024 x 1024", lambda lib: _softmax(lib.np), lambda: [normal(1024, 1024)],
          _softmax(numpy), lambda torch: lambda x: torch.softmax(x, -1)),
    _case("mean", "mean over the first axis, 2048 x 512", lambda lib: lambda x: lib.np.mean(x, axis=0),
          lambda: [normal(2048, 512)], lambda x: x.mean(axis=0), lambda torch: lambda x: x.mean(dim=0)),
    _case("conv", "convolution 3 x 3, 8 x 32 x 32 x 16 to 32 channels", _conv,
          lambda: [normal(8, 32, 32, 16), normal(3, 3, 16, 32)]),
    _case("sort", "sort, 100k elements", lambda lib: lib.np.sort, lambda: [normal(100_000)],
          numpy.sort, lambda torch: lambda x: torch.sort(x).values),
    _case("cumsum", "cumulative sum, 1M elements", lambda lib: lib.np.cumsum,
          lambda: [normal(1 << 20) * 0.01], numpy.cumsum, lambda torch: lambda x: torch.cumsum(x, 0)),
    _case("sine", "sine, 1M elements", lambda lib: lib.np.sin, lambda: [normal(1 << 20)],
          numpy.sin, lambda torch: torch.sin),
    _case("argmax", "positions of the maxima of rows, 10,000 x 100",
          lambda lib: lambda x: lib.np.argmax(x, axis=1), lambda: [normal(10_000, 100)],
          lambda x: x.argmax(axis=1), lambda torch: lambda x: x.argmax(dim=1)),
    _case("finite", "are 1M elements finite", lambda lib: lambda x: lib.np.isfinite(x).all(),
          lambda: [normal(1 << 20)], lambda x: numpy.isfinite(x).all(),
          lambda torch: lambda x: torch.isfinite(x).all()),
    _case("max", "maximum of 10M elements", lambda lib: lib.np.max, lambda: [normal(10_000_000)],
          numpy.max, lambda torch: torch.max),
    _case("searchsorted", "1M positions in 10,000 elements", lambda lib: lib.np.searchsorted,
          lambda: [numpy.sort(normal(10_000)), normal(1_000_000, seed=1)], numpy.searchsorted),
    _case("attention", "attention, (4, 8, 512, 64)", _attention,
          lambda: [normal(4, 8, 512, 64, seed=i) for i in range(3)]),
    _case("inverse", "inverses of 1,000 matrices 4 x 4", lambda lib: lib.np.linalg.inv,
          lambda: [normal(1000, 4, 4)], numpy.linalg.inv, lambda torch: torch.linalg.inv),
    _case("gram", "x.T @ x, 1024 x 1024", lambda lib: lambda x: x.T @ x, lambda: [normal(1024, 1024) / 32],
          lambda x: x.T @ x, lambda torch: lambda x: x.T @ x),
    _case("weight_grad", "x.T @ y, 2048 x 512 and 2048 x 64", lambda lib: lambda x, y: x.T @ y,
          lambda: [normal(2048, 512) / 32, normal(2048, 64, seed=1)], lambda x, y: x.T @ y,
          lambda torch: lambda x, y: x.T @ y),
]  # fmt: skip
