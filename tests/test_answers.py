"""The oracle's memory: an answer is given for the same program at the same arguments, and for nothing else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.answers import Answers, arrays, program_hash, read, text_of, write

X = np.arange(3, dtype=np.float32)


def key(f: Any, *args: Any) -> str | None:
    """The name of `f(*args)` in the memory."""
    params = {"jaxpr": jax.make_jaxpr(f)(*args), "donated_invars": (False,) * len(args)}
    return Answers(keep=False).key([jnp.asarray(x) for x in args], params)


def table(values: np.ndarray[Any, Any]) -> Any:
    return lambda x: x + values


@pytest.mark.parametrize(
    "other",
    [
        lambda x: jnp.cos(x),
        lambda x: jnp.sin(x) * 1.0,
        lambda x: jnp.sin(jnp.sin(x)),
        lambda x: jax.jit(jnp.sin)(x),
        lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    ],
)
def test_another_program_has_another_key(other: Any) -> None:
    assert key(jnp.sin, X) != key(other, X)


def test_constants_literals_and_parameters_are_part_of_the_key() -> None:
    functions = [
        *[table(v) for v in (X, X + 1, X.astype(np.float16))],
        *[lambda x, c=c: x * c for c in (0.0, -0.0, 1.0)],
        *[lambda x, c=c: jax.lax.cond(x[0] > 0, table(c), jnp.sin, x) for c in (X, X + 1)],
        *[lambda x, axis=axis: jnp.stack([x, x], axis) for axis in (0, 1)],
    ]
    assert len({key(f, X) for f in functions}) == len(functions)


def test_values_shapes_and_dtypes_of_arguments_are_part_of_the_key() -> None:
    given = [X, X + 1, X[:2], X[None], X.astype(np.int32), -X * 0]
    assert len({key(jnp.sin, x) for x in given}) == len(given)
    assert key(jnp.sin, X) == key(jnp.sin, X.copy())


def test_equal_programs_traced_twice_have_one_key() -> None:
    def f(x: Any) -> Any:
        return jax.vmap(lambda a: jax.nn.relu(a) * jax.lax.while_loop(lambda c: c < 3, lambda c: c + a, a))(x)

    assert key(lambda x: jax.grad(lambda x: jax.jit(jnp.tanh)(x).sum())(x), X) == key(
        lambda x: jax.grad(lambda x: jax.jit(jnp.tanh)(x).sum())(x), X
    )
    first = program_hash(jax.make_jaxpr(f)(X + 1))
    jax.clear_caches()
    assert program_hash(jax.make_jaxpr(f)(X + 1)) == first


def test_programs_that_call_python_are_not_remembered() -> None:
    shape = jax.ShapeDtypeStruct((3,), np.float32)
    assert key(lambda x: jax.pure_callback(np.sin, shape, x), X) is None
    assert key(lambda x: jax.debug.print("{}", x), X) is None
    with jax.debug_nans(True):
        assert key(jnp.sin, X) is None


def test_results_come_back_as_they_were(tmp_path: Any) -> None:
    values = [np.arange(100, dtype=np.float32), np.array(True), np.zeros((0, 2), np.int8)]
    jaxpr = jax.make_jaxpr(lambda: (values[0], values[1], values[2], 2.0))()
    write(tmp_path / "a.txt", {"k": text_of([*values, np.float32(2)])})
    found = arrays(read(tmp_path / "a.txt")["k"], jaxpr.out_avals)
    for x, want in zip(found, [*values, np.float32(2)], strict=True):
        assert (x.shape, x.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(x, want)
    assert found[3].weak_type and not found[0].weak_type


def test_jax_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax._src.pjit as pjit

    computed = []
    compute = pjit._pjit_call_impl_python
    monkeypatch.setattr(
        pjit, "_pjit_call_impl_python", lambda *a, **k: computed.append(1) or compute(*a, **k)
    )
    answers = Answers(keep=True)
    answers.known = {}
    answers.install()
    f = jax.jit(lambda x: jnp.sinh(x) * 7.125)
    np.testing.assert_array_equal(f(X), f(X))
    assert len(computed) == 1
    assert not np.array_equal(f(X), f(X + 1)) and len(computed) == 2
