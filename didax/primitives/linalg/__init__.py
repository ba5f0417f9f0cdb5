"""Factorisations of matrices, a file per kind, on LAPACK where XLA runs on the CPU.

Read in this order: `matrix.py` (what they share), `triangular.py`, `lu.py`, `qr.py`, `eigen.py`, `svd.py`,
`tridiagonal.py`, `solve.py`, `pinv.py`.
"""
