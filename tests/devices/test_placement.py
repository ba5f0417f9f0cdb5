# ruff: noqa: E501 (a row is one line of a table)
"""Meshes, specs, shardings, and arrays that lie on several devices."""

import copy
import pickle

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, lax, sharding
from didax.experimental.layout import Format, Layout, with_layout_constraint
from didax.sharding import AbstractMesh, AxisType, Mesh

MESHES = {"1x8": (1, 8), "2x4": (2, 4), "8x1": (8, 1), "4x2": (4, 2)}
SPECS = [
    (),
    ("a",),
    ("b",),
    ("a", "b"),
    ("b", "a"),
    (None, "a"),
    (("a", "b"),),
    (None, ("b", "a")),
    (("b", "a"), None),
]


def mesh_of(shape: tuple[int, ...] = (2, 4), names: tuple[str, ...] = ("a", "b")) -> Mesh:
    return dx.make_mesh(shape, names)


def test_new_arrays_lie_on_the_mesh_in_force() -> None:
    """As in JAX: whole on each device, in a `set_mesh` block and not in a `with mesh:` block."""
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    split = NamedSharding(mesh, P("a"))
    with dx.set_mesh(mesh):
        for x in (
            dnp.zeros((2, 3)),
            dnp.sin(dnp.arange(3)) + np.ones(3, "f"),
            dx.random.normal(dx.random.key(0), (3,)),
            dx.jit(lambda x: x * 2)(np.ones(3)),
        ):
            assert x.sharding == NamedSharding(mesh, P()) and x.devices() == mesh.device_set
            assert [s.device for s in x.addressable_shards] == list(mesh.devices.flat)
            assert all((s.data == x).all() for s in x.global_shards) and x.is_fully_replicated
        assert dx.device_put(np.ones(8), x.sharding).committed
        assert dnp.zeros_like(dx.device_put(np.zeros((2, 4)), split)).sharding == split
        assert dx.device_put(x, dx.devices()[2]).devices() == {dx.devices()[2]}
        with mesh.update(axis_names=("c", "d")):
            assert len(x.devices()) == 1
        np.testing.assert_array_equal(dx.device_put(np.arange(2.0), split) + dnp.ones(2), [1, 2])
    with dx.set_mesh(dx.make_mesh((8,), ("a",), axis_types=AxisType.Explicit)):
        assert dnp.zeros((2, 3)).sharding.spec == P(None, None)
    with mesh:
        assert len(x.devices()) == 1
    assert len(x.devices()) == len(x.addressable_shards) == 1


def test_results_tell_their_layout_in_the_words_of_the_user() -> None:
    """As in JAX: where an argument lies so, or out_shardings says so."""
    double = dx.jit(lambda x: x * 2)
    for shape in ((2, 4), (8, 1)):
        mesh = dx.make_mesh(shape, ("a", "b"))
        for spec in (P("a", None), P("a"), P(None, None), P(), P(("a", "b"), None), P("b")):
            x = dx.device_put(np.ones((8, 8), "f"), NamedSharding(mesh, spec))
            assert str(double(x).sharding.spec) == str((x * 2).sharding.spec) == str(spec)
            assert str(dx.jit(lambda x: x, out_shardings=x.sharding)(x).sharding.spec) == str(spec)
    assert str(double.lower(x).compile().output_shardings.spec) == str(P("b"))


def test_equal_meshes_specs_and_shardings_are_one_object() -> None:
    mesh = mesh_of()
    assert mesh is mesh_of() and mesh is not mesh_of((4, 2))
    assert NamedSharding(mesh, P("a")) is NamedSharding(mesh, P(("a",)))
    assert P("a") == P(("a",)) and P("a") != P("a", None) and hash(P("a")) == hash(P(("a",)))
    assert P() + P("a") == P("a") and list(P("a", None)) == ["a", None]
    assert pickle.loads(pickle.dumps(P("a", ("b", "c")))) == P("a", ("b", "c"))


def test_what_a_mesh_knows() -> None:
    mesh = mesh_of()
    assert (mesh.shape, mesh.size, mesh.axis_names) == ({"a": 2, "b": 4}, 8, ("a", "b"))
    assert mesh.device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mesh.abstract_mesh is AbstractMesh((2, 4), ("a", "b")) and mesh.are_all_axes_auto
    assert mesh.update(axis_types=AxisType.Manual).manual_axes == ("a", "b")
    assert not mesh.is_multi_process and mesh.local_mesh is mesh


def test_a_mesh_of_devices_and_one_without_are_told_apart() -> None:
    mesh = mesh_of()
    assert not isinstance(mesh, AbstractMesh) and not isinstance(mesh.abstract_mesh, Mesh)
    with sharding.use_abstract_mesh(mesh.abstract_mesh):
        # It has no devices to tell of.
        assert isinstance(sharding.get_mesh(), Mesh) and sharding.get_mesh().empty
        assert sharding.get_abstract_mesh() is mesh.abstract_mesh
    none = sharding.get_mesh()
    assert (none.size, none.device_set, repr(none)) == (0, frozenset(), "Mesh(axis_sizes=(), axis_names=())")


def test_local_data_is_a_tree_with_prefixes_of_shardings_and_shapes() -> None:
    rows, whole = NamedSharding(mesh_of(), P("a")), NamedSharding(mesh_of(), P())
    data = {"x": np.arange(8.0), "y": np.float32(2)}
    put = dx.make_array_from_process_local_data
    got = put({"x": rows, "y": whole}, data, {"x": (8,), "y": None})
    assert got["x"].sharding == rows and got["y"].sharding == whole
    np.testing.assert_array_equal(got["x"], data["x"])
    np.testing.assert_array_equal(put(rows, data["x"], [8]), data["x"])
    alone = put(None, data)  # one process: as `device_put` without a place
    assert alone["x"].sharding == dnp.ones(3).sharding
    np.testing.assert_array_equal(alone["x"], data["x"])
    for args, text in [
        ((None, data, {"x": (9,), "y": None}), "needs a sharding"),
        ((rows, data["x"], (16,)), r"array: \(16,\), block: \(16,\), got: \(8,\)"),
        (({"x": rows}, [1.0]), "sharding must be a tree prefix"),
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            put(*args)


def test_meshes_shardings_and_shards_print_as_in_jax() -> None:
    mesh = mesh_of()
    rows = NamedSharding(mesh, P("a"))
    assert repr(mesh) == "Mesh(axis_sizes=(2, 4), axis_names=('a', 'b'), axis_types=(Auto, Auto))"
    assert str(mesh) == "Mesh('a': 2, 'b': 4, axis_types=(Auto, Auto))"
    assert repr(rows) == f"NamedSharding(mesh={mesh}, spec=P('a',), memory_kind=device)"
    assert (
        repr(rows.update(mesh=mesh.abstract_mesh))
        == f"NamedSharding(mesh={mesh.abstract_mesh}, spec=P('a',))"
    )
    assert repr(AbstractMesh((), ())) == "AbstractMesh((), axis_types=())"
    alone = dx.sharding.SingleDeviceSharding(dx.devices()[1])
    assert repr(alone) == "SingleDeviceSharding(device=CpuDevice(id=1), memory_kind=device)"
    shard = dx.device_put(np.arange(4, dtype="int32"), rows).addressable_shards[0]
    assert (
        repr(shard) == "Shard(device=CpuDevice(id=0), index=(slice(0, 2, None),), replica_id=0, data=[0 1])"
    )
    host = dx.sharding.SingleDeviceSharding(dx.devices()[1], memory_kind="pinned_host")
    assert repr(host) == "SingleDeviceSharding(device=CpuDevice(id=1), memory_kind=pinned_host)"
    assert repr(rows.with_memory_kind("pinned_host")).endswith("spec=P('a',), memory_kind=pinned_host)")


def test_an_array_like_another_lies_where_that_one_does() -> None:
    """So the state of an optimizer is split as the parameters are."""
    split = NamedSharding(mesh_of(), P("a"))
    x = dx.device_put(np.ones((8, 2), "float32"), split)
    for like in (dnp.zeros_like(x), dnp.full_like(x, 2, "int8"), dx.lax.full_like(x, 1)):
        assert like.sharding == split and like.shape == (8, 2)
    assert len(dnp.zeros_like(x, shape=(3,)).sharding.device_set) == 1

    class Parameter:
        shape, dtype, __jax_array__ = x.shape, x.dtype, lambda self: x

    assert dnp.zeros_like(Parameter()).sharding == split
    assert dx.ShapeDtypeStruct((2,), "int8", sharding=NamedSharding(mesh_of().abstract_mesh, P("a"))).sharding


@pytest.mark.parametrize("shape", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_parts_are_where_jax_puts_them(shape: tuple[int, int], spec: tuple) -> None:
    x = np.arange(16 * 8.0, dtype="float32").reshape(16, 8)
    ours = dx.device_put(x, NamedSharding(dx.make_mesh(shape, ("a", "b")), P(*spec)))
    theirs = jax.device_put(
        x,
        jax.NamedSharding(jax.make_mesh(shape, ("a", "b"), (jax.sharding.AxisType.Auto,) * 2), jax.P(*spec)),
    )
    np.testing.assert_array_equal(np.asarray(ours), x)
    assert ours.is_fully_replicated == theirs.is_fully_replicated
    for a, b in zip(ours.addressable_shards, theirs.addressable_shards, strict=True):
        assert (a.device.id, a.index, a.replica_id) == (b.device.id, b.index, b.replica_id)
        np.testing.assert_array_equal(np.asarray(a.data), np.asarray(b.data))


@pytest.mark.parametrize(
    "dtype", ["bool", "int4", "int8", "uint32", "float16", "bfloat16", "float8_e4m3fn", "complex64"]
)
def test_every_dtype_comes_back_whole(dtype: str) -> None:
    x = dnp.arange(16).reshape(8, 2).astype(dtype)
    y = dx.device_put(x, NamedSharding(mesh_of(), P("b", "a")))
    assert y.dtype == x.dtype and y.sharding.spec == P("b", "a")
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_resharding_between_any_two() -> None:
    mesh, other = mesh_of(), mesh_of((4, 2))
    x = np.arange(16 * 8).reshape(16, 8).astype("float32")
    y = dx.device_put(x, NamedSharding(mesh, P("a", "b")))
    for place in [NamedSharding(other, P("a")), NamedSharding(mesh, P(("b", "a"))), NamedSharding(mesh, P())]:
        z = dx.device_put(y, place)
        assert z.sharding is place
        np.testing.assert_array_equal(np.asarray(z), x)
        y = z
    single = dx.device_put(y, dx.devices()[3])
    assert single.devices() == {dx.devices()[3]}
    np.testing.assert_array_equal(np.asarray(single), x)
    scalar = dx.device_put(3.5, NamedSharding(mesh, P()))
    assert np.asarray(scalar).shape == () and float(scalar) == 3.5


def test_a_format_lays_arrays_out_as_its_sharding_says() -> None:
    split = NamedSharding(mesh_of(), P("a"))
    stated = Format(Layout((1, 0)), split)
    assert dx.device_put(np.ones((8, 2), "float32"), stated).sharding == split
    assert dx.lax.with_sharding_constraint(dnp.ones((8, 2)), stated).sharding == split
    x = dx.device_put(np.ones((8, 2), "float32"), split)
    assert x.format == Format(Layout((0, 1)), split) != stated and len({x.format, stated}) == 2
    assert dx.ShapeDtypeStruct((8, 2), "float32", sharding=stated).format == x.format
    compiled = dx.jit(lambda x, y: x.sum(0)).lower(x, x).compile()
    assert compiled.input_formats == ((x.format, Format()), {})
    assert compiled.output_formats.sharding.spec == P()
    dx.tree.map(dx.device_put, (x, x), compiled.input_formats[0])  # also what is not used
    for wrong in (
        lambda: dx.device_put(x[0], stated),
        lambda: with_layout_constraint(x, Layout((0, 1, 2))),
        lambda: dx.ShapeDtypeStruct((8,), "float32", sharding=stated),
        lambda: Format(Layout((0,))),
        lambda: Format(0),
        lambda: Format(None, 0),
    ):
        with pytest.raises((TypeError, ValueError), match=r"layout: |sharding: "):
            wrong()


def test_a_pytree_of_shardings_and_the_mesh_in_force() -> None:
    with dx.set_mesh(mesh_of()):
        tree = dx.device_put({"w": np.ones((8, 4)), "b": (np.ones(8), 2.0)}, {"w": P("a", "b"), "b": P()})
        assert tree["w"].sharding.spec == P("a", "b") and tree["b"][1].sharding.spec == P()
        assert sharding.get_mesh() is mesh_of() and sharding.get_abstract_mesh() is mesh_of().abstract_mesh
    assert sharding.get_mesh().empty
    with mesh_of((4, 2)) as mesh:
        assert sharding.get_mesh() is mesh


def test_arrays_made_of_parts() -> None:
    place = NamedSharding(mesh_of(), P("a", "b"))
    whole = np.arange(32.0, dtype="float32").reshape(4, 8)
    asked: list = []

    def part(index: tuple) -> np.ndarray:
        asked.append(index)
        return whole[index]

    x = dx.make_array_from_callback((4, 8), place, part)
    assert len(asked) == 8 and x.dtype == np.float32
    y = dx.make_array_from_single_device_arrays((4, 8), place, [s.data for s in x.addressable_shards][::-1])
    z = dx.make_array_from_process_local_data(place, whole)
    for found in (x, y, z):
        assert found.sharding is place
        np.testing.assert_array_equal(np.asarray(found), whole)
    assert [s.data.shape for s in x.global_shards] == [(2, 2)] * 8
    keys = dx.random.split(dx.random.key(0), 4)
    w = dx.make_array_from_callback((4,), NamedSharding(mesh_of(), P("a")), lambda index: keys[index])
    assert (dx.random.key_data(w) == dx.random.key_data(keys)).all() and w.sharding.spec == P("a")


def test_a_sharding_of_one_device_makes_arrays_on_one_device() -> None:
    place = sharding.SingleDeviceSharding(dx.devices()[2])
    x = np.ones(4, "float32")
    compiled = dx.jit(lambda x: x * 2, out_shardings=place)
    for y in (
        dx.make_array_from_callback((4,), place, lambda index: x[index]),
        dx.jit(lambda x: x * 2, in_shardings=place)(x),
        compiled(x),
        compiled(compiled(x)),  # compiled already, and an argument that lies there
        lax.with_sharding_constraint(x, place),
    ):
        assert y.sharding == place and y.committed and (y + 1).devices() == {dx.devices()[2]}
    assert compiled.lower(x).compile().output_shardings == place


def test_what_nobody_has_placed_is_computed_on_the_default_device() -> None:
    """As in JAX; outside of the block such results are computed with on the first device again."""
    first, other, third = dx.devices()[:3]
    f = dx.jit(lambda x: x * 2 + x.sum())
    x = np.ones((300, 300), "float32")
    placed = dx.device_put(x, third)
    assert f(x).device is first
    with dx.default_device(other):
        y = [f(x) for _ in range(3)][-1]
        assert not y.committed and y.sharding == sharding.SingleDeviceSharding(other)
        for z in (dnp.sin(x), dnp.ones(3), dx.device_put(x), dx.grad(lambda x: (x**2).sum())(y)):
            assert z.device is other and z.devices() == {other} and not z.committed
        assert f(placed).device is (placed + y).device is third
        donated = f(x)
        assert dx.jit(lambda x: x + 1, donate_argnums=0)(donated).device is other and donated.is_deleted()
        with dx.default_device(None):
            assert f(x).device is f(y).device is first
    for _ in range(3):  # the first call, and those that are remembered
        assert (
            f(y).device is first and f(placed).device is third and f(dx.device_put(y, other)).device is other
        )
    np.testing.assert_array_equal(f(y), f(f(x)))
    split = NamedSharding(mesh_of(), P("a"))
    assert (y + dx.device_put(x, split)).sharding == split
    dx.config.update("jax_default_device", other)
    try:
        assert f(x).device is dx.config.jax_default_device is other
    finally:
        dx.config.update("jax_default_device", "cpu")
    assert f(x).device is first
    with pytest.raises(TypeError, match="takes a device"):
        dx.default_device(7)


def test_repeated_calls_tell_arrays_that_were_placed_on_the_first_device_from_others() -> None:
    first, other = dx.devices()[:2]
    f = dx.jit(lambda x: x + 1)
    x = dnp.ones(3)
    placed = dx.device_put(x, first)
    with dx.default_device(other):
        for _ in range(3):
            assert (f(placed).device, f(x).device) == (first, other)


def test_donated_arrays_are_where_the_others_are() -> None:
    """Also after the call, which is remembered for others of its kind."""
    other = dx.devices()[1]
    step = dx.jit(lambda x, y: x + y, donate_argnums=0)
    y = dx.device_put(np.ones(3, "f"), other)
    for _ in range(3):
        x = dx.device_put(np.ones(3, "f"), other)
        assert step(x, y).device is other
        assert x.is_deleted() and x.sharding == y.sharding


def test_a_mesh_without_axes_is_none() -> None:
    empty = Mesh(np.empty((), object), ())
    with dx.set_mesh(mesh_of()), dx.set_mesh(empty):
        assert len(dnp.ones(3).sharding.device_set) == 1 and sharding.get_mesh().empty
        with sharding.use_abstract_mesh(mesh_of().abstract_mesh):
            assert sharding.get_abstract_mesh().size == 8
            with sharding.use_abstract_mesh(empty.abstract_mesh):
                assert sharding.get_abstract_mesh().empty


def test_a_constraint_over_a_mesh_without_devices_means_nothing_to_a_program_of_one_device() -> None:
    with sharding.use_abstract_mesh(AbstractMesh((2, 4), ("a", "b"))):
        f = dx.jit(lambda x: dx.lax.with_sharding_constraint(2 * x, P("a")))
        assert f(dnp.ones(2)).tolist() == [2, 2]


def test_specs_of_open_sums_compare_and_print_and_no_array_has_one() -> None:
    """`unreduced=` and `reduced=` of specs are as in JAX; that sums are left open is refused where a mesh is met."""
    made = [(P, dict(unreduced={"b"})), (P, dict(reduced={"b"})), (P, {})]
    for make, kinds in made:
        ours, theirs = make("a", **kinds), jax.P("a", **kinds)
        text = str(theirs).replace(", unreduced_kind=sum", "")  # which jax 0.11 adds
        assert (str(ours), ours.unreduced, ours.reduced) == (text, theirs.unreduced, theirs.reduced)
        assert pickle.loads(pickle.dumps(ours)) == ours and hash(ours.update()) == hash(ours)
        assert [ours == P("a", **other) for _, other in made] == [kinds == other for _, other in made]
    for bad, error in ((dict(unreduced={"a"}), ValueError), (dict(reduced="b"), TypeError)):
        for spec in (P, jax.P):
            with pytest.raises(error):
                spec("a", **bad)
    open_sum = P("a", unreduced={"b"})
    for use in (
        lambda: NamedSharding(mesh_of(), open_sum),
        lambda: dx.shard_map(lambda x: x, mesh=mesh_of(), in_specs=P("a"), out_specs=open_sum)(dnp.ones(4)),
    ):
        with pytest.raises(NotImplementedError, match=r"unreduced=\{'b'\}"):
            use()


def test_a_layout_that_splits_a_mesh_axis_keeps_the_order_of_the_devices() -> None:
    from didax.xla.client import hlo
    from didax.xla.partition import found_sharding

    mesh = mesh_of()
    for order in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        tiles = hlo.HloSharding.iota_tile([4, 2], [2, 2, 2], order)
        found = found_sharding(tiles, mesh, 2)
        assert list(found.devices) == list(mesh.devices.flat)
        devices = np.arange(8).reshape(2, 2, 2).transpose(order).reshape(4, 2)
        places = dict(zip(range(8), found.parts(2)[1], strict=True))
        assert all(places[devices[i, j]] == (i, j) for i in range(4) for j in range(2))


def test_printing_iterating_indexing_pickling_and_copying() -> None:
    x = dx.device_put(dnp.arange(16.0).reshape(8, 2), NamedSharding(mesh_of(), P("a")))
    assert repr(x) == repr(dnp.arange(16.0).reshape(8, 2))
    assert [float(r.sum()) for r in x] == [1.0, 5.0, 9.0, 13.0, 17.0, 21.0, 25.0, 29.0]
    assert float(x[3, 1]) == 7.0 and x[2:6].shape == (4, 2)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(x))), np.asarray(x))
    y = x.copy()
    assert y.sharding is x.sharding and y.unsafe_buffer_pointer is not None
    with pytest.raises(ValueError, match="no single address"):
        x.unsafe_buffer_pointer()
    assert np.from_dlpack(dx.device_put(x, dx.devices()[0])).shape == (8, 2)


def test_donation_across_shardings() -> None:
    place = NamedSharding(mesh_of(), P("a", "b"))
    x = dx.device_put(np.ones((8, 8), "float32"), place)
    twin = x.reshape(8, 8)  # nothing to do: an array of its own on the same memory
    step = dx.jit(lambda x: x + 1, donate_argnums=0)
    y = step(x)
    assert x.is_deleted() and not twin.is_deleted()
    np.testing.assert_array_equal(np.asarray(twin) + 1, np.asarray(y))
    with pytest.raises(RuntimeError, match="donated"):
        x + 1
    for also in (lambda z: z, lambda z: dx.device_put(z, NamedSharding(mesh_of(), P("a", "b")))):
        z = dx.device_put(np.ones((8, 8), "float32"), place)
        with pytest.raises(RuntimeError, match="passed to a compiled function twice"):
            dx.jit(lambda x, y: x + y, donate_argnums=0)(z, also(z))  # XLA would end the process
        with pytest.raises(RuntimeError, match="also one that the compiled function captured"):
            dx.jit(lambda x, z=z: x + z, donate_argnums=0)(z)
    named = dx.device_put(z, NamedSharding(mesh_of((4, 2), ("b", "a")), P(("b", "a"))))
    # The same parts by another name.
    renamed = dx.device_put(named, NamedSharding(mesh_of((8,), ("c",)), P("c")))
    step(named)
    assert named.is_deleted() and (renamed == 1).all()


def test_random_keys_have_the_same_bits_in_any_sharding() -> None:
    keys = dx.random.split(dx.random.key(0), 8)
    wanted = np.asarray(dx.vmap(dx.random.normal)(keys))
    for spec in (P("a"), P("b"), P(("a", "b"))):
        laid = dx.device_put(keys, NamedSharding(mesh_of(), spec))
        with dx.debug_key_reuse("off"):
            np.testing.assert_array_equal(np.asarray(dx.vmap(dx.random.normal)(laid)), wanted)


@pytest.mark.parametrize(
    "bad, error, says",
    [
        (lambda m: NamedSharding(m, P("c")), ValueError, "axis 'c'; the mesh has ('a', 'b')"),
        (lambda m: NamedSharding(m, P("a", "a")), sharding.DuplicateSpecError, "splits at most one axis"),
        (lambda m: dx.device_put(np.ones(12), NamedSharding(m, P(("a", "b")))), sharding.IndivisibleError, "2 ('a') * 4 ('b') = 8; 12 % 8 = 4"),
        (lambda m: dx.device_put(np.ones(8), NamedSharding(m, P("a", "b"))), ValueError, "with 2 entries; the array has 1 axes"),
        (lambda m: dx.device_put(np.ones(8), P("a")), ValueError, "needs a mesh"),
        (lambda m: dx.make_mesh((3, 3), ("a", "b")), ValueError, "(3, 3), so 9 devices; there are 8"),
        (lambda m: dx.make_mesh((2,), ("a", "b")), ValueError, "one name for each axis"),
        (lambda m: dx.make_mesh((0, 8), ("a", "b")), ValueError, "integers from 1 on"),
        (lambda m: dx.make_mesh((2.0, 4), ("a", "b")), TypeError, "integers from 1 on"),
        (lambda m: Mesh(dx.devices()[:1] * 2, ("a",)), ValueError, "each device once"),
        (lambda m: Mesh([], ("a",)), ValueError, "holds devices, at least one"),
        (lambda m: Mesh(np.arange(8), ("a",)), ValueError, "holds devices, at least one"),
        (lambda m: Mesh(np.array(dx.devices()).reshape(2, 4), ("a", "a")), ValueError, "all different"),
        (lambda m: P(1), TypeError, "None, the name of a mesh axis, or a tuple"),
        (lambda m: NamedSharding(m.abstract_mesh, P("a")).devices, ValueError, "has no devices"),
        (lambda m: dx.make_array_from_callback((8,), NamedSharding(m, P("a")), lambda i: np.ones(3)), ValueError, "has the shape that its index says"),
        (lambda m: dx.make_array_from_single_device_arrays((8,), NamedSharding(m, P("a")), [dnp.ones(4)]), ValueError, "one part for each device"),
        (lambda m: dx.make_array_from_single_device_arrays((8,), NamedSharding(m, P("a")), [np.ones(4)] * 8), TypeError, "a list of arrays, each of which lies on a device"),
        (lambda m: dx.make_array_from_single_device_arrays((8.0,), NamedSharding(m, P("a")), []), TypeError, "integer"),
        (lambda m: m.update(axis_types=("Auto", "Auto")), TypeError, "one AxisType for each axis"),
        (lambda m: dx.jit(lambda x: x, out_shardings=NamedSharding(m.update(devices=m.devices[::-1]), P("a")))(dx.device_put(np.ones(8), NamedSharding(m, P("a")))), ValueError, "same devices, in the same order"),
        (lambda m: dx.jit(lambda x, y: (x, y), in_shardings=(NamedSharding(m.update(devices=m.devices[::-1]), P("a")), NamedSharding(m, P("a"))))(np.ones(8), np.ones(8)), ValueError, "same devices, in the same order"),
        (lambda m: dx.device_put(np.ones(8), dx.devices()[1]) + dx.device_put(np.ones(8), NamedSharding(m, P("a"))), ValueError, "same devices"),
        (lambda m: dx.jit(dnp.add)(dx.device_put(np.ones(8, np.int32), dx.devices()[1]), dx.device_put(np.ones(1, np.int8), dx.devices()[2])), ValueError, "devices: cpu:1, cpu:2\n  arrays there: int32[8], int8[1]\n"),
        (lambda m: dx.device_put(np.ones(8), m), TypeError, "takes a device, or a sharding, which says how several devices share an array.\n  device: Mesh("),
    ],
    ids=range(25),
)  # fmt: skip
def test_errors_name_the_rule_and_the_numbers(bad, error, says) -> None:
    with pytest.raises(error) as caught:
        bad(mesh_of())
    assert says in str(caught.value)


def test_programs_order_devices_of_a_kind() -> None:
    from didax.experimental import mesh_utils

    devices = dx.devices()
    kind, handlers = devices[0].device_kind, mesh_utils.device_kind_handler_dict
    asked = []

    def backwards(shape, found, *, contiguous_submeshes):
        asked.append((shape, contiguous_submeshes))
        return None if contiguous_submeshes else np.array(found[::-1]).reshape(shape)

    handlers[kind] = backwards
    try:
        assert mesh_utils.create_device_mesh((2, 4)).ravel().tolist() == devices[::-1]
        whole = mesh_utils.create_device_mesh((8,), contiguous_submeshes=True)
    finally:
        del handlers[kind]
    assert whole.tolist() == mesh_utils.create_device_mesh((8,)).tolist() == devices
    assert asked == [((2, 4), False), ((8,), True)]


def test_types_say_along_which_manual_axes_values_vary() -> None:
    seen = []

    def f(x):
        seen.append(dx.typeof(x).manual_axis_type)
        struct = dx.ShapeDtypeStruct.like(x)
        assert struct.manual_axis_type == seen[0] and struct.update(shape=()).manual_axis_type == seen[0]
        return x

    dx.shard_map(f, mesh=mesh_of(), in_specs=P("a"), out_specs=P("a"))(dnp.ones(4))
    assert seen == [sharding.ManualAxisType(varying={"a"})]
    assert dx.typeof(1.0).manual_axis_type == sharding.ManualAxisType()
    assert seen[0].update(varying=set(), reduced={"b"}).reduced == {"b"}
    struct = dx.ShapeDtypeStruct((2,), "float32", manual_axis_type=seen[0])
    assert "varying=frozenset({'a'})" in repr(struct) and struct != dx.ShapeDtypeStruct((2,), "float32")
    for run, error, text in (
        (
            lambda: sharding.ManualAxisType(varying={"a"}, reduced={"a"}),
            ValueError,
            "A mesh axis is of one kind",
        ),
        (lambda: struct.update(manual_axis_type={"a"}), TypeError, "is a ManualAxisType"),
        (
            lambda: struct.update(manual_axis_type=seen[0].update(unreduced={"b"})),
            NotImplementedError,
            "which sums",
        ),
    ):
        with pytest.raises(error, match=text):
            run()


def test_shardings_and_structs_compare_by_what_they_say() -> None:
    from didax.sharding import SingleDeviceSharding

    first, second = (SingleDeviceSharding(device) for device in dx.devices()[:2])
    assert first == SingleDeviceSharding(dx.devices()[0]) != second
    assert len({first, second, SingleDeviceSharding(dx.devices()[1])}) == 2
    mesh = dx.make_mesh((8,), ("x",))
    rows = NamedSharding(mesh, P("x"))
    struct = dx.ShapeDtypeStruct((8,), "float32", sharding=rows)
    assert struct != dx.ShapeDtypeStruct((8,), "float32") and "spec=P('x',)" in repr(struct)
    with pytest.raises(ValueError, match="sharding: 'x'"):
        dx.ShapeDtypeStruct((8,), "float32", sharding="x")
    with pytest.raises(ValueError, match="set_mesh takes a mesh"):
        dx.set_mesh("x")  # type: ignore[arg-type]
    for f in (lambda x: lax.with_sharding_constraint(x, P("x")), dx.jit(lambda x: x, in_shardings=P("x"))):
        with pytest.raises(RuntimeError, match="needs a mesh"):  # and a ValueError
            f(dnp.ones(8))


def test_a_compiled_function_takes_arguments_that_lie_as_it_was_compiled_for() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    on = lambda *spec: dx.device_put(dnp.arange(8.0), NamedSharding(mesh, P(*spec)))
    compiled = dx.jit(lambda unused, x: x * 2).lower(1.0, on("a")).compile()
    assert (
        compiled(1.0, on("a")).sharding.spec
        == P("a")
        == compiled(1.0, np.arange(8.0, dtype="float32")).sharding.spec
    )
    with pytest.raises(
        ValueError, match=r"argument 1 of the compiled function <lambda>\n.*P\('a',\).*\n.*P\('b',\)"
    ):
        compiled(1.0, on("b"))


def test_a_compiled_function_runs_on_the_device_it_was_compiled_for() -> None:
    first, other = dx.devices()[0], dx.devices()[3]
    x, there = np.arange(3.0, dtype="float32"), dx.device_put(np.arange(3.0, dtype="float32"), other)
    struct = dx.ShapeDtypeStruct((3,), "float32", sharding=there.sharding)
    for given in (there, struct):
        compiled = dx.jit(lambda x: x + 1, donate_argnums=0).lower(given).compile()
        assert compiled.input_shardings[0][0] == there.sharding
        mine = dx.device_put(x, other)
        for argument in (x, mine, dnp.asarray(x)):
            found = compiled(argument)
            assert found.devices() == {other} and found.committed
        assert mine.is_deleted()
    on_first = dx.jit(lambda x, y: x + 1).lower(x, x).compile()
    assert on_first(x, there).devices() == {first}  # y is not used
    for _ in range(3):
        with pytest.raises(ValueError, match=r"lie on the device it was compiled for\.\n  argument 0 of"):
            on_first(there, x)
        with pytest.raises(ValueError, match="placed on: "):
            compiled(dx.device_put(x, first))
    captured = dx.jit(lambda x: x + there).lower(x).compile()
    assert captured(there).devices() == captured(x).devices() == {other}


def test_arrays_of_several_devices_lie_in_host_memory() -> None:
    whole = np.arange(32, dtype="float32").reshape(8, 4)
    on_devices = NamedSharding(mesh_of(), P("a", "b"))
    host = on_devices.with_memory_kind("pinned_host")
    assert host is not on_devices and host.with_memory_kind("device") is on_devices
    assert host == NamedSharding(mesh_of(), P("a", "b"), memory_kind="pinned_host")
    assert host.update(spec=P("b")).memory_kind == "pinned_host" and not host.is_equivalent_to(on_devices, 2)
    x, parts = dx.device_put(whole, host), dx.device_put(whole, on_devices).addressable_shards
    there = [
        x,
        dx.device_put(dx.device_put(whole, on_devices), dx.memory.Space.Host),
        dx.device_put(dx.device_put(whole, on_devices), host),
        dx.jit(lambda x: x)(x),
        dx.jit(lambda x: dx.device_put(x, host), donate_argnums=0)(dx.device_put(whole, on_devices)),
        dx.jit(lambda x: x * 1, in_shardings=host, out_shardings=host)(whole),
        dx.make_array_from_callback(whole.shape, host, lambda index: whole[index]),
        dx.make_array_from_single_device_arrays(whole.shape, host, [part.data for part in parts]),
        dx.make_array_from_process_local_data(host, whole),
        copy.copy(x),
    ]
    for y in there:
        assert y.sharding == host and np.array_equal(y, whole)
        assert {part.data.sharding.memory_kind for part in y.addressable_shards} == {"pinned_host"}
    here = [
        x * 1,
        dx.device_put(x, on_devices),
        dx.device_put(x, dx.memory.Space.Device),
        dx.jit(lambda x: x * 1)(x),
    ]
    here += [dx.shard_map(lambda x: x * 1, mesh=mesh_of(), in_specs=P("a", "b"), out_specs=P("a", "b"))(x)]
    for y in here:
        assert y.sharding == on_devices and np.array_equal(y, whole)
    alone = dx.sharding.SingleDeviceSharding(dx.devices()[3], memory_kind="pinned_host")
    assert (dx.device_put(whole, alone) + 1).devices() == {dx.devices()[3]}


def test_arrays_split_over_explicit_axes_lie_in_host_memory() -> None:
    mesh = dx.make_mesh((8,), ("x",), axis_types=AxisType.Explicit)
    host = NamedSharding(mesh, P("x", None), memory_kind="pinned_host")
    x = dx.device_put(np.ones((8, 2), "float32"), host)
    assert str(dx.typeof(x)) == "float32[8@x,2]" and x.sharding == host
    for f in (lambda x: dx.device_put(x + 1, dx.memory.Space.Host), lambda x: dx.device_put(x + 1, host)):
        y = dx.jit(f)(x)
        assert y.sharding == host and dx.typeof(y) is dx.typeof(x) and (np.asarray(y) == 2).all()
    assert (x + 1).sharding == host.with_memory_kind("device")
