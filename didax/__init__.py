"""Didax: composable transformations of array programs.

    import didax as dx
    import didax.numpy as dnp

`grad`, `vjp`, `jvp` and `linearize` differentiate, `vmap` vectorises, `jit` compiles, in any order and nesting.
A reader's map of the package is `MAP.md` beside this file.
"""

import gc
import sys

from didax.version import __version__, check_jaxlib, installed_jaxlib

# `python -m didax doctor` says what is broken, also where it is the import below that fails.
if sys.argv[:2] == ["-m", "doctor"]:
    from didax._installation import tell_if_import_fails

    tell_if_import_fails()
check_jaxlib(installed_jaxlib())

# ruff: noqa: E402
# Nothing that the import makes is garbage, and searching for garbage would take a tenth of the import's time.
_searches = gc.isenabled()
gc.disable()
try:
    from didax.core.process import import_to_the_end

    # After an interrupt in the middle of their import, no later import of these two would succeed.
    import_to_the_end("numpy")
    import_to_the_end("ml_dtypes")
    from didax import (
        checkpoint_policies,
        core,
        custom_derivatives,
        dlpack,
        dtypes,
        errors,
        lax,
        numpy,
        random,
        ref,
        sharding,
        tree,
    )
    from didax.api.autodiff import grad, jvp, linearize, value_and_grad, vjp
    from didax.api.buckets import Buckets
    from didax.api.callbacks import effects_barrier, io_callback, pure_callback
    from didax.api.checkpoint import checkpoint, checkpoint_name, remat
    from didax.api.context import named_call, named_scope
    from didax.api.custom import custom_jvp, custom_rules, custom_vjp
    from didax.api.devices import (
        block_until_ready,
        copy_to_host_async,
        default_backend,
        device_count,
        device_get,
        device_put,
        devices,
        host_count,
        host_id,
        host_ids,
        local_device_count,
        local_devices,
        process_count,
        process_index,
        process_indices,
    )
    from didax.api.environment import live_arrays, print_environment_info
    from didax.api.explicit import reshard
    from didax.api.inspect import eval_shape, explain, make_jaxpr, typeof
    from didax.api.jacobians import hessian, jacfwd, jacrev
    from didax.api.jacobians import jacrev as jacobian
    from didax.api.jit import jit
    from didax.api.options import (
        allow_f16_reductions,
        array_garbage_collection_guard,
        auto_pcast,
        check_tracer_leaks,
        checking_leaks,
        clear_caches,
        compile_in_background,
        debug_infs,
        debug_key_reuse,
        debug_nans,
        default_device,
        default_matmul_precision,
        default_prng_impl,
        disable_jit,
        enable_checks,
        enable_custom_prng,
        enable_x64,
        explain_cache_misses,
        jax2tf_associative_scan_reductions,
        legacy_prng_key,
        log_compiles,
        make_user_context,
        no_execution,
        no_tracing,
        numpy_dtype_promotion,
        numpy_rank_promotion,
        optimize_loops,
        remove_size_one_mesh_axis_from_type,
        softmax_custom_jvp,
        thread_guard,
        threefry_partitionable,
        transfer_guard,
        transfer_guard_device_to_device,
        transfer_guard_device_to_host,
        transfer_guard_host_to_device,
        wait_for_compilations,
    )
    from didax.api.placement import (
        make_array_from_callback,
        make_array_from_process_local_data,
        make_array_from_single_device_arrays,
        make_mesh,
        set_mesh,
    )
    from didax.api.shard_map import shard_map, smap
    from didax.api.stages import ShapeDtypeStruct
    from didax.api.vmap import vmap
    from didax.core.compile_time import ensure_compile_time_eval
    from didax.core.dtypes import float0
    from didax.core.jax_options import Config
    from didax.core.modules import on_access
    from didax.core.sharding import NamedSharding
    from didax.core.sharding import PartitionSpec as P
    from didax.core.value import Array
    from didax.custom_derivatives import closure_convert, custom_gradient
    from didax.numpy.dynamic_slices import ds
    from didax.ref import Ref, empty_ref, free_ref, freeze, new_ref
    from didax.runtime.array import Shard
finally:
    if _searches:
        # The 30,000 new objects are young, and the next searches would go through them, which takes 20 milliseconds
        # of the first gradients. Freezing and thawing makes them old; a program that keeps objects frozen is left
        # alone.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()

from typing import TYPE_CHECKING

config = Config()

if TYPE_CHECKING:
    from didax import ad as ad
    from didax import ad_checkpoint as ad_checkpoint
    from didax import checkify as checkify
    from didax import checkpoints as checkpoints
    from didax import custom_batching as custom_batching
    from didax import debug as debug
    from didax import distributed as distributed
    from didax import example_libraries as example_libraries
    from didax import experimental as experimental
    from didax import export as export
    from didax import extend as extend
    from didax import ffi as ffi
    from didax import flatten_util as flatten_util
    from didax import image as image
    from didax import memory as memory
    from didax import monitoring as monitoring
    from didax import nn as nn
    from didax import ops as ops
    from didax import profiler as profiler
    from didax import scipy as scipy
    from didax import stages as stages
    from didax import test_util as test_util
    from didax import tree_util as tree_util
    from didax import typing as typing
    from didax.api.forward_backward import fwd_and_bwd as fwd_and_bwd
    from didax.api.linear_transpose import linear_transpose as linear_transpose
    from didax.api.pmap import pmap as pmap
    from didax.api.profile import profile as profile
    from didax.debug._explore import explore as explore
    from didax.debug._mode import debug_mode as debug_mode
    from didax.xla.client import Device as Device
else:
    __getattr__, __dir__ = on_access(
        __name__,
        "ad",
        "ad_checkpoint",
        "checkify",
        "checkpoints",
        "custom_batching",
        "debug",
        "distributed",
        "example_libraries",
        "experimental",
        "export",
        "extend",
        "ffi",
        "flatten_util",
        "image",
        "memory",
        "monitoring",
        "nn",
        "ops",
        "profiler",
        "scipy",
        "stages",
        "test_util",
        "tree_util",
        "typing",
        debug_mode="debug._mode",
        explore="debug._explore",
        fwd_and_bwd="api.forward_backward",
        linear_transpose="api.linear_transpose",
        pmap="api.pmap",
        profile="api.profile",
        Device="xla.client",
    )

__all__ = [
    "Shard",
    "allow_f16_reductions",
    "auto_pcast",
    "ds",
    "enable_custom_prng",
    "fwd_and_bwd",
    "host_count",
    "host_id",
    "host_ids",
    "jax2tf_associative_scan_reductions",
    "legacy_prng_key",
    "live_arrays",
    "make_user_context",
    "memory",
    "no_execution",
    "no_tracing",
    "print_environment_info",
    "remove_size_one_mesh_axis_from_type",
    "smap",
    "softmax_custom_jvp",
    "threefry_partitionable",
    "Array",
    "Buckets",
    "NamedSharding",
    "P",
    "Ref",
    "ShapeDtypeStruct",
    "__version__",
    "ad",
    "ad_checkpoint",
    "array_garbage_collection_guard",
    "block_until_ready",
    "check_tracer_leaks",
    "checkify",
    "checking_leaks",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_caches",
    "compile_in_background",
    "closure_convert",
    "config",
    "copy_to_host_async",
    "core",
    "custom_batching",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_rules",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_key_reuse",
    "debug_mode",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dlpack",
    "dtypes",
    "effects_barrier",
    "empty_ref",
    "enable_checks",
    "enable_x64",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "example_libraries",
    "experimental",
    "export",
    "explain",
    "explain_cache_misses",
    "explore",
    "extend",
    "ffi",
    "flatten_util",
    "float0",
    "free_ref",
    "freeze",
    "grad",
    "hessian",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_mesh",
    "log_compiles",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "new_ref",
    "nn",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "ops",
    "optimize_loops",
    "profile",
    "process_count",
    "process_index",
    "process_indices",
    "pure_callback",
    "random",
    "reshard",
    "ref",
    "remat",
    "scipy",
    "set_mesh",
    "pmap",
    "shard_map",
    "sharding",
    "stages",
    "thread_guard",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "tree_util",
    "typeof",
    "typing",
    "value_and_grad",
    "vjp",
    "vmap",
    "wait_for_compilations",
]
