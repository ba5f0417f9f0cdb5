"""`dot_product_attention`: values and gradients of jax.nn, with every kind of mask."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.nn import dot_product_attention
from tests.numpy.oracle import sample, wide

Q, K, V = (
    sample("float32", (2, 3, 4, 5)),
    sample("float32", (2, 6, 2, 5), 1),
    sample("float32", (2, 6, 2, 5), 2),
)
RNG = np.random.default_rng(0)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal window": {"is_causal": True, "local_window_size": (2, 0)},
    "window": {"local_window_size": 1, "scale": 0.3},
    "lengths": {"query_seq_lengths": np.int32([1, 3]), "key_value_seq_lengths": np.int32([0, 3])},
    "mask and bias": {"mask": RNG.random((2, 4, 3, 6)) > 0.5, "bias": sample("float32", (2, 1, 1, 6))},
}


def arguments(options: dict[str, Any], asarray: Any) -> dict[str, Any]:
    return {name: asarray(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_values_and_gradients(options: dict[str, Any]) -> None:
    ours, theirs = arguments(options, dnp.asarray), arguments(options, jnp.asarray)
    wanted = jax.nn.dot_product_attention(*map(jnp.asarray, (Q, K, V)), **theirs, return_residual=True)
    call = lambda *args: dot_product_attention(*args, **ours, return_residual=True)
    for found in (call(Q, K, V), dx.jit(call)(Q, K, V)):
        for x, y in zip(found, wanted, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
    with dx.numpy_rank_promotion("raise"):
        call(Q, K, V)
    found = dx.grad(lambda *args: (call(*args)[0] ** 2).sum(), (0, 1, 2))(Q, K, V)
    loss = lambda *args: (jax.nn.dot_product_attention(*args, **theirs) ** 2).sum()
    for x, y in zip(found, jax.grad(loss, (0, 1, 2))(*map(jnp.asarray, (Q, K, V))), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


def test_the_residual_has_no_derivative() -> None:
    slope = dx.grad(lambda q: dot_product_attention(q, K, V, is_causal=True, return_residual=True)[1].sum())(
        Q
    )
    assert not np.any(slope)


def test_narrow_floats_and_no_batch() -> None:
    q, k, v = [x.astype(jnp.bfloat16)[0] for x in (Q, K, V)]
    wanted = jax.nn.dot_product_attention(*map(jnp.asarray, (q, k, v)))
    found = dot_product_attention(*[dnp.asarray(x) for x in (q, k, v)])
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(wide(found), wide(wanted), rtol=0.04, atol=0.04)
    _, residual = dot_product_attention(*[dnp.asarray(x) for x in (q, k, v)], return_residual=True)
    assert residual.dtype == jnp.bfloat16
    assert [x.shape for x in dot_product_attention(Q[0], K[0], V[0], return_residual=True)] == [
        (3, 4, 5),
        (3, 4),
    ]


def test_attention_is_mapped() -> None:
    np.testing.assert_allclose(
        dx.vmap(dot_product_attention)(Q, K, V), dot_product_attention(Q, K, V), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"value": V[:1]}, ValueError, r"value: float32\[1,6,2,5\]"),
        ({"query": Q[:, :, :3]}, ValueError, "a multiple of the heads of the key"),
        ({"query": Q.astype(int)}, ValueError, "floats of one dtype"),
        ({"mask": np.ones((3, 6), "float32")}, ValueError, r"mask: float32\[3,6\]"),
        ({"bias": np.ones((2, 2, 3, 6))}, ValueError, r"to broadcast to \(2, 4, 3, 6\)"),
        ({"query_seq_lengths": np.ones(2)}, ValueError, r"query_seq_lengths: float32\[2\], batch: 2"),
        ({"implementation": "cudnn"}, NotImplementedError, "implementation: 'cudnn'"),
    ],
)
def test_bad_arguments(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dot_product_attention(**{"query": Q, "key": K, "value": V, **change})


def test_products_with_scales_of_blocks() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 8))
    a, b = rng.uniform(1, 2, (2, 3, 2)), rng.uniform(1, 2, (2, 5, 4))
    args = [v.astype("float32") for v in (x, y, a, b)]
    wanted = np.einsum("bmk,bnk->bmn", x * np.repeat(a, 4, 2), y * np.repeat(b, 2, 2))
    np.testing.assert_allclose(dx.nn.scaled_matmul(*args), wanted, 1e-4, 1e-5)
    assert dx.nn.scaled_matmul(*args, preferred_element_type="bfloat16").dtype == "bfloat16"
    with pytest.raises(ValueError, match="scaled_matmul takes batches of rows with scales for equal blocks"):
        dx.nn.scaled_matmul(args[0], args[1], args[2], args[2])


def test_products_that_find_their_scales() -> None:
    """Numbers that blocks can hold exactly have exact products and derivatives; others are near."""
    rng = np.random.default_rng(0)
    numbers = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6, -1, -3])
    x, y = rng.choice(numbers, (32, 2, 32)), rng.choice(numbers, (2, 4, 8, 32))
    x[..., ::16] = y[..., ::16] = 6  # the largest number of each block
    x[0] = 0  # a block of zeros
    axes = (((2,), (3,)), ((1,), (0,)))

    def of(configs: Any, x: Any, y: Any) -> Any:
        def product(x: Any, y: Any) -> Any:
            return dx.nn.scaled_dot_general(x, y, axes, configs=configs)

        out, pull = dx.vjp(product, x, y)
        return out, pull(dx.numpy.ones_like(out))

    configs = {mode: [dx.nn.get_scaled_dot_general_config(mode)] * 3 for mode in ("mxfp8", "nvfp4")}
    wanted, cts = dx.jit(lambda x, y: of(None, x, y))(x, y)
    for mode, config in configs.items():
        found, found_cts = dx.jit(lambda x, y, config=config: of(config, x, y))(x, y)
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-5, err_msg=mode)
        for ct, other in zip(found_cts, cts, strict=True):
            np.testing.assert_allclose(ct, other, 1e-6, 1e-5, err_msg=mode)
    a = rng.normal(size=(3, 64)).astype("float32")
    flat = (((1,), (1,)), ((), ()))
    near = dx.nn.scaled_dot_general(a, a, flat, configs=configs["mxfp8"])
    assert 0 < abs(near - a @ a.T).max() < 0.06 * abs(a @ a.T).max()
    half = dx.nn.scaled_dot_general(a, a, flat, "bfloat16", configs["mxfp8"])
    assert half.dtype == "bfloat16"
    for run, error, text in (
        (lambda: dx.nn.get_scaled_dot_general_config("fp2"), ValueError, "Unsupported mode(.|\n)*'fp2'"),
        (lambda: dx.nn.scaled_dot_general(a[:, :8], a[:, :8], flat, configs=configs["mxfp8"]), ValueError, "32 neigh"),
        (lambda: dx.nn.scaled_dot_general(a, a, flat, "int32", configs["mxfp8"]), TypeError, "returns float32"),
        (lambda: dx.nn.scaled_dot_general(a, a, flat, configs=configs["mxfp8"][:2]), ValueError, "three configs"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            run()
