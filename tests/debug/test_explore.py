"""`explore`: the page's data is right, by hand arithmetic and by what other parts of the library say."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax


def model(w, x):
    tag = "</script><script>alert('&')</script>"
    h = dnp.tanh(x @ w)  # line 2 of the function

    def body(carry, row):
        return carry + row * row, None

    total, _ = lax.scan(body, dnp.zeros(4), h)
    return lax.cond(total[0] > 0, lambda t: dnp.sin(t).sum(), lambda t: t.sum(), total) if tag else 0


FIRST = model.__code__.co_firstlineno
W, X = dnp.ones((3, 4)), dnp.ones((5, 3))


@pytest.fixture(scope="module")
def shown():
    return dx.explore(model, W, X)


def data_of(page):
    """The data that the page holds, as a browser reads it."""
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.S)[1]
    )


def by_line(page):
    return {line.line - FIRST: line for line in page.lines}


def program(page, name):
    return next(p for p in page.data["programs"] if p["name"] == name)


def test_operations_and_bytes_by_line_are_those_of_hand_arithmetic(shown):
    lines = by_line(shown)
    product, tanh = 2 * 5 * 3 * 4, 5 * 4
    assert lines[2].flops == product + tanh
    assert lines[2].bytes == 4 * (5 * 3 + 3 * 4 + 5 * 4) + 4 * (5 * 4 + 5 * 4)
    assert lines[5].flops == 5 * (4 + 4)  # five steps of a product and a sum
    assert lines[5].bytes == 5 * 4 * ((4 + 4) + (4 + 4 + 4))  # row * row reads one array
    assert lines[8].at_most and not lines[5].at_most and not lines[5].at_least
    branches = 4 + 3, 3  # sines and a sum; a sum
    others = lines[8].flops - sum(branches)  # of the condition
    assert program(shown, "none")["flops"] == product + tanh + 40 + max(branches) + others
    assert all(line.estimate > 0 and line.measured is None for line in shown.lines)


def test_a_loop_of_unknown_length_counts_once():
    def halve(x):
        return lax.while_loop(lambda x: x.sum() > 1, lambda x: x * 0.5, x)

    (line,) = dx.explore(halve, dnp.ones(8), transform="none").lines
    assert line.at_least and line.flops == 7 + 1 + 8


def test_what_is_saved_is_what_linearize_keeps(shown):
    residuals = dx.ad_checkpoint.saved_residuals(model, W, X)
    saved = shown.data["saved"]
    assert saved["bytes"] == sum(r.nbytes for r in residuals) > 0
    for line in shown.lines:
        assert line.saved == sum(r.nbytes for r in residuals if r.line and r.line.line == line.line)
    linear = program(shown, "linear")["memory"]
    sizes = [size for size, birth, _, number in linear["arrays"] if number < 0]
    tangents = W.nbytes + X.nbytes
    assert sum(sizes) - tangents == saved["bytes"]


@pytest.mark.parametrize("text", ["jaxpr", "stablehlo", "xla"])
def test_a_line_is_found_in_every_text(shown, text):
    own = program(shown, "none")
    places = {tuple(place): i for i, place in enumerate(shown.data["places"])}

    def rows_of(line):
        numbers = {k for k, e in enumerate(own["equations"]) if e[0] == places[0, FIRST + line]}
        return " ".join(row[1] for row in own[text] if numbers & set(row[2]))

    assert "dot" in rows_of(2) and "tanh" in rows_of(2) and "sin" not in rows_of(2)
    assert "sin" in rows_of(8) and "tanh" not in rows_of(8)
    assert "scan" in rows_of(7) or "while" in rows_of(7)


def test_equations_that_nobody_needs_run_no_times():
    def f(x):
        dnp.exp(x)
        return x + 1

    page = dx.explore(f, 1.0, transform="none")
    equations = program(page, "none")["equations"]
    assert [(name, times) for _, name, _, _, _, _, times, *_ in equations] == [("exp", 0), ("add", 1)]
    assert [line.line - f.__code__.co_firstlineno for line in page.lines] == [2]


def test_memory_is_that_of_the_program_as_written():
    def f(x):
        y = x * 2  # 400 bytes beside the argument
        z = dnp.concatenate([y, y])  # 800
        return z.sum()

    memory = program(dx.explore(f, dnp.ones(100), transform="none"), "none")["memory"]
    assert memory["live"] == [400, 800, 1600, 1204, 404]
    assert memory["peak"] == 2 and memory["inputs"] == ["x"]
    assert memory["xla"]["arguments"] == 400 and memory["xla"]["results"] == 4


def test_arrays_of_a_called_function_are_counted_once():
    inner = dx.jit(lambda x: dnp.sin(x) * 2)
    memory = program(dx.explore(lambda x: inner(x) + 1, dnp.ones(100), transform="none"), "none")["memory"]
    assert memory["live"] == [400, 400, 800, 1200, 1200, 800]


def test_programs_of_transformations(shown):
    names = [p["name"] for p in shown.data["programs"]]
    assert names == ["none", "grad", "vmap", "linearize", "linear"] and shown.data["absent"] == []
    assert [p["xla"] is not None for p in shown.data["programs"]] == [True, False, False, False, False]
    assert all(p["jaxpr"] and p["stablehlo"] for p in shown.data["programs"])
    gradient = program(shown, "grad")
    backward = {e[1] for e in gradient["equations"] if e[2]}
    assert "dot_general" in backward
    assert "f32[8,3,4]" in program(shown, "vmap")["jaxpr"][0][1]


def test_a_transformation_that_does_not_apply_says_why():
    page = dx.explore(lambda n: n * 2, dnp.arange(3))
    assert [name for name, _ in page.data["absent"]] == ["grad", "linearize"]
    assert page.data["saved"]["bytes"] == 0
    with pytest.raises(TypeError, match="grad"):
        dx.explore(lambda x: x * 2, dnp.ones(3), transform="grad")


def test_a_transformation_asked_for_is_compiled():
    page = dx.explore(lambda x: dnp.sin(x), 1.0, transform="grad")
    assert [p["name"] for p in page.data["programs"]] == ["none", "grad"]
    assert "cosine" in " ".join(row[1] for row in program(page, "grad")["xla"])


def test_pages_and_profiles_of_a_transformed_function_are_headed_by_its_transformations():
    def loss(w, x):
        return dnp.sum(w * x)

    batched = dx.vmap(dx.value_and_grad(dx.jit(loss)), in_axes=(None, 0))
    for f, x, name in (
        (dx.grad(loss), X[0], "grad(loss)"),
        (dx.jit(batched), X, "vmap(value_and_grad(loss))"),
    ):
        page = dx.explore(f, W[:, 0], x, transform="none").data
        assert page["title"] == name and page["function"].startswith(f"{name} (")
        assert repr(dx.profile(f, W[:, 0], x, runs=1)).startswith(f"{name}: ")


class Tags(HTMLParser):
    """Which elements a page has, and whether each is closed."""

    VOID = {"meta", "link", "input", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing(shown, tmp_path):
    page = Tags(shown.html)
    assert page.open == []
    assert [tag for tag, _ in page.seen].count(
        "script"
    ) == 2  # the data, and the program; none from the user's string
    for _, attributes in page.seen:
        assert not {"src", "href", "action"} & set(attributes) or attributes.get("href") == "data:,"
    assert "{{" not in shown.html and "import(" not in shown.html and "fetch(" not in shown.html
    assert shown.save(tmp_path / "page.html").read_text("utf-8") == shown.html
    with pytest.raises(ValueError, match=r"saved as HTML.\n.*page\.pdf"):
        shown.save(tmp_path / "page.pdf")
    assert data_of(shown) == json.loads(json.dumps(shown.data))
    (frame,) = Tags(shown._repr_html_()).seen
    assert frame[0] == "iframe" and frame[1]["srcdoc"] == shown.html
    assert repr(shown).startswith("<explore of model: ")


def test_text_of_the_user_is_escaped():
    page = dx.explore(dx.named_call(lambda x: x * 2, name="<b>&"), 1.0, transform="none")
    assert "<b>" not in page.html.split("<script")[0]


def test_a_function_without_source_is_shown():
    names = {"dnp": dnp}
    exec(compile("def f(x):\n    return dnp.sin(x)", "<nowhere>", "exec"), names)
    page = dx.explore(names["f"], 1.0, transform="none")
    assert [(file["name"], file["known"]) for file in page.data["files"]] == [("<nowhere>", False)]
    (line,) = page.lines
    assert (line.file, line.line, line.flops) == ("<nowhere>", 2, 1)


def test_types_stand_for_arguments_and_calls_of_python_are_shown():
    def f(x):
        dx.debug.print("{x}", x=x)
        return x * 2

    page = dx.explore(f, dx.ShapeDtypeStruct((2,), "float32"), transform="none")
    assert "custom_call" in " ".join(row[1] for row in program(page, "none")["stablehlo"])
    rule = "explore runs a function whose times it measures, so it needs arrays.\n  x: ShapeDtypeStruct"
    with pytest.raises(TypeError, match=re.escape(rule)):
        dx.explore(f, dx.ShapeDtypeStruct((2,), "float32"), measure=True)


@pytest.mark.cpu
@pytest.mark.usefixtures("few_programs")
def test_times_are_those_that_profile_measures():
    page = dx.explore(lambda x: dnp.tanh(x @ x).sum(), dnp.ones((64, 64)), transform="grad", measure=True)
    for own in page.data["programs"]:
        times = own["measured"]
        rows = [row for row in own["xla"] if row[4]]
        assert rows and sum(row[4] for row in rows) == pytest.approx(
            sum(times["lines"].values()) + times["nowhere"]
        )
        assert "<svg" in times["flame"] and not re.search(r">#\d", times["flame"]) and times["runs"] > 2
    (line,) = page.lines
    assert line.measured == page.data["programs"][0]["measured"]["lines"][0] > 0


def test_static_arguments_stay_static():
    power = dx.jit(lambda n, x: (x**n).sum(), static_argnames="n")
    page = dx.explore(power, n=3, x=dnp.ones(4))
    assert page.data["absent"] == [["grad", page.data["absent"][0][1]]]  # of the first argument by position
    assert page.data["saved"]["bytes"] > 0 and program(page, "none")["memory"]["inputs"] == ["x"]


def test_calls_of_libraries_are_not_counted_and_said_so():
    (line,) = dx.explore(
        lambda x: dnp.linalg.svd(x, compute_uv=False), dnp.ones((3, 3)), transform="none"
    ).lines
    assert line.at_least


def test_names_of_the_user_that_look_like_numbers():
    def f(x):
        with dx.named_scope("#5"):
            return dnp.sin(x)

    own = program(dx.explore(f, 1.0, transform="none"), "none")
    assert [e[3] for e in own["equations"]] == ["#5"] and [row[2] for row in own["jaxpr"]][1] == [0]


def test_bad_arguments():
    with pytest.raises(TypeError, match="explore"):
        dx.explore(3)
    rule = "transformed by grad, vmap or linearize.\n  transform: 'jvp'\nPass 'grad', 'vmap'"
    with pytest.raises(ValueError, match=re.escape(rule)):
        dx.explore(model, W, X, transform="jvp")


# --- In a browser ----------------------------------------------------------------------------------------------------

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000"]

# What a user does on the page, and what is seen then.
STEPS = Path(__file__).with_name("explore_steps.js")


def in_browser(page, folder, *options):
    file = folder / "page.html"
    file.write_text(page.html.replace("</body>", f"<script>{STEPS.read_text()}</script></body>"), "utf-8")
    command = [
        CHROMIUM,
        *QUIET,
        f"--user-data-dir={folder / 'profile'}",
        *options,
        "--dump-dom",
        file.as_uri(),
    ]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    body = re.search(r"<body[^>]*>(.*?)</body>", text, re.S)[1]
    return json.loads(body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize(
    "options",
    [["--window-size=1400,900"], ["--window-size=500,844", "--blink-settings=preferredColorScheme=0"]],
)
def test_the_page_in_a_browser(shown, tmp_path, options):
    """What is pointed at lights up; keys, folds, search and other programs work; nothing is too wide or too pale."""
    found = in_browser(shown, tmp_path, *options)
    assert found["errors"] == []
    assert found["contrast"] >= 4.5 and found["wide"] and found["many"] < 6000
    hover = found["hover"]
    assert "operations 140" in hover["status"] and found["left"] == 0
    assert len(hover["jaxpr"]) == 2 and all("tanh" in row or "dot_general" in row for row in hover["jaxpr"])
    assert any("tanh" in row for row in hover["stablehlo"]) and any("dot(" in row for row in hover["xla"])
    assert "tanh" in found["keyboard"]["source"] and found["keyboard"]["active"] == "jaxpr-2"
    assert found["fold"]["after"] < found["fold"]["before"] and found["fold"]["expanded"] == "false"
    assert re.fullmatch(r"1 of \d+", found["search"]["text"]) and found["search"]["marks"]
    assert found["gradient"]["message"] and found["gradient"]["rows"] > 20
    assert found["lines"] == len(program(shown, "grad")["lines"]) and found["peak"].startswith("peak ")
