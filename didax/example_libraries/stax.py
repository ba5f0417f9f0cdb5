"""Neural networks as pairs of functions, which other functions compose.

A layer is a pair `(init, apply)`:

    output_shape, params = init(key, input_shape)     a batch axis may be -1
    outputs = apply(params, inputs, rng=key)          `rng` only where the layer draws, as `Dropout` does

    >>> import didax.numpy as dnp
    >>> from didax import random
    >>> init, apply = serial(Dense(8), Relu, Dropout(0.5), Dense(2))
    >>> shape, params = init(random.key(0), (-1, 3))
    >>> shape
    (-1, 2)
    >>> apply(params, dnp.ones((4, 3)), rng=random.key(1)).shape
    (4, 2)

There is no hidden state: parameters are a pytree that the user differentiates and updates, and randomness is
a key that `serial` and `parallel` split among their layers. Images have their channels last. Read next:
`optimizers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import didax.numpy as dnp
from didax import lax, nn, random
from didax.api.inspect import eval_shape
from didax.core.errors import message
from didax.nn import initializers

Shape = tuple[int, ...]
Layer = tuple[Callable[..., Any], Callable[..., Any]]


# --- Layers with parameters ---------------------------------------------------------------------------------


def Dense(out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:
    """Return the layer x @ W + b over the last axis, with W of shape (in, out_dim).

    >>> import didax.numpy as dnp
    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.Dense(10)
    >>> shape, params = init(random.key(0), (-1, 784))
    >>> shape, apply(params, dnp.ones((8, 784))).shape
    ((-1, 10), (8, 10))
    """
    make_w = initializers.glorot_normal() if W_init is None else W_init
    make_b = initializers.normal() if b_init is None else b_init

    def init(key: Any, input_shape: Shape) -> tuple[Shape, Any]:
        w_key, b_key = random.split(key)
        w = make_w(w_key, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (w, make_b(b_key, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return dnp.dot(inputs, w) + b

    return init, apply


def Conv(
    out_chan: int,
    filter_shape: Shape,
    strides: Shape | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = None,
) -> Layer:
    """Return the convolution of images with `out_chan` filters and a bias per channel.

    Images have the axes (batch, height, width, channels).

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.Conv(16, (3, 3))
    >>> init(random.key(0), (-1, 28, 28, 1))[0]
    (-1, 26, 26, 16)
    """
    numbers = ("NHWC", "HWIO", "NHWC")
    make_w = initializers.glorot_normal(2, 3) if W_init is None else W_init
    make_b = initializers.normal(1e-6) if b_init is None else b_init
    steps = (1,) * len(filter_shape) if strides is None else strides

    def convolve(inputs: Any, w: Any) -> Any:
        return lax.conv_general_dilated(inputs, w, steps, padding, dimension_numbers=numbers)

    def init(key: Any, input_shape: Shape) -> tuple[Shape, Any]:
        w_key, b_key = random.split(key)
        w = make_w(w_key, (*filter_shape, input_shape[-1], out_chan))
        return _shape_of(lambda x: convolve(x, w), input_shape), (w, make_b(b_key, (out_chan,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return convolve(inputs, w) + b

    return init, apply


def BatchNorm(
    axis: Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = initializers.zeros,
    gamma_init: Any = initializers.ones,
) -> Layer:
    """Return the layer that normalises over `axis` to mean 0 and variance 1 in the batch, then scales and shifts.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.BatchNorm()
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 28, 28, 16)
    """

    def init(key: Any, input_shape: Shape) -> tuple[Shape, Any]:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axis)
        beta_key, gamma_key = random.split(key)
        return input_shape, (
            beta_init(beta_key, shape) if center else (),
            gamma_init(gamma_key, shape) if scale else (),
        )

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        beta, gamma = (p if isinstance(p, tuple) else dnp.expand_dims(p, tuple(axis)) for p in params)
        out = nn.standardize(inputs, tuple(axis), epsilon=epsilon)
        out = out * gamma if scale else out
        return out + beta if center else out

    return init, apply


def _shape_of(f: Callable[[Any], Any], shape: Shape) -> Shape:
    """Return the shape of f(x) for x of a shape whose batch axis may be -1."""
    batch = max(shape[0], 1)
    out = eval_shape(f, dnp.zeros((batch, *shape[1:]))).shape
    return (shape[0], *out[1:])


# --- Layers without parameters ------------------------------------------------------------------------------


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """Return the layer that applies a function which keeps shapes.

    >>> import didax.numpy as dnp
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.elementwise(dnp.tanh)
    >>> apply((), dnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    return lambda key, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: fun(
        inputs, **fun_kwargs
    )


Identity = elementwise(nn.identity)
Relu = elementwise(nn.relu)
LeakyRelu = elementwise(nn.leaky_relu)
Elu = elementwise(nn.elu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Tanh = elementwise(nn.tanh)
Exp = elementwise(dnp.exp)
Softmax = elementwise(nn.softmax, axis=-1)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)


def _flatten(params: Any, inputs: Any, **kwargs: Any) -> Any:
    return dnp.reshape(inputs, (inputs.shape[0], -1))


Flatten: Layer = (lambda key, shape: ((shape[0], math.prod(shape[1:])), ()), _flatten)
"""The layer that merges all axes but the first into one axis."""


def MaxPool(window_shape: Shape, strides: Shape | None = None, padding: str = "VALID") -> Layer:
    """Return the layer that takes the largest value in each window of an image.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.MaxPool((2, 2), (2, 2))
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 14, 14, 16)
    """
    return _pool(
        lambda x, *window: lax.reduce_window(x, -dnp.inf, lax.max, *window), window_shape, strides, padding
    )


def SumPool(window_shape: Shape, strides: Shape | None = None, padding: str = "VALID") -> Layer:
    """Return the layer that takes the sum of each window of an image.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.SumPool((2, 2), (2, 2))
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 14, 14, 16)
    """
    return _pool(
        lambda x, *window: lax.reduce_window(x, 0.0, lax.add, *window), window_shape, strides, padding
    )


def AvgPool(window_shape: Shape, strides: Shape | None = None, padding: str = "VALID") -> Layer:
    """Return the layer that takes the mean of each window of an image, over the elements inside the image.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.AvgPool((2, 2), (2, 2))
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 14, 14, 16)
    """

    def mean(x: Any, *window: Any) -> Any:
        total, count = (lax.reduce_window(y, 0.0, lax.add, *window) for y in (x, dnp.ones_like(x)))
        return total / count

    return _pool(mean, window_shape, strides, padding)


def _pool(reduce: Callable[..., Any], window_shape: Shape, strides: Shape | None, padding: str) -> Layer:
    window = (1, *window_shape, 1)
    steps = (1, *(strides or (1,) * len(window_shape)), 1)

    def pool(x: Any) -> Any:
        return reduce(x, window, steps, padding)

    return lambda key, shape: (_shape_of(pool, shape), ()), lambda params, inputs, **kwargs: pool(inputs)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Return the layer that keeps each element with probability `rate`, scaled by 1 / rate, and sets the others to 0.

    With a `mode` other than 'train' the layer returns its inputs. `apply` needs `rng`.

    >>> import didax.numpy as dnp
    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.Dropout(0.9)
    >>> apply((), dnp.ones((8, 16)), rng=random.key(0)).shape
    (8, 16)
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        if mode != "train":
            return inputs
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                message(
                    "Dropout draws which elements it keeps, so it needs a key.",
                    "rng: None",
                    fix="Call apply(params, inputs, rng=key), or make the layer with mode='test'.",
                )
            )
        keep = random.bernoulli(rng, rate, inputs.shape)
        return dnp.where(keep, inputs / rate, 0)

    return lambda key, input_shape: (input_shape, ()), apply


# --- Several inputs and outputs -----------------------------------------------------------------------------


def FanOut(num: int) -> Layer:
    """Return the layer that gives its input `num` times, for `parallel`.

    >>> import didax.numpy as dnp
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.FanOut(2)
    >>> apply((), dnp.zeros(1))
    [Array([0.], dtype=float32), Array([0.], dtype=float32)]
    """
    return lambda key, shape: ([shape] * num, ()), lambda params, inputs, **kwargs: [inputs] * num


FanInSum: Layer = (lambda key, shapes: (shapes[0], ()), lambda params, inputs, **kwargs: sum(inputs))
"""The layer that adds several inputs."""


def FanInConcat(axis: int = -1) -> Layer:
    """Return the layer that joins several inputs along an axis.

    >>> import didax.numpy as dnp
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.FanInConcat()
    >>> apply((), [dnp.zeros(1), dnp.ones(1)])
    Array([0., 1.], dtype=float32)
    """

    def init(key: Any, shapes: Sequence[Shape]) -> tuple[Shape, Any]:
        shape = list(shapes[0])
        shape[axis] = sum(s[axis] for s in shapes)
        return tuple(shape), ()

    return init, lambda params, inputs, **kwargs: dnp.concatenate(inputs, axis)


# --- Combinators --------------------------------------------------------------------------------------------


def serial(*layers: Layer) -> Layer:
    """Compose layers one after another; each layer gets a key of its own.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(16), stax.Relu, stax.Dense(10))
    >>> init(random.key(0), (-1, 784))[0]
    (-1, 10)
    """
    inits, applies = [f for f, _ in layers], [g for _, g in layers]

    def init(key: Any, shape: Any) -> tuple[Any, list[Any]]:
        params: list[Any] = []
        for layer_init in inits:
            key, layer_key = random.split(key)
            shape, layer_params = layer_init(layer_key, shape)
            params.append(layer_params)
        return shape, params

    def apply(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> Any:
        for layer_apply, layer_params, key in zip(applies, params, _keys(rng, len(layers)), strict=True):
            inputs = layer_apply(layer_params, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Compose layers in parallel: the i-th of several inputs goes through the i-th layer, with a key of its own.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(4), stax.Dense(4)), stax.FanInSum)
    >>> init(random.key(0), (-1, 8))[0]
    (-1, 4)
    """
    inits, applies = [f for f, _ in layers], [g for _, g in layers]

    def init(key: Any, shapes: Any) -> tuple[Any, list[Any]]:
        keys = random.split(key, len(layers))
        pairs = [f(k, shape) for f, k, shape in zip(inits, keys, shapes, strict=True)]
        return [shape for shape, _ in pairs], [params for _, params in pairs]

    def apply(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> Any:
        keys = _keys(rng, len(layers))
        return [f(p, x, rng=k, **kwargs) for f, p, x, k in zip(applies, params, inputs, keys, strict=True)]

    return init, apply


def _keys(rng: Any, num: int) -> Any:
    return (None,) * num if rng is None else random.split(rng, num)


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """Return a layer that `make_layer(shape)` makes once the shape of the input is known.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.shape_dependent(lambda shape: stax.Dense(shape[-1]))
    >>> init(random.key(0), (-1, 8))[0]
    (-1, 8)
    """

    def init(key: Any, input_shape: Any) -> tuple[Any, Any]:
        return make_layer(input_shape)[0](key, input_shape)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        shapes = [x.shape for x in inputs] if isinstance(inputs, list | tuple) else inputs.shape
        return make_layer(shapes)[1](params, inputs, **kwargs)

    return init, apply
