"""Rows for control flow, transformations inside of programs, and functions with rules of their own.

Their bodies are blocks of statements (`Scope.block`), which may use variables of the scopes around them.
"""

from __future__ import annotations

from tests.fuzz.program import Type
from tests.fuzz.scope import NUMERIC, Scope, Variable
from tests.fuzz.table_numpy import Row


def strong(v: Variable) -> Type:
    return Type(v.shape, v.dtype)


def row_of(v: Variable) -> Type:
    """What a loop over the first axis gets."""
    return Type(v.shape[1:], v.dtype)


def carry(d: Scope) -> tuple[str, Type]:
    """A value that a loop may carry, as text, and its type; loops keep types, so weak ones are made strong."""
    v = d.x("ffi", (0, 2))
    return f"np.asarray({v}, '{v.dtype}')", strong(v)


def scalar(v: str, dtype: str) -> str:
    return f"np.real(np.sum({v})).astype('{dtype}')"


def cond(d: Scope) -> str:
    v, w = d.x(NUMERIC), d.x(NUMERIC)
    result = strong(d.choose([v, w]))
    yes, no = [d.block([v.type, w.type], [result]) for _ in range(2)]
    return f"lax.cond({d.x('b', shape=())}, {yes}, {no}, {v}, {w})"


def switch(d: Scope) -> str:
    v = d.x(NUMERIC)
    branches = [d.block([v.type], [strong(v)]) for _ in range(3)]
    return f"lax.switch({d.x('i', shape=())}, [{', '.join(branches)}], {v})"


def scan(d: Scope) -> str:
    init, c = carry(d)
    xs = d.x(NUMERIC, (1, 3))
    body = d.block([c, row_of(xs)], [c, strong(Variable("", d.choose([c, row_of(xs)])))])
    return f"lax.scan({body}, {init}, {xs}, reverse={d.flag()}, unroll={d.choose([1, 1, 2])})"


def fori_loop(d: Scope) -> str:
    init, c = carry(d)
    body = d.block([Type((), "int32"), c], [c], pair=False)
    return f"lax.fori_loop(0, {d.integer(0, 3)}, lambda i, c: {body}(np.asarray(i, 'int32'), c), {init})"


def while_loop(d: Scope) -> str:
    init, c = carry(d)
    body = d.block([c], [c], pair=False)
    bound = d.choose(["3", f"np.clip({d.x('i', shape=(), dtype='int32')}, 0, 3)"])
    return f"lax.while_loop(lambda c: c[0] < {bound}, lambda c: (c[0] + 1, {body}(c[1])), (0, {init}))"


def map_(d: Scope) -> str:
    xs = d.x(NUMERIC, (1, 3))
    return f"lax.map({d.block([row_of(xs)])}, {xs}{d.choose(['', '', ', batch_size=2'])})"


def associative_scan(d: Scope) -> str:
    xs = d.x("f", (1, 2), nonempty=True)
    combine = d.choose(["lambda a, b: a + b", "lambda a, b: a * b", "np.maximum", "lambda a, b: a + b + 0.5"])
    # Jax does not reverse along a negative axis.
    axis = d.choose(["reverse=True, axis=0", f"axis={d.axis(xs)}"])
    return f"lax.associative_scan({combine}, {xs}, {axis})"


def jitted(d: Scope) -> str:
    """Plainly, with a copy of an argument donated, or with what Didax alone has: lengths padded to those of a bucket."""
    if d.chance(0.15):
        return bucketed(d)
    v, w = d.x(NUMERIC), d.x(NUMERIC)
    body = d.block([v.type, w.type])
    if d.chance(0.2):
        return f"lib.jit({body}, donate_argnums=0)(np.copy({v}), {w})"
    return f"lib.jit({body})({v}, {w})"


# Keywords that jax has not, and that change no value.
OF_DIDAX = "**({{{}}} if lib.__name__ == 'didax' else {{}})"
ALONG_AN_AXIS = [  # what has rules for padded axes of its own
    "np.cumsum({}, 0)",
    "np.flip({}, 0)",
    "np.sort({}, 0)",
    "({0} - np.mean({0}, 0))",
    "({0} * np.max({0}, 0))",
    "({0} + np.arange({0}.shape[0]).reshape(-1, *(1,) * ({0}.ndim - 1)))",
    "np.concatenate([{0}, {0}[1:]])",
    "np.where({0} > 0, {0}, {0}[::-1])",
    "lax.scan(lambda c, row: (c * 0.5 + row, c), {0}[0], {0})[1]",
    "{0}[np.argmax({0}, 0)].reshape(-1)",
    "np.roll({}, 1, 0)",
    "nn.softmax({}, 0)",
]


def bucketed(d: Scope) -> str:
    v = d.x("f", (1, 2), nonempty=True)
    text = "y"
    for _ in range(d.integer(1, 3)):
        text = f"(lambda y: {d.choose(ALONG_AN_AXIS).format('y')})({text})"
    bucket = OF_DIDAX.format(f"'bucket': 'n{', _' * (v.rank - 1)}'")
    return f"lib.jit(lambda y: {text}, {bucket})({v})"


def checkpoint(d: Scope) -> str:
    v = d.x(NUMERIC)
    policy = d.choose(["", *[f", policy=lib.checkpoint_policies.{name}" for name in POLICIES]])
    return f"lib.checkpoint({d.block([v.type])}{policy})({v})"


POLICIES = ("dots_saveable", "everything_saveable", "nothing_saveable")


def new_ref(d: Scope) -> str:
    """A scan that reads, writes and adds to a mutable array which lives outside of it."""
    xs = d.x("f", (1, 2), nonempty=True)
    body = d.block([row_of(xs)], [row_of(xs)], pair=False)
    step = d.choose(
        [
            "(c, lib.ref.swap(r, ..., r[...] * 0.5 + {}))",
            "(lib.ref.addupdate(r, ..., {}), (c, r[...]))[1]",
        ]
    ).format(f"{body}(y)")
    scanned = f"lax.scan(lambda c, y: {step}, 0, {xs}, reverse={d.flag()})[1]"
    return f"(lambda r: ({scanned}, r[...]))(lib.new_ref({xs}[0] * 0.5))"


def vmapped(d: Scope) -> str:
    v, w = d.x(NUMERIC, (1, 3)), d.x(NUMERIC)
    axis = d.axis(v)
    inner = tuple(n for i, n in enumerate(v.shape) if i != axis % v.rank)
    body = d.block([Type(inner, v.dtype, v.type.weak), w.type])
    return f"lib.vmap({body}, in_axes=({axis}, None), out_axes={d.choose([0, 0, -1])})({v}, {w})"


def differentiated(d: Scope, f: str) -> str:
    v = d.x("f", nonempty=True)
    body = d.block([v.type])
    if f in ("lib.jacfwd", "lib.jacrev", "lib.jacobian"):
        chunks = ", " + OF_DIDAX.format(f"'chunk_size': {d.integer(1, 3)}") if d.chance(0.3) else ""
        return f"{f}(lambda y: np.sum({body}(y), axis=0).astype(y.dtype){chunks})({v})"
    loss = f"lambda y: {scalar(f'{body}(y)', v.dtype)}"
    if f in ("lib.grad", "lib.value_and_grad", "lib.hessian"):
        return f"{f}({loss})({v})"
    if f == "lib.jvp":
        return f"lib.jvp({loss}, ({v},), (np.ones_like({v}),))"
    if f == "lib.vjp":
        return f"lib.vjp({loss}, {v})[1](np.asarray(0.5, '{v.dtype}'))"
    if f == "lib.linearize":
        return f"lib.linearize({loss}, {v})[1](np.ones_like({v}))"
    raise AssertionError(f)


def linear_transpose(d: Scope) -> str:
    v = d.x("f", (1, 2), nonempty=True)
    return f"lib.linear_transpose(lambda y: np.cumsum(y, 0) * 2, {v})({v})"


def custom_jvp(d: Scope) -> str:
    """sin, with a rule that scales its derivative, so that a rule that is not used shows."""
    v = d.x("f")
    rule = "lambda f: (f.defjvp(lambda p, t: (np.sin(p[0]), 2 * np.cos(p[0]) * t[0])), f)[1]"
    return f"({rule})(lib.custom_jvp(lambda y: np.sin(y)))({v})"


def custom_vjp(d: Scope) -> str:
    v = d.x("f")
    rule = "lambda f: (f.defvjp(lambda y: (np.sin(y), y), lambda r, g: (2 * np.cos(r) * g,)), f)[1]"
    return f"({rule})(lib.custom_vjp(lambda y: np.sin(y)))({v})"


def custom_root(d: Scope) -> str:
    v = d.x("f", dtype="float32", domain="positive")
    solve = "lambda g, y: lax.fori_loop(0, 20, lambda i, y: y - g(y) / (2 * y), y)"
    return f"lax.custom_root(lambda y: y * y - {v}, np.ones_like({v}), {solve}, lambda g, z: z / g(np.ones_like(z)))"


def custom_linear_solve(d: Scope) -> str:
    v = d.x("f", nonempty=True)
    solve = "lambda mv, b: b / (2 + 0.5)"
    return f"lax.custom_linear_solve(lambda y: 2 * y + 0.5 * y, {v}, {solve}, transpose_solve={solve})"


def collective(d: Scope, f: str) -> str:
    """A collective over an axis that vmap names."""
    v = d.x("f", (1, 2), nonempty=True)
    n = v.shape[0]
    call = {
        "lax.ppermute": f"lax.ppermute(y, 'i', [(k, (k + 1) % {n}) for k in range({n})])",
        "lax.pshuffle": f"lax.pshuffle(y, 'i', [(k + 1) % {n} for k in range({n})])",
        "lax.axis_index": "y * lax.axis_index('i')",
        "lax.axis_size": "y * lax.axis_size('i')",
        "lax.psum_scatter": f"lax.psum_scatter(np.resize(y, ({n},)), 'i')",
        "lax.all_to_all": f"lax.all_to_all(np.resize(y, ({n}, 2)), 'i', 0, 0)",
        "lax.pswapaxes": f"lax.pswapaxes(np.resize(y, ({n}, 2)), 'i', 0)",
    }.get(f, f"{f}(y, 'i')")
    return f"lib.vmap(lambda y: np.sum(y) * {call}, axis_name='i')({v})"


def shard_map(d: Scope) -> str:
    """Parts of an array on all devices of the process, of which there may be one, with a collective over them."""
    v = d.x("f", (1, 2), nonempty=True)
    v = d.emit(f"np.concatenate([{v}, {v}])")
    body = d.choose(
        [
            "y * lax.psum(np.sum(y), 's')",
            "y - lax.pmean(np.mean(y, 0), 's')",
            "lax.all_gather(y, 's', tiled=True).sum(0) * y",
            "lax.ppermute(np.sin(y), 's', [(0, lax.axis_size('s') - 1), (lax.axis_size('s') - 1, 0)][:lax.axis_size('s')])",
        ]
    )
    mesh = "lib.make_mesh((lib.device_count(),), ('s',), axis_types=(lib.sharding.AxisType.Auto,))"
    return f"lib.shard_map(lambda y: {body}, mesh={mesh}, in_specs=lib.P('s'), out_specs=lib.P('s'))({v})"


def pure_callback(d: Scope) -> str:
    """A function of Python, which has no derivative, on elements or (a sum) on whole arrays."""
    v = d.x("f")
    result = f"lib.ShapeDtypeStruct({v.shape}, '{v.dtype}')"
    method = d.choose(["sequential", "sequential", "expand_dims", "broadcast_all"])
    f = "lambda y: onp.asarray(y) * 2"
    if method == "sequential" and d.flag():
        f = f"lambda y: onp.asarray(y) + onp.sum(y, dtype='{v.dtype}')"
    operand = d.choose([str(v), f"lax.stop_gradient({v})"])
    return f"lib.pure_callback({f}, {result}, {operand}, vmap_method='{method}') + 0 * {v}"


def custom_gradient(d: Scope) -> str:
    v = d.x("f")
    return f"lib.custom_gradient(lambda y: (y * y, lambda g: 3 * g * y))({v})"


def closure_convert(d: Scope) -> str:
    v = d.x("f")
    return f"(lambda pair: pair[0]({v}, *pair[1]))(lib.closure_convert(lambda y: y * np.sin({v}), {v}))"


def simple(text: str) -> Row:
    return lambda d: text.format(d.x("f"))


ROWS: dict[str, Row] = {
    "lax.cond": cond,
    "lax.switch": switch,
    "lax.scan": scan,
    "lax.fori_loop": fori_loop,
    "lax.while_loop": while_loop,
    "lax.map": map_,
    "lax.associative_scan": associative_scan,
    "lax.custom_root": custom_root,
    "lax.custom_linear_solve": custom_linear_solve,
    "lib.jit": jitted,
    "lib.new_ref": new_ref,
    "lib.shard_map": shard_map,
    "lib.checkpoint": checkpoint,
    "lib.remat": lambda d: checkpoint(d).replace("lib.checkpoint", "lib.remat"),
    "lib.vmap": vmapped,
    "lib.linear_transpose": linear_transpose,
    "lib.custom_jvp": custom_jvp,
    "lib.custom_vjp": custom_vjp,
    "lib.custom_gradient": custom_gradient,
    "lib.closure_convert": closure_convert,
    "lib.pure_callback": pure_callback,
    "lib.named_call": simple("lib.named_call(np.sin, name='sine')({})"),
    "lib.device_put": simple("lib.device_put({}) * 2"),
    **{
        f"lib.{name}": lambda d, f=f"lib.{name}": differentiated(d, f)
        for name in (
            "grad",
            "value_and_grad",
            "hessian",
            "jacfwd",
            "jacrev",
            "jacobian",
            "jvp",
            "vjp",
            "linearize",
        )
    },
    **{
        f"lax.{name}": lambda d, f=f"lax.{name}": collective(d, f)
        for name in [
            "all_gather",
            "all_to_all",
            "axis_index",
            "axis_size",
            "pmax",
            "pmean",
            "pmin",
            "ppermute",
            "pshuffle",
            "psum",
            "psum_scatter",
            "pswapaxes",
        ]
    },
}

EXCLUDED = {
    "block_until_ready copy_to_host_async device_get effects_barrier clear_caches wait_for_compilations": "wait, move or forget; compute nothing",
    "check_tracer_leaks checking_leaks compile_in_background debug_infs debug_key_reuse debug_nans default_matmul_precision default_prng_impl threefry_partitionable "
    "disable_jit enable_checks enable_x64 ensure_compile_time_eval explain_cache_misses named_scope numpy_dtype_promotion "
    "numpy_rank_promotion": "options; enable_x64 is drawn for every program",
    "array_garbage_collection_guard default_device log_compiles thread_guard transfer_guard transfer_guard_device_to_device "
    "transfer_guard_device_to_host transfer_guard_host_to_device allow_f16_reductions auto_pcast enable_custom_prng "
    "jax2tf_associative_scan_reductions legacy_prng_key remove_size_one_mesh_axis_from_type softmax_custom_jvp": "have no effect on values",
    "default_backend device_count devices local_device_count local_devices process_count process_index process_indices "
    "host_count host_id host_ids live_arrays print_environment_info": ("tell about the machine"),
    "make_array_from_callback make_array_from_process_local_data make_array_from_single_device_arrays make_mesh pcast "
    "pmap reshard with_sharding_constraint": "need several devices: tests/devices/ has tables of their own",
    "no_execution no_tracing make_user_context fwd_and_bwd smap": "guards, contexts and wrappers; tests/api/test_names_of_jax.py",
    "eval_shape make_jaxpr typeof": "types and text; eval_shape runs every statement",
    "empty_ref free_ref freeze": "mutable arrays, which are no values of programs; new_ref has a row",
}
