"""Where the time goes, by line and by named scope: tables, pictures, traces. Proportions are asked for, never times."""

import gzip
import io
import itertools
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.api.profile_analysis import CALL, Analysis
from didax.core import config
from didax.xla.hlo import Origin
from didax.xla.profiling import Measured
from didax.xla.shares import NOWHERE, Place, Program

pytestmark = pytest.mark.usefixtures("few_programs")

HERE = __file__


def heavy_and_light(w: Any, x: Any) -> Any:
    with dx.named_scope("model"):
        with dx.named_scope("layer"):
            y = lax.scan(lambda c, _: (c @ w, None), x, None, length=10)[0]  # heavy
        z = x + 1.0  # light
    return (y * z).sum()


def line_of(text: str) -> int:
    lines = Path(HERE).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


@pytest.fixture(scope="module")
def found(few_programs: None) -> Any:
    """A profile of a program with one heavy line, which takes some 1,000 times as long as the others."""
    x = dnp.ones((500, 500)) * 0.001
    return dx.profile(dx.jit(heavy_and_light), x, x, runs=3)


def test_the_heavy_line_has_most_of_the_time(found: Any) -> None:
    first = found.lines[0]
    assert (first.file, first.line) == (HERE, line_of("heavy"))
    assert first.text.startswith("y = lax.scan") and "dot_general" in first.operations
    total = sum(line.seconds for line in found.lines)
    assert first.seconds > 0.7 * total
    assert {line.line for line in found.lines if line.file} <= set(range(1, 100))
    assert found.scopes[0].name == "model" and found.scopes[1].name == "model/layer"
    assert found.scopes[1].seconds > 0.7 * total
    assert sum(found.instructions.values()) == pytest.approx(total)
    assert {module for module, _ in found.instructions} == {"jit_heavy_and_light"}


def test_times_are_parts_of_the_call_and_the_first_call_is_apart(found: Any) -> None:
    times = found.times
    assert sum(line.seconds for line in found.lines) == pytest.approx(times.computing)
    for part in times[1:]:
        assert 0 <= part <= times.total
    assert times.compiling == 0 and found.first.tracing > 0 and found.first.lowering > 0
    assert found.first.tracing + found.first.lowering + found.first.compiling <= found.first.total
    assert found.runs == 3


def test_tables_pictures_and_traces(found: Any, tmp_path: Path, monkeypatch: Any) -> None:
    text = repr(found)
    assert "heavy_and_light: " in text and "mean of 3 calls" in text and "the first call took" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["time", "%", "line"] in rows and ["time", "%", "scope"] in rows
    assert f"test_profile.py:{line_of('heavy')}  y = lax.scan" in text
    page = ET.fromstring(f"<div>{found._repr_html_().replace('<br>', '<br/>')}</div>")
    assert len(page.findall(".//table")) == 2 and len(page.findall(".//{*}svg")) == 1
    rich = pytest.importorskip("rich.console")
    console = rich.Console(width=200, record=True, file=io.StringIO())
    console.print(found)
    assert "model/layer" in console.export_text()

    found.save(tmp_path / "a.svg")
    check_boxes(ET.parse(tmp_path / "a.svg").getroot())
    found.save(tmp_path / "a.json")
    found.save(str(tmp_path / "a.json.gz"))
    content = (tmp_path / "a.json").read_text()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()).decode() == content
    events = json.loads(content)["traceEvents"]
    dots = [e for e in events if e["name"] == f"dot_general test_profile.py:{line_of('heavy')}"]
    assert dots and len(dots) % 30 == 0  # of 10 steps in 3 calls
    assert {e["args"]["scope"] for e in dots} == {"model/layer"}
    assert all(e["ph"] in "MX" and e["dur"] >= 0 and e["ts"] > -1e9 for e in events if e["ph"] == "X")
    with pytest.raises(ValueError, match=r"saved as a trace .* path: 'a.txt'|(?s:saved as a trace.*'a.txt')"):
        found.save("a.txt")


def test_what_is_no_function_and_no_count_is_refused() -> None:
    with pytest.raises(TypeError, match=r"profile takes a function\.\n  got: 3 of type int"):
        dx.profile(3)  # pyright: ignore[reportArgumentType]
    for runs in (-1, 2.0, "ten", True):
        with pytest.raises(ValueError, match="how many calls are measured"):
            dx.profile(lambda: None, runs=runs)


def check_boxes(root: Any) -> None:
    """Boxes of one row do not overlap, and each is within one of the row above."""
    boxes = [
        tuple(float(box.get(name)) for name in ("x", "y", "width")) for box in root.findall(".//{*}rect")
    ]
    assert len(boxes) > 3
    for x, y, width in boxes:
        row = sorted((a, a + c) for a, b, c in boxes if b == y)
        assert all(end <= start + 0.02 for (_, end), (start, _) in itertools.pairwise(row))
        above = [(a, a + c) for a, b, c in boxes if abs(b - (y - 20)) < 1]
        assert y == 8 or any(a - 0.02 <= x and x + width <= b + 0.02 for a, b in above)


def test_names_are_escaped_and_what_is_short_is_left_out() -> None:
    from didax.api.profile_flame import Flame, Node

    root = Node("f<&>")
    root.add(['a < b & "c"', "deep"], 1.0)
    root.add(["too short"], 1e-6)
    svg = Flame(root, lambda seconds: f"{seconds} s").svg()
    titles = [title.text for title in ET.fromstring(svg).findall(".//{*}title")]
    assert any(title.startswith('a < b & "c": 1.0') for title in titles)
    assert "1 of the parts are too short to be drawn" in svg and "too short:" not in svg
    assert "nan" not in Flame(Node("nothing"), str).svg()


def test_eager_operations_count_for_their_lines_and_nothing_is_left_behind() -> None:
    def f(x: Any) -> Any:
        with dx.named_scope("eager"):
            y = x @ x  # eager dot
        return dnp.tanh(x[:2, :2]) + y[:2, :2]  # eager tanh

    watched = config.operations_were_watched  # by another test of this process, which inspected values
    found = dx.profile(f, dnp.ones((700, 700)), runs=2)
    lines = {line.line: line for line in found.lines}
    assert "dot_general" in lines[line_of("eager dot")].operations
    assert "tanh" in lines[line_of("eager tanh")].operations  # which NumPy evaluates
    assert lines[line_of("eager dot")].seconds == max(line.seconds for line in found.lines)
    assert [scope.name for scope in found.scopes if scope.name] == ["eager"]
    assert config.operation_mark is None and config.operations_were_watched == watched


def test_the_backward_pass_and_functions_of_the_library_have_their_lines() -> None:
    from didax import random

    def f(x: Any, key: Any, other: Any) -> Any:
        y = dnp.linalg.solve(x, x)  # solve
        y = y + random.normal(key, x.shape)  # one draw
        y = y * random.normal(other, x.shape)  # another draw
        return y.sum()

    found = dx.profile(dx.jit(dx.grad(f)), dnp.eye(40), *random.split(random.key(0)), runs=1)
    lines = {line.line for line in found.lines if line.file == HERE}
    texts = [line.text for line in found.lines if line.file == HERE]
    assert {line_of("solve"), line_of("another draw")} <= lines
    assert not any("dx.profile" in text for text in texts)
    solve = next(line for line in found.lines if line.line == line_of("solve"))
    assert 0 < solve.backward < solve.seconds
    assert found.runs == 1


def test_a_program_from_the_cache_is_told_by_the_lines_of_today(tmp_path: Path) -> None:
    source = "def cached_f(x):\n    return dnp.cumsum(x @ x)\n"

    def jitted(text: str, file: str) -> Any:
        names: dict[str, Any] = {"dnp": dnp}
        exec(compile(text, file, "exec"), names)
        return dx.jit(names["cached_f"])

    with dx.enable_x64(False):
        before = config.state().compilation_cache_dir
        dx.config.update("compilation_cache_dir", str(tmp_path))
        try:
            jitted(source, "old.py")(dnp.ones((60, 60)))
            dx.clear_caches()
            found = dx.profile(jitted("\n\n\n" + source, "new.py"), dnp.ones((60, 60)), runs=1)
        finally:
            dx.config.update("compilation_cache_dir", before)
    assert {(line.file, line.line) for line in found.lines if line.file} == {("new.py", 5)}


def test_donated_arrays_are_copied_and_a_function_may_be_called_once() -> None:
    x = dnp.ones(100)
    found = dx.profile(dx.jit(lambda x: x + 1, donate_argnums=0), x, runs=2)
    assert float(x[0]) == 1.0 and found.runs == 2
    calls: list[int] = []
    once = dx.profile(lambda *, step: calls.append(step), runs=0, step=7)
    assert calls == [7] and once.first is None and once.runs == 1 and "(one call)" in repr(once)
    assert once.lines == () and once.flame().svg().startswith("<svg")
    with pytest.raises(ValueError, match=r"(?s)how many calls are measured.*runs: -1"):
        dx.profile(len, (), runs=-1)
    with pytest.raises(RuntimeError, match=r"(?s)Only one profile may be run at a time.*End it first"):
        dx.profile(lambda: dx.profile(len, ()), runs=0)
    assert dx.profile(lambda: None, runs=1).runs == 1


def test_operations_that_run_after_a_profile_cost_what_they_did() -> None:
    """Counted: the calls of an eager operation, before and after a profile of an eager function."""
    x = dnp.ones(3)

    def calls() -> int:
        count = 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        x + x
        sys.setprofile(note)
        try:
            x + x
        finally:
            sys.setprofile(None)
        return count

    before = calls()
    dx.profile(lambda: x + x, runs=1)
    assert calls() == before


TEXT = """HloModule jit_f, is_scheduled=true

FileNames
1 "a"

FunctionNames
1 "f/dot_general"
2 "f/model/add"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=1}
2 {file_name_id=1 function_name_id=2 line=4 end_line=4 column=1 end_column=1}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

fused {
  p = f32[10,10] parameter(0)
  dot.1 = f32[10,10] dot(f32[10,10] p, p), lhs_contracting_dims={1}, metadata={op_name="f/dot_general" stack_frame_id=1}
  ROOT add.1 = f32[10,10] add(f32[10,10] dot.1, f32[10,10] p), metadata={op_name="f/model/add" stack_frame_id=2}
}

ENTRY main {
  x = f32[10,10] parameter(0)
  fusion.1 = f32[10,10] fusion(f32[10,10] x), kind=kLoop, calls=fused
  ROOT copy.1 = f32[10,10] copy(f32[10,10] fusion.1), metadata={source_file="-" source_line=7}
}
"""


def test_a_fusion_is_shared_by_arithmetic_and_a_copy_is_of_its_operand() -> None:
    program = Program(TEXT)
    dot = Place((Origin("f/dot_general", "a", 3),), "", "dot_general", False)
    add = Place((Origin("f/model/add", "a", 4),), "model", "add", False)
    assert program.shares("fusion.1") == {dot: 2000 / 2100, add: 100 / 2100}
    assert program.callers("dot.1") == {"fusion.1"} and program.callers("copy.1") == set()
    assert program.fits(frozenset(["fusion.1", "copy.1"])) == 2 and program.fits(frozenset(["other"])) == -2
    assert program.shares("copy.1") == {NOWHERE: 1.0}  # neither it nor the fusion has a place
    assert Program(TEXT.replace("calls=fused", "calls=fused, metadata={stack_frame_id=2}")).place(
        "copy.1"
    ).frames == (add.frames)


def test_kernels_of_a_gpu_have_the_lines_of_their_instructions() -> None:
    """A CUDA graph tells kernels only: by the names of instructions without dots, or those that a library chose."""
    call = "call.1 = f32[10,10] custom-call(f32[10,10] fusion.1), metadata={stack_frame_id=1}"
    text = TEXT.replace("  ROOT copy.1", f"  {call}\n  ROOT copy.1")
    program = Program(text)
    assert program.named("fusion_1") == program.named("fusion.1") == "fusion.1" and program.named("k") == "k"
    assert program.shares("fusion_1") == program.shares("fusion.1")
    assert program.fits(frozenset(["fusion_1", "copy_1", "sm80_gemm"])) == 2 - 1

    def measured(name: str, start: float, **details: Any) -> Measured:
        return Measured(name, start, start + 10, 0, details, start + 10)

    ran = {"hlo_module": "jit_f", "hlo_op": "command_buffer_1", "cuda_graph_id": 4}
    recording = SimpleNamespace(
        began=0.0,
        threads=["GPU"],
        programs=lambda: [text],
        waits=lambda thread: [],
        events=[
            measured(CALL, 0.0)._replace(end=100.0),
            measured("fusion_1", 20.0, **ran),
            measured("sm80_gemm", 40.0, **ran),
        ],
    )
    found = Analysis(recording, []).profile("f", 1, None)  # pyright: ignore[reportArgumentType]
    assert {(line.line, round(line.seconds * 1e9, 3)) for line in found.lines} == {
        (3, round(10 + 10 * 2000 / 2100, 3)), (4, round(10 * 100 / 2100, 3)),
    }  # fmt: skip
    assert set(found.instructions) == {("jit_f", "fusion.1"), ("jit_f", "sm80_gemm")}
