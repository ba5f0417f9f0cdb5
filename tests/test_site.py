"""The site can be built: every page has its place, every link its target, every public name its docstring.

The build itself, which takes half a minute, is `make docs`.
"""

from __future__ import annotations

import doctest
import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module", autouse=True)
def docs_on_path():
    sys.path.insert(0, str(ROOT / "docs"))
    yield
    sys.path.remove(str(ROOT / "docs"))


def test_every_public_name_has_a_docstring():
    import reference

    assert not {module: names for module in reference.MODULES if (names := reference.undocumented(module))}


def test_every_public_module_says_where_a_missing_name_is():
    import reference

    from didax.core.missing_names import MissingNameError

    def says(module):
        try:
            return importlib.import_module(module).no_such_name
        except AttributeError as error:
            return isinstance(error, MissingNameError)

    assert not [module for module in reference.MODULES if not says(module)]


def test_every_public_name_has_an_example():
    import reference

    def has_none(module, name):
        x = getattr(importlib.import_module(module), name)
        return not reference.is_constant(x) and ">>> " not in reference.entry(name, x, module)

    names = {m: reference.names_of(importlib.import_module(m)) for m in reference.MODULES}
    assert not [f"{m}.{name}" for m, found in names.items() for name in found if has_none(m, name)]


def test_written_examples_run_and_stand_beside_public_names():
    import reference

    dx = importlib.import_module("didax")
    names = {"dx": dx, "dnp": dx.numpy, "lax": dx.lax, "np": importlib.import_module("numpy")}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for key, text in reference.WRITTEN.items():
        runner.run(doctest.DocTestParser().get_doctest(text + "\n", dict(names), key, key, 0))
        module, _, name = key.rpartition(".")
        assert name in reference.names_of(importlib.import_module(module)), key
    assert runner.tries > 100 and not runner.failures


def test_the_reference_has_the_modules_that_users_import():
    import reference

    assert {"didax", "didax.lax.linalg", "didax.extend.core", "didax.scipy.stats"} < set(reference.MODULES)
    assert not {"didax.scipy", "didax.lax.loops", "didax.core.jaxpr"} & set(reference.MODULES)


def test_a_page_of_reference_shows_signature_docstring_and_source():
    import reference

    page = reference.page("didax.image")
    section = page[page.index("## `resize`") :]
    assert "```python\nresize(image, shape, method" in section
    assert ">>> " in section and section.count("```") % 2 == 0
    assert re.search(r'<a href="\.\./source/didax/image/__init__\.py\.html#L-0-\d+">Source</a>', section)


def test_functions_of_tables_have_examples_that_were_run():
    import reference

    numpy, special = importlib.import_module("didax.numpy"), importlib.import_module("didax.scipy.special")
    assert reference.example("abs", numpy.abs, "didax.numpy") == (
        ">>> dnp.abs(dnp.array([0.25, 0.5]))\nArray([0.25, 0.5 ], dtype=float32)"
    )
    bits = ">>> dnp.bitwise_and(dnp.array([1, 6]), 3)\nArray([1, 2], dtype=int32)"
    assert reference.example("bitwise_and", numpy.bitwise_and, "didax.numpy") == bits
    assert reference.example("erf", special.erf, "didax.scipy.special").startswith(">>> special.erf(dnp.")
    assert bits in reference.entry("bitwise_and", numpy.bitwise_and, "didax.numpy")


def test_lists_of_arguments_and_examples_of_docstrings_become_markdown():
    import reference

    text = "A < B.\n\nArgs:\n    x, y: two *numbers*\n      or one\n    z: more\n\nSo:\n\n    >>> 1\n    1\n\nEnd."
    made = reference.markdown(text).split("\n")
    assert [line for line in made if line] == [
        "A \\< B.",
        "**Args**",
        "- `x, y`: two \\*numbers\\*",
        "  or one",
        "- `z`: more",
        "So:",
        "```pycon",
        ">>> 1",
        "1",
        "```",
        "End.",
    ]


def test_the_navigation_names_pages_that_exist():
    import make_site

    pages = re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text())
    made = set(make_site.PAGES.values())
    assert pages and not [page for page in pages if page not in made and not (ROOT / "docs" / page).exists()]
    folders = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("*/*.md")]
    assert set(folders) <= set(pages), "the build fails for a page of a folder that is not in the navigation"
    assert len(set(pages)) == len(pages), "a page has one place in the navigation"


def test_pictures_are_lazy_and_have_a_size():
    import make_site

    lazy = make_site.with_lazy_pictures(
        '<img alt="a" src="../digits.png" /><img alt="b" src="b.svg" />', "book"
    )
    assert lazy.startswith('<img loading="lazy" width="') and lazy.endswith(
        '<img loading="lazy" alt="b" src="b.svg" />'
    )


def test_the_build_fails_for_warnings():
    """A strict build counts warnings, but not with `--quiet`: a link to a heading that is gone went unnoticed."""
    (build,) = re.findall(r"-m mkdocs build(.*)", (ROOT / "Makefile").read_text())
    assert build.strip() == "" and "strict: true" in (ROOT / "mkdocs.yml").read_text()


def test_a_page_waits_for_one_stylesheet_and_for_no_script(tmp_path):
    import make_site

    links = [
        '<link rel="stylesheet" href="../assets/stylesheets/main.1a.min.css">',
        '<link rel="stylesheet" href="../assets/stylesheets/palette.2b.min.css">',
        '<link rel="stylesheet" href="../site/site.css">',
    ]
    page = make_site.shown_at_once("\n".join([*links, '<script src="a.js"></script>', "<script>x</script>"]))
    assert page.split() == [
        *links[0].split(),
        "<script",
        "defer",
        'src="a.js"></script>',
        "<script>x</script>",
    ]
    for name in (
        "assets/stylesheets/main.1a.min.css",
        "assets/stylesheets/palette.2b.min.css",
        "site/site.css",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    make_site.join_stylesheets(tmp_path)
    joined = (tmp_path / "assets/stylesheets/main.1a.min.css").read_text().split()
    assert [Path(name).name for name in joined] == ["main.1a.min.css", "palette.2b.min.css", "site.css"]


def test_anchors_are_no_markdown():
    import reference

    assert reference.anchor("__version__") == "name--version--" and reference.anchor("jit") == "name-jit-"


def test_links_lead_to_pages_and_sources_of_the_site():
    import make_site

    assert make_site.rewritten("index.md", "", "m", "didax/MAP.md") == "[m](map.md)"
    assert (
        make_site.rewritten("map.md", "", "j", "api/jit.py") == '<a href="source/didax/api/jit.py.html">j</a>'
    )
    assert make_site.rewritten("book/1.md", "", "l", "../loops.md#a") == "[l](../loops.md#a)"
    assert make_site.rewritten("loops.md", "", "w", "https://x.y") == "[w](https://x.y)"
    line = make_site.line_of("didax/core/jaxpr.py", "Jaxpr")
    found = make_site.rewritten("book/3.md", "", "`Jaxpr`", "../../didax/core/jaxpr.py")
    assert line and found == f'<a href="../source/didax/core/jaxpr.py.html#L-0-{line}">`Jaxpr`</a>'
    with pytest.raises(SystemExit, match="leads to nothing"):
        make_site.rewritten("loops.md", "", "x", "gone.md")


def test_the_index_of_the_search_has_no_code_and_no_generated_tables():
    import make_site

    entry = {
        "location": "reference/didax.lax.html#name-abs-",
        "title": "<code>abs</code>",
        "text": "<pre><code>abs(x)\n</code></pre> <p>Return the <code>absolute</code> value.</p> <p>More.</p>",
    }
    found = make_site.indexed(entry)
    assert found == {**entry, "title": "abs", "text": "Return the absolute value.", "boost": 1}
    page = {
        "location": "reference/didax.lax.html",
        "title": "didax.lax",
        "text": "<p>A.</p> <p>B.</p> abs Return",
    }
    assert make_site.indexed(page)["text"] == "A. B."
    guide = {"location": "loops.html#how", "title": "How", "text": "<p>A.</p> <pre>x = 1</pre> name value"}
    assert make_site.indexed(guide)["text"] == "A. name value"


def test_the_search_puts_guides_first():
    import make_site

    order = ["loops.html", "reference/didax.lax.html", "design/loops.html"]
    assert sorted(order, key=make_site.boost, reverse=True) == order
    assert make_site.boost("changelog.html") == make_site.boost("design/loops.html")
