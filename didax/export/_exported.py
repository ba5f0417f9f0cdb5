"""`export(jit(f))(x)` and `deserialize(data)`: programs without their Python, and the calls of them.

A program of concrete shapes is a StableHLO module. A program of symbolic shapes is the text of its jaxpr (`_text.py`),
together with a module of open lengths, which jax can read, where it has one (`xla/open_text.py`). Programs of symbolic
shapes that jax exported are modules, which XLA refines.
Read next: `_file.py`; `didax/primitives/exported.py`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from didax.api.autodiff import vjp
from didax.api.custom import custom_vjp
from didax.api.flat import as_array, flatten_arguments
from didax.api.jit import jit
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import Scope, evaluate, is_symbolic, variable
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.mesh import Mesh
from didax.core.sharding import NamedSharding
from didax.export import _file
from didax.export._devices import (
    Layout,
    check_meshes,
    devices_of_call,
    layout_of,
    of_inputs,
    on_devices,
    on_meshes,
    shardings_over,
    without_lone_devices,
    written,
)
from didax.export._symbolic import SymbolicScope, scope_of, solve
from didax.export._text import MARK, TextProgram, numbers_of, write_text
from didax.primitives import dimension  # noqa: F401, dimensions become numbers
from didax.primitives.custom.constant import Held, constant_p
from didax.primitives.exported import Artifact, exported_p
from didax.primitives.keys import impl_of, random_clone_p
from didax.runtime.partitioned import partition_of
from didax.xla.artifacts import module_text, serialize_module
from didax.xla.lowering import lower_module
from didax.xla.open_text import lower_open_module
from didax.xla.platforms import check_platforms, joined, platform
from didax.xla.text import NoOpenForm

minimum_supported_calling_convention_version = _file.CONVENTIONS.start
maximum_supported_calling_convention_version = _file.CONVENTIONS.stop - 1

T = TypeVar("T")


class DisabledSafetyCheck:
    """A check that export, or the call of an exported program, leaves out: `platform()` or `custom_call(name)`.

    >>> import didax as dx
    >>> dx.export.DisabledSafetyCheck.custom_call("scale").is_custom_call()
    'scale'
    """

    def __init__(self, text: str):
        self._text = text

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """A program may be called on platforms that it was not exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """A program may call this function of yours (`didax.ffi`), which the process that loads it has to register."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the function, if the check is one of functions."""
        kind, _, name = self._text.partition(":")
        return name if kind == "custom_call" else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return self._text


class Exported:
    """A program for arguments of given types, which needs none of the Python that it was made from.

    Attributes are those of `jax.export.Exported`: `fun_name`, `in_tree`, `in_avals`, `out_tree`, `out_avals`,
    `platforms`, `nr_devices`, `disabled_safety_checks`, `mlir_module_serialized`, `calling_convention_version`,
    `module_kept_var_idx`, `uses_global_constants`, and names of `ordered_effects` and `unordered_effects`.

    >>> import didax as dx
    >>> f = dx.export.export(dx.jit(lambda x: x + 1))(dx.ShapeDtypeStruct((2,), "float32"))
    >>> f.in_avals, f.nr_devices, f.has_vjp()
    ((float32[2],), 1, True)
    """

    @api_boundary
    def __init__(
        self,
        fun_name: str,
        trees: tuple[Any, Any],
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        module: bytes,
        platforms: Sequence[str],
        checks: Sequence[DisabledSafetyCheck] = (),
        make_vjp: Callable[[], Exported] | None = None,
        **more: Any,
    ):
        self.fun_name = fun_name
        self.in_tree, self.out_tree = trees
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self.platforms = tuple(platforms)
        self.disabled_safety_checks = tuple(checks)
        self.mlir_module_serialized = module
        self.nr_devices: int = more.get("nr_devices", 1)
        self._layout: Layout = more.get("layout") or written(
            [None] * len(self.in_avals), [None] * len(self.out_avals)
        )
        self.calling_convention_version: int = more.get(
            "convention", maximum_supported_calling_convention_version
        )
        self.module_kept_var_idx: tuple[int, ...] = tuple(more.get("kept", range(len(self.in_avals))))
        self.uses_global_constants: bool = more.get("global_constants", _any_symbolic(self.in_avals))
        self.ordered_effects: tuple[str, ...] = tuple(more.get("ordered_effects", ()))
        self.unordered_effects: tuple[str, ...] = tuple(more.get("unordered_effects", ()))
        text: bytes | None = module if module.startswith(MARK) else more.get("text")
        self._text = None if text is None else TextProgram(text)
        self._make_vjp = None if make_vjp is None else functools.cache(make_vjp)

    def __repr__(self) -> str:
        return f"Exported({self.fun_name}: {_listed(self.in_avals)} -> {_listed(self.out_avals)})"

    def mlir_module(self, serialized: bool = True) -> Any:
        """The StableHLO text, without `serialized` a module of MLIR.

        Of a program of symbolic shapes that has no such form, the text of its jaxpr, whose first line says which
        operation lacks one.
        """
        if not serialized:
            from didax.xla.program_views import module_of  # loads jaxlib's MLIR: on first need

            return module_of(self.mlir_module())
        if self._text is None or not self.mlir_module_serialized.startswith(MARK):
            return module_text(self.mlir_module_serialized)
        return f"# {self._text.obstacle}\n{self._text.text}"

    @api_boundary
    def in_shardings_jax(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """How each array of the arguments lies over a mesh; None where the program leaves that to the partitioner.

        Raises ValueError for a mesh whose axes are not those of the mesh that the program was exported with.
        """
        return shardings_over(self._layout, "in", mesh)

    @api_boundary
    def out_shardings_jax(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """The same of each array of the results."""
        return shardings_over(self._layout, "out", mesh)

    def has_vjp(self) -> bool:
        """Whether it can be differentiated in reverse mode."""
        return self._make_vjp is not None

    def vjp(self) -> Exported:
        """The program that computes the cotangents of the arguments.

        It takes all arrays of the arguments, then a cotangent for each array of the result, and returns a cotangent for
        each array of the arguments. Cotangents of integers are of dtype float0. Raises ValueError where no vjp was
        saved.
        """
        if self._make_vjp is None:
            rule = "This exported program was saved without its vjp."
            fix = "Save it with a larger vjp_order: serialize(vjp_order=1)."
            raise ValueError(message(rule, f"program: {self.fun_name}", fix=fix))
        return self._make_vjp()

    @api_boundary
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The results for arguments of the types that it was exported for.

        Raises ArgumentError for arguments of other types or structures, ValueError for other platforms, for programs of
        more devices than there are, or with effects, and for shapes that do not fit its symbolic shapes and their
        constraints.
        """
        leaves, tree = flatten_arguments(args, kwargs)
        arrays = [as_array(x) for x in leaves]
        avals = [aval_of(x) for x in arrays]
        if tree != self.in_tree or not all(map(_fits, self.in_avals, avals)):
            raise ArgumentError(
                message(
                    f"The exported program {self.fun_name} takes arguments of the types that it was exported for.",
                    f"exported for: {_listed(self.in_avals)} in {self.in_tree}",
                    f"got: {_listed(avals)} in {tree}",
                    fix="Cast or reshape the arguments, or export the function for these types.",
                )
            )
        self._check_place()
        sizes = solve(self.fun_name, self.in_avals, avals) if self.uses_global_constants else {}
        return pytree.unflatten(self.out_tree, self._differentiable(sizes, arrays))

    def _check_place(self) -> None:
        """What a process cannot run is refused."""
        if (
            platform() not in self.platforms
            and DisabledSafetyCheck.platform() not in self.disabled_safety_checks
        ):
            rule = f"The exported program {self.fun_name} is for other platforms."
            facts = f"exported for: {', '.join(self.platforms)}, this process: {platform()}"
            raise ValueError(message(rule, facts, fix="Export it for this platform."))
        if effects := (*self.ordered_effects, *self.unordered_effects):
            rule = f"The exported program {self.fun_name} has effects, which Didax cannot order."
            raise ValueError(message(rule, f"effects: {', '.join(effects)}", fix="Export it without them."))

    def _differentiable(self, sizes: dict[str, Any], arrays: Sequence[Any]) -> list[Any]:
        """The results, whose derivatives are the program's vjp. Arrays of float0 stay out: they have no numbers."""
        places = devices_of_call(self.fun_name, self.nr_devices, arrays) if self.nr_devices != 1 else ()
        run = self._at(tuple(sorted(sizes.items())), places)
        numeric = [i for i, aval in enumerate(self.in_avals) if aval.dtype != dtypes.float0]

        def complete(xs: Sequence[Any]) -> list[Any]:
            every = list(arrays)
            for i, x in zip(numeric, xs, strict=True):
                every[i] = x
            return every

        def of_numbers(*xs: Any) -> list[Any]:
            return [y for y in run(*complete(xs)) if aval_of(y).dtype != dtypes.float0]

        def backward(xs: Any, cts: Any) -> tuple[Any, ...]:
            given = iter(cts)
            outs = [next(given) if aval.dtype != dtypes.float0 else None for aval in self.out_avals]
            shapes = [tuple([evaluate(n, sizes) for n in aval.shape]) for aval in self.out_avals]
            full = [
                ct if dtypes.is_inexact(aval.dtype) else np.zeros(shape, dtypes.float0)
                for ct, aval, shape in zip(outs, self.out_avals, shapes, strict=True)
            ]
            again = [random_clone_p.bind(x) if impl_of(aval_of(x).dtype) else x for x in complete(xs)]
            found = self.vjp().call(*again, *full)
            return tuple([found[i] if dtypes.is_inexact(self.in_avals[i].dtype) else None for i in numeric])

        function = custom_vjp(of_numbers)
        function.defvjp(lambda *xs: (function(*xs), xs), backward)
        numbers = iter(function(*[arrays[i] for i in numeric]))
        return [
            as_array(next(numbers))
            if aval.dtype != dtypes.float0
            else np.zeros(tuple([evaluate(n, sizes) for n in aval.shape]), dtypes.float0)
            for aval in self.out_avals
        ]

    @functools.lru_cache(maxsize=64)  # noqa: B019, a program and its instances live as long
    def _at(self, sizes: tuple[tuple[str, Any], ...], places: tuple[Any, ...]) -> Callable[..., list[Any]]:
        """The program where dimensions have these sizes, on these devices if there are any: a function of arrays."""
        if self._text is not None:
            return self._text.at(sizes)
        if any(is_symbolic(n) for _, n in sizes):
            rule = "A StableHLO module with symbolic shapes is called with arrays of known shapes."
            fix = "Export the inner function with didax.export, or call this one outside of the other."
            raise ValueError(message(rule, f"program: {self.fun_name}", fix=fix))
        in_avals, out_avals = [
            [aval.update(shape=tuple([evaluate(n, dict(sizes)) for n in aval.shape])) for aval in avals]
            for avals in (self.in_avals, self.out_avals)
        ]
        index = None
        if len(self.platforms) > 1:
            index = self.platforms.index(platform()) if platform() in self.platforms else 0
        artifact = Artifact(
            self.fun_name,
            self.mlir_module_serialized,
            in_avals,
            out_avals,
            self.module_kept_var_idx,
            index,
            self.uses_global_constants and bool(sizes),
            self.nr_devices,
        )
        if places:
            return on_devices(artifact, self._layout, places)
        return lambda *xs: exported_p.bind(*xs, artifact=artifact)

    @api_boundary
    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, with its vjps up to that order."""
        return _file.write_file(self._table(vjp_order))

    def _table(self, vjp_order: int) -> dict[str, Any]:
        count = len(self.in_avals), len(self.out_avals)
        in_types, out_types = [
            list(map(_file.write_aval, avals)) for avals in (self.in_avals, self.out_avals)
        ]
        return {
            "version": 3,
            "name": self.fun_name,
            "in_tree": _file.write_tree(self.in_tree),
            "out_tree": _file.write_tree(self.out_tree),
            "in_avals": in_types,
            "out_avals": out_types,
            "platforms": self.platforms,
            "ordered_effects": [{"name": name} for name in self.ordered_effects],
            "unordered_effects": [{"name": name} for name in self.unordered_effects],
            "checks": [_file.write_check(repr(check)) for check in self.disabled_safety_checks],
            "module": self.mlir_module_serialized,
            "text": None if self._text is None else self._text.data,
            "convention": self.calling_convention_version,
            "kept": self.module_kept_var_idx,
            "global_constants": self.uses_global_constants,
            "vjp": self.vjp()._table(vjp_order - 1) if vjp_order > 0 else None,
            "devices": self.nr_devices,
            "types": [*in_types, *out_types],
            "in_types": list(range(count[0])),
            "out_types": list(range(count[0], sum(count))),
            **self._layout,
        }


def _fits(wanted: ShapedArray, found: ShapedArray) -> bool:
    return (
        wanted.dtype == found.dtype
        and wanted.ndim == found.ndim
        and all(n == m or is_symbolic(n) for n, m in zip(wanted.shape, found.shape, strict=True))
    )


def _any_symbolic(avals: Sequence[ShapedArray]) -> bool:
    return any(is_symbolic(n) for aval in avals for n in aval.shape)


def _listed(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(map(str, avals)) or "nothing"


# --- Exporting ----------------------------------------------------------------------------------------------


def default_export_platform() -> str:
    """The platform that programs are exported for: that of the process.

    >>> import didax as dx
    >>> dx.export.default_export_platform() in ("cpu", "cuda")
    True
    """
    return platform()


@api_boundary
def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """A function from arguments, or `ShapeDtypeStruct`s in their place, to the exported program of a jitted function.

    Arrays that the function captured are written into the program.

    Args:
      platforms: names such as "cpu" and "cuda", also of platforms that the process does not have; by default its own.
      disabled_checks: see `DisabledSafetyCheck`.

    Raises TypeError for a function that is not jitted, ValueError for programs that call Python.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax import export
    >>> f = export.export(dx.jit(lambda x: dnp.sin(x) * 2))(dx.ShapeDtypeStruct((), "float32"))
    >>> f = export.deserialize(f.serialize(vjp_order=1))
    >>> float(f.call(0.0)), float(dx.grad(f.call)(0.0))
    (0.0, 2.0)
    """
    if callable(fun_jit) and str(getattr(fun_jit, "__module__", "")).startswith("didax."):
        # The functions of JAX's own library are jitted.
        fun_jit = fun_jit if hasattr(fun_jit, "trace") else jit(fun_jit)
    if not hasattr(fun_jit, "trace"):
        rule = "export takes a jitted function."
        raise ArgumentError(message(rule, f"got: {fun_jit!r:.100}", fix="Write export(jit(f))."))
    places = tuple(platforms or ()) or (platform(),)
    check_platforms("platforms", places)

    def exported(*args: Any, **kwargs: Any) -> Exported:
        return _exported(fun_jit, args, kwargs, places, tuple(disabled_checks))

    return api_boundary(exported)


def _exported(
    fun: Any, args: Any, kwargs: Any, platforms: Sequence[str], checks: Sequence[DisabledSafetyCheck]
) -> Exported:
    scope = scope_of(
        [aval for x in pytree.leaves((args, kwargs)) if type(aval := getattr(x, "aval", None)) is ShapedArray]
    )
    traced = fun.trace(*args, **kwargs)
    in_many_forms = len(platforms) > 1 or any(
        map(is_symbolic, [n for x in pytree.leaves((args, kwargs)) for n in getattr(x, "shape", ())])
    )

    def closed_program(traced: Any) -> tuple[Jaxpr, Sequence[Any]]:
        jaxpr, consts = traced.closed
        return without_lone_devices(jaxpr, not in_many_forms), consts

    jaxpr, consts = closed_program(traced)
    if len(jaxpr.outvars) != traced.out_tree.num_leaves or jaxpr.effects:
        raise _needs_python(traced.fun_name)
    in_avals = jaxpr.in_avals[len(consts) :]
    for aval in (*in_avals, *jaxpr.out_avals):
        if dtypes.as_extended(aval.dtype) is not None and impl_of(aval.dtype) is None:
            rule = "Arguments and results of an exported program are numbers and random keys."
            fix = "Pass the numbers that stand behind the elements."
            raise ValueError(message(rule, f"array: {aval}", fix=fix))

    def program() -> tuple[Jaxpr, Sequence[Any]]:
        """The program of the platform that is asked for."""
        if config.state().lowering_platform is None:
            return jaxpr, consts
        return closed_program(fun.trace(*args, **kwargs))

    def closed(*xs: Any) -> list[Any]:
        own, captured = program()
        return eval_jaxpr(own, [*[constant_p.bind(held=Held(c)) for c in captured], *xs])

    check_meshes(traced.fun_name, jaxpr, in_many_forms)
    devices, layout = 1, None
    if _any_symbolic(in_avals):
        programs = _of_platforms(platforms, program)
        text, module = _open_program(traced.fun_name, programs, scope, checks)
    else:
        text = None
        module, devices, layout = _module(traced.fun_name, closed, in_avals, platforms, checks)

    def pull(*xs: Any) -> tuple[Any, ...]:
        primals, cts = xs[: len(in_avals)], xs[len(in_avals) :]
        return tuple(vjp(closed, *primals)[1](list(cts)))

    pull.__name__ = f"{traced.fun_name}_vjp"

    def make_vjp() -> Exported:
        cts = [aval.tangent() for aval in jaxpr.out_avals]
        return _exported(jit(pull), (*in_avals, *cts), {}, platforms, checks)

    trees = traced.in_tree, traced.out_tree
    more = {"text": text, "nr_devices": devices, "layout": layout}
    return Exported(
        traced.fun_name, trees, in_avals, jaxpr.out_avals, module, platforms, checks, make_vjp, **more
    )


def _of_platforms(platforms: Sequence[str], make: Callable[[], T]) -> dict[str, T]:
    """What is made while each platform is asked for."""
    found: dict[str, T] = {}
    for asked in platforms:
        with config.override(lowering_platform=None if asked == platform() else asked):
            found[asked] = make()
    return found


def _open_program(
    name: str,
    programs: Mapping[str, tuple[Jaxpr, Sequence[Any]]],
    scope: Scope,
    checks: Sequence[DisabledSafetyCheck],
) -> tuple[bytes, bytes]:
    """A program of symbolic shapes as text, and as a module of open lengths; the text again where there is none."""
    constraints = [constraint.text for constraint in scope.constraints]
    text = write_text(name, programs, constraints)  # refuses what has no text
    try:
        if TextProgram(text).by_platform:
            raise NoOpenForm("it computes differently from platform to platform")
        jaxpr, consts = next(iter(programs.values()))
        values = [numbers_of(x, v.aval) for x, v in zip(consts, jaxpr.invars, strict=False)]
        module = lower_open_module(jaxpr, values, scope, name, len(programs))
        _check_calls(name, module, checks)
        if len(programs) > 1 and _foreign_calls(module):
            raise NoOpenForm(f"it calls {_foreign_calls(module)[0]}, a function of one platform")
        return text, serialize_module(module)
    except (NoOpenForm, TypeError, ValueError, RuntimeError) as error:
        refused = re.search(r"'(stablehlo\.\w+)'", str(error)) if isinstance(error, RuntimeError) else None
        obstacle = (
            str(error).split("\n")[0] if refused is None else f"{refused[1]} has no form of open lengths"
        )
        return (text := write_text(name, programs, constraints, obstacle)), text


_OF_XLA = re.compile(
    r"lapack_|cusolver_|cusparse_|cublas_|cu_|cuda_|cudnn|Sharding$|SPMD|mhlo\.|stablehlo\.|xla\.|annotate_|__gpu\$|shape_assertion$"
)


def _module(
    name: str,
    closed: Any,
    in_avals: Sequence[ShapedArray],
    platforms: Sequence[str],
    checks: Sequence[DisabledSafetyCheck],
) -> tuple[bytes, int, Layout | None]:
    """The StableHLO module of a function of arrays, the number of its devices, and how its arrays lie on several."""
    found = _of_platforms(platforms, lambda: _module_of_one(name, closed, in_avals))
    text = joined({asked: text for asked, (text, *_) in found.items()})
    _check_calls(name, text, checks)
    _, devices, layout = next(iter(found.values()))
    return serialize_module(text), devices, layout


def _module_of_one(name: str, closed: Any, in_avals: Sequence[ShapedArray]) -> tuple[str, int, Layout | None]:
    """The text of the module for the platform that is asked for, and for which devices it is."""
    staged = jit(closed).trace(*in_avals).closed
    if staged.consts:
        rule = "A program that captures values of an enclosing transformation cannot be exported."
        raise ValueError(message(rule, f"program: {name}", fix="Pass what it captures as arguments."))
    jaxpr = staged.jaxpr
    callbacks: list[Any] = []
    meshes = next(on_meshes(jaxpr), None)
    partition = None if meshes is None else partition_of(jaxpr, (), [None] * len(in_avals))
    text = lower_module(jaxpr, name="exported", callbacks=callbacks, partition=partition, alone=True)
    if callbacks:
        raise _needs_python(name)
    if partition is None:
        return text, 1, None
    return text, partition.mesh.size, written(of_inputs(jaxpr), partition.results)


def _needs_python(name: str) -> ValueError:
    rule = "A program that calls Python, or writes to Refs, cannot be exported: its Python would be missing."
    return ValueError(message(rule, f"program: {name}", fix="Export the part without callbacks and Refs."))


def _check_calls(name: str, text: str, checks: Sequence[DisabledSafetyCheck]) -> None:
    """A function of the user's that a module calls has to be allowed."""
    allowed = {check.is_custom_call() for check in checks}
    for target in re.findall(r"custom_call @([\w.$]+)", text):
        if not _OF_XLA.match(target) and target not in allowed:
            rule = "A program that calls a function of yours is exported if you say that whoever loads it has it."
            fix = f"Pass disabled_checks=[DisabledSafetyCheck.custom_call({target!r})]."
            raise ValueError(message(rule, f"program: {name}, function: {target}", fix=fix))


def _foreign_calls(text: str) -> list[str]:
    """The functions outside of StableHLO that a module calls."""
    return [
        target
        for target in re.findall(r"custom_call @([\w.$]+)", text)
        if target != "shape_assertion" and not target.startswith("stablehlo.")
    ]


# --- Reading ------------------------------------------------------------------------------------------------


@api_boundary
def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported program of bytes that `Exported.serialize` gave, Didax's or jax's.

    Raises ValueError for bytes that are none of these, that are damaged, or whose format is newer or older than this
    version reads.

    >>> import didax as dx, numpy as np
    >>> data = dx.export.export(dx.jit(lambda x: x + 1))(np.ones(2, "float32")).serialize()
    >>> dx.export.deserialize(data).call(np.float32([1, 2]))
    Array([2., 3.], dtype=float32)
    """
    return _read(_file.read_file(bytes(blob)))


def _read(table: dict[str, Any]) -> Exported:
    module: bytes = table["module"]
    text: bytes | None = module if module.startswith(MARK) else table["text"]
    texts = [] if text is None else TextProgram(text).constraints
    scope = SymbolicScope(texts)
    size = functools.partial(variable, scope=scope)
    types = [_file.read_aval(x, size) for x in table["types"] or ()]
    avals: list[list[ShapedArray]] = []
    for side in ("in", "out"):
        indices = table[f"{side}_types"]
        if any(i >= len(types) for i in indices or ()):
            raise _file.damaged(f"a type of number {max(indices)} of {len(types)}")
        whole = [_file.read_aval(x, size) for x in table[f"{side}_avals"] or ()]
        avals.append([types[i] for i in indices] if indices else whole)
    trees = _file.read_tree(table["in_tree"]), _file.read_tree(table["out_tree"])
    for tree, of in zip(trees, avals, strict=True):
        if tree.num_leaves != len(of):
            raise _file.damaged(f"{len(of)} types for {tree}")
    inner = table["vjp"]
    kept = table["kept"] or []
    if any(i >= len(avals[0]) for i in kept):
        raise _file.damaged(f"argument {max(kept)} of {len(avals[0])}")
    return Exported(
        table["name"],
        trees,
        avals[0],
        avals[1],
        module,
        table["platforms"] or (),
        [DisabledSafetyCheck(_file.read_check(x)) for x in table["checks"] or ()],
        None if inner is None else functools.partial(_read, inner),
        nr_devices=table["devices"] or table["devices_16"] or 1,
        layout=layout_of(table),
        convention=table["convention"],
        kept=kept,
        text=text,
        global_constants=bool(table["global_constants"]),
        ordered_effects=[x["name"] or "" for x in table["ordered_effects"] or ()],
        unordered_effects=[x["name"] or "" for x in table["unordered_effects"] or ()],
    )


# --- Containers of your own ---------------------------------------------------------------------------------


@api_boundary
def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type:
    """Let exported programs take and return nodes of a class that is registered as a pytree.

    Args:
      serialized_name: what files say for the class; it is registered under this name where they are read.
      serialize_auxdata, deserialize_auxdata: the node's metadata as bytes, and back.
      from_children: a node from its metadata and children, where that is not what the class is registered with.

    Returns the class, for use in a decorator. Raises ValueError for a class, or a name, that is registered.

    >>> register_pytree_node_serialization(  # doctest: +SKIP
    ...     Scaled,
    ...     serialized_name="mine.Scaled",
    ...     serialize_auxdata=str.encode,  # of a class whose metadata is a string
    ...     deserialize_auxdata=bytes.decode,
    ... )
    """
    for custom in _file.customs:
        if custom.cls is nodetype or custom.name == serialized_name:
            rule = "A class is registered for exported programs once, under a name of its own."
            facts = (
                f"class: {nodetype.__qualname__}, name: {serialized_name!r}",
                f"registered: {custom.cls.__qualname__}, {custom.name!r}",
            )
            raise ValueError(message(rule, *facts, fix="Register it where the class is defined."))
    found = _file.Custom(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children)
    _file.customs.append(found)
    return nodetype


@api_boundary
def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Let exported programs take and return tuples of a namedtuple class; see `register_pytree_node_serialization`.

    Raises ValueError for a class that is none of namedtuples, or for a class or a name that is registered.

    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     a: float
    ...     b: float
    >>> register_namedtuple_serialization(Pair, serialized_name="example.Pair") is Pair  # doctest: +SKIP
    True
    """
    fields: tuple[str, ...] | None = getattr(nodetype, "_fields", None)
    if fields is None or not issubclass(nodetype, tuple):
        rule = "register_namedtuple_serialization takes a class of namedtuples."
        fix = "Use register_pytree_node_serialization for other classes."
        raise ValueError(message(rule, f"class: {nodetype!r:.100}", fix=fix))
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: _json(fields),
        deserialize_auxdata=lambda data: json.loads(data.decode()),
        from_children=lambda names, children: nodetype(**dict(zip(names, children, strict=True))),
    )


def _json(x: Any) -> bytes:
    return json.dumps(x).encode()


def _register_ordered_dict() -> None:
    from collections import OrderedDict

    register_pytree_node_serialization(
        OrderedDict,
        serialized_name="collections.OrderedDict",
        serialize_auxdata=lambda keys: _json(list(keys)),
        deserialize_auxdata=lambda data: tuple(json.loads(data.decode())),
    )


_register_ordered_dict()
