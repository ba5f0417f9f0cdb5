"""What programs for accelerators are made of, compiled for the CPU as far as its XLA has the operations."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.primitives import last_writers
from didax.primitives.linalg import eigen, qr, similarity, tridiagonal
from didax.primitives.linalg.matrix import lower_finite, lower_has_numbers
from didax.primitives.reductions import argmax_p
from didax.xla import client
from didax.xla.lapack import lapack_call
from didax.xla.text import Module, function_type
from tests.checks import assert_close

RNG = np.random.default_rng(0)


@pytest.fixture
def accelerated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`jit` of functions that are new, whose operations are written as for an accelerator."""
    monkeypatch.setattr(Module, "on_cpu", False)
    return lambda f: dx.jit(lambda *args: f(*args))


def bits(x: Any) -> bytes:
    return np.asarray(x).tobytes()


# --- Writes that meet ---------------------------------------------------------------------------------------

WRITES = {
    "rows": lambda x, i, u: x.at[i].set(u),
    "rows moved inside": lambda x, i, u: x.at[i].set(u, mode="clip"),
    "elements": lambda x, i, u: x.at[i, 0].set(u[:, 1]),
    "parts of rows": lambda x, i, u: x.at[i, 1:].set(u[:, 1:]),
    "windows that overlap": lambda x, i, u: lax.scatter(
        x,
        i[:, None],
        u[:, None] + dnp.zeros((1, 2, 1), u.dtype),
        lax.ScatterDimensionNumbers((1, 2), (), (0,)),
    ),
    "batches": lambda x, i, u: dx.vmap(lambda x, u: x.at[i % 3].set(u), 1, 1)(x, u),
    "batches of indices": lambda x, i, u: dx.vmap(lambda x, i, u: x.at[i % 3].set(u), (1, 0, 1), 1)(
        x, dnp.stack([i, i[::-1], i + 1]), u
    ),
}


def operands(dtype: str) -> tuple[Any, Any, Any]:
    i = RNG.integers(-2, 8, 40)
    return (
        dnp.array(RNG.normal(size=(6, 3))).astype(dtype),
        dnp.array(i),
        dnp.array(RNG.normal(size=(40, 3))).astype(dtype),
    )


@pytest.mark.parametrize("name", WRITES)
def test_the_last_write_stays(accelerated: Any, name: str) -> None:
    for dtype in ("float32", "complex64", "bool"):
        args = operands(dtype)
        assert bits(accelerated(WRITES[name])(*args)) == bits(WRITES[name](*args))


@pytest.mark.parametrize("name", ["rows", "elements", "batches of indices"])
def test_numbers_and_not_the_order_of_writing_decide(
    accelerated: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the numbers in descending order the first write stays, although XLA's CPU writes it first."""
    ascending = last_writers._numbers

    def descending(ctx: Any, shape: Any) -> Any:
        numbers = ascending(ctx, shape)
        return ctx.op("subtract", [ctx.constant(int(np.prod(shape)) - 1, numbers.aval), numbers])

    x, i, u = operands("float32")
    wanted = WRITES[name](x, i[::-1], u[::-1])
    monkeypatch.setattr(last_writers, "_numbers", descending)
    assert bits(accelerated(WRITES[name])(x, i, u)) == bits(wanted)


def test_writes_that_cannot_meet_are_written_at_once(accelerated: Any) -> None:
    x, i, u = operands("float32")
    for f in (
        lambda x: x.at[i].set(u, unique_indices=True),
        lambda x: x.at[2].set(u[0]),
        lambda x: x.at[i].add(u),
    ):
        assert accelerated(f).lower(x).as_text().count('"stablehlo.scatter"') <= 1


# --- Reductions ---------------------------------------------------------------------------------------------


def test_of_several_nans_the_first_is_found(accelerated: Any) -> None:
    x = RNG.normal(size=(4, 300)).astype("float32")
    x[0, [7, 200, 250]] = x[1, [299, 0]] = np.nan
    x[2, 100:] = x[2].max() + 1
    for f in (lax.argmax, lax.argmin):
        found = accelerated(lambda x: f(x, 1, np.int32))(x)
        np.testing.assert_array_equal(found, getattr(np, f.__name__)(x, axis=1))


def test_pairs_are_compared_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reducer gives the same for the pairs exchanged: values equal, unequal, NaN on either side, infinite."""
    # That of accelerators: a CPU goes along the axis.
    monkeypatch.setattr(type(argmax_p), "_later_if_better", type(argmax_p)._better)

    class Reducer(dx.extend.core.Primitive):
        multiple_results = True

        def type(self, x: Any, i: Any) -> Any:
            return [x.update(shape=()), i.update(shape=())]

        def lower(self, ctx: Any, x: Any, i: Any) -> Any:
            starts = [ctx.scalar(-np.inf, x.aval.dtype), ctx.scalar(9, i.aval.dtype)]
            outs = list(ctx.out_avals)
            return ctx.emit_many(
                f"stablehlo.reduce({x} init: {starts[0]}), ({i} init: {starts[1]}) across dimensions = [0] : "
                f"{function_type([x, i, *starts], outs)} {argmax_p._reducer(ctx, outs[0], outs[1])}",
                outs,
            )

    reduce_p = Reducer("reduce_pairs")
    f = dx.jit(lambda x, i: reduce_p.bind(x, i))
    for x in ([1, 2], [2, 2], [np.nan, 1], [np.nan, np.nan], [np.inf, np.nan], [-np.inf, np.nan]):
        x, i = np.array(x, np.float32), np.array([3, 5], np.int32)
        np.testing.assert_array_equal(f(x, i), f(x[::-1], i[::-1]))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_reductions_have_no_loop(accelerated: Any, name: str, reverse: bool) -> None:
    for shape, axis in (((5,), 0), ((70, 3), 0), ((3, 70), 1), ((0, 3), 1), ((3, 0), 1)):
        x = RNG.uniform(0.5, 1.5, shape).astype("float32")
        if x.size > 9:
            x.flat[4] = np.nan
        f = accelerated(lambda x: getattr(lax, name)(x, axis, reverse))
        assert "stablehlo.while" not in f.lower(x).as_text()
        assert_close(f(x), getattr(lax, name)(x, axis, reverse), rtol=1e-5)


# --- Products and convolutions ------------------------------------------------------------------------------


def test_products_of_int8_are_of_sizes_that_cublas_takes(accelerated: Any) -> None:
    for shapes, kind in ((((3, 4), (4, 8)), "i32"), (((8, 4), (4, 8)), "i8"), (((8, 6), (6, 8)), "i32")):
        x, y = [RNG.integers(-5, 5, shape).astype("int8") for shape in shapes]
        f = accelerated(lambda x, y: lax.dot(x, y, preferred_element_type=np.int32))
        assert f"x{kind}>) -> tensor" in f.lower(x, y).as_text()
        np.testing.assert_array_equal(f(x, y), x.astype(int) @ y.astype(int))


def test_convolutions_of_complex_numbers_are_four_of_real_ones(accelerated: Any) -> None:
    x, w = [RNG.normal(size=s) + 1j * RNG.normal(size=s) for s in ((2, 4, 7), (6, 2, 3))]
    x, w = x.astype("complex64"), w.astype("complex64")

    def f(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (2,), [(1, 2)], (1,), (2,), feature_group_count=2)

    program = accelerated(f)
    assert (
        len(re.findall(r"stablehlo.convolution.*tensor<\w+xf32>$", program.lower(x, w).as_text(), re.M)) == 4
    )
    assert_close(program(x, w), f(x, w), rtol=1e-4)


# --- Large programs ------------------------------------------------------------------------------------------


def test_large_programs_are_whole_on_gpus() -> None:
    def layers(x: Any, w: Any) -> Any:
        for _ in range(60):
            x = x + dnp.tanh(x @ w) * dnp.sin(x) - dnp.cos(x) * 0.5
        return x

    args = np.ones((4, 4), "float32"), np.ones((4, 4), "float32")
    traced = dx.jit(layers).trace(*args)
    with dx.optimize_loops("off"):  # equal layers would be a loop on the CPU
        texts = [traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda")]
    assert ["_part" in text for text in texts] == [True, False]


# --- Linear algebra -----------------------------------------------------------------------------------------


def lowered(f: Any, *args: Any) -> str:
    return dx.jit(f).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def test_exchanges_of_rows_are_one_call_as_in_jax() -> None:
    pivots = np.zeros((2, 4), np.int32)
    asked = jax.jit(lambda p: jax.lax.linalg.lu_pivots_to_permutation(p, 5)).trace(pivots)
    for text in (
        lowered(lambda p: lax.linalg.lu_pivots_to_permutation(p, 5), pivots),
        asked.lower(lowering_platforms=("cuda",)).as_text(),
    ):
        (call,) = re.findall(r"custom_call @cu_lu_pivots_to_permutation.*", text)
        assert re.findall(r"(?:operand|result)_layouts = \[dense<(\[.*?\])>", call) == ["[1, 0]"] * 2


@pytest.mark.parametrize(
    "rule, wanted",
    [(lower_finite, [False, False, True]), (lower_has_numbers, [False, True, True])],
)
def test_matrices_of_nan_are_told_from_others(rule: Any, wanted: list[bool]) -> None:
    class Told(dx.extend.core.Primitive):
        def type(self, x: Any) -> Any:
            return x.update(shape=x.shape[:-2], dtype=np.dtype(bool), weak_type=False)

        def lower(self, ctx: Any, x: Any) -> Any:
            return rule(ctx, x)

    told = dx.jit(Told("told").bind)
    x = np.zeros((3, 2, 2), np.complex64)
    x[0, 1, 0], x[1, 0, 0] = np.nan, complex(0, np.inf)
    assert told(x).tolist() == wanted
    assert told(x.real).tolist() == [False, True, True]
    assert told(x.imag).tolist() == [True, wanted[1], True]


def test_solvers_of_gpus_look_for_nan() -> None:
    x = np.eye(3, dtype="float32")
    for f in (lax.linalg.eigh, lax.linalg.svd):
        assert "is_finite" in lowered(f, x)
    assert re.search(r"compare\s+EQ, %arg0, %arg0", lowered(lax.linalg.lu, x))


def test_cholesky_is_the_call_of_jax() -> None:
    x = np.eye(3, dtype="complex64")
    asked = jax.jit(lambda x: jax.lax.linalg.cholesky(x)).trace(x).lower(lowering_platforms=("cuda",))
    calls = [
        re.search(
            r"custom_call @cusolver_potrf_ffi.*lower = true.*(operand_layouts = \[dense<\[.*?\]>)", text
        )
        for text in (lowered(lambda x: lax.linalg.cholesky(x), x), asked.as_text())
    ]
    assert calls[0] and calls[1] and calls[0][1] == calls[1][1]
    assert (
        "stablehlo.cholesky"
        in dx.jit(lax.linalg.cholesky).trace(x).lower(lowering_platforms=("tpu",)).as_text()
    )


@pytest.mark.cpu
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_tridiagonal_systems_have_three_rows_or_more(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gtsv(ctx: Any, target: str, operands: Any, outs: Any) -> Any:
        assert operands[1].aval.shape[-1] >= 3
        *_, x, _ = lapack_call(ctx, "gtsv", operands, [*(y.aval for y in operands), info_of(outs[0])])
        return [x]

    def info_of(b: Any) -> Any:
        return b.update(shape=b.shape[:-2], dtype=np.dtype(np.int32))

    monkeypatch.setattr(tridiagonal, "platform", lambda: "cuda")
    monkeypatch.setattr(tridiagonal, "cuda_call", gtsv)
    dl, d, du, b = [RNG.normal(size=(2, n, *more)).astype("float32") for more in ((), (), (), (4,))]
    d = d + np.float32(5)
    dl[:, 0] = du[:, -1] = np.nan  # these are not read
    found = dx.jit(lambda *args: lax.linalg.tridiagonal_solve(*args))(dl, d, du, b)
    for k in range(2):
        a = np.diag(d[k]) + np.diag(dl[k, 1:], -1) + np.diag(du[k, :-1], 1)
        assert_close(found[k], np.linalg.solve(a, b[k]), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_gpus_have_no_routine_for_is_computed_on_the_host(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = RNG.normal(size=(2, 4, 4)) + (1j * RNG.normal(size=(2, 4, 4)) if dtype == "complex64" else 0)
    x = x.astype(dtype)
    functions = {
        "eig": lambda x: lax.linalg.eig(x),
        "right": lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False),
        "schur": lambda x: lax.linalg.schur(x),
        "hessenberg": lambda x: lax.linalg.hessenberg(x),
        "qr": lambda x: lax.linalg.qr(x[..., :3], pivoting=True),
    }
    wanted = {name: dx.jit(f)(x) for name, f in functions.items()}
    for module in (eigen, similarity, qr):
        monkeypatch.setattr(module, "platform", lambda: "cuda")
    for name, f in functions.items():
        program = dx.jit(lambda x, f=f: f(x))
        assert "callback" in program.lower(x).as_text()
        for found, expected in zip(program(x), wanted[name], strict=True):
            assert_close(found, expected, rtol=1e-3)
    spoilt = x.copy()
    spoilt[1, 0, 0] = np.nan
    w = np.asarray(dx.jit(lambda x: lax.linalg.eig(x)[0])(spoilt))
    assert np.isfinite(w[0]).all() and np.isnan(w[1]).all()


# --- A GPU that is not used ---------------------------------------------------------------------------------


@pytest.mark.cpu
def test_a_gpu_that_is_left_out_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("no driver")

    (device := tmp_path / "nvidia0").touch()
    monkeypatch.setattr(client, "_NVIDIA_DEVICE", str(device))
    monkeypatch.setattr(client, "_cuda_plugin", lambda: None)
    with pytest.warns(
        RuntimeWarning, match=r"not used: arrays lie on the CPU\.\n(?s:.*)pip install 'didax\[gpu\]'"
    ):
        client._start("", 0)
    monkeypatch.setattr(client, "_cuda_plugin", lambda: ("xla_cuda13", ""))
    monkeypatch.setattr(client, "_cuda_client", broken)
    with pytest.warns(RuntimeWarning, match=r"did not start: no driver\n(?s:.*)DIDAX_PLATFORMS=cpu"):
        assert client._start("", 0).platform == "cpu"
    with pytest.raises(RuntimeError, match="no driver"):
        client._start("cuda", 0)
    assert client._start("cpu", 0).platform == "cpu"  # nothing is said: warnings are errors here
    device.unlink()
    assert client._start("", 0).platform == "cpu"


@pytest.mark.parametrize("source, target", [("int2", "uint4"), ("uint2", "int2"), ("int4", "uint2")])
def test_packed_integers_are_unpacked_in_between(accelerated: Any, source: str, target: str) -> None:
    x = dnp.arange(2).astype(source)
    for f in (lambda x: x.astype(target), lambda x: x.astype("int8").astype(target)):
        text = dx.jit(f).trace(x).lower(lowering_platforms=("cuda",)).as_text()
        assert re.search(r"optimization_barrier %\d+ : tensor<2xi8>", text)
    assert accelerated(lambda x: x.astype(target).astype("int32"))(x).tolist() == [0, 1]
