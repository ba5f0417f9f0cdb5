"""`Specialization`: a jitted function staged for one signature, ready to run or to be bound as one equation.

    s = Specialization(staged program of f for the types of x, ...)
    s.result(s.run([x]))      the compiled program, on concrete arguments
    s.result(s.bind([x]))     one `jit_p` equation, under another transformation

A signature is the types and the structure of the arguments, the static arguments, the options and the named axes in
force. Read next: `jit.py` (which makes them), `ref_programs.py` (programs that write to Refs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.api.flat import FlatFunction
from didax.api.jit_options import JitSettings
from didax.api.jit_shardings import LaidOut
from didax.api.ref_programs import ref_operands, run_with_refs
from didax.api.refs import RefArguments, store
from didax.core import pytree
from didax.core.ref import Ref
from didax.core.sharding import NamedSharding
from didax.core.tracing import Tracer
from didax.primitives.call import jit_p
from didax.runtime.array import as_concrete
from didax.runtime.compiled import Program
from didax.runtime.partitioned import Asked
from didax.runtime.value_checks import with_index_checks
from didax.transforms.staging import StagedProgram, values_of


class Results:
    """What a program computes, in the structure of its function."""

    __slots__ = ("is_tuple", "out_tree", "program", "single")

    def __init__(self, out_tree: Any, program: Program | None):
        self.out_tree = out_tree
        self.program: Program | None = program
        self.single = out_tree == pytree.structure(0)  # the result is one array, in no container
        self.is_tuple = out_tree == pytree.structure((0,) * out_tree.num_leaves)  # of arrays

    def result(self, outs: Sequence[Any]) -> Any:
        """The result in the function's own structure."""
        return (
            outs[0]
            if self.single
            else tuple(outs)
            if self.is_tuple
            else pytree.unflatten(self.out_tree, outs)
        )


class Specialization(Results):
    """A function staged for one signature: its jaxpr, captured values, result structure, and compiled program."""

    __slots__ = ("captured", "jaxpr", "refs")

    def __init__(
        self,
        staged: StagedProgram,
        arguments: RefArguments,
        function: FlatFunction | LaidOut,
        donated: Sequence[bool],
        settings: JitSettings,
        names: Sequence[str],
    ):
        super().__init__(function.out_tree, None)
        self.jaxpr = staged.jaxpr
        self.captured = [x if isinstance(x, Tracer | Ref) else as_concrete(x) for x in staged.captured]
        self.refs = refs = ref_operands(self.captured, staged.num_written, arguments)
        constants = self.captured if refs is None else self.captured[: refs.num_constants]
        if refs is not None:
            donated = refs.donated(donated, len(self.jaxpr.invars))
        if not self.captures_tracers:
            asked: Sequence[Asked | None] = ()
            asked_results: Sequence[NamedSharding | None] = ()
            if isinstance(function, LaidOut):
                asked, asked_results = function.asked, function.of_results
            names = [f"argument {name}" for name in names]
            if refs is not None:
                num_refs = len(self.captured) - refs.num_constants
                asked = [*[None] * num_refs, *asked] if asked else ()
                names = [*["a captured Ref"] * num_refs, *names]
            self.program = Program(
                with_index_checks(self.jaxpr),
                constants,
                donated,
                settings.compiler_options,
                keep_unused=settings.keep_unused,
                in_background=settings.compile_in_background,
                replaced=() if refs is None else refs.written,
                asked=asked,
                asked_results=asked_results,
                names=names,
            )

    @property
    def captures_tracers(self) -> bool:
        """True when the function closed over values of an enclosing transformation: valid for this call only."""
        return any(not x.is_eager if isinstance(x, Ref) else isinstance(x, Tracer) for x in self.captured)

    @property
    def written(self) -> tuple[int, ...]:
        """The inputs of the jaxpr that are Refs written to: their new values are the leading outputs."""
        return () if self.refs is None else self.refs.written

    def run(self, leaves: Sequence[Any], program: Program | None = None) -> list[Any]:
        """Leaves of the result for concrete arguments, by the program or one with other options."""
        program = program or self.program
        assert program is not None
        if self.refs is None:
            return program.run(leaves)
        return run_with_refs(program, self.refs, [*self.captured, *leaves])

    def bind(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Leaves of the result under the current trace, where the call stays one equation."""
        operands: list[Any] = [*self.captured, *leaves]
        refs = [operands[i] for i in self.written]
        return store(refs, jit_p.bind(*values_of(operands), jaxpr=self.jaxpr))
