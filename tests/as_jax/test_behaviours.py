"""Behaviours of JAX that libraries rely on without naming them; numbers and types are those of JAX 0.10.2.

Other such behaviours have tests in the files of their subjects: arrays of float0 in `tests/api/test_autodiff.py`,
options in `tests/core/test_config.py`, types in the place of arrays in `tests/api/test_jit.py`, keywords that ask for
nothing in `tests/test_names.py` and `test_in_didax.py`, extrema of complex numbers in `tests/numpy/test_reductions.py`.
"""

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.as_jax import programs
from didax.core import config


def test_positions_under_an_empty_map() -> None:
    """Each operation that reads or writes at positions gives an empty array when no example is mapped."""

    @dx.jit
    def mapped(xs, pairs, starts):
        ones = dnp.ones(2)
        return (
            dx.vmap(lambda x, i: x[i])(xs, pairs),
            dx.vmap(lambda x, i: x.at[i].add(1.0))(xs, pairs),
            dx.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(xs, starts),
            dx.vmap(lambda x, i: lax.dynamic_update_slice(x, ones, (i,)))(xs, starts),
            dx.vmap(dx.grad(lambda x, i: x[i].sum()))(xs, pairs),
        )

    found = mapped(np.zeros((0, 4), "float32"), np.zeros((0, 2), "int32"), np.zeros(0, "int32"))
    assert [y.shape for y in found] == [(0, 2), (0, 4), (0, 2), (0, 4), (0, 4)]
    assert {y.dtype.name for y in found} == {"float32"}


def test_scan_stacks_arrays_of_float0() -> None:
    """A scan over tangents meets float0, the dtype of integers' tangents, which XLA does not know."""
    step = lambda c, _: (c * 2, (np.zeros((), dx.float0), np.zeros((3,), dx.float0), c))
    for scan in (lax.scan, dx.jit(lax.scan, static_argnums=(0, 2, 3))):
        carry, (scalars, vectors, numbers) = scan(step, 1.0, None, 2)
        assert carry == 4 and numbers.tolist() == [1, 2]
        for y, shape in ((scalars, (2,)), (vectors, (2, 3))):
            assert type(y) is np.ndarray and y.dtype == dx.float0 and y.shape == shape


def test_linear_functions_have_one_structure_everywhere() -> None:
    """Programs convert a linear function in each branch of a cond and ask that both have the same constants."""
    seen = []

    def asked(a, b):
        linear = dx.linearize(lambda y: dnp.sin(y[0]) * 3 + y[1] * 2, (a, b))[1]
        closed = programs.make_jaxpr(linear)((a, b))
        seen.append([np.shape(c) for c in closed.consts])
        return programs.eval_jaxpr(closed.jaxpr, closed.consts, a, b)[0]

    args = np.float32(0), np.float32(2)
    assert float(asked(*args)) == float(dx.jit(asked)(*args)) == 4.0  # 3 cos(0) 0 + 2 * 2
    asked(0.0, 2.0)
    assert seen[0] == seen[1] == seen[2]


def test_infinities_among_integers_are_the_extreme_ones() -> None:
    assert dnp.full(2, dnp.inf, "int32").tolist() == [2**31 - 1] * 2
    assert dnp.full(2, -dnp.inf, "int8").tolist() == [-128, -128]
    with pytest.warns(FutureWarning, match="casts its values"):
        assert dnp.arange(3).at[0].set(-dnp.inf).tolist() == [-(2**31), 1, 2]


def test_a_sharding_of_the_programs_own() -> None:
    """A subclass of Sharding with a device set says where an array goes, as one of Didax's classes would."""

    class Here(dx.sharding.Sharding):
        device_set = frozenset(dx.devices()[:1])

    x = dx.device_put(np.ones(2, "float32"), Here())
    assert x.devices() == Here.device_set and x.tolist() == [1, 1]


def test_a_numpy_array_that_is_reshaped_stays_one() -> None:
    """Programs look at masks of NumPy arrays while they are traced. In Didax itself the result is an Array."""
    mask = np.array([[True, False]])
    assert isinstance(dnp.reshape(mask, -1), dx.Array)
    with config.override(as_in_jax=True):
        found = dx.eval_shape(lambda x: x * bool(dnp.reshape(mask, (-1,), order="F").all()), 2.0)
        assert found.shape == () and type(dnp.reshape(mask, -1)) is np.ndarray
        with pytest.raises(TypeError, match="reshape"):
            dnp.reshape(mask, (3,))


def test_lists_have_shapes() -> None:
    """JAX warns that they are to be an error. In Didax itself they are one."""
    with config.override(as_in_jax=True):
        assert (dnp.shape([[1], [2]]), dnp.ndim((1, 2)), dnp.size([]), dnp.shape(None)) == ((2, 1), 1, 0, ())
    with pytest.raises(TypeError, match="shape takes arrays and scalars"):
        dnp.shape([1, 2])


def test_item_of_a_float_in_an_eager_gradient() -> None:
    """Programs log losses so. In Didax itself it is an error, as a derivative might get lost."""
    with config.override(as_in_jax=True):
        assert dx.grad(lambda x: x * x.item())(3.0) == 3
    with pytest.raises(TypeError, match="lose its derivative"):
        dx.grad(lambda x: x * x.item())(3.0)


def test_a_position_out_of_range_is_treated_as_a_traced_one() -> None:
    """A read moves it inside, a write is dropped. In Didax itself both raise, where the position is known."""
    x, m = dnp.arange(5.0), dnp.ones((2, 3))
    with config.override(as_in_jax=True):
        reads = x[10], x[-10], x.at[10].get(), x[np.array([0, 7])], x[10, None], m[5, 1], m[5], m[:, 5]
        assert [y.tolist() for y in reads] == [4, 0, 4, [0, 4], [4], 1, [1, 1, 1], [1, 1]]
        for write in (x.at[10].set(7), x.at[-7].add(7), x.at[np.array([9])].mul(7)):
            assert write.tolist() == x.tolist()
        compiled = dx.jit(lambda x: (x[10], x.at[10].set(7.0), dx.grad(lambda x: x[10])(x)))(x)
        assert [y.tolist() for y in compiled] == [4, x.tolist(), [0, 0, 0, 0, 1]]
        with pytest.raises(IndexError, match="no elements"):
            dnp.ones((0, 3))[0]
    with pytest.raises(IndexError, match="out of range"):
        x.at[10].set(7)


def test_axes_of_meshes_are_explicit() -> None:
    assert dx.make_mesh((1,), ("x",)).axis_types == (dx.sharding.AxisType.Auto,)
    with config.override(as_in_jax=True):
        mesh = dx.make_mesh((1,), ("x",))
        assert mesh.axis_types == (dx.sharding.AxisType.Explicit,)
        auto = (dx.sharding.AxisType.Auto,)
        assert dx.make_mesh((1,), ("x",), axis_types=auto).axis_types == auto
