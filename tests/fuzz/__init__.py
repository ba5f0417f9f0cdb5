"""A fuzzer: random programs over all public operations, run by Didax and by jax, and compared.

    make fuzz MINUTES=10 SEED=0       or: python -m tests.fuzz --minutes 10 --seed 0

A program is text: statements such as `v3 = np.sum(v1, axis=0)`, which run in either library with `np` bound to its
numpy module, under a stack of transformations. Programs are drawn from a seed, one by one, in worker processes; one
that is computed differently, refused by one library only, ends its process or hangs is shrunk to a script of a few
lines in out/fuzz/.

Read on in this order: program.py (what a program is), libraries.py (the two that run it), scope.py and table_*.py
(which statements there are), generator.py, transformations.py, comparison.py (which differences count), differences.py
(which are known), then workers.py, shrinker.py, script.py and __main__.py.
"""
