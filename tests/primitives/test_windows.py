"""Reductions over windows: ties, pooling, init values, texts of errors."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.lax.windows import reduce_window
from didax.primitives.windows import Window, params_of
from tests.checks import assert_close, check_grads

INITS = {"add": 0.0, "max": -np.inf, "min": np.inf}
POOL: tuple[Any, ...] = ((1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@pytest.mark.parametrize("operation, init", [("max", -np.inf), ("min", np.inf)])
def test_gradient_goes_to_the_first_extreme_element(operation: str, init: float) -> None:
    import jax

    x = np.random.default_rng(0).integers(0, 3, (2, 7, 6, 2)).astype(np.float32)
    weight = np.random.default_rng(1).normal(size=(2, 4, 3, 2)).astype(np.float32)

    def pooled(module: Any, window: Any) -> Any:
        return lambda x: (window(x, np.float32(init), getattr(module, operation), *POOL) * weight).sum()

    ours = dx.grad(pooled(lax, reduce_window))
    wanted = jax.grad(pooled(jax.lax, jax.lax.reduce_window))(x)
    assert_close(ours(x), wanted)
    assert_close(dx.jit(ours)(x), wanted)


def test_init_value_of_an_extremum_takes_part() -> None:
    x = np.float32([-3, 1, -2, -5])
    assert_close(reduce_window(x, 0.0, lax.max, (2,), (2,), "VALID"), np.float32([1, 0]))
    out = dx.jit(lambda init: reduce_window(x, init, lax.max, (2,), (2,), [(1, 1)]))(np.float32(-2.5))
    assert_close(out, np.float32([-2.5, 1, -2.5]))


@pytest.mark.parametrize("operation, init", [("max", -np.inf), ("min", np.inf)])
def test_large_arrays_keep_nan(operation: str, init: float) -> None:
    """See Note [NaN in reduced extrema] of primitives/reductions.py."""
    x = np.zeros((256, 256), np.float32)
    x[40, 50] = np.nan
    out = dx.jit(lambda x: reduce_window(x, init, getattr(lax, operation), (2, 2), (2, 2), "VALID"))(x)
    assert np.argwhere(np.isnan(np.asarray(out))).tolist() == [[20, 25]]


def test_narrow_floats_are_summed_in_float32() -> None:
    ones = lax.convert_element_type(np.ones(300), "bfloat16")
    out = reduce_window(ones, 0, lax.add, (300,), (1,), "VALID")
    assert float(out[0]) == 300


def _brute(combine: Any, xs: Any, inits: Any, windows: Any) -> list[Any]:
    """What `reduce_window` is to return: the init values and the elements of each window, combined one by one."""
    reach = [
        range(w.padded(n) - w.extent + 1)[:: w.stride] for w, n in zip(windows, xs[0].shape, strict=True)
    ]
    outs: list[list[Any]] = [[] for _ in xs]
    for start in itertools.product(*reach):
        found = list(inits)
        for k in itertools.product(*(range(w.size) for w in windows)):
            at = [s + i * w.dilation - w.padding[0] for s, i, w in zip(start, k, windows, strict=True)]
            index = tuple(a // w.base_dilation for a, w in zip(at, windows, strict=True))
            inside = all(0 <= i < n for i, n in zip(index, xs[0].shape, strict=True))
            if inside and not any(a % w.base_dilation for a, w in zip(at, windows, strict=True)):
                found = list(combine(found, [x[index] for x in xs]))
        for out, y in zip(outs, found, strict=True):
            out.append(y)
    return [
        np.reshape(np.array(out, x.dtype), [len(r) for r in reach]) for out, x in zip(outs, xs, strict=True)
    ]


COMPUTATIONS: dict[str, Any] = {
    "mul": lambda f, g: (f[0] * g[0],),
    "affine": lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]),  # does not commute
}
LAYOUTS = {
    "moving": [Window(3, 1, (0, 0), 1, 1), Window(2, 1, (0, 0), 1, 1)],
    "padded": [Window(2, 3, (3, 2), 1, 2), Window(1, 1, (0, 2), 1, 1)],
    "dilated": [Window(5, 1, (1, -1), 2, 1), Window(2, 2, (-1, 3), 1, 1)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_any_computation_of_any_operands(x64: None, name: str, layout: str) -> None:
    rng, windows, computation = np.random.default_rng(0), LAYOUTS[layout], COMPUTATIONS[name]
    xs = rng.uniform(0.5, 2, (1 if name == "mul" else 2, 4, 3))
    inits = rng.uniform(0.5, 2, len(xs))

    def reduced(xs: Any, inits: Any) -> Any:
        return reduce_window(tuple(xs), tuple(inits), computation, **params_of(windows))

    with dx.enable_x64():
        wanted = _brute(computation, xs, inits, windows)
        assert_close(reduced(xs, inits), tuple(wanted))
        assert_close(dx.jit(reduced)(xs, inits), tuple(wanted))
        batched = dx.vmap(reduced, in_axes=(1, 0))(np.stack([xs + 1, xs], 1), np.stack([inits + 1, inits]))
        assert_close([y[1] for y in batched], wanted)
    check_grads(reduced, (xs, inits))


@pytest.mark.parametrize("name", ["add", "max", "min", "mul"])
def test_init_value_is_differentiated_and_batched(name: str) -> None:
    """Also where it is the identity of the computation."""
    x = np.float32([0.5, 2, 1.5])
    identity = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[name]

    def summed(init: Any) -> Any:
        return reduce_window(x, init, getattr(lax, name), (2,), (1,), [(0, 1)]).sum()

    wanted = {"add": 3.0, "mul": 0.5 * 2 + 2 * 1.5 + 1.5, "max": 0.0, "min": 0.0}[name]
    assert_close(dx.grad(summed)(np.float32(identity)), np.float32(wanted))
    assert_close(dx.jit(dx.grad(summed))(np.float32(identity)), np.float32(wanted))
    inits = np.float32([identity, 1])
    assert_close(dx.vmap(summed)(inits), np.float32([float(summed(i)) for i in inits]))


def test_init_values_of_other_dtypes() -> None:
    """A constant may be of any dtype: programs write -inf for integers, and make zeros while tracing."""
    x = np.int32([3, -5, 7])
    assert_close(reduce_window(x, -np.inf, lax.max, (2,), (1,), [(2, 0)]), np.int32([-(2**31), 3, 3, 7]))
    assert_close(reduce_window(x, np.float32(np.inf), lax.min, (2,)), np.int32([-5, -5]))

    def summed(x: Any) -> Any:
        return reduce_window(x, dnp.asarray(0, x.dtype), lax.add, (2,))

    assert_close(dx.jit(summed)(x), np.int32([-2, 2]))
    assert [eqn.primitive.name for eqn in dx.make_jaxpr(summed)(x).eqns] == ["reduce_window_sum"]


@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER"])
def test_named_padding_is_that_of_the_operand_before_dilation(padding: str) -> None:
    import jax

    x = np.arange(1, 6, dtype=np.float32)
    for size, stride, base, dilation in itertools.product((1, 2, 3), (1, 2, 3), (2, 3), (1, 2)):
        args = (size,), (stride,), padding, (base,), (dilation,)
        wanted = jax.lax.reduce_window(x, 0.0, jax.lax.add, *args)
        assert_close(reduce_window(x, 0.0, lax.add, *args), np.asarray(wanted))
        assert lax.reduce_window_shape_tuple(x.shape, *args) == wanted.shape


def test_shape_of_windows_that_do_not_fit() -> None:
    assert lax.reduce_window_shape_tuple((2, 5, -1), (4, 2, 1), (1, 1, 1), "VALID") == (0, 4, -1)


def test_gradient_of_windows_of_padding_alone() -> None:
    gradient = dx.grad(lambda x: reduce_window(x, 0.0, lax.add, (2,), (2,), [(3, 0)], (2,)).sum())
    assert gradient(np.zeros(0, np.float32)).shape == (0,)
    assert dx.jit(gradient)(np.zeros(0, np.float32)).shape == (0,)


@pytest.mark.parametrize("padding", [(0, 1), (0, -1), (-1, 2)])
@pytest.mark.parametrize("size", [1, 2])
def test_windows_with_negative_padding_compiled(size: int, padding: tuple[int, int]) -> None:
    """XLA ends the process at windows of size 1 with negative padding, which are gradients of padded ones, too."""
    x = np.float32([1, 2, 3, 4])
    for name, init in INITS.items():

        def reduced(x: Any, name: str = name, init: float = init) -> Any:
            return reduce_window(x, init, getattr(lax, name), (size,), (1,), [padding])

        def weighted(x: Any, reduced: Any = reduced) -> Any:
            y = reduced(x)
            return (dnp.where(dnp.isfinite(y), y, 0) * np.arange(1, y.size + 1)).sum()

        assert_close(dx.jit(reduced)(x), reduced(x))
        assert_close(dx.jit(dx.grad(weighted))(x), dx.grad(weighted)(x))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: reduce_window((x, x), 0.0, lambda a, b: a, (2, 2)), TypeError,
         "reduce_window takes arrays of one shape and a scalar for each."),
        (lambda x: reduce_window((x, x), [0.0, 0.0], lambda a, b: a, (2, 2)), TypeError,
         "The operands and init values of reduce_window have one structure."),
        (lambda x: reduce_window(x, 0.0, lambda a, b: (a, b), (2, 2)), TypeError,
         "The computation of reduce_window returns what it takes two of.\n  elements: float32[], in PyTreeDef(*)\n"
         "  results: float32[], float32[], in PyTreeDef((*, *))"),
        (lambda x: reduce_window(x, 0.0, max, (2, 2)), TypeError,
         "The computation of reduce_window makes one element of two, by operations on arrays.\n"
         "  elements: float32[]\n  it raised: TracerBoolConversionError\nPass didax.lax.max, "),
        (lambda x: reduce_window(x, 0.0, dnp.max, (2, 2)), TypeError, "makes one element of two"),
        (lambda x: reduce_window(x, 1j, lax.add, (2, 2)), TypeError,
         "The init values of reduce_window are numbers that the dtypes of its operands hold.\n"
         "  operand: float32[4,3], init value: 1j"),
        (lambda x: reduce_window(x, 0.0, lax.mul, (2,)), ValueError,
         "reduce_window takes one entry per axis of its operand."),
        (lambda x: reduce_window(x, 0.0, lax.add, (2,), (1,), [(0, 0)]), ValueError,
         "reduce_window_sum takes one entry per axis of its operand."),
        (lambda x: reduce_window(x, 0.0, lax.add, (2, 2), (0, 1), "VALID"), ValueError,
         "Windows have positive sizes, strides and dilations.\n  operand: float32[4,3]\n"
         "  window_dimensions: (2, 2)\n  window_strides: (0, 1)"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(np.zeros((4, 3), np.float32))
