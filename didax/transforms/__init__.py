"""The interpreters: one transformation per file, each asking the primitives for its rule and knowing none by name.

Read in this order: `staging.py` (functions to jaxprs), `jvp.py`, `batching.py`, `partial_eval.py`, `linearize.py`,
`transpose.py`. What is done to programs besides stands in `didax/passes/`; passes walk by `rewriting.py`.
"""
