"""Passes: functions from a program to a program, or to findings about it, that are no transformations of its meaning.

`simplify.py` removes what is unused and merges what is equal. `physical.py` replaces random keys by their numbers.
`outline.py` cuts large programs into blocks that XLA compiles one by one. `checkify.py` adds checks as results,
`nans.py` looks for the operation that made a NaN, `key_reuse.py` for random keys that are used twice.
These passes know no primitive by name: a primitive's rules tell them what they need.

`loops/` makes loops faster. It knows the loop primitives, so it stands above the primitives floor.
Read next: `simplify.py`, and `loops/__init__.py`.
"""
