"""Dtype and weak type of what users write, against JAX: every function, every transformation, every mode.

Expressions are texts in `m` (didax or jax), `np` (didax.numpy or jax.numpy) and `onp` (NumPy).
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import config
from didax.core.errors import TypePromotionError
from didax.numpy import files
from tests.answers import asked

# What JAX says of some of the calls.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{name}Warning") for name in ("Deprecation", "Future", "User")
]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.ci)], ids=["x32", "x64"])
def x64(request: pytest.FixtureRequest) -> Iterator[bool]:
    with ExitStack() as stack:
        stack.enter_context(dx.enable_x64(request.param))
        stack.enter_context(jax.enable_x64(request.param))
        yield request.param


@pytest.fixture
def strict() -> Iterator[None]:
    with dx.numpy_dtype_promotion("strict"), jax.numpy_dtype_promotion("strict"):
        yield


def described(x: Any) -> Any:
    """Dtype, weakness and shape of arrays, in any structure; booleans are never weak here."""
    if isinstance(x, tuple | list):
        return [described(y) for y in x]
    if hasattr(x, "aval") or isinstance(x, jax.ShapeDtypeStruct):
        weak = bool(x.weak_type) and x.dtype != bool
        return f"{x.dtype}{list(x.shape)}{'*' if weak else ''}"
    return type(x).__name__


def evaluate(text: str, library: Any) -> Any:
    return eval(text, {"m": library, "np": library.numpy, "onp": np})


# --- every function -----------------------------------------------------------------------------------------

OPERANDS = (
    "2", "0.5", "True", "1j", "np.asarray(2)", "np.asarray(0.5)", "np.broadcast_to(np.asarray(0.5), (3,))",
    "np.array([1, 2, 1], 'int8')", "np.array([1, 2, 1], 'uint32')", "np.array([True, False, True])",
    "np.array([.5, .25, .5], 'bfloat16')", "np.array([.5, .25, .5], 'float32')",
    "np.array([.5, .25, .5], 'complex64')", "onp.float64(0.5)", "onp.arange(3)", "onp.ones((2, 2))",
)  # fmt: skip
SECOND = ("2", "0.5", "np.asarray(2)", "np.broadcast_to(np.asarray(0.5), (3,))", "np.array([1, 2, 1], 'int8')",
          "np.array([.5, .25, .5], 'bfloat16')", "onp.float64(0.5)")  # fmt: skip
# Where JAX's results are weak or strong by accident: by the rank of the operands, or against its own rule.
STRONG_BY_ACCIDENT = frozenset({
    "angle", "around", "atan2", "cross", "deg2rad", "degrees", "delete", "diagflat", "full_like", "gcd", "gradient",
    "heaviside", "hypot", "lcm", "log2", "logaddexp2", "polydiv", "polyval", "pow", "power", "rad2deg", "radians",
    "round", "sinc", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
})  # fmt: skip
# JAX's accumulates integers in their own width, alone of its kind; is 32-bit in any mode.
OTHER_DTYPES = frozenset({"argpartition", "cumulative_prod", "digitize", "searchsorted", "tri"})
NOT_CALLED = frozenset(
    {"Array", "apply_along_axis", "apply_over_axes", "from_dlpack", "vectorize", "broadcast_shapes"}
    | set(files.__all__)  # which write, and set options of the process
)


def functions(ours: Any, theirs: Any) -> list[str]:
    """Names of the functions, ufuncs included, that both modules have."""
    names = [name for name in dir(ours) if not name.startswith("_") and name not in NOT_CALLED | OTHER_DTYPES]
    both = [(name, getattr(ours, name), getattr(theirs, name, None)) for name in names]
    return [name for name, f, g in both if callable(f) and callable(g) and not inspect.isclass(f)]


FUNCTIONS = functions(dnp, jnp)
ONE = [(name, f"np.{name}({x})") for name in FUNCTIONS for x in OPERANDS]
TWO = [(name, f"np.{name}({x}, {y})") for name in FUNCTIONS for x, y in itertools.product(SECOND, repeat=2)]
SCALARS = ("onp.float64(0.5)", "onp.int64(2)", "0.5", "np.asarray(0.5)")
LAX = [
    (name, f"m.lax.{name}({', '.join(operands)})")
    for name in functions(dx.lax, jax.lax)
    for operands in [*zip(SCALARS), *itertools.product(SCALARS[:2], SCALARS)]
]  # fmt: skip


def result(call: str, library: Any) -> Any:
    """The types of what a call gives when it is traced; None where it raises."""
    try:
        return described(library.eval_shape(lambda: evaluate(call, library)))
    except Exception:  # which calls are refused, and how, other tests say
        return None


def assert_same_types(calls: list[tuple[str, str]], at_least: float) -> None:
    """The calls that both libraries accept, `at_least` a share of all, give results of the same types."""
    count, different = 0, []
    for name, call in calls:
        theirs = asked(
            f"types of {call}, x64={config.state().enable_x64}", lambda call=call: result(call, jax)
        )
        ours = None if theirs is None else result(call, dx)
        if ours is None:
            continue
        count += 1
        if name in STRONG_BY_ACCIDENT:
            theirs, ours = str(theirs).replace("*", ""), str(ours).replace("*", "")
        if ours != theirs:
            different.append(f"{call}: {ours}, not {theirs}")
    assert not different, "\n".join(different)
    assert count >= at_least * len(calls)


# One call in so many, at a stride that meets every function; all of them where minutes do not matter.
every = pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 13])


@every
def test_functions_of_one_argument_have_the_types_of_jax(stride: int, x64: bool) -> None:
    assert_same_types(ONE[::stride], 0.3)


@every
def test_functions_of_two_arguments_have_the_types_of_jax(stride: int, x64: bool) -> None:
    assert_same_types(TWO[:: 3 * stride], 0.15)


@every
def test_functions_of_lax_have_the_types_of_jax(stride: int, x64: bool) -> None:
    """NumPy's scalars have the dtype of its arrays, as everywhere."""
    assert_same_types(LAX[:: 1 + stride // 3], 0.08)


@every
def test_eager_functions_give_the_types_of_traced_ones(stride: int, x64: bool) -> None:
    for _, call in [*ONE[:: 5 + stride // 2], *TWO[:: 31 + 3 * stride]]:
        traced = result(call, dx)
        if traced is None:
            continue
        eager = described(evaluate(call, dx))
        assert eager == traced or {"int", "bool"} & set(dx.tree.leaves(eager)), call  # Python's, or arrays


# --- every way in and through -------------------------------------------------------------------------------

TYPES = """
m.grad(lambda x: x * x)(3.0)
m.grad(lambda x: (x * np.ones(3, 'float32')).sum())(3.0)
m.grad(lambda x: 2.0)(3.0)
m.grad(m.jit(lambda x: x * x))(3.0)
m.jit(m.grad(lambda x: x * x))(3.0)
m.value_and_grad(lambda x: x * x)(3.0)
m.grad(lambda x: x['a'] * 2)({'a': 3.0})['a']
m.grad(lambda x, y: x * y, argnums=(0, 1))(3.0, np.float32(2))
m.jvp(lambda x: x * np.ones(2), (3.0,), (1.0,))
m.vjp(lambda x: x * x, 3.0)[1](1.0)
m.linearize(lambda x: np.sin(x), 3.0)[1](1.0)
m.jacfwd(lambda x: x * x)(3.0)
m.jacrev(lambda x: x * x)(3.0)
m.hessian(lambda x: x * x * x)(3.0)
m.vmap(lambda x: x * 2)(np.ones(3))
m.vmap(lambda x, y: x + y, in_axes=(0, None))(np.ones(3, 'bfloat16'), 2.0)
m.vmap(lambda x: 2.0)(np.ones(3))
m.jit(lambda x: x)(3)
m.jit(lambda x: x)(3.0)
m.jit(lambda x: x)(3j)
m.jit(lambda: 3.0)()
m.jit(lambda x, y: x + y)(3, np.ones(2, 'int8'))
m.jit(lambda x, y: x + y)(3.0, np.ones(2, 'int8'))
m.lax.cond(True, lambda x: x, lambda x: x * 2, 3.0)
m.jit(lambda p: m.lax.cond(p, lambda x: x, lambda x: x * 2.0, 3.0))(True)
np.where(True, 1, 2.0)
np.where(np.array([True]), 1.0, np.ones(1, 'bfloat16'))
np.where(np.array([True]), np.ones(1, 'int8'), 2)
np.full((2,), 2.0)
np.full((2,), np.float32(2))
np.full_like(np.ones(2, 'int8'), 2.7)
np.ones_like(3.0)
np.zeros_like(3)
np.full_like(3, 2.0)
np.asarray(3)
np.asarray([3])
np.array([3.0, 1])
np.array(np.asarray(3.0))
np.asarray([np.asarray(3.0), np.asarray(1)])
np.array([np.int8(3), 1])
np.array([np.array(3, 'int8'), 1])
np.array([[1.5, 2], [np.array(3, 'float32'), 1]])
np.array([[1, 2], np.arange(2, dtype='int8')])
np.array([[[0.5]], [[np.ones((), 'bfloat16')]]])
np.arange(3)
np.arange(3.0)
np.arange(np.int8(3))
np.linspace(0, 1, 3)
np.linspace(0, np.ones(1, 'bfloat16'), 3)
np.geomspace(1, np.ones(1, 'bfloat16'), 3)
np.trapezoid(np.ones(3, 'int8'), np.ones(3, 'bfloat16'))
np.stack([1.0, 2.0])
np.hstack([1.0, 2])
2.5 ** np.arange(3)
2 ** np.arange(3)
np.arange(3) ** 2.5
np.asarray(2.0) ** 2
np.ones(2, 'bfloat16') ** np.arange(2)
np.ones(2, 'bfloat16') ** np.float32(2)
np.asarray(3.0).at[()].set(2.0)
np.asarray(3.0).at[()].add(2)
np.broadcast_to(np.asarray(3.0), (3,)).at[0].set(np.float32(2))
np.zeros(3, 'bfloat16').at[0].add(2.5)
np.asarray(3.0).astype('float32')
np.asarray(3.0).astype(float)
np.asarray(3.0)[None]
np.asarray(3).sum()
np.asarray(3).mean()
np.asarray(3j).real
divmod(np.asarray(3), 2)
np.clip(np.ones(2, 'bfloat16'), 0.5, 2)
np.clip(np.arange(3), 0.5, 2)
np.dot(np.asarray(3.0), 2)
np.select([True], [1], 2.0)
np.log2(np.asarray(2.0)) * np.ones(2, 'bfloat16')
np.ldexp(0.5, 2)
np.ones(3, bool) % np.ones(3, bool)
m.lax.full((2,), 2.0)
m.lax.full_like(3.0, 2)
m.lax.convert_element_type(3, float)
m.lax.clamp(0.0, 3.0, 1.0)
onp.ones(2) + np.ones(2, 'bfloat16')
np.ones(2, 'bfloat16') + onp.float64(2)
onp.float64(2) * np.ones(2, 'bfloat16')
np.ones(2, 'int8') + onp.int64(2)
m.jit(lambda x: x)(onp.ones(2))
m.jit(lambda x: x)(onp.int64(2))
m.jit(lambda: onp.float64(2))()
m.jit(lambda: onp.ones(2))()
m.jit(lambda x: x + onp.float64(2))(np.ones(2, 'bfloat16'))
m.grad(lambda x: x ** 2)(onp.float64(2))
m.grad(lambda x: (x ** 2).sum())(onp.ones(2))
m.vmap(lambda x: onp.float64(2))(onp.ones(2))
m.lax.cond(True, lambda x: x, lambda x: x, onp.float64(2))
m.lax.cond(True, lambda x: x, lambda x: x, onp.ones(2))
m.lax.cond(True, lambda: onp.ones(2), lambda: onp.ones(2))
np.where(True, onp.float64(2), onp.float64(1))
np.asarray(onp.ones(2))
np.asarray([onp.float64(1)])
np.array(onp.arange(3))
m.device_put(onp.float64(3.0))
m.lax.add(onp.float64(2), onp.float64(2))
m.lax.mul(np.ones(2), onp.sqrt(2.0)) if np.asarray(1.0).dtype == 'float32' else 0
m.eval_shape(lambda x: x * 2, onp.ones(2)).dtype
""".strip().split("\n")


@pytest.mark.parametrize("text", TYPES)
def test_types_equal_jax_s(text: str, x64: bool) -> None:
    if "np.log2" in text and jax.__version_info__ >= (0, 11):
        pytest.skip("from jax 0.11 on log2 of a weak number is weak")
    assert described(evaluate(text, dx)) == described(evaluate(text, jax))


def test_make_jaxpr_shows_weak_types(x64: bool) -> None:
    f = "64" if x64 else "32"
    jaxpr = str(dx.make_jaxpr(lambda x, y: x * y)(2.0, dnp.ones(3, "bfloat16")))
    assert f"a:f{f}[]*" in jaxpr and "bf16[3] = mul" in jaxpr


def test_weak_types_are_shown() -> None:
    assert repr(dnp.asarray(2)) == "Array(2, dtype=int32, weak_type=True)"
    assert repr(dnp.asarray(2, dtype="int32")) == "Array(2, dtype=int32)"


def test_two_to_the_power_of_an_array_is_as_strong_as_the_array() -> None:
    """JAX forgets the array's dtype where it is a known scalar, and remembers it under jit."""
    for f in (lambda n: 2**n, dx.jit(lambda n: 2**n)):
        out = f(dnp.int8(3))
        assert (out.dtype, out.weak_type, int(out)) == (np.int8, False, 8)


# --- 64 bit -------------------------------------------------------------------------------------------------

NARROWING = """
np.asarray(V)
np.array([V])
np.ones(3, 'bool') * V
V + np.ones(3, 'bool')
np.where(np.ones(3, bool), V, V)
np.zeros_like(V)
m.jit(lambda x: x)(V)
m.jit(lambda x: x['a'][0])({'a': (V,)})
m.jit(lambda: V)()
m.jit(lambda x: x + V)(True)
m.jit(lambda: np.asarray(V))()
m.vmap(lambda x: V)(np.ones(2))
m.vmap(lambda x: x, axis_size=3, in_axes=None)(V)
m.vjp(lambda x: x, V)[0]
m.jvp(lambda x: x, (V,), (V,))[1]
m.linearize(lambda x: x, V)[0]
m.lax.cond(True, lambda x: x, lambda x: x, V)
m.lax.cond(True, lambda: V, lambda: V)
m.lax.neg(V)
m.lax.add(V, V)
m.lax.select(True, V, V)
m.lax.stop_gradient(V)
m.lax.optimization_barrier(V)
m.device_put(V)
m.eval_shape(lambda x: x, V)
""".strip().split("\n")


@pytest.mark.parametrize("value", [np.float64(0.1), np.array([0.1, 0.2, 0.3]), np.complex128(1j)], ids=repr)
@pytest.mark.parametrize("text", NARROWING)
def test_numpy_values_narrow_at_every_door(text: str, value: Any, x64: bool) -> None:
    out = eval(text, {"m": dx, "np": dnp, "V": value})
    assert out.dtype == (value.dtype if x64 else {8: "float32", 16: "complex64"}[value.itemsize])


@pytest.mark.parametrize("value", [0, 0.0])
def test_gradients_of_numpy_values_narrow(value: Any, x64: bool) -> None:
    g = dx.grad(lambda x: (x * x).sum())(np.array([0.1]) + value)
    assert g.dtype == ("float64" if x64 else "float32")


F64, I64 = np.array([1.0, 2.0]), np.array([2**40, 3])
STATED = """
np.zeros(3, 'float64'); onp.zeros(3)
np.asarray(0.1, 'float64'); onp.asarray(0.1)
np.float64(0.1); onp.float64(0.1)
np.array([0.1], 'float64'); onp.array([0.1])
np.full(2, 0.1, 'float64'); onp.full(2, 0.1)
np.linspace(0, 1, 4, dtype='float64'); onp.linspace(0, 1, 4)
np.arange(0, 1, 0.3, dtype='float64'); onp.arange(0, 1, 0.3)
np.arange(2**40, 2**40 + 2, dtype='int64'); onp.arange(2**40, 2**40 + 2)
np.astype(onp.array([0.1]), 'float64'); onp.array([0.1])
m.lax.convert_element_type(onp.float64(0.1), 'float64'); onp.float64(0.1)
m.lax.convert_element_type(onp.array([0.1]), 'float64'); onp.array([0.1])
m.lax.full((2,), 0.1, 'float64'); onp.full(2, 0.1)
m.lax.full((2,), 2**40, 'int64'); onp.full(2, 2**40)
m.lax.full_like(x, 0.1); onp.full(2, 0.1)
x * 0.1; X * 0.1
0.1 ** x; 0.1 ** X
np.where(x > 1, x, 0.1); onp.where(X > 1, X, 0.1)
m.jit(lambda x: x * 0.1)(x); X * 0.1
m.grad(lambda x: (x * 0.1).sum())(x); onp.full(2, 0.1)
m.vmap(lambda x: x + 0.1)(x); X + 0.1
x.at[0].set(0.1); onp.array([0.1, 2.0])
x.at[0].add(0.1); onp.array([1.1, 2.0])
np.pad(x, 1, constant_values=0.1); onp.pad(X, 1, constant_values=0.1)
np.insert(x, 0, 0.1); onp.insert(X, 0, 0.1)
np.append(x, 0.1); onp.append(X, 0.1)
np.array([x[0], 0.1]); onp.array([1.0, 0.1])
np.select([x > 1], [x], 0.1); onp.select([X > 1], [X], 0.1)
np.sum(x, initial=0.1); onp.sum(X, initial=0.1)
np.sum(x, where=x > 1, initial=0.1); onp.sum(X, where=X > 1, initial=0.1)
np.max(i, where=i < 9, initial=-2**62); onp.int64(3)
np.min(i, where=i > 9, initial=2**62); onp.int64(2**40)
np.max(-i, where=i > 9, initial=np.asarray(-2**62, 'int64')); onp.int64(-2**40)
np.clip(i, 2**39, 2**41); onp.clip(I, 2**39, 2**41)
np.clip(x, 1.1, 1.2); onp.clip(X, 1.1, 1.2)
np.quantile(x, 0.1); onp.quantile(X, 0.1)
np.nan_to_num(x * onp.inf); onp.nan_to_num(X * onp.inf)
np.take(x, onp.array([5]), mode='fill', fill_value=0.1); onp.array([0.1])
i + 2**41; I + 2**41
i.at[0].max(2**41); onp.array([2**41, 3])
np.full_like(i, 2**41); onp.full(2, 2**41)
np.isclose(x, x + 1e-9, rtol=0, atol=1e-10); onp.array([False, False])
""".strip().split("\n")


@pytest.mark.parametrize("line", STATED)
def test_what_the_user_writes_is_honoured(line: str, x64: bool) -> None:
    """Whatever the default width, stated dtypes stay, and numbers beside them keep all of their digits."""
    ours, theirs = line.split("; ")
    names = {"m": dx, "np": dnp, "onp": np, "X": F64, "I": I64}
    names |= {"x": dnp.asarray(F64, "float64"), "i": dnp.asarray(I64, "int64")}
    out, expected = eval(ours, names), eval(theirs, names)
    assert out.dtype == expected.dtype and not out.weak_type
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-15)


@pytest.mark.parametrize("draw", ["uniform", "normal"])
def test_random_numbers_have_the_dtype_asked_for(draw: str) -> None:
    x = getattr(dx.random, draw)(dx.random.key(0), (8,), "float64")
    assert x.dtype == "float64" and (np.asarray(x) != np.asarray(x, "float32")).any()


MODES = {
    "jit": dx.jit(lambda x: x * 2.0),
    "eager": lambda x: dnp.asarray(x) * 2.0,
    "vmap of jit": lambda x: dx.vmap(dx.jit(lambda y, x: x * 2.0), (0, None))(dnp.ones(1, "int8"), x)[0],
    "grad of jit": dx.grad(dx.jit(lambda x: x * 2.0)),
    "jit of grad": dx.jit(dx.grad(lambda x: x * x)),
    "nested jit": dx.jit(lambda x: dx.jit(lambda x: x * 2.0)(x)),
    "cond": dx.jit(lambda x: dx.lax.cond(x > 0, lambda x: x * 2.0, lambda x: x, x)),
    "creation": dx.jit(lambda x: dnp.ones(()) * x),
    "constant": dx.jit(lambda x: dnp.asarray(2.0)),
}


@pytest.mark.parametrize("name", MODES)
def test_the_width_is_part_of_every_cache_key(name: str) -> None:
    f = MODES[name]
    for _ in range(2):
        assert f(3.0).dtype == "float32"
        with dx.enable_x64():
            assert f(3.0).dtype == "float64"
            with dx.enable_x64(False):
                assert f(3.0).dtype == "float32"
            assert f(3.0).dtype == "float64"


def test_threads_have_modes_of_their_own() -> None:
    f, start, found = dx.jit(lambda x: x + 1.0), threading.Barrier(4), {}

    def work(i: int) -> None:
        with dx.enable_x64(i % 2 == 1):
            start.wait()
            found[i] = {str(f(2.0).dtype) for _ in range(50)} | {
                str(dnp.asarray(1.0).dtype) for _ in range(50)
            }

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: {"float64" if i % 2 else "float32"} for i in range(4)}


OVERFLOWS = """
m.jit(lambda x: x)(BIG)
m.jit(lambda x: x + BIG)(np.int32(1))
m.vmap(lambda x, y: x + y, in_axes=(0, None))(np.arange(2), BIG)
m.grad(lambda x, n: x * (n + 0 * np.arange(1)).sum())(1.0, BIG)
np.asarray(BIG)
np.asarray([BIG])
np.asarray([[1], [BIG]])
np.full(2, BIG)
np.arange(2) + BIG
np.arange(2).at[0].set(BIG)
np.where(True, BIG, 1)
np.sum(BIG)
m.lax.add(np.arange(2), BIG)
m.lax.full((2,), BIG)
m.lax.cond(True, lambda x: x + 1, lambda x: x, BIG)
m.device_put(BIG)
""".strip().split("\n")


@pytest.mark.parametrize("text", OVERFLOWS)
def test_integers_too_large_for_the_default_width(text: str, x64: bool) -> None:
    big, dtype = (2**63, "int64") if x64 else (2**40, "int32")
    if x64 and "int32" in text:
        text = text.replace("int32", "int64")
    with pytest.raises(OverflowError) as error:
        eval(text, {"m": dx, "np": dnp, "BIG": big})
    rule, facts, fix = str(error.value).split("\n")
    assert rule == "A Python number must fit the integer dtype it takes."
    assert facts == f"  integer: {big}, dtype: {dtype} ({np.iinfo(dtype).min} to {np.iinfo(dtype).max})"
    assert fix == "Use a wider dtype (enable_x64 widens the default), or a float."


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("np.int8(300)", "integer: 300, dtype: int8 (-128 to 127)"),
        ("np.array([1, 300], 'int8')", "integer: 300, dtype: int8 (-128 to 127)"),
        ("np.uint8(-1)", "integer: -1, dtype: uint8 (0 to 255)"),
        ("np.full(2, 300, 'int8')", "integer: 300, dtype: int8 (-128 to 127)"),
        ("np.full_like(np.ones(2, 'uint8'), -1)", "integer: -1, dtype: uint8 (0 to 255)"),
        ("np.int4(9)", "integer: 9, dtype: int4 (-8 to 7)"),
        ("np.int8(300.0)", "float: 300.0, dtype: int8 (-128 to 127)"),
        ("np.int32(onp.nan)", "float: nan, dtype: int32 (-2147483648 to 2147483647)"),
        (
            "np.array([2**64], 'uint64')",
            "integer: 18446744073709551616, dtype: uint64 (0 to 18446744073709551615)",
        ),
        ("m.lax.add(np.ones(2, 'int8'), 300)", "integer: 300, dtype: int8 (-128 to 127)"),
    ],
)
def test_integers_too_large_for_a_stated_dtype(text: str, facts: str) -> None:
    with pytest.raises(OverflowError) as error:
        evaluate(text, dx)
    assert str(error.value).split("\n")[1].strip() == facts


@pytest.mark.parametrize(
    "text", ["x + 300", "x + (-1)", "300 - x", "x * -2", "np.clip(x, -1, 300)", "x.at[0].set(300)"]
)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int4"])
def test_weak_integers_wrap_as_traced_ones_do(text: str, dtype: str) -> None:
    """An operand is cast, as JAX casts it, whether or not its value is known."""
    ours, theirs = (eval(text, {"np": m.numpy, "x": m.numpy.ones(2, dtype)}) for m in (dx, jax))
    assert ours.dtype == theirs.dtype and np.asarray(ours).tolist() == np.asarray(theirs).tolist()
    traced = dx.jit(lambda x, n: x + n)(dnp.ones(2, dtype), 300)
    assert np.asarray(traced).tolist() == np.asarray(dnp.ones(2, dtype) + 300).tolist()


def test_complex_numbers_do_not_become_real_ones_unseen() -> None:
    with pytest.raises(TypeError) as error:
        dnp.float32(1j)
    assert str(error.value) == (
        "A complex number has no place among real ones.\n"
        "  number: 1j, dtype: float32\n"
        "Pass its real part, or use a complex dtype."
    )


# --- strict mode --------------------------------------------------------------------------------------------

STRICT = """
np.float32(1) + np.int32(1)
np.float32(1) + 1
np.int32(1) + 1.0
np.int8(1) + 1
np.float32(1) + 1j
np.float32(1) + True
np.int32(1) + True
np.where(True, np.float32(1), np.int32(1))
np.where(True, np.float32(1), 2)
np.concatenate([np.ones(1), np.ones(1, 'int32')])
np.array([np.float32(1), np.int32(1)])
np.array([1, 2.0])
np.mean(np.ones(3, 'int8'))
np.sin(np.int32(1))
np.int32(1) / 2
np.int32(1) / np.int32(2)
np.int32(1) == np.float32(1)
np.int32(1) < 1.0
np.zeros(3).at[0].add(np.int32(1))
np.zeros(3).at[0].set(np.int32(1))
np.zeros(3).at[0].set(1)
np.dot(np.ones(2), np.ones(2, 'int32'))
np.matmul(np.ones((2, 2)), np.ones((2, 2), 'bfloat16'))
np.einsum('i,i', np.ones(2), np.ones(2, 'bfloat16'))
np.result_type('int32', 'float32')
np.promote_types('int32', 'float32')
np.promote_types('float32', float)
np.float32(2) ** np.int32(2)
np.float32(2) ** 2
np.linspace(np.int32(0), 1.0, 3)
np.clip(np.arange(2), 0, 1.5)
np.maximum(np.ones(2), np.arange(2))
np.bitwise_and(np.uint8(1), np.int8(1))
np.average(np.ones(3), weights=np.arange(3))
np.ones(2) + onp.ones(2)
np.ones(2) * onp.int32(1)
m.jit(lambda x, y: x + y)(np.ones(2), np.arange(2))
m.vmap(lambda x, y: x + y)(np.ones(2), np.arange(2))
m.grad(lambda x: (x * 2).sum())(np.ones(2))
np.var(np.ones(3, 'bfloat16'))
np.hypot(np.ones(2), 1)
np.ldexp(np.ones(2), np.arange(2))
np.median(np.ones(3))
np.nan_to_num(np.ones(2))
m.nn.gelu(np.ones(3, 'bfloat16'))
m.random.normal(m.random.key(0), (2,), 'bfloat16')
""".strip().split("\n")


def outcome(text: str, library: Any) -> Any:
    try:
        return described(evaluate(text, library))
    except (TypePromotionError, jax.errors.JAXTypeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize("text", STRICT)
def test_strict_mode_refuses_what_jax_refuses(text: str, strict: None) -> None:
    assert outcome(text, dx) == outcome(text, jax)


def test_the_strict_error_names_both_dtypes_and_the_ways_out(strict: None) -> None:
    with pytest.raises(TypePromotionError) as error:
        dnp.float32(1) + dnp.int32(1)
    assert str(error.value) == (
        "With numpy_dtype_promotion='strict' no operand changes its dtype implicitly.\n"
        "  inputs: float32, int32\n"
        "  common dtype: float32\n"
        "Cast explicitly, as in x.astype('float32'), or set numpy_dtype_promotion='standard'."
    )
    assert float(dnp.float32(1) + 1) == 2.0 and float(dnp.float32(1) + dnp.int32(1).astype("float32")) == 2.0


STRICT_CALLS = {
    "eager": lambda x, y: x + y,
    "function": lambda x, y: dnp.add(x, y),
    "jit": dx.jit(lambda x, y: x + y),
    "grad of jit": dx.grad(dx.jit(lambda x, y: x + y)),
    "vmap of jit": dx.vmap(dx.jit(lambda x, y: x + y), axis_size=2, in_axes=None),
    "cond": dx.jit(lambda x, y: dx.lax.cond(x > 0, lambda x: x + y, lambda x: x, x)),
    "at": lambda x, y: x.at[()].set(y),
}


@pytest.mark.parametrize("name", STRICT_CALLS)
def test_the_mode_is_part_of_every_cache_key(name: str) -> None:
    f, x, y = STRICT_CALLS[name], dnp.float32(1), dnp.int32(1)
    for _ in range(2):
        f(x, y)
        with dx.numpy_dtype_promotion("strict"):
            with pytest.raises(TypePromotionError):
                f(x, y)
            with dx.numpy_dtype_promotion("standard"):
                f(x, y)


def test_strict_mode_by_config() -> None:
    dx.config.update("jax_numpy_dtype_promotion", "strict")
    try:
        with pytest.raises(TypePromotionError):
            dnp.ones(2) + dnp.arange(2)
    finally:
        dx.config.update("numpy_dtype_promotion", "standard")
    assert (
        dnp.ones(2) + dnp.arange(2)
    ).dtype == "float32" and config.state().numpy_dtype_promotion == "standard"


@pytest.mark.ci
def test_modes_by_environment() -> None:
    program = (
        "import didax as dx, didax.numpy as dnp; from didax.core.errors import TypePromotionError\n"
        "print(dnp.asarray(1.0).dtype, dx.jit(lambda x: x)(1).dtype)\n"
        "try: dnp.ones(2) + dnp.arange(2)\nexcept TypePromotionError: print('strict')"
    )
    environment = {**os.environ, "DIDAX_ENABLE_X64": "1", "DIDAX_NUMPY_DTYPE_PROMOTION": "strict"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["float64", "int64", "strict"]


# --- dtypes by name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float8_e4m3fn", "int4", "uint8", "complex64", "bool_"]
)
def test_scalar_types_are_dtypes_and_make_arrays(name: str) -> None:
    ours, theirs = getattr(dnp, name), getattr(jnp, name)
    assert ours == theirs.dtype and theirs.dtype == ours and ours == theirs.dtype.type
    assert hash(ours) == hash(theirs.dtype.type) and np.dtype(ours) == theirs.dtype
    assert described(ours(1)) == described(theirs(1)) and dnp.zeros(2, ours).dtype == theirs.dtype


def test_default_scalar_types_follow_the_mode(x64: bool) -> None:
    bits = 64 if x64 else 32
    for name, stem in (("int_", "int"), ("uint", "uint"), ("float_", "float")):
        kind = getattr(dnp, name)
        assert kind(3).dtype == dnp.zeros(2, kind).dtype == np.dtype(f"{stem}{bits}") == kind
    assert dnp.zeros(2, dnp.complex_).dtype == f"complex{2 * bits}"
    assert dnp.issubdtype(dnp.int_, dnp.integer) and dnp.isdtype(dnp.float_, "real floating")


def test_isdtype_names_its_kinds() -> None:
    with pytest.raises(ValueError) as error:
        dnp.isdtype("int8", "foo")
    rule, kind, fix = str(error.value).split("\n")
    assert rule == "isdtype takes kinds and dtypes." and kind == "  kind: 'foo'"
    assert fix.startswith("Use one of 'bool', 'signed integer', ") and fix.endswith("or a tuple of these.")


CASTS = [
    "bool",
    "int4",
    "int8",
    "uint8",
    "int32",
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float32",
    "complex64",
]


def test_can_cast_equals_jax() -> None:
    for a, b in itertools.product(CASTS, repeat=2):
        for casting in ("safe", "same_kind", "unsafe", "no"):
            assert dnp.can_cast(a, b, casting) == jnp.can_cast(a, b, casting), (a, b, casting)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 300.5, -300.5, 3e10, 1e300])
def test_floats_saturate_where_they_fill_integers(value: float, dtype: str) -> None:
    calls = [
        lambda np, lax: np.full(2, value, dtype),
        lambda np, lax: np.full_like(np.zeros(2, dtype), value),
        lambda np, lax: np.full_like(np.zeros(2), value, dtype),
        lambda np, lax: np.zeros(2, dtype).at[0].set(value),
        lambda np, lax: np.asarray(value).astype(dtype),
        lambda np, lax: lax.convert_element_type(value, dtype),
        lambda np, lax: lax.full((2,), value, dtype),
        lambda np, lax: lax.full_like(np.zeros(2, dtype), value),
    ]
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of writing floats into integers
            ours, compiled = call(dnp, dx.lax), dx.jit(functools.partial(call, dnp, dx.lax))()
            warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy's, where jax casts before it computes
            theirs = call(jnp, jax.lax)
        assert ours.dtype == compiled.dtype == theirs.dtype
        assert ours.tolist() == compiled.tolist() == theirs.tolist()


def test_floats_out_of_range_are_no_data_for_integers() -> None:
    for value in (math.inf, math.nan, 300.5):
        with pytest.raises((OverflowError, ValueError)):
            jnp.asarray(value, "int8")
        with pytest.raises(OverflowError, match=r"float: .*, dtype: int8 \(-128 to 127\)"):
            dnp.asarray(value, "int8")


def test_large_integers_become_narrow_floats() -> None:
    assert dnp.full((), 2**63, "bfloat16") == 2.0**63
