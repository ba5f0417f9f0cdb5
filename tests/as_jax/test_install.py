"""`import jax` gives Didax after `install()`: everything that needs a process of its own, in few processes."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import didax.as_jax
from didax.as_jax import table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python process with Didax on its path."""
    path = os.pathsep.join([*environment.pop("path", "").split(os.pathsep), str(ROOT)])
    settings = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default", **environment}
    return subprocess.run(
        [sys.executable, *arguments], env=settings, capture_output=True, text=True, cwd=HERE
    )


@pytest.mark.ci
def test_a_process_with_the_layer() -> None:
    assert importlib.util.find_spec("jax") is not None, (
        "the process is to have a real jax, which it leaves alone"
    )
    done = run("installed_program.py")
    assert done.returncode == 0, done.stderr
    # The layer's import beside Didax's: 0.06 where it is measured alone.
    assert json.loads(done.stdout)["ratio"] < 0.5


@pytest.mark.ci
def test_the_command_line_and_children(tmp_path: Path) -> None:
    child = "import jax, sys; print(jax.__spec__.origin, 'didax.numpy' in sys.modules)"
    program = f"""
import subprocess, sys, jax, helper
print(sys.argv[1:], __name__, jax.__spec__.origin, helper.name)
print(subprocess.run([sys.executable, "-c", {child!r}], capture_output=True, text=True, check=True).stdout, end="")
"""
    (tmp_path / "script.py").write_text(program)
    (tmp_path / "helper.py").write_text("name = 'beside'")
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.from_the_next = 1")
    (tmp_path / "uses.py").write_text(
        "import jax\nfrom jax import numpy as np\nnp.sin, np.nothing, jax.lax.cond, np._mine\n"
        "jax._src.tpu_custom_call.as_tpu_kernel\n"
        "import jax.experimental.mosaic, jax.experimental.jax2tf\n"
        "from jax.experimental.array_serialization.serialization import get_tensorstore_spec\n"
    )
    done = run("-m", "didax.as_jax", str(tmp_path / "script.py"), "a", "b")
    assert done.stdout.splitlines() == [
        "['a', 'b'] __main__ didax.as_jax:jax beside",
        "didax.as_jax:jax True",
    ], done.stderr
    startup = Path(didax.as_jax.__file__).parent / "startup"
    line = "import sys; print('didax' in sys.modules, from_the_next); import jax; "
    line += "print(jax.__spec__.origin, jax.numpy.ones(2).dtype)"
    path = os.pathsep.join([str(startup), str(tmp_path)])
    done = run("-c", line, path=path, DIDAX_AS_JAX="1", JAX_ENABLE_X64="1")
    assert done.stdout.splitlines() == ["False 1", "didax.as_jax:jax float64"], done.stderr
    done = run("-m", "didax.as_jax", "--check", str(tmp_path / "uses.py"))
    assert done.returncode == 1
    serialization = "jax.experimental.array_serialization.serialization.get_tensorstore_spec"
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : lines.index("missing: 5") + 6]] == [
        "jax._src.tpu_custom_call",
        serialization,
        "jax.experimental.jax2tf",
        "jax.experimental.mosaic",
        "jax.numpy._mine",
    ]
    assert "  jax.numpy.sin" in lines
    assert f"nor in JAX {didax.as_jax.JAX_VERSION}: 1\n  jax.numpy.nothing" in done.stdout
    assert f"jax.lax.cond  (1: {tmp_path / 'uses.py'}:3): {table.DIFFERENT['jax.lax.cond']}" in done.stdout


def test_install_comes_before_jax() -> None:
    import jax

    assert jax.__file__ is not None
    try:
        didax.as_jax.install()
    except RuntimeError as error:
        assert "before jax is imported" in str(error) and jax.__file__ in str(error)
    else:
        raise AssertionError("installed beside a jax that is in use")


def test_the_page_has_the_tables() -> None:
    page = (ROOT / "docs" / "from-jax.md").read_text()
    for name, text in [*table.DIFFERENT.items(), *table.REFUSED.items()]:
        assert f"| `{name}` | {text} |" in page
    for path, names in table.PRIVATE.items():
        assert f"`{path.removeprefix('jax._src.')}`" in page and all(f"`{name}`" in page for name in names)
