"""The promotion lattice against its published table, its laws and JAX; the names and kinds of dtypes."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import config, dtypes
from didax.core.errors import TypePromotionError

ABSENT = None  # two dtypes without a join
PYTHON_SCALARS = [int, float, complex]
F4, BF, F2 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
I1, I4, U1, C8 = (np.dtype(t) for t in (np.int8, np.int32, np.uint8, np.complex64))

# The binary promotion table of the semantics that Didax follows.
_LINES = (Path(__file__).parent / "promotion_table.txt").read_text().split("\n")
COLUMNS, *ROWS = [line.split() for line in _LINES if line and not line.startswith("#")]
CELLS = [(row[0], column, cell) for row in ROWS for column, cell in zip(COLUMNS, row[1:], strict=True)]


def operand(node: str, x64: bool) -> tuple[np.dtype, bool]:
    """The (dtype, weak) pair of a node of the table."""
    weak = {"i*": ("int32", "int64"), "f*": ("float32", "float64"), "c*": ("complex64", "complex128")}
    name = weak[node][x64] if node in weak else {"bf": "bfloat16"}.get(node, node)
    return np.dtype(name), node in weak


def join_or_absent(a, b):
    try:
        return dtypes.join(*a, *b)
    except TypePromotionError:
        return ABSENT


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    with config.override(enable_x64=request.param), jax.enable_x64(request.param):
        yield request.param


@pytest.fixture
def strict():
    with config.override(numpy_dtype_promotion="strict"), jax.numpy_dtype_promotion("strict"):
        yield


def everything(x64: bool):
    """Every operand there is, as (dtype, weak)."""
    return [(d, False) for d in dtypes.ALL_DTYPES] + [operand(node, x64) for node in ("i*", "f*", "c*")]


def test_table_is_complete():
    assert len(set(COLUMNS)) == 18 and [row[0] for row in ROWS] == COLUMNS
    assert len({(a, b) for a, b, _ in CELLS}) == 18 * 18


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
def test_the_lattices_have_no_two_ways_to_promote(x64):
    bounds = dtypes.check_lattice(dtypes._LATTICES[x64])
    for a, b in itertools.product(COLUMNS, repeat=2):
        common = bounds[a] & bounds[b]
        assert sum(common <= bounds[node] for node in common) == 1, (a, b)


@pytest.mark.parametrize(
    ("node", "more", "facts"),
    [
        ("i1", "u2", "dtypes: u1, i1; least bounds: i2, u2"),
        ("bf", "i8", "dtypes: i8, f*; least bounds: none, for there is a cycle"),
        ("c16", "b1", "dtypes: b1, u1; least bounds: none, for there is a cycle"),
        ("bf", "f2", None),  # bfloat16 below float16: another rule, but a rule
    ],
)
def test_an_edge_that_leaves_joins_undecided_is_refused(node, more, facts):
    lattice = dtypes.PROMOTION | {node: [*dtypes.PROMOTION[node], more]}
    if facts is None:
        assert dtypes.check_lattice(lattice)
        return
    with pytest.raises(ValueError) as error:
        dtypes.check_lattice(lattice)
    rule, found, fix = str(error.value).split("\n")
    assert rule == "Any two dtypes with common upper bounds have exactly one least of them, their join."
    assert found.strip() == facts and fix == "Remove an edge, or add one that orders the bounds."


def test_bfloat16_with_float16_gives_float32(x64):
    assert dtypes.join(BF, False, F2, False) == (F4, False)


def test_join_equals_every_cell_of_the_table(x64):
    """With x64 off, the cells of uint32 with narrower integers that say int64 become int32."""
    for a, b, cell in CELLS:
        if not x64 and cell == "i8" and "i8" not in (a, b):
            assert "u4" in (a, b)
            cell = "i4"
        assert dtypes.join(*operand(a, x64), *operand(b, x64)) == operand(cell, x64), (a, b)


def test_join_is_idempotent_and_commutative(x64):
    for a, b in itertools.product(everything(x64), repeat=2):
        assert join_or_absent(a, b) == join_or_absent(b, a)
        assert dtypes.join(*a, *a) == a


def test_join_is_associative(x64):
    pairs = everything(x64)
    joins = {(a, b): join_or_absent(a, b) for a, b in itertools.product(pairs, repeat=2)}
    for a, b, c in itertools.product(pairs, repeat=3):
        left, right = joins.get((joins[a, b], c)), joins.get((a, joins[b, c]))
        assert left == right, (a, b, c)


def test_join_is_the_least_upper_bound(x64):
    pairs = everything(x64)
    joins = {(a, b): join_or_absent(a, b) for a, b in itertools.product(pairs, repeat=2)}
    for a, b, bound in itertools.product(pairs, repeat=3):
        if joins[a, bound] == bound == joins[b, bound]:
            assert joins[joins[a, b], bound] == bound, (a, b, bound)


def test_weak_results_have_the_default_width_whatever_went_in(x64):
    wide, narrow = np.dtype(np.int64), np.dtype(np.int16)
    assert dtypes.join(wide, True, narrow, True) == (dtypes.default_dtype("i"), True)
    assert dtypes.join(np.dtype(np.uint64), False, wide, False) == (dtypes.default_dtype("f"), True)


def jax_promotion(a, b):
    """JAX's answer, weak results narrowed to their default width; ABSENT where it refuses."""
    try:
        result = jnp.promote_types(a, b)
        with jax.enable_x64(True):  # else JAX narrows the dtypes it is given first
            _, weak = jax.dtypes.result_type(a, b, return_weak_type_flag=True)
    except jax.dtypes.TypePromotionError:
        return ABSENT
    return jax.dtypes.canonicalize_dtype(result) if weak else result


def promotion_or_absent(a, b):
    try:
        return dtypes.promote_types(a, b)
    except TypePromotionError:
        return ABSENT


def assert_promotes_like_jax():
    for a, b in itertools.product([*dtypes.ALL_DTYPES, bool, *PYTHON_SCALARS], repeat=2):
        assert promotion_or_absent(a, b) == jax_promotion(a, b), (a, b)


def test_promote_types_equals_jax(x64):
    assert_promotes_like_jax()


def test_strict_promotion_allows_what_jax_allows(x64, strict):
    assert_promotes_like_jax()


def test_result_type_joins_any_number_of_operands():
    assert dtypes.result_type((I1, False)) == (I1, False)
    assert dtypes.result_type((I1, False), (BF, False), (F2, False)) == (F4, False)
    assert dtypes.result_type((np.dtype(np.int32), True), (I1, False), (F4, True)) == (F4, True)
    assert dtypes.result_type((U1, False), (C8, True), (BF, False), (I1, False)) == (C8, False)


def test_result_type_of_a_single_weak_operand_has_the_default_width():
    assert dtypes.result_type((np.dtype(np.float64), True)) == (F4, True)


def test_promote_types_accepts_names_scalar_types_and_python_types():
    assert dtypes.promote_types("bfloat16", np.float16) == F4
    assert dtypes.promote_types(np.uint8, int) == U1
    assert dtypes.promote_types(int, float) == F4
    assert dtypes.promote_types(bool, bool) == np.bool_
    assert dtypes.promote_types(None, "int32") == np.float64


def test_no_common_dtype_text():
    with pytest.raises(TypePromotionError) as error:
        dtypes.promote_types("int4", "int8")
    assert str(error.value) == (
        "These dtypes promote to no common dtype.\n"
        "  inputs: int4, int8\n"
        "Cast one of them to the dtype you want, as in x.astype('float32')."
    )
    assert error.value.__cause__ is None and error.value.__suppress_context__


def test_strict_text(strict):
    with pytest.raises(TypePromotionError) as error:
        dtypes.result_type((I4, False), (F4, False))
    assert str(error.value) == (
        "With numpy_dtype_promotion='strict' no operand changes its dtype implicitly.\n"
        "  inputs: int32, float32\n"
        "  common dtype: float32\n"
        "Cast explicitly, as in x.astype('float32'), or set numpy_dtype_promotion='standard'."
    )


def test_strict_text_marks_weak_operands(strict):
    with pytest.raises(TypePromotionError, match="inputs: int32, weak float32"):
        dtypes.result_type((I4, False), (F4, True))


def test_float0_promotes_only_with_itself():
    float0 = dtypes.float0
    assert dtypes.join(float0, False, float0, False) == (float0, False)
    with pytest.raises(TypePromotionError, match="float0, float32"):
        dtypes.join(float0, False, F4, False)


def test_default_dtypes_follow_enable_x64(x64):
    widths = [dtypes.default_dtype(kind).name for kind in "biufc"]
    wide = ["bool", "int64", "uint64", "float64", "complex128"]
    assert widths == (wide if x64 else ["bool", "int32", "uint32", "float32", "complex64"])
    assert [dtypes.default_dtype(t).name for t in (bool, int, float, complex)] == [
        widths[i] for i in (0, 1, 3, 4)
    ]


def test_dtype_honours_what_is_written(x64):
    for d in dtypes.ALL_DTYPES:
        for spelling in (d, d.type, d.name, d.newbyteorder(">")):
            assert dtypes.dtype(spelling) == d
    assert dtypes.dtype("f8") == np.float64 and dtypes.dtype(">i2") == np.int16
    assert dtypes.dtype(np.longlong) == np.int64
    assert dtypes.dtype("float0") == dtypes.dtype(dtypes.float0) == dtypes.float0


def test_dtype_gives_python_types_the_default_width(x64):
    for t, kind in ((bool, "b"), (int, "i"), (float, "f"), (complex, "c")):
        assert dtypes.dtype(t) == dtypes.dtype(t.__name__) == dtypes.default_dtype(kind)


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        3,
        [],
        "flaot32",
        "f4,f4",
        object,
        str,
        np.floating,
        np.dtype("M8[s]"),
        np.dtype("S3"),
        "longdouble",
    ],
    ids=repr,
)
def test_dtype_refuses_what_is_no_dtype_of_numbers(nonsense):
    with pytest.raises(TypeError) as error:
        dtypes.dtype(nonsense)
    assert str(error.value) == (
        "A dtype must name booleans, integers, floats or complex numbers.\n"
        f"  dtype: {nonsense!r}\n"
        "Use a name such as 'float32', a scalar type such as np.int8, or bool, int, float, complex."
    )
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_python_type_is_that_of_scalars_with_this_default_dtype(x64):
    for python_type in (bool, int, float, complex):
        assert dtypes.python_type(dtypes.default_dtype(python_type)) is python_type
    for other in ("uint32", "uint64", "int8", "bfloat16", dtypes.float0):
        assert dtypes.python_type(np.dtype(other)) is None


def test_short_names_round_trip():
    names = [dtypes.short_name(d) for d in (*dtypes.ALL_DTYPES, dtypes.float0)]
    assert len(set(names)) == len(names)
    assert [dtypes.from_short_name(name) for name in names] == [*dtypes.ALL_DTYPES, dtypes.float0]


@pytest.mark.parametrize(
    ("name", "short"),
    [("bool", "bool"), ("uint8", "u8"), ("int4", "i4"), ("bfloat16", "bf16"), ("float32", "f32"),
     ("complex64", "c64"), ("float8_e4m3fn", "f8_e4m3fn"), ("float4_e2m1fn", "f4_e2m1fn"),
     ("float0", "float0")],
)  # fmt: skip
def test_short_names(name, short):
    assert dtypes.short_name(dtypes.dtype(name)) == short
    assert dtypes.dtype_name(dtypes.dtype(name)) == name


def test_unknown_short_name_text():
    with pytest.raises(ValueError) as error:
        dtypes.from_short_name("f33")
    rule, name, fix = str(error.value).split("\n")
    assert rule == "No dtype has this short name." and name == "  name: 'f33'"
    assert fix.startswith("Use one of float0, bool, ") and "bf16" in fix


KIND_CLASSES = {
    "b": np.bool_,
    "i": np.signedinteger,
    "u": np.unsignedinteger,
    "f": np.floating,
    "c": np.complexfloating,
}


def test_kinds_and_issubdtype_equal_jax():
    abstract = [*KIND_CLASSES.values(), np.integer, np.inexact, np.number, np.generic]
    for d in dtypes.ALL_DTYPES:
        assert jnp.issubdtype(d, KIND_CLASSES[dtypes.kind_of(d)])
        for upper in [*abstract, np.float32, ml_dtypes.bfloat16]:
            assert dtypes.issubdtype(d, upper) == jnp.issubdtype(d, upper), (d, upper)


def test_issubdtype_of_classes_and_names():
    assert dtypes.issubdtype(np.floating, np.inexact)
    assert dtypes.issubdtype("int4", np.signedinteger)
    assert not dtypes.issubdtype(np.floating, np.integer)
    assert not dtypes.issubdtype("bfloat16", "float32")


def test_predicates_follow_kinds():
    for d in (*dtypes.ALL_DTYPES, dtypes.float0):
        kind = dtypes.kind_of(d)
        assert dtypes.is_float(d) == (kind == "f")
        assert dtypes.is_complex(d) == (kind == "c")
        assert dtypes.is_inexact(d) == (kind in "fc")
        assert dtypes.is_integer(d) == (kind in "iu")
        assert dtypes.is_signed(d) == (kind == "i")
        assert dtypes.tangent_dtype(d) == (d if kind in "fc" else dtypes.float0)


def test_float0_is_jax_float0():
    assert dtypes.float0 == jax.dtypes.float0 and dtypes.kind_of(dtypes.float0) == "0"


def test_real_and_complex_dtypes():
    assert dtypes.real_dtype(C8) == F4 and dtypes.real_dtype(np.dtype(np.complex128)) == np.float64
    assert dtypes.real_dtype(BF) == BF and dtypes.real_dtype(I1) == I1
    assert dtypes.complex_dtype(F2) == C8 and dtypes.complex_dtype(np.dtype(np.float64)) == np.complex128
    assert dtypes.complex_dtype(C8) == C8 and dtypes.complex_dtype(I4) == C8
    assert dtypes.complex_dtype(np.dtype(ml_dtypes.float8_e5m2)) == C8
    assert dtypes.complex_dtype(np.dtype(np.complex128)) == np.complex128


def test_limits_of_every_dtype():
    for d in dtypes.ALL_DTYPES:
        if dtypes.is_inexact(d):
            assert dtypes.finfo(d).eps == jnp.finfo(d).eps
        elif dtypes.is_integer(d):
            assert dtypes.iinfo(d).max == jnp.iinfo(d).max
    assert dtypes.finfo("bfloat16").bits == 16 and dtypes.iinfo("int4").min == -8


def test_numpy_scalar_keeps_to_the_range_of_integers():
    assert dtypes.numpy_scalar(300, F4) == 300 and dtypes.numpy_scalar(-128, I1) == -128
    for x, shown in ((128, "integer: 128"), (1e3, "float: 1000.0"), (float("nan"), "float: nan")):
        with pytest.raises(OverflowError) as error:
            dtypes.numpy_scalar(x, I1)
        assert str(error.value) == (
            "A Python number must fit the integer dtype it takes.\n"
            f"  {shown}, dtype: int8 (-128 to 127)\n"
            "Use a wider dtype (enable_x64 widens the default), or a float."
        )


def test_none_is_the_default_dtype():
    assert jax.dtypes.canonicalize_dtype(None) == dx.dtypes.canonicalize_dtype(None) == np.float32
    assert (
        jnp.result_type(None, "int8")
        == dnp.result_type(None, "int8")
        == dx.dtypes.result_type(None)
        == np.float32
    )
    assert jnp.finfo(None).bits == dnp.finfo(None).bits == 64
