"""`shard_map` with the arguments that it had in `jax.experimental`; `didax.shard_map` is its successor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from didax.api import shard_map as _successor
from didax.core.errors import api_boundary
from didax.core.modules import on_access

__all__ = ["shard_map"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def shard_map(
    f: Callable[..., Any], mesh: Any = None, in_specs: Any = None, out_specs: Any = None, check_rep: bool = True,
    auto: Any = frozenset(), **options: Any,
) -> Callable[..., Any]:  # fmt: skip
    """As `didax.shard_map`: `check_rep` is its `check_vma`, `auto` names the axes that are not in `axis_names`.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax import lax
    >>> from didax.experimental.shard_map import shard_map
    >>> mesh = dx.make_mesh((1,), ("i",))
    >>> total = shard_map(lambda x: lax.psum(x.sum(), "i"), mesh, in_specs=dx.P("i"), out_specs=dx.P(), check_rep=True)
    >>> total(dnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if auto:
        options["axis_names"] = frozenset(mesh.axis_names) - frozenset(auto)
    options.setdefault("check_vma", check_rep)
    return _successor.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)  # type: ignore[no-any-return]
