"""Tracers: arrays in flight that behave as arrays."""

from __future__ import annotations

from typing import Any

import didax as dx
import didax.numpy as dnp
from didax.core.tracing import Tracer


def subclasses(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(deeper for sub in cls.__subclasses__() for deeper in subclasses(sub))]


def test_no_slot_of_a_tracer_hides_a_method_of_arrays():
    methods = {name for name in dir(dx.Array) if not name.startswith("__")}
    hidden = {
        (cls.__name__, slot)
        for cls in subclasses(Tracer)
        for slot in cls.__dict__.get("__slots__", ())
        if slot in methods and slot != "aval"
    }
    assert hidden == set()


def test_methods_named_like_parts_of_tracers_work_while_tracing():
    x = dnp.eye(3)
    assert float(dx.jit(lambda x: x.trace())(x)) == 3.0
    assert float(dx.grad(lambda x: x.var())(x).sum()) < 1e-6


def test_numpy_arguments_get_the_default_width_everywhere():
    import numpy as np

    wide = np.ones(3)
    for transformed in (dx.jit(dnp.sin), dx.vmap(dnp.sin), dx.jacrev(dnp.sin), dnp.sin, dx.lax.sin):
        assert transformed(wide).dtype == "float32"
        with dx.enable_x64():
            assert transformed(wide).dtype == "float64"
    assert dx.jit(dnp.sin)(np.float64(1)).dtype == "float32"
    assert dx.jit(dnp.sin)(dnp.asarray(wide, dtype="float64")).dtype == "float64"
