"""Collectives over the named axis of a `vmap`, compared with jax under every transformation."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.primitives.collectives import psum_p
from tests.checks import assert_close, sampled

F = Callable[..., Any]
XS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-2.0, 1.0, 0.1]], np.float32)  # 3 elements of 3


def ramp(m: ModuleType) -> Any:
    """Different weights for different places, so that a permuted result shows."""
    return m.numpy.arange(3.0) + 1.0


FUNCTIONS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "psum": lambda m, x: m.lax.psum(x * x, "i") * x,
    "psum of a constant": lambda m, x: x * m.lax.psum(2.0, "i"),
    "psum of an array that is not mapped": lambda m, x: x * m.lax.psum(ramp(m), "i"),
    "pmean": lambda m, x: m.lax.pmean(m.numpy.sin(x), "i") * x,
    "psum of a tree": lambda m, x: m.lax.psum({"a": x, "b": (x * x, 1)}, "i")["b"][0] * x,
    "all_gather": lambda m, x: m.numpy.sum(m.lax.all_gather(x, "i") * ramp(m)) * x,
    "all_gather along the last axis": lambda m, x: (
        m.numpy.sum(m.lax.all_gather(x, "i", axis=-1) * ramp(m)) * x
    ),
    "all_gather tiled": lambda m, x: m.lax.all_gather(x, "i", tiled=True)[2:5] * x,
    "psum_scatter": lambda m, x: m.lax.psum_scatter(x * x, "i") * x,
    "psum_scatter tiled": lambda m, x: m.lax.psum_scatter(x * x, "i", tiled=True) * x,
    "all_to_all": lambda m, x: m.lax.all_to_all(x * x, "i", 0, 0) * ramp(m),
    "all_to_all tiled": lambda m, x: m.lax.all_to_all(x * x, "i", 0, 0, tiled=True) * ramp(m),
    "pswapaxes": lambda m, x: m.lax.pswapaxes(x, "i", 0) * x,
    "ppermute": lambda m, x: m.lax.ppermute(x * x, "i", [(0, 1), (1, 2), (2, 0)]) * ramp(m),
    "pshuffle": lambda m, x: m.lax.pshuffle(x * x, "i", [2, 1, 0]) * ramp(m),
    "axis_index": lambda m, x: x * m.lax.axis_index("i"),
    "axis_size": lambda m, x: x * m.lax.axis_size("i"),
    "in jit": lambda m, x: m.jit(lambda y: y - m.lax.pmean(y, "i"))(x) * x,
    "in cond": lambda m, x: m.lax.cond(m.lax.psum(1, "i") > 2, lambda: m.lax.psum(x, "i") * x, lambda: x),
    "in cond with a shared predicate": lambda m, x: m.lax.cond(
        m.lax.psum(x[0], "i") > -1.0, lambda y: m.lax.psum(y * y, "i") * y, lambda y: y * 2.0, x
    ),
    "beside an inner vmap": lambda m, x: m.vmap(lambda y: m.lax.psum(y * y, "i") * y)(x),
    "under an inner grad": lambda m, x: m.grad(lambda y: m.numpy.sum(m.lax.psum(y * y, "i") * y))(x),
    "in an inner vmap of the same name": lambda m, x: (
        m.vmap(lambda y: m.lax.psum(y, "i"), axis_name="i")(x) * x
    ),
}
EXTREMA: dict[str, Callable[[ModuleType, Any], Any]] = {
    "pmax": lambda m, x: m.lax.pmax(x, "i") * x,
    "pmin": lambda m, x: m.lax.pmin(x, "i") * x,
}


def table(m: ModuleType, names: Any) -> F:
    """The named functions at once, each of its own argument: one program for each composition."""
    return lambda xs: {name: (FUNCTIONS | EXTREMA)[name](m, xs[name]) for name in names}


def grad(m: ModuleType, f: F) -> F:
    """Of the sum of all results, which are weighed differently."""
    return m.grad(lambda xs: sum(m.numpy.sum(y * ramp(m)) for y in f(xs).values()))


def three(m: ModuleType, xs: Any) -> Any:
    return {name: m.numpy.stack([x, -x, x * 2.0]) for name, x in xs.items()}


COMPOSITIONS: dict[str, Callable[[ModuleType, F], F]] = {
    "vmap": lambda m, f: m.vmap(f, axis_name="i"),
    "vmap over the last axis": lambda m, f: m.vmap(f, in_axes=1, out_axes=1, axis_name="i"),
    "jit(vmap)": lambda m, f: m.jit(m.vmap(f, axis_name="i")),
    "vmap(jit)": lambda m, f: m.vmap(m.jit(f), axis_name="i"),
    "vmap(vmap)": lambda m, f: lambda xs: m.vmap(m.vmap(f, axis_name="i"))(three(m, xs)),
    "outer axis": lambda m, f: lambda xs: m.vmap(m.vmap(f), axis_name="i")(three(m, xs)),
}
DERIVATIVES: dict[str, Callable[[ModuleType, F], F]] = {
    "vmap(grad)": lambda m, f: m.vmap(grad(m, f), axis_name="i"),
    "jit(vmap(grad))": lambda m, f: m.jit(m.vmap(grad(m, f), axis_name="i")),
    "grad(vmap)": lambda m, f: grad(m, m.vmap(f, axis_name="i")),
    "vmap(jvp)": lambda m, f: m.vmap(lambda xs: m.jvp(f, (xs,), (xs,)), axis_name="i"),
    "jvp(vmap)": lambda m, f: lambda xs: m.jvp(m.vmap(f, axis_name="i"), (xs,), (xs,)),
}


@pytest.mark.parametrize("composition", sampled(COMPOSITIONS | DERIVATIVES, 2))
def test_a_composition_is_what_jax_computes(composition):
    # Jax has no derivative of extrema.
    names = [*FUNCTIONS, *(EXTREMA if composition in COMPOSITIONS else ())]
    if "vmap(grad" in composition:  # jax 0.10.2 fails to transpose an all_to_all inside a vmap
        names = [name for name in names if "all_to_all" not in name]
    compose = (COMPOSITIONS | DERIVATIVES)[composition]
    xs = dict.fromkeys(names, XS)
    assert_close(compose(dx, table(dx, names))(xs), jax.jit(compose(jax, table(jax, names)))(xs), rtol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_grad_inside_of_the_axis_is_grad_of_the_sum_over_it(name):
    """Each element's gradient counts what its value does to the results of all elements."""
    f = FUNCTIONS[name]
    inside = dx.vmap(dx.grad(lambda x: dnp.sum(f(dx, x))), axis_name="i")(XS)
    outside = dx.grad(lambda xs: dnp.sum(dx.vmap(lambda x: f(dx, x), axis_name="i")(xs)))(XS)
    assert_close(inside, outside, rtol=1e-5)


def test_elements_that_attain_the_largest_share_its_derivative():
    xs = np.array([1.0, 3.0, 3.0], np.float32)
    g = dx.grad(lambda xs: dx.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(xs)[0])(xs)
    assert g.tolist() == [0.0, 0.5, 0.5]
    _, tangent = dx.jvp(
        dx.vmap(lambda x: lax.pmax(x, "i"), axis_name="i"), (xs,), (np.array([5, 1, 2], np.float32),)
    )
    assert tangent.tolist() == [1.5, 1.5, 1.5]


def test_zeros_reach_elements_that_no_pair_leads_to():
    shift = dx.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")
    assert shift(np.array([1, 2, 3], np.int32)).tolist() == [0, 1, 2]
    g = dx.grad(lambda xs: (shift(xs) * np.array([1, 10, 100], np.float32)).sum())(np.ones(3, np.float32))
    assert g.tolist() == [10.0, 100.0, 0.0]


def test_all_to_all_of_other_axes():
    """The split axis goes, the received pieces stack along the new one."""
    x = np.arange(3 * 2 * 3 * 4, dtype=np.float32).reshape(3, 2, 3, 4)
    for split, concat in ((1, 0), (1, 2), (1, 1)):
        ours = dx.vmap(lambda x: lax.all_to_all(x, "i", split, concat), axis_name="i")(x)
        assert_close(ours, jax.vmap(lambda x: jax.lax.all_to_all(x, "i", split, concat), axis_name="i")(x))
    x = np.arange(2 * 2 * 6, dtype=np.float32).reshape(2, 2, 6)
    for split, concat in ((0, 1), (1, 0), (1, 1)):
        ours = dx.vmap(lambda x: lax.all_to_all(x, "i", split, concat, tiled=True), axis_name="i")(x)
        theirs = jax.vmap(lambda x: jax.lax.all_to_all(x, "i", split, concat, tiled=True), axis_name="i")(x)
        assert_close(ours, theirs)


# --- Several names ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda m, x: m.lax.psum(x, ("i", "j")),
        lambda m, x: m.lax.pmean(x, ("i", "j")),
        lambda m, x: m.lax.pmax(x, ("j", "i")),
        lambda m, x: m.lax.psum(x, "i") - m.lax.psum(x, "j"),
        lambda m, x: m.lax.axis_index(("i", "j")) * x,
        lambda m, x: m.lax.axis_index(("j", "i")) * x,
        lambda m, x: m.lax.all_gather(x, "i") + m.lax.axis_index("j"),
        lambda m, x: x * m.lax.psum(1, ("i", "j")),
        lambda m, x: m.lax.axis_index(()) + m.lax.all_gather(x, ()),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit])
def test_several_names(f, wrap):
    xs = np.arange(6, dtype=np.float32).reshape(2, 3)
    ours = wrap(dx.vmap(dx.vmap(lambda x: f(dx, x), axis_name="j"), axis_name="i"))(xs)
    assert_close(ours, jax.vmap(jax.vmap(lambda x: f(jax, x), axis_name="j"), axis_name="i")(xs))


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var", "std", "nansum", "nanmean", "ptp"])
@pytest.mark.parametrize("axis", ["i", ("i", 0)])
def test_reductions_over_mapped_axes(name, axis):
    x = np.array([[0, 5], [2, 1], [7, 3]], "float32")
    reduce = lambda m, **options: lambda r: getattr(m.numpy, name)(r, axis=axis, **options)
    assert_close(dx.vmap(reduce(dx), axis_name="i")(x), jax.vmap(reduce(jax), axis_name="i")(x))
    if name == "ptp":
        return
    options = {"where": np.array([True, False]), "keepdims": True}
    options |= {"initial": 6.0} if name in ("sum", "max", "min") else {}
    ours, theirs = (d.vmap(reduce(d, **options), axis_name="i")(x) for d in (dx, jax))
    assert_close(ours, theirs)


def test_softmax_over_a_mapped_axis():
    x = np.array([[0, 5], [2, -np.inf], [-1000, 3]], "float32")
    assert_close(dx.vmap(lambda r: dx.nn.softmax(r, axis="i"), axis_name="i")(x), dx.nn.softmax(x, axis=0))
    ours = dx.vmap(lambda r: dx.nn.logsumexp(r, axis=("i", 0)), axis_name="i")(x)
    assert_close(ours, np.full(3, dx.nn.logsumexp(x)))
    with pytest.raises(NameError, match="No mapped axis is named 'i'"):
        dnp.mean(x, axis="i")
    with pytest.raises(TypeError, match="prod takes axes as integers"):
        dnp.prod(x, axis="i")


@pytest.mark.parametrize("tiled", [True, False])
def test_all_gather_over_several_names_counts_the_first_slowest(tiled):
    xs = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    f = dx.vmap(dx.vmap(lambda x: lax.all_gather(x, ("i", "j"), tiled=tiled), axis_name="j"), axis_name="i")
    assert np.ravel(f(xs)[1, 2]).tolist() == [0, 1, 2, 3, 4, 5]
    assert f(xs)[1, 2].shape == ((6,) if tiled else (6, 1))


def test_exchanges_over_several_names():
    xs = np.arange(2 * 3 * 12 * 2, dtype=np.float32).reshape(2, 3, 12, 2)

    def over_both(f):
        return dx.vmap(dx.vmap(f, axis_name="j"), axis_name="i")

    for names in (("i", "j"), ("j", "i")):
        ours, theirs = [
            m.vmap(
                m.vmap(lambda x, m=m: m.lax.all_to_all(x, names, 0, 1, tiled=True), axis_name="j"),
                axis_name="i",
            )(xs)
            for m in (dx, jax)
        ]
        assert_close(ours, theirs)
    pairs = [(0, 1), (1, 4), (5, 0), (3, 3)]
    sent = over_both(lambda x: lax.ppermute(x, ("j", "i"), pairs))(xs)
    wanted = np.zeros((6, 12, 2), "float32")
    for source, destination in pairs:
        wanted[destination] = xs.swapaxes(0, 1).reshape(6, 12, 2)[source]
    assert_close(sent, wanted.reshape(3, 2, 12, 2).swapaxes(0, 1))
    groups = [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(NotImplementedError, match="axis_index_groups of psum are of one axis"):
        over_both(lambda x: lax.psum(x, ("i", "j"), axis_index_groups=groups))(xs)


# --- Constants and dtypes -------------------------------------------------------------------------


def test_psum_of_one_is_a_python_integer():
    sizes = []
    dx.jit(dx.vmap(lambda x: sizes.append(lax.psum(1, "i")) or x, axis_name="i"))(XS)
    assert sizes == [3] and type(sizes[0]) is int


@pytest.mark.parametrize("x", [np.array([True, False, True]), np.array([1, 2, 4], np.int32)])
@pytest.mark.parametrize("name", ["psum", "pmean", "pmax", "pmin"])
def test_dtypes(x, name):
    ours = dx.vmap(lambda x: getattr(lax, name)(x, "i"), axis_name="i")(x)
    theirs = jax.vmap(lambda x: getattr(jax.lax, name)(x, "i"), axis_name="i")(x)
    assert_close(ours, theirs)


# --- Errors ----------------------------------------------------------------------------------------

COLLECTIVES: dict[str, Callable[[Any, Any], Any]] = {
    "psum": lax.psum,
    "pmean": lax.pmean,
    "pmax": lax.pmax,
    "pmin": lax.pmin,
    "all_gather": lax.all_gather,
    "psum_scatter": lax.psum_scatter,
    "all_to_all": lambda x, name: lax.all_to_all(x, name, 0, 0),
    "ppermute": lambda x, name: lax.ppermute(x, name, [(0, 1)]),
    "pshuffle": lambda x, name: lax.pshuffle(x, name, [0]),
    "axis_index": lambda x, name: lax.axis_index(name),
    "axis_size": lambda x, name: lax.axis_size(name),
}


def test_names_that_are_no_strings_are_listed():
    name: Any = ("n", 1)
    with pytest.raises(NameError, match=r"axes in scope: \('n', 1\)"):
        dx.vmap(lambda x: lax.psum(x, "i"), axis_name=name)(np.float32([1, 2]))


@pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES)
@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit, lambda f: dx.vmap(f, axis_name="j")])
def test_a_name_that_is_not_mapped(collective, wrap):
    with pytest.raises(NameError, match="No mapped axis is named 'i' here") as caught:
        wrap(lambda x: collective(x, "i"))(XS)
    assert "Map the function with vmap(..., axis_name='i')" in str(caught.value)


@pytest.mark.parametrize(
    "f, wanted",
    [
        (lambda x: lax.all_gather(x, "i", axis=3), "array: float32[3], axis: 3"),
        (
            lambda x: lax.psum_scatter(x[:2], "i"),
            "array: float32[2], scatter_dimension: 0; axis 'i' has 3 elements",
        ),
        (
            lambda x: lax.psum_scatter(x[:2], "i", tiled=True),
            "operand: float32[2], dimension: 0; axis 'i' has 3",
        ),
        (
            lambda x: lax.all_to_all(x[:2], "i", 0, 0),
            "array: float32[2], split_axis: 0; axis 'i' has 3 elements",
        ),
        (lambda x: lax.all_to_all(x, "i", 0, 1), "array: float32[3], concat_axis: 1"),
        (lambda x: lax.ppermute(x, "i", [(0, 3)]), "perm: [(0, 3)], axis 'i' of 3 elements"),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), "each position at most once"),
        (lambda x: lax.pshuffle(x, "i", [0, 1]), "perm: [0, 1], axis 'i' of 3 elements"),
        (lambda x: lax.psum_scatter(x[0], "i"), "Give the array an axis (reshape)."),
        (lambda x: lax.psum(x, ("i", 1)), "axis_name: ('i', 1), array: float32[3]"),
        (lambda x: lax.pmax(x, -1), "Use axes from 0 to 0, or a string where an axis of vmap is meant."),
        (lambda x: lax.pmin(x[0], 0), "Give the array an axis (reshape), or a string"),
    ],
)
def test_misuse_is_explained(f, wanted):
    with pytest.raises(ValueError) as caught:
        dx.vmap(f, axis_name="i")(XS)
    assert wanted in str(caught.value) and len(str(caught.value).splitlines()) == 3


def test_a_collective_in_a_branch_that_only_some_elements_take():
    def f(x: Any) -> Any:
        return lax.cond(x[0] > 0.0, lambda: lax.psum(x, "i"), lambda: x)

    with pytest.raises(ValueError, match="cannot hold a collective over that axis") as caught:
        dx.vmap(f, axis_name="i")(XS)
    assert "axis 'i' of 3 elements; branches with a collective: [1]" in str(caught.value)
    # of an axis that the predicate does not depend on it can
    ours = dx.vmap(
        lambda p: dx.vmap(lambda x: lax.cond(p, lambda: lax.psum(x, "i"), lambda: x), axis_name="i")(XS)
    )
    assert_close(ours(np.array([True, False])), np.stack([np.broadcast_to(XS.sum(0), (3, 3)), XS]))


def test_an_integer_is_an_axis_of_the_array():
    """Also where an axis of a vmap has that name; with names it is reduced beside the mapped ones."""
    for collective, reduced in ((lax.psum, np.sum), (lax.pmax, np.max), (lax.pmin, np.min)):
        ours = dx.vmap(lambda x, c=collective: (c(x, 0), c({"x": x}, ("i", 0))["x"]), axis_name="i")(XS)
        assert_close(ours[0], reduced(XS, 1))
        assert_close(ours[1], np.broadcast_to(reduced(XS), 3))
        assert_close(collective(XS, (0, 1)), reduced(XS))
    assert_close(dx.grad(lambda x: (lax.psum(x, 1) ** 2).sum())(XS), 2 * XS.sum(1, keepdims=True) + 0 * XS)
    name: Any = 0
    assert_close(dx.vmap(lambda x: lax.psum(x, name), axis_name=name)(XS), XS.sum(1))


def test_a_collective_is_not_evaluated_where_its_axis_is_not_mapped():
    with pytest.raises(NameError, match="psum runs outside of the function that maps its axis"):
        psum_p.bind(dnp.ones(3), axis_name="i", axis_size=3)


def test_collectives_of_nothing_and_of_booleans():
    for tiled in (False, True):
        gathered = dx.vmap(dx.grad(lambda x: lax.all_gather(x, "i", tiled=tiled).sum()), axis_name="i")
        assert gathered(np.zeros((0, 2), np.float32)).shape == (0, 2)
    counted = dx.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(np.ones((2, 2), bool))
    assert (counted.dtype, counted.tolist()) == (np.int32, [2, 2])


def test_an_axis_is_named_once() -> None:
    for call in (lax.psum, lax.pmax, lax.all_gather, lax.psum_scatter):
        with pytest.raises(ValueError, match=r"goes over an axis once\.\n  axis_name: \('n', 'n'\)"):
            dx.vmap(lambda x, call=call: call(x, ("n", "n")), axis_name="n")(np.ones((2, 4), np.float32))
