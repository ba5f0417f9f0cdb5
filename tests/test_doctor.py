"""`python -m didax doctor` tells what is broken, line by line, and never ends in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from didax import __main__ as commands
from didax import __version__, _installation
from didax.core import config

ROOT = Path(__file__).parent.parent


def run(*arguments: str, path: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | environment | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}
    command = [sys.executable, "-m", "didax", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)


def test_the_report_is_whole_and_the_self_test_passes(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DIDAX_NO_SUCH_OPTION", "1")
    with config.override(compilation_cache_dir=str(tmp_path / "new"), enable_checks=True):
        assert commands.main(["doctor"]) == 0
    text, errors = capsys.readouterr()
    assert not errors and "FAILED" not in text and text.endswith("The self-test passed.\n")
    titles = [part.partition("\n")[0] for part in text.split("\n\n")[:-1]]
    assert titles == [
        *("versions", "machine", "environment", "options", "devices", "supported"),
        *("cache of compiled programs", "self-test", "benchmark"),
    ]
    lines = [line.split(None, 1) for line in text.splitlines() if line.startswith("  ")]
    found = {name: value for name, value in filter(lambda line: len(line) == 2, lines)}
    assert found["didax"].startswith(__version__) and found["folder"] == str(tmp_path / "new")
    assert found["writable"] == "yes" and found["check"] == "True" and found["platform"] in ("cpu", "gpu")
    assert found["DIDAX_NO_SUCH_OPTION"].startswith("WARNING: no option has this name")


def test_what_is_broken_is_a_line_and_a_failed_self_test_is_status_1(capsys, tmp_path, monkeypatch):
    def broken() -> str:
        raise RuntimeError("no device\nanswers")

    def wrong() -> str:
        return commands._compare(lambda x: x + 1, lambda: commands._POINTS)()

    monkeypatch.setattr(
        commands, "SELF_TEST", {"first": broken, "second": wrong, "third": wrong, "fourth": lambda: "ok"}
    )
    monkeypatch.setattr(commands, "BENCHMARK", {"fast": broken})
    monkeypatch.setattr(commands, "_device", lambda device: broken())
    monkeypatch.setattr(commands, "supported", broken)
    (tmp_path / "file").write_text("")
    with config.override(compilation_cache_dir=str(tmp_path / "file" / "below")):
        assert commands.main(["doctor"]) == 1
    text = capsys.readouterr().out
    failed = [
        line.split("  ")[1].strip() for line in text.splitlines() if "FAILED: " in line and "  " in line
    ]
    assert failed == ["devices", "(all)", "writable", "first", "second", "fast"]
    assert "  first   FAILED: RuntimeError: no device\n          answers\n" in text
    assert (
        "ArithmeticError: The result is wrong.\n" in text
        and "  third   FAILED in the same way\n  fourth  ok\n" in text
    )
    assert text.endswith("The self-test FAILED: first, second, third.\n")


@pytest.mark.ci
def test_where_the_import_fails_there_is_a_report_with_the_reason(tmp_path):
    done = run("doctor", DIDAX_ENABLE_X64="maybe")
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAILED: TypeError: The environment variable DIDAX_ENABLE_X64 has a value" in done.stdout
    assert "DIDAX_ENABLE_X64='maybe', which may be: 1, true" in done.stdout
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").write_text("")
    (tmp_path / "jaxlib-0.99.0.dist-info").mkdir()
    done = run("doctor", path=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    assert "jaxlib      0.99.0: Didax needs jaxlib>=" in done.stdout
    assert "import didax  FAILED: ImportError: Didax" in done.stdout


def test_other_commands_are_refused_with_the_usage(capsys):
    assert commands.main(["--help"]) == 0 and commands.main(["docter"]) == commands.main([]) == 2
    out, errors = capsys.readouterr()
    assert out.startswith("usage: python -m didax doctor") and errors == out * 2


def test_other_programs_keep_their_tracebacks(monkeypatch):
    """Only the doctor's own process changes what happens to errors."""
    monkeypatch.setattr(sys, "argv", ["-m", "doctor"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "package", "doctor"])
    before = sys.excepthook
    _installation.tell_if_import_fails()
    assert sys.excepthook is before


def test_a_package_that_is_missing_is_told(monkeypatch):
    monkeypatch.setattr(_installation, "NEEDED", ("no_such_package",))
    monkeypatch.setattr(_installation, "installed_jaxlib", lambda: None)
    rows = dict(_installation.versions())
    assert rows["no_such_package"] == "MISSING: Didax needs it"
    assert (
        rows["jaxlib"]
        == f"MISSING: Didax needs jaxlib>={_installation.JAXLIB_MIN},<{_installation.JAXLIB_BELOW}"
    )
