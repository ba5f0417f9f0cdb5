"""`Scope`: the variables a statement may use, and the draws that fill it in.

A row of the tables (table_*.py) is a function of a scope `d` that returns the text of an expression:

    lambda d: f"np.sum({d.x()}, axis={d.axes()}, keepdims={d.flag()})"

`d.x()` draws an operand: mostly a variable that is there, otherwise a new input of the program or a variable made of
another by a statement of its own. The first operand is `d.first`, to which `d.axis()` and its kin refer. Types come
from jax, which traces each statement as it is made. A statement that jax refuses is remembered: Didax is to refuse it
as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

from tests.fuzz.libraries import Refusal, dtype_of, jax_, kind_of
from tests.fuzz.program import Block, Statement, Type

LARGEST = 256  # elements of a variable
EXTENTS = (1, 2, 3, 4)
NARROW = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4")
WEIGHTS = {  # of dtypes, by kind and width
    ("b", False): {"bool": 1},
    ("b", True): {"bool": 1},
    ("i", False): {"int32": 6, "int8": 2, "int16": 1},
    ("i", True): {"int64": 4, "int32": 4, "int8": 2, "int16": 1},
    ("u", False): {"uint8": 2, "uint32": 2, "uint16": 1},
    ("u", True): {"uint8": 2, "uint32": 2, "uint16": 1, "uint64": 2},
    ("f", False): {"float32": 16, "float16": 2, "bfloat16": 2},
    ("f", True): {"float64": 12, "float32": 5, "float16": 1, "bfloat16": 2},
    ("c", False): {"complex64": 1},
    ("c", True): {"complex128": 2, "complex64": 1},
}
KINDS = {"f": 14, "i": 3, "b": 1, "u": 1, "c": 2}
DOMAINS = {  # what brings any numbers into the domain of a function
    "unit": "np.tanh({})",
    "positive": "1.5 + np.sin({})",
    "above one": "2.5 + np.sin({})",
    "small": "np.sin({})",
}
NUMERIC, REAL, ANY = "iufc", "iuf", "biufc"


class Variable(str):
    """The name of a variable, with its type."""

    type: Type

    def __new__(cls, name: str, type_: Type) -> Variable:
        self = super().__new__(cls, name)
        self.type = type_
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def size(self) -> int:
        return int(onp.prod(self.type.shape))

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def kind(self) -> str:
        return kind_of(self.type.dtype)


class Scope:
    def __init__(
        self,
        rng: onp.random.Generator,
        x64: bool,
        step: Callable[[Scope], None],
        outer: Scope | None = None,
        depth: int = 0,
    ) -> None:
        self.rng, self.x64, self.step, self.outer, self.depth = rng, x64, step, outer, depth
        self.root: Scope = outer.root if outer else self
        self.variables: list[Variable] = list(outer.variables) if outer else []
        self.own: list[Variable] = []  # those of this scope
        self.statements: list[Statement] = []
        self.blocks: list[Block] = []  # made for the statement that is being drawn
        self.first = Variable("", Type((), "float32"))
        if outer is None:
            self.inputs: dict[str, Any] = {}
            self.types: dict[str, Type] = {}
            self.refused: list[Statement] = []
            self.count = 0
            self.extents = [int(n) for n in rng.choice(EXTENTS, 3)]
            if rng.random() < 0.04:
                self.extents[0] = 0
            self.main = self.weighted(WEIGHTS["f", x64])

    # --- Chance -----------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def weighted(self, weights: dict[str, int]) -> str:
        p = onp.array(list(weights.values()), float)
        return str(self.rng.choice(list(weights), p=p / p.sum()))

    def integer(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return self.chance(0.5)

    def float(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 2)

    # --- Types ------------------------------------------------------------------------------------------------

    def dtype(self, kinds: str = "f") -> str:
        if self.chance(0.01) and any(kind_of(n) in kinds for n in NARROW):
            return self.choose([n for n in NARROW if kind_of(n) in kinds])
        kind = self.weighted({k: KINDS[k] for k in kinds})
        if kind == "f" and self.chance(0.8):
            return self.root.main
        return self.weighted(WEIGHTS[kind, self.x64])

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        rank = self.integer(low, min(high, max(low, 3)))
        if rank == 3 and low < 3 and self.flag():
            rank = self.integer(low, 2)
        return tuple(1 if self.chance(0.08) else self.choose(self.root.extents) for _ in range(rank))

    # --- Operands ---------------------------------------------------------------------------------------------

    def x(
        self,
        kinds: str = "f",
        rank: tuple[int, int] = (0, 4),
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        domain: str = "",
        nonempty: bool = False,
    ) -> Variable:
        """An operand of one of these kinds, with rank from one number to another, or of this shape and dtype."""

        def fits(v: Variable) -> bool:
            return (
                v.kind in kinds
                and rank[0] <= v.rank <= rank[1]
                and (shape is None or v.shape == shape)
                and (dtype is None or v.dtype == dtype)
                and (v.size > 0 or not nonempty)
            )

        found = [v for v in self.variables if fits(v)]
        if found and self.chance(0.85):
            p = onp.arange(
                1.0, len(found) + 1
            )  # those made last are likelier: programs are chains rather than fans
            v = found[int(self.rng.choice(len(found), p=p / p.sum()))]
        else:
            wanted = self.shape(*rank) if shape is None else shape
            if nonempty:
                wanted = tuple(max(n, 1) for n in wanted)
            v = self.fresh(Type(wanted, dtype or self.dtype(kinds)))
        if domain and v.kind in "fc" and self.chance(0.85):
            v = self.emit(DOMAINS[domain].format(v))
        if not self.first:
            self.first = v
        return v

    def fresh(self, type_: Type) -> Variable:
        """A variable of this type: an input, or made of another variable."""
        others = [v for v in self.variables if v.kind != "k" and v.size]
        if self.outer is None and (not others or self.chance(0.5) or type_.dtype in NARROW):
            return self.input(type_)
        if not others:
            return self.emit(f"np.full({type_.shape}, 0.5).astype('{type_.dtype}')")
        return self.emit(self.adapt(self.choose(others[-4:]), type_))

    def adapt(self, v: Variable, type_: Type) -> str:
        """An expression of this type, of the elements of `v`."""
        text = str(v)
        if v.kind == "c" and kind_of(type_.dtype) != "c":
            text = f"np.real({text})"
        if v.shape != type_.shape:
            text = f"np.resize({text}, {type_.shape})"
        return text if v.dtype == type_.dtype and not v.type.weak else f"{text}.astype('{type_.dtype}')"

    def like(self, v: Variable, **more: Any) -> Variable:
        """An operand of the same shape and dtype."""
        return self.x(ANY, shape=v.shape, dtype=v.dtype, **more)

    def fit(self, v: Variable, kinds: str = REAL) -> str:
        """An operand that broadcasts with another: a variable, a Python scalar, a NumPy array or scalar."""
        choice = self.rng.random()
        if choice < 0.2:
            return self.literal("c" if v.kind == "c" and "c" in kinds else kinds)
        if choice < 0.3:
            return self.numpy(kinds, self.choose([(), v.shape, v.shape[-1:]]))
        shape = v.shape if choice < 0.7 else self.choose([(), v.shape[1:], v.shape[:-1] + (1,)[: v.rank]])
        kinds = v.kind if v.kind in kinds and self.chance(0.7) else kinds
        return self.x(kinds, shape=shape)

    def literal(self, kinds: str = "iuf") -> str:
        if "c" in kinds and self.chance(0.2):
            return self.choose(["1j", "(0.5-2j)"])
        if "f" in kinds and self.flag():
            return self.choose(["0.5", "2.0", "-1.5", "3.25", "1e-3"])
        if "i" in kinds or "u" in kinds:
            return self.choose(["2", "1", "3", "0", "5", *(["-1"] if "i" in kinds else [])])
        return self.choose(["True", "False"] if "b" in kinds else ["0.75", "1.25"])

    def numpy(self, kinds: str, shape: tuple[int, ...]) -> str:
        """A NumPy array or scalar, written out."""
        dtype = self.dtype(kinds)
        if kind_of(dtype) not in "biuf" or dtype in (*NARROW, "bfloat16"):
            dtype = "float32" if "f" in kinds else "int32"
        numbers = onp.asarray(self.value(Type(shape, dtype), plain=True))
        if not shape:
            return f"onp.{dtype if dtype != 'bool' else 'bool_'}({numbers.item()!r})"
        return f"onp.array({numbers.tolist()!r}, '{dtype}')"

    def indices(self, shape: tuple[int, ...], extent: int) -> str:
        """Integers from -extent to extent - 1, traced or written out."""
        if extent and self.chance(0.5):
            v = self.x("i", shape=shape)
            if v.dtype not in NARROW:
                return f"({v} % {extent})"
        numbers = self.rng.integers(-extent, max(extent, 1), shape) if extent else onp.zeros(shape, int)
        return f"np.array({numbers.tolist()!r}, 'int32')"

    def input(self, type_: Type) -> Variable:
        weak = (
            not type_.shape
            and self.chance(0.4)
            and type_.dtype
            in (
                ["float64", "int64", "complex128", "bool"]
                if self.x64
                else ["float32", "int32", "complex64", "bool"]
            )
        )
        value = self.value(type_)
        v = self.named(Type(type_.shape, type_.dtype, weak and type_.dtype != "bool"))
        self.root.inputs[v] = value.item() if weak else value
        self.variables.append(v)
        self.own.append(v)
        return v

    def value(self, type_: Type, plain: bool = False) -> onp.ndarray[Any, Any]:
        """Numbers of this type: small ones, halves (so that some are equal), and sometimes NaN and extremes."""
        kind, shape, rng = kind_of(type_.dtype), type_.shape, self.rng
        dtype = dtype_of(type_.dtype)
        if kind == "b":
            return rng.random(shape) < 0.6
        if kind in "iu":
            numbers = onp.asarray(rng.integers(0 if kind == "u" else -4, 6, shape))
            if self.chance(0.1) and not plain and type_.dtype not in NARROW:
                info = onp.iinfo(dtype)
                numbers = onp.where(rng.random(shape) < 0.3, rng.choice([info.min, info.max], shape), numbers)
            return numbers.astype(dtype)
        numbers = onp.asarray(rng.normal(size=shape) * 1.5)
        if kind == "c":
            numbers = numbers + 1j * rng.normal(size=shape)
        if plain or self.chance(0.3):
            numbers = onp.round(numbers * 2) / 2
        if self.chance(0.08) and not plain and kind == "f":
            special = rng.choice([0.0, -0.0, onp.nan, onp.inf, -onp.inf], shape)
            numbers = onp.where(rng.random(shape) < 0.4, special, numbers)
        return onp.asarray(numbers).astype(dtype)

    # --- Parameters -------------------------------------------------------------------------------------------

    def axis(self, v: Variable | None = None) -> int:
        rank = (v or self.first).rank
        return self.integer(-rank, rank - 1) if rank else 0

    def axes(self, v: Variable | None = None) -> Any:
        """None, an axis or a tuple of axes."""
        rank = (v or self.first).rank
        if not rank or self.chance(0.3):
            return None
        return self.axis(v) if self.flag() else self.subset(rank)

    def subset(self, rank: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.rng.permutation(rank)[: self.integer(0, rank)])

    def reshaped(self, v: Variable) -> tuple[int, ...]:
        """Another shape of as many elements."""
        factors = [n for n in v.shape if n != 1]
        options = [(v.size,), tuple(factors), v.shape[::-1], (1, *v.shape), v.shape + (1,)]
        if v.size and v.size % 2 == 0:
            options += [(2, v.size // 2), (v.size // 2, 2)]
        return self.choose(options)

    # --- Statements -------------------------------------------------------------------------------------------

    def named(self, type_: Type) -> Variable:
        root = self.root
        v = Variable(f"v{root.count}", type_)
        root.count += 1
        root.types[v] = type_
        return v

    def emit(self, text: str) -> Variable:
        """Add the statement of this expression; returns its first variable. Raises what jax raises."""
        blocks = tuple(b for b in self.blocks if re.search(rf"\b{b.name}\b", text))
        statement = Statement((), text, blocks)
        try:
            types, single = jax_.types_of(statement, self.root.types)
        except Refusal as e:
            self.root.refused.append(statement)
            raise Refused(text) from e
        if not types or len(types) > 6 or any(onp.prod(t.shape) > LARGEST for t in types):
            raise Refused("no variables, or too many, or too large ones")
        made = [self.named(t) for t in types]
        self.statements.append(Statement(tuple(map(str, made)), text, blocks, single))
        self.variables += made
        self.own += made
        return made[0]

    def block(
        self,
        params: Sequence[Type],
        results: Sequence[Type] | None = None,
        pair: bool = True,
        length: int = 2,
    ) -> str:
        """Make a function of parameters of these types; returns its name.

        Its results have the types asked for, as a tuple, or as one array unless `pair`; with none asked for it returns
        one array, whatever the last statement made.
        """
        if self.depth >= 2:
            length = 1
        inner = Scope(self.rng, self.x64, self.step, self, self.depth + 1)
        names = [inner.named(t) for t in params]
        inner.variables += names
        inner.own += names
        for _ in range(self.integer(1, length)):
            inner.step(inner)
        made = [v for v in inner.own if v.kind != "k"] or [v for v in inner.variables if v.kind != "k"]
        if results is None:
            result = str(made[-1])
        else:
            texts = [inner.adapt(self.choose([v for v in made[-3:] if v.size] or made), t) for t in results]
            result = f"({', '.join(texts)},)" if pair else texts[0]
        root = self.root
        name = f"f{root.count}"
        root.count += 1
        self.blocks.append(Block(name, tuple(map(str, names)), tuple(inner.statements), result))
        return name


class Refused(Exception):
    """A statement that cannot be made."""
