"""Options as context managers, which decorate functions too, and forgetting what caches hold.

    with dx.enable_x64(): ...          @dx.debug_nans(True)
                                       def step(...): ...

Each function returns an override of one option of `core/config.py`, for the current thread or task, as long as the
block lasts. Functions that return an `OptionWithoutEffect` are JAX's, and are accepted: docs/differences.md says so.
Read next: `core/config.py`; docs/options.md has all options and their environment variables.
"""

from __future__ import annotations

import sys
from typing import Any

from didax.api import jit_cache
from didax.core import config, primitive
from didax.core.errors import message
from didax.core.jax_options import OptionWithoutEffect
from didax.passes import key_reuse
from didax.runtime import background, compiled, eager
from didax.transforms import cache


def enable_x64(new_val: bool = True) -> config.override:
    """Inside the block, values of no stated dtype are 64 bits wide.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.enable_x64():
    ...     dnp.asarray(1.0).dtype
    dtype('float64')
    """
    return config.option_block(enable_x64=new_val)


def disable_jit(disable: bool = True) -> config.override:
    """Inside the block, jitted functions run as plain Python, operation by operation.

    >>> import didax as dx
    >>> with dx.disable_jit():
    ...     dx.jit(lambda x: 10 if x > 0 else 20)(1.0)  # x has a number, so Python can branch on it
    10
    """
    return config.option_block(disable_jit=disable)


def numpy_dtype_promotion(new_val: str) -> config.override:
    """Inside the block, 'strict' forbids implicit promotion of differing dtypes; 'standard' allows it.

    In a 'strict' block, operands of differing dtypes raise TypePromotionError, a TypeError; scalars of Python are let
    pass. ValueError for another word.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.numpy_dtype_promotion("strict"):
    ...     (dnp.float32(1) + 2).dtype
    dtype('float32')
    """
    return config.option_block(numpy_dtype_promotion=new_val)


def numpy_rank_promotion(new_val: str) -> config.override:
    """Inside the block, elementwise functions 'raise' a ValueError, or 'warn', if arrays of different ranks broadcast.

    Scalars always broadcast. The default is 'allow'.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.numpy_rank_promotion("raise"):
    ...     (dnp.ones((2, 3)) + dnp.ones((1, 3))).shape
    (2, 3)
    """
    return config.option_block(numpy_rank_promotion=new_val)


def default_matmul_precision(new_val: str) -> config.override:
    """Inside the block, products and convolutions that state no precision have 'default', 'high' or 'highest'.

    The name of a `lax.DotAlgorithmPreset` is taken, too; that of 'F64_F64_F64' computes products in float64.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.default_matmul_precision("highest"):
    ...     dnp.ones(2) @ dnp.ones(2)
    Array(2., dtype=float32)
    """
    return config.option_block(default_matmul_precision=new_val)


def default_prng_impl(new_val: str) -> config.override:
    """Inside the block, keys are made with another implementation, by its name as for `random.key`.

    >>> import didax as dx
    >>> with dx.default_prng_impl("rbg"):
    ...     dx.random.key_impl(dx.random.key(0))
    'rbg'
    """
    return config.option_block(default_prng_impl=new_val)


def threefry_partitionable(new_val: bool = True) -> config.override:
    """Inside the block, keys of threefry2x32 draw and split as JAX does by default; with False, as it did formerly.

    >>> import didax as dx
    >>> with dx.threefry_partitionable(False):
    ...     dx.random.uniform(dx.random.key(0))
    Array(0.41845703, dtype=float32)
    """
    return config.option_block(threefry_partitionable=new_val)


def explain_cache_misses(new_val: bool = True) -> config.override:
    """Inside the block, the logger 'didax' is told why a jitted function is traced again.

    >>> import didax as dx
    >>> f = dx.jit(lambda x: x + 1)
    >>> with dx.explain_cache_misses():
    ...     int(f(1))  # the logger is told that this is the first call of the function
    2
    """
    return config.option_block(explain_cache_misses=new_val)


def compile_in_background(new_val: bool = True) -> config.override:
    """Inside the block, calls of functions that are not compiled yet do not wait for XLA: see docs/background.md.

    They are evaluated operation by operation, and a thread compiles what is called again.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.compile_in_background():
    ...     dx.jit(lambda x: x * 2 + 1)(dnp.ones(2))
    Array([3., 3.], dtype=float32)
    """
    return config.option_block(compile_in_background=new_val)


def enable_checks(new_val: bool = True) -> config.override:
    """Inside the block, jaxprs and the results of eager rules are verified: for those who write primitives.

    >>> import didax as dx
    >>> with dx.enable_checks():
    ...     float(dx.jit(dx.grad(lambda x: x * x))(3.0))
    6.0
    """
    return config.option_block(check=new_val)


def optimize_loops(new_val: bool | str = "auto") -> config.override:
    """Inside the block, programs are compiled with the passes on loops that pay ('auto'), or with none ('off').

    `explain` tells what they do to a program, and why.

    >>> import didax as dx
    >>> with dx.optimize_loops("off"):
    ...     int(dx.jit(lambda n: dx.lax.fori_loop(0, 5, lambda i, x: x + i, n))(0))
    10
    """
    return config.option_block(optimize_loops=new_val)


def debug_key_reuse(new_val: bool | str = True) -> config.override:
    """Inside the block, a random key used twice is an error (True, 'error'), 'warn's, or is let pass (False, 'off').

    >>> import didax as dx
    >>> with dx.debug_key_reuse(False):
    ...     key = dx.random.key(0)
    ...     dx.random.normal(key) == dx.random.normal(key)
    Array(True, dtype=bool)
    """
    return config.option_block(debug_key_reuse=new_val)


def debug_nans(new_val: bool | str = True) -> config.override:
    """Inside the block, an operation that makes a NaN out of numbers raises NaNError, a FloatingPointError.

    A jitted function is looked at through its results, and run again step by step to find the first such operation.
    With "outputs" it is the first whose NaN reached a result: what is masked later, and operations outside of jit, are
    let pass.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.debug_nans("outputs"):
    ...     float(dx.jit(lambda x: dnp.where(x > 0, dnp.log(x), 0.0))(-1.0))
    0.0
    """
    return config.option_block(debug_nans=new_val)


def debug_infs(new_val: bool | str = True) -> config.override:
    """Inside the block, an operation that makes an infinity out of finite numbers raises NaNError; as `debug_nans`.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.debug_infs():
    ...     dnp.exp(1000.0)
    Traceback (most recent call last):
    didax.core.errors.NaNError: ...
    """
    return config.option_block(debug_infs=new_val)


def checking_leaks(new_val: bool = True) -> config.override:
    """Inside the block, a traced array that is still held when its transformation ends raises UnexpectedTracerError.

    The error names the line that made the array and what holds it. Each transformation looks through all of memory.

    >>> import didax as dx
    >>> with dx.checking_leaks():
    ...     int(dx.jit(lambda x: x + 1)(1))  # nothing holds x afterwards
    2
    """
    return config.option_block(check_tracer_leaks=new_val)


check_tracer_leaks = checking_leaks


def no_tracing(new_val: bool = True) -> config.override:
    """Inside the block, a jitted function that would be traced raises RuntimeError.

    >>> import didax as dx
    >>> f = dx.jit(lambda x: x + 1)
    >>> one = f(0)
    >>> with dx.no_tracing():
    ...     int(f(2))
    3
    """
    return config.option_block(no_tracing=new_val)


def no_execution(new_val: bool = True) -> config.override:
    """Inside the block, an operation or a compiled program that would run raises RuntimeError.

    Tracing goes on.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.no_execution():
    ...     dx.eval_shape(dnp.sin, dx.ShapeDtypeStruct((3,), "float32")).shape
    (3,)
    """
    return config.option_block(no_execution=new_val)


class UserContext:
    """A value of yours that functions depend on: `context(value)` sets it inside of a block, `context.value` reads it.

    Made by `make_user_context`.
    """

    def __init__(self, default_value: Any):
        self._default = default_value

    def __call__(self, value: Any) -> config.override:
        try:
            hash(value)
        except TypeError:
            rule = "The value of a user context is part of the keys of caches, so it is hashable."
            raise TypeError(
                message(rule, f"value: {value!r:.200}", fix="Pass a tuple or a string.")
            ) from None
        others = [pair for pair in config.state().user_contexts if pair[0] is not self]
        return config.override(user_contexts=(*others, (self, value)))

    @property
    def value(self) -> Any:
        """The value here and now."""
        return dict(config.state().user_contexts).get(self, self._default)


def make_user_context(default_value: Any = None) -> UserContext:
    """Make a context whose value jitted functions may read: for another value they are traced again.

    Values are hashable.

    >>> import didax as dx
    >>> scale = dx.make_user_context(1)
    >>> f = dx.jit(lambda x: x * scale.value)
    >>> with scale(3):
    ...     int(f(5))
    15
    >>> int(f(5))
    5
    """
    return UserContext(default_value)


def log_compiles(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it. `explain_cache_misses` tells why a function is compiled again.

    >>> import didax as dx
    >>> with dx.log_compiles():
    ...     dx.config.jax_log_compiles
    True
    """
    return OptionWithoutEffect("jax_log_compiles", new_val)


def default_device(new_val: Any) -> config.override:
    """Inside the block, programs whose arguments the user has placed nowhere run on this device.

    None is the first device of the process; so is the name of its platform. Results may go elsewhere afterwards, as any
    array that nobody has placed. TypeError for what is no device.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.default_device(dx.devices()[-1]):
    ...     dx.jit(lambda x: x + 1)(dnp.ones(2)).device == dx.devices()[-1]
    True
    """
    return config.option_block(default_device=new_val)


def transfer_guard(new_val: str | None) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it. Nor do the guards of one direction have any.

    ArgumentError for a word that the option does not take in JAX.

    >>> import didax as dx
    >>> with dx.transfer_guard("disallow"):
    ...     dx.config.jax_transfer_guard
    'disallow'
    """
    return OptionWithoutEffect("jax_transfer_guard", new_val)


def transfer_guard_host_to_device(new_val: str | None) -> OptionWithoutEffect:
    """Has no effect; see `transfer_guard`.

    >>> import didax as dx
    >>> with dx.transfer_guard_host_to_device("log"):
    ...     dx.config.jax_transfer_guard_host_to_device
    'log'
    """
    return OptionWithoutEffect("jax_transfer_guard_host_to_device", new_val)


def transfer_guard_device_to_device(new_val: str | None) -> OptionWithoutEffect:
    """Has no effect; see `transfer_guard`.

    >>> import didax as dx
    >>> with dx.transfer_guard_device_to_device("log"):
    ...     dx.config.jax_transfer_guard_device_to_device
    'log'
    """
    return OptionWithoutEffect("jax_transfer_guard_device_to_device", new_val)


def transfer_guard_device_to_host(new_val: str | None) -> OptionWithoutEffect:
    """Has no effect; see `transfer_guard`.

    >>> import didax as dx
    >>> with dx.transfer_guard_device_to_host("log"):
    ...     dx.config.jax_transfer_guard_device_to_host
    'log'
    """
    return OptionWithoutEffect("jax_transfer_guard_device_to_host", new_val)


def array_garbage_collection_guard(new_val: str | None) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    ArgumentError for a word that the option does not take in JAX.

    >>> import didax as dx
    >>> with dx.array_garbage_collection_guard("log"):
    ...     dx.config.jax_array_garbage_collection_guard
    'log'
    """
    return OptionWithoutEffect("jax_array_garbage_collection_guard", new_val)


def thread_guard(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.thread_guard():
    ...     dx.config.jax_thread_guard
    True
    """
    return OptionWithoutEffect("jax_thread_guard", new_val)


def allow_f16_reductions(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.allow_f16_reductions(False):
    ...     dx.config.jax_allow_f16_reductions
    False
    """
    return OptionWithoutEffect("jax_allow_f16_reductions", new_val)


def auto_pcast(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.auto_pcast(False):
    ...     dx.config.jax_auto_pcast
    False
    """
    return OptionWithoutEffect("jax_auto_pcast", new_val)


def enable_custom_prng(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.enable_custom_prng():
    ...     dx.config.jax_enable_custom_prng
    True
    """
    return OptionWithoutEffect("jax_enable_custom_prng", new_val)


def legacy_prng_key(new_val: str = "allow") -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    ArgumentError for a word that the option does not take in JAX.

    >>> import didax as dx
    >>> with dx.legacy_prng_key("warn"):
    ...     dx.config.jax_legacy_prng_key
    'warn'
    """
    return OptionWithoutEffect("jax_legacy_prng_key", new_val)


def jax2tf_associative_scan_reductions(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.jax2tf_associative_scan_reductions():
    ...     dx.config.jax2tf_associative_scan_reductions
    True
    """
    return OptionWithoutEffect("jax2tf_associative_scan_reductions", new_val)


def remove_size_one_mesh_axis_from_type(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.remove_size_one_mesh_axis_from_type():
    ...     dx.config.jax_remove_size_one_mesh_axis_from_type
    True
    """
    return OptionWithoutEffect("jax_remove_size_one_mesh_axis_from_type", new_val)


def softmax_custom_jvp(new_val: bool = True) -> OptionWithoutEffect:
    """Has no effect; JAX's programs may call it.

    >>> import didax as dx
    >>> with dx.softmax_custom_jvp(False):
    ...     dx.config.jax_softmax_custom_jvp
    False
    """
    return OptionWithoutEffect("jax_softmax_custom_jvp", new_val)


def wait_for_compilations() -> None:
    """Wait until the programs that were to be compiled in the background are compiled.

    >>> import didax as dx
    >>> dx.wait_for_compilations()
    """
    background.wait()


def clear_caches() -> None:
    """Forget every staged and compiled program and everything derived from them (not the cache on disk).

    Memory that is free goes back to the system, also what the option `keep_memory` holds for new arrays.

    >>> import didax as dx
    >>> dx.clear_caches()  # doctest: +SKIP
    """
    jit_cache.clear_functions()
    compiled.clear_programs()
    cache.clear_caches()
    eager.clear_plans()
    primitive.clear_types()
    key_reuse.forget_reports()
    if "didax.xla.compile" in sys.modules:  # nothing was compiled otherwise
        sys.modules["didax.xla.compile"].clear_memory()
    if "didax.xla.kept_memory" in sys.modules:
        sys.modules["didax.xla.kept_memory"].give_back()
