"""The edges of a process: interrupts at any moment, forks, threads at the exit. Each case has a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from didax.xla import signals

pytestmark = pytest.mark.ci  # starts processes

ROOT = Path(__file__).parent.parent
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks of POSIX")


def run(program: str, *args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end: it neither hangs nor is ended by a signal."""
    variables = os.environ | {"DIDAX_ENABLE_COMPILATION_CACHE": "0", "PYTHONPATH": str(ROOT)} | environment
    # Python 3.12 warns of every fork of a process with threads.
    warnings = ["-W", "ignore:This process:DeprecationWarning"]
    command = [sys.executable, *warnings, "-X", "faulthandler", "-c", program, *map(str, args)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=400, check=False)


INTERRUPTED = """
import os, random, signal, sys, threading, time
import didax as dx, didax.numpy as dnp, numpy as np
from didax import lax
from didax.core.primitive import eager_trace
from didax.core.tracing import current_trace

count, longest = int(sys.argv[1]), float(sys.argv[2])
draw = random.Random(int(sys.argv[3])).random

def net(x, n):
    for i in range(6):
        x = dnp.sin(x) @ x + n * dnp.cos(x).sum(axis=i % 2)
    return x

def callback(x):
    return dx.pure_callback(lambda x: x + 1, x, x)

def work(n):
    x = dnp.ones((8, 8)) / 8
    while True:
        n += 1.0
        float(dx.grad(lambda x: dnp.sin(x).sum() * n)(x)[0, 0])
        dx.vmap(lambda x: lax.psum(x, "i") * n, axis_name="i")(x)
        calls = dx.jit(lambda x: callback((x @ x) * n)[0])
        for _ in range(20):
            np.asarray(calls(x))
        np.asarray(dx.jit(dx.grad(lambda x: net(x, n).sum()))(x))
        np.linalg.norm(dx.jit(lambda x: x @ x)(dnp.ones((200 + int(n), 200))[:200]))

def check(n):
    assert current_trace() is eager_trace
    x = dnp.float32(0.5)
    want = np.float32(n) * np.cos(np.float32(0.5))
    got = dx.jit(dx.grad(lambda x: dnp.sin(x) * n))(x)
    assert abs(float(got) - want) < 1e-4 * n, (got, want)
    assert float(dx.jit(lambda x: callback(x * n))(x)) == 0.5 * n + 1

interrupted = []
if sys.argv[4] == "alarm":
    class Alarm(Exception): ...
    def ring(number, frame):
        raise Alarm
    signal.signal(signal.SIGALRM, ring)
    number, kind = signal.SIGALRM, Alarm
else:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background processes ignore it
    number, kind = signal.SIGINT, KeyboardInterrupt
def interrupt(i, delay):
    # Python itself drops an exception that a signal raises within a finaliser, and says so: then it is sent again.
    while True:
        time.sleep(delay)
        if arrived > i:
            return
        os.kill(os.getpid(), number)
        delay = 20

arrived = 0
for i in range(count):
    threading.Thread(target=interrupt, args=(i, longest * draw()), daemon=True).start()
    try:
        work(1000.0 * i)
    except kind:
        interrupted.append(i)
        arrived = i + 1
    check(i + 1.0)
dx.effects_barrier()
print(len(interrupted), "interrupts")
sys.exit(3)
"""


def check_interrupts(count: int, longest: float, seed: int, kind: str) -> None:
    ended = run(INTERRUPTED, count, longest, seed, kind, XLA_FLAGS="")
    assert (ended.returncode, ended.stdout) == (3, f"{count} interrupts\n"), ended.stderr
    assert not ended.stderr or ended.stderr.startswith("Exception ignored"), ended.stderr


@posix
@pytest.mark.parametrize(("kind", "count"), [("keyboard", 4), ("alarm", 2)])
def test_interrupts_at_any_moment_leave_the_process_as_it_was(kind: str, count: int):
    check_interrupts(count, 0.4, 0, kind)


@posix
def test_interrupts_while_programs_are_compiled_in_the_background():
    ended = run(INTERRUPTED, 2, 0.4, 0, "keyboard", DIDAX_COMPILE_IN_BACKGROUND="1")
    assert (ended.returncode, ended.stdout) == (3, "2 interrupts\n"), ended.stderr


@posix
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["keyboard", "alarm"])
@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_interrupts_at_any_moment_leave_the_process_as_it_was(kind: str, seed: int):
    check_interrupts(50, 1.5, seed, kind)


CALLING = """
import signal, sys
import didax as dx, didax.numpy as dnp, numpy as np

class Alarm(Exception): ...
def ring(number, frame):
    raise Alarm
signal.signal(signal.SIGALRM, ring)

@dx.jit
def f(x):
    for _ in range(4):
        x = x @ x
    return x[0] + dx.pure_callback(lambda x: x, x[0], x[0])

x = dnp.eye(300)
np.asarray(f(x))
alarms = 0
while alarms < 20:  # most of them come due when XLA, done with the products, calls Python
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0002 * alarms)
        while True:
            y = np.asarray(f(x))
            assert (y == 2 * np.eye(300)[0]).all(), y  # array_equal takes an alarm within it for inequality
    except Alarm:
        alarms += 1
assert signal.getsignal(signal.SIGALRM) is ring
"""


@posix
def test_an_alarm_in_a_program_that_calls_python_raises_at_the_callers_line():
    ended = run(CALLING)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_handlers_are_put_off_in_fragile_frames_only():
    calls: list[str] = []
    holding = signals._Handler(lambda number, frame: calls.append(frame.f_code.co_name))

    def ring() -> None:
        holding(2, sys._getframe(1))

    @signals.sound
    def body() -> None:
        signals.raise_held()
        ring()

    @signals.fragile
    def entry() -> None:
        ring()
        assert calls == ["test_handlers_are_put_off_in_fragile_frames_only"]
        body()

    ring()
    entry()
    assert calls[1:] == ["entry", "body"]


# --- Forks ----------------------------------------------------------------------------------------

FORKED = """
import os, sys
import numpy as np
import didax as dx, didax.numpy as dnp
x = dnp.ones((300, 300))
f = dx.jit(lambda x: x @ x)
y = f(x).block_until_ready()
z = dnp.ones(3)
key = dx.random.key(0)
def draw():
    with dx.debug_key_reuse("off"):
        return dx.random.normal(key, (300,))
for _ in range(3):
    draw()
read, write = os.pipe()
if os.fork() == 0:
    cases = {
        "jitted": lambda: f(x),
        "jitted anew": lambda: dx.jit(lambda x: x + 1)(z),
        "compiled": lambda: y + y,
        "placed": lambda: dx.device_put(np.ones(3)),
        "drawn": draw,
        "listed": dx.devices,
    }
    said = []
    for name, case in cases.items():
        try:
            case()
            said.append(f"{name} ran")
        except RuntimeError as error:
            said.append(str(error))
    assert float(dx.grad(lambda x: (dnp.sin(x) * x).sum())(z)[0]) > 0  # NumPy's
    assert np.asarray(y)[0, 0] == 300.0
    dx.effects_barrier()
    os.write(write, "\\n\\n".join(said).encode())
    sys.exit(5)
_, status = os.wait()
print(os.waitstatus_to_exitcode(status), os.getpid())
print(os.read(read, 10000).decode())
"""


@posix
def test_a_forked_child_says_that_it_has_no_xla_and_ends_cleanly():
    ended = run(FORKED)
    head, _, rest = ended.stdout.partition("\n")
    status, parent = head.split()
    errors = rest.strip().split("\n\n")
    assert (ended.returncode, status, ended.stderr, len(errors)) == (0, "5", "", 6)
    for text in errors:
        rule, fact, *fix = text.splitlines()
        assert rule == "A forked process cannot use the XLA of its parent, whose threads are not there."
        assert fact.endswith(f"was forked from process {parent}, where XLA had started on 'cpu'")
        assert "multiprocessing.get_context('spawn')" in fix[0]


BEFORE = """
import multiprocessing, subprocess, sys
import didax as dx, didax.numpy as dnp

def work(n):
    return float(dx.jit(lambda x: x * n)(2.0))

if __name__ == "__main__":
    dnp.ones(3) + 1  # NumPy's
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
    print(work(3))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(len, ["no", "Didax"]))
    print(subprocess.run(["echo", "started"], capture_output=True, text=True, check=True).stdout)
"""


@posix
def test_children_forked_before_xla_starts_compute_and_others_may_do_without():
    ended = run(BEFORE, DIDAX_PLATFORMS="cpu")
    assert (ended.stdout.split("\n")[:4], ended.stderr) == (["[2.0, 4.0]", "6.0", "[2, 5]", "started"], "")
    assert ended.returncode == 0


# --- The exit -------------------------------------------------------------------------------------

DAEMON = """
import atexit, sys, threading, time
import didax as dx, didax.numpy as dnp

x = dnp.ones((8, 8))
f = dx.jit(lambda x: x @ x / 8)
calls = dx.jit(lambda x: dx.pure_callback(lambda x: x, x, x))
begun = threading.Event()

def steps(x):
    for i in range(60):
        x = dnp.sin(x) @ x + i * dnp.cos(x).sum(axis=i % 2)
    return x

def run():
    f(x), calls(x)
    begun.set()
    while True:
        match sys.argv[1]:
            case "runs": f(x)
            case "calls": calls(x)
            case "compiles": dx.jit(steps)(x)

threading.Thread(target=run, daemon=True).start()
begun.wait()
time.sleep(0.2)
atexit.register(lambda: print(float(dx.jit(lambda x: x.sum() + 1)(x))))
sys.exit(7)
"""


@pytest.mark.parametrize("work", ["runs", "calls", "compiles"])
def test_the_process_ends_at_once_whatever_daemon_threads_do(work: str):
    ended = run(DAEMON, work)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "65.0\n", "")


# Settings with which the compilation of equal steps takes longer than the timers below.
SLOWLY = {"XLA_FLAGS": "", "DIDAX_OPTIMIZE_LOOPS": "off"}

ABANDONED = """
import os, signal, sys, threading, time
import didax as dx, didax.numpy as dnp

def steps(x):
    for i in range(100):
        x = dnp.sin(x) @ x + i * dnp.cos(x).sum(axis=i % 2)
    return x

traced = dx.jit(steps).lower(dnp.ones((8, 8)))
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background processes ignore it
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    traced.compile()
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@posix
def test_a_process_ends_while_a_compilation_goes_on_that_was_interrupted():
    ended = run(ABANDONED, **SLOWLY)
    assert (ended.returncode, ended.stderr) == (1, "interrupted\n")


BACKGROUND = """
import os, sys, time
import didax as dx, didax.numpy as dnp, numpy as np

def steps(x):
    for i in range(100):
        x = dnp.sin(x) @ x + i * dnp.cos(x).sum(axis=i % 2)
    return x

x = dnp.ones((8, 8)) / 8
f = dx.jit(steps, compile_in_background=True)
while not (found := f._cache.specializations) or not next(iter(found.values())).program.uncompiled.requested:
    y = f(x)
if sys.argv[1] == "exits":
    sys.exit(7)
if sys.argv[1] == "is interrupted":
    import signal, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        dx.wait_for_compilations()
    except KeyboardInterrupt:
        sys.exit(7)
if os.fork() == 0:
    dx.wait_for_compilations()  # there is no thread here: nothing to wait for
    assert (dnp.ones(3) + 1).tolist() == [2, 2, 2]
    assert np.array_equal(f(x), y, equal_nan=True), "evaluated by NumPy again"
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@posix
@pytest.mark.parametrize("what", ["exits", "is interrupted", "forks"])
def test_a_process_goes_on_while_programs_are_compiled_in_the_background(what: str):
    ended = run(BACKGROUND, what, **SLOWLY)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")


INTERRUPTED_IMPORT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy.linalg":  # in the middle of NumPy
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

sys.meta_path.insert(0, Interrupt())
try:
    import didax
except KeyboardInterrupt:
    print("interrupted")
import didax as dx
print(float(dx.jit(dx.numpy.sum)(dx.numpy.ones(3))))
"""


@posix
@pytest.mark.ci
def test_an_import_that_was_interrupted_within_numpy_can_be_repeated():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "interrupted\n3.0\n"), done.stderr
