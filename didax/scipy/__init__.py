"""Functions of SciPy on Didax arrays, with the names and arguments of `jax.scipy`.

    from didax.scipy import special
    from didax.scipy.sparse.linalg import cg

Each module is loaded when it is imported. Read next: `special.py`, `sparse/linalg.py`.
"""
