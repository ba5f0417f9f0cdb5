"""First-order optimizers: each is a triple of functions over a pytree of parameters.

    init, update, get_params = adam(1e-3)
    state = init(params)
    state = update(step, gradients, state)     steps count from 0; the step may be traced
    params = get_params(state)

    >>> import didax as dx
    >>> init, update, get_params = momentum(0.1, mass=0.5)
    >>> state = init({"x": 3.0})
    >>> for step in range(60):
    ...     state = update(step, dx.grad(lambda p: p["x"] ** 2)(get_params(state)), state)
    >>> abs(float(get_params(state)["x"])) < 1e-4
    True

The state is a pytree with the structure of the parameters. A step size is a number or a schedule, which is a
function of the step. Read next: `stax.py` for models.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import didax.numpy as dnp
from didax import tree
from didax.core.errors import message

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimizer: `init(params)`, `update(step, gradients, state)`, `get_params(state)`.

    The first two return a state.
    """

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


class Slots(NamedTuple):
    """The state of one parameter: its value, and the arrays that the optimizer remembers for it."""

    value: Any
    memory: tuple[Any, ...]


def _optimizer(memory: Callable[[Any], tuple[Any, ...]], update: Callable[..., tuple[Any, ...]]) -> Optimizer:
    """Make an optimizer from rules for one array: `memory(x)`, and `update(step, g, x, *memory) -> (x, *memory)`."""

    def is_slots(x: Any) -> bool:
        return isinstance(x, Slots)

    def advance(step: Any, slots: Slots, g: Any) -> Slots:
        value, *rest = update(step, g, slots.value, *slots.memory)
        return Slots(value, tuple(rest))

    return Optimizer(
        lambda params: tree.map(lambda x: Slots(dnp.asarray(x), memory(dnp.asarray(x))), params),
        lambda step, gradients, state: tree.map(
            lambda slots, g: advance(step, slots, g), state, gradients, is_leaf=is_slots
        ),
        lambda state: tree.map(lambda slots: slots.value, state, is_leaf=is_slots),
    )


def _no_memory(x: Any) -> tuple[Any, ...]:
    return ()


def _zeros(count: int) -> Callable[[Any], tuple[Any, ...]]:
    return lambda x: tuple(dnp.zeros_like(x) for _ in range(count))


# --- Optimizers ---------------------------------------------------------------------------------------------


def sgd(step_size: Any) -> Optimizer:
    """Return an optimizer that steps along the negative gradient.

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)
    return _optimizer(_no_memory, lambda i, g, x: (x - rate(i) * g,))


def momentum(step_size: Any, mass: float) -> Optimizer:
    """Return an optimizer that sums past gradients, each weighted `mass` times its successor (Polyak, 1964).

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.1, 0.9)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, velocity: Any) -> tuple[Any, ...]:
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return _optimizer(_zeros(1), update)


def nesterov(step_size: Any, mass: float) -> Optimizer:
    """Return an optimizer with momentum that looks one step ahead (Nesterov, 1983).

    The form is that of Sutskever and others (2013).

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.nesterov(0.1, 0.9)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, velocity: Any) -> tuple[Any, ...]:
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return _optimizer(_zeros(1), update)


def adagrad(step_size: Any, momentum: float = 0.9) -> Optimizer:
    """Return an optimizer that divides steps by the root of the sum of squared gradients, with momentum.

    The method is that of Duchi and others (2011).

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adagrad(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, squares: Any, velocity: Any) -> tuple[Any, ...]:
        squares = squares + dnp.square(g)
        scale = dnp.where(squares > 0, 1 / dnp.sqrt(dnp.where(squares > 0, squares, 1.0)), 0.0)
        velocity = (1 - momentum) * (g * scale) + momentum * velocity
        return x - rate(i) * velocity, squares, velocity

    return _optimizer(_zeros(2), update)


def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Optimizer:
    """Return an optimizer that divides steps by the root of a running mean of squared gradients.

    The method is that of Tieleman and Hinton (2012).

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, mean_square: Any) -> tuple[Any, ...]:
        mean_square = gamma * mean_square + (1 - gamma) * dnp.square(g)
        return x - rate(i) * g / dnp.sqrt(mean_square + eps), mean_square

    return _optimizer(_zeros(1), update)


def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Return an optimizer with running means of gradients and of their squares (Kingma and Ba, 2014).

    Both means are corrected for their start at zero.

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adam(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, mean: Any, mean_square: Any) -> tuple[Any, ...]:
        mean = (1 - b1) * g + b1 * mean
        mean_square = (1 - b2) * dnp.square(g) + b2 * mean_square
        unbiased, unbiased_square = mean / (1 - b1 ** (i + 1)), mean_square / (1 - b2 ** (i + 1))
        return x - rate(i) * unbiased / (dnp.sqrt(unbiased_square) + eps), mean, mean_square

    return _optimizer(_zeros(2), update)


def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Return Adam with a running maximum in the place of the mean of squares (Kingma and Ba, 2014).

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adamax(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, mean: Any, largest: Any) -> tuple[Any, ...]:
        mean = (1 - b1) * g + b1 * mean
        largest = dnp.maximum(b2 * largest, dnp.abs(g))
        return x - rate(i) / (1 - b1 ** (i + 1)) * mean / (largest + eps), mean, largest

    return _optimizer(_zeros(2), update)


def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Optimizer:
    """Return RMSProp whose steps are summed, each weighted `momentum` times its successor.

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop_momentum(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any, mean_square: Any, velocity: Any) -> tuple[Any, ...]:
        mean_square = gamma * mean_square + (1 - gamma) * dnp.square(g)
        velocity = momentum * velocity + rate(i) * g / dnp.sqrt(mean_square + eps)
        return x - velocity, mean_square, velocity

    return _optimizer(_zeros(2), update)


def sm3(step_size: Any, momentum: float = 0.9) -> Optimizer:
    """Return Adagrad that remembers one number for each index of each axis (Anil and others, 2019).

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sm3(0.1)
    >>> float(get_params(update(0, 2.0, init(1.0)))) < 1.0
    True
    """
    rate = make_schedule(step_size)

    def memory(x: Any) -> tuple[Any, ...]:
        return dnp.zeros_like(x), *[dnp.zeros(n, x.dtype) for n in x.shape]

    def update(i: Any, g: Any, x: Any, velocity: Any, *covers: Any) -> tuple[Any, ...]:
        axes = range(x.ndim)
        squares = dnp.square(g)
        if covers:
            along = [dnp.expand_dims(c, [a for a in axes if a != axis]) for axis, c in enumerate(covers)]
            squares = functools.reduce(dnp.minimum, along) + squares
        scale = dnp.where(squares > 0, 1 / dnp.sqrt(dnp.where(squares > 0, squares, 1.0)), 0.0)
        velocity = (1 - momentum) * (g * scale) + momentum * velocity
        covers = tuple(squares.max([a for a in axes if a != axis]) for axis in axes)
        return x - rate(i) * velocity, velocity, *covers

    return _optimizer(memory, update)


# --- Schedules ----------------------------------------------------------------------------------------------


def make_schedule(step_size: Any) -> Schedule:
    """Return the schedule that is constant at a number; a schedule is returned as it is.

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.make_schedule(0.1)(5)), 3)
    0.1
    """
    return step_size if callable(step_size) else constant(step_size)


def constant(step_size: Any) -> Schedule:
    """Return the schedule with one step size for all steps.

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.constant(0.1)(5)), 3)
    0.1
    """
    return lambda step: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """Return the schedule step_size * decay_rate ** (step / decay_steps).

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.exponential_decay(1.0, 10, 0.5)(20)), 3)
    0.25
    """
    return lambda step: step_size * decay_rate ** (step / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """Return the schedule step_size / (1 + decay_rate * step / decay_steps).

    With `staircase` the quotient step / decay_steps is rounded down.

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.inverse_time_decay(1.0, 10, 0.5)(20)), 3)
    0.5
    """

    def schedule(step: Any) -> Any:
        progress = step / decay_steps
        return step_size / (1 + decay_rate * (dnp.floor(progress) if staircase else progress))

    return schedule


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """Return the schedule from `step_size` to `final_step_size` within `decay_steps`.

    The distance to the final step size is a power of the share of the steps that remain.

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.polynomial_decay(1.0, 10, 0.0)(5)), 3)
    0.5
    """

    def schedule(step: Any) -> Any:
        left = 1 - dnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Sequence[Any], values: Sequence[Any]) -> Schedule:
    """Return the schedule of values[k] for steps from boundaries[k - 1] (exclusive) to boundaries[k].

    There is one more value than boundaries.

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.piecewise_constant([10, 20], [1.0, 0.5, 0.1])(15)), 3)
    0.5
    """
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            message(
                "A piecewise constant schedule has one value more than boundaries.",
                f"boundaries: {len(boundaries)}, values: {len(values)}",
                fix="Give a value for the steps before each boundary, and one for those after the last.",
            )
        )
    return lambda step: dnp.asarray(values)[dnp.sum(step > dnp.asarray(boundaries))]


# --- Gradients ----------------------------------------------------------------------------------------------


def l2_norm(params: Any) -> Any:
    """Return the norm of the vector of all leaves.

    >>> from didax.example_libraries import optimizers
    >>> float(optimizers.l2_norm({'a': 3.0, 'b': 4.0}))
    5.0
    """
    return dnp.sqrt(sum(dnp.vdot(x, x) for x in tree.leaves(params)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Return the gradients, scaled down where their norm is larger than `max_norm`.

    >>> from didax.example_libraries import optimizers
    >>> optimizers.clip_grads({'a': 3.0, 'b': 4.0}, 1.0)
    {'a': Array(0.6, dtype=float32, weak_type=True), 'b': Array(0.8, dtype=float32, weak_type=True)}
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: dnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)
