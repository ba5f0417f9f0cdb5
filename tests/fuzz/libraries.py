"""The two libraries that run a program's text: namespaces, types of expressions, options.

`didax_` and `jax_` have one interface, so that every other module of the fuzzer is written once for both.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import ml_dtypes
import numpy as onp

import didax
from tests.fuzz.program import MODULES, Program, Statement, Type

Refusal = Exception  # a library may refuse a program by any exception


class Library:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.name = root.__name__
        self.namespace: dict[str, Any] = {
            "lib": root,
            "onp": onp,
            "ml_dtypes": ml_dtypes,
            "leaves": root.tree.leaves,
            **{
                short: importlib.import_module(f"{self.name}.{long}")
                for short, long in {**MODULES, "custom": "custom_derivatives"}.items()
            },
        }
        importlib.import_module(f"{self.name}.lax.linalg")
        importlib.import_module(f"{self.name}.nn.initializers")

    def has_x64(self) -> bool:
        """Whether values have 64 bits where nothing else is said: an option of the process."""
        return bool(self.root.config.jax_enable_x64)

    @contextmanager
    def options(self, x64: bool) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self.root.enable_x64(x64))
            if self.name == "didax":
                stack.enter_context(didax.debug_key_reuse("off"))
            yield

    def function(self, lines: Sequence[str], name: str, **more: Any) -> Callable[..., Any]:
        """The function that these lines define."""
        namespace = {**self.namespace, **more}
        exec("\n".join(lines), namespace)  # the text is the fuzzer's own
        return namespace[name]

    def program(self, program: Program) -> Callable[..., Any]:
        return self.function(program.lines(), "program")

    # --- Types ------------------------------------------------------------------------------------------------

    def struct(self, type_: Type) -> Any:
        dtype = self.root.random.key(0).dtype if type_.dtype == "key" else onp.dtype(type_.dtype)
        return self.root.ShapeDtypeStruct(type_.shape, dtype, weak_type=type_.weak)

    def type_of(self, x: Any) -> Type:
        aval = self.root.typeof(x) if not isinstance(x, self.root.ShapeDtypeStruct) else x
        dtype = "key" if str(aval.dtype).startswith("key") else str(onp.dtype(aval.dtype))
        weak = bool(aval.weak_type) and dtype != "bool"  # a bool promotes in one way, weak or not
        return Type(tuple(aval.shape), dtype, weak)

    def types_of(self, statement: Statement, types: dict[str, Type]) -> tuple[list[Type], bool]:
        """Types of the statement's leaves, and whether its expression is one array; raises what the library raises."""
        used = statement.used()
        blocks = [f"    {line}" for block in statement.blocks for line in block.lines()]
        lines = [f"def expression({', '.join(used)}):", *blocks, f"    return {statement.text}"]
        expression = self.function(lines, "expression")
        found = self.root.eval_shape(expression, *[self.struct(types[name]) for name in used])
        leaves = self.root.tree.leaves(found)
        return [self.type_of(x) for x in leaves], len(leaves) == 1 and leaves[0] is found


didax_, jax_ = Library(didax), Library(jax)


def dtype_of(name: str) -> onp.dtype[Any]:
    return onp.dtype(name)


def kind_of(dtype: str) -> str:
    """b, i, u, f, c as in NumPy; bfloat16 and its kin are f; k for keys."""
    if dtype == "key":
        return "k"
    kind = onp.dtype(dtype).kind
    if kind != "V":
        return kind
    return "f" if "float" in dtype else "u" if dtype.startswith("u") else "i"
