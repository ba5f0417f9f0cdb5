"""`jit(..., bucket=)`: which axes, which sizes, how many programs, and what is refused."""

import pickle
import re

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, random
from didax.xla import buffers

Buckets = dx.Buckets


def mean(x):
    return x.mean()


def ones(*shape):
    return np.ones(shape, np.float32)


def test_lengths_up_to_100_take_few_programs():
    f = dx.jit(lambda x: (x - x.mean(), x[1:]), bucket="n")
    for n in range(101):
        x = np.arange(n, dtype=np.float32)
        found, rest = f(x)
        assert found.shape == (n,) and np.array_equal(rest, x[1:])
        np.testing.assert_allclose(found, x - np.float32((n - 1) / 2), atol=1e-5)
    assert f._cache_size() == 6  # 8, 16, 32, 64, 128, and the one of length 0


@pytest.mark.parametrize(
    ("sizes", "padded"),
    [
        (None, {1: 8, 8: 8, 9: 16, 100: 128}),
        ((5, 100), {1: 5, 5: 5, 6: 100}),
        (lambda n: -(-n // 10) * 10, {1: 10, 11: 20}),
        ({"n": (7,)}, {3: 7}),
        ({"m": (7,)}, {3: 8}),
    ],
)
def test_sizes(sizes, padded):
    buckets = Buckets("n", sizes)
    assert {n: buckets.padded("n", n) for n in padded} == padded


def test_names_are_of_arguments_by_position_and_by_name_of_containers_too():
    def f(batch, scale, *, k):
        return batch["x"].sum(0) * scale + k["y"].sum() + batch["x"].shape[0]

    batch, scale, k = {"x": ones(5, 3)}, ones(3), {"y": ones(6)}
    wanted = f(batch, scale, k=k)
    for axes in (
        {"batch": "n, ...", "k": {"y": "m"}},
        {"batch": {"x": "n, 3"}, "k": "m"},
        {"k": "2*n"},
    ):
        np.testing.assert_allclose(dx.jit(f, bucket=axes)(batch, scale, k=k), wanted, rtol=1e-6)
    g = dx.jit(f, static_argnames="k", bucket=("n, _", None))
    named = type("Named", (), {"__getitem__": lambda self, key: np.float32(1), "__hash__": lambda self: 1})()
    np.testing.assert_allclose(g(batch, scale, k=named), f(batch, scale, k=named))
    assert float(dx.jit(lambda x, n: x[:n].sum(), static_argnums=1, bucket=("n", None))(ones(5), 2)) == 2


def test_arrays_captured_and_scalars_are_as_ever():
    w = dnp.arange(3.0)
    f = dx.jit(lambda x, s: (x @ w) * s, bucket="n, ...")
    assert np.array_equal(f(ones(4, 3), 2.0), np.full(4, 6.0))
    assert (
        dx.grad(lambda v: dx.jit(lambda x: (x @ v).sum(), bucket="n, _")(ones(4, 3)))(w).tolist() == [4.0] * 3
    )


def test_what_is_decided_by_sizes_is_decided_for_each():
    def f(x):
        if x.shape[0] == 5:
            return x * 5
        return x + 1 if x.shape[0] > 6 else x - 1

    g = dx.jit(f, bucket="n")
    for n in (4, 5, 6, 7, 3, 5, 8):
        assert np.array_equal(g(ones(n)), f(ones(n))), n
    assert g._cache_size() == 3  # 5 alone, up to 6, from 7 on


def test_donated_arguments_are_gone():
    f = dx.jit(lambda w, x: w + x.sum(), donate_argnums=(0, 1), bucket=(None, "n"))
    for n in (5, 8):
        w, x = dnp.ones(3) + 1, dnp.ones(n) + 1
        with pytest.warns(UserWarning, match="donated"):
            f(w, x) if n == 5 else dx.clear_caches() or f(w, x)
        assert w.is_deleted() and x.is_deleted()


def test_within_programs_and_stages():
    f = dx.jit(lambda x: x[::-1].cumsum(), bucket="n")
    x = dnp.arange(5.0)
    assert np.array_equal(dx.jit(lambda x: f(x) + f(x[1:]).sum())(x), f(x) + f(x[1:]).sum())
    assert f.eval_shape(x).shape == (5,)
    compiled = f.lower(x).compile()
    assert np.array_equal(compiled(x), f(x)) and "tensor<8xf32>" in f.lower(x).as_text()
    assert f.clear_cache() is None and f._cache_size() == 0
    g = pickle.loads(pickle.dumps(dx.jit(mean, bucket="n")))
    assert float(g(ones(3))) == 1 and g._cache_size() == 1
    with dx.disable_jit():
        assert np.array_equal(f(x), np.asarray(x)[::-1].cumsum())
    with dx.debug_nans(True):  # which would find those beyond
        assert np.array_equal(dx.jit(lambda x: 1 / x, bucket="n")(x + 1), 1 / (x + 1))


def test_calls_do_not_wait_for_the_compiler():
    f = dx.jit(lambda x: x.mean() + x[-1], bucket="n", compile_in_background=True)
    assert [float(f(np.arange(n, dtype=np.float32))) for n in (3, 4, 9)] == [3.0, 4.5, 12.0]


def test_misses_are_explained(caplog):
    f = dx.jit(lambda x: x.mean(), bucket="n")
    with dx.explain_cache_misses(True):
        f(ones(3)), f(ones(7)), f(ones(9))
    traced, first, second = [record.getMessage() for record in caplog.records]
    assert (
        "test_bucket_calls.py:" in traced and "is traced for all sizes, from n = 3: its first call." in traced
    )
    assert "is compiled for a bucket: n = 3 padded to 8. It has 0 others." in first
    assert "n = 9 padded to 16. It has 1 others." in second


REF = dx.new_ref(dnp.ones(3))
REFUSED = {
    r"cannot pad these axes: fft computes with all elements along them, by their number\.\n"
    r"  operation: fft of complex64\[n\]\n  line: .*test_bucket_calls.py:\d+ \(.*\)\n"
    r"Take n out of bucket=": lambda x: dnp.fft.fft(x),
    "cholesky computes with all elements along them": lambda x: dnp.linalg.cholesky(x[:, None] * x),
    "conv_general_dilated has windows of such a length": lambda x: lax.conv(
        ones(1, 1, 99), x[None, None], (1,), ((0, 0),)
    ),
    "top_k takes|A symbolic dimension has no value": lambda x: lax.top_k(x, x.shape[0])[0],
    "scan runs the effects of its body once for each real step": lambda x: lax.scan(
        lambda c, r: (c, dx.debug.callback(lambda r: None, r)), 0, x
    )[0],
    "debug_callback has no rule for them": lambda x: dx.debug.callback(print, x),
    "random_bits draws other numbers for another shape, but with keys of threefry2x32": lambda x: random.bits(
        random.key(0, impl="rbg"), x.shape
    ),
    "A symbolic dimension has no value while the program is traced": lambda x: [row for row in x],
    "uses no Refs": lambda x: x + REF[0],
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_padded_is_refused_by_name(text):
    with pytest.raises(Exception, match=text):
        dx.jit(lambda x: REFUSED[text](x), bucket="n")(ones(5))


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (
            "n is 5 with n = 5, and 4 in argument y",
            lambda: dx.jit(lambda x, y: x @ y, bucket="n")(ones(5), ones(4)),
        ),
        ("names at least one axis", lambda: dx.jit(mean, bucket="_")(ones(5))),
        ("This is bucket= for argument x, float32[5].", lambda: dx.jit(mean, bucket="n, m")(ones(5))),
        ("one entry for each positional argument", lambda: dx.jit(mean, bucket=("n", "n"))(ones(5))),
        ("not arguments: z; arguments: x", lambda: dx.jit(mean, bucket={"z": "n"})(ones(5))),
        ("longer than the largest size", lambda: dx.jit(mean, bucket=Buckets("n", (2, 4)))(ones(5))),
        ("n = 5, returned: 4", lambda: dx.jit(mean, bucket=Buckets("n", lambda n: 4))(ones(5))),
        ("in ascending order", lambda: Buckets("n", (4, 2))),
        ("texts such as 'n, 3'", lambda: dx.jit(mean, bucket=3)(ones(5))),
        ("pads arrays of numbers", lambda: dx.jit(lambda k: k, bucket="n")(random.split(random.key(0), 5))),
        ("takes no Refs", lambda: dx.jit(lambda r: r[0], bucket="n")(dx.new_ref(dnp.ones(3)))),
        ("runs on one device", lambda: dx.jit(mean, bucket="n", out_shardings=dx.devices()[0])),
    ],
)
def test_errors_of_calls(text, call):
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        call()


@pytest.mark.cpu
def test_a_repeated_call_puts_only_its_arrays_on_the_device(monkeypatch):
    put, types = buffers.put, []
    monkeypatch.setattr(buffers, "put", lambda *args: types.append(str(args[1])) or put(*args))
    f = dx.jit(lambda x: x.sum(), bucket="n", compile_in_background=False)
    for _ in range(2):
        types.clear()
        assert f(np.ones(5, np.float32)) == 5
    assert types == ["float32[8]"]  # the length is there already
