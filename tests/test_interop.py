"""Arrays in other people's libraries, and theirs here: DLPack with NumPy and torch, SciPy, scikit-learn, pandas, ...

What is proven with torch is proven with NumPy's DLPack too, as torch is not installed everywhere.
"""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.runtime.array import ConcreteArray, as_concrete
from didax.xla import dlpack

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip
NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
SHAPES = [(), (3,), (0, 2), (2, 3)]


def sample(dtype: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 5).reshape(shape).astype(dtype)


def on_host(value: np.ndarray) -> ConcreteArray:
    return ConcreteArray(as_concrete(value).aval.update(dtype=value.dtype), value)


def on_device(value: np.ndarray) -> ConcreteArray:
    x = on_host(value)
    return ConcreteArray(x.aval, None, x.device_buffer())


def address(value: Any) -> int:
    return value.__array_interface__["data"][0]


HOLDERS = pytest.mark.parametrize("hold", [on_host, on_device])

# --- DLPack -------------------------------------------------------------------------------------------------


@pytest.mark.cpu
@HOLDERS
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_takes_arrays_without_a_copy(hold: Callable[[Any], Any], dtype: str):
    for shape in SHAPES:
        value = sample(dtype, shape)
        x = hold(value)
        theirs = np.from_dlpack(x)
        np.testing.assert_array_equal(theirs, value, strict=True)
        assert not theirs.flags.writeable  # x must not change
        assert not x.size or address(theirs) == address(np.asarray(x)) == x.unsafe_buffer_pointer()


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", DTYPES + NARROW)
def test_arrays_of_numpy_are_taken_without_a_copy(dtype: str):
    for shape in SHAPES:
        value = sample(dtype, shape)
        x = dnp.from_dlpack(Producer(value))
        assert x.dtype == value.dtype and x.shape == shape
        np.testing.assert_array_equal(np.asarray(x), value)
        assert x.unsafe_buffer_pointer() == address(value)


class Producer:
    """An array of another library, which like torch has bfloat16."""

    def __init__(self, value: np.ndarray, old: bool = False):
        self.value, self.old = value, old

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and options:
            raise TypeError("a producer from before version 1 knows no options")
        return dlpack.capsule_of_host(self.value, None if self.old else options["max_version"], None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.cpu
@HOLDERS
@pytest.mark.parametrize("dtype", NARROW)
def test_dtypes_that_numpy_does_not_know_go_both_ways(hold: Callable[[Any], Any], dtype: str):
    value = sample(dtype)
    x = hold(value)
    capsule = Capsule(x.__dlpack__(max_version=(1, 0)))
    back = dnp.from_dlpack(capsule)
    assert back.dtype == value.dtype and back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(back), value)


class Capsule:
    """A producer that has one capsule to give."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.cpu
def test_libraries_from_before_version_1_are_served_and_taken():
    x = on_host(sample("float32"))
    theirs = np.from_dlpack(Capsule(x.__dlpack__()))  # type: ignore[arg-type]
    assert address(theirs) == x.unsafe_buffer_pointer()
    value = sample("float32")
    assert dnp.from_dlpack(Producer(value, old=True)).unsafe_buffer_pointer() == address(value)


@pytest.mark.cpu
def test_strided_arrays_keep_their_memory():
    value = np.arange(24, dtype="float32").reshape(4, 6)
    for view in (value.T, value[::2, 1::3], value[::-1]):
        x = dnp.from_dlpack(view)
        assert x.unsafe_buffer_pointer() == address(view)
        np.testing.assert_array_equal(np.asarray(x), view)
        np.testing.assert_array_equal(dx.jit(lambda x: x + 1)(x), view + 1)


@pytest.mark.cpu
def test_copies_on_request():
    value = sample("float32")
    x = dnp.from_dlpack(value, copy=True)
    value[:] = 7
    assert float(x[0, 1]) == 1.0
    theirs = np.from_dlpack(x, copy=True)
    assert theirs.ctypes.data != x.unsafe_buffer_pointer()
    # NumPy 2.1 lets nobody write to what it imports, not even to its own arrays.
    if np.from_dlpack(np.ones(1), copy=True).flags.writeable:
        theirs[:] = 9
        assert float(x[0, 1]) == 1.0
    assert dnp.from_dlpack(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert dnp.from_dlpack(x, copy=True).unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_a_device_can_be_asked_for():
    x = dnp.from_dlpack(sample("float32"), device=dx.devices()[0])
    assert x.committed and x.device is dx.devices()[0]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="one of this process's devices"):
        dnp.from_dlpack(sample("float32"), device="gpu7")


@pytest.mark.cpu
def test_theirs_lives_on_when_ours_is_gone():
    for hold in (on_host, on_device):
        x = hold(np.arange(70_000, dtype="float32"))
        theirs = np.from_dlpack(x)
        x.delete()
        del x
        gc.collect()
        others = [dx.jit(lambda v: v * 0 - 1)(on_device(np.ones(70_000, "float32"))) for _ in range(4)]
        np.testing.assert_array_equal(theirs, np.arange(70_000))
        assert len(others) == 4


def test_ours_lives_on_when_theirs_is_gone_and_lets_go_of_it():
    class Owner(np.ndarray):
        pass

    value = np.arange(70_000, dtype="float32").view(Owner)
    gone = weakref.ref(value)
    x: Any = dnp.from_dlpack(value)
    del value
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(dx.jit(lambda v: v + 1)(x), np.arange(70_000) + 1)
    del x
    gc.collect()
    # XLA ends a run in a thread of its own, and lets go of what it borrowed when it is called again.
    for _ in range(100):
        on_device(np.ones(70_000, "float32"))
    assert gone() is None


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_donating_an_exported_array_leaves_the_other_side_alone(dtype: str):
    double = dx.jit(lambda v: v * 2, donate_argnums=0)
    for hold in (on_host, on_device):
        x = hold((np.arange(70_000) % 100).astype(dtype))
        theirs = dlpack.view_of(Capsule(x.__dlpack__(max_version=(1, 0))))
        again = np.asarray(x)
        out = double(x)
        x.delete()
        np.testing.assert_array_equal(theirs.astype("float32"), np.arange(70_000) % 100)
        np.testing.assert_array_equal(again, theirs)
        np.testing.assert_array_equal(np.asarray(out).astype("float32")[:100], 2 * np.arange(100))


def test_donating_an_imported_array_leaves_its_owner_alone():
    value = np.arange(70_000, dtype="float32")
    dx.jit(lambda v: v * 2, donate_argnums=0)(dnp.from_dlpack(value))
    np.testing.assert_array_equal(value, np.arange(70_000))


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("misuse", "kind", "text"),
    [
        (lambda: dnp.from_dlpack(3), TypeError, "got: 3 of type int\nPass the array itself"),
        (lambda: dnp.ones(2, "int4").__dlpack__(), BufferError, "dtype: int4\nConvert it first"),
        (lambda: dnp.ones(2).__dlpack__(dl_device=(2, 0)), BufferError, "on (1, 0), wanted on (2, 0), copy=None"),
        (lambda: dnp.from_dlpack(Capsule(Unknown().__dlpack__())), BufferError, "type code 3, 32 bits, 1 lanes"),
    ],
)  # fmt: skip
def test_what_dlpack_cannot_do(misuse: Callable[[], Any], kind: type[Exception], text: str):
    with pytest.raises(kind) as error:
        misuse()
    assert text in str(error.value) and len(str(error.value).splitlines()) >= 3


class Unknown:
    """An array of opaque handles, of which there is no array of numbers."""

    def __dlpack__(self) -> Any:
        capsule = np.ones(2, "float32").__dlpack__()
        dlpack._tensor(capsule).code = 3
        return capsule


@pytest.mark.ci
def test_nothing_here_imports_jax():
    program = """if True:
        import sys, numpy as np, didax as dx, didax.numpy as dnp
        for dtype in ("float32", "bfloat16"):
            x = dx.jit(lambda v: v + 1)(dnp.ones(70_000, dtype))
            y = dnp.from_dlpack(np.ones(3))
            x.__dlpack__(max_version=(1, 0)), x.__dlpack__(), np.asarray(x), repr(x), list(y), x.copy()
        x.delete()
        assert "jax" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", program], check=True)


# --- torch --------------------------------------------------------------------------------------------------


@pytest.mark.cpu
@HOLDERS
@pytest.mark.parametrize("dtype", [d for d in DTYPES + NARROW])
def test_torch_takes_arrays_without_a_copy(hold: Callable[[Any], Any], dtype: str):
    torch = pytest.importorskip("torch")
    for shape in SHAPES:
        x = hold(sample(dtype, shape))
        theirs = torch.from_dlpack(x)
        assert str(theirs.dtype) == f"torch.{dtype}" and tuple(theirs.shape) == shape
        assert theirs.to(torch.complex128).tolist() == np.asarray(x).astype("complex128").tolist()
        assert not x.size or theirs.data_ptr() == x.unsafe_buffer_pointer()


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", DTYPES + NARROW)
def test_tensors_of_torch_are_taken_without_a_copy(dtype: str):
    torch = pytest.importorskip("torch")
    for shape in SHAPES:
        theirs = torch.tensor(sample("float32", shape).tolist()).reshape(shape).to(getattr(torch, dtype))
        for view in (theirs, theirs.T if len(shape) == 2 else theirs[..., None]):
            x = dnp.from_dlpack(view)
            assert x.dtype.name == dtype and x.shape == tuple(view.shape)
            np.testing.assert_array_equal(np.asarray(x).astype("complex64"), view.to(torch.complex64).numpy())
            assert not x.size or x.unsafe_buffer_pointer() == view.data_ptr()


def test_a_tensor_that_needs_its_gradient_says_so():
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="detach"):
        dnp.from_dlpack(torch.ones(2, requires_grad=True))


def test_torch_keeps_the_memory_of_donated_and_deleted_arrays():
    torch = pytest.importorskip("torch")
    x = on_device(np.arange(70_000, dtype="float32"))
    theirs = torch.from_dlpack(x)
    dx.jit(lambda v: v * 2, donate_argnums=0)(x)
    x.delete()
    del x
    gc.collect()
    assert theirs.tolist() == list(range(70_000))
    y = dnp.from_dlpack(theirs)
    del theirs
    gc.collect()
    np.testing.assert_array_equal(np.asarray(y), np.arange(70_000))


# --- operators beside NumPy ---------------------------------------------------------------------------------

OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">=", ">"]
NUMPY_SIDES = [np.float64(2), np.float32(2), np.int8(2), np.array([1.0, 2.0, 4.0]), np.array([1, 2, 4])]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_with_numpy_promote_by_our_rules_in_both_orders(operator: str):
    x = dnp.array([1.0, 2.0, 3.0], "float32")
    for other in NUMPY_SIDES:
        ours = dnp.asarray(other)
        for expression in (f"x {operator} y", f"y {operator} x"):
            found = eval(expression, {"x": x, "y": other})
            expected = eval(expression, {"x": x, "y": ours})
            assert isinstance(found, dx.Array) and found.aval == expected.aval
            np.testing.assert_array_equal(found, expected)


def test_integer_operators_with_numpy():
    x, n = dnp.array([1, 2, 3], "int8"), np.array([3, 1, 2])
    for expression in (
        "x & n",
        "n & x",
        "n | x",
        "n ^ x",
        "n << x",
        "n >> x",
        "divmod(n, x)[1]",
        "divmod(x, n)[0]",
    ):
        found = eval(expression, {"x": x, "n": n})
        assert isinstance(found, dx.Array) and found.dtype == "int32"
        np.testing.assert_array_equal(found, eval(expression, {"x": np.asarray(x), "n": n}))
    matrix = np.ones((3, 3))
    assert isinstance(matrix @ x, dx.Array) and isinstance(x @ matrix, dx.Array)


def test_augmented_assignment_rebinds():
    x = y = dnp.zeros(2)
    x += np.ones(2)
    assert isinstance(x, dx.Array) and x.tolist() == [1, 1] and y.tolist() == [0, 0]
    n = np.zeros(2)
    n += dnp.ones(2)
    assert isinstance(n, dx.Array) and n.dtype == "float32"
    m = np.zeros(2)
    m[...] = dnp.ones(2)
    assert m.tolist() == [1, 1]


def test_pow_with_three_arguments_is_refused_by_python():
    with pytest.raises(
        TypeError, match=r"unsupported operand type\(s\) for \*\* or pow\(\): 'Array', 'int', 'int'"
    ):
        pow(dnp.ones(2), 2, 3)  # type: ignore[misc]


def test_functions_of_numpy_give_arrays_of_numpy():
    x = dnp.ones(2)
    for out in (
        np.sin(x),
        np.add(np.ones(2), x),
        np.stack([x, x]),
        np.where(x > 0, x, 0),
    ):
        assert type(out) is np.ndarray


# --- other libraries ----------------------------------------------------------------------------------------


def test_numpy_files():
    for x in (dnp.arange(3), dnp.ones((2, 2), "float32")):
        file = io.BytesIO()
        np.save(file, x)
        file.seek(0)
        np.testing.assert_array_equal(np.load(file), np.asarray(x), strict=True)
    file = io.BytesIO()
    np.savez(file, a=dnp.arange(3))
    file.seek(0)
    assert np.load(file)["a"].tolist() == [0, 1, 2]


def test_json():
    x = dnp.array([[1.5, 2.0]])
    assert json.loads(json.dumps({"x": x.tolist(), "y": x[0, 0].item()})) == {"x": [[1.5, 2.0]], "y": 1.5}


def test_scipy_statistics_and_linear_algebra():
    linalg, stats = pytest.importorskip("scipy.linalg"), pytest.importorskip("scipy.stats")
    x, a = dnp.array([1.0, 2.0, 4.0, 8.0]), dnp.array([[2.0, 1.0], [1.0, 3.0]])
    assert stats.pearsonr(x, 2 * x + 1).statistic == pytest.approx(1, abs=1e-6)
    assert stats.ttest_1samp(x, 1.0).pvalue == pytest.approx(stats.ttest_1samp(np.asarray(x), 1.0).pvalue)
    np.testing.assert_allclose(
        linalg.solve(a, dnp.ones(2)), np.linalg.solve(np.asarray(a), np.ones(2)), rtol=1e-6
    )
    assert linalg.expm(a).dtype == "float32"


def test_scipy_minimizes_compiled_functions():
    optimize = pytest.importorskip("scipy.optimize")

    @dx.jit
    @dx.value_and_grad
    def rosenbrock(x: Any) -> Any:
        return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()

    with dx.enable_x64():
        for method in ("BFGS", "L-BFGS-B", "CG"):
            found = optimize.minimize(rosenbrock, dnp.zeros(3), jac=True, method=method)
            np.testing.assert_allclose(found.x, np.ones(3), atol=1e-3)


def test_scipy_sparse_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    x = dnp.array([[0.0, 1.0], [2.0, 0.0]])
    matrix = sparse.csr_array(np.asarray(x))
    assert sparse.csr_array((dnp.ones(2), (dnp.arange(2), dnp.arange(2)))).dtype == "float32"
    np.testing.assert_array_equal(matrix @ np.asarray(dnp.ones(2)), [1, 2])
    np.testing.assert_array_equal(sparse.coo_array(x).toarray(), np.asarray(x))


def test_scikit_learn_fits_and_predicts():
    linear = pytest.importorskip("sklearn.linear_model")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    x = dx.random.normal(dx.random.key(0), (50, 3))
    y = x @ dnp.array([1.0, -2.0, 3.0]) + 0.5
    model = linear.LinearRegression().fit(x, y)
    np.testing.assert_allclose(model.coef_, [1, -2, 3], atol=1e-4)
    np.testing.assert_allclose(model.predict(x), y, atol=1e-4)
    labels = linear.LogisticRegression().fit(x, y > 0).predict(x)
    assert (labels == np.asarray(y > 0)).mean() > 0.9
    assert preprocessing.StandardScaler().fit_transform(x).dtype == "float32"


def test_matplotlib_plots():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    x, image = dnp.linspace(0.0, 1.0, 5), dnp.arange(12.0).reshape(3, 4)
    axes = Figure().subplots(2, 3).ravel()
    (line,) = axes[0].plot(x, x**2)
    np.testing.assert_allclose(line.get_ydata(), np.asarray(x) ** 2)
    axes[1].scatter(x, x, c=x, s=x)
    assert axes[2].hist(x, bins=dnp.linspace(0.0, 1.0, 3))[0].sum() == 5
    np.testing.assert_array_equal(axes[3].imshow(image).get_array(), np.asarray(image))
    axes[4].errorbar(x, x, yerr=x / 10)
    axes[5].bar(x, x, width=x[1])
    axes[5].fill_between(x, x, x + 1)
    axes[5].axhline(x[2])
    axes[5].set_title(f"{x[1]:.2f}")
    axes[0].figure.canvas.draw()


def test_pandas_frames_keep_the_dtype():
    pandas = pytest.importorskip("pandas")
    x = dnp.array([1.0, 2.0, 3.0])
    assert pandas.Series(x).dtype == "float32" and pandas.Index(x).dtype == "float32"
    frame = pandas.DataFrame({"x": x, "n": dnp.arange(3)})
    assert list(frame.dtypes) == ["float32", "int32"] and frame["x"].sum() == 6
    matrix = pandas.DataFrame(dnp.ones((2, 3)), columns=list("abc"))
    assert set(matrix.dtypes) == {np.dtype("float32")}
    frame["y"] = x * 2
    assert frame["y"].dtype == "float32" and dnp.asarray(frame["y"].to_numpy()).dtype == "float32"
    assert isinstance(x + frame["x"].to_numpy(), dx.Array)


@pytest.mark.cpu
def test_einops_through_the_array_api():
    einops = pytest.importorskip("einops.array_api")
    x = dnp.arange(24.0).reshape(2, 3, 4)
    turned = einops.rearrange(x, "a b c -> c (a b)")
    assert isinstance(turned, dx.Array)
    np.testing.assert_array_equal(turned, np.asarray(x).reshape(6, 4).T)
    np.testing.assert_array_equal(einops.reduce(x, "a b c -> a c", "mean"), np.asarray(x).mean(1))
    assert einops.repeat(x, "a b c -> a b c d", d=2).shape == (2, 3, 4, 2)
    rows = lambda x: einops.reduce(x, "a b c -> a", "sum")
    np.testing.assert_array_equal(dx.jit(dx.vmap(rows))(x[None])[0], np.asarray(x).sum((1, 2)))
    np.testing.assert_array_equal(dx.grad(lambda x: rows(x)[1])(x)[1], np.ones((3, 4)))
    assert type(einops.asnumpy(x)) is np.ndarray
    packed, shapes = einops.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4) and einops.unpack(packed, shapes, "a * c")[1].shape == (2, 4)


def test_opt_einsum_contracts():
    opt_einsum = pytest.importorskip("opt_einsum")
    x = dnp.arange(6.0).reshape(2, 3)
    expected = np.einsum("ij,kj,kl->il", x, x, x)
    # opt_einsum has no list of libraries that Didax could join, so the call names it.
    out = opt_einsum.contract("ij,kj,kl->il", x, x, x, backend="didax.numpy")
    assert isinstance(out, dx.Array)
    np.testing.assert_allclose(out, expected)
    # Without the name it computes with NumPy, as np.einsum does.
    np.testing.assert_allclose(opt_einsum.contract("ij,kj,kl->il", x, x, x), expected)
    contract = opt_einsum.contract_expression("ij,kj->ik", (2, 3), (2, 3))
    f = lambda x: contract(x, x, backend="didax.numpy").sum()
    np.testing.assert_allclose(dx.jit(dx.grad(f))(x), 2 * np.asarray(x).sum(0)[None].repeat(2, 0))


def test_array_api_strict_takes_arrays_by_dlpack():
    strict = pytest.importorskip("array_api_strict")
    theirs = strict.from_dlpack(dnp.arange(3))
    assert theirs.shape == (3,)
    np.testing.assert_array_equal(dnp.from_dlpack(theirs), [0, 1, 2])


def test_scalars_of_ml_dtypes():
    x = dnp.array([1.0, 2.0], "bfloat16")
    assert (ml_dtypes.bfloat16(2) * x).dtype == "bfloat16" and isinstance(ml_dtypes.bfloat16(2) * x, dx.Array)


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
ENTRIES: dict[str, Callable[[dx.Array], Any]] = {
    "asarray": lambda x: dnp.asarray(MASKED),
    "asarray with a dtype": lambda x: dnp.asarray(MASKED, dtype="float64"),
    "a list": lambda x: dnp.array([MASKED, x]),
    "a list of nothing else": lambda x: dnp.array([MASKED, MASKED]),
    "masked": lambda x: dnp.asarray(np.ma.masked),
    "device_put": lambda x: dx.device_put(MASKED),
    "a function": lambda x: dnp.sin(MASKED),
    "an operation": lambda x: dx.lax.sin(MASKED),
    "jit": lambda x: dx.jit(lambda y: y)(MASKED),
    "jit, staged before": lambda x: [dx.jit(abs)(y) for y in (np.ones(2), MASKED)],
    "jit, captured": lambda x: dx.jit(lambda x: x + MASKED)(x),
    "grad": lambda x: dx.grad(dnp.sum)(MASKED),
    "vmap": lambda x: dx.vmap(dnp.sin)(MASKED),
    "scan": lambda x: dx.lax.scan(lambda c, y: (c, y), 0.0, MASKED),
    "x + y": lambda x: x + MASKED,
    "y + x": lambda x: MASKED + x,
    "y @ x": lambda x: MASKED @ x,
    "x == y": lambda x: x == MASKED,
    "values": lambda x: x.at[:].set(MASKED),
    "an index": lambda x: x[np.ma.array([0, 1], mask=[0, 1])],
    "a mask": lambda x: x[np.ma.array([True, False], mask=[0, 1])],
    "a Ref": lambda x: dx.new_ref(MASKED),
    "what a callback returns": lambda x: dx.pure_callback(
        lambda: MASKED, dx.ShapeDtypeStruct((2,), "float32")
    ),
}


@pytest.mark.parametrize("enters", ENTRIES.values(), ids=ENTRIES)
def test_masked_arrays_are_refused(enters: Callable[[dx.Array], Any]) -> None:
    """Their masks would be lost without a word."""
    text = r"^Arrays have no masks.*\n(.|\n)*got: \w+\[2?\] with 1 of \d elements masked\nPass x.filled"
    with pytest.raises(TypeError, match=text):
        enters(dnp.ones(2))


def test_other_subclasses_of_numpy_s_arrays_are_taken() -> None:
    assert dnp.asarray(np.ones(2).view(np.memmap)).tolist() == [1.0, 1.0]
    assert (dnp.ones(2) * np.ones(2).view(np.recarray)).tolist() == [1.0, 1.0]
