"""The transformations users call: `jit`, `grad` and its family, `vmap`, and `make_jaxpr`.

Each file wraps flat interpreters of `didax/transforms` for functions over pytrees, and checks what users pass.
"""
