"""Checks of primitives and functions: of a primitive of yours in your tests, and of all the library's own.

    check(primitive, args, params)    every rule of a primitive against the others
    check_grads(f, args)              jvp against finite differences, vjp against jvp, then the same of the derivatives

`check` asks for types, and computes the value at once, compiled, over batches, and its derivatives. They must agree:
the results of a rule with what the type rule tells, compiled with eager values, a batch with a loop over it, the jvp
with finite differences, the vjp with the jvp. A `Trial` is what it runs; the library's own table of operations runs on
it too. Finite differences are central, of fourth order, with a step suited to the coarsest dtype on the way. The vjp is
compared with the jvp by one number, Re <y_bar, df x_dot> = Re <df^T y_bar, x_dot>, for random x_dot and y_bar: the
pairing does not conjugate. Arguments and results are pytrees; integer leaves are held fixed. A `Trial` tells
zeros of either sign apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import didax.numpy as dnp
from didax import random, tree
from didax.api.autodiff import jvp, linearize, vjp
from didax.api.inspect import eval_shape, make_jaxpr
from didax.api.options import enable_checks
from didax.api.vmap import vmap
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS, as_extended, float0, kind_of
from didax.core.errors import MissingRuleError, message
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import num_consts, parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text
from didax.core.modules import on_access
from didax.core.primitive import Primitive, infer
from didax.core.rule_types import as_list, check_numpy
from didax.primitives.keys import KeyDtype
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.partitioned import buffers_for, partition_of, results_of
from didax.xla.compile import compile_text
from didax.xla.lowering import lower_module

__all__ = [
    "RTOL", "Trial", "assert_close", "check", "check_grads", "check_jvp", "check_linearize", "check_vjp", "random_like",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

F = Callable[..., Any]
_NARROW = (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16))
# relative tolerance for values that two correct programs may round differently
RTOL = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}


def numpy_of(x: Any) -> np.ndarray[Any, Any]:
    """Contents as a NumPy array, of a number in the dtype that it has here; of keys, the numbers behind them."""
    if type(x) in PYTHON_SCALARS:
        return np.asarray(x, aval_of(x).dtype)
    aval = getattr(x, "aval", None)
    if isinstance(aval, ShapedArray) and aval.physical is not aval:
        return as_concrete(x).host_value()
    return np.asarray(x)


def dtype_of(x: Any) -> np.dtype[Any]:
    """The dtype in which functions take it: 64-bit numbers of NumPy's are narrowed."""
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "iufc":
        return aval_of(x).dtype
    return x.dtype if hasattr(x, "dtype") else eval_shape(lambda y: y, x).dtype


def is_inexact(x: Any) -> bool:
    dtype = dtype_of(x)
    return dtype.kind in "fc" or dtype in _NARROW


def wide(x: Any) -> np.ndarray[Any, Any]:
    """In float64 or complex128, where sums and differences of narrow values are exact enough."""
    x = numpy_of(x)
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if is_inexact(x) else x


def assert_close(
    found: Any,
    wanted: Any,
    rtol: float | None = None,
    atol: float | None = None,
    what: str = "",
    *,
    signed_zeros: bool = False,
) -> None:
    """Equal structure, shapes and dtypes, and values within the tolerance of the dtype (0 for integers).

    A Python number has any dtype.

    Where both are zero they have the same sign, if `signed_zeros`; of sums in another order they may not.

    Raises AssertionError where they are not.

    >>> assert_close({"x": dnp.float32(0.1) * 3}, {"x": np.float32(0.3)})
    """
    found_leaves, wanted_leaves = tree.leaves(found), tree.leaves(wanted)
    assert len(found_leaves) == len(wanted_leaves), f"{what}: {found} has other leaves than {wanted}"
    for i, (a, b) in enumerate(zip(found_leaves, wanted_leaves, strict=True)):
        assert_close_arrays(a, b, rtol, atol, f"{what}, leaf {i}", signed_zeros)


def assert_close_arrays(
    a: Any, b: Any, rtol: float | None, atol: float | None, what: str, signed_zeros: bool = False
) -> None:
    # A Python number has no dtype of its own.
    stated = type(a) not in PYTHON_SCALARS and type(b) not in PYTHON_SCALARS
    a, b = numpy_of(a), numpy_of(b)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    assert not stated or a.dtype == b.dtype, f"{what}: dtype {a.dtype}, expected {b.dtype}"
    if not is_inexact(a):
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    tolerance = RTOL[a.dtype.name] if rtol is None else rtol
    # the error of a sum scales with its largest term, which we do not see: allow it relative to the array
    floor = tolerance * finite_scale(b) if atol is None else atol
    np.testing.assert_allclose(wide(a), wide(b), rtol=tolerance, atol=floor, err_msg=what)
    if signed_zeros:
        signs = signs_of_zeros(a, b), signs_of_zeros(b, a)
        np.testing.assert_array_equal(*signs, err_msg=f"{what}: signs of zeros")


def signs_of_zeros(x: Any, other: Any) -> np.ndarray[Any, Any]:
    """Which of the elements that are zero in both arrays are -0.0 in `x`; of complex numbers, in either part."""
    x, other = wide(x), wide(other)
    if x.dtype.kind == "c":
        return np.stack([signs_of_zeros(x.real, other.real), signs_of_zeros(x.imag, other.imag)])
    return (x == 0) & (other == 0) & np.signbit(x)


def finite_scale(x: Any) -> float:
    """The largest finite magnitude in an array, at most 1 where nothing is larger."""
    magnitudes = np.abs(wide(x))
    magnitudes = magnitudes[np.isfinite(magnitudes)]
    return max(float(magnitudes.max(initial=0.0)), 1e-30)


# --- Tangents -----------------------------------------------------------------------------------------------


def random_like(rng: np.random.Generator, x: Any) -> Any:
    """A random tangent or cotangent for each leaf: float0 for integers.

    >>> x_dot = random_like(np.random.default_rng(0), {"x": np.ones(2, "float32"), "n": 3})
    >>> x_dot["x"].shape, x_dot["n"].dtype == float0
    ((2,), True)
    """

    def leaf(y: Any) -> Any:
        dtype, shape = dtype_of(y), np.shape(y)
        if not is_inexact(y):
            return np.zeros(shape, float0)
        numbers = rng.normal(size=shape)
        if dtype.kind == "c":
            numbers = numbers + 1j * rng.normal(size=shape)
        return dnp.asarray(np.asarray(numbers).astype(dtype), dtype=dtype)

    return tree.map(leaf, x)


def pairing(a: Any, b: Any) -> float:
    """Re of the sum of products, over all leaves."""
    total = 0.0
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        if numpy_of(x).dtype != float0:
            total += float(np.real(np.sum(wide(x) * wide(y))))
    return total


def coarsest_eps(*trees: Any) -> float:
    """Relative precision of the coarsest inexact dtype among the leaves."""
    dtypes = [dtype_of(x) for x in tree.leaves(trees) if is_inexact(x)]
    return max([float(ml_dtypes.finfo(d).eps) for d in dtypes], default=np.finfo(float).eps)


def numerical_jvp(
    f: F,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    eps: float | None = None,
    step: float | None = None,
) -> tuple[Any, float]:
    """Difference quotient of `f` along the tangents, in wide dtypes, and its expected relative error.

    `eps` is the relative error of the values of `f`, by default that of its dtypes. Four points cancel the truncation
    error up to fourth order, so that a pole nearby does not matter.
    """
    eps = coarsest_eps(primals, f(*primals)) if eps is None else eps
    distance = eps ** (1 / 3) if step is None else step

    def at(steps: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            if numpy_of(t).dtype == float0:
                return x
            return (wide(x) + steps * distance * wide(t)).astype(dtype_of(x))

        return f(*tree.map(move, tuple(primals), tuple(tangents)))

    def quotient(a: Any, b: Any, c: Any, d: Any) -> np.ndarray:
        if not is_inexact(a):
            return np.zeros(np.shape(a))
        return (8 * (wide(b) - wide(c)) - (wide(a) - wide(d))) / (12 * distance)

    return tree.map(quotient, at(+2), at(+1), at(-1), at(-2)), 20 * max(eps / distance, distance**4)


# --- Derivatives --------------------------------------------------------------------------------------------


def check_jvp(f: F, args: Sequence[Any], rng: np.random.Generator, eps: float | None = None) -> None:
    """The jvp agrees with finite differences, and its primal result with `f`.

    Raises AssertionError where they do not agree.

    >>> check_jvp(dnp.sin, (np.float32(1.0),), np.random.default_rng(0))
    """
    args = tuple(args)
    tangents = random_like(rng, args)
    out, out_dot = jvp(f, args, tangents)
    assert_close(out, f(*args), what="primal result of jvp")
    numerical, error = numerical_jvp(f, args, tangents, eps)
    for i, (y, y_dot, want) in enumerate(
        zip(tree.leaves(out), tree.leaves(out_dot), tree.leaves(numerical), strict=True)
    ):
        if not is_inexact(y):
            assert numpy_of(y_dot).dtype == float0, f"jvp, leaf {i}: tangent of an integer is not float0"
            continue
        assert numpy_of(y_dot).dtype == dtype_of(y), f"jvp, leaf {i}: dtype of the tangent"
        atol = error * max(finite_scale(want), finite_scale(y), 1e-3)
        np.testing.assert_allclose(wide(y_dot), want, rtol=error, atol=atol, err_msg=f"jvp, leaf {i}")


def check_vjp(f: F, args: Sequence[Any], rng: np.random.Generator) -> None:
    """The vjp is the transpose of the jvp, and cotangents have the arguments' types.

    Raises AssertionError where it is not.

    >>> check_vjp(dnp.sin, (np.float32(1.0),), np.random.default_rng(0))
    """
    args = tuple(args)
    out, f_vjp = vjp(f, *args)
    x_dots, y_bars = random_like(rng, args), random_like(rng, out)
    _, y_dots = jvp(f, args, x_dots)
    x_bars = f_vjp(y_bars)
    for x, x_bar in zip(tree.leaves(args), tree.leaves(x_bars), strict=True):
        wanted = dtype_of(x) if is_inexact(x) else float0
        assert numpy_of(x_bar).dtype == wanted, (
            f"cotangent of dtype {numpy_of(x_bar).dtype} for {dtype_of(x)}"
        )
        assert np.shape(x_bar) == np.shape(x), f"cotangent of shape {np.shape(x_bar)} for {np.shape(x)}"
    forward, backward = pairing(y_bars, y_dots), pairing(x_bars, x_dots)
    scale = sum(
        float(np.sum(np.abs(wide(a) * wide(b))))
        for a, b in zip(tree.leaves(x_bars), tree.leaves(x_dots), strict=True)
        if numpy_of(a).dtype != float0
    )
    tolerance = 100 * coarsest_eps(args, out) * max(scale, abs(forward), 1e-3)
    assert abs(forward - backward) <= tolerance, f"<y_bar, jvp> = {forward}, <vjp, x_dot> = {backward}"


def check_linearize(f: F, args: Sequence[Any], rng: np.random.Generator) -> None:
    """linearize computes what jvp computes.

    Raises AssertionError where it does not.

    >>> check_linearize(dnp.sin, (np.float32(1.0),), np.random.default_rng(0))
    """
    args = tuple(args)
    tangents = random_like(rng, args)
    out, out_dot = jvp(f, args, tangents)
    y, f_lin = linearize(f, *args)
    rtol = 50 * coarsest_eps(args, out)
    assert_close(y, out, what="primal result of linearize")
    assert_close(f_lin(*tangents), out_dot, rtol=rtol, what="linearize")


def check_grads(
    f: F,
    args: Sequence[Any],
    order: int = 2,
    rng: np.random.Generator | None = None,
    eps: float | None = None,
) -> None:
    """jvp, vjp and linearize of `f` at `args`, and, up to `order`, of its derivatives in both modes.

    Raises AssertionError where two of them do not agree.

    >>> check_grads(lambda x: dnp.sin(x) * x, (np.float32(1.0),), order=1)
    """
    rng = rng or np.random.default_rng(0)
    check_jvp(f, args, rng, eps)
    check_vjp(f, args, rng)
    check_linearize(f, args, rng)
    if order > 1:
        x_dots, y_bars = random_like(rng, tuple(args)), random_like(rng, f(*args))
        # tangents and cotangents are fixed: the derivative in them is the linear map itself, checked above
        check_grads(lambda *xs: inexact_leaves(jvp(f, xs, x_dots)[1]), args, order - 1, rng, eps)
        check_grads(lambda *xs: inexact_leaves(vjp(f, *xs)[1](y_bars)), args, order - 1, rng, eps)


def inexact_leaves(tangents: Any) -> list[Any]:
    """Leaves that are not float0, which no program can return."""
    return [t for t in tree.leaves(tangents) if getattr(t, "dtype", None) != float0]


def assert_round_trips(jaxpr: Any) -> None:
    """text -> jaxpr -> text is the identity, and the jaxpr read back is as legal as the one written."""
    text = str(jaxpr)
    parsed = parse_jaxpr(text)
    assert jaxpr_text(parsed, num_consts(text)) == text
    check_jaxpr(parsed)


# --- One function, computed in every way ----------------------------------------------------------------------


class Trial:
    """A function at two draws of arguments, of the same types, and what is computed of it.

    `argnums` are the arguments to differentiate. A function that is not `batchable` is not mapped over. Without
    `signed_zeros`, 0.0 and -0.0 are one number: where a sum begins with a zero of either sign.

    >>> trial = Trial(dnp.sin, [np.float32(1.0)], [np.float32(2.0)], argnums=[0])
    >>> sorted(trial.check_compiled())
    ['corners', 'jvp', 'value', 'vjp', 'vmap in_axes=(-1,)', 'vmap in_axes=(0,)']
    """

    def __init__(
        self,
        fun: F,
        args: Sequence[Any],
        more: Sequence[Any],
        *,
        argnums: Sequence[int] = (),
        batchable: bool = True,
        rtol: float | None = None,
        signed_zeros: bool = True,
        rng: np.random.Generator | None = None,
    ):
        self.fun = fun
        self.args = list(args)
        self.more = list(more)
        self.argnums = list(argnums)
        self.batchable = batchable
        self.rtol = rtol
        self.signed_zeros = signed_zeros
        self.rng = np.random.default_rng(0) if rng is None else rng
        if self.argnums:
            self.x_dots = random_like(self.rng, self.chosen(self.args))
            self.y_bars = random_like(self.rng, fun(*self.args))

    def chosen(self, args: Any) -> tuple[Any, ...]:
        """The arguments to differentiate."""
        return tuple(args[i] for i in self.argnums)

    def at(self, args: Any) -> F:
        """The function of the arguments to differentiate, the others as in `args`."""

        def of_chosen(*xs: Any) -> Any:
            values = dict(zip(self.argnums, xs, strict=True))
            return self.fun(*[values.get(i, x) for i, x in enumerate(args)])

        return of_chosen

    def batches(self) -> dict[str, tuple[tuple[int | None, ...], list[Any]]]:
        """in_axes to try, with arguments: all batched at axis 0, then each alone, at its last axis."""
        n = len(self.args)
        if not n or not self.batchable:
            return {}
        alone = [tuple(-1 if j == i else None for j in range(n)) for i in range(n)]
        return {f"vmap in_axes={axes}": (axes, self.stacked(axes)) for axes in [(0,) * n, *alone]}

    def stacked(self, axes: tuple[int | None, ...]) -> list[Any]:
        """Arguments with both draws along the axes that are batched."""
        return [
            x if axis is None else tree.map(lambda a, b, axis=axis: _stack([a, b], axis), x, y)
            for x, y, axis in zip(self.args, self.more, axes, strict=True)
        ]

    def values(self, args: Any, corners: list[Any]) -> dict[str, Any]:
        """The value, and those at the corners."""
        return {"value": self.fun(*args), "corners": [self.fun(*corner) for corner in corners]}

    def everything(self, args: Any, batches: dict[str, Any], corners: list[Any]) -> dict[str, Any]:
        """All that is compared between eager and compiled, with those batches that are given."""
        results = self.values(args, corners)
        for name, (axes, _) in self.batches().items():
            if name in batches:
                results[name] = vmap(self.fun, axes)(*batches[name])
        if self.argnums:
            of_chosen, xs = self.at(args), self.chosen(args)
            results["jvp"] = inexact_leaves(jvp(of_chosen, xs, self.x_dots)[1])
            results["vjp"] = inexact_leaves(vjp(of_chosen, *xs)[1](self.y_bars))
        return results

    def check_compiled(
        self, corners: Sequence[Any] = (), has_text: bool = True, batched: bool = True
    ) -> dict[str, Any]:
        """Everything, compiled as one program (batches if `batched`), is what it is at once; returns the latter."""
        batches = {name: stacked for name, (_, stacked) in self.batches().items()}
        eager = self.everything(self.args, batches, list(corners))
        inputs = self.args, batches if batched else {}, list(corners)
        self._compare(_compiled(self.everything, inputs, has_text), eager, "compiled {}")
        return eager

    def check_values_compiled(
        self, eager: dict[str, Any], corners: Sequence[Any], has_text: bool, options: Any
    ) -> None:
        """The values, compiled with these options of XLA, are those that were computed at once."""
        found = _compiled(self.values, (self.args, list(corners)), has_text, options)
        self._compare(found, eager, "{}, compiled with options")

    def _compare(self, found: dict[str, Any], wanted: dict[str, Any], what: str) -> None:
        for key, value in found.items():
            assert_close(value, wanted[key], self.rtol, what=what.format(key), signed_zeros=self.signed_zeros)

    def check_batches(self, eager: dict[str, Any]) -> None:
        """Each batch is what a loop over it computes."""
        for name, (axes, _) in self.batches().items():
            mixed = [x if axis is None else y for x, y, axis in zip(self.args, self.more, axes, strict=True)]
            looped = tree.map(lambda x, y: _stack([x, y], 0), self.fun(*self.args), self.fun(*mixed))
            assert_close(eager[name], looped, self.rtol, what=name, signed_zeros=self.signed_zeros)

    def check_empty_batches(self) -> None:
        """Over an axis of length 0: results and cotangents of the right types, with nothing in them."""
        outs = tree.leaves(eval_shape(self.fun, *self.args))
        for axes, _ in self.batches().values():
            args = [x if a is None else _empty_batch(x) for x, a in zip(self.args, axes, strict=True)]
            mapped = vmap(self.fun, [None if a is None else 0 for a in axes])
            found = tree.leaves(mapped(*args))
            assert [(y.shape, y.dtype) for y in found] == [((0, *y.shape), y.dtype) for y in outs]
            if not self.argnums:
                continue
            values = dict(enumerate(args))

            def of_chosen(*xs: Any, mapped: Any = mapped, values: Any = values) -> Any:
                return mapped(*{**values, **dict(zip(self.argnums, xs, strict=True))}.values())

            check_vjp(of_chosen, self.chosen(args), self.rng)


def _stack(xs: Sequence[Any], axis: int) -> Any:
    if any(as_extended(dtype_of(x)) is not None for x in xs):
        return dnp.stack(xs, axis)
    stacked = np.stack([np.asarray(x) for x in xs], axis)
    return dnp.asarray(stacked, dtype=stacked.dtype)


def _empty_batch(x: Any) -> Any:
    return tree.map(lambda leaf: vmap(lambda _: leaf)(dnp.zeros(0)), x)


def _compiled(fun: F, args: Sequence[Any], has_text: bool, options: Any = None) -> Any:
    """Results of `fun` staged, checked, printed, parsed, and compiled as one program."""
    jaxpr, out = make_jaxpr(fun, return_shape=True)(*args)
    if has_text:
        assert_round_trips(jaxpr)
    callbacks: list[Any] = []
    inputs = [as_concrete(x) for x in (*jaxpr.consts, *tree.leaves(args))]
    partition = partition_of(jaxpr.jaxpr, (), inputs)
    text = lower_module(jaxpr.jaxpr, callbacks=callbacks, partition=partition)
    executable = compile_text(
        text, jaxpr.out_avals, None, False, options, callbacks, partition, jaxpr.jaxpr.in_avals
    )
    if partition is not None:
        values = results_of(executable, executable.run(buffers_for(executable.in_shardings, inputs)))
    else:
        buffers = executable.run([x.device_buffer() for x in inputs])
        values = [ConcreteArray(aval, None, b) for aval, b in zip(jaxpr.out_avals, buffers, strict=True)]
    return tree.unflatten(tree.structure(out), values)


# --- A primitive ------------------------------------------------------------------------------------------------


@enable_checks(True)
def check(
    primitive: Primitive,
    args: Sequence[Any],
    params: Mapping[str, Any] | None = None,
    *,
    more: Sequence[Any] | None = None,
    rtol: float | None = None,
    order: int = 2,
    signed_zeros: bool = True,
) -> None:
    """Check every rule of a primitive at sample operands: AssertionError, or RuleError, names the rule that is wrong.

    Args:
      primitive: the primitive, or what a family such as `rules.unary` has made.
      args: operands: arrays of different numbers, away from kinks and poles if the primitive has derivatives. Try
        several dtypes, and shapes with axes longer than 2, which is the size of the batches.
      params: its static parameters.
      more: other operands of the same types, for batches of two. Left out, they are the elements of `args` in the
        reverse order; of an operand that reads the same in both orders, such as a scalar, numbers close by (where its
        dtype is an extended one of yours, pass `more`).
      rtol: relative tolerance, where the one of the dtype (`RTOL`) is too tight.
      order: how many times it is differentiated.
      signed_zeros: whether 0.0 and -0.0 are different; say False of sums, which may begin with either.

    Rules that are left out are not checked where `holes` gives a reason, nor is `eager`. It is not checked that the
    value is the right one: compare it with a reference of yours.

    >>> import numpy as np
    >>> from didax.extend import rules
    >>> class Double(rules.LinearUnary):
    ...     def type(self, x):
    ...         return x
    ...     def eager(self, x):
    ...         return x + x
    ...     def lower(self, ctx, x):
    ...         return ctx.op("add", [x, x])
    ...     def transpose(self, y_bar, x):
    ...         return [y_bar]  # wrong
    ...     def batch(self, axis, args, dims):
    ...         return self.bind(*args), dims[0]
    >>> check(Double("double"), [np.float32([1.0, 2.0])])
    Traceback (most recent call last):
    AssertionError: The `transpose` of primitive 'double' does not agree with its other rules.
      checked: the vjp is the transpose of the jvp...
    """
    _check_given(primitive, args)
    params = dict(params or {})
    args = [as_concrete(x) for x in args]
    avals = tuple([x.aval for x in args])
    said = _Sayings(primitive, avals, params)
    wanted = infer(primitive, avals, params)

    def fun(*xs: Any) -> Any:
        return primitive.bind(*xs, **params)

    more = _second_draw(fun, args) if more is None else [as_concrete(x) for x in more]
    with said("eager", "NumPy values have the types that the type rule tells, and operands stay as they are"):
        _check_eager(primitive, args, params, wanted)
    differentiable = [i for i, x in enumerate(args) if is_inexact(x)] if any(map(is_inexact, wanted)) else []
    if not said.has("jvp") and primitive.linearize is None:
        differentiable = []
    trial = Trial(fun, args, more, batchable=said.has("batch"), rtol=rtol, signed_zeros=signed_zeros)
    if said.has("lower"):
        with said("lower", "compiled values, and batches, are those that are computed at once"):
            eager = trial.check_compiled()
    else:
        eager = trial.everything(args, {name: stacked for name, (_, stacked) in trial.batches().items()}, [])
    with said("batch", "a batch is what a loop over it computes"):
        trial.check_batches(eager)
        trial.check_empty_batches()
    if primitive.moves_elements:
        with said("moves_elements", "what comes out at a place follows from the places of what went in"):
            _check_moves(primitive, args, params)
    if differentiable:
        trial = Trial(
            fun, args, more, argnums=differentiable, batchable=False, rtol=rtol, signed_zeros=signed_zeros
        )
        _check_derivatives(trial, said, order)


def _check_given(primitive: Any, args: Any) -> None:
    if not isinstance(primitive, Primitive):
        got = f"got: {primitive!r:.100} of type {type(primitive).__name__}"
        is_class = isinstance(primitive, type) and issubclass(primitive, Primitive)
        fix = "Pass an instance of the class." if is_class else "Pass the primitive itself, not its `bind`."
        raise TypeError(message("check takes a primitive.", got, fix=fix))
    if not isinstance(args, (list, tuple)):
        rule = "The operands of a primitive are a list or a tuple, one operand each."
        raise TypeError(message(rule, f"got: {type(args).__name__}", fix="Pass [x], of a single operand x."))


def _check_derivatives(trial: Trial, said: _Sayings, order: int) -> None:
    of_chosen, xs = trial.at(trial.args), trial.chosen(trial.args)
    with said("jvp", "the jvp agrees with finite differences, and its result with the value"):
        check_jvp(of_chosen, xs, trial.rng)
    with said("transpose", "the vjp is the transpose of the jvp"):
        check_vjp(of_chosen, xs, trial.rng)
    rule = "jvp" if said.primitive.linearize is None else "linearize"
    with said(rule, "linearize computes what jvp computes"):
        check_linearize(of_chosen, xs, trial.rng)
    if order > 1:
        with said("jvp", "derivatives of the derivatives agree as well"):
            check_grads(of_chosen, xs, order, trial.rng)
    if said.has("lower"):
        with said("lower", "compiled derivatives are those that are computed at once"):
            trial.check_compiled()


def _check_eager(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], wanted: Sequence[Any]
) -> None:
    avals = tuple([x.aval for x in args])
    rule = primitive.eager_for(avals)
    if rule is None or any(aval.physical is not aval for aval in (*avals, *wanted)):
        return
    values = [np.array(x.host_value()) for x in args]
    before = [x.copy() for x in values]
    with np.errstate(all="ignore"):
        outs = rule(*[x[()] for x in values], **params)
    check_numpy(primitive, outs, wanted)
    for i, (x, kept) in enumerate(zip(values, before, strict=True)):
        assert x.tobytes() == kept.tobytes(), f"operand {i} was written to: it is the caller's, copy it first"


def _check_moves(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """The primitive on places is the primitive on elements: out[i] = elements[places[i]]."""
    dtype = args[0].dtype
    places, start = list[Any](), 0
    for x in args:
        moved = x.dtype == dtype
        numbers = np.arange(start, start + x.size, dtype=np.int32).reshape(x.shape)
        places.append(as_concrete(numbers) if moved else x)
        start += x.size if moved else 0
    if dtype == np.dtype(bool) or any(x.dtype != dtype for x in args):
        return  # a choice by conditions or indices moves what they say
    elements = np.concatenate([numpy_of(x).reshape(x.size, *numpy_of(x).shape[x.ndim :]) for x in args])
    outs = as_list(primitive, primitive.bind(*args, **params))
    for y, found in zip(outs, as_list(primitive, primitive.bind(*places, **params)), strict=True):
        at = np.asarray(found)
        assert ((at >= 0) & (at < start)).all(), f"places {at} of {start} elements"
        assert_close_arrays(y, elements[at], 0, 0, "elements", signed_zeros=True)


def _second_draw(fun: F, args: Sequence[Any]) -> list[Any]:
    """Other operands of the same types, for batches of two, whose two elements must differ to tell rules apart.

    Operands are reversed. Those that stay the same are moved, down or else up: the value is to be finite where it is so
    at the first operands.
    """
    reverse = [as_concrete(dnp.reshape(dnp.reshape(x, -1)[::-1], x.shape)) for x in args]
    stays = [x.size > 0 and _bits(x) == _bits(y) for x, y in zip(args, reverse, strict=True)]
    if not any(stays):
        return reverse
    draws = [
        [_moved(x, up) if same else y for x, y, same in zip(args, reverse, stays, strict=True)]
        for up in (False, True)
    ]
    finite = _finite(fun(*args))
    return next((draw for draw in draws if _finite(fun(*draw)) == finite), draws[0])


def _bits(x: Any) -> bytes:
    return numpy_of(x).tobytes()


def _finite(outs: Any) -> list[bytes]:
    """Which elements of results are finite, as far as they are numbers."""
    return [np.isfinite(wide(y)).tobytes() for y in tree.leaves(outs) if dtype_of(y) != float0]


def _moved(x: Any, up: bool) -> Any:
    """Other elements of the type of `x`, close by, of the same signs. Elements that are no numbers stay, but keys."""
    if as_extended(x.dtype) is not None:
        bits = random.key_data(x) if isinstance(x.dtype, KeyDtype) else None
        return x if bits is None else random.wrap_key_data(bits ^ np.uint32(1), dtype=x.dtype)
    kind, numbers = kind_of(x.dtype), np.asarray(x)
    if kind == "b":
        moved = ~numbers
    elif kind in "iu":
        moved = _next_integers(numbers.astype(object), ml_dtypes.iinfo(x.dtype))
    else:
        near, far, nothing = (1.125, 2.0, 0.125) if up else (0.875, 0.5, -0.125)
        exact = numbers.astype(np.complex128 if kind == "c" else np.float64)
        rounded = (exact * near).astype(x.dtype)
        # A narrow dtype has no number so near.
        moved = np.where(rounded == numbers, exact * far, exact * near)
        moved = np.where(np.isfinite(exact), np.where(exact == 0, nothing, moved), 1.0)
    return as_concrete(dnp.asarray(moved.astype(x.dtype), dtype=x.dtype))


def _next_integers(n: Any, bounds: Any) -> Any:
    """Integers closer to zero by one; those next to zero further away, as far as the dtype has such."""
    signs = np.where(n < 0, -1, 1)
    moved = np.where(abs(n) > 1, n - signs, n + signs)
    return np.where((moved > bounds.max) | (moved < bounds.min), n - signs, moved)


class _Sayings:
    """What is said of a check that fails: the rule to look at, what was checked, and at which operands."""

    def __init__(self, primitive: Primitive, avals: Sequence[Any], params: dict[str, Any]):
        self.primitive = primitive
        self._facts = [f"operands: {', '.join(map(str, avals))}"]
        self._facts += [f"parameters: {', '.join(f'{k}={v!r}' for k, v in params.items())}"] if params else []

    def has(self, rule: str) -> bool:
        """Whether a rule is to be checked: it is there, or no reason is given why it is not."""
        return getattr(self.primitive, rule) is not None or rule not in self.primitive.holes

    @contextlib.contextmanager
    def __call__(self, rule: str, checked: str) -> Generator[None]:
        """Say what was checked in the errors of a block. Rules that are absent for a reason are no fault."""
        p = self.primitive
        try:
            yield
        except MissingRuleError as error:
            stated = [f"it has no {hole} rule" for hole in p.holes]
            if repr(p.name) not in str(error) or not any(part in str(error) for part in stated):
                raise
        except AssertionError as error:
            what = f"The `{rule}` of primitive {p.name!r} does not agree with its other rules."
            facts = [f"checked: {checked}", *self._facts, *str(error).strip().splitlines()]
            fix = f"Correct the `{rule}` of {type(p).__name__}, or the rules that it is compared with."
            raise AssertionError(message(what, *facts, fix=fix)) from None
