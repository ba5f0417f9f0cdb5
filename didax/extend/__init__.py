"""For those who extend the library from outside: primitives, interpreters, dtypes and random generators of their own.

`core` is what a program is made of, `rules` what the rules of a primitive are written with, `dtypes` elements that are
no numbers, `random` generators. These four are the whole of it, and they are kept as the rest of the public surface is
(`docs/versions.md`); nothing below them is. The tutorial is `docs/extending.md`.
"""

from didax.extend import core, dtypes, random, rules

__all__ = ["core", "dtypes", "random", "rules"]
