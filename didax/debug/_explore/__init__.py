"""`explore`: what a function becomes, from its source to XLA's program, side by side on one page of HTML.

    dx.explore(loss, params, batch).save("loss.html")

The page shows the user's source, the jaxpr (before and after a transformation), the StableHLO and the program that XLA
made of it. What comes from the same line lights up together. By line it has floating-point operations, bytes, what is
saved for the backward pass, and times; and a picture of memory over the program.
Read next: `programs.py` (what is shown), `marks.py` (how the texts are tied together), `page.py`; `docs/windows.md`.
"""

from __future__ import annotations

import html
import os
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from didax.api.checkpoint import Residual, saved_residuals
from didax.api.flat import check_callable
from didax.api.profile import profile
from didax.api.stages import ShapeDtypeStruct
from didax.core import pytree
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.source import describe_function
from didax.debug._explore import page
from didax.debug._explore.costs import measured_rates
from didax.debug._explore.page import LineCost, Places
from didax.debug._explore.programs import Absent, Call, View, checked_transforms, views
from didax.debug._explore.sources import code_of, files_of


class Exploration:
    """A page that shows what a function becomes: `html`, its text; `lines`, what each line of the function costs.

    A notebook shows it inline. `save(path)` writes a file that any browser opens, `open()` opens it there.
    """

    def __init__(self, title: str, data: dict[str, Any], lines: Sequence[LineCost]):
        self.title = title
        self.data = data
        self.lines = tuple(lines)
        self.html = page.page_text(title, data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whose name ends in .html; returns its path. ValueError for other endings."""
        file = Path(path)
        if file.suffix not in (".html", ".htm"):
            rule = "The page of explore is saved as HTML."
            raise ArgumentError(message(rule, f"path: {str(path)!r}", fix="Give the file the ending .html."))
        file.write_text(self.html, "utf-8")
        return file

    def open(self) -> Path:
        """Write the page to a file of its own in the folder for temporary files, and show it in the browser."""
        import tempfile  # not needed where a page is shown in a notebook

        handle, name = tempfile.mkstemp(prefix="didax-explore-", suffix=".html")
        os.close(handle)
        file = self.save(name)
        webbrowser.open(file.as_uri())
        return file

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{html.escape(self.title, quote=True)}" srcdoc="{html.escape(self.html, quote=True)}" '
            'style="width:100%;height:760px;border:1px solid #8888;border-radius:6px"></iframe>'
        )

    def __repr__(self) -> str:
        program = self.data["programs"][0]
        return (
            f"<explore of {self.title}: {len(program['equations'])} equations, {program['flops']:,.0f} "
            f"floating-point operations, {len(self.html):,} bytes of HTML; .save(path) or .open() shows it>"
        )


@api_boundary
def explore(
    fun: Callable[..., Any],
    /,
    *args: Any,
    transform: str | Sequence[str] | None = None,
    measure: bool = False,
    **kwargs: Any,
) -> Exploration:
    """A page that shows what `fun` becomes for these arguments: source, jaxpr, StableHLO, XLA's program, and costs.

    Args:
      fun: any function of arrays, jitted or not.
      args, kwargs: its arguments: arrays, pytrees of them, or `ShapeDtypeStruct`s. For keywords named as those of
        `explore`, pass a `functools.partial`.
      transform: programs to show beside that of `fun`: "grad", "vmap" (a batch of 8), "linearize" (its two halves), or
        several of them; "none" for no other. By default all that apply are shown. XLA's program is shown for `fun`, and
        for the programs that `transform` names: it takes long to compile.
      measure: call `fun`, and its gradient if that is asked for, often, and show the time that each line takes.

    Returns an object with the text of the page (`html`), `save(path)` and `open()`; a notebook shows it inline. The
    page is one file, which loads nothing. Its `lines` have the costs by line of the source.

    Raises ValueError for another `transform`, and what a transformation raises that is asked for by name.

    >>> import didax as dx, didax.numpy as dnp
    >>> shown = dx.explore(lambda x, y: x @ y, dnp.ones((2, 3)), dnp.ones((3, 4)), transform="none")
    >>> [(line.flops, line.bytes) for line in shown.lines]
    [(48.0, 104)]
    """
    check_callable("explore", fun)
    wanted = checked_transforms(transform)
    call = Call.of(fun, args, kwargs)
    if measure:
        _check_concrete(call)
    found = list(views(call, wanted))
    places = Places()
    shown = [view for view in found if isinstance(view, View)]
    programs = [_program(view, places, wanted, measure) for view in shown]
    saved = page.saved_data(_saved(call), places)
    own = code_of(fun)
    codes = [line.code for line in places.lines]
    files = files_of(own, codes, [(line.file, line.line) for line in places.lines])
    places.files.update((file.path, i) for i, file in enumerate(files))
    lines = [page.line_costs(program, saved, places) for program in programs]
    for program, costs in zip(programs, lines, strict=True):
        program["lines"] = [[places.numbers[line.file, line.line], *line[2:]] for line in costs]
    title = programs[0]["label"]
    data = {
        "title": title,
        "function": describe_function(fun),
        "files": page.source_data(files),
        "places": [[places.files[path], line] for path, line in places.numbers],
        "programs": programs,
        "absent": page.absent_data([one for one in found if isinstance(one, Absent)]),
        "saved": saved,
        "rates": measured_rates()._asdict(),
    }
    return Exploration(title, data, lines[0])


def _program(view: View, places: Places, wanted: Sequence[str] | None, measure: bool) -> dict[str, Any]:
    in_full = view.name == "none" or wanted is not None
    measured = None
    if measure and in_full and view.call is not None:
        # Before the program is compiled with numbers: the profiler takes programs of one name for each other.
        fun, args, kwargs = view.call
        measured = profile(fun, *args, **kwargs)
    compiled = view.executable() if in_full else None
    return page.program_data(view, places, measured_rates(), compiled, measured)


def _saved(call: Call) -> Sequence[Residual] | str:
    try:
        args, kwargs = call.data
        return saved_residuals(call.fun, *args, **kwargs)
    except Exception as error:  # of a function that has no derivative: the page says so
        return str(error).partition("\n")[0]


def _check_concrete(call: Call) -> None:
    leaves: list[Any] = pytree.leaves(call.data)
    for name, x in zip(call.names, leaves, strict=True):
        if isinstance(x, ShapeDtypeStruct):
            rule = "explore runs a function whose times it measures, so it needs arrays."
            fix = "Pass arrays, or leave measure=True out."
            raise TypeError(message(rule, f"{name}: {x!r:.100}", fix=fix))
