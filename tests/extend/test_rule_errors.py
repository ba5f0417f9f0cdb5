"""A wrong rule is named: every kind of rule, with the mistakes that one makes in it.

Each row makes a primitive that is right but for one rule, applies it, and states the error's text. Rows of `ALWAYS` are
found without checks too; those of `CHECKED` only with them (DIDAX_CHECK=1, `enable_checks`, `debug_mode`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import random
from didax.core import sharding
from didax.core.jaxpr import Eqn
from didax.core.primitive_names import by_name
from didax.extend import core, rules
from didax.primitives.checkpoint import divide
from didax.transforms.partial_eval import partial_eval_jaxpr

_numbers = itertools.count()
X = np.float32([1.0, 2.0, 3.0])


class Double(rules.LinearUnary):
    """`2 * x`, with right rules."""

    def type(self, x: Any) -> Any:
        return x

    def eager(self, x: Any) -> Any:
        return x * x.dtype.type(2)

    def lower(self, ctx: Any, x: Any) -> Any:
        return ctx.op("add", [x, x])

    def transpose(self, ct: Any, x: Any) -> Any:
        return [self.bind(ct)]

    def batch(self, axis: Any, args: Any, dims: Any) -> Any:
        return self.bind(args[0]), dims[0]


class Parts(core.Primitive):
    """`2 * x` and `x + y`, with right rules."""

    multiple_results = True

    def type(self, x: Any, y: Any) -> Any:
        return [x, y]

    def eager(self, x: Any, y: Any) -> Any:
        return [x * x.dtype.type(2), x + y]

    def lower(self, ctx: Any, x: Any, y: Any) -> Any:
        return [ctx.op("add", [x, x]), ctx.op("add", [x, y])]

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self.bind(*primals), self.bind(*map(rules.instantiate, tangents))

    def transpose(self, cts: Any, x: Any, y: Any) -> Any:
        a, b = map(rules.instantiate, cts)
        return [2 * a + b, b]

    def batch(self, axis: Any, args: Any, dims: Any) -> Any:
        args = [rules.move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)]
        return self.bind(*args), [0, 0]


def changed(base: type[Any], **rules: Any) -> Callable[..., Any]:
    """`bind` of a new primitive: `base` with some attributes replaced."""
    name = f"wrong_rule_{next(_numbers)}_of_a_test"
    return type(f"Wrong{base.__name__}", (base,), rules)(name).bind


def total(out: Any) -> Any:
    return sum(y.sum() for y in out) if isinstance(out, (list, tuple)) else out.sum()


APPLY: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "eager": lambda f: f(X),
    "jit": lambda f: dx.jit(lambda x: dnp.sin(total(f(x))))(X),
    "staged": lambda f: dx.make_jaxpr(f)(X),
    "jvp": lambda f: dx.jvp(lambda x: total(f(x)), (X,), (X,)),
    "grad": lambda f: dx.grad(lambda x: total(f(x)))(X),
    "transposed": lambda f: dx.linear_transpose(f, X)(X),
    "vmap": lambda f: dx.vmap(f)(np.ones((2, 3), np.float32)),
    "vmap last": lambda f: dx.vmap(f, in_axes=1)(np.ones((3, 2), np.float32)),
}
LISTS = {name: (lambda f, go=go: go(lambda x: f(x, x))) for name, go in APPLY.items()}


class Mistake(NamedTuple):
    """A wrong rule, where it is met, and parts of the text."""

    rule: str
    how: str
    value: Any
    wanted: tuple[str, ...]
    base: type[Any] = Double


def returning(value: Any) -> Callable[..., Any]:
    return lambda self, *args, **params: value(self, *args) if callable(value) else value


STRAY = core.ShapedArray((7,), np.dtype("float32"))
UNARY = [
    Mistake("type", "eager", None, ("A type rule returns types.", "returned: None", "ShapedArray of the result")),
    Mistake("type", "staged", lambda self, x: [x], ("returned: [float32[3]]", "wanted: the ShapedArray")),
    Mistake("type", "staged", lambda self, x: np.zeros(3), ("A type rule returns types.", "wanted: the Sh")),
    Mistake("type", "staged", lambda self, x: (x.shape, x.dtype), ("A type rule returns types.",)),
    Mistake("eager", "eager", lambda self, x: x[:2],
            ("Result 0 is no NumPy value", "float32[2]", "wanted: float32[3]")),
    Mistake("eager", "eager", lambda self, x: x.astype("float64"), ("returned: float64[3]", "wanted: float32[3]")),
    Mistake("eager", "eager", lambda self, x: [1.0, 2.0, 3.0], ("without `multiple_results` has a single result",)),
    Mistake("eager", "eager", lambda self, x: None, ("returned: None (NoneType), wanted: float32[3]",)),
    Mistake("eager", "eager", lambda self, x: 3.0, ("returned: 3.0 (float)",)),
    Mistake("lower", "jit", None,
            ("A lower rule returned something of another kind.", "returned: None", "Value of type")),
    Mistake("lower", "jit", lambda self, ctx, x: [x], ("without `multiple_results` has a single result",)),
    Mistake("lower", "jit", lambda self, ctx, x: "%0", ("returned: '%0', wanted: a Value of type float32[3]",)),
    Mistake("lower", "jit", lambda self, ctx, x: ctx.scalar(1, x.aval.dtype),
            ("returned: float32[], wanted: float32[3]",)),
    Mistake("lower", "jit", lambda self, ctx, x: ctx.convert(x, np.dtype("float16")), ("returned: float16[3]",)),
    Mistake("lower", "jit", lambda self, ctx, x: ctx.op("sinus", [x]),
            ("XLA does not take what a lower rule wrote", "custom op 'stablehlo.sinus' is unknown",
             "stablehlo.sinus %arg0")),
    Mistake("lower", "jit", lambda self, ctx, x: ctx.op("sine", [x], STRAY).__class__("%0", x.aval),
            ("XLA does not take what a lower rule wrote",)),
    Mistake("lower", "jit", lambda self, ctx, x: 1 / 0,
            ("A lower rule raised an exception.", "operands: float32[3]", "raised: ZeroDivisionError: division")),
    Mistake("jvp", "jvp", None, ("A jvp rule returns a pair.", "returned: None", "wanted: (result, tangent)")),
    Mistake("jvp", "grad", lambda self, p, t: self.bind(p[0]), ("A jvp rule returns a pair.", "float32[3]")),
    Mistake("jvp", "jvp", lambda self, p, t: (self.bind(p[0]), None), ("tangent of a result is no array", "None")),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(p[0]), None), ("tangent of a result is no array", "None")),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(p[0]), [self.bind(t[0])]),
            ("is no array", "wanted: an array: f")),
    Mistake("jvp", "jvp", lambda self, p, t: (None, t[0]), ("is no array", "returned: None")),
    Mistake("jvp", "jvp", lambda self, p, t: (self.bind(p[0]), t[0][:2]),
            ("wrong type", "float32[2], wanted: float32[3]")),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(p[0]), t[0][:2]),
            ("wrong type", "float32[2], wanted: float32[3]")),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(p[0]), np.zeros(2, "f4")),
            ("float32[2], wanted: float32[3]",)),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(p[0]), t[0].astype("float16")), ("returned: float16[3]",)),
    Mistake("linearize", "grad", lambda self, p, t: self.bind(p[0]), ("A linearize rule returns a pair.",)),
    Mistake("linearize", "grad", lambda self, p, t: (self.bind(p[0]), t[0].sum()),
            ("rule: linearize of", "float32[], w")),
    Mistake("transpose", "grad", None, ("one entry for each operand", "returned: None", "wanted: a list of 1")),
    Mistake("transpose", "grad", lambda self, ct, x: ct, ("one entry for each operand", "returned: float32[3]")),
    Mistake("transpose", "transposed", lambda self, ct, x: [ct, ct],
            ("[float32[3], float32[3]], wanted: a list of 1",)),
    Mistake("transpose", "grad", lambda self, ct, x: [ct.sum()],
            ("cotangent of operand 0 has the wrong type", "float32[], w")),
    Mistake("transpose", "grad", lambda self, ct, x: [ct.astype("float16")],
            ("returned: float16[3], wanted: float32[3]",)),
    Mistake("transpose", "grad", lambda self, ct, x: [{}],
            ("cotangent of operand 0 is no array", "an array: float32[3]")),
    Mistake("batch", "vmap", None, ("A batch rule returns a pair.", "wanted: (result, batch axis)")),
    Mistake("batch", "vmap", lambda self, axis, args, dims: self.bind(args[0]), ("A batch rule returns a pair.",)),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(args[0]), 5),
            ("float32[2,3] with its batch axis at 5",)),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(args[0]), -2), ("its batch axis at -2",)),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(args[0]), [0]), ("its batch axis at [0]",)),
    Mistake("batch", "vmap last", lambda self, axis, args, dims: (self.bind(args[0]), 0),
            ("has its batch axis where the rule says", "float32[3,2] with its batch axis at 0", "an axis of length 2")),
    Mistake("effects", "jit", lambda self, params: ["io"], ("frozenset of Effects", "returned: ['io']")),
    Mistake("effects", "jit", lambda self, params: frozenset(["io"]), ("frozenset of Effects", "frozenset({'io'})")),
]  # fmt: skip
LISTED = [
    Mistake("type", "eager", lambda self, x, y: x, ("A type rule returns types.", "a list of ShapedArrays"), Parts),
    Mistake("eager", "eager", lambda self, x, y: x, ("has a list of results", "wanted: a list of 2 results"), Parts),
    Mistake("eager", "eager", lambda self, x, y: [x], ("[float32[3]], wanted: a list of 2 results",), Parts),
    Mistake("eager", "eager", lambda self, x, y: [x, y[0]], ("Result 1", "wanted: float32[3]"), Parts),
    Mistake("lower", "jit", lambda self, ctx, x, y: [x], ("has a list of results", "a list of 2 results"), Parts),
    Mistake("lower", "jit", lambda self, ctx, x, y: x, ("has a list of results", "a list of 2 results"), Parts),
    Mistake("jvp", "jvp", lambda self, p, t: (self.bind(*p), self.bind(*t)[:1]),
            ("one tangent for each result",), Parts),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(*p), t[0]),
            ("wanted: (results, tangents), two lists",), Parts),
    Mistake("transpose", "grad", lambda self, cts, x, y: [cts[0]],
            ("one entry for each operand", "a list of 2"), Parts),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(*args), 0), ("one batch axis for each",), Parts),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(*args), [0]),
            ("one batch axis for each",), Parts),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(*args), [0, 1]), ("batch axis at 1",), Parts),
]  # fmt: skip
CHECKED = [
    Mistake("jvp", "grad", lambda self, p, t: (p[0][:2], t[0][:2]), ("Result 0 has the wrong type", "float32[2], w")),
    Mistake("jvp", "jvp", lambda self, p, t: ([self.bind(p[0])], t[0]), ("has a single result", "[float32[3]]")),
    Mistake("jvp", "grad", lambda self, p, t: (self.bind(p[0]), dnp.ones(3)),
            ("which depends on no tangent", "or a Zero")),
    Mistake("jvp", "jvp", lambda self, p, t: (self.bind(*p)[:1], t[:1]), ("[float32[3]], wanted: a list of 2",), Parts),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (self.bind(args[0]), None),
            ("Result 0, which is not batched",)),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (args[0][:, :2], 0),
            ("One element of batched result 0", "float32[2], w")),
    Mistake("batch", "vmap", lambda self, axis, args, dims: (args[:1], [0]),
            ("1 results and 1 axes, wanted: 2",), Parts),
    Mistake("evaluate", "eager", lambda self, x: x.sum(), ("rule: evaluate of", "float32[], wanted: float32[3]")),
]  # fmt: skip


def message_of(mistake: Mistake) -> str:
    value = mistake.value if callable(mistake.value) else returning(mistake.value)
    f = changed(mistake.base, **{mistake.rule: value})
    with pytest.raises(core.RuleError) as info:
        (LISTS if mistake.base is Parts else APPLY)[mistake.how](f)
    return str(info.value)


@pytest.mark.parametrize("checks", [True, False], ids=["checks", "no checks"])
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(m, marks=[pytest.mark.cpu] * m.rule.startswith("eager"))
        for m in (*UNARY, *LISTED, *CHECKED)
    ],
    ids=lambda m: f"{m.rule}-{m.how}" if m else "",
)
def test_a_wrong_rule_is_named(mistake: Mistake, checks: bool) -> None:
    if mistake in CHECKED and not checks:
        pytest.skip("found with checks only")
    with dx.enable_checks(checks):
        text = message_of(mistake)
    name = f"rule: {mistake.rule} of 'wrong_rule_"
    for part in (name, *mistake.wanted, f"Correct the `{mistake.rule}` of Wrong{mistake.base.__name__}"):
        assert part in text
    assert "written at: " in text and "test_rule_errors.py:" in text


# --- Calls ----------------------------------------------------------------------------------------------------

MISFITS: dict[str, tuple[str, Any]] = {
    "type": ("staged", lambda self: None),
    "eager": ("eager", lambda x: x),
    "lower": ("jit", lambda self, x: x),
    "jvp": ("jvp", lambda self, primals: primals),
    "transpose": ("transposed", lambda self, ct: [ct]),
    "batch": ("vmap", lambda self, args, dims: (args[0], dims[0])),
}


@pytest.mark.cpu
@pytest.mark.parametrize("in_types", [False, True])
@pytest.mark.parametrize("rule", MISFITS)
def test_a_rule_with_another_signature_is_named(
    rule: str, in_types: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is once a program has made an explicit mesh, from when on types say where arrays lie."""
    monkeypatch.setattr(sharding, "in_types", in_types)
    how, function = MISFITS[rule]
    with pytest.raises(core.RuleTypeError, match="A rule does not take what it is called with") as info:
        APPLY[how](changed(Double, **{rule: function}))
    for part in (f"rule: {rule} of", "positional argument", ", parameters: none", "takes: (", "reason: "):
        assert part in str(info.value)


def test_a_type_error_within_a_rule_stays_what_it_is() -> None:
    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return len(3)  # pyright: ignore[reportArgumentType]

    for how in ("jvp", "grad"):
        with pytest.raises(TypeError, match="has no len"):
            APPLY[how](changed(Double, jvp=jvp))


def test_an_unknown_parameter_is_an_error_of_the_type_rule() -> None:
    with pytest.raises(
        core.RuleTypeError, match=r"parameters: by\n  takes: \(x: .*\n  reason: .*unexpected keyword"
    ):
        changed(Double)(X, by=3)


@pytest.mark.parametrize(
    "value, fix", [([1], "Pass tuples instead of lists"), (np.ones(2), "Pass arrays as operands")]
)
def test_a_parameter_that_cannot_be_hashed_is_named(value: Any, fix: str) -> None:
    f = changed(Double)
    for go in (f, lambda x, p: dx.make_jaxpr(lambda x: f(x, p=p))(x)):
        with pytest.raises(TypeError, match="parameters of a primitive must be hashable") as info:
            go(X, p=value)
        assert f"p: {value!r}" in str(info.value) and fix in str(info.value)


# --- Declarations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attributes, name, wanted",
    [
        ({}, "two words", "name of a primitive is a word"),
        ({}, "", "name of a primitive is a word"),
        ({}, 3, "name of a primitive is a word"),
        ({"lower": "sine"}, "fine_of_a_test", "A rule is a function.*\n  rule: lower of .*\n  given: 'sine'"),
        (
            {"holes": {"vjp": "no"}},
            "fine_of_a_test",
            "`holes` gives the reasons.*\n  .*holes: 'vjp'\nName rules: type, e",
        ),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(attributes: Any, name: str, wanted: str) -> None:
    with pytest.raises((TypeError, ValueError), match=wanted):
        type("Declared", (core.Primitive,), attributes)(name)


@pytest.mark.parametrize(
    "rule, how",
    [("type", "eager"), ("lower", "jit"), ("jvp", "grad"), ("transpose", "grad"), ("batch", "vmap")],
)
def test_an_absent_rule_is_named(rule: str, how: str) -> None:
    with pytest.raises(
        core.MissingRuleError, match=f"'wrong_rule_.* has no {rule} rule.\nGive WrongDouble a `{rule}`"
    ):
        APPLY[how](changed(Double, **{rule: None}))


def test_advice_for_an_absent_rule_names_what_can_be_changed() -> None:
    """A family's class is not the user's to change, nor is a primitive of the library."""
    family = rules.unary("absent_jvp", hlo="sine", eager=np.sin)
    with pytest.raises(core.MissingRuleError, match=r"\nDeclare 'absent_jvp' with a jvp rule, or keep the"):
        dx.grad(family.bind)(1.0)
    with pytest.raises(core.MissingRuleError, match=r"not linear\nKeep the operation out of that transf"):
        dx.linear_transpose(dnp.sin, 1.0)(1.0)


def test_a_rule_of_another_name_is_pointed_at() -> None:
    with pytest.raises(core.MissingRuleError, match="found: batching, which no interpreter asks for"):
        APPLY["vmap"](changed(Double, batch=None, batching=lambda self, *args: None))


# --- Rules of primitives that hold programs, and of elements that are no numbers ----------------------------------


class Holder(core.Primitive):
    """A call of a program."""

    multiple_results = True

    def type(self, *avals: Any, jaxpr: Any) -> Any:
        return list(jaxpr.out_avals)

    lower = rules.lower_as(lambda *args, jaxpr: core.eval_jaxpr(jaxpr, args))

    def evaluate(self, *args: Any, jaxpr: Any) -> Any:
        return core.eval_jaxpr(jaxpr, args)

    def dce(self, eqn: Any, used: Any) -> Any:
        return eqn


PROGRAM = dx.make_jaxpr(lambda x: (dnp.sin(x), dnp.cos(x)))(X).jaxpr
HOLDERS: dict[str, tuple[Any, Any, str]] = {
    "dce": (lambda self, eqn, used: None, lambda f: dx.jit(lambda x: f(x)[0])(X), "wanted: an Eqn with the results"),
    "dce of a used result": (
        lambda self, eqn, used: Eqn(eqn.primitive, eqn.invars, eqn.params, eqn.outvars[1:]),
        lambda f: dx.jit(lambda x: f(x)[0])(X),
        "keeps the results that are used.*\n.*\n  returned: 1 results, wanted: 1 of 2",
    ),
    "partial_eval": (
        lambda self, unknown, *args, jaxpr: args[0],
        lambda f: partial_eval_jaxpr(dx.make_jaxpr(f)(X).jaxpr, (True,)), "returned: .*, wanted: a list of 2 results",
    ),
    "recompute": (
        lambda self, eqn, needed, divide: eqn,
        lambda f: divide(dx.make_jaxpr(f)(X).jaxpr, (True, True), lambda *_, **how: False),
        "recompute rule returns 3 values",
    ),
    "evaluate": (lambda self, *args, jaxpr: args[0], lambda f: f(X), "wanted: a list of 2 results"),
    "stage": (lambda self, trace, args, jaxpr: args[0], lambda f: dx.make_jaxpr(f)(X), "has a list of results"),
    "named_axes": (lambda self, params: ["i"], lambda f: dx.make_jaxpr(f)(X).jaxpr.axis_names, "a frozenset of names"),
}  # fmt: skip


def test_a_wrong_run_jaxprs_rule() -> None:
    """The rule runs the program again, without its effects, in search of a NaN."""
    effects = frozenset([core.Effect("of a test")])
    f = changed(Holder, run_jaxprs=lambda self, run, *args, jaxpr: 3, effects=lambda self, params: effects)
    with (
        dx.debug_nans(True),
        pytest.raises(core.RuleTypeError, match="returned: 3, wanted: a list of 2 results"),
    ):
        dx.jit(lambda x: f(x, jaxpr=PROGRAM)[0] - dnp.log(-x))(X)


@pytest.mark.parametrize("case", HOLDERS)
def test_wrong_rules_of_a_primitive_that_holds_a_program(case: str) -> None:
    function, go, wanted = HOLDERS[case]
    f = changed(Holder, **{case.partition(" ")[0]: function})
    with pytest.raises(core.RuleTypeError, match=wanted):
        go(lambda x: f(x, jaxpr=PROGRAM))


class Words(core.Primitive):
    """The first word of each key."""

    def type(self, key: Any) -> Any:
        return core.ShapedArray(key.shape, np.dtype("uint32"))

    def physical(self, avals: Any, key: Any) -> Any:
        return key[..., 0]


def test_wrong_physical_rules() -> None:
    key = random.key(0)
    assert changed(Words)(key).dtype == np.uint32
    for value, wanted in [
        (
            lambda self, avals, key: key,
            r"Result 0 has the wrong type.*\n.*\n  returned: uint32\[2\], wanted: uint32\[\]",
        ),
        (lambda self, avals, key: None, "Result 0 is no array"),
    ]:
        with pytest.raises(core.RuleTypeError, match=wanted):
            changed(Words, physical=value)(key)


def test_a_rule_that_only_claims_to_move_elements_is_named() -> None:
    """Its `batch` rule is what moves the numbers behind each element."""
    wrong = changed(Double, moves_elements=True, batch=lambda self, axis, args, dims: (args[0][0], None))
    with pytest.raises(core.RuleTypeError, match="rule: batch of"):
        wrong(random.split(random.key(0), 3))


def test_wrong_keys_and_conditions_rules() -> None:
    with (
        dx.debug_key_reuse(True),
        pytest.raises(core.RuleTypeError, match="keys rule returns one entry for each result"),
    ):
        changed(Words, keys=lambda self, line, operands: None)(random.key(0))
    wrong = changed(Double, conditions=lambda self, x: [x > 0])
    with pytest.raises(
        core.RuleTypeError, match=r"conditions rule returned something of another.*\n.*\n.*Conditions"
    ):
        dx.checkify.checkify(wrong, errors=dx.checkify.all_checks)(X)


def test_an_application_that_does_not_fit_may_be_at_fault_itself() -> None:
    double = Double("double_of_wrong_parameters")
    with pytest.raises(
        core.RuleTypeError, match=r"parameters: axes\n.*\n.*\n.*\nApply the primitive to what its `type`"
    ):
        double.bind(X, axes=(0,))


def test_a_primitive_of_a_family_is_named_itself() -> None:
    sinus = rules.unary("sinus_of_a_family", accepts="f", hlo="sinus")
    with pytest.raises(core.RuleError, match="Correct the `lower` of 'sinus_of_a_family'"):
        dx.jit(sinus)(X)


@pytest.mark.parametrize(
    ("family", "given", "kind", "text"),
    [
        (rules.unary, {"accepts": "float"}, ValueError, "accepts: 'float' of .*, letters of no kind: a, l, o, t"),
        (rules.unary, {"jvp": (math.sin,)}, TypeError, r"jvp of .*: \(<.*sin>,\)\n  operands: 1\nPass the func"),
        (rules.binary, {"jvp": math.sin}, TypeError, "jvp of .*: <.*sin>\n  operands: 2\nPass a tuple of 2"),
        (rules.binary, {"jvp": (math.sin,)}, TypeError, "Pass a tuple of 2 functions, with None in place"),
        (rules.binary, {"transpose": (None,) * 3}, TypeError, r"transpose of .*: \(None, None, None\)\n  operands: 2"),
    ],
)  # fmt: skip
def test_a_family_takes_a_rule_for_each_operand_and_letters_of_kinds(
    family: Any, given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        family("declared_wrongly", hlo="sine", **given)
    assert "declared_wrongly" not in by_name


def test_a_family_without_jvp_computes_and_has_no_derivative() -> None:
    """Its derivative would be zero without a word; `jvp=None` says so."""
    sine = rules.unary("sine_without_jvp", hlo="sine", eager=np.sin, accepts="f")
    assert float(sine(1.0)) == float(np.sin(np.float32(1.0)))
    with pytest.raises(core.MissingRuleError, match=r"declared without `jvp`; jvp=None says"):
        dx.grad(sine)(1.0)
    with pytest.raises(core.MissingRuleError, match="declared without `jvp`"):
        dx.grad(rules.binary("sum_without_jvp", hlo="add", eager=np.add))(1.0, 2.0)
    flat = rules.unary("step_of_a_family", hlo="sign", eager=np.sign, accepts="f", jvp=None)
    assert float(dx.grad(flat)(1.0)) == 0.0
    assert dx.jvp(by_name["not"].bind, (np.int32(1),), (np.zeros((), dx.dtypes.float0),))[0] == -2


def test_a_lowering_of_the_library_is_named_where_checks_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_name["sinh"], "emit", lambda ctx, x: ctx.op("sinus", [x]))
    with (
        dx.enable_checks(True),
        pytest.raises(core.RuleError, match=r"rule: lower of 'sinh'(?s:.*)sinus. is unknown"),
    ):
        dx.jit(lambda x: dnp.sinh(x) + 1.2345)(np.float32([0.25, 0.5]))
