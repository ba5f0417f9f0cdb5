"""`tree.show`: the leaves of a pytree as a table, plain in a terminal and HTML in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import is_count
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.pytree import IsLeaf, flatten_with_path, keystr
from didax.core.ref import Ref
from didax.core.tracing import Tracer


class Row(NamedTuple):
    """What the table says of a leaf. Leaves that are no arrays have the name of their type in the place of a dtype."""

    path: str
    shape: tuple[int, ...] | None
    dtype: str
    size: int  # how many elements it has
    bytes: int
    sharding: str  # "" on a single device
    state: str  # "deleted" for an array without contents; "Ref", or "freed Ref"; "" for any other leaf


class Table:
    """The leaves of a pytree in rows: `rows`, and the totals `size` and `bytes`; it prints as a table.

    >>> import didax as dx
    >>> dx.tree.show({"a": dx.numpy.ones(3)}).bytes
    12
    """

    def __init__(self, rows: Sequence[Row], max_rows: int | None):
        self.rows = tuple(rows)
        self.size = sum(row.size for row in self.rows)
        self.bytes = sum(row.bytes for row in self.rows)
        self._max_rows = max_rows

    def __repr__(self) -> str:
        lines = [list(line) for line in self._lines()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if i in _RIGHT else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        head, *body, total = self._lines()
        rows = [_html_row(head, "th"), *(_html_row(line, "td") for line in body), _html_row(total, "th")]
        return f'<table class="didax-tree">{"".join(rows)}</table>'

    def _lines(self) -> Iterator[tuple[str, ...]]:
        """The cells of each line: the names of the columns, the leaves, the total."""
        has_column = (*(True,) * 4, *(any(row[i] for row in self.rows) for i in (5, 6)))

        def line(*cells: str) -> tuple[str, ...]:
            return tuple(compress(cells, has_column))

        yield line(*_COLUMNS)
        first, left_out, last = self._shortened()
        for row in first:
            yield line(*_cells(row))
        if left_out:
            size = sum(row.bytes for row in left_out)
            yield line(f"... {_count(len(left_out), 'more leaf')}", "", "", f"{size:,}", "", "")
        for row in last:
            yield line(*_cells(row))
        total = f"{_count(len(self.rows), 'leaf')}, {_count(self.size, 'element')}"
        yield line(total, "", "", f"{self.bytes:,}", "", "")

    def _shortened(self) -> tuple[Sequence[Row], Sequence[Row], Sequence[Row]]:
        """The rows that are shown first, those that are left out, and those shown last."""
        if self._max_rows is None or len(self.rows) <= self._max_rows:
            return self.rows, (), ()
        last = self._max_rows // 3
        first, end = self._max_rows - last, len(self.rows) - last
        return self.rows[:first], self.rows[first:end], self.rows[end:]


_COLUMNS = ("path", "shape", "dtype", "bytes", "sharding", "state")
_RIGHT = (3,)


@api_boundary
def show(tree: Any, *, max_rows: int | None = 60, is_leaf: IsLeaf | None = None) -> Table:
    """Return a table of the leaves of a pytree: path, shape, dtype and bytes.

    A column `sharding` is added where an array lies on several devices. A column `state` is added where an array was
    deleted (a donated array is, too), or where a leaf is a Ref.

    Args:
      tree: a pytree of arrays, traced or not, `ShapeDtypeStruct`s, Refs, NumPy arrays, numbers, or anything else.
      max_rows: how many leaves are shown; of more, those in the middle become one line. None: all are shown.
      is_leaf: which nodes are taken as leaves, as for `tree.flatten`.

    The last line has the number of leaves, of elements, and the bytes of all leaves; a leaf that is in the tree
    twice counts twice, and a sharded array once. Nothing is computed. `print` the table, or end a cell of a notebook
    with it. Raises ValueError for `max_rows` below 1.

    >>> import didax as dx, didax.numpy as dnp
    >>> show({"w": dnp.ones((3, 2)), "b": [dnp.ones(2), 1.0, "relu"]})
    path                 shape   dtype    bytes
    ['b'][0]             (2,)    float32      8
    ['b'][1]             ()      float
    ['b'][2]                     str
    ['w']                (3, 2)  float32     24
    4 leaves, 9 elements                     32
    """
    if max_rows is not None and not is_count(max_rows):
        rule = "max_rows of tree.show is how many leaves are shown."
        raise ArgumentError(
            message(rule, f"max_rows: {max_rows!r}", fix="Pass 1 or more, or None to show all.")
        )
    return Table([_row(path, leaf) for path, leaf in flatten_with_path(tree, is_leaf)[0]], max_rows)


def _row(path: Any, leaf: Any) -> Row:
    name = keystr(path) or "(the tree)"
    if isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
        return Row(name, (), type(leaf).__name__, 1, 0, "", "")
    try:
        shape, dtype = tuple(map(int, leaf.shape)), dtypes.dtype(leaf.dtype)
        numbers = ShapedArray(shape, dtype).physical  # of an array of random keys, the words
    except (AttributeError, TypeError, ValueError):
        if isinstance(leaf, np.ndarray):  # of text, dates or objects
            return Row(name, leaf.shape, str(leaf.dtype), leaf.size, leaf.nbytes, "", "")
        return Row(name, None, type(leaf).__name__, 0, 0, "", "")
    size = ShapedArray(shape, dtype).size
    count = numbers.size * numbers.dtype.itemsize
    return Row(name, shape, dtypes.dtype_name(dtype), size, count, _sharding(leaf), _state(leaf))


def _sharding(leaf: Any) -> str:
    """How a leaf is laid over several devices."""
    try:
        sharding = leaf.sharding
        count = len(sharding.device_set)
    except (AttributeError, RuntimeError):  # a tracer, a NumPy array, or an array that was deleted
        return ""
    if count < 2:
        return ""
    spec = getattr(sharding, "spec", None)
    return str(sharding) if spec is None else f"{spec} over {count} devices"


def _state(leaf: Any) -> str:
    """Whether a leaf is a Ref, and whether its contents are gone."""
    if isinstance(leaf, Ref):
        return "Ref" if leaf.cell is not None else "freed Ref"
    if isinstance(leaf, Tracer):  # it has no contents
        return ""
    is_deleted = getattr(leaf, "is_deleted", None)
    return "deleted" if is_deleted is not None and is_deleted() else ""


def _cells(row: Row) -> tuple[str, ...]:
    shape = "" if row.shape is None else str(row.shape)
    return row.path, shape, row.dtype, f"{row.bytes:,}" if row.bytes else "", row.sharding, row.state


def _count(number: int, name: str) -> str:
    """
    >>> _count(1, "leaf"), _count(2000, "leaf")
    ('1 leaf', '2,000 leaves')
    """
    plural = name[:-1] + "ves" if name.endswith("f") else name + "s"
    return f"{number:,} {name if number == 1 else plural}"


def _html_row(cells: Sequence[str], kind: str) -> str:
    columns = [
        f'<{kind} style="text-align: {"right" if i in _RIGHT else "left"}">{html.escape(cell)}</{kind}>'
        for i, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(columns)}</tr>"
