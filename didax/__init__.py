"""Didax: composable transformations of array programs.

    import didax as dx
    import didax.numpy as dnp

`grad`, `vjp`, `jvp` and `linearize` differentiate, `vmap` vectorises, `jit` compiles, in any order and nesting.
A reader's map of the package is `MAP.md` beside this file.
"""

from didax.version import __version__, check_jaxlib, installed_jaxlib

check_jaxlib(installed_jaxlib())

from didax.api.autodiff import (  # noqa: E402
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
from didax.api.inspect import eval_shape, make_jaxpr  # noqa: E402
from didax.api.jit import jit  # noqa: E402
from didax.api.stages import ShapeDtypeStruct  # noqa: E402
from didax.api.vmap import vmap  # noqa: E402
from didax.core.value import Array  # noqa: E402
from didax import eager as _eager  # noqa: E402
