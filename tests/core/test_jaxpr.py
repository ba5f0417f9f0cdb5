"""Jaxprs as text and back, and the checker: random programs, every kind of value, broken jaxprs."""

import dataclasses
import enum
import gc
import sys
import time
import weakref
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from didax.core import config, dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import JaxprTypeError
from didax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import num_consts, parse_jaxpr
from didax.core.jaxpr_print import eqn_text, jaxpr_text, param_types, register_param_type
from didax.core.primitive import EagerTrace, Primitive, Trace, eager_trace, infer
from didax.core.source import SourceLine, describe_function
from didax.core.tracing import Tracer, set_current_trace

F32 = ShapedArray((), np.dtype("float32"))
VEC = ShapedArray((3,), np.dtype("float32"))


class Add(Primitive):
    def type(self, x, y):
        assert x.dtype == y.dtype, f"{x} and {y} have different dtypes"
        return ShapedArray(np.broadcast_shapes(x.shape, y.shape), x.dtype)

    def eager(self, x, y):
        return np.add(x, y, dtype=np.float32)


class Noop(Primitive):
    """The identity, with whatever parameters a test wants to print."""

    def type(self, x, **params):
        return x

    def eager(self, x, **params):
        return x


class Split(Primitive):
    multiple_results = True

    def type(self, x, *, parts):
        return [x] * parts

    def eager(self, x, *, parts):
        return [x * np.float32(i + 1) for i in range(parts)]


class Call(Primitive):
    multiple_results = True

    def type(self, *avals, jaxpr):
        return jaxpr.out_avals

    def eager(self, *args, jaxpr):
        return eval_jaxpr(jaxpr, args)


add_p, noop_p, split_p, call_p = Add("t_add"), Noop("t_noop"), Split("t_split"), Call("t_call")


class NumpyTrace(EagerTrace):
    def process(self, primitive, args, params):
        return primitive.eager(*args, **params)


def run(jaxpr, *args):
    with set_current_trace(NumpyTrace()):
        return eval_jaxpr(jaxpr, args)


def eqn(primitive, *operands, source=None, **params):
    """An equation with the results that its primitive infers."""
    types = infer(primitive, tuple(x.aval for x in operands), params)
    return Eqn(primitive, operands, params, [Var(t) for t in types], source)


def with_param(value) -> Jaxpr:
    x = Var(F32)
    step = eqn(noop_p, x, p=value)
    return Jaxpr([x], [step], step.outvars)


def reparsed_param(value):
    """`value` after a round trip through text, whose law it checks on the way."""
    text = jaxpr_text(with_param(value))
    parsed = parse_jaxpr(text)
    assert jaxpr_text(parsed) == text
    return parsed.eqns[0].params["p"]


def double() -> Jaxpr:
    x = Var(VEC)
    step = eqn(add_p, x, x)
    return Jaxpr([x], [step], step.outvars)


# --- Printing -----------------------------------------------------------------------------------------------


def test_a_jaxpr_prints_one_equation_per_line():
    w, x = Var(VEC), Var(F32)
    first = eqn(add_p, w, x)
    call = eqn(call_p, *first.outvars, jaxpr=double())
    parts = eqn(split_p, *call.outvars, parts=2)
    closed = ClosedJaxpr(Jaxpr([w, x], [first, call, parts], [parts.outvars[1], Literal(1.0)]), (np.ones(3),))
    expected = """\
{ lambda a:f32[3] ; b:f32[]. let
    c:f32[3] = t_add a b
    d:f32[3] = t_call[
      jaxpr={ lambda ; e:f32[3]. let
          f:f32[3] = t_add e e
        in (f,) }
    ] c
    _:f32[3] g:f32[3] = t_split[parts=2] d
  in (g, 1.0:f32[]*) }"""
    assert str(closed) == repr(closed) == expected
    assert str(closed.jaxpr) == expected.replace("lambda a:f32[3] ; b", "lambda ; a:f32[3] b")
    assert num_consts(expected) == 1
    assert jaxpr_text(parse_jaxpr(expected), num_consts=1) == expected


def test_an_empty_jaxpr_prints_on_one_line():
    assert str(Jaxpr([], [], [])) == "{ lambda ; . let in () }"
    assert jaxpr_text(parse_jaxpr("{ lambda ; . let in () }")) == "{ lambda ; . let in () }"


def test_an_equation_alone_shows_the_types_of_its_inputs():
    x = Var(VEC)
    assert str(eqn(add_p, x, Literal(np.float32(2)))) == "b:f32[3] = t_add a:f32[3] 2.0:f32[]"
    assert eqn_text(Eqn(split_p, [x], {"parts": 0}, [])) == "() = t_split[parts=0] a:f32[3]"


def test_parameters_print_in_the_order_of_their_names():
    a, b = eqn(noop_p, Var(F32), z=1, y=2), eqn(noop_p, Var(F32), y=2, z=1)
    assert str(a) == str(b) == "b:f32[] = t_noop[y=2 z=1] a:f32[]"


def test_names_follow_z_with_ba_and_avoid_words_of_the_grammar():
    inputs = [Var(F32) for _ in range(9000)]
    jaxpr = Jaxpr(inputs, [], inputs)
    text = str(jaxpr)
    names = [word.split(":")[0] for word in text[len("{ lambda ; ") : text.index(". let")].split()]
    assert names[:2] == ["a", "b"] and names[25:28] == ["z", "ba", "bb"]
    assert len(set(names)) == len(names) and not {"in", "let", "inf", "nan"} & set(names)
    assert str(parse_jaxpr(text)) == text


LOSS_LINE = SourceLine(compile("\n" * 6 + "def loss(): return 1", "model.py", "exec").co_consts[0], 0)


def test_lines_of_a_notebooks_cell_have_the_name_of_the_cell(monkeypatch):
    def loss():
        return 1

    class Compiler:  # of the shell of IPython; a file that is no cell's gives None
        def format_code_name(self, name):
            return ("Cell", "In[3]") if name == loss.__code__.co_filename else None

    shell = SimpleNamespace(compile=Compiler())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert str(SourceLine(loss.__code__, 0)).startswith("In[3]:")
    assert describe_function(loss) == f"loss (In[3]:{loss.__code__.co_firstlineno})"
    assert str(LOSS_LINE) == "model.py:7 (loss)"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert __file__ in str(SourceLine(loss.__code__, 0))


def test_source_info_adds_the_users_line_as_a_comment():
    x = Var(F32)
    step = eqn(noop_p, x, source=LOSS_LINE)
    text = jaxpr_text(Jaxpr([x], [step], step.outvars), source_info=True)
    assert "b:f32[] = t_noop a   # model.py:7 (loss)\n" in text
    assert str(parse_jaxpr(text)) == str(Jaxpr([x], [step], step.outvars))


def test_a_jaxpr_used_twice_gets_fresh_names_each_time():
    x, body = Var(VEC), double()
    first = eqn(call_p, x, jaxpr=body)
    second = eqn(call_p, *first.outvars, jaxpr=body)
    jaxpr = Jaxpr([x], [first, second], second.outvars)
    assert "f:f32[3]. let" in str(jaxpr) and "c:f32[3]. let" in str(jaxpr)
    assert str(parse_jaxpr(str(jaxpr))) == str(jaxpr)


# --- Literals -----------------------------------------------------------------------------------------------


def reparsed_literal(literal: Literal) -> Literal:
    text = jaxpr_text(Jaxpr([], [], [literal]))
    parsed = parse_jaxpr(text)
    assert jaxpr_text(parsed) == text
    check_jaxpr(parsed)
    return parsed.outvars[0]


def same_bits(a, b) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def bits(dtype) -> int:
    if dtype == np.bool_:
        return 1
    return (dtypes.finfo if dtypes.is_inexact(dtype) else dtypes.iinfo)(dtype).bits


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL_DTYPES if d.itemsize == 1], ids=str)
def test_every_literal_of_a_narrow_dtype_is_exact(dtype):
    for value in np.arange(2 ** bits(dtype), dtype=np.uint8).view(dtype):
        got = reparsed_literal(Literal(value))
        assert type(got.val) is dtype.type
        assert got.val == value or (np.isnan(value) and np.isnan(got.val))
        assert np.isnan(value) or np.signbit(float(got.val)) == np.signbit(float(value))


WIDE = [d for d in dtypes.ALL_DTYPES if d.itemsize > 1]


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@given(bits=st.integers(0, 2**128 - 1))
@example(bits=0)
@example(bits=2**127)  # -0.0 in the last part
@example(bits=2**128 - 1)
def test_literals_of_wide_dtypes_are_exact(dtype, bits):
    value = np.frombuffer(bits.to_bytes(16, "little"), dtype)[-1]
    got = reparsed_literal(Literal(value))
    assert got.aval is aval_of(value)
    if dtypes.is_inexact(dtype) and np.isnan(value):
        assert np.isnan(got.val)
    else:
        assert same_bits(got.val, value)


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324, 0.1]


@pytest.mark.parametrize("value", SPECIAL)
@pytest.mark.parametrize("dtype", [d for d in WIDE if dtypes.is_float(d)], ids=str)
def test_special_floats_are_exact(dtype, value):
    with np.errstate(over="ignore"):
        literal = Literal(dtype.type(value))
    assert same_bits(reparsed_literal(literal).val, literal.val)


@given(st.complex_numbers(allow_nan=True) | st.builds(complex, *[st.sampled_from(SPECIAL)] * 2))
def test_complex_numbers_are_exact_as_literals_and_parameters(value):
    for got in (reparsed_literal(Literal(value)).val, reparsed_param(value)):
        assert type(got) is complex and str(got) == str(value)
    literal = Literal(np.complex128(value))
    assert str(reparsed_literal(literal).val) == str(literal.val)


@pytest.mark.parametrize("value", [True, 2, 2**40, -3, 0.1, -0.0, float("inf"), 1.5j])
def test_python_scalars_keep_their_type_and_their_weakness(value):
    got = reparsed_literal(Literal(value))
    assert type(got.val) is (np.bool_ if value is True else type(value))
    assert repr(got.val) == repr(value) or value is True
    assert got.aval is aval_of(value)


def test_a_literal_of_an_x64_program_is_legal_in_any_mode():
    with config.override(enable_x64=True):
        literal = Literal(0.1)
    jaxpr = Jaxpr([], [], [literal])
    assert str(jaxpr) == "{ lambda ; . let in (0.1:f64[]*,) }"
    check_jaxpr(jaxpr)
    check_jaxpr(parse_jaxpr(str(jaxpr)))


def test_float0_has_one_literal():
    literal = Literal(np.zeros((), dtypes.float0))
    assert str(Jaxpr([], [], [literal])) == "{ lambda ; . let in (0:float0[],) }"
    assert reparsed_literal(literal).val.dtype == dtypes.float0


def test_arrays_and_unknown_values_print_as_their_type():
    class Unknown(Tracer):
        trace = Trace(eager_trace)
        aval = F32

    text = str(Jaxpr([], [], [Literal(np.ones(3, np.float32)), Literal(Unknown())]))
    assert text == "{ lambda ; . let in (<f32[3]>, <f32[]>) }"
    with pytest.raises(ValueError, match="this literal is an array, whose numbers are not printed"):
        parse_jaxpr(text)


def test_zero_dimensional_arrays_print_their_number():
    literal = Literal(np.array(0.1, np.float32))
    assert str(Jaxpr([], [], [literal])) == "{ lambda ; . let in (0.1:f32[],) }"
    assert reparsed_literal(literal).val == np.float32(0.1)


# --- Parameters ---------------------------------------------------------------------------------------------


@register_param_type
class GatherDims(NamedTuple):
    offset: tuple
    batched: bool = False


@register_param_type
@dataclasses.dataclass(frozen=True)
class Padding:
    low: int
    body: object = None


@register_param_type
class Mode(enum.Enum):
    CLIP = 1
    FILL = "fill"


def test_a_class_of_parameters_is_defined_anew_by_its_module_only():
    """An import that was interrupted runs again, and a cell of a notebook does."""
    again = enum.Enum("Mode", ["CLIP", "FILL"], module=__name__, qualname=Mode.__qualname__)
    assert register_param_type(again) is again and param_types["Mode"] is again
    assert register_param_type(Mode) is Mode and param_types["Mode"] is Mode


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
leaves = scalars | st.sampled_from([*dtypes.ALL_DTYPES, dtypes.float0, Mode.CLIP, Mode.FILL, VEC])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.builds(GatherDims, inner, st.booleans())
        | st.builds(Padding, st.integers(), inner)
    ),
    max_leaves=6,
)


@given(values)
@example((True, 1, 1.0, -0.0, float("-inf"), "a'b\"\n # }", ()))
def test_parameters_survive_the_round_trip(value):
    got = reparsed_param(value)
    assert got == value and repr(got) == repr(value)


def test_registered_classes_print_their_fields():
    value = (GatherDims((0,)), Padding(1), Mode.FILL, np.dtype("float32"))
    text = str(with_param(value).eqns[0])
    assert "GatherDims(offset=(0,), batched=False), Padding(low=1, body=None), Mode.FILL, float32" in text


def test_jaxprs_inside_tuples_and_classes_are_read_back():
    value = (double(), Padding(1, (double(),)), 3)
    first, padding, three = reparsed_param(value)
    assert str(first) == str(padding.body[0]) == str(double()) and three == 3
    assert """\
      p=(
        { lambda ; c:f32[3]. let
            d:f32[3] = t_add c c
          in (d,) },
        Padding(""" in str(with_param(value))


def test_other_parameters_print_as_their_repr_and_do_not_parse():
    text = str(with_param(frozenset({1})))
    assert "t_noop[p=<frozenset({1})>]" in text
    with pytest.raises(ValueError, match="only a repr") as error:
        parse_jaxpr(text)
    assert "Give its class to register_param_type" in str(error.value)


def test_only_classes_with_fields_or_members_are_registered_each_under_its_own_name():
    with pytest.raises(TypeError, match="NamedTuple, a frozen dataclass or an Enum"):
        register_param_type(dict)
    with pytest.raises(TypeError, match="frozen dataclass"):
        register_param_type(dataclasses.make_dataclass("Mutable", ["x"]))
    for name in ("Mode", "float32"):
        with pytest.raises(ValueError, match="need names of their own"):
            register_param_type(enum.Enum(name, ["A"], module="elsewhere"))
    assert param_types["Mode"] is Mode and "float32" not in param_types


# --- Random programs ----------------------------------------------------------------------------------------


@st.composite
def jaxprs(draw, depth: int = 2) -> Jaxpr:
    """Programs over float32 scalars and vectors with `num_inputs` inputs, results unused at random."""
    inputs = [Var(t) for t in draw(st.lists(st.sampled_from([F32, VEC]), min_size=1, max_size=3))]
    known, eqns = list(inputs), []
    constants = st.builds(Literal, st.floats(width=32, allow_nan=False).map(np.float32))
    for _ in range(draw(st.integers(0, 5))):
        atoms = st.sampled_from(known) | constants
        match draw(st.sampled_from(["add", "split", "call", "noop"][: 4 if depth else 2])):
            case "add":
                step = eqn(add_p, draw(atoms), draw(atoms))
            case "split":
                step = eqn(split_p, draw(atoms), parts=draw(st.integers(0, 3)))
            case "noop":
                step = eqn(noop_p, draw(atoms), p=draw(values), q=draw(jaxprs(depth - 1)))
            case _:
                body = draw(jaxprs(depth - 1))
                wanted = [v.aval for v in body.invars]
                args = [draw(st.sampled_from([v for v in known if v.aval is t] or [None])) for t in wanted]
                if None in args:
                    continue
                step = eqn(call_p, *args, jaxpr=body)
        eqns.append(step)
        known += step.outvars
    outputs = draw(st.lists(st.sampled_from(known) | constants, max_size=3))
    return Jaxpr(inputs, eqns, outputs)


@given(jaxprs(), st.integers(0, 3))
def test_text_to_jaxpr_to_text_is_the_identity_and_keeps_the_meaning(jaxpr, consts):
    check_jaxpr(jaxpr)
    text = jaxpr_text(jaxpr, min(consts, len(jaxpr.invars)))
    parsed = parse_jaxpr(text)
    assert jaxpr_text(parsed, num_consts(text)) == text
    check_jaxpr(parsed)
    args = [np.full(v.aval.shape, 0.5 + i, np.float32) for i, v in enumerate(jaxpr.invars)]
    with np.errstate(all="ignore"):
        for got, expected in zip(run(parsed, *args), run(jaxpr, *args), strict=True):
            np.testing.assert_array_equal(got, expected)


def chain(length: int) -> Jaxpr:
    x = Var(VEC)
    eqns = [eqn(add_p, x, Literal(np.float32(0.1)))]
    for _ in range(length - 1):
        eqns.append(eqn(add_p, eqns[-1].outvars[0], x))
    return Jaxpr([x], eqns, eqns[-1].outvars)


def test_long_programs_take_linear_time():
    """Printing, parsing and checking take about 0.2 seconds; quadratic algorithms would take minutes."""
    jaxpr = chain(5000)
    start = time.process_time()
    text = str(jaxpr)
    parsed = parse_jaxpr(text)
    check_jaxpr(parsed)
    assert time.process_time() - start < 2.0
    assert str(parsed) == text


# --- Texts that cannot be read ------------------------------------------------------------------------------


def unreadable(text: str) -> str:
    with pytest.raises(ValueError) as error:
        parse_jaxpr(text)
    return str(error.value)


def test_a_parse_error_shows_the_place_and_close_matches():
    text = "{ lambda ; a:f32[3]. let\n    b:f32[3] = t_splt a\n  in (b,) }"
    expected = (
        "The text of a jaxpr cannot be read: no primitive has this name.\n"
        "  line 2, column 16: b:f32[3] = t_splt a\n"
        "  found: 't_splt'\n"
        "Did you mean t_split"
    )
    assert unreadable(text).startswith(expected)
    assert unreadable(text).endswith("? Import the module that defines it.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected '{'"),
        ("{ lambda a:f32[]. let in (a,) }", "expected ';'"),
        ("{ lambda ; a:f32[]. let in (a,)", "expected '}'"),
        ("{ lambda ; a:f32[]. let in (a,) } }", "expected the end of the text"),
        ("{ lambda ; a:f32[]. let in (a a) }", "expected ','"),
        ("{ lambda ; a. let in (a,) }", "expected ':'"),
        ("{ lambda ; a:3. let in (a,) }", "expected a type such as f32[2,3]"),
        ("{ lambda ; a:f31[3]. let in (a,) }", "this is no type"),
        ("{ lambda ; a:f32[3,,]. let in (a,) }", "this is no type"),
        ("{ lambda ; a:f32[] a:f32[]. let in (a,) }", "a variable is bound twice"),
        ("{ lambda ; a:f32[]. let in (b,) }", "this variable is not bound here"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop b in (b,) }", "this variable is not bound here"),
        ("{ lambda ; _:f32[]. let in (_,) }", "this variable is not bound here"),
        ("{ lambda ; a:f32[]. let t_noop a in (a,) }", "expected ':'"),
        ("{ lambda ; a:f32[]. let = t_noop a in (a,) }", "expected an equation or 'in'"),
        ("{ lambda ; a:f32[]. let b:f32[] = 3 a in (a,) }", "expected the name of a primitive"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop[3 p=1] a in (a,) }", "expected a parameter or ']'"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop[] a in (a,) }", "expected the name of a primitive"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop[p=] a in (a,) }", "expected a parameter's value"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop[p=flot32] a in (a,) }", "no dtype or parameter type"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop[p=Mode.CLI] a in (a,) }", "Mode has no such member"),
        ("{ lambda ; a:f32[]. let b:f32[] = t_noop[p=Padding(x=1)] a in (a,) }", "Padding has other fields"),
        ("{ lambda ; . let in (2.5:i32[],) }", "no literal of type i32[] has this value"),
        ("{ lambda ; . let in (300:u8[],) }", "no literal of type u8[] has this value"),
        ("{ lambda ; . let in (9:i4[],) }", "no literal of type i4[] has this value"),
        ("{ lambda ; . let in (1e40:f32[],) }", "no literal of type f32[] has this value"),
        ("{ lambda ; . let in (True:f32[],) }", "no literal of type f32[] has this value"),
        ("{ lambda ; . let in ((1.0+2.0j):f32[],) }", "no literal of type f32[] has this value"),
        ("{ lambda ; . let in (None:f32[],) }", "no literal of type f32[] has this value"),
        ("{ lambda ; . let in (1.0:f32[3],) }", "no literal of type f32[3] has this value"),
    ],
)
def test_every_parse_error_says_what_was_expected(text, problem):
    rule, place, found, fix = unreadable(text).split("\n")
    assert problem in rule
    assert place.startswith("  line 1, column ") and found.startswith("  found: ") and fix


def test_an_error_after_the_last_line_break_has_a_place():
    assert "line 2, column 1: \n  found: the end of the text" in unreadable("{ lambda ;\n")


# --- Illegal jaxprs -----------------------------------------------------------------------------------------


def illegal(jaxpr: Jaxpr) -> str:
    with pytest.raises(JaxprTypeError) as error:
        check_jaxpr(jaxpr)
    return str(error.value)


def test_results_must_have_the_inferred_types():
    x, y = Var(VEC), Var(F32)
    step = Eqn(add_p, [x, x], {}, [y], LOSS_LINE)
    assert illegal(Jaxpr([x], [step], [y])) == (
        "An equation's results do not have the types that its primitive infers.\n"
        "  equation: b:f32[] = t_add a a\n"
        "  from: model.py:7 (loss)\n"
        "  written:  (f32[])\n"
        "  inferred: (f32[3])\n"
        "Give the results the types that infer(primitive, in_avals, params) returns."
    )


def test_weak_and_strong_results_differ():
    x = Var(F32)
    y = Var(F32.update(weak_type=True))
    assert "written:  (f32[]*)\n  inferred: (f32[])" in illegal(Jaxpr([x], [Eqn(noop_p, [x], {}, [y])], []))


def test_the_number_of_results_is_part_of_the_type():
    x = Var(F32)
    step = Eqn(split_p, [x], {"parts": 3}, [Var(F32), Var(F32)])
    assert "written:  (f32[], f32[])\n  inferred: (f32[], f32[], f32[])" in illegal(Jaxpr([x], [step], []))


def test_a_variable_is_bound_before_its_use():
    x = Var(F32)
    first = eqn(noop_p, x)
    second = eqn(noop_p, *first.outvars)
    text = illegal(Jaxpr([x], [second, first], second.outvars))
    assert text.startswith("A variable is used before it is bound.\n  equation: c:f32[] = t_noop b\n")
    assert "variable: b:f32[]" in text
    assert "variable: a:f32[]" in illegal(Jaxpr([], [], [Var(F32)]))


def test_a_nested_jaxpr_sees_nothing_of_the_outer_one():
    x = Var(VEC)
    step = Eqn(call_p, [x], {"jaxpr": Jaxpr([Var(VEC)], [], [x])}, [Var(VEC)])
    assert "jaxprs are closed and capture nothing" in illegal(Jaxpr([x], [step], step.outvars))


@pytest.mark.parametrize("wrap", [lambda j: j, lambda j: (1, (j,)), lambda j: Padding(0, j)])
def test_nested_jaxprs_are_checked(wrap):
    x = Var(F32)
    body = Jaxpr([x], [Eqn(noop_p, [x], {}, [Var(VEC)])], [])
    assert "inferred: (f32[])" in illegal(with_param(wrap(body)))


@pytest.mark.parametrize("place", ["inputs", "one equation", "two equations", "input and equation"])
def test_a_variable_is_bound_once(place):
    x, y = Var(F32), Var(F32)
    twice = Eqn(split_p, [x], {"parts": 2}, [y, y])
    jaxpr = {
        "inputs": Jaxpr([x, x], [], []),
        "one equation": Jaxpr([x], [twice], []),
        "two equations": Jaxpr([x], [Eqn(noop_p, [x], {}, [y]), Eqn(noop_p, [x], {}, [y])], []),
        "input and equation": Jaxpr([x, y], [Eqn(noop_p, [x], {}, [y])], []),
    }[place]
    assert "A variable is bound twice." in illegal(jaxpr)


def test_parameters_are_hashable():
    x = Var(F32)
    step = Eqn(noop_p, [x], {"axis": 0, "shape": [1, 2]}, [Var(F32)])
    text = illegal(Jaxpr([x], [step], step.outvars))
    assert "must be hashable" in text and "shape: [1, 2] of type list" in text and "Pass tuples" in text


def test_an_equation_that_its_type_rule_refuses_is_shown_with_the_reason():
    x, y = Var(F32), Var(ShapedArray((), np.dtype("int32")))
    text = illegal(Jaxpr([x, y], [Eqn(add_p, [x, y], {}, [Var(F32)])], []))
    assert "inputs: (f32[], i32[])" in text and "have different dtypes" in text


def test_literals_have_the_type_of_their_value():
    wrong = [
        Literal(1.0, F32),
        Literal(1, aval_of(1.0)),
        Literal(np.float64(1), F32),
        Literal(np.ones(3), F32),
    ]
    for literal in wrong:
        text = illegal(Jaxpr([], [], [literal]))
        assert "A literal's type is not the type of its value." in text and "type:  f32[]" in text
    assert "not an array or a scalar" in illegal(Jaxpr([], [], [Literal("x", F32)]))


def test_errors_elide_nested_jaxprs_and_keep_the_names_of_the_whole_text():
    x = Var(VEC)
    call = eqn(call_p, x, jaxpr=double())
    bad = Eqn(call_p, call.outvars, {"jaxpr": double()}, [Var(F32)])
    jaxpr = Jaxpr([x], [call, bad], bad.outvars)
    assert "equation: e:f32[] = t_call[jaxpr={...}] b\n" in illegal(jaxpr)
    assert "    e:f32[] = t_call[\n" in str(jaxpr)


def test_a_legal_jaxpr_is_checked_once_and_not_kept_alive(monkeypatch):
    calls = []
    monkeypatch.setattr("didax.core.jaxpr_check.infer", lambda *args: calls.append(args) or infer(*args))
    jaxpr = chain(3)
    check_jaxpr(jaxpr)
    check_jaxpr(jaxpr)
    assert len(calls) == 3
    alive = weakref.ref(jaxpr)
    del jaxpr
    gc.collect()
    assert alive() is None


def test_a_text_whose_types_contradict_the_rules_is_refused_by_the_equation():
    with pytest.raises(JaxprTypeError) as error:
        parse_jaxpr("{ lambda ; x:f32[3]. let y:f32[4] = sin x in (y,) }")
    for part in ("do not have the types", "b:f32[4] = sin a", "(f32[4])", "(f32[3])"):
        assert part in str(error.value)
    with pytest.raises(JaxprTypeError, match="type rule refuses an equation") as error:
        parse_jaxpr("{ lambda ; x:f32[3]. let y:f32[3] = add x 2:i32[]* in (y,) }")
    assert "add a 2" in str(error.value)
