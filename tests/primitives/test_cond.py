"""`cond` and `switch`: one branch of several, under every transformation."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import didax as dx
import didax.numpy as dnp
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.core.primitive import Primitive
from didax.lax import cond, switch
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.cond import cond_p
from didax.transforms.partial_eval import partial_eval_jaxpr
from tests.checks import assert_close, first, sampled

F = Callable[..., Any]


def staged(f: F, *args: Any) -> Jaxpr:
    return dx.make_jaxpr(f)(*args).jaxpr


def conds(jaxpr: Jaxpr) -> list[Eqn]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive is cond_p]


# --- Results that branches share ------------------------------------------------------------------


def test_what_every_branch_hands_on_stays_one_copy():
    """Mapped over the predicate, a result that is the same operand in each branch does not depend on the element."""
    f = lambda p, x, y: cond(p, lambda x, y: (x, y, x + y), lambda x, y: (x, x, x - y), x, y)
    mapped = dx.jit(dx.vmap(f, (0, None, None), (None, 0, 0)))
    one, swapped, added = mapped(np.array([True, False]), 1.0, 2.0)
    assert (float(one), swapped.tolist(), added.tolist()) == (1.0, [2.0, 1.0], [3.0, -1.0])
    assert float(dx.grad(lambda x: mapped(np.array([True, False]), x, 2.0)[0])(1.0)) == 1.0


# --- Every composition, compared with jax ---------------------------------------------------------


def two_ways(m: ModuleType, x: Any) -> Any:
    return m.lax.cond(x > 0.0, lambda y: m.numpy.sin(y * y), lambda y: m.numpy.exp(y), x)


def constant_branch(m: ModuleType, x: Any) -> Any:
    return m.lax.cond(x > 0.0, lambda: x**3, lambda: 2.0)


def closures(m: ModuleType, x: Any) -> Any:
    a, b = m.numpy.cos(x), x * 2.0
    return m.lax.cond(x < 0.3, lambda y: y * a, lambda y: a * b + y, x)


def nested(m: ModuleType, x: Any) -> Any:
    def inner(y: Any) -> Any:
        return m.lax.cond(y > 1.0, lambda z: z * x, lambda z: m.numpy.sin(z), y)

    return m.lax.cond(x > 0.0, inner, lambda y: m.jit(inner)(y * y), x * 1.5)


def four_ways(m: ModuleType, x: Any) -> Any:
    index = m.numpy.floor(x * 2.0 + 2.0).astype("int32")
    branches = [lambda y: y, lambda y: y * y, lambda y: m.numpy.exp(-y), lambda y: 1.0]
    return m.lax.switch(index, branches, x)


def trees(m: ModuleType, x: Any) -> Any:
    out = m.lax.cond(
        x > 0.0,
        lambda d: {"p": (d["a"] * d["b"], d["n"]), "q": d["a"]},
        lambda d: {"p": (d["b"], d["n"] + 1), "q": d["a"] ** 2},
        {"a": x, "b": m.numpy.sin(x), "n": 3},
    )
    return out["p"][0] * out["p"][1] + out["q"]


def jitted_branches(m: ModuleType, x: Any) -> Any:
    """Branches that are more than elementwise operations: a batched predicate guards them."""
    return m.lax.cond(x > 0.0, m.jit(lambda y: m.numpy.sin(y) * y), m.jit(lambda y: y * x), x)


def inside_jit(m: ModuleType, x: Any) -> Any:
    return m.jit(lambda y: two_ways(m, y) * closures(m, y))(x) + x


FUNCTIONS = [two_ways, constant_branch, closures, nested, four_ways, trees, jitted_branches, inside_jit]


def table(m: ModuleType) -> F:
    """All functions at once, each of its own argument: one program for each composition."""
    return lambda xs: {f.__name__: f(m, xs[f.__name__]) for f in FUNCTIONS}


def grad(m: ModuleType, f: F) -> F:
    """Of the sum of all results; each argument's gradient is that of its own function."""
    return m.grad(lambda xs: sum(m.numpy.sum(y) for y in f(xs).values()))


def both_signs(m: ModuleType, xs: Any) -> Any:
    return {name: m.numpy.stack([x, -x]) for name, x in xs.items()}


COMPOSITIONS: dict[str, Callable[[ModuleType, F], F]] = {
    "value": lambda m, f: f,
    "jit": lambda m, f: m.jit(f),
    "grad": lambda m, f: grad(m, f),
    "jit(grad)": lambda m, f: m.jit(grad(m, f)),
    "grad(jit)": lambda m, f: grad(m, m.jit(f)),
    "grad(grad)": lambda m, f: grad(m, grad(m, f)),
    "jit(grad(grad))": lambda m, f: m.jit(grad(m, grad(m, f))),
    "grad(jit(grad))": lambda m, f: grad(m, m.jit(grad(m, f))),
    "jvp": lambda m, f: lambda xs: m.jvp(f, (xs,), (xs,)),
    "jit(jvp)": lambda m, f: m.jit(lambda xs: m.jvp(f, (xs,), (xs,))),
    "jvp(jit)": lambda m, f: lambda xs: m.jvp(m.jit(f), (xs,), (xs,)),
    "jit(linearize)": lambda m, f: m.jit(lambda xs: m.linearize(f, xs)[1](xs)),
    "jvp(grad)": lambda m, f: lambda xs: m.jvp(grad(m, f), (xs,), (xs,)),
    "grad(jvp)": lambda m, f: grad(m, lambda xs: m.jvp(f, (xs,), (xs,))[1]),
}
BATCHED: dict[str, Callable[[ModuleType, F], F]] = {
    "vmap": lambda m, f: m.vmap(f),
    "jit(vmap)": lambda m, f: m.jit(m.vmap(f)),
    "vmap(jit)": lambda m, f: m.vmap(m.jit(f)),
    "vmap(grad)": lambda m, f: m.vmap(grad(m, f)),
    "jit(vmap(grad))": lambda m, f: m.jit(m.vmap(grad(m, f))),
    "vmap(jit(grad))": lambda m, f: m.vmap(m.jit(grad(m, f))),
    "grad(vmap)": lambda m, f: grad(m, m.vmap(f)),
    "jit(grad(vmap))": lambda m, f: m.jit(grad(m, m.vmap(f))),
    "vmap(grad(grad))": lambda m, f: m.vmap(grad(m, grad(m, f))),
    "jvp(vmap)": lambda m, f: lambda xs: m.jvp(m.vmap(f), (xs,), (xs,)),
    "vmap(vmap)": lambda m, f: lambda xs: m.vmap(m.vmap(f))(both_signs(m, xs)),
    "jit(grad(vmap(vmap)))": lambda m, f: m.jit(grad(m, lambda xs: m.vmap(m.vmap(f))(both_signs(m, xs)))),
}


def by_order(compositions: dict[str, Any]) -> list[Any]:
    """A sample of them; those that differentiate twice are left to `make test-ci`."""
    twice = [name for name in compositions if len(re.findall("grad|jvp|linearize", name)) > 1]
    return [*sampled((name for name in compositions if name not in twice), 3), *first(sampled(twice, 3), 0)]


@pytest.mark.parametrize("composition", by_order(COMPOSITIONS))
def test_a_composition_is_what_jax_computes(composition):
    ours, theirs = (
        COMPOSITIONS[composition](dx, table(dx)),
        jax.jit(COMPOSITIONS[composition](jax, table(jax))),
    )
    for x in (0.4, -0.7):
        xs = {f.__name__: np.float32(x) for f in FUNCTIONS}
        assert_close(ours(xs), theirs(xs), rtol=1e-5)


@pytest.mark.parametrize("composition", by_order(BATCHED))
def test_a_composition_with_a_batched_predicate_is_what_jax_computes(composition):
    xs = {f.__name__: np.array([0.4, -0.7, 0.9, -0.2], np.float32) for f in FUNCTIONS}
    ours = BATCHED[composition](dx, table(dx))(xs)
    assert_close(ours, jax.jit(BATCHED[composition](jax, table(jax)))(xs), rtol=1e-5)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit])
def test_operands_are_batched_while_the_predicate_is_not(wrap, index):
    xs = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = wrap(dx.vmap(lambda i, x, y: switch(i, [lambda x, y: x, lambda x, y: x + y], x, y), (None, 1, None)))
    np.testing.assert_array_equal(f(index, xs, np.ones(2, np.float32)), (xs + index).T)


# --- Elements that go different ways --------------------------------------------------------------


class Probe(Primitive):
    """The identity, not elementwise as far as anybody knows; remembers what it was run on."""

    def __init__(self) -> None:
        self.name = "probe"
        self.seen: list[Any] = []

    def type(self, x: Any) -> Any:
        return x

    def eager(self, x: Any) -> Any:
        self.seen.append(np.array(x))
        return x

    def batch(self, axis: Any, args: Any, dims: Any) -> Any:
        return self.bind(*args), dims[0]


@pytest.mark.cpu
def test_a_branch_that_no_element_takes_is_not_run():
    on_true, on_false = Probe(), Probe()
    f = dx.vmap(lambda x: cond(x > 0.0, on_true.bind, on_false.bind, x))
    assert f(np.array([1.0, 2.0], np.float32)).tolist() == [1.0, 2.0]
    assert (len(on_true.seen), len(on_false.seen)) == (1, 0)
    assert f(np.array([-1.0, -2.0], np.float32)).tolist() == [-1.0, -2.0]
    assert (len(on_true.seen), len(on_false.seen)) == (1, 1)


@pytest.mark.cpu
def test_a_branch_runs_only_on_values_of_elements_that_take_it():
    on_true, on_false = Probe(), Probe()
    f = dx.vmap(lambda x: cond(x > 0.0, on_true.bind, on_false.bind, x))
    assert f(np.array([-1.0, 2.0, -3.0, 4.0], np.float32)).tolist() == [-1.0, 2.0, -3.0, 4.0]
    assert on_true.seen[0].tolist() == [2.0, 2.0, 2.0, 4.0]
    assert on_false.seen[0].tolist() == [-1.0, -1.0, -3.0, -1.0]


def test_a_compiled_batch_guards_branches_that_are_more_than_elementwise():
    def guards(f: F) -> int:
        return dx.jit(dx.vmap(f)).lower(np.ones(3, np.float32)).as_text().count("stablehlo.case")

    assert guards(lambda x: cond(x > 0.0, dx.jit(dnp.sin), dx.jit(dnp.cos), x)) == 2
    assert guards(lambda x: cond(x > 0.0, dnp.sin, dx.jit(dnp.cos), x)) == 1
    assert guards(lambda x: cond(x > 0.0, dnp.sin, dnp.cos, x)) == 0


@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit], ids=["elementwise", "guarded"])
@pytest.mark.parametrize("outer", [lambda f: f, dx.jit], ids=["eager", "compiled"])
def test_derivatives_do_not_see_the_branch_an_element_did_not_take(wrap, outer):
    """sqrt and log have infinite or undefined derivatives where they are not taken, and a shared operand."""
    xs = np.array([4.0, 0.0, -1.0, 1.0], np.float32)

    def f(x: Any, w: Any) -> Any:
        return cond(x > 0.0, wrap(lambda x, w: w * dnp.sqrt(x) + dnp.log(x)), lambda x, w: x * w, x, w)

    in_x = np.array([3 / 4 + 1 / 4, 3.0, 3.0, 3 / 2 + 1], np.float32)
    in_w = np.array([2.0, 0.0, -1.0, 1.0], np.float32)
    each = outer(dx.vmap(dx.grad(f, (0, 1)), (0, None)))(xs, 3.0)
    assert_close(each, (in_x, in_w))
    total = outer(dx.grad(lambda x, w: dx.vmap(f, (0, None))(x, w).sum(), (0, 1)))(xs, np.float32(3.0))
    assert_close(total, (in_x, np.float32(2.0)))
    _, tangent = outer(lambda x, w: dx.jvp(dx.vmap(f, (0, None)), (x, w), (x * 0 + 1, w * 0)))(
        xs, np.float32(3)
    )
    assert_close(tangent, in_x)


def test_an_infinite_derivative_stays_infinite():
    """The copies of a taken element that stand in for others send it nothing, not even inf * 0."""
    f = dx.vmap(lambda x: cond(x >= 0.0, dx.jit(dnp.sqrt), lambda x: x, x))
    g = dx.grad(lambda xs: f(xs).sum())(np.array([0.0, -1.0, -2.0], np.float32))
    assert g.tolist() == [np.inf, 1.0, 1.0]


def test_an_empty_batch():
    f = dx.vmap(lambda x: cond(x > 0.0, dx.jit(dnp.sin), dnp.cos, x))
    assert f(np.zeros(0, np.float32)).shape == dx.jit(f)(np.zeros(0, np.float32)).shape == (0,)


# --- The program a cond becomes -------------------------------------------------------------------


def test_residuals_of_equal_type_share_a_slot():
    """exp keeps its result, sin(y * y) its factors: the known half returns two residuals, not three."""

    def f(x: Any) -> Any:
        return cond(x > 0.0, lambda y: dnp.sin(dnp.sin(y)), lambda y: dnp.exp(y), x)

    known, linear = conds(staged(lambda x: dx.linearize(f, x)[1](x), np.float32(1.0)))
    assert len(known.outvars) == 1 + 2
    assert len(linear.invars) == 1 + 2 + 1  # index, residuals, tangent


def test_residuals_that_are_operands_are_not_copied():
    def f(x: Any, y: Any) -> Any:
        return cond(x > 0.0, lambda x, y: x * y, lambda x, y: x, x, y)

    known, linear = conds(
        staged(lambda x, y: dx.vjp(f, x, y)[1](x), np.ones((), np.float32), np.float32(2.0))
    )
    assert len(known.outvars) == 1
    assert len(linear.invars) == 1 + 2 + 1


def test_unused_results_and_operands_are_dropped():
    def f(x: Any, y: Any) -> Any:
        return cond(x > 0.0, lambda x, y: (dnp.sin(x), y), lambda x, y: (x, y * y), x, y)[0]

    jaxpr, _ = dce_jaxpr(staged(f, np.float32(1.0), np.float32(2.0)), (True,))
    (eqn,) = conds(jaxpr)
    assert (len(eqn.invars), len(eqn.outvars)) == (2, 1)
    assert [len(branch.eqns) for branch in eqn.params["branches"]] == [0, 1]


def test_an_array_captured_by_both_branches_is_one_operand():
    a, b = dnp.ones(3), dnp.zeros(3)
    (eqn,) = conds(staged(lambda x: cond(x > 0.0, lambda: a + x, lambda: a * b), np.float32(1.0)))
    assert len(eqn.invars) == 1 + 3


def test_a_predicate_known_while_staging_leaves_only_its_branch():
    assert conds(staged(lambda x: cond(True, dnp.sin, dnp.cos, x), np.float32(1.0))) == []


@pytest.mark.parametrize(
    "unknown", [(True, False, False), (False, True, False), (False, False, True), (False, True, True)]
)
def test_partial_evaluation_and_the_rest_give_the_whole(unknown):
    def f(p: Any, x: Any, y: Any) -> Any:
        index = (p > 0.0).astype("int32")
        on_true = lambda x, y: (dnp.sin(x) * y, x * x, dnp.exp(y))
        return cond(p > 0.0, on_true, lambda x, y: (x, y, 1.0 - y), x, y), index

    args = [np.float32(v) for v in (1.0, 0.5, -2.0)]
    for p in (1.0, -1.0):
        args[0] = np.float32(p)
        jaxpr = staged(f, *args)
        split = partial_eval_jaxpr(jaxpr, unknown)
        known_args = [x for x, unk in zip(args, unknown, strict=True) if not unk]
        outs = eval_jaxpr(split.known, known_args)
        n = len(outs) - split.num_residual_outputs
        residuals = split.residual_values(known_args, outs[n:])
        unknown_args = [x for x, unk in zip(args, unknown, strict=True) if unk]
        rest = iter(eval_jaxpr(split.unknown, [*residuals, *unknown_args]))
        known = iter(outs[:n])
        assert_close([next(rest if unk else known) for unk in split.unknown_out], eval_jaxpr(jaxpr, args))


def test_a_known_predicate_keeps_what_does_not_need_the_unknown():
    """Of both branches' results only the one that depends on the unknown operand waits."""
    jaxpr = staged(
        lambda x, y: cond(x > 0.0, lambda: (x, y), lambda: (-x, y * x)), np.float32(1), np.float32(2)
    )
    split = partial_eval_jaxpr(jaxpr, (False, True))
    assert split.unknown_out == (False, True)


# --- switch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit, lambda f: lambda i: dx.vmap(f)(np.array([i]))[0]])
def test_an_index_out_of_range_takes_the_nearest_branch(wrap, dtype):
    branches = [lambda: 10, lambda: 11, lambda: 12]
    f = wrap(lambda i: switch(i, branches))
    indices = [0, 1, 2, 3, np.iinfo(dtype).max] + ([-1, np.iinfo(dtype).min] if dtype[0] == "i" else [])
    for i in indices:
        assert int(f(np.asarray(i, dtype))) == 10 + min(max(i, 0), 2)


def test_more_branches_than_a_narrow_index_can_name():
    branches = [lambda i=i: i for i in range(200)]
    f = dx.jit(lambda i: switch(i, branches))
    assert [int(f(np.int8(i))) for i in (-5, 3, 127)] == [0, 3, 127]


def test_a_switch_of_one_branch():
    assert float(dx.jit(lambda i: switch(i, [dnp.exp], 0.0))(7)) == 1.0


# --- Predicates, weak types, tracing --------------------------------------------------------------


@pytest.mark.parametrize(
    "pred", [True, 1, 2.5, -1, np.bool_(True), np.float32(0.5), np.array(3), float("nan")]
)
@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit])
def test_a_predicate_is_a_bool_or_a_number(pred, wrap):
    f = wrap(lambda p: cond(p, lambda: 1, lambda: 2))
    assert int(f(pred)) == 1
    assert int(f(np.zeros_like(pred))) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit, dx.vmap])
def test_results_are_weakly_typed_only_if_all_are(wrap):
    p = np.ones(2, bool) if wrap is dx.vmap else True
    strong = np.float32(1)
    assert not wrap(lambda p: cond(p, lambda: 2.0, lambda: strong))(p).weak_type
    assert not wrap(lambda p: cond(p, lambda: strong, lambda: 2.0))(p).weak_type
    assert wrap(lambda p: cond(p, lambda: 1.0, lambda: 2.0))(p).weak_type


def test_a_weakly_typed_result_takes_the_dtype_of_the_other():
    x = dnp.asarray(2.0, "float64")
    for p in (True, False):
        out = dx.jit(lambda p: cond(p, lambda: x, lambda: 1.0))(p)
        assert out.dtype == np.float64 and not out.weak_type
    assert cond(False, lambda: np.float32(1), lambda: 3).dtype == np.float32
    assert "float32[] in true_fun, int32[] in false_fun" in error(
        lambda: cond(True, lambda: 1.0, lambda: np.int32(3))
    )


def test_a_function_is_traced_once_per_signature():
    traced = []

    def branch(x: Any) -> Any:
        traced.append(x.shape)
        return x * 2.0

    for _ in range(3):
        cond(True, branch, branch, 1.0)
        cond(False, branch, branch, np.ones(2, np.float32))
    assert traced == [(), (2,)]


def test_a_function_that_captures_a_traced_value_is_traced_anew():
    def f(x: Any) -> Any:
        nonlocal captured
        captured = x
        return cond(x > 0.0, branch, branch)

    def branch() -> Any:
        return captured * 2.0

    captured = None
    assert [float(dx.jit(f)(np.float32(v))) for v in (1.0, -3.0)] == [2.0, -6.0]
    assert [float(dx.grad(f)(np.float32(v))) for v in (1.0, -3.0)] == [2.0, 2.0]


def test_without_jit_branches_are_plain_python():
    ran = []
    with dx.disable_jit():
        out = cond(np.bool_(True), lambda x: ran.append(x) or x, lambda x: ran.append(None), 5.0)
    assert (out, ran) == (5.0, [5.0])


def test_a_single_operand_by_keyword():
    assert int(cond(False, lambda x: 1, lambda x: 2 if x is None else 3, operand=None)) == 2
    assert float(switch(1, [dnp.sin, dnp.exp], operand=0.0)) == 1.0


# --- Errors ---------------------------------------------------------------------------------------


def error(f: F) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        f()
    return str(caught.value)


def test_results_of_different_types():
    text = error(
        lambda: cond(True, lambda x: {"a": x, "b": (x, 1)}, lambda x: {"a": x[0], "b": (x, 1.0)}, dnp.ones(2))
    )
    assert text.splitlines()[:3] == [
        "The branches of cond must return equal shapes and dtypes.",
        "  out['a'] is float32[2] in true_fun, float32[] in false_fun",
        "  out['b'][1] is int32[] in true_fun, float32[] in false_fun",
    ]
    assert text.splitlines()[-1] == "Cast (x.astype) or broadcast the results of one branch."


def test_results_of_different_structures():
    text = error(lambda: cond(True, lambda: (1, 2), lambda: [1, 2]))
    assert text.splitlines()[:2] == [
        "The branches of cond must return equal structures.",
        "  out is a tuple of 2 in true_fun, a list of 2 in false_fun",
    ]
    assert "<lambda>" in text and "test_cond.py" in text


def test_a_branch_of_switch_with_another_type():
    text = error(lambda: switch(0, [lambda: 1.0, lambda: 2, lambda: 3.0]))
    assert "  out is float32[] in branches[2], int32[] in branches[1]" in text


@pytest.mark.parametrize(
    "call, wanted",
    [
        (lambda: cond(dnp.ones(2) > 0, lambda: 1, lambda: 2), "pred: bool[2]"),
        (lambda: cond(1j, lambda: 1, lambda: 2), "pred: complex64[]"),
        (lambda: cond("yes", lambda: 1, lambda: 2), "pred: 'yes' of type str"),
        (lambda: cond(True, 1, lambda: 2), "true_fun: 1 of type int"),
        (lambda: cond(True, lambda: 1, None), "false_fun: None of type NoneType"),
        (lambda: cond(True, lambda x: 1, lambda x: 2, "text"), "argument x: 'text' of type str"),
        (lambda: cond(True, lambda x: 1, lambda x: 2, 1, operand=2), "1 by position, and operand=2"),
        (lambda: cond(True, lambda: "a", lambda: "b"), "'a' of type str"),
        (lambda: switch(0, []), "branches: []"),
        (lambda: switch(0, dnp.sin, 1.0), "of type"),
        (lambda: switch(1.5, [lambda: 1]), "index: float32[]"),
        (lambda: switch(True, [lambda: 1]), "index: bool[]"),
        (lambda: switch(np.arange(2), [lambda: 1]), "index: int"),
        (lambda: switch(0, [lambda: 1, 2]), "branches[1]: 2 of type int"),
    ],
)
def test_misuse_is_explained(call, wanted):
    text = error(call)
    assert wanted in text and len(text.splitlines()) >= 3


# --- Small programs -------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[ModuleType, Any, Any], Any]] = {
    "x * y": lambda m, x, y: x * y,
    "x + y": lambda m, x, y: x + y,
    "sin x": lambda m, x, y: m.numpy.sin(x),
    "y": lambda m, x, y: y,
    "1": lambda m, x, y: x * 0 + 1.0,
    "exp": lambda m, x, y: m.numpy.exp(-y),
}
program = st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=3)


def run(m: ModuleType, steps: list[str], x: Any, y: Any) -> Any:
    for step in steps:
        x, y = OPERATIONS[step](m, x, y), x
    return x, y


@given(st.lists(program, min_size=2, max_size=3), st.integers(0, 2))
def test_any_small_branches_have_the_derivatives_of_the_branch_taken(programs, index):
    """grad of a switch, whichever way composed, equals grad of the branch alone."""
    steps = programs[min(index, len(programs) - 1)]
    args = np.float32(0.7), np.float32(-0.4)

    def total(x: Any, y: Any) -> Any:
        a, b = run(dx, steps, x, y)
        return a * 2.0 + b

    def switched(i: Any, x: Any, y: Any) -> Any:
        a, b = switch(i, [lambda x, y, s=s: run(dx, s, x, y) for s in programs], x, y)
        return a * 2.0 + b

    wanted = dx.grad(total, (0, 1))(*args)
    assert_close(dx.grad(switched, (1, 2))(index, *args), wanted)
    traced = staged(dx.grad(switched, (1, 2)), index, *args)
    assert_close(eval_jaxpr(traced, (index, *args)), list(wanted))
    batched = dx.vmap(dx.grad(switched, (1, 2)), (0, None, None))(np.arange(3), *args)
    assert_close([g[index] for g in batched], list(wanted))


def test_branches_may_be_nested_deeply():
    """Deeper than Python's own limit, too: see tests/core/test_stack.py."""

    def nested(f, depth):
        for _ in range(depth):
            f = functools.partial(lambda f, x: cond(x > 0, f, dnp.cos, x), f)
        return f

    jaxpr = dx.make_jaxpr(nested(dnp.sin, 90))(1.0)
    assert str(jaxpr).count("cond[") == 90
    np.testing.assert_allclose(dx.jit(dx.grad(nested(dnp.sin, 40)))(1.0), np.cos(1.0), rtol=1e-6)


@pytest.mark.parametrize("pred", [True, False])
def test_each_branch_with_an_operand_of_its_own(pred):
    for library in (dx, jax):
        args = (2.0, lambda x: x + 1, {"a": 3.0}, lambda y: y["a"] * 2)
        found = (
            library.lax.cond(pred, *args),
            library.jit(lambda p, lib=library, a=args: lib.lax.cond(p, *a))(pred),
        )
        assert [float(y) for y in found] == [3 if pred else 6] * 2
        assert library.grad(lambda x, lib=library: lib.lax.cond(pred, x, *args[1:]))(2.0) == float(pred)
