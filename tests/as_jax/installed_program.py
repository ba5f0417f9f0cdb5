"""What `test_install.py` runs in a process of its own, where a real jax is installed too."""

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import pickle
import re
import sys
import time
import warnings

started = time.perf_counter()
import didax  # noqa: E402

without_layer = time.perf_counter()
import didax.as_jax  # noqa: E402

didax.as_jax.install()
import jax  # noqa: E402

with_layer = time.perf_counter()

import array_api_compat  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import checkify, colocated_python, mesh_utils, multihost_utils  # noqa: E402
from jax.experimental.compute_on import compute_on  # noqa: E402
from jax.experimental.layout import Format  # noqa: E402
from jax.experimental.shard_alike import shard_alike  # noqa: E402
from jax.experimental.xla_metadata import set_xla_metadata  # noqa: E402
from jax.extend.core import Primitive  # noqa: E402

from didax.as_jax import hook, table  # noqa: E402

facts = {"ratio": (with_layer - without_layer) / (without_layer - started)}


def modules() -> None:
    """The modules are the layer's, and so is the distribution's metadata."""
    assert not any(
        "site-packages/jax/" in (getattr(m, "__file__", None) or "") for m in list(sys.modules.values())
    )
    assert (
        jax.__spec__.origin == "didax.as_jax:jax"
        and jax.__version__ == "0.10.2" == importlib.metadata.version("jax")
    )
    assert jax.__version_info__ == (0, 10, 2) and jax.version.__version__ == jax.__version__
    assert jnp.sin is didax.numpy.sin and jax.numpy is jnp is sys.modules["jax.numpy"]
    assert (
        importlib.util.find_spec("jax.no_such") is None
        and importlib.util.find_spec("jax.scipy.stats") is not None
    )
    # How libraries for several kinds of arrays find the functions for one: SciPy, scikit-learn and others.
    assert array_api_compat.array_namespace(jnp.ones(2)) is jnp and jnp.__array_api_version__ >= "2024.12"
    assert jnp.__array_namespace_info__().default_dtypes()["real floating"] == jnp.float32
    assert bool(jnp.asarray(True))
    try:  # how they ask whether they are being traced
        jax.jit(lambda x: x if jnp.asarray(False) else -x)(1.0)
        raise AssertionError("a truth value in a traced function has no value, as in JAX")
    except jax.errors.TracerBoolConversionError:
        pass
    everything: dict[str, object] = {}
    exec("from jax.numpy import *", everything)
    assert "einsum" in dir(jnp) and "sin" in jnp.__all__ and everything["einsum"] is jnp.einsum
    assert "jaxlib" in sys.modules or importlib.import_module("jaxlib")
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo as hlo

    assert (
        hlo.add.__module__.startswith("jaxlib.mlir")
        and ir.Context is importlib.import_module("jaxlib.mlir.ir").Context
    )
    didax.as_jax.install()  # a second time does nothing
    assert sum(isinstance(f, hook._Finder) for f in sys.meta_path) == 1


def errors() -> None:
    """What is missing says so, and where the list is; a name that neither has is told apart."""
    for run, *texts in [
        (lambda: jnp.no_such, "neither here nor in JAX", "--missing"),
        (
            lambda: importlib.import_module("jax.experimental.custom_partitioning"),
            "rules for JAX's partitioner",
            "--missing",
        ),
        (
            lambda: exec("from jax.experimental import custom_partitioning"),
            "rules for JAX's partitioner",
            "--missing",
        ),
        (
            lambda: exec("from jax.experimental.topologies import get_topology_desc"),
            "has no counterpart",
            "--missing",
        ),
        (lambda: exec("from jax.numpy import no_such"), "neither here nor in JAX", "--missing"),
        (lambda: importlib.import_module("jax._src.core").no_such, "private to JAX"),
        (lambda: colocated_python.colocated_python(jnp.sin), "in this process"),
    ]:
        try:
            run()
        except (AttributeError, ImportError, NotImplementedError) as error:
            assert all(text in str(error) for text in texts), error
        else:
            raise AssertionError(texts)
    assert not hasattr(jax, "tree_map") and not hasattr(jax, "explain")  # gone from jax; Didax's own
    assert "jax.experimental.pallas" in didax.as_jax.missing()
    for path in table.REFUSED:  # programs ask whether it is there, and go on
        parent, _, name = path.rpartition(".")
        module = importlib.import_module(parent)
        assert not hasattr(module, name) and getattr(module, name, None) is None and name not in dir(module)
        assert importlib.util.find_spec(path) is None


def namespaces() -> None:
    """`vars(module)` has the names of the module, for libraries that wrap them all."""
    assert vars(jnp)["logaddexp"] is jnp.logaddexp and vars(jnp)["linalg"] is jnp.linalg
    assert jnp.__dict__.keys() >= {name for name in dir(jnp) if hasattr(jnp, name)}


def private_modules() -> None:
    """Public names are also where JAX implements them; what is only private there is missing, and the error says so."""
    from jax._src.dtypes import canonicalize_dtype
    from jax._src.lax import lax
    from jax._src.numpy.util import promote_dtypes_complex, promote_dtypes_inexact
    from jax._src.scipy.special import gammaln
    from jax._src.scipy.stats import norm
    from jax._src.typing import Array, ArrayLike

    assert (
        gammaln is jax.scipy.special.gammaln
        and norm.pdf is jax.scipy.stats.norm.pdf
        and lax.add is jax.lax.add
    )
    assert canonicalize_dtype is jax.dtypes.canonicalize_dtype
    assert Array is jax.Array and ArrayLike is jax.typing.ArrayLike
    assert [x.dtype.name for x in promote_dtypes_inexact(1, jnp.arange(2))] == ["float32", "float32"]
    assert [x.dtype.name for x in promote_dtypes_complex(jnp.arange(2), 1.5)] == ["complex64", "complex64"]
    for text in ("from jax._src.scipy.special import no_such", "from jax._src.lax.lax import _no_such"):
        try:
            exec(text)
        except ImportError as error:
            assert "private to JAX" in str(error), error
        else:
            raise AssertionError(text)
    for path, publics in table.IMPLEMENTED.items():
        assert hook.is_module(path) and all(public in hook.names_of_jax() for public in publics), path


def kernels() -> None:
    """Libraries import kernels for accelerators at once: the import succeeds, and a use says what is missing."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel

    for run in (
        lambda: pl.pallas_call,
        lambda: triton.CompilerParams,
        lambda: splash_attention_kernel.make_splash_mha,
        lambda: exec("from jax.experimental.pallas import BlockSpec"),
    ):
        try:
            run()
        except (AttributeError, ImportError) as error:
            assert "kernels in JAX's own language" in str(error), error
        else:
            raise AssertionError(run)


def values() -> None:
    """Arrays, keys, trees and functions are instances of the classes that programs ask for."""
    x = jnp.arange(3.0)
    assert isinstance(x, jax.Array) and isinstance(jax.devices()[0], jax.Device)
    assert isinstance(jax.make_mesh((1,), ("x",)), jax.sharding.Mesh)
    assert jax.jit(lambda x: isinstance(x, jax.core.Tracer) and isinstance(x, jax.Array))(x)
    assert isinstance(jax.typeof(x), jax.core.ShapedArray) and isinstance(
        jax.typeof(x), jax.core.AbstractValue
    )
    assert [repr(jax.typeof(x)), str(jax.typeof(x))] == ["ShapedArray(float32[3])", "float32[3]"]
    for dtype, short in {
        "float32": "f32",
        "uint8": "u8",
        "int4": "i4",
        "bfloat16": "bf16",
        "bool": "bool",
    }.items():
        assert jax.core.ShapedArray((3,), jnp.dtype(dtype)).str_short(short_dtypes=True) == f"{short}[3]"
    assert jax.core.ShapedArray((), jax.dtypes.float0).str_short(short_dtypes=True) == "float0[]"
    assert repr(type(jax.jit(jnp.sin))) == "<class 'jaxlib._jax.PjitFunction'>"
    assert repr(jax.typeof(1)) == "ShapedArray(int32[], weak_type=True)" and str(jax.typeof(1)) == "~int32[]"
    assert jax.core.ShapedArray((2,), jnp.int32).at_least_vspace().dtype == jax.dtypes.float0
    assert (
        jax.typeof(jax.new_ref(x)).str_short(short_dtypes=True) == f"Ref{{{jax.typeof(x).str_short(True)}}}"
    )
    assert (pickle.loads(pickle.dumps(x)) == x).all() and pickle.loads(pickle.dumps(lax.add_p)) is lax.add_p
    assert pickle.loads(pickle.dumps(jnp.sin)) is jnp.sin
    assert callable(inspect.unwrap(jnp.sin)) and "fun" in inspect.signature(jax.grad).parameters
    assert jax.pmap(lambda x: lax.psum(x, "i"), "i")(jnp.ones((1, 2))).shape == (1, 2)
    assert mesh_utils.create_device_mesh((1,)).shape == (1,)
    assert multihost_utils.process_allgather(x).shape == (1, 3)
    sharding = x.sharding
    assert isinstance(sharding, jax.sharding.Sharding) and issubclass(
        jax.sharding.NamedSharding, jax.sharding.Sharding
    )
    assert jax.device_put(x, Format(None, sharding)).sharding == sharding
    with set_xla_metadata(depth=1), compute_on("device_host"):
        hinted = jax.grad(lambda y: shard_alike(y, set_xla_metadata(y, tag=2))[1] * 2)(1.0)
    assert hinted == 2 and compute_on("device")(jnp.sum)(x) == x.sum()
    for wrong in (lambda: compute_on("elsewhere"), lambda: shard_alike(x, x[:2]), lambda: shard_alike(x, {})):
        try:
            wrong()
        except ValueError as error:
            assert "compute_type: 'elsewhere'" in str(error) or "shard_alike takes" in str(error), error
        else:
            raise AssertionError(wrong)
    assert colocated_python.colocated_cpu_devices(jax.devices()) == jax.devices()
    assert list(jax._src.xla_bridge._backends) == ["cpu"] and jax._src.xla_bridge._backends.get("tpu") is None
    assert multihost_utils.reached_preemption_sync_point(1) is False
    assert (
        jax._src.distributed.global_state.client is None and jax._src.distributed.global_state.process_id == 0
    )
    heard = []
    jax.monitoring.register_event_listener(lambda event, **details: heard.append((event, details)))
    jax.monitoring.record_event("e", size=1)
    assert heard == [("e", {"size": 1})]
    jax.test_util.check_grads(lambda x, n: jnp.sin(x) * n, (x, 3), order=2)
    try:
        jax.test_util.check_jvp(jnp.sin, lambda xs, ts: (jnp.sin(*xs), ts[0]), (x,))
    except AssertionError:
        pass
    else:
        raise AssertionError("a wrong jvp")


def behaviour() -> None:
    """Where Didax differs from JAX on purpose, the layer does as JAX does."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert jnp.zeros(2, "float64").dtype == "float32" and jnp.ones(2).astype(np.int64).dtype == "int32"
        assert len(caught) == 2 and "truncated to float32" in str(caught[0].message)
    assert jnp.result_type(jnp.float64) == "float32" and jnp.finfo(jnp.float64).bits == 64
    assert jnp.finfo("bfloat16").max.dtype == "bfloat16"
    assert jax.jit(lambda x: x * jnp.finfo(x).eps)(1.0) == jnp.finfo("float32").eps
    x, y = jax.random.normal(jax.random.key(0), (2, 24, 24))
    np.testing.assert_array_equal(x @ y, jax.jit(jnp.matmul)(x, y))  # bit by bit: nothing is left to NumPy
    assert jnp.array(np.ones(2)).dtype == "float32" == jnp.float32(np.float64(1)).dtype
    assert jax.config.x64_enabled is jax.config.jax_enable_x64 is False
    with jax.enable_x64(True):
        assert jnp.zeros(2, "float64").dtype == "float64"
    kinds = []

    def host(x: object) -> object:
        kinds.append(type(x))
        if float(x) < 0:
            raise ValueError("below zero")
        return np.asarray(x)

    f = jax.jit(lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((), "float32"), x))
    assert f(1.0) == 1.0 and issubclass(kinds[0], jax.Array)
    try:
        f(-1.0)
    except jax.errors.JaxRuntimeError as error:
        assert "below zero" in str(error) and isinstance(error.__cause__, ValueError)
    key = jax.random.key(0)
    assert jax.random.normal(key) == jax.random.normal(key)  # without a warning
    error, out = checkify.checkify(lambda x: checkify.check(x > 0, "no"), errors=checkify.user_checks)(1.0)
    assert error.get() is None and out is None
    checks()
    tracers_have_texts()


def tracers_have_texts() -> None:
    """A tracer shows what JAX shows of it."""
    seen = []

    def f(x):
        seen.append(f"{type(x).__name__} {x}")
        return x * 1.0

    jax.grad(f)(2.0)
    jax.jvp(f, (1.0,), (2.0,))
    jax.make_jaxpr(jax.grad(f))(1.0)
    jax.vmap(f)(jnp.ones((3, 2)))
    assert seen == [
        "LinearizeTracer GradTracer(primal=2.0, typeof(tangent)=f32[])",
        "JVPTracer JVPTracer(primal=1.0, tangent=2.0)",
        "LinearizeTracer GradTracer(primal=JitTracer(~float32[]), typeof(tangent)=f32[])",
        "BatchTracer VmapTracer(aval=float32[2], batched=float32[3,2])",
    ], seen


def draws() -> None:
    """A number drawn between bounds with axes of length 1 has these axes, too."""
    keys, bounds = jax.random.split(jax.random.key(0), 3), jnp.arange(3.0).reshape(3, 1)
    drawn = jax.vmap(jax.random.uniform, in_axes=(0, None, None, 0, 0))(
        keys, (), jnp.float32, bounds, bounds + 1
    )
    assert drawn.shape == (3, 1) and bool(((drawn >= bounds) & (drawn < bounds + 1)).all())


def systems() -> None:
    """Right-hand sides of one axis less than batched matrices are batched vectors."""
    a, b = 2.0 * jnp.eye(2) + jnp.zeros((3, 1, 1)), jnp.arange(6.0).reshape(3, 2)
    for x in (
        jax.scipy.linalg.solve_triangular(a, b, lower=True),
        jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b),
        jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(2 * a), 2 * b),
    ):
        assert x.shape == b.shape and bool((abs(x - b / 2) < 1e-6).all())


def programs_have_texts() -> None:
    """Jaxprs, of `trace` too, and their variables are shown as JAX shows them."""
    closed = jax.jit(lambda x: (x + 2.0, 1)).trace(2.0).jaxpr
    assert isinstance(closed, jax.extend.core.ClosedJaxpr)
    assert repr(closed) == "{ lambda ; a:f32[]. let b:f32[] = add a 2.0:f32[] in (b, 1:i32[]) }"
    assert jnp.ones(2).__array_namespace__() is jnp and repr(jnp.float32) == "<class 'jax.numpy.float32'>"
    (eqn,) = closed.eqns
    assert re.fullmatch(r"\[Var\(id=\d+\):float32\[\], Literal\(2.0\)\]", str(eqn.invars))


def checks() -> None:
    """Failed checks have JAX's class and texts, also where no `checkify` made them data."""

    def f(x):
        checkify.check(x > 0, "got {x}", x=x)
        return jnp.arange(3)[x]

    for found, text in (
        (checkify.checkify(f)(-1)[0].get_exception(), "got -1 (`check` failed)"),
        (checkify.checkify(f, errors=checkify.index_checks)(5)[0].get_exception(),
         "out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with size 3."),
    ):  # fmt: skip
        assert type(found) is checkify.JaxRuntimeError and str(found) == text, (found, text)
    try:
        jax.jit(f)(-1)
    except checkify.JaxRuntimeError as error:
        assert str(error) == "got -1 (`check` failed)" and "checkify" in error.__notes__[0]
    else:
        raise AssertionError


def table_resolves() -> None:
    """Every name of the table has its home; the private names are all there."""
    for path, names in [*table.PRIVATE.items(), *table.HOMES.items()]:
        for name in names:
            if name != "*":
                assert hook.find(path, name) is not None, (path, name)
    for name in table.DIFFERENT:
        path, _, last = name.rpartition(".")
        assert last in hook.names_of_jax()[path], name
        assert hook.find(path, last) is not None
    for path, name in (("jax.profiler", "ProfileData"), ("jax.example_libraries.stax", "randn")):
        assert hook.find(path, name) is not None, name  # which jax's modules have of other modules


def primitives_are_there() -> None:
    """A primitive of the program's own goes through the interpreters (the rest is in `test_extension.py`)."""
    p = Primitive("installed_twice")
    p.def_impl(lambda x: 2 * x)
    p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    jax.interpreters.mlir.register_lowering(
        p, jax.interpreters.mlir.lower_fun(lambda x: 2 * x, multiple_results=False)
    )
    jax.interpreters.ad.deflinear(p, lambda ct: [p.bind(ct)])
    assert jax.jit(jax.grad(p.bind))(3.0) == 2.0


for test in (
    modules,
    errors,
    namespaces,
    private_modules,
    kernels,
    draws,
    systems,
    values,
    behaviour,
    programs_have_texts,
    table_resolves,
    primitives_are_there,
):
    test()
print(json.dumps(facts))
