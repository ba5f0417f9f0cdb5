"""A call of every public function of `lax` that takes arrays, with scalars wherever it takes scalars.

The calls are expressions of `lax` (ours or JAX's) in `s`, a scalar of the kind that the table stands under: "f" for
floats, "i" for integers, "c" for complex numbers. `x` is a vector of that kind, `m` a matrix of floats, `n` a vector of
integers, `p` one of booleans. Calls that collect over the axis "b" run in a `vmap` over `x`.
"""

from __future__ import annotations

UNARY = {
    "f": """
        acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2
        expm1 floor is_finite lgamma log log1p logistic neg reciprocal round rsqrt sign sin sinh sqrt square tan tanh
        abs conj stop_gradient optimization_barrier
    """,
    "i": "abs bitwise_not clz neg population_count sign square stop_gradient optimization_barrier",
    "c": "abs conj cos exp imag log neg real sign sqrt square tanh",
}
BINARY = {
    "f": """
        add atan2 div eq ge gt igamma igamma_grad_a igammac le lt max min mul ne nextafter pow rem sub zeta complex
        polygamma random_gamma_grad
    """,
    "i": """
        add bitwise_and bitwise_or bitwise_xor div eq ge gt le lt max min mul mulhi ne pow rem shift_left
        shift_right_arithmetic shift_right_logical sub
    """,
    "c": "add div eq mul ne pow sub",
}

CALLS: dict[str, dict[str, list[str]]] = {
    "f": {
        "betainc": ["lax.betainc(s, s, s)", "lax.betainc(s, x, s)"],
        "integer_pow": ["lax.integer_pow(s, 2)"],
        "clamp": ["lax.clamp(s, x, s)", "lax.clamp(s, s, s)", "lax.clamp(x, s, x)"],
        "select": ["lax.select(p, x, lax.full_like(x, s))", "lax.select(True, s, s)"],
        "select_n": ["lax.select_n(np.bool_(True), s, s)", "lax.select_n(p, x, lax.full_like(x, s))"],
        "convert_element_type": ["lax.convert_element_type(s)", "lax.convert_element_type(s, 'int32')"],
        "full": ["lax.full((2,), s)", "lax.full((), s)", "lax.full((2,), s, 'float16')"],
        "full_like": ["lax.full_like(x, s)", "lax.full_like(s, s)", "lax.full_like(s, 1)"],
        "reduce_precision": ["lax.reduce_precision(s, 5, 10)"],
        "bitcast_convert_type": ["lax.bitcast_convert_type(s, 'int32')"],
        "dtype": ["lax.full((), 0, lax.dtype(s))"],
        "broadcast": ["lax.broadcast(s, (2,))"],
        "broadcast_in_dim": ["lax.broadcast_in_dim(s, (2, 3), ())"],
        "broadcast_like": ["lax.broadcast_like(s, m)", "lax.broadcast_like(s, s)"],
        "broadcast_to_rank": ["lax.broadcast_to_rank(s, 2)"],
        "collapse": ["lax.collapse(lax.expand_dims(s, (0,)), 0, 1)"],
        "reshape": ["lax.reshape(s, (1,))"],
        "stack": ["lax.stack([s, s])", "lax.stack((s, x[0]))"],
        "tile": ["lax.tile(s, ())"],
        "transpose": ["lax.transpose(s, ())"],
        "expand_dims": ["lax.expand_dims(s, (0,))"],
        "squeeze": ["lax.squeeze(s, ())"],
        "rev": ["lax.rev(s, ())"],
        "slice": ["lax.slice(s, (), ())"],
        "concatenate": ["lax.concatenate([x, lax.expand_dims(s, (0,))], 0)"],
        "pad": ["lax.pad(x, s, [(1, 0, 1)])", "lax.pad(s, s, [])"],
        "dynamic_slice": ["lax.dynamic_slice(s, (), ())"],
        "dynamic_update_slice": ["lax.dynamic_update_slice(s, s, ())", "lax.dynamic_update_slice(x[0], s, [])"],
        "dynamic_update_index_in_dim": ["lax.dynamic_update_index_in_dim(x, s, 0, 0)"],
        "gather": ["lax.gather(x, ROWS, POINTS, (1,), mode='fill', fill_value=s)"],
        "scatter_apply": ["lax.scatter_apply(x, ROWS, lambda y: y * s, PLACES, update_shape=(2,))"],
        "reduce_sum": ["lax.reduce_sum(s, ())"],
        "reduce_prod": ["lax.reduce_prod(s, ())"],
        "reduce_max": ["lax.reduce_max(s, ())"],
        "reduce_min": ["lax.reduce_min(s, ())"],
        "reduce": [
            "lax.reduce(x, s, lax.add, (0,))",
            "lax.reduce(x, s, lambda a, b: a * b + a + b, (0,))",
            "lax.reduce([x, x], [s, s], lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))",
        ],
        "reduce_window": ["lax.reduce_window(x, s, lax.max, (2,), (1,), 'VALID')"],
        "cond": [
            "lax.cond(True, lambda y: y, lambda y: -y, s)",
            "lax.cond(p[0], lambda: s, lambda: s)",
            "lax.cond(p[0], lambda y: y['a'], lambda y: -y['a'], {'a': s})",
        ],
        "platform_dependent": ["lax.platform_dependent(s, cpu=lax.sin, default=lax.sin)"],
        "scan": ["lax.scan(lambda c, y: (c * y, s), s, x)"],
        "while_loop": ["lax.while_loop(lambda y: y < 2, lambda y: y + 1, s)"],
        "fori_loop": ["lax.fori_loop(0, 2, lambda i, y: y * s, s)"],
        "map": ["lax.map(lambda y: y * s, x)"],
        "custom_linear_solve": ["lax.custom_linear_solve(lambda y: 2 * y, s, lambda f, b: b / 2)"],
        "custom_root": ["lax.custom_root(lambda y: y - 1, s, lambda f, y: y - f(y), lambda g, y: y / g(1.0))"],
        "psum": ["x * lax.psum(s, 'b')", "x * lax.psum({'k': (s,)}, 'b')['k'][0]", "lax.psum([x, s], 'b')[1]"],
        "pmean": ["x * lax.pmean(s, 'b')", "lax.pmean((x, s), 'b')[1]"],
        "pbroadcast": ["x * lax.pbroadcast((s,), 'b', 0)[0]"],
        "stage": ["lax.stage(s)", "x * lax.stage(s)"],
        "pmax": ["lax.pmax((x, s), 'b')[1]"],
        "pmin": ["lax.pmin((x, s), 'b')[1]"],
        "all_gather": ["lax.all_gather(s, 'b')"],
        "ppermute": ["lax.ppermute(s, 'b', [(0, 1)])"],
        "pshuffle": ["lax.pshuffle(s, 'b', [0, 2, 1])"],
    },
    "i": {
        "reduce_and": ["lax.reduce_and(s, ())"],
        "reduce_or": ["lax.reduce_or(s, ())"],
        "reduce_xor": ["lax.reduce_xor(s, ())"],
        "integer_pow": ["lax.integer_pow(s, 2)", "lax.integer_pow(m, s)"],
        "pow": ["lax.pow(m, s)"],
        "polygamma": ["lax.polygamma(m, lax.full_like(m, s))"],
        "convert_element_type": ["lax.convert_element_type(s)", "lax.convert_element_type(s, 'float32')"],
        "full": ["lax.full((2,), s)", "lax.full((s,), s)"],
        "full_like": ["lax.full_like(x, s)", "lax.full_like(m, s)", "lax.full_like(s, s)"],
        "empty": ["lax.full_like(lax.empty((s,), 'int8'), 0)"],
        "iota": ["lax.iota('int32', s)"],
        "broadcasted_iota": ["lax.broadcasted_iota('int32', (s, 2), 0)"],
        "select_n": ["lax.select_n(lax.convert_element_type(s, 'int32'), m, m)"],
        "cond": ["lax.cond(s, lambda y: y, lambda y: -y, 2.0)"],
        "switch": ["lax.switch(s, [lambda y: y, lambda y: -y], 2.0)", "lax.switch(1, [lambda y: y] * 2, s)"],
        "fori_loop": ["lax.fori_loop(s, s, lambda i, y: y + i, s)", "lax.fori_loop(0, s, lambda i, y: y + i, s)"],
        "while_loop": ["lax.while_loop(lambda y: y < 3, lambda y: y + s, s)"],
        "scan": ["lax.scan(lambda c, _: (c + s, c), s, length=s)"],
        "dynamic_slice": ["lax.dynamic_slice(x, (s,), (2,))", "lax.dynamic_slice(m, [s, 0], (1, 1))"],
        "dynamic_slice_in_dim": ["lax.dynamic_slice_in_dim(m, s, 1, axis=1)"],
        "dynamic_index_in_dim": ["lax.dynamic_index_in_dim(m, s)"],
        "dynamic_update_slice": [
            "lax.dynamic_update_slice(x, x[:1], (s,))",
            "lax.dynamic_update_slice(m, m[:1], (s, 0))",
            "lax.dynamic_update_slice(s, s, ())",
        ],
        "dynamic_update_slice_in_dim": ["lax.dynamic_update_slice_in_dim(m, m[:1], s, axis=0)"],
        "dynamic_update_index_in_dim": [
            "lax.dynamic_update_index_in_dim(x, s, s, 0)", "lax.dynamic_update_index_in_dim(m, m[0], s, 0)",
        ],
        "slice": ["lax.slice(x, (s,), (s,))"],
        "slice_in_dim": ["lax.slice_in_dim(x, s, None)"],
        "index_in_dim": ["lax.index_in_dim(x, s)"],
        "split": ["lax.split(x, (s, 2))"],
        "top_k": ["lax.top_k(x, s)"],
        "approx_max_k": ["lax.approx_max_k(m, s)"],
        "approx_min_k": ["lax.approx_min_k(m, s)"],
        "pad": ["lax.pad(x, s, [(s, s, 0)])"],
        "clamp": ["lax.clamp(s, x, s)"],
        "psum": ["lax.psum(s, 'b')", "x * lax.psum((s,), 'b')[0]"],
        "pmean": ["lax.pmean((m, s), 'b')[1]"],
        "reduce": ["lax.reduce(x, s, lax.add, (0,))"],
        "axis_index": ["lax.axis_index('b') + s"],
        "pcast": ["x * lax.pcast(s, 'b', to='varying')"],
        "with_sharding_constraint": ["lax.with_sharding_constraint((x, s), None)[1]"],
    },
    "c": {
        "full": ["lax.full((2,), s)"],
        "full_like": ["lax.full_like(s, s)", "lax.full_like(x, s)"],
        "pad": ["lax.pad(x, s, [(1, 0, 1)])"],
        "expand_dims": ["lax.expand_dims(s, (0,))"],
        "integer_pow": ["lax.integer_pow(s, 2)"],
        "psum": ["x * lax.psum((s,), 'b')[0]"],
    },
}  # fmt: skip

for _kind, _names in UNARY.items():
    for _name in _names.split():
        CALLS[_kind].setdefault(_name, []).append(f"lax.{_name}(s)")
for _kind, _names in BINARY.items():
    for _name in _names.split():
        _calls = [f"lax.{_name}({args})" for args in ("s, x", "x, s", "s, s", "s, x[0]", "1, s", "s, 1")]
        CALLS[_kind].setdefault(_name, []).extend(_calls)
for _kind in ("f", "i"):
    for _name in ("scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub"):
        CALLS[_kind][_name] = [f"lax.{_name}(x, ROWS[0], s, ONE)", f"lax.{_name}(x[0], NOWHERE, s, ALL)"]

NO_SCALARS = """
    argmax argmin sort sort_key_val unstack cumlogsumexp cummax cummin cumprod cumsum associative_scan index_take
    batch_matmul dot dot_general ragged_dot ragged_dot_general fft rng_bit_generator
    conv conv_dimension_numbers conv_general_dilated conv_general_dilated_local conv_general_dilated_patches
    conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose conv_transpose_shape_tuple
    conv_with_general_padding padtype_to_pads reduce_window_shape_tuple broadcast_shapes
    all_to_all axis_size psum_scatter pswapaxes ragged_all_to_all
    composite scaled_dot shape_as_value dce_sink rng_uniform
"""
"""Functions whose arguments all have axes, that return nothing, or that return other numbers at each call."""
