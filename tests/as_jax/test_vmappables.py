"""Classes that a library registers with `vmap`, deprecated functions, small names: the same with jax and the layer."""

from __future__ import annotations

import inspect
import types
import warnings
from typing import Any

import jax
import numpy as np
import pytest
from jax.interpreters import batching

import didax as dx
import didax.numpy as dnp
from didax.as_jax import core_names, jaxprs, legendre, private, small, vmappables

JAX = types.SimpleNamespace(jnp=jax.numpy, vmap=jax.vmap, grad=jax.grad, register=batching.register_vmappable)
OURS = types.SimpleNamespace(
    jnp=dnp, vmap=vmappables.vmap, grad=dx.grad, register=vmappables.register_vmappable
)


class Rows:
    """An array that is mapped, and a number that is not."""

    def __init__(self, a: Any, b: Any):
        self.a, self.b = a, b


@pytest.fixture(autouse=True)
def registered() -> Any:
    for n in (JAX, OURS):
        n.register(
            Rows, int, int,
            lambda cont, get_index, x, axis: Rows(cont(x.a, axis), x.b),
            lambda cont, size, x, axis: Rows(cont(size, x.a, axis), x.b), None,
        )  # fmt: skip
    yield
    batching.unregister_vmappable(Rows)
    vmappables.unregister_vmappable(Rows)


def results(n: Any) -> list[Any]:
    x = n.jnp.arange(9.0).reshape(3, 3)
    f = lambda r, y: (Rows(r.a * y + r.b, r.b), {"y": y})
    out: list[Any] = []
    for axes in (0, (0, 0), (1, 0)):
        made, y = n.vmap(f, axes, axes)(Rows(x, 10.0), n.jnp.arange(3.0))
        out += [made.a, made.b, y["y"]]
    nested = n.vmap(n.vmap(lambda r, y: Rows(r.a + y, r.b)))(Rows(x, 1.0), x)
    made = n.vmap(lambda y: Rows(y, 1.0), in_axes=None, axis_size=2)(x[0])
    grad = n.grad(lambda a: n.vmap(lambda r, y: r.a**2 * y)(Rows(a, 1.0), n.jnp.arange(3.0)).sum())(x[0])
    plain = n.vmap(lambda x, *, k: (x + k, k), in_axes=[0], out_axes=(0, 1))(x, k=x)
    return [*out, nested.a, nested.b, made.a, made.b, grad, *plain]


def test_a_registered_class_is_mapped_by_its_functions() -> None:
    for ours, theirs in zip(results(OURS), results(JAX), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_what_registered_classes_cannot_do() -> None:
    with pytest.raises(NotImplementedError, match="A batch has one length"):
        vmappables.register_vmappable(Rows, int, int, lambda *_: None, lambda *_: None, lambda n: n)
    with pytest.raises(ValueError, match="out_axes of vmap is None for a result that depends on the batch"):
        vmappables.vmap(lambda r: r.a, out_axes=None)(Rows(dnp.ones(3), 1.0))
    vmappables.register_vmappable(Rows, int, int, lambda cont, index, x, _: index(), lambda *_: None, None)
    with pytest.raises(NotImplementedError, match="does not know its number in the batch"):
        vmappables.vmap(lambda r, y: y)(Rows(1.0, 1.0), dnp.ones(3))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_legendre_functions(n: int) -> None:
    from jax.scipy import special

    z = np.linspace(-0.9, 0.9, 5, dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, which is why they are in the layer alone
        lpmn, lpmn_values = special.lpmn, special.lpmn_values
    for is_normalized in (True, False):
        want = lpmn_values(n, n, jax.numpy.asarray(z), is_normalized)
        found = legendre.lpmn_values(n, n, z, is_normalized)
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-6)
    for ours, theirs in zip(legendre.lpmn(n, n, z), lpmn(n, n, jax.numpy.asarray(z)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_legendre_functions_of_wrong_arguments() -> None:
    with pytest.raises(NotImplementedError, match="all orders up to the largest degree"):
        legendre.lpmn_values(1, 2, dnp.ones(3), True)
    with pytest.raises(ValueError, match="a degree and a vector of points"):
        legendre.lpmn(2, 2, dnp.ones((3, 3)))


def test_nodes_are_taken_apart_by_the_registry() -> None:
    registry: Any = private._registry
    for node in ([1, (2, 3)], (1, None), {"b": 1, "a": [2]}, None):
        children, rest = registry[type(node)].to_iter(node)
        assert len(children) == len(node or ()) and registry[type(node)].from_iter(rest, children) == node
        assert hash(rest) == hash(registry[type(node)].to_iter(node)[1])
    with pytest.raises(KeyError):
        registry[Rows]


def test_small_names() -> None:
    from jax._src.api_util import infer_argnums_and_argnames

    functions: list[Any] = [
        lambda a, b, c=1: 0,
        lambda a, *b, c: 0,
        lambda a, /, b: 0,
        lambda **k: 0,
    ]
    asked: list[Any] = [(None, None), (0, None), ((0, -1), None), (None, "c"), (None, ("b", "a")), (1, "a")]
    for f in functions:
        for one in asked:
            signature = inspect.signature(f)
            found = private.infer_argnums_and_argnames(signature, *one)
            assert found == infer_argnums_and_argnames(signature, *one)
    aval = dx.typeof(np.ones(3, "float32"))
    assert jaxprs.gensym()(aval).aval is aval
    with small.user_context(None):
        assert core_names.concrete_or_error(int, 2.0) == 2
