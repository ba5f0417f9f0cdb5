"""What the devices exchange in a compiled program, by line of the user's program, and a report of it.

Programs are remembered by what they compute, so the compiled program that runs may name lines of a file that has
changed since, or of another file; then the program is compiled anew to find its lines.
Read next: `xla/collectives.py` (how XLA's program is read), `xla/hlo.py`, `api/stages.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.runtime.compiled import Program
from didax.xla.device_text import Collective, Partition


def collectives_in(program: Program, partition: Partition | None) -> list[Collective]:
    """The collectives of a program, compiled for these devices; none on one device."""
    if partition is None:
        return []
    from didax.xla.collectives import collectives_of  # loads jaxlib: on first need

    loaded = with_current_lines(program, partition)
    if loaded is not None:
        return collectives_of(loaded)
    return [found._replace(line=None) for found in collectives_of(program.executable(partition).loaded)]


def with_current_lines(program: Program, where: Any) -> Any:
    """XLA's executable of a program for a device or a partition, with the lines that the program comes from now.

    None for a program of several processes that would have to be compiled anew: the other processes may not be
    compiling it now.
    """
    from didax.xla.agreement import processes_of  # load jaxlib, or take long to load: on first need
    from didax.xla.hlo import origins_in, origins_of

    partition = where if isinstance(where, Partition) else None
    loaded = program.executable(where).loaded
    if program.is_loaded:
        return loaded  # its lines are those of the process that compiled it
    if origins_of(loaded) <= origins_in(program.text(None, partition, True)):
        return loaded
    if partition is not None and len(processes_of(partition.devices)) > 1:
        return None
    return program.compiled_anew(where).loaded


def report(collectives: Sequence[Collective], devices: int) -> str:
    """The collectives by line, as `didax.explain` shows them."""
    by_line: dict[str | None, list[Collective]] = {}
    for found in collectives:
        by_line.setdefault(found.line, []).append(found)
    count = f"{len(collectives) or 'no'} collective{'' if len(collectives) == 1 else 's'}"
    lines = [f"{count} on {devices} devices"]
    for line in sorted(by_line, key=lambda line: (line is None, line)):
        lines.append(f"  at {line}" if line else "  at a line that is not known")
        lines += [f"    {found}" for found in by_line[line]]
    return "\n".join(lines)
