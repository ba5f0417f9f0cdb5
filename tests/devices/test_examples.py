"""The examples for several devices run, small, and find themselves equal to one device."""

import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
slow = pytest.mark.slow

# fmt: off
SMALL = [  # script, arguments, what it prints
    pytest.param("pipeline.py", "--microbatches 3 --width 4 --steps 1",
                 "collective_permute of 128 bytes among 7 pairs of devices, 10 times: each sends 128 bytes"),
    pytest.param("ring_attention.py", "--length 16 --heads 1 --width 4",
                 "collective_permute of 32 bytes among 8 pairs of devices, 8 times: each sends 32 bytes"),
    pytest.param("fsdp.py", "--layers 2 --width 16 --steps 1",
                 "parameters: 6,784 bytes, 848 of them on each of 8 devices", marks=slow),
    pytest.param("data_parallel.py", "--steps 2",  # 64 * 128 + 128 + 128 * 10 + 10 parameters, and the loss
                 "all_reduce of 38444 bytes among 8 devices, once: each sends 67277 bytes", marks=slow),
    pytest.param("tensor_parallel.py", "--width 16 --steps 1",  # a batch of 16 / 2 texts of 32 vectors of 16
                 "all_reduce of 16384 bytes among 4 devices, once: each sends 24576 bytes", marks=slow),
]
LONG = [  # as users run them, but for fewer steps
    pytest.param("pipeline.py", "--steps 20", "", marks=slow),
    pytest.param("ring_attention.py", "--length 1024", "", marks=slow),
    pytest.param("fsdp.py", "--steps 20", "", marks=slow),
    pytest.param("data_parallel.py", "--steps 60", "", marks=slow),
    pytest.param("tensor_parallel.py", "--steps 10", "", marks=slow),
]
# fmt: on


@pytest.mark.ci  # whole programs
@pytest.mark.parametrize("script, arguments, expected", [*SMALL, *LONG])
def test_example(script: str, arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    if script in ("fsdp.py", "data_parallel.py"):
        pytest.importorskip("sklearn")
    path = EXAMPLES / script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(arguments.split())
    out = capsys.readouterr().out
    assert expected in out and "differ by at most" in out, out
    learned = re.search(r"loss ([\d.]+) -> ([\d.]+)", out)
    if not expected and learned is not None:
        assert float(learned[2]) < 0.8 * float(learned[1])


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_examples_are_short(script: str) -> None:
    lines = len((EXAMPLES / script).read_text().splitlines())
    assert lines < 150 or script == "digits.py"
