"""Refs: mutable arrays, against JAX's on the same programs, and against pure functions under every transformation.

`PROGRAMS` run in both libraries. `test_pairs_*` write a computation with a Ref and without, and compare the two under
every ordered pair of transformations. Then what JAX has no counterpart for: memory, threads, errors.
"""

import copy
import functools
import itertools
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import CheckError, UnexpectedTracerError
from tests.checks import examples, slow_unless

Program = Callable[[Any, Any], Any]
PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    """Register a program of the library and its NumPy module; Refs among its results are compared by contents."""
    PROGRAMS.append(f)
    return f


def contents(x: Any) -> Any:
    """What is compared of a result: numbers of arrays and Refs."""
    if isinstance(x, tuple | list):
        return [y for part in x for y in contents(part)]
    return [] if x is None else [np.asarray(x[...] if isinstance(x, dx.Ref | jax.Ref) else x)]


def run(f: Program, library: Any, module: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax's own
        return contents(f(library, module))


# --- Programs that run in both ----------------------------------------------------------------------


@program
def eager(api, np):
    ref = api.new_ref(np.arange(4.0))
    ref[0] = 5.0
    ref[1:3] += 2.0
    ref[3] *= ref[0]
    last = ref[-1]
    ref[np.array([0, 2])] = np.array([7.0, 8.0])
    api.ref.addupdate(ref, 1, 1.0)
    ref.addupdate(2.0, 3)
    before = api.ref.swap(ref, 0, 9.0)
    ref[...] = ref[...] * 2
    api.ref.set(ref, None, ref[...] + 1)
    return last, before, ref[1:3], ref[np.array([0, 1])], api.ref.get(ref), api.freeze(ref)


@program
def scalars_and_weak_types(api, np):
    ref = api.new_ref(1.0)
    ref[...] += 1
    ref[...] = np.float32(3.0)
    return ref, ref[...] * np.ones(2, "bfloat16"), ref[...].weak_type


@program
def dtypes(api, np):
    refs = [api.new_ref(np.zeros(3, d)) for d in ("int8", "bfloat16", "complex64", "bool", "uint32")]
    for ref in refs:
        api.jit(lambda i, ref=ref: ref.__setitem__(i, np.ones((), ref.dtype)))(1)
        ref[2] = np.ones((), ref.dtype)
    return [ref[...].astype("float32") for ref in refs if ref.dtype != "complex64"]


@program
def closed_over(api, np):
    ref = api.new_ref(np.arange(4.0))

    @api.jit
    def f(x):
        ref[0] += x
        ref[1] = ref[0] * x
        return ref[...]

    first = f(3.0)
    ref[2] = 11.0
    return first, f(4.0), ref


@program
def arguments(api, np):
    one, two = api.new_ref(np.arange(4.0)), api.new_ref(np.ones(4))

    @api.jit
    def f(refs, x):
        refs["a"][0] += x
        refs["b"][...] = refs["a"][...] * 2
        return refs["a"][...].sum()

    return f({"a": one, "b": two}, 1.0), f({"a": two, "b": one}, 2.0), one, two


@program
def calls_within_calls(api, np):
    one, two = api.new_ref(np.arange(4.0)), api.new_ref(np.ones(4))
    add = api.jit(lambda ref, x: ref.addupdate(x, 0))

    @api.jit
    def f(ref, x):
        add(ref, x)
        add(two, x)
        own = api.new_ref(x)
        api.jit(lambda: own.__setitem__(..., own[...] * 3.0))()
        ref[1] = own[...]
        return own[...]

    return f(one, 1.0), f(one, 2.0), one, two


@program
def scan_over_closed(api, np):
    ref, factor = api.new_ref(np.arange(4.0)), api.new_ref(2.0)

    def body(c, x):
        ref[0] += x * factor[...]
        return c + ref[1], ref[0]

    first = api.lax.scan(body, 0.0, np.arange(3.0))
    factor[...] = 5.0
    return first, api.lax.scan(body, 0.0, np.arange(3.0)), ref


@program
def scan_over_rows(api, np):
    ref = api.new_ref(np.arange(4.0))

    def body(c, xs):
        row, x = xs
        row[...] += c
        return c + x, row[...]

    return api.lax.scan(body, 0.0, (ref, np.arange(4.0)), reverse=True), ref


@program
def loops(api, np):
    ref = api.new_ref(np.zeros(4))

    def body(i, c):
        ref[i] += c
        return c * 2

    known = api.lax.fori_loop(0, 3, body, 1.0)
    traced = api.lax.fori_loop(0, np.array(2), body, 1.0)

    def step(i):
        ref[3] += 1
        return i + 1

    return known, traced, api.lax.while_loop(lambda i: i < 3, step, 0), ref


@program
def mapped_in_a_loop(api, np):
    ref = api.new_ref(np.zeros(4))

    def f(i):
        ref[i] = 9.0
        return i + 1

    return api.lax.map(f, np.arange(3)), ref


@program
def branches(api, np):
    results = []
    for holds in (True, False):
        one, two = api.new_ref(np.arange(4.0)), api.new_ref(np.arange(4.0))

        def first(x, one=one):
            one[0] = x
            return x

        def second(x, one=one, two=two):
            one[1] = x
            two[2] = one[3]
            return x * 2.0

        results += [api.lax.cond(holds, first, second, 7.0), one, two]
        results += [api.jit(lambda p: api.lax.cond(p, first, second, 8.0))(holds), one, two]
    return results


@program
def branches_given_refs(api, np):
    ref = api.new_ref(np.arange(4.0))

    def first(ref, x):
        ref[0] = x
        return x

    def second(ref, x):
        return x * ref[2]

    return [api.lax.cond(p, first, second, ref, 7.0) for p in (True, False)], ref


@program
def vmap_of_arguments(api, np):
    rows, columns = api.new_ref(np.arange(6.0).reshape(3, 2)), api.new_ref(np.arange(6.0).reshape(2, 3))
    whole = api.new_ref(np.arange(4.0))

    def f(row, column, whole, x):
        row[0] = x
        column[1] += x
        return row[1] + x + whole[1]

    mapped = api.vmap(f, in_axes=(0, 1, None, 0))
    return mapped(rows, columns, whole, np.arange(3.0)), rows, columns, api.jit(mapped)(
        rows, columns, whole, np.ones(3)
    ), rows, columns  # fmt: skip


@program
def vmap_of_calls(api, np):
    rows = api.new_ref(np.arange(6.0).reshape(3, 2))

    @api.jit
    def f(row, i):
        row[i] = 9.0
        return row[1]

    return api.vmap(f)(rows, np.array([0, 1, 0])), rows


@program
def vmap_of_loops(api, np):
    def f(x):
        ref = api.new_ref(np.zeros(3))

        def body(c, i):
            ref[i] = c
            return c * x, None

        api.lax.scan(body, 1.0, np.arange(3))
        return ref[...]

    return api.vmap(f)(np.arange(3.0))


@program
def derivative_beside_a_ref(api, np):
    ref = api.new_ref(np.arange(4.0))

    def f(x):
        ref[0] = api.lax.stop_gradient(x)
        ref[1] += 3.0
        return x * x * ref[2]

    return api.grad(f)(1.0), api.grad(api.jit(f))(1.0), api.jit(api.grad(f))(2.0), ref


@program
def derivative_with_a_ref_argument(api, np):
    ref = api.new_ref(np.arange(4.0))

    def f(x, ref):
        ref[0] = 2.0
        return x * x * ref[1]

    return api.grad(f)(1.0, ref), ref


@program
def jvp_of_refs(api, np):
    ref, dot = api.new_ref(np.arange(4.0)), api.new_ref(np.arange(4.0))

    def f(x, ref):
        ref[0] = x * ref[1]
        return x * x

    return api.jvp(f, (1.0, ref), (1.0, dot)), ref, dot


@program
def linearized_at_a_value(api, np):
    ref = api.new_ref(np.arange(4.0))
    y, f_lin = api.linearize(lambda x: x * ref[1], 1.0)
    ref[1] = 9.0
    return y, f_lin(1.0)


def stash(api):
    """The identity, which writes its cotangent to a Ref: how gradients are taken out of the middle of a function."""

    @api.custom_vjp
    def stash(ref, x):
        return x

    def backward(ref, g):
        ref[...] = g
        return None, g

    stash.defvjp(lambda ref, x: (x, ref), backward)
    return stash


@program
def gradients_out_of_the_middle(api, np):
    ref, rows, keep = api.new_ref(0.0), api.new_ref(np.zeros(3)), stash(api)

    def f(x, ref):
        return np.cos(keep(ref, np.sin(x)))

    closing = api.grad(lambda x: f(x, ref))
    results = [api.grad(f)(1.0, ref), ref[...], api.jit(api.grad(f))(2.0, ref), ref[...], closing(3.0), ref]
    return [*results, api.vmap(api.grad(f))(np.arange(3.0), rows), rows]


@program
def seen_without_running(api, np):
    ref = api.new_ref(np.arange(4.0))
    f = api.jit(lambda ref, x: ref.addupdate(x, 0))
    shape = api.eval_shape(lambda ref: ref[...] + ref[0], ref).shape
    untouched = ref[0]
    f.lower(ref, 2.0).compile()(ref, 2.0)
    return shape, untouched, ref


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_agree_with_jax(f):
    if f is scalars_and_weak_types and jax.__version_info__ >= (0, 11):
        pytest.skip("from jax 0.11 on a Ref of a weak number is strong")
    wanted, found = run(f, jax, jnp), run(f, dx, dnp)
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x.astype("float32"), y.astype("float32"), rtol=1e-5)


@pytest.mark.parametrize("f", [eager, closed_over, loops, branches], ids=lambda f: f.__name__)
def test_programs_agree_with_jax_in_64_bits(f, x64):
    for x, y in zip(run(f, dx, dnp), run(f, jax, jnp), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize(
    "f", [closed_over, arguments, scan_over_closed, loops, branches, vmap_of_calls], ids=lambda f: f.__name__
)
def test_programs_run_without_compilation(f):
    """With `disable_jit` Python runs, and Refs are what they look like: objects that are changed."""
    wanted = run(f, dx, dnp)
    with dx.disable_jit():
        found = run(f, dx, dnp)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


INDICES = st.one_of(
    st.integers(-3, 2),
    st.just(Ellipsis),
    st.builds(slice, st.integers(-3, 3), st.integers(-3, 3)),
    st.builds(slice, st.none(), st.none(), st.sampled_from([1, 2, -1])),
    st.tuples(st.integers(0, 2), st.integers(-2, 1)),
    st.lists(st.integers(-3, 2), min_size=1, max_size=3, unique_by=lambda i: i % 3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
STEPS_ON_A_REF = st.lists(
    st.tuples(st.sampled_from(["set", "add", "swap", "read"]), INDICES, st.integers(-5, 5)), max_size=6
)


def on_a_ref(steps, ref, start):
    ref[...] = start
    seen = []
    for kind, index, value in steps:
        index = np.array(index) if isinstance(index, list) else index
        match kind:
            case "set":
                ref[index] = value
            case "add":
                ref.addupdate(value, index)
            case "swap":
                seen.append(dx.ref.swap(ref, index, value))
            case _:
                seen.append(ref[index])
    return [*seen, ref[...]]


def on_numpy(steps, x):
    seen = []
    for kind, index, value in steps:
        if kind in ("swap", "read"):
            seen.append(np.array(x[index]))
        if kind in ("swap", "set"):
            x[index] = value
        elif kind == "add":
            x[index] += value
    return [*seen, x]


@given(STEPS_ON_A_REF)
@examples(0.3)
def test_generated_steps_agree_with_numpy(steps):
    """In any order, eagerly and compiled, with static indices and with those that depend on an argument."""
    start = np.arange(6, dtype=np.int32).reshape(3, 2)
    wanted = on_numpy(steps, start.copy())
    ref = dx.new_ref(dnp.zeros((3, 2), "int32"))
    compiled = dx.jit(lambda start: on_a_ref(steps, ref, start))
    mapped = dx.vmap(lambda start: on_a_ref(steps, dx.new_ref(start), start))
    batch = [y[0] for y in mapped(start[None])]
    for found in (on_a_ref(steps, ref, start), compiled(start), compiled(start), batch):
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(ref[...], wanted[-1])


# --- Transformations in pairs -------------------------------------------------------------------------

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "jit": dx.jit,
    "grad": dx.grad,
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (1.0,))[1],
    "linearize": lambda f: lambda x: dx.linearize(f, x)[1](1.0),
    "vmap": lambda f: lambda x: dx.vmap(f)(dnp.stack([x, x / 2])).sum(),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c) * 0.5, None), x, None, length=3)[0],
    "fori": lambda f: lambda x: lax.fori_loop(0, 3, lambda i, c: f(c) * 0.5, x),
    "cond": lambda f: lambda x: lax.cond(x > -100.0, f, lambda x: x * 1.0, x),
    "checkpoint": dx.checkpoint,
}
PAIRS = [
    # `make test-ci` tries half of them: each transformation is the outer one, and the inner one, of four or five pairs
    pytest.param(outer, inner, marks=slow_unless((i + j) % 2 == 0))
    for (i, outer), (j, inner) in itertools.product(enumerate(WRAPPERS), repeat=2)
]


def pure(x):
    a = dnp.sin(x)
    b = a * x + dnp.cos(a)
    return b * b + a


def mutating(x):
    """The same with a Ref for what changes."""
    ref = dx.new_ref(dnp.zeros(2))
    ref[0] = dnp.sin(x)
    ref[1] += ref[0] * x
    ref.addupdate(dnp.cos(ref[0]), 1)
    inner = dx.jit(lambda: ref.__setitem__(1, ref[1] * ref[1]))
    inner()
    return dx.freeze(ref).sum()


@pytest.mark.ci
@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=lambda name: name)
def test_pairs_of_a_ref_inside(outer, inner):
    """A Ref made inside of a function changes nothing of what transformations make of the function."""

    def wrap(f):
        return WRAPPERS[outer](WRAPPERS[inner](f))

    # Nine steps one after another enlarge what the two programs round differently.
    rtol = 2e-4 if {outer, inner} <= {"scan", "fori"} else 2e-5
    np.testing.assert_allclose(wrap(mutating)(0.7), wrap(pure)(0.7), rtol=rtol)


STEPS = {"scan": 3, "fori": 3}


@pytest.mark.ci
@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=lambda name: name)
def test_pairs_of_a_ref_outside(outer, inner):
    """A Ref from outside is written once for each time that the function runs; derivatives pass it by."""
    count, factor = dx.new_ref(0), dx.new_ref(3.0)

    def f(x):
        count[...] += 1
        return pure(x) * factor[...]

    def wrap(f):
        return WRAPPERS[outer](WRAPPERS[inner](f))

    if (outer, inner) == ("vmap", "cond"):  # a choice for each element: so is what is written
        with pytest.raises(ValueError, match="differs along a mapped axis"):
            wrap(f)(0.7)
        return
    np.testing.assert_allclose(wrap(f)(0.7), wrap(lambda x: pure(x) * 3.0)(0.7), rtol=2e-5)
    assert int(count[...]) == STEPS.get(outer, 1) * STEPS.get(inner, 1)


@pytest.mark.parametrize("name", ["jit", "scan", "fori", "cond", "checkpoint"])
def test_gradients_flow_through_a_ref_that_a_staged_function_writes(name):
    """What a staged function reads from and writes to a Ref of the differentiated function has a derivative."""

    def f(x):
        ref = dx.new_ref(x)

        def step(y):
            ref[...] = dnp.sin(ref[...]) * y
            return y + ref[...]

        return WRAPPERS[name](step)(x) + ref[...]

    def by_hand(x):
        ref, y = x, x
        for _ in range(STEPS.get(name, 1)):
            ref = dnp.sin(ref) * y
            y = (y + ref) * (0.5 if name in STEPS else 1.0)
        return y + ref

    for transform in (dx.grad, lambda f: dx.jit(dx.grad(f)), lambda f: dx.grad(dx.jit(f)), dx.hessian):
        np.testing.assert_allclose(transform(f)(0.9), transform(by_hand)(0.9), rtol=1e-5)


def test_a_condition_reads_what_the_body_of_its_loop_writes():
    ref = dx.new_ref(dnp.zeros(2))

    def body(i):
        ref[0] += 2.0
        return i + 1

    loop = functools.partial(lax.while_loop, lambda i: (ref[0] < 7.0) & (ref[1] < 1.0), body, 0)
    assert (int(loop()), ref[...].tolist()) == (4, [8.0, 0.0])
    ref[...] = 0.0
    assert (int(dx.jit(loop)()), ref[...].tolist()) == (4, [8.0, 0.0])


def test_checkpoint_writes_once():
    """What runs again in the backward pass is not written again (JAX writes twice)."""
    count = dx.new_ref(0)

    @dx.checkpoint
    def f(x):
        count[...] += 1
        return dnp.sin(dnp.sin(x))

    for g in (dx.grad(f), dx.jit(dx.grad(f)), dx.grad(dx.jit(f))):
        g(1.0)
    assert int(count[...]) == 3


def test_checkpointed_functions_take_refs_as_arguments():
    ref = dx.new_ref(dnp.arange(4.0))

    @dx.checkpoint
    def f(refs, x, *, scale):
        refs["a"][0] += 1.0
        return dnp.sin(x * refs["a"][1] * scale)

    def g(x):
        own = dx.new_ref(x)
        dx.checkpoint(lambda own: own.__setitem__(..., dnp.sin(own[...])))(own)
        return own[...] * f({"a": ref}, x, scale=2.0)

    wanted = dx.grad(lambda x: dnp.sin(x) * dnp.sin(x * 2.0))
    np.testing.assert_allclose(dx.grad(g)(1.0), wanted(1.0), rtol=1e-6)
    np.testing.assert_allclose(dx.jit(dx.grad(g))(2.0), wanted(2.0), rtol=1e-6)
    assert float(ref[0]) == 2.0


def test_functions_with_rules_and_their_rules_read_refs():
    ref = dx.new_ref(dnp.array([0.0, 1.0, 2.0]))

    @dx.custom_jvp
    def f(x):
        return ref[1] * x

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * ref[2]))
    compiled, slope = dx.jit(f), dx.jit(dx.grad(f))
    for factor in (1.0, 3.0):
        ref[...] = dnp.array([0.0, 1.0, 2.0]) * factor
        values = [f(2.0), compiled(2.0), dx.grad(f)(2.0), slope(2.0)]
        assert [float(y) for y in values] == [2 * factor] * 4
    with raises(ValueError, "neither read nor written", "staged before", "within: ", r"jit\(grad\(f\)\)"):
        dx.grad(dx.jit(f))(1.0)


def test_scan_in_segments_and_bounded_loops_carry_refs():
    ref = dx.new_ref(0.0)

    def step(c, _):
        ref[...] += 1.0
        return c * 1.1, ref[...]

    def body(x):
        ref[...] += 1.0
        return x * 2.0

    _, seen = lax.scan(step, 1.0, None, length=6, checkpoint=2)
    assert seen.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert float(dx.grad(lambda x: lax.while_loop(lambda x: x < 9.0, body, x, max_steps=8))(1.0)) == 16.0
    assert float(ref[...]) == 10.0


def test_random_keys_are_held_as_well():
    ref = dx.new_ref(dx.random.key(0))

    @dx.jit
    def draw():
        key, ref[...] = dx.random.split(ref[...])
        return dx.random.normal(key)

    assert float(draw()) != float(draw())


# --- Programs are staged once, values are those of the call ---------------------------------------------


def test_a_function_is_traced_once_and_reads_the_current_value():
    ref, traces = dx.new_ref(dnp.zeros(3)), []

    @dx.jit
    def f(x):
        traces.append(x)
        ref[0] += x
        return ref[...].sum()

    values = []
    for i in range(3):
        ref[1] = float(10 * i)
        values.append(float(f(1.0)))
    assert (values, len(traces)) == ([1.0, 12.0, 23.0], 1)


def test_one_program_serves_all_refs_of_a_type():
    traces = []

    @dx.jit
    def f(ref):
        traces.append(ref)
        ref[...] += 1

    refs = [dx.new_ref(dnp.zeros(3)) for _ in range(3)] + [dx.new_ref(dnp.zeros(2))]
    for ref in refs:
        f(ref)
    assert len(traces) == 2
    assert all(float(ref[0]) == 1.0 for ref in refs)


def test_loops_are_traced_once_and_read_the_current_value():
    ref, traces = dx.new_ref(1.0), []

    def body(c, x):
        traces.append(c)
        ref[...] += x
        return c + ref[...], None

    for start in (1.0, 2.0):
        ref[...] = start
        total, _ = lax.scan(body, 0.0, dnp.ones(2))
        assert float(total) == 2 * start + 3
    assert len(traces) == 1


def test_programs_have_no_refs():
    """A Ref is an input, and one written to an output: jaxprs are pure."""
    ref = dx.new_ref(dnp.zeros(2))

    def f(given, x):
        given[0] = x
        return ref[1] + x

    jaxpr = dx.make_jaxpr(f)(dx.new_ref(dnp.ones(2)), 1.0)
    assert [a.shape for a in jaxpr.jaxpr.in_avals] == [(2,), (2,), ()]
    assert [a.shape for a in jaxpr.out_avals] == [(2,), ()]


def test_a_failing_function_writes_nothing():
    ref = dx.new_ref(dnp.zeros(2))

    @dx.jit
    def f(x):
        ref[0] = x
        raise KeyError("as written")

    with pytest.raises(KeyError):
        f(1.0)
    assert ref[...].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("size", [4, 1 << 18])
def test_a_call_that_fails_writes_nothing(size):
    ref = dx.new_ref(dnp.zeros(size))

    @dx.jit
    def f(x):
        ref[0] += 1.0
        dx.debug.check(ref[0] * x < 9.0, "too large")
        ref[1] += 1.0

    f(1.0)
    f(1.0)
    with pytest.raises(CheckError, match="too large"):
        f(10.0)
    assert ref[:3].tolist() == [2.0, 2.0, 0.0]
    f(1.0)
    assert ref[:3].tolist() == [3.0, 3.0, 0.0]


# --- Memory ---------------------------------------------------------------------------------------------

BIG = 1 << 18  # above what NumPy computes, and above what is copied for its smallness


@pytest.fixture
def big() -> dx.Ref:
    """A large Ref whose memory nobody else holds."""
    ref = dx.new_ref(dnp.zeros(BIG))
    ref[0] = 0.0
    return ref


def _closed(ref):
    return dx.jit(lambda i: ref.__setitem__(i, 1.0))


def _argument(ref):
    return functools.partial(dx.jit(lambda ref, i: ref.__setitem__(i, 1.0)), ref)


def _with_a_result_of_its_type(ref):
    """XLA is told which output takes the memory: not the one that happens to fit."""

    @dx.jit
    def f(i):
        doubled = ref[...] * 2
        ref[i] = 1.0
        return doubled

    return f


def _added(ref):
    return dx.jit(lambda i: ref.addupdate(1.0, i))


def _read_and_written(ref):
    return dx.jit(lambda i: ref.__setitem__(i, ref[i] + 1.0))


def _eager(ref):
    return lambda i: ref.__setitem__(i, 1.0)


def _eager_window(ref):
    return lambda i: ref.__setitem__(slice(i, i + 3), dnp.ones(3))


def _eager_added(ref):
    return lambda i: ref.addupdate(1.0, dnp.array([i, i + 1]))


WRITERS = [
    _closed, _argument, _with_a_result_of_its_type, _added, _read_and_written, _eager, _eager_window, _eager_added
]  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS, ids=lambda f: f.__name__.strip("_"))
def test_a_write_is_in_place(big, writer):
    """The contents stay where they are: nothing but the update is computed."""
    write = writer(big)
    write(1)
    place = big.unsafe_buffer_pointer()
    for i in (2, 3, 5):
        write(i)
        assert big.unsafe_buffer_pointer() == place
        assert float(big[i]) > 0  # reading an element leaves it alone as well
    assert float(big[BIG - 1]) == 0.0


@pytest.mark.parametrize("writer", WRITERS, ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("size", [8, 1 << 14, BIG])
def test_arrays_that_were_read_stay_as_they_were(writer, size):
    """No write is seen in an array read before, in a NumPy view of it, or in the array that the Ref was made from."""
    source = dnp.zeros(size)
    ref = dx.new_ref(source)
    write = writer(ref)
    write(1)
    seen = [source, ref[...], np.asarray(ref[...]), ref[:], ref[1:]]
    before = [np.array(x) for x in seen]
    write(3)
    write(4)
    for x, y in zip(seen, before, strict=True):
        np.testing.assert_array_equal(x, y)
    assert (np.asarray(source) == 0).all()
    assert float(ref[3]) > 0


def test_the_array_of_numpy_that_a_ref_was_made_from_is_not_shared():
    source = np.zeros(BIG, np.float32)
    ref = dx.new_ref(source)
    ref[0] = 1.0
    source[1] = 2.0
    assert ref[:2].tolist() == [1.0, 0.0]
    assert source[0] == 0.0


def test_loops_update_in_place(big):
    def body(i, _):
        big[i] = 1.0

    loop = dx.jit(lambda: lax.fori_loop(0, 5, body, None))
    loop()
    place = big.unsafe_buffer_pointer()
    loop()
    assert big.unsafe_buffer_pointer() == place
    assert float(big[...].sum()) == 5.0


def test_results_are_not_the_memory_of_a_ref(big):
    """A program may return what it writes, or write one value to two Refs: each gets memory of its own."""
    other = dx.new_ref(dnp.zeros(BIG))

    @dx.jit
    def f(x):
        big[0] = x
        other[...] = big[...]
        return big[...], other[...] * 1.0

    f(1.0)
    results = f(2.0)
    for ref in (big, other):
        ref[0] = 3.0
        ref[1] = 3.0
    assert [float(y[0]) for y in results] == [2.0, 2.0]
    assert [float(y[1]) for y in results] == [0.0, 0.0]
    big[2] = 7.0
    assert float(other[2]) == 0.0


def test_a_ref_may_be_static_or_donated(ref):
    """A donated Ref is what it always is; a static one is closed over."""
    f = dx.jit(lambda ref, x: ref.addupdate(x, 0), donate_argnums=0)
    g = dx.jit(lambda ref, x: ref.addupdate(x, 1), static_argnums=0)
    for _ in range(2):
        f(ref, 1.0)
        g(ref, 1.0)
    assert ref[...].tolist() == [2.0, 3.0, 2.0, 3.0]


@pytest.mark.parametrize("init", [1.0, 1, True, 1j, np.int8(3)])
def test_types_stay_the_same(init):
    """Weak types included, whatever writes."""
    ref, dot = dx.new_ref(init), dx.new_ref(dnp.ones((), "float32"))
    rows, kind = dx.new_ref(dnp.stack([dnp.asarray(init)] * 2)), (ref.dtype, ref.weak_type)
    write = lambda *_: ref.__setitem__(..., dnp.asarray(init).astype(ref.dtype))
    for use in (write, dx.jit(write), lambda: lax.scan(lambda c, x: (c, write()), 0.0, None, length=2)):
        use()
        assert (ref[...].dtype, ref[...].weak_type) == kind
    lax.cond(True, write, lambda: None)
    dx.checkpoint(write)()
    dx.vmap(lambda row: row.__setitem__(..., init))(rows)
    assert (ref[...].dtype, ref[...].weak_type) == kind
    assert isinstance(ref[...], dx.Array)
    if isinstance(init, float):
        dx.jvp(lambda x, ref: ref.__setitem__(..., x * 2.0), (3.0, ref), (1.0, dot))
        assert (float(ref[...]), float(dot[...]), ref[...].weak_type, dot[...].weak_type) == (
            6,
            2,
            True,
            False,
        )


def test_freed_refs_give_their_memory_back():
    import weakref

    ref = dx.new_ref(dnp.zeros(8) + 1)
    held = weakref.ref(ref[...])
    dx.free_ref(ref)
    assert held() is None


# --- Threads ----------------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("size", [4, BIG])
def test_a_call_reads_and_writes_at_once(size):
    """Calls of several threads on the same Refs, in either order, lose no update and wait for each other."""
    one, two = dx.new_ref(dnp.zeros(size)), dx.new_ref(dnp.zeros(size))

    @dx.jit
    def f(a, b):
        a[0] += 1.0
        b[1] += 1.0

    def work(i: int) -> None:
        for _ in range(20):
            f(*((one, two) if i % 2 else (two, one)))
            one.addupdate(1.0, 2)

    in_threads(4, work)
    assert float((one[...] + two[...])[:2].sum()) == 160.0
    assert float(one[2]) == 80.0


def test_threads_trace_for_themselves():
    ref = dx.new_ref(dnp.zeros(4))

    def work(i: int) -> None:
        for n in range(5):
            dx.jit(lambda x: ref.addupdate(x, i))(float(n))

    in_threads(4, work)
    assert ref[...].tolist() == [10.0] * 4


def test_reads_and_writes_of_several_threads():
    """A reader gets whole arrays, though writers reuse their memory."""
    ref = dx.new_ref(dnp.zeros(BIG))
    add = dx.jit(lambda: ref.__setitem__(..., ref[...] + 1.0))

    def work(i: int) -> None:
        for _ in range(10):
            if i % 2:
                add()
            else:
                x = np.asarray(ref[...])
                assert x[0] == x[-1] == x[BIG // 2]
                assert float(ref[7]) >= x[0]

    in_threads(4, work)
    assert float(ref[0]) == 20.0


@pytest.mark.parametrize("size", [4, BIG])
def test_callbacks_may_use_refs(size):
    """Also those of the program that calls them: they see these as they were before the call."""
    ref, log = dx.new_ref(dnp.zeros(size)), dx.new_ref(dnp.zeros(4))
    seen, arrays = [], []

    def note(x):
        arrays.append(ref[...])
        seen.append((float(x), float(arrays[-1][0])))
        log[len(seen)] = np.float32(x)

    @dx.jit
    def f(x):
        ref[0] += x
        dx.debug.callback(note, ref[0])

    f(1.0)
    kept = ref[...]
    f(2.0)
    f(3.0)
    dx.effects_barrier()
    assert seen == [(1.0, 0.0), (3.0, 1.0), (6.0, 3.0)]
    assert log[...].tolist() == [0.0, 1.0, 3.0, 6.0]
    assert float(kept[0]) == 1.0
    assert [float(x[0]) for x in arrays] == [0.0, 1.0, 3.0]


# --- The object -------------------------------------------------------------------------------------------


def test_attributes():
    ref = dx.new_ref(dnp.zeros((2, 3), "int8"))
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2, 3), np.int8, 2, 6, 2)
    assert isinstance(ref, dx.Ref)
    assert not isinstance(ref, dx.Array)
    assert hash(ref) == hash(ref)
    assert ref != dx.new_ref(dnp.zeros((2, 3), "int8"))
    inside = []
    dx.jit(lambda ref: inside.append((isinstance(ref, dx.Ref), ref.shape, repr(ref))))(ref)
    assert inside == [(True, (2, 3), "Ref{int8[2,3]}(jit)")]


def test_the_repr_shows_the_values_and_the_dtype():
    assert repr(dx.new_ref(dnp.arange(3))) == "Ref([0, 1, 2], dtype=int32)"
    assert repr(dx.new_ref(dnp.zeros((2, 2)))) == "Ref([[0., 0.],\n     [0., 0.]], dtype=float32)"


def test_copies_are_refs_of_their_own():
    ref = dx.new_ref(dnp.zeros(3))
    copies = [copy.copy(ref), copy.deepcopy({"a": ref})["a"], pickle.loads(pickle.dumps(ref))]
    ref[0] = 1.0
    assert [x[...].tolist() for x in copies] == [[0.0, 0.0, 0.0]] * 3


def test_values_are_broadcast_and_take_the_dtype_of_the_ref():
    ref = dx.new_ref(dnp.zeros((2, 3)))
    ref[...] = dnp.arange(3)
    ref[1] = 7
    ref[dnp.array([True, False]), ::-1] = [1.0, 2.0, 3.0]
    assert ref[...].tolist() == [[3.0, 2.0, 1.0], [7.0, 7.0, 7.0]]


# --- Errors -----------------------------------------------------------------------------------------------


def raises(error: type[Exception], *parts: str) -> Any:
    """A context in which that error is raised, with all parts in its text."""
    return pytest.raises(error, match="(?s)" + ".*".join(f"(?:{part})" for part in parts))


@pytest.fixture
def ref() -> dx.Ref:
    """A small Ref."""
    return dx.new_ref(dnp.arange(4.0))


@pytest.mark.parametrize(
    "use",
    [
        lambda r: r + 1,
        lambda r: 1 - r,
        lambda r: dnp.ones(4) * r,
        lambda r: r @ r,
        lambda r: -r,
        lambda r: r < 1,
        lambda r: bool(r),
        lambda r: float(r),
        lambda r: list(r),
        lambda r: np.asarray(r),
        lambda r: dnp.sin(r),
        lambda r: dnp.asarray(r),
        lambda r: lax.sin(r),
        lambda r: dx.new_ref(r),
        lambda r: dx.grad(lambda x: x)(r),
        lambda r: lax.scan(lambda c, x: (c, x), r, dnp.ones(2)),
    ],
)
def test_a_ref_is_no_array(ref, use):
    with raises(TypeError, r"read the array that it holds with ref\[\.\.\.\]"):
        use(ref)


def test_adding_to_the_name_of_a_ref_is_refused(ref):
    with raises(TypeError, "arithmetic"):
        ref += 1


def test_one_ref_in_two_places(ref):
    f = dx.jit(lambda a, b: a[...] + b[...])
    with raises(ValueError, "one Ref in two places", "places: a, b", "Pass it once"):
        f(ref, ref)
    with raises(ValueError, "one Ref in two places", "closed over"):
        dx.jit(lambda a: a[...] + ref[...])(ref)
    with raises(ValueError, "vmap meets one Ref in two places"):
        dx.vmap(lambda a, b: a[...])(ref, ref)


@pytest.mark.parametrize("wrap", [dx.jit, dx.vmap, lambda f: lambda x: lax.map(f, x)])
def test_refs_are_not_returned(ref, wrap):
    with raises(ValueError, "cannot return a Ref", r"Return ref\[\.\.\.\]"):
        wrap(lambda x: (x, ref))(dnp.ones(2))
    with raises(ValueError, "cannot return a Ref", "made at: .*test_refs.py"):
        wrap(lambda x: dx.new_ref(x))(dnp.ones(2))


def test_a_ref_that_was_passed_is_not_returned(ref):
    with raises(ValueError, "cannot return a Ref"):
        dx.jit(lambda ref: ref)(ref)


@pytest.mark.parametrize("wrap", [dx.jit, dx.grad, dx.vmap])
def test_refs_do_not_leak(wrap):
    leaked = []

    def f(x):
        leaked.append(dx.new_ref(x))
        return x

    wrap(f)(dnp.ones(2) if wrap is dx.vmap else 1.0)
    with raises(UnexpectedTracerError, "had ended", "made during: .* of f", r"Return its contents"):
        leaked[0][...]
    with raises(UnexpectedTracerError, "had ended"):
        dx.jit(lambda: leaked[0][...])()


def test_traced_values_do_not_leak_into_refs(ref):
    kept = []
    dx.jit(lambda x: kept.append(x))(1.0)
    with raises(UnexpectedTracerError, "had ended"):
        ref[0] = kept[0]
    with raises(UnexpectedTracerError, "had ended"):
        ref[...] = dnp.zeros(4) + kept[0] if False else kept[0]


def test_use_after_freeze(ref):
    f = dx.jit(lambda: ref[0])
    f()
    assert dx.freeze(ref).tolist() == [0.0, 1.0, 2.0, 3.0]
    for use in (lambda: ref[...], lambda: ref.__setitem__(0, 1.0), lambda: dx.freeze(ref), f):
        with raises(RuntimeError, "cannot be used after freeze", "made at", "new_ref"):
            use()


def test_refs_are_frozen_where_they_were_made(ref):
    with raises(ValueError, "frozen or freed where it was made", "that jit stages"):
        dx.jit(lambda: dx.freeze(ref))()
    with raises(ValueError, "cannot freeze or free a Ref that it was given"):
        dx.jit(lambda ref: dx.freeze(ref))(ref)
    assert ref[...].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_batched_values_are_not_written_to_a_ref_outside(ref):
    def write(x):
        ref[0] = x

    for f in (write, dx.jit(write), lambda i: ref.addupdate(1.0, i.astype(int))):
        with raises(ValueError, "differs along a mapped axis", "made at", "traced by vmap", "in_axes"):
            dx.vmap(f)(dnp.ones(2))
    assert ref[...].tolist() == [0.0, 1.0, 2.0, 3.0]
    dx.vmap(lambda x: ref.__setitem__(0, 5.0) or x)(dnp.ones(2))
    assert float(ref[0]) == 5.0


DERIVATIVES = [dx.grad, WRAPPERS["jvp"], WRAPPERS["linearize"]]
DERIVATIVES += [lambda f: dx.jit(dx.grad(f)), lambda f: dx.grad(dx.jit(f))]


@pytest.mark.parametrize("wrap", DERIVATIVES)
def test_differentiated_values_are_not_written_to_a_ref_outside(ref, wrap):
    def f(x):
        ref[0] = x * 2
        return x * x

    with raises(ValueError, "depends on differentiated inputs", "made at", "stop_gradient", "has_aux"):
        wrap(f)(1.0)
    assert float(ref[0]) == 0.0


def test_a_ref_keeps_its_dtype_and_shape():
    whole = dx.new_ref(dnp.arange(4))
    for value in (1.5, dnp.ones(4), np.float32(2.0), 1j):
        with raises(TypeError, "keeps its dtype", "value: ", "ref: Ref{int32.4.}", "Cast the value"):
            whole[...] = value
        with raises(TypeError, "keeps its dtype"):
            whole[0] = value if not np.ndim(value) else value[0]
    with raises(ValueError, "broadcast to its shape", r"value: int32\[3\]"):
        whole[...] = dnp.arange(3)
    with raises(IndexError, "4"):
        whole[4] = 1
    with raises(IndexError, "4"):
        whole[4]


def test_what_takes_refs_only():
    for f in (dx.freeze, dx.free_ref, dx.ref.get):
        with raises(TypeError, "takes a Ref", "new_ref"):
            f(dnp.ones(3))
    with raises(TypeError, "takes a Ref"):
        dx.ref.set(dnp.ones(3), 0, 1.0)


def test_what_new_ref_takes():
    with raises(TypeError, "new_ref takes arrays"):
        dx.new_ref([1.0, 2.0])
    with raises(NotImplementedError, "memory_space: 'vmem'"):
        dx.new_ref(1.0, memory_space="vmem")  # pyright: ignore[reportArgumentType]


def test_functions_that_may_only_read(ref):
    def write(x):
        ref[0] += 1.0
        return x * ref[1]

    assert float(dx.linear_transpose(lambda x: x * ref[1], 1.0)(2.0)[0]) == 2.0
    with raises(
        ValueError, "given to linear_transpose may read Refs", "made at", "write it to the Ref outside"
    ):
        dx.linear_transpose(write, 1.0)
    with raises(ValueError, "while_loop as its condition may read Refs"):
        lax.while_loop(lambda x: write(x) < 1.0, lambda x: x + 1.0, 0.0)
    with raises(ValueError, "given to map may read Refs"):
        lax.map(write, dnp.ones(4), batch_size=2)
    with raises(ValueError, "neither read nor written", "made at", "within: reduce", "pass the value"):
        lax.reduce(dnp.ones(4), 0.0, lambda x, y: x + y + ref[0], (0,))


def test_a_tangent_for_a_ref_is_a_ref(ref):
    def f(ref):
        ref[0] = 1.0

    with raises(TypeError, "needs a Ref for its tangent", r"new_ref\(tangent\)"):
        dx.jvp(f, (ref,), (dnp.zeros(4),))


def test_backward_rules_do_not_write_from_within_staged_programs(ref):
    """The program was staged before the rule ran: there is no place for the value any more."""
    keep, cell = stash(dx), dx.new_ref(0.0)
    f = dx.jit(lambda x: dnp.sin(keep(cell, x)))
    with raises(ValueError, "Ref", "jit\\(grad\\(f\\)\\)"):
        dx.grad(f)(1.0)
