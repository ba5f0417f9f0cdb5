"""Everything that touches XLA: the only package here, with `core/pytree.py`, that imports jaxlib.

`text.py` and `lowering.py` write StableHLO from jaxprs, `client.py` finds the devices, `compile.py` turns text into
executables and remembers them in memory and on disk, `buffers.py` moves arrays between host and device.
"""
