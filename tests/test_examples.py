"""The programs of examples/ run, print a result that shows it, and draw: in small here, and whole where it is slow."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

# The program and its options, then a number that it prints: the words before it, and its bounds.
SMALL = [
    ("gaussian_process --points 80 --steps 5", "error of the prediction", 60, 140),
    ("hamiltonian --chains 2 --draws 40", "held out", 90, 100),
    ("gpt --steps 3 --length 5", "held out", 4, 6.6),
    ("pendulum --pendulums 2 --seconds 1", "largest change of the energy", 0, 0.01),
    ("trust_region --size 16 --steps 10", "after", 0.04, 0.09),
    ("vae --epochs 1", "epochs", -50, -25),
]
WHOLE = [
    ("gaussian_process", "error of the prediction", 60, 75),
    ("hamiltonian", "(potential scale reduction)", 1, 1.02),
    ("gpt", "held out", 1.5, 2.8),
    ("pendulum", "they part after", 3, 9),
    ("trust_region", "after", 0.06, 0.08),
    ("vae", "epochs", -26, -20),
]


def check(monkeypatch, capsys, tmp_path, command, words, low, high):
    name, *options = command.split()
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [name, *options, "--picture", str(picture)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = re.search(re.escape(words) + r":\s+(-?[\d.]+)", capsys.readouterr().out)
    assert printed is not None
    assert low <= float(printed[1].rstrip(".")) <= high


def name_of(row):
    return row[0].partition(" ")[0]


@pytest.mark.parametrize("row", SMALL, ids=name_of)
def test_an_example_runs_in_small(row, monkeypatch, capsys, tmp_path):
    check(monkeypatch, capsys, tmp_path, *row)


@pytest.mark.slow
@pytest.mark.parametrize("row", WHOLE, ids=name_of)
def test_an_example_shows_that_it_works(row, monkeypatch, capsys, tmp_path):
    check(monkeypatch, capsys, tmp_path, *row)


def test_every_example_is_in_the_gallery_and_tested():
    gallery = (EXAMPLES.parent / "docs/gallery.md").read_text()
    shown = set(re.findall(r"\.\./examples/(\w+)\.py", gallery))
    assert shown >= set(map(name_of, SMALL)) == set(map(name_of, WHOLE))
