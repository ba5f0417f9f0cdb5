"""Random keys: the same bits on any number of devices, however keys and results lie."""

import numpy as np
import pytest

import didax as dx
from didax import NamedSharding, P, lax, random


def next_draw(key, _):
    key, draw = random.split(key)
    return key, random.bits(draw, (8,))


DRAWS = {
    "bits": lambda key: random.bits(key, (8, 4)),
    "of split keys": lambda key: dx.vmap(lambda k: random.uniform(k, (3,)))(random.split(key, 8)),
    "in a loop": lambda key: lax.scan(next_draw, key, None, 3)[1],
}  # fmt: skip


@pytest.mark.parametrize("impl", ["threefry2x32", pytest.param("rbg", marks=pytest.mark.slow)])
def test_draws_have_the_same_bits_on_any_devices(impl: str) -> None:
    alone = dx.jit(lambda key: {name: f(random.clone(key)) for name, f in DRAWS.items()})
    key = random.key(7, impl=impl)
    expected = {name: np.asarray(y) for name, y in alone(random.clone(key)).items()}
    for count, spec in ((2, P(None)), (8, P("x"))):
        mesh = dx.make_mesh((count,), ("x",))

        def several(key, mesh=mesh, spec=spec):
            outs = {name: f(random.clone(key)) for name, f in DRAWS.items()}
            laid = NamedSharding(mesh, spec)
            return {
                k: lax.with_sharding_constraint(y, laid) if y.shape[0] == 8 else y for k, y in outs.items()
            }

        found = dx.jit(several)(dx.device_put(random.clone(key), NamedSharding(mesh, P())))
        for name, y in found.items():
            np.testing.assert_array_equal(y, expected[name], err_msg=f"{name} on {count} devices")


def test_keys_are_split_over_devices() -> None:
    """Each device draws for its own keys; types over explicit axes know it."""
    mesh = dx.make_mesh((8,), ("x",), axis_types=dx.sharding.AxisType.Explicit)
    keys = random.split(random.key(0), 16)
    expected = dx.vmap(lambda k: random.normal(k, (2,)))(random.clone(keys))
    laid = dx.device_put(keys, NamedSharding(mesh, P("x")))
    assert str(laid.aval) == "key<fry>[16@x]"
    assert [shard.data.shape for shard in laid.addressable_shards] == [(2,)] * 8
    with dx.set_mesh(mesh):
        found = dx.jit(dx.vmap(lambda k: random.normal(k, (2,))))(random.clone(laid))
    assert str(found.aval) == "float32[16@x,2]"
    np.testing.assert_array_equal(found, expected)
    mapped = dx.shard_map(
        dx.vmap(lambda k: random.normal(k, (2,))), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    np.testing.assert_array_equal(mapped(random.clone(laid)), expected)
    np.testing.assert_array_equal(random.key_data(laid), random.key_data(keys))


def test_donated_arrays_may_change_their_layout() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    x = np.arange(64.0, dtype="float32").reshape(8, 8)
    for spec in (P("a", "b"), P("b"), P()):
        given = dx.device_put(x, NamedSharding(mesh, P("a", "b")))
        moved = dx.jit(lambda x: x + 1, donate_argnums=0, out_shardings=NamedSharding(mesh, spec))(given)
        np.testing.assert_array_equal(moved, x + 1)
        assert given.is_deleted() == (spec == P("a", "b")), (
            "where the parts are as large, their memory is taken"
        )
        assert moved.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
