"""`python -m benchmarks`: the table of budgets, Didax beside JAX in the same run.

    python -m benchmarks                      every case, a few minutes
    python -m benchmarks --quick              the same with fewer samples, two minutes
    python -m benchmarks --only eager lower   cases whose names start so
    python -m benchmarks --baseline numpy torch --json out.json
    python -m benchmarks.scaling              more devices and processes beside one

The printed table is Markdown. The exit status is 1 when a case is over its budget or fails.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import devices, eager, first_calls, loops, programs, random, staging, startup
from benchmarks.harness import Case, Row, measure

CASES: list[Case] = [
    *startup.CASES,
    *first_calls.CASES,
    *eager.CASES,
    *staging.CASES,
    *programs.CASES,
    *loops.CASES,
    *random.CASES,
    *devices.CASES,
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen cases, print the table, return the exit status."""
    options = _options(argv)
    if options.list:
        print(*(f"{case.name:20} {case.title}" for case in CASES), sep="\n")
        return 0
    # Programs compiled here shall come from the compiler, and leave nothing behind.
    os.environ.update(DIDAX_ENABLE_COMPILATION_CACHE="0", JAX_ENABLE_COMPILATION_CACHE="0")
    chosen = [case for case in CASES if not options.only or case.name.startswith(tuple(options.only))]
    libraries = ["didax", "jax", *(name for name in options.baseline if importlib.util.find_spec(name))]
    machine = machine_line(libraries)
    print(machine, "", _line("", *libraries, "ratio", "budget", ""), _rule(len(libraries)), sep="\n")
    rows: list[Row] = []
    for case in chosen:
        rows.append(measure(case, libraries, options.seconds))
        print(row_text(rows[-1], libraries), flush=True)
    print(f"\n{summary(rows)}")
    if options.json:
        found = {"machine": machine, "rows": [as_json(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(row.verdict.startswith(("over", "failed")) for row in rows))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="The table of budgets.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases whose names start so (see --list)")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--quick", action="store_true", help="fewer samples, two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    parser.add_argument(
        "--baseline", nargs="+", default=[], choices=["numpy", "torch"], help="more columns, where installed"
    )
    options = parser.parse_args(argv)
    options.seconds = 0.7 if options.quick else 5.0
    return options


def machine_line(libraries: Sequence[str]) -> str:
    """The processor, the system's load, and the versions that are compared."""
    packages = ["didax", "jaxlib", *libraries[1:], *(["numpy"] if "numpy" not in libraries else [])]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    return f"{_processor()}, {os.cpu_count()} cores, {load}; Python {platform.python_version()}, {versions}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def row_text(row: Row, libraries: Sequence[str]) -> str:
    """A line of the table."""
    figures = [figure(row.medians[name], row.case.unit) if name in row.medians else "" for name in libraries]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    budget = f"{row.case.budget:g} abs" if row.case.absolute else f"{row.case.budget:g}"
    return _line(row.case.title, *figures, ratio, budget, row.verdict)


def _line(title: str, *cells: str) -> str:
    *figures, ratio, budget, verdict = cells
    widths = [title.ljust(52), *[f.rjust(8) for f in figures], ratio.rjust(6), budget.rjust(7), verdict]
    return f"| {' | '.join(widths)} |"


def _rule(columns: int) -> str:
    """Markdown's line under the head: figures are set to the right."""
    return "|".join(["", "-" * 54, *[f"{'-' * 9}:"] * columns, f"{'-' * 7}:", f"{'-' * 8}:", "---", ""])


def figure(value: float, unit: str) -> str:
    """Three digits with a unit.

    >>> figure(1.23456e-5, "s"), figure(0.25, "s"), figure(1.04, "x")
    ('12.3 us', '250 ms', '1.04 x')
    """
    if unit != "s":
        return f"{value:.2f} {unit}"
    scale, name = next((s, n) for s, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns")) if value >= s)
    return f"{value / (scale or 1e-9):#.3g} {name}".replace(". ", " ")


def summary(rows: Sequence[Row]) -> str:
    """How many cases keep to their budgets."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    verdicts = [row.verdict for row in rows]
    words = {"ok": "within budget", "over": "over", "n/a": "not available", "failed": "failed"}
    counts = [f"{sum(v.startswith(mark) for v in verdicts)} {word}" for mark, word in words.items()]
    mean = [f"geometric mean of the ratios {statistics.geometric_mean(ratios):.2f}"] if ratios else []
    return "; ".join([", ".join(counts), *mean])


def as_json(row: Row) -> dict[str, Any]:
    """What was measured of a case."""
    case = row.case
    return {
        "name": case.name,
        "title": case.title,
        "medians": row.medians,
        "ratio": row.ratio,
        "budget": case.budget,
        "absolute": case.absolute,
        "verdict": row.verdict,
    }


if __name__ == "__main__":
    sys.exit(main())
