"""One test for each defect that was found by using the library; read what broke in the docstrings."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import subprocess
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import UnexpectedTracerError
from didax.core.jaxpr import Jaxpr
from didax.primitives.control_flow import lowering
from tests.checks import first, sampled
from tests.quickly import on_devices


def live_jaxprs() -> int:
    gc.collect()
    return sum(type(x) is Jaxpr for x in gc.get_objects())


@pytest.mark.parametrize(
    "use",
    [
        lambda f: dx.grad(lambda x: dx.jit(f)(x).sum()),
        lambda f: dx.vmap(dx.jit(f)),
        lambda f: dx.jit(dx.vmap(dx.grad(dx.jit(f)))),
    ],
    ids=["grad of jit", "vmap of jit", "jit of grad of jit"],
)
def test_programs_of_functions_that_are_gone_are_freed(use: Any):
    """A program kept alive the jaxpr it was remembered by, and the memory of result types kept every inner jaxpr."""

    def once() -> None:
        use(lambda x: dnp.sin(x) * 2)(dnp.ones(2))

    once()
    before = live_jaxprs()
    for _ in range(5):
        once()
    assert live_jaxprs() <= before  # what other tests left may be freed meanwhile


DEVICES = """
import numpy as np
import didax as dx
import didax.numpy as dnp
from tests.quickly import on_devices

first, second = dx.devices()
f, add = dx.jit(lambda x: x * 2), dx.jit(lambda x, y: x + y)
f(dnp.ones(3)), f(dnp.ones(3))
there, free = dx.device_put(dnp.ones(3), second), dnp.ones(3)
y = f(there)
assert y.device is second and f(y).device is second
assert add(free, there).device is second and add(free, free).device is first
assert dx.jit(lambda x: x + there)(free).device is second
large = dx.device_put(np.ones(100_000, np.float32), second)
assert (dnp.sin(large) + 1).device is second
assert float(dx.grad(lambda x: f(x).sum())(there)[0]) == 2.0
"""


@pytest.mark.ci
def test_programs_run_on_the_device_their_arguments_were_placed_on():
    """Programs were compiled for the first device, whatever device was asked for, and results forgot it."""
    done = subprocess.run([sys.executable, "-c", DEVICES], env=on_devices(2), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_dtypes_narrower_than_a_byte_come_back_from_the_device(name: str):
    """The packed buffer was read as if it had one byte an element: garbage from beyond its end."""
    x = np.array([1, 0, 1, 1, 0, 0, 1, 0, 1]).astype(getattr(ml_dtypes, name))
    y = np.asarray(dx.jit(lambda x: x)(x))
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize(
    "f",
    [
        lambda a: lax.reshape(a, (2, 3)),
        lambda a: lax.broadcast_in_dim(a, (2, 6), (1,)),
        lambda a: lax.slice(a, (0,), (3,)),
        lambda a: lax.rev(a, (0,)),
        lambda a: lax.bitcast_convert_type(a, "int32"),
        dx.vmap(lambda x: x),
        lambda a: dx.grad(lambda x: (x.sum(), x), has_aux=True)(a)[1],
    ],
    ids=["reshape", "broadcast", "slice", "rev", "bitcast", "vmap", "aux"],
)
def test_a_result_does_not_change_with_the_numpy_array_it_came_from(f: Any):
    """Eager rules that return views, vmap and auxiliary data gave the caller's own memory back."""
    a = np.arange(6, dtype=np.float32)
    y = f(a)
    before = np.array(y)
    a[:] = -7
    assert isinstance(y, dx.Array)
    np.testing.assert_array_equal(np.asarray(y), before)


def test_a_scalar_numpy_array_is_captured_with_the_value_it_has():
    """A rank-0 array became a literal by reference: what was traced once gave different numbers later."""
    a = np.array(1.0, np.float32)
    f = dx.jit(lambda x: lax.add(x, a))
    x = dnp.ones(3)
    f(x)
    a[...] = 5
    np.testing.assert_array_equal(np.asarray(f(x)), np.asarray(dx.jvp(f, (x,), (x,))[0]))


def test_the_attributes_of_a_callable_do_not_hide_the_methods_of_its_jitted_form():
    """`jit` copied the attributes of the function over its own methods."""

    class Model:
        def __init__(self) -> None:
            self.stage, self.trace, self._call, self.weight = 1, 2, 3, 2.0

        def __call__(self, x: Any) -> Any:
            return x * self.weight

    f: Any = dx.jit(Model())
    assert float(f(3.0)) == 6.0
    assert f.weight == 2.0
    assert len(f.trace(3.0).jaxpr.eqns) == 1


def test_a_leaked_tracer_cannot_be_returned():
    """A tracer of an ended transformation went through grad, jvp and linearize, grad returning zero for it."""
    box: list[Any] = []
    dx.jit(lambda x: (box.append(x), x)[1])(1.0)
    for leak in (dx.grad, lambda f: lambda x: dx.jvp(f, (x,), (x,)), lambda f: lambda x: dx.linearize(f, x)):
        with pytest.raises(UnexpectedTracerError, match="after the transformation"):
            leak(lambda x: box[0])(1.0)


def test_arrays_of_another_library_are_refused_by_name():
    """Their `aval` was taken for one of ours, and failed much later as an AttributeError."""

    class Foreign:
        aval = "float32[3]"

    with pytest.raises(TypeError, match="Foreign"):
        dx.jit(lambda x: x)(Foreign())


def test_zero_tangents_keep_the_weak_type_of_their_primals():
    """A symbolic zero was made strong, and so were Jacobians of Python scalars."""
    assert dx.grad(lambda x: 3.0)(1.0).weak_type
    assert dx.jvp(lambda x: (x, 3.0), (1.0,), (1.0,))[1][1].weak_type
    assert dx.jacrev(lambda x: x * 2)(1.0).weak_type
    assert dx.jacfwd(lambda x: x * 2)(1.0).weak_type
    assert not dx.grad(lambda x: 3.0)(np.float32(1)).weak_type


def test_an_array_put_on_a_device_is_donated_without_its_original():
    """device_put shared the buffer with an array that also had a host value, which then was half deleted."""
    x = dnp.asarray(np.arange(100_000, dtype=np.float32))
    dx.jit(lambda x: x + 1)(x)
    y = dx.device_put(x, dx.devices()[0])
    y.delete()
    assert float(dx.jit(lambda x: x + 1)(x)[0]) == 1.0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_what_numpy_was_given_survives_the_donation_of_the_array(dtype: str) -> None:
    """A NumPy view of a donated array keeps its numbers."""
    x = dx.jit(lambda x: x + x)(dx.numpy.ones(64, dtype))
    seen = np.asarray(x)
    before = seen.copy()
    dx.jit(lambda x: x + x, donate_argnums=0)(x).block_until_ready()
    np.testing.assert_array_equal(seen, before)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3)])
def test_systems_of_no_equations_compile(shape: tuple[int, ...]) -> None:
    """The rows of an empty matrix were gathered by a window of one row, which gather refuses."""
    a = dnp.ones(shape)
    assert dx.jit(dnp.linalg.inv)(a).shape == shape
    assert dx.jit(dnp.linalg.solve)(a, a).shape == shape
    assert dx.jit(dx.grad(lambda a: dnp.linalg.inv(a).sum()))(a).shape == shape


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 1, 3)), ((0, 3), (3,))])
def test_cross_products_broadcast(shapes: tuple[Any, Any], dtype: str) -> None:
    """The three parts are joined along the axis of the components, wherever broadcasting puts it."""
    a, b = (
        np.linspace(-1, 2, int(np.prod(s))).reshape(s).astype(dtype) ** k for k, s in enumerate(shapes, 1)
    )
    np.testing.assert_allclose(dnp.cross(a, b), np.cross(a, b), rtol=1e-6)
    np.testing.assert_allclose(dnp.cross(a, b, axisc=0), np.cross(a, b, axisc=0), rtol=1e-6)


def test_signatures_of_refused_assignments_are_those_of_the_data_model() -> None:
    """Programs that inspect `__setitem__`, as array API suites do, want key and value."""
    assert len(inspect.signature(dx.Array.__setitem__).parameters) == 3
    with pytest.raises(TypeError, match="immutable"):
        dnp.ones(2)[0] = 1  # pyright: ignore[reportIndexIssue]
    with pytest.raises(TypeError, match="immutable"):
        del dnp.ones(2)[0]


@pytest.mark.parametrize("shift", [(1, 2), 1, np.array([1, 1]), (1,)])
@pytest.mark.parametrize("axis", [0, (0, 1), (1,), (0, 0)])
def test_roll_broadcasts_shifts_and_axes(shift: Any, axis: Any) -> None:
    """Several shifts along one axis were refused, with the message of zip."""
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(dnp.roll(x, shift, axis), np.roll(x, shift, axis))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: dnp.roll(dnp.ones((2, 3)), (1, 2, 3), (0, 1)),
            r"shift: \(1, 2, 3\), axis: \(0, 1\)\nPass as many",
        ),
        (lambda: dnp.tile(dnp.ones(2), -1), r"A: float32\[2\], reps: -1\nUse 0"),
        (lambda: dnp.repeat(dnp.ones(2), -1), r"a: float32\[2\], repeats: -1\nUse 0"),
        (lambda: dnp.repeat(dnp.ones(2), np.array([1, -1], "int32")), r"repeats: int32\[2\]\nUse 0"),
        (
            lambda: dnp.repeat(dnp.ones(2), np.ones(3, "int32")),
            r"repeats: int32\[3\], elements: 2\nCheck axis",
        ),
        (lambda: dnp.finfo("int8"), "Use iinfo"),
        (lambda: dnp.iinfo("float32"), "Use finfo"),
    ],
)
def test_errors_that_were_numpys(call: Any, text: str) -> None:
    """Messages of NumPy, with its frames, reached the user."""
    with pytest.raises(ValueError, match=text) as raised:
        call()
    assert os.path.samefile(raised.traceback[-1].path, __file__)


def test_programs_with_rules_are_forgotten_with_their_function() -> None:
    """The backward rule held tracers of the forward pass, these the function: nothing was freed."""
    double = dx.custom_vjp(lambda x: 2 * x)
    double.defvjp(lambda x: (2 * x, x), lambda x, ct: (2 * ct + 0 * x,))

    def run() -> weakref.ref[Any]:
        def f(x: Any) -> Any:
            return double(x)

        assert float(dx.grad(dx.jit(f))(3.0)) == 2
        assert float(dx.vmap(dx.grad(dx.jit(f)))(dnp.ones(2))[0]) == 2
        return weakref.ref(f)

    alive = run()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit, dx.checkpoint])
@pytest.mark.parametrize("half", ["vjp", "linearize"])
def test_linear_functions_may_be_residuals(half: str, wrap: Any) -> None:
    """A forward rule that left the function of `vjp` to its backward rule failed where programs are written."""
    sin = dx.custom_vjp(dnp.sin)
    sin.defvjp(lambda x: getattr(dx, half)(dnp.sin, x), lambda f, ct: f(ct) if half == "vjp" else (f(ct),))
    f = wrap(sin)
    xs = dnp.arange(3.0)
    np.testing.assert_allclose(dx.vmap(dx.grad(f))(xs), np.cos(xs), rtol=1e-5)
    looped = dx.grad(lambda x: dx.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
    np.testing.assert_allclose(looped(1.0), np.cos(np.sin(1)) * np.cos(1), rtol=1e-5)


def test_a_linear_function_has_one_structure() -> None:
    """It could not be returned from `jit` or be carried by a loop."""
    f_vjp = dx.jit(lambda x: dx.vjp(lambda y: dnp.sin(y) * y, x)[1])(2.0)
    assert dx.tree.structure(f_vjp) == dx.tree.structure(f_vjp)
    assert dx.tree.leaves(f_vjp)
    traced: list[int] = []

    @dx.jit
    def apply(f: Any, ct: Any) -> Any:
        traced.append(1)
        return f(ct)[0]

    expected = 3 * (np.sin(2) + 2 * np.cos(2))
    for _ in range(2):
        np.testing.assert_allclose(apply(f_vjp, 3.0), expected, rtol=1e-5)
    assert len(traced) == 1
    carried, _ = dx.lax.scan(lambda f, _: (f, None), f_vjp, None, length=2)
    np.testing.assert_allclose(carried(3.0)[0], expected, rtol=1e-5)


def test_rules_leave_keyword_only_defaults_to_the_function() -> None:
    """A keyword-only parameter was refused even where it was not passed."""

    def scaled(x: Any, *, by: float = 2.0) -> Any:
        return x * by

    f = dx.custom_jvp(scaled)
    f.defjvps(lambda x_dot, ans, x: 5 * x_dot)
    assert (float(f(3.0)), float(dx.grad(f)(3.0))) == (6, 5)
    with pytest.raises(TypeError, match="keyword arguments without a position: by"):
        f(3.0, by=1.0)


def test_bodies_of_loops_that_are_gone_are_freed() -> None:
    """A jaxpr that no pass changed was remembered as its own result."""

    def once() -> None:
        dx.grad(lambda x: lax.scan(lambda c, _: (dnp.sin(c), None), x, None, length=2)[0])(1.0)

    once()
    before = live_jaxprs()
    for _ in range(3):
        once()
    assert live_jaxprs() <= before


NARROW = ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
NARROW_OPERATIONS: dict[str, Any] = {  # results hold what the narrow dtypes can hold; integers wrap
    "sum": lambda x: dnp.sum(x, axis=0, dtype=x.dtype),
    "prod": lambda x: lax.reduce_prod(x, (1,)),
    "max": lambda x: dnp.max(x, axis=1),
    "min": dnp.min,
    "argmax": lambda x: dnp.argmax(x, axis=0),
    "argmin": dnp.argmin,
    "cumsum": lambda x: lax.cumsum(x, 1),
    "cummax": lambda x: lax.cummax(x, 0, reverse=True),
    "sort": lambda x: dnp.sort(x, axis=1),
    "sort of many": lambda x: dnp.sort(dnp.tile(x, (300, 100)), axis=0)[::50, ::50],
    "argsort": lambda x: dnp.argsort(x, axis=0),
    "top_k": lambda x: lax.top_k(x, 2),
    "dot": lambda x: x[:2, :2] @ x[:2, :2],
    "concatenate": lambda x: dnp.concatenate([x, x[:1]]),
    "pad": lambda x: dnp.pad(x, 1, mode="edge"),
    "roll": lambda x: dnp.roll(x, 1, axis=1),
    "reverse": lambda x: x[::-1, 1::2],
    "gather": lambda x: x[dnp.array([2, 0])],
    "traced index": lambda x: x[dnp.argmax(x[0] > x[1])],
    "scatter": lambda x: x.at[dnp.array([1, 0])].set(x[2]),
    "scatter max": lambda x: x.at[dnp.array([1, 1])].max(x[:2]),
    "where": lambda x: dnp.where(x > x[0], x, x[0]),
    "sign": dnp.sign,
    "median": lambda x: dnp.median(x.astype("float32")),
    "unique": lambda x: dnp.unique(x, size=4),
    "searchsorted": lambda x: dnp.searchsorted(dnp.sort(x[0]), x[1]),
    "window": lambda x: lax.reduce_window(x, x.dtype.type(1), lax.max, (2, 1), (1, 1), "VALID"),
    "scan": lambda x: lax.scan(lambda c, row: (dnp.maximum(c, row), c), x[0], x),
    "sum of products": lambda x: lax.dot(x, x.T, preferred_element_type=wide_dtype(x.dtype)),
}


def wide_dtype(dtype: Any) -> Any:
    return np.dtype("int32" if dtype.name.strip("u").startswith("int") else "float32")


ODD_ONES = ("int2", "uint4", "float4_e2m1fn", "float8_e8m0fnu")  # packed, or without a sign or a zero


@pytest.mark.parametrize(
    "name",
    [*first(ODD_ONES), *(pytest.param(x, marks=pytest.mark.slow) for x in NARROW if x not in ODD_ONES)],
)
def test_operations_on_numbers_of_a_byte_or_less_are_right(name: str):
    """With 2-bit integers XLA ended the process, wrote beyond its memory, or sorted into nonsense."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    rows = [[1, 0, 1, -1], [1, 1, 0, 1], [-1, -2, 1, 0]]
    if name == "float8_e8m0fnu":
        rows = [[1, 0.5, 1, 2], [1, 1, 0.5, 1], [2, 4, 1, 0.5]]
    x = np.abs(rows).astype(dtype) if name.startswith("uint") else np.array(rows).astype(dtype)
    wide = x.astype(wide_dtype(dtype))
    without = {"cumsum", "sum", "pad"} if name == "float8_e8m0fnu" else set()  # sums that are no powers of 2
    operations = {key: f for key, f in NARROW_OPERATIONS.items() if key not in without}
    wanted = dx.jit(lambda x: {key: f(x) for key, f in operations.items()})(wide)
    for run in (lambda g: g, dx.jit):
        found = run(lambda x: {key: f(x) for key, f in operations.items()})(dnp.asarray(x))
        for key, (got, want) in {key: (found[key], wanted[key]) for key in operations}.items():
            for y, z in zip(dx.tree.leaves(got), dx.tree.leaves(want), strict=True):
                expected = np.asarray(z).astype(y.dtype) if y.dtype == dtype else np.asarray(z)
                np.testing.assert_array_equal(
                    np.asarray(y).astype(np.float32), expected.astype(np.float32), err_msg=key
                )


def test_the_bits_of_a_packed_integer_are_counted_within_it():
    """The copies of its sign in the rest of a byte were counted, too: 8 bits of 4."""
    x = np.arange(-8, 8).astype(ml_dtypes.int4)
    counts = [bin(i & 15).count("1") for i in range(-8, 8)]
    for f in (lax.population_count, dx.jit(lax.population_count)):
        np.testing.assert_array_equal(np.asarray(f(x)).astype(int), counts)


@pytest.mark.parametrize("source, target", sampled(itertools.product(NARROW, NARROW), 3))
def test_narrow_dtypes_are_cast_to_each_other(source: str, target: str):
    """ml_dtypes knows not every way between two dtypes of its own: a TypeError, eagerly only."""
    x = np.array([1, 0, 2, 1] if source != "float8_e8m0fnu" else [1, 0.5, 2, 1])
    if target in ("int2", "float8_e8m0fnu") or source == "int2":
        x = np.where(x == 2, 1, np.where(x == 0, 1, x))
    x = x.astype(getattr(ml_dtypes, source))
    for cast in (lambda x: lax.convert_element_type(x, target), dx.jit(lambda x: x.astype(target))):
        y = cast(x)
        assert y.dtype.name == target
        expected = np.trunc(x.astype(np.float32)) if "int" in target else x.astype(np.float32)
        np.testing.assert_array_equal(np.asarray(y).astype(np.float32), expected)


def test_quantiles_of_half_precision_are_found_among_thousands():
    """Positions were counted in the dtype of the data: beyond 2048 not every one is a float16."""
    x = np.random.default_rng(0).normal(size=5001).astype(np.float16)
    for f in (dnp.quantile, dx.jit(dnp.quantile)):
        for q in (0.1, 0.33, 0.5, 0.999):
            found = f(x, q)
            assert found.dtype == np.float16
            np.testing.assert_allclose(found, np.quantile(x.astype(np.float64), q), rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, ml_dtypes.bfloat16, np.int32, np.float32])
def test_stacks_of_narrow_numbers_start_finite_in_long_programs(dtype: Any, monkeypatch: pytest.MonkeyPatch):
    """A scan's stack starts as the count of names so far, which was too large for float16 after 65,504 of them."""

    def late(writer: Any, ctx: Any, avals: Any) -> Any:
        for _ in range(70_000):
            next(ctx.counter)
        return blank(writer, ctx, avals)

    blank = lowering.ScanWriter._overwritten
    monkeypatch.setattr(lowering.ScanWriter, "_overwritten", late)
    found = dx.jit(lambda xs: lax.scan(lambda h, x: (h, (h * x).astype(dtype)), 2.0, xs)[1])(np.ones(3))
    assert found.tolist() == np.full(3, 2, dtype).tolist()
