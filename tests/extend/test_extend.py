"""What is published for extensions: the names stay, and a package that uses nothing else works in every composition."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr_parse import parse_jaxpr
from didax.extend import core, dtypes, random, rules, testing

# A name goes from here only after a minor version in which it is deprecated (docs/versions.md).
PUBLISHED = {
    core: "Atom ClosedJaxpr Effect Eqn Jaxpr JaxprEqn JaxprTypeError Literal MissingRuleError Primitive RuleError "
    "RuleTypeError ShapedArray Trace Tracer Var aval_of check_jaxpr current_trace eval_jaxpr jaxpr_as_fun "
    "nested_jaxprs num_consts parse_jaxpr register_param_type run_under",
    rules: "AxisData Elementwise FunctionContext LinearUnary Undef Value Zero add_tangents binary instantiate is_undef "
    "lower_as move_batch_axis unary",
    dtypes: "ExtendedDtype as_extended extended register_extended",
    testing: "RTOL Trial assert_close check check_grads check_jvp check_linearize check_vjp random_like",
    random: "PRNGImpl define_prng_impl random_seed rbg_prng_impl seed_with_impl threefry_2x32 threefry_prng_impl "
    "unsafe_rbg_prng_impl",
}


@pytest.mark.parametrize("module", PUBLISHED, ids=lambda m: m.__name__)
def test_the_published_names_are_these(module: Any) -> None:
    assert sorted(module.__all__) == sorted(PUBLISHED[module].split())
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_tutorial_uses_the_public_surface_only() -> None:
    page = (Path(__file__).parents[2] / "docs/extending.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if ">>> " in block:
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                assert node.module in ("didax", "didax.extend")
            elif isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= {"didax", "didax.numpy", "numpy"}


# --- A package from outside ---------------------------------------------------------------------------------


class SumAndDifference(core.Primitive):
    """`x + y` and `x - y` at once: several results, with NumPy's and XLA's version of it."""

    multiple_results = True

    def type(self, x: Any, y: Any) -> list[Any]:
        if x.shape != y.shape or x.dtype != y.dtype:
            raise TypeError(f"sum_and_difference takes two arrays of one type, got {x} and {y}")
        return [x, x]

    def eager(self, x: Any, y: Any) -> list[Any]:
        return [x + y, x - y]

    def lower(self, ctx: rules.FunctionContext, x: rules.Value, y: rules.Value) -> list[rules.Value]:
        return [ctx.op("add", [x, y]), ctx.op("subtract", [x, y])]

    def jvp(self, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        outs = self.bind(*primals)
        if all(type(t) is rules.Zero for t in tangents):
            return outs, [rules.Zero(core.aval_of(y).tangent()) for y in outs]
        return outs, self.bind(*map(rules.instantiate, tangents))

    def transpose(self, cts: Any, x: Any, y: Any) -> list[Any]:
        s, d = self.bind(*map(rules.instantiate, cts))
        return [s if rules.is_undef(x) else None, d if rules.is_undef(y) else None]

    def batch(self, axis: rules.AxisData, args: Any, dims: Any) -> tuple[list[Any], list[int]]:
        args = [rules.move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)]
        return self.bind(*args), [0, 0]


sum_and_difference_p = SumAndDifference("sum_and_difference_of_a_test")


def f(x: Any, y: Any) -> Any:
    total, difference = sum_and_difference_p.bind(x * y, y)
    return dnp.sin(total) * difference


def plain(x: Any, y: Any) -> Any:
    return dnp.sin(x * y + y) * (x * y - y)


def looped(g: Any) -> Any:
    """Two steps of a scan and a branch with the function inside."""

    def step(carry: Any, y: Any) -> Any:
        return lax.cond(y.sum() > 0, lambda: g(carry, y), lambda: carry * y), None

    return lambda x, y: lax.scan(step, x, dnp.stack([y, -y, 0.5 * y]))[0]


TRANSFORMATIONS = {
    "jit": dx.jit,
    "vmap": lambda g: lambda x, y: dx.vmap(g, in_axes=(0, None))(dnp.stack([x, 2 * x]), y),
    "grad": lambda g: dx.grad(lambda x, y: g(x, y).sum()),
    "jvp": lambda g: lambda x, y: dx.jvp(g, (x, y), (y, x))[1],
    "linearize": lambda g: lambda x, y: dx.linearize(g, x, y)[1](y, x),
    "vjp": lambda g: lambda x, y: dx.vjp(lambda y: g(x, y), y)[1](g(x, y))[0],
    "control flow": looped,
}


# The mapped function has results of two axes, for which these have no operand.
PAIRS = {*itertools.product(TRANSFORMATIONS, repeat=2)} - {
    (n, "vmap") for n in ("vmap", "vjp", "control flow")
}


@pytest.mark.parametrize("names", sorted(PAIRS), ids="-".join)
def test_a_primitive_from_outside_works_in_every_composition(names: tuple[str, str]) -> None:
    x, y = np.float32([0.3, -0.7]), np.float32([1.1, 0.4])
    results = []
    for g in (f, plain):
        for name in reversed(names):
            g = TRANSFORMATIONS[name](g)
        results.append(np.asarray(g(x, y)))
    np.testing.assert_allclose(*results, rtol=2e-5, atol=1e-6)


def test_its_jaxprs_are_checked_printed_and_parsed() -> None:
    closed = dx.make_jaxpr(dx.grad(lambda x: f(x, x)))(2.0)
    core.check_jaxpr(closed.jaxpr)
    assert "sum_and_difference_of_a_test" in str(closed)
    assert str(core.parse_jaxpr(str(closed.jaxpr))) == str(closed.jaxpr)
    assert core.jaxpr_as_fun(closed)(2.0)[0] == dx.grad(lambda x: plain(x, x))(2.0)


def test_its_errors_reach_the_user() -> None:
    with pytest.raises(TypeError, match=r"two arrays of one type, got float32\[2\] and float32\[3\]"):
        dx.jit(sum_and_difference_p.bind)(np.ones(2, np.float32), np.ones(3, np.float32))


def test_a_function_that_captures_arrays_cannot_be_a_lowering() -> None:
    table = dnp.arange(3.0)

    class Looked(core.Primitive):
        def type(self, x: Any) -> Any:
            return x

        lower = rules.lower_as(lambda x: x + table.sum() * table[0] + table.reshape(3)[1] * table @ table)

    with pytest.raises(
        TypeError, match=r"captures arrays.\n.*\n  captured: float32\[3\]\nMake them operands"
    ):
        dx.jit(Looked("looked_up_of_a_test").bind)(2.0)


def test_an_array_of_numpy_is_captured_too() -> None:
    class Ramp(core.Primitive):
        def type(self, x: Any) -> Any:
            return x

        lower = rules.lower_as(lambda x: x + np.arange(3, dtype="float32"))

    with pytest.raises(
        TypeError, match=r"captured: float32\[3\]\nMake them operands.*NumPy's arrays are captured"
    ):
        dx.jit(Ramp("ramp_of_a_test").bind)(np.ones(3, "float32"))


def test_an_operation_of_another_dialect_is_written_with_its_name() -> None:
    sinh = rules.unary("sinh_of_a_test", accepts="f", lower=lambda ctx, x: ctx.op("chlo.sinh", [x]))
    np.testing.assert_allclose(dx.jit(sinh)(np.float32(1.0)), np.sinh(1.0), rtol=1e-6)


def test_what_is_no_jaxpr_is_refused() -> None:
    closed = dx.make_jaxpr(lambda x, y: x * y)(1.0, 2.0)
    wrong: Any = closed
    with pytest.raises(TypeError, match=r"eval_jaxpr takes a Jaxpr\.\n  given: ClosedJaxpr\n.*jaxpr_as_fun"):
        core.eval_jaxpr(wrong, [1.0, 2.0])
    with pytest.raises(
        TypeError, match=r"check_jaxpr takes a Jaxpr\.\n  given: ClosedJaxpr\n.*closed\.jaxpr"
    ):
        core.check_jaxpr(wrong)
    with pytest.raises(ValueError, match=r"inputs: float32\[\], float32\[\]\n  arguments: 1\n"):
        core.eval_jaxpr(closed.jaxpr, [1.0])
    array: Any = np.ones(2)
    with pytest.raises(TypeError, match=r"takes the list of the arguments\.\n  given: ndarray\nPass \[x\]"):
        core.eval_jaxpr(closed.jaxpr, array)


def test_run_under_takes_a_trace_and_the_list_of_arguments() -> None:
    array: Any = np.ones(2)
    with pytest.raises(
        TypeError, match=r"run_under takes the list of the arguments\.\n  given: ndarray\nPass \[x\]"
    ):
        core.run_under(core.current_trace(), dnp.sin, array)
    of_classes: Any = core.Trace
    with pytest.raises(TypeError, match=r"an instance of a Trace\.\n  trace: <class '.*Trace'>\nMake one"):
        core.run_under(of_classes, dnp.sin, [array])


def test_a_trace_without_process_is_told_so() -> None:
    class Nothing(core.Trace):
        pass

    with pytest.raises(NotImplementedError, match="Nothing has no `process` method"):
        core.run_under(Nothing(core.current_trace()), lambda: dnp.sin(dnp.ones(2)), ())


@pytest.mark.parametrize("f", [lambda x: dnp.sin(x) * 2, lambda x: lax.sort((x, x))], ids=["one", "many"])
@pytest.mark.parametrize("of", [lambda out: None, lambda out: [None]], ids=["None", "list"])
def test_a_process_that_returns_no_result_is_named(f: Any, of: Any) -> None:
    """None was met far away, or was the function's result."""

    class Wrong(core.Trace):
        def process(self, primitive: core.Primitive, args: Any, params: Any) -> Any:
            return of(self.parent.process(primitive, args, params))

    with pytest.raises(core.RuleTypeError) as info:
        core.run_under(Wrong(core.current_trace()), f, [dnp.ones(2)])
    text = str(info.value)
    assert re.search(r"trace: Wrong \(trace\)\n  primitive: '(sin|sort)'\n  returned: ", text)
    assert "test_extend.py:" in text and "return self.parent.process(primitive, args, params)" in text


class TwiceWrongly(core.Primitive):
    """`2 * x`, with rules that return one element too many."""

    def type(self, x: Any) -> Any:
        return x

    def eager(self, x: Any) -> Any:
        return 2 * x

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self.bind(*primals), dnp.append(tangents[0], 0.0)

    def transpose(self, ct: Any, x: Any) -> Any:
        return [dnp.append(ct, 0.0)]

    def batch(self, axis: Any, args: Any, dims: Any) -> Any:
        return self.bind(args[0]), dims[0] + 1


@pytest.mark.cpu
def test_a_rule_that_returns_the_wrong_type_is_named() -> None:
    """A shape that is passed on would be a wrong number, or an error far away."""
    wrong, x = TwiceWrongly("twice_wrongly_of_a_test"), dnp.ones(2)
    facts = r"rule: {} of 'twice_wrongly_of_a_test'\n  returned: float32\[3\], wanted: float32\[2\]\n"
    for f in (lambda f: dx.jvp(f, (x,), (x,)), lambda f: dx.vjp(f, x)):
        with pytest.raises(core.RuleTypeError, match="tangent of a result.*\n  " + facts.format("jvp")):
            f(wrong.bind)
    with pytest.raises(core.RuleTypeError, match="cotangent of operand 0.*\n  " + facts.format("transpose")):
        dx.linear_transpose(wrong.bind, x)(x)
    with pytest.raises(core.RuleTypeError, match=r"batch of .*_test'\n  .*axis at 1\n.*axis of length 3"):
        dx.vmap(wrong.bind)(dnp.ones((3, 2)))  # which is checked under DIDAX_CHECK=1, as here


def test_a_second_primitive_of_a_name_is_an_error_unless_its_module_is_run_again() -> None:
    source = "from didax.primitives.families import unary\nmine = unary('first_of_its_name_in_a_test')"
    first: dict[str, Any] = {"__name__": "one_module"}
    exec(source, first)
    exec(source, first)  # as importlib.reload and a cell of a notebook do
    text = str(dx.make_jaxpr(first["mine"])(1.0))
    assert parse_jaxpr(text).eqns[0].primitive is first["mine"]
    with pytest.raises(ValueError, match="needs a name of its own") as info:
        exec(source, {"__name__": "package.other"})
    for part in ("'first_of_its_name_in_a_test'", "module one_module", "other_first_of_its_name_in_a_test"):
        assert part in str(info.value)
    with pytest.raises(ValueError, match=r"taken by: .* of module didax"):
        exec("from didax.primitives.families import unary\nunary('sin')", {"__name__": "package.other"})
