"""Which columns and rows of a sparse matrix are computed together: colourings of its pattern.

    by_columns     columns of a colour have no row in common: one product with a vector gives them all
    by_rows        the same of the transpose
    by_both        the densest rows (or columns) are computed as such, and the rest by columns (or rows): a matrix with
                   a full row and a full column takes three passes
    symmetric      star colouring: of the entries (i, j) and (j, i), one is the only entry of its row in the columns of
                   a colour. A full row and its mirror image, a full column, take one colour

Everything is greedy. Coleman, More (1984), Estimation of sparse Hessian matrices and graph coloring problems;
Gebremedhin, Manne, Pothen (2005), What color is your Jacobian?
Read next: `didax/experimental/sparse_derivatives.py`, which uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Colouring(NamedTuple):
    """Colours of columns and of rows, and where the entries of the pattern are found."""

    columns: Any
    """A colour for each column; -1 for one that is not in a product with the matrix."""
    rows: Any
    """A colour for each row; -1 for one that is not in a product with the transpose."""
    places: Any
    """For each entry, in CSR order, its position among the results: those of column colours, each a column long, and
    behind them those of row colours, each a row long."""

    @property
    def passes(self) -> int:
        """How many products give the matrix."""
        return _count(self.columns) + _count(self.rows)


def cheapest(pattern: Any, is_symmetric: bool) -> Colouring:
    """The colouring with the fewest passes; products with the matrix alone where that is as cheap as others."""
    by_row, by_column = np.diff(pattern.indptr), np.diff(pattern.tocsc().indptr)
    candidates: list[tuple[int, Callable[[Any], Colouring]]] = [
        (by_row.max(initial=0), by_columns),
        (by_column.max(initial=0), by_rows),
        (_least(by_row), by_both),
        (_least(by_column), lambda pattern: _transposed(by_both, pattern)),
    ]
    found = symmetric(pattern) if is_symmetric else None
    for bound, colour in sorted(candidates, key=lambda candidate: candidate[0]):
        is_preferred = colour is by_columns
        if found is None or bound < found.passes + is_preferred:
            other = colour(pattern)
            if found is None or other.passes < found.passes + is_preferred:
                found = other
    assert found is not None
    return found


def by_columns(pattern: Any) -> Colouring:
    """Products with the matrix alone."""
    colours = _colours(pattern)
    rows, columns = _entries(pattern)
    return Colouring(colours, np.full(pattern.shape[0], -1), colours[columns] * pattern.shape[0] + rows)


def by_rows(pattern: Any) -> Colouring:
    """Products with the transpose alone."""
    return _transposed(by_columns, pattern)


def by_both(pattern: Any) -> Colouring:
    """Products with the transpose for the densest rows, as many as pay, and with the matrix for the others."""
    m, n = pattern.shape
    counts = np.diff(pattern.indptr)
    dense = np.argsort(-counts, kind="stable")[: _dense(counts)]
    is_dense = np.zeros(m, bool)
    is_dense[dense] = True
    rows, columns = _entries(pattern)
    column_colours = _colours(_only(pattern, ~is_dense[rows]))
    row_colours = np.full(m, -1)
    row_colours[dense] = _colours(pattern[dense].T.tocsr())
    behind = _count(column_colours) * m
    places = np.where(
        is_dense[rows], behind + row_colours[rows] * n + columns, column_colours[columns] * m + rows
    )
    return Colouring(column_colours, row_colours, places)


def symmetric(pattern: Any) -> Colouring:
    """Products with a symmetric matrix, whose pattern may have entries that vanish without their mirror images."""
    graph = (pattern + pattern.T).tocsr()
    colours = star(graph)
    n, count = len(colours), _count(colours)
    of_rows, others = _entries(graph)
    off = of_rows != others
    times = np.bincount(of_rows[off] * count + colours[others[off]], minlength=n * count)
    rows, columns = _entries(pattern)
    alone = (rows == columns) | (times[rows * count + colours[columns]] == 1)
    places = np.where(alone, colours[columns] * n + rows, colours[rows] * n + columns)
    return Colouring(colours, np.full(n, -1), places)


def star(graph: Any) -> Any:
    """Colours of a graph's vertices: neighbours differ, and no path of four vertices has only two colours."""
    neighbours = [
        [int(w) for w in graph.indices[graph.indptr[v] : graph.indptr[v + 1]] if w != v]
        for v in range(graph.shape[0])
    ]
    colours = np.full(graph.shape[0], -1)
    around: list[set[int]] = [set() for _ in neighbours]  # the colours of the neighbours
    # The colours that would make a path with a further neighbour.
    barred: list[set[int]] = [set() for _ in neighbours]
    one: list[dict[int, int]] = [{} for _ in neighbours]  # a neighbour of each colour
    for v in sorted(range(len(neighbours)), key=lambda v: -len(neighbours[v])):
        coloured = [w for w in neighbours[v] if colours[w] >= 0]
        taken = {int(colours[w]) for w in coloured}.union(*(barred[w] for w in coloured))
        taken = taken.union(*(around[w] for w in neighbours[v] if colours[w] < 0))
        colours[v] = colour = next(c for c in range(len(taken) + 1) if c not in taken)
        one[v] = {int(colours[w]): w for w in coloured}
        for w in neighbours[v]:
            around[w].add(colour)
        for w in coloured:
            if (other := one[w].setdefault(colour, v)) != v:
                barred[v].add(int(colours[w]))
                barred[other].add(int(colours[w]))
    return colours


def _colours(pattern: Any) -> Any:
    """A colour for each column, such that columns of one colour have no row in common; in order, -1 for empty ones."""
    columns = pattern.tocsc()
    colours = np.full(pattern.shape[1], -1)
    for j in range(pattern.shape[1]):
        rows = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        taken: set[int] = set()
        for i in rows:
            taken.update(colours[pattern.indices[pattern.indptr[i] : pattern.indptr[i + 1]]].tolist())
        if len(rows):
            colours[j] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colours


def _transposed(colour: Callable[[Any], Colouring], pattern: Any) -> Colouring:
    """The colouring of the transpose as one of the matrix: rows, columns and the two groups of results trade places."""
    m, n = pattern.shape
    found = colour(pattern.T.tocsr())
    rows, columns = _entries(pattern)
    order = np.empty(len(rows), int)  # of the entries, in the transpose
    order[np.lexsort((rows, columns))] = np.arange(len(rows))
    places = found.places[order]
    front, behind = _count(found.columns) * n, _count(found.rows) * m
    return Colouring(found.rows, found.columns, np.where(places < front, places + behind, places - front))


def _dense(counts: Any) -> int:
    """How many of the densest rows are best computed by themselves."""
    ordered = np.append(np.sort(counts)[::-1], 0)
    return int(np.argmin(ordered + np.arange(len(ordered))))


def _least(counts: Any) -> int:
    """The fewest passes that `by_both` may take: rows by themselves may still share a pass."""
    count = _dense(counts)
    return int(np.append(np.sort(counts)[::-1], 0)[count]) + min(count, 1)


def _entries(pattern: Any) -> tuple[Any, Any]:
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return rows, np.asarray(pattern.indices, int)


def _only(pattern: Any, kept: Any) -> Any:
    """The pattern with these of its entries."""
    from scipy.sparse import csr_array

    rows, columns = _entries(pattern)
    return csr_array((np.ones(kept.sum(), bool), (rows[kept], columns[kept])), pattern.shape)


def _count(colours: Any) -> int:
    return int(colours.max(initial=-1)) + 1
