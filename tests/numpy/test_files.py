"""Files and text: what is written comes back, and narrow dtypes stay what they are."""

import io
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import didax.numpy as dnp


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "bfloat16", "complex64"])
def test_save_and_load(dtype: str) -> None:
    x = dnp.array([0, 1, 3]).astype(dtype)
    file = io.BytesIO()
    dnp.save(file, x)
    file.seek(0)
    back = dnp.load(file)
    assert back.dtype == x.dtype
    assert bool((back == x).all())


def test_several_arrays_in_a_file() -> None:
    file = io.BytesIO()
    dnp.savez(file, a=dnp.arange(3), b=dnp.ones(2))
    file.seek(0)
    assert sorted(dnp.load(file)) == ["a", "b"]


def test_binary_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(3.0).tofile(path)
    assert dnp.fromfile(path).dtype == np.float32
    assert dnp.fromfile(path, "float64").dtype == np.float64
    np.testing.assert_array_equal(dnp.fromfile(path, count=1, offset=8), [1.0])


def test_text() -> None:
    for dtype in (float, int, "int8"):
        ours, theirs = dnp.fromstring("1 2", dtype, sep=" "), jnp.fromstring("1 2", dtype, sep=" ")
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert dnp.array_str(dnp.arange(3)) == "[0 1 2]"
    assert dnp.array_repr(dnp.arange(3)) == repr(dnp.arange(3))
    with dnp.printoptions(precision=2):
        assert repr(dnp.array([1.23456])) == "Array([1.23], dtype=float32)"
