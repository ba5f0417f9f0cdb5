"""What `jax.interpreters` gives to those who add primitives: one file for each of its modules.

`primitive.py` beside this package is what they share.
"""
