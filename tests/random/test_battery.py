"""The NIST battery (SP 800-22) on bits of the generators: drawn from one key, one word from each of many, mixed."""

from __future__ import annotations

import numpy as np
import pytest

import didax as dx
from didax import random

nistrng = pytest.importorskip("nistrng", reason="pip install nistrng")
WORDS = 3200  # 102,400 bits: the longest for which its tests of patterns take seconds
# The standard asks for 500 returns to zero of the walk they look at, ten times as many bits; nistrng does not.
NEED_MORE_BITS = ("random_excursion", "random_excursion_variant")

STREAMS = {
    "one key": lambda: random.bits(random.key(11), (WORDS,)),
    "children of one key": lambda: dx.vmap(random.bits)(random.split(random.key(12), WORDS)),
    "folded into one key": lambda: dx.vmap(lambda i: random.bits(random.fold_in(random.key(13), i)))(
        np.arange(WORDS, dtype=np.uint32)
    ),
    "seeds in order": lambda: dx.vmap(lambda i: random.bits(random.key(i)))(
        np.arange(WORDS, dtype=np.uint32)
    ),
    "rbg": lambda: random.bits(random.key(14, impl="rbg"), (WORDS,)),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_the_bits_pass_the_battery_of_nist(stream: str) -> None:
    with dx.debug_key_reuse("off"):
        words = np.asarray(STREAMS[stream]())
    bits = np.unpackbits(words.view(np.uint8)).astype(np.int64)  # fewer bits overflow in its sums
    scores = {
        name: float(test.run(bits.copy())[0].score)
        for name, test in nistrng.SP800_22R1A_BATTERY.items()
        if test.is_eligible(bits) and name not in NEED_MORE_BITS
    }
    assert len(scores) >= 9
    assert min(scores.values()) > 1e-4, scores
