"""Didax beside JAX, and NumPy or PyTorch where asked for: `python -m benchmarks`, or `make bench`."""
