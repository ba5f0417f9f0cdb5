"""checkpoint: what is saved, that derivatives stay the same, that recomputation survives the compiler, its errors."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.ad_checkpoint
import numpy as np
import pytest
from hypothesis import given

import didax as dx
import didax.lax
import didax.numpy as dnp
from didax import lax, random
from didax.ad_checkpoint import saved_residuals
from didax.core.errors import KeyReuseError
from didax.passes.simplify import simplify_jaxpr
from tests.checks import assert_close, assert_round_trips, check_grads, examples, first, is_inexact
from tests.test_random_programs import Program, inputs, programs, run, seeds

POLICIES = dx.checkpoint_policies
X = np.array([0.3, 0.5, 0.7], np.float32)


def twice(x: Any) -> Any:
    return dnp.sin(dnp.sin(x))


def origins(f: Callable[..., Any], *args: Any) -> list[str]:
    return [r.origin for r in saved_residuals(f, *args)]


def primitives_in(jaxpr: Any) -> list[str]:
    """Names of the primitives of all equations, those inside of others too."""
    found: list[str] = []
    for eqn in jaxpr.eqns:
        found.append(eqn.primitive.name)
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                found += primitives_in(inner) if hasattr(inner, "eqns") else []
    return found


# --- What is saved ------------------------------------------------------------------------------------------


def test_only_the_argument_is_saved():
    assert origins(twice, X) == ["output of cos", "output of cos"]
    (residual,) = saved_residuals(dx.checkpoint(twice), X)
    assert (residual.origin, residual.nbytes, residual.aval.shape) == ("argument x", 12, (3,))


def test_the_eager_tape_holds_only_the_argument():
    _, f_vjp = dx.vjp(dx.checkpoint(twice), dnp.asarray(X))
    literals = [x.val for eqn in f_vjp.program.eqns for x in eqn.invars if hasattr(x, "val")]
    assert [np.asarray(x).tolist() for x in literals] == [X.tolist()]


def test_captured_arrays_are_kept_as_arguments_are():
    w = dnp.asarray(X)
    assert origins(dx.checkpoint(lambda x: dnp.sin(x * w) * w), X) == ["argument x", "captured array"]


def test_values_that_depend_on_no_argument_are_computed_again():
    f = dx.checkpoint(lambda x: x * dnp.sin(lax.iota("float32", 3)))
    assert origins(f, X) == []


def test_the_jaxpr_of_a_gradient_computes_again():
    names = primitives_in(dx.make_jaxpr(dx.grad(dx.checkpoint(twice)))(1.0).jaxpr)
    assert names.count("checkpoint") == 2
    assert names.count("sin") == 3  # two forward, and the inner one again
    assert names.count("cos") == 2


def test_a_report_tells_type_bytes_and_line(capsys):
    def f(params, x):
        hidden = dx.checkpoint_name(dnp.tanh(x @ params["w"]), "hidden")
        return dnp.sin(hidden).sum()

    policy = POLICIES.save_only_these_names("hidden")
    dx.ad_checkpoint.print_saved_residuals(
        dx.checkpoint(f, policy=policy), {"w": np.ones((3, 4), np.float32)}, X
    )
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "float32[3,4], 48 bytes: argument params['w']"
    assert second == "float32[3], 12 bytes: argument x"
    line = f.__code__.co_firstlineno + 1
    assert third == f"float32[4], 16 bytes: named 'hidden' from {__file__}:{line} ({f.__qualname__})"


def layers(m: ModuleType, name: Any, weights: Any, x: Any) -> Any:
    for i, w in enumerate(weights):
        x = name(m.numpy.exp(m.numpy.sin(name(x @ w, "dot"))), f"h{i}")
    return x.sum()


def jitted_layers(m: ModuleType, name: Any, weights: Any, x: Any) -> Any:
    layer = m.jit(lambda x, w: name(m.numpy.maximum(x @ w, 0.1), "h0"))
    for w in weights:
        x = layer(x, w)
    return (x / (1 + m.numpy.sqrt((x**2).sum(-1, keepdims=True)))).mean()


def batched_layers(m: ModuleType, name: Any, weights: Any, x: Any) -> Any:
    stacked = m.numpy.stack([name(m.numpy.sin(w), "h0") for w in weights])
    y = m.lax.dot_general(stacked, stacked, (((2,), (1,)), ((0,), (0,))))
    return m.numpy.cos(y @ x.T).sum()


def scanned_layers(m: ModuleType, name: Any, weights: Any, x: Any) -> Any:
    step = lambda h, w: (m.numpy.exp(name(m.numpy.sin(h @ w) @ weights[0], "h0")), h)
    return m.lax.scan(step, x, m.numpy.stack(list(weights)), reverse=True)[1].sum()


def chosen_layer(m: ModuleType, name: Any, weights: Any, x: Any) -> Any:
    one = lambda x: name(m.numpy.sin(m.numpy.exp(x @ weights[0])), "h0")
    return m.numpy.sin(m.lax.cond(x.sum() > 0, one, lambda x: m.numpy.cos(x @ weights[1]), x * 2)).sum()


def nested_layers(m: ModuleType, name: Any, weights: Any, x: Any) -> Any:
    layer = m.checkpoint(lambda x, w: m.numpy.sin(x @ w))
    return name(m.numpy.cos(layer(layer(x, weights[0]), weights[1])), "h0").sum()


NETWORKS = [layers, jitted_layers, batched_layers, scanned_layers, chosen_layer, nested_layers]
NAMED_POLICIES: dict[str, Callable[[Any], Any]] = {
    "none": lambda policies: None,
    "everything_saveable": lambda policies: policies.everything_saveable,
    "nothing_saveable": lambda policies: policies.nothing_saveable,
    "dots_saveable": lambda policies: policies.dots_saveable,
    "dots_with_no_batch_dims_saveable": lambda policies: policies.dots_with_no_batch_dims_saveable,
    "save_only_these_names": lambda policies: policies.save_only_these_names("h0", "dot"),
    "save_any_names_but_these": lambda policies: policies.save_any_names_but_these("h0"),
    "save_anything_except_these_names": lambda policies: policies.save_anything_except_these_names("h0"),
    "save_from_both_policies": lambda policies: policies.save_from_both_policies(
        policies.save_only_these_names("h0"), policies.dots_saveable
    ),
}
# Rules decide what there is to save.
SAVING_ALL = "everything_saveable", "save_anything_except_these_names"


def network_arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(4, 4)).astype(np.float32) / 2 for _ in range(3)], np.ones((2, 4), np.float32)


def jax_residuals(f: Callable[..., Any], *args: Any) -> list[str]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        jax.ad_checkpoint.print_saved_residuals(f, *args)
    return sorted(line.split()[0].split("[")[1] for line in text.getvalue().splitlines())


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("policy", NAMED_POLICIES)
def test_policies_save_what_jax_saves(network, policy):
    args = network_arguments()
    ours = dx.checkpoint(
        functools.partial(network, dx, dx.checkpoint_name), policy=NAMED_POLICIES[policy](POLICIES)
    )
    theirs = jax.checkpoint(
        functools.partial(network, jax, jax.ad_checkpoint.checkpoint_name),
        policy=NAMED_POLICIES[policy](jax.checkpoint_policies),
    )
    found = saved_residuals(ours, *args)
    if policy in SAVING_ALL:
        plain = saved_residuals(functools.partial(network, dx, dx.checkpoint_name), *args)
        assert 0 <= len(plain) - len(found) <= 2  # a value and the same with a name are saved once
    else:
        assert sorted(str(r.aval).split("[")[1] for r in found) == jax_residuals(theirs, *args)
    assert all(r.nbytes == r.aval.dtype.itemsize * np.prod(r.aval.shape) for r in found)


@functools.cache
def gradient(policy: str | None, order: int) -> Any:
    """Of all networks; by a policy, or (None) without checkpoint."""

    def loss(weights, x):
        names = [functools.partial(network, dx, dx.checkpoint_name) for network in NETWORKS]
        wrap = lambda f: dx.checkpoint(f, policy=NAMED_POLICIES[policy](POLICIES)) if policy else f
        return sum(wrap(f)(weights, x) for f in names)

    first = dx.grad(loss, 1)
    second = dx.grad(lambda weights, x: (first(weights, x) ** 2).sum())
    return dx.jit(second if order == 2 else first)(*network_arguments())


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        *((p, 1) for p in NAMED_POLICIES),
        *(pytest.param(p, 2, marks=pytest.mark.ci) for p in ("none", "dots_saveable")),
    ],
)
def test_derivatives_are_the_same_under_every_policy(policy, order):
    assert_close(gradient(policy, order), gradient(None, order), rtol=1e-4)


def test_reports_of_residuals_say_where_policies_offload_them():
    dots = POLICIES.offload_dot_with_no_batch_dims("device", "pinned_host")
    names = POLICIES.save_and_offload_only_these_names(
        names_which_can_be_saved=["kept"],
        names_which_can_be_offloaded=["away"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def f(x):
        y = dx.checkpoint_name(dnp.sin(x @ x), "kept")
        return dnp.sin(dx.checkpoint_name(dnp.exp(y), "away")) * dnp.cos(dx.checkpoint_name(y * 2, "other"))

    x = np.eye(3, dtype=np.float32)
    assert origins(dx.checkpoint(f, policy=dots), x) == [
        "argument x",
        "output of dot_general, in pinned_host",
    ]
    assert origins(dx.checkpoint(f, policy=names), x) == [
        "argument x",
        "named 'kept'",
        "named 'away', in pinned_host",
    ]
    assert_close(
        dx.grad(lambda x: dx.checkpoint(f, policy=names)(x).sum())(x), dx.grad(lambda x: f(x).sum())(x)
    )


def test_a_policy_is_asked_about_primitives_types_and_parameters():
    asked = []

    def policy(primitive, *avals, **params):
        asked.append((primitive.name, [str(a) for a in avals], params))
        return POLICIES.Saveable if primitive.name == "exp" else POLICIES.Recompute

    f = dx.checkpoint(lambda x: dnp.sin(dnp.exp(dnp.sin(x)).sum(axis=0)), policy=policy)
    assert origins(f, X) == ["argument x", "output of exp"]
    assert ("reduce_sum", ["float32[3]"], {"axes": (0,)}) in asked
    assert [name for name, *_ in asked].count("exp") == 1


def test_names_change_nothing_and_reach_pytrees():
    tree = dx.checkpoint_name({"a": X, "b": 2.0}, "state")
    assert_close(tree, {"a": X, "b": np.float32(2)})
    jaxpr = dx.make_jaxpr(lambda t: dx.checkpoint_name(t, "state"))({"a": X, "b": 2.0})
    assert primitives_in(jaxpr.jaxpr) == ["name", "name"]
    check_grads(lambda x: dx.vmap(lambda y: dx.checkpoint_name(dnp.sin(y), "s"))(x), (X,), order=2)


# --- Derivatives --------------------------------------------------------------------------------------------


def table(m: ModuleType, x: Any) -> Any:
    """Results of what may stand in a checkpointed function, each from the same argument."""
    np_ = m.numpy
    chain = np_.sin(np_.exp(np_.sin(x))) * x
    looped, rows = m.lax.scan(lambda c, _: (np_.sin(c) * x, np_.cos(c)), x, None, length=2)
    chosen = m.lax.cond(x.sum() > 0, lambda y: np_.sin(y) * y, np_.exp, x)
    nested = m.checkpoint(lambda y: np_.sin(np_.cos(y)))(np_.sin(x))
    return chain + nested, looped + rows[1] + chosen


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: sum(dnp.sum(y * y) for y in dx.tree.leaves(f(x)))


TRANSFORMATIONS: dict[str, Callable[..., Any]] = {
    "grad": lambda f: dx.grad(total(f)),
    "jit": dx.jit,
    "vmap": lambda f: lambda x: dx.vmap(f)(dnp.stack([x, 2 * x])),
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (dnp.ones_like(x),)),
    "linearize": lambda f: lambda x: dx.linearize(f, x)[1](dnp.ones_like(x)),
    "scan": lambda f: lambda x: lax.scan(lambda c, y: (c, f(y)), 0.0, dnp.stack([x, x + 1]))[1],
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, lambda y: dx.tree.map(dnp.zeros_like, f(y)), x),
    "checkpoint": dx.checkpoint,
}
IN_PAIRS = [name for name in TRANSFORMATIONS if name not in ("linearize", "cond")]
PAIRS = [
    *((name,) for name in TRANSFORMATIONS),
    *(
        # half of the pairs in `make test-ci`: each transformation is the outer one in three, and the inner one in three
        pytest.param(pair, marks=pytest.mark.slow if sum(map(IN_PAIRS.index, pair)) % 2 else pytest.mark.ci)
        for pair in itertools.product(IN_PAIRS, repeat=2)
    ),
]


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_compositions_are_those_of_the_function_itself(names):
    plain = functools.partial(table, dx)
    checkpointed: Callable[..., Any] = dx.checkpoint(plain)
    for name in names:
        plain, checkpointed = TRANSFORMATIONS[name](plain), TRANSFORMATIONS[name](checkpointed)
    assert_close(checkpointed(X), plain(X), rtol=2e-4)


def test_hessian_and_third_derivative():
    f = functools.partial(table, dx)
    assert_close(dx.hessian(total(dx.checkpoint(f)))(X), dx.hessian(total(f))(X), rtol=1e-4)
    third = lambda f: dx.grad(dx.grad(dx.grad(f)))
    assert_close(third(dx.checkpoint(twice))(0.5), third(twice)(0.5), rtol=1e-4)


@given(programs, seeds)
@examples(0.08)
def test_derivatives_of_random_programs(program: Program, seed: int) -> None:
    with dx.enable_x64(True):
        xs = inputs(seed, wide=True)
        f = lambda *xs: sum(dnp.sum(y) for y in run(program, list(xs)) if is_inexact(y)) * 1.0
        policy = [None, POLICIES.everything_saveable, POLICIES.dots_saveable][seed % 3]
        checkpointed = dx.checkpoint(f, policy=policy, prevent_cse=seed % 2 == 0)
        assert_close(dx.grad(checkpointed, (0, 1, 2))(*xs), dx.grad(f, (0, 1, 2))(*xs), rtol=1e-5)


def test_linear_transpose():
    (found,) = dx.linear_transpose(dx.checkpoint(lambda x: 3 * x), X)(X)
    assert_close(found, 3 * X)


def test_rules_of_ones_own_hold_inside():
    @dx.custom_jvp
    def f(x):
        return dnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(primals[0]), 3 * tangents[0] * dnp.cos(primals[0])))

    @dx.custom_vjp
    def g(x):
        return dnp.sin(x)

    g.defvjp(lambda x: (g(x), dnp.exp(x)), lambda r, y_bar: (y_bar * r,))
    for h in (f, g):
        k = lambda x, h=h: dnp.cos(h(dnp.sin(x)))
        assert origins(dx.checkpoint(k), 1.0) == ["argument x"]
        for way in (dx.grad, lambda k: dx.jit(dx.grad(k)), lambda k: dx.grad(dx.grad(k))):
            assert_close(way(dx.checkpoint(k))(1.0), way(k)(1.0), rtol=1e-4)


def test_closures_over_values_being_differentiated():
    def outer(w, wrap):
        f = wrap(lambda x: dnp.sin(x * w) * w)
        return dx.grad(lambda x: f(x).sum())(X).sum()

    plain = dx.grad(lambda w: outer(w, lambda f: f))(2.0)
    for way in (dx.grad, lambda f: dx.jit(dx.grad(f))):
        assert_close(way(lambda w: outer(w, dx.checkpoint))(2.0), plain)


def test_integers_results_without_tangents_and_no_arguments():
    f = dx.checkpoint(lambda x, n: (x * n, n + 1))
    (y, n), f_vjp = dx.vjp(f, X, np.int32(2))
    assert (n, n.dtype) == (3, np.int32)
    x_bar, _ = f_vjp((dnp.ones(3), np.zeros((), dx.float0)))
    assert_close((y, x_bar), (2 * X, np.full(3, 2, np.float32)))
    assert_close(dx.checkpoint(lambda: dnp.arange(3))(), np.arange(3, dtype=np.int32))


# --- Random keys and effects --------------------------------------------------------------------------------


def dropout(x: Any, key: Any) -> Any:
    mask, noise = random.split(key)
    return (
        dnp.sin(dnp.where(random.bernoulli(mask, 0.5, x.shape), x * 2, 0.1))
        * random.normal(noise, x.shape)
        * x
    )


@pytest.mark.parametrize("policy", first(["none", "everything_saveable"]))
def test_drawing_again_is_no_reuse_of_a_key(policy):
    f = dx.checkpoint(dropout, policy=NAMED_POLICIES[policy](POLICIES))
    loss = lambda x, key: f(x, key).sum()
    loop = lambda x, key: lax.scan(lambda h, k: (f(h, k), None), x, random.split(key, 3))[0].sum()
    with dx.debug_key_reuse("error"):
        plain = dx.grad(lambda x, key: dropout(x, key).sum())(X, random.key(0))
        assert_close(dx.grad(loss)(X, random.key(0)), plain)
        assert_close(dx.jit(dx.grad(loss))(X, random.key(0)), plain)
        y, f_vjp = dx.vjp(lambda x: f(x, random.key(0)), X)
        assert_close(f_vjp(dnp.ones_like(y))[0], f_vjp(dnp.ones_like(y))[0])
        dx.hessian(loss)(X, random.key(0))
        dx.vmap(dx.grad(loss))(np.stack([X, X]), random.split(random.key(1)))
        dx.jit(dx.grad(loop))(X, random.key(0))


def test_using_a_key_twice_is_still_found():
    f = dx.checkpoint(dropout)
    both = lambda x, key: (f(x, key) + f(x, key)).sum()
    with dx.debug_key_reuse("error"):
        for g in (both, dx.grad(both), dx.jit(dx.grad(both))):
            with pytest.raises(KeyReuseError):
                g(X, random.key(0))


def test_effects_happen_once(capsys):
    def f(x):
        y = dnp.exp(x)
        dx.debug.print("y = {}", y)
        return dnp.sin(y)

    for g in (dx.grad(dx.checkpoint(f)), dx.jit(dx.grad(dx.checkpoint(f)))):
        found = g(0.0)
        dx.effects_barrier()
        assert capsys.readouterr().out == "y = 1.0\n"
        assert_close(found, np.float32(np.cos(1.0)))
    assert origins(dx.checkpoint(f), 0.0) == ["argument x"]


def test_effects_in_loops_happen_once_and_in_order(capsys):
    def step(h, i):
        dx.debug.print("step {}", i, ordered=True)
        return lax.cond(h > 0, lambda h: dnp.sin(dnp.exp(h)), lambda h: h, h), dnp.cos(h)

    f = lambda x: lax.scan(step, x, dnp.arange(3))[0]
    assert origins(dx.checkpoint(f), 1.0) == ["argument x"]
    found = dx.jit(dx.grad(dx.checkpoint(f)))(1.0)
    dx.effects_barrier()
    assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n"
    assert_close(found, dx.grad(f)(1.0))


def test_what_an_effect_returns_is_saved():
    calls = []

    def called(x):
        calls.append(float(x))
        return np.exp(x)

    def f(x):
        y = dx.experimental.io_callback(called, dx.ShapeDtypeStruct((), "float32"), lax.stop_gradient(x))
        return dnp.sin(y * x)

    found = dx.jit(dx.grad(dx.checkpoint(f)))(1.0)
    assert calls == [1.0]
    assert_close(found, np.float32(np.cos(np.e) * np.e))
    assert origins(dx.checkpoint(f), 1.0) == ["argument x", "output of io_callback"]


# --- Compiled programs --------------------------------------------------------------------------------------


def temporary_bytes(f: Callable[..., Any], *args: Any) -> int:
    return dx.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes


def deep(wrap: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of 8 blocks of 8 layers; `wrap` goes around each block."""

    def block(x, w):
        for _ in range(8):
            x = dnp.sin(x @ w)
        return x

    def loss(x, w):
        for _ in range(8):
            x = wrap(block)(x, w)
        return x.sum()

    return dx.grad(loss)


@pytest.mark.ci
def test_memory_falls():
    x, w = np.ones((256, 64), np.float32), np.eye(64, dtype=np.float32)
    plain = temporary_bytes(deep(lambda f: f), x, w)
    assert temporary_bytes(deep(dx.checkpoint), x, w) < plain / 2
    # Without the barrier XLA merges the second computation with the first.
    merged = temporary_bytes(deep(functools.partial(dx.checkpoint, prevent_cse=False)), x, w)
    assert merged > 0.9 * plain
    values = [dx.jit(deep(wrap))(x, w) for wrap in (lambda f: f, dx.checkpoint)]
    assert_close(*values, rtol=1e-4)


def test_memory_of_a_loop_falls():
    x, w = np.ones((64, 64), np.float32), np.eye(64, dtype=np.float32)

    def loss(wrap, x, w):
        def step(h):
            for _ in range(8):
                h = dnp.sin(h @ w)
            return h

        return lax.scan(lambda h, _: (wrap(step)(h), None), x, None, length=16)[0].sum()

    plain = temporary_bytes(dx.grad(functools.partial(loss, lambda f: f)), x, w)
    for prevent_cse in (True, False):
        wrap = functools.partial(dx.checkpoint, prevent_cse=prevent_cse)
        assert temporary_bytes(dx.grad(functools.partial(loss, wrap)), x, w) < plain / 3


def test_equal_equations_are_not_merged_across_it():
    gradient = dx.make_jaxpr(dx.value_and_grad(dx.checkpoint(lambda x: dnp.sin(dnp.exp(x)))))(1.0).jaxpr
    assert primitives_in(simplify_jaxpr(gradient)).count("exp") == 2


def test_jaxprs_are_legal_and_round_trip():
    policies = [make(POLICIES) for make in NAMED_POLICIES.values()]
    policies.append(POLICIES.offload_dot_with_no_batch_dims("device", "pinned_host"))
    for policy in policies:
        f = dx.checkpoint(functools.partial(layers, dx, dx.checkpoint_name), policy=policy)
        assert_round_trips(dx.make_jaxpr(dx.grad(f))(*network_arguments()))


# --- The wrapper --------------------------------------------------------------------------------------------


def test_as_a_decorator_with_and_without_arguments():
    @dx.checkpoint
    def f(x, *, k=2.0):
        """Sine."""
        return dnp.sin(x * k)

    @dx.remat(policy=POLICIES.dots_saveable, static_argnums=1)
    def g(x, flag):
        return dnp.sin(x) if flag else x

    assert (f.__name__, f.__doc__) == ("f", "Sine.")
    assert_close(dx.grad(f)(1.0, k=3.0), np.float32(3 * np.cos(3.0)))
    assert_close([dx.grad(g)(1.0, True), dx.grad(g)(1.0, flag=False)], [np.cos(np.float32(1)), np.float32(1)])
    assert dx.remat is dx.checkpoint


def test_a_method_with_static_self():
    class Layer:
        w = 3.0

        @functools.partial(dx.checkpoint, static_argnums=0)
        def __call__(self, x):
            return dnp.sin(x * self.w)

    assert_close(dx.grad(Layer())(1.0), np.float32(3 * np.cos(3.0)))


def test_it_is_traced_once_per_signature():
    traced = []

    @functools.partial(dx.checkpoint, static_argnames="n")
    def f(x, n):
        traced.append((x.shape, n))
        return dnp.sin(x) * n

    for n in (1, 1, 2, 1):
        dx.grad(lambda x, n=n: f(x, n).sum())(X)
    f(X[:2], 1)
    assert traced == [((3,), 1), ((3,), 2), ((2,), 1)]


def test_without_jit_it_is_the_function_itself():
    @dx.checkpoint
    def f(x):
        return dnp.sin(x) if x > 0 else x

    with dx.disable_jit():
        assert_close(dx.grad(f)(1.0), np.cos(np.float32(1)))


def error(kind: type[Exception], f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(kind) as caught:
        f(*args, **kwargs)
    return str(caught.value).splitlines()


def test_errors_of_policies():
    assert error(TypeError, dx.checkpoint, twice, policy="dots") == [
        "The policy of checkpoint is None or a hashable function: policy(primitive, *avals, **params) -> bool.",
        "  policy: 'dots' of type str",
        "Pass one of didax.checkpoint_policies, or a function.",
    ]
    odd = dx.checkpoint(
        twice, policy=POLICIES.save_from_both_policies(lambda *_, **__: "yes", POLICIES.dots_saveable)
    )
    lines = error(TypeError, dx.grad(odd), 1.0)
    assert lines[0] == "A checkpoint policy returns a bool, Saveable, Recompute or an Offloadable."
    assert lines[2:] == [
        "  returned: 'yes' of type str",
        "Return True for results that may be saved, False for those to compute again.",
    ]


def test_errors_of_names():
    assert error(TypeError, dx.checkpoint_name, 1.0, 3) == [
        "The name that checkpoint_name gives is a string.",
        "  name: 3 of type int",
        "Call checkpoint_name(x, name).",
    ]
    for names in (["a"], 3):
        lines = error(TypeError, POLICIES.save_only_these_names, names)
        assert lines[0] == "save_only_these_names takes names, which are strings."
        assert lines[1] == f"  got: {names!r} of type {type(names).__name__}"
    offload = {"offload_src": "device", "offload_dst": "pinned_host"}
    lines = error(
        ValueError,
        POLICIES.save_and_offload_only_these_names,
        names_which_can_be_saved=["a", "b"],
        names_which_can_be_offloaded=["b"],
        **offload,
    )
    assert lines == [
        "save_and_offload_only_these_names takes names to save and other names to offload.",
        "  in both: 'b'",
        "Leave each name in one of the lists.",
    ]


def test_static_arguments_need_not_be_hashable():
    f = dx.checkpoint(lambda x, widths: x * len(widths), static_argnums=1)
    assert dx.grad(lambda x: f(x, [1, 2]) + f(x, [3]) + f(x, np.ones(4)))(1.0) == 7.0
    named = dx.checkpoint(lambda x, *, widths: x * len(widths), static_argnames="widths")
    assert dx.jit(dx.grad(lambda x: named(x, widths=[1, 2])))(1.0) == 2.0


def test_errors_of_arguments():
    lines = error(ValueError, dx.checkpoint, lambda x: x, static_argnums=4)
    assert lines[0] == "static_argnums and static_argnames of checkpoint must name arguments of the function."
    assert error(TypeError, dx.checkpoint(twice), "a")[2] == "  argument x: 'a' of type str"
    assert error(TypeError, dx.checkpoint(lambda x: "a"), X)[2] == "  result: 'a' of type str"
    assert error(TypeError, dx.checkpoint, 3)[1] == "  got: 3 of type int"
    branching = dx.checkpoint(lambda x: x if x > 0 else -x)
    lines = error(TypeError, branching, 1.0)
    assert lines[1].startswith("  value: bool[], traced by checkpoint of <lambda>")
