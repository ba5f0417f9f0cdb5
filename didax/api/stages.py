"""The stages of compilation, one object each: `Traced` (a jaxpr), `Lowered` (StableHLO), `Compiled` (an executable).

One after the other: `jit(f).trace(x).lower().compile()(x)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from didax.api.flat import flatten_arguments
from didax.core import pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import dtype as as_dtype
from didax.core.errors import ArgumentError, message
from didax.core.jaxpr import ClosedJaxpr, Jaxpr
from didax.core.ref import Ref
from didax.passes.loops import report
from didax.runtime.compiled import Program


class ShapeDtypeStruct:
    """A shape and a dtype, in the place of an array.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("aval", "sharding")

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False):
        if dtype is None:
            rule = "A ShapeDtypeStruct states a dtype."
            raise ArgumentError(
                message(rule, f"shape: {shape!r}, dtype: None", fix="Pass a dtype such as 'float32'.")
            )
        if sharding is not None and getattr(sharding, "device_set", None) is None:
            fix = "Leave sharding out, or pass that of an array (x.sharding)."
            raise TypeError(
                message(
                    "A sharding says on which devices arrays are.", f"sharding: {sharding!r:.100}", fix=fix
                )
            )
        self.sharding = sharding
        self.aval = ShapedArray(tuple(int(n) for n in shape), as_dtype(dtype), weak_type)

    shape = property(lambda self: self.aval.shape, doc="Length of each axis.")
    dtype = property(lambda self: self.aval.dtype, doc="Type of the elements.")
    ndim = property(lambda self: self.aval.ndim, doc="Number of axes.")
    size = property(lambda self: self.aval.size, doc="Number of elements.")
    weak_type = property(lambda self: self.aval.weak_type, doc="True when nobody stated the dtype.")

    @staticmethod
    def like(x: Any) -> ShapeDtypeStruct:
        """The shape, dtype, weak type and sharding of an array, or of what may stand for one.

        >>> ShapeDtypeStruct.like(2.0)
        ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
        """
        aval = aval_of(x)
        sharding = getattr(x, "sharding", None)
        return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)

    def update(self, **parts: Any) -> ShapeDtypeStruct:
        """The same with some parts replaced: shape, dtype, weak_type, sharding."""
        own = {name: getattr(self, name) for name in ("shape", "dtype", "weak_type", "sharding")}
        return ShapeDtypeStruct(**own | parts)

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and other.aval is self.aval

    def __hash__(self) -> int:
        return hash(self.aval)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """The struct for an abstract value."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


@dataclasses.dataclass(frozen=True)
class ArgInfo:
    """The type of an argument, and whether its memory may be reused for results."""

    aval: ShapedArray
    donated: bool

    shape = property(lambda self: self.aval.shape, doc="Length of each axis.")
    dtype = property(lambda self: self.aval.dtype, doc="Type of the elements.")


class Stage:
    """What a function was staged for: its arguments, as `(args, kwargs)`, and its results."""

    in_tree: Any
    out_tree: Any

    def __init__(self, avals: Sequence[ShapedArray], donated: Sequence[bool]):
        self._avals, self._donated = tuple(avals), tuple(donated) or (False,) * len(avals)

    @property
    def in_avals(self) -> Any:
        """Types of the arguments."""
        return pytree.unflatten(self.in_tree, self._avals)

    @property
    def args_info(self) -> Any:
        """An `ArgInfo` for each argument."""
        infos = [ArgInfo(*pair) for pair in zip(self._avals, self._donated, strict=True)]
        return pytree.unflatten(self.in_tree, infos)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments may be overwritten by results."""
        return tuple(i for i, donated in enumerate(self._donated) if donated)


class Traced(Stage):
    """A function staged for one signature."""

    def __init__(
        self,
        name: str,
        jaxpr: Jaxpr,
        consts: Sequence[Any],
        in_tree: Any,
        out_tree: Any,
        program: Program | None,
        run: Callable[[Sequence[Any]], list[Any]],
        hidden: int = 0,
        leaves: Sequence[Any] = (),
        donated: Sequence[bool] = (),
    ):
        super().__init__(jaxpr.in_avals[len(consts) :], donated)
        self.fun_name = name
        self.jaxpr = ClosedJaxpr(jaxpr, tuple(consts))
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.run = run
        self._program = program
        self._leaves = leaves
        self._hidden = hidden  # leading outputs of the jaxpr that are new values of Refs

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, in their structure."""
        avals = self.jaxpr.out_avals[self._hidden :]
        return pytree.unflatten(self.out_tree, [struct_of(aval) for aval in avals])

    def explain(self) -> str:
        """What compilation does to each loop of the function, and why not more."""
        return report(self.fun_name, self.jaxpr.jaxpr)

    def lower(self) -> Lowered:
        """Write the StableHLO module."""
        if self._program is None:
            raise ValueError(
                message(
                    "A function that captures values of an enclosing transformation cannot be compiled by itself.",
                    f"function: {self.fun_name}",
                    fix="Pass those values as arguments, or lower the enclosing function.",
                )
            )
        return Lowered(self, self._program, self._program.partition_for(self._leaves))


class Lowered(Stage):
    """A StableHLO module, ready to compile."""

    def __init__(self, traced: Traced, program: Program, partition: Any):
        super().__init__(traced._avals, traced._donated)
        self._traced = traced
        self._program = program
        self._partition = partition
        self.in_tree = traced.in_tree
        self.out_tree = traced.out_tree
        self.out_info = traced.out_info

    def as_text(self, *, debug_info: bool = False) -> str:
        """The StableHLO text; with `debug_info` each operation with its names (`named_scope`) and the user's line."""
        return self._program.text(partition=self._partition, located=debug_info)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work of the program as it is written: 'flops', 'bytes accessed', ..."""
        from didax.xla.compile import estimated_cost  # loads XLA: on first need

        return estimated_cost(self.as_text())

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile with XLA, whose options are an argument of `jit`."""
        if compiler_options:
            rule = "The compiler's options are part of the jitted function."
            fix = "Pass them there: jit(f, compiler_options=...)."
            raise NotImplementedError(message(rule, f"compiler_options: {compiler_options}", fix=fix))
        return Compiled(self._traced, self._program, self._partition)


class Compiled(Stage):
    """A compiled program for one signature; call it with arguments of exactly that signature."""

    def __init__(self, traced: Traced, program: Program, partition: Any):
        super().__init__(traced._avals, traced._donated)
        self._traced = traced
        self._program = program
        self._executable = program.executable(partition)
        self.in_tree = traced.in_tree
        self.out_tree = traced.out_tree
        self.out_info = traced.out_info

    @property
    def out_avals(self) -> Any:
        """Types of the results, in their structure."""

        def type_of(struct: ShapeDtypeStruct) -> ShapedArray:
            return struct.aval

        return pytree.map(type_of, self.out_info)

    def runtime_executable(self) -> Any:
        """XLA's executable."""
        return self._executable.loaded

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten_arguments(args, kwargs)
        avals = tuple(x.type if isinstance(x, Ref) else aval_of(x) for x in leaves)
        wanted = self._traced.jaxpr.in_avals
        if tree != self.in_tree or any(
            a.shape != b.shape or a.dtype != b.dtype for a, b in zip(avals, wanted, strict=True)
        ):
            raise TypeError(
                message(
                    f"The compiled function {self._traced.fun_name} takes arguments of exactly "
                    "the types it was compiled for.",
                    f"compiled for: {', '.join(map(str, wanted))} in {self.in_tree}",
                    f"got: {', '.join(map(str, avals))} in {tree}",
                    fix="Cast or reshape the arguments, or call the jitted function, which compiles anew.",
                )
            )
        return pytree.unflatten(self.out_tree, self._traced.run(leaves))

    @property
    def input_shardings(self) -> tuple[Any, dict[str, Any]]:
        """How the arguments lie on devices: positional ones and keywords, in their structure."""
        kept = self._program.kept
        every = range(self.in_tree.num_leaves) if kept is None else kept
        found = self._shardings("in_shardings")
        given = dict(zip(every, found[len(found) - len(every) :], strict=True))
        return pytree.unflatten(self.in_tree, [given.get(i) for i in range(self.in_tree.num_leaves)])

    @property
    def output_shardings(self) -> Any:
        """How the results lie on devices, in their structure."""
        return pytree.unflatten(self.out_tree, self._shardings("out_shardings"))

    def _shardings(self, which: str) -> list[Any]:
        from didax.xla.client import backend

        single = backend().shardings[self._executable.device or backend().default_device]
        count = len(self._program.jaxpr.invars if which == "in_shardings" else self._program.jaxpr.outvars)
        return list(getattr(self._executable, which, ())) or [single] * count

    def as_text(self) -> str:
        """The optimised HLO of the executable."""
        return self._executable.loaded.hlo_modules()[0].to_string()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work: 'flops', 'bytes accessed', ..."""
        found: dict[str, float] | list[dict[str, float]] = self._executable.loaded.cost_analysis()
        return found[0] if isinstance(found, list) else found

    def memory_analysis(self) -> Any:
        """Bytes of arguments, outputs, temporaries and code."""
        return self._executable.loaded.get_compiled_memory_stats()
