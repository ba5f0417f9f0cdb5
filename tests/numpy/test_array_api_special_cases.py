"""The special cases of the array API standard, as tables, eagerly (NumPy) and compiled (XLA).

A row reads "operands -> result". Operands are named sets of numbers (`>0`: finite positive ones), so a row stands
for every combination of their members; a result is a number with its sign of zero, or an operand.
Complex rows name the real and the imaginary part.
"""

import itertools
import math

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp

inf, nan = math.inf, math.nan
POSITIVE, BIG = (0.3, 1.0, 2.0, 2.5, 3.0, 1e30), (1.5, 2.0, 3.0, 1e30)
SETS: dict[str, tuple[float, ...]] = {
    "nan": (nan,), "inf": (inf,), "-inf": (-inf,), "±inf": (inf, -inf),
    "0": (0.0,), "-0": (-0.0,), "±0": (0.0, -0.0), "1": (1.0,), "-1": (-1.0,), "±1": (1.0, -1.0),
    ">0": POSITIVE, "<0": tuple([-x for x in POSITIVE]), "≠0": (*POSITIVE, *[-x for x in POSITIVE]),
    "finite": (0.0, -0.0, *POSITIVE, *[-x for x in POSITIVE]),
    "+": (*POSITIVE, inf), "-": (*[-x for x in POSITIVE], -inf),
    ">1": (*BIG, inf), "<-1": (*[-x for x in BIG], -inf), "<1": (0.5, 0.0, -3.0, -inf),
    "|x|>1": (*BIG, *[-x for x in BIG], inf, -inf), "|x|<1": (0.5, -0.5, 0.0, -0.0),
    "odd>0": (1.0, 3.0, 5.0), "odd<0": (-1.0, -3.0), "other>0": (0.5, 2.0, 2.5, 1e30), "other<0": (-0.5, -2.0, -1e30),
    "fraction": (0.5, -0.5, 2.5), "(-1,0)": (-0.3, -0.9), "(0,1)": (0.3, 0.9),
    "any": (nan, inf, -inf, 0.0, -0.0, 1.0, -2.5, 1e30), "≠nan": (inf, -inf, 0.0, -0.0, 1.0, -2.5, 1e30),
    "0.5": (0.5,), "1.5": (1.5,), "-0.5": (-0.5,), "2.5": (2.5,),
}  # fmt: skip
RESULTS = {"pi/2": math.pi / 2, "-pi/2": -math.pi / 2, "pi": math.pi, "-pi": -math.pi, "pi/4": math.pi / 4,
           "3pi/4": 3 * math.pi / 4, "-pi/4": -math.pi / 4, "-3pi/4": -3 * math.pi / 4}  # fmt: skip

UNARY = {
    "abs": "nan -> nan; -0 -> 0; 0 -> 0; ±inf -> inf",
    "acos": "nan -> nan; >1 -> nan; <-1 -> nan; 1 -> 0",
    "acosh": "nan -> nan; <1 -> nan; 1 -> 0; inf -> inf",
    "asin": "nan -> nan; >1 -> nan; <-1 -> nan; ±0 -> x1",
    "asinh": "nan -> nan; ±0 -> x1; ±inf -> x1",
    "atan": "nan -> nan; ±0 -> x1; inf -> pi/2; -inf -> -pi/2",
    "atanh": "nan -> nan; <-1 -> nan; >1 -> nan; -1 -> -inf; 1 -> inf; ±0 -> x1",
    "ceil": "nan -> nan; ±0 -> x1; ±inf -> x1; (-1,0) -> -0",
    "cos": "nan -> nan; ±0 -> 1; ±inf -> nan",
    "cosh": "nan -> nan; ±0 -> 1; ±inf -> inf",
    "exp": "nan -> nan; ±0 -> 1; inf -> inf; -inf -> 0",
    "expm1": "nan -> nan; ±0 -> x1; inf -> inf; -inf -> -1",
    "floor": "nan -> nan; ±0 -> x1; ±inf -> x1; (0,1) -> 0",
    "log": "nan -> nan; - -> nan; ±0 -> -inf; 1 -> 0; inf -> inf",
    "log1p": "nan -> nan; <-1 -> nan; -1 -> -inf; ±0 -> x1; inf -> inf",
    "log2": "nan -> nan; - -> nan; ±0 -> -inf; 1 -> 0; inf -> inf",
    "log10": "nan -> nan; - -> nan; ±0 -> -inf; 1 -> 0; inf -> inf",
    "negative": "nan -> nan; 0 -> -0; -0 -> 0; inf -> -inf; -inf -> inf",
    "positive": "nan -> nan; ±0 -> x1; ±inf -> x1",
    "reciprocal": "nan -> nan; inf -> 0; -inf -> -0; 0 -> inf; -0 -> -inf",
    "round": "nan -> nan; ±0 -> x1; ±inf -> x1; 0.5 -> 0; -0.5 -> -0; 1.5 -> 2; 2.5 -> 2",
    "sign": "nan -> nan; ±0 -> 0; + -> 1; - -> -1",
    "signbit": "0 -> False; -0 -> True; + -> False; - -> True",
    "sin": "nan -> nan; ±0 -> x1; ±inf -> nan",
    "sinh": "nan -> nan; ±0 -> x1; ±inf -> x1",
    "sqrt": "nan -> nan; - -> nan; ±0 -> x1; inf -> inf",
    "square": "nan -> nan; ±0 -> 0; ±inf -> inf",
    "tan": "nan -> nan; ±0 -> x1; ±inf -> nan",
    "tanh": "nan -> nan; ±0 -> x1; inf -> 1; -inf -> -1",
    "trunc": "nan -> nan; ±0 -> x1; ±inf -> x1; (0,1) -> 0; (-1,0) -> -0",
    "isnan": "nan -> True; ≠nan -> False",
    "isinf": "±inf -> True; nan -> False; finite -> False",
    "isfinite": "±inf -> False; nan -> False; finite -> True",
}  # fmt: skip

BINARY = {
    "add": """nan any -> nan; any nan -> nan; inf -inf -> nan; -inf inf -> nan; inf inf -> inf; -inf -inf -> -inf;
        inf finite -> inf; -inf finite -> -inf; finite inf -> inf; finite -inf -> -inf; -0 -0 -> -0; -0 0 -> 0;
        0 -0 -> 0; 0 0 -> 0; ±0 ≠0 -> x2; ≠0 ±0 -> x1; ≠0 -x1 -> 0""",
    "subtract": """nan any -> nan; any nan -> nan; inf inf -> nan; -inf -inf -> nan; inf -inf -> inf;
        finite inf -> -inf; finite -inf -> inf; 0 0 -> 0; -0 -0 -> 0; -0 0 -> -0; 0 -0 -> 0""",
    "multiply": """nan any -> nan; any nan -> nan; ±inf ±0 -> nan; ±0 ±inf -> nan; inf + -> inf; inf - -> -inf;
        -inf + -> -inf; -inf - -> inf; + inf -> inf; - inf -> -inf; 0 >0 -> 0; 0 <0 -> -0; -0 >0 -> -0; -0 <0 -> 0""",
    "divide": """nan any -> nan; any nan -> nan; ±inf ±inf -> nan; ±0 ±0 -> nan; 0 + -> 0; -0 + -> -0; 0 - -> -0;
        -0 - -> 0; + 0 -> inf; + -0 -> -inf; - 0 -> -inf; - -0 -> inf; inf >0 -> inf; inf <0 -> -inf;
        -inf >0 -> -inf; -inf <0 -> inf; >0 inf -> 0; >0 -inf -> -0; <0 inf -> -0; <0 -inf -> 0""",
    "floor_divide": """nan any -> nan; any nan -> nan; ±inf ±inf -> nan; ±0 ±0 -> nan; 0 + -> 0; -0 + -> -0; 0 - -> -0;
        -0 - -> 0; + 0 -> inf; + -0 -> -inf; - 0 -> -inf; - -0 -> inf; inf >0 -> inf; inf <0 -> -inf;
        -inf >0 -> -inf; -inf <0 -> inf; >0 inf -> 0; >0 -inf -> -0; <0 inf -> -0; <0 -inf -> 0""",
    "remainder": """nan any -> nan; any nan -> nan; ±inf any -> nan; any ±0 -> nan; ±0 >0 -> 0; ±0 <0 -> -0;
        >0 inf -> x1; >0 -inf -> x2; <0 inf -> x2; <0 -inf -> x1; 1 1 -> 0; 1 -1 -> -0; -1 1 -> 0; -1 -1 -> -0""",
    "pow": """any ±0 -> 1; nan ≠0 -> nan; |x|>1 nan -> nan; ±0 nan -> nan; |x|>1 inf -> inf; |x|>1 -inf -> 0;
        ±1 ±inf -> 1; 1 any -> 1;
        |x|<1 inf -> 0; |x|<1 -inf -> inf; inf + -> inf; inf - -> 0; -inf odd>0 -> -inf; -inf other>0 -> inf;
        -inf odd<0 -> -0; -inf other<0 -> 0; 0 + -> 0; 0 - -> inf; -0 odd>0 -> -0; -0 other>0 -> 0;
        -0 odd<0 -> -inf; -0 other<0 -> inf""",
    "atan2": """nan any -> nan; any nan -> nan; + 0 -> pi/2; + -0 -> pi/2; 0 + -> 0; 0 0 -> 0; 0 -0 -> pi; 0 - -> pi;
        -0 + -> -0; -0 0 -> -0; -0 -0 -> -pi; -0 - -> -pi; - 0 -> -pi/2; - -0 -> -pi/2; >0 inf -> 0; >0 -inf -> pi;
        <0 inf -> -0; <0 -inf -> -pi; inf finite -> pi/2; -inf finite -> -pi/2; inf inf -> pi/4; inf -inf -> 3pi/4;
        -inf inf -> -pi/4; -inf -inf -> -3pi/4""",
    "copysign": "+ + -> x1; + - -> -x1; - + -> -x1; + -0 -> -x1; + 0 -> x1; ±0 + -> 0; ±0 - -> -0; nan any -> nan",
    "hypot": "±inf any -> inf; any ±inf -> inf; nan finite -> nan; finite nan -> nan; ±0 ±0 -> 0",
    "logaddexp": "nan any -> nan; any nan -> nan; inf ≠nan -> inf; ≠nan inf -> inf; -inf -inf -> -inf; 1 -inf -> 1",
    "maximum": "nan any -> nan; any nan -> nan; inf ≠nan -> inf; -inf ≠nan -> x2",
    "minimum": "nan any -> nan; any nan -> nan; -inf ≠nan -> -inf; inf ≠nan -> x2",
    "nextafter": "nan any -> nan; any nan -> nan; 0 -0 -> -0; -0 0 -> 0; inf inf -> inf; 1 1 -> 1",
}  # fmt: skip
OPERATORS = {
    "add": "__add__", "subtract": "__sub__", "multiply": "__mul__", "divide": "__truediv__",
    "floor_divide": "__floordiv__", "remainder": "__mod__", "pow": "__pow__",
}  # fmt: skip


def rows(table: str) -> list[tuple[tuple[float, ...], float]]:
    """Every combination of operands of every row, with the number that the standard wants."""
    found = []
    for row in table.replace("\n", " ").split(";"):
        left, _, result = row.strip().partition(" -> ")
        names = left.split()
        if names[-1] == "-x1":
            cases = [(x, -x) for x in SETS[names[0]]]
        else:
            cases = list(itertools.product(*[SETS[name] for name in names]))
        found += [(case, expected(result, case)) for case in cases]
    return found


def expected(result: str, case: tuple[float, ...]) -> float:
    by_operand = {"x1": case[0], "-x1": -case[0], "x2": case[-1], "±0": 0.0, "True": 1.0, "False": 0.0}
    return (
        by_operand.get(result, RESULTS.get(result, math.nan))
        if result in by_operand or result in RESULTS
        else float(result)
    )


def assert_number(got: float, want: float, what: str) -> None:
    assert (math.isnan(got) and math.isnan(want)) or math.isclose(got, want, rel_tol=1e-5), (
        f"{what}: {got}, not {want}"
    )
    if want == 0:
        assert math.copysign(1, got) == math.copysign(1, want), f"{what}: {got}, not {want}"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_special_cases_of_real_numbers(name: str, dtype: str, compiled: bool) -> None:
    function = getattr(dnp, name)
    check_rows(dx.jit(function) if compiled else function, rows((UNARY | BINARY)[name]), dtype, name)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_the_special_cases_of_their_functions(name: str) -> None:
    check_rows(lambda x, y: getattr(x, OPERATORS[name])(y), rows(BINARY[name]), "float32", name)


def check_rows(function, cases, dtype: str, name: str) -> None:
    operands = [dnp.asarray(column, dtype=dtype) for column in zip(*[case for case, _ in cases], strict=True)]
    got = np.asarray(function(*operands)).astype(np.float64)
    failures = []
    for (case, want), value in zip(cases, got, strict=True):
        try:
            assert_number(float(value), want, f"{name}{case}")
        except AssertionError as error:
            failures.append(str(error).splitlines()[0])
    assert not failures, "\n".join(failures)
