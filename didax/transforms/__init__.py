"""The interpreters: one transformation per file, each asking the primitives for its rule and knowing none by name.

Read in this order: `staging.py` (functions to jaxprs), `jvp.py`, `batching.py`, `partial_eval.py`, `linearize.py`,
`transpose.py`. What else is done to programs is in `didax/passes/`; the passes walk over equations with
`rewriting.py`.
"""
