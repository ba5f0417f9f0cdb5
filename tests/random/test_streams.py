"""What a generator for arrays is to give: streams that are independent, and the same wherever they are drawn."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import didax as dx
from didax import random
from tests.quickly import on_devices

N = 10_000

FAMILIES: dict[str, Callable[[int], Any]] = {
    "split": lambda count: random.split(random.key(3), count),
    "split by shape": lambda count: random.split(random.key(3), (count, 1)).reshape(count),
    "folded in": lambda count: dx.vmap(lambda i: random.fold_in(random.key(3), i))(np.arange(count, dtype=np.uint32)),
    "seeds": lambda count: dx.vmap(random.key)(np.arange(count, dtype=np.uint32)),
    "generations": lambda count: _generations(count),
    "rbg": lambda count: random.split(random.key(3, impl="rbg"), count),
}  # fmt: skip


def _generations(count: int) -> Any:
    """Keys of a chain: each is the first child of the one before."""
    keys, key = [], random.key(3)
    for _ in range(count):
        key, mine = random.split(key)
        keys.append(random.key_data(mine))
    return random.wrap_key_data(dx.numpy.stack(keys))


@pytest.mark.parametrize("family", FAMILIES)
def test_streams_of_different_keys_are_not_correlated(family: str) -> None:
    """Correlations between all pairs of streams, at lags 0 and 1, are those of independent normals."""
    count = 12
    draw = dx.vmap(lambda key: random.normal(key, (N,)))
    x = np.asarray(draw(FAMILIES[family](count)), np.float64)
    for lag in (0, 1):
        found = np.corrcoef(x[:, : N - lag], x[:, lag:])[:count, count:]
        apart = found[~np.eye(count, dtype=bool)] if lag == 0 else found.ravel()
        scaled = apart * np.sqrt(N)  # standard normal if the streams are independent
        assert np.abs(scaled).max() < 4.8
        assert stats.kstest(scaled, stats.norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_bits_of_different_keys_agree_as_often_as_they_differ(family: str) -> None:
    """Each of the 32 bits, compared between neighbouring streams, agrees half of the time."""
    draw = dx.vmap(lambda key: random.bits(key, (64,)))
    words = np.asarray(draw(FAMILIES[family](200)))
    different = words[1:] ^ words[:-1]
    ones = np.array([np.count_nonzero(different >> np.uint32(bit) & 1) for bit in range(32)])
    assert np.all(np.abs(ones - different.size / 2) < 4.8 * np.sqrt(different.size / 4))


DRAWS = """
import hashlib
import numpy as np
import didax as dx
from didax import random

dx.config.update("debug_key_reuse", "off")

def draws(key):
    return [random.bits(key, (1000,)), random.normal(key, (3, 301)), random.key_data(random.split(key, 5)),
            random.randint(key, (50,), -7, 900)]

jitted = dx.jit(draws)

def digest(key):
    eager = draws(key) if key.device in (dx.devices()[0], dx.devices()[-1]) else jitted(key)
    parts = [np.asarray(part).tobytes() for part in [*jitted(key), *eager]]
    return hashlib.sha256(b"".join(parts)).hexdigest()

for impl in ("threefry2x32", "rbg"):
    for device in dx.devices():
        print(impl, digest(dx.device_put(random.key(21, impl=impl), device)))
"""


def _digests(devices: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", DRAWS], env=on_devices(devices), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.ci
def test_the_bits_are_the_same_on_one_device_and_on_each_of_three() -> None:
    one, three = _digests(1), _digests(3)
    assert len(one) == 2
    assert len(three) == 6
    assert set(three) == set(one)
    assert len(set(one)) == 2
    assert all(len(line.split()[1]) == 2 * hashlib.sha256().digest_size for line in one)
