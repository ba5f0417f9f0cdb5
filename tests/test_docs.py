"""The pages are true: their Python runs, their links resolve, and the map names files that exist."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MAP = ROOT / "didax/MAP.md"


def each(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


def python_blocks(text: str) -> Iterator[tuple[int, str]]:
    """The ```python blocks of a page, each with its line number."""
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text[: block.start()].count("\n") + 1, block[1]


def run(block: str, namespace: dict, page: Path, line: int) -> None:
    """Run a block, as a session compared with its printed results if it holds prompts, else as a program."""
    if ">>> " not in block:
        exec(compile("\n" * line + block, page, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(block, namespace, page.name, str(page), line)
    test.globs = namespace  # the parser copied it; the blocks of a page share one
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)


BOOK = ROOT / "docs/book"  # its pages run in order, in the names of those before: test_book.py


@pytest.mark.ci  # whole programs
@pytest.mark.usefixtures("few_programs")  # docs/windows.md profiles
@each([page for page in PAGES if page.parent != BOOK and any(python_blocks(page.read_text()))])
def test_the_python_on_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__main__"}
    for line, block in python_blocks(page.read_text()):
        run(block, namespace, page, line)


def test_a_wrong_result_on_a_page_is_found():
    page = "text\n\n```python\nx = 1\n```\n\n```python\n>>> x + 1\n3\n```\n"
    namespace: dict = {}
    (setup, first), (line, second) = python_blocks(page)
    run(first, namespace, Path("page.md"), setup)
    with pytest.raises(AssertionError, match=r'"page.md", line 8, in page.md(?s:.*)Expected:\s+3\s+Got:\s+2'):
        run(second, namespace, Path("page.md"), line)


def broken_rows(text: str) -> list[str]:
    """The rows of tables that have more or fewer cells than the head of their table: readers do not see such cells."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    tables = [table[0].splitlines() for table in re.finditer(r"(?:^\|.*\n?)+", text, re.MULTILINE)]
    cells = lambda row: len(re.findall(r"(?<!\\)\|", row))
    return [row for table in tables for row in table if cells(row) != cells(table[0])]


def test_rows_of_tables_have_the_cells_of_their_heads():
    assert {page.name: rows for page in PAGES if (rows := broken_rows(page.read_text()))} == {}
    assert broken_rows("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| x \\| y | 4 |\n") == ["| 1 | 2 | 3 |"]


def heading_anchors(page: Path) -> set[str]:
    """The anchors a renderer gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):  # another site; a test that needs the network proves nothing about us
            continue
        path, _, anchor = link.partition("#")
        if not path.endswith(".md") and path:
            anchor = ""  # a line of a source file, which moves with every change
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in heading_anchors(target)):
            yield link


def absent_files(module: Path, text: str) -> list[str]:
    """The files that the opening of a module names, and that are in none of the folders where a reader would look."""
    opening = re.match(r'"""(.*?)"""', text, re.DOTALL)
    named = re.findall(r"`([\w./]+\.(?:py|md))`", opening[1]) if opening else []
    tops = (ROOT, ROOT / "didax", module.parent, module.parent.parent)
    # A file may stand in the folder of another one that is named beside it.
    folders = [*tops, *[(top / name).parent for name in named for top in tops]]
    return [name for name in named if not any((folder / name).exists() for folder in folders)]


def test_files_that_modules_name_exist() -> None:
    modules = [(path, path.read_text()) for path in (ROOT / "didax").rglob("*.py")]
    assert {str(path): found for path, text in modules if (found := absent_files(path, text))} == {}
    assert absent_files(ROOT / "didax/lax/new.py", '"""Read next: `sort.py`, `gone.py`."""') == ["gone.py"]


@each([*PAGES, MAP])
def test_relative_links_resolve(page):
    assert not list(broken_links(page))


def test_a_link_to_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`\n[a](#one-two) [b](page.md) [c](https://x.y) [d](gone.md) [e](page.md#three)"
    )
    assert list(broken_links(page)) == ["gone.md", "page.md#three"]


# A file of Python, a page, or a folder that begins with one of the repository's, as comments and docstrings name them.
PATH = re.compile(
    r"(?<![\w/.<{-])((?:[\w-]+/)*[\w-]+\.(?:py|md)"
    r"|(?:didax|tests|docs|examples|benchmarks|core|xla|primitives|transforms|passes|runtime|api|numpy|lax)/(?:[\w-]+/)*)"
    r"(?![\w(*{])"
)
SOURCES = sorted(path for room in ("didax", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py"))
# Programs that pages tell readers to write.
OF_READERS = {"conftest.py", "model.py", "script.py", "workers.py"}


def prose(path: Path) -> Iterator[str]:
    """The text of a page without the names of its links, or the comments and docstrings of a program."""
    text = path.read_text()
    if path.suffix == ".md":
        yield re.sub(r"\[[^]]*\](?=\()", "", text)
        return
    yield from re.findall(r'"""(?s:.*?)"""|(?<=# ).*', text)


def missing_paths(path: Path) -> set[str]:
    """Paths in the prose of a file that exist neither beside it, nor in its room, nor from the root of the tree."""
    words = {
        word for text in prose(path) for word in text.split() if "/" in word or ".py" in word or ".md" in word
    }
    named = {match[1] for word in words for match in PATH.finditer(word)}
    bases = (path.parent, path.parent.parent, ROOT, ROOT / "didax", ROOT / "didax/primitives")
    return {name for name in named - OF_READERS if not any((base / name).exists() for base in bases)}


def test_every_path_that_prose_names_exists():
    """Module headers say what to read next: a file that has moved or gone is found here."""
    files = {*SOURCES, *PAGES, MAP} - {Path(__file__)}  # the tests below name files that are not there
    missing = {str(path.relative_to(ROOT)): names for path in files if (names := missing_paths(path))}
    for history in ("CHANGELOG.md", "docs/design/rooms.md"):  # they tell of what was there then
        missing.pop(history, None)
    assert not missing


def test_a_path_to_nowhere_in_prose_is_found(tmp_path):
    program = tmp_path / "program.py"
    program.write_text('"""See `gone.py` and `tests/test_docs.py`."""\nx = 1  # as `didax/gone/` does\n')
    assert missing_paths(program) == {"gone.py", "didax/gone/"}


def notes_without_text(sources: list[str]) -> set[str]:
    """The titles that sources refer to, as in "See Note [Title]", of which no line begins with "Note [Title]"."""
    lines = "\n".join(re.sub(r"^[ #]+", "", line) for text in sources for line in text.splitlines())
    referred = {" ".join(title.split()) for title in re.findall(r"Note\s\[([^]]+)\]", lines)}
    return referred - set(re.findall(r"^Note \[([^]]+)\]", lines, re.MULTILINE))


def test_every_note_that_a_comment_refers_to_is_written():
    library = [path.read_text() for path in (ROOT / "didax").rglob("*.py")]
    # The note of CONTRIBUTING is an example.
    pages = [page.read_text() for page in PAGES if page.name != "CONTRIBUTING.md"]
    assert not notes_without_text(library + pages)
    assert notes_without_text(["# Note [One]. It says", "see Note\n# [One] and Note [Two\n    # words]"]) == {
        "Two words"
    }


def test_every_path_on_the_map_exists():
    """A path: a word in backticks or a link's target that ends like a file or a folder."""
    words = re.findall(r"`([^`\s]+)`|\]\(([^)\s#]+)", MAP.read_text())
    paths = {word for pair in words for word in pair if re.fullmatch(r"[\w./-]+(\.py|\.md|/)", word)}
    assert paths, "the map names no file"
    assert not {path for path in paths if not ((ROOT / path).exists() or (MAP.parent / path).exists())}


def test_the_core_path_reads_in_an_afternoon():
    """The files of the numbered list on the map have at most 3,000 lines together."""
    reading = MAP.read_text().partition("## An afternoon's reading")[2].partition("\nThen ")[0]
    files = dict.fromkeys(re.findall(r"\]\(([\w/]+\.py)\)", reading))
    lines = {name: len((MAP.parent / name).read_text().splitlines()) for name in files}
    assert len(files) > 15, "the list names every part of the core path"
    assert sum(lines.values()) <= 3000, lines


def test_interpreters_are_as_short_as_the_readme_says():
    text = " ".join((ROOT / "README.md").read_text().split())
    (limit,) = re.findall(r"each of the six interpreters is one file of fewer than (\d+) lines", text)
    for name in ("batching", "jvp", "linearize", "partial_eval", "staging", "transpose"):
        assert len((ROOT / f"didax/transforms/{name}.py").read_text().splitlines()) < int(limit), name
