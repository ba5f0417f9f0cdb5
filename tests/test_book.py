"""The book is true: its chapters run in order, its file and its pictures are made of them, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.test_docs import python_blocks, run

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "docs/book"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return load(BOOK / "make_book.py")


@pytest.fixture(scope="module")
def book(make: ModuleType) -> dict[str, Any]:
    """The names of the chapters, after all of their code and their examples have run."""
    names: dict[str, Any] = {"__name__": "book"}
    for page in make.CHAPTERS:
        before_didax = {}
        for line, block in python_blocks(page.read_text()):
            if "import didax" in block:  # the library redefines the names of the last chapter
                before_didax = dict(names)
            run(block, names, page, line)
        names.update(before_didax)
    return names


@pytest.mark.ci
def test_the_exercises_have_solutions_that_do_what_they_say(make: ModuleType, book: dict[str, Any]) -> None:
    names = dict(book)
    for line, block in python_blocks(make.EXERCISES.read_text()):
        run(block, names, make.EXERCISES, line)


def test_the_miniature_is_the_code_of_the_chapters(make: ModuleType) -> None:
    assert (BOOK / "miniature.py").read_text() == make.miniature(), "run: python docs/book/make_book.py"
    for page in ("index.md", "7-network.md"):
        text = " ".join((BOOK / page).read_text().split())
        (promised,) = re.findall(r"(\d+) lines of code", text)
        assert lines_of_code(make.miniature()) == int(promised)


def lines_of_code(program: str) -> int:
    """Lines but for empty ones, comments and docstrings."""
    program = re.sub(r'^ *"""(?s:.*?)"""$', "", program, flags=re.MULTILINE)
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in program.splitlines())


@pytest.mark.parametrize("name", ["trace-chain", "tape", "split"])
def test_a_picture_shows_the_objects(make: ModuleType, book: dict[str, Any], name: str) -> None:
    written = (BOOK / f"{name}.svg").read_text()
    assert written == make.PICTURES[name](book), "run: python docs/book/make_book.py"


def test_the_picture_of_the_network_shows_the_network(make: ModuleType, book: dict[str, Any]) -> None:
    """But for a few places on the border between two shades, where another processor may round differently."""
    lines = zip((BOOK / "moons.svg").read_text().split("\n"), make.moons(book).split("\n"), strict=True)
    assert sum(a != b for a, b in lines) <= 10


LINK = re.compile(r"\[`([\w.]+)`\]\(([\w./-]+\.py)\)")


def undefined(page: Path) -> list[tuple[str, str]]:
    """Names in links to source files that these files do not define."""
    missing = []
    for name, target in LINK.findall(page.read_text()):
        source = (page.parent / target).read_text()
        if not re.search(rf"^(class {name}\b|def {name}\(|{name} = )", source, re.MULTILINE):
            missing.append((name, target))
    return missing


def test_every_grown_up_form_is_where_its_link_leads(make: ModuleType) -> None:
    pages = [*make.CHAPTERS, make.EXERCISES]
    assert all(LINK.search(page.read_text()) for page in pages[:6]), "every chapter names grown-up forms"
    assert not {page.name: found for page in pages if (found := undefined(page))}


def test_a_link_to_a_name_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Here: ...\n")
    (tmp_path / "page.md").write_text("[`Here`](a.py) [`Gone`](a.py)")
    assert undefined(tmp_path / "page.md") == [("Gone", "a.py")]


def test_transformations_of_the_miniature_compose(book: dict[str, Any]) -> None:
    """A function with a branch in a loop, under every pair of jit, grad and vmap, against finite differences."""
    grad, jit, vmap, cond, scan = (book[name] for name in ("grad", "jit", "vmap", "cond", "scan"))

    def f(x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = cond(h > row, lambda h: book["tanh"](h * x), lambda h: h + x * row, h)
            return h, h * x

        h, ys = scan(step, 0.5, np.array([0.1, 0.4, 1.0, 0.2]))
        return h * book["reduce_sum"](ys, axis=0)

    x, eps = 0.7, 1e-2
    value = f(x).value
    slope = (f(x + eps).value - f(x - eps).value) / (2 * eps)
    curve = (f(x + eps).value - 2 * value + f(x - eps).value) / eps**2

    def mapped(g: Any) -> Any:
        return lambda x: vmap(g)(book["broadcast"](x, axis=0, size=2))

    for outer, inner in itertools.product((jit, grad, mapped), repeat=2):
        if (outer, inner) in ((grad, mapped), (mapped, mapped)):
            continue  # not a function from one number to one
        want = (value, slope, curve)[(outer, inner).count(grad)]
        np.testing.assert_allclose(outer(inner(f))(x).value, want, rtol=0.02)
    batched = jit(lambda xs: book["reduce_sum"](vmap(f)(xs), axis=0))
    np.testing.assert_allclose(grad(batched)(np.array([x, x])).value, [slope, slope], rtol=0.02)


def test_the_rows_of_a_loop_of_the_miniature_are_its_last_axis(book: dict[str, Any]) -> None:
    """Batched before and after it is differentiated, in both directions, with rows that are vectors."""
    grad, jit, vmap, scan, reduce_sum = (book[name] for name in ("grad", "jit", "vmap", "scan", "reduce_sum"))
    rows = np.random.default_rng(0).uniform(0.5, 1.5, (3, 2, 4))  # batch, vector, steps

    def product(xs: Any) -> Any:
        h, ys = scan(lambda h, x: (h * x, h), np.ones(2), xs, reverse=True)
        return reduce_sum(h, axis=0) + reduce_sum(
            reduce_sum(ys, axis=0) * np.array([1.0, 0.0, 0.0, 0.0]), axis=0
        )

    want = rows.prod(2, keepdims=True) / rows
    want[:, :, 1:] += rows[:, :, 1:].prod(2, keepdims=True) / rows[:, :, 1:]
    np.testing.assert_allclose(vmap(grad(product))(rows).value, want, rtol=1e-5)
    batched = jit(grad(lambda xs: reduce_sum(vmap(product)(xs), axis=0)))
    np.testing.assert_allclose(batched(rows).value, want, rtol=1e-5)
