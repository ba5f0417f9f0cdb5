"""Convolution beyond the table of operations: lax's faces, the depthwise lowering, and what is refused."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import didax as dx
from didax import lax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 6, 5)).astype("float32")
W = RNG.normal(size=(4, 3, 3, 2)).astype("float32")


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-4)


def test_the_common_cases():
    """conv and conv_with_general_padding are jax's."""
    close(lax.conv(X, W, (1, 2), "SAME"), jax.lax.conv(X, W, (1, 2), "SAME"))
    options = ((2, 1), ((1, 0), (2, 1)), (1, 2), (2, 1))
    close(lax.conv_with_general_padding(X, W, *options), jax.lax.conv_with_general_padding(X, W, *options))


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 0)]])
@pytest.mark.parametrize("transpose_kernel", [False, True])
def test_conv_transpose_is_jax_s(padding, transpose_kernel):
    """For windows smaller and larger than the stride."""
    x = RNG.normal(size=(2, 6, 4)).astype("float32")
    for k, stride, dilation in itertools.product((1, 2, 4), (1, 3), (1, 2)):
        w = RNG.normal(size=(k, 4, 4)).astype("float32")
        args = (x, w, (stride,), padding, (dilation,), None, transpose_kernel)
        close(lax.conv_transpose(*args), jax.lax.conv_transpose(*args))


def test_conv_transpose_with_the_padding_of_the_forward_convolution():
    x, w = RNG.normal(size=(2, 6, 4)).astype("float32"), RNG.normal(size=(3, 4, 4)).astype("float32")
    args = (x, w, (2,), [(1, 0)])
    close(
        lax.conv_transpose(*args, use_consistent_padding=True),
        jax.lax.conv_transpose(*args, use_consistent_padding=True),
    )


@pytest.mark.parametrize("numbers", [None, ("NHWC", "HWIO", "NHWC"), ("NCHW", "HWIO", "HWNC")])
def test_dimension_numbers_are_jax_s(numbers):
    ours, theirs = (
        f((2, 3, 4, 5), (2, 3, 4, 5), numbers)
        for f in (lax.conv_dimension_numbers, jax.lax.conv_dimension_numbers)
    )
    assert ours == (tuple(theirs.lhs_spec), tuple(theirs.rhs_spec), tuple(theirs.out_spec))


def lowered(groups, size):
    """Text of a compiled depthwise or grouped convolution with a window of that size."""
    x, w = np.ones((1, 4, 12, 12), "float32"), np.ones((4, 4 // groups, size, size), "float32")
    conv = dx.jit(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=groups))
    return conv.lower(x, w).as_text()


def test_small_depthwise_windows_become_shifted_images():
    """Only these: XLA is better at any other convolution."""
    assert "convolution" not in lowered(4, 9)
    assert "convolution" in lowered(4, 10)
    assert "convolution" in lowered(2, 3)
    assert "convolution" in lowered(1, 3)


@pytest.mark.cpu
def test_large_filters_of_one_feature_become_shifted_images():
    """With strides, paddings and dilations they are what many features, one of them used, compute."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 1, 80, 120)).astype("float32")
    w = rng.normal(size=(2, 1, 3, 4)).astype("float32")
    for options in [
        {"window_strides": (1, 1), "padding": "SAME"},
        {"window_strides": (1, 2), "padding": [(2, 0), (-1, 3)], "rhs_dilation": (2, 1)},
        {"window_strides": (2, 1), "padding": [(0, 0), (1, 0)], "lhs_dilation": (1, 2)},
    ]:
        conv = dx.jit(lambda x, w, options=options: lax.conv_general_dilated(x, w, **options))
        assert "stablehlo.convolution" not in conv.lower(x, w).as_text()
        whole = [np.concatenate([y, np.zeros_like(y)], 1) for y in (x, w)]
        np.testing.assert_allclose(conv(x, w), conv(*whole), rtol=1e-4, atol=1e-5)
    small = dx.jit(lambda x, w: lax.conv(x, w, (1, 1), "SAME")).lower(x[:, :, :10], w)
    assert "stablehlo.convolution" in small.as_text()


def test_a_batch_of_none_is_empty():
    """vmap over an axis of length 0."""
    for axes in [(0, None), (None, 0), (0, 0)]:
        args = [
            x if axis is None else np.zeros((0, *x.shape), x.dtype)
            for x, axis in zip((X, W), axes, strict=True)
        ]
        assert dx.vmap(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), axes)(*args).shape == (0, 2, 4, 6, 5)


def test_gradients_where_no_window_fits_have_the_types_of_the_operands():
    """The lengths of the cotangents' own windows would be computed from a length of 0."""
    shapes = [((2, 1, 1), (1, 1, 1), {}), ((2, 1, 1), (2, 1, 3), {"batch_group_count": 2})]
    shapes += [((2, 1, 0), (1, 1, 1), {}), ((0, 1, 3), (1, 1, 1), {}), ((2, 0, 3), (1, 0, 2), {})]
    for lhs, rhs, groups in shapes:
        args = np.ones(lhs, np.float32), np.ones(rhs, np.float32)

        def f(x, w, groups=groups):
            return (lax.conv_general_dilated(x, w, (1,), [(-1, 0)], **groups) ** 2).sum()

        grads = dx.grad(f, (0, 1))(*args)
        assert [g.shape for g in grads] == [lhs, rhs] and not any(g.any() for g in grads)
        assert [h.shape for h in dx.hessian(f, (0, 1))(*args)[1]] == [rhs + lhs, rhs + rhs]


def general(strides=(1, 1), padding="SAME", w=W, **options):
    return lambda: lax.conv_general_dilated(X, w, strides, padding, **options)


ERRORS = {
    "axes": (general(w=W[0]), TypeError, "as many axes"),
    "strides": (
        general(strides=(1,)),
        ValueError,
        r"one stride.*\n.*spatial axes: 2\n  window_strides: \(1,\)\nPass 2",
    ),
    "negative stride": (general(strides=(1, 0)), ValueError, "window_strides: \\(1, 0\\)"),
    "padding": (
        general(padding="ROUND"),
        ValueError,
        "padding: 'ROUND'\nUse one of 'SAME', 'SAME_LOWER', 'VALID'",
    ),
    "one padding": (general(padding=[(1, 1)]), ValueError, r"padding: \(\(1, 1\),\)"),
    "named padding of a spread image": (
        general(lhs_dilation=(2, 1)),
        ValueError,
        r"lhs_dilation: \(2, 1\)\n.*conv_transpose",
    ),
    "features": (general(w=W[:, :2]), TypeError, "lhs: .* features 3\n  rhs: .* features out 4 and in 2\n"),
    "groups": (general(feature_group_count=3), TypeError, "feature_group_count: 3"),
    "group sizes": (general(w=W[:, :1], feature_group_count=3), TypeError, "must divide"),
    "both groups": (general(feature_group_count=2, batch_group_count=2), ValueError, "not both"),
    "dtypes": (general(w=W.astype("float16")), TypeError, r"one dtype.\n  lhs: float32.*rhs: float16"),
    "specs": (general(dimension_numbers=("NCHW", "OIHW")), TypeError, "three specs"),
    "letters": (
        general(dimension_numbers=("NCHW", "OIHX", "NCHW")),
        ValueError,
        "name N, C and each spatial axis",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_misuse_is_explained(case):
    """Errors name the operands, the parameter and the way out."""
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call()
