"""Solvers that need of a matrix only its products with vectors: `linalg`."""
