"""Looking at how arrays lie on devices: as a picture in the terminal, as an SVG, as a sharding inside of a program.

    visualize_array_sharding(x)                 prints which device holds which part, in colours where `rich` is there
    sharding_svg(shape, sharding)               the same as the text of an SVG
    inspect_array_sharding(x, callback=print)   the sharding itself, also of a value in the middle of a program

Read next: `primitives/inspection.py`, `docs/devices.md`.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from didax.core import pytree
from didax.core.errors import ArgumentError, api_boundary, message
from didax.primitives.inspection import inspect_sharding_p
from didax.xla.inspection import Inspection

ColorMap = Callable[[float], Sequence[float]]


@api_boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Call `callback` with the sharding of each array of a pytree.

    Of concrete arrays it is called at once. Under `jit` it is called when the program is compiled, with what XLA's
    partitioner decided for the value (P() where each device has a value of its own, inside of `shard_map`), and no more
    afterwards; `jit(f).lower(x).compile()` does it without a run. It follows primal values through derivatives; under
    `vmap` the axis that is mapped is left out. What the callback raises is raised by the call that compiles.

    >>> import didax as dx, didax.numpy as dnp
    >>> @dx.jit
    ... def f(x):
    ...     y = dnp.sin(x)
    ...     dx.debug.inspect_array_sharding(y, callback=lambda sharding: print(len(sharding.device_set), "device"))
    ...     return y * 2
    >>> _ = f(dnp.ones(8))
    1 device
    """
    if not callable(callback):
        raise TypeError(
            message(
                "inspect_array_sharding calls a function with the sharding of each array.",
                f"callback: {callback!r:.100}",
                fix="Pass a function of one argument: callback=print.",
            )
        )
    for x in pytree.leaves(value):
        axes = tuple(range(len(getattr(x, "shape", ()))))
        inspect_sharding_p.bind(x, inspection=Inspection(callback), axes=axes)


@api_boundary
def visualize_array_sharding(arr: Any, **options: Any) -> None:
    """Print which device holds which part of an array; inside of a program, when it is compiled.

    The options are those of `visualize_sharding`.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.debug.visualize_array_sharding(dnp.ones(8), use_color=False)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    shape = tuple(arr.shape)
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(shape, sharding, **options))


@api_boundary
def visualize_sharding(
    shape: Sequence[int],
    sharding: Any,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Print which devices hold which part of an array of this shape.

    The last axis goes to the right, the one before down. Of more axes, each part along the others has a table of its
    own, with its index above it.

    Args:
      shape, sharding: of the array. ValueError where the sharding does not split the shape in equal parts.
      use_color: paint the parts, where the package `rich` is installed and the terminal has colours.
      scale: of the height, which is 10 lines.
      min_width, max_width: of a part and of a table, in columns. Parts that do not fit are left out in the middle.
      color_map: takes numbers from 0 to 1 to red, green and blue (and more, as those of matplotlib do).

    >>> import didax as dx
    >>> mesh = dx.make_mesh((1,), ("x",), devices=dx.devices()[:1])
    >>> visualize_sharding((8, 8), dx.NamedSharding(mesh, dx.P("x")), use_color=False, scale=0.1)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    console = _console(max_width) if use_color else None
    for table in _tables(shape, sharding):
        if table.caption:
            print(table.caption)
        size = _size(table, scale, min_width, max_width)
        if console is None:
            print(_framed(table, size), flush=True)
        else:
            console.print(_painted(table, size, color_map or _rainbow))


@api_boundary
def sharding_svg(
    shape: Sequence[int], sharding: Any, *, width: int = 480, color_map: ColorMap | None = None
) -> str:
    """The picture of `visualize_sharding` as the text of an SVG, `width` pixels wide.

    >>> import didax as dx
    >>> sharding_svg((4, 4), dx.numpy.ones((4, 4)).sharding).startswith("<svg")
    True
    """
    y, parts = 0.0, []
    for table in _tables(shape, sharding):
        drawn, height = _drawn(table, y, width, color_map or _rainbow)
        parts += drawn
        y += height
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y:.0f}" viewBox="0 0 {width} {y:.0f}" '
    return "\n".join([f'{head}font-family="sans-serif" text-anchor="middle">', *parts, "</svg>"]) + "\n"


# --- Which device holds what -----------------------------------------------------------------------------------------


class _Part(NamedTuple):
    label: str  # the devices that hold it
    index: str  # which part it is: `[0:4, :]`
    number: float  # from 0 to 1, for its colour


class _Table(NamedTuple):
    caption: str
    shape: tuple[int, int]  # of the array, in two dimensions
    rows: list[list[_Part]]


def _tables(shape: Sequence[int], sharding: Any) -> Iterator[_Table]:
    """The parts of an array in tables of two dimensions, one for each part along the other axes."""
    shape = tuple(shape)
    if not hasattr(sharding, "device_set"):
        raise TypeError(
            message(
                "A sharding says which device holds which part of an array.",
                f"sharding: {sharding!r:.200}",
                fix="Pass x.sharding, or NamedSharding(mesh, spec).",
            )
        )
    if not all(shape):
        raise ArgumentError(
            message("An array without elements has no parts.", f"shape: {shape}", fix="Pass another shape.")
        )
    holders: dict[tuple[int, ...], list[Any]] = {}
    indices: dict[tuple[int, ...], tuple[slice, ...]] = {}
    added = (0,) * (2 - len(shape))  # a picture has two axes
    for device, index in _indices(sharding, shape):
        place = [(s.start or 0) // len(range(n)[s]) for n, s in zip(shape, index, strict=True)]
        holders.setdefault((*added, *place), []).append(device)
        indices[(*added, *place)] = index
    numbers = {place: i / max(1, len(holders) - 1) for i, place in enumerate(_far_apart(sorted(holders)))}
    parts = {
        place: _Part(_label(holders[place]), _index_text(indices[place]), numbers[place]) for place in numbers
    }
    *outer, rows, columns = [sorted(set(along)) for along in zip(*parts, strict=True)]
    for lead in itertools.product(*outer):
        table = [[parts[*lead, i, j] for j in columns] for i in rows]
        caption = _index_text([*indices[*lead, 0, 0][:-2], slice(None), slice(None)])
        *_, m, n = (1, 1, *shape)
        yield _Table(caption if math.prod(map(len, outer)) > 1 else "", (m, n), table)


def _indices(sharding: Any, shape: tuple[int, ...]) -> list[tuple[Any, tuple[slice, ...]]]:
    if not hasattr(sharding, "devices_indices_map"):  # of a single device
        return [(device, (slice(None),) * len(shape)) for device in sharding.device_set]
    return list(sharding.devices_indices_map(shape).items())


def _label(devices: Sequence[Any]) -> str:
    """`CPU 0-3, 6`: the devices that hold a part."""
    ids = sorted(device.id for device in devices)
    runs = [
        [n for _, n in run] for _, run in itertools.groupby(enumerate(ids), lambda pair: pair[1] - pair[0])
    ]
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return f"{devices[0].platform.upper()} {','.join(texts)}"


def _index_text(index: Sequence[slice]) -> str:
    return f"[{', '.join(':' if s.start is s.stop is None else f'{s.start or 0}:{s.stop}' for s in index)}]"


def _far_apart(places: list[Any]) -> list[Any]:
    """The places in an order in which neighbours are far from each other, so that their colours differ."""
    count = len(places)
    step = next(k for k in range(count // 2, count + 1) if math.gcd(k, count) == 1) if count > 2 else 1
    return [places[(i * step) % count] for i in range(count)]


def _rainbow(x: float) -> tuple[float, float, float]:
    """A colour, dark enough for white letters."""
    import colorsys  # not needed where nobody looks

    return colorsys.hls_to_rgb(0.83 * x, 0.40, 0.55)


# --- In the terminal -------------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    """What is shown of a table, and how large."""

    rows: list[int | None]  # None for those that are left out
    columns: list[int | None]
    height: int  # of a part, in lines
    width: int  # of a part, in columns


_MOST_ROWS = 32


def _size(table: _Table, scale: float, min_width: int, max_width: int) -> _Size:
    (m, n), rows, columns = table.shape, len(table.rows), len(table.rows[0])
    height = 10 * scale if m > 1 else rows
    width = min(2.5 * height * n / m if m > 1 else 0, max_width)
    longest = max(len(part.label) + 2 for row in table.rows for part in row)
    each = min(max(int(width / columns), min_width, longest), max_width)
    fit = max(2, (max_width + 1) // (each + 1))
    return _Size(_ends(rows, _MOST_ROWS), _ends(columns, fit), max(1, int(height / rows)), each)


def _ends(count: int, most: int) -> list[int | None]:
    """The numbers of all parts, or of the first and the last, with None between them."""
    if count <= most:
        return list(range(count))
    first = most // 2
    return [*range(first), None, *range(count - (most - 1 - first), count)]


def _text_at(table: _Table, i: int | None, j: int | None) -> str:
    return "..." if i is None or j is None else table.rows[i][j].label


def _framed(table: _Table, size: _Size) -> str:
    """A table drawn with lines."""
    widths = [3 if j is None else size.width for j in size.columns]
    bars = ["─" * width for width in widths]
    lines: list[str] = []
    for i in size.rows:
        height = 1 if i is None else size.height
        for k in range(height):
            texts = [_text_at(table, i, j) if k == (height - 1) // 2 else "" for j in size.columns]
            centred = [text.center(width) for text, width in zip(texts, widths, strict=True)]
            lines.append(f"│{'│'.join(centred)}│")
        lines.append(f"├{'┼'.join(bars)}┤")
    lines[-1] = f"└{'┴'.join(bars)}┘"
    return "\n".join([f"┌{'┬'.join(bars)}┐", *lines])


def _console(width: int) -> Any:
    """A console with colours; None where there is none."""
    if importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console

    console = Console(width=width)
    return None if console.color_system is None else console


def _painted(table: _Table, size: _Size, color_map: ColorMap) -> Any:
    """A table in colours, as a text of `rich`."""
    from rich.text import Text

    text = Text()
    for i in size.rows:
        height = 1 if i is None else size.height
        for k in range(height):
            for j in size.columns:
                label = _text_at(table, i, j) if k == (height - 1) // 2 else ""
                if i is None or j is None:
                    text.append(label.center(3 if j is None else size.width))
                else:
                    paint, ink = _paint(table.rows[i][j], color_map)
                    text.append(label.center(size.width), style=f"{ink} on {paint}")
            text.append("\n")
    return text


def _paint(part: _Part, color_map: ColorMap) -> tuple[str, str]:
    """The colour of a part, and that of letters on it."""
    red, green, blue = (float(c) for c in color_map(part.number)[:3])
    ink = "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.6 else "#ffffff"
    return "#" + "".join(f"{round(255 * c):02x}" for c in (red, green, blue)), ink


# --- As an SVG -------------------------------------------------------------------------------------------------------


def _drawn(table: _Table, top: float, width: int, color_map: ColorMap) -> tuple[list[str], float]:
    """The rectangles of a table, and how much height it takes."""
    import html  # not needed where nobody draws

    rows, columns = len(table.rows), len(table.rows[0])
    aspect = table.shape[0] / table.shape[1] if table.shape[0] > 1 else 0.0
    across = width / columns
    down = min(max(width * aspect / rows, 28.0), width / rows if rows < 12 else 28.0)
    out: list[str] = []
    if table.caption:
        out.append(
            f'<text x="{width / 2}" y="{top + 17:.1f}" font-size="14">{html.escape(table.caption)}</text>'
        )
        top += 24
    for i, row in enumerate(table.rows):
        for j, part in enumerate(row):
            paint, ink = _paint(part, color_map)
            x, y = j * across, top + i * down
            font = min(14.0, 1.7 * across / max(len(part.label), len(part.index)), down / 2.6)
            out += [
                f"<g><title>{html.escape(f'{part.label} holds {part.index}')}</title>"
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{across:.1f}" height="{down:.1f}" fill="{paint}" '
                'stroke="white"/>',
                *(
                    f'<text x="{x + across / 2:.1f}" y="{y + down / 2 + shift * font:.1f}" font-size="{font:.1f}" '
                    f'fill="{ink}">{html.escape(text)}</text>'
                    for text, shift in ((part.label, -0.2), (part.index, 1.0))
                ),
                "</g>",
            ]
    return out, down * rows + (24 if table.caption else 0) + 4
