"""Values of types that a program declares by `jax.experimental.hijax`."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.as_jax import high_arguments, hijax
from didax.core.avals import ShapedArray


@dataclasses.dataclass(frozen=True)
class Held:
    leaf_avals: tuple[Any, ...]
    treedef: Any

    def to_tangent_qdd(self) -> Any:
        return Held(tuple(a.to_tangent_aval() for a in self.leaf_avals), self.treedef)


class CellType(hijax.MutableHiType):
    def __hash__(self) -> int:
        return hash(CellType)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellType)

    def str_short(self, *_: Any, **__: Any) -> str:
        return "Cell"

    def lo_ty_qdd(self, held: Held) -> list[Any]:
        return list(held.leaf_avals)

    def new_from_loval(self, held: Held, *arrays: Any) -> Any:
        return Cell.of(list(arrays), held.treedef)

    def read_loval(self, held: Held, cell: Any) -> list[Any]:
        return get_p.bind(cell, avals=hijax.cur_qdd(cell).leaf_avals)

    def update_from_loval(self, held: Held, cell: Any, *arrays: Any) -> None:
        set_p.bind(cell, *arrays, treedef=held.treedef)

    def to_tangent_aval(self) -> Any:
        return self


class Cell:
    """Holds a pytree of arrays, which `put` replaces."""

    @classmethod
    def of(cls, leaves: Any, treedef: Any) -> Any:
        self = object.__new__(cls)
        self.leaves, self.treedef = leaves, treedef
        return self

    def __new__(cls, value: Any) -> Any:
        leaves, treedef = dx.tree.flatten(value)
        return cls.of(leaves, treedef)

    def cur_qdd(self) -> Any:
        return Held(tuple(map(hijax.typeof, self.leaves)), self.treedef)


class Get(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, kind: Any, *, avals: Any) -> Any:
        return avals, set()

    def to_lojax(self, cell: Any, *, avals: Any) -> Any:
        return cell.leaves

    def jvp(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    transpose = jvp


class Set(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, kind: Any, *avals: Any, treedef: Any) -> Any:
        kind.mutable_qdd.update(Held(avals, treedef))
        return [], set()

    def to_lojax(self, cell: Any, *leaves: Any, treedef: Any) -> Any:
        cell.leaves, cell.treedef = list(leaves), treedef
        return []

    def jvp(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    transpose = jvp


get_p, set_p = Get("get_cell"), Set("set_cell")
hijax.register_hitype(Cell, lambda cell: CellType())


def get(cell: Any) -> Any:
    held = hijax.cur_qdd(cell)
    return dx.tree.unflatten(held.treedef, get_p.bind(cell, avals=tuple(held.leaf_avals)))


def put(cell: Any, value: Any) -> None:
    leaves, treedef = dx.tree.flatten(value)
    set_p.bind(cell, *leaves, treedef=treedef)


def test_a_jitted_function_changes_what_it_is_given() -> None:
    """Its numbers, and its structure; what it does not change stays the same object. It is traced once."""
    traced = []

    @high_arguments.jit
    def step(cell: Any, other: dict[str, Any], x: Any) -> Any:
        traced.append(x)
        put(cell, {**get(cell), "last": x})
        return get(other["a"]) * x

    first, other = Cell({"sum": dnp.arange(2.0)}), Cell(dnp.ones(2))
    kept = get(other)
    assert float(step(first, {"a": other}, 3.0).sum()) == 6.0
    assert float(get(first)["last"]) == 3.0 and get(other) is kept
    step(first, {"a": other}, 4.0)
    step(Cell({"sum": dnp.arange(2.0)}), {"a": other}, 4.0)
    assert len(traced) == 2 and float(get(first)["last"]) == 4.0
    assert hijax.typeof(first) == CellType() and hijax.typeof(1.0).shape == ()
    assert high_arguments.eval_shape(lambda c: get(c)["sum"], first).shape == (2,)
    with pytest.raises(
        ValueError, match=r"meets one value that changes in two places\.(?s:.*)cell, other\['a'\]"
    ):
        step(first, {"a": first}, 1.0)
    with pytest.raises(TypeError, match="argument cell: 'x' of type str"):
        step("x", {"a": other}, 1.0)
    with dx.disable_jit():
        step(first, {"a": other}, 5.0)
    assert float(get(first)["last"]) == 5.0


def test_functions_change_what_they_close_over() -> None:
    """Staged, in loops, mapped and differentiated; a program that is run again sees the value as it is then."""
    cell = Cell(dnp.float32(1.0))

    @high_arguments.jit
    def add(x: Any) -> Any:
        put(cell, get(cell) + x)
        return get(cell) * 2

    assert float(add(2.0)) == 6.0 and float(get(cell)) == 3.0
    put(cell, dnp.float32(10.0))
    assert float(add(2.0)) == 24.0 and float(get(cell)) == 12.0

    lax.scan(lambda _, x: (put(cell, get(cell) + x), None), None, dnp.arange(3.0))
    assert float(get(cell)) == 15.0

    def loss(x: Any) -> Any:
        put(cell, lax.stop_gradient(x * 3))
        return x**2 + get(cell)

    assert float(dx.grad(loss)(4.0)) == 8.0 and float(get(cell)) == 12.0
    assert float(dx.jit(dx.grad(loss))(5.0)) == 10.0 and float(get(cell)) == 15.0
    assert dx.vmap(lambda x: x * get(cell))(dnp.ones(2)).tolist() == [15.0, 15.0]

    with pytest.raises(ValueError, match="depends on differentiated inputs cannot be written"):
        dx.grad(lambda x: (put(cell, x), get(cell))[1])(1.0)
    with pytest.raises(
        NotImplementedError, match=r"keeps its structure, and the types(?s:.*)Pass it to the jitted"
    ):
        dx.jit(lambda x: put(cell, (x, x)))(1.0)
    assert float(get(cell)) == 15.0


def test_values_made_within_a_function() -> None:
    """They are the function's own: any structure may be put there, and derivatives pass through."""

    def f(x: Any) -> Any:
        own = Cell(x)
        put(own, {"a": get(own) * 2, "b": x})
        return get(own)["a"] * get(own)["b"]

    assert float(dx.grad(f)(3.0)) == float(dx.jit(dx.grad(f))(3.0)) == 12.0
    assert dx.vmap(f)(dnp.arange(3.0)).tolist() == [0.0, 2.0, 8.0]


def test_values_that_do_not_change() -> None:
    """An argument or a result is its arrays; a rule for derivatives that Didax would not follow is refused."""

    class PairType(hijax.HiType):
        def lower_val(self, pair: Any) -> list[Any]:
            return list(pair.arrays)

        def raise_val(self, *arrays: Any) -> Any:
            return Pair(arrays)

        def __hash__(self) -> int:
            return hash(PairType)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, PairType)

    class Pair:
        def __init__(self, arrays: Any):
            self.arrays = tuple(arrays)

    hijax.register_hitype(Pair, lambda pair: PairType())
    swapped = high_arguments.jit(lambda pair, x: Pair([pair.arrays[1] + x, pair.arrays[0]]))
    assert [float(x) for x in swapped(Pair([1.0, 2.0]), 5.0).arrays] == [7.0, 1.0]

    class Double(hijax.HiPrimitive):
        def to_lojax(self, x: Any) -> Any:
            return x * 2

    class Steep(Double):
        def jvp(self, primals: Any, tangents: Any) -> Any:
            return primals[0] * 2, tangents[0] * 100

    assert float(dx.grad(Double("double").bind)(np.float32(1))) == 2.0
    assert Steep("steep").bind(3.0) == 6.0
    with pytest.raises(NotImplementedError, match="'steep' has a derivative rule of its own"):
        dx.grad(Steep("steep").bind)(1.0)


SCALAR = ShapedArray((), np.dtype("float32"))


class Sine(hijax.VJPHiPrimitive):
    """A sine whose derivatives show which rule gave them."""

    def __init__(self, scale: float) -> None:
        self.in_avals, self.out_aval, self.params = (SCALAR,), SCALAR, {"scale": scale}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return dnp.sin(x) * self.scale

    def vjp_fwd(self, nonzero: Any, x: Any) -> Any:
        assert nonzero == (True,)
        return self(x), dnp.cos(x)

    def vjp_bwd_retval(self, cos_x: Any, ct: Any) -> Any:
        return (ct * cos_x * 100,)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0] * 7


class Both(hijax.VJPHiPrimitive):
    """A product and a sum, by accumulators and a rule for batches that counts them."""

    def __init__(self) -> None:
        self.in_avals, self.out_aval, self.params = (SCALAR, {"b": SCALAR}), [SCALAR, SCALAR], {}
        super().__init__()

    def expand(self, x: Any, other: Any) -> Any:
        return [x * other["b"], x + other["b"]]

    def vjp_fwd(self, nonzero: Any, x: Any, other: Any) -> Any:
        return self.expand(x, other), (x, other["b"])

    def vjp_bwd(self, saved: Any, ct: Any, *sums: Any) -> None:
        x, b = saved
        sums[0].accum(ct[0] * b)
        sums[0].accum(ct[1] * 7)
        sums[1]["b"].accum(ct[0] * x)

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        return [dnp.full_like(args[0], axis_data.size), args[1]["b"]], [dims[0], dims[1]["b"]]


class Linear(hijax.VJPHiPrimitive):
    def __init__(self) -> None:
        self.in_avals, self.out_aval, self.params = (SCALAR,), SCALAR, {}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return x**2

    def lin(self, nonzero: Any, x: Any) -> Any:
        return x**2, x

    def linearized(self, x: Any, t: Any) -> Any:
        return 2.5 * x * t


def test_operations_declared_as_classes_follow_their_rules() -> None:
    sine, both = Sine(3.0), Both()
    assert float(dx.grad(sine)(0.0)) == float(dx.jit(dx.grad(sine))(0.0)) == 100
    assert float(dx.jvp(sine, (0.0,), (1.0,))[1]) == 7
    assert dx.vmap(dx.grad(sine))(dnp.zeros(2)).tolist() == [100, 100]
    assert float(dx.grad(lambda c: lax.scan(lambda c, _: (sine(c), None), c, None, length=2)[0])(0.0)) == 1e4
    grads = dx.grad(lambda x, other: sum(both(x, other)), (0, 1))(2.0, {"b": 3.0})
    assert dx.tree.map(float, grads) == (10, {"b": 2})
    mapped = dx.vmap(both)(dnp.arange(2.0), {"b": dnp.ones(2)})
    assert [y.tolist() for y in mapped] == [[2, 2], [1, 1]]
    assert float(dx.linearize(Linear(), 3.0)[1](1.0)) == 7.5
    assert sine == Sine(3.0) != Sine(4.0) and hash(sine) == hash(Sine(3.0))


def test_operations_declared_as_classes_say_what_they_lack() -> None:
    with pytest.raises(AttributeError, match="in_avals is missing"):
        hijax.VJPHiPrimitive()
    with pytest.raises(TypeError, match="arguments of its in_avals"):
        Both()(1.0, 2.0)
    with pytest.raises(NotImplementedError, match=r"Use jax\.custom_vjp"):
        type("Effectful", (Sine,), {"effects": frozenset({"io"})})(1.0)
