"""Programs of a hundred fixed seeds agree with jax; the fuzzer's own parts do what they say."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import numpy as onp
import pytest

from tests.checks import sampled
from tests.fuzz import asking, differences
from tests.fuzz.comparison import check, differences_of_reals
from tests.fuzz.coverage import TABLES, excluded, public_functions
from tests.fuzz.generator import TABLE, generate
from tests.fuzz.libraries import jax_
from tests.fuzz.program import Program, Statement, Type
from tests.fuzz.script import script
from tests.fuzz.shrinker import shrink
from tests.fuzz.workers import Worker

# A hundred of the fastest; --show prints the program of one
# fmt: off
SEEDS = [
    3, 8, 9, 10, 14, 15, 16, 17, 20, 22, 24, 25, 26, 28, 31, 33, 34, 35, 36, 37, 40, 41, 43, 44, 45,
    46, 47, 49, 51, 52, 55, 56, 63, 67, 68, 70, 71, 72, 73, 76, 77, 78, 80, 81, 85, 86, 88, 93,
    95, 96, 98, 99, 101, 103, 105, 109, 110, 111, 112, 113, 114, 118, 119, 121, 122, 123, 125, 126,
    132, 134, 135, 139, 142, 144, 146, 148, 152, 153, 154, 155, 157, 159, 161, 162, 163, 164, 165,
    166, 167, 168, 169, 171, 174, 175, 178, 180, 182, 183, 184, 189,
]
# fmt: on
CHUNK = 5
pytestmark = pytest.mark.filterwarnings("ignore")  # programs overflow, and index with floats


@pytest.mark.ci
@pytest.mark.parametrize("chunk", sampled([SEEDS[i : i + CHUNK] for i in range(0, len(SEEDS), CHUNK)], 3))
def test_fixed_seeds(chunk: list[int]) -> None:
    for seed in chunk:
        found = [f for f in check(generate(seed), compile_too=False).findings if not differences.reason(f)]
        assert not found, (
            f"python -m tests.fuzz --show {seed}: {found[0].kind} {found[0].where} {found[0].message}"
        )


def test_every_public_function_has_a_row_or_a_reason() -> None:
    """The rows of transformations draw the names that stand in no table."""
    stacked = {f"lib.{name}" for name in ("jit", "checkpoint", "vmap")}
    missing = {
        name for name in public_functions() - set(TABLE) - stacked if name.split(".")[-1] not in excluded()
    }
    assert missing == set()


def test_the_same_seed_gives_the_same_program() -> None:
    assert generate(3).lines() == generate(3).lines()
    assert generate(3).lines() != generate(4).lines()


def test_all_programs_have_64_bits_where_the_process_has() -> None:
    assert not generate(4).x64
    with jax_.options(True):
        assert generate(4).x64


def program_of(text: str, **inputs: object) -> Program:
    """A program of one statement."""
    types = {name: Type(onp.shape(x), str(onp.asarray(x).dtype)) for name, x in inputs.items()}
    statement = Statement(("v9",), text)
    with jax_.options(False):
        (type_,), single = jax_.types_of(statement, types)
    return Program(False, inputs, (replace(statement, single=single),), ("v9",), types={**types, "v9": type_})


X = onp.array([0.5, -1.5, 2.0], "float32")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("np.sum(v0) if lib.__name__ == 'jax' else np.sum(v0, keepdims=True)", "type"),
        ("np.sum(v0) if lib.__name__ == 'jax' else np.sum(v0) * 1.01", "value eager"),
        ("np.sin(v0) if lib.__name__ == 'jax' else np.foo(v0)", "didax refuses"),
        ("np.max(v0) if lib.__name__ == 'jax' else np.max(v0) * np.nan", "value eager"),
    ],
)
def test_differences_are_found(text: str, kind: str) -> None:
    assert [f.kind for f in check(program_of(text, v0=X)).findings] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "np.sum(v0 * 3.3 - v0 * 3.3) if lib.__name__ == 'jax' else np.sum(v0 * 0)",  # all digits cancel
        "np.floor(np.sum(v0) * (3 if lib.__name__ == 'jax' else 2.9999998))",  # a step at a tie
        "np.sinc(1e7 * v0) if lib.__name__ == 'jax' else np.sinc(1e7 * (v0 * 1.0000001))",  # chaos
    ],
)
def test_what_rounding_moves_is_no_difference(text: str) -> None:
    outcome = check(program_of(text, v0=X))
    assert not outcome.findings and outcome.elements


def test_noise_widens_the_tolerance_where_it_moves_the_result() -> None:
    info, b = onp.finfo("float32"), onp.ones(3)
    apart = b * 1.001
    assert differences_of_reals(apart, b, [], info, 1e-7)[0].all()
    assert not differences_of_reals(apart, b, [b * 1.0002], info, 1e-7)[0].any()
    wrong, unstable = differences_of_reals(b * 100, b, [b * 3], info, 1e-7)
    assert not wrong.any() and unstable == 3


@pytest.mark.ci
def test_a_worker_imports_the_libraries_after_its_settings() -> None:
    """Both libraries read their options when they start, DIDAX_ENABLE_X64 and that of the cache on disk among them."""
    lines = [
        "from tests.fuzz import __main__, workers",  # asserts that neither library is there
        "workers.prepare(True, True)",
        "from tests.fuzz.libraries import didax_, jax_",
        "assert didax_.has_x64() and jax_.has_x64() and not didax_.root.config.jax_enable_compilation_cache",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, cwd=Path(__file__).parents[2])


def test_a_shrunk_program_has_the_types_that_its_statements_have() -> None:
    program = program_of("np.sum(v0)", v0=X)
    changed = replace(program, statements=(replace(program.statements[0], text="np.cos(v0)"),))
    assert not asking.program((changed, False)).findings
    refused = replace(program, statements=(replace(program.statements[0], text="np.sum(v0, axis=3)"),))
    assert asking.retyped(refused) is None


def test_shrinking_keeps_what_fails() -> None:
    program = generate(12)
    assert len(program.statements) > 5
    last = program.statements[-1]
    small = shrink(
        program,
        lambda p: last.targets == p.statements[-1:][0].targets if p.statements else False,
        lambda p: {},
    )
    assert len(small.statements) < len(program.statements) and small.statements[-1].targets == last.targets


def test_a_worker_hangs_when_it_has_computed_or_waited_for_too_long() -> None:
    worker = Worker(timeout=0.02)
    worker.process = SimpleNamespace(pid=os.getpid())
    worker.connection, other = Pipe()
    assert not worker.answers()
    other.send("an answer")
    assert worker.answers()


def test_scripts_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    program = replace(
        program_of("np.cumsum(v0)", v0=X),
        stack=(("vjp", {}), ("vmap", {"in_axes": (0,), "out_axes": 0, "size": 2})),
    )
    exec(script(program, "a title"), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and {line.split()[0] for line in lines} == {"didax", "jax"}
    assert Counter(line.split("  ", 1)[1] for line in lines if "didax eager" in line) == Counter(
        line.split("  ", 1)[1] for line in lines if "didax jit" in line
    )


def test_reasons_are_documented() -> None:
    """Each table says why names are left out, and each known difference why it is one."""
    for table in TABLES:
        assert all(reason for reason in table.EXCLUDED.values())
    assert all(len(row) == 3 and row[2] for row in differences.KNOWN)
