"""vmap: in_axes and out_axes as prefixes, keywords, names, sizes, nesting with the other transformations."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import RuleTypeError


@pytest.fixture
def xs():
    return dnp.arange(6.0).reshape(2, 3)


def test_is_a_loop(xs):
    f = lambda x: dnp.sin(x).sum() * x
    np.testing.assert_allclose(dx.vmap(f)(xs), np.stack([f(x) for x in xs]), rtol=1e-6)


@pytest.mark.parametrize(
    "in_axes, shape", [(0, (2, 3)), (1, (3, 2)), (-1, (3, 2)), ((0,), (2, 3)), ([1], (3, 2))]
)
def test_in_axes_of_one_argument(in_axes, shape, xs):
    y = dx.vmap(lambda x: x, in_axes)(xs)
    assert y.shape == shape
    np.testing.assert_array_equal(y, xs if shape == (2, 3) else np.asarray(xs).T)


def test_unmapped_arguments_are_passed_whole(xs):
    y = dx.vmap(lambda x, w: x @ w, (0, None))(xs, dnp.ones((3, 4)))
    assert y.shape == (2, 4)
    y = dx.vmap(lambda x, w: x @ w, (None, 1))(xs, dnp.ones((3, 4)))
    assert y.shape == (4, 2)


def test_in_axes_are_prefixes_of_pytrees(xs):
    def f(tree, y):
        a, (b, c) = tree["a"], tree["b"]
        assert (a.shape, b.shape, c.shape, y.shape) == ((3,), (2,), (2, 3), ())
        return a.sum() + b.sum() + c.sum() + y

    tree = {"a": xs, "b": (dnp.ones((2, 2)), xs)}
    found = dx.vmap(f, ({"a": 0, "b": (1, None)}, 0))(tree, dnp.zeros(2))
    np.testing.assert_array_equal(found, [3 + 2 + 15, 12 + 2 + 15])


def test_none_leaves_in_arguments(xs):
    found = dx.vmap(lambda tree: tree["x"] if tree["none"] is None else 0.0, ({"x": 0, "none": None},))(
        {"x": xs, "none": None}
    )
    np.testing.assert_array_equal(found, xs)


def test_keyword_arguments_are_mapped_over_axis_0(xs):
    found = dx.vmap(lambda x, *, scale: x * scale, in_axes=1)(xs.T, scale=dnp.array([1.0, 10.0]))
    np.testing.assert_array_equal(found, [[0, 1, 2], [30, 40, 50]])
    found = dx.vmap(lambda x, scale: x * scale, in_axes=(None,))(2.0, scale=dnp.arange(3.0))
    np.testing.assert_array_equal(found, [0, 2, 4])


def test_in_axes_by_name(xs):
    def f(x, y, *, scale=1.0):
        return x * scale + y.sum()

    found = dx.vmap(f, in_axes={"x": 1, "y": None})(xs, dnp.ones(2), scale=dnp.arange(3.0))
    np.testing.assert_array_equal(found, [[2, 2], [3, 6], [6, 12]])
    found = dx.vmap(f, in_axes={"scale": None, "y": 1})(x=dnp.arange(3.0), y=xs, scale=2.0)
    np.testing.assert_array_equal(found, [3, 7, 11])


@pytest.mark.parametrize(
    "out_axes, shape", [(0, (2, 3, 4)), (1, (3, 2, 4)), (2, (3, 4, 2)), (-1, (3, 4, 2)), (-3, (2, 3, 4))]
)
def test_out_axes(out_axes, shape):
    y = dx.vmap(lambda x: x + dnp.zeros((3, 4)), out_axes=out_axes)(dnp.arange(2.0))
    assert y.shape == shape
    np.testing.assert_array_equal(np.moveaxis(np.asarray(y), out_axes, 0)[1], np.ones((3, 4)))


def test_out_axes_are_prefixes_of_the_result(xs):
    f = lambda x: {"a": x, "b": (x, x.sum()), "c": 1.0}
    found = dx.vmap(f, out_axes={"a": 1, "b": (0, 0), "c": None})(xs)
    assert found["a"].shape == (3, 2)
    assert found["b"][0].shape == (2, 3) and found["b"][1].shape == (2,)
    assert float(found["c"]) == 1.0
    found = dx.vmap(f, out_axes={"a": -1, "b": 0, "c": 0})(xs)
    np.testing.assert_array_equal(found["c"], [1, 1])


def test_out_axes_none_for_what_does_not_depend_on_the_batch(xs):
    y, w = dx.vmap(lambda x, w: (x * w, w * 2), (0, None), out_axes=(0, None))(xs, 3.0)
    assert y.shape == (2, 3) and float(w) == 6.0


def test_axis_size_where_no_argument_is_mapped():
    np.testing.assert_array_equal(dx.vmap(lambda: 3.0, axis_size=2)(), [3, 3])
    assert dx.vmap(lambda x: x, in_axes=None, axis_size=4)(dnp.ones(3)).shape == (4, 3)
    assert dx.vmap(lambda x: x, axis_size=2)(dnp.ones((2, 3))).shape == (2, 3)


def test_an_empty_batch():
    y = dx.vmap(lambda x: dnp.sin(x).sum() * 2)(dnp.zeros((0, 3)))
    assert y.shape == (0,) and y.dtype == np.float32


def test_nested(xs):
    outer = dx.vmap(lambda x: dx.vmap(lambda y: x * y)(dnp.arange(4.0)))(xs[:, 0])
    np.testing.assert_array_equal(outer, np.outer([0, 3], np.arange(4)))
    pairs = dx.vmap(dx.vmap(lambda a, b: (a, b), (0, None)), (None, 0))(dnp.arange(2.0), dnp.arange(3.0))
    assert pairs[0].shape == pairs[1].shape == (3, 2)
    np.testing.assert_array_equal(pairs[1], [[0, 0], [1, 1], [2, 2]])


def test_with_the_other_transformations(xs):
    f = lambda x: (dnp.sin(x) * x).sum()
    per_example = dx.vmap(dx.grad(f))(xs)
    np.testing.assert_allclose(per_example, np.cos(xs) * xs + np.sin(xs), rtol=1e-6)
    np.testing.assert_allclose(dx.jit(dx.vmap(dx.grad(f)))(xs), per_example, rtol=1e-6)
    np.testing.assert_allclose(dx.vmap(dx.jit(dx.grad(f)))(xs), per_example, rtol=1e-6)
    np.testing.assert_allclose(dx.grad(lambda xs: dx.vmap(f)(xs).sum())(xs), per_example, rtol=1e-6)
    _, dots = dx.vmap(lambda x, t: dx.jvp(f, (x,), (t,)))(xs, dnp.ones((2, 3)))
    np.testing.assert_allclose(dots, np.asarray(per_example).sum(1), rtol=1e-5)


def test_jit_with_closures_over_batched_values(xs):
    found = dx.vmap(lambda x: dx.jit(lambda: x * 2)())(xs)
    np.testing.assert_array_equal(found, 2 * np.asarray(xs))


def test_integer_and_bool_batches():
    i, b = dx.vmap(lambda i: (i + 1, i > 1))(dnp.arange(3))
    np.testing.assert_array_equal(i, [1, 2, 3])
    assert i.dtype == np.int32 and b.dtype == bool


def test_results_that_are_not_batched_are_repeated():
    assert dx.vmap(lambda x: dnp.ones(2))(dnp.zeros(3)).shape == (3, 2)


def test_matmul_over_axes_of_every_position():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 4)).astype("f4"), rng.normal(size=(4, 2, 5)).astype("f4")
    found = dx.vmap(lambda a, b: a @ b, (0, 1), out_axes=2)(a, b)
    np.testing.assert_allclose(found, np.einsum("bij,jbk->ikb", a, b), rtol=1e-5)


# --- Named axes ---------------------------------------------------------------------------------------------


def test_collectives_reduce_over_a_named_axis(xs):
    from didax import lax

    f = lambda x: (
        lax.psum(x, "i"),
        lax.pmean(x, "i"),
        lax.pmax(x, "i"),
        lax.pmin(x, "i"),
        lax.axis_index("i"),
    )
    total, mean, top, low, index = dx.vmap(f, axis_name="i")(xs)
    data = np.asarray(xs)
    for found, wanted in [(total, data.sum(0)), (mean, data.mean(0)), (top, data.max(0)), (low, data.min(0))]:
        np.testing.assert_allclose(found, np.stack([wanted] * 2))
    np.testing.assert_array_equal(index, [0, 1])


def test_collectives_under_jit_and_grad(xs):
    from didax import lax

    normalise = lambda x: x / lax.psum(x, "i")
    found = dx.vmap(dx.jit(normalise), axis_name="i")(xs + 1)
    data = np.asarray(xs) + 1
    np.testing.assert_allclose(found, data / data.sum(0), rtol=1e-6)
    g = dx.grad(lambda xs: (dx.vmap(normalise, axis_name="i")(xs) ** 2).sum())(xs + 1)
    wanted = dx.grad(lambda xs: ((xs / xs.sum(0)) ** 2).sum())(xs + 1)
    np.testing.assert_allclose(g, wanted, rtol=1e-5, atol=1e-6)


def test_names_are_scoped(xs):
    from didax import lax

    f = lambda x, y: lax.psum(x * y, "i") + 100 * lax.axis_index("j")
    found = dx.vmap(lambda x: dx.vmap(lambda y: f(x, y), axis_name="j")(dnp.arange(3.0)), axis_name="i")(
        dnp.arange(2.0)
    )
    np.testing.assert_array_equal(found, [[0, 101, 202]] * 2)
    with pytest.raises(NameError, match="No mapped axis is named 'i'"):
        dx.vmap(lambda x: lax.psum(x, "i"), axis_name="j")(xs)


@pytest.mark.parametrize("value", ["text", range(3), object(), len, {"a": "text"}])
def test_what_is_passed_whole_may_be_no_array(value):
    seen = []

    def f(given, x):
        seen.append(given)
        return x + 1

    for library in (jax, dx):
        assert library.vmap(f, in_axes=(None, 0))(value, np.ones(2, "float32")).tolist() == [2, 2]
    assert seen[0] == seen[1] == value
    with pytest.raises(TypeError, match="argument given"):
        dx.vmap(f)(value, np.ones(2))


CHUNKED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "one argument": (lambda x: dnp.sin(x) * 2, (np.arange(7.0, dtype="float32"),), {}),
    "axes": (
        lambda x, y: (y @ x, x.sum()),
        (np.arange(30.0, dtype="float32").reshape(2, 5, 3), np.ones(2, "float32")),
        {"in_axes": (1, None), "out_axes": (-1, 0)},
    ),
    "whole results": (
        lambda x, y: (x + y, y * 2),
        (np.arange(5), np.int32(3)),
        {"in_axes": (0, None), "out_axes": (0, None)},
    ),
    "a pytree": (
        lambda p: {"out": p["a"] + p["b"].sum()},
        ({"a": np.arange(6.0), "b": np.ones((6, 2))},),
        {},
    ),
    "no argument": (lambda: dnp.ones(2), (), {"axis_size": 5}),
}


def test_chunks_give_the_same_results() -> None:
    def all_of(chunk_size: int | None) -> Any:
        return {
            name: dx.vmap(f, **options, chunk_size=chunk_size)(*args)
            for name, (f, args, options) in CHUNKED.items()
        }

    whole = dx.jit(all_of, static_argnums=0)(None)
    for size in (2, 3, 100):
        dx.tree.map(np.testing.assert_array_equal, dx.jit(all_of, static_argnums=0)(size), whole)
    f, x = lambda x: dnp.sin(x).sum() ** 2, np.arange(10.0, dtype="float32").reshape(5, 2)
    grads = dx.grad(lambda x: dx.vmap(f, chunk_size=2)(x).sum())(x)
    np.testing.assert_allclose(grads, dx.grad(lambda x: dx.vmap(f)(x).sum())(x), rtol=1e-6)
    calls: list[int] = []
    dx.vmap(lambda x: calls.append(1) or x, chunk_size=2)(np.arange(7))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"chunk_size": 0}, ValueError, "chunk_size of vmap"),
        ({"chunk_size": 2.0}, TypeError, "of type float"),
        ({"chunk_size": 2, "axis_name": "i"}, ValueError, "axis_name: 'i', chunk_size: 2"),
    ],
)
def test_errors_of_chunks(options: dict[str, Any], error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        dx.vmap(lambda x: x, **options)(np.arange(3))


def test_refs_are_not_mapped_in_chunks() -> None:
    with pytest.raises(ValueError, match="argument ref"):
        dx.vmap(lambda ref: ref[...], chunk_size=2)(dx.new_ref(dnp.arange(5)))


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lax.sort, [()]),
        (lambda x: lax.sort(x, -2), [(3,)]),
        (lambda x: lax.fft(x, "RFFT", (3,)), [()]),
        (lax.linalg.qr, [(3,)]),
        (lax.linalg.lu, [(3,)]),
        (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), [(3,), (3, 1)]),
        (lambda x: lax.transpose(x, (1, 0)), [(3,)]),
        (lambda x: lax.broadcast_in_dim(x, (), (0,)), [()]),
        (lambda x: lax.dynamic_index_in_dim(x, lax.convert_element_type(x, "int32")), [(1,)]),
        (lambda x, y: lax.select(x > 0, x, y), [(1,), (3,)]),
    ],
    ids=["sort", "sort axis", "fft", "qr", "lu", "solve", "transpose", "broadcast", "slice", "select"],
)
def test_a_batch_axis_passes_for_no_axis_of_the_elements(f, shapes):
    """What a function refuses for the elements, it refuses for a batch of them."""
    elements = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises((TypeError, ValueError)):
        f(*elements)
    for places in ([0] * len(shapes), [-1] * len(shapes), [None, 0][-len(shapes) :]):
        batches = [x if p is None else np.stack([x] * 3, p) for x, p in zip(elements, places, strict=True)]
        with pytest.raises((TypeError, ValueError)) as caught:
            dx.vmap(f, in_axes=tuple(places))(*batches)
        assert not isinstance(caught.value, RuleTypeError)
