"""Programs of symbolic shapes: one traced for all sizes gives what one traced for each size gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import export, lax
from didax.core.dims import Dim, bounds, evaluate, max_dim, min_dim, parse_dims
from didax.core.errors import InconclusiveDimensionOperation
from didax.core.jaxpr_parse import num_consts, parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text
from tests.checks import first

F32 = "float32"


def struct(shape: str, dtype: Any = F32, **more: Any) -> Any:
    return dx.ShapeDtypeStruct(export.symbolic_shape(shape, **more), dtype)


def saved(f: Callable[..., Any], *args: Any, vjp_order: int = 0) -> export.Exported:
    return export.deserialize(export.export(dx.jit(f))(*args).serialize(vjp_order))


def values(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(F32)


def same(found: Any, want: Any) -> None:
    assert dx.tree.structure(found) == dx.tree.structure(want)
    for x, y in zip(dx.tree.leaves(found), dx.tree.leaves(want), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


# --- Expressions ----------------------------------------------------------------------------------------------


def test_expressions_have_one_form() -> None:
    b, n = export.symbolic_shape("b, n")
    texts = {
        "b + 1": 1 + b,
        "2*b": b + b,
        "-2*b + 3": 3 - 2 * b,
        "b*n + b^2 - n": b * (b + n) - n,
        "b + 2": (2 * b + 4) // 2,
        "b": (b * n) // n,
        "n + 1": (b * n + b) // b,
        "floordiv(b, 2) + 1": (b + 2) // 2,
        "-b + floordiv(b, 2)": -b // 2,
        "mod(b, 2)": (3 * b * 2 + b) % 2,
        "max(b, 3)": dx.core.max_dim(b, 3),
        "min(b, n)": dx.core.min_dim(n, b),
        "b^2": dx.core.max_dim(0, b * b),
        "floordiv(7, b)": 7 // b,
        "floordiv(b + 3, 4)": ((b + 1) // 2 + 1) // 2,
        "b - 1": b * b // (b + 1),
    }
    assert {text: str(x) for text, x in texts.items()} == {text: text for text in texts}
    assert [parse_dims(str(x), {"b": b, "n": n}.__getitem__)[0] for x in texts.values()] == list(
        texts.values()
    )
    ints = [
        b - b + 3,
        (2 * b + 3) % 2,
        (b * n) % n,
        2 * b // b,
        dx.core.max_dim(b, 1 - n),
        np.int64(2) + b - b,
    ]
    assert ints == [3, 1, 0, 2, b, 2]
    assert divmod(b * 4 + 1, 4) == (b, 1)
    assert (2 * b % (2 * b + 1), b % 2 % 5, 0 % (b - 1)) == (2 * b, b % 2, 0)  # a rest is its own rest
    assert b == export.symbolic_shape("b", scope=b.scope)[0] != export.symbolic_shape("b")[0]
    assert len({b + n, n + b, b * 1, b}) == 2
    assert export.is_symbolic_dim(b)
    assert not export.is_symbolic_dim(3)


def test_expressions_compute_as_ints_do() -> None:
    """And their bounds hold. The values of every expression at every size are those of Python's ints."""
    texts = ["b", "2*b - 3*n", "floordiv(b*n - 3, 4)", "mod(b - n, 3)", "max(b - 2, n)"]
    scope = export.SymbolicScope(["b <= 9", "n <= 9"])
    sizes = [export.symbolic_shape(text, scope=scope)[0] for text in texts]
    python = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "max": max, "min": min}
    combined = []
    for f in (
        "{0} + {1}",
        "{0} - {1}",
        "({0}) * ({1})",
        "floordiv({0}, {1})",
        "mod({0}, {1})",
        "max({0}, {1})",
    ):
        combined += [(f.format(s, t), s, t) for s in texts for t in (*texts, "3", "-2")]
    combined += [("max(b, 2) - max(b, 2)*n",)]  # not smallest where the maximum is least
    for text, *_ in combined:
        x = export.symbolic_shape(text, scope=scope)[0]
        for b, n in ((1, 1), (2, 5), (9, 8)):
            try:
                want = eval(text.replace("^", "**"), {**python, "b": b, "n": n})
            except ZeroDivisionError:
                continue
            found = evaluate(x, {"b": b, "n": n})
            assert found == want, text
            low, high = bounds(x)
            assert low <= want <= high, text
    assert all(type(x) is Dim for x in sizes)


def test_what_bounds_decide() -> None:
    b, n, m = export.symbolic_shape("b, n, m", constraints=["b >= 4", "n <= 2*b", "m == 3*b"])
    assert b >= 4
    assert not b < 2
    assert b // 2 <= b
    assert b - b // 2 >= 1
    assert b % 3 <= 2
    assert 2 * b >= n
    assert 2 * b - n + 1 > 0
    assert m == 3 * b
    assert dx.core.max_dim(b, n) >= n
    assert dx.core.min_dim(b, n) <= b
    assert (n if n else 0) is n
    less = dx.core.max_dim(n - 2, 0)  # is one of these two
    assert less <= n - 1
    assert n * n - less * less // 2 >= 0
    assert dx.core.min_dim(n, 3) + dx.core.max_dim(n, 3) >= 4
    assert b * n >= b
    a, c = export.symbolic_shape("a, c", constraints=["floordiv(a, 2) == c"])
    assert a // 2 == c
    assert a >= c + 1
    assert a <= 2 * c + 1
    a, c = export.symbolic_shape("a, c", constraints=["floordiv(a, 2)*floordiv(a, 2) == c"])
    with pytest.raises(InconclusiveDimensionOperation):  # 5 and 4
        assert a >= 2 * c
    # Constraints that name what they bound.
    a, c = export.symbolic_shape("a, c", constraints=["c <= min(c, 4)", "mod(a, c) <= 3 - c"])
    assert c <= 4
    assert a >= a % c
    for question in (lambda: b >= 5, lambda: n > b, lambda: bool(b - 4), lambda: range(b), lambda: float(b)):
        with pytest.raises(InconclusiveDimensionOperation):
            question()
    with pytest.raises(InconclusiveDimensionOperation, match=r'constraints=\["n >= b \+ 1"\]'):
        assert n > b
    with pytest.raises(dx.errors.InconclusiveDimensionOperation) as found:
        assert n < b
    assert str(found.value) == (
        "Whether n < b depends on the sizes of symbolic dimensions.\n"
        'If it always holds, say so: symbolic_shape(..., constraints=["n <= b - 1"]); '
        "else compute with didax.core.max_dim and min_dim."
    )


def test_shapes_from_texts() -> None:
    shape = export.symbolic_shape
    assert str(shape("(b, _, 2*b, ...)", like=(None, 5, None, 6, 7))) == "(b, 5, 2*b, 6, 7)"
    assert shape("") == shape("()") == ()
    assert str(shape("b,")) == "(b,)"
    specs = export.symbolic_args_specs(
        ({"x": values(2, 3), "y": values(2)}, 1.0), ({"x": "b, _", "y": "b"}, None)
    )
    assert str(specs[0]["x"]) == "ShapeDtypeStruct(shape=(b, 3), dtype=float32)"
    assert specs[0]["x"].shape[0] == specs[0]["y"].shape[0]
    assert specs[1].shape == ()
    errors = {
        "'_' and '...'": lambda: shape("b, _"),
        "is written with names": lambda: shape("b!"),
        "as many axes": lambda: shape("b", like=(2, 3)),
        "is the length of the axis": lambda: shape("b, 4", like=(2, 3)),
        "compares two of them": lambda: shape("b", constraints=["b > 3"]),
        "left side of ==": lambda: shape("b", constraints=["2*b == 4"]),
        "has its constraints already": lambda: shape(
            "b", constraints=["b >= 1"], scope=export.SymbolicScope()
        ),
        "come from one scope": lambda: shape("b")[0] + shape("b")[0],
    }
    for part, call in errors.items():
        with pytest.raises(ValueError, match=part):
            call()


def test_jaxprs_with_symbolic_shapes_are_read_back() -> None:
    x = struct("b, n")
    jaxpr, consts = dx.make_jaxpr(lambda x: dnp.concatenate([x, x[: x.shape[0] // 2]]).reshape(-1) * x.size)(
        x
    )
    text = jaxpr_text(jaxpr)
    assert "f32[b*n + floordiv(b, 2)*n]" in text
    assert "limit_indices=(|floordiv(b, 2)|, |n|)" in text
    assert jaxpr_text(parse_jaxpr(text), num_consts(text)) == text
    assert "f32[9]" in jaxpr_text(parse_jaxpr(text, {"b": 2, "n": 3}.__getitem__))
    assert not consts


# --- Programs -------------------------------------------------------------------------------------------------


def layers(x: Any, y: Any) -> Any:
    """Most operations whose types depend on the lengths of axes, in one program; x is f32[b,n], y f32[b+2,n]."""
    b, n = x.shape
    weights = dx.nn.softmax(x @ y.T / dnp.sqrt(n))  # f32[b,b+2]
    mixed = dnp.einsum("ij,jk->ik", weights, y)
    spread = (mixed - mixed.mean(1, keepdims=True)) / (mixed.std(1, keepdims=True) + 1e-5)
    parts = dnp.concatenate([spread[1:], x[:1], x[::-1], dnp.zeros((2, n))]).reshape(-1, n)
    carried, rows = lax.scan(lambda c, row: (dnp.tanh(c + row), c.sum()), dnp.zeros(n), parts)
    looped = lax.fori_loop(0, b, lambda i, c: c + x[i] * i, carried)
    places = dnp.where(dnp.arange(b)[:, None] >= dnp.arange(b), x @ x.T, 0.0)
    padded = dnp.pad(dnp.roll(x, 1, 0), ((1, 1), (0, 0))) * dx.nn.one_hot(dnp.argmax(y, 1), n)
    return {
        "sums": [places.sum(), padded.sum(0), dnp.cumsum(x, 0)[-1], dnp.sort(x, 1)[:, 0] / b],
        "loops": (looped, rows[: 2 * b], dx.vmap(lambda r: r @ r)(x)),
        "made": dnp.linspace(0, 1, n) + dnp.eye(b, n)[0] + dnp.tri(n)[0] + dnp.broadcast_to(x[0, 0], (n,)),
        "picked": dnp.nonzero(x[0] > 0, size=2)[0].sum() * dnp.argsort(x[0], descending=True)[0],
        "taken": dnp.take_along_axis(y, dnp.zeros((b + 2, 1), int), 1) + x.at[0].add(1.0).max(),
    }


def test_a_program_and_its_derivatives_at_any_size(tmp_path: Path) -> None:
    shapes = export.symbolic_args_specs((values(1, 1), values(1, 1)), ("b, n", "b + 2, n"))
    exported = export.export(dx.jit(layers))(*shapes)
    assert str(exported.out_avals[1:5]) == "(float32[2*b], float32[b], float32[n], int32[])"
    (tmp_path / "f.bin").write_bytes(exported.serialize(vjp_order=2))
    loaded = export.deserialize((tmp_path / "f.bin").read_bytes())
    assert str(loaded.in_avals) == "(float32[b,n], float32[b + 2,n])"
    x, y = values(3, 4), values(5, 4)
    same(loaded.call(x, y), dx.jit(layers)(x, y))
    same(loaded.call(values(1, 2), values(3, 2)), dx.jit(layers)(values(1, 2), values(3, 2)))
    floats = lambda f, x: [z for z in dx.tree.leaves(f(x, y)) if dnp.issubdtype(z.dtype, np.floating)]
    total = lambda f: lambda x: sum([(z**2).sum() for z in floats(f, x)])
    gradients = lambda f: dx.jit(lambda x: dx.value_and_grad(lambda x: (dx.grad(total(f))(x) ** 2).sum())(x))
    found, want = gradients(loaded.call)(x), gradients(layers)(x)
    np.testing.assert_allclose(found[0], want[0], rtol=1e-3)
    np.testing.assert_allclose(found[1], want[1], rtol=1e-2, atol=1e-2 * np.abs(want[1]).max())
    with pytest.raises(ValueError, match="saved without its vjp"):
        dx.grad(total(export.deserialize(exported.serialize()).call))(x)


def test_factors_and_running_combinations_at_any_size() -> None:
    """The tree over an axis is as high as the longest axis needs; here a constraint keeps it low."""

    def f(x: Any) -> Any:
        b = x.shape[0]
        q, r = dnp.linalg.qr(x)
        running = lax.associative_scan(
            lambda u, v: (u[0] * v[0], u[1] * v[0] + v[1]), (x, x[::-1]), reverse=True
        )
        return {
            "qr": (q, r, lax.linalg.lu(x)[0], dnp.linalg.svd(x, compute_uv=False)),
            "scans": (running, dnp.prod(x, 0), dx.vmap(lambda row: row @ x.T)(x[: b // 2])),
        }

    def total(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: sum([(y**2).sum() for y in dx.tree.leaves(f(x))])

    loaded = saved(f, struct("b, n", constraints=["b <= 4"]), vjp_order=1)
    assert str(loaded.out_avals[0]) == "float32[b,min(b, n)]"
    for shape in ((3, 2), (2, 5)):
        x = values(*shape)
        found = dx.jit(lambda x: (loaded.call(x), dx.grad(total(loaded.call))(x)))(x)
        same(found, dx.jit(lambda x: (f(x), dx.grad(total(f))(x)))(x))


def test_second_derivatives_of_running_combinations_at_any_size() -> None:
    loaded = saved(lambda x: dnp.cumprod(x), struct("b", constraints=["b <= 8"]), vjp_order=2)
    curved = lambda f: lambda x: (dx.grad(lambda x: (f(x) ** 2).sum())(x) ** 2).sum()
    for count in (1, 5, 8):
        x = values(count)
        np.testing.assert_allclose(
            dx.grad(curved(loaded.call))(x), dx.grad(curved(dnp.cumprod))(x), rtol=1e-4
        )


def test_integers_of_any_number_have_cotangents_without_numbers() -> None:
    f = lambda table, i: (table[i], i + 1, dnp.argsort(table))
    scope = export.SymbolicScope()
    integers = dx.ShapeDtypeStruct(export.symbolic_shape("n", scope=scope), "int32")
    loaded = saved(f, struct("b", scope=scope), integers, vjp_order=2)
    assert [str(aval) for aval in loaded.vjp().out_avals] == ["float32[b]", "float0[n]"]
    loss = lambda f, i: lambda x: (f(x, i)[0] ** 2).sum()
    twice = lambda f, i: dx.grad(lambda x: (dx.grad(loss(f, i))(x) ** 2).sum())
    x, i = values(4), np.int32([1, 0, 1])
    np.testing.assert_allclose(twice(loaded.call, i)(x), twice(f, i)(x), rtol=1e-6)
    slope = dx.grad(lambda i: loaded.call(x, i)[0].sum(), allow_int=True)(i)
    assert (slope.dtype, slope.shape) == (dx.float0, (3,))


@pytest.mark.parametrize("written", [False, True])
def test_a_program_is_read_with_the_width_that_it_was_written_with(written: bool) -> None:
    f = lambda x, i: (x[i] * x.shape[0], x / x.shape[0] + 1)
    x, i = values(4), np.int32([1, 0, -1])
    want = f(dnp.asarray(x), i)
    with dx.enable_x64(written):
        scope = export.SymbolicScope()
        integers = dx.ShapeDtypeStruct(export.symbolic_shape("n", scope=scope), "int32")
        data = export.export(dx.jit(f))(struct("b", scope=scope), integers).serialize(vjp_order=1)
    with dx.enable_x64(not written):
        loaded = export.deserialize(data)
        same(loaded.call(x, i), want)
        same(dx.grad(lambda x: loaded.call(x, i)[0].sum())(x), np.float32([4, 4, 0, 4]))


def test_functions_of_numpy_at_any_size() -> None:
    """Those that decide by lengths; x is f32[n], y f32[m], and neither is known to be the longer one."""
    linalg, modes = dx.scipy.linalg, ("full", "same", "valid")

    def f(x: Any, y: Any) -> Any:
        n, table = x.shape[0], dnp.outer(x, y)
        square = dnp.outer(x, x)
        return {
            "overlaps": [g(x, y, mode) for g in (dnp.convolve, dnp.correlate) for mode in modes],
            "polynomials": [dnp.polyadd(x, y), dnp.polymul(x, y), dnp.polyval(x, y), dnp.polyder(x, 2)],
            "matrices": [
                linalg.toeplitz(x, y), linalg.circulant(x), linalg.hankel(y, x), linalg.fiedler_companion(x),
                linalg.companion(dnp.append(x, 1.0)), linalg.convolution_matrix(x, y.shape[0], "same"),
            ],
            "joined": [dnp.hstack(table), dnp.vstack(x), dnp.dstack(table), dnp.stack(table, 1), dnp.column_stack(x)],
            "places": [dnp.tril_indices(n, 1), dnp.triu_indices(n, -1), dnp.diag_indices_from(square), x[n - 1]],
            "found": [dnp.interp(y, dnp.sort(x), x), dnp.diff(y, 3), dnp.packbits(x > 0), dnp.resize(x, (5,))],
            "numbers": [dnp.array_equal(x, y), dnp.array_equiv(x, x[:1]), dx.scipy.stats.sem(y), dnp.size(table) * x],
            "repeated": [lax.broadcast_like(x[0], table), dnp.repeat(y, n), dnp.tile(y, (n, 1)), dnp.take(y, n - 1)],
            "resized": dx.image.resize(table, (2 * n, 4), "nearest"),
            "batched": dx.vmap(lambda row: dnp.convolve(row, x, "same"))(table),
            "doubled": np.arange(3.0) * dnp.arange(n, dtype="float64")[:, None],
        }  # fmt: skip

    scope = export.SymbolicScope()
    loaded = saved(f, struct("n", scope=scope), struct("m", scope=scope), vjp_order=1)
    total = lambda f: lambda x, y: sum([(z**2).sum() for z in dx.tree.leaves(f(x, y)) if z.dtype == F32])
    for n, m in ((1, 2), (4, 3)):
        x, y = values(n), values(m + 1)[1:]
        found, want = dx.jit(lambda x, y: (loaded.call(x, y), f(x, y)))(x, y)
        same(found, want)
    same(*dx.jit(lambda x, y: [dx.grad(total(g), (0, 1))(x, y) for g in (loaded.call, f)])(x, y))
    lengths = saved(lambda x: dnp.shape(x), struct("n, m"))  # lengths are results, as numbers
    same(lengths.call(values(3, 2)), (np.int32(3), np.int32(2)))
    with pytest.raises(InconclusiveDimensionOperation, match="counted for square matrices"):
        export.export(dx.jit(dnp.tril_indices_from))(struct("n, m"))


@pytest.mark.ci
def test_another_process_needs_nothing_of_the_function(tmp_path: Path) -> None:
    weights = values(3, 2)
    key = dx.random.key_data(dx.random.key(0))

    @dx.custom_vjp
    def doubled(x: Any) -> Any:
        return 2 * x

    doubled.defvjp(lambda x: (2 * x, None), lambda _, ct: (7 * ct,))
    f = lambda x: {
        "y": doubled(x) @ weights + dx.random.uniform(dx.random.wrap_key_data(key), (x.shape[0], 1))
    }
    data = export.export(dx.jit(f))(struct("b, 3")).serialize(vjp_order=1)
    (tmp_path / "f.bin").write_bytes(data)
    x = values(4, 3)
    np.save(tmp_path / "x.npy", x)
    program = """
import sys, numpy as np, didax as dx
from pathlib import Path
f = dx.export.deserialize(Path(sys.argv[1], "f.bin").read_bytes())
x = np.load(Path(sys.argv[1], "x.npy"))
np.savez(Path(sys.argv[1], "found.npz"), y=f.call(x)["y"], g=dx.grad(lambda x: f.call(x)["y"].sum())(x))
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    found = np.load(tmp_path / "found.npz")
    np.testing.assert_allclose(found["y"], f(x)["y"], rtol=1e-6)
    np.testing.assert_allclose(found["g"], 7 * np.tile(weights.sum(1), (4, 1)), rtol=1e-5)  # by the rule


def test_calls_inside_of_other_programs() -> None:
    inner = saved(lambda x: (x * x.shape[0], x.sum()), struct("k"), vjp_order=1)
    outer = saved(lambda y: inner.call(y.reshape(-1))[0] + 1, struct("b, 2"))
    same(outer.call(values(3, 2)), values(3, 2).reshape(-1) * 6 + 1)
    assert str(outer.out_avals) == "(float32[2*b],)"
    both = dx.jit(lambda x: (inner.call(x)[1], inner.call(x[:2])[0]))(dnp.arange(3.0))
    same(both, (np.float32(3), np.array([0, 2], F32)))
    rows = dx.vmap(lambda x: inner.call(x)[1])(values(4, 3))
    np.testing.assert_allclose(rows, values(4, 3).sum(1), rtol=1e-5)


def test_shapes_that_do_not_fit_are_refused() -> None:
    constraints = ["b >= 2", "n <= b"]
    scope = export.SymbolicScope(constraints)
    f = saved(lambda x, y: x.sum() + y.sum(), struct("b, 2*b", scope=scope), struct("n", scope=scope))
    assert [c.text for c in f.in_avals[0].shape[0].scope.constraints] == constraints
    errors = {
        ((2, 4), (1,)): None,
        ((2, 5), (1,)): r"2\*b is 4 with b = 2, n = 1, and 5 in the argument",
        ((1, 2), (1,)): "break a constraint.*\n.*\n  b >= 2, with b = 1, n = 1",
        ((2, 4), (3,)): "n <= b, with b = 2, n = 3",
        ((2, 4), (0,)): "are from 1 to 2147483647.*\n.*\n  n = 0",
        ((2, 4), (1, 1)): "takes arguments of the types",
    }
    for shapes, error in errors.items():
        args = [np.ones(shape, F32) for shape in shapes]
        if error is None:
            assert float(f.call(*args)) == 9
        else:
            with pytest.raises(ValueError, match=error):
                f.call(*args)
    unsolved = saved(lambda x: x.sum(), struct("b*n"))
    with pytest.raises(ValueError, match="sizes of b, n do not follow"):
        unsolved.call(values(6))


def test_what_is_not_supported_is_refused_by_name() -> None:
    x = struct("b, n")
    errors: list[tuple[Callable[[Any], Any], str]] = [
        (lambda x: x.reshape(3, -1), "reshape finds at most one length"),
        (lambda x: x.reshape(35), r'constraints=\["b\*n == 35"\]'),
        (lambda x: x + dnp.ones(3), "shapes for broadcasting"),
        (lambda x: dnp.concatenate([x, x.T]), "agree in all axes but one"),
        (lambda x: [row for row in x], "has no value while the program is traced"),
        (
            lambda x: dx.pure_callback(lambda: np.float32(1), dx.ShapeDtypeStruct((), F32)) * x,
            "pure_callback",
        ),
        (
            lambda x: dx.pure_callback(np.sin, dx.ShapeDtypeStruct(x.shape, F32), x),
            "no value(.|\n)*dimension: b",
        ),
        (lambda x: dnp.delete(x, 3, 0), "Whether"),
        (dx.vmap(dnp.sin, chunk_size=2), "many chunks as the batch needs"),
        (dx.jacfwd(dnp.sin, chunk_size=2), "many chunks as the batch needs"),
    ]
    for f, part in errors:
        with pytest.raises((TypeError, ValueError), match=part):
            export.export(dx.jit(f))(x)
    with pytest.raises(ValueError, match="come from one scope"):
        export.export(dx.jit(lambda x, y: x))(x, struct("b, n"))
    with pytest.raises(ValueError, match="symbolic shapes is not lowered"):
        dx.jit(lambda x: x).lower(x)


def test_orders_places_and_waves_at_any_size() -> None:
    key = dx.random.key_data(dx.random.key(0))

    def f(x: Any) -> Any:
        b, draw = x.shape[0], dx.random
        k = [draw.wrap_key_data(key + i) for i in range(4)]
        return {
            "orders": [draw.permutation(k[0], b), draw.permutation(k[1], x, 0, True)],
            "drawn": [draw.choice(k[2], b, (3,)), draw.choice(k[3], x, (1,), p=dx.nn.softmax(x[:, 0]))],
            "places": [dnp.digitize(dnp.arange(5.0), dnp.sort(x[:, 0])), dnp.median(x)],
            "waves": abs(dnp.fft.rfftn(x, norm="ortho")),
        }

    loaded = saved(f, struct("b, 2", constraints=["b <= 2000"]))
    x = values(1700, 2)  # so many elements are sorted twice by random keys, half as many once, one never
    same(loaded.call(x), dx.jit(f)(x))
    same(loaded.call(x[:1])["orders"], [np.int32([0]), x[:1]])
    with pytest.raises(InconclusiveDimensionOperation, match=r'constraints=\["b >= 3"\]'):
        export.export(dx.jit(lambda x: dx.random.choice(key, x, (3,), replace=False)))(struct("b"))


def test_positions_that_depend_on_a_length() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        read = x[n // 2], x[::-2], x[-2:], dx.lax.dynamic_slice(x, (-1,), (1,))
        static = (
            x[[0, -1]],
            x[np.array([[1, 0]])],
            x[3],
            x.at[[0, 4]].set(3.0),
        )  # beyond the end as traced ones are
        return read, static, x.at[-1].set(9.0), x.at[n // 2].add(1.0), x.at[:-1].mul(2.0)

    loaded = saved(f, struct("n", constraints=["n >= 2"]))
    same(loaded.call(values(5)), dx.jit(f)(values(5)))
    assert loaded.call(values(2))[1][2] == values(2)[1]
    with pytest.raises(IndexError, match="An index is out of range"):
        export.export(dx.jit(lambda x: x[[0, 9]]))(struct("n", constraints=["n <= 9"]))


def test_parts_and_segments_of_symbolic_lengths() -> None:
    def f(x: Any, i: Any) -> Any:
        first, rest = dnp.array_split(x, [1])
        return (
            first + rest.sum(),
            dnp.split(dnp.tile(x, 2), 2),
            dx.ops.segment_sum(x, i, num_segments=x.shape[0]),
        )

    x, i = values(4), np.int32([0, 2, 2, 1])
    b = export.symbolic_shape("b")
    same(saved(f, dx.ShapeDtypeStruct(b, F32), dx.ShapeDtypeStruct(b, "int32")).call(x, i), f(x, i))


DRAWS: dict[str, Callable[..., Any]] = {
    "gamma": lambda k, x: dx.random.gamma(k, x, (*x.shape, 1)[:-1]),
    "binomial": lambda k, x: dx.random.binomial(k, 20 * x, 0.5),
    "mapped gamma": lambda k, x: dx.vmap(lambda k: dx.random.loggamma(k, 2.0))(
        dx.random.split(k, x.shape[0])
    ),
    "truncated normal": lambda k, x: dx.random.truncated_normal(k, -x, x),
    "multinomial": lambda k, x: dx.random.multinomial(k, x, dnp.ones(3) / 3),
    "ball": lambda k, x: dx.random.ball(k, x.shape[0]),
    "poisson": lambda k, x: dx.random.poisson(k, x),
    "dirichlet": lambda k, x: dx.random.dirichlet(k, x),
    "slope": lambda k, x: dx.grad(lambda a: dx.random.beta(k, a, 2.0).sum())(x),
}


@pytest.mark.parametrize("name", first(list(DRAWS)))
def test_draws_of_symbolic_shapes(name: str) -> None:
    f = lambda words, x: DRAWS[name](dx.random.wrap_key_data(words), x)
    words, x = np.uint32([1, 2]), np.float32([0.3, 2.0, 1.1])
    same(saved(f, dx.ShapeDtypeStruct((2,), "uint32"), struct("n")).call(words, x), f(words, x))


def test_sizes_are_numbers_and_positions() -> None:
    """As operands of operations, as seeds and positions; those before which `insert` puts values may lie outside."""

    def f(x: Any, i: Any) -> Any:
        n = x.shape[0]
        key = dx.random.fold_in(dx.random.key(n), n)
        return {
            "operands": [lax.mul(i, n), lax.clamp(0, i, n - 2), lax.full_like(x, n), lax.broadcast(n, (2,))],
            "keys": [dx.random.bits(key, x.shape), lax.rng_bit_generator(np.uint32([1, 2, 3, 4]), x.shape)[1]],
            "places": [lax.switch(n - 4, [lambda: x, lambda: -x]), x.at[::2].set(0.0), lax.approx_min_k(x, n)[0]],
            "inserted": [dnp.insert(x, at, 9.0) for at in (n, 4, [0, -3])],
            "deleted": [dnp.delete(x, part) for part in (slice(0, 1), slice(None, 1, -1))],
            "spaced": [dnp.geomspace(1.0, 2 + x, 3), dnp.linspace(0.0, x, 2), dnp.trace(x[None])],
            "repeated": dnp.repeat(x, i, total_repeat_length=n),
        }  # fmt: skip

    x, i = values(5), np.int32([1, 0, 2, 1, 4])
    n = export.symbolic_shape("n", constraints=["n >= 3"])
    same(saved(f, dx.ShapeDtypeStruct(n, F32), dx.ShapeDtypeStruct(n, "int32")).call(x, i), dx.jit(f)(x, i))
    with pytest.raises(TypeError, match="Only arrays with numbers"):
        lax.broadcast(n[0], (2,))


def test_convolutions_and_windows_of_any_length() -> None:
    image = lambda x: x[None, None]
    kernel = dnp.ones((1, 1, 2))

    def f(x: Any) -> Any:
        dilated = lax.conv_general_dilated(image(x), kernel, (1,), "VALID", rhs_dilation=(2,))
        windows = lambda y: lax.reduce_window(y, -np.inf, lax.max, (2,), (2,), "VALID")
        slopes = [dx.grad(lambda y, g=g: g(y).sum())(x) for g in (windows, dnp.cumsum)]
        return lax.conv(image(x), kernel, (2,), "SAME"), dilated, windows(x), slopes

    loaded = saved(f, struct("n"))
    for n in (1, 4):
        same(loaded.call(values(n)), f(values(n)))


OVER_ONE: dict[str, Callable[..., Any]] = {
    "reductions": lambda y: lax.psum(y, "s") * lax.pmax(y, "s"),
    "places": lambda y: lax.ppermute(y, "s", [(0, 0)]) + lax.axis_index("s"),
    "loops": lambda y: lax.scan(lambda c, row: (c + lax.psum(row, "s"), c * row), 0 * y[0], y)[1],
    "branches": lambda y: lax.cond(lax.psum(y.sum(), "s") > 0, lambda z: z, lambda z: -z, y),
    "gathered": lambda y: lax.all_gather(y, "s", tiled=True)[: y.shape[0]],
}


@pytest.mark.parametrize("name", OVER_ONE)
def test_bodies_over_one_device(name: str) -> None:
    """A mesh of one device is in programs of any kind, as no mesh at all."""
    mesh, P = dx.make_mesh((1,), ("s",), axis_types=(dx.sharding.AxisType.Auto,)), dx.P

    def f(x: Any) -> Any:
        x = lax.with_sharding_constraint(x, dx.sharding.NamedSharding(mesh, P("s")))
        return dx.shard_map(OVER_ONE[name], mesh=mesh, in_specs=P("s"), out_specs=P("s"))(x)

    x = values(3)
    for arg, platforms in ((struct("n"), None), (x, ("cpu", "cuda")), (x, None)):
        found = export.export(dx.jit(f), platforms=platforms)(arg)
        loaded = export.deserialize(found.serialize(vjp_order=1))
        same(loaded.call(x), dx.jit(f)(x))
    total = lambda g: lambda x: (g(x) ** 2).sum()
    same(dx.grad(total(loaded.call))(x), dx.grad(total(f))(x))


def test_windows_and_matrices_of_symbolic_sizes() -> None:
    lax, linalg = dx.lax, dx.scipy.linalg

    def sums(x: Any) -> Any:
        n = x.shape[0]
        return [
            lax.reduce_window(x, 0.0, lax.add, (max_dim(n // 2, 1),), (1,), "VALID"),
            lax.reduce_window(x, 0.0, lax.add, (n,), (1,), [(n - 1, 0)]),
            lax.reduce_window(x, 0.0, lax.add, (n,), (1,), "SAME"),
            lax.reduce_window(x, 0.0, lax.add, (3,), (2,), "VALID"),  # none of one or two elements
        ]

    def others(x: Any) -> Any:
        n = x.shape[0]
        largest = lax.reduce_window(x, -np.inf, lax.max, (n,), (1,), "VALID")
        matrices = [linalg.hilbert(n), linalg.dft(n), linalg.dft(n, "sqrtn"), linalg.helmert(n, full=True)]
        matrices += [
            linalg.pascal(n),
            linalg.pascal(n, "upper"),
            linalg.invpascal(n, "lower"),
            linalg.invpascal(n),
        ]
        return largest, matrices, linalg.helmert(n), linalg.invhilbert(n), dx.numpy.insert(x, 1, 7.0)

    shape = struct("n")
    summed = export.deserialize(export.export(dx.jit(sums))(shape).serialize(vjp_order=1))
    loaded = saved(others, shape)
    for n in (1, 5):
        same(summed.call(values(n)), sums(values(n)))
        found, wanted = (
            dx.grad(lambda x, f=f: sum((y**2).sum() for y in f(x)))(values(n)) for f in (summed.call, sums)
        )
        same(found, wanted)
        same(loaded.call(values(n)), others(values(n)))
    steps = lambda x: [
        lax.reduce_window(x, -np.inf, lax.max, (3,), (2,), "VALID"),
        lax.reduce_window(x, np.inf, lax.min, (2,), (3,), "VALID", window_dilation=(2,)),
    ]
    stepped = export.deserialize(export.export(dx.jit(steps))(shape).serialize(vjp_order=1))
    for n in (1, 2, 3, 8):  # the first of them have no window
        same(
            *(
                dx.grad(lambda x, f=f: sum((y**2).sum() for y in f(x)))(values(n))
                for f in (stepped.call, steps)
            )
        )
    product = lambda x: lax.reduce_window(x, 1.0, lax.mul, (x.shape[0],), (1,), "VALID")
    with pytest.raises(NotImplementedError, match="have sums, maxima and minima"):
        export.export(dx.jit(product))(shape)
    text = export.export(dx.jit(lambda x: sums(x)[2]))(shape).mlir_module()
    assert text.startswith("# reduce_window_sum has no form of open lengths")


def test_bounds_take_each_case_of_an_extremum() -> None:
    (n,) = export.symbolic_shape("n")
    assert n - max_dim(n - 2, 0) >= 1
    assert min_dim(n, 4) + 3 >= 4
    assert n // -2 == (-n) // 2


def test_quotients_of_an_extremum_whose_cases_are_ordered() -> None:
    (n,) = export.symbolic_shape("n", constraints=["n <= 9"])
    for shape in (lambda n: -(-max_dim(2 * n - 1, 0) // 2), lambda n: (7 - 3 * min_dim(n, 4 * n - 3)) // 3):
        size = shape(n)
        assert "m" not in str(size)  # neither max nor min
        assert [evaluate(size, {"n": k}) for k in range(1, 10)] == [shape(k) for k in range(1, 10)]
    unknown = max_dim(n - 4, 4 - n) // 2
    assert "max" in str(unknown) and evaluate(unknown, {"n": 9}) == 2


def test_derivatives_of_checkpointed_functions_have_modules_of_open_lengths() -> None:
    """What is computed again is written in place, behind a barrier: functions beside `main` know no lengths."""
    f = dx.jit(dx.checkpoint(lambda x: dnp.tanh(x) * x))
    exported = export.export(f)(dx.ShapeDtypeStruct(export.symbolic_shape("b, 3"), "float32"))
    text = exported.vjp().mlir_module()
    assert text.startswith("module @") and "optimization_barrier" in text
    loaded = export.deserialize(exported.serialize(vjp_order=1))
    x = np.cos(np.arange(6.0, dtype="float32")).reshape(2, 3)
    slopes = [dx.grad(lambda x, g=g: g(x).sum())(x) for g in (loaded.call, f)]
    np.testing.assert_allclose(*slopes, rtol=1e-6)
