"""A call that JAX's public functions take is taken here: the parameters have the names, order, kinds and defaults.

What differs is listed with its reason; an entry that is no longer true fails, too.
"""

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import didax.numpy as dnp
from didax.core import errors
from didax.scipy import special

from .test_names import ABSENT, public_names

pytestmark = pytest.mark.skipif(
    not jax.__version__.startswith("0.10."), reason="the signatures are those of JAX 0.10"
)

MORE = ["example_libraries.optimizers", "example_libraries.stax", "experimental.jet", "experimental.multihost_utils",
        "experimental.ode", "experimental.rnn", "extend.core"]  # fmt: skip

# By the reason: the functions, and of each the parameters whose calls are not those of JAX.
EXCEPTIONS = {
    "users do not call it: another object makes it": """
        core.Trace(parent) debug.DebugEffect(name) debug.OrderedDebugEffect(name)
        export.DisabledSafetyCheck(_impl) experimental.checkify.Error(_pred _code _metadata _payload)
        experimental.sparse.SparseTracer(spvalue sparse) extend.core.Effect(name) ref.AbstractRef(inner_aval)
        stages.ArgInfo(_aval) stages.Compiled(executable const_args args_info out_tree)
        stages.Compiled.call(self) stages.Lowered(lowering args_info out_tree)
        stages.Traced(meta_tys_flat params in_tree out_tree consts program run)
        stages.Wrapped(*args **kwargs fun settings) .Ref(aval refs) .Shard(sharding global_shape data)
        export.Exported(out_avals platforms) numpy.ufunc(name)""",
    "a part of Didax's own programs and types, shown by docs/extending.md": """
        core.ShapedArray.lower_val(val) core.ShapedArray.raise_val(val) core.ShapedArray.update(**kwargs)
        ref.AbstractRef.lower_val(ref) ref.AbstractRef.raise_val(*vals value)
        extend.core.Jaxpr(constvars invars eqns) extend.core.JaxprEqn(invars outvars primitive params effs
            source_info ctx) extend.core.jaxpr_as_fun(*args)""",
    "options of JAX's machinery": """
        debug.breakpoint(**kwargs) ffi.build_ffi_lowering_function(**lowering_args)
        ffi.ffi_lowering(**lowering_args) sharding.AbstractMesh.update(**kwargs) experimental.jet.jet(**_)
        .NamedSharding.update(**kwargs)""",
    "in docs/differences.md": """
        .make_jaxpr(return_shape)
        nn.standardize(algorithm) random.double_sided_maxwell(shape) random.weibull_min(shape)""",
    "JAX refuses the call, too": """
        numpy.clip(arr) lax.random_gamma_grad(*args a x) numpy.set_printoptions(*args **kwargs)
        .array_garbage_collection_guard(new_val) .default_device(new_val) .default_matmul_precision(new_val)
        .default_prng_impl(new_val) .numpy_dtype_promotion(new_val) .numpy_rank_promotion(new_val)
        .transfer_guard_device_to_device(new_val) .transfer_guard_device_to_host(new_val)
        .transfer_guard_host_to_device(new_val)""",
    "the same by another value": """
        test_util.check_jvp(eps) test_util.check_vjp(eps) .Ref.addupdate(idx) numpy.array(*args)""",
    "no device of a CPU has a slice, so processes are the granules": """
        experimental.mesh_utils.create_hybrid_device_mesh(process_is_granule)""",
    "JAX refuses all arguments, NumPy's are taken": """
        numpy.fromfile(*args **kwargs file) numpy.fromiter(*args **kwargs iter dtype)""",
    "JAX refuses any call": "experimental.sparse.BCSR.transpose(*args **kwargs)",
}  # fmt: skip

# Optional parameters that are absent here: private ones, and those that docs/differences.md has.
ABSENT_PARAMETERS = {
    "concrete", "axis_env", "return_shape", "is_ref", "_split_transpose", "_use_logging", "_dot_general",
    "_function_name", "_override_lowering_rules", "_private_parameters", "device_assignment", "abstract_device",
    "manual_axis_type", "memory_space", "kind", "skip_ffi_layout_processing", "propagate_source_info", "slice_index",
    "partition_index", "no_kwargs", "in_types", "out_types", "initial_qdd", "final_qdd", "debug_info", "is_high",
    "effects", "ctx", "source_info",
}  # fmt: skip

PLAIN = bool | int | float | str | tuple | types.NoneType
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def callables(path: str, seen: set[int]) -> Iterator[tuple[str, Any, Any]]:
    theirs, ours = [importlib.import_module(f"{root}.{path}".rstrip(".")) for root in ("jax", "didax")]
    for name in sorted(public_names(theirs)):
        one, other = getattr(theirs, name), getattr(ours, name, None)
        if not callable(one) or not callable(other) or id(one) in seen or isinstance(other, dnp.ufunc):
            continue
        if str(getattr(one, "__module__", "")).split(".")[0] in ("builtins", "numpy", "typing", "enum"):
            continue
        seen.add(id(one))
        yield f"{path}.{name}", one, other
        if isinstance(one, type) and isinstance(other, type) and not issubclass(one, jax.core.Tracer):
            for method in dir(one):
                pair = getattr(one, method), getattr(other, method, None)
                if not method.startswith("_") and all(map(callable, pair)):
                    yield f"{path}.{name}.{method}", *pair


def signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def differences(theirs: inspect.Signature, ours: inspect.Signature) -> set[str]:
    """The parameters of one of the two for which a call of the first is no call of the second, or another one."""
    given = ours.parameters
    places = [p.name for p in given.values() if p.kind in POSITIONAL]
    kinds = {p.kind for p in given.values()}
    found: set[str] = set()
    wanted = [p for p in theirs.parameters.values() if p.name != "self"]
    if wanted != list(theirs.parameters.values()):  # a method
        places = places[1:]
    elif places[:1] == ["self"]:
        found.add("self")
    for i, p in enumerate(wanted):
        mine = given.get(p.name)
        if p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD:
            found |= (
                {("*" if p.kind is p.VAR_POSITIONAL else "**") + p.name} if p.kind not in kinds else set()
            )
            continue
        if mine is None and p.default is not p.empty and p.name in {*errors.IDLE, *ABSENT_PARAMETERS}:
            continue
        if p.kind is p.POSITIONAL_ONLY:
            if i >= len(places):
                found |= {p.name} if p.VAR_POSITIONAL not in kinds else set()
                continue
            mine = given[places[i]]
        elif mine is None or mine.kind is mine.POSITIONAL_ONLY:
            found |= {p.name} if mine is not None or p.VAR_KEYWORD not in kinds else set()
            continue
        if p.kind is p.POSITIONAL_OR_KEYWORD and places[i : i + 1] != [p.name]:
            found.add(p.name)
        if p.default is not p.empty and (
            mine.default is mine.empty
            or (
                isinstance(p.default, PLAIN)
                and isinstance(mine.default, PLAIN)
                and repr(p.default) != repr(mine.default)
            )
        ):
            found.add(p.name)
    named = {p.name for p in wanted} | set(places[: sum(p.kind in POSITIONAL for p in wanted)]) | {"self"}
    required = [
        p.name for p in given.values() if p.default is p.empty and p.kind in (*POSITIONAL, p.KEYWORD_ONLY)
    ]
    receiver = next(iter(given), None) if wanted != list(theirs.parameters.values()) else None
    return found | {name for name in required if name not in named and name != receiver}


def test_calls_of_jax_are_taken() -> None:
    listed = {
        name: set(names.split())
        for text in EXCEPTIONS.values()
        for name, names in re.findall(r"([\w.]+)\(([^)]*)\)", text)
    }
    seen: set[int] = set()
    found: dict[str, set[str]] = {}
    for path in [*ABSENT, *MORE]:
        for name, one, other in callables(path, seen):
            theirs, ours = signature(one), signature(other)
            if theirs is not None and ours is not None and (differ := differences(theirs, ours)):
                found[name] = differ
    assert found == listed


def test_arguments_of_methods_by_name_and_by_place() -> None:
    x = dnp.arange(3.0)
    assert (
        x.astype(dtype=int) is not x
        and x.astype("int32", True).dtype == x.view("int32", None).dtype == "int32"
    )
    assert dnp.float32(x=1).dtype == "float32" and x.to_device(device=x.device).shape == (3,)
    with pytest.raises(NotImplementedError, match="A view of an array is an array"):
        x.view("int32", type=list)  # type: ignore[arg-type]


def test_lists_for_the_special_functions_that_take_them() -> None:
    for name, count in (
        ("ndtr", 1),
        ("spence", 1),
        ("log_ndtr", 1),
        ("expn", 2),
        ("hyp1f1", 3),
        ("hyp2f1", 4),
    ):
        f = getattr(special, name)
        of_arrays = f(*[dnp.array([1.0, 0.5])] * count)
        np.testing.assert_array_equal(f(*[[1.0, 0.5]] * count), of_arrays)
        np.testing.assert_array_equal(f(*[(1.0, 0.5)] * count), of_arrays)
