"""For those who extend the library from outside: primitives, interpreters, dtypes and random generators of their own.

`core` is what a program is made of, `rules` what the rules of a primitive are written with, `dtypes` elements that are
no numbers, `random` generators, `testing` what the tests of an extension check its rules with. These five are the whole
of it, and they are kept as the rest of the public surface is (`docs/versions.md`); nothing below them is. The tutorial
is `docs/extending.md`.
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.extend import core, dtypes, random, rules

if TYPE_CHECKING:
    from didax.extend import testing as testing
else:
    __getattr__, __dir__ = on_access(__name__, "testing")

__all__ = ["core", "dtypes", "random", "rules", "testing"]
