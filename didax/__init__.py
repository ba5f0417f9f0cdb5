"""Didax: composable transformations of array programs.

    import didax as dx
    import didax.numpy as dnp

`grad`, `vjp`, `jvp` and `linearize` differentiate, `vmap` vectorises, `jit` compiles, in any order and nesting.
A reader's map of the package is `MAP.md` beside this file.
"""

from didax.version import __version__, check_jaxlib, installed_jaxlib

check_jaxlib(installed_jaxlib())

# ruff: noqa: E402
from didax import (
    ad_checkpoint,
    checkify,
    checkpoint_policies,
    custom_batching,
    custom_derivatives,
    debug,
    dtypes,
    experimental,
    extend,
    lax,
    nn,
    numpy,
    random,
    ref,
    tree,
    tree_util,
)
from didax.api.autodiff import (
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from didax.api.autodiff import jacrev as jacobian
from didax.api.callbacks import effects_barrier, io_callback, pure_callback
from didax.api.checkpoint import checkpoint, checkpoint_name, remat
from didax.api.custom import custom_jvp, custom_rules, custom_vjp
from didax.api.devices import block_until_ready, default_backend, device_get, device_put, devices
from didax.api.inspect import eval_shape, explain, make_jaxpr
from didax.api.jit import jit
from didax.api.options import (
    checking_leaks,
    clear_caches,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    disable_jit,
    enable_x64,
    numpy_dtype_promotion,
    optimize_loops,
)
from didax.api.stages import ShapeDtypeStruct
from didax.api.vmap import vmap
from didax.core.config import Config
from didax.core.dtypes import float0
from didax.core.value import Array
from didax.custom_derivatives import closure_convert, custom_gradient
from didax.debug._mode import debug_mode
from didax.ref import Ref, empty_ref, free_ref, freeze, new_ref

config = Config()

__all__ = [
    "Array",
    "Ref",
    "ShapeDtypeStruct",
    "__version__",
    "ad_checkpoint",
    "block_until_ready",
    "checkify",
    "checking_leaks",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "debug",
    "debug_infs",
    "custom_batching",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_rules",
    "custom_vjp",
    "debug_key_reuse",
    "debug_mode",
    "debug_nans",
    "default_backend",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "empty_ref",
    "enable_x64",
    "eval_shape",
    "experimental",
    "explain",
    "extend",
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
    "make_jaxpr",
    "new_ref",
    "nn",
    "numpy",
    "numpy_dtype_promotion",
    "optimize_loops",
    "pure_callback",
    "random",
    "ref",
    "remat",
    "tree",
    "tree_util",
    "value_and_grad",
    "vjp",
    "vmap",
]
