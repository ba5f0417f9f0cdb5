"""The stages of compilation, one object each: `Traced` (a jaxpr), `Lowered` (StableHLO), `Compiled` (an executable).

One after the other: `jit(f).trace(x).lower().compile()(x)`.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from didax.api.flat import flatten_arguments, narrowed_scalar
from didax.api.jit_cache import ABSENT, JitCache
from didax.api.repeated_calls import RepeatedCalls
from didax.api.specialization import Results
from didax.core import config, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import as_length, is_symbolic
from didax.core.dtypes import dtype as as_dtype
from didax.core.errors import ArgumentError, message
from didax.core.exact import exact_structure
from didax.core.jaxpr import ClosedJaxpr, Jaxpr
from didax.core.layout import Format, check_rank, row_major
from didax.core.memory import DEVICE
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.ref import Ref, RefType
from didax.core.sharding import NamedSharding, Sharding
from didax.core.tracing import Tracer
from didax.passes.loops import report
from didax.runtime.array import ConcreteArray, as_concrete, chosen_device, on_one_device
from didax.runtime.collectives import collectives_in
from didax.runtime.collectives import report as exchanges_report
from didax.runtime.compiled import Program
from didax.runtime.partitioned import Asked, check_placed
from didax.runtime.sharded import ShardedArray, place
from didax.xla.device_text import Collective
from didax.xla.platforms import check_platforms, joined, platform

if TYPE_CHECKING:
    from didax.core.manual_axes import ManualAxisType


class ShapeDtypeStruct:
    """A shape and a dtype, in the place of an array.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("aval", "sharding")

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
    ):  # fmt: skip
        if dtype is None:
            rule = "A ShapeDtypeStruct states a dtype."
            raise ArgumentError(
                message(rule, f"shape: {shape!r}, dtype: None", fix="Pass a dtype such as 'float32'.")
            )
        if isinstance(sharding, Format):  # XLA chooses the order of the axes in memory
            check_rank(sharding.layout, shape)
            sharding = sharding.sharding
        if not (sharding is None or isinstance(sharding, Sharding) or hasattr(sharding, "device_set")):
            fix = "Leave sharding out, or pass that of an array (x.sharding)."
            raise ArgumentError(
                message(
                    "A sharding says on which devices arrays are.", f"sharding: {sharding!r:.100}", fix=fix
                )
            )
        self.sharding = sharding
        varying = _varying(manual_axis_type)
        try:
            lengths = tuple(map(as_length, shape))
        except TypeError:
            rule = "The shape of a ShapeDtypeStruct is a sequence of ints."
            raise ArgumentError(message(rule, f"shape: {shape!r:.100}", fix="Pass a tuple, (n,).")) from None
        self.aval = ShapedArray(lengths, as_dtype(dtype), weak_type, varying)

    shape = property(lambda self: self.aval.shape, doc="Length of each axis.")
    dtype = property(lambda self: self.aval.dtype, doc="Type of the elements.")
    ndim = property(lambda self: self.aval.ndim, doc="Number of axes.")
    size = property(lambda self: self.aval.size, doc="Number of elements.")
    weak_type = property(lambda self: self.aval.weak_type, doc="True when nobody stated the dtype.")

    @property
    def format(self) -> Format:
        """In which order the elements lie in memory, where that is said, and on which devices."""
        return Format(None, None) if self.sharding is None else row_major(self.ndim, self.sharding)

    manual_axis_type = property(
        lambda self: self.aval.manual_axis_type,
        doc="Along which manual axes the values of devices may differ.",
    )

    @staticmethod
    def like(x: Any) -> ShapeDtypeStruct:
        """The shape, dtype, weak type of an array, or of what may stand for one; its sharding if the user placed it.

        >>> ShapeDtypeStruct.like(2.0)
        ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
        """
        aval = aval_of(narrowed_scalar(x))
        sharding = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
        return struct_of(aval, sharding)

    def update(self, **parts: Any) -> ShapeDtypeStruct:
        """The same with some parts replaced: shape, dtype, weak_type, sharding, manual_axis_type."""
        names = ("shape", "dtype", "weak_type", "sharding", "manual_axis_type")
        own = {name: getattr(self, name) for name in names}
        return ShapeDtypeStruct(**own | parts)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ShapeDtypeStruct)
            and other.aval is self.aval
            and other.sharding == self.sharding
        )

    def __hash__(self) -> int:
        return hash(self.aval)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        varying = f", manual_axis_type={self.manual_axis_type}" if self.aval.vma else ""
        lies = "" if self.sharding is None else f", sharding={self.sharding}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{lies}{weak}{varying})"


def _varying(kinds: ManualAxisType | None) -> frozenset[str]:
    """The axes along which a struct varies; raises for what no type has here."""
    if kinds is None:
        return frozenset()
    from didax.core.manual_axes import ManualAxisType

    if not isinstance(kinds, ManualAxisType):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = "Pass typeof(x).manual_axis_type, or sharding.ManualAxisType(varying={...})."
        raise TypeError(
            message("A manual_axis_type is a ManualAxisType.", f"manual_axis_type: {kinds!r:.100}", fix=fix)
        )
    if kinds.unreduced or kinds.reduced:
        rule = "Types say along which manual axes values vary, and not which sums are still to be taken."
        fix = "Leave out unreduced and reduced; lax.psum takes the sum."
        raise NotImplementedError(message(rule, f"manual_axis_type: {kinds}", fix=fix))
    return frozenset(kinds.varying)


def _as_placed(sharding: NamedSharding | None) -> Any:
    """The sharding as arrays have it: that of one device where the mesh stands for a device alone."""
    if sharding is None or not sharding.is_one_device:
        return sharding
    from didax.xla.client import backend

    return backend().in_memory(sharding.devices[0], sharding.kind)


def struct_of(aval: ShapedArray, sharding: Any = None) -> ShapeDtypeStruct:
    """The struct for an abstract value, which lies as its type says if nothing else does."""
    found = ShapeDtypeStruct(
        aval.shape,
        aval.dtype,
        weak_type=aval.weak_type,
        sharding=aval.layout if sharding is None else sharding,
    )
    if aval.vma:
        found.aval = found.aval.update(vma=aval.vma)
    return found


@dataclasses.dataclass(frozen=True)
class ArgInfo:
    """The type of an array of the arguments, and whether results may take its memory.

    >>> import didax as dx, numpy as np
    >>> (x,), _ = dx.jit(lambda x: x + 1).trace(np.ones(3, "float32")).args_info
    >>> x.shape, x.dtype, x.donated
    ((3,), dtype('float32'), False)
    """

    aval: ShapedArray
    donated: bool

    shape = property(lambda self: self.aval.shape, doc="Length of each axis.")
    dtype = property(lambda self: self.aval.dtype, doc="Type of the elements.")


CompilerOptions = dict[str, str | bool | int | float]
"""XLA's options by name."""


class Stage:
    """What all stages know: the arguments and results, in their structures."""

    fun_name: str
    in_tree: Any
    out_tree: Any
    args_info: Any
    out_info: Any

    @property
    def in_avals(self) -> Any:
        """Types of the arguments: positional ones and keywords, in their structure."""
        infos: list[ArgInfo] = pytree.leaves(self.args_info)
        return pytree.unflatten(self.in_tree, [info.aval for info in infos])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arrays of the arguments, by number, whose memory results may take."""
        return tuple([i for i, info in enumerate(pytree.leaves(self.args_info)) if info.donated])

    def __repr__(self) -> str:
        types = ", ".join([str(info.aval) for info in pytree.leaves(self.args_info)])
        results = ", ".join([str(struct.aval) for struct in pytree.leaves(self.out_info)])
        return f"<{type(self).__name__} {self.fun_name}: ({types}) -> ({results})>"

    def __reduce__(self) -> Any:
        rule = "The stages of compilation belong to their process, and cannot be pickled."
        fix = "Use didax.export to save a program, or didax.experimental.serialize_executable a compiled one."
        raise TypeError(message(rule, f"stage: {self!r}", fix=fix))

    def __copy__(self) -> Stage:
        return self

    def _follow(self, stage: Stage) -> None:
        self.fun_name = stage.fun_name
        self.in_tree, self.out_tree = stage.in_tree, stage.out_tree
        self.args_info, self.out_info = stage.args_info, stage.out_info


class Traced(Stage):
    """A function staged for one signature.

    `jit(f).trace(x)` makes one.

    >>> import didax as dx
    >>> dx.jit(lambda x: x + 1).trace(2.0).jaxpr
    { lambda ; a:f32[]*. let
        b:f32[]* = add a 1.0:f32[]*
      in (b,) }
    """

    def __init__(
        self,
        name: str,
        jaxpr: Jaxpr,
        consts: Sequence[Any],
        in_tree: Any,
        out_tree: Any,
        program: Program | None,
        run: Callable[[Sequence[Any], Program], list[Any]],
        hidden: int = 0,
        leaves: Sequence[Any] = (),
        donated: Sequence[bool] = (),
        again: Callable[[], Traced] | None = None,
    ):
        self.fun_name = name
        self.closed = ClosedJaxpr(jaxpr, tuple(consts))
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.run = run
        self._program = program
        self._leaves = leaves
        self._again = again  # stages it anew
        self.num_captured = len(leaves) - in_tree.num_leaves  # Refs of the surroundings, before the arguments
        self.takes_refs = any(isinstance(x, Ref | RefType) for x in leaves)
        avals = self.closed.in_avals[len(self.closed.in_avals) - in_tree.num_leaves :]
        marks = donated or [False] * len(avals)
        self.args_info = pytree.unflatten(in_tree, list(map(ArgInfo, avals, marks)))
        results = self.closed.out_avals[hidden:]  # those before are new values of Refs
        self.out_avals = pytree.unflatten(out_tree, list(results))
        asked = () if program is None else map(_as_placed, program.asked_results)
        structs = [struct_of(aval, s) for aval, s in itertools.zip_longest(results, asked)]
        self.out_info = pytree.unflatten(out_tree, structs)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program, with the values that the function captures."""
        return self.closed

    def program_of(self, jaxpr: Jaxpr) -> tuple[Program, Any] | None:
        """The program, of a jaxpr that differs from its own in lines of equations only, and where it runs.

        None for a function that captures values of an enclosing transformation.
        """
        if self._program is None:
            return None
        return self._program.of_equal_jaxpr(jaxpr), self._program.partition_for(self._leaves)

    def explain(self) -> str:
        """What compilation does to each loop, and why not more; on several devices, what these exchange."""
        partition = None if self._program is None else self._program.partition_for(self._leaves)
        if self._program is None or partition is None:
            return report(self.fun_name, self.closed.jaxpr)
        exchanges = collectives_in(self._program, partition)
        return f"{self.fun_name}: {exchanges_report(exchanges, len(partition.devices))}"

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Write the StableHLO module, for the platform of the process or for others: "cpu", "cuda", "rocm", "tpu".

        The function is staged anew for each other platform, which the process need not have. The module of several has
        the number of the platform as its first argument. Raises ValueError for symbolic shapes, for a function that
        captures values of an enclosing transformation, and for a program that calls Python on another platform;
        NotImplementedError for an operation that a platform has not.
        """
        if any(is_symbolic(n) for aval in self.closed.jaxpr.in_avals for n in aval.shape):
            fix = "Lower with numbers as shapes, or save it with didax.export."
            facts = f"function: {self.fun_name}, arguments: {', '.join(map(str, self.closed.in_avals))}"
            raise ValueError(message("A program with symbolic shapes is not lowered.", facts, fix=fix))
        if self._program is None:
            raise ValueError(
                message(
                    "A function that captures values of an enclosing transformation cannot be compiled by itself.",
                    f"function: {self.fun_name}",
                    fix="Pass those values as arguments, or lower the enclosing function.",
                )
            )
        asked = tuple(lowering_platforms or ())
        staged = {} if asked in ((), (platform(),)) else self._staged_for(asked)
        return Lowered(self, self._program, self._program.partition_for(self._leaves), staged)

    def _staged_for(self, platforms: tuple[str, ...]) -> dict[str, Traced]:
        """The function, staged anew for each platform."""
        check_platforms("lowering_platforms", platforms)
        if self._again is None:
            rule = "A program of padded arrays is lowered for the platform of the process."
            facts = f"function: {self.fun_name}, lowering_platforms: {', '.join(platforms)}"
            raise ValueError(message(rule, facts, fix="Leave bucket= out."))
        staged: dict[str, Traced] = {}
        for name in platforms:
            with config.override(lowering_platform=name):
                staged[name] = self._again()
        return staged

    def device(self) -> Any:
        """The one device that arguments or captured arrays were placed on; None where nobody placed any."""
        placed = None if self._program is None else self._program.device_of(self._leaves)
        if placed is not None:
            return placed
        structs = [x.sharding for x in self._leaves if isinstance(x, ShapeDtypeStruct) and x.sharding]
        found = {next(iter(sharding.device_set)) for sharding in structs if len(sharding.device_set) == 1}
        return found.pop() if len(found) == 1 else None

    def text_for(self, name: str, located: bool = False) -> str:
        """The StableHLO module for a platform; ValueError where it calls functions of this process."""
        assert self._program is not None
        callbacks: list[Any] = []
        partition = self._program.partition_for(self._leaves)
        text = self._program.text(callbacks, partition, located, platform=name)
        if callbacks:
            rule, fix = "A program for another platform calls no Python.", "Lower the part without callbacks."
            raise ValueError(message(rule, f"function: {self.fun_name}, platform: {name}", fix=fix))
        return text


class Lowered(Stage):
    """A StableHLO module, ready to compile.

    `jit(f).lower(x)` makes one.

    >>> import didax as dx
    >>> lowered = dx.jit(lambda x: x * x).lower(2.0)
    >>> "stablehlo.multiply" in lowered.as_text()
    True
    """

    def __init__(
        self,
        traced: Traced,
        program: Program,
        partition: Any,
        staged: Mapping[str, Traced] = MappingProxyType({}),
    ):
        self._traced = traced
        self._program = program
        self._partition = partition
        self._staged = staged  # by platform, if others than that of the process were asked for
        self._follow(traced)
        if staged:
            self._text()  # raises for what a platform has not

    def _text(self, located: bool = False) -> str:
        if not self._staged:
            return self._program.text(partition=self._partition, located=located)
        return joined({name: traced.text_for(name, located) for name, traced in self._staged.items()})

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The StableHLO text, or with `dialect` "hlo" that of XLA's own representation.

        With `debug_info` each operation has its names (`named_scope`) and the user's line.
        """
        text = self._text(debug_info)
        return text if _checked_dialect(dialect) == "stablehlo" else self._inspect("hlo_text", text)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module as an object of jaxlib's: of MLIR, or with `dialect` "hlo" an `XlaComputation`."""
        what = "module_of" if _checked_dialect(dialect) == "stablehlo" else "computation_of"
        return self._inspect(what, self._text())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work before it optimises: 'flops', 'bytes accessed', ..."""
        return self._inspect("cost_of", self._text())

    def _inspect(self, what: str, text: str) -> Any:
        from didax.xla import program_views  # loads jaxlib: on first need

        return getattr(program_views, what)(text)

    def compile(self, compiler_options: CompilerOptions | None = None) -> Compiled:
        """Compile with XLA; with options in addition to those of the jitted function.

        ValueError for a program that was lowered for other platforms than that of the process.
        """
        if self._staged:
            facts = f"lowering_platforms: {', '.join(self._staged)}, this process: {platform()}"
            fix = "Lower it without lowering_platforms=, or use .as_text()."
            raise ValueError(
                message("A program is compiled for the platform of the process.", facts, fix=fix)
            )
        program = self._program.with_options(compiler_options) if compiler_options else self._program
        return Compiled(self._traced, program, self._partition)


def _checked_dialect(dialect: str | None) -> str:
    if dialect not in (None, "stablehlo", "hlo"):
        fix = 'Use "stablehlo" or "hlo".'
        raise ValueError(message("A lowered program has no such dialect.", f"dialect: {dialect!r}", fix=fix))
    return dialect or "stablehlo"


class Compiled(RepeatedCalls[..., Any], Stage):
    """A compiled program for one signature; call it with arguments of exactly that signature.

    Raises TypeError for arguments of other shapes, dtypes or structures, and for traced arrays: it can no
    longer be transformed.

    >>> import didax as dx
    >>> square = dx.jit(lambda x: x * x).lower(2.0).compile()
    >>> float(square(3.0))
    9.0
    """

    def __init__(self, traced: Traced, program: Program, partition: Any):
        self._traced = traced
        self._program = program
        self._partition = partition
        self._device = traced.device() if partition is None else None  # to which arguments are moved
        self._default_device = chosen_device()
        self._executable = program.executable(self._device if partition is None else partition)
        self._follow(traced)
        self._structure = exact_structure(self.in_tree)
        structs = pytree.leaves(self.out_info)
        laid = zip(structs, pytree.leaves(self.output_shardings), strict=True)
        self.out_info = pytree.unflatten(self.out_tree, [x.update(sharding=s) for x, s in laid])
        self._results = Results(self.out_tree, program)
        hides_results = len(traced.closed.out_avals) != self.out_tree.num_leaves
        self._is_repeated = partition is None and not traced.takes_refs and not hides_results
        self._cache = JitCache()  # of calls only
        self._codes = self._cache.codes

    @property
    def out_avals(self) -> Any:
        """Types of the results, in their structure."""
        return pytree.map(operator.attrgetter("aval"), self.out_info)

    def call_by_signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for arguments of this signature; TypeError for others."""
        leaves, tree = flatten_arguments(args, kwargs)
        kind = (tree, (), config.state())
        if (
            current_trace_var.get() is eager_trace
            and (result := self._repeat(kind, leaves, args, kwargs)) is not ABSENT
        ):
            return result
        self._check(leaves, tree)
        outs = self._traced.run(self._placed(leaves), self._program)
        if self._is_repeated:
            self._remember(self._results, kind, leaves, self._executable)
        return pytree.unflatten(self.out_tree, outs)

    def _check(self, leaves: list[Any], tree: Any) -> None:
        traced = [x for x in leaves if isinstance(x, Tracer)]
        if traced:
            rule = f"The compiled function {self._traced.fun_name} takes no traced arrays: it cannot be transformed."
            raise TypeError(
                message(rule, *traced[0].facts(), fix="Call or transform the jitted function instead.")
            )
        avals = tuple(x.type if isinstance(x, Ref) else aval_of(x) for x in leaves)
        wanted = self._traced.closed.in_avals
        if tree != self._structure or any(
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

    def _placed(self, leaves: list[Any]) -> list[Any]:
        """The arguments where the program wants them; ValueError where the user has placed one elsewhere."""
        if not getattr(self._executable, "in_shardings", ()):
            return leaves if self._program.is_loaded else self._on_its_device(leaves)
        placed = list(leaves)
        for i, sharding in self._layouts().items():
            where = f"argument {i} of the compiled function {self._traced.fun_name}"
            check_placed(leaves[i], Asked(sharding, where))
            if isinstance(leaves[i], ShardedArray | Ref):
                continue
            if isinstance(sharding, NamedSharding):
                placed[i] = place(leaves[i], sharding)
            elif sharding.memory_kind != DEVICE:
                (device,) = sharding.device_set
                placed[i] = on_one_device(as_concrete(leaves[i]), device, sharding.memory_kind)
        return placed

    def _on_its_device(self, leaves: list[Any]) -> list[Any]:
        from didax.xla.client import backend

        device, placed = self._device or self._default_device or backend().default_device, list(leaves)
        for i in self._layouts():
            x = leaves[i]
            if isinstance(x, ConcreteArray) and x.committed and x.place != device:
                rule = "The arguments of a compiled function that are placed lie on the device it was compiled for."
                where = f"argument {i} of the compiled function {self.fun_name}"
                fix = "Move it before, device_put(x, device), or call the jitted function."
                raise ValueError(
                    message(rule, where, f"compiled for: {device}", f"placed on: {x.place}", fix=fix)
                )
            if self._device is not None and not isinstance(x, Ref) and not getattr(x, "committed", False):
                placed[i] = on_one_device(as_concrete(x), device)
        return placed

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What a call of the object itself returns."""
        return self(*args, **kwargs)

    @property
    def parts(self) -> tuple[Traced, Program, Any]:
        """What it is made of, for those who save it: the staged function, its program, and where that runs."""
        return self._traced, self._program, self._partition

    def runtime_executable(self) -> Any:
        """jaxlib's executable."""
        return self._executable.loaded

    @property
    def input_shardings(self) -> tuple[Any, dict[str, Any]]:
        """How the arguments lie on devices: positional ones and keywords, in their structure."""
        given = self._layouts()
        return pytree.unflatten(self.in_tree, [given.get(i) for i in range(self.in_tree.num_leaves)])

    @property
    def output_shardings(self) -> Any:
        """How the results lie on devices, in their structure."""
        found = self._shardings("out_shardings")
        return pytree.unflatten(self.out_tree, found[len(found) - self.out_tree.num_leaves :])

    @property
    def input_formats(self) -> tuple[Any, dict[str, Any]]:
        """The layout and the sharding of each argument: positional ones and keywords, in their structure.

        Without both for an argument that the program does not use: `device_put` leaves it where it is.
        """
        given = self._layouts()
        formats = [
            row_major(aval.ndim, given[i]) if i in given else Format()
            for i, aval in enumerate(pytree.leaves(self.in_avals))
        ]
        return pytree.unflatten(self.in_tree, formats)

    @property
    def output_formats(self) -> Any:
        """The layout and the sharding of each result, in their structure.

        >>> import didax as dx, didax.numpy as dnp
        >>> dx.jit(lambda x: x + 1).lower(dnp.ones(8)).compile().output_formats.layout.major_to_minor
        (0,)
        """
        return pytree.map(operator.attrgetter("format"), self.out_info)

    def _layouts(self) -> dict[int, Any]:
        """How each argument that the program uses lies on devices, by its number."""
        program, first, count = self._program, self._traced.num_captured, self.in_tree.num_leaves
        kept = range(program.num_arguments) if program.kept is None else program.kept
        found = self._shardings("in_shardings")
        laid = zip(kept, found[len(found) - len(kept) :], strict=True)
        return {i - first: sharding for i, sharding in laid if first <= i < first + count}

    def _shardings(self, which: str) -> list[Any]:
        from didax.xla.client import backend

        single = backend().shardings[self._executable.device or backend().default_device]
        count = len(self._program.jaxpr.invars if which == "in_shardings" else self._program.jaxpr.outvars)
        found = list(getattr(self._executable, which, ())) or [single] * count
        return [_as_placed(s) if isinstance(s, NamedSharding) else s for s in found]

    def as_text(self) -> str:
        """The optimised HLO of the executable."""
        return self._executable.loaded.hlo_modules()[0].to_string()

    def collectives(self) -> list[Collective]:
        """What devices exchange: the kind, the groups of devices, bytes, how often, and the user's line.

        Empty for a program on one device. XLA's partitioner and its optimiser choose; this is read in the program that
        they made. The attributes are those of `didax.stages.Collective`.

        >>> import didax as dx, didax.numpy as dnp
        >>> dx.jit(lambda x: x + 1).lower(dnp.ones(8)).compile().collectives()
        []
        """
        return collectives_in(self._program, self._partition)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work: 'flops', 'bytes accessed', ..."""
        found: dict[str, float] | list[dict[str, float]] = self._executable.loaded.cost_analysis()
        return found[0] if isinstance(found, list) else found

    def memory_analysis(self) -> Any:
        """Bytes of arguments, outputs, temporaries and code."""
        return self._executable.loaded.get_compiled_memory_stats()
