"""Where the names of jax come from, as far as it is not Didax's module of the same path.

`HOMES[path][name]` is `module` or `module:name`; under `*` stand modules in which all names of the path are looked for
first. `PRIVATE` has the private names that libraries use, `IMPLEMENTED` the private modules in which JAX has its public
names, `REFUSED` what is absent on purpose, with the reason.
"""

from __future__ import annotations

_JAXPRS, _CORE, _SMALL = "didax.as_jax.programs", "didax.as_jax.core_names", "didax.as_jax.small"
_LINEAR_UTIL, _PRIMITIVE = "didax.as_jax.linear_util", "didax.as_jax.primitive"
_BUILTIN = _JAXPRS
_TRACES = "didax.as_jax.own_traces"
_VMAPPABLES = "didax.as_jax.vmappables"
_HIJAX, _HIGH = "didax.as_jax.hijax", "didax.as_jax.high_arguments"


def _from(home: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), home)


_ALL_CORE = {
    "*": f"{_JAXPRS} {_CORE}",
    **_from(_CORE, "get_aval find_top_trace"),
    **_from(_JAXPRS, "eval_jaxpr"),
    **_from(_TRACES, "Trace TraceTag"),
}

HOMES: dict[str, dict[str, str]] = {
    "jax": {
        **_from(_SMALL, "__version__ __version_info__"),
        "make_jaxpr": _JAXPRS,
        **_from(_HIGH, "eval_shape jit"),
        "vmap": _VMAPPABLES,
        "typeof": _HIJAX,
    },
    "jax.version": _from(_SMALL, "__version__ __version_info__"),
    "jax.api_util": {"*": _LINEAR_UTIL},
    "jax.core": {
        **_ALL_CORE,
        **_from(_JAXPRS, "Jaxpr ClosedJaxpr JaxprEqn Var Literal"),
        "Primitive": _PRIMITIVE,
        "gensym": "didax.as_jax.jaxprs",
    },
    "jax.custom_derivatives": _from(_BUILTIN, "custom_jvp_call_p custom_vjp_call_p"),
    "jax.example_libraries.stax": {"*": "didax.nn"},
    "jax.experimental.array_serialization.serialization": _from(_SMALL, "GlobalAsyncCheckpointManagerBase"),
    "jax.experimental.checkify": {"ErrorCategory": "typing:Any"},
    "jax.experimental.colocated_python": {"*": _SMALL},
    "jax.experimental.colocated_python.serialization": {"DeviceList": "jaxlib._jax"},
    "jax.experimental.compute_on": _from(_SMALL, "compute_on"),
    "jax.experimental.shard_alike": _from(_SMALL, "shard_alike"),
    "jax.experimental.xla_metadata": _from(_SMALL, "set_xla_metadata"),
    "jax.experimental": {"cur_qdd": _HIJAX},
    "jax.experimental.hijax": {"*": _HIJAX, "AbstractRef": "didax.core.ref:RefType"},
    **{
        f"jax.experimental.sparse.{name}": {"*": "didax.experimental.sparse"}
        for name in ("api", "bcoo", "bcsr", "coo", "csr", "transform", "util")
    },
    "jax.extend.backend": {"*": _SMALL},
    "jax.extend.core": {
        **_ALL_CORE,
        "Primitive": _PRIMITIVE,
        **_from(_JAXPRS, "Jaxpr ClosedJaxpr JaxprEqn jaxpr_as_fun"),
        **_from(_CORE, "Effect check_jaxpr get_opaque_trace_state"),
    },
    "jax.extend.core.primitives": {"*": _BUILTIN},
    "jax.extend.ifrt_programs": {"ifrt_programs": "jaxlib._jax"},
    "jax.extend.linear_util": {"*": _LINEAR_UTIL},
    "jax.extend.source_info_util": _from(_SMALL, "register_exclusion user_context"),
    "jax.interpreters.ad": {"*": "didax.as_jax.interpreters.ad"},
    "jax.interpreters.batching": {
        "*": "didax.as_jax.interpreters.batching",
        **_from(_VMAPPABLES, "register_vmappable unregister_vmappable"),
    },
    "jax.interpreters.mlir": {"*": "didax.as_jax.interpreters.mlir"},
    "jax.interpreters.partial_eval": {"*": "didax.as_jax.interpreters.partial_eval"},
    "jax.interpreters.xla": {
        "apply_primitive": _PRIMITIVE,
        **_from(_CORE, "canonicalize_dtype_handlers pytype_aval_mappings"),
    },
    "jax.lax": {"*": _BUILTIN},
    "jax.lax.linalg": {"*": _BUILTIN},
    "jax.lib": {"__version__": f"{_SMALL}:jaxlib_version"},
    "jax.numpy": _from(_SMALL, "asarray finfo"),
    "jax.scipy.special": _from("didax.as_jax.legendre", "lpmn lpmn_values"),
    "jax.ref": {"AbstractRef": "didax.core.ref:RefType"},
    "jax.test_util": {"*": "didax.as_jax.test_util"},
}

_P = "didax.as_jax.private"
PRIVATE: dict[str, dict[str, str]] = {
    "jax._src.api_util": _from(_P, "infer_argnums_and_argnames"),
    "jax._src.ad_util": _from(_BUILTIN, "stop_gradient_p"),
    "jax._src.callback": _from(_P, "logger"),
    "jax._src.checkify": {
        **_from(
            "didax.experimental.checkify",
            "checkify Error all_checks automatic_checks check_error user_checks",
        ),
        "Out": "typing:Any",
    },
    "jax._src.compiler": _from(_P, "backend_compile backend_compile_and_load"),
    "jax._src.core": {
        **_from(
            _CORE,
            "AbstractValue concrete_or_error get_aval set_current_trace take_current_trace trace_state_clean",
        ),
        **_from(_JAXPRS, "jaxpr_as_fun"),
        **_from(_TRACES, "Trace TraceTag"),
        "ShapedArray": "didax.core.avals",
        "Tracer": "didax.core.tracing",
        "physical_aval": _P,
    },
    "jax._src.dispatch": _from(_P, "wait_for_tokens"),
    "jax._src.dtypes": {
        **_from("didax.dtypes", "TypePromotionError extended finfo"),
        **_from(_P, "DType ExtendedDType supports_inf to_complex_dtype"),
    },
    "jax._src.distributed": _from(_P, "global_state"),
    "jax._src.earray": _from(_P, "EArray"),
    "jax._src.flatten_util": _from("didax.flatten_util", "ravel_pytree"),
    "jax._src.interpreters.batching": _from(_VMAPPABLES, "is_vmappable"),
    "jax._src.interpreters.pxla": _from(_P, "global_result_handlers"),
    "jax._src.lib": {},
    "jax._src.literals": _from(_P, "TypedComplex TypedFloat TypedInt"),
    "jax._src.numpy.util": _from(_P, "promote_dtypes promote_dtypes_complex promote_dtypes_inexact"),
    "jax._src.pjit": _from(_BUILTIN, "jit_p"),
    "jax._src.public_test_util": _from(
        "didax.as_jax.test_util", "check_close check_grads check_jvp check_vjp"
    ),
    "jax._src.state.types": {"AbstractRef": "didax.core.ref:RefType"},
    "jax._src.traceback_util": _from(
        _P, "UnfilteredStackTrace _exclude_paths api_boundary include_frame register_exclusion"
    ),
    "jax._src.tree_util": {
        **_from(_P, "_registry prefix_errors"),
        "flatten_one_level": "didax.tree_util",
    },
    "jax._src.xla_bridge": _from(_P, "_backend_lock _backends"),
}

_DISTRIBUTIONS = (
    "bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l gumbel_r laplace logistic "
    "multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises wrapcauchy"
)
# The private modules of JAX that implement its public ones, by public module: libraries import public names from them.
_IMPLEMENTED = {
    "jax": "ad_checkpoint api array basearray callback custom_batching custom_derivatives debugging environment_info "
    "ref typing xla_bridge",
    "jax.ad_checkpoint": "ad_checkpoint",
    "jax.api_util": "api_util",
    "jax.core": "core",
    "jax.custom_batching": "custom_batching",
    "jax.custom_derivatives": "custom_derivatives ad_util",
    "jax.debug": "debugging debugger",
    "jax.dlpack": "dlpack",
    "jax.dtypes": "dtypes",
    "jax.errors": "errors error_check",
    "jax.experimental.checkify": "checkify",
    "jax.experimental.layout": "layout",
    "jax.experimental.mesh_utils": "mesh_utils",
    "jax.export": "export export._export export.shape_poly",
    "jax.extend.backend": "xla_bridge",
    "jax.extend.core": "core",
    "jax.extend.linear_util": "linear_util",
    "jax.extend.random": "extend.random random.prng",
    "jax.extend.source_info_util": "source_info_util",
    "jax.ffi": "ffi",
    "jax.flatten_util": "flatten_util",
    "jax.image": "image image.scale",
    "jax.interpreters.ad": "interpreters.ad ad_util",
    "jax.interpreters.batching": "interpreters.batching",
    "jax.interpreters.mlir": "interpreters.mlir",
    "jax.interpreters.partial_eval": "interpreters.partial_eval",
    "jax.interpreters.pxla": "interpreters.pxla",
    "jax.lax": "lax lax.ann lax.control_flow lax.control_flow.conditionals lax.control_flow.loops "
    "lax.control_flow.solves lax.convolution lax.fft lax.lax lax.other lax.parallel lax.slicing lax.special "
    "lax.windowed_reductions",
    "jax.lax.linalg": "lax.linalg",
    "jax.monitoring": "monitoring",
    "jax.nn": "nn nn.functions",
    "jax.nn.initializers": "nn.initializers",
    "jax.numpy": "dtypes numpy numpy.array_constructors numpy.array_creation numpy.einsum numpy.index_tricks "
    "numpy.indexing numpy.lax_numpy numpy.polynomial numpy.reductions numpy.scalar_types numpy.setops numpy.sorting "
    "numpy.tensor_contractions numpy.ufunc_api numpy.ufuncs numpy.vectorize numpy.window_functions",
    "jax.numpy.fft": "numpy.fft",
    "jax.numpy.linalg": "numpy.linalg",
    "jax.ops": "ops ops.scatter",
    "jax.profiler": "profiler",
    "jax.random": "random random.core",
    "jax.scipy.cluster.vq": "scipy.cluster.vq",
    "jax.scipy.fft": "scipy.fft",
    "jax.scipy.integrate": "scipy.integrate",
    "jax.scipy.interpolate": "third_party.scipy.interpolate",
    "jax.scipy.linalg": "scipy.linalg third_party.scipy.linalg",
    "jax.scipy.ndimage": "scipy.ndimage",
    "jax.scipy.optimize": "scipy.optimize.minimize",
    "jax.scipy.signal": "scipy.signal",
    "jax.scipy.sparse.linalg": "scipy.sparse.linalg",
    "jax.scipy.spatial.transform": "scipy.spatial.transform",
    "jax.scipy.special": "scipy.special ops.special third_party.scipy.betaln third_party.scipy.special",
    "jax.scipy.stats": "scipy.stats scipy.stats.kde scipy.stats._core",
    **{f"jax.scipy.stats.{name}": f"scipy.stats.{name}" for name in _DISTRIBUTIONS.split()},
    "jax.sharding": "mesh named_sharding partition_spec sharding sharding_impls",
    "jax.stages": "stages",
    "jax.tree": "tree",
    "jax.tree_util": "tree_util",
    "jax.typing": "typing",
}
IMPLEMENTED: dict[str, list[str]] = {}
for _public, _modules in _IMPLEMENTED.items():
    for _module in _modules.split():
        IMPLEMENTED.setdefault(f"jax._src.{_module}", []).append(_public)

# Libraries import these at their heads, and call their kernels on accelerators alone. So an import of one succeeds, and
# what is looked up in it is refused.
KERNELS = ("jax.experimental.pallas", "jax.extend.pallas", "jax.experimental.mosaic")

REFUSED = {
    **dict.fromkeys(KERNELS, "kernels in JAX's own language, for accelerators"),
    "jax.experimental.jax2tf": "TensorFlow programs",
    "jax.experimental.transfer": "moves arrays between the hosts of TPUs",
    "jax.experimental.custom_partitioning": "rules for JAX's partitioner; shard_map says what each device does",
}

# Modules of jax that are jaxlib's.
JAXLIB = {
    "jax._src.lib.xla_client": "jaxlib.xla_client",
    "jax.extend.mlir.dialects": "jaxlib.mlir.dialects",
    "jax.extend.mlir.ir": "jaxlib.mlir.ir",
    "jax.extend.mlir.passmanager": "jaxlib.mlir.passmanager",
}

# Primitives of JAX whose functions Didax composes: no program has them.
NOWHERE = frozenset(
    [
        "after_all", "approx_top_k", "create_token", "device_put", "eq_to", "le_to", "lt_to", "ragged_all_to_all",
        "reduce", "reduce_window", "select_and_gather_add", "select_and_scatter", "select_and_scatter_add",
    ]
)  # fmt: skip

# What is there and differs, as far as a program notices it under the layer. `docs/from-jax.md` has the same table.
DIFFERENT = {
    "jax.random.gamma": "16-bit floats are drawn in 32 bits: other numbers",
    "jax.random.poisson": "more digits: at a mean of 1,000 one count in 4,000 is another, at 100,000 half",
    "jax.random.binomial": "more digits: of 30 trials one count in 3,500 is another, of 100,000 one in 400",
    "jax.core.pytype_aval_mappings": "is not read: classes with __jax_array__ or __array__ are arrays",
    "jax.interpreters.xla.canonicalize_dtype_handlers": "is not read, as jax.core.pytype_aval_mappings",
    "jax.make_jaxpr": "functions consist in part of other operations, some of which jax does not have",
    "jax.named_call": "compiled programs name an operation f/scope/tanh, not jit(f)/scope/tanh",
    "jax.named_scope": "compiled programs name an operation f/scope/tanh, not jit(f)/scope/tanh",
    "jax.custom_derivatives.custom_jvp_call_p": "its rules are run by Didax alone",
    "jax.custom_derivatives.custom_vjp_call_p": "its rules are run by Didax alone",
    "jax.interpreters.mlir.register_lowering": "a rule that builds operations with jaxlib.mlir cannot call lower_fun",
    "jax.lax.cond": "a known predicate picks its branch, and nothing is compiled",
    "jax.lax.platform_dependent": "decides while it is traced: a process has one platform",
    "jax.lax.approx_max_k": "exact",
    "jax.lax.approx_min_k": "exact",
    "jax.core.Trace": "process_custom_vjp_call gets rules that Didax alone runs; the function itself can be called",
    "jax.extend.backend.clear_backends": "forgets compiled programs; the client stays",
    "jax.experimental.colocated_python.colocated_python": "raises: it runs Python on the hosts of TPUs",
    "jax.extend.source_info_util.user_context": "has no effect: errors and equations tell your lines by themselves",
    "jax.experimental.compute_on.compute_on": "has no effect: the block runs where the program does",
    "jax.experimental.shard_alike.shard_alike": "has no effect: XLA decides how arrays lie",
    "jax.experimental.xla_metadata.set_xla_metadata": "has no effect",
    "jax.experimental.hijax.HiPrimitive": "runs its to_lojax at once; rules for derivatives are refused",
    "jax.experimental.hijax.HiType": "its values are arguments and results of jit alone; functions may close over them",
    "jax.experimental.hijax.MutableHiType": "as HiType; a value that a function closes over keeps its structure",
    "jax.experimental.hijax.VJPHiPrimitive": "runs as a function with rules; where one is missing, expand is followed",
}


def difference(name: str) -> str | None:
    """What differs about a name that is there; None where nothing does."""
    if name.removeprefix("jax.lax.").removesuffix("_p") in NOWHERE:
        return "is in no program: rules for it are taken, and never asked"
    return DIFFERENT.get(name)
