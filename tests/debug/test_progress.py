"""`debug.progress`: loops that report from within compiled programs how far they are."""

from __future__ import annotations

import functools
import io
import re
import sys

import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.debug import _progress, progress

XS = dnp.arange(10.0)


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn: of each bar the number of steps, without throttling; `end` where the line ends."""
    texts: list[str] = []

    def write(text: str, end: str) -> None:
        texts.append(
            " | ".join(re.findall(r"\w+ (?:\[.*?\] )?([\d,]*\d(?:/[\d,]*\d)?)", text))
            + ("; end" if end else "")
        )

    monkeypatch.setattr(_progress, "_BETWEEN", 0)
    monkeypatch.setattr(_progress, "_write", write)

    def take() -> list[str]:
        found = list(texts)
        texts.clear()
        return found

    return take


def shown(loop, **options):
    return progress(loop, enabled=True, **options)


def body(c, x):
    return dnp.sin(c) + x, c


def scanned(x, loop=lax.scan):
    return loop(body, x, XS)[0]


def test_without_a_bar_the_program_is_that_of_the_plain_loop(monkeypatch):
    loops = {
        lax.scan: scanned,
        lax.fori_loop: lambda x, loop: loop(0, 5, lambda i, x: x + i, x),
        lax.while_loop: lambda x, loop: loop(lambda x: x < 9, lambda x: x * 2, x),
    }
    for loop, f in loops.items():
        plain = str(dx.make_jaxpr(lambda x, f=f, loop=loop: f(x, loop))(1.0))
        assert progress(loop, enabled=False) is loop
        for stderr in (io.StringIO(), None):  # not a terminal; none, as in a program without a console
            monkeypatch.setattr(sys, "stderr", stderr)
            quiet = progress(loop, title="t", every=3)
            assert str(dx.make_jaxpr(lambda x, f=f, loop=quiet: f(x, loop))(1.0)) == plain
        cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})  # of a notebook
        monkeypatch.setattr(sys, "stderr", cell())
        assert str(dx.make_jaxpr(lambda x, f=f, loop=quiet: f(x, loop))(1.0)) != plain
        loud = shown(loop)
        assert str(dx.make_jaxpr(lambda x, f=f, loop=loud: f(x, loop))(1.0)) != plain


def test_a_bar_moves_once_in_so_many_steps_under_each_transformation(drawn):
    f = functools.partial(scanned, loop=shown(lax.scan, every=4))
    batch = dnp.arange(3.0)
    reports = ["0/10", "4/10", "8/10", "10/10; end"]
    calls = {
        "eager": (f, 1.0),
        "jit": (dx.jit(f), 1.0),
        "vmap": (dx.jit(dx.vmap(f)), batch),
        "grad": (dx.jit(dx.grad(f)), 1.0),
        "vmap of grad": (dx.jit(dx.vmap(dx.grad(f))), batch),
    }
    values, slopes = (dx.jit(dx.vmap(g))(batch) for g in (scanned, dx.grad(scanned)))
    expected = {"vmap": values, "grad": slopes[1], "vmap of grad": slopes}
    for name, (call, x) in calls.items():
        value = call(x)
        assert drawn() == reports, name
        assert dnp.allclose(value, expected.get(name, values[1]), rtol=1e-4), name
    jitted = calls["jit"][0]
    jitted(2.0)
    assert drawn() == reports  # each run of a program reports
    with dx.disable_jit():
        f(1.0)
    assert drawn() == reports


def test_the_arguments_are_those_of_the_loop(drawn):
    loop = shown(functools.partial(lax.scan, length=4), every=2)
    assert loop(lambda c, _: (c + 1, None), init=0)[0] == 4
    assert drawn() == ["0/4", "2/4", "4/4", "4/4; end"]
    last, ys = shown(lax.scan, every=3)(body, 1.0, XS, reverse=True, unroll=2, _split_transpose=False)
    expected, stacked = lax.scan(body, 1.0, XS, reverse=True)
    assert dnp.allclose(last, expected) and dnp.allclose(ys, stacked)
    assert drawn() == ["0/10", "3/10", "6/10", "9/10", "10/10; end"]
    assert shown(lax.scan)(body, 1.0, dnp.zeros(0))[0] == 1.0 and drawn() == []
    assert loop.__name__ == "scan"


def test_bounds_of_fori_loop_may_be_traced_narrow_or_differ_in_a_batch(drawn):
    loop = shown(lax.fori_loop, every=2)
    assert dx.jit(lambda n: loop(0, n, lambda i, x: x + i, 0))(5) == 10
    assert drawn() == ["0/5", "2/5", "4/5", "5/5; end"]
    sums = dx.jit(dx.vmap(lambda n: loop(0, n, lambda i, x: x + i, 0)))(dnp.array([3, 6, 1]))
    assert sums.tolist() == [3, 15, 0] and drawn() == ["0/6", "2/6", "4/6", "6/6", "6/6; end"]
    narrow = shown(lax.fori_loop, every=100)
    assert narrow(dnp.int8(-128), dnp.int8(127), lambda i, x: x + 1, 0) == 255
    assert drawn() == ["0/255", "100/255", "200/255", "255/255; end"]


def test_a_while_loop_shows_its_steps_once_for_a_batch(drawn):
    loop = shown(lax.while_loop, every=3)

    def f(n):
        return loop(lambda x: x < n, lambda x: x + 1, 0)

    assert f(5) == 5 and drawn() == ["0", "3", "5; end"]
    assert dx.jit(dx.vmap(f))(dnp.array([3, 7, 1])).tolist() == [3, 7, 1]
    assert drawn() == ["0", "3", "6", "7; end"]

    assert dx.vmap(f)(dnp.zeros((0,))).shape == (0,) and drawn() == ["0", "0; end"]

    def power(x):
        return loop(lambda y: y < 100, lambda y: y * x, x, max_steps=20)

    assert dx.grad(power)(2.0) == 7 * 2.0**6 and drawn()[-1] == "6; end"


def test_loops_in_loops_share_a_line(drawn):
    scan = shown(lax.scan, every=1)  # one function for both

    @dx.jit
    def f(x):
        return scan(lambda c, x: (scan(lambda c, y: (c + x * y, None), c, XS[:2])[0], None), x, XS[:2])[0]

    assert f(1.0) == 2.0
    inner = ["{} | 0/2", "{} | 1/2", "{} | 2/2", "{} | 2/2"]
    first, second = ([line.format(outer) for line in inner] for outer in ("0/2", "1/2"))
    assert drawn() == ["0/2", *first, "1/2", *second, "2/2", "2/2; end"]


def test_by_default_there_are_about_a_hundred_reports(drawn):
    shown(lax.scan)(lambda c, _: (c, None), 0, length=1000)
    assert len(drawn()) == 102
    dx.jit(lambda n: shown(lax.fori_loop)(0, n, lambda i, x: x, 0))(500)
    assert len(drawn()) == 102


def test_a_loop_that_is_traced_again_is_the_same_program(drawn):
    scan = shown(lax.scan, every=5)
    texts = {str(dx.jit(lambda x: scanned(x, scan)).lower(1.0).as_text()) for _ in range(2)}
    assert len(texts) == 1


def test_errors_are_those_of_the_loop_and_of_wrong_options():
    scan = shown(lax.scan)
    for args in [(3, 1.0, XS), (body, 1.0, [XS, dnp.ones(3)]), (lambda c, x: c, 1.0, XS), (body, 1.0, 2.0)]:
        with pytest.raises((TypeError, ValueError)) as expected:
            lax.scan(*args)
        with pytest.raises(type(expected.value), match=re.escape(str(expected.value).splitlines()[0])):
            scan(*args)
    with pytest.raises(TypeError, match=r"debug\.progress takes one of lax\.scan.*\n  loop: <function map"):
        progress(lax.map)
    for every in (0, -1, 2.0, True):
        with pytest.raises(
            ValueError, match=rf"every of debug\.progress is how many.*\n  every: {every}\nPass"
        ):
            progress(lax.scan, every=every)


def test_the_line_is_written_over_and_ends(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "60")
    shown(lax.scan, title="sum", every=5)(body, 1.0, XS)
    first, *_, last = stream.getvalue().split("\r")[1:]
    assert first.startswith("sum [....................] 0/10, 0 s") and last.endswith("\n")
    assert last.rstrip().startswith("sum [####################] 10/10, ")
    monkeypatch.setenv("COLUMNS", "20")
    shown(lax.scan, title="sum", every=5)(body, 1.0, XS)
    assert max(map(len, stream.getvalue().split("\n")[1].split("\r"))) < 60  # one line of the terminal
    stream.close()  # a program goes on where nothing can be written
    assert dnp.allclose(scanned(1.0, shown(lax.scan)), scanned(1.0))


def test_times_are_readable():
    assert _progress.described("t", 0, 0, 0.0) == "t [####################] 0/0, 0 s"
    assert _progress.described("t", 1, 3, 7200.0) == "t [######..............] 1/3, 2:00 h, 4:00 h left"
    assert _progress.described("t", 5, None, 59.6) == "t 5 steps, 1:00 min, 0 steps/s"
