"""`didax.numpy` against the array API standard 2024.12: names, signatures, dtypes, shapes and values.

Names and signatures are those of array_api_strict. Values, shapes and dtypes are NumPy's, which implements the
standard: each expression below is evaluated in both namespaces on generated arrays, with 64-bit defaults as NumPy
has them. Special cases are in `test_array_api_special_cases.py`.
"""

import inspect
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict as standard
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import didax as dx
import didax.numpy as dnp

standard.set_array_api_strict_flags(api_version="2024.12")

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
ALL = ("bool", *NUMERIC)
BITS = ("bool", *INTEGERS)
KINDS = (
    "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
)  # fmt: skip
few = settings(max_examples=8, suppress_health_check=list(HealthCheck))


IN_PLACE = (
    "add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor",
)  # fmt: skip
ELEMENTARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2",
    "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip


# --- names and signatures -----------------------------------------------------------------------------------


def functions_of(namespace: Any) -> Iterator[tuple[str, Any]]:
    for name in namespace.__all__:
        if inspect.isfunction(getattr(namespace, name)) and "flags" not in name:
            yield name, getattr(namespace, name)


FUNCTIONS = [
    (prefix + name, function)
    for prefix, namespace in (("", standard), ("linalg.", standard.linalg), ("fft.", standard.fft))
    for name, function in functions_of(namespace)
]


@pytest.mark.parametrize(("name", "wanted"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_functions_take_the_arguments_of_the_standard(name: str, wanted: Callable[..., Any]) -> None:
    """Positional ones in their place (and of their name, unless positional only), keywords by name."""
    parameters = inspect.signature(operator.attrgetter(name)(dnp)).parameters
    by_place = list(parameters.values())
    for i, parameter in enumerate(inspect.signature(wanted).parameters.values()):
        kind = parameter.kind
        if kind is kind.KEYWORD_ONLY:
            assert parameters[parameter.name].kind in (kind.KEYWORD_ONLY, kind.POSITIONAL_OR_KEYWORD)
        elif kind is kind.POSITIONAL_ONLY:
            assert by_place[i].kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)
        elif kind is kind.POSITIONAL_OR_KEYWORD:
            assert (by_place[i].kind, by_place[i].name) == (kind, parameter.name)
        else:
            assert by_place[i].kind is kind


def test_constants_and_dtypes_exist() -> None:
    assert (dnp.e, dnp.pi, dnp.inf, dnp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(dnp.nan)
    for name in ALL:
        assert getattr(dnp, name) == np.dtype(name)
        assert np.dtype(name) == getattr(dnp, name)


def test_arrays_have_the_attributes_of_the_standard() -> None:
    """All but in-place operators, for which Python falls back to `x = x + y`."""
    x = dnp.ones((2, 2))
    wanted = {
        name for name in dir(standard.ones((2, 2))) if name.startswith("__") or not name.startswith("_")
    }
    in_place = {f"__i{name}__" for name in IN_PLACE}
    missing = {name for name in wanted - in_place if not hasattr(x, name)}
    assert missing <= {"__buffer__"}  # array_api_strict's own


def test_the_namespace_of_an_array() -> None:
    x = dnp.ones(2)
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is dnp
    assert dnp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match=r"1999\.12"):
        x.__array_namespace__(api_version="1999.12")


# --- inspection ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x64", [False, True])
def test_namespace_info(x64: bool) -> None:
    with dx.enable_x64(x64):
        info = dnp.__array_namespace_info__()
        # What a library may count on under jit, too, where no shape depends on data.
        assert info.capabilities() == {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 64,
        }
        assert info.default_device() in info.devices()
        assert info.default_dtypes(device=info.default_device()) == {
            "real floating": dnp.asarray(1.0).dtype,
            "complex floating": dnp.asarray(1j).dtype,
            "integral": dnp.asarray(1).dtype,
            "indexing": dnp.argmax(dnp.ones(2)).dtype,
        }
        assert info.dtypes() == {name: getattr(dnp, name) for name in ALL}
        for kind in (*KINDS, ("bool", "real floating")):
            assert (
                info.dtypes(kind=kind).keys() == standard.__array_namespace_info__().dtypes(kind=kind).keys()
            )


def test_namespace_info_refuses_other_devices() -> None:
    with pytest.raises(ValueError, match=r"device: 'moon'.*\n.*didax\.devices"):
        dnp.__array_namespace_info__().dtypes(device="moon")


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_finfo_holds_numbers_of_python(dtype: str) -> None:
    for argument in (dtype, getattr(dnp, dtype), dnp.ones(2, dtype=dtype)):
        info, wanted = dnp.finfo(argument), np.finfo(dtype)
        assert info.dtype == wanted.dtype
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(info, name) == getattr(wanted, name)
            assert type(getattr(info, name)) is (int if name == "bits" else float)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_iinfo_holds_numbers_of_python(dtype: str) -> None:
    for argument in (dtype, getattr(dnp, dtype), dnp.ones(2, dtype=dtype)):
        info, wanted = dnp.iinfo(argument), np.iinfo(dtype)
        assert (info.bits, info.min, info.max, info.dtype) == (
            wanted.bits,
            wanted.min,
            wanted.max,
            wanted.dtype,
        )
        assert type(info.bits) is type(info.min) is type(info.max) is int


def test_finfo_and_iinfo_refuse_each_others_dtypes() -> None:
    with pytest.raises(ValueError, match=r"finfo takes a floating-point.*\n.*int32\n.*iinfo"):
        dnp.finfo("int32")
    with pytest.raises(ValueError, match=r"iinfo takes an integer.*\n.*float32\n.*finfo"):
        dnp.iinfo("float32")


@pytest.mark.parametrize("left", ALL)
def test_promotion(left: str, x64: None) -> None:
    for right in ALL:
        try:
            promoted = standard.result_type(getattr(standard, left), getattr(standard, right))
        except TypeError:
            continue  # not defined by the standard
        name = repr(promoted).rpartition(".")[2]
        x, to = dnp.ones(2, dtype=left), getattr(dnp, right)
        assert dnp.result_type(getattr(dnp, left), to) == dnp.result_type(x, to) == name
        assert dnp.can_cast(getattr(dnp, left), to) is dnp.can_cast(x, to) is (name == right)
        assert dnp.concat([x, dnp.ones(1, dtype=right)]).dtype == name
        for kind in (*KINDS, ("integral", "bool")):
            assert dnp.isdtype(to, kind) is standard.isdtype(getattr(standard, right), kind)
    assert dnp.isdtype(None, "real floating")


# --- generated arrays ---------------------------------------------------------------------------------------

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def elements(dtype: str) -> st.SearchStrategy[Any]:
    """Small numbers, so that sums and products of them are exact enough, and mostly distinct ones."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return st.integers(0 if kind == "u" else -5, 5)
    halves = st.integers(-20, 20).map(lambda n: n / 2 or 0.0)
    return halves if kind == "f" else st.builds(complex, halves, halves)


def arrays(dtype: str, shape: Any = SHAPES) -> st.SearchStrategy[Any]:
    return hnp.arrays(dtype, shape, elements=elements(dtype))


def assert_same(ours: Any, theirs: Any, what: str) -> None:
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs), what
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, what)
        return
    assert isinstance(ours, dx.Array), f"{what}: {ours!r}"
    assert (ours.shape, ours.dtype) == (np.shape(theirs), np.asarray(theirs).dtype), what
    rtol = 0 if ours.dtype.kind in "biu" else 1e-4 if ours.dtype in (np.float32, np.complex64) else 1e-10
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol, atol=rtol, err_msg=what)


def check(expression: str, **values: Any) -> None:
    """An expression in xp and the names of values is the same in both namespaces."""
    ours_in = {
        k: dnp.asarray(v, dtype=v.dtype) if isinstance(v, np.ndarray) else v for k, v in values.items()
    }
    with np.errstate(all="ignore"):
        theirs = eval(expression, {"xp": np, **values})
    assert_same(
        eval(expression, {"xp": dnp, "operator": operator, **ours_in}), theirs, f"{expression}, {values}"
    )


UNARY = {
    **dict.fromkeys(["isfinite", "isinf", "isnan", "abs", "negative", "positive", "sign", "square"], NUMERIC),
    **dict.fromkeys(["round", "conj", "real", "imag"], FLOATS + COMPLEX),
    **dict.fromkeys(["ceil", "floor", "trunc"], REAL),
    **dict.fromkeys([*ELEMENTARY, "reciprocal"], FLOATS),
    "signbit": FLOATS,
    "logical_not": ("bool",),
    "bitwise_invert": BITS,
}  # fmt: skip


@pytest.mark.ci  # generated arrays of all dtypes
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str, x64: None) -> None:
    @few
    @given(st.data())
    def run(data: st.DataObject) -> None:
        x = data.draw(st.sampled_from(UNARY[name]).flatmap(arrays))
        if name == "sign" and x.dtype.kind == "c":
            x = np.where(x == 0, 1, x).astype(x.dtype)
        check(f"xp.{name}(x)", x=x)

    run()


def test_complex_functions_near_numpys(x64: None) -> None:
    z = (np.array([1 + 2j, -0.5 + 0.3j, 2 - 1j, -1.5 - 2j])).astype("complex128")
    for name in ELEMENTARY:
        check(f"xp.{name}(z)", z=z)
    check("xp.log2(z)", z=np.array([0j]))


BINARY = {
    **dict.fromkeys(["add", "subtract", "multiply", "equal", "not_equal"], NUMERIC),
    **dict.fromkeys(
        ["floor_divide", "remainder", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal"], REAL
    ),
    **dict.fromkeys(["atan2", "copysign", "hypot", "logaddexp", "nextafter"], FLOATS),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], ("bool",)),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor"], BITS),
    **dict.fromkeys(["bitwise_left_shift", "bitwise_right_shift"], INTEGERS),
    "divide": FLOATS + COMPLEX,
    "pow": NUMERIC,
}  # fmt: skip
OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "pow": "pow", "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor",
    "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip


def second_operand(name: str, y: Any) -> Any:
    """`y` where the function is defined for it: no division by zero, no negative shift or integer power."""
    if "divide" in name or name == "remainder":
        return np.where(y == 0, 1, y).astype(y.dtype)
    return np.asarray(np.abs(y), y.dtype) if "shift" in name or name == "pow" else y


@pytest.mark.ci  # generated arrays of all dtypes
@pytest.mark.parametrize("name", BINARY)
def test_functions_and_operators_of_two_arrays(name: str, x64: None) -> None:
    """Broadcast, with a Python scalar on either side, reflected, and in place (which rebinds the name)."""

    @few
    @given(st.data())
    def run(data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(BINARY[name]))
        shapes = data.draw(
            hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)
        ).input_shapes
        x, y = [data.draw(arrays(dtype, shape)) for shape in shapes]
        if name == "pow":
            x = np.where(x == 0, 2, x % 4 if np.dtype(dtype).kind != "c" else x).astype(dtype)
        y = second_operand(name, y)
        check(f"xp.{name}(x, y)", x=x, y=y)
        scalar = second_operand(name, data.draw(arrays(dtype, ()))).item()
        check(f"xp.{name}(x, s)", x=x, s=scalar)
        check(f"xp.{name}(s, y)", s=scalar, y=y)
        if name in OPERATORS:
            check_operators(OPERATORS[name], x, y, scalar)

    run()


def check_operators(name: str, x: Any, y: Any, scalar: Any) -> None:
    for text in (f"operator.{name}(x, y)", f"operator.{name}(x, s)", f"operator.{name}(s, y)"):
        check(text, x=x, y=y, s=scalar, operator=operator)
    in_place = "i" + name.strip("_")
    if hasattr(operator, in_place):
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))
        check(f"operator.{in_place}(x.copy(), y)", x=x, y=y, operator=operator)


EXPRESSIONS = {  # what is drawn for them: `test_functions_of_shapes`
    "ALL": """
        xp.expand_dims(x, axis=new); xp.squeeze(xp.expand_dims(x, axis=new), axis=new); xp.flip(x, axis=axes);
        xp.permute_dims(x, order); xp.reshape(x, x.shape[::-1]); xp.reshape(x, (x.size, 1), copy=True);
        xp.roll(x, shift); xp.roll(x, (shift, 1), axis=(axis, 0)); xp.roll(x, shift, axis=axis);
        xp.moveaxis(x, axis, other); xp.moveaxis(x, order, tuple(range(x.ndim))); xp.repeat(x, 2);
        xp.repeat(x, n, axis=axis);
        xp.repeat(x, counts, axis=axis); xp.unstack(x, axis=axis); xp.tile(x, (2, n)); xp.tile(x, ());
        xp.stack([x, x], axis=new); xp.concat((x, x), axis=axis); xp.concat([x, x[..., None]], axis=None);
        xp.astype(x, xp.complex128); xp.astype(x, xp.bool); xp.broadcast_to(x, (2, *x.shape));
        x.T if x.ndim == 2 else x;
        xp.nonzero(x); xp.where(mask, x, x[..., :1] * 0 if x.dtype.kind != 'b' else x); xp.take(x, index, axis=axis);
        xp.take_along_axis(x, picked, axis=axis); x[mask]; x[..., None]; x[order[0]:, ...]; xp.zeros_like(x);
        xp.ones_like(x, dtype=xp.int8); xp.full_like(x, True); xp.asarray(x, copy=True);
        xp.count_nonzero(x, axis=axes, keepdims=keep);
        xp.all(x, axis=axes, keepdims=keep); xp.any(x, axis=axes, keepdims=keep); xp.isin(x, x[:1])""",
    "NUMERIC": """
        xp.sum(x, axis=axes, keepdims=keep); xp.sum(x, axis=axes, dtype=xp.complex128);
        xp.prod(x, axis=axis, keepdims=keep);
        xp.cumulative_sum(x, axis=axis, include_initial=keep); xp.cumulative_prod(x, axis=axis, include_initial=keep);
        xp.diff(x, axis=axis); xp.diff(x, axis=axis, n=n, prepend=x, append=x); xp.tensordot(x, x, axes=0);
        xp.tensordot(x, x, axes=((axis,), (axis,))); xp.vecdot(x, x, axis=axis)""",
    "FLOATS + COMPLEX": "xp.mean(x, axis=axes, keepdims=keep)",
    "FLOATS": "xp.var(x, axis=axes, keepdims=keep); xp.var(x, correction=0.5);"
    " xp.std(x, axis=axes, correction=0, keepdims=keep)",
    "REAL": """
        xp.max(y, axis=axes, keepdims=keep); xp.min(y, axis=axes, keepdims=keep);
        xp.argmax(y, axis=axis, keepdims=keep);
        xp.argmin(y, keepdims=keep); xp.sort(x, axis=axis); xp.argsort(x, axis=axis, stable=True);
        xp.clip(x, -1 + (x.dtype.kind == 'u'), 2);
        xp.clip(x, None, x[..., :1]) if x.shape[-1] else x; xp.clip(x, min=x, max=None);
        xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), x, side='right');
        xp.searchsorted(xp.reshape(x, (-1,)), x, sorter=xp.argsort(xp.reshape(x, (-1,))))""",
}  # fmt: skip
EXPRESSION_LIST = [
    pytest.param(dtypes, text.strip(), id=text.strip())
    for dtypes, texts in EXPRESSIONS.items()
    for text in texts.split(";")
]  # fmt: skip


@pytest.mark.ci  # generated arrays of all dtypes
@pytest.mark.parametrize(("dtypes", "text"), EXPRESSION_LIST)
def test_functions_of_shapes(dtypes: str, text: str, x64: None) -> None:
    """Creation, manipulation, search, sorting, statistics."""

    @few
    @given(st.data())
    def run(data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(eval(dtypes)))
        is_never_empty = any(part in text for part in ("(y", "xp.mean", "xp.var", "xp.std"))
        shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=is_never_empty, max_side=4))
        x, ndim = data.draw(arrays(dtype, shape)), len(shape)
        axis = data.draw(st.integers(-ndim, ndim - 1))
        length = shape[axis]
        values = {
            "x": x, "y": x, "axis": axis, "other": data.draw(st.integers(-ndim, ndim - 1)),
            "new": data.draw(st.integers(-ndim - 1, ndim)), "n": data.draw(st.integers(0, 3)),
            "keep": data.draw(st.booleans()),
            "axes": data.draw(st.none() | hnp.valid_tuple_axes(ndim, min_size=1)),
            "order": tuple(data.draw(st.permutations(range(ndim)))),
            "shift": data.draw(st.integers(-100, 10**10)), "mask": data.draw(arrays("bool", shape)),
            "counts": data.draw(arrays("uint8", length)),
        }  # fmt: skip
        positions = st.integers(-length, length - 1) if length else st.nothing()
        values["index"] = data.draw(hnp.arrays("int64", (3 if length else 0,), elements=positions))
        picked = tuple([n if i != axis % ndim else 2 * bool(length) for i, n in enumerate(shape)])
        values["picked"] = data.draw(
            hnp.arrays("int64", picked, elements=positions if math.prod(picked) else None)
        )
        if "prod" in text:
            values["x"] = (x % 3 if x.dtype.kind in "iu" else x / 4).astype(dtype)
        check(text, **values)

    run()


@few
@given(st.data())
def test_indexing(data: st.DataObject) -> None:
    x = data.draw(st.sampled_from(ALL).flatmap(arrays))
    index = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True))
    assert_same(dnp.asarray(x, dtype=x.dtype)[index], x[index], f"x[{index}]")


@few
@given(st.data())
def test_sorting_downwards_is_stable(data: st.DataObject) -> None:
    x = data.draw(st.sampled_from(REAL).flatmap(arrays).filter(lambda x: x.ndim))
    axis, ours = data.draw(st.integers(-x.ndim, x.ndim - 1)), dnp.asarray(x, dtype=x.dtype)
    order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    assert_same(dnp.argsort(ours, axis=axis, descending=True), order.astype(np.int32), f"{x}, {axis}")
    assert_same(
        dnp.sort(ours, axis=axis, descending=True), np.flip(np.sort(x, axis=axis), axis), f"{x}, {axis}"
    )


def test_signed_zeros_are_equal_to_sorting_and_searching() -> None:
    x = dnp.asarray([0.0, -0.0, 0.0, -1.0])
    assert dnp.argsort(x).tolist() == [3, 0, 1, 2]
    assert dnp.argsort(x, descending=True).tolist() == [0, 1, 2, 3]
    assert dnp.unique_counts(x).counts.tolist() == [1, 3]


@few
@given(st.data())
def test_sets(data: st.DataObject) -> None:
    x = data.draw(st.sampled_from(ALL).flatmap(arrays))
    ours, theirs = dnp.unique_all(dnp.asarray(x, dtype=x.dtype)), np.unique_all(x)
    for name in ("values", "indices", "inverse_indices", "counts"):
        wanted = getattr(theirs, name)
        wanted = wanted.astype(np.int32) if name != "values" else wanted
        assert_same(getattr(ours, name), wanted, f"{name} of {x}")


def test_nans_are_distinct_in_sets() -> None:
    x = dnp.asarray([math.nan, 1.0, math.nan, -0.0, 0.0])
    found = dnp.unique_all(x)
    assert found.counts.tolist() == [2, 1, 1, 1]
    assert dnp.unique_values(x).shape == (4,)
    assert sorted(dnp.unique_inverse(x).inverse_indices.tolist()) == [0, 0, 1, 2, 3]


@few
@given(st.data())
def test_products(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    m, n, k = [data.draw(st.integers(0, 3)) for _ in range(3)]
    a, b, c, v = [data.draw(arrays(dtype, shape)) for shape in ((m, n), (n, k), (2, 1, m, n), (n,))]
    with dx.enable_x64(True):
        for text in ("a @ b", "xp.matmul(c, b)", "c @ v", "v @ v", "v @ b", "xp.matrix_transpose(c)", "c.mT",
                     "xp.vecdot(a, v)", "xp.tensordot(a, b, axes=1)"):  # fmt: skip
            check(text, a=a, b=b, c=c, v=v)


# --- creation -----------------------------------------------------------------------------------------------


@few
@given(st.data())
def test_asarray_of_nested_lists(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(ALL))
    x = data.draw(arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3)))
    assert_same(dnp.asarray(x.tolist(), dtype=getattr(dnp, dtype)), x, repr(x))
    default = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[x.dtype.kind]
    assert dnp.asarray(x.tolist()).dtype == dnp.dtype(dnp.asarray(default()).dtype)


@few
@given(st.data())
def test_casts_to_python(data: st.DataObject) -> None:
    x = data.draw(st.sampled_from(ALL).flatmap(lambda dtype: arrays(dtype, ())))
    ours, value = dnp.asarray(x, dtype=x.dtype), x.item()
    for kind in (bool, complex) if x.dtype.kind == "c" else (bool, int, float, complex):
        assert type(kind(ours)) is kind
        assert kind(ours) == kind(value)
    if x.dtype.kind in "iu":
        assert operator.index(ours) == value


@few
@given(
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.integers(-5, 5).filter(bool),
    st.sampled_from(INTEGERS[:4] + FLOATS),
)
def test_arange(start: int, stop: int, step: int, dtype: str) -> None:
    wanted = np.arange(start, stop, step)
    assert_same(dnp.arange(start, stop, step), wanted.astype(np.int32), "arange")
    assert_same(dnp.arange(start, stop, step, dtype=getattr(dnp, dtype)), wanted.astype(dtype), "arange")
    assert dnp.arange(float(start), float(stop), float(step)).dtype == dnp.asarray(1.0).dtype


@few
@given(
    st.floats(-100, 100, width=32),
    st.floats(-100, 100, width=32),
    st.integers(0, 9),
    st.sampled_from((None, *FLOATS, *COMPLEX)),
)
def test_linspace_meets_its_ends_exactly(start: float, stop: float, num: int, dtype: str | None) -> None:
    x = dnp.linspace(start, stop, num, dtype=dtype)
    assert (x.shape, x.dtype) == ((num,), dtype or dnp.asarray(1.0).dtype)
    if num > 1:
        assert x[0] == start
        assert x[-1] == stop
    half_open = dnp.linspace(start, stop, num, dtype=dtype, endpoint=False)
    assert dnp.all(half_open == dnp.linspace(start, stop, num + 1, dtype=dtype)[:-1])


@pytest.mark.parametrize("dtype", ALL)
def test_filled_arrays(dtype: str) -> None:
    device = dnp.asarray(1).device
    for shape in ((), 3, (2, 0), (2, 3)):
        options = {"dtype": getattr(dnp, dtype), "device": device}
        assert_same(dnp.zeros(shape, **options), np.zeros(shape, dtype), "zeros")
        assert_same(dnp.ones(shape, **options), np.ones(shape, dtype), "ones")
        assert_same(dnp.full(shape, True, **options), np.ones(shape, dtype), "full")
        assert_same(dnp.empty_like(dnp.zeros(shape), **options), np.zeros(shape, dtype), "empty_like")
        assert dnp.empty(shape, **options).device == device
    assert_same(dnp.eye(2, 3, k=1, dtype=dtype), np.eye(2, 3, k=1, dtype=dtype), "eye")
    assert_same(dnp.tril(dnp.ones((3, 2), dtype=dtype), k=-1), np.tril(np.ones((3, 2), dtype), -1), "tril")


@pytest.mark.parametrize("x64", [False, True])
def test_default_dtypes_follow_the_width(x64: bool) -> None:
    with dx.enable_x64(x64):
        default = dnp.__array_namespace_info__().default_dtypes()
        unsigned = np.uint64 if x64 else np.uint32
        assert dnp.sum(dnp.ones(2, dtype="int8")).dtype == default["integral"]
        assert dnp.prod(dnp.ones(2, dtype="uint8")).dtype == unsigned
        assert dnp.cumulative_sum(dnp.ones(2, dtype="int16")).dtype == default["integral"]
        assert dnp.sum(dnp.ones(2, dtype="float32")).dtype == np.float32
        assert (
            dnp.nonzero(dnp.ones(2))[0].dtype == dnp.count_nonzero(dnp.ones(2)).dtype == default["indexing"]
        )
        assert dnp.full(2, 1.0).dtype == dnp.linspace(0, 1, 3).dtype == default["real floating"]


# --- copies and devices -------------------------------------------------------------------------------------


def test_a_copy_outlives_its_original() -> None:
    for make in (lambda x: dnp.asarray(x, copy=True), lambda x: dnp.astype(x, x.dtype, copy=True)):
        x = dnp.ones(2) * 3
        y = make(x)
        x.delete()
        assert y.tolist() == [3, 3]


def test_asarray_without_a_copy() -> None:
    x = dnp.ones(2)
    assert dnp.asarray(x, copy=False) is x
    for needs_copy in (
        lambda: dnp.asarray([1, 2], copy=False),
        lambda: dnp.asarray(x, dtype="int8", copy=False),
    ):
        with pytest.raises(ValueError, match=r"copy=False takes arrays as they are"):
            needs_copy()


def test_creation_refuses_other_devices() -> None:
    with pytest.raises(ValueError, match="one of this process's devices"):
        dnp.zeros(2, device="moon")


def test_floor_divide_and_remainder_are_differentiable() -> None:
    assert dx.grad(lambda x: x % 1.0)(2.0) == 1
    assert dx.grad(lambda y: 2.5 % y)(1.0) == -2
    assert dx.grad(lambda x: x // 2.0)(3.0) == dx.grad(lambda y: 3.0 // y)(1e-30) == 0


def test_libraries_written_for_the_standard_take_arrays() -> None:
    import array_api_compat
    from einops import array_api as einops

    x = dnp.arange(6.0).reshape(2, 3)
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.array_namespace(x, x) is dnp
    assert einops.rearrange(x, "a b -> b a").tolist() == x.T.tolist()
    assert einops.reduce(x, "a b -> a", "sum").tolist() == [3, 12]
