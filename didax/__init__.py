"""Didax: composable transformations of array programs.

    import didax as dx
    import didax.numpy as dnp

`grad`, `vjp`, `jvp` and `linearize` differentiate, `vmap` vectorises, `jit` compiles, in any order and nesting.
A reader's map of the package is `MAP.md` beside this file.
"""

from didax.version import __version__, check_jaxlib, installed_jaxlib

check_jaxlib(installed_jaxlib())

# ruff: noqa: E402
from didax import dtypes, extend, lax, nn, numpy, random, tree, tree_util
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
from didax.api.devices import block_until_ready, default_backend, device_get, device_put, devices
from didax.api.inspect import eval_shape, make_jaxpr
from didax.api.jit import jit
from didax.api.options import clear_caches, debug_key_reuse, disable_jit, enable_x64, numpy_dtype_promotion
from didax.api.stages import ShapeDtypeStruct
from didax.api.vmap import vmap
from didax.core.config import Config
from didax.core.dtypes import float0
from didax.core.value import Array

config = Config()

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "__version__",
    "block_until_ready",
    "clear_caches",
    "config",
    "debug_key_reuse",
    "default_backend",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dtypes",
    "enable_x64",
    "eval_shape",
    "extend",
    "float0",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "make_jaxpr",
    "nn",
    "numpy",
    "numpy_dtype_promotion",
    "random",
    "tree",
    "tree_util",
    "value_and_grad",
    "vjp",
    "vmap",
]
