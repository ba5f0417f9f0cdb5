"""`tree.show`: the leaves of a pytree as a table."""

from __future__ import annotations

import types

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import tree


def cells(table) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in str(table).splitlines()]


def test_each_kind_of_leaf_has_its_row():
    deleted = dnp.ones(4)
    deleted.delete()
    leaves = {
        "array": dnp.ones((2, 3), "bfloat16"), "deleted": deleted, "empty": dnp.ones((0, 3)), "key": dx.random.key(0),
        "number": 1j, "numpy": np.ones((2, 2)), "object": print, "ref": dx.new_ref(dnp.ones(3)), "scalar": np.int8(3),
        "struct": dx.ShapeDtypeStruct((1000, 3), "float32"), "text": "<b>", "texts": np.array(["ab"]), "nothing": None,
    }  # fmt: skip
    table = tree.show(leaves)
    found = {row.path[2:-2]: tuple(row[1:5]) for row in table.rows}
    assert found == {
        "array": ((2, 3), "bfloat16", 6, 12), "deleted": ((4,), "float32", 4, 16), "empty": ((0, 3), "float32", 0, 0),
        "key": ((), "key<fry>", 1, 8), "number": ((), "complex", 1, 0), "numpy": ((2, 2), "float64", 4, 32),
        "object": (None, "builtin_function_or_method", 0, 0), "ref": ((3,), "float32", 3, 12),
        "scalar": ((), "int8", 1, 1), "struct": ((1000, 3), "float32", 3000, 12000), "text": (None, "str", 0, 0),
        "texts": ((1,), "<U2", 1, 8),
    }  # fmt: skip
    assert (table.size, table.bytes) == (3021, 12089)
    assert cells(table)[0] == ["path", "shape", "dtype", "bytes", "state"]
    assert [line[-1] for line in cells(table) if line[0] in ("['deleted']", "['ref']")] == ["deleted", "Ref"]
    assert cells(table)[-1] == ["12 leaves, 3,021 elements", "12,089"]


def test_trees_without_leaves_and_leaves_that_are_trees():
    assert cells(tree.show({}))[-1] == ["0 leaves, 0 elements", "0"]
    assert cells(tree.show(2.0)) == [
        ["path", "shape", "dtype", "bytes"], ["(the tree)", "()", "float"], ["1 leaf, 1 element", "0"]
    ]  # fmt: skip
    assert [row.dtype for row in tree.show([(1, 2), 3], is_leaf=lambda x: type(x) is tuple).rows] == [
        "tuple",
        "int",
    ]


def test_long_trees_are_shortened():
    leaves = [dnp.zeros(1)] * 100
    lines = cells(tree.show(leaves, max_rows=6))
    paths = [line[0] for line in lines[1:]]
    assert paths == [
        "[0]",
        "[1]",
        "[2]",
        "[3]",
        "... 94 more leaves",
        "[98]",
        "[99]",
        "100 leaves, 100 elements",
    ]
    assert lines[5][1] == "376" and lines[-1][1] == "400"
    assert len(cells(tree.show(leaves, max_rows=None))) == 102 and len(cells(tree.show(leaves))) == 63
    assert [line[0] for line in cells(tree.show(leaves[:2], max_rows=1))[1:3]] == ["[0]", "... 1 more leaf"]
    with pytest.raises(
        ValueError, match=r"max_rows of tree\.show is how many.*\n  max_rows: 0\nPass 1 or more"
    ):
        tree.show(leaves, max_rows=0)


def test_the_state_of_arrays_that_were_donated_and_of_refs():
    donated, ref, freed = dnp.ones(3), dx.new_ref(dnp.ones(3)), dx.new_ref(dnp.ones(3))
    dx.jit(lambda x: x + 1, donate_argnums=0)(donated)
    dx.freeze(freed)
    table = tree.show([donated, ref, freed, dnp.ones(3), 1.0])
    assert [row.state for row in table.rows] == ["deleted", "Ref", "freed Ref", "", ""]
    assert cells(tree.show([dnp.ones(3)]))[0] == ["path", "shape", "dtype", "bytes"]
    seen = []
    dx.make_jaxpr(lambda x: seen.append(tree.show(x)))(dnp.ones(3))
    assert seen[0].rows[0].state == ""


def test_traced_arrays_have_their_types():
    seen = []

    def f(x):
        seen.append(cells(tree.show({"x": x}))[1])
        return x.sum()

    dx.make_jaxpr(dx.vmap(f))(dnp.ones((3, 2)))
    dx.make_jaxpr(dx.grad(f))(dnp.ones(5))
    dx.eval_shape(f, dx.ShapeDtypeStruct((7,), "float16"))
    assert [line[1:3] for line in seen] == [["(2,)", "float32"], ["(5,)", "float32"], ["(7,)", "float16"]]


def test_arrays_on_several_devices_show_how_they_are_spread():
    spread = types.SimpleNamespace(device_set={0, 1}, spec=dx.P("x", None))
    struct = dx.ShapeDtypeStruct((4, 2), "float32", sharding=spread)
    lines = cells(tree.show([struct, dnp.ones(2)]))
    assert (
        lines[0][-1] == "sharding" and lines[1][-1] == "P('x', None) over 2 devices" and lines[2][-1] == "8"
    )


def test_a_notebook_gets_an_html_table():
    page = tree.show({"<a>": dnp.ones(2)})._repr_html_()
    assert page.startswith('<table class="didax-tree"><tr><th') and page.endswith("</tr></table>")
    assert "[&#x27;&lt;a&gt;&#x27;]</td>" in page and page.count("<tr>") == page.count("</tr>") == 3
