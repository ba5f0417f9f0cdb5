"""What a type checker sees of transformed functions: the signature of what they wrap.

Never run: test_typing.py hands it to pyright, which must complain about exactly the lines marked `# E:`.
"""

from __future__ import annotations

from typing import Any, assert_type

import didax as dx
from didax import Array


def predict(params: dict[str, Array], x: Array, *, scale: float = 1.0) -> Array:
    return params["w"] @ x * scale


@dx.jit
def decorated(x: Array, n: int) -> tuple[Array, int]:
    return x, n


@dx.jit(static_argnames="n")
def with_options(x: Array, n: int) -> Array:
    return x * n


def jit_keeps_arguments_and_result(params: dict[str, Array], x: Array) -> None:
    jitted = dx.jit(predict)
    assert_type(jitted(params, x, scale=2.0), Array)
    jitted(params)  # E: missing argument
    jitted(params, "x")  # E: wrong type
    jitted(params, x, size=2.0)  # E: no such keyword
    assert_type(decorated(x, 3), tuple[Array, int])
    decorated(x, "3")  # E: wrong type
    assert_type(with_options(x, n=3), Array)
    with_options(x, m=3)  # E: no such keyword


def checkpoint_keeps_arguments_and_result(params: dict[str, Array], x: Array) -> None:
    kept = dx.checkpoint(predict, policy=dx.checkpoint_policies.dots_saveable)
    assert_type(kept(params, x, scale=2.0), Array)
    kept(params)  # E: missing argument
    assert_type(dx.remat(static_argnums=1)(with_options)(x, 3), Array)


@dx.custom_jvp
def with_own_jvp(x: Array, n: int) -> tuple[Array, int]:
    return x, n


def own_rules_keep_arguments_and_result(params: dict[str, Array], x: Array) -> None:
    assert_type(with_own_jvp(x, n=3), tuple[Array, int])
    with_own_jvp(x, "3")  # E: wrong type
    assert_type(dx.custom_vjp(predict, nondiff_argnames="scale")(params, x, scale=2.0), Array)
    dx.custom_vjp(predict)(params)  # E: missing argument
    assert_type(dx.custom_rules(predict, vmap=predict)(params, x), Array)
    dx.custom_batching.custom_vmap(predict)(params, "x")  # E: wrong type


def stages_take_the_same_arguments(x: Array) -> None:
    decorated.trace(x, 3).lower().compile()
    decorated.lower(x)  # E: missing argument


def grad_and_its_family_keep_arguments(params: dict[str, Array], x: Array) -> None:
    dx.grad(predict)(params, x, scale=3.0)
    dx.grad(predict)(params, y=x)  # E: no such keyword
    value, gradient = dx.value_and_grad(predict)(params, x)
    assert_type(value, Array)
    assert_type(gradient, Any)
    dx.value_and_grad(predict)(x)  # E: wrong type
    dx.jacfwd(predict)(params, x)
    dx.jacrev(predict)(params, "x")  # E: wrong type
    dx.hessian(predict)(params)  # E: missing argument


def vmap_keeps_arguments_and_transformations_nest(params: dict[str, Array], x: Array) -> None:
    dx.vmap(predict, in_axes=(None, 0))(params, x, scale=2.0)
    dx.vmap(predict)(params, x, 2.0)  # E: too many positional arguments
    dx.jit(dx.vmap(dx.grad(predict)))(params, x)
    dx.jit(dx.vmap(dx.grad(predict)))(params)  # E: missing argument
