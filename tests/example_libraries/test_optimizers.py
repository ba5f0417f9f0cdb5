"""Each optimizer takes the steps of jax.example_libraries.optimizers, eagerly and jitted; schedules and clipping."""

import jax
import numpy as np
import pytest
from jax.example_libraries import optimizers as theirs

import didax as dx
import didax.numpy as dnp
from didax.example_libraries import optimizers as ours

WAYS = {
    "sgd": (0.1,),
    "momentum": (0.1, 0.9),
    "nesterov": (0.1, 0.9),
    "adagrad": (0.1,),
    "rmsprop": (0.1,),
    "rmsprop_momentum": (0.1,),
    "sm3": (0.1,),
    "adam": (0.1,),
    "adamax": (0.1,),
}


def loss(p, np_like):
    return ((p["w"] @ np_like.asarray([1.0, -2.0, 0.5]) - p["b"][0]) ** 2).sum() + (p["b"][0] ** 4).sum()


def start():
    return {"w": np.arange(6, dtype="float32").reshape(2, 3) / 5, "b": (np.float32([0.3, -0.2]),)}


@pytest.mark.parametrize("name", WAYS)
def test_same_trajectory_as_jax(name: str) -> None:
    init, update, get = getattr(ours, name)(*WAYS[name])
    init_, update_, get_ = getattr(theirs, name)(*WAYS[name])
    state, eager_state, state_ = init(start()), init(start()), init_(start())
    step = dx.jit(lambda i, s: update(i, dx.grad(lambda p: loss(p, dnp))(get(s)), s))
    for i in range(8):
        state = step(i, state)
        eager_state = update(i, dx.grad(lambda p: loss(p, dnp))(get(eager_state)), eager_state)
        state_ = update_(i, jax.grad(lambda p: loss(p, jax.numpy))(get_(state_)), state_)
    want = jax.tree.leaves(get_(state_))
    for found in (get(state), get(eager_state)):
        assert dx.tree.structure(found) == dx.tree.structure(start())
        for x, y in zip(dx.tree.leaves(found), want, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name, args",
    [
        ("constant", (0.5,)),
        ("exponential_decay", (0.5, 10, 0.9)),
        ("inverse_time_decay", (0.5, 4, 0.9)),
        ("inverse_time_decay", (0.5, 4, 0.9, True)),
        ("polynomial_decay", (0.5, 8, 0.1, 2.0)),
        ("piecewise_constant", ([3, 6], [0.3, 0.2, 0.1])),
    ],
)
def test_schedules(name: str, args: tuple) -> None:
    f, g = getattr(ours, name)(*args), getattr(theirs, name)(*args)
    for step in range(12):
        np.testing.assert_allclose(float(dx.jit(f)(step)), float(g(step)), rtol=1e-5)


def test_clipping_keeps_directions() -> None:
    grads = {"a": dnp.array([3.0, 0.0]), "b": dnp.array([[4.0]])}
    assert float(ours.l2_norm(grads)) == pytest.approx(5.0)
    clipped = ours.clip_grads(grads, 1.0)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(ours.clip_grads(grads, 10.0)["b"], [[4.0]])
    assert np.isfinite(ours.clip_grads({"a": dnp.zeros(2)}, 1.0)["a"]).all()


def test_a_schedule_with_too_few_values_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"one value more than boundaries(.|\n)*boundaries \(2,\), values \(2,\)"
    ):
        ours.piecewise_constant([1, 2], [0.1, 0.2])
    with pytest.raises(TypeError, match="A step size is a number, or a function of the step"):
        ours.sgd(np.ones(2))


def test_an_optimizer_of_arrays_is_one_of_trees() -> None:
    @ours.optimizer
    def with_memory(rate: float):
        def update(i, g, state):
            return {"x": state["x"] - rate * g, "last": g if i < 2 else (g,)}

        return lambda x: {"x": x, "last": dnp.zeros_like(x)}, update, lambda state: state["x"]

    init, update, get = with_memory(0.5)
    params = {"w": dnp.ones(2), "b": [dnp.array(3.0)]}
    state = update(0, params, init(params))
    assert [x.tolist() for x in dx.tree.leaves(get(state))] == [1.5, [0.5, 0.5]]
    again = ours.pack_optimizer_state(ours.unpack_optimizer_state(state))
    assert (
        dx.tree.structure(again) == dx.tree.structure(state) == dx.tree.structure(dx.jit(lambda s: s)(state))
    )
    with pytest.raises(TypeError, match="gradients have the structure of the parameters"):
        update(0, {"w": 1.0}, state)
    with pytest.raises(TypeError, match="keeps the structure of the state"):
        update(2, params, state)
    with pytest.raises(TypeError, match="leaves are JoinPoints"):
        ours.pack_optimizer_state(params)


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the names are those of JAX 0.10")
def test_names_are_those_of_jax() -> None:
    own = {
        name for name in dir(theirs) if getattr(getattr(theirs, name), "__module__", "") == theirs.__name__
    }
    assert {name for name in own if not name.startswith("_")} - set(dir(ours)) == set()
