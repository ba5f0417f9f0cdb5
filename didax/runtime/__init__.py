"""The engine: concrete arrays, and the two ways in which programs over them are computed.

`array.py` is the array that a user holds. `eager.py` evaluates one operation at once, at the end of every chain of
traces. `compiled.py` runs staged programs that XLA has compiled; `background.py` runs those that are not compiled yet.
Read next: `eager.py`.
"""
