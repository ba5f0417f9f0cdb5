"""`extend.testing.check`: right primitives pass, and each wrong rule is named, also where no type is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, random
from didax.core.primitive_names import by_name
from didax.extend import core, rules, testing

_numbers = itertools.count()
X = np.float32([[0.3, 0.7, 1.2], [0.4, -0.6, 0.2]])


class Scaled(rules.LinearUnary):
    """`factor * x`, with right rules."""

    def type(self, x: Any, *, factor: float) -> Any:
        return x

    def eager(self, x: Any, *, factor: float) -> Any:
        return x * x.dtype.type(factor)

    def lower(self, ctx: Any, x: Any, *, factor: float) -> Any:
        return ctx.op("multiply", [x, ctx.constant(factor, x.aval)])

    def transpose(self, ct: Any, x: Any, *, factor: float) -> Any:
        return [self.bind(ct, factor=factor)]

    def batch(self, axis: Any, args: Any, dims: Any, *, factor: float) -> Any:
        return self.bind(args[0], factor=factor), dims[0]


def changed(**attributes: Any) -> core.Primitive:
    return type("Changed", (Scaled,), attributes)(f"checked_{next(_numbers)}_of_a_test")


def eager_that_writes(self: Any, x: Any, *, factor: float) -> Any:
    x *= x.dtype.type(factor)
    return x


def jvp_of_twice(self: Any, primals: Any, tangents: Any, *, factor: float) -> Any:
    return self.bind(*primals, factor=factor), self.bind(*tangents, factor=2 * factor)


def lower_without_sign_of_zero(self: Any, ctx: Any, x: Any, *, factor: float) -> Any:
    zero, factors = ctx.constant(0, x.aval), ctx.constant(factor, x.aval)
    return ctx.select(ctx.compare("EQ", x, zero), zero, ctx.op("multiply", [x, factors]))


WRONG: dict[str, tuple[str, Any, str]] = {
    "eager dtype": ("eager", lambda self, x, *, factor: x * np.float64(factor), "float64[2,3]"),
    "eager that writes": ("eager", eager_that_writes, "operand 0 was written to"),
    "lower of another value": ("lower", lambda self, ctx, x, *, factor: ctx.op("add", [x, x]), "compiled value"),
    "lower of another zero": ("lower", lower_without_sign_of_zero, "signs of zeros"),
    "jvp": ("jvp", jvp_of_twice, "the jvp agrees with finite differences"),
    "transpose": ("transpose", lambda self, ct, x, *, factor: [ct], "the vjp is the transpose of the jvp"),
    "transpose of None": ("transpose", lambda self, ct, x, *, factor: [None], "the vjp is the transpose"),
    "batch of one": (
        "batch", lambda self, axis, args, dims, *, factor:
            (self.bind(rules.move_batch_axis(args[0], dims[0], 0, axis.size)[::-1], factor=factor), 0),
        "a batch is what a loop over it computes"),
    "batch of a wrong axis": (
        "batch", lambda self, axis, args, dims, *, factor: (self.bind(args[0], factor=factor), 0), "batch of "),
    "moves_elements": ("moves_elements", True, "what comes out at a place follows"),
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.cpu] * case.startswith("lower of another")) for case in WRONG],
)
def test_a_wrong_rule_is_named(case: str) -> None:
    rule, value, wanted = WRONG[case]
    wrong = changed(**{rule: value})
    x = X if "zero" not in case else np.float32([-0.0, 1.0])
    with pytest.raises((AssertionError, core.RuleError)) as info:
        testing.check(wrong, [x], {"factor": 3.0})
    text = str(info.value)
    assert wanted in text and f"`{rule}`" in text and "Correct the `" in text


def batch_of_the_first(self: Any, axis: Any, args: Any, dims: Any, *, factor: float) -> Any:
    return self.bind(lax.index_in_dim(args[0], 0, dims[0], keepdims=False), factor=factor), None


@pytest.mark.parametrize(
    "x",
    [
        np.float32(2.0), np.zeros((), np.float32), np.ones((2, 3), np.float32), np.float32([1.0, 2.0, 1.0]), np.eye(2),
        np.float16(0.5), np.full(3, np.inf, np.float32), np.complex64(1j), np.int32(1), np.int32(-1), np.uint8([0, 0]),
        np.asarray(1).astype("int2"), np.asarray(1).astype("float8_e8m0fnu"), np.asarray(9).astype("float8_e4m3fn"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_batch_is_named_where_operands_read_the_same_in_both_orders(x: Any) -> None:
    """Both elements of a batch were equal there, and a rule that takes the first for all of them passed."""
    wrong = changed(batch=batch_of_the_first, eager=None, holes={"jvp": "not asked here"}, jvp=None)
    with pytest.raises(
        AssertionError, match=r"The `batch` of primitive .*\n  checked: a batch is what a loop"
    ):
        testing.check(wrong, [x], {"factor": 2.0})


def test_equal_keys_and_booleans_are_told_apart_in_batches() -> None:
    class Swapped(core.Primitive):
        moves_elements = True

        def type(self, x: Any) -> Any:
            return x

        lower = rules.lower_as(lambda x: x)

        def batch(self, axis: Any, args: Any, dims: Any) -> Any:
            return self.bind(lax.rev(args[0], (dims[0] % args[0].ndim,))), dims[0]

    swapped = Swapped("swapped_in_a_batch_of_a_test")
    for x in (np.ones(2, bool), random.key(0)):
        with pytest.raises(AssertionError, match="The `batch` of primitive"):
            testing.check(swapped, [x])


def test_the_second_draw_stays_where_a_function_is_defined() -> None:
    for name, x in (("acosh", 1.0), ("asin", 1.0), ("log", 0.01), ("sqrt", 1e-30), ("lgamma", 2.0)):
        x = dnp.asarray(np.float32(x))
        (other,) = testing._second_draw(by_name[name].bind, [x])
        assert other != x and np.isfinite(by_name[name].bind(other)), name


def test_a_right_primitive_passes() -> None:
    for x in (X, np.float32(2.0), np.zeros((0, 2), np.float32), X.astype("float64"), X.astype("float16")):
        testing.check(changed(), [x], {"factor": 3.0})


@pytest.mark.parametrize(
    "name, args, params",
    [
        ("mul", [X, X + 1], {}),
        ("max", [X, 0 * X], {}),
        ("integer_pow", [X], {"y": 3}),
        ("concatenate", [X, X], {"dimension": 1}),
        ("reduce_sum", [X], {"axes": (1,)}),
        ("cumsum", [X], {"axis": 1, "reverse": True}),
        ("floor", [X], {}),
        ("eq", [X, X], {}),
        ("sort", [X], {"axis": 1, "num_keys": 1, "is_stable": True}),
    ],
)
def test_primitives_of_the_library_pass(name: str, args: Any, params: Any) -> None:
    testing.check(
        by_name[name], args, {k: v for k, v in params.items() if name != "sort"} or sort_params(name)
    )


def sort_params(name: str) -> dict[str, Any]:
    jaxpr = dx.make_jaxpr(lax.sort)(X).jaxpr if name == "sort" else None
    return {} if jaxpr is None else jaxpr.eqns[0].params


def test_arrays_of_keys_are_checked_too() -> None:
    testing.check(by_name["transpose"], [random.split(random.key(0), (2, 3))], {"permutation": (1, 0)})


def test_rules_that_are_absent_for_a_reason_are_left_out() -> None:
    class Median(core.Primitive):
        holes = {"jvp": "it has kinks", "batch": "nobody maps it"}

        def type(self, x: Any, y: Any, z: Any) -> Any:
            return x

        lower = rules.lower_as(lambda x, y, z: lax.max(lax.min(x, y), lax.min(lax.max(x, y), z)))

    testing.check(Median("median_of_a_test"), [X, X + 1, X - 1])
    with pytest.raises(core.MissingRuleError, match="has no batch rule"):
        testing.check(
            type("Other", (Median,), {"holes": {"jvp": "kinks"}})("other_median_of_a_test"), [X, X, X]
        )


def test_a_family_made_from_outside_is_checked() -> None:
    def softsign(jvp: Callable[..., Any]) -> Any:
        name = f"softsign_{next(_numbers)}_of_a_test"
        return rules.unary(
            name, eager=lambda x: x / (1 + np.abs(x)), accepts="f", jvp=jvp,
            lower=lambda ctx, x: ctx.op("divide", [x, ctx.op("add", [ctx.constant(1, x.aval), ctx.op("abs", [x])])]),
        )  # fmt: skip

    testing.check(softsign(lambda t, y, x: t / (1 + dnp.abs(x)) ** 2), [X])
    with pytest.raises(
        AssertionError, match=r"The `jvp` of primitive .* does not agree with its other rules"
    ):
        testing.check(softsign(lambda t, y, x: t / (1 + dnp.abs(x))), [X])


def test_zeros_of_either_sign_are_different() -> None:
    testing.assert_close(np.float32([-0.0, 1.0]), np.float32([-0.0, 1.0]), signed_zeros=True)
    for found, wanted in [
        (np.float32([0.0]), np.float32([-0.0])),
        (np.complex64([0j]), np.conj(np.complex64([0j]))),
    ]:
        with pytest.raises(AssertionError, match="signs of zeros"):
            testing.assert_close(found, wanted, signed_zeros=True)


def test_what_is_no_primitive_and_no_list_of_operands_is_refused() -> None:
    scaled: Any = Scaled("scaled_of_wrong_arguments")
    with pytest.raises(
        TypeError, match=r"check takes a primitive\.\n.*of type method\nPass the primitive itself"
    ):
        testing.check(scaled.bind, [X], {"factor": 2.0})
    with pytest.raises(TypeError, match=r"of type type\nPass an instance of the class\."):
        testing.check(type(scaled), [X], {"factor": 2.0})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a list or a tuple.*\n  got: ndarray\nPass \[x\]"):
        testing.check(scaled, X, {"factor": 2.0})
