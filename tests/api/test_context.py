"""`ensure_compile_time_eval`, names, types, processes, and options as context managers."""

import warnings

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax


def known_within(x: dx.Array) -> dx.Array:
    """x + 6, after much that is computed at once."""
    with dx.ensure_compile_time_eval():
        y = dx.jit(lambda a: a + 1)(dnp.ones(3))
        assert float(y.sum()) == 6
        assert float(dx.grad(lambda a: a * a)(3.0)) == 6
        assert int(lax.fori_loop(0, 4, lambda i, total: total + i, 0)) == 6
        assert bool(lax.cond(y.sum() > 3, lambda: True, lambda: False))
        return x + float(y.sum())


def test_what_is_known_is_computed_in_the_middle_of_staging() -> None:
    xs = dnp.arange(2.0)
    assert float(known_within(1.0)) == float(dx.jit(known_within)(1.0)) == 7
    assert float(dx.grad(known_within)(1.0)) == float(dx.jit(dx.grad(known_within))(1.0)) == 1
    for mapped in (dx.vmap(known_within), dx.vmap(dx.jit(known_within)), dx.jit(dx.vmap(known_within))):
        np.testing.assert_array_equal(mapped(xs), [6, 7])
    assert len(dx.make_jaxpr(known_within)(1.0).eqns) == 1


def test_what_waits_has_no_value_within() -> None:
    @dx.jit
    def f(x: dx.Array) -> int:
        with dx.ensure_compile_time_eval():
            return int(x + 1)

    with pytest.raises(dx.errors.TracerIntegerConversionError):
        f(1.0)


def test_names() -> None:
    @dx.named_scope("layer")
    def layer(x: float) -> float:
        with dx.named_scope("inner"):
            return x + 1

    assert dx.jit(layer)(1.0) == dx.named_call(layer, name="other")(1.0) == 2


def test_types() -> None:
    for x in (dnp.ones(2), np.ones(2), dx.ShapeDtypeStruct((2,), "float32")):
        assert str(dx.typeof(x)) == "float32[2]"
    assert dx.typeof(1.0).weak_type
    assert (
        str(dx.jit(lambda x: x if str(dx.typeof(x)) == "int32[3]" else 0.0)(dnp.arange(3)).dtype) == "int32"
    )
    with pytest.raises(TypeError, match="got: 'a'"):
        dx.typeof("a")


def test_one_process() -> None:
    assert dx.local_devices() == dx.devices(dx.default_backend())
    assert (dx.process_index(), dx.process_count(), dx.process_indices()) == (0, 1, [0])
    assert dx.local_device_count() == len(dx.local_devices())
    with pytest.raises(ValueError, match="process_index: 3"):
        dx.local_devices(3)


def test_rank_promotion() -> None:
    x, matrix = dnp.ones(3), dnp.ones((2, 3))
    with dx.numpy_rank_promotion("raise"):
        assert (matrix + 1).shape == (matrix + x[None]).shape == (2, 3)
        for add in (lambda: x + matrix, lambda: dx.jit(dnp.add)(x, matrix)):
            with pytest.raises(
                ValueError, match=r"operands of add have one rank.\n  shapes: \(3,\), \(2, 3\)"
            ):
                add()
    with dx.numpy_rank_promotion("warn"), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert (x + matrix).shape == (2, 3)
    assert [w.filename for w in found] == [__file__]
    assert (x + matrix).shape == (2, 3)


def test_core_has_what_programs_ask_of_types_and_blocks():
    for x in (1.0, dx.new_ref(1.0)):
        assert isinstance(dx.typeof(x), dx.core.AbstractValue)
    assert isinstance(dx.typeof(dx.new_ref(1.0)), dx.ref.AbstractRef)
    assert dx.core.ensure_compile_time_eval is dx.ensure_compile_time_eval
