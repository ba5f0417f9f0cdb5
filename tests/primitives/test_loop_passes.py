"""Loops optimised before they are compiled: results are as without, and each pass is applied where its rule says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from didax.core.jaxpr_check import check_jaxpr
from didax.passes.loops import optimize_loops
from didax.passes.loops.one_function import one_function_p
from didax.passes.loops.recompute import minimal_cut
from didax.passes.loops.rows import by_rows, product_of
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.dot import dot_general_p
from didax.runtime import compiled
from tests.checks import assert_close, first
from tests.loop_programs import (
    F,
    assert_same_as_without,
    gradient,
    live,
    lstm,
    net,
    normal,
    optimised,
    scans,
    within,
)

WIDE = np.ones((64, 512), np.float32)


def many_scalars(n: int, length: int = 40, differentiated: bool = True) -> tuple[F, tuple[Any, ...]]:
    """A scan over `n` scalars, or its gradient."""

    def body(c: Any, x: Any) -> Any:
        return tuple(dnp.tanh(c[i] * 0.9 + c[(i + 1) % n] * x * 0.1) for i in range(n)), None

    def loss(c: Any, xs: Any) -> Any:
        return sum(v * v for v in lax.scan(body, c, xs)[0])

    f = dx.grad(loss, (0, 1)) if differentiated else loss
    return f, (tuple(np.float32(0.1 * i) for i in range(n)), normal(length))


# --- The law: results are as without ---------------------------------------------------------------


def generated(seed: int) -> tuple[F, tuple[Any, ...]]:
    """A program of two loops over arrays of several shapes and dtypes, one of them nested, under a transformation."""
    choose = random.Random(seed)
    shapes = [choose.choice([(), (1,), (5, 2), (40,), (8,), (1, 4)]) for _ in range(4)]
    length, other = choose.choice([0, 1, 7, 30]), choose.choice([1, 6])
    ops = [choose.choice(sorted(OPS)) for _ in range(4)]
    sources = [choose.randrange(4) for _ in range(4)]
    reverse = choose.random() < 0.5

    def step(carry: Any, x: Any) -> Any:
        n, *c = carry
        c = [dnp.tanh(fitted(OPS[op](c[j], x), s)) for op, j, s in zip(ops, sources, shapes, strict=True)]
        return (n + 1, *c), (c[0] * n, n, c[1].sum())

    def f(v: Any, xs: Any) -> Any:
        start = (0, *(dnp.full(s, 0.3) + v for s in shapes))
        carry, ys = lax.scan(step, start, xs[:length], reverse=reverse)
        again = lax.fori_loop(
            0, other, lambda i, c: dnp.sin(c) * 0.5 + i * v, dnp.ones((40, 40)) * carry[1].sum()
        )
        return [c.astype(np.float32) for c in carry], again.mean(), [y.astype(np.float32) for y in ys]

    how = choose.choice(sorted(MODES))
    return MODES[how](f), (
        np.float32([0.1, 0.7]) if "vmap" in how else np.float32(0.4),
        normal(30, scale=0.5),
    )


def fitted(x: Any, shape: tuple[int, ...]) -> Any:
    """The first elements of `x`, repeated, in a shape."""
    return dnp.resize(x.astype(np.float32), shape)


OPS: dict[str, F] = {
    "accumulate": lambda a, x: a + 0.1 * dnp.outer(fitted(a, (4,)), fitted(a, (5,)) * x)[0, 0],
    "branch": lambda a, x: lax.cond(x > 0, lambda a: a * 0.9, dnp.cos, a),
    "cumulate": lambda a, x: dnp.cumsum(dnp.ravel(a)) * x,
    "dead": lambda a, x: dnp.where(x > a, a, a) + 0 * dnp.argmax(dnp.ravel(a)),
    "gather": lambda a, x: fitted(a, (6,))[(dnp.abs(fitted(a, (4,))) * 7).astype(int) % 6],
    "loop": lambda a, x: lax.scan(lambda c, _: (dnp.sin(c) + x, c), a, None, length=3)[1],
    "matrices": lambda a, x: fitted(a, (3, 8)) @ fitted(a, (8, 2)) * x,
    "slice": lambda a, x: lax.dynamic_slice(fitted(a, (9,)), ((x * 5).astype(int),), (3,)),
    "sum": lambda a, x: a.sum() * x,
    "update": lambda a, x: fitted(a, (7,)).at[(x * 3).astype(int)].set(x),
}


def _loss(f: F) -> F:
    return lambda v, xs: sum((y**2).mean() for y in dx.tree.leaves(f(v, xs)) if y.size)


MODES: dict[str, Callable[[F], F]] = {
    "plain": lambda f: f,
    "grad": lambda f: dx.grad(_loss(f), (0, 1)),
    "jvp": lambda f: lambda v, xs: dx.jvp(lambda v: f(v, xs), (v,), (np.float32(1),)),
    "vmap": lambda f: dx.vmap(f, (0, None)),
    "vmap of grad": lambda f: dx.vmap(dx.grad(_loss(f)), (0, None)),
    "second order": lambda f: dx.grad(lambda v, xs: dx.grad(_loss(f))(v, xs) ** 2),
}


@pytest.mark.parametrize(
    "seed", [*first(range(8), 4), *(pytest.param(i, marks=pytest.mark.slow) for i in range(8, 16))]
)
def test_generated_loops_compute_what_they_did(seed):
    f, args = generated(seed)
    assert_same_as_without(f, *args)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("f", "args"),
    [
        many_scalars(16),
        (gradient(net(16, 8)[0]), net(16, 8)[1]),
        (gradient(net(24, 1)[0]), net(24, 1)[1]),
        (gradient(lstm(8, 4)[0]), lstm(8, 4)[1]),
        (dx.vmap(gradient(net(8, 2)[0]), (0, None, None, None)), (normal(3, 8, 8), *net(8, 2)[1][1:])),
    ],
    ids=["scalars", "net", "net of one row", "lstm", "vmapped net"],
)
def test_gradients_are_what_they_were(f, args):
    assert one_function_p in {eqn.primitive for eqn in optimised(f, *args).eqns}
    assert_same_as_without(f, *args)


@pytest.mark.cpu
def test_loops_over_keys_draw_the_same():
    def f(seed: Any) -> Any:
        def step(key: Any, _: Any) -> Any:
            key, use = dx.random.split(key)
            return key, dx.random.normal(use, (4,))

        last, ys = lax.scan(step, dx.random.key(seed), None, length=50)
        return dx.random.key_data(last), ys

    assert "yes one function" in dx.explain(f)(3)
    assert_same_as_without(f, 3)


# --- One function ----------------------------------------------------------------------------------


def one_value(c: Any, x: Any) -> Any:
    return dnp.sin(c) * x, c


def carried(step: F, shape: tuple[int, ...], length: int = 200) -> str:
    return dx.explain(lambda c, xs: lax.scan(step, c, xs))(normal(*shape), normal(length))


@pytest.mark.cpu
def test_many_small_carries_are_one_function_each_way():
    f, args = many_scalars(16)
    jaxpr = optimised(f, *args)
    assert [eqn.primitive for eqn in jaxpr.eqns].count(one_function_p) == 2
    assert scan_p not in {eqn.primitive for eqn in jaxpr.eqns}
    assert dx.jit(f).lower(*args).as_text().count("xla_cpu_small_call") == 2


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("step", "shape", "why"),
    [
        (one_value, (64,), "yes one function: its steps are small"),
        (one_value, (64, 64), "no  one function: a step computes sin of float32[64,64]"),
        (lambda c, x: (c * x, dnp.sort(c)), (64,), "no  one function: sort is a kernel of its own"),
        (lambda c, x: (c @ c * x, c), (5, 5), "yes one function"),
        (lambda c, x: (c @ c * x, c), (8, 8), "yes one function"),
        (lambda c, x: (c @ c * x, c), (16, 16), "is left to a library"),
        (
            lambda c, x: ((c @ WIDE).reshape(64, 8)[:, 0] * x, c),
            (64,),
            "a product of float32[64] and float32[64,512] is large",
        ),
        (lambda c, x: (c.astype("bfloat16").astype(np.float32), c), (64,), "are rare"),
    ],
)
def test_the_rule_of_one_function(step, shape, why):
    assert why in carried(step, shape)


def test_small_states_are_left_to_xla():
    assert "no  one function: XLA does so by itself" in carried(lambda c, x: (c * x, None), (), length=10)


@pytest.mark.cpu
def test_loops_without_inputs_are_left_alone():
    f = lambda: lax.scan(lambda c, _: (c + 1, dnp.zeros(200)), 0, length=9)[1]
    assert "no  one function: it has no inputs" in dx.explain(f)()
    dx.jit(f).lower().compile()
    assert one_function_p not in {eqn.primitive for eqn in optimised(f).eqns}
    assert_same_as_without(f)


@pytest.mark.cpu
def test_loops_of_very_many_arrays_are_left_alone():
    f, args = many_scalars(130, differentiated=False)
    assert "arrays: compiling it would take long" in dx.explain(f)(*args)
    assert one_function_p not in {eqn.primitive for eqn in optimised(f, *args).eqns}


@pytest.mark.cpu
def test_loops_with_effects_are_left_alone():
    def step(c: Any, x: Any) -> Any:
        dx.debug.print("{}", x)
        return c * x, c

    assert "no  one function: it has effects" in carried(step, (64,))
    f = lambda c, xs: lax.scan(step, c, xs)
    assert optimize_loops(live(f, normal(64), normal(20)))[0].eqns[-1].primitive is scan_p


def beside_a_large_loop(step: F, start: Any) -> F:
    """A small loop, then one of many kernels; they share `n`, and constants."""

    def f(n: Any, xs: Any) -> Any:
        _, ys = lax.scan(lambda c, x: step(c, x, n), start, xs)
        return lax.fori_loop(0, 3, lambda i, c: (c[0] + 1, dnp.sin(c[1])), (n, ys)), n

    return f


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("step", "start"),
    [
        (lambda c, x, n: (c * x, c + n * 0), np.float32(1)),
        (lambda c, x, n: (dnp.where(n > 3, c, c) * x, c), np.float32(1)),
        (lambda c, x, n: (c * x + lax.dynamic_slice(dnp.ones(1), (n,), (1,))[0], c), np.float32(1)),
        (lambda c, x, n: ((c[0] + 1, c[1] * x), c[1]), (0, np.float32(1))),
    ],
    ids=["times zero", "equal cases", "only index", "constant"],
)
def test_arguments_that_xla_finds_unused_do_no_harm(step, start):
    f = beside_a_large_loop(step, start)
    assert "yes one function" in dx.explain(f)(2, normal(2000))
    assert_same_as_without(f, 2, normal(2000))


@pytest.mark.cpu
@dx.compile_in_background(False)
def test_what_xla_refuses_is_compiled_as_it_was(monkeypatch):
    from didax.xla import compile as xla_compile

    compile_text, texts = xla_compile.compile_text, []

    def refusing(text: str, *args: Any) -> Any:
        texts.append(text)
        if "xla_cpu_small_call" in text:
            raise RuntimeError("no such fusion")
        return compile_text(text, *args)

    monkeypatch.setattr(xla_compile, "compile_text", refusing)
    f, args = many_scalars(8)
    with config.override(check=False):
        found = dx.jit(f)(*args)
    assert ["xla_cpu_small_call" in text for text in texts] == [True, False]
    with pytest.raises(RuntimeError, match="no such fusion"):  # under DIDAX_CHECK nothing is passed over
        dx.jit(lambda *xs: f(*xs))(*args)
    monkeypatch.undo()
    assert_close(found, dx.jit(lambda *xs: f(*xs))(*args))


# --- Residuals -------------------------------------------------------------------------------------


def written_out(units: int, batch: int) -> tuple[F, tuple[Any, ...]]:
    """A recurrent net with an activation of many operations, too large for one function."""

    def f(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z = x @ w + h @ u + b
            h = dnp.tanh(z) / (1 + dnp.exp(-z)) + dnp.sin(z) * b
            return h, h * 2

        return lax.scan(step, dnp.zeros((batch, units)), xs)[1]

    return f, net(units, batch)[1]


def test_cheap_residuals_are_computed_again():
    f, args = written_out(48, 8)
    forward, _ = scans(live(gradient(f), *args))
    fewer, backward = scans(optimised(gradient(f), *args))
    assert len(forward.outvars) - forward.params["num_carry"] >= 8
    assert len(fewer.outvars) - fewer.params["num_carry"] <= 3
    assert "exp" in [eqn.primitive.name for eqn in backward.params["jaxpr"].eqns]
    assert "yes residuals computed again" in dx.explain(gradient(f))(*args)
    assert_same_as_without(gradient(f), *args)


def test_the_optimised_program_does_not_depend_on_addresses_of_objects():
    """Compiled programs are kept on disk by their text, which another process must write in the same way."""

    def gates(w: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            a, b, c = dnp.split(x + h @ w, 3, axis=-1)
            h = dnp.tanh(a) * dnp.sin(b) + dnp.exp(-c) * h
            return h, dnp.cos(h) * dnp.sin(a)

        return lax.scan(step, dnp.zeros((8, 64)), x)[1]

    args = normal(64, 192), normal(20, 8, 192)
    kept = [live(dx.grad(lambda w, x: (gates(w, x) ** 2).sum(), (0, 1)), *args) for _ in range(8)]
    assert len({str(optimize_loops(jaxpr)[0]) for jaxpr in kept}) == 1


@pytest.mark.parametrize("how", ["vmap", "second order", "with a value that is read"])
def test_residuals_are_computed_again_under(how):
    f, args = written_out(48, 8)
    wholes: dict[str, F] = {
        "vmap": dx.vmap(gradient(f), (None, None, 0, None)),
        "second order": dx.grad(lambda *args: sum((g**2).sum() for g in gradient(f)(*args))),
        "with a value that is read": dx.value_and_grad(lambda *args: (f(*args) ** 2).sum(), (0, 2)),
    }
    args = (*args[:2], normal(3, 48), args[3]) if how == "vmap" else args
    assert "yes residuals computed again" in dx.explain(wholes[how])(*args)
    assert_same_as_without(wholes[how], *args)


def test_a_minimal_cut():
    graph = {"source": {"a": 3.0, "b": 2.0}, "a": {"c": 1.0, "d": 1.0}, "b": {"d": 5.0}, "c": {"sink": 9.0}}
    graph |= {"d": {"sink": 2.5}, "sink": {}}
    assert minimal_cut(graph) == (3.5, {"source", "a", "b", "d"})


# --- Unrolling -------------------------------------------------------------------------------------


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("step", "length", "unroll", "why"),
    [
        (lambda c, x: (c * 0.9 + x, c), 203, 1, "yes unrolled: 4 steps at a time, of 2 operations"),
        (lambda c, x: (lax.cond(x > 0, lambda c: c + x, lambda c: c * 0.9, c), None), 203, 1, "yes unrolled"),
        (lambda c, x: (c * 0.9 + x, c), 203, 3, "no  unrolled: as asked for, 3 steps at a time"),
        (lambda c, x: (c * 0.9 + x, c), 20, 1, "no  unrolled: its steps cost more than counting them"),
        (lambda c, x: (dnp.sin(dnp.ones(3) * c).sum() * x, c), 203, 1, "no  unrolled"),
    ],
)
def test_the_rule_of_unrolling(step, length, unroll, why):
    f = lambda c, xs: lax.scan(step, c, xs, unroll=unroll)
    args = np.float32(0.3), normal(length)
    assert why in dx.explain(f)(*args)
    assert_same_as_without(f, *args)


# --- Products --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "x", "y"),
    [
        ("ik,kj->ij", (4, 8), (8, 9)),
        ("ki,kj->ij", (8, 3), (8, 9)),
        ("ik,jk->ij", (20, 8), (5, 8)),
        ("ikl,lkj->ij", (20, 2, 4), (4, 2, 3)),
        ("bik,bkj->bij", (2, 3, 4), (2, 4, 5)),
        ("bk,kbij->bij", (6, 2), (2, 6, 3, 4)),
    ],
)
def test_products_by_rows_are_the_products(spec, x, y):
    a, b = normal(*x), normal(*y)
    jaxpr = live(lambda a, b: dnp.einsum(spec, a, b), a, b)
    new = by_rows(jaxpr)
    check_jaxpr(new)
    products = [product_of(eqn) for eqn in within(new) if eqn.primitive is dot_general_p]
    assert not any(product.in_library or product.batched for product in products)
    assert_close(
        compiled.run_jaxpr(a, b, jaxpr=new), compiled.run_jaxpr(a, b, jaxpr=jaxpr), rtol=1e-5, atol=1e-5
    )


def test_sums_of_products_are_one_product_after_the_loop():
    f, args = net(32, 8)
    before, after = scans(live(gradient(f), *args))[-1], scans(optimised(gradient(f), *args))[-1]
    assert [v.aval.shape for v in before.outvars] == [(32, 32), (32, 32), (32,), (8, 32)]
    assert after.params["num_carry"] == 1
    assert [v.aval.shape for v in after.outvars] == [(8, 32), (20, 8, 32)]
    sums = [e for e in optimised(gradient(f), *args).eqns if e.outvars[0].aval.shape == (32, 32)]
    assert [e.primitive.name for e in sums].count("dot_general") == 2


def test_sums_larger_than_their_terms_stay_where_they_are():
    f, args = net(8, 32)
    text = dx.explain(gradient(f))(*args)
    assert "no  one product after the loop: 1,024 bytes stacked at each step, 544 no longer carried" in text
    assert scans(optimised(gradient(f), *args))[-1].params["num_carry"] == 4


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_are_contracted_whatever_their_form(reverse):
    """Transposed, of several terms, from a start that is not zero; a total that is read stays in the loop."""

    def f(total: Any, seen: Any, xs: Any, ys: Any) -> Any:
        def step(c: Any, xy: Any) -> Any:
            h, total, seen = c
            x, y = xy
            more = dnp.einsum("ij,ik->kj", x, y) + dnp.einsum("ij,ik->jk", x, dnp.sin(y)).T.reshape(9, 8)
            return (h * 0.5 + x, total + more, seen + dnp.outer(y[0], x[0])), seen[0, 0]

        return lax.scan(step, (dnp.zeros((3, 8)), total, seen), (xs, ys), reverse=reverse)

    args = normal(9, 8), normal(9, 8), normal(12, 3, 8), normal(12, 3, 9)
    (loop,) = scans(optimised(f, *args))
    assert loop.params["num_carry"] == 2
    assert_same_as_without(f, *args)


def test_the_gates_of_an_lstm_are_put_together_by_one_concatenate():
    f, args = lstm(8, 4)
    backward = scans(live(gradient(f), *args))[-1].params["jaxpr"]
    names = [eqn.primitive.name for eqn in backward.eqns]
    assert names.count("concatenate") == 1
    assert not {"pad", "dynamic_update_slice"} & set(names)


def test_parts_with_gaps_between_them_are_put_together_with_zeros():
    def f(xs: Any, w: Any) -> Any:
        def step(w: Any, x: Any) -> Any:
            y = w * x
            return w, y[1:3].sum() * y[4:5].sum() + (y[4:6] ** 2).sum()

        return lax.scan(step, w, xs)[1].sum()

    args = normal(5), normal(7)
    assert_close(dx.grad(f, 1)(*args), sum_of_python_steps(*args), rtol=1e-4, atol=1e-4)


def sum_of_python_steps(xs: Any, w: Any) -> Any:
    def f(w: Any) -> Any:
        ys = [w * x for x in xs]
        return sum(y[1:3].sum() * y[4:5].sum() + (y[4:6] ** 2).sum() for y in ys)

    return dx.grad(f)(w)


# --- The option, and the report ---------------------------------------------------------------------


@pytest.mark.cpu
def test_the_option_leaves_programs_as_they_are():
    f, args = many_scalars(16)
    jaxpr = live(f, *args)
    with dx.optimize_loops("off"):
        assert optimize_loops(jaxpr) == (jaxpr, ())
        assert "small_call" not in dx.jit(f).lower(*args).as_text()
    assert "small_call" in dx.jit(f).lower(*args).as_text()


def test_a_program_without_such_loops_is_the_same_object():
    jaxpr = live(lambda x: lax.fori_loop(0, 5, lambda i, x: dnp.sin(x), x), normal(64, 64))
    assert optimize_loops(jaxpr)[0] is jaxpr


def test_the_option_is_checked():
    with (
        pytest.raises(ValueError, match=r"option 'optimize_loops' takes one of \('auto', 'off'\)"),
        dx.optimize_loops("fast"),
    ):
        pass


@pytest.mark.cpu
def test_the_report_names_each_loop_by_its_line():
    f, args = lstm(32, 8, length=50)
    lines = dx.explain(gradient(f))(*args).splitlines()
    assert lines[0] == "<lambda>: 2 loops"
    assert lines[1].startswith("  scan of 50 steps, 2 carried, ")
    assert "loop_programs.py" in lines[2]
    assert lines[3].startswith("    yes products before the loop: float32[8,32], float32[8,32], ")
    assert lines[4] == "    yes residuals computed again: 12 residuals from 7 values"
    assert lines[5] == "    no  unrolled: its steps cost more than counting them"
    assert lines[6].startswith(
        "    no  one function: a product of float32[8,32] and float32[32,128] is large ("
    )
    assert lines[7] == "  scan of 50 steps, backwards, 5 carried, 0 stacked"
    assert lines[8].endswith("in the backward pass")
    assert lines[9] == (
        "    yes one product after the loop: float32[32,128], float32[32,128], float32[128]; "
        "4,096 bytes stacked at each step, 33,280 no longer carried"
    )
    assert lines[11].startswith("    no  one function: ")
    assert dx.jit(gradient(f)).explain(*args).splitlines()[1:] == lines[1:]


def test_the_report_of_no_loops_and_of_the_option():
    assert dx.explain(dnp.sin)(1.0) == "sin: no loops"
    with dx.optimize_loops("off"):
        assert (
            dx.explain(dnp.sin)(1.0)
            == "sin: the option optimize_loops is 'off', loops are compiled as they are."
        )
