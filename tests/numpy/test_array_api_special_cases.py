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


# Rows of "real imaginary -> real imaginary" from the rules for complex numbers, which are those of C's Annex G; a "0?"
# is a zero of either sign. Rows hold for the conjugates of operands, too.
COMPLEX = {
    "acos": """±0 0 -> pi/2 -0; ±0 nan -> pi/2 nan; finite inf -> pi/2 -inf; ≠0 nan -> nan nan;
        -inf finite>0 -> pi -inf; inf finite>0 -> 0 -inf; -inf inf -> 3pi/4 -inf; inf inf -> pi/4 -inf;
        ±inf nan -> nan ±inf; nan finite>0 -> nan nan; nan inf -> nan -inf; nan nan -> nan nan""",
    "acosh": """±0 0 -> 0 pi/2; finite inf -> inf pi/2; ±0 nan -> nan pi/2; ≠0 nan -> nan nan;
        -inf finite>0 -> inf pi; inf finite>0 -> inf 0; -inf inf -> inf 3pi/4; inf inf -> inf pi/4;
        ±inf nan -> inf nan; nan inf -> inf nan; nan finite>0 -> nan nan; nan nan -> nan nan""",
    "asinh": """0 0 -> 0 0; >0 inf -> inf pi/2; >0 nan -> nan nan; inf finite>0 -> inf 0; inf inf -> inf pi/4;
        inf nan -> inf nan; nan 0 -> nan 0; nan finite>0 -> nan nan; nan inf -> ±inf nan; nan nan -> nan nan;
        -0 0 -> -0 0; -inf inf -> -inf pi/4""",
    "atanh": """0 0 -> 0 0; 0 nan -> 0 nan; 1 0 -> inf 0; >0 inf -> 0 pi/2; >0 nan -> nan nan;
        inf finite>0 -> 0 pi/2; inf inf -> 0 pi/2; inf nan -> 0 nan; nan finite>0 -> nan nan; nan inf -> 0? pi/2;
        nan nan -> nan nan""",
    "cosh": """0 0 -> 1 0; 0 inf -> nan 0?; 0 nan -> nan 0?; >0 inf -> nan nan; >0 nan -> nan nan; inf 0 -> inf 0;
        inf inf -> inf nan; inf nan -> inf nan; nan 0 -> nan 0?; nan finite>0 -> nan nan; nan nan -> nan nan""",
    "sinh": """0 0 -> 0 0; 0 inf -> 0? nan; 0 nan -> 0? nan; >0 inf -> nan nan; >0 nan -> nan nan; inf 0 -> inf 0;
        inf inf -> ±inf nan; inf nan -> ±inf nan; nan 0 -> nan 0; nan finite>0 -> nan nan; nan nan -> nan nan""",
    "tanh": """0 0 -> 0 0; 0 inf -> 0 nan; 0 nan -> 0 nan; >0 inf -> nan nan; >0 nan -> nan nan;
        inf finite>0 -> 1 0?; inf inf -> 1 0?; inf nan -> 1 0?; nan 0 -> nan 0; nan finite>0 -> nan nan;
        nan nan -> nan nan""",
    "exp": """±0 0 -> 1 0; finite inf -> nan nan; finite nan -> nan nan; inf 0 -> inf 0; -inf 1 -> 0 0;
        -inf inf -> 0? 0?; inf inf -> ±inf nan; -inf nan -> 0? 0?; inf nan -> ±inf nan; nan 0 -> nan 0;
        nan ≠0 -> nan nan; nan nan -> nan nan""",
    "expm1": """±0 0 -> 0 0; finite inf -> nan nan; finite nan -> nan nan; inf 0 -> inf 0; -inf 1 -> -1 0;
        -inf inf -> -1 0?; inf inf -> ±inf nan; -inf nan -> -1 0?; inf nan -> ±inf nan; nan 0 -> nan 0;
        nan ≠0 -> nan nan; nan nan -> nan nan""",
    "log": """-0 0 -> -inf pi; 0 0 -> -inf 0; finite inf -> inf pi/2; finite nan -> nan nan;
        -inf finite>0 -> inf pi; inf finite>0 -> inf 0; -inf inf -> inf 3pi/4; inf inf -> inf pi/4;
        ±inf nan -> inf nan; nan finite>0 -> nan nan; nan inf -> inf nan; nan nan -> nan nan""",
    "log1p": """-1 0 -> -inf 0; finite inf -> inf pi/2; finite nan -> nan nan; -inf finite>0 -> inf pi;
        inf finite>0 -> inf 0; -inf inf -> inf 3pi/4; inf inf -> inf pi/4; ±inf nan -> inf nan;
        nan finite>0 -> nan nan; nan inf -> inf nan""",
    "sqrt": """±0 0 -> 0 0; any inf -> inf inf; finite nan -> nan nan; -inf finite>0 -> 0 inf;
        inf finite>0 -> inf 0; -inf nan -> nan ±inf; inf nan -> inf nan; nan finite>0 -> nan nan;
        nan nan -> nan nan""",
}  # fmt: skip
SETS |= {"finite>0": (1e-20, 0.5, 1.0, 1e4), "≠0": SETS["≠0"]}
COMPLEX_RESULTS = RESULTS | {"inf": inf, "-inf": -inf, "nan": nan}


def is_part(got: float, want: str) -> bool:
    if want in ("0?", "±inf"):
        return got == 0 if want == "0?" else math.isinf(got)
    number = COMPLEX_RESULTS[want] if want in COMPLEX_RESULTS else float(want)
    if number == 0:
        return got == 0 and math.copysign(1, got) == math.copysign(1, number)
    return (math.isnan(got) and math.isnan(number)) or math.isclose(got, number, rel_tol=1e-5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_special_cases_of_complex_numbers(name: str, dtype: str) -> None:
    """Compiled, in a batch too: eagerly they run compiled. The other side of the real axis follows by conjugation."""
    cases = []
    for row in COMPLEX[name].replace("\n", " ").split(";"):
        left, _, right = row.strip().partition(" -> ")
        cases += [(z, right.split()) for z in itertools.product(*[SETS[part] for part in left.split()])]
    z = np.array([complex(*z) for z, _ in cases], dtype)
    function = getattr(dnp, name)
    for run, sign in ((function, 1), (dx.jit(dx.vmap(function)), -1)):
        got = np.asarray(run(z if sign == 1 else z.conj()))
        got = got if sign == 1 else got.conj()
        wrong = [f"{name}{z}: {w}, not {want}" for (z, want), w in zip(cases, got, strict=True)
                 if not (is_part(float(w.real), want[0]) and is_part(float(w.imag), want[1]))]  # fmt: skip
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "atan"])
def test_circular_functions_of_complex_numbers_are_turned_hyperbolic_ones(name: str) -> None:
    """sin z = -i sinh(iz), and so on: at signed zeros, infinities and NaN, up to signs that are left open."""
    parts = [0.0, -0.0, 0.5, -2.0, inf, -inf, nan]
    z = np.array([complex(x, y) for x in parts for y in parts], np.complex64)
    turned = np.empty_like(z)
    turned.real, turned.imag = -z.imag, z.real
    other = np.asarray(getattr(dnp, f"{name}h")(turned))
    want = (other.real, other.imag) if name == "cos" else (other.imag, -other.real)
    got = np.asarray(dx.jit(getattr(dnp, name))(z))
    for a, b in zip((got.real, got.imag), want, strict=True):
        np.testing.assert_allclose(np.abs(a), np.abs(b), rtol=1e-5)


def test_complex_sines_of_small_numbers_are_precise() -> None:
    """XLA's own are differences of exponentials."""
    z = np.complex64([1e-4 + 2e-4j, 1e-12 - 3e-12j, -1e-5 + 1j, 88.9 + 1e-3j])
    for name in ("sin", "cos", "sinh", "cosh"):
        want = getattr(np, name)(z.astype(np.complex128))
        got = np.asarray(getattr(dnp, name)(z))
        np.testing.assert_allclose(got.real, want.real, rtol=1e-5)
        np.testing.assert_allclose(got.imag, want.imag, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sign_and_logistic_of_complex_infinities_and_zeros(dtype: str) -> None:
    """One program; signs as in NumPy, the logistic function by its limits."""
    inf, nan = float("inf"), float("nan")
    directions = {
        complex(inf, 3): 1, complex(-inf, nan): -1, complex(2, inf): 1j, complex(nan, -inf): -1j,
        complex(-0.0, -0.0): 0, complex(0.0, -0.0): 0, complex(3, 4): 0.6 + 0.8j,
    }  # fmt: skip
    limits = {complex(inf, inf): 1, complex(inf, -inf): 1, complex(inf, nan): 1, complex(-inf, 1): 0}
    compiled = dx.jit(lambda z, w: (dnp.sign(z), dx.nn.sigmoid(w)))
    signs, shares = compiled(np.array([*directions], dtype), np.array([*limits], dtype))
    np.testing.assert_allclose(signs, [*directions.values()], rtol=1e-6)
    zeros = np.asarray(signs)[4:6]
    assert not np.signbit([zeros.real, zeros.imag]).any()
    np.testing.assert_array_equal(shares, [*limits.values()])
    np.testing.assert_array_equal(dnp.sign(np.array([*directions], dtype)), signs)
    batched = dx.vmap(dnp.sign)(np.array([*directions], dtype))
    np.testing.assert_array_equal(batched, signs)
