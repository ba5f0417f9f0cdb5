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

The state is a pytree, `OptimizerState`. A step size is a number or a schedule, which is a function of the step.
`optimizer` makes an optimizer from rules of your own for one array. Read next: `stax.py` for models.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import didax.numpy as dnp
from didax import tree, tree_util
from didax.core.errors import message
from didax.core.modules import on_access as _on_access

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)

Schedule = Callable[[Any], Any]
Step = int
InitFn = Callable[[Any], "OptimizerState"]
UpdateFn = Callable[[Any, Any, "OptimizerState"], "OptimizerState"]
ParamsFn = Callable[["OptimizerState"], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimizer: `init(params)`, `update(step, gradients, state)`, `get_params(state)`.

    The first two return a state.

    >>> from didax.example_libraries import optimizers
    >>> opt = optimizers.sgd(0.5)
    >>> state = opt.update_fn(0, {"w": 2.0}, opt.init_fn({"w": 3.0}))
    >>> float(opt.params_fn(state)["w"])
    2.0
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


class OptimizerState(NamedTuple):
    """The state of an optimizer: for each parameter the leaves of its state; the trees of parameters and of states.

    A pytree, whose leaves are those of `packed_state`.

    >>> from didax.example_libraries import optimizers
    >>> state = optimizers.momentum(0.1, 0.9).init_fn({"w": 2.0})
    >>> [float(x) for x in tree.leaves(state)]  # the parameter and its velocity
    [2.0, 0.0]
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree_util.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda defs, children: OptimizerState(children[0], *defs),
)


def _state(states: Sequence[Any], tree_def: Any) -> OptimizerState:
    flat = [tree.flatten(x) for x in states]
    return OptimizerState(tuple(leaves for leaves, _ in flat), tree_def, tuple(sub for _, sub in flat))


def _states(state: OptimizerState) -> list[Any]:
    return [tree.unflatten(sub, x) for x, sub in zip(state.packed_state, state.subtree_defs, strict=True)]


def optimizer(opt_maker: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Optimizer]:
    """Make optimizers of pytrees from optimizers of single arrays; a decorator.

    `opt_maker(...)` returns three functions: `init(x) -> state`, `update(step, gradient, state) -> state` and
    `get_params(state) -> x`, of an array `x` and any pytree as its state. TypeError where gradients have another
    structure than the parameters, or an update changes the structure of a state.

    >>> from didax.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def signs(rate):
    ...     return lambda x: x, lambda i, g, x: x - rate * dnp.sign(g), lambda x: x
    >>> init, update, get_params = signs(0.5)
    >>> get_params(update(0, {"w": 3.0}, init({"w": 1.0})))
    {'w': Array(0.5, dtype=float32, weak_type=True)}
    """

    @functools.wraps(opt_maker)
    def of_trees(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_tree(params: Any) -> OptimizerState:
            leaves, tree_def = tree.flatten(params)
            return _state([init(x) for x in leaves], tree_def)

        def update_tree(step: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            leaves, tree_def = tree.flatten(gradients)
            _same_structure("The gradients have the structure of the parameters.", state.tree_def, tree_def)
            new = _state(
                [update(step, g, x) for g, x in zip(leaves, _states(state), strict=True)], state.tree_def
            )
            rule = "An update keeps the structure of the state of a parameter."
            _same_structure(rule, state.subtree_defs, new.subtree_defs)
            return new

        return Optimizer(
            init_tree,
            update_tree,
            lambda state: tree.unflatten(state.tree_def, [get_params(x) for x in _states(state)]),
        )

    return of_trees


def _same_structure(rule: str, before: Any, after: Any) -> None:
    if before != after:
        fix = "Return a tree of the same containers and keys."
        raise TypeError(message(rule, f"before: {before}", f"now: {after}", fix=fix))


def _optimizer(memory: Callable[[Any], tuple[Any, ...]], update: Callable[..., tuple[Any, ...]]) -> Optimizer:
    """Make an optimizer from rules for one array: `memory(x)`, and `update(step, g, x, *memory) -> (x, *memory)`."""

    def init(x: Any) -> tuple[Any, ...]:
        value = dnp.asarray(x)
        return value, *memory(value)

    of_arrays = init, lambda step, g, state: tuple(update(step, g, *state)), lambda state: state[0]
    return optimizer(lambda: of_arrays)()


def _no_memory(x: Any) -> tuple[Any, ...]:
    return ()


def _zeros(count: int) -> Callable[[Any], tuple[Any, ...]]:
    return lambda x: tuple(dnp.zeros_like(x) for _ in range(count))


# --- States that are saved -----------------------------------------------------------------------------------


class JoinPoint:
    """A leaf that holds a tree: where the tree of the parameters ends, and the state of one parameter begins.

    >>> [subtree for subtree in JoinPoint((1.0, 0.0))]
    [(1.0, 0.0)]
    >>> len(tree.leaves({"w": JoinPoint((1.0, 0.0))}))
    1
    """

    def __init__(self, subtree: Any):
        self.subtree = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Return the tree of the parameters with a `JoinPoint` at each leaf, which holds the state of the parameter.

    >>> from didax.example_libraries import optimizers
    >>> unpacked = unpack_optimizer_state(optimizers.momentum(0.1, 0.9).init_fn({"w": 2.0}))
    >>> unpacked["w"].subtree[0]
    Array(2., dtype=float32, weak_type=True)
    """
    return tree.unflatten(opt_state.tree_def, [JoinPoint(x) for x in _states(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Return the state of which `unpack_optimizer_state` has made a tree with a `JoinPoint` at each leaf.

    >>> from didax.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.1, 0.9)
    >>> get_params(pack_optimizer_state(unpack_optimizer_state(init({"w": 2.0}))))
    {'w': Array(2., dtype=float32, weak_type=True)}
    """
    leaves, tree_def = tree.flatten(marked_pytree)
    for x in leaves:
        if not isinstance(x, JoinPoint):
            rule = "pack_optimizer_state takes a tree whose leaves are JoinPoints."
            fix = "Pass what unpack_optimizer_state returned, or wrap the state of each parameter in a JoinPoint."
            raise TypeError(message(rule, f"leaf: {x!r:.100}", fix=fix))
    return _state([x.subtree for x in leaves], tree_def)


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


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """Return the schedule that is constant at a number; a schedule is returned as it is.

    >>> from didax.example_libraries import optimizers
    >>> round(float(optimizers.make_schedule(0.1)(5)), 3)
    0.1
    """
    if callable(scalar_or_schedule):
        return cast("Schedule", scalar_or_schedule)
    if dnp.ndim(scalar_or_schedule):
        rule = "A step size is a number, or a function of the step."
        raise TypeError(
            message(rule, f"step_size: {scalar_or_schedule!r:.100}", fix="Pass a schedule, lambda step: ...")
        )
    return constant(scalar_or_schedule)


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
    shapes = dnp.shape(dnp.asarray(boundaries)), dnp.shape(dnp.asarray(values))
    if any(len(x) != 1 for x in shapes) or shapes[1][0] != shapes[0][0] + 1:
        raise ValueError(
            message(
                "A piecewise constant schedule has one value more than boundaries.",
                f"shapes: boundaries {shapes[0]}, values {shapes[1]}",
                fix="Give a value for the steps before each boundary, and one for those after the last.",
            )
        )
    return lambda step: dnp.asarray(values)[dnp.sum(step > dnp.asarray(boundaries))]


# --- Gradients ----------------------------------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """Return the norm of the vector of all leaves.

    >>> from didax.example_libraries import optimizers
    >>> float(optimizers.l2_norm({'a': 3.0, 'b': 4.0}))
    5.0
    """
    return dnp.sqrt(sum(dnp.vdot(x, x) for x in tree_util.tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Return the gradients, scaled down where their norm is larger than `max_norm`.

    >>> from didax.example_libraries import optimizers
    >>> optimizers.clip_grads({'a': 3.0, 'b': 4.0}, 1.0)
    {'a': Array(0.6, dtype=float32, weak_type=True), 'b': Array(0.8, dtype=float32, weak_type=True)}
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: dnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)
