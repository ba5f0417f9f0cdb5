"""Functions with rules of their own: user-defined derivatives, linear maps, and ways to batch.

Read in this order: `rules.py` (what such a function is), `call.py` (calling it), `linear_map.py` (linear steps of the
user's own), `constant.py`.
"""
