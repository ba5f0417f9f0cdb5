"""Misuse: an error that states the rule, the user's values and the way out, raised at the user's own line."""

from __future__ import annotations

import dataclasses
import operator
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import checkpoints, lax, scipy
from didax.core.errors import (
    ArgumentError,
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TracerSliceError,
    UnexpectedTracerError,
)
from didax.experimental import rnn, sparse

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
  args is a tuple of 1 in primals, a tuple of 2 in tangents
Give every argument a tangent of its own structure (zeros where it does not move).
""",
    )


def test_tangents_of_another_structure():
    check(
        lambda: dx.jvp(lambda p: p["w"] * 2.0, ({"w": 1.0, "b": 2.0},), ({"w": 1.0},)),
        TypeError,
        """
jvp needs one tangent for each argument, in the same structure.
  args[0] is a dict with keys 'b', 'w' in primals, a dict with keys 'w' in tangents
Give every argument a tangent of its own structure (zeros where it does not move).
""",
    )


def test_tangents_of_another_shape_or_dtype():
    check(
        lambda: dx.jvp(lambda p: p["w"] * 2.0, ({"w": dnp.ones(3)},), ({"w": dnp.ones(2)},)),
        ArgumentError,
        """
In jvp a tangent has the shape and dtype of its primal (float0 where that is an integer or boolean).
  p['w']: primal float32[3], tangent float32[2], expected float32[3]
Cast or reshape the tangent, or the primal.
""",
    )
    check(
        lambda: dx.jvp(f, (dnp.ones(3),), (dnp.ones(3, "float16"),)),
        ArgumentError,
        """
In jvp a tangent has the shape and dtype of its primal (float0 where that is an integer or boolean).
  x: primal float32[3], tangent float16[3], expected float32[3]
Cast or reshape the tangent, or the primal.
""",
    )
    check(
        lambda: dx.jvp(f, (1.0,), (1j,)),
        ArgumentError,
        """
In jvp a tangent has the shape and dtype of its primal (float0 where that is an integer or boolean).
  x: primal float32[], tangent complex64[], expected float32[]
Cast or reshape the tangent, or the primal.
""",
    )


def test_tangents_of_integers():
    check(
        lambda: dx.jvp(f, (3,), (1,)),
        ArgumentError,
        """
In jvp a tangent has the shape and dtype of its primal (float0 where that is an integer or boolean).
  x: primal int32[], tangent int32[], expected float0[]
Pass np.zeros((), didax.float0).
""",
    )


def test_primals_not_in_a_tuple():
    check(
        lambda: dx.jvp(f, 1.0, 1.0),
        TypeError,
        """
jvp takes the arguments and their tangents as tuples.
  primals: float, tangents: float
Write jvp(f, (x,), (x_dot,)).
""",
    )


def test_wrong_tangents_of_a_linearized_function():
    _, f_lin = dx.linearize(f, 1.0)
    check(
        lambda: f_lin(1.0, 2.0),
        TypeError,
        """
The linearized function takes one tangent for each argument, in the arguments' structure.
  args is a tuple of 1 in primals, a tuple of 2 in tangents
Pass tangents in the structure of the primals.
""",
    )
    check(
        lambda: f_lin(dnp.ones(3)),
        ArgumentError,
        """
In linearize a tangent has the shape and dtype of its primal (float0 where that is an integer or boolean).
  x: primal float32[], tangent float32[3], expected float32[]
Cast or reshape the tangent, or the primal.
""",
    )


def test_wrong_cotangents():
    _, f_vjp = dx.vjp(lambda x: (x, {"y": x}), 1.0)
    check(
        lambda: f_vjp(1.0),
        ArgumentError,
        """
The vjp takes cotangents in the structure of the function's result.
  out is a tuple of 2 in the result, a leaf in the cotangent
Pass one cotangent for each result, in the same structure.
""",
    )
    check(
        lambda: f_vjp((1.0, {"y": dnp.ones(3)})),
        ArgumentError,
        """
In vjp a cotangent has the shape and dtype of its result (float0 where that is an integer or boolean).
  result[1]['y']: result float32[], cotangent float32[3], expected float32[]
Cast or reshape the cotangent, or the result.
""",
    )


# --- grad ---------------------------------------------------------------------------------------------------


def test_grad_of_a_function_that_is_not_scalar():
    check(
        lambda: dx.grad(f)(dnp.ones(3)),
        TypeError,
        """
The function given to grad must return a scalar.
  function: f (HERE)
  result: float32[3]
Sum or average it, or use jacrev or jacfwd for the Jacobian.
""",
    )
    check(
        lambda: dx.grad(lambda x: (x, x))(1.0),
        TypeError,
        """
The function given to grad must return a single scalar.
  function: <lambda> (HERE)
  result: (float32[], float32[])
Return one scalar; use has_aux=True for other data.
""",
    )


def test_grad_of_an_integer_function():
    check(
        lambda: dx.grad(lambda x: 3)(1.0),
        TypeError,
        """
The function given to grad must return a real floating-point scalar.
  function: <lambda> (HERE)
  result: int32[]
Cast it to a floating-point type, or take its real part (holomorphic=True for holomorphic functions).
""",
    )


def test_grad_of_a_complex_function():
    check(
        lambda: dx.grad(lambda x: x * 1j)(1.0),
        TypeError,
        """
The function given to grad must return a real floating-point scalar.
  function: <lambda> (HERE)
  result: complex64[]
Cast it to a floating-point type, or take its real part (holomorphic=True for holomorphic functions).
""",
    )


def test_grad_at_an_integer():
    check(
        lambda: dx.grad(lambda p, n: p["w"][0] * 2.0)({"w": (1, 2.0)}, 1),
        TypeError,
        """
grad takes floating-point arguments.
  argument p['w'][0]: int32[]
Cast it to a floating-point type, choose other argnums, or pass allow_int=True.
""",
    )


def test_forward_mode_at_a_complex_number():
    check(
        lambda: dx.jacfwd(abs)(1j),
        TypeError,
        """
jacfwd takes real arguments: by a complex one there are two derivatives.
  argument x: complex64[]
Pass holomorphic=True, differentiate by real and imaginary parts, or use jacrev of a real result.
""",
    )


def test_hessian_names_itself_and_its_own_arguments():
    check(
        lambda: dx.hessian(abs)(1),
        TypeError,
        """
hessian takes floating-point arguments.
  argument x: int32[]
Cast it to a floating-point type, or choose other argnums.
""",
    )
    check(
        lambda: dx.hessian(abs)(1j),
        TypeError,
        """
hessian takes real arguments: by a complex one there are two derivatives.
  argument x: complex64[]
Pass holomorphic=True, or differentiate by real and imaginary parts.
""",
    )
    check(
        lambda: dx.hessian(lambda x: x > 0)(1.0),
        TypeError,
        """
The function given to hessian must return real floating-point arrays.
  function: <lambda> (HERE)
  result: bool[]
Cast it, or return it by has_aux=True.
""",
    )


def test_holomorphic_grad_at_a_real_number():
    check(
        lambda: dx.grad(f, holomorphic=True)(1.0),
        TypeError,
        """
grad with holomorphic=True takes complex arguments.
  argument x: float32[]
Cast it to complex.
""",
    )


def test_argnums_out_of_range():
    check(
        lambda: dx.grad(f, argnums=1)(1.0),
        ArgumentError,
        """
argnums of grad must number positional arguments of the call.
  argnums: (1,), positional arguments: 1
  function: f (HERE)
Pass the arguments to differentiate by position, and number them from 0.
""",
    )


@pytest.mark.parametrize(
    ("option", "misuse"),
    {
        "argnums": lambda n: dx.grad(f, argnums=n),
        "static_argnums": lambda n: dx.jit(f, static_argnums=n),
        "donate_argnums": lambda n: dx.jit(f, donate_argnums=n),
    }.items(),
)
def test_numbers_of_arguments_that_are_no_integers(option: str, misuse: Any) -> None:
    for number, kind in (("x", "str"), (0.0, "float"), (["x"], "list")):
        check(
            lambda: misuse(number),
            TypeError,
            f"{option} numbers positional arguments.\n"
            f"  {option}: {number!r} of type {kind}\n"
            "Pass an int, or a tuple of ints, counted from 0.",
        )


def test_an_argument_that_is_static_and_donated() -> None:
    for options in ({"donate_argnums": 0}, {"donate_argnames": "x"}):
        check(
            lambda: dx.jit(f, static_argnums=-1, **options),
            ValueError,
            "A static argument is part of the program, so it has no memory to donate.\n"
            "  static and donated: x; function: f (HERE)\n"
            "Leave it out of donate_argnums and donate_argnames.",
        )


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (
            lambda: lax.while_loop(lambda c: c < 3, lambda i, c: (i, c), 0),
            r"body_fun: <lambda> \(.*\), which takes \(i, c\)\nhelp",
        ),
        (
            lambda: lax.switch(1, [lambda x: x, lambda: 1.0], 2.0),
            r"passes: .*0 positional arguments but 1 was given\.\n  branches\[1\]: .*, which takes \(\)\nhelp",
        ),
        (
            lambda: lax.map(lambda x, y, scale=1: x, dnp.ones(2)),
            r"'y'\.\n  f: .*, which takes \(x, y, scale=1\)\nhelp\(map\) says what the function gets",
        ),
        (
            lambda: dx.vjp(lambda x, scale=1: x, 1.0, 2.0, 3.0),
            r"from 1 to 2 positional .*\n  fun: .*, which takes \(x, scale=1\)\nhelp\(vjp\)",
        ),
    ],
    ids=["body", "branch", "missing", "default"],
)
def test_a_function_that_takes_other_arguments(misuse: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        misuse()


@pytest.mark.parametrize("argnums", [(0, 0), (1, -1)])
@pytest.mark.parametrize("derivative", [dx.grad, dx.value_and_grad, dx.jacfwd, dx.jacrev, dx.hessian])
def test_an_argument_numbered_twice(derivative: Any, argnums: tuple[int, int]) -> None:
    with pytest.raises(
        ValueError, match=r"(?s)must number each argument once.*argnums: \(.*, pos.*: 2\n.*Leave out"
    ):
        derivative(lambda x, y: x * y, argnums=argnums)(1.0, 2.0)


def test_where_takes_both_or_neither() -> None:
    with pytest.raises(
        ValueError, match=r"both x and y, or neither\.\n  condition: bool\[2\], y: None\nPass the val"
    ):
        dnp.where(dnp.ones(2) > 0, 1.0)


def test_an_error_of_python_gets_the_function_and_its_arguments() -> None:
    x = dnp.ones(3)
    check(
        lambda: dnp.roll(x, 1.5),
        TypeError,
        "roll met an argument that it cannot use: 'float' object cannot be interpreted as an integer.\n"
        "  a: float32[3]\n"
        "  shift: 1.5 of type float\n"
        "Change that argument; help(roll) says what each may be.",
    )
    check(
        lambda: dnp.roll(x, np.float32),  # a type, which has a dtype and a shape of its own
        TypeError,
        "roll met an argument that it cannot use: 'type' object cannot be interpreted as an integer.\n"
        "  a: float32[3]\n"
        "  shift: <class 'numpy.float32'> of type type\n"
        "Change that argument; help(roll) says what each may be.",
    )
    check(
        lambda: lax.scan(f, (1.0, np.ones(2)), [x]),
        TypeError,
        "A function given to scan takes other arguments than scan passes: f() takes 1 positional argument but 2 were "
        "given.\n"
        "  f: f (HERE), which takes (x)\n"
        "help(scan) says what the function gets.",
    )
    check(
        lambda: dx.random.normal(dx.random.key(0), size=(3,)),
        TypeError,
        "normal() got an unexpected keyword argument 'size'.\n  normal(key, shape=(), dtype=None)\n"
        "help(normal) says what each argument is.",
    )
    # What a user's function raises stays as it is, within libraries too.
    for misuse in (lambda _: int("a"), lambda _: np.roll(np.ones(3), object())):
        with pytest.raises((TypeError, ValueError)) as alone:
            misuse(0)
        with pytest.raises((TypeError, ValueError)) as mapped:
            lax.map(misuse, x)
        assert str(mapped.value) == str(alone.value)


def test_has_aux_without_a_pair():
    check(
        lambda: dx.grad(f, has_aux=True)(1.0),
        TypeError,
        """
With has_aux=True the function given to grad returns a pair (result, auxiliary data).
  function: f (HERE)
  returned: float32[]
Return (result, aux), or drop has_aux=True.
""",
    )


def test_grad_of_what_is_no_function():
    check(
        lambda: dx.grad(3.0),
        TypeError,
        """
grad takes a function.
  got: 3.0 of type float
Pass the function itself, grad(f), and call the result.
""",
    )
    check(
        lambda: dx.jit(f(1.0)),
        TypeError,
        """
jit takes a function.
  got: 2.0 of type float
Pass the function itself, jit(f), and call the result.
""",
    )


# --- Tracers ------------------------------------------------------------------------------------------------


def test_tracer_in_an_if():
    @dx.jit
    def branch(x):
        return x if x > 0 else -x

    check(
        lambda: branch(1.0),
        TracerBoolConversionError,
        """
Python cannot branch on a traced array: its truth value is not known while tracing.
  value: bool[], traced by jit of branch (HERE)
  it comes from: HERE (test_tracer_in_an_if.<locals>.branch)
Use didax.lax.cond or didax.numpy.where, for loops didax.lax.while_loop; or make it static (static_argnames of jit).
""",
    )


def test_tracer_in_an_if_under_vmap():
    check(
        lambda: dx.vmap(lambda x: x if x > 0 else -x)(dnp.ones(3)),
        TracerBoolConversionError,
        """
Python cannot branch on a traced array: its truth value is not known while tracing.
  value: bool[], traced by vmap of <lambda> (HERE)
Use didax.lax.cond or didax.numpy.where, for loops didax.lax.while_loop; or make it static (static_argnames of jit).
""",
    )


def test_tracer_as_an_option_under_checkpoint():
    check(
        lambda: dx.checkpoint(lambda x, flag: x if flag else -x)(1.0, True),
        TracerBoolConversionError,
        """
Python cannot branch on a traced array: its truth value is not known while tracing.
  value: bool[], traced by checkpoint of <lambda> (HERE)
  it comes from: argument flag
Use didax.lax.cond or didax.numpy.where, for loops didax.lax.while_loop; or make it static (static_argnums of checkpoint).
""",  # noqa: E501
    )


def test_tracer_as_an_index():
    check(
        lambda: dx.jit(lambda i: [1, 2, 3][i])(1),
        TracerIntegerConversionError,
        """
A traced array cannot be a Python index, a length or part of a shape.
  value: int32[], traced by jit of <lambda> (HERE)
  it comes from: argument i
Index an array (not a list) with it, loop with didax.lax.fori_loop (not over a range), compute shapes from x.shape, or make the argument static (static_argnames of jit).
""",  # noqa: E501
    )


def test_tracer_as_a_length():
    check(
        lambda: dx.jit(lambda n: list(range(n)))(3),
        TracerIntegerConversionError,
        """
A traced array cannot be a Python index, a length or part of a shape.
  value: int32[], traced by jit of <lambda> (HERE)
  it comes from: argument n
Index an array (not a list) with it, loop with didax.lax.fori_loop (not over a range), compute shapes from x.shape, or make the argument static (static_argnames of jit).
""",  # noqa: E501
    )


@pytest.mark.parametrize(
    "window", [dnp.bartlett, dnp.blackman, dnp.hamming, dnp.hanning, lambda M: dnp.kaiser(M, 2.0)]
)
def test_tracer_as_the_length_of_a_window(window: Callable[[Any], Any]) -> None:
    with pytest.raises(
        TracerIntegerConversionError, match=r"(?s)^M of .* long the result is.*argument M\n.*static"
    ):
        dx.jit(window)(3)
    with pytest.raises(
        TypeError, match=r"takes a number of samples\.\n  M: 2.5 of type float\nPass an integer"
    ):
        window(2.5)
    assert window(3.0).shape == (3,)


@pytest.mark.parametrize(
    "use",
    [
        dnp.tril_indices,
        lambda k: dnp.triu_indices(2, k),
        lambda count: dnp.unpackbits(dnp.ones(2, "uint8"), count=count),
    ],
)
def test_tracer_as_a_size(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TracerIntegerConversionError, match="cannot be a Python index, a length"):
        dx.jit(use)(3)


@pytest.mark.parametrize("use", [lambda x: [1, 2][x], range, dnp.zeros, dnp.ones(4).reshape])
def test_number_of_a_gradient_as_an_index(use):
    with pytest.raises(TypeError, match="integer"):
        dx.grad(use)(2.0)


def test_tracer_as_a_shape():
    check(
        lambda: dx.jit(lambda n: dnp.zeros(n))(3),
        TracerIntegerConversionError,
        """
A traced array cannot be a Python index, a length or part of a shape.
  value: int32[], traced by jit of <lambda> (HERE)
  it comes from: argument n
Index an array (not a list) with it, loop with didax.lax.fori_loop (not over a range), compute shapes from x.shape, or make the argument static (static_argnames of jit).
""",  # noqa: E501
    )
    check(
        lambda: dx.jit(lambda x, n: x.reshape(n, -1))(dnp.ones(4), 2),
        TracerIntegerConversionError,
        """
A traced array cannot be a Python index, a length or part of a shape.
  value: int32[], traced by jit of <lambda> (HERE)
  it comes from: argument n
Index an array (not a list) with it, loop with didax.lax.fori_loop (not over a range), compute shapes from x.shape, or make the argument static (static_argnames of jit).
""",  # noqa: E501
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda n: dnp.round(1.0, n),
        lambda n: dnp.diff(dnp.ones(4), n),
        lambda n: dnp.bincount(dnp.arange(3), length=n),
        lambda n: dnp.tensordot(dnp.ones((2, 2)), dnp.ones((2, 2)), n),
    ],
    ids=["decimals", "times", "length", "axes"],
)
def test_tracer_as_a_count(use):
    with pytest.raises(TracerIntegerConversionError, match="it comes from: argument n"):
        dx.jit(use)(1)


def test_tracer_as_a_python_number():
    check(
        lambda: dx.jit(lambda x: int(x))(1.0),
        TracerIntegerConversionError,
        """
A traced array has no int value: its numbers are not known while tracing.
  value: float32[], traced by jit of <lambda> (HERE)
  it comes from: argument x
Keep it an array, or make the argument static (static_argnames of jit).
""",
    )
    check(
        lambda: dx.jit(lambda x: float(x))(1.0),
        ConcretizationTypeError,
        """
A traced array has no float value: its numbers are not known while tracing.
  value: float32[], traced by jit of <lambda> (HERE)
  it comes from: argument x
Keep it an array (didax.numpy instead of math), or compute it outside.
""",
    )
    check(
        lambda: dx.jit(lambda x: complex(x))(1.0),
        ConcretizationTypeError,
        """
A traced array has no complex value: its numbers are not known while tracing.
  value: float32[], traced by jit of <lambda> (HERE)
  it comes from: argument x
Keep it an array (didax.numpy instead of cmath), or compute it outside.
""",
    )


def test_tracer_in_numpy():
    check(
        lambda: dx.jit(lambda x: np.sin(x))(1.0),
        TracerArrayConversionError,
        """
NumPy needs numbers, and a traced array has none yet.
  value: float32[], traced by jit of <lambda> (HERE)
  it comes from: argument x
Use the function of the same name in didax.numpy, or compute this part outside the transformation.
""",
    )
    check(
        lambda: dx.jit(lambda x: np.asarray(x) + 1)(1.0),
        TracerArrayConversionError,
        """
NumPy needs numbers, and a traced array has none yet.
  value: float32[], traced by jit of <lambda> (HERE)
  it comes from: argument x
Use the function of the same name in didax.numpy, or compute this part outside the transformation.
""",
    )


def test_tracer_as_a_key():
    check(
        lambda: dx.jit(lambda x: {x: 1})(1.0),
        TypeError,
        """
Arrays are not hashable, traced or not.
  value: float32[], traced by jit of <lambda> (HERE)
  it comes from: argument x
Hash a static value instead, or use id(x) for identity.
""",
    )


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
    check(
        lambda: leak.kept + 1.0,
        UnexpectedTracerError,
        """
A traced array was used after the transformation that made it had ended.
  value: float32[], made during jit of leaking (HERE)
  it comes from: HERE (Leak.__call__)
Return the value from the transformed function instead of storing it in a global, an attribute or a list.
""",
    )


# --- jit ----------------------------------------------------------------------------------------------------


def test_unhashable_static_argument():
    jitted = dx.jit(lambda x, axes: x.sum(tuple(axes)), static_argnames="axes")
    check(
        lambda: jitted(dnp.ones(3), axes=[0]),
        ArgumentError,
        """
Static arguments of jit must be hashable: they are part of the compilation cache's key.
  argument axes: [0] of type list
Pass a hashable value (a tuple instead of a list), or do not mark the argument static.
""",
    )
    check(
        lambda: jitted(dnp.ones(3), dnp.ones(1)),
        ArgumentError,
        """
Static arguments of jit must be hashable: they are part of the compilation cache's key.
  argument axes: Array([1.], dtype=float32) of type Array
Arrays are data: do not mark the argument static.
""",
    )


def test_argument_that_is_no_array():
    check(
        lambda: dx.jit(lambda p, name: p["w"])({"w": 1.0, "kind": "relu"}, 1),
        TypeError,
        """
The arguments of a function given to jit must be arrays, scalars, or pytrees of them.
  function: <lambda> (HERE)
  argument p['kind']: 'relu' of type str
Convert it to an array, close over it, or mark it static (static_argnums or static_argnames of jit).
""",
    )
    check(
        lambda: dx.grad(f)("abc"),
        TypeError,
        """
The arguments of a function given to grad must be arrays, scalars, or pytrees of them.
  function: f (HERE)
  argument x: 'abc' of type str
Convert it to an array, close over it, or mark it static (static_argnums or static_argnames of jit).
""",
    )
    check(
        lambda: dx.vmap(f)([{"text"}]),
        TypeError,
        """
The arguments of a function given to vmap must be arrays, scalars, or pytrees of them.
  function: f (HERE)
  argument x[0]: {'text'} of type set
Convert it to an array, close over it, or mark it static (static_argnums or static_argnames of jit).
""",
    )
    check(
        lambda: dx.jit(f)(np.array(["a"])),
        TypeError,
        """
The arguments of a function given to jit must be arrays, scalars, or pytrees of them.
  function: f (HERE)
  argument x: array(['a'], dtype='<U1') of type ndarray
Convert it to an array, close over it, or mark it static (static_argnums or static_argnames of jit).
""",
    )


def test_a_shape_in_the_place_of_an_array():
    check(
        lambda: dx.jit(f)(dx.ShapeDtypeStruct((3,), "float32")),
        TypeError,
        """
Only arrays with numbers can be computed with.
  got: ShapeDtypeStruct(shape=(3,), dtype=float32)
Pass an array of this type.
""",
    )


def test_result_that_is_no_array():
    check(
        lambda: dx.jit(lambda x: {"y": [x, "text"]})(1.0),
        TypeError,
        """
The function given to jit must return arrays, scalars, or pytrees of them.
  function: <lambda> (HERE)
  result['y'][1]: 'text' of type str
Return an array there, or return the value by other means (outside the transformation).
""",
    )
    check(
        lambda: dx.vmap(lambda x: print)(dnp.ones(3)),
        TypeError,
        """
The function given to vmap must return arrays, scalars, or pytrees of them.
  function: <lambda> (HERE)
  result: <built-in function print> of type builtin_function_or_method
Return an array there, or return the value by other means (outside the transformation).
""",
    )


def test_static_argument_that_does_not_exist():
    check(
        lambda: dx.jit(lambda x: x, static_argnums=3),
        ValueError,
        """
static_argnums and static_argnames of jit must name arguments of the function.
  not arguments: 3
  function: <lambda> (HERE), arguments: x
Number positional arguments from 0, or give names in static_argnames.
""",
    )
    check(
        lambda: dx.jit(lambda x: x, static_argnames="n"),
        ValueError,
        """
static_argnums and static_argnames of jit must name arguments of the function.
  not arguments: 'n'
  function: <lambda> (HERE), arguments: x
Number positional arguments from 0, or give names in static_argnames.
""",
    )
    check(
        lambda: dx.jit(lambda x, *, n: x, static_argnums=1),
        ValueError,
        """
static_argnums and static_argnames of jit must name arguments of the function.
  not arguments: 1
  function: <lambda> (HERE), arguments: x, n (by keyword only)
Number positional arguments from 0, or give names in static_argnames.
""",
    )


# --- Shapes and dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [lambda f: f, dx.jit, lambda f: dx.grad(lambda x, y: f(x, y).sum())],
    ids=["eager", "jit", "grad"],
)
def test_mismatched_shapes(transform):
    add = transform(lambda x, y: x + y)
    text = raised_by(lambda: add(dnp.ones(3), dnp.ones(4)), ArgumentError)
    assert "(3,), (4,)" in text
    multiply = transform(lambda x, y: x @ y)
    text = raised_by(lambda: multiply(dnp.ones((2, 3)), dnp.ones((2, 3))), ArgumentError)
    assert "float32[2,3]" in text


def test_mismatched_dtypes_in_lax():
    check(
        lambda: dx.jit(lax.add)(dnp.ones(3), dnp.ones(3, "int32")),
        TypeError,
        """
add takes operands of one dtype.
  operands: float32[3], int32[3]
Cast one of them (x.astype), or use didax.numpy.add, which promotes.
""",
    )


@pytest.mark.parametrize("reduction", ["max", "min", "argmax", "argmin"])
def test_reduction_of_a_zero_size_axis(reduction):
    reduce = getattr(dnp, reduction)
    text = raised_by(lambda: reduce(dnp.zeros((2, 0)), axis=1), ValueError)
    assert "float32[2,0]" in text
    assert reduce(dnp.zeros((0, 2)), axis=1).shape == (0,)


# --- vmap ---------------------------------------------------------------------------------------------------


def test_in_axes_out_of_range():
    check(
        lambda: dx.vmap(lambda p, y: y, in_axes=(2, None))({"w": dnp.ones((2, 3))}, 1.0),
        ValueError,
        """
in_axes of vmap must name an axis that the argument has.
  argument p['w']: float32[2,3], axis 2
  function: <lambda> (HERE)
Use an axis from -2 to 1, or None to pass the argument whole.
""",
    )
    check(
        lambda: dx.vmap(f)(1.0),
        ValueError,
        """
in_axes of vmap must name an axis that the argument has.
  argument x: float32[], axis 0
  function: f (HERE)
A scalar has no axis to map: use None to pass it whole.
""",
    )


def test_in_axes_of_the_wrong_length():
    check(
        lambda: dx.vmap(f, in_axes=(0, 0))(dnp.ones(3)),
        ValueError,
        """
A tuple of in_axes of vmap has one entry for each positional argument.
  in_axes: (0, 0) (2 entries), positional arguments: 1
  function: f (HERE)
Give each positional argument an entry; keyword arguments are mapped over axis 0.
""",
    )


def test_in_axes_of_another_structure():
    check(
        lambda: dx.vmap(lambda p: p["w"], in_axes=({"w": 0, "b": 0},))({"w": dnp.ones(3)}),
        ValueError,
        """
vmap in_axes must be a tree prefix of args.
  in_axes[0] is a dict with keys 'b', 'w', but args[0] is a dict with keys 'w'
  in_axes: PyTreeDef(({'b': *, 'w': *},))
  args: PyTreeDef(({'w': *},))
Give in_axes the containers of args there, or one leaf in place of a whole subtree.
""",
    )


def test_in_axes_that_are_no_integers():
    check(
        lambda: dx.vmap(f, in_axes="0"),
        TypeError,
        """
in_axes of vmap consists of integers and None, alone or in a prefix of the pytree.
  in_axes: '0', which holds '0' of type str
Write an integer, None, or a tuple, list or dict of these.
""",
    )
    check(
        lambda: dx.vmap(f, out_axes=0.5),
        TypeError,
        """
out_axes of vmap consists of integers and None, alone or in a prefix of the pytree.
  out_axes: 0.5, which holds 0.5 of type float
Write an integer, None, or a tuple, list or dict of these.
""",
    )


def test_in_axes_by_a_name_that_is_no_argument():
    check(
        lambda: dx.vmap(lambda x: x, in_axes={"y": 0})(dnp.ones(3)),
        ValueError,
        """
A dictionary of in_axes of vmap names arguments of the call.
  not arguments: y; arguments: x
Use the parameter names of the function; arguments left out are mapped over axis 0.
""",
    )


def test_batches_of_different_lengths():
    check(
        lambda: dx.vmap(lambda x, y: x + y)(dnp.ones(3), dnp.ones((4, 2))),
        ValueError,
        """
All axes that vmap maps must have one length.
  argument x: float32[3], axis 0 has length 3
  argument y: float32[4,2], axis 0 has length 4
Map axes of equal length, or pass an argument whole with None in in_axes.
""",
    )
    check(
        lambda: dx.vmap(lambda x: x, axis_size=2)(dnp.ones(3)),
        ValueError,
        """
All axes that vmap maps must have one length.
  axis_size: 2
  argument x: float32[3], axis 0 has length 3
Map axes of equal length, or pass an argument whole with None in in_axes.
""",
    )


def test_nothing_to_map():
    check(
        lambda: dx.vmap(f, in_axes=None)(1.0),
        ValueError,
        """
vmap needs at least one mapped argument, or axis_size.
  function: f (HERE), arguments: 1 positional, 0 by keyword
Map an argument with in_axes, or pass axis_size=n.
""",
    )
    check(
        lambda: dx.vmap(lambda: 1.0)(),
        ValueError,
        """
vmap needs at least one mapped argument, or axis_size.
  function: <lambda> (HERE), arguments: 0 positional, 0 by keyword
Map an argument with in_axes, or pass axis_size=n.
""",
    )


def test_out_axes_out_of_range():
    check(
        lambda: dx.vmap(f, out_axes=2)(dnp.ones(3)),
        ValueError,
        """
out_axes of vmap must name an axis that the batched result has.
  result: float32[] for each element, axis 2
  function: f (HERE)
Use an axis from -1 to 0.
""",
    )


def test_out_axes_none_for_a_batched_result():
    check(
        lambda: dx.vmap(f, out_axes=None)(dnp.ones(3)),
        ValueError,
        """
out_axes of vmap is None for a result that depends on the batch.
  result: float32[] for each element
  function: f (HERE)
Give it an axis in out_axes, or reduce it over the batch (lax.pmean with axis_name).
""",
    )


def test_out_axes_of_another_structure():
    check(
        lambda: dx.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(dnp.ones(3)),
        ValueError,
        """
vmap out_axes must be a tree prefix of result.
  out_axes is a tuple of 3, but result is a tuple of 2
  out_axes: PyTreeDef((*, *, *))
  result: PyTreeDef((*, *))
Give out_axes the containers of result there, or one leaf in place of a whole subtree.
""",
    )


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


def test_frames_of_the_library_are_marked_or_kept_beside():
    """As JAX's other values of the option ask: for tools that hide marked frames, and with all frames in the cause."""
    from didax.core import config
    from didax.core.errors import UnfilteredStackTrace

    nested = dx.jit(lambda x: dx.grad(boom)(x))
    with config.override(traceback_filtering="tracebackhide"), pytest.raises(ZeroDivisionError) as caught:
        nested(1.0)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    shown = {frame.f_code.co_filename for frame in frames if "__tracebackhide__" not in frame.f_locals}
    assert shown == {HERE} and len(frames) > 10
    with config.override(traceback_filtering="remove_frames"), pytest.raises(ZeroDivisionError) as caught:
        nested(1.0)
    whole = caught.value.__cause__
    assert isinstance(whole, UnfilteredStackTrace)
    count = lambda error: len(traceback.extract_tb(error.__traceback__))
    assert count(caught.value) == 3 and count(whole) > 10


@pytest.mark.parametrize("look", ["explain", "make_jaxpr"])
def test_functions_that_return_functions_say_so(look: str) -> None:
    take: Any = getattr(dx, look)
    for given in (dnp.ones(3), 1.0, "x"):
        with pytest.raises(
            TypeError, match=rf"{look} takes a function, and returns(?s:.*)Write {look}\(f\)\(x\)"
        ):
            take(lambda x: x, given)
    with pytest.raises(TypeError, match=f"{look} takes a function\\."):
        take(dnp.ones(3))


@pytest.mark.parametrize("transform", [dx.jit, dx.grad, dx.vmap], ids=lambda f: f.__name__)
def test_a_compiled_program_takes_no_traced_arrays(transform: Any) -> None:
    compiled = dx.jit(lambda x: x * 2).lower(2.0).compile()
    with pytest.raises(TypeError, match=r"takes no traced arrays(?s:.*)transform the jitted function"):
        transform(compiled)(dnp.ones(2) if transform is dx.vmap else 2.0)


@pytest.mark.parametrize("many", ["3", 2.0, 0, True])
def test_counts_of_windows_are_integers(many: Any) -> None:
    with pytest.raises(ValueError, match="max_operations"):
        dx.debug.graph(dx.make_jaxpr(lambda x: x * 2)(1.0), max_operations=many)
    with pytest.raises(ValueError, match="max_rows"):
        dx.tree.show([1.0], max_rows=many)


def test_what_explore_shows_is_named() -> None:
    wrong: Any = 3
    with pytest.raises(ValueError, match=r"(?s:explore shows a function.*transform: 3)"):
        dx.explore(lambda x: x, 1.0, transform=wrong)


def test_objects_that_are_no_pytrees():
    @dataclasses.dataclass
    class Layer:
        w: Any

    class Model:
        def __init__(self) -> None:
            self.w = 1.0

        def __repr__(self) -> str:
            return "Model()"

    check(
        lambda: dx.jit(lambda layer: layer.w)(Layer(1.0)),
        TypeError,
        """
The arguments of a function given to jit must be arrays, scalars, or pytrees of them.
  function: <lambda> (HERE)
  argument layer: test_objects_that_are_no_pytrees.<locals>.Layer(w=1.0) of type Layer
Decorate the class with didax.tree_util.register_dataclass, or mark the argument static (static_argnums or static_argnames of jit).
""",  # noqa: E501
    )
    check(
        lambda: dx.grad(lambda model: model.w)(Model()),
        TypeError,
        """
The arguments of a function given to grad must be arrays, scalars, or pytrees of them.
  function: <lambda> (HERE)
  argument model: Model() of type Model
Say with didax.tree_util.register_pytree_node which arrays it holds. Convert it to an array, close over it, or mark it static (static_argnums or static_argnames of jit).
""",  # noqa: E501
    )


def test_arrays_that_are_not_in_one_list():
    check(
        lambda: dnp.concatenate(dnp.ones(2), dnp.ones(2)),
        ArgumentError,
        """
concatenate joins arrays of at least one axis, and an array of numbers has none to give.
  got: float32[2]
Give concatenate one list of all the arrays; for scalars use stack, or add axes.
""",
    )
    check(
        lambda: dx.random.choice(dx.random.key(0), ["a", "b"]),
        TypeError,
        """
choice draws from an array, or from the integers below a number.
  a: ['a', 'b'] of type list
Convert it with didax.numpy.asarray; where it holds no numbers, draw positions: choice(key, len(a)).
""",
    )
    check(
        lambda: dx.jit(lambda x, n: x[:n])(dnp.ones(3), 2),
        TracerSliceError,
        """
The bounds of a slice fix the shape of the result, so they cannot be traced.
  slice: :int32[], axis 0 of float32[3]
  value: int32[], traced by jit of <lambda> (HERE)
  it comes from: argument n
Use didax.lax.dynamic_slice(x, starts, sizes) with static sizes, or mask with where.
""",
    )


def test_arguments_of_random_functions_that_are_no_arrays():
    key = dx.random.key(0)
    check(
        lambda: dx.random.normal(key, 0.0, 1.0),
        TypeError,
        """
normal takes a shape of integers.
  shape: 0.0
Pass an int or a tuple of ints.
""",
    )
    misuses: dict[str, Callable[[], Any]] = {
        "permutation takes arrays and numbers.\n  x: [1, 2] of type list": lambda: dx.random.permutation(
            key, [1, 2]
        ),
        "categorical takes arrays and numbers.\n  logits: (1,) of": lambda: dx.random.categorical(key, (1,)),
        "choice takes arrays and numbers.\n  p: [1.0] of": lambda: dx.random.choice(key, 1, p=[1.0]),
        "fold_in takes arrays and numbers.\n  data: 'a' of": lambda: dx.random.fold_in(key, "a"),
    }
    for text, misuse in misuses.items():
        found = raised_by(misuse, TypeError)
        assert found.startswith(text) and found.endswith(
            "Convert it with didax.numpy.asarray, if it is made of numbers."
        )


# --- What is made of functions and types ---------------------------------------------------------------------

MAKERS: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("signature", lambda: dnp.vectorize(f, signature=2.5), ArgumentError, "vectorize.*signature: 2.5"),  # type: ignore[arg-type]
    ("excluded", lambda: dnp.vectorize(f, excluded=2.5), TypeError, "vectorize.*excluded: 2.5"),  # type: ignore[arg-type]
    ("func", lambda: dnp.frompyfunc(3, 1, 1), TypeError, "frompyfunc.*3"),  # type: ignore[arg-type]
    ("nin", lambda: dnp.frompyfunc(f, 2.5, 1), ArgumentError, "frompyfunc.*nin: 2.5"),  # type: ignore[arg-type]
    ("nout", lambda: dnp.frompyfunc(f, 1, -1), ArgumentError, "frompyfunc.*nout: -1"),
    ("from_", lambda: dnp.can_cast("foo", "int8"), ArgumentError, "can_cast.*from_: 'foo'"),
    ("to", lambda: dnp.can_cast("int8", 2.5), ArgumentError, "can_cast.*to: 2.5"),  # type: ignore[arg-type]
    ("casting", lambda: dnp.can_cast("int8", "int8", "bar"), ValueError, "can_cast.*casting: 'bar'"),
    (
        "nondiff_argnums",
        lambda: dx.custom_jvp(f, nondiff_argnums=2.5),
        ArgumentError,
        "custom_jvp.*: 2.5",
    ),  # type: ignore[arg-type]
    (
        "nondiff_argnums",
        lambda: dx.custom_rules(f, nondiff_argnums=("x",)),
        ArgumentError,
        r"custom_rules.*\('x',\)",
    ),  # type: ignore[arg-type]
    (
        "nondiff_argnames",
        lambda: dx.custom_vjp(f, nondiff_argnames=(2,)),
        ArgumentError,
        r"custom_vjp.*\(2,\)",
    ),  # type: ignore[arg-type]
    (
        "axis_names",
        lambda: dx.shard_map(f, out_specs=dx.P(), axis_names=2.5),
        ArgumentError,
        "shard_map.*axis_names: 2.5",
    ),
    ("backend", lambda: dx.devices({}), RuntimeError, "Unknown backend {}"),  # type: ignore[arg-type]
    ("process", lambda: dx.process_count({}), ArgumentError, "name of a platform.*got: {}"),  # type: ignore[arg-type]
    ("mesh", lambda: dx.make_mesh(("1",), ("x",)), ArgumentError, r"axis_shapes: \('1',\)"),  # type: ignore[arg-type]
    ("negative mesh", lambda: dx.make_mesh((-1,), ("x",)), ArgumentError, r"axis_shapes: \(-1,\)"),
    ("buckets", lambda: dx.Buckets(("n", 2.5)), ArgumentError, r"got: 2.5 in \('n', 2.5\)"),
    ("shape", lambda: dx.ShapeDtypeStruct(2.5, "float32"), ArgumentError, "ShapeDtypeStruct.*shape: 2.5"),
    ("Partial", lambda: dx.tree_util.Partial(2.5), TypeError, "Partial.*func: 2.5"),  # type: ignore[arg-type]
    ("axis_size", lambda: dx.vmap(f, axis_size={})(dnp.ones(2)), TypeError, "vmap.*axis_size: {}"),  # type: ignore[arg-type]
    ("axis_name", lambda: dx.vmap(f, axis_name={})(dnp.ones(2)), TypeError, "vmap.*axis_name: {}"),
]


@pytest.mark.parametrize(
    ("misuse", "error", "text"), [row[1:] for row in MAKERS], ids=[row[0] for row in MAKERS]
)
def test_makers_name_the_argument_and_its_value(
    misuse: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"(?s){text}"):
        misuse()


TWO = np.array([1, 2])  # neither true nor false, nor equal to a choice
DATE = np.datetime64("2020-01-01")
VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "f of tree.map": (lambda: dx.tree.map(3, TWO), "map met.*f: 3 of type int"),  # type: ignore[arg-type]
    "is_leaf": (lambda: dx.tree.map(f, TWO, is_leaf=2), "is_leaf: 2 of type int"),  # type: ignore[arg-type]
    "is_leaf of paths": (lambda: dx.tree.leaves_with_path(TWO, is_leaf=2), "is_leaf: 2 of type int"),  # type: ignore[arg-type]
    "leaf": (lambda: dx.tree.all(TWO), r"all met.*tree: int64\[2\]"),
    "iterable": (lambda: dx.tree_util.all_leaves(3), "all_leaves met.*iterable: 3 of type int"),  # type: ignore[arg-type]
    "structures": (lambda: dx.tree_util.treedef_tuple([3]), r"takes structures.*treedefs\[0\]: 3"),  # type: ignore[list-item]
    "bw_method": (
        lambda: scipy.stats.gaussian_kde(dnp.arange(3.0), b"a"),  # type: ignore[arg-type]
        "bw_method",
    ),
    "keys": (lambda: dx.tree_util.keystr(3), "keystr met.*keys: 3 of type int"),  # type: ignore[arg-type]
    "dataclass": (lambda: dx.tree_util.register_dataclass(3), "class.*nodetype is 3, of type int"),  # type: ignore[arg-type]
    "flatten_func": (
        lambda: dx.tree_util.register_pytree_node(type("C", (), {}), None, f),  # type: ignore[arg-type]
        "flatten_func is a function.*None",
    ),
    "node": (lambda: dx.tree_util.is_tree_node(3), "class.*nodetype is 3, of type int"),  # type: ignore[arg-type]
    "axis_sizes": (lambda: dx.sharding.AbstractMesh(True, "x"), "AbstractMesh met.*axis_sizes: True"),  # type: ignore[arg-type]
    "axis_names": (lambda: dx.sharding.Mesh(dx.devices(), 3), "Mesh met.*axis_names: 3 of type int"),
    "device": (
        lambda: dx.sharding.SingleDeviceSharding(None),
        "SingleDeviceSharding met.*arguments.\n  device: None",
    ),
    "unreduced": (lambda: dx.P(unreduced=TWO), r"PartitionSpec met.*unreduced: int64\[2\]"),
    "varying": (lambda: dx.sharding.ManualAxisType(varying=None), "varying: None"),  # type: ignore[arg-type]
    "backend": (lambda: dx.device_count(TWO), r"device_count met.*backend: int64\[2\]"),  # type: ignore[arg-type]
    "an option": (lambda: dx.enable_x64(TWO), r"'enable_x64' takes one value.*shape \(2,\)"),  # type: ignore[arg-type]
    "an idle option": (lambda: dx.threefry_partitionable(TWO), r"takes one value.*shape \(2,\)"),  # type: ignore[arg-type]
    "a choice": (lambda: dnp.linalg.qr(dnp.eye(2), TWO), "4 choices of mode.*array"),  # type: ignore[arg-type]
    "rules": (lambda: dx.custom_rules(f, jvp=()), r"custom_rules are functions.*jvp: \(\)"),  # type: ignore[arg-type]
    "a pair of rules": (lambda: dx.custom_rules(f, vjp=f), "custom_rules are functions.*vjp: <function"),  # type: ignore[arg-type]
    "subscripts": (
        lambda: dnp.einsum(b"a", dnp.ones(2)),
        r"einsum takes labels.*arguments: b'a', float32\[2\]",
    ),
    "label of the result": (
        lambda: dnp.einsum(dnp.eye(2), [0, 1], [0, 5]),
        "einsum takes the labels of its result.*label of the result: 5, labels of the operands: 0, 1",
    ),
    "labels that are no list": (
        lambda: dnp.einsum(dnp.eye(2), 0, dnp.eye(2), [0, 1]),
        r"einsum takes labels.*arguments: float32\[2,2\], 0, float32\[2,2\], \[0, 1\]",
    ),
    "labels without an order": (
        lambda: dnp.einsum(dnp.eye(2), [0, "a"]),
        r"einsum sorts labels.*labels: \[0, 'a'\]",
    ),
    "labels of the caller's": (
        lambda: dnp.einsum(dnp.eye(2), [4, 7, 5], [4]),
        "subscripts: 'acb->a'.*letters: a for 4, b for 5, c for 7",
    ),
    "assignment by at": (
        lambda: dnp.ones(3).at.__setitem__(0, 1),
        r"immutable: `at` takes no assignment.*float32\[3\]\nWrite x = x.at\[i\].set\(v\)",
    ),
    "addition by at": (lambda: operator.iadd(dnp.ones(3).at[0], 1), "immutable: `at` takes no assignment"),
    "at without an index": (
        lambda: dnp.ones(3).at.add(1),  # type: ignore[attr-defined]
        r"An index stands in brackets.*attribute: add\nWrite x.at\[i\].add\(...\)",
    ),
    "method of at": (
        lambda: dnp.ones(3).at[0].append(1),
        r"has no method append.*float32\[3\]\nUse one of add, apply, divide, get, max,",
    ),
    "append": (lambda: dnp.ones(3).append(1), "no append.*Write x = didax.numpy.append"),  # type: ignore[attr-defined]
    "bins": (lambda: dnp.histogram(TWO, -1), "one bin or more.\n  bins: -1"),
    "axes of fft2": (lambda: dnp.fft.fft2(dnp.eye(2), axes=None), "fft2 transforms two axes.*None.*fftn"),  # type: ignore[arg-type]
    "name of a place": (
        lambda: dx.debug.print("{y}", x=1),
        r'debug.print needs a value for each name.*place: {y}, names given: x\nPass it: debug.print\("{y}", y=...\)',
    ),
    "points": (
        lambda: scipy.interpolate.RegularGridInterpolator(True, TWO),  # type: ignore[arg-type]
        "RegularGridInterpolator met.*points: True",
    ),
    "dimensions": (lambda: lax.RaggedDotDimensionNumbers(3, 2, 1), "RaggedDot.* met.*_dimensions: 2 of type"),  # type: ignore[arg-type]
    "atol": (lambda: lax.Tolerance(atol="a"), "atol='a'"),  # type: ignore[arg-type]
    "text of an array": (lambda: dnp.array_repr(object()), "array_repr met.*arr: <object"),  # type: ignore[arg-type]
    "layout": (lambda: dx.experimental.layout.Layout(3), "Layout met.*major_to_minor: 3 of type int"),  # type: ignore[arg-type]
    "gates": (lambda: rnn.get_num_params_in_lstm("s", 2, 3, True), "get_num.* met.*input_size: 's'"),  # type: ignore[arg-type]
    "a program's text": (lambda: dx.extend.core.parse_jaxpr(TWO), r"parse_jaxpr met.*int64\[2\]"),  # type: ignore[arg-type]
    "constraints": (lambda: dx.export.SymbolicScope(3), "SymbolicScope met.*constraints_str: 3"),  # type: ignore[arg-type]
    "n_batch": (
        lambda: sparse.bcoo_fromdense(dnp.eye(2), n_batch="s"),  # type: ignore[arg-type]
        r"bcoo_fromdense met.*mat: float32\[2,2\]\n  n_batch: 's'",
    ),
    "a sparse array": (lambda: sparse.coo_todense(TWO), r"coo_todense met.*mat: int64\[2\]"),
    "ranks": (lambda: sparse.bcsr_extract(2, 2, 2), r"bcsr_extract takes.*indptr: int32\[\]"),
    "directory": (lambda: checkpoints.steps(f), "steps met.*directory: f"),  # type: ignore[arg-type]
    "offset": (lambda: dnp.diagonal(dnp.eye(2), 0.5), "diagonal met.*offset: 0.5"),  # type: ignore[arg-type]
    "a date": (lambda: dnp.hamming(DATE), "hamming takes a number of samples.*M: np.datetime64"),  # type: ignore[arg-type]
    "a text": (lambda: dnp.insert(TWO, "s", 1), "insert met.*obj: 's' of type str"),
    "texts": (lambda: dnp.float16(["a"]), "array takes numbers.*got: 'a' of type str"),
    "None": (lambda: dnp.array([None, 1], "float32"), "array takes numbers.*got: None"),
}


@pytest.mark.parametrize("case", VALUES)
def test_what_python_or_numpy_refuses_is_named(case: str) -> None:
    misuse, text = VALUES[case]
    with pytest.raises((TypeError, ValueError, AttributeError, KeyError), match=f"(?s){text}"):
        misuse()


# --- Types in the place of arrays ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize(
    "use",
    [
        lambda s: lax.mul(dnp.ones(s.shape), s),
        lambda s: lax.eq(s, s),
        lambda s: lax.broadcast(s, (2,)),
        lambda s: lax.stop_gradient(s),
        lambda s: dx.vmap(lambda x: lax.mul(s, x))(dnp.ones(3)),
        lambda s: dx.jit(lambda: lax.neg(s))(),
        lambda s: dx.jit(lambda: s)(),
    ],
    ids=["mul", "eq", "broadcast", "stop_gradient", "vmap", "jit", "result"],
)
def test_types_are_no_arrays(use: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=r"(?s)Only arrays with numbers can be computed with.*got: Shape"):
        use(dx.ShapeDtypeStruct(shape, "float32"))


def test_whether_dtypes_of_other_libraries_are_complex() -> None:
    for x in (np.array(["a"]), np.array([None]), np.longdouble(1), np.datetime64("2020-01-01")):
        assert dnp.isrealobj(x) and not dnp.iscomplexobj(x)
    assert dnp.iscomplexobj(np.clongdouble(1))
