"""Updates in place: right where they read what they overwrite, cheap in loops; errors of windows."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

import didax as dx
import didax.numpy as dnp
from didax.core.avals import ShapedArray
from didax.lax import slicing as lax
from didax.primitives.elementwise import add
from didax.primitives.shape import reduce_sum, reshape
from didax.version import installed_jaxlib
from didax.xla.compile import compile_text
from didax.xla.lowering import lower_module
from tests.checks import examples

F32 = np.dtype("float32")


# --- See Note [Updates in place] ----------------------------------------------------------------------------


def shift_written(x: Any, i: Any, k: int) -> Any:
    """Write the first elements k places further on."""
    n = x.shape[-1]
    return lax.dynamic_update_slice(x, lax.slice_in_dim(x, 0, n - k, axis=-1), [*[0] * (x.ndim - 1), i])


def shift_scattered(x: Any, i: Any, k: int) -> Any:
    """The same as a scatter of one window."""
    dims = lax.ScatterDimensionNumbers(tuple(range(x.ndim)), (), (x.ndim - 1,))
    return lax.scatter(x, reshape(i, (1,)), lax.slice_in_dim(x, 0, x.shape[-1] - k, axis=-1), dims)


def shift_computed(x: Any, i: Any, k: int) -> Any:
    """Write sums of neighbours."""
    n = x.shape[-1]
    parts = [lax.slice_in_dim(x, j, n - k + j, axis=-1) for j in (0, k)]
    return lax.dynamic_update_slice(x, add(*parts), [*[0] * (x.ndim - 1), i])


def between_reshapes(
    shift: Callable[..., Any], before: tuple[int, ...], after: tuple[int, ...]
) -> Callable[..., Any]:
    """The shift of `x` in another shape, its update computed from `x` as it came, then reshaped again."""

    def program(x: Any, i: Any, k: int) -> Any:
        n = x.shape[-1]
        if shift is not shift_written:
            return reshape(shift(reshape(x, before), i, k), after)
        update = reshape(lax.slice_in_dim(x, 0, n - k, axis=-1), (*before[:-1], n - k))
        return reshape(
            lax.dynamic_update_slice(reshape(x, before), update, [*[0] * (len(before) - 1), i]), after
        )

    return program


def expected(shift: Callable[..., Any], x: np.ndarray, k: int) -> np.ndarray:
    out = x.copy()
    out[k:] = x[:-k] + x[k:] if shift is shift_computed else x[:-k]
    return out


@given(
    shift=st.sampled_from([shift_written, shift_scattered, shift_computed]),
    n=st.sampled_from([2, 3, 8, 33, 128, 1000]),
    k=st.integers(1, 2),
    before=st.integers(0, 2),
    after=st.integers(0, 2),
    inner_jit=st.booleans(),
    static=st.booleans(),
)
@examples(0.4)
def test_update_from_the_array_it_overwrites(
    shift: Any, n: int, k: int, before: int, after: int, inner_jit: bool, static: bool
) -> None:
    """jaxlib 0.10.2 gives wrong numbers for these programs without the guard in the lowering."""
    k = min(k, n - 1)
    program = between_reshapes(shift, (1,) * before + (n,), (1,) * after + (n,))
    x = np.arange(n, dtype=np.float32)

    def run(x: Any, i: Any) -> Any:
        at = k if static and shift is not shift_scattered else i
        f = dx.jit(lambda x: program(x, at, k)) if inner_jit else lambda x: program(x, at, k)
        return f(x)

    found = np.asarray(dx.jit(run)(x, np.int32(k))).reshape(-1)
    np.testing.assert_array_equal(found, expected(shift, x, k))


@pytest.mark.cpu
def test_updates_are_guarded_where_they_may_read_what_they_overwrite() -> None:
    """A guard is a call in each step, which takes longer than the update of a row."""

    def shifted(a: Any, b: Any) -> Any:
        return dnp.reshape(a, (4, 4)).at[1:].set(b[:12].reshape(3, 4)).reshape(16)

    def swapped(carry: Any, _: Any) -> Any:
        return (carry[1], shifted(*carry)), None

    def looped(length: int, a: Any, b: Any) -> Any:
        return dx.lax.scan(swapped, (a * 2, b * 2), None, length=length)[0]

    def kept(a: Any, b: Any) -> Any:  # the ring of a buffer
        return dx.lax.scan(lambda c, x: (c.at[1:3].set(x), c.sum()), dnp.zeros(16, F32), b.reshape(8, 2))

    def numbered(a: Any, b: Any) -> Any:
        return dx.lax.scan(lambda c, _: (c + shifted(*[dx.lax.iota(F32, 16)] * 2), None), a, None, length=3)[
            0
        ]

    def added(op: str, u: Any) -> Any:  # to the very elements that are overwritten
        return lambda a, b: dx.lax.scan(
            lambda c, _: (dnp.reshape(getattr(c.at[1:], op)(u(c, b)), (16,)), None), a, None, length=3
        )[0]

    x = np.arange(16, dtype=F32)
    for f, guards in [
        (added("add", lambda c, b: b[1:] / 2), 0), (added("max", lambda c, b: b[:-1]), 0),
        (added("add", lambda c, b: c[:-1] / 2), 1),
        (shifted, 0), (lambda a, _: shifted(a, a), 1), (lambda a, _: dx.jit(shifted)(a, a), 1), (kept, 0),
        (functools.partial(looped, 5), 0), (lambda a, _: looped(5, a, a), 1), (numbered, 1),
        (lambda a, _: looped(1, a, a), 1),
    ]:  # fmt: skip
        program = dx.jit(f)
        assert program.lower(x, x + 1).as_text().count("call @materialized") == guards
        for found, plain in zip(dx.tree.leaves(program(x, x + 1)), dx.tree.leaves(f(x, x + 1)), strict=True):
            np.testing.assert_array_equal(found, plain)


@pytest.mark.cpu
@pytest.mark.skipif(installed_jaxlib() not in ("0.10.2", "0.11.2"), reason="versions known to have the fault")
def test_fault_is_still_there_without_the_guard() -> None:
    """What the guard is for; a program without it shows that the test above can fail."""
    jaxpr = dx.make_jaxpr(between_reshapes(shift_written, (1, 128), (1, 128)), static_argnums=(2,))(
        np.zeros(128, F32), np.int32(1), 1
    ).jaxpr
    text = lower_module(jaxpr)
    unguarded = re.sub(
        r"(%\d+) = func.call @materialized\((%\d+)\).*", r"\1 = stablehlo.negate \2 : tensor<1x127xf32>", text
    )
    assert unguarded != text
    x = np.arange(128, dtype=np.float32)
    out = run_text(unguarded, jaxpr.out_avals, x, np.int32(1))
    assert not np.array_equal(out[0, 1:], -x[:-1])


def run_text(text: str, out_avals: Any, *args: Any) -> np.ndarray:
    from didax.runtime.array import as_concrete

    return np.asarray(compile_text(text, out_avals).run([as_concrete(a).device_buffer() for a in args])[0])


def loop_of_updates(n: int, width: int, steps: int) -> str:
    """A while loop that writes one row of an (n, width) array per step, with our lowering of the update."""
    rows, row, index = [
        ShapedArray(s, d) for s, d in (((n, width), F32), ((1, width), F32), ((), np.dtype("int32")))
    ]
    body = dx.make_jaxpr(
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0), allow_negative_indices=False)
    )(*[np.zeros(a.shape, a.dtype) for a in (rows, row, index)]).jaxpr
    text = lower_module(body).replace("func.func public @main", "func.func private @update")
    functions = text.removeprefix("module @didax {\n").removesuffix("}\n")
    x, u, i, p = (f"tensor<{t}>" for t in (f"{n}x{width}xf32", f"1x{width}xf32", "i32", "i1"))
    return f"""module @didax {{
{functions}
func.func public @main(%a: {x}) -> {x} {{
  %zero = stablehlo.constant dense<0> : {i}
  %one = stablehlo.constant dense<1> : {i}
  %end = stablehlo.constant dense<{steps}> : {i}
  %r:2 = stablehlo.while(%k = %zero, %s = %a) : {i}, {x} cond {{
    %c = stablehlo.compare LT, %k, %end, SIGNED : ({i}, {i}) -> {p}
    stablehlo.return %c : {p}
  }} do {{
    %f = stablehlo.convert %k : ({i}) -> tensor<f32>
    %u = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> {u}
    %t = func.call @update(%s, %u, %k) : ({x}, {u}, {i}) -> {x}
    %next = stablehlo.add %k, %one : {i}
    stablehlo.return %next, %t : {i}, {x}
  }}
  return %r#1 : {x}
}}
}}
"""


@pytest.mark.parametrize("width", [1, 8])
def test_updates_in_a_loop_stay_in_place(width: int) -> None:
    """XLA writes each row where it lies: its body of the loop copies counters, never the array that is updated."""
    from didax.runtime.array import as_concrete

    n, steps = 3000, 2000
    program = compile_text(loop_of_updates(n, width, steps), [ShapedArray((n, width), F32)])
    out = np.asarray(program.run([as_concrete(np.zeros((n, width), np.float32)).device_buffer()])[0])
    np.testing.assert_array_equal(out[:, 0], np.where(np.arange(n) < steps, np.arange(n), 0))

    optimized = program.loaded.get_hlo_text()
    (name,) = re.findall(r" while\(.*body=%?([\w.]+)", optimized)
    (body,) = re.findall(rf"^%?{re.escape(name)} .*?^}}", optimized, re.M | re.S)
    assert not re.search(rf"f32\[{n},{width}\]\S* copy\(", body), body


# --- Derivatives and batches that rows cannot show ----------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_at_indices_share_derivatives_among_ties_and_keep_those_of_other_places(name):
    """NaN where nothing is written is an element as any other."""
    x = np.array([np.nan, 2.0, 2.0, np.nan, 1.0, 7.0], np.float32)
    places, updates = np.array([1, 1, 2, 3, 4, 4]), np.array([2.0, 2.0, 3.0, 1.0, np.nan, 1.0], np.float32)
    weights = np.arange(1.0, 7.0, dtype=np.float32)

    def gradients(grad, array):
        f = lambda x, u: (getattr(x.at[places], name)(u) * weights).sum()
        return grad(f, (0, 1))(array(x), array(updates))

    for ours, theirs in zip(
        gradients(dx.grad, dnp.asarray), gradients(jax.grad, jax.numpy.asarray), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert gradients(dx.grad, dnp.asarray)[0][0] == 1


@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_sub", "scatter_min", "scatter_max"])
def test_cotangents_where_indices_repeat_or_tie(name: str) -> None:
    """As in jax: the last of repeated writes, and equal shares for all that attain an extremum."""
    import jax

    x, u = np.array([1.0, 2.0, 3.0], np.float32), np.array([2.0, 2.0, 1.0, 9.0], np.float32)
    i, ct = np.array([[1], [1], [2], [5]], np.int32), np.array([1.0, 10.0, 100.0], np.float32)
    _, f_vjp = dx.vjp(
        lambda x, u: getattr(lax, name)(x, i, u, lax.ScatterDimensionNumbers((), (0,), (0,))), x, u
    )
    numbers = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    _, want_vjp = jax.vjp(lambda x, u: getattr(jax.lax, name)(x, i, u, numbers), x, u)
    for found, want in zip(f_vjp(ct), want_vjp(ct), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-6)


def test_scatter_mul_refuses_to_differentiate_repeated_updates() -> None:
    x, i = np.ones(3, np.float32), np.array([[1], [1]], np.int32)
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    with pytest.raises(
        NotImplementedError, match=r"scatter_mul has no derivative by its updates(.|\n)*unique_indices=True"
    ):
        dx.grad(lambda u: reduce_sum(lax.scatter_mul(x, i, u, dims), (0,)))(np.ones(2, np.float32))


def test_windows_of_a_gather_are_taken_to_be_in_bounds_as_in_jax() -> None:
    x = np.arange(30, dtype="float32").reshape(5, 6)
    numbers = (1, 2), (), (0, 1)
    for start in ([1, 1], [4, 5], [-3, 2], [2**31 - 1, 0]):  # jax moves a window that sticks out
        args = x, np.array([start], "int32")
        wanted = jax.lax.gather(*args, jax.lax.GatherDimensionNumbers(*numbers), (2, 3))
        for run in (lambda f: f, dx.jit):
            found = run(lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers(*numbers), (2, 3)))(*args)
            np.testing.assert_array_equal(found, wanted, err_msg=str(start))


def test_slices_by_batched_starts_are_one_gather() -> None:
    jaxpr = dx.make_jaxpr(
        dx.vmap(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, allow_negative_indices=False), (None, 0))
    )(np.arange(5.0), np.arange(3))
    assert [eqn.primitive.name for eqn in jaxpr.jaxpr.eqns].count("gather") == 1


# --- Errors -------------------------------------------------------------------------------------------------

X = np.zeros((3, 4), np.float32)


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: lax.slice(X, (0, 0), (3, 5)),
            r"slice needs 0 <= start(.|\n)*float32\[3,4\](.|\n)*x\[i:j:k\]",
        ),
        (lambda: lax.dynamic_slice(X, (0,), (1, 1)), r"a start index for each axis(.|\n)*start_indices: 1"),
        (lambda: lax.dynamic_slice(X, (0, 0), (4, 1)), r"none longer(.|\n)*slice_sizes: \(4, 1\)"),
        (
            lambda: lax.dynamic_slice(X, (0.5, 0), (1, 1)),
            r"an integer scalar for each axis(.|\n)*cast others",
        ),
        (
            lambda: lax.dynamic_update_slice(X, np.zeros((1, 1), "int32"), (0, 0)),
            r"an update of the operand's dtype(.|\n)*int32",
        ),
        (
            lambda: lax.pad(X, 0.0, [(-2, -2, 0), (0, 0, 0)]),
            r"no axis of negative length(.|\n)*\(-2, -2, 0\)",
        ),
        (
            lambda: lax.concatenate([X, np.zeros((3, 1), "int32")], 1),
            r"arrays of one dtype(.|\n)*float32\[3,4\], int32\[3,1\]",
        ),
        (lambda: lax.concatenate([], 0), r"at least one array"),
        (lambda: lax.rev(X, (2,)), r"rev has no such axis(.|\n)*axis: 2"),
        (lambda: lax.squeeze(X, (0,)), r"distinct axes of length 1(.|\n)*float32\[3,4\]"),
        (lambda: lax.split(X, (1, 1)), r"add up to the length(.|\n)*which add up to 2"),
        (lambda: lax.index_in_dim(X, 3), r"out of range(.|\n)*axis: 0 of length 3"),
        (
            lambda: lax.gather(
                X, np.zeros((2, 1), int), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 5)
            ),
            r"at most the axis's own(.|\n)*slice_sizes: \(1, 5\)",
        ),
        (
            lambda: lax.gather(
                X, np.zeros((2, 2), int), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4)
            ),
            r"one entry for each axis that they position",
        ),
        (
            lambda: lax.scatter(
                X, np.zeros((2, 1), int), X[:1], lax.ScatterDimensionNumbers((1,), (0,), (0,))
            ),
            r"the batch axes of the updates have lengths \(1,\)",
        ),
        (lambda: lax.GatherScatterMode.from_any("wrap"), r"mode: 'wrap'\nUse one of 'clip', 'fill', 'drop'"),
    ],
)
def test_error_texts(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=text):
        call()


@pytest.mark.cpu
def test_a_few_long_columns_are_joined_as_rows() -> None:
    """Values and derivatives are those of any join; short columns and many are joined as they are."""
    join = lambda *xs: lax.concatenate([x[..., None] for x in xs], xs[0].ndim)
    x = np.arange(2048, dtype=np.float32).reshape(2, 1024)
    f = dx.jit(lambda x: join(x, -x, x * 2))
    np.testing.assert_array_equal(f(x), np.stack([x, -x, x * 2], -1))
    weights = np.arange(6144, dtype=np.float32).reshape(2, 1024, 3)
    slope = dx.jit(dx.grad(lambda x: (join(x, -x, x * 2) * weights).sum()))(x)
    np.testing.assert_array_equal(slope, weights @ np.float32([1, -1, 2]))
    batched = dx.jit(dx.vmap(lambda x: join(x, x + 1)))(x)
    np.testing.assert_array_equal(batched, np.stack([x, x + 1], -1))
    turned = [
        "stablehlo.transpose" in dx.jit(join).lower(*xs).as_text()
        for xs in ([x] * 3, [x[:, :9]] * 3, [x] * 9)
    ]
    assert turned == [True, False, False]
