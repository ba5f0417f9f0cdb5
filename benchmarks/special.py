"""`python -m benchmarks.special`: what special functions and distributions cost to compile and to run, beside JAX.

Each function of `scipy.special` and `scipy.stats` is compiled for 100,000 float32 numbers of its domain, and so is its
gradient with respect to the operands for which both libraries have one. Each library has a process of its own; they are
asked in turn. Times are those of the processor, of all threads, the least of several; compiled programs come from the
compiler, not from a cache. Tracing and lowering are not counted.

    python -m benchmarks.special                        every function, a quarter of an hour
    python -m benchmarks.special --only beta stats.t    functions whose names start so
    python -m benchmarks.special --json out.json        also write what was measured
    python -m benchmarks.special --eager --rounds 1     calls outside `jit`, of 3 and of 1,000 numbers
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.__main__ import machine_line

SIZE = 100_000
SMALL = (3, 1000)  # of eager calls
Domain = tuple[float, ...]  # low and high; with a third number whole ones

REAL, POSITIVE, SHARE, SHAPE = (-4.0, 4.0), (0.1, 10.0), (0.02, 0.98), (0.5, 10.0)
TRIALS, COUNT = (20, 40, 1), (0, 20, 1)


class Case(NamedTuple):
    """A function, the domains of its operands, and with respect to which of them it is differentiated."""

    name: str
    domains: tuple[Domain, ...]
    by: tuple[int, ...]


def _special() -> Iterator[tuple[str, Sequence[Domain], Any]]:
    """Name, domains, and operands of the gradient: all where None stands, none where it is empty."""
    for name in ("erf", "erfc", "erfcx", "expit", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "dawsn"):
        yield name, [REAL], None
    for name in ("digamma", "exp1", "expi", "factorial", "gamma", "gammaln", "loggamma"):
        yield name, [POSITIVE], None
    for name in ("entr", "logit", "ndtri"):
        yield name, [SHARE], None
    yield from [
        ("fresnel", [POSITIVE], None), ("sici", [POSITIVE], None), ("gammasgn", [REAL], ()),
        ("erfinv", [(-0.98, 0.98)], None), ("spence", [(0.1, 1.9)], None), ("wofz", [REAL, POSITIVE], None),
        ("multigammaln", [(1.0, 10.0)], None), ("bessel_jn", [POSITIVE], None), ("zeta", [(1.5, 10.0), POSITIVE], (1,)),
        ("beta", [SHAPE, SHAPE], None), ("betaln", [SHAPE, SHAPE], None), ("poch", [SHAPE, SHAPE], None),
        ("betainc", [SHAPE, SHAPE, SHARE], (2,)),
        ("gammainc", [SHAPE, POSITIVE], None), ("gammaincc", [SHAPE, POSITIVE], None),
        ("polygamma", [(1, 4, 1), POSITIVE], (1,)), ("comb", [TRIALS, COUNT], ()),
        ("expn", [(1, 5, 1), POSITIVE], (1,)),
        ("boxcox", [POSITIVE, (0.2, 3.0)], None), ("boxcox1p", [POSITIVE, (0.2, 3.0)], None),
        ("kl_div", [POSITIVE, POSITIVE], None), ("rel_entr", [POSITIVE, POSITIVE], None),
        ("xlogy", [REAL, POSITIVE], None), ("xlog1py", [REAL, POSITIVE], None), ("owens_t", [REAL, REAL], None),
        ("hyp1f1", [SHAPE, SHAPE, SHARE], (2,)), ("hyp2f1", [(0.5, 3.0), (0.5, 3.0), (1.0, 4.0), SHARE], (3,)),
        ("sph_harm_y", [(0, 4, 1), (0, 4, 1), (0.1, 3.0), REAL], (2, 3)),
        ("logsumexp", [REAL], None), ("softmax", [REAL], None), ("log_softmax", [REAL], None),
    ]  # fmt: skip


CONTINUOUS: dict[str, Sequence[Domain]] = {
    "beta": [SHARE, SHAPE, SHAPE], "cauchy": [REAL], "chi2": [POSITIVE, SHAPE], "expon": [POSITIVE],
    "gamma": [POSITIVE, SHAPE], "gennorm": [REAL, (0.5, 4.0)], "gumbel_l": [REAL], "gumbel_r": [REAL],
    "laplace": [REAL],
    "logistic": [REAL], "norm": [REAL], "pareto": [(1.0, 10.0), SHAPE], "t": [REAL, (0.5, 40.0)],
    "truncnorm": [(-1.0, 1.0), (-3.0, -1.0), (1.0, 3.0)], "uniform": [SHARE], "vonmises": [REAL, SHAPE],
    "wrapcauchy": [POSITIVE, SHARE],
}  # fmt: skip
DISCRETE: dict[str, Sequence[Domain]] = {
    "bernoulli": [(0, 1, 1), SHARE], "betabinom": [COUNT, TRIALS, SHAPE, SHAPE], "binom": [COUNT, TRIALS, SHARE],
    "geom": [(1, 20, 1), SHARE], "nbinom": [COUNT, SHAPE, SHARE], "poisson": [COUNT, POSITIVE],
}  # fmt: skip
KINDS = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")


def cases() -> list[Case]:
    """All functions that the installed jax has, too."""
    found = [
        Case(f"special.{name}", tuple(domains), tuple(range(len(domains))) if by is None else by)
        for name, domains, by in _special()
    ]
    stats = importlib.import_module("jax.scipy.stats")
    for name, domains in (CONTINUOUS | DISCRETE).items():
        for kind in KINDS:
            if not hasattr(getattr(stats, name), kind):
                continue
            share = kind in ("ppf", "isf")
            by = tuple(range(1 if name in DISCRETE else 0, len(domains)))
            if name == "beta" and kind not in ("pdf", "logpdf"):
                by = (0,)  # jax does not differentiate betainc by its parameters
            if name in ("binom", "betabinom"):
                by = by[1:]  # not by the number of trials
            found.append(Case(f"stats.{name}.{kind}", (SHARE if share else domains[0], *domains[1:]), by))
    found.append(Case("stats.poisson.entropy", (POSITIVE,), ()))
    return found


# --- The process of a library -------------------------------------------------------------------------------


def _function(library: str, name: str) -> Any:
    module, *path = name.split(".")
    found: Any = importlib.import_module(f"{library}.scipy.{module}")
    for part in path:
        found = getattr(found, part)
    if name == "special.bessel_jn":
        return lambda x: found(x, v=2)[2]
    if name == "special.polygamma":
        return lambda n, x: found(n.astype("int32"), x)
    if name == "special.multigammaln":
        return lambda x: found(x, 3)
    if name in ("special.fresnel", "special.sici"):
        return lambda x: sum(found(x))
    if name == "special.wofz":  # of complex numbers
        return lambda x, y: abs(found(x + 1j * y))
    if name == "special.sph_harm_y":
        return lambda n, m, *angles: found(n.astype("int32"), m.astype("int32"), *angles, n_max=4).real
    return found


def operands(case: Case) -> list[np.ndarray[Any, Any]]:
    """Numbers of the domains, the same in each process."""
    rng = np.random.default_rng(0)
    draws = [
        rng.integers(int(d[0]), int(d[1]), SIZE, endpoint=True)
        if len(d) == 3
        else rng.uniform(d[0], d[1], SIZE)
        for d in case.domains
    ]
    return [x.astype(np.float32) for x in draws]


def measure_eager(library: str, case: Case) -> dict[str, float]:
    """Seconds of the processor for a call outside `jit`, with arrays of 3 and 1,000 numbers, the least of many."""
    api, found = importlib.import_module(library), {}
    f = _function(library, case.name)
    for size in SMALL:
        xs = [api.device_put(x[:size]) for x in operands(case)]
        times: list[float] = []
        for _ in range(40):
            start = time.process_time()
            for _ in range(5):
                api.block_until_ready(f(*xs))
            times.append((time.process_time() - start) / 5)
        found[str(size)] = min(times)
    return found


def measure(library: str, case: Case, gradient: bool) -> dict[str, float]:
    """Seconds of the processor to compile and to run once, the least of few."""
    api = importlib.import_module(library)
    f, xs = _function(library, case.name), [api.device_put(x) for x in operands(case)]
    program = api.grad(lambda *xs: f(*xs).sum(), case.by) if gradient else lambda *xs: f(*xs)
    api.clear_caches()
    lowered = api.jit(program).lower(*xs)
    lowered.as_text()
    start = time.process_time()
    compiled = lowered.compile()
    found = {"compile": time.process_time() - start}
    api.block_until_ready(compiled(*xs))
    times: list[float] = []
    end = time.perf_counter() + 0.15
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 50):
        start = time.process_time()
        api.block_until_ready(compiled(*xs))
        times.append(time.process_time() - start)
    return found | {"run": min(times)}


def worker(library: str) -> None:
    """Answer questions, one on each line, until there are no more."""
    for line in sys.stdin:
        name, domains, by, gradient, eager = json.loads(line)
        case = Case(name, domains, by)
        try:
            answer: dict[str, Any] = (
                measure_eager(library, case) if eager else measure(library, case, gradient)
            )
        except Exception as error:  # one function must not take the table with it
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]:.80}"}
        print(json.dumps(answer), flush=True)


# --- The table ----------------------------------------------------------------------------------------------


class _Process:
    """A process that measures one library."""

    def __init__(self, library: str) -> None:
        command = [sys.executable, "-m", "benchmarks.special", "--worker", library]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def compare(
    sides: dict[str, _Process], case: Case, gradient: bool, eager: bool, rounds: int
) -> dict[str, Any]:
    """The least seconds of each library, asked in turn."""
    found: dict[str, Any] = {}
    for _ in range(rounds):
        for library, side in sides.items():
            answer, best = side.ask([*case, gradient, eager]), found.get(library, {})
            if "error" in answer:
                return {library: answer}
            found[library] = {what: min(seconds, best.get(what, seconds)) for what, seconds in answer.items()}
    return found


def _cells(found: dict[str, Any]) -> list[str]:
    """Milliseconds of both libraries and their ratio, to compile and to run, or of eager calls."""
    errors = [f"{library}: {side['error']}" for library, side in found.items() if "error" in side]
    if errors:
        return [*errors, "", "", ""]
    cells = []
    for what in found["didax"]:
        ours, theirs = found["didax"][what], found["jax"][what]
        cells += [f"{1e3 * ours:.3g}, {1e3 * theirs:.3g}", f"{ours / theirs:.2f}"]
    return cells


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen functions and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.special", description="Special functions beside JAX."
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="functions whose names start so")
    parser.add_argument("--eager", action="store_true", help="calls outside of jit, of small arrays")
    parser.add_argument("--rounds", type=int, default=3, help="how often each library is asked")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        worker(options.worker)
        return 0
    os.environ.update(DIDAX_ENABLE_COMPILATION_CACHE="0", JAX_ENABLE_COMPILATION_CACHE="0")
    sides = {library: _Process(library) for library in ("didax", "jax")}
    starts = tuple(f"{p}{name}" for name in options.only or [""] for p in ("", "special.", "stats."))
    first, second = [f"{size} numbers" for size in SMALL] if options.eager else ["compiling", "running"]
    heads = ["function", f"{first}, ms: Didax, JAX", "ratio", f"{second}, ms", "ratio"]
    print(machine_line(list(sides)), "", f"| {' | '.join(heads)} |", "|---|---|---:|---|---:|", sep="\n")
    rows = []
    for case in cases():
        if not case.name.startswith(starts):
            continue
        for gradient in (False, True) if case.by and not options.eager else (False,):
            found = compare(sides, case, gradient, options.eager, options.rounds)
            name = f"{case.name}{', gradient' if gradient else ''}"
            print(f"| {' | '.join([name, *_cells(found)])} |", flush=True)
            rows.append({"name": name, **found})
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    for side in sides.values():
        side.process.communicate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
