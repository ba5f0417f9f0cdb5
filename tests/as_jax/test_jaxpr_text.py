"""Texts of jaxprs through the layer beside those of JAX, for programs that are made of the same operations."""

import jax
import numpy as np
import pytest

import didax as dx
from didax.as_jax import programs
from tests.as_jax.test_jaxprs import AS_IN_0_10

X = np.float32([1.0, 2.0, 3.0])


def one_line(lib):
    return lambda x: lib.numpy.sin(x)


def several_lines(lib):
    return lambda x: (lib.numpy.sin(x) * 2 + 1, 2.0, True)


def long_parameters(lib):
    return lambda x: lib.lax.reduce_window(x, -np.inf, lib.lax.max, (2,), (1,), "VALID")


def programs_in_parameters(lib):
    return lambda x: lib.lax.while_loop(lambda c: lib.numpy.sum(c) < 9, lambda c: c + 1, x)


def branches(lib):
    return lambda x: lib.lax.switch(lib.lax.argmax(x, 0, "int32"), [lambda y: y + 1, lambda y: y], x)


def operations_without_operands(lib):
    return lambda x: x + lib.lax.iota("float32", 3)


def constants(lib):
    captured = lib.numpy.ones(3)
    return lambda x: x + captured


def rematerialization(lib):
    return lib.checkpoint(lambda x: lib.numpy.sin(lib.numpy.cos(x)))


def a_call(lib):
    inner = lib.jit(lambda x, y: (x + y, x))
    return lambda x: inner(x, x)


def calls_of_the_same(lib):
    inner = lib.jit(lambda x: x + 1)
    return lambda x: inner(inner(x))


def a_long_call_of_many(lib):
    inner = lib.jit(lambda *xs: sum(xs))
    return lambda x: inner(*[x + i for i in range(14)])


def nobody_reads_it(lib):
    return lambda x: (lib.numpy.sin(x), x)[1]


FUNCTIONS = [
    one_line, several_lines, long_parameters, programs_in_parameters, branches, operations_without_operands, constants,
    rematerialization, a_call, calls_of_the_same, a_long_call_of_many, nobody_reads_it,
]  # fmt: skip


@AS_IN_0_10
@pytest.mark.parametrize("function", FUNCTIONS)
def test_texts_are_those_of_jax(function) -> None:
    assert str(programs.make_jaxpr(function(dx))(X)) == str(jax.make_jaxpr(function(jax))(X))


@AS_IN_0_10
def test_functions_with_rules_have_the_names_of_jax() -> None:
    def of(lib):
        f = lib.custom_jvp(lambda x: lib.numpy.sin(x))
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        return f

    assert (
        str(programs.make_jaxpr(of(dx))(X)).replace("<jvp", "jvp").split("jvp=")[0]
        == str(jax.make_jaxpr(of(jax))(X)).split("jvp=")[0]
    )


def test_an_equation_names_its_results_first() -> None:
    (eqn,) = programs.make_jaxpr(lambda x: dx.numpy.sin(x))(X).eqns
    assert str(eqn) == "a:f32[3] = sin b"
