"""Shardings in types: the types of operations over explicit mesh axes, and their values in every transformation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, lax, nn, random
from didax.errors import ShardingTypeError
from didax.sharding import AxisType, auto_axes, explicit_axes, reshard

WHOLE = P()
MESH = dx.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)


def window_sums(x, *sizes: int):
    return lax.reduce_window(x, 0.0, lax.add, sizes, sizes, "SAME")


@pytest.fixture(autouse=True)
def explicit_mesh():
    with dx.set_mesh(MESH):
        yield


def matrix(spec: Any = WHOLE, mesh: Any = MESH) -> dx.Array:
    """An 8 x 8 matrix, split over the mesh."""
    numbers = np.random.default_rng(0).normal(size=(8, 8)).astype("float32")
    return dx.device_put(dnp.asarray(numbers), NamedSharding(mesh, spec))


def type_of(f: Callable[..., Any], *args: Any) -> str:
    return str(dx.make_jaxpr(f)(*args).out_avals[0])


# The type of the result of an operation on x: float32[8@x,8@y], w: [8,8@y], r: [8,8], v: [8@x,8]; or what it is refused
# for. Where jax 0.10.2 has the operation, and answers, it gives the same type.
TYPES = {
    "unary": (lambda x, w, r, v: dnp.sin(x), "float32[8@x,8@y]"),
    "join": (lambda x, w, r, v: x + w + r, "float32[8@x,8@y]"),
    "scalars stretch": (lambda x, w, r, v: 2 * v + r[0, 0], "float32[8@x,8]"),
    "comparison": (lambda x, w, r, v: dnp.where(x > 0, x, 0.0), "float32[8@x,8@y]"),
    "conflict": (lambda x, w, r, v: x + x.T, "add takes operands that are split alike"),
    "cast": (lambda x, w, r, v: x.astype(int), "int32[8@x,8@y]"),
    "sum": (lambda x, w, r, v: x.sum(0), "float32[8@y]"),
    "sum of all": (lambda x, w, r, v: x.sum(), "float32[]"),
    "max": (lambda x, w, r, v: x.max(1), "float32[8@x]"),
    "argmax": (lambda x, w, r, v: dnp.argmax(x, 1), "int32[8@x]"),
    "variance": (lambda x, w, r, v: x.var(0), "float32[8@y]"),
    "softmax": (lambda x, w, r, v: nn.softmax(x), "float32[8@x,8@y]"),
    "product": (lambda x, w, r, v: x @ w, "float32[8@x,8@y]"),
    "product of rows": (lambda x, w, r, v: x @ r, "float32[8@x,8]"),
    "sum over split axes of one": (lambda x, w, r, v: w @ r, "float32[8,8]"),
    "ambiguous product": (lambda x, w, r, v: x @ w.T, "split along axes that are summed over"),
    "other sums": (lambda x, w, r, v: x @ x, "sums over axes that are split alike"),
    "one axis twice": (lambda x, w, r, v: v @ v.T, "splits at most one axis of the result of dot_general"),
    "stated product": (lambda x, w, r, v: dnp.dot(x, w.T, out_sharding=P("x")), "float32[8@x,8]"),
    "stated einsum": (lambda x, w, r, v: dnp.einsum("ij,kj->ik", x, w, out_sharding=P(None, "x")), "float32[8,8@x]"),
    "batched product": (lambda x, w, r, v: dnp.einsum("bi,bi->b", v, r), "float32[8@x]"),
    "outer": (lambda x, w, r, v: dnp.outer(v.sum(1), w.sum(0)), "float32[8@x,8@y]"),
    "transpose": (lambda x, w, r, v: x.T, "float32[8@y,8@x]"),
    "new axes": (lambda x, w, r, v: dnp.broadcast_to(x[:, None], (3, 8, 2, 8)), "float32[3,8@x,2,8@y]"),
    "merged": (lambda x, w, r, v: x.reshape(64), "float32[64@(x,y)]"),
    "merged rows": (lambda x, w, r, v: v.ravel(), "float32[64@x]"),
    "divided": (lambda x, w, r, v: x.reshape(4, 2, 2, 4), "float32[4@x,2,2@y,4]"),
    "divided by both": (lambda x, w, r, v: reshard(x, P(("x", "y"))).reshape(4, 2, 8), "float32[4@x,2@y,8]"),
    "divided by one": (lambda x, w, r, v: reshard(x, P(("x", "y"))).reshape(8, 2, 4), "float32[8@(x,y),2,4]"),
    "divided within": (lambda x, w, r, v: reshard(x, P(("x", "y"))).reshape(2, 4, 8), "reshape merges and divides"),
    "divided in other parts": (lambda x, w, r, v: x.reshape(2, 4, 8), "reshape merges and divides"),
    "merged columns": (lambda x, w, r, v: w.reshape(64), "reshape merges and divides"),
    "stated reshape": (lambda x, w, r, v: w.reshape(64, out_sharding=P("y")), "float32[64@y]"),
    "other groups": (lambda x, w, r, v: v.reshape(16, 4), "reshape merges and divides"),
    "axes of length 1": (lambda x, w, r, v: x.reshape(1, 8, 1, 8)[..., None].squeeze(0), "float32[8@x,1,8@y,1]"),
    "concatenate": (lambda x, w, r, v: dnp.concatenate([x, x]), "float32[16@x,8@y]"),
    "concatenate others": (lambda x, w, r, v: dnp.concatenate([x, w]), "concatenate joins arrays that are split alike"),
    "stack": (lambda x, w, r, v: dnp.stack([x, x], 1), "float32[8@x,2,8@y]"),
    "slice": (lambda x, w, r, v: x[:4, ::2], "float32[4@x,4@y]"),
    "slice that is too short": (lambda x, w, r, v: x[:3], "slice keeps a split axis split, in equal parts"),
    "row": (lambda x, w, r, v: w[3], "float32[8@y]"),
    "row that is split": (lambda x, w, r, v: x[3], "1 % 4 = 1"),
    "stated row": (lambda x, w, r, v: x.at[3].get(out_sharding=P("y")), "float32[8@y]"),
    "rows": (lambda x, w, r, v: w[dnp.array([3, 1])], "float32[2,8@y]"),
    "rows that are split": (lambda x, w, r, v: x[dnp.array([3, 1])], "A gather looks up in axes that are not split"),
    "stated rows": (lambda x, w, r, v: x.at[dnp.array([3, 1])].get(out_sharding=P(None, "x")), "float32[2,8@x]"),
    "take along": (lambda x, w, r, v: dnp.take_along_axis(v, dnp.zeros((8, 1), int), 1), "float32[8@x,1]"),
    "take": (lambda x, w, r, v: dnp.take(r, dnp.arange(8, out_sharding=P("x")), 0), "float32[8@x,8]"),
    "update": (lambda x, w, r, v: w.at[3].add(1.0), "float32[8,8@y]"),
    "window": (lambda x, w, r, v: window_sums(r, 1, 2), "float32[8,4]"),
    "window of split rows": (lambda x, w, r, v: dx.grad(lambda v: window_sums(v, 1, 2).sum())(v), "float32[8@x,8]"),
    "window over split rows": (lambda x, w, r, v: window_sums(v, 2, 1), "works along axes that are not split"),
    "row written": (lambda x, w, r, v: w.at[3].set(0.0), "float32[8,8@y]"),
    "update of split rows": (lambda x, w, r, v: x.at[3].set(1.0), "writes a part that is split as the array is"),
    "scatter": (lambda x, w, r, v: w.at[dnp.array([3, 1])].set(0.0), "float32[8,8@y]"),
    "scatter to split rows": (lambda x, w, r, v: x.at[dnp.array([3, 1])].set(0.0), "A scatter writes to places"),
    "pad": (lambda x, w, r, v: dnp.pad(x, ((4, 0), (2, 4))), "float32[12@x,14@y]"),
    "reversed": (lambda x, w, r, v: x[::-1], "float32[8@x,8@y]"),
    "running sum": (lambda x, w, r, v: dnp.cumsum(v, 1), "float32[8@x,8]"),
    "running sum along parts": (lambda x, w, r, v: dnp.cumsum(v, 0), "cumsum works along axes that are not split"),
    "sorted": (lambda x, w, r, v: dnp.sort(v, 1), "float32[8@x,8]"),
    "sorted parts": (lambda x, w, r, v: dnp.sort(v, 0), "sort works along axes that are not split"),
    "largest": (lambda x, w, r, v: lax.top_k(v, 2)[0], "float32[8@x,2]"),
    "bits": (lambda x, w, r, v: lax.bitcast_convert_type(x, "uint8"), "uint8[8@x,8@y,4]"),
    "convolution": (
        lambda x, w, r, v: lax.conv_general_dilated(v[:, None], r[:2, None, :3], (1,), "SAME"), "float32[8@x,2,8]"
    ),
    "convolution in space": (
        lambda x, w, r, v: lax.conv_general_dilated(w[:, None], r[:2, None, :3], (2,), "SAME"), "float32[8,2,4@y]"
    ),
    "split filters": (lambda x, w, r, v: dnp.convolve(v.sum(1), v.sum(1)), "takes filters, features and groups"),
    "zeros": (lambda x, w, r, v: dnp.zeros((8, 2), out_sharding=P("x")), "float32[8@x,2]"),
    "like": (lambda x, w, r, v: dnp.ones_like(x) + dnp.zeros_like(w), "float32[8@x,8@y]"),
    "made": (lambda x, w, r, v: dnp.asarray(np.ones((8, 2), "float32"), out_sharding=P("x")), "float32[8@x,2]"),
    "drawn booleans": (
        lambda x, w, r, v: dx.random.bernoulli(dx.random.key(0), 0.5, (8,), out_sharding=P("x")), "bool[8@x]"
    ),
    "drawn": (lambda x, w, r, v: dx.random.normal(dx.random.key(0), (8, 2), out_sharding=P("x")), "float32[8@x,2]"),
    "keys": (lambda x, w, r, v: reshard(dx.random.split(dx.random.key(0), 8), P("y")), "key<fry>[8@y]"),
    "laid out": (lambda x, w, r, v: reshard(x, P(("y", "x"))), "float32[8@(y,x),8]"),
    "asserted": (lambda x, w, r, v: lax.with_sharding_constraint(x, P("x", "y")), "float32[8@x,8@y]"),
    "left to the partitioner": (
        lambda x, w, r, v: auto_axes(lambda x: x.reshape(2, 32)[::-1], out_sharding=P(None, "x"))(x),
        "float32[2,32@x]",
    ),
    "one axis left": (
        lambda x, w, r, v: auto_axes(lambda x: dnp.sin(x), axes="y", out_sharding=P("x"))(x),
        "float32[8@x,8]",
    ),
    "mapped": (lambda x, w, r, v: dx.vmap(lambda a, b: a @ b, (0, None))(v, r), "float32[8@x,8]"),
    "mapped elsewhere": (lambda x, w, r, v: dx.vmap(lambda a: a * 2, 1, 1)(x), "float32[8@x,8@y]"),
    "mapped loop": (
        lambda x, w, r, v: dx.vmap(lambda a: lax.scan(lambda c, t: (c + t, c), 0.0, a)[1])(v),
        "float32[8@x,8]",
    ),
    "scan": (lambda x, w, r, v: lax.scan(lambda c, t: (c + t, c), w[0], w)[1], "float32[8,8@y]"),
    "parts": (lambda x, w, r, v: dx.shard_map(lambda p: lax.psum(p, "x"), out_specs=P(None, "y"))(x), "float32[2,8@y]"),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types_follow_operations(name: str) -> None:
    f, expected = TYPES[name]
    args = matrix(P("x", "y")), matrix(P(None, "y")), matrix(), matrix(P("x"))
    if "[" in expected and " " not in expected:
        assert type_of(f, *args) == expected
        return
    with pytest.raises(ShardingTypeError) as caught:
        dx.make_jaxpr(f)(*args)
    assert expected in str(caught.value)


def transformed(f: Callable[..., Any]) -> Callable[..., Any]:
    """The values of a function, and of its transformations."""

    def every(x: Any, w: Any, r: Any, v: Any) -> dict[str, Any]:
        def loss(*args: Any) -> Any:
            y = f(*args)
            return (dnp.sin(y) * (y + 1)).sum() if dnp.issubdtype(y.dtype, dnp.floating) else 0.0

        def gradient(*args: Any) -> Any:
            return dx.grad(loss, argnums=(0, 1, 2, 3))(*args)

        args = x, w, r, v
        return {
            "value": f(*args),
            "gradient": gradient(*args),
            "tangent": dx.jvp(lambda *args: dx.checkpoint(loss)(*args), args, gradient(*args)),
            "of a loop": dx.grad(
                lambda r: lax.scan(lambda c, t: (c, loss(x, w, c * t, v)), r, dnp.arange(3.0))[1].sum()
            )(r),
            "of a branch": dx.grad(
                lambda v: lax.cond(x.sum() > 0, loss, lambda *args: loss(*args) * 2, x, w, r, v)
            )(v),
            "of a batch": dx.vmap(lambda s: dx.grad(loss, argnums=3)(x * s, w, r, v * s))(dnp.arange(2.0)),
        }

    return every


SAME_ANYWHERE = {
    n: f for n, (f, text) in TYPES.items() if " " not in text and n not in ("keys", "bits", "parts")
}


@pytest.mark.parametrize(
    "names",
    [
        ["divided", "stated product", "convolution in space"],
        *[pytest.param(list(SAME_ANYWHERE)[i::9], marks=pytest.mark.slow) for i in range(9)],
    ],
)
def test_values_are_those_of_one_device(names: list[str]) -> None:
    """On a mesh of one device types are the same, and nothing is split."""
    specs = P("x", "y"), P(None, "y"), P(), P("x")
    found: list[Any] = []
    for mesh in (MESH, dx.make_mesh((1, 1), ("x", "y"), MESH.axis_types)):
        with dx.set_mesh(mesh):
            args = [matrix(spec, mesh) for spec in specs]
            outs = dx.jit(lambda *args: [transformed(SAME_ANYWHERE[n])(*args) for n in names])(*args)
            for values in outs:
                for x, ct in zip(args, values["gradient"], strict=True):
                    assert ct.aval is x.aval
                    assert ct.sharding.is_equivalent_to(x.sharding, 2)
            found.append([np.asarray(y) for y in dx.tree.leaves(outs)])
    for several, alone in zip(*found, strict=True):
        np.testing.assert_allclose(several, alone, atol=2e-4, rtol=2e-3)


def test_what_types_say_of_shardings() -> None:
    x = matrix(P("x", "y"))
    assert dx.typeof(x).sharding == NamedSharding(MESH.abstract_mesh, P("x", "y"))
    assert dx.typeof(dnp.zeros((2, 3))).sharding == NamedSharding(MESH.abstract_mesh, P(None, None))
    assert dx.sharding.get_abstract_mesh() is MESH.abstract_mesh
    assert "b:f32[8@x,8@y] = sin a" in str(dx.make_jaxpr(dnp.sin)(x))
    text = str(dx.make_jaxpr(dx.grad(lambda x: (x @ x.T.reshape(8, 8, out_sharding=P())).sum()))(x))
    assert "f32[8@x,8@y]" in text.splitlines()[-2], "a cotangent lies as its primal does"
    assert (x + x).sharding is x.sharding  # at once, too
    assert dx.eval_shape(
        lambda x: x.sum(1), dx.ShapeDtypeStruct((8, 8), "float32", sharding=x.sharding)
    ).shape == (8,)
    assert dx.eval_shape(lambda x: x.sum(1), x).sharding.spec == P("x")
    traced: list[str] = []
    f = dx.jit(lambda x: (traced.append(str(x.aval)), x + 1)[1])
    for spec in (P("x"), P("y"), P("x")):
        assert f(matrix(spec)).sharding.spec[0] == spec[0]
    assert traced == ["float32[8@x,8]", "float32[8@y,8]"], "types are part of the signature"


def test_derivatives_at_once() -> None:
    """Not compiled as a whole, the rules meet arrays that lie on devices; values follow those of NumPy."""
    x, y = matrix(P("x", "y")), matrix(P("y"))
    numbers = np.asarray(x)
    gradient = dx.grad(lambda x: dnp.dot(x, y, out_sharding=P("x")).sum())(x)
    np.testing.assert_allclose(gradient, np.ones((8, 8)) @ numbers.T, atol=1e-5)
    assert gradient.aval is x.aval

    @dx.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (reshard(3 * x * x * ct, P()),))

    @dx.jit
    def compiled(x, v, r):
        rows = dx.vmap(dx.grad(lambda row: (row * row).sum()))(x)
        products = dx.vmap(lambda row, w: row @ w, in_axes=(0, None))(v, r)
        return (
            dx.grad(lambda x: reshard(x, P("y")).sum())(x),
            rows,
            products,
            dx.grad(lambda x: cube(x).sum())(x),
        )

    ones, rows, products, cubes = compiled(x, matrix(P("x")), matrix())
    assert ones.aval is rows.aval is cubes.aval is x.aval
    np.testing.assert_allclose(rows, 2 * numbers)
    np.testing.assert_allclose(products, numbers @ numbers, atol=1e-5)


def test_axes_that_are_explicit_for_a_while() -> None:
    """`auto_axes` leaves a part to the partitioner, `explicit_axes` takes it back."""
    seen: list[str] = []

    def inner(x):
        seen.append(f"{x.aval} {dx.sharding.get_abstract_mesh().axis_types}")
        return x * 2

    f = auto_axes(explicit_axes(inner, in_sharding=P("y")), out_sharding=P("x"))
    x = matrix(P("x", "y"))
    assert dx.jit(f)(x).aval is f(x).aval is dx.jit(dx.grad(lambda x: f(x).sum()))(matrix(P("x"))).aval
    assert seen[0] == "float32[8@y,8] (Explicit, Explicit)"
    with dx.set_mesh(dx.make_mesh((4, 2), ("x", "y"))):
        assert str(explicit_axes(dnp.sin, in_sharding=P("x"))(dnp.ones(8)).aval) == "float32[8]"
    mixed = dx.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    with dx.set_mesh(mixed):
        z = dx.jit(lambda x: dnp.sin(x) * 2)(dx.device_put(x, NamedSharding(mixed, P("x", "y"))))
        assert str(z.aval) == "float32[8@x,8]"
        assert z.sharding.spec == P("x", "y"), "the partitioner may split along the other axis"


# What a device computes of its part, which is split over y still, and the type of the result, as jax 0.10.2 has it.
BESIDE_MANUAL = {
    "exchange": (lambda x: dnp.sin(x) + lax.psum(x * x, "x"), "float32[2,8@y]{x}"),
    "the same everywhere": (lambda x: lax.pmax(x, "x"), "float32[2,8@y]"),
    "along an axis": (lambda x: lax.all_gather(x, "x", tiled=True), "float32[8,8@y]{x}"),
    "pieces": (
        lambda x: lax.psum_scatter(lax.all_gather(x, "x", tiled=True), "x", tiled=True),
        "float32[2,8@y]{x}",
    ),
    "rounds": (lambda x: lax.ppermute(x.T, "x", [(0, 1), (1, 0)]), "float32[8@y,2]{x}"),
    "a product": (lambda x: dnp.dot(x, x.T, out_sharding=P(None, "y")), "float32[2,2@y]{x}"),
    "moved": (
        lambda x: reshard(x, NamedSharding(dx.sharding.get_abstract_mesh(), P("y"))),
        "float32[2@y,8]{x}",
    ),
    "within another": (
        lambda x: dx.shard_map(
            lambda x: x * lax.all_gather(x, "y", axis=1, tiled=True).sum(1, keepdims=True),
            in_specs=P(None, "y"),
            out_specs=P(None, "y"),
            axis_names={"y"},
        )(x),
        "float32[2,8@y]{x}",
    ),
    "a loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x), "float32[2,8@y]{x}"),
}


def test_axes_beside_those_of_a_shard_map() -> None:
    seen: dict[str, str] = {}

    def every(x: Any) -> Any:
        def parts(name: str, f: Callable[..., Any]) -> Any:
            def run(x: Any) -> Any:
                y = f(x)
                seen.setdefault(name, str(dx.typeof(y)))
                return dnp.sin(y).sum(keepdims=True).reshape(1)

            return dx.shard_map(run, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(x)

        def loss(x: Any) -> Any:
            return sum(parts(name, f).sum() for name, (f, _) in BESIDE_MANUAL.items())

        kept = dx.shard_map(
            lambda x: x + lax.psum(x, "x"), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        )(x)
        rows = dx.vmap(dx.grad(lambda x, s: loss(x * s)), (None, 0))(x, dnp.arange(2.0))
        return kept, loss(x), dx.grad(loss)(x), rows

    x = matrix(P("x", "y"))
    found = dx.jit(every)(x)
    assert seen == {name: text for name, (_, text) in BESIDE_MANUAL.items()}
    assert [str(dx.typeof(y)) for y in found] == [
        "float32[8@x,8@y]", "float32[]", "float32[8@x,8@y]", "float32[2,8@x,8@y]"
    ]  # fmt: skip
    narrow = dx.make_mesh((4, 1), ("x", "y"), MESH.axis_types)  # on which nothing is split over y
    with dx.set_mesh(narrow):
        others = dx.jit(every)(matrix(P("x", "y"), narrow))
    for y, z in zip(found, others, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)


def test_the_mesh_within_a_shard_map() -> None:
    meshes: list[Any] = []

    def body(x: Any) -> Any:
        meshes.append(dx.sharding.get_abstract_mesh())
        return x

    with dx.set_mesh(dx.sharding.Mesh(dx.devices()[:1], ("z",))):
        dx.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(matrix(P("x")))
    assert meshes[0] is MESH.abstract_mesh.update(axis_types=(AxisType.Manual, AxisType.Explicit))


REFUSED = {
    "unlike batches": (
        lambda x: dx.vmap(dnp.add, (0, 1))(x, x),
        ValueError,
        "The mapped axes of the arguments of vmap are split alike",
    ),
    "a loop along parts": (
        lambda x: lax.scan(lambda c, t: (c, t), 0.0, x),
        ValueError,
        "scan runs along leading axes that are not split",
    ),
    "a carry": (
        lambda x: lax.scan(lambda c, _: (reshard(c, P("y")), None), x, None, 2),
        TypeError,
        "float32[8@x,8@y] went in, float32[8@y,8] came out",
    ),
    "an assertion": (
        lambda x: lax.with_sharding_constraint(x, P()),
        AssertionError,
        "asserts what the type says",
    ),
    "no such axis": (lambda x: reshard(x, P("z")), ValueError, "axis 'z'; the mesh has ('x', 'y')"),
    "indivisible": (lambda x: reshard(dnp.ones(6), P("x")), ValueError, "6 % 4 = 2"),
    "the partitioner's axis": (
        lambda x: reshard(x, NamedSharding(dx.make_mesh((8,), ("z",)), P("z"))),
        ValueError,
        "reshard splits arrays over explicit mesh axes",
    ),
    "unsaid": (lambda x: auto_axes(dnp.sin)(x), TypeError, "auto_axes is told how the results are split"),
    "other specs": (
        lambda x: dx.shard_map(dnp.sin, in_specs=P("y"), out_specs=P("y"))(x),
        ValueError,
        "argument x: float32[8@x,8@y], spec: P('y',)",
    ),
    "a manual axis": (
        lambda x: dx.shard_map(
            lambda x: reshard(x, P("x")), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        )(x),
        ValueError,
        "Within a shard_map nothing is laid out over its own axes",
    ),
    "a closure": (
        lambda x: dx.shard_map(
            lambda y: y * x.sum((0, 1)), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        )(x),
        ValueError,
        "uses: float32[8@x,8@y], which is split over ('x',)",
    ),
    "two meshes": (
        lambda x: x + dx.device_put(x, NamedSharding(MESH.update(axis_names=("a", "b")), P("a"))),
        ShardingTypeError,
        "The operands of add are split over one mesh",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    f, error, text = REFUSED[name]
    with pytest.raises(error) as caught:
        f(matrix(P("x", "y")))
    assert text in str(caught.value)


def test_results_say_of_each_axis_how_it_is_split() -> None:
    """As types do; what the user states of a result of `jit` stands in the user's words."""
    with dx.set_mesh(MESH):
        x = dx.device_put(dnp.ones((8, 8)), NamedSharding(MESH, P("x")))
        f = lambda x: (x * 2, reshard(x, P()), dnp.sort(x, 1))
        assert [y.sharding.spec for y in dx.jit(f)(x)] == [P("x", None), P(None, None), P("x", None)]
        assert reshard(x, P("y")).sharding.spec == P("y", None)
        assert dx.jit(lambda x: x, out_shardings=P("y"))(x).sharding.spec == P("y")
        with pytest.raises(ValueError, match="says of each axis"):
            reshard(x, P(P.UNCONSTRAINED))


def test_a_type_that_no_mesh_splits_is_that_of_one_device() -> None:
    """Once an array was split over explicit axes, each type has a sharding: here, over a mesh without axes."""
    matrix(P("x"))
    with dx.set_mesh(None):
        aval = dx.typeof(np.ones((2, 3), np.float32))
        assert aval.sharding.mesh.axis_names == ()
        assert dx.jit(lambda x: x.sum(0)).lower(aval).out_info.shape == (3,)


@pytest.mark.ci
def test_rejection_samplers_split_what_they_draw_as_their_parameters() -> None:
    many, few = [dx.device_put(dnp.full(n, 2.0), NamedSharding(MESH, P("x"))) for n in (1 << 14, 8)]
    key = random.key(0)
    assert type_of(random.gamma, key, many) == "float32[16384@x]"
    assert type_of(dx.grad(lambda a: random.loggamma(key, a).sum()), few) == "float32[8@x]"
    assert type_of(random.poisson, key, few) == "int32[8@x]"
    assert type_of(random.binomial, key, few, few / 4) == "float32[8@x]"
    with dx.debug_key_reuse("off"):
        np.testing.assert_array_equal(random.gamma(key, few), random.gamma(key, np.asarray(few)))
