"""Methods and operators of arrays: what the functions do, on concrete arrays and tracers alike."""

import ast
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import array_methods as declarations
from didax.core.errors import TracerArrayConversionError
from didax.numpy import array_methods
from tests.numpy.oracle import check, sample

METHODS = [
    "x.sum()", "x.sum(axis=1)", "x.prod(0)", "x.mean()", "x.std(1)", "x.var(ddof=1)", "x.min()",
    "x.max(axis=0, keepdims=True)", "x.argmin()", "x.argmax(1)", "(x > 0).any(0)", "(x > 0).all()",
    "x.cumsum()", "x.cumprod(1)", "x.clip(0, 1)", "x.round(1)", "x.dot(x.T)", "x.conj()", "x.real", "x.imag",
    "(x * 1j).imag", "x.copy()", "x.take(np.array([0, 2]))", "x.repeat(2, 1)", "x.sort()", "x.argsort(0)",
    "x.diagonal()", "x.trace()", "x.nonzero()", "x.ravel()", "x.flatten()", "x.reshape(2, -1)",
    "x.reshape((6,))", "x.transpose()", "x.transpose(1, 0)", "x.T", "x.mT", "x.swapaxes(0, 1)",
    "x[:1].squeeze()", "x.astype('int8')", "x.astype(bool)", "x.ptp(0)", "x[0].searchsorted(0.5)",
    "x.view('int32')", "x.view('int16')", "x.view('int16').view('float32')",
    "x.T.view('complex64')", "(x * 1j).view('float32')", "(x * 1j).view('int16')", "x.sum().view('int32')",
    "x.view(bool)", "(x > 0).view('int8')", "x.byteswap()", "(x * 1j).byteswap().byteswap()", "x[1]", "x[:, 1:]",
    "x.at[0, 1].set(7)", "x.at[1].add(2)", "x.item(2)", "x[0].tolist()", "len(x)", "list(x)[1]", "x.shape",
    "abs(x)", "round(x, 1)", "x[0, 0].item()", "x.compress(np.array([False, True]), axis=0)",
    "(x[0] > 0).astype(int).choose([x[0], x[1]])",
]  # fmt: skip


@pytest.mark.parametrize("text", METHODS)
def test_methods(text):
    if text == "x.ptp(0)":  # jax has it as a function only
        assert dnp.asarray(sample("float32", (2, 3))).ptp(0).shape == (3,)
        return
    if "item" in text or "tolist" in text:
        x = sample("float32", (2, 3))
        assert eval(text, {"x": dnp.asarray(x)}) == eval(text, {"x": jnp.asarray(x)})
        return
    check(text, sample("float32", (2, 3)), jit=False)


def test_methods_on_tracers():
    f = lambda x: (x.T @ x).sum() + x.at[0].mul(2).max() + x[1, 2] * x.mean(0)[0]
    x = sample("float32", (2, 3))
    np.testing.assert_allclose(dx.jit(dx.grad(f))(x), jax.grad(f)(x), rtol=1e-5)
    assert dx.jit(lambda x: [row.sum() for row in x])(x)[0].shape == ()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.view("float32") ** 2,
        lambda x: abs(x.T.view("complex64")) ** 2,
        lambda x: (x * (1 + 2j)).view("float32") ** 2,
    ],
)
def test_derivatives_of_views_that_move_floats(f):
    x = sample("float32", (2, 3))
    np.testing.assert_allclose(dx.grad(lambda x: f(x).sum())(x), jax.grad(lambda x: f(x).sum())(x), rtol=1e-5)


def test_assignment_shows_the_way_out():
    x = dnp.zeros(2)
    with pytest.raises(
        TypeError, match=r"immutable.*\n  array: float32\[2\]\nWrite x = x\.at\[i\]\.set\(v\)"
    ):
        x[0] = 1


def test_containers_protocol():
    x = dnp.array([1, 2])
    assert 2 in x and 5 not in x and len(x) == 2 and [int(v) for v in x] == [1, 2]
    for call in (len, iter):
        with pytest.raises(TypeError, match=r"without axes.*\n  array: int32\[\]"):
            call(dnp.array(1))


def test_values_leave_concrete_arrays_only():
    x = dnp.array([[1.5, 2.0]])
    assert x.tobytes() == np.asarray(x).tobytes() and x.tolist() == [[1.5, 2.0]]
    with pytest.raises(TracerArrayConversionError):
        dx.jit(lambda x: x.tolist())(x)


def test_methods_raise_at_the_line_of_the_user():
    with pytest.raises(ValueError, match="squeeze removes axes of length 1") as caught:
        dnp.zeros((2, 3)).squeeze(0)
    assert not [entry for entry in caught.traceback if "/didax/" in str(entry.path)]


def declared_names() -> set[str]:
    """What `Array` in core/array_methods.py declares for type checkers."""
    tree = ast.parse(inspect.getsource(declarations))
    (cls,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}


def test_the_declarations_for_type_checkers_are_complete():
    from didax.numpy import array_methods as am

    attached = {*am.METHODS, *am.OTHERS, *am.PROPERTIES}
    attached |= {f"__{name}__" for name in (*am.BINARY, *am.COMPARISONS, *am.UNARY, *am.FUNCTIONS)}
    attached |= {f"__r{name}__" for name in (*am.BINARY, *am.FUNCTIONS)}
    concrete_and_traced = {name for name in declared_names() - attached if hasattr(dnp.zeros(1), name)}
    assert declared_names() - concrete_and_traced == attached


def test_dtypes_by_name():
    assert (
        dnp.float32 == np.float32
        and dnp.zeros(1).dtype == dnp.float32
        and dnp.bfloat16(1).dtype == dnp.bfloat16
    )
    assert {np.float32: 1}[dnp.float32] == 1 and np.dtype(dnp.int8) == np.int8
    assert dnp.result_type("int8", dnp.zeros(1, "float16")) == np.float16
    for module in (dnp, dx.dtypes):  # int == np.dtype("int64") holds, and only int is weak
        assert module.result_type("int8", np.dtype("int64")) == "int64" != module.result_type("int8", int)
    assert dnp.issubdtype(dnp.bfloat16, dnp.floating) and dnp.isdtype("int8", ("bool", "integral"))
    assert dnp.finfo(dnp.float32).eps == np.finfo(np.float32).eps and dnp.iinfo("int8").max == 127


def test_names_of_jax_numpy():
    """Information for whoever extends the module: the names not there yet, which should become fewer."""
    missing = sorted(name for name in dir(jnp) if not name.startswith("_") and not hasattr(dnp, name))
    assert len(missing) < 140, missing


PROTOCOLS_LEFT_OUT = {  # names of ndarray and jax.Array that no error explains, because Python or NumPy asks for them
    "__array_finalize__": "is for subclasses of ndarray",
    "__array_function__": "functions of NumPy take arrays through __array__ and return ndarrays, as with jax",
    "__array_interface__": "__array__ says the same and can refuse; this one cannot be asked for a copy",
    "__array_struct__": "as __array_interface__",
    "__array_ufunc__": "ufuncs of NumPy return ndarrays, as with jax; operators are ours by __array_priority__",
    "__array_wrap__": "is for subclasses of ndarray",
    "__class_getitem__": "Array has no type parameters",
    "__setstate__": "unpickling makes a new array",
    **{f"__i{name}__": "x += 1 rebinds x to x + 1" for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )},
    "__array_module__": "a proposal (NEP 37) that nothing asks for",
    "__buffer__": "of concrete arrays only",
    "__cuda_array_interface__": "DLPack says the same",
    "__del__": "Python frees the memory",
    "__dict__": "arrays have slots",
    "__hex__": "of Python 2",
    "__oct__": "of Python 2",
    "__release_buffer__": "what __buffer__ gives frees itself",
    "__numpy_dtype__": "of dtypes",
    "device_buffers": "removed from jax: addressable_shards",
    "traceback": "of jaxlib's own debugging",
    "unsafe_raw_buffer": "of jaxlib's own transfers (0.11)",
}  # fmt: skip


def test_every_name_of_ndarray_and_of_jax_is_there_or_accounted_for():
    theirs = {*dir(np.ndarray), *dir(jax.Array), *dir(type(jnp.ones(1)))}
    theirs = {name for name in theirs if name.startswith("__") or not name.startswith("_")}
    missing = theirs - set(dir(type(dnp.ones(1)))) - set(dir(dx.Array))
    assert not missing - set(PROTOCOLS_LEFT_OUT), "neither an attribute, nor listed with the reason"
    assert not set(PROTOCOLS_LEFT_OUT) & set(dir(dx.Array)), "listed as left out, and there"
    traced = [
        name for name in set(dir(type(dnp.ones(1)))) - set(dir(tracer_type())) if not name.startswith("_")
    ]
    inside = {
        "committed",
        "device_buffer",
        "forget_donated",
        "host_value",
        "own_buffer",
        "place",
        "placed",
        "rows",
        "share_with_library",
        "twin",
    }
    assert set(traced) <= inside


def tracer_type() -> type:
    found = []
    dx.jit(lambda x: found.append(type(x)) or x)(1.0)
    return found[0]


@pytest.mark.parametrize("take", [lambda x: x.item(), lambda x: x.tolist(), lambda x: x.tobytes()])
def test_numbers_of_a_traced_array_cannot_be_taken_out(take):
    with pytest.raises(dx.errors.TracerArrayConversionError) as error:
        dx.jit(lambda x: take(x))(dnp.ones(1))
    rule, *facts, fix = str(error.value).splitlines()
    assert rule == "A traced array has no numbers to take out: they are not known while tracing."
    assert (
        facts[0].startswith("  value: float32[1], traced by jit of <lambda>") and "didax.debug.print" in fix
    )


def test_what_is_left_out_names_the_way_to_the_same_end():
    x = dnp.ones(2)
    for name in (*array_methods.ABSENT, *array_methods.OF_TENSORS):
        assert not hasattr(x, name) and name not in dir(x)
        with pytest.raises(AttributeError) as error:
            getattr(x, name)
        rule, facts, fix = str(error.value).splitlines()
        assert rule.startswith(f"Arrays have no {name}") and facts == "  array: float32[2]" and "{" not in fix
        assert not [entry for entry in error.traceback if "/didax/" in str(entry.path)]
    with pytest.raises(AttributeError, match=r"x\.at\[i\]\.set"):
        dx.jit(lambda x: x.put(0, 1))(x)
    with pytest.raises(
        TypeError, match=r"cannot be deleted.*\n  array: float32\[2\]\nWrite x = didax.numpy.delete"
    ):
        del x[0]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "bfloat16"])
def test_round_without_digits_gives_integers_as_in_jax(dtype):
    for number in (np.asarray(1.5), np.asarray([0.5, 1.5, 2.5])):
        ours, theirs = round(dnp.asarray(number, dtype)), round(jax.numpy.asarray(number, dtype))
        assert ours.dtype == theirs.dtype and ours.weak_type == theirs.weak_type
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
        assert np.array_equal(np.asarray(dx.jit(round)(dnp.asarray(number, dtype))), np.asarray(theirs))
    with pytest.raises(TypeError, match="integer"):
        round(dnp.ones(2), 0.5)
