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

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax import lax, nn, random
from didax.core.errors import ArgumentError, message
from didax.core.modules import on_access as _on_access
from didax.nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)  # fmt: skip
from didax.nn.initializers import glorot_normal, normal, ones, zeros

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)

Shape = tuple[int, ...]
Layer = tuple[Callable[..., Any], Callable[..., Any]]
logsoftmax, glorot, randn = log_softmax, glorot_normal, normal  # names of older programs


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
    make_w = glorot_normal() if W_init is None else W_init
    make_b = normal() if b_init is None else b_init

    def init(key: Any, input_shape: Shape) -> tuple[Shape, Any]:
        w_key, b_key = random.split(key)
        w = make_w(w_key, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (w, make_b(b_key, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return dnp.dot(inputs, w) + b

    return init, apply


def _filters(
    convolve: Callable[..., Any], out_shape: Callable[..., Shape], dimension_numbers: Sequence[str],
    out_chan: int, filter_shape: Shape, W_init: Any, b_init: Any,
) -> Layer:  # fmt: skip
    """A layer that convolves, `convolve(inputs, W)`, and adds a bias per channel."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if len(filter_shape) != len(rhs_spec) - 2:
        rule = "The filters of a convolution have one length for each axis beside features in and out."
        facts = f"filter_shape: {filter_shape!r}, axes of filters: {rhs_spec!r}"
        raise ArgumentError(message(rule, facts, fix="Pass a length for each, as (3, 3) for images."))
    make_w = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))
    make_b = b_init or normal(1e-6)

    def init(key: Any, input_shape: Shape) -> tuple[Shape, Any]:
        w_key, b_key = random.split(key)
        windows = iter(filter_shape)
        sizes = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel = tuple(sizes[c] if c in sizes else next(windows) for c in rhs_spec)
        bias = tuple(out_chan if c == "C" else 1 for c in out_spec)
        return out_shape(input_shape, kernel), (make_w(w_key, kernel), make_b(b_key, bias))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return convolve(inputs, w) + b

    return init, apply


def GeneralConv(
    dimension_numbers: Sequence[str], out_chan: int, filter_shape: Shape, strides: Shape | None = None,
    padding: Any = "VALID", W_init: Any = None, b_init: Any = None,
) -> Layer:  # fmt: skip
    """Return the convolution with `out_chan` filters and a bias per channel.

    `dimension_numbers` names the axes of inputs, filters and outputs, as in `lax.conv_general_dilated`.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.GeneralConv(("NCH", "OIH", "NCH"), 16, (3,))
    >>> init(random.key(0), (-1, 2, 28))[0]
    (-1, 16, 26)
    """
    steps = strides or (1,) * len(filter_shape)
    numbers: Any = tuple(dimension_numbers)
    return _filters(
        lambda x, w: lax.conv_general_dilated(x, w, steps, padding, dimension_numbers=numbers),
        lambda shape, kernel: lax.conv_general_shape_tuple(shape, kernel, steps, padding, numbers),
        numbers, out_chan, filter_shape, W_init, b_init,
    )  # fmt: skip


def GeneralConvTranspose(
    dimension_numbers: Sequence[str], out_chan: int, filter_shape: Shape, strides: Shape | None = None,
    padding: Any = "VALID", W_init: Any = None, b_init: Any = None,
) -> Layer:  # fmt: skip
    """Return the transposed convolution, which enlarges: see `lax.conv_transpose`.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.GeneralConvTranspose(("NHC", "HIO", "NHC"), 16, (3,), (2,), "SAME")
    >>> init(random.key(0), (-1, 28, 2))[0]
    (-1, 56, 16)
    """
    steps = strides or (1,) * len(filter_shape)
    numbers: Any = tuple(dimension_numbers)
    return _filters(
        lambda x, w: lax.conv_transpose(x, w, steps, padding, dimension_numbers=numbers),
        lambda shape, kernel: lax.conv_transpose_shape_tuple(shape, kernel, steps, padding, numbers),
        numbers, out_chan, filter_shape, W_init, b_init,
    )  # fmt: skip


# Images have the axes (batch, height, width, channels), and sequences (batch, length, channels).
Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Return the layer that normalises over `axis` to mean 0 and variance 1 in the batch, then scales and shifts.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.BatchNorm()
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 28, 28, 16)
    """

    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(key: Any, input_shape: Shape) -> tuple[Shape, Any]:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        beta_key, gamma_key = random.split(key)
        return input_shape, (
            beta_init(beta_key, shape) if center else (),
            gamma_init(gamma_key, shape) if scale else (),
        )

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        beta, gamma = (p if isinstance(p, tuple) else dnp.expand_dims(p, axes) for p in params)
        out = standardize(inputs, axes, epsilon=epsilon)
        out = out * gamma if scale else out
        return out + beta if center else out

    return init, apply


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


Identity = elementwise(lambda inputs: inputs)  # of anything: of a tuple with None in it, too
Relu = elementwise(relu)
LeakyRelu = elementwise(leaky_relu)
Elu = elementwise(elu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Tanh = elementwise(nn.tanh)
Exp = elementwise(dnp.exp)
Softmax = elementwise(softmax, axis=-1)
LogSoftmax = elementwise(log_softmax, axis=-1)


def _flatten(params: Any, inputs: Any, **kwargs: Any) -> Any:
    return dnp.reshape(inputs, (inputs.shape[0], -1))


Flatten: Layer = (lambda key, shape: ((shape[0], math.prod(shape[1:])), ()), _flatten)
"""The layer that merges all axes but the first into one axis."""


def MaxPool(
    window_shape: Shape, strides: Shape | None = None, padding: str = "VALID", spec: str | None = None
) -> Layer:
    """Return the layer that takes the largest value in each window of an image.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.MaxPool((2, 2), (2, 2))
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 14, 14, 16)
    """
    return _pool(
        lambda x, *window: lax.reduce_window(x, -dnp.inf, lax.max, *window),
        window_shape,
        strides,
        padding,
        spec,
    )


def SumPool(
    window_shape: Shape, strides: Shape | None = None, padding: str = "VALID", spec: str | None = None
) -> Layer:
    """Return the layer that takes the sum of each window of an image.

    >>> from didax import random
    >>> from didax.example_libraries import stax
    >>> init, apply = stax.SumPool((2, 2), (2, 2))
    >>> init(random.key(0), (-1, 28, 28, 16))[0]
    (-1, 14, 14, 16)
    """
    return _pool(
        lambda x, *window: lax.reduce_window(x, 0.0, lax.add, *window), window_shape, strides, padding, spec
    )


def AvgPool(
    window_shape: Shape, strides: Shape | None = None, padding: str = "VALID", spec: str | None = None
) -> Layer:
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

    return _pool(mean, window_shape, strides, padding, spec)


def _pool(
    reduce: Callable[..., Any], window_shape: Shape, strides: Shape | None, padding: str, spec: str | None
) -> Layer:
    """A layer over windows of all axes but batch and channels: "N" and "C" in `spec`, or the first and the last."""
    ends = (0, len(window_shape) + 1) if spec is None else (spec.index("N"), spec.index("C"))
    window, steps = list(window_shape), list(strides or (1,) * len(window_shape))
    for axis in sorted(ends):
        window.insert(axis, 1)
        steps.insert(axis, 1)

    def init(key: Any, shape: Shape) -> tuple[Shape, Any]:
        pads = lax.padtype_to_pads(shape, window, steps, padding)
        ones = (1,) * len(window)
        return lax.reduce_window_shape_tuple(shape, window, steps, pads, ones, ones), ()

    return init, lambda params, inputs, **kwargs: reduce(inputs, window, steps, padding)


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

    def init(key: Any, shapes: Any) -> tuple[Any, tuple[Any, ...]]:
        keys = random.split(key, len(layers))
        pairs = [f(k, shape) for f, k, shape in zip(inits, keys, shapes, strict=True)]
        return tuple(shape for shape, _ in pairs), tuple(params for _, params in pairs)

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
