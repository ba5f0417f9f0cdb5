"""didax.image against jax.image: values, dtypes, derivatives, errors."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import image
from tests.checks import assert_close
from tests.scipy.families import check_batches, check_derivatives

X = np.random.default_rng(0).normal(size=(4, 6, 3)).astype("float32")


def test_sizes_are_those_of_jax() -> None:
    for method in image.ResizeMethod:
        theirs = jax.image.ResizeMethod[method.name]
        for shape, antialias in itertools.product(((7, 3, 3), (1, 9, 2)), (True, False)):
            found, wanted = (
                image.resize(X, shape, method, antialias),
                jax.image.resize(X, shape, theirs, antialias),
            )
            assert_close(found, np.asarray(wanted), 1e-4, 2e-5, f"{method} {shape} {antialias}")
    for name in ("linear", "cubic", "area"):
        for scale, offset in ((0.5, 0.3), (1.7, -2.0)):
            args = (5, 6, 3), (0, 1), np.float32([scale] * 2), np.float32([offset, -offset]), name
            wanted = np.asarray(jax.image.scale_and_translate(X, *args))
            assert_close(image.scale_and_translate(X, *args), wanted, 1e-4, 2e-5, f"{args}")
    for name in ("nearest", "bilinear", "tricubic", "lanczos3", "bicubic-pytorch", "area"):
        assert image.ResizeMethod.from_string(name).name == jax.image.ResizeMethod.from_string(name).name


def test_dtypes_are_those_of_jax() -> None:
    for dtype, name in itertools.product(
        ("int32", "uint8", "float16", "bfloat16", "float8_e4m3fn"), ("nearest", "linear")
    ):
        x = np.ones((4,), jax.numpy.dtype(dtype))
        found, wanted = [lib.image.resize(x, (2,), name) for lib in (dx, jax)]
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), (dtype, name)
    with dx.enable_x64(True), jax.enable_x64(True):
        for dtype in ("uint8", "int32", "int64", "bool"):
            found, wanted = [lib.image.resize(np.ones(4, dtype), (2,), "linear") for lib in (dx, jax)]
            assert found.dtype == wanted.dtype, dtype
    # A scale of 7/6 in 8 bits would move the last of these pixels by 1.3.
    row = np.sin(np.arange(600) / 30)
    narrow = image.resize(row.astype(jax.numpy.bfloat16), (700,), "linear").astype("float32")
    assert_close(narrow, image.resize(row.astype("float32"), (700,), "linear"), 0, 0.01)
    args = (5,), (0,), np.ones(1, "float32"), np.ones(1, "float32"), "linear"
    assert str(image.scale_and_translate(dnp.ones(4, "float8_e5m2"), *args)) == "[0 1 1 1 1]"


def test_derivatives_and_batches() -> None:
    x = X[..., 0].astype("float64")

    def moved(x: Any, scale: Any, offset: Any) -> Any:
        return image.scale_and_translate(x, (3, 5), (0, 1), scale, offset, "cubic", antialias=False)

    check_derivatives({"resize": (lambda x: image.resize(x, (3, 8), "lanczos3"), x),
                       "moved": (moved, x, np.array([0.9, 1.1]), np.array([0.2, 0.3]))}, order=1)  # fmt: skip
    check_batches({"resize": (lambda x: image.resize(x, (3, 2), "linear"), X)})


def test_errors() -> None:
    ones = np.ones(1, "float32")
    for call, text in (
        (lambda: image.resize(X, (2, 2), "linear"), "resize takes the whole shape of the result"),
        (
            lambda: image.resize(X, (2.0, *X.shape[1:]), "linear"),
            "resize takes the whole shape of the result",
        ),  # type: ignore[arg-type]
        (lambda: image.scale_and_translate(X, X.shape, (9,), ones, ones, "linear"), "scale_and_translate"),
        (lambda: image.scale_and_translate(X, X.shape, (0, 0), ones, ones, "linear"), "takes each axis once"),
        (lambda: image.resize(X[:0], X.shape, "nearest"), "No element of an empty axis is nearest"),
        (lambda: image.resize(X, X.shape, "fast"), "No method of resizing has this name"),
        (lambda: image.scale_and_translate(X, X.shape, (0,), ones, ones, "nearest"), "needs a kernel"),
        (lambda: image.scale_and_translate(X, X.shape, (0, 1), ones, ones, "linear"), "for each axis"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
