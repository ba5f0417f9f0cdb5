"""Pytrees: `didax.tree` against `jax.tree` on generated trees, registration, prefixes, error texts."""

import dataclasses
import functools
import pickle
import subprocess
import sys
import traceback
from collections import OrderedDict, defaultdict, namedtuple

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import didax as dx
import didax.numpy as dnp
from didax import tree, tree_util
from didax.core import pytree

Point = namedtuple("Point", ["x", "y"])


@tree_util.register_dataclass
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A dataclass that both libraries know."""

    weight: object
    bias: object
    name: str = tree.static(default="dense")


def extend(children):
    dicts = st.dictionaries(st.sampled_from("abc"), children, max_size=3)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        dicts,
        dicts.map(OrderedDict),
        dicts.map(lambda d: defaultdict(int, d)),
        st.builds(Point, children, children),
        st.builds(Layer, children, children, st.sampled_from(["p", "q"])),
    )


trees = st.recursive(
    st.one_of(st.integers(0, 9), st.none(), st.text("xyz", max_size=2)), extend, max_leaves=8
)


def is_small(x):
    return x is None or (isinstance(x, (tuple, list)) and len(x) <= 1)


def names(paths):
    return [(tree_util.keystr(path), leaf) for path, leaf in paths]


def message(error, function, *args, **kwargs):
    with pytest.raises(error) as caught:
        function(*args, **kwargs)
    text = str(caught.value)
    assert text.count("\n") >= 2, f"not an error of three parts: {text}"
    return text


# --- The same as jax.tree -------------------------------------------------------------------------


@given(trees, st.sampled_from([None, is_small]))
def test_flatten_is_that_of_jax(x, is_leaf):
    values, treedef = tree.flatten(x, is_leaf)
    jax_values, jax_treedef = jax.tree.flatten(x, is_leaf)
    assert values == jax_values
    assert str(treedef) == str(jax_treedef)
    assert tree.unflatten(treedef, values) == x
    assert tree.leaves(x, is_leaf) == values and tree.structure(x, is_leaf) == treedef


@given(trees, st.sampled_from([None, is_small]))
def test_paths_are_those_of_jax(x, is_leaf):
    ours, theirs = tree.leaves_with_path(x, is_leaf), jax.tree.leaves_with_path(x, is_leaf)
    assert names(ours) == [(jax.tree_util.keystr(path), leaf) for path, leaf in theirs]
    for (path, _), (jax_path, _) in zip(ours, theirs, strict=True):
        for simple in (False, True):
            expected = jax.tree_util.keystr(jax_path, simple=simple, separator="/")
            assert tree_util.keystr(path, simple=simple, separator="/") == expected


@given(trees)
def test_is_leaf_may_take_the_path(x):
    def deep(path, _):
        return len(path) == 2

    ours = tree.leaves_with_path(x, deep, is_leaf_takes_path=True)
    theirs = jax.tree.leaves_with_path(x, deep, is_leaf_takes_path=True)
    assert names(ours) == [(jax.tree_util.keystr(path), leaf) for path, leaf in theirs]


@given(trees)
def test_maps_and_reductions_are_those_of_jax(x):
    deeper = tree.map(lambda leaf: (leaf, [leaf]), x)
    assert deeper == jax.tree.map(lambda leaf: (leaf, [leaf]), x)
    combine = lambda *args: repr(args)
    assert tree.map(combine, x, deeper) == jax.tree.map(combine, x, deeper)
    assert tree.map_with_path(lambda path, *args: (tree_util.keystr(path), args), x, deeper) == (
        jax.tree.map_with_path(lambda path, *args: (jax.tree_util.keystr(path), args), x, deeper)
    )
    assert tree.reduce(combine, x, 0) == jax.tree.reduce(combine, x, 0)
    assert tree.reduce_associative(combine, x, identity=0) == jax.tree.reduce_associative(
        combine, x, identity=0
    )
    assert tree.all(x) == jax.tree.all(x)
    assert tree_util.all_leaves(tree.leaves(x)) and tree_util.all_leaves([x]) == jax.tree_util.all_leaves([x])


@given(trees, trees)
def test_transpose_is_that_of_jax(outer, inner):
    outer_def, inner_def = tree.structure(outer), tree.structure(inner)
    nested = tree.map(lambda x: tree.map(lambda y: f"{x}{y}", inner), outer)
    if not tree.leaves(outer):  # where jax fails
        assert tree.transpose(outer_def, inner_def, nested) == tree.map(lambda _: outer, inner)
        return
    expected = jax.tree.transpose(jax.tree.structure(outer), jax.tree.structure(inner), nested)
    assert tree.transpose(outer_def, inner_def, nested) == expected
    assert tree.transpose(outer_def, None, nested) == expected


@pytest.mark.parametrize("ours, theirs", [(tree, jax.tree), (tree_util, jax.tree_util)])
def test_every_name_of_jax_is_there(ours, theirs):
    missing = [name for name in dir(theirs) if not name.startswith("_") and not hasattr(ours, name)]
    assert not missing


def test_tree_util_has_the_same_functions():
    assert tree_util.tree_map is tree.map is pytree.map
    assert tree_util.register_pytree_node is pytree.register_node
    assert tree_util.PyTreeDef is pytree.PyTreeDef


def test_treedef_helpers():
    one, two = tree.structure(1), tree.structure({"a": [1, None]})
    assert tree_util.treedef_tuple([one, two]) == tree.structure((1, {"a": [1, None]}))
    assert tree_util.treedef_children(two) == [tree.structure([1, None])]
    assert tree_util.treedef_is_leaf(one) and not tree_util.treedef_is_leaf(two)
    assert tree_util.is_tree_node(dict) and not tree_util.is_tree_node(str)


def test_one_level_of_a_namedtuple_names_each_field():
    pairs, metadata = tree_util.flatten_one_level_with_keys(Point([1], None))
    assert [(str(key), child) for key, child in pairs] == [(".x", [1]), (".y", None)]
    assert metadata is Point


def test_a_structure_can_be_pickled():
    treedef = tree.structure({"a": (1, Point(2, None)), "b": Layer(3, 4)})
    assert pickle.loads(pickle.dumps(treedef)) == treedef


# --- Loading jaxlib -------------------------------------------------------------------------------


@pytest.mark.ci
def test_import_and_registration_load_neither_jaxlib_nor_jax():
    program = """
import sys, collections
import didax as dx
from didax import tree, tree_util
class Box:
    def __init__(self, content): self.content = content
tree_util.register_pytree_node(Box, lambda b: ((b.content,), None), lambda _, children: Box(*children))
assert not any(name.split('.')[0] == 'jaxlib' for name in sys.modules)
assert tree.leaves((Box([1, 2]), collections.OrderedDict(z=3, a=4))) == [1, 2, 3, 4]
assert 'jaxlib._jax' in sys.modules and 'jax' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.ci
def test_programs_that_run_load_no_jax():
    """jaxlib imports jax, where it is installed, in some of its methods, which takes longer than most first calls."""
    program = """
import sys
import numpy as np
import didax as dx
import didax.numpy as dnp
def f(x): return dnp.sin(x).sum()
for x in (np.ones(3, 'float32'), np.ones(3), dnp.ones(3), 1.0):
    step = dx.jit(dx.value_and_grad(f))
    for _ in range(3): step(x)
dx.scipy.special.gammaln(dnp.ones(3)); dx.random.gamma(dx.random.key(0), 2.0, (3,)); dnp.linalg.eigh(dnp.eye(3))
compiled = dx.jit(f).lower(np.ones(3)).compile(); compiled(np.ones(3)); compiled.as_text(); compiled.cost_analysis()
x = dx.jit(f, donate_argnums=0)(dnp.ones(3)); x.unsafe_buffer_pointer(); np.from_dlpack(dnp.ones(3)); np.asarray(x)
dx.pure_callback(np.sin, dx.ShapeDtypeStruct((3,), 'float32'), dnp.ones(3))
dx.export.deserialize(dx.export.export(dx.jit(f))(np.ones(3)).serialize()).call(np.ones(3))
dnp.ones(3).addressable_shards[0].data.block_until_ready()
dx.vmap(lambda x: dx.lax.while_loop(lambda c: c < x, lambda c: c + 1, 0.0))(dnp.arange(3.0))
assert 'jax' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.ci
def test_threads_may_race_to_the_first_flatten():
    program = """
import threading
from didax import tree
results, start = [], threading.Barrier(8)
def work():
    start.wait()
    results.append(tree.structure([1, {'a': 2}]))
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert len(results) == 8 and len(set(results)) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# --- Registering classes --------------------------------------------------------------------------


def test_dataclass_fields_are_children_or_metadata():
    layer = Layer(1, [2], "first")
    assert tree.leaves(layer) == [1, 2]
    assert tree.structure(layer) != tree.structure(Layer(1, [2], "second"))
    assert tree.map(lambda x: 10 * x, layer) == Layer(10, [20], "first")
    assert [name for name, _ in names(tree.leaves_with_path(layer))] == [".weight", ".bias[0]"]


def test_dataclass_with_named_fields():
    @tree_util.register_dataclass(data_fields=["y"], meta_fields=["x"])
    @dataclasses.dataclass
    class Named:
        x: int
        y: int

    assert tree.leaves(Named(1, 2)) == [2]


def test_dataclass_leaves_out_what_the_constructor_does_not_take():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Derived:
        x: int
        double: int = dataclasses.field(init=False)

        def __post_init__(self):
            self.double = 2 * self.x

    assert tree.map(lambda x: x + 1, Derived(1)) == Derived(2)


def test_dataclass_fields_must_be_complete():
    @dataclasses.dataclass
    class Wrong:
        x: int
        y: int

    text = message(ValueError, tree_util.register_dataclass, Wrong, ["x"], ["z"])
    assert "Wrong: missing ['y'], unexpected ['z'], given ['x', 'z']" in text
    text = message(TypeError, tree_util.register_dataclass, Wrong, ["x"])
    assert "Wrong is a dataclass; data_fields=['x'], meta_fields=None" in text
    tree_util.register_dataclass(Wrong, ["x"], [], drop_fields=["y"])
    assert tree.leaves(Wrong(1, 2)) == [1]


def test_a_class_that_is_no_dataclass_needs_its_fields():
    class Plain:
        def __init__(self, x):
            self.x = x

    assert "Plain is not a dataclass" in message(TypeError, tree_util.register_dataclass, Plain)
    tree_util.register_dataclass(Plain, ["x"], [])
    assert tree.map(str, Plain([1])).x == ["1"]


def test_registering_twice_names_the_class():
    text = message(ValueError, tree_util.register_dataclass, Layer)
    assert "test_pytree.Layer is registered already" in text
    assert "builtins.tuple is registered" in message(ValueError, tree_util.register_static, tuple)
    assert "nodetype is Point(" in message(TypeError, pytree.register_node, Point(1, 2), None, None)


def test_static_classes_are_compared_hashable_or_not():
    @tree_util.register_static
    @dataclasses.dataclass
    class Options:
        depth: int

    assert Options.__hash__ is None
    assert tree.structure(Options(1)) == tree.structure(Options(1)) != tree.structure(Options(2))
    traced = []

    @dx.jit
    def f(options, x):
        traced.append(options.depth)
        return x * options.depth

    assert [float(f(Options(n), 3.0)) for n in (2, 2, 3)] == [6, 6, 9] and traced == [2, 3]

    @tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        depth: int

    assert tree.leaves([Frozen(1), 2]) == [2]
    assert tree.structure(Frozen(1)) == tree.structure(Frozen(1)) != tree.structure(Frozen(2))


def test_classes_registered_by_their_methods():
    @tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, *items):
            self.items = items

        def tree_flatten(self):
            return self.items, "meta"

        @classmethod
        def tree_unflatten(cls, metadata, children):
            assert metadata == "meta"
            return cls(*children)

    @tree_util.register_pytree_with_keys_class
    class Keyed(Pair):
        def tree_flatten_with_keys(self):
            return [(tree_util.GetAttrKey(f"item{i}"), x) for i, x in enumerate(self.items)], "meta"

    both = (Pair(1, 2), Keyed(3, 4))
    paths = ["[0][<flat index 0>]", "[0][<flat index 1>]", "[1].item0", "[1].item1"]
    assert names(tree.leaves_with_path(both)) == list(zip(paths, [1, 2, 3, 4], strict=True))
    assert tree.map(str, both)[1].items == ("3", "4")


def test_keys_alone_are_enough_to_register_a_class():
    class Box:
        def __init__(self, content):
            self.content = content

    tree_util.register_pytree_with_keys(
        Box, lambda box: ([(tree_util.GetAttrKey("content"), box.content)], None), lambda _, c: Box(*c)
    )
    assert tree.leaves(Box((1, 2))) == [1, 2]
    assert names(tree.leaves_with_path(Box((1, 2)))) == [(".content[0]", 1), (".content[1]", 2)]


def test_partial_is_a_pytree_of_what_it_binds():
    def f(*args, **kwargs):
        return args, kwargs

    bound = tree_util.Partial(f, 1, [2], key=3)
    assert names(tree.leaves_with_path(bound)) == [
        (".args[0]", 1),
        (".args[1][0]", 2),
        (".keywords['key']", 3),
    ]
    assert tree.map(lambda x: -x, bound)(4) == ((-1, [-2], 4), {"key": -3})
    assert tree.structure(bound) == tree.structure(tree_util.Partial(f, 5, [6], key=7))


def test_partial_of_a_partial():
    def f(*args):
        return args

    nested = tree_util.Partial(tree_util.Partial(f, 1), 2)
    assert tree.leaves(nested) == [1, 2] and nested(3) == (1, 2, 3)
    plain = functools.partial(f, "static")
    over = tree_util.Partial(plain, 2)
    assert tree.leaves(over) == [2] and tree.map(str, over)(3) == ("static", "2", 3)
    assert tree.structure(over) == tree.structure(tree_util.Partial(plain, 5))


# --- Prefixes -------------------------------------------------------------------------------------


def children_of(x):
    """The children of a node of `trees`; None for a leaf."""
    match x:
        case OrderedDict():
            return list(x.values())
        case dict():
            return [x[key] for key in sorted(x)]
        case Layer():
            return [x.weight, x.bias]
        case None:
            return []
        case list() | tuple():
            return x
    return None


def reference_broadcast(prefix, full):
    """One leaf of `prefix` per leaf of `full`."""
    parts = children_of(full)
    if parts is None:
        return [prefix]
    tops = children_of(prefix)
    pairs = zip([prefix] * len(parts) if tops is None else tops, parts, strict=True)
    return [leaf for top, part in pairs for leaf in reference_broadcast(top, part)]


@given(trees, trees)
def test_broadcast_prefix_repeats_each_leaf_over_its_subtree(prefix, subtree):
    full = tree.map(lambda _: subtree, prefix)
    assert pytree.broadcast_prefix(prefix, full, "in_axes") == reference_broadcast(prefix, full)
    assert tree.broadcast(prefix, full) == jax.tree.broadcast(prefix, full)


@given(trees, trees)
def test_a_tree_is_a_prefix_here_if_it_is_one_in_jax(prefix, full):
    try:
        expected = jax.tree.broadcast(prefix, full)
    except ValueError:
        text = message(ValueError, tree.broadcast, prefix, full)
        assert text.startswith("broadcast's prefix_tree must be a tree prefix of full_tree.\n  prefix_tree")
    else:
        assert tree.broadcast(prefix, full) == expected


def test_none_as_a_leaf_of_a_prefix():
    axes = pytree.broadcast_prefix((0, None), ([1, 2], {"a": 3, "b": 4}), "vmap in_axes", lambda x: x is None)
    assert axes == [0, 0, None, None]


def test_a_wrong_prefix_is_named_by_path():
    prefix, args = (0, (1, {"a": 2})), (1.0, (1.0, {"b": 2.0}))
    assert message(ValueError, pytree.broadcast_prefix, prefix, args, "vmap in_axes") == (
        "vmap in_axes must be a tree prefix of args.\n"
        "  in_axes[1][1] is a dict with keys 'a', but args[1][1] is a dict with keys 'b'\n"
        "  in_axes: PyTreeDef((*, (*, {'a': *})))\n"
        "  args: PyTreeDef((*, (*, {'b': *})))\n"
        "Give in_axes the containers of args there, or one leaf in place of a whole subtree."
    )
    text = message(ValueError, pytree.broadcast_prefix, (0, (1, 2)), (1, (2, 3, 4)), "vmap in_axes")
    assert "in_axes[1] is a tuple of 2, but args[1] is a tuple of 3" in text


def test_a_huge_structure_is_clipped():
    text = message(ValueError, pytree.broadcast_prefix, (0,) * 1000, [0] * 1000, "in_axes")
    assert len(text) < 1000 and " ...\n" in text


# --- mismatch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one, two, expected",
    [
        ((1, 2), {"x": 1, "y": 2}, "out is a tuple of 2 in f, a dict with keys 'x', 'y' in g"),
        ([1, None], [1, 2], "out[1] is None in f, a leaf in g"),
        ({"a": [1]}, {"a": [1, 2]}, "out['a'] is a list of 1 in f, a list of 2 in g"),
        ({}, {1: 2}, "out is a dict without keys in f, a dict with keys 1 in g"),
        (
            (Layer(1, 2, "p"),),
            (Layer(1, 2, "q"),),
            "out[0] is a Layer with metadata ('p',) in f, a Layer with metadata ('q',) in g",
        ),
        (Point(1, (2,)), Point(1, 2), "out.y is a tuple of 1 in f, a leaf in g"),
        (OrderedDict(a=1), {"a": 1}, "out is an OrderedDict with keys 'a' in f, a dict with keys 'a' in g"),
    ],
)
def test_mismatch_tells_the_path_and_both_nodes(one, two, expected):
    assert pytree.mismatch(one, two, "f", "g") == expected
    assert pytree.mismatch(tree.structure(one), tree.structure(two), "f", "g") == expected


def test_mismatch_lists_every_difference():
    text = pytree.mismatch(
        {"a": 1, "b": (1,), "c": 3}, {"a": [1], "b": 2, "d": 3}, "init", "body", root="carry"
    )
    assert text.split("\n") == [
        "carry is a dict with keys 'a', 'b', 'c' in init, a dict with keys 'a', 'b', 'd' in body",
        "carry['a'] is a leaf in init, a list of 1 in body",
        "carry['b'] is a tuple of 1 in init, a leaf in body",
    ]


@given(trees, trees)
def test_mismatch_is_empty_only_for_equal_structures(one, two):
    text = pytree.mismatch(one, two, "f", "g")
    assert (text == "") == (tree.structure(one) == tree.structure(two))


def test_mismatch_tells_classes_of_one_name_apart():
    namesake = namedtuple("Point", ["x", "y"], module="elsewhere")
    text = pytree.mismatch(Point(1, 2), namesake(1, 2), "f", "g")
    assert text == f"out is a Point ({__name__}) in f, a Point (elsewhere) in g"


def test_mismatch_counts_the_children_of_a_class():
    class Bag:
        def __init__(self, *items):
            self.items = items

    pytree.register_node(Bag, lambda bag: (bag.items, None), lambda _, children: Bag(*children))
    assert pytree.mismatch(Bag(1), Bag(1, 2), "f", "g") == "out is a Bag of 1 in f, a Bag of 2 in g"


def test_mismatch_survives_a_class_that_refuses_dummies():
    class Strict:
        def __init__(self, x):
            if not isinstance(x, (int, tuple)):
                raise TypeError("x must be an int")
            self.x = x

    pytree.register_node(Strict, lambda s: ((s.x,), None), lambda _, children: Strict(*children))
    text = pytree.mismatch(Strict(1), Strict((1,)), "f", "g")
    assert text == "out[<flat index 0>] is a leaf in f, a tuple of 1 in g"


# --- Wrong use ------------------------------------------------------------------------------------


def test_map_over_trees_that_differ_tells_the_path():
    text = message(ValueError, tree.map, lambda *xs: xs, {"a": (1, 2)}, {"a": (3, 4)}, {"a": (5, 6, 7)})
    assert "rest[1]['a'] is a tuple of 3" in text and "tree['a'] is a tuple of 2, but" in text
    text = message(ValueError, tree.map_with_path, lambda *xs: xs, [1, [2]], [1, 2])
    assert "tree[1] is a list of 1, but rest[0][1] is a leaf" in text


@pytest.mark.parametrize("function", [tree.flatten, tree.flatten_with_path])
@pytest.mark.parametrize("kind", [dict, lambda pairs: defaultdict(int, pairs)])
def test_keys_without_an_order_are_named(function, kind):
    text = message(ValueError, function, {"q": [kind({1: 2, "a": 3})]})
    assert "tree['q'][0] has keys 1 (int), 'a' (str)" in text and "OrderedDict" in text


def test_errors_of_the_users_functions_pass_through():
    class Faulty:
        pass

    def fail(_):
        raise ValueError("mine")

    pytree.register_node(Faulty, fail, lambda *_: Faulty())
    for attempt in (
        lambda: tree.flatten([Faulty()]),
        lambda: tree.flatten(1, is_leaf=fail),
        lambda: tree.map(lambda x, y: x, (1, [2]), (1, Faulty())),
    ):
        with pytest.raises(ValueError, match=r"^mine$|is a list of 1"):
            attempt()


def test_unflatten_counts_the_leaves():
    text = message(ValueError, tree.unflatten, tree.structure([1, 2]), iter([1]))
    assert "treedef has 2, leaves has 1: PyTreeDef([*, *])" in text
    assert "treedef is of type list" in message(TypeError, tree.unflatten, [1], tree.structure([1]))


def test_transpose_tells_where_the_inner_trees_differ():
    outer = tree.structure([0, 0])
    text = message(TypeError, tree.transpose, outer, None, [(1, 2), (3,)])
    assert "tree[1] is a tuple of 1 in the tree, a tuple of 2 in outer_treedef of inner_treedef" in text
    assert "Pass `inner_treedef`." in message(TypeError, tree.transpose, tree.structure([]), None, [])


def test_reductions_of_nothing():
    assert "Pass `initializer`." in message(TypeError, tree.reduce, max, [None])
    assert "tree is PyTreeDef([None])" in message(TypeError, tree.reduce_associative, max, [None])


def test_flatten_one_level_of_a_leaf():
    assert "tree is a leaf of type int" in message(ValueError, tree_util.flatten_one_level, 3)


def test_unknown_names_are_attribute_errors():
    for module in (pytree, tree_util):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            getattr(module, "nonsense")  # noqa: B009  (as an attribute it would be a useless expression)


@pytest.mark.parametrize(
    "take_apart", [tree.leaves, tree.leaves_with_path, tree.structure, dx.jit(lambda t: 1.0)]
)
def test_a_tree_that_contains_itself_or_has_no_end_is_refused(take_apart):
    endless = {"a": [1.0, 2.0]}
    endless["a"].append((endless["a"], 3.0))
    with pytest.raises(ValueError, match=r"\['a'\] is one object with tree.*\['a'\]\[2\]\[0\]"):
        take_apart(endless)
    deep = functools.reduce(lambda inner, _: [inner], range(20_000), 1.0)
    with pytest.raises(RecursionError, match=r"nested too deeply(.|\n)*Make it flatter"):
        take_apart(deep)
    shared = [1.0]
    assert len(tree.leaves([shared, (shared, shared)])) == 3


def test_leaves_of_one_dtype_take_that_of_the_vector_they_are_unravelled_from():
    flat, unravel = dx.flatten_util.ravel_pytree({"w": dnp.ones((2, 2)), "b": dnp.ones(1)})
    tree = unravel(flat.astype("complex64") * 1j)
    assert tree["w"].dtype == tree["b"].dtype == "complex64"
    flat, unravel = dx.flatten_util.ravel_pytree((dnp.ones(2), dnp.ones(1, "int32")))
    assert [x.dtype.name for x in unravel(flat)] == ["float32", "int32"]
    with pytest.raises(TypeError, match="unravel takes a vector of the size and dtype"):
        unravel(flat.astype("float16"))


def test_errors_of_tree_functions_end_at_the_users_line():
    misuses = [
        lambda: dx.tree.map(lambda x, y: x, {"a": 1}, {"b": 1}),
        lambda: dx.tree.map(lambda x: x["key"], [{"key": 1}, 2]),
        lambda: dx.tree.map_with_path(lambda path, x, y: x, [1], (1,)),
        lambda: dx.tree.broadcast([1], (1,)),
        lambda: dx.tree.reduce(lambda x, y: x, {}),
    ]
    for misuse in misuses:
        with pytest.raises((TypeError, ValueError)) as error:
            misuse()
        assert traceback.extract_tb(error.value.__traceback__)[-1].filename == __file__
