"""Segments: values of jax.ops, also of numbers out of range and in buckets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import ops
from tests.numpy.oracle import assert_same, sample


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32", "bfloat16"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_segments(name: str, dtype: str) -> None:
    if dtype == "bool":  # which are neither added nor multiplied
        name = {"sum": "max", "prod": "min"}.get(name, name)
    ours, theirs = getattr(ops, f"segment_{name}"), getattr(jax.ops, f"segment_{name}")
    x = sample(dtype, (6, 2))
    for ids, options in (
        (np.int32([0, 1, 5, 1, 0, 2]), {}),
        (np.int8([-1, 1, 7, 1, 0, 2]), {"num_segments": 4}),
        (np.int32([0, 1, 5, 1, 0, 2]), {"num_segments": 4, "bucket_size": 4}),
        (np.int32([0, 1, 5, 1, 0, 2]), {"num_segments": 0}),
        (np.int32([-2, 1, 7, 1, 0, 2]), {"num_segments": 4, "mode": "clip"}),
    ):
        wanted = theirs(jnp.asarray(x), jnp.asarray(ids), **options)
        arrays = dnp.asarray(x), dnp.asarray(ids)
        assert_same(ours(*arrays, **options), wanted, weak=False)
        if options:
            assert_same(dx.jit(lambda x, i: ours(x, i, **options))(*arrays), wanted, weak=False)


def test_numbers_are_used_as_they_are() -> None:
    """Negative numbers are left out by the scatter itself, so sorted ones stay sorted and no pass goes over them."""
    ids = dnp.array([-3, -1, 0, 2, 2, 9])
    f = lambda x: ops.segment_sum(x, ids, 3, indices_are_sorted=True)
    np.testing.assert_array_equal(dx.jit(f)(dnp.arange(6.0)), [2, 0, 7])
    names = [eqn.primitive.name for eqn in dx.make_jaxpr(f)(dnp.arange(6.0)).jaxpr.eqns]
    assert not {"lt", "select_n"} & set(names), names


def test_transformations() -> None:
    ids = dnp.array([0, 1, 0, 1])
    loss = lambda x: (ops.segment_max(x, ids, 2) * dnp.array([1.0, 2.0])).sum()
    np.testing.assert_array_equal(dx.grad(loss)(dnp.arange(4.0)), [0, 0, 1, 2])
    np.testing.assert_array_equal(
        dx.vmap(lambda x: ops.segment_sum(x, ids, 2))(dnp.eye(4)), [[1, 0], [0, 1]] * 2
    )


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 2)])
def test_one_slice_for_all_numbers(name: str, shape: tuple[int, ...]) -> None:
    """As where ones are summed, to count how often each number occurs."""
    ours, theirs = getattr(ops, f"segment_{name}"), getattr(jax.ops, f"segment_{name}")
    x, ids = np.full(shape, 2, np.float32), np.int32([0, 1, 3, 1])
    for options in ({}, {"bucket_size": 2}):
        wanted = theirs(jnp.asarray(x), jnp.asarray(ids), 4, **options)
        assert_same(ours(dnp.asarray(x), dnp.asarray(ids), 4, **options), wanted, weak=False)
    counts = dx.grad(lambda x: ops.segment_sum(x, ids, 4).sum())(dnp.asarray(x))
    np.testing.assert_array_equal(counts, np.full(shape, 4))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"data: float32\[3\], segment_ids: int32\[2\]"):
        ops.segment_sum(dnp.ones(3), dnp.arange(2))
    with pytest.raises(ValueError, match=r"segment_ids: float32\[3\]"):
        ops.segment_sum(dnp.ones(3), dnp.ones(3))
    with pytest.raises(dx.errors.ConcretizationTypeError, match="Give num_segments"):
        dx.jit(ops.segment_sum)(dnp.ones(2), dnp.arange(2))
