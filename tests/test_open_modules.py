"""jax calls what was exported with symbolic shapes: one StableHLO module for all sizes, refined for those of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import export, lax
from tests.test_symbolic_shapes import F32, layers, same, struct, values


def in_jax(exported: export.Exported) -> Any:
    """What jax reads in the file; made here, because its reader needs a package that tests do without."""
    scope = jax.export.SymbolicScope()
    sides = [
        [
            jax.core.ShapedArray(
                jax.export.symbolic_shape(", ".join(map(str, aval.shape)), scope=scope), aval.dtype
            )
            for aval in avals
        ]
        for avals in (exported.in_avals, exported.out_avals)
    ]
    trees = [dx.tree.unflatten(tree, [0] * tree.num_leaves) for tree in (exported.in_tree, exported.out_tree)]
    unplaced = [(None,) * len(side) for side in sides]
    return jax.export.Exported(
        fun_name=exported.fun_name,
        in_tree=jax.tree.structure(trees[0]),
        in_avals=tuple(sides[0]),
        out_tree=jax.tree.structure(trees[1]),
        out_avals=tuple(sides[1]),
        **{"_has_named_shardings": True} if jax.__version_info__ < (0, 11) else {},
        _in_named_shardings=unplaced[0],
        _out_named_shardings=unplaced[1],
        in_shardings_hlo=unplaced[0],
        out_shardings_hlo=unplaced[1],
        nr_devices=1,
        platforms=exported.platforms,
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=(),
        mlir_module_serialized=exported.mlir_module_serialized,
        calling_convention_version=exported.calling_convention_version,
        module_kept_var_idx=exported.module_kept_var_idx,
        uses_global_constants=exported.uses_global_constants,
        _get_vjp=lambda _: in_jax(exported.vjp()),
    )


def exported(f: Callable[..., Any], *args: Any, **more: Any) -> export.Exported:
    return export.deserialize(export.export(dx.jit(f), **more)(*args).serialize())


def scope_of_two() -> list[Any]:
    scope = export.SymbolicScope()
    return [struct("n, m", scope=scope), struct("m", scope=scope)]


@pytest.mark.cpu
def test_jax_calls_a_program_and_its_derivative() -> None:
    shapes = export.symbolic_args_specs((values(1, 1), values(1, 1)), ("b, n", "b + 2, n"))
    program = in_jax(export.export(dx.jit(layers))(*shapes))
    x, y = values(3, 4), values(5, 4)
    squares = lambda tree: sum([(z**2).sum() for z in jax.tree.leaves(tree) if z.dtype == F32])

    @jax.jit
    def found(x: Any, y: Any) -> Any:
        return program.call(x, y), jax.grad(lambda x: squares(program.call(x, y)))(x)

    want = dx.jit(lambda x, y: (layers(x, y), dx.grad(lambda x: squares(layers(x, y)))(x)))(x, y)
    (outs, gradient), (own, own_gradient) = found(x, y), want
    same(dict(outs), own)
    np.testing.assert_allclose(gradient, own_gradient, rtol=1e-3, atol=1e-3)


@pytest.mark.cpu
def test_operations_of_open_lengths() -> None:
    """Those whose text is more than types: x is f32[n,m], y f32[m]."""

    def f(x: Any, y: Any) -> Any:
        n, m = x.shape
        spread = x @ x.T + m * dnp.eye(n)
        return {
            "running": [dnp.cumsum(x, 1), lax.associative_scan(dnp.maximum, y), dnp.prod(x, 0)],
            "ordered": [dnp.sort(x, 0), dnp.argmax(y), lax.top_k(y, 1), dnp.median(x), dnp.searchsorted(y, x[0])],
            "moved": [x.at[1:].set(0.0), y[::-1][dnp.argsort(x[0])], dnp.roll(x, 1, 1), dnp.tile(x, (2, 1))],
            "windows": [dnp.convolve(y, x[:, 0]), lax.dynamic_slice(x, (1, 0), (1, m)), dnp.pad(x, ((0, n), (1, 0)))],
            "pooled": lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"),
            "drawn": dx.random.normal(dx.random.key(0), (n, 2)),
            "factors": [dnp.linalg.cholesky(spread), dnp.linalg.det(spread), dnp.linalg.svd(x, compute_uv=False)],
            "loops": lax.scan(lambda c, row: (c + row.sum(), c), 0.0, x, reverse=True, unroll=2),
            "means": lax.cond(y.sum() > 0, lambda: x.mean(0), lambda: x.max(0)),
            "attended": dx.nn.dot_product_attention(*[x[None, :, None]] * 3, is_causal=True),
        }  # fmt: skip

    program = exported(f, *scope_of_two())
    assert "tensor<?x?xf32>" in program.mlir_module()
    x, y = values(3, 4), values(4)
    found = in_jax(program).call(x, y)
    same(dx.tree.map(np.asarray, found), dx.jit(f)(x, y))


@pytest.mark.cpu
def test_derivatives_of_windows_and_running_products_of_open_lengths() -> None:
    """Their paddings are symbolic, and so may be the lengths that they pad: none of an axis is empty for all sizes."""

    def f(x: Any) -> Any:
        windows = [
            lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"),
            lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "SAME"),
            lax.reduce_window(x, -np.inf, lax.max, (3,), (2,), "SAME"),
        ]
        return [*windows, dnp.cumprod(x)]

    program = in_jax(export.export(dx.jit(f))(struct("b", constraints=["4 <= b", "b <= 64"])))
    squares = lambda ys: sum([(y**2).sum() for y in ys])
    for size in (5, 8):
        x = values(size)
        want = dx.jit(lambda x: (f(x), dx.grad(lambda x: squares(f(x)))(x)))(x)
        same(
            jax.tree.map(np.asarray, (program.call(x), jax.grad(lambda x: squares(program.call(x)))(x))), want
        )


@pytest.mark.cpu
def test_sizes_are_computed_as_ints_are() -> None:
    """And jax compares a module's results, and its checks, with the shapes of a call."""

    def sizes(n: Any, m: Any) -> list[Any]:
        larger, smaller = (dx.core.max_dim, dx.core.min_dim) if export.is_symbolic_dim(n) else (max, min)
        parts = [
            (n - 5) // 3,
            (n - 5) % 3,
            n // m,
            (2 * n + 1) % m,
            (n - 9) // -m,
            larger(n, 4),
            smaller(n * m, 7),
        ]
        return [*parts, n * n - 3 * m]

    scope = export.SymbolicScope(["n >= 2"])
    shapes = struct("n", scope=scope), struct("2*n + 3*m", scope=scope)
    of_shapes = lambda x, y: (x.shape[0], (y.shape[0] - 2 * x.shape[0]) // 3)
    program = in_jax(
        exported(lambda x, y: dnp.stack([dnp.asarray(n) for n in sizes(*of_shapes(x, y))]), *shapes)
    )
    for n, m in ((2, 1), (7, 3)):
        found = program.call(np.ones(n, F32), np.ones(2 * n + 3 * m, F32))
        assert found.tolist() == sizes(n, m)
    for n, length in ((1, 5), (2, 6)):  # a constraint is broken; 3*m is 2
        with pytest.raises(ValueError, match=r"refining shapes|Input shapes do not match"):
            program.call(np.ones(n, F32), np.ones(length, F32))


@pytest.mark.cpu
def test_programs_without_an_open_form_say_why() -> None:
    """They are files as before, which Didax reads."""
    waves = exported(dnp.fft.fft, struct("n"))
    assert waves.mlir_module().startswith("# stablehlo.fft has no form of open lengths\n{ lambda")
    np.testing.assert_allclose(waves.call(values(3)), np.fft.fft(values(3)), rtol=1e-5)
    both = ["cpu", "cuda"]
    factor = exported(dnp.linalg.cholesky, struct("n, n"), platforms=both)
    assert factor.mlir_module().startswith("# it calls lapack_spotrf_ffi, a function of one platform")
    doubled = in_jax(exported(lambda x: 2 * x, struct("n"), platforms=both))
    assert doubled.call(np.ones(3, F32)).tolist() == [2.0, 2.0, 2.0]
