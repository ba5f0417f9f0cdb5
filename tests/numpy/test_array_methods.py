"""Methods and operators of arrays: what the functions do, on concrete arrays and tracers alike."""

import ast
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import value
from didax.core.errors import TracerArrayConversionError
from tests.numpy.oracle import check, sample

METHODS = [
    "x.sum()", "x.sum(axis=1)", "x.prod(0)", "x.mean()", "x.std(1)", "x.var(ddof=1)", "x.min()",
    "x.max(axis=0, keepdims=True)", "x.argmin()", "x.argmax(1)", "(x > 0).any(0)", "(x > 0).all()",
    "x.cumsum()", "x.cumprod(1)", "x.clip(0, 1)", "x.round(1)", "x.dot(x.T)", "x.conj()", "x.real", "x.imag",
    "(x * 1j).imag", "x.copy()", "x.take(np.array([0, 2]))", "x.repeat(2, 1)", "x.sort()", "x.argsort(0)",
    "x.diagonal()", "x.trace()", "x.nonzero()", "x.ravel()", "x.flatten()", "x.reshape(2, -1)",
    "x.reshape((6,))", "x.transpose()", "x.transpose(1, 0)", "x.T", "x.mT", "x.swapaxes(0, 1)",
    "x[:1].squeeze()", "x.astype('int8')", "x.astype(bool)", "x.ptp(0)", "x[0].searchsorted(0.5)",
    "x.view('int32')", "x.view('int16')", "x.view('int16').view('float32')", "x[1]", "x[:, 1:]",
    "x.at[0, 1].set(7)", "x.at[1].add(2)", "x.item(2)", "x[0].tolist()", "len(x)", "list(x)[1]", "x.shape",
    "abs(x)", "round(x, 1)", "x[0, 0].item()",
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
    """What `Array` in core/value.py declares for type checkers."""
    tree = ast.parse(inspect.getsource(value))
    (cls,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Array"]
    (block,) = [node for node in cls.body if isinstance(node, ast.If)]
    return {node.name for node in block.body if isinstance(node, ast.FunctionDef)}


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
    assert dnp.issubdtype(dnp.bfloat16, dnp.floating) and dnp.isdtype("int8", ("bool", "integral"))
    assert dnp.finfo(dnp.float32).eps == np.finfo(np.float32).eps and dnp.iinfo("int8").max == 127


def test_names_of_jax_numpy():
    """Information for whoever extends the module: the names not there yet, which should become fewer."""
    missing = sorted(name for name in dir(jnp) if not name.startswith("_") and not hasattr(dnp, name))
    assert len(missing) < 140, missing
