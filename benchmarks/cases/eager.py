"""One operation at a time on small arrays, and the cost of calling a compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cases import Library, both
from benchmarks.harness import Case, Sampler, repeated

SMALL = numpy.arange(1, 9, dtype=numpy.float32)
INDEXED = (
    numpy.arange(24, dtype=numpy.float32).reshape(4, 6),
    numpy.array([0, 2, 3], numpy.int32),
    numpy.array([1, 1, 5], numpy.int32),
    numpy.array([True, False, True, False]),
)


def _on_array(call: Callable[[Any], Any]) -> Callable[[Library], Sampler]:
    """Times `call(x)` for an array of eight elements."""

    def build(lib: Library) -> Sampler:
        x = lib.np.asarray(SMALL)
        return repeated(lambda: call(x))

    return build


def _numpy_at_set() -> Sampler:
    def at_set() -> numpy.ndarray[Any, Any]:
        y = SMALL.copy()
        y[3] = 1.0
        return y

    return repeated(at_set)


def _indexed(name: str, title: str, budget: float, call: Callable[..., Any]) -> Case:
    """`call(x, a, b, mask)`: a 4 by 6 array, two vectors of positions, a mask of the rows."""

    def build(lib: Library) -> Sampler:
        arrays = [lib.np.asarray(y) for y in INDEXED]
        return repeated(lambda: call(*arrays))

    return Case(name, title, {**both(build), "numpy": lambda: repeated(lambda: call(*INDEXED))}, budget)


def _gather_scatter(lib: Library) -> Sampler:
    """100,000 traced positions in a table of 50,000 rows, read and added to."""
    rng = numpy.random.default_rng(0)
    table = lib.np.asarray(rng.normal(size=(50_000, 4)).astype(numpy.float32))
    i, j = [lib.np.asarray(rng.integers(0, 50_000, 100_000).astype(numpy.int32)) for _ in range(2)]
    f = lib.api.jit(lambda x, i, j: x.at[i].add(x[j]))
    return repeated(lambda: f(table, i, j))


def _gradient(lib: Library) -> Sampler:
    g = lib.api.grad(lambda x: lib.np.sin(x) * 2.0 - x)
    x = lib.np.asarray(numpy.float32(1.0))
    return repeated(lambda: g(x))


def _jit_one(lib: Library) -> Sampler:
    f = lib.api.jit(lambda x: x + x)
    x = lib.np.asarray(SMALL)
    return repeated(lambda: f(x))


def _jit_tree(lib: Library) -> Sampler:
    """100 arrays in a list of dictionaries go in, one comes out."""
    f = lib.api.jit(lambda layers: layers[0]["w"] + layers[-1]["b"])
    layers = [{"w": lib.np.asarray(SMALL + i), "b": lib.np.asarray(SMALL - i)} for i in range(50)]
    return repeated(lambda: f(layers))


def _jitted(name: str, title: str, budget: float, build: Callable[[Library], Callable[[Any], Any]]) -> Case:
    """A call of a jitted function with one small array, and what else the call takes."""

    def side(lib: Library) -> Sampler:
        call, x = build(lib), lib.np.asarray(SMALL)
        return repeated(lambda: call(x))

    return Case(f"jit.{name}", f"calling a jitted function, {title}", both(side), budget)


def _with_static(lib: Library) -> Callable[[Any], Any]:
    f = lib.api.jit(lambda x, n: x * n, static_argnums=1)
    return lambda x: f(x, 3)


def _with_keyword(lib: Library) -> Callable[[Any], Any]:
    f = lib.api.jit(lambda x: x * 2)
    return lambda x: f(x=x)


def _with_scalar(lib: Library) -> Callable[[Any], Any]:
    f = lib.api.jit(lambda x, y: x * y)
    return lambda x: f(x, 2.5)


def _donating(lib: Library) -> Callable[[Any], Any]:
    f = lib.api.jit(lambda x: x + 1, donate_argnums=0)
    state = [lib.np.asarray(SMALL) + 0]

    def step(_: Any) -> Any:
        state[0] = f(state[0])

    return step


def _composed(name: str, title: str, budget: float, call: Callable[[Library, Any], Any]) -> Case:
    """A function of several operations on a 4 by 6 array."""

    def side(lib: Library) -> Sampler:
        x = lib.np.asarray(INDEXED[0])
        return repeated(lambda: call(lib, x))

    return Case(f"eager.{name}", f"eager {title}", both(side), budget)


def _case(name: str, title: str, call: Callable[[Any], Any], budget: float, in_numpy: Any = None) -> Case:
    """An operation on one array; in NumPy it is the same, or `in_numpy`."""
    build = _on_array(call)
    return Case(
        name, title, {**both(build), "numpy": in_numpy or (lambda: repeated(lambda: call(SMALL)))}, budget
    )


CASES = [
    _case("eager.add", "eager x + x", lambda x: x + x, 0.4),
    _case("eager.index", "eager x[3]", lambda x: x[3], 0.15),
    _case("eager.at_set", "eager x.at[3].set(1.)", lambda x: x.at[3].set(1.0), 0.15, _numpy_at_set),
    _indexed("eager.index_span", "eager x[1:3]", 0.3, lambda x, a, b, mask: x[1:3]),
    _indexed("eager.index_new", "eager x[..., None]", 0.3, lambda x, a, b, mask: x[..., None]),
    _indexed("eager.index_mixed", "eager x[1:, 2]", 0.3, lambda x, a, b, mask: x[1:, 2]),
    _indexed("eager.index_arrays", "eager x[a, b], vectors of positions", 0.3, lambda x, a, b, mask: x[a, b]),
    _indexed("eager.index_both", "eager x[1:3, b]", 0.3, lambda x, a, b, mask: x[1:3, b]),
    _indexed("eager.index_mask", "eager x[mask]", 0.3, lambda x, a, b, mask: x[mask]),
    Case("jit.gather_scatter", "x.at[i].add(x[j]) of 100,000 rows", both(_gather_scatter), 1.1),
    Case("eager.grad", "eager gradient of sin(x) * 2 - x", both(_gradient), 0.1),
    Case("jit.call", "calling a jitted function, 1 argument", both(_jit_one), 1.0),
    _jitted("static", "a static argument", 1.4, _with_static),
    _jitted("keyword", "a keyword", 1.4, _with_keyword),
    _jitted("donated", "a donated array", 1.8, _donating),
    _jitted("two", "2 results", 1.4, lambda lib: lib.api.jit(lambda x: (x * 2, x + 1))),
    _jitted("scalar", "a Python number", 1.3, _with_scalar),
    _composed("where", "where(x > 0, x, 0.)", 0.8, lambda lib, x: lib.np.where(x > 0, x, 0.0)),
    _composed("softmax", "softmax", 1.0, lambda lib, x: lib.api.nn.softmax(x)),
    _composed("matmul", "x.T @ x", 1.0, lambda lib, x: x.T @ x),
    _composed("var", "variance", 2.5, lambda lib, x: lib.np.var(x)),
    _composed("median", "median", 25, lambda lib, x: lib.np.median(x)),
    Case("jit.tree", "calling a jitted function, 100 leaves", both(_jit_tree), 1.0),
]
