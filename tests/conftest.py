"""What every test runs under: Didax's checks on, few threads, the CPU, the same random programs each time."""

import os

# These are read when the libraries start, so they are set before any test module imports them.
os.environ["DIDAX_CHECK"] = "1"  # check_jaxpr after every transformation
os.environ["JAX_PLATFORMS"] = "cpu"  # the oracle, on a machine that has a GPU as well
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # it compiles each operation it is asked for
os.environ["JAX_TRACEBACK_FILTERING"] = "off"  # it looks up the file of each frame on disk, and is slow
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("NPROC", "2")  # XLA's thread pool; a callback that blocks needs a second thread

from tests.quickly import XLA_FLAGS

os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)

import ctypes
import gc
import importlib.util
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.answers import PATH, Answers, read, write

# No deadline: the first example of a program compiles it. Derandomized: a commit is either green or red.
# `make test-all` tries four times as many; `pytest --hypothesis-profile=search` looks for programs not tried before.
settings.register_profile("didax", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=200)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("didax")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden/ anew instead of comparing with it"
    )
    parser.addoption("--update-answers", action="store_true", help="add what jax computes to tests/answers/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what this process does not have: XLA's own settings (`tests/test_as_users.py` has them), the CPU."""
    absent = set()
    if os.environ["XLA_FLAGS"] == XLA_FLAGS:
        absent.add("as_users")
    # XLA is started here only where a GPU may be found.
    if importlib.util.find_spec("jax_plugins") is not None:
        import didax

        if didax.default_backend() != "cpu":
            absent.add("cpu")
    items[:] = [item for item in items if not any(item.get_closest_marker(name) for name in absent)]


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be written rather than compared with."""
    return request.config.getoption("--update-golden")


@pytest.fixture
def x64() -> Iterator[None]:
    """Run the test with 64-bit defaults, in Didax and in the oracle."""
    import jax

    import didax

    with ExitStack() as stack:
        stack.enter_context(didax.enable_x64(True))
        stack.enter_context(jax.enable_x64(True))
        yield


@pytest.fixture
def any_use_of_keys() -> Iterator[None]:
    """Random keys may be used again: for tests that compute one thing in several ways, each from the same keys."""
    import didax

    with didax.debug_key_reuse("off"):
        yield


@pytest.fixture(scope="module")
def few_programs() -> None:
    """For tests that profile: into each profile XLA writes every program that the process holds, of 0.3 ms each."""
    import didax

    didax.clear_caches()


# --- What the tests cost: seconds of a processor, programs compiled, here and by the oracle ------------------

_answers: Answers | None = None
_new_answers: dict[str, str] = {}  # of all processes, in the one that started them
_compiled: Counter[str] = Counter()  # programs by test file; those of the oracle together
# Of a processor, by test file, those of processes that tests start included.
_seconds: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    hide_what_other_files_made(item.path)
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        _seconds[item.nodeid.split("::")[0]] += sum(os.times()[:4]) - before


@pytest.fixture(scope="session", autouse=True)
def count_programs() -> Iterator[None]:
    """Count the programs that XLA compiles for Didax in this process."""
    from didax.xla import compile

    make = compile._compile

    def counted(*args: Any) -> Any:
        _compiled[os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0]] += 1
        return make(*args)

    compile._compile = counted
    yield
    compile._compile = make


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """As soon as a test module has loaded jax, let it remember its answers."""
    global _answers
    if _answers is None and "jax" in sys.modules:
        _answers = Answers(keep=item.config.getoption("--update-answers"))
        _answers.install()
        # For every exception that passes one of its functions jax reads the source line of each frame of the stack, to
        # know whether it has to filter the traceback, which JAX_TRACEBACK_FILTERING has it leave as it is.
        sys.modules["jax._src.traceback_util"].__dict__["_is_under_reraiser"] = lambda error: True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    new, compiled, seconds = getattr(node, "workeroutput", {}).get("costs", ({}, {}, {}))
    _new_answers.update(new)
    _compiled.update(compiled)
    _seconds.update(seconds)


def pytest_sessionfinish(session: pytest.Session) -> None:
    new = _new_answers if _answers is None else _answers.new
    _compiled["jax"] += 0 if _answers is None else _answers.unknown
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = new, dict(_compiled), dict(_seconds)
    elif new:
        write(PATH, read(PATH) | new)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the tests took, whatever else the machine did, and how much of it was compiling programs."""
    asked, ours = _compiled.pop("jax", 0), +_compiled
    most = ", ".join(f"{file} {seconds:.0f}" for file, seconds in _seconds.most_common(8))
    terminalreporter.write_line(f"{_seconds.total():.0f} s of a processor ({most})")
    most = ", ".join(f"{file} {count}" for file, count in ours.most_common(5))
    terminalreporter.write_line(
        f"{ours.total()} programs compiled ({most}), {asked} of jax run that tests/answers/ does not know"
    )


# --- Memory -------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """What collection makes lives to the end: no search finds garbage in it."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what collection has made out of every later search for garbage."""
    gc.enable()
    gc.collect()
    gc.freeze()


_file: Path | None = None  # of the last test


def hide_what_other_files_made(file: Path) -> None:
    """Leave what the tests of other files have made out of the searches, for garbage and for leaks, of this file."""
    global _file
    if file != _file:
        _file = file
        gc.collect()
        gc.freeze()


_STATM = Path("/proc/self/statm")
_GROWTH = 1_500_000_000  # bytes: thousands of compiled programs, of both libraries, which no later test needs
_limit = _GROWTH


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Forget what was compiled whenever the process has grown: several of them share one machine's memory."""
    global _limit
    if _STATM.exists() and _resident() > _limit:
        for name in ("didax", "jax"):
            if name in sys.modules:
                sys.modules[name].clear_caches()
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc keeps what is freed
            trim(0)
        _limit = _resident() + _GROWTH


def _resident() -> int:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
