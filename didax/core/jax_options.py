"""`didax.config`: Didax's options, under their own names and JAX's names, and JAX's options that have no effect here.

    didax.config.update("jax_enable_x64", True)        # an option of both libraries
    didax.config.update("jax_log_compiles", True)      # has no effect; its type is checked, and it can be read back

An option that is read with the prefix `jax_` has the value that JAX would show: `config.jax_debug_nans` is
True or False, while `config.debug_nans` is "off", "on" or "outputs". `config.without_effect()` lists the options that
are accepted and change nothing. Environment variables named `JAX_*` may be meant for JAX: they are read only where
Didax stands in for it, by `config.read_environment()`.
Read next: `config.py`.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Any

from didax.core import config
from didax.core.errors import ArgumentError, message

# Each entry has the values that the options take (types, words or numbers), the default, and the names of the options,
# which are JAX's. As in JAX, a bool takes the truth value of anything, and "any" takes every value.
_TABLE = """
bool False: check_vma eager_constant_folding jax2tf_associative_scan_reductions jax_bcoo_cusparse_lowering
    jax_check_static_indices jax_compilation_cache_check_contents jax_compilation_cache_expect_pgle
    jax_compilation_cache_include_metadata_in_key jax_custom_vjp3 jax_debug_leaked_clients_on_clear_backends
    jax_disable_bwd_checks jax_disable_vmap_shmap_error jax_disallow_mesh_context_manager jax_distributed_debug
    jax_enable_custom_prng jax_enable_pgle jax_enable_recoverability jax_experimental_unsafe_xla_runtime_errors
    jax_export_ignore_forward_compatibility jax_high_dynamic_range_gumbel jax_log_checkpoint_residuals
    jax_log_compiles jax_mosaic_allow_hlo jax_pallas_enable_debug_checks
    jax_pallas_poison_buffers jax_ragged_dot_use_gpu_pallas_triton_lowering jax_raise_persistent_cache_errors
    jax_refs_to_pins jax_remat3 jax_remove_custom_partitioning_ptr_from_cache_key
    jax_remove_size_one_mesh_axis_from_type jax_scan3 jax_share_binary_between_hosts jax_softmax_custom_jvp
    jax_thread_guard jax_threefry_gpu_kernel_lowering jax_use_emit_pipeline_primitive
    jax_use_simplified_jaxpr_constants
bool True: jax2tf_default_native_serialization jax_allow_f16_reductions jax_auto_pcast
    jax_compiler_enable_remat_pass jax_enable_preemption_service jax_include_full_tracebacks_in_locations
    jax_mutable_array_checks jax_pallas_use_mosaic_gpu jax_pprint_use_color
    jax_ragged_dot_use_ragged_dot_instruction jax_use_direct_linearize
    jax_use_shardy_partitioner
int|None 0: jax_captured_constants_report_frames jax_persistent_cache_min_entry_size_bytes jax_random_seed_offset
    jax_serialization_version jax_xla_profile_version
int|None 2: jax_cpu_get_local_topology_timeout_minutes
int|None 3: jax_pgle_profiling_runs
int|None 5: jax_cpu_get_global_topology_timeout_minutes
int|None 10: jax_export_calling_convention_version
int|None 32: jax_embedded_constants_max_bytes
int|None 90: jax_pgle_aggregation_percentile
int|None 100: jax_traceback_in_locations_limit
int|None 1200000: jax_share_binary_between_hosts_timeout_ms
int|None 2000000000: jax_captured_constants_warn_bytes
float|None 0.0: jax_exec_time_optimization_effort jax_memory_fitting_effort
float|None 1.0: jax_persistent_cache_min_compile_time_secs
str '': jax_debug_log_modules
str|None None: jax_hlo_source_file_canonicalization_regex jax_pjrt_client_create_options jax_source_url_schema
str|None 'xla_gpu_per_fusion_autotune_cache_dir': jax_persistent_cache_enable_xla_caches
1|2|3 1: jax_explicit_x64_dtypes
allow|warn|error 'allow': jax_legacy_prng_key
off|on|full 'off': jax_send_traceback_to_runtime
off|on|auto 'auto': jax_use_magma
ignore|raise 'ignore': jax_error_checking_behavior_divide jax_error_checking_behavior_nan
UNKNOWN|O0|O1|O2|O3 'O2': jax_memory_fitting_level
UNKNOWN|O0|O1|O2|O3 'UNKNOWN': jax_optimization_level
None|NOTSET|DEBUG|INFO|WARNING|ERROR|CRITICAL 'NOTSET': jax_logging_level
None|gloo|mpi|megascale 'gloo': jax_cpu_collectives_implementation
None|allow|log|fatal None: jax_array_garbage_collection_guard
None|allow|log|disallow|log_explicit|disallow_explicit None: jax_transfer_guard jax_transfer_guard_device_to_device
    jax_transfer_guard_device_to_host jax_transfer_guard_host_to_device
any None: jax_cross_host_transfer_timeout_seconds jax_cross_host_transfer_transfer_size
any '': jax_backend_target jax_cross_host_transfer_socket_address jax_cross_host_transport_addresses jax_dump_ir_to
    jax_mock_gpu_topology jax_xla_backend
any 'all': jax_cuda_visible_devices jax_oneapi_visible_devices jax_rocm_visible_devices
any 'stablehlo': jax_dump_ir_modes
any True: jax_check_proxy_envs jax_cpu_enable_async_dispatch jax_include_debug_info_in_dumps
    jax_sort_devices_by_process_index
any False: jax_disable_most_optimizations jax_force_dcn_cross_host_transfers jax_pallas_verbose_errors
any 0: mock_num_gpu_processes
any 5: jax_tracer_error_num_traceback_frames
any 10: jax_compiler_detailed_logging_min_ops
"""

_CONSTANTS: dict[str, Any] = {"None": None, "True": True, "False": False}


def _constant(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("'"):
        return text[1:-1]
    return float(text) if "." in text else int(text)


@functools.cache
def _options() -> dict[str, tuple[str, Any]]:
    """For each option without effect, the values that it takes and its default."""
    found: dict[str, tuple[str, Any]] = {}
    for entry in _TABLE.replace("\n    ", " ").strip().splitlines():
        head, _, names = entry.partition(": ")
        takes, default = head.split()
        found |= dict.fromkeys(names.split(), (takes, _constant(default)))
    return found


# Values that were set for the process, and values that override them in the current thread or task.
_values: dict[str, Any] = {}
_overlay: ContextVar[dict[str, Any] | None] = ContextVar("didax_jax_options", default=None)


_TYPES: dict[str, Any] = {"int": int, "float": (int, float), "str": str, "any": object}


def _takes(word: str, value: Any) -> bool:
    if word in _TYPES:
        return isinstance(value, _TYPES[word])
    return value is None if word == "None" else type(value) in (str, int) and str(value) == word


def _checked(name: str, value: Any) -> Any:
    """The value in the type of the option, by JAX's rules."""
    config.check_is_one_value(name, value)
    takes = _options()[name][0]
    if takes == "bool":
        return bool(value)
    if any(_takes(word, value) for word in takes.split("|")):
        return value
    rule = f"option {name!r} takes {takes.replace('|', ', ')}."
    fix = "It has no effect here: leave it out, or pass one of these."
    raise ArgumentError(message(rule, f"got: {value!r:.100} of type {type(value).__name__}", fix=fix))


def _read(name: str) -> Any:
    return {**_values, **(_overlay.get() or {})}.get(name, _options()[name][1])


class OptionWithoutEffect(ContextDecorator):
    """An option that has no effect, set inside of a block or a function; its value is checked at once."""

    def __init__(self, name: str, value: Any):
        self._set = {name: _checked(name, value)}
        self._tokens: list[Token[dict[str, Any] | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_overlay.set({**(_overlay.get() or {}), **self._set}))

    def __exit__(self, *_: object) -> None:
        _overlay.reset(self._tokens.pop())

    def _recreate_cm(self) -> OptionWithoutEffect:
        """Each call of a decorated function enters a block of its own."""
        return OptionWithoutEffect(*next(iter(self._set.items())))


# The value that an option shows under its name in JAX, for values that JAX does not have.
_AS_IN_JAX: dict[str, dict[Any, Any]] = {
    "jax_debug_nans": {"off": False, "on": True, "outputs": True},
    "jax_debug_infs": {"off": False, "on": True, "outputs": True},
    "jax_debug_key_reuse": {"off": False, "warn": False, "error": True},
    "jax_default_matmul_precision": {"default": None},
    "jax_platforms": {"": None},
    "jax_compilation_cache_dir": {"": None},
    "jax_traceback_filtering": {"on": "auto"},
}


class Config:
    """The public `didax.config`: `config.update(name, value)`, and options as attributes."""

    def update(self, option: str, value: Any) -> None:
        """Set an option for the whole process.

        >>> import didax as dx
        >>> dx.config.update("jax_log_compiles", True)
        >>> dx.config.jax_log_compiles, dx.config.jax_enable_x64
        (True, False)
        >>> dx.config.update("jax_log_compiles", False)
        """
        if option in _options():
            _values[option] = _checked(option, value)
        else:
            config.update(option, value)

    def read(self, option: str) -> Any:
        """The value of an option."""
        if option in _options():
            return _read(option)
        value = getattr(config.state(), config.option_named(option))
        return _AS_IN_JAX.get(option, {}).get(value, value)

    def __getattr__(self, option: str) -> Any:
        return self.read(option)

    @property
    def values(self) -> dict[str, Any]:
        """Every option by its name in JAX, with its value."""
        return {name: self.read(name) for name in (*config.names_in_jax(), *_options())}

    def without_effect(self) -> tuple[str, ...]:
        """The options of JAX that can be set and read, with values that are checked, and that change nothing.

        >>> import didax as dx
        >>> "jax_log_compiles" in dx.config.without_effect()
        True
        """
        return tuple(sorted(_options()))

    def parse_flags_with_absl(self) -> None:
        """Set the options that the command line names, as `--jax_enable_x64=true`. This does not need absl."""
        for argument in sys.argv[1:]:
            if argument == "--":
                return
            option, given, text = argument.removeprefix("--").partition("=")
            if argument.startswith("--jax"):
                self._parse(option, text if given else "true")
            elif argument.startswith("--nojax"):
                self._parse(option.removeprefix("no"), "false")

    def read_environment(self) -> None:
        """Set the options that variables of JAX name, as JAX_ENABLE_X64=1, unless Didax's own variable is set, too.

        ValueError or TypeError for a value that the option cannot have. Variables that name no option are left alone.
        """
        known = {name.upper(): name for name in (*config.names_in_jax(), *_options())}
        for variable in known.keys() & os.environ.keys():
            option, text = known[variable], os.environ[variable]
            own = "" if option in _options() else config.variable_of(config.option_named(option))
            if not text.strip() or own in os.environ:
                continue
            try:
                self._parse(option, text)
            except (TypeError, ValueError) as error:
                rule = f"The environment variable {variable} has a value that it cannot have."
                facts = (f"{variable}={text!r}", str(error).partition("\n")[0])
                raise type(error)(message(rule, *facts, fix="Set another value, or unset it.")) from None

    def config_with_absl(self) -> None:
        """Declare the options as flags of absl, and take their values when absl has read the command line."""
        # Imported here because Didax does not depend on absl.
        flags: Any = importlib.import_module("absl.flags")
        app: Any = importlib.import_module("absl.app")
        for name, value in self.values.items():
            define = flags.DEFINE_bool if isinstance(value, bool) else flags.DEFINE_string
            define(name, value, f"The option {name} of didax.config.")
        app.call_after_init(lambda: self._take_flags(flags.FLAGS))

    def _take_flags(self, flags: Any) -> None:
        for name in self.values:
            if flags[name].present:
                self._parse(name, str(flags[name].value))

    def _parse(self, option: str, text: str) -> None:
        if option not in _options():
            config.update(option, text)
            return
        takes = _options()[option][0].split("|")
        if takes == ["bool"]:
            self.update(option, text.lower() not in ("", "0", "false", "off", "no", "n", "f"))
        else:
            self.update(option, float(text) if "float" in takes else int(text) if "int" in takes else text)

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {getattr(config.state(), name)!r}" for name in config.NAMES)
