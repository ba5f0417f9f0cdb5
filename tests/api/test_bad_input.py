"""Misuse: an error that states the rule, the user's values and the way out, raised at the user's own line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

HERE = __file__


def f(x):
    return x * 2.0


def raised_by(misuse: Callable[[], Any], error: type[Exception]) -> str:
    """The text of the error, whose type must be `error` and whose last frame must be a line of this file."""
    with pytest.raises(error) as caught:
        misuse()
    assert type(caught.value) is error
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == HERE, "the last frame is not the user's:\n" + "".join(
        traceback.format_tb(caught.tb)
    )
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__, (
        "another error is shown above this one"
    )
    return str(caught.value)


def check(misuse: Callable[[], Any], error: type[Exception], text: str) -> None:
    """`text` is the error's text, with `HERE` for a line of this file."""
    found = re.sub(rf"{re.escape(HERE)}:\d+", "HERE", raised_by(misuse, error))
    assert found == text.strip("\n")
    rule, *facts, fix = found.splitlines()
    assert rule.endswith(".") and fix.endswith(".") and all(fact.startswith("  ") for fact in facts) and facts


# --- Tangents and cotangents --------------------------------------------------------------------------------


def test_wrong_number_of_tangents():
    check(
        lambda: dx.jvp(f, (1.0,), (1.0, 2.0)),
        TypeError,
        """
jvp needs one tangent for each argument, in the same structure.
  args: primals have a tuple of length 1, tangents a tuple of length 2
Give every argument a tangent of its own structure (zeros where it does not move).
""",
    )


def test_tangents_of_another_structure():
    check(
        lambda: dx.jvp(lambda p: p["w"] * 2.0, ({"w": 1.0, "b": 2.0},), ({"w": 1.0},)),
        TypeError,
        "",
    )


def test_tangents_of_another_shape_or_dtype():
    check(
        lambda: dx.jvp(lambda p: p["w"] * 2.0, ({"w": dnp.ones(3)},), ({"w": dnp.ones(2)},)),
        TypeError,
        "",
    )
    check(lambda: dx.jvp(f, (dnp.ones(3),), (dnp.ones(3, "float16"),)), TypeError, "")
    check(lambda: dx.jvp(f, (1.0,), (1j,)), TypeError, "")


def test_tangents_of_integers():
    check(lambda: dx.jvp(f, (3,), (1,)), TypeError, "")


def test_primals_not_in_a_tuple():
    check(lambda: dx.jvp(f, 1.0, 1.0), TypeError, "")


def test_wrong_tangents_of_a_linearized_function():
    _, f_lin = dx.linearize(f, 1.0)
    check(lambda: f_lin(1.0, 2.0), TypeError, "")
    check(lambda: f_lin(dnp.ones(3)), TypeError, "")


def test_wrong_cotangents():
    _, f_vjp = dx.vjp(lambda x: (x, {"y": x}), 1.0)
    check(lambda: f_vjp(1.0), TypeError, "")
    check(lambda: f_vjp((1.0, {"y": dnp.ones(3)})), TypeError, "")


# --- grad ---------------------------------------------------------------------------------------------------


def test_grad_of_a_function_that_is_not_scalar():
    check(lambda: dx.grad(f)(dnp.ones(3)), TypeError, "")
    check(lambda: dx.grad(lambda x: (x, x))(1.0), TypeError, "")


def test_grad_of_an_integer_function():
    check(lambda: dx.grad(lambda x: 3)(1.0), TypeError, "")


def test_grad_of_a_complex_function():
    check(lambda: dx.grad(lambda x: x * 1j)(1.0), TypeError, "")


def test_grad_at_an_integer():
    check(lambda: dx.grad(lambda p, n: p["w"][0] * 2.0)({"w": (1, 2.0)}, 1), TypeError, "")


def test_grad_at_a_complex_number():
    check(lambda: dx.grad(abs)(1j), TypeError, "")


def test_holomorphic_grad_at_a_real_number():
    check(lambda: dx.grad(f, holomorphic=True)(1.0), TypeError, "")


def test_argnums_out_of_range():
    check(lambda: dx.grad(f, argnums=1)(1.0), TypeError, "")


def test_has_aux_without_a_pair():
    check(lambda: dx.grad(f, has_aux=True)(1.0), TypeError, "")


def test_grad_of_what_is_no_function():
    check(lambda: dx.grad(3.0), TypeError, "")
    check(lambda: dx.jit(f(1.0)), TypeError, "")


# --- Tracers ------------------------------------------------------------------------------------------------


def test_tracer_in_an_if():
    @dx.jit
    def branch(x):
        return x if x > 0 else -x

    check(lambda: branch(1.0), TracerBoolConversionError, "")


def test_tracer_in_an_if_under_vmap():
    check(lambda: dx.vmap(lambda x: x if x > 0 else -x)(dnp.ones(3)), TracerBoolConversionError, "")


def test_tracer_as_an_index():
    check(lambda: dx.jit(lambda i: [1, 2, 3][i])(1), TracerIntegerConversionError, "")


def test_tracer_as_a_length():
    check(lambda: dx.jit(lambda n: list(range(n)))(3), TracerIntegerConversionError, "")


def test_tracer_as_a_shape():
    check(lambda: dx.jit(lambda n: dnp.zeros(n))(3), TracerIntegerConversionError, "")
    check(lambda: dx.jit(lambda x, n: x.reshape(n, -1))(dnp.ones(4), 2), TracerIntegerConversionError, "")


def test_tracer_as_a_python_number():
    check(lambda: dx.jit(lambda x: int(x))(1.0), TracerIntegerConversionError, "")
    check(lambda: dx.jit(lambda x: float(x))(1.0), ConcretizationTypeError, "")
    check(lambda: dx.jit(lambda x: complex(x))(1.0), ConcretizationTypeError, "")


def test_tracer_in_numpy():
    check(lambda: dx.jit(lambda x: np.sin(x))(1.0), TracerArrayConversionError, "")
    check(lambda: dx.jit(lambda x: np.asarray(x) + 1)(1.0), TracerArrayConversionError, "")


def test_tracer_as_a_key():
    check(lambda: dx.jit(lambda x: {x: 1})(1.0), TypeError, "")


class Leak:
    """A function that keeps a tracer."""

    def __init__(self):
        self.kept = None

    def __call__(self, x):
        self.kept = x * 2.0
        return self.kept


TRANSFORMS = {
    "jit": dx.jit,
    "grad": dx.grad,
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: dx.vmap(f)(dnp.ones(2) * x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_leaked_tracer(transform):
    leak = Leak()
    transform(leak)(1.0)
    uses = {
        "operation": lambda: leak.kept + 1.0,
        "argument of jit": lambda: dx.jit(f)(leak.kept),
        "captured by jit": lambda: dx.jit(lambda: leak.kept + 1.0)(),
        "returned by jit": lambda: dx.jit(lambda: leak.kept)(),
        "argument of grad": lambda: dx.grad(f)(leak.kept),
        "argument of vmap": lambda: dx.vmap(f, axis_size=2, in_axes=None)(leak.kept),
    }
    for use in uses.values():
        assert "A traced array was used after the transformation that made it had ended." in raised_by(
            use, UnexpectedTracerError
        )


def test_leaked_tracer_of_jit():
    leak = Leak()

    def leaking(x):
        return leak(x)

    dx.jit(leaking)(1.0)
    check(lambda: leak.kept + 1.0, UnexpectedTracerError, "")


# --- jit ----------------------------------------------------------------------------------------------------


def test_unhashable_static_argument():
    jitted = dx.jit(lambda x, axes: x.sum(tuple(axes)), static_argnames="axes")
    check(lambda: jitted(dnp.ones(3), axes=[0]), TypeError, "")
    check(lambda: jitted(dnp.ones(3), dnp.ones(1)), TypeError, "")


def test_argument_that_is_no_array():
    check(lambda: dx.jit(lambda p, name: p["w"])({"w": 1.0, "kind": "relu"}, 1), TypeError, "")
    check(lambda: dx.grad(f)("abc"), TypeError, "")
    check(lambda: dx.vmap(f)([{"text"}]), TypeError, "")
    check(lambda: dx.jit(f)(np.array(["a"])), TypeError, "")


def test_a_shape_in_the_place_of_an_array():
    check(lambda: dx.jit(f)(dx.ShapeDtypeStruct((3,), "float32")), TypeError, "")


def test_result_that_is_no_array():
    check(lambda: dx.jit(lambda x: {"y": [x, "text"]})(1.0), TypeError, "")
    check(lambda: dx.vmap(lambda x: print)(dnp.ones(3)), TypeError, "")


def test_static_argument_that_does_not_exist():
    check(lambda: dx.jit(lambda x: x, static_argnums=3), ValueError, "")
    check(lambda: dx.jit(lambda x: x, static_argnames="n"), ValueError, "")


# --- Shapes and dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [lambda f: f, dx.jit, lambda f: dx.grad(lambda x, y: f(x, y).sum())],
    ids=["eager", "jit", "grad"],
)
def test_mismatched_shapes(transform):
    add = transform(lambda x, y: x + y)
    text = raised_by(lambda: add(dnp.ones(3), dnp.ones(4)), ValueError)
    assert "float32[3]" in text and "float32[4]" in text
    multiply = transform(lambda x, y: x @ y)
    text = raised_by(lambda: multiply(dnp.ones((2, 3)), dnp.ones((2, 3))), TypeError)
    assert "float32[2,3]" in text


def test_mismatched_dtypes_in_lax():
    text = raised_by(lambda: lax.add(dnp.ones(3), dnp.ones(3, "int32")), TypeError)
    assert (
        text
        == "add takes operands of one dtype.\n  operands: float32[3], int32[3]\nCast one of them (x.astype)."
    )


@pytest.mark.parametrize("reduction", ["max", "min", "argmax", "argmin"])
def test_reduction_of_a_zero_size_axis(reduction):
    reduce = getattr(dnp, reduction)
    text = raised_by(lambda: reduce(dnp.zeros((2, 0)), axis=1), ValueError)
    assert "float32[2,0]" in text
    assert reduce(dnp.zeros((0, 2)), axis=1).shape == (0,)


# --- vmap ---------------------------------------------------------------------------------------------------


def test_in_axes_out_of_range():
    check(lambda: dx.vmap(lambda p, y: y, in_axes=(2, None))({"w": dnp.ones((2, 3))}, 1.0), ValueError, "")
    check(lambda: dx.vmap(f)(1.0), ValueError, "")


def test_in_axes_of_the_wrong_length():
    check(lambda: dx.vmap(f, in_axes=(0, 0))(dnp.ones(3)), ValueError, "")


def test_in_axes_of_another_structure():
    check(lambda: dx.vmap(lambda p: p["w"], in_axes=({"w": 0, "b": 0},))({"w": dnp.ones(3)}), ValueError, "")


def test_in_axes_that_are_no_integers():
    check(lambda: dx.vmap(f, in_axes="0"), TypeError, "")
    check(lambda: dx.vmap(f, out_axes=0.5), TypeError, "")


def test_in_axes_by_a_name_that_is_no_argument():
    check(lambda: dx.vmap(lambda x: x, in_axes={"y": 0})(dnp.ones(3)), ValueError, "")


def test_batches_of_different_lengths():
    check(lambda: dx.vmap(lambda x, y: x + y)(dnp.ones(3), dnp.ones((4, 2))), ValueError, "")
    check(lambda: dx.vmap(lambda x: x, axis_size=2)(dnp.ones(3)), ValueError, "")


def test_nothing_to_map():
    check(lambda: dx.vmap(f, in_axes=None)(1.0), ValueError, "")
    check(lambda: dx.vmap(lambda: 1.0)(), ValueError, "")


def test_out_axes_out_of_range():
    check(lambda: dx.vmap(f, out_axes=2)(dnp.ones(3)), ValueError, "")


def test_out_axes_none_for_a_batched_result():
    check(lambda: dx.vmap(f, out_axes=None)(dnp.ones(3)), ValueError, "")


def test_out_axes_of_another_structure():
    check(lambda: dx.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(dnp.ones(3)), ValueError, "")


# --- Frames -------------------------------------------------------------------------------------------------


def boom(x):
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize(
    "transform",
    [
        dx.jit,
        dx.grad,
        dx.make_jaxpr,
        lambda f: dx.jit(dx.grad(dx.jit(f))),
        lambda f: lambda x: dx.vmap(f)(dnp.ones(3)),
    ],
    ids=["jit", "grad", "make_jaxpr", "jit-grad-jit", "vmap"],
)
def test_an_error_of_the_users_own_function_passes_with_user_frames_only(transform):
    with pytest.raises(ZeroDivisionError) as caught:
        transform(boom)(1.0)
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert files == {HERE}


def test_all_frames_are_shown_on_request():
    from didax.core import config

    with config.override(traceback_filtering="off"), pytest.raises(ZeroDivisionError) as caught:
        dx.jit(boom)(1.0)
    assert len({frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}) > 1
