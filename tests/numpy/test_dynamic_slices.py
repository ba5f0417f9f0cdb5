"""`x[ds(start, size)]`: slices of known length from a start that may be traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp

X = np.arange(24.0, dtype="float32").reshape(4, 6)


def reads(dx, xnp, x, i):
    ds = dx.ds
    return [
        x[ds(i, 2)], x[ds(i, 2), ds(i, 3)], x[i, ds(i, 2, 2)], x[ds(i, 2), xnp.array([0, 2])], x[:, ds(i, 6)],
        x[::-1, ds(i, 2)], x[ds(3)], x[ds(None), ds(1, 2)], x[..., None, ds(i, 1)],
    ]  # fmt: skip


def writes(dx, xnp, x, i):
    ds = dx.ds
    return [
        x.at[ds(i, 2)].set(0.0), x.at[ds(i, 2), 1].add(9.0), x.at[::2, ds(i, 2, 2)].multiply(2.0),
        x.at[1, ds(i, 2)].max(100.0), x.at[ds(i, 2), ds(i, 2)].set(xnp.ones((2, 2))),
    ]  # fmt: skip


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="JAX 0.11 indexes by ds of numbers alone")
@pytest.mark.parametrize("start", [0, 1, 2])
def test_reads_and_writes_are_those_of_jax(start: int) -> None:
    every = lambda dx, xnp: lambda i, x: reads(dx, xnp, x, i) + writes(dx, xnp, x, i)
    theirs = every(jax, jnp)(jnp.array(start), jnp.asarray(X))
    for i in (dnp.array(start), start):
        for ours, wanted in zip(every(dx, dnp)(i, dnp.asarray(X)), theirs, strict=True):
            np.testing.assert_array_equal(ours, wanted)
    for ours, wanted in zip(dx.jit(every(dx, dnp))(start, X), theirs, strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_starts_are_moved_inside() -> None:
    x = dnp.arange(10)
    assert [x[dx.ds(dnp.array(i), 3)].tolist() for i in (8, -3, -20)] == [[7, 8, 9], [7, 8, 9], [0, 1, 2]]
    assert [x[dx.ds(i, 3)].tolist() for i in (8, -3, -20)] == [[7, 8, 9], [7, 8, 9], [0, 1, 2]]
    assert dx.jit(lambda i: x[dx.ds(i, 3, 2)])(7).tolist() == [5, 7, 9]
    assert dx.jit(lambda i: x[dx.ds(i, 10)])(7).shape == (10,)
    assert dx.vmap(lambda i: x[dx.ds(i, 2)])(dnp.arange(3)).tolist() == [[0, 1], [1, 2], [2, 3]]
    ref = dx.new_ref(x)
    ref[dx.ds(dnp.array(1), 2)] = 0
    assert ref[...].tolist() == [0, 0, 0, *range(3, 10)]


def test_gradients_reach_the_slice() -> None:
    f = dx.jit(lambda x, i: (x[dx.ds(i, 2, 2)] ** 2).sum())
    assert dx.grad(f)(dnp.arange(5.0), 1).tolist() == [0, 2, 0, 6, 0]


def test_what_is_no_slice() -> None:
    with pytest.raises(IndexError, match=r"7 elements at a distance of 1, axis 1 of float32\[4,6\]"):
        dnp.asarray(X)[:, dx.ds(0, 7)]
    with pytest.raises(TypeError, match=r"is known\.\n  size: Traced<int32\[\]>\(jit\)\nPass it as a static"):
        dx.jit(lambda n: dx.ds(0, n))(2)
    with pytest.raises(ValueError, match=r"size: 2, stride: 0\nUse dnp.flip"):
        dx.ds(0, 2, 0)
