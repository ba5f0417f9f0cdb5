"""Policies of `checkpoint`: which intermediate values are saved, and which are recomputed.

    dx.checkpoint(f, policy=dx.checkpoint_policies.dots_saveable)

A policy is any hashable function `policy(primitive, *avals, **params)`. It is called for each equation of the
checkpointed function and of its derivative, and says whether the results may be saved. True is a permission:
a value that the backward pass does not need is not kept. Policies that offload keep values in the memory of the
host, until the backward pass brings them back to the device. Read next: `didax/primitives/checkpoint.py`, which
calls the policies.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

from didax.core.avals import ShapedArray
from didax.core.errors import api_boundary, message
from didax.core.jaxpr_print import register_param_type
from didax.core.modules import on_access
from didax.core.primitive import Primitive
from didax.primitives.checkpoint import Offloadable, Policy, Verdict, checkpoint_name_p
from didax.primitives.dot import BilinearContraction, dot_general_p

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "offload_dot_with_no_batch_dims",
    "save_and_offload_only_these_names",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

Saveable = Verdict.SAVEABLE
Recompute = Verdict.RECOMPUTE


@register_param_type
class Save(enum.Enum):
    """Policies without parameters.

    >>> import didax as dx, didax.numpy as dnp
    >>> f = dx.checkpoint(lambda w, x: dnp.sin(w @ x), policy=dx.checkpoint_policies.checkpoint_dots)
    >>> [r.origin for r in dx.ad_checkpoint.saved_residuals(f, dnp.ones((2, 2)), dnp.ones(2))]
    ['argument w', 'argument x', 'output of dot_general']
    """

    NOTHING = "nothing"
    EVERYTHING = "everything"
    DOTS = "products of matrices and convolutions"
    DOTS_WITH_NO_BATCH_DIMS = "products of matrices without batch dimensions"

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
        """Whether the results may be saved."""
        if self is Save.DOTS:
            return isinstance(primitive, BilinearContraction)
        if self is Save.DOTS_WITH_NO_BATCH_DIMS:
            return _is_unbatched_dot(primitive, params)
        return self is Save.EVERYTHING


def _is_unbatched_dot(primitive: Primitive, params: dict[str, Any]) -> bool:
    return primitive is dot_general_p and not any(params["dimension_numbers"][1])


everything_saveable = Save.EVERYTHING
nothing_saveable = Save.NOTHING
dots_saveable = checkpoint_dots = Save.DOTS
dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = Save.DOTS_WITH_NO_BATCH_DIMS


@register_param_type
@dataclasses.dataclass(frozen=True)
class SaveNames:
    """Saves values by their names: the names in `names` if `listed`, else all other names.

    `unnamed` says whether values without a name are saved.
    """

    names: tuple[str, ...]
    listed: bool
    unnamed: bool

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
        """Whether the results may be saved."""
        if primitive is not checkpoint_name_p:
            return self.unnamed
        return (params["name"] in self.names) is self.listed


@api_boundary
def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Save only values to which `checkpoint_name` gave one of these names.

    >>> import didax as dx, didax.numpy as dnp
    >>> policy = dx.checkpoint_policies.save_only_these_names("h")
    >>> f = dx.checkpoint(lambda x: dnp.sin(dx.checkpoint_name(dnp.sin(x), "h")), policy=policy)
    >>> [str(r.aval) for r in dx.ad_checkpoint.saved_residuals(f, 1.0)]
    ['float32[]', 'float32[]']
    """
    return SaveNames(_names("save_only_these_names", names_which_can_be_saved), True, False)


@api_boundary
def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Save only values to which `checkpoint_name` gave a name that is not one of these.

    >>> import didax as dx, didax.numpy as dnp
    >>> policy = dx.checkpoint_policies.save_any_names_but_these("other")
    >>> f = dx.checkpoint(lambda x: dnp.sin(dx.checkpoint_name(dnp.sin(x), "h")), policy=policy)
    >>> [r.origin for r in dx.ad_checkpoint.saved_residuals(f, 1.0)]
    ['argument x', "named 'h'"]
    """
    return SaveNames(_names("save_any_names_but_these", names_not_to_save), False, False)


@api_boundary
def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Save any value, named or not, except values with one of these names.

    The operands from which a named value is computed may be saved: name the results of all operations that
    must not be saved.

    >>> import didax as dx, didax.numpy as dnp
    >>> policy = dx.checkpoint_policies.save_anything_except_these_names("h")
    >>> f = dx.checkpoint(lambda x: dnp.sin(dx.checkpoint_name(dnp.sin(x), "h")), policy=policy)
    >>> [r.origin for r in dx.ad_checkpoint.saved_residuals(f, 1.0)]
    ['output of cos', 'output of cos']
    """
    return SaveNames(_names("save_anything_except_these_names", names_not_to_save), False, True)


@register_param_type
@dataclasses.dataclass(frozen=True)
class SaveFromBoth:
    """Saves what at least one of two policies saves."""

    first: Policy
    second: Policy

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
        """Whether the results may be saved."""
        verdict = self.first(primitive, *avals, **params)
        return self.second(primitive, *avals, **params) if verdict in (False, Recompute) else verdict


@api_boundary
def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Save what at least one of the policies saves.

    >>> import didax as dx, didax.numpy as dnp
    >>> p, q = [dx.checkpoint_policies.save_only_these_names(name) for name in "gh"]
    >>> policy = dx.checkpoint_policies.save_from_both_policies(p, q)
    >>> f = dx.checkpoint(lambda x: dnp.sin(dx.checkpoint_name(dnp.sin(x), "h")), policy=policy)
    >>> [r.origin for r in dx.ad_checkpoint.saved_residuals(f, 1.0)]
    ['argument x', "named 'h'"]
    """
    return SaveFromBoth(policy_1, policy_2)


@register_param_type
@dataclasses.dataclass(frozen=True)
class OffloadDots:
    """Offloads products of matrices without batch dimensions."""

    src: str
    dst: str

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
        """Whether the results are offloaded."""
        return Offloadable(self.src, self.dst) if _is_unbatched_dot(primitive, params) else Recompute


@api_boundary
def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Save products of matrices without batch dimensions, offloaded from one kind of memory to another.

    >>> import didax as dx, didax.numpy as dnp
    >>> policy = dx.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    >>> f = dx.checkpoint(lambda w, x: dnp.sin(dnp.exp(x @ w)), policy=policy)
    >>> [r.origin for r in dx.ad_checkpoint.saved_residuals(f, dnp.ones((2, 2)), dnp.ones((2, 2)))]
    ['argument w', 'argument x', 'output of dot_general, in pinned_host']
    """
    return OffloadDots(offload_src, offload_dst)


@register_param_type
@dataclasses.dataclass(frozen=True)
class SaveAndOffloadNames:
    """Saves some names and offloads others."""

    saved: tuple[str, ...]
    offloaded: tuple[str, ...]
    src: str
    dst: str

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
        """Whether the results are saved or offloaded."""
        name = params["name"] if primitive is checkpoint_name_p else None
        if name in self.saved:
            return Saveable
        return Offloadable(self.src, self.dst) if name in self.offloaded else Recompute


@api_boundary
def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: list[str] | tuple[str, ...],
    names_which_can_be_offloaded: list[str] | tuple[str, ...],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Save values with some names, and offload values with others from one kind of memory to another.

    ValueError when a name is in both lists.

    >>> import didax as dx
    >>> dx.checkpoint_policies.save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["g"],
    ...     names_which_can_be_offloaded=["h"],
    ...     offload_src="device",
    ...     offload_dst="pinned_host",
    ... )
    SaveAndOffloadNames(saved=('g',), offloaded=('h',), src='device', dst='pinned_host')
    """
    policy = "save_and_offload_only_these_names"
    saved, offloaded = _names(policy, names_which_can_be_saved), _names(policy, names_which_can_be_offloaded)
    both = sorted({*saved} & {*offloaded})
    if both:
        raise ValueError(
            message(
                f"{policy} takes names to save and other names to offload.",
                f"in both: {', '.join(map(repr, both))}",
                fix="Leave each name in one of the lists.",
            )
        )
    return SaveAndOffloadNames(saved, offloaded, offload_src, offload_dst)


def _names(policy: str, names: Any) -> tuple[str, ...]:
    """Return the names in a tuple; TypeError for anything else."""
    wrong = [names] if isinstance(names, str) else [name for name in names if not isinstance(name, str)]
    if wrong:
        raise TypeError(
            message(
                f"{policy} takes names, which are strings.",
                f"got: {wrong[0]!r:.100} of type {type(wrong[0]).__name__}",
                fix="Pass the names that checkpoint_name gave: each as an argument of its own, or in a list where "
                "a list of them is asked for.",
            )
        )
    return tuple(names)
