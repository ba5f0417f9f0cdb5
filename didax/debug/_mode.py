"""`debug_mode`: all checks that Didax has, in one context manager.

Each check is an option of its own (`didax.config`), which the block sets for the current thread or task.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from didax.core import config


def debug_mode(*, nans: bool | str = True, infs: bool | str = False) -> AbstractContextManager[None]:
    """Make common mistakes errors inside the block, in eager and compiled programs; the errors name the user's line.

    The mistakes are: an operation that makes a NaN out of numbers (`debug_nans`; infinities on request), a
    traced index out of bounds, whatever its mode (`error_checking_behavior_oob`), a random key used twice
    (`debug_key_reuse`), a traced array that outlives its transformation (`check_tracer_leaks`), and a
    transformation that writes a malformed program (`check`). Functions are traced and compiled again.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.debug_mode():
    ...     dx.jit(lambda x, i: x[i])(dnp.arange(3), 7)
    Traceback (most recent call last):
    didax.core.errors.OutOfBoundsError: out-of-bounds indexing for array of shape (3,): index 7 is out of bounds...
    ...
    """
    return config.option_block(
        debug_nans=nans,
        debug_infs=infs,
        error_checking_behavior_oob="raise",
        debug_key_reuse="error",
        check_tracer_leaks=True,
        check=True,
    )
