"""What `jit` can be asked for.

`JitOptions` are its keywords as users write them, `JitSettings` the same in one form.
Read next: `jit.py`; `static.py` and `donation.py`, what is made of some of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from didax.api.devices import devices
from didax.api.static import check_arguments_exist, check_no_argument_is_both
from didax.core import pytree
from didax.core.errors import message


class JitOptions(TypedDict, total=False):
    """The options of `jit`."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Iterable[str] | None
    compiler_options: dict[str, Any] | None
    inline: bool
    keep_unused: bool
    compile_in_background: bool | None
    in_shardings: Any
    out_shardings: Any
    backend: str | None
    device: Any
    bucket: Any


class JitSettings(NamedTuple):
    """The options of one jitted function; arguments are named by number and by name."""

    static: tuple[tuple[int, ...], tuple[str, ...]]
    donated: tuple[tuple[int, ...], tuple[str, ...]]
    compiler_options: dict[str, Any] | None
    keep_unused: bool
    compile_in_background: bool | None
    shardings: tuple[Any, Any]  # of the arguments, of the results
    bucket: Any = None  # a Buckets (buckets.py)

    @property
    def key(self) -> Hashable:
        """Equal for options that make the same programs."""
        marked = tuple(frozenset(which) for which in (*self.static, *self.donated))
        # None is no pytree here: pytrees load jaxlib, and the library's own functions are jitted when it is imported
        laid_out = tuple(s if s is None else _leaves_and_tree(s) for s in self.shardings)
        options = repr(sorted((self.compiler_options or {}).items()))
        bucket = self.bucket if self.bucket is None else self.bucket.key
        return marked, self.keep_unused, self.compile_in_background, options, laid_out, bucket

    def check(self, fun: Callable[..., Any]) -> None:
        """ValueError for arguments that the function does not have, and for options that exclude each other."""
        if self.bucket is not None and self.shardings != (None, None):
            rule = "jit with bucket= runs on one device."
            facts = f"in_shardings, out_shardings: {self.shardings!r:.100}"
            raise ValueError(message(rule, facts, fix="Leave them out, or pad the arrays yourself."))
        for option, (numbers, names) in (("static", self.static), ("donate", self.donated)):
            if numbers or names:
                check_arguments_exist("jit", fun, option, numbers, names)
        check_no_argument_is_both(fun, self.static, self.donated)


def check_place(backend: str | None, device: Any) -> None:
    """Warn that the options are deprecated; RuntimeError or NotImplementedError where programs do not run there."""
    if backend is None and device is None:
        return
    rule = "The options backend and device of jit are deprecated."
    fix = "Put the arguments on a device with device_put: programs run where their arguments are."
    warnings.warn(
        message(rule, f"backend: {backend!r}, device: {device!r}", fix=fix), DeprecationWarning, stacklevel=4
    )
    if backend is not None:
        devices(backend)
    if device is not None and device != devices()[0]:
        rule = "jit brings no arguments to a device other than the default one."
        raise NotImplementedError(message(rule, f"device: {device!r}", fix=fix))


def _leaves_and_tree(x: Any) -> Hashable:
    leaves, tree = pytree.flatten(x, lambda leaf: leaf is None)
    return tuple(leaves), tree
