"""Elementwise functions and operators: promotion, broadcasting, values and weak types as in jax.numpy."""

import inspect
import itertools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import config
from didax.core.errors import TypePromotionError
from didax.numpy import ufuncs
from didax.numpy.ufunc import ufunc
from didax.runtime.eager import clear_plans
from didax.scipy import special
from tests.numpy.oracle import DTYPES, assert_same, compare, sample

FUNCTIONS = {
    name: getattr(ufuncs, name)
    for name in ufuncs.__all__
    if isinstance(getattr(ufuncs, name), ufunc)
    and getattr(ufuncs, name).__name__ == name
    and hasattr(jnp, name)
}
SAMPLES = [sample(dtype).dtype for dtype in DTYPES]
UNARY = [name for name, function in FUNCTIONS.items() if function.nin == 1]
BINARY = [name for name, function in FUNCTIONS.items() if function.nin == 2]
# jax loses or keeps weakness by how each function happens to be written; here the operands alone decide.
WEAK_AS_OPERANDS = {
    "log2",
    "log10",
    "rint",
    "copysign",
    "gcd",
    "lcm",
    "heaviside",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "nextafter",
}
REFUSES_COMPLEX = {"arctan2", "deg2rad", "rad2deg"}  # as NumPy does
INT_BY_ZERO = {"floor_divide", "fmod", "remainder"}


def refused_by_jax(name, args):
    try:
        getattr(jnp, name)(*[jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in args])
    except (TypeError, ValueError, OverflowError):
        return True
    return False


def check_call(name, args, jit=False):
    complex_given = any(np.iscomplexobj(x) for x in args)
    if refused_by_jax(name, args) or (name in REFUSES_COMPLEX and complex_given):
        with pytest.raises((TypeError, OverflowError)):
            FUNCTIONS[name](*[dnp.asarray(x) if isinstance(x, np.ndarray) else x for x in args])
    else:
        compare(lambda np, *xs: getattr(np, name)(*xs), *args, weak=name not in WEAK_AS_OPERANDS, jit=jit)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand_are_those_of_jax(name):
    for x in [*[sample(dtype) for dtype in DTYPES], np.zeros((0, 2), "float32"), 2, 2.5, True, 1j]:
        check_call(name, (x,))
    corners = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], "float32")
    if name not in ("sinc", "bitwise_count", "invert"):
        check_call(name, (corners,), jit=True)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands_are_those_of_jax(name):
    for dtype in DTYPES:
        y = sample(dtype, seed=1)
        if name in INT_BY_ZERO and dtype == "bool":
            continue
        check_call(name, (sample(dtype), y))


@pytest.mark.parametrize(
    "name", ["add", "divide", "less", "maximum", "logical_and", "left_shift", "floor_divide"]
)
def test_binary_with_scalars_and_broadcasting(name):
    for dtype, scalar in itertools.product(("bool", "int8", "float32", "bfloat16"), (2, 2.0, True)):
        check_call(name, (sample(dtype), scalar))
    pairs = [
        ("int8", "uint8"), ("int32", "float32"), ("bool", "int32"), ("float16", "int32"),
        ("bfloat16", "float16"), ("float32", "complex64"), ("uint32", "int8"),
    ]  # fmt: skip
    for left, right in pairs:
        check_call(
            name,
            (sample(left, (2, 1)), sample(right, (3,), seed=2) + sample(right, (3,), seed=2).dtype.type(7)),
        )
    check_call(name, (2.0, 3))


@pytest.mark.parametrize("name", ["add", "divide", "maximum", "less"])
def test_promotion_of_every_pair_with_x64(x64, name):
    operands = [*[np.zeros(2, dtype) for dtype in (*SAMPLES, np.int64, np.float64)], 1, 1.0, 1j, True]
    for pair in itertools.product(operands, repeat=2):
        theirs = jax.eval_shape(lambda: getattr(jnp, name)(*[jnp.asarray(x) for x in pair]))
        ours = FUNCTIONS[name](*pair)
        assert ours.dtype == theirs.dtype, pair
        assert ours.weak_type == theirs.weak_type or ours.dtype == bool, pair


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "divide"])
def test_division_at_corners(name):
    infinite = 4.0 if name == "floor_divide" else np.inf  # inf // 2 is inf by the array API, NaN in jax
    x = np.array([1.0, -1.0, 0.0, infinite, 5.0, -5.0, np.nan, 7.5], "float32")
    y = np.array([0.0, 0.0, 0.0, 2.0, np.inf, 3.0, 1.0, -2.0], "float32")
    check_call(name, (x, y), jit=True)
    i = np.array([7, -7, 7, -7, -(2**31), 5], "int32")
    j = np.array([2, 2, -2, -2, -1, 3], "int32")
    check_call(name, (i, j), jit=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_divisors_of_the_smallest_integer_are_positive(compiled):
    low = np.iinfo(np.int8).min
    x, y = np.array([low, low, 6, low + 1, low], np.int8), np.array([-6, 7, low, low, 0], np.int8)
    got = (dx.jit(dnp.gcd) if compiled else dnp.gcd)(x, y)
    np.testing.assert_array_equal(got, np.gcd(x, y))


def test_divisors_take_as_many_steps_as_they_need():
    x = np.array([2**31 - 1, 832040, 12, 0], "int32")  # neighbours of Fibonacci's numbers take most
    y = np.array([1, 514229, 18, 7], "int32")
    compiled = dx.jit(dnp.gcd)
    np.testing.assert_array_equal(compiled(x, y), np.gcd(x, y))
    text = compiled.lower(x, y).as_text()
    assert (text.count("stablehlo.while"), text.count("stablehlo.remainder")) == (1, 1)


def test_integer_remainder_by_zero_is_zero_as_in_numpy():
    for x in (dnp.array([5, -5]), dnp.array([5, 250], "uint8")):
        assert dnp.remainder(x, 0).tolist() == dnp.fmod(x, 0).tolist() == [0, 0]


OPERATORS = [
    "x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x ** 2", "x < y", "x <= y", "x > y", "x >= y",
    "x == y", "x != y", "-x", "+x", "abs(x)", "divmod(x, y)",
]  # fmt: skip


@pytest.mark.parametrize("text", OPERATORS)
def test_operators(text):
    call = eval(f"lambda x, y: {text}")
    x, y = sample("float32"), sample("float32", seed=3) + 5
    ours, theirs = dnp.asarray(x), jnp.asarray(x)
    wanted = call(theirs, jnp.asarray(y))
    assert_same(call(ours, dnp.asarray(y)), wanted)
    assert_same(call(ours, y), wanted)  # a NumPy array on the right, on the left, and inside jit
    if "y" in text and "divmod" not in text:
        assert_same(call(y, ours), call(jnp.asarray(y), theirs))
        assert_same(call(ours, 2), call(theirs, 2))
        assert_same(call(2.5, ours), call(2.5, theirs))
    assert_same(dx.jit(call)(ours, dnp.asarray(y)), wanted)


def test_integer_operators():
    x, y = np.array([6, -3, 2], "int32"), np.array([3, 1, 2], "int32")
    for text in ("x & y", "x | y", "x ^ y", "x << y", "x >> y", "~x", "7 & x", "2 ** y", "1 << y", "x @ y"):
        call = eval(f"lambda x, y: {text}")
        assert_same(call(dnp.asarray(x), dnp.asarray(y)), call(jnp.asarray(x), jnp.asarray(y)))


def test_in_place_operators_bind_a_new_array():
    x = y = dnp.arange(3)
    x += 1
    assert x.tolist() == [1, 2, 3] and y.tolist() == [0, 1, 2]


def test_other_classes_get_their_turn():
    class Other:
        def __radd__(self, other):
            return "radd"

        def __rmatmul__(self, other):
            return "rmatmul"

    x = dnp.ones(2)
    assert x + Other() == "radd" and x @ Other() == "rmatmul"
    for text in ("x + [1, 2]", "x < None", "[1] * x", "x ** 'a'"):
        with pytest.raises(TypeError):
            eval(text)
    assert (x == None) is False  # noqa: E711


def test_python_integers_fit_the_dtype_or_wrap():
    assert (dnp.ones(1, "uint8") + (-1)).tolist() == [0]
    assert (dnp.ones(1, "uint8") + 300).tolist() == [45]
    assert (dnp.ones(1, "uint32") + 2**31).tolist() == [2**31 + 1]
    assert (dnp.ones(1) * 2**40).tolist() == [2.0**40]
    with pytest.raises(
        OverflowError, match=r"fit the integer dtype it takes\.\n  integer: 2147483648, dtype: int32"
    ):
        dnp.ones(1, "int32") + 2**31


def test_strict_promotion():
    with dx.numpy_dtype_promotion("strict"):
        assert (dnp.ones(2, "int8") + 1).dtype == np.int8
        with pytest.raises(TypePromotionError, match="no operand changes its dtype implicitly"):
            dnp.ones(2, "int8") + dnp.ones(2)
    assert (dnp.ones(2, "int8") + dnp.ones(2)).dtype == np.float32


ERRORS = [
    (
        lambda: dnp.add([1, 2], 1),
        TypeError,
        r"add takes arrays and scalars\.\n  argument 1: \[1, 2\] of type list\nConvert",
    ),
    (lambda: dnp.add(1, None), TypeError, r"argument 2: None of type NoneType\nPass an array"),
    (lambda: dnp.add(1), TypeError, r"add takes 2 operands\.\n  got: 1\nPass 2 arrays by position"),
    (
        lambda: dnp.zeros(2) + dnp.zeros(3),
        ValueError,
        r"shapes for broadcasting.*\n  shapes: \(2,\), \(3,\)\nAdd axes",
    ),
    (
        lambda: -dnp.zeros(2, bool),
        TypeError,
        r"negative takes .*\n  operands: bool\[2\]\nUse logical functions",
    ),
    (
        lambda: dnp.zeros(2) & 1,
        TypeError,
        r"bitwise_and takes booleans and integers\.\n  operands: float32\[2\], int32\[\]\nCast",
    ),
    (lambda: dnp.power(dnp.array([1]), -1), TypeError, r"Integers have no negative powers"),
    (lambda: dnp.sin("a"), TypeError, r"argument 1: 'a' of type str"),
    (lambda: dnp.hypot(1j, 1), TypeError, r"hypot takes real numbers"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text) as caught:
        call()
    assert not [entry for entry in caught.traceback if "/didax/" in str(entry.path)], (
        "internal frames are shown"
    )


DERIVATIVES = [
    ("hypot", (0.0, 0.0), (0.0, 0.0)), ("hypot", (3.0, 4.0), (0.6, 0.8)), ("sinc", (0.0,), (0.0,)),
    ("logaddexp", (0.0, 0.0), (0.5, 0.5)), ("logaddexp", (-np.inf, 1.0), (0.0, 1.0)),
    ("power", (0.0, 2), (0.0,)), ("remainder", (5.0, 3.0), (1.0, -1.0)), ("maximum", (1.0, 1.0), (0.5, 0.5)),
    ("clip", (2.0, 0.0, 1.0), (0.0,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "slopes"), DERIVATIVES)
def test_derivatives_are_finite_where_their_limit_is(name, args, slopes):
    found = dx.grad(getattr(dnp, name), argnums=tuple(range(len(slopes))))(*args)
    np.testing.assert_allclose([float(slope) for slope in found], slopes, atol=1e-6)


def test_second_derivatives_at_the_points_of_care():
    assert float(dx.grad(dx.grad(dnp.sinc))(0.0)) == pytest.approx(-(np.pi**2) / 3, rel=1e-5)
    assert float(dx.grad(dx.grad(lambda x: dnp.logaddexp(x, 0.0)))(0.0)) == pytest.approx(0.25)


def test_mixed_second_derivatives_of_powers_whose_exponent_is_0_or_1():
    """The derivative by the base, y x ** (y - 1), is 0 at y = 0, and has the derivative 1 / x by y."""
    x, y = dnp.array([3.0, -2.0, 0.0, 0.0, 1e-40]), dnp.array([0.0, 1.0, 1.0, 0.0, 0.0])
    for f in (dx.grad(dnp.power), dx.jit(dx.grad(dnp.power))):
        assert float(dx.grad(f, argnums=1)(3.0, 0.0)) == pytest.approx(1 / 3)
        assert dx.vmap(f)(x, y).tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert dx.vmap(dx.grad(dnp.power, argnums=1))(x[2:], y[2:])[:2].tolist() == [0.0, 0.0]


def test_derivatives_of_sinc_keep_their_digits_near_0():
    x = np.array([1e-30, 1e-3, 0.2, 0.4, 2.5], "float32")
    for f in (dx.vmap(dx.grad(dnp.sinc)), dx.jit(dx.vmap(dx.grad(dnp.sinc)))):
        y = np.pi * x.astype("float64")
        wanted = np.where(y < 1e-2, -np.pi * y / 3, np.pi * (np.cos(y) / y - np.sin(y) / y**2))
        np.testing.assert_allclose(f(x), wanted, rtol=1e-5)


def test_the_fraction_has_slope_1_at_integers_too():
    x = dnp.array([-2.0, -0.5, -0.0, 0.0, 3.0])
    parts, (slopes, flat) = dx.jvp(dnp.modf, (x,), (dnp.ones(5),))
    assert slopes.tolist() == [1.0] * 5 and flat.tolist() == [0.0] * 5
    np.testing.assert_array_equal(np.signbit(np.stack(parts)), [[1, 1, 1, 0, 0]] * 2)


def test_ufuncs_compose_with_transformations():
    x = sample("float32", (3,))
    for name in ("sin", "hypot", "logaddexp", "floor_divide"):
        call = lambda np, v: getattr(np, name)(*[v, v + 2][: FUNCTIONS[name].nin])
        assert_same(dx.vmap(lambda v: call(dnp, v))(dnp.asarray(x)), jax.vmap(lambda v: call(jnp, v))(x))
        ours = dx.grad(lambda v: call(dnp, v).sum())(dnp.asarray(x))
        np.testing.assert_allclose(ours, jax.grad(lambda v: call(jnp, v).sum())(x), rtol=1e-4, atol=1e-6)


@pytest.mark.cpu
def test_an_eager_operator_is_a_dozen_python_calls(monkeypatch):
    """What keeps `x + x` cheap, counted instead of timed: no context manager, no closure, no loop over rules."""
    monkeypatch.setattr(config, "operations_were_watched", False)  # as where nobody has looked for NaNs yet
    x = dnp.ones(3)
    called: list[str] = []

    def count(frame, event, _):
        if event == "call" and "didax" in frame.f_code.co_filename:  # not the garbage collector's callbacks
            called.append(frame.f_code.co_name)

    with config.override(check=False):
        clear_plans()  # those made under checks look at each result
        x + x  # the plan of the operation is made once
        sys.setprofile(count)
        try:
            x + x
        finally:
            sys.setprofile(None)
    assert len(called) <= 12, called


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_complex_logaddexp_is_the_principal_value(evaluate: Any) -> None:
    inf = np.inf
    x = np.complex64([1 + 2j, 3 + 100j, complex(-inf, 1), complex(inf, 1), 0, 1e3, -inf])
    y = np.complex64([1 - 2j, 3 + 1j, -inf, complex(inf, 1), complex(-30, 3), 1e3 + 1j, 2 + 1j])
    wide = np.exp(x[:2].astype(complex)) + np.exp(y[:2].astype(complex))
    found = np.asarray(evaluate(dnp.logaddexp)(x, y))
    np.testing.assert_allclose(found[:2], np.log(wide), rtol=1e-5)
    np.testing.assert_allclose(found[[4, 5, 6]], [np.exp(-30 + 3j), 1000.5626 + 0.5j, 2 + 1j], rtol=1e-3)
    np.testing.assert_array_equal(found[2:4].real, [-inf, inf])
    found = np.asarray(evaluate(dnp.logaddexp2)(x[:2], y[:2]))
    wide = np.exp2(x[:2].astype(complex)) + np.exp2(y[:2].astype(complex))
    np.testing.assert_allclose(found, np.log2(wide), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_complex_extrema_are_those_of_numpy(name: str, evaluate: Any) -> None:
    """In lexicographic order; a number of which one part is NaN is not a number."""
    parts = [0.0, -0.0, 1.0, np.inf, np.nan]
    numbers = np.array([complex(x, y) for x in parts for y in parts], np.complex64)
    x, y = (z.ravel() for z in np.meshgrid(numbers, numbers))
    found = np.asarray(evaluate(getattr(dnp, name))(x, y))
    np.testing.assert_array_equal(found, getattr(np, name)(x, y))


def test_integer_scalars_of_numpy_are_static_exponents() -> None:
    """As in JAX, the result has the dtype of the base."""
    for exponent in (np.int64(3), np.int8(3), 3):
        for dtype in ("uint8", "int16", "bool", "float32"):
            x = np.ones(2, dtype)
            found = dx.eval_shape(lambda x, y=exponent: (dnp.power(x, y), x**y), x)
            wanted = jax.eval_shape(lambda x, y=exponent: (jnp.power(x, y), x**y), x)
            assert [y.dtype for y in found] == [y.dtype for y in wanted], (dtype, exponent)
    with pytest.raises(TypeError):
        dnp.power(dnp.arange(3), np.int64(-1))


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_powers_of_integers_wrap_and_negative_ones_are_truncated(evaluate: Any) -> None:
    """1 / 3 rounded towards zero is 0; its remainder modulo 2**32, which times 3 is 1, would be -1431655765."""
    x, y = np.int8([3, -3, 2, 1, -1, -1, 0, 3, -128]), np.int8([-1, -2, -1, -5, -3, -2, -1, 5, 127])
    assert evaluate(dnp.power)(x, y).tolist() == [0, 0, 0, 1, -1, 1, 0, -13, 0]
    assert evaluate(lambda x: 3**x)(dnp.array([-1, 2, 21])).tolist() == [0, 9, 1870418611]


def test_ldexp_scales_beyond_the_powers_that_are_numbers() -> None:
    numbers = np.float32([0, -0.0, 1, 3, 1e-30, -1e30, np.inf, -np.inf, np.nan])
    exponents = np.array([-(2**31), -1000, -200, -126, -1, 0, 5, 128, 200, 1000, 2**31 - 1], np.int32)
    x, e = (z.ravel() for z in np.meshgrid(numbers, exponents))
    with np.errstate(all="ignore"):
        wanted = np.ldexp(x, e)
        small = [np.ldexp(numbers[:4], 200), np.ldexp(np.float16([6e-8]), 30)]
    for f in (dnp.ldexp, dx.jit(dnp.ldexp)):
        np.testing.assert_array_equal(f(x, e), wanted)
    np.testing.assert_array_equal(dnp.ldexp(numbers[:4], np.uint8(200)), small[0])
    np.testing.assert_array_equal(dnp.ldexp(np.float16([6e-8]), 30), small[1])
    assert float(dx.grad(dnp.ldexp)(np.float32(1e-30), 100)) == 2.0**100


def test_logaddexp2_of_the_largest_number() -> None:
    for dtype in ("bfloat16", "float16", "float32"):
        most = dnp.array([float(dnp.finfo(dtype).max), 0.0], dtype)
        for f in (dnp.logaddexp2, dx.jit(dnp.logaddexp2)):
            assert f(most, most[::-1]).tolist() == [float(most[0])] * 2


def test_operands_by_the_names_that_they_have_in_jax() -> None:
    """JAX takes the operands of these by name, and those of the others by position only."""
    for ours, theirs in ((dnp, jnp), (special, jax.scipy.special)):
        for name, function in vars(ours).items():
            if name.startswith("_") or not isinstance(function, ufunc) or not hasattr(theirs, name):
                continue
            parameters = inspect.signature(getattr(theirs, name)).parameters.values()
            named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "out"]
            assert function.names == named or name == "zeta", name
    x = np.float32([0.25, 0.5])
    assert special.betainc(1.0, x=x, b=2.0).tolist() == special.betainc(1.0, 2.0, x).tolist()
    assert dnp.fmax(x1=x, x2=0.3, out=None).tolist() == dnp.fmax(x, 0.3).tolist()
    with pytest.raises(TypeError, match="fmax takes no keywords but x1, x2, out=None and where=None"):
        dnp.fmax(x, x1=x)
    with pytest.raises(TypeError, match="fmax takes 2 operands"):
        dnp.fmax(x2=x)


def test_an_array_to_write_to_is_refused() -> None:
    x = np.eye(2, dtype="float32")
    calls = {
        "trace": (x,), "outer": (x, x), "einsum": ("ij->i", x), "stack": ([x, x],), "take": (x, 0),
        "choose": ([0, 1], x), "compress": ([True, False], x), "round": (x,), "modf": (x,),
    }  # fmt: skip
    for name, args in calls.items():
        with pytest.raises(NotImplementedError, match=f"{name} cannot write into an array"):
            getattr(dnp, name)(*args, out=x)
    for name in ("sort", "argsort"):
        with pytest.raises(TypeError, match=f"{name} compares numbers, which have no fields"):
            getattr(dnp, name)(x, order="f")
    assert dnp.round(x, 1, None).shape == (2, 2)
    assert dnp.issubdtype(arg1="float32", arg2=np.floating)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_divmod_of_integers_divides_once(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array(
        [info.min, info.min + 1, info.max, 0, 1, 2, 3, 7, *([-1, -2, -7] if info.min else [])], dtype
    )
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    program = dx.jit(dnp.divmod)
    text = program.lower(x, y).as_text()
    assert text.count("stablehlo.divide") == 1 and "stablehlo.remainder" not in text
    quotient, rest = map(np.asarray, program(x, y))
    assert quotient.dtype == rest.dtype == dtype
    with np.errstate(all="ignore"):
        wanted = np.divmod(x, y)
    np.testing.assert_array_equal(rest, wanted[1])
    np.testing.assert_array_equal(quotient[y != 0], wanted[0][y != 0])
    broadcast = dnp.divmod(np.stack([x, x]), y)
    np.testing.assert_array_equal(broadcast, [[quotient] * 2, [rest] * 2])
