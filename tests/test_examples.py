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
    ("cnn --epochs 1", "held out", 20, 90),
    ("kalman --days 4 --steps 1", "the filters differ by", 0, 9.99),
    ("lstm --steps 1 --futures 2", "error of the median of the futures", 0.5, 5),
    ("neural_ode --steps 1", "difference of the adjoint from backpropagation", 0, 1e-3),
    ("ppo --agents 1 --updates 1", "in the end", 5, 500),
]
WHOLE = [
    ("gaussian_process", "error of the prediction", 60, 75),
    ("hamiltonian", "(potential scale reduction)", 1, 1.02),
    ("gpt", "held out", 1.5, 2.8),
    ("pendulum", "they part after", 3, 9),
    ("trust_region", "after", 0.06, 0.08),
    ("vae", "epochs", -26, -20),
    ("cnn", "held out", 98, 100),
    ("kalman", "in the interval told the day before", 94, 97),
    ("lstm", "error of the median of the futures", 0.3, 1.1),
    ("neural_ode", "in standard deviations", 0, 0.7),
    ("ppo", "in the end", 450, 500),
]


SLOW_TO_COMPILE = {"cnn", "neural_ode"}  # so that even their small form is left to the slow tests


def check(monkeypatch, capsys, tmp_path, command, words, low, high):
    name, *options = command.split()
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [name, *options, "--picture", str(picture)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert name != "pendulum" or picture.with_suffix(".gif").read_bytes().startswith(b"GIF8")
    printed = re.search(re.escape(words) + r":\s+(-?[\d.]+)", capsys.readouterr().out)
    assert printed is not None
    assert low <= float(printed[1].rstrip(".")) <= high


def name_of(row):
    return row[0].partition(" ")[0]


def quick_or_slow(row):
    return pytest.param(row, marks=[pytest.mark.slow] if name_of(row) in SLOW_TO_COMPILE else [])


@pytest.mark.ci  # whole programs
@pytest.mark.parametrize("row", list(map(quick_or_slow, SMALL)), ids=name_of)
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
