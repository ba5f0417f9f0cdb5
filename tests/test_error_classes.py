"""A program written for JAX catches what Didax raises: `except ValueError`, `except jax.errors.UnexpectedTracerError`.

Each bad call raises, in both libraries, the class that it stands under, or one derived from it. Where JAX's class and
NumPy's differ, Didax raises `ArgumentError`, which is both.
"""

import builtins
import importlib
import types
from typing import Any

import jax
import numpy as np
import pytest

# fmt: off
BAD_CALLS = {
    "TypeError": """
        jnp.ones(2) + jnp.ones(3)
        jnp.ones((2,3)) * jnp.ones((3,2))
        jnp.add(1, 'a')
        jnp.add(1, None)
        jnp.sin('a')
        jnp.sin([1.0, 2.0])
        jnp.sum([1, 2])
        lax.broadcast_in_dim(jnp.ones(3), (2, 2), (1,))
        lax.broadcast_in_dim(jnp.ones(3), (3, 2), (0, 1))
        lax.broadcast_in_dim(jnp.ones((3, 2)), (3, 2), (1, 0))
        lax.broadcast_in_dim(jnp.ones(3), (3, 2), (5,))
        lax.broadcast(jnp.ones(3), (-1,))
        jnp.concatenate([jnp.ones(2), jnp.ones((2, 2))])
        jnp.concatenate([jnp.ones((2, 3)), jnp.ones((2, 2))])
        lax.concatenate([jnp.ones(2), jnp.ones((2, 2))], 0)
        lax.concatenate([jnp.ones(2), jnp.ones(2, int)], 0)
        jnp.vstack([jnp.ones(2), jnp.ones(3)])
        jnp.hstack([jnp.ones((2,2)), jnp.ones((3, 2))])
        jnp.append(jnp.ones((2,2)), jnp.ones(2), axis=0)
        jnp.reshape(jnp.ones(6), (4,))
        jnp.reshape(jnp.ones(6), (-2, 3))
        lax.reshape(jnp.ones(6), (-1,))
        jnp.zeros(-1)
        jnp.zeros(2, 'nosuch')
        jnp.zeros(2, dtype=object)
        jnp.full(-2, 1)
        jnp.tri(-1)
        jnp.array(object())
        jnp.asarray({1: 2})
        jnp.moveaxis(jnp.ones((2, 3)), (0, 0), (0, 1))
        jnp.repeat(jnp.ones(2), -1)
        jnp.take_along_axis(jnp.ones(2), jnp.array([0.0]), 0)
        jnp.polyfit(jnp.ones(2), jnp.ones(3), 1)
        jnp.ones(2).astype('nosuch')
        jax.jit(lambda x: jnp.zeros(x))(2)
        jax.jit(lambda x: jnp.ones(3).reshape(x))(3)
        jax.grad(lambda x: x, argnums=1)(1.0)
        jax.jvp(lambda x: x, (1,), (1.0,))
        jax.linear_transpose(lambda x: 2 * x, 1.0)(jnp.ones(2))
        lax.select(jnp.ones(2) > 0, jnp.ones(2), jnp.ones(3))
        lax.select(jnp.ones(2) > 0, jnp.ones(2), jnp.ones(2, int))
        lax.select(jnp.ones(3) > 0, jnp.ones(2), jnp.ones(2))
        lax.slice(jnp.ones(3), (0,), (4,))
        lax.slice(jnp.ones(3), (2,), (1,))
        lax.slice_in_dim(jnp.ones(3), 0, 4)
        lax.dynamic_slice(jnp.ones(3), (0,), (4,))
        lax.dynamic_slice(jnp.ones(3), (0.5,), (1,))
        lax.dynamic_slice(jnp.ones(3), (0,), (-1,))
        lax.dynamic_update_slice(jnp.ones(3), jnp.ones(4), (0,))
        lax.dynamic_update_slice(jnp.ones(3), jnp.ones((1, 1)), (0,))
        lax.rev(jnp.ones(2), (1,))
        lax.iota('float32', -1)
        lax.iota(jnp.bool_, 3)
        lax.full((-2,), 1.0)
        jnp.bitwise_and(jnp.ones(2), jnp.ones(2))
        jnp.invert(jnp.ones(2))
        lax.reduce_window(jnp.ones(3), 0.0, lax.add, (2, 2), (1,), 'SAME')
        jnp.linalg.cholesky(jnp.ones((2, 3)))
        jnp.linalg.cholesky(jnp.ones(3))
        jnp.linalg.eigh(jnp.ones((2, 3)))
        jnp.linalg.svd(jnp.ones(3))
        jnp.linalg.qr(jnp.ones(3))
        jnp.linalg.matrix_power(jnp.ones((2, 3)), 2)
        random.uniform(random.key(0), (2,), minval=jnp.ones(3))
        random.randint(random.key(0), (2,), 0, 2, dtype=float)
        jax.nn.one_hot(1, -3)
        jax.ops.segment_sum(jnp.ones(3), jnp.zeros(3), 2)
        jnp.promote_types('float32', 'nosuch')
        jnp.result_type('nosuch')
        jnp.clip(jnp.ones(2), jnp.ones(3))
        jnp.ones(2) < jnp.ones(3)
        jnp.ones(2) == jnp.ones(3)
        jax.jit(lambda x: "a")(1.0)
        jax.grad(lambda x: x)(1)
        jax.grad(lambda x: jnp.ones(2) * x)(1.0)
        jax.jvp(lambda x: x, (1.0,), (1.0, 2.0))
        lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0)
        jax.jit(lambda p: lax.cond(p, lambda: 1, lambda: (1, 2)))(True)
        hash(jnp.ones(2))
        jnp.ones(2).__setitem__(0, 1)
    """,
    "ValueError": """
        jnp.where(jnp.ones(2)>0, jnp.ones(3), 0)
        jnp.broadcast_shapes((2,), (3,))
        jnp.broadcast_arrays(jnp.ones(2), jnp.ones(3))
        jnp.concatenate([1.0, 2.0])
        jnp.stack([jnp.ones(2), jnp.ones(3)])
        jnp.matmul(jnp.ones((2, 2, 3)), jnp.ones((3, 3, 2)))
        lax.reshape(jnp.ones(6), (4,))
        jnp.full((2,), jnp.ones(3))
        jnp.eye(-1)
        jnp.array([1, None])
        jnp.array(None)
        jnp.arange(1j)
        jnp.sum(jnp.ones((2, 2)), axis=(0, 0))
        jnp.sum(jnp.ones(2), where=jnp.ones(3, bool))
        jnp.squeeze(jnp.ones((1, 1)), (0, 0))
        jnp.expand_dims(jnp.ones(2), (0, 0))
        jnp.take(jnp.ones(2), jnp.array([0.5]))
        jnp.ones(3, 'int8').view('int16')
        jnp.ones((2, 2))[jnp.array([0, 1]), jnp.array([0, 1, 2])]
        jax.jit(lambda x, n: x, static_argnums=1)(1.0, [1])
        jax.jit(lambda x, n: x, static_argnames='n')(1.0, n=[1])
        jax.jit(lambda x, n: x, static_argnums=1)(1.0, jnp.ones(2))
        jax.grad(lambda x: x, argnums=-2)(1.0)
        jax.jvp(lambda x: x, (1.0,), (jnp.ones(2),))
        jax.vjp(lambda x: x, 1.0)[1](jnp.ones(2))
        jax.vjp(lambda x: x, 1.0)[1]((1.0,))
        jax.vjp(lambda x: (x, x), 1.0)[1]((1.0,))
        jax.vjp(lambda x: x, 1.0)[1](None)
        jax.vjp(lambda x: x, 1.0)[1](1j)
        jax.linearize(lambda x: x, 1.0)[1](jnp.ones(2))
        lax.select_n(jnp.ones(2, int))
        lax.scan(lambda c, x: (c, x), 0, jnp.ones(2), length=-1)
        lax.scan(lambda c, x: (c, x), 0, None, length='a')
        lax.reduce(jnp.ones(2), jnp.ones(2), lax.add, (0,))
        lax.reduce(jnp.ones(2), 0.0, lax.add, (1,))
        lax.reduce_max(jnp.ones(2), (1,))
        lax.reduce_sum(jnp.ones((2,2)), (0, 0))
        lax.argmax(jnp.ones(2), 1, jnp.int32)
        lax.slice(jnp.ones(3), (0, 0), (1, 1))
        lax.dynamic_slice(jnp.ones(3), (0, 0), (1,))
        lax.dynamic_slice(jnp.ones(3), (0,), (1, 1))
        lax.dynamic_update_slice(jnp.ones(3), jnp.ones(1), (0, 0))
        lax.index_take(jnp.ones(3), (jnp.ones(2),), (0,))
        lax.pad(jnp.ones(2), 0.0, ((1, 1, 1), (1, 1, 1)))
        lax.pad(jnp.ones(2), jnp.ones(2), ((1, 1, 1),))
        lax.pad(jnp.ones(2), 0.0, ((1, 1, -1),))
        lax.pad(jnp.ones(2), 0.0, ((-3, 0, 0),))
        lax.expand_dims(jnp.ones(2), (5,))
        lax.broadcasted_iota('int32', (2,), 1)
        lax.bitcast_convert_type(jnp.ones(3, 'int8'), 'int16')
        jnp.gcd(jnp.ones(2), 1)
        jnp.ldexp(jnp.ones(2), jnp.ones(2))
        lax.conv(jnp.ones((1, 1, 3)), jnp.ones((1, 2, 3)), (1,), 'SAME')
        lax.conv_general_dilated(jnp.ones((1, 3, 3)), jnp.ones((1, 3, 3)), (1,), 'VALID', feature_group_count=2)
        jnp.linalg.inv(jnp.ones((2, 3)))
        jnp.linalg.inv(jnp.ones(3))
        jnp.linalg.det(jnp.ones((2, 3)))
        jnp.linalg.solve(jnp.ones((2, 3)), jnp.ones(2))
        jnp.fft.rfft(jnp.ones(2) * 1j)
        jnp.fft.fftn(jnp.ones((2, 2)), axes=(0, 0))
        random.normal(random.key(0), dtype=int)
        random.randint(random.key(0), (2,), jnp.ones(3, int), 2)
        random.bernoulli(random.key(0), jnp.ones(2), (3,))
        random.choice(random.key(0), jnp.ones((2, 2)), axis=2)
        random.permutation(random.key(0), jnp.ones((2, 2)), axis=2)
        random.gamma(random.key(0), jnp.ones(2), (3,))
        random.bits(random.key(0), (2,), 'int32')
        random.orthogonal(random.key(0), -1)
        jax.ops.segment_sum(jnp.ones(3), jnp.zeros(2, int), 2)
        jax.ShapeDtypeStruct((2,), None)
        jnp.result_type()
        jnp.finfo('nosuch')
        jnp.asarray(1, 'float8_e4m3fn') + jnp.asarray(1, 'float8_e5m2')
        jnp.delete(jnp.ones(2), 5)
        jnp.clip(jnp.ones(2) * 1j, 0)
        jnp.rot90(jnp.ones((2, 2)), axes=(0, 0))
        jnp.ones(2).take(5.0)
        jax.vmap(lambda x, y: x)(jnp.ones(2), jnp.ones(3))
        jax.vmap(lambda x: x, in_axes=1)(jnp.ones(2))
        jax.vmap(lambda x: x, out_axes=None)(jnp.ones(2))
        jnp.einsum("i,i", jnp.ones(3))
        jax.tree.map(lambda x, y: x, (1, 2), [1, 2])
        jax.tree.unflatten(jax.tree.structure((1, 2)), [1])
        bool(jnp.ones(2))
        jnp.argmax(jnp.ones(0))
    """,
    "TracerBoolConversionError": """
        jax.jit(lambda x: x if x > 0 else -x)(1.0)
        jax.jit(lambda x: bool(x))(True)
        jax.jit(lambda x: not x)(True)
        jax.jit(lambda x: max(x, 0.0))(1.0)
        jax.vmap(lambda x: x if x > 0 else -x)(jnp.ones(2))
        lax.scan(lambda c, x: (c if c > 0 else c, x), 0, jnp.ones(2))
    """,
    "ConcretizationTypeError": """
        jax.jit(lambda x: float(x))(1.0)
        jax.jit(lambda x: int(x))(1)
        jax.jit(lambda x: complex(x))(1)
        jax.jit(lambda x: jnp.arange(x))(3)
        jax.jit(lambda x: jnp.linspace(0, 1, x))(3)
        jax.jit(lambda x: jnp.sum(jnp.ones(3), axis=x))(0)
        jax.jit(lambda x: jnp.repeat(jnp.ones(3), x))(jnp.array([1, 2, 3]))
        jax.jit(lambda x: jnp.nonzero(x))(jnp.ones(3))
        jax.jit(lambda x: jnp.unique(x))(jnp.ones(3))
        jax.jit(lambda x: jnp.bincount(x))(jnp.ones(3, int))
        jax.jit(lambda x: x.item())(1.0)
        jax.jit(lambda x: x.tolist())(1.0)
        jax.jit(lambda x: jnp.split(jnp.ones(4), x))(2)
        float(leak(jax))
    """,
    "TracerIntegerConversionError": """
        jax.jit(lambda x: [1, 2][x])(1)
        jax.jit(lambda x: list(range(x)))(1)
    """,
    "TracerArrayConversionError": """
        jax.jit(lambda x: np.asarray(x))(1.0)
        jax.jit(lambda x: np.sin(x))(1.0)
        np.asarray(leak(jax))
    """,
    "IndexError": """
        jax.jit(lambda x: jnp.ones(3)[:x])(2)
        lax.slice_in_dim(jnp.ones(3), 0, 1, axis=1)
        lax.dynamic_index_in_dim(jnp.ones(3), 0, 1)
        random.categorical(random.key(0), jnp.ones((2, 3)), axis=2)
        jnp.ones(2)[0, 0]
        jnp.ones(2)[jnp.ones(3, bool)]
    """,
    "NonConcreteBooleanIndexError": """
        jax.jit(lambda x: x[x > 0])(jnp.ones(3))
    """,
    "UnexpectedTracerError": """
        leak(jax) + 1.0
        jax.jit(lambda x: x)(leak(jax))
        jnp.sin(leak(jax))
        bool(leak(jax) > 0)
        jax.vmap(lambda x: x + leak(jax))(jnp.ones(2))
        jax.grad(lambda x: x * leak(jax))(1.0)
    """,
    "NameError": """
        lax.psum(1.0, "i")
        jax.jit(lambda x: lax.axis_index("i"))(1.0)
    """,
    "AttributeError": """
        jnp.nosuch
        jnp.ones(2).nosuch
        jax.config.nosuch
        jax.config.update("nosuch", 1)
    """,
    "OverflowError": """
        jnp.array(-2**70)
    """,
}
# fmt: on


def leak(library: Any) -> Any:
    """A tracer that outlives its transformation."""
    out = []
    library.jit(lambda x: out.append(x))(1.0)
    return out[0]


def names(root: str) -> dict[str, Any]:
    """What the calls are written with."""
    modules = {name: importlib.import_module(f"{root}.{name}") for name in ("lax", "random")}
    numpy = importlib.import_module(f"{root}.numpy")
    return {"jax": importlib.import_module(root), "jnp": numpy, "np": np, "leak": leak, **modules}


def class_named(name: str, library: types.ModuleType) -> type[Exception]:
    return getattr(builtins, name, None) or getattr(library.errors, name)


@pytest.mark.parametrize("root", ["didax", "jax"])
@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call.strip()) for name, calls in BAD_CALLS.items() for call in calls.strip().splitlines()],
)
def test_a_bad_call_raises_what_programs_catch(root: str, name: str, call: str) -> None:
    if root == "jax" and not jax.__version__.startswith("0.10."):
        pytest.skip("the classes are those of JAX 0.10")
    scope = names(root)
    with pytest.raises(class_named(name, scope["jax"])):
        eval(call, scope)
