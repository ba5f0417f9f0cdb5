"""Listeners are told of what the library does, and profiles show the operations of programs."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import monitoring


def test_listeners_are_told_of_tracing_compiling_and_the_cache(tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []

    def listener(*values: Any, **details: Any) -> None:
        told.append((*values, details))

    def names(kind: int) -> list[str]:
        return [event[0].rpartition("/")[2] for event in told if len(event) == kind]

    def shape_of_life(x: Any) -> Any:
        return dnp.sin(x) * 3

    kinds = ("event", "event_duration_secs", "event_time_span", "scalar")
    for kind in kinds:
        getattr(monitoring, f"register_{kind}_listener")(listener)
    try:
        with dx.enable_x64(False):
            dx.config.update("compilation_cache_dir", str(tmp_path))
            for _ in range(2):  # the second finds the program on disk
                dx.clear_caches()
                dx.jit(shape_of_life)(np.arange(3.0, dtype="float32"))
        assert names(2) == [
            "compile_requests_use_cache",
            "cache_misses",
            "compile_requests_use_cache",
            "cache_hits",
        ]
        steps = ["jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration"]
        spans = [name for name in names(4) if name in steps]
        assert spans == 2 * steps
        event = next(event for event in told if event[0].endswith("jaxpr_trace_duration") and len(event) == 3)
        assert event[2] == {"fun_name": "shape_of_life"} and event[1] > 0
        before = len(told)
        dx.jit(shape_of_life)(np.arange(3.0, dtype="float32"))
    finally:
        dx.config.update("compilation_cache_dir", "")
        monitoring.clear_event_listeners()
    assert len(told) >= before
    monitoring.record_event("/mine", number=1)
    assert len(told) >= before


def test_listeners_come_and_go() -> None:
    told: list[Any] = []
    listener = lambda *values, **details: told.append((values, details))
    monitoring.register_event_duration_secs_listener(listener)
    monitoring.record_event_duration_secs("/mine", 2.0, part="a")
    monitoring.record_event("/mine")  # another kind
    monitoring.unregister_event_duration_listener(listener)
    monitoring.record_event_duration_secs("/mine", 3.0)
    assert told == [(("/mine", 2.0), {"part": "a"})]
    with pytest.raises(ValueError, match="Only a listener that is registered can be unregistered"):
        monitoring.unregister_event_duration_listener(listener)
    with pytest.raises(TypeError, match="listener to events of the kind 'scalar' is a function"):
        monitoring.register_scalar_listener(3)


@pytest.mark.usefixtures("few_programs")
def test_a_profile_has_the_names_of_operations_and_marks(tmp_path: Path) -> None:
    from didax import profiler

    @dx.jit
    def step(x: Any) -> Any:
        with dx.named_scope("inner_part"):
            return dnp.sort(dnp.tanh(x) @ x.T, axis=0)

    x = dnp.ones((40, 40))
    step(x).block_until_ready()
    marked = profiler.annotate_function(step, name="marked_step")
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        with pytest.raises(RuntimeError, match=r"Only one profile may be run at a time\.\n  it writes to"):
            profiler.start_trace(tmp_path)
        with profiler.TraceAnnotation("my_label"), profiler.StepTraceAnnotation("train", step_num=3):
            marked(x).block_until_ready()
    (folder,) = (tmp_path / "plugins" / "profile").iterdir()
    (path,) = folder.glob("*.xplane.pb")
    data = profiler.ProfileData.from_file(str(path))
    found = {event.name for plane in data.planes for line in plane.lines for event in line.events}
    assert {"my_label", "marked_step"} <= found and any(name.startswith("train") for name in found)
    assert any("sort" in name for name in found) and any("tanh" in name for name in found), sorted(found)
    events = json.loads(gzip.decompress((folder / "perfetto_trace.json.gz").read_bytes()))["traceEvents"]
    sorts = [event["args"] for event in events if "sort" in event.get("args", {}).get("hlo_op", "")]
    assert {(args["scope"], *args["lines"]) for args in sorts} == {
        ("inner_part", f"{__file__}:{step.__wrapped__.__code__.co_firstlineno + 3}")
    }
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    with pytest.raises(NotImplementedError, match="no link to a profile"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)


def test_profiles_of_memory_and_servers(tmp_path: Path) -> None:
    from didax import profiler

    x = dnp.ones(1000).block_until_ready()
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    assert b"buffer" in gzip.decompress((tmp_path / "memory.prof").read_bytes()) and x.size
    with pytest.raises(RuntimeError, match="A process computes on one backend"):
        profiler.device_memory_profile("tpu")
    with pytest.raises(ValueError, match="No active profiler server"):
        profiler.stop_server()


def test_values_of_events_by_name() -> None:
    told: list[Any] = []
    for kind in ("event_duration_secs", "event_time_span", "scalar"):
        getattr(monitoring, f"register_{kind}_listener")(
            lambda *values, **details: told.append((values, details))
        )
    try:
        monitoring.record_event_duration_secs("/a", duration=1.5, of="b")
        monitoring.record_event_time_span("/a", 1.0, end_time=2.0)
        monitoring.record_scalar("/a", value=3.0)
        with pytest.raises(TypeError, match="'duration' has values"):
            monitoring.record_event_duration_secs("/a")
    finally:
        monitoring.clear_event_listeners()
    assert told == [(("/a", 1.5), {"of": "b"}), (("/a", 1.0, 2.0), {}), (("/a", 3.0), {})]
