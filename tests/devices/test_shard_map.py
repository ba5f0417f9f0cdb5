# ruff: noqa: E501 (a row is one line of a table)
"""`shard_map`: parts in, collectives, parts out; every transformation; communication counted."""

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, lax
from didax.errors import CheckError

X = np.random.default_rng(1).normal(size=(8, 4)).astype("float32")
line = lambda: dx.make_mesh((8,), ("x",))
grid = lambda: dx.make_mesh((2, 4), ("a", "b"))


SPLIT = P("x")


def on_line(f, in_specs=SPLIT, out_specs=SPLIT, **how):
    return dx.shard_map(f, mesh=line(), in_specs=in_specs, out_specs=out_specs, **how)


def on_grid(f, in_specs, out_specs, **how):
    return dx.shard_map(f, mesh=grid(), in_specs=in_specs, out_specs=out_specs, **how)


@dx.custom_vjp
def with_vjp(x):
    return dnp.sin(x)


with_vjp.defvjp(lambda x: (dnp.sin(x), x), lambda x, ct: (ct * dnp.cos(x),))


@dx.custom_jvp
def with_jvp(x):
    return dnp.sin(x)


with_jvp.defjvp(lambda p, t: (dnp.sin(p[0]), t[0] * dnp.cos(p[0])))

# name -> a mapped function, and the same without devices
PAIRS = {
    "psum": (on_line(lambda x: x * lax.psum(x.sum(), "x")), lambda x: x * x.sum()),
    "pmean": (on_line(lambda x: x - lax.pmean(x, "x")), lambda x: x - x.mean(0)),
    "pmax": (on_line(lambda x: x * lax.pmax(x, "x")), lambda x: x * x.max(0)),
    "all_gather": (on_line(lambda x: lax.all_gather(x, "x", tiled=True).sum(0) * x), lambda x: x.sum(0) * x),
    "ppermute": (on_line(lambda x: lax.ppermute(x, "x", [(i, (i + 1) % 8) for i in range(8)]) * x), lambda x: dnp.roll(x, 1, 0) * x),
    "pshuffle": (on_line(lambda x: lax.pshuffle(x, "x", [3, 2, 1, 0, 7, 6, 5, 4])), lambda x: x[dnp.array([3, 2, 1, 0, 7, 6, 5, 4])]),
    "psum_scatter": (on_line(lambda x: lax.psum_scatter(dnp.tile(x, (8, 1)), "x", tiled=True)), lambda x: dnp.tile(x.sum(0), (8, 1))),
    "all_to_all": (on_line(lambda x: lax.all_to_all(dnp.tile(x, (1, 2)), "x", 1, 0, tiled=True), out_specs=P(None, "x")), lambda x: dnp.tile(x, (1, 2))),
    "axis_index": (on_line(lambda x: x * (lax.axis_index("x") + 1)), lambda x: x * dnp.arange(1, 9)[:, None]),
    "two axes at once": (on_grid(lambda x: x * lax.psum(x, ("a", "b")), P(("a", "b")), P(("a", "b"))), lambda x: x * x.sum(0)),
    "ppermute over two axes": (on_grid(lambda x: lax.ppermute(x, ("a", "b"), [(i, (i + 1) % 8) for i in range(8)]) * x, P(("a", "b")), P(("a", "b"))), lambda x: dnp.roll(x, 1, 0) * x),
    "pshuffle over two axes": (on_grid(lambda x: lax.pshuffle(x, ("b", "a"), [3, 2, 1, 0, 7, 6, 5, 4]), P(("b", "a")), P(("b", "a"))), lambda x: x[dnp.array([3, 2, 1, 0, 7, 6, 5, 4])]),
    "one axis of two": (on_grid(lambda x: lax.psum(x, "b"), P("a", "b"), P("a")), lambda x: x.sum(1, keepdims=True)),
    "closure": (on_line(lambda y: y * X[0]), lambda y: y * X[0]),
    "jit inside": (on_line(dx.jit(lambda x: dnp.sin(x) * lax.psum(x, "x"))), lambda x: dnp.sin(x) * x.sum(0)),
    "checkpoint inside": (on_line(dx.checkpoint(lambda x: dnp.sin(x) * lax.psum(dnp.cos(x), "x"))), lambda x: dnp.sin(x) * dnp.cos(x).sum(0)),
    "checkpoint outside": (dx.checkpoint(on_line(lambda x: dnp.sin(x) * lax.psum(dnp.cos(x), "x"))), lambda x: dnp.sin(x) * dnp.cos(x).sum(0)),
    "custom_vjp": (on_line(lambda x: with_vjp(x) * lax.psum(x, "x")), lambda x: with_vjp(x) * x.sum(0)),
    "custom_jvp": (on_line(lambda x: with_jvp(x) * lax.psum(x, "x")), lambda x: with_jvp(x) * x.sum(0)),
    "grad inside": (on_line(lambda x: dx.grad(lambda y: lax.psum(y**2, "x").sum())(x)), lambda x: 2 * x),
    "grad of what is shared": (on_line(lambda x: x * dx.grad(lambda w: (w * x).sum())(2.0)), lambda x: x * x.sum()),
    "scan": (on_line(lambda x: lax.scan(lambda c, r: (c + r, c * r), dnp.zeros(4), dnp.concatenate([x, x]))[0][None]), lambda x: x * 2),
    "scan with psum": (on_line(lambda x: lax.scan(lambda c, r: (c + lax.psum(r, "x"), c * r), dnp.zeros((1, 4)), dnp.stack([x, x * 2]))[0], out_specs=P()), lambda x: (3 * x).sum(0, keepdims=True)),
    "fori_loop": (on_line(lambda x: lax.fori_loop(0, 3, lambda i, c: c + dnp.sin(x), dnp.zeros((1, 4)))), lambda x: 3 * dnp.sin(x)),
    "cond": (on_line(lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: dnp.zeros((1, 4)), x)), lambda x: dnp.where(x.sum(1, keepdims=True) > 0, x * 2, 0 * x)),
    "nested": (on_grid(lambda x: on_grid(lambda y: y * lax.psum(y, "b"), P("b"), P("b"), axis_names={"b"})(x), P("a"), P("a"), axis_names={"a"}), lambda x: (x.reshape(2, 4, 4) * x.reshape(2, 4, 4).sum(1, keepdims=True)).reshape(8, 4)),
    "some axes": (dx.jit(on_grid(lambda x: x * lax.psum(x, "a"), P("a"), P("a"), axis_names={"a"})), lambda x: (x.reshape(2, 4, 4) * x.reshape(2, 4, 4).sum(0)).reshape(8, 4)),
    "position along one of two": (dx.jit(on_grid(lambda x: x * lax.axis_index("a"), P("a"), P("a"), axis_names={"a"})), lambda x: x * dnp.repeat(dnp.arange(2), 4)[:, None]),
    "linear algebra": (on_line(lambda x: dnp.linalg.solve(dnp.eye(4) * 2 + x.T @ x, x[0])[None]), lambda x: dx.vmap(lambda r: dnp.linalg.solve(dnp.eye(4) * 2 + dnp.outer(r, r), r))(x)),
    "unchecked": (on_line(lambda x: x * lax.psum(x.sum(), "x"), check_vma=False), lambda x: x * x.sum()),
    "unchecked, shared": (dx.jit(on_grid(lambda x: lax.psum(dnp.sin(x), "b") * 2, P("a", "b"), P("a"), check_vma=False)), lambda x: dnp.sin(x).sum(1, keepdims=True) * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_transformations(name: str) -> None:
    f, plain = PAIRS[name]
    x = dnp.asarray(X)

    def everything(f):
        return lambda x: [
            f(x),
            dx.grad(lambda x: (f(x) ** 2).sum())(x),
            dx.jvp(f, (x,), (x + 1,))[1],
            dx.vmap(f)(dnp.stack([x, x + 1])),
        ]

    wanted = everything(plain)(x)
    for g in (everything(f), dx.jit(everything(f))):
        for y, want in zip(g(x), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(y), np.asarray(want), rtol=2e-3, atol=2e-3)


def test_second_derivatives() -> None:
    for check in (True, False):
        f = on_grid(
            lambda x, w: lax.psum(dnp.sin(x) @ w**2, ("a", "b")).sum(),
            (P(("a", "b")), P()),
            P(),
            check_vma=check,
        )
        w = dnp.linspace(1.0, 2.0, 4)[:, None]
        found = dx.hessian(lambda w: f(dnp.asarray(X), w))(w)
        wanted = dx.hessian(lambda w: (dnp.sin(dnp.asarray(X)) @ w**2).sum())(w)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-3, atol=1e-3)


def test_extrema_keep_nan() -> None:
    x = X.copy()
    x[2, 1], x[5, 3] = np.nan, -np.inf
    for collective, wanted in ((lax.pmax, x.max(0)), (lax.pmin, x.min(0))):
        for dtype in ("float32", "float16", "bfloat16"):
            found = on_line(lambda x: collective(x, "x"), out_specs=P())(x.astype(dnp.dtype(dtype)))[0]
            np.testing.assert_allclose(np.asarray(found, "float32"), wanted, rtol=1e-2)


def psums(f, *args) -> int:
    return str(dx.make_jaxpr(f)(*args)).count(" psum[")


def test_reverse_mode_communicates_only_where_it_must() -> None:
    x = dnp.asarray(X)
    loss = on_line(lambda x: lax.psum((x**2).sum(), "x"), out_specs=P())
    assert (psums(loss, x), psums(dx.grad(loss), x)) == (1, 1)  # the forward one: the gradient adds none
    shared = on_line(lambda w, x: lax.psum((w * x).sum(), "x"), (P(), P("x")), P())
    # The gradient of what all devices share is a sum over devices.
    assert psums(dx.grad(shared), x[0], x) == 2

    def identity(x):
        return on_line(lambda x: x, P(), P())(x)

    transposed = identity
    for _ in range(4):
        transposed = (lambda f: lambda y: dx.linear_transpose(f, x)(y)[0])(transposed)
    assert psums(transposed, x) == 0


def test_no_more_collectives_than_jax() -> None:
    from tests.devices.test_partitioned import collectives

    mesh = jax.make_mesh((8,), ("x",), (jax.sharding.AxisType.Auto,))
    for body, theirs in (
        (lambda x: lax.psum((x**2).sum(), "x"), lambda x: jax.lax.psum((x**2).sum(), "x")),
        (lambda x: lax.psum(dnp.tanh(lax.all_gather(x, "x", tiled=True).sum() * x).sum(), "x"),
         lambda x: jax.lax.psum(jax.numpy.tanh(jax.lax.all_gather(x, "x", tiled=True).sum() * x).sum(), "x")),
    ):  # fmt: skip
        ours = dx.jit(dx.grad(on_line(body, out_specs=P()))).lower(X).compile().as_text()
        mapped = jax.shard_map(theirs, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P())
        wanted = jax.jit(jax.grad(mapped)).lower(X).compile().as_text()
        assert collectives(ours).total() <= collectives(wanted).total()


def test_types_say_what_varies() -> None:
    seen: list = []

    def body(x, w):
        seen.append(
            (dx.typeof(x).vma, dx.typeof(w).vma, dx.typeof(x * w).vma, dx.typeof(lax.psum(x, "a")).vma)
        )
        return lax.psum(x * w, ("a", "b"))

    on_grid(body, (P("a", "b"), P()), P())(X, dnp.ones(1))
    assert seen == [({"a", "b"}, set(), {"a", "b"}, {"b"})]
    text = str(dx.make_jaxpr(on_line(lambda x: x * 2))(X))
    assert "f32[1,4]{V:x}" in text


def test_the_mesh_in_force_a_decorator_and_lists_of_specs() -> None:
    with dx.set_mesh(line()):

        @dx.shard_map(in_specs=[P("x"), {"w": P(), "b": P("x")}], out_specs=P("x"))
        def f(x, p):
            return x @ p["w"] + p["b"]

        found = f(X, {"w": np.ones((4, 2), "float32"), "b": np.ones((8, 2), "float32")})
    np.testing.assert_allclose(np.asarray(found), X @ np.ones((4, 2)) + 1, rtol=1e-5)
    for spec in (P(None), P(), P(None, None)):  # results tell their layout in the words of the specs
        assert on_line(lambda x: x, spec, spec)(X).sharding.spec == spec


@pytest.mark.parametrize(
    "bad, error, says",
    [
        (lambda: on_line(lambda x: x)(X[:7]), ValueError, "7 % 8 = 7"),
        (lambda: on_line(lambda x: x, P("y"))(X), ValueError, "axis 'y', the mesh has ('x',)"),
        (lambda: on_line(lambda x: x, P("x", None, None))(X), ValueError, "with 3 entries; the array has 2 axes"),
        (lambda: on_line(lambda x: x.sum(), out_specs=P("x"))(X), ValueError, "result: float32[]{V:x}"),
        (lambda: on_line(lambda x: x * 2, out_specs=P())(X), ValueError, "the value may differ along 'x'"),
        (lambda: on_line(lambda x: x, (P("x"), P("x")))(X), ValueError, "in_specs"),
        (lambda: on_line(lambda x: x, "x")(X), TypeError, "holds PartitionSpecs"),
        (lambda: on_line(lambda x: lax.psum(x, "y"))(X), NameError, "No mapped axis is named 'y' here"),
        (lambda: dx.shard_map(lambda x: x, in_specs=P(), out_specs=P())(X), ValueError, "needs a mesh"),
        (lambda: on_grid(lambda x: x, P("b"), P("b"), axis_names={"a"})(X), ValueError, "manual axes only"),
        (lambda: on_line(lambda x: lax.pcast(x, "x", to="reduced"))(X), NotImplementedError, "varying"),
    ],
    ids=range(11),
)  # fmt: skip
def test_errors_name_the_spec_and_the_arithmetic(bad, error, says) -> None:
    with pytest.raises(error) as caught:
        bad()
    assert says in str(caught.value)


def test_loops_and_branches_that_differ_between_devices() -> None:
    """What all devices share goes through loops of different lengths; its gradient is a sum over devices, outside."""
    w = np.array([1.3, 0.7, 0.9, 1.1], "float32")
    rows = {
        "bounded": lambda w, r: lax.while_loop(lambda c: c[0] < r.sum() * 3, lambda c: (c[0] + 1, c[1] * w), (0.0, w), max_steps=12)[1],
        "checkpoints": lambda w, r: lax.while_loop(lambda c: c[0] < r.sum() * 3, lambda c: (c[0] + 1, c[1] * w), (0.0, w), checkpoints=3)[1],
        "counted": lambda w, r: lax.fori_loop(0, dnp.int32(r.sum() * 3), lambda i, c: c * w + i, w, max_steps=14),
        "cond": lambda w, r: lax.cond(r.sum() > 1, lambda w, r: dnp.sin(w * r), lambda w, r: w, w, r),
    }  # fmt: skip

    def everything(w, x):
        return (
            sum((f(w, r) ** 2).sum() for f in rows.values() for r in x)
            + dx.vmap(rows["bounded"], (None, 0))(w, x).sum()
        )

    x = dnp.asarray(X[:, :4] / 4)
    mapped = dx.shard_map(
        lambda w, x: lax.psum(everything(w, x), "x"), mesh=line(), in_specs=(P(), P("x")), out_specs=P()
    )
    for of in (lambda f: f, lambda f: dx.grad(f, argnums=(0, 1))):
        for a, b in zip(
            dx.tree.leaves(dx.jit(of(mapped))(w, x)),
            dx.tree.leaves(dx.jit(of(everything))(w, x)),
            strict=True,
        ):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-3)
    counter = on_line(lambda x: lax.while_loop(lambda c: c < x.sum(), lambda c: c + 1, 0.0), out_specs=P())
    with pytest.raises(ValueError, match="may differ along 'x'"):
        counter(X)
    for bad in (
        lambda x: lax.cond(x.sum() > 0, lambda x: x * lax.psum(x, "x"), lambda x: x, x),
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + lax.psum(c, "x"), x),
        lambda x: lax.while_loop(lambda c: (c - lax.psum(c, "x")).sum() < 9, lambda c: c + 1, x),
    ):
        with pytest.raises(ValueError, match="cannot hold a collective"):
            on_line(bad)(X)


UNEVEN = {
    "branch": lambda x: lax.cond(x[0, 0] > 0, lambda x: x * lax.psum(x, "x"), lambda x: x, x),
    "while": lambda x: lax.while_loop(lambda c: c[0, 0] < 2, lambda c: c + lax.pmax(abs(c), "x"), x),
    "in the condition": lambda x: lax.while_loop(lambda c: c[0, 0] + 0 * lax.psum(c, "x")[0, 0] < 2, lambda c: c + 1, x),
    "bounded": lambda x: lax.while_loop(lambda c: c[0, 0] < 2, lambda c: c + lax.pmax(abs(c), "x"), x, max_steps=8),
    "checkpoints": lambda x: lax.while_loop(lambda c: c[0, 0] < 2, lambda c: c + lax.pmax(abs(c), "x"), x, checkpoints=2),
    "counted": lambda x: lax.fori_loop(0, lax.axis_index("x"), lambda i, c: c + lax.psum(c, "x"), x, max_steps=8),
    "after steps": lambda x: lax.scan(lambda c, _: (dx.jit(UNEVEN["branch"])(c - 2 * lax.ppermute(c, "x", [(0, 1)])), None), lax.pmax(x, "x"), None, length=2)[0],
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("counted", "after steps") else pytest.mark.slow) for n in UNEVEN],
)
def test_unchecked_devices_that_would_leave_others_waiting_are_told(name: str) -> None:
    """Where types do not say what differs, devices compare what decides, and none waits for what does not come."""
    x = X.copy()
    x[:, 0] = np.arange(8) - 3.5
    with pytest.raises(
        CheckError, match=r"(?s)would leave the others waiting.*along 'x' .* goes from .*lax.pmax"
    ):
        dx.pmap(lambda x: UNEVEN[name](x[None]), axis_name="x")(x)


def test_unchecked_devices_leave_a_loop_together_where_a_check_fails_on_one() -> None:
    """`checkify` ends a loop where a check fails; the report is that of the device."""

    def steps(x):
        def step(c):
            dx.debug.check(c[1] < 11, "{c} is too large", c=c[1])
            return c[0] + 1, c[1] + lax.pmin(x, "x")

        return lax.while_loop(lambda c: c[0] < 5, step, (0, x))[1]

    error, _ = dx.experimental.checkify.checkify(dx.pmap(steps, axis_name="x"))(np.arange(1.0, 9, dtype="f"))
    assert "11.0 is too large" in str(error.get())


def test_unchecked_devices_that_choose_alike_go_through_collectives_together() -> None:
    """Also where only the values tell; what all devices have by a sum or a gathering is not compared."""

    @dx.custom_vjp
    def by_rule(x):
        return x * 2

    def backward(total, ct):
        return (lax.cond(total > 0, lambda ct: ct * lax.psum(ct, "x"), lambda ct: ct, ct),)

    by_rule.defvjp(lambda x: (x * 2, lax.psum(x.sum(), "x") ** 2), backward)
    first = lambda x: x[0, 0] > -9  # which is true on all devices
    known = {
        "sum": lambda x: lax.cond(lax.psum(x.sum(), "x") < 99, lambda x: x * lax.psum(x, "x"), lambda x: x, x),
        "gathered": lambda x: lax.while_loop(lambda c: lax.all_gather(c, "x").max() < 50, lambda c: c + lax.psum(abs(c), "x"), x, max_steps=4),
        "carried": lambda x: lax.scan(lambda c, _: ((c[0] + 1, lax.cond(c[0] % 2 == 0, lambda y: lax.pmean(y, "x") * y, dnp.sin, c[1])), None), (0, x), None, length=3)[0][1],
        "counted": lambda x: dx.checkpoint(lambda x: lax.fori_loop(0, lax.pmax(lax.axis_index("x"), "x"), lambda i, c: c + lax.pmean(dnp.sin(c), "x"), x, max_steps=8))(x),
        "rule": by_rule,
    }  # fmt: skip
    told = {"value": lambda x: lax.cond(first(x), lambda x: x * lax.psum(x, "x"), lambda x: x, x)}

    def everything(f):
        return lambda x: (f(x), dx.grad(lambda x: (f(x) ** 2).sum())(x))

    fs = known | told
    plain = known | {"value": lambda x: x * lax.psum(x, "x")}
    mapped = {name: everything(on_line(f, check_vma=False)) for name, f in fs.items()}
    batch = lambda f: lambda x: dx.vmap(f, axis_name="x")(x[:, None])[:, 0]
    found = dx.jit(lambda x: {name: g(x) for name, g in mapped.items()})(X)
    wanted = dx.jit(lambda x: {name: everything(batch(f))(x) for name, f in plain.items()})(X)
    for name in fs:
        for y, want in zip(found[name], wanted[name], strict=True):
            np.testing.assert_allclose(np.asarray(y), np.asarray(want), rtol=1e-3, atol=1e-3, err_msg=name)
        assert (" pmin[" in str(dx.make_jaxpr(mapped[name])(X))) == (name in told), name


def test_pmap_runs_an_element_on_each_device() -> None:
    w = np.arange(4, dtype="float32")
    tree = {"a": X, "b": X[:, 0]}
    cases = [
        (lambda lib: lib.pmap(lambda x: x * 2 + lib.lax.axis_index("i"), axis_name="i"), (X,)),
        (lambda lib: lib.pmap(lambda x, w: (x / lib.lax.psum(x, "i"), w), axis_name="i", in_axes=(0, None), out_axes=(1, None)), (X, w)),
        (lambda lib: lib.pmap(lambda t: {"c": t["a"] * t["b"]}, in_axes=({"a": 0, "b": 0},), out_axes={"c": 1}), (tree,)),
        (lambda lib: lib.pmap(lambda n, x: x**n, static_broadcasted_argnums=0), (3, X)),
        (lambda lib: lib.pmap(lambda x: x.sum(), in_axes=1, devices=lib.devices()[4:]), (X,)),
        (lambda lib: lib.pmap(lib.grad(lambda x: lib.lax.psum((x**2).sum(), "i")), axis_name="i"), (X,)),
        (lambda lib: lib.grad(lambda x: lib.pmap(lambda x: lib.lax.pmean(x**2, "i"), axis_name="i")(x).sum()), (X,)),
    ]  # fmt: skip
    for make, args in cases:
        f, theirs = make(dx), make(jax)
        for a, b in zip(dx.tree.leaves(f(*args)), jax.tree.leaves(theirs(*args)), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
    assert dx.pmap(lambda x: x)(X).sharding.spec == P("pmap")
    assert dx.pmap(lambda x: x, in_axes=-2, out_axes=-1)(X).shape == (4, 8)
    with pytest.raises(ValueError, match="elements: 9, devices: 8"):
        dx.pmap(lambda x: x)(np.ones(9))
    with pytest.raises(ValueError, match="x, axis 0: length 8\n  y, axis 0: length 4"):
        dx.pmap(lambda x, y: x)(X, w)


def test_vmap_splits_a_batch_over_a_mesh_axis() -> None:
    f = on_grid(lambda x: lax.psum(x, "b") * 2, P("b"), P(), axis_names={"a", "b"})
    batch = np.stack([X, X + 1, X + 2, X + 3])
    wanted = dx.vmap(f)(batch)
    found = dx.jit(dx.vmap(f, spmd_axis_name="a"))(batch)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted))
    assert found.sharding.spec == P("a")
    constrained = dx.vmap(
        lambda x: lax.with_sharding_constraint(x, NamedSharding(grid(), P("b"))), spmd_axis_name="a"
    )
    assert dx.jit(constrained)(batch).sharding.spec == P("a", "b")
    gradient = dx.grad(lambda x: (dx.vmap(f, spmd_axis_name="a")(x) ** 2).sum())(batch)
    np.testing.assert_allclose(
        np.asarray(gradient), np.asarray(dx.grad(lambda x: (dx.vmap(f)(x) ** 2).sum())(batch))
    )
    with pytest.raises(ValueError, match="3 % 2 = 1"):
        dx.vmap(f, spmd_axis_name="a")(batch[:3])


EQUAL, UNEQUAL = [[0, 5], [1, 4], [2, 7], [3, 6]], [[3], [0, 1, 2, 4, 5, 6, 7]]


def exchanged_within_groups(a):
    """Every collective over groups of positions, of an array of 8 numbers for each; one array of all results."""
    outs = [
        lax.psum(a, "i", axis_index_groups=EQUAL),
        lax.psum(a, "i", axis_index_groups=UNEQUAL) * a,
        lax.pmean(a, "i", axis_index_groups=UNEQUAL),
        lax.pmax(a, "i", axis_index_groups=UNEQUAL),
        lax.pmin(a, "i", axis_index_groups=EQUAL) * a,
        lax.all_gather(a, "i", axis_index_groups=EQUAL, axis=1) * a[:, None],
        lax.psum_scatter(a * a, "i", axis_index_groups=EQUAL, tiled=True),
        lax.all_to_all(a.reshape(4, 2), "i", 1, 0, axis_index_groups=EQUAL) * a.reshape(2, 4),
        lax.psum(1.0, "i", axis_index_groups=UNEQUAL) * a,
    ]
    return dnp.concatenate([y.ravel() for y in outs])


def test_groups_of_positions_exchange_on_their_own() -> None:
    x = np.random.default_rng(0).normal(size=(8, 8)).astype("float32")
    mesh = dx.make_mesh((8,), ("i",))

    def mapped(x):
        return exchanged_within_groups(x[0])[None]

    sharded = dx.shard_map(mapped, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    batched = dx.vmap(exchanged_within_groups, axis_name="i")
    values, expected_gradient = dx.jit(lambda x: (batched(x), dx.grad(lambda x: (batched(x) ** 2).sum())(x)))(
        x
    )
    np.testing.assert_allclose(values[5, :8], x[0] + x[5], rtol=1e-6)
    np.testing.assert_allclose(values[3, 8:24], np.concatenate([x[3] * x[3], x[3]]), rtol=1e-5)
    for f in (sharded, dx.pmap(exchanged_within_groups, "i")):  # of pmap types track nothing
        found, gradient = dx.jit(lambda x, f=f: (f(x), dx.grad(lambda x: (f(x) ** 2).sum())(x)))(x)
        np.testing.assert_allclose(found, values, rtol=1e-5)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-4)
    for groups, text in (
        ([[0, 1], [1, 2]], "holds each position along the axis once"),
        (UNEQUAL, "are of one length"),
    ):
        with pytest.raises(ValueError, match=text):
            dx.vmap(lambda a, g=groups: lax.all_gather(a, "i", axis_index_groups=g), axis_name="i")(x)


def test_collectives_over_axes_of_a_vmap_and_of_a_mesh_together() -> None:
    """Over a tuple of names, of which `vmap` maps some, a collective gives what it gives over one axis."""
    x = np.random.default_rng(0).normal(size=(2, 3, 12, 2)).astype("float32")

    def f(name, x):
        turned = lax.ppermute(x, name, [(i, (i + 2) % 6) for i in range(6)])
        some = lax.ppermute(x, name, [(0, 5), (4, 1)])
        tiled = lax.all_to_all(x, name, 0, 1, tiled=True)
        stacked = lax.all_to_all(x[:6], name, 0, 1)
        return turned, some, tiled, stacked, lax.pshuffle(x, name, [5, 0, 1, 3, 2, 4])

    flat = dx.jit(dx.vmap(lambda x: f("i", x), axis_name="i"))(x.reshape(6, 12, 2))
    both = dx.vmap(dx.vmap(lambda x: f(("a", "b"), x), axis_name="b"), axis_name="a")
    grid = dx.make_mesh((2,), ("a",), devices=dx.devices()[:2])
    inner = dx.vmap(lambda x: f(("a", "b"), x), axis_name="b")
    mixed = dx.shard_map(
        lambda x: dx.tree.map(lambda y: y[None], inner(x[0])), mesh=grid, in_specs=P("a"), out_specs=P("a")
    )
    for found in (dx.jit(both)(x), dx.jit(mixed)(x)):
        for a, b in zip(found, flat, strict=True):
            np.testing.assert_array_equal(np.asarray(a).reshape(b.shape), b)


def test_reading_the_result_of_a_program_that_fails_on_devices_raises() -> None:
    f = on_line(lambda x: lax.pmax(x, "x"), out_specs=P())
    with pytest.raises(RuntimeError, match="eduction"):
        np.asarray(f(np.ones(8, "complex64")))


@pytest.mark.parametrize("check_vma", [True, False])
def test_checks_of_each_device_become_data(check_vma):
    """The report is that of the first device whose check failed."""

    def f(x):
        dx.debug.check(dnp.all(x < 5), "{x} is large", x=x.max())
        return x * 2

    checked = dx.jit(dx.checkify.checkify(on_line(f, check_vma=check_vma)))
    err, out = checked(dnp.arange(8.0) - 3)
    assert err.get() is None and out.tolist() == (2 * np.arange(8) - 6.0).tolist()
    assert checked(dnp.arange(8.0))[0].get().startswith("5.0 is large")
    unchecked = dx.checkify.checkify(on_line(f, check_vma=check_vma), errors=frozenset())
    assert unchecked(dnp.arange(8.0))[0].get() is None
    of_sum = on_line(lambda x: lax.psum(dnp.log(x), "x"), out_specs=P(), check_vma=check_vma)
    err, _ = dx.checkify.checkify(of_sum, errors=dx.checkify.nan_checks)(dnp.arange(8.0) - 1)
    assert "nan generated by primitive: log" in err.get()


def test_a_shard_map_within_another_is_over_the_axes_that_are_left() -> None:
    inner = lambda y: y * lax.psum(y, "b")
    on_rows = lambda f, in_specs=P("a"), **how: dx.shard_map(f, in_specs=in_specs, out_specs=P("a"), **how)  # noqa: B008
    within = lambda **more: on_rows(
        lambda x: dx.shard_map(inner, in_specs=P("b"), out_specs=P("b"), **more)(x),
        mesh=grid(),
        axis_names={"a"},
    )
    np.testing.assert_array_equal(within()(X), within(axis_names={"b"})(X))
    np.testing.assert_array_equal(
        on_rows(lambda x, y: x + y, mesh=grid(), in_specs=(P("a"), None))(X, 1.0), X + 1
    )
    for bad, says in (
        (lambda: within(axis_names={"a", "b"})(X), "axis 'a' is manual already"),
        (lambda: on_rows(inner, mesh=grid(), axis_names="a"), "axis_names of shard_map is a set of names"),
        (lambda: on_rows(inner, mesh="grid")(X), "mesh of shard_map is a mesh"),
    ):
        with pytest.raises(ValueError, match=says):
            bad()


def test_pmap_lowers_with_the_arguments_of_its_calls() -> None:
    f = dx.pmap(
        lambda tree, n, scale: tree["x"] * n * scale, static_broadcasted_argnums=1, in_axes=(0, None, None)
    )
    compiled = f.lower({"x": dnp.arange(8.0)}, 3, 2.0).compile()
    assert compiled({"x": dnp.arange(8.0)}, 2.0).tolist() == f({"x": dnp.arange(8.0)}, 3, 2.0).tolist()


def test_a_program_is_searched_once_for_uneven_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    from didax.extend.core import jaxpr_as_fun
    from didax.primitives import shard_map

    loop = lambda x: lax.fori_loop(0, 3, lambda i, c: lax.psum(c, "x") + x, x)
    staged = dx.make_jaxpr(on_line(loop, check_vma=False))(X)
    searched = []
    agreeing = shard_map.agreeing
    monkeypatch.setattr(shard_map, "agreeing", lambda *args: (searched.append(1), agreeing(*args))[1])
    dx.make_jaxpr(jaxpr_as_fun(staged))(X)
    assert not searched
    dx.vmap(jaxpr_as_fun(staged))(X[None])
    assert searched, "the program of a batch is another one"
    searched.clear()
    dx.vmap(jaxpr_as_fun(staged))(X[None])
    assert not searched


def test_a_checkpoint_around_a_shard_map_within_another() -> None:
    """XLA ends the process where the recomputation is a call that is not inlined."""
    mesh = dx.make_mesh((2, 2, 2), ("a", "b", "c"))
    x = np.cos(np.arange(64.0, dtype="float32")).reshape(8, 8)

    def gradient(wrapped):
        within = dx.shard_map(
            lambda y: dnp.sin(lax.psum(y, "b")), in_specs=P("b"), out_specs=P(), axis_names={"b"}
        )
        f = dx.shard_map(wrapped(within), mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
        return dx.jit(dx.grad(lambda x: (f(x) ** 2).sum()))(x)

    np.testing.assert_allclose(gradient(dx.checkpoint), gradient(lambda f: f), rtol=1e-5, atol=1e-5)
