"""Which of XLA's options programs are compiled with."""

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from didax.passes.loops import optimize_loops
from didax.runtime.xla_options import PLAIN, SMALL, options_for
from tests.quickly import AS_USERS

NOT_UNROLLED = {"xla_cpu_disable_loop_unrolling": True}
LESS_UNROLLED = {"xla_backend_optimization_level": 2}


def chosen(f, *args):
    return options_for(optimize_loops(dx.make_jaxpr(f)(*args).jaxpr)[0])


def layers(x, ws):
    for w in ws:
        x = nn_of(x @ w)
    return x


def nn_of(x):
    return x / dnp.sum(dnp.exp(x), axis=-1, keepdims=True)


@pytest.mark.cpu
def test_loops_of_programs_of_small_arrays_are_not_written_out():
    x, w = np.ones((16, 256), np.float32), np.ones((256, 256), np.float32)
    assert chosen(layers, x, [w, w]) == NOT_UNROLLED  # the weights are larger, but only a library reads them
    assert chosen(dx.jit(layers), x, [w, w]) == NOT_UNROLLED
    assert chosen(dx.grad(lambda x: layers(x, []).sum()), x) == NOT_UNROLLED


@pytest.mark.cpu
def test_of_large_arrays_parts_may_be_read():
    xs = np.ones((2 * PLAIN, 16), np.float32)
    assert chosen(lambda xs: nn_of(xs[3:9]) + xs[1], xs) == NOT_UNROLLED


def test_loops_of_large_arrays_are_written_out():
    large = np.ones(PLAIN + 1, np.float32)
    assert chosen(lambda x: dnp.sin(x).sum(), large) == {}
    assert chosen(dx.jit(lambda x: x * 2), large) == {}
    assert chosen(lambda x: dnp.broadcast_to(x, large.shape), 1.0) == {}


@pytest.mark.cpu
@pytest.mark.parametrize(
    "f", [dnp.max, dnp.argmin, dnp.cumsum, lambda x: (x > 0).sum(), dnp.sort, lambda x: dnp.pad(x, 1)]
)
def test_what_counts_on_copies_keeps_them_sooner(f):
    """Extrema, counts and running sums work on blocks, whose loops are short."""
    assert chosen(f, np.ones(SMALL // 2, np.float32)) == NOT_UNROLLED
    assert chosen(f, np.ones(SMALL + 1, np.float32)) == {}
    assert chosen(lambda x: dnp.exp(x).sum(), np.ones(SMALL + 1, np.float32)) == NOT_UNROLLED


@pytest.mark.cpu
@pytest.mark.parametrize("method", ["add", "max", "min", "multiply"])
def test_scatters_gain_nothing_by_copies(method):
    x, at = np.ones(SMALL + 1, np.float32), np.zeros(SMALL + 1, np.int32)
    assert chosen(lambda x: getattr(dnp.zeros(9).at[at], method)(x), x) == NOT_UNROLLED


def rolled(x, axis=-1):
    return x + dnp.roll(x, 1, axis)


def padded(x):
    return x + dnp.pad(x, 1)[2:, 2:]


@pytest.mark.cpu
def test_rows_that_are_joined_keep_copies_sooner():
    """A loop along such a row has a branch, of which LLVM rids the loop that it writes out."""
    assert chosen(rolled, np.ones((64, 64), np.float32)) == NOT_UNROLLED
    assert chosen(rolled, np.ones((64, 65), np.float32)) == {}
    assert chosen(lambda x: rolled(x, 0), np.ones((64, 65), np.float32)) == NOT_UNROLLED


def filtered(x):
    return x + lax.conv(x[None, None], np.ones((1, 1, 3, 3), np.float32), (1, 1), "SAME")[0, 0]


@pytest.mark.cpu
@pytest.mark.parametrize("step", [rolled, padded, filtered])
def test_loops_over_stencils_keep_copies_but_those_with_products_do_not(step):
    def loop(step, x):
        return lax.fori_loop(0, 50, lambda _, x: step(x), x)

    x = np.ones((40, 40), np.float32)
    assert chosen(lambda x: loop(step, x), x) == {}
    assert chosen(step, x) == NOT_UNROLLED
    assert chosen(lambda x: loop(lambda x: dnp.tanh(step(x) @ x), x), x) == NOT_UNROLLED


@pytest.mark.cpu
def test_loops_that_reduce_keep_copies_but_for_sums_along_rows():
    def chosen_of(reduced, shape=(40, 40)):
        def step(v, x):
            y = v[:, None] * x
            return v + reduced(y).mean(), None

        v, xs = np.ones(shape[0], np.float32), np.ones((9, *shape), np.float32)
        return chosen(lambda v, xs: lax.scan(step, v, xs), v, xs)

    found = {
        name: chosen_of(reduced)
        for name, reduced in {
            "columns": lambda y: y.sum(0),
            "extrema": lambda y: y.max(1),
            "tests": lambda y: (y > 3).any(1).astype(np.float32),
            "counts": lambda y: (y > 3).sum(1).astype(np.float32),
            "rows": lambda y: y.sum(1),
            "all": lambda y: y.sum(),
            "none": lambda y: y[0],
        }.items()
    }
    assert {name for name, options in found.items() if options == {}} == {
        "columns",
        "extrema",
        "tests",
        "counts",
    }
    assert chosen_of(lambda y: (y @ y.T).sum(0)) == NOT_UNROLLED
    assert chosen(lambda y: y.sum(0) + y.max(0), np.ones((40, 40), np.float32)) == NOT_UNROLLED


@pytest.mark.cpu
def test_operands_of_convolutions_count():
    """XLA reorders their axes in loops of its own, which are faster if they are written out."""
    weights = np.ones((4, 4, 3, 3), np.float32)

    def gradient(images):
        return dx.grad(lambda w: lax.conv(images, w, (1, 1), "SAME").sum())(weights)

    assert chosen(gradient, np.ones((2, 4, 16, 16), np.float32)) == NOT_UNROLLED
    assert chosen(gradient, np.ones((16, 4, 32, 32), np.float32)) == {}


@pytest.mark.cpu
def test_operands_of_products_count_where_their_axes_are_moved():
    """A library computes products of matrices, of which XLA's own loops make other products first."""
    x, y = np.ones((8, 32, 32), np.float32), np.ones((8, 32, 32), np.float32)
    assert x.size > SMALL
    for text in "bij,bjk->bik", "bji,bjk->bik", "bij,bkj->bik", "bij,bij->b":
        assert chosen(lambda x, y: dnp.einsum(text, x, y), x, y) == NOT_UNROLLED, text
    for text in "ibj,jbk->bik", "ijb,jkb->bik", "bi,ijk,bk->bj":
        small, large = [
            [np.ones((n,) * len(part), np.float32) for part in text.split("-")[0].split(",")]
            for n in (16, 32)
        ]
        assert chosen(lambda *xs: dnp.einsum(text, *xs), *small) == NOT_UNROLLED, text
        assert chosen(lambda *xs: dnp.einsum(text, *xs), *large) == {}, text


def test_of_arrays_of_open_lengths_none_is_small():
    traced = dx.jit(lambda x: x * 2, bucket="n").trace(np.ones(5, np.float32))
    assert "n]" in str(traced.jaxpr) and options_for(traced.jaxpr.jaxpr) == {}


@pytest.mark.cpu
def test_the_steps_of_a_loop_count_not_what_it_stacks():
    h, w = np.ones((16, 16), np.float32), np.ones((16, 16), np.float32)
    xs = np.ones((PLAIN, 16, 16), np.float32)

    def run(w, xs):
        return lax.scan(lambda h, x: (nn_of(h @ w) + x, h), h, xs)

    assert chosen(run, w, xs) == NOT_UNROLLED
    # Compiled as one function.
    assert chosen(lambda n: lax.fori_loop(0, n, lambda i, c: c * 2 + i, 0), 9) == {}
    assert chosen(lambda x: lax.fori_loop(0, 9, lambda i, c: dnp.sin(c) * x, x), np.ones(200)) == {}


@pytest.mark.cpu
def test_loops_of_one_function_whose_steps_are_products_are_not_written_out():
    """Products of few rows are products with vectors there, each a loop that is long enough."""

    def run(w, xs):
        return lax.scan(lambda h, x: (dnp.tanh(h @ w + x), None), xs[0], xs)[0].sum()

    for width, options in ((16, NOT_UNROLLED), (8, {})):
        for rows in ((), (4,)) if options else ((),):
            args = np.ones((width, width), np.float32), np.ones((30, *rows, width), np.float32)
            assert chosen(run, *args) == options
            assert chosen(dx.grad(run), *args) == options


@pytest.mark.cpu
def test_loops_along_short_rows_are_written_out():
    """LLVM vectorizes along another axis then: 1.1 to 1.6 times as fast, where much of a program is of this kind."""
    for shape in (100, 3), (100, 2, 5), (200, 3, 1):
        assert chosen(nn_of, np.ones(shape, np.float32)) == LESS_UNROLLED, shape
    for shape in (64, 8), (100, 16), (1000,), (80, 3), (1000, 1), (3, 500):
        assert chosen(nn_of, np.ones(shape, np.float32)) == NOT_UNROLLED, shape
    classes, hidden = np.ones((32, 5), np.float32), np.ones((32, 32), np.float32)

    def network(x, layers):  # of whose operations few are of short rows
        for _ in range(layers):
            x = nn_of(x @ hidden)
        return nn_of(x @ classes)

    x = np.ones((128, 32), np.float32)
    assert chosen(lambda x: network(x, 2), x) == chosen(dx.jit(lambda x: network(x, 2)), x) == LESS_UNROLLED
    assert chosen(lambda x: network(x, 9), x) == NOT_UNROLLED
    moved = np.ones((200, 6), np.float32)
    assert chosen(lambda x: nn_of(x.reshape(20, 60)), moved) == NOT_UNROLLED


@pytest.mark.cpu
def test_programs_that_gather_many_rows_are_compiled_at_level_2():
    """LLVM's level 3 copies rows of 33 to 79 elements one element at a time: it takes twice as long."""

    def chosen_of(width, f=lambda x: x, rows=1000):
        i = np.arange(rows) % 7
        return chosen(lambda x: f(x[i]), np.ones((100, width), np.float32))

    for width in (33, 64, 79):
        assert chosen_of(width) == chosen_of(width, lambda x: dnp.tanh(x).sum(0)) == LESS_UNROLLED
    assert chosen_of(32, rows=2000) == chosen_of(128) == {}
    for counts_on_copies in (lambda x: x.max(0), lambda x: x.T + 1):
        assert chosen_of(64, counts_on_copies) == {}
    assert chosen_of(64, lambda x: dnp.zeros((7, 64)).at[np.arange(1000) % 7].add(x)) == LESS_UNROLLED
    assert chosen_of(64, rows=100) == NOT_UNROLLED
    i = np.arange(64)
    assert chosen(lambda x: dnp.stack([x] * 2, 1)[:, :, i], np.ones((500, 64), np.float32)) == {}
    body = dx.jit(lambda x: x[np.arange(1000) % 7])
    assert chosen(lambda x: dx.jit(body)(x), np.ones((9, 64), np.float32)) == LESS_UNROLLED


@pytest.mark.cpu
def test_the_option_reaches_xla_and_the_user_decides():
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(4, 8, 16)
    lowered = dx.jit(nn_of).lower(x)
    with config.override(
        enable_compilation_cache=False
    ):  # what is read from there is written in another form
        options = {}, {"xla_cpu_disable_loop_unrolling": False}
        compiled = [lowered.compile(AS_USERS | more) for more in options]
    short, long = [len(c.runtime_executable().serialize()) for c in compiled]
    assert short < 0.8 * long
    np.testing.assert_allclose(*[c(x) for c in compiled], rtol=1e-6)


def anomaly(mean, eccentricity):
    """The eccentric anomaly of an orbit, by Newton's method."""
    e = mean
    for _ in range(4):
        e = e - (e - eccentricity * dnp.sin(e) - mean) / (1 - eccentricity * dnp.cos(e))
    return e.sum()


ONE_KERNEL = NOT_UNROLLED | {"xla_cpu_use_multi_output_fusion": True}


@pytest.mark.cpu
def test_gradients_of_elementwise_operations_on_small_arrays_have_fusions_of_several_results():
    x = np.linspace(0.1, 0.9, 100, dtype=np.float32)
    both = dx.value_and_grad(anomaly, (0, 1))
    assert chosen(anomaly, x, x) == NOT_UNROLLED  # few values wait to be read
    assert chosen(both, x, x) == ONE_KERNEL
    assert chosen(dx.grad(dx.jit(anomaly)), x, x) == ONE_KERNEL
    assert chosen(both, x, 0.3) == chosen(both, 0.5, 0.3) == ONE_KERNEL
    assert chosen(both, np.tile(x, 11), np.tile(x, 11)) == chosen(both, x[:0], x[:0]) == NOT_UNROLLED


@pytest.mark.cpu
def test_beside_other_operations_fusions_have_one_result():
    """XLA ends the process where it joins some of them."""
    x = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)
    for moved in (
        lambda x: x[0],
        lambda x: x[::-1],
        lambda x: x.sum(0),
        lambda x: dnp.cumsum(x, 0),
        lambda x: x.at[0].add(x[1]),
        lambda x: x @ x.T,
        lambda x: x.reshape(12),
        dx.jit(lambda x: x.T),
    ):
        assert chosen(dx.grad(lambda x: anomaly(moved(x), 0.3)), x) == NOT_UNROLLED


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["int4", "uint2", "float4_e2m1fn", "float8_e4m3fn"])
def test_fusions_of_narrow_numbers_have_one_result(dtype):
    """XLA writes wrong code for several results of 4 bits."""
    x = dnp.array([1, 0, 1]).astype(dtype)
    assert (
        chosen(lambda x: [x + x, x * x, -x, x > 0, x == x, x - x, x < 1, x != 1, x >= x], x) == NOT_UNROLLED
    )


@pytest.mark.cpu
def test_a_gradient_of_elementwise_operations_is_one_kernel():
    x = np.linspace(0.1, 0.9, 20, dtype=np.float32)
    lowered = dx.jit(dx.grad(anomaly)).lower(x, x)
    apart, joined = [
        lowered.compile({"xla_cpu_use_multi_output_fusion": on}).as_text().count(" fusion(")
        for on in (False, True)
    ]
    assert joined <= 2 < 8 < apart
    assert lowered.compile().as_text().count(" fusion(") == joined
