"""`reduce`, `accumulate`, `reduceat`, `at` and `outer` of ufuncs, and `frompyfunc`: as in jax.numpy, or NumPy."""

import copy
import pickle
import types
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
import didax.scipy.special
from tests.checks import check_grads
from tests.numpy.oracle import check, sample

X = sample("float32", (3, 4))
ARITHMETIC = ("add", "logaddexp", "maximum", "minimum", "multiply", "subtract")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
HORNER = "np.frompyfunc(lambda x, y: x * 2 + y, 2, 1)"


@pytest.mark.parametrize("name", ARITHMETIC + LOGICAL)
def test_reduce(name: str) -> None:
    for axis in (0, -1, None):
        check(f"np.{name}.reduce(x, axis={axis})", X, weak=False)
    check(f"np.{name}.reduce(x, axis=1, keepdims={name != 'subtract'})", X, weak=False)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_reduce_from_an_initial_value_and_where(name: str) -> None:
    x, function = dnp.asarray(X), getattr(np, name)
    for options in ({"initial": 2}, {"initial": 1.5, "where": X > 0}):
        found = getattr(dnp, name).reduce(x, axis=1, **options)
        np.testing.assert_allclose(found, function.reduce(X, axis=1, **options), rtol=1e-5)


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_bits(name: str, dtype: str) -> None:
    x = sample(dtype, (3, 4))
    for method in ("reduce(x)", "reduce(x, 1, where=x > 0)", "reduce(x[:0])", "accumulate(x)"):
        check(f"np.{name}.{method}", x, weak=False)


@pytest.mark.parametrize("name", ARITHMETIC + LOGICAL)
def test_accumulate_and_outer(name: str) -> None:
    for method in ("accumulate(x)", "accumulate(x, 1)", "outer(x, x[0])"):
        check(f"np.{name}.{method}", X, weak=False)


@pytest.mark.parametrize("name", ARITHMETIC + LOGICAL)
def test_reduceat(name: str) -> None:
    starts = np.array([0, 2, 1, 2])
    found = getattr(dnp, name).reduceat(dnp.asarray(X), starts)
    wanted = getattr(np, name).reduceat(X, starts)
    assert found.dtype == wanted.dtype  # jax.numpy gives floats for logical functions
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_at_applies_again_where_an_index_repeats(name: str) -> None:
    check(f"np.{name}.at(x, (np.array([0, 0, 2]), 1), 3.0, inplace=False)", X, weak=False)
    check(f"np.{name}.at(x, 0, x[1], inplace=False)", X, weak=False)


def test_functions_of_ones_own() -> None:
    x = sample("int32", (3, 4))
    for method in ("reduce(x)", "reduce(x, None)", "accumulate(x, 1)", "outer(x, x)"):
        check(f"{HORNER}.{method}", x, weak=False)
    check(f"{HORNER}(x, x[0])", X)
    check("np.frompyfunc(lambda x: (x, x + 1), 1, 2)(x)", X)
    found = dnp.frompyfunc(lambda x, y: x * 2 + y, 2, 1).at(x, (slice(None), [1, 1]), 3, inplace=False)
    np.testing.assert_array_equal(found, np.where(np.arange(4) == 1, x * 4 + 9, x))
    assert int(dnp.frompyfunc(lambda a, b, c: a + b * c, 3, 1)(1, 2, 3)) == 7


def test_a_function_named_as_one_of_the_library_is_its_own() -> None:
    def add(x: Any, y: Any) -> Any:
        return x * y

    assert int(dnp.frompyfunc(add, 2, 1, identity=1).reduce(dnp.array([2, 3, 4]))) == 24
    assert int(dnp.frompyfunc(add, 2, 1, identity=1).reduce(dnp.zeros(0, int))) == 1


def test_transformations() -> None:
    x = dnp.asarray(np.float32([0.5, -1.0, 2.0]))
    check_grads(dnp.logaddexp.reduce, (x,))
    check_grads(dnp.subtract.accumulate, (x,))
    np.testing.assert_array_equal(dx.vmap(dnp.subtract.reduce)(dnp.eye(3)), [1, -1, -1])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: dnp.add.at(x, 0, 1), NotImplementedError, "inplace: True"),
        (lambda x: dnp.add.at(x, 0, inplace=False), TypeError, "operands: 2, results: 1, b: none"),
        (lambda x: dnp.subtract.reduce(x[:0]), ValueError, r"subtract has no identity.*\n  a: float32\[0\]"),
        (lambda x: dnp.subtract.reduce(x, where=x > 0), ValueError, "Pass initial"),
        (lambda x: dnp.negative.reduce(x), ValueError, "negative: operands: 1, results: 1"),
        (lambda x: dnp.add.reduceat(x, dnp.array([3])), IndexError, "axis of length 3"),
        (lambda x: dnp.add.reduceat(x, x), ValueError, r"indices: float32\[3\]"),
        (lambda x: dnp.add.reduce(x, out=x), NotImplementedError, "add.reduce cannot write"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(dnp.ones(3))


def test_functions_are_pickled_by_name() -> None:
    for module in (dnp, dx.scipy.special, dx.nn, dx.lax, dx.random, dnp.linalg, dnp.fft):
        for name in [name for name in dir(module) if not name.startswith("_")]:
            f = getattr(module, name)
            if isinstance(f, types.FunctionType | dnp.ufunc):
                assert pickle.loads(pickle.dumps(f)) is f, f
    assert float(pickle.loads(pickle.dumps(dx.tree_util.Partial(dnp.sin, 1.0)))()) == float(dnp.sin(1.0))
    assert copy.deepcopy(dnp.add) is dnp.add
    norm = dx.scipy.stats.norm
    assert pickle.loads(pickle.dumps(norm.pdf)) is norm.pdf
