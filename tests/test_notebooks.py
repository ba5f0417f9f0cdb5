"""The notebooks of the tour and of three programs: their cells run, and are all of what they are made of."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import didax as dx

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import make_notebooks  # noqa: E402

SMALL = {
    "digits": ["--epochs", "1"],
    "gaussian_process": ["--points", "80", "--steps", "5"],
    "hamiltonian": ["--chains", "2", "--draws", "40"],
}


def run(cells, monkeypatch):
    """Run the cells as a notebook does; what the last line of each cell evaluates to."""
    names, shown = {"__name__": "__main__"}, []
    monkeypatch.setattr(sys, "argv", [])
    for cell in cells:
        if cell["cell_type"] == "markdown" or "IPython" in cell["source"]:
            continue
        tree = ast.parse(cell["source"])
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None

        def all_of_it(tree=tree, last=last):
            exec(compile(tree, "<cell>", "exec", dont_inherit=True), names)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), "<cell>", "eval"), names))

        if make_notebooks.RAISES in cell["metadata"].get("tags", ()):
            with pytest.raises(dx.errors.CheckError, match=r"no root of -1\.0"):
                all_of_it()
        else:
            all_of_it()
    return shown


def test_the_tour_runs(monkeypatch):
    shown = run(make_notebooks.tour(), monkeypatch)
    assert any("cos" in repr(each) for each in shown)
    assert (125.0, 75.0) in [each for each in shown if type(each) is tuple]
    cells = list(make_notebooks.tour())
    assert not any("](docs" in cell["source"] for cell in cells)
    assert sum(make_notebooks.RAISES in cell["metadata"].get("tags", ()) for cell in cells) == 1


@pytest.mark.parametrize("name", make_notebooks.PROGRAMS)
def test_a_notebook_has_all_of_its_program(name):
    cells = list(make_notebooks.program(name))
    found = [cell["source"] for cell in cells if cell["cell_type"] == "code"][:-2]
    (_, *body, last) = ast.parse((ROOT / "examples" / f"{name}.py").read_text()).body
    assert ast.unparse(last).startswith("if __name__") and len(found) > 2
    assert ast.dump(ast.parse("\n".join(found))) == ast.dump(ast.Module(body, []))


@pytest.mark.slow
@pytest.mark.parametrize("name", make_notebooks.PROGRAMS)
def test_the_cells_of_a_program_run(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cells = list(make_notebooks.program(name, SMALL[name]))
    run(cells, monkeypatch)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert cells[-1]["source"].endswith(f'Image("{name}.png")')


def test_the_files_are_notebooks(tmp_path):
    command = [sys.executable, str(ROOT / "docs" / "make_notebooks.py"), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    files = sorted(tmp_path.glob("*.ipynb"))
    assert [path.stem for path in files] == sorted(["tour", *make_notebooks.PROGRAMS])
    for path in files:
        content = json.loads(path.read_text())
        assert content["nbformat"] == 4 and len({cell["id"] for cell in content["cells"]}) > 5
        assert all(cell["source"] for cell in content["cells"])
