"""Effects: each happens as often and in the order that the program says, however it is compiled and transformed.

Programs note values through callbacks. What they note when every operation runs at once, without jit, is what
they have to note compiled: ordered callbacks in the same order, others as often.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.effects import Effect
from didax.passes.simplify import simplify_jaxpr
from didax.primitives.callback import DEBUG, IO
from didax.xla.lowering import lower_module
from tests.checks import first

Log = list[Any]


def noted(f: Callable[..., Any], *args: Any) -> Log:
    """What a program notes; it calls `note(*values)` for that."""
    log: Log = []

    def keep(*values: Any) -> None:
        log.append(tuple(x if isinstance(x, str) else np.asarray(x).tolist() for x in values))

    def note(*values: Any, ordered: bool = True, io: bool = False) -> None:
        if io:
            dx.io_callback(keep, None, *values, ordered=True)
        else:
            dx.debug.callback(keep, *values, ordered=ordered)

    f(note, *args)
    return log


def at_once(f: Callable[..., Any], *args: Any) -> Log:
    with dx.disable_jit():
        return noted(f, *args)


def compiled(f: Callable[..., Any], wrap: Any = dx.jit) -> Callable[..., Any]:
    return lambda note, *args: wrap(lambda *xs: f(note, *xs))(*args)


def scanned(note: Any, x: Any) -> Any:
    def body(c: Any, y: Any) -> Any:
        note(0, c)
        c = dx.jit(lambda c: (note(1, c), c * 1.5 + y)[1])(c)
        c = lax.cond(c > 3, lambda c: (note(2, c), c - 1)[1], lambda c: (note(3, c), c + 1)[1], c)
        note(4, c)
        return c, c

    note(9, x)
    return lax.scan(body, x, np.arange(4, dtype="float32"))[0]


def looped(note: Any, n: Any) -> Any:
    """A while loop with effects in its condition, around a counted one."""

    def body(c: Any) -> Any:
        note(1, c)
        c = lax.fori_loop(0, 3, lambda i, c: (note(2, i, c), c + 1)[1], c)
        note(3, c)
        return c

    c = lax.while_loop(lambda c: (note(0, c), c < n)[1], body, 0)
    note(4, c)
    return c


def condition_with_a_loop(note: Any, n: Any) -> Any:
    def goes_on(c: Any) -> Any:
        inner = lax.while_loop(lambda d: (note(1, d), d < c)[1], lambda d: (note(2, d), d + 1)[1], 0)
        return (note(0, inner), inner < n)[1]

    return lax.while_loop(goes_on, lambda c: c + 1, 1)


def switched(note: Any, i: Any) -> Any:
    branches = [lambda: (note(1), 1)[1], lambda: 2, lambda: (note(3), note(4), 3)[2]]
    return lax.switch(i, branches)


def interleaved(note: Any, x: Any) -> Any:
    """Two ordered effects among each other, and a function that is called twice."""
    f = dx.jit(lambda x: (note(0, x, io=True), note("f", x), x * 2)[2])
    y = dx.io_callback(lambda v: v, x, f(x), ordered=True)
    note("y", y)
    note(1, y, io=True)
    return lax.cond(y > 0, lambda y: (note(2, y, io=True), f(y))[1], lambda y: (note(3, y), y)[1], y)


PROGRAMS = [
    (scanned, np.float32(1)),
    (looped, 7),
    (condition_with_a_loop, 3),
    (switched, 0),
    (switched, 1),
    (switched, 2),
    (interleaved, np.float32(1)),
]


@pytest.mark.parametrize(("f", "x"), PROGRAMS, ids=lambda p: getattr(p, "__name__", str(p)))
@pytest.mark.parametrize(
    "wrap", [dx.jit, lambda f: dx.jit(dx.jit(f)), lambda f: f], ids=["jit", "jit jit", "eager"]
)
def test_ordered_effects_keep_the_order_of_the_program(f, x, wrap):
    expected = at_once(f, x)
    assert noted(compiled(f, wrap), x) == expected


def differentiated(note: Any, x: Any) -> Any:
    return dx.grad(lambda x: scanned(note, x))(x)


def linearized_loop(note: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda c: (note(0, c), c < 5)[1], lambda c: (note(1, c), c * 2)[1], x)

    return dx.linearize(f, x)[1](np.float32(1))


def hessian(note: Any, x: Any) -> Any:
    return dx.hessian(lambda x: (note(x), x * x * x)[1])(x)


def rematerialized(note: Any, x: Any) -> Any:
    return dx.grad(dx.checkpoint(lambda x: (note(x), dnp.sin(x) * x)[1]))(x)


@pytest.mark.parametrize("f", [differentiated, linearized_loop, hessian, rematerialized])
def test_effects_happen_once_for_the_primal_values_of_a_derivative(f):
    expected = at_once(f, np.float32(1))
    assert len(expected) == {differentiated: 17, linearized_loop: 7, hessian: 1, rematerialized: 1}[f]
    assert noted(compiled(f), np.float32(1)) == expected
    assert noted(f, np.float32(1)) == expected


@pytest.mark.parametrize("wrap", [dx.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize(
    "f",
    [
        scanned,
        lambda note, n: lax.while_loop(lambda c: c < n, lambda c: (note(c, n), c + 1)[1], 0),
        lambda note, n: lax.while_loop(lambda c: c < n, lambda c: (note(c, n), c + 1)[1], 0, max_steps=5),
        lambda note, n: lax.fori_loop(
            0, lax.convert_element_type(n, "int32"), lambda i, c: (note(i, n), c)[1], 0
        ),
        lambda note, n: lax.cond(n > 1, lambda: (note(1, n), n)[1], lambda: (note(2, n), -n)[1]),
    ],
    ids=["scan", "while", "bounded while", "fori", "cond"],
)
def test_under_vmap_effects_happen_for_the_elements_that_take_part(f, wrap):
    xs = np.arange(3, dtype="float32")
    expected = [noted(compiled(f), x) for x in xs]
    found = noted(lambda note, xs: wrap(dx.vmap(lambda x: f(note, x)))(xs), xs)
    assert sorted(found) == sorted(note for notes in expected for note in notes)


def test_nested_vmaps_see_every_element():
    xs = np.arange(6, dtype="float32").reshape(2, 3)
    for wrap in (dx.jit, lambda f: f):
        found = noted(lambda note, xs, wrap=wrap: wrap(dx.vmap(dx.vmap(note)))(xs), xs)
        assert sorted(found) == [(float(i),) for i in range(6)]


def test_a_program_that_is_cut_into_parts_keeps_the_order():
    def f(note: Any, x: Any) -> Any:
        for i in range(400):
            x = x @ x * 0.5
            note(i)
        return x

    assert noted(compiled(f), np.eye(2, dtype="float32")) == [(i,) for i in range(400)]


def test_reads_before_updates_in_place_do_not_reorder_effects():
    def f(note: Any, x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            note("before", i)
            y = x[i]
            z = dx.io_callback(lambda v: v, x[0], y, ordered=True)
            note("read", i, y)
            x = x.at[i].set(y + z + 1)
            note("after", i, x[i])
            return x

        return lax.fori_loop(0, 3, step, x)

    x = dnp.arange(10_000, dtype="float32")
    assert noted(compiled(f), x) == at_once(f, x)


def test_equal_effects_are_neither_dropped_nor_merged():
    def f(note: Any, x: Any) -> Any:
        for _ in range(3):
            note(x, ordered=False)
        lax.scan(lambda c, _: (c, note(7.0, ordered=False)), x, None, length=2)
        dx.jit(lambda x: note(x, ordered=False))(x)
        return 0

    assert noted(compiled(f), 1.0) == [(1.0,)] * 3 + [(7.0,)] * 2 + [(1.0,)]


def test_unordered_io_happens_as_often_as_the_program_says():
    calls: Log = []

    def f(x: Any) -> Any:
        for _ in range(3):
            dx.io_callback(calls.append, None, x)
        lax.scan(lambda c, _: (c, dx.io_callback(calls.append, None, c * 7)), x, None, length=2)
        dx.jit(lambda x: dx.io_callback(calls.append, None, x))(x)

    dx.jit(f)(1.0)
    assert sorted(map(float, calls)) == [1.0] * 4 + [7.0] * 2


def test_a_pure_callback_that_nobody_needs_is_not_called():
    calls: Log = []

    def f(x: Any) -> Any:
        dx.pure_callback(lambda a: (calls.append(1), a)[1], x, x)
        y = dx.pure_callback(shared, x, x)
        return y + dx.pure_callback(shared, x, x)  # equal calls are one

    def shared(a: Any) -> Any:
        calls.append(2)
        return a

    assert float(dx.jit(f)(1.0)) == 2.0
    assert calls == [2]


def test_effects_of_a_program_are_those_of_its_operations():
    def f(x: Any) -> Any:
        lax.cond(x > 0, lambda: dx.debug.print("{}", x, ordered=True), lambda: None)
        return lax.scan(lambda c, _: (c, dx.io_callback(np.sin, x, c)), x, None, length=2)

    jaxpr = dx.make_jaxpr(f)(1.0).jaxpr
    assert jaxpr.effects == {DEBUG, IO[False]} == {Effect("debug", True), Effect("io")}
    assert simplify_jaxpr(jaxpr).effects == jaxpr.effects
    assert dx.make_jaxpr(lambda x: x + 1)(1.0).jaxpr.effects == frozenset()


def test_only_programs_with_ordered_effects_have_tokens_and_only_callers_the_number_of_the_run():
    def text(f: Callable[..., Any]) -> str:
        return lower_module(dx.make_jaxpr(f)(1.0).jaxpr)

    plain = text(dx.jit(lambda x: lax.cond(x > 0, dnp.sin, dnp.cos, x)))
    assert "token" not in plain
    assert "%run" not in plain
    unordered = text(lambda x: dx.io_callback(np.sin, x, dx.jit(dnp.sin)(x)))
    assert "token" not in unordered
    assert unordered.count("%run: tensor<i64>") == 1  # not the function that does not call Python
    assert "create_token" in text(lambda x: dx.debug.print("{}", x, ordered=True))


def test_each_thread_sees_its_effects_in_its_order():
    log: dict[Any, list[int]] = {k: [] for k in range(8)}

    @dx.jit
    def step(k: Any, i: Any) -> Any:
        dx.debug.callback(lambda k, i: log[int(k)].append(int(i)), k, i)
        return lax.scan(lambda c, j: (c, dx.debug.callback(later, k, i, j, ordered=True)), i, np.arange(2))[0]

    def later(k: Any, i: Any, j: Any) -> None:
        log[int(k)].append(int(i) * 10 + int(j))

    def work(k: int) -> None:
        for i in range(1, 20):
            step(k, i)

    threads = [threading.Thread(target=work, args=(k,)) for k in log]
    for thread in threads:
        thread.start()
    dx.effects_barrier()
    for thread in threads:
        thread.join()
    for found in log.values():
        assert sorted(found) == sorted(x for i in range(1, 20) for x in (i, i * 10, i * 10 + 1))
        assert [x for x in found if x >= 10 and x % 10 in (0, 1)][-2:] == [190, 191]
        places = [found.index(i * 10) for i in range(2, 20)]
        assert places == sorted(places)


def test_effects_barrier_waits_for_other_threads():
    began, may_go, log = threading.Event(), threading.Event(), []

    def slow(x: Any) -> None:
        began.set()
        may_go.wait(30)
        log.append(float(x))

    thread = threading.Thread(target=lambda: dx.jit(lambda x: dx.debug.callback(slow, x))(1.0))
    thread.start()
    assert began.wait(30)
    threading.Timer(0.05, may_go.set).start()
    dx.effects_barrier()
    assert log == [1.0]
    thread.join()


def test_a_barrier_inside_of_a_callback_does_not_wait_for_itself():
    assert (
        noted(lambda note, x: dx.jit(lambda x: dx.debug.callback(lambda v: dx.effects_barrier(), x))(x), 1.0)
        == []
    )


@pytest.mark.ci
def test_prints_come_out_when_the_process_ends():
    program = (
        "import didax as dx\nf = dx.jit(lambda x: dx.debug.print('x is {}', x))\nfor i in range(3): f(i)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "x is 0\nx is 1\nx is 2\n"


# --- Programs at random -----------------------------------------------------------------------------


class Writer:
    """Writes random programs of loops and branches that note where they are."""

    def __init__(self, note: Any, seed: int):
        self.note = note
        self.random = np.random.default_rng(seed)
        self.count = 0

    def block(self, x: Any, depth: int) -> Any:
        for _ in range(int(self.random.integers(1, 4))):
            x = self.statement(x, depth)
        return x

    def body(self, depth: int) -> Callable[[Any], Any]:
        """A block that is the same each time it is traced."""
        seed = int(self.random.integers(1 << 30))

        def run(x: Any) -> Any:
            writer = Writer(self.note, seed)
            writer.note(x)
            return writer.block(x, depth)

        return run

    def statement(self, x: Any, depth: int) -> Any:
        kinds = [self.say, self.square] if depth == 0 else [
            self.say, self.jitted, self.branch, self.switch, self.scan, self.loop, self.counted, self.differentiated,
        ]  # fmt: skip
        return kinds[int(self.random.integers(len(kinds)))](x, depth - 1)

    def say(self, x: Any, depth: int) -> Any:
        self.note(x, io=bool(self.random.integers(2)))
        return x

    def square(self, x: Any, depth: int) -> Any:
        return x * x % 7

    def jitted(self, x: Any, depth: int) -> Any:
        f = dx.jit(self.body(depth))
        return f(f(x))

    def branch(self, x: Any, depth: int) -> Any:
        return lax.cond(x % 2 < 1, self.body(depth), self.body(depth), x)

    def switch(self, x: Any, depth: int) -> Any:
        index = lax.convert_element_type(x % 3, "int32")
        return lax.switch(index, [self.body(depth), lambda x: x, self.body(depth)], x)

    def scan(self, x: Any, depth: int) -> Any:
        body, unroll = self.body(depth), int(self.random.integers(1, 4))
        return lax.scan(lambda c, y: (body(c + y) % 7, c), x, np.arange(3, dtype="float32"), unroll=unroll)[0]

    def loop(self, x: Any, depth: int) -> Any:
        body, test = self.body(depth), self.body(depth)

        def goes_on(state: Any) -> Any:
            return (state[0] < 2) & (test(state[1]) > -1)

        return lax.while_loop(goes_on, lambda state: (state[0] + 1, body(state[1])), (0, x))[1]

    def counted(self, x: Any, depth: int) -> Any:
        body = self.body(depth)
        return lax.fori_loop(0, 2, lambda i, c: body(c + i), x)

    def differentiated(self, x: Any, depth: int) -> Any:
        body = self.body(depth)
        return x + dx.jvp(lambda x: body(x) * 2, (x,), (np.float32(1),))[0]


@pytest.mark.parametrize("seed", first(range(8), 4))
def test_random_programs_keep_their_order(seed):
    def f(note: Any, x: Any) -> Any:
        return Writer(note, seed).block(x, 3)

    expected = at_once(f, np.float32(1))
    assert noted(compiled(f), np.float32(1)) == expected
