"""Tracers: arrays in flight that behave as arrays."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core.tracing import Tracer
from didax.errors import UnexpectedTracerError


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


def test_a_tracer_in_another_thread_is_told_of_the_thread_and_works_in_its_context():
    """The transformation has not ended; a thread that is given its context takes part in it."""
    with ThreadPoolExecutor(1) as pool:

        def f(x, *run):
            return pool.submit(*run, dnp.sin, x).result()

        for transform in (dx.jit, dx.grad, dx.vmap):
            x = dnp.ones(2) if transform is dx.vmap else 1.0
            with pytest.raises(
                UnexpectedTracerError, match=r"outside of the transformation .* another thread"
            ) as info:
                transform(f)(x)
            assert "had ended" not in str(info.value)
            assert "copy_context" in str(info.value)
        derivative = dx.grad(lambda x: f(x, contextvars.copy_context().run))(1.0)
        np.testing.assert_allclose(derivative, np.cos(1.0), rtol=1e-6)
