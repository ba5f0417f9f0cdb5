"""The command line of the fuzzer.

    python -m tests.fuzz --minutes 10 --seed 0 --jobs 2     programs of seeds 0, 1, ... that were not checked before
    python -m tests.fuzz --show 17                          the program of a seed, and what is found in it
    python -m tests.fuzz --again                            the seeds with findings once more, after a repair
    python -m tests.fuzz --report                           what was found so far
    python -m tests.fuzz --x64 ...                          all programs with 64 bits, in processes that start with them

out/fuzz/log.jsonl has a line for each seed, so that a run that was ended goes on where it was; scripts that reproduce
findings lie beside it, at most two for each kind of finding and operation.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz.program import Program
from tests.fuzz.script import script
from tests.fuzz.shrinker import shrink
from tests.fuzz.workers import Answer, Died, Found, TimedOut, Worker

SCRIPTS_OF_A_KEY = 2


class Log:
    """The file of seeds that are done, a JSON object on each line; the last one of a seed counts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.lock = folder, folder / "log.jsonl", threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.entries: dict[int, dict[str, Any]] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                entry = json.loads(line)
                self.entries[entry["seed"]] = entry

    def add(self, entry: dict[str, Any]) -> None:
        with self.lock:
            self.entries[entry["seed"]] = entry
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def count(self, key: str) -> int:
        return sum(key in (f["key"] for f in e["findings"]) for e in self.entries.values())


def run_seed(worker: Worker, seed: int, log: Log) -> None:
    start = time.monotonic()
    answer = worker.ask("seed", seed)
    entry: dict[str, Any] = {"seed": seed, "findings": [], "known": []}
    if isinstance(answer, Answer):
        entry["known"] += [found.reason for found in answer.findings if found.reason]
        new = [found for found in answer.findings if not found.reason]
        entry |= {"elements": answer.elements, "unstable": answer.unstable, "refused": answer.refused}
        entry |= {"statements": answer.statements, "names": answer.names, "stack": answer.stack}
    else:
        kind = f"dies of {answer.how}" if isinstance(answer, Died) else f"hangs for {answer.seconds} s"
        program = worker.ask("generated", seed)
        new = [Found(kind, "a process", "", None, program)]
        if isinstance(program, (Died, TimedOut)) or worker.ask("oracle", program) is not True:
            entry["known"], new = [f"jax {kind}"], []
    for found in new:
        report(worker, seed, log, found, entry)
    entry["seconds"] = round(time.monotonic() - start, 2)
    log.add(entry)


def report(worker: Worker, seed: int, log: Log, found: Found, entry: dict[str, Any]) -> None:
    """Shrink the program of a finding; unless what is left is a known difference, print it and write its script."""
    small = found
    if log.count(found.key()) < SCRIPTS_OF_A_KEY:
        small = shrunk(worker, found)
    if small.reason:
        entry["known"].append(small.reason)
        return
    key, path = small.key(), ""
    if log.count(key) < SCRIPTS_OF_A_KEY:
        path = str(log.folder / f"{seed}-{re.sub(r'[^A-Za-z0-9.]+', '-', key)[:70]}.py")
        Path(path).write_text(script(small.program, f"{key}: {small.message[:300]} (seed {seed})"))
    print(f"seed {seed}: {key}: {small.message}"[:400], flush=True)
    entry["findings"].append({"key": key, "message": small.message[:300], "script": path})


def shrunk(worker: Worker, found: Found) -> Found:
    """The finding of a smaller program that fails as the whole one does."""
    smallest, compile_too = found, not found.kind.endswith("eager")

    def fails(program: Program) -> bool:
        nonlocal smallest
        same = is_same(worker.ask("program", (program, compile_too)), found)
        smallest = replace(same, program=program) if same else smallest
        return same is not None

    statements = found.program.statements
    if len(statements) > 1 or found.program.stack or any(s.blocks for s in statements):
        shrink(found.program, fails, lambda program: known(worker, program))
    return smallest


def is_same(answer: Any, found: Found) -> Found | None:
    """The finding of a smaller program, if it fails as the whole one did."""
    if isinstance(answer, Died):
        return found if found.kind.startswith("dies") else None
    if isinstance(answer, TimedOut):
        return found if found.kind.startswith("hangs") else None
    base = lambda kind: re.sub(" (eager|jit)$", "", kind)
    same = [f for f in answer.findings if base(f.kind) == base(found.kind)]
    return next((f for f in same if "refuses" not in f.kind or f.message[:40] == found.message[:40]), None)


def known(worker: Worker, program: Any) -> dict[str, Any]:
    values = worker.ask("values", program)
    return values if isinstance(values, dict) else {}


def run(log: Log, seeds: Any, minutes: float, jobs: int, again: bool, x64: bool) -> None:
    """Check seeds, each in one of `jobs` workers, until the time is over."""
    end, lock = time.monotonic() + 60 * minutes, threading.Lock()

    def work() -> None:
        worker = Worker(x64=x64)
        while time.monotonic() < end:
            with lock:
                seed = next((s for s in seeds if again or s not in log.entries), None)
            if seed is None:
                break
            run_seed(worker, seed, log)
        worker.stop()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def summary(log: Log) -> str:
    """What the log says: counts, shares, coverage, findings by kind."""
    from tests.fuzz.coverage import coverage

    entries = [e for e in log.entries.values() if "statements" in e]
    total = lambda name: sum(e.get(name, 0) for e in entries)
    seconds = sum(e.get("seconds", 0) for e in log.entries.values())
    keys = Counter(f["key"] for e in log.entries.values() for f in e["findings"])
    reasons = Counter(r for e in log.entries.values() for r in e["known"])
    names = Counter(name for e in entries for name in e["names"])
    count = max(len(entries), 1)
    return "\n".join(
        [
            f"{len(log.entries)} programs of {total('statements')} statements, {seconds / 3600:.2f} hours of workers",
            f"  refused by both libraries under their transformations: {total('refused') / count:.1%}",
            f"  with results too unstable to compare: {sum(e['unstable'] > 0 for e in entries) / count:.1%}; "
            f"of all elements {total('unstable') / max(total('elements'), 1):.2%}",
            coverage(names),
            "known differences: " + ("none" if not reasons else ""),
            *[f"  {n} {reason}" for reason, n in reasons.most_common()],
            f"findings: {sum(keys.values())} of {len(keys)} kinds",
            *[f"  {n} {key}" for key, n in keys.most_common()],
        ]
    )


def show(seed: int, x64: bool) -> None:
    from tests.fuzz.workers import prepare

    prepare(True, x64)
    from tests.fuzz.comparison import check
    from tests.fuzz.generator import generate

    program = generate(seed)
    print("\n".join(program.lines()), program.stack, program.inputs, sep="\n")
    for finding in check(program).findings:
        print(finding.kind, finding.where, finding.message)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="of the log and the scripts; out/fuzz, or out/fuzz-x64")
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("--show", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.show is not None:
        return show(options.show, options.x64)
    log = Log(options.folder or Path("out/fuzz-x64" if options.x64 else "out/fuzz"))
    if not options.report:
        failed = [s for s, e in log.entries.items() if e["findings"]]
        seeds = iter(failed) if options.again else iter(range(options.seed, 2**62))
        run(log, seeds, options.minutes, options.jobs, options.again, options.x64)
    print(summary(log))


if __name__ == "__main__":
    main()
