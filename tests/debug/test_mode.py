"""`debug_mode` turns every check on; each of them alone; nothing is reported in programs without a mistake."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random
from didax.checkify import CheckError, NaNError, OutOfBoundsError
from didax.core import config
from didax.core.errors import KeyReuseError, UnexpectedTracerError
from tests.checks import ci_unless

X = np.linspace(0.1, 1.0, 6, dtype=np.float32)
M = X[:, None] * X + np.eye(6, dtype=np.float32)


def compiled_and_not(f: Any) -> list[Any]:
    return [f, dx.jit(f)]


# --- All at once ------------------------------------------------------------------------------------------


def reuse(x: Any) -> Any:
    key = random.key(0)
    return random.normal(key) + random.uniform(key) + x


kept: list[Any] = []


def leak(x: Any) -> Any:
    kept.append(x * 2)
    return x


@pytest.mark.parametrize(
    ("f", "args", "error"),
    [
        (dnp.log, (np.float32(-1.0),), NaNError),
        (lambda x, i: x[i], (X, np.int32(7)), OutOfBoundsError),
        (lambda x, i: x.at[i].set(0), (X, np.int32(7)), OutOfBoundsError),
        (reuse, (1.0,), KeyReuseError),
        (leak, (1.0,), UnexpectedTracerError),
        (lambda x: dx.debug.check(x > 1, "a check"), (1.0,), CheckError),
    ],
    ids=["nan", "read", "write", "key", "leak", "check"],
)
def test_each_mistake_is_an_error_in_debug_mode(f: Any, args: Any, error: type[Exception]):
    with dx.debug_mode(), pytest.raises(error):
        dx.jit(f)(*args)
    kept.clear()


def test_debug_mode_is_a_set_of_options():
    with dx.debug_mode():
        state = config.state()
        assert (state.debug_nans, state.debug_infs, state.debug_key_reuse) == ("on", "off", "error")
        assert state.error_checking_behavior_oob == "raise"
        assert state.check_tracer_leaks
        assert state.check
    with dx.debug_mode(nans="outputs", infs=True):
        assert (config.state().debug_nans, config.state().debug_infs) == ("outputs", "on")
    assert config.state().debug_nans == "off"
    assert config.state().error_checking_behavior_oob == "ignore"


def test_functions_compiled_before_and_after_are_not_concerned():
    f = dx.jit(lambda x, i: x[i])
    assert float(f(X, 7)) == X[5]
    with dx.debug_mode(), pytest.raises(OutOfBoundsError):
        f(X, 7)
    assert float(f(X, 7)) == X[5]


INNOCENT: dict[str, Callable[[], Any]] = {
    "interp": lambda: dnp.interp(X, X, X),
    "searchsorted": lambda: dnp.searchsorted(X, X * 3),
    "nonzero": lambda: dnp.nonzero(dnp.asarray(X) > 0.5, size=6),
    "unique": lambda: dnp.unique(dnp.array([1, 1, 2]), size=3),
    "roll": lambda: dnp.roll(X, 2),
    "take_along_axis": lambda: dnp.take_along_axis(dnp.asarray(M), dnp.argsort(M, axis=0), axis=0),
    "quantile": lambda: dnp.quantile(X, dnp.array([0.0, 1.0])),
    "choice": lambda: random.choice(random.key(1), X, (3,), p=nn.softmax(X)),
    "permutation": lambda: random.permutation(random.key(2), X),
    "categorical": lambda: random.categorical(random.key(3), X),
    "gamma": lambda: random.gamma(random.key(4), 2.0, (10,)),
    "one_hot": lambda: nn.one_hot(dnp.array([1, 7]), 4),
    "svd": lambda: dnp.linalg.svd(M),
    "slogdet": lambda: dnp.linalg.slogdet(M),
    "nanmax": lambda: dnp.nanmax(dnp.array([1, dnp.nan])),
    "norm at 0": lambda: dx.grad(dnp.linalg.norm)(X * 0),
    "power at 0": lambda: dx.grad(lambda x: (x**2.5).sum())(X * 0),
    "softplus": lambda: dx.grad(lambda x: nn.softplus(x).sum())(X * 1000),
    "logaddexp": lambda: dx.grad(lambda x: dnp.logaddexp(x, -dnp.inf).sum())(X),
    "scan": lambda: lax.scan(lambda c, i: (c + dnp.asarray(X)[i], c), 0.0, dnp.arange(6)),
    "updates": lambda: lax.fori_loop(0, 6, lambda i, c: c.at[i].add(1.0), dnp.asarray(X)),
    "grad of reads": lambda: dx.grad(lambda x: x[dnp.array([0, 5, -1])].sum())(dnp.asarray(X)),
    "hessian": lambda: dx.hessian(lambda x: dnp.sin(x).prod())(X),
    "vmap of while": lambda: dx.vmap(
        lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + dnp.asarray(X)[s[0]]), (0, 0.0))
    )(dnp.array([2, 6])),
    "vmap of cond": lambda: dx.vmap(
        lambda i: lax.cond(i < 6, lambda i: dnp.asarray(X)[i], lambda i: dnp.float32(0), i)
    )(dnp.array([2, 60])),
    "vjp": lambda: dx.vjp(dx.jit(dnp.tanh), X)[1](X),
    "closures": lambda: dx.jit(lambda x: dx.vmap(lambda y: dx.grad(lambda z: (z * y * x).sum())(y))(x))(X),
    "checkpoint": lambda: dx.grad(dx.checkpoint(lambda x: dnp.sin(x).sum()))(X),
    "custom rule": lambda: dx.grad(lambda x: nn.relu(x).sum())(X),
    "print": lambda: dx.debug.callback(lambda x: None, X),
}  # fmt: skip


@pytest.mark.parametrize("name", INNOCENT)
def test_nothing_is_reported_where_nothing_is_wrong(name: str):
    with dx.debug_mode():
        for f in compiled_and_not(INNOCENT[name]):
            f()


# --- Indices ----------------------------------------------------------------------------------------------


READS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "element": (lambda x, i: x[i], 5, 6),
    "from the end": (lambda x, i: x[i], -6, -7),
    "rows": (lambda x, i: dnp.asarray(M)[i], np.array([0, 5]), np.array([0, 6])),
    "narrow dtype": (lambda x, i: dnp.zeros(120)[i], np.int8(100), np.int8(125)),
    "unsigned": (lambda x, i: x[i], np.uint8(5), np.uint8(200)),
    "fill": (lambda x, i: x.at[i].get(mode="fill"), 5, 6),
    "set": (lambda x, i: x.at[i].set(1), 5, 6),
    "add": (lambda x, i: x.at[i].add(1), np.array([5, 5]), np.array([5, 6])),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), 4, 5),
    "dynamic_update_slice": (lambda x, i: lax.dynamic_update_slice(x, x[:2], (i,)), 4, 5),
    "take": (lambda x, i: dnp.take(x, i), 5, 6),
    "in scan": (lambda x, i: lax.scan(lambda c, j: (c, x[i + j]), 0, dnp.arange(2))[1], 4, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_traced_indices_out_of_bounds_raise(name: str):
    f, good, bad = READS[name]
    with config.override(error_checking_behavior_oob="raise"):
        for g in (f, dx.jit(f), lambda x, i: dx.vmap(f, (None, 0))(x, dnp.asarray(i)[None])):
            for x in (dnp.asarray(X), dx.device_put(X, dx.devices()[0])):
                g(x, dnp.asarray(good))
                with pytest.raises(OutOfBoundsError, match="out-of-bounds indexing for array of shape"):
                    g(x, dnp.asarray(bad))


def test_the_error_names_index_axis_size_and_line():
    def f(m: Any, i: Any, j: Any) -> Any:
        return m[i, j]

    with config.override(error_checking_behavior_oob="raise"), pytest.raises(IndexError) as error:
        dx.jit(f)(M[:, :3], 2, 3)
    text = str(error.value)
    assert "index 3 is out of bounds for axis 1 with size 3" in text
    assert f"{__file__}:{f.__code__.co_firstlineno + 1} (" in text


def test_elements_that_have_left_a_loop_read_nothing():
    """Batched, they stay in the loop, where their index may be past the end."""

    def total(n: Any) -> Any:
        def body(s: Any) -> Any:
            return s[0] + 1, s[1] + dnp.asarray(X)[s[0]]

        return lax.while_loop(lambda s: s[0] < 6, body, (n, 0.0))[1]

    with config.override(error_checking_behavior_oob="raise"):
        found = dx.vmap(total)(dnp.arange(7))
    np.testing.assert_allclose(found, [X[i:].sum() for i in range(7)], rtol=1e-5)


# --- Leaks ------------------------------------------------------------------------------------------------


class Model:
    state: Any = None


model = Model()
table: dict[str, Any] = {}


def into_list(x: Any) -> Any:
    kept.append(x * 2)
    return x.sum()


def into_attribute(x: Any) -> Any:
    model.state = x * 2
    return x.sum()


def into_dict(x: Any) -> Any:
    table["a"] = {"b": [x * 2]}
    return x.sum()


LEAKS = {
    into_list: f"global kept of {__name__}, item 0 of a list",
    into_attribute: "state",
    into_dict: f"global table of {__name__}, key 'a', key 'b', item 0 of a list",
}
WAYS = {
    "jit": dx.jit,
    "grad": dx.grad,
    "vmap": lambda f: lambda x: dx.vmap(f)(x[None]),
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (x,)),
    "jit of grad": lambda f: dx.jit(dx.grad(f)),
}


@pytest.fixture
def whole_memory() -> Iterator[None]:
    """Let searches see the globals of test modules, which conftest.py hides from them."""
    gc.unfreeze()
    yield
    gc.freeze()


LEAKS_BY_WAY = [
    pytest.param(
        f,
        way,
        marks=ci_unless(way == "jit") if f is into_list or way == "jit" else pytest.mark.slow,
        id=f"{f.__name__}-{way}",
    )
    for f in LEAKS
    for way in WAYS
]


@pytest.mark.parametrize(("f", "way"), LEAKS_BY_WAY)
@pytest.mark.usefixtures("whole_memory")
def test_a_leak_is_reported_at_the_end_of_the_transformation_with_its_holder(f: Any, way: str):
    with dx.checking_leaks(), pytest.raises(UnexpectedTracerError, match="still held") as error:
        WAYS[way](f)(dnp.ones(2))
    assert f"held by: {LEAKS[f]}" in str(error.value) or LEAKS[f] == "state" in str(error.value)
    kept.clear()
    table.clear()
    model.state = None
    WAYS[way](f)(dnp.ones(2))  # without the option it goes by
    kept.clear()
    table.clear()
    model.state = None


def test_the_line_that_made_what_leaked_is_named():
    for way in ("jit", "grad"):
        with dx.checking_leaks(), pytest.raises(UnexpectedTracerError) as error:
            WAYS[way](into_list)(dnp.ones(2))
        assert f"it comes from: {__file__}:{into_list.__code__.co_firstlineno + 1} (" in str(error.value)
        kept.clear()


def test_auxiliary_data_is_no_leak():
    def f(x: Any) -> Any:
        return dnp.sum(x * x), (x, 2 * x, "data")

    with dx.checking_leaks():
        found = [way(f, has_aux=True)(dnp.ones(2))[1] for way in (dx.grad, dx.jacfwd, dx.jacrev, dx.hessian)]
        found.append(dx.value_and_grad(f, has_aux=True)(dnp.ones(2))[0][1])
        found.append(dx.jvp(f, (dnp.ones(2),), (dnp.ones(2),), has_aux=True)[2])
        found.extend(way(f, dnp.ones(2), has_aux=True)[2] for way in (dx.vjp, dx.linearize))
    assert all(x.tolist() == [1, 1] and y.tolist() == [2, 2] and z == "data" for x, y, z in found)


def test_a_function_that_fails_is_not_searched_for_leaks():
    def f(x: Any) -> Any:
        kept.append(x)
        raise RuntimeError("its own error")

    with dx.checking_leaks(), pytest.raises(RuntimeError, match="its own error"):
        dx.jit(f)(1.0)
    kept.clear()
