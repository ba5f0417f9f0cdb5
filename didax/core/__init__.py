"""What a program is: types, pytrees, primitives, traces, jaxprs. Knows no XLA and no NumPy API.

Read in this order: `value.py`, `avals.py`, `primitive.py`, `tracing.py`, `jaxpr.py`.
"""

import os

# jaxlib's C++ side logs at INFO to stderr unless told otherwise before it is loaded, by whichever module comes first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
