"""A JAX program runs after a change of its imports: every name of jax is here, or is known to be absent."""

import importlib
import inspect
import os
import pickle
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import jax
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import errors

ABSENT = {
    "": "",
    "lax": "after_all create_token precv psend",
    "lax.linalg": "",
    "scipy.linalg": "",
    "scipy.special": "",
    "scipy.stats": "",
    "image": "",
    "scipy.cluster.vq": "",
    "scipy.fft": "",
    "scipy.integrate": "",
    "scipy.interpolate": "",
    "scipy.ndimage": "",
    "scipy.optimize": "",
    "scipy.signal": "",
    "scipy.spatial.transform": "",
    "scipy.sparse.linalg": "",
    "nn": "",
    "nn.initializers": "",
    "numpy": "float6_e2m3fn float6_e3m2fn int1 uint1",
    "numpy.fft": "",
    "numpy.linalg": "",
    "ops": "",
    "random": "",
    "tree": "",
    "tree_util": "",
    "typing": "",
    "ad_checkpoint": "",
    "core": "",
    "custom_batching": "",
    "custom_derivatives": "",
    "debug": "",
    "dlpack": "",
    "test_util": "",
    "export": "",
    "ffi": "register_ffi_target_as_batch_partitionable",
    "distributed": "",
    "dtypes": "",
    "monitoring": "",
    "profiler": "",
    "errors": "",
    "flatten_util": "",
    "ref": "",
    "sharding": "AbstractDevice",
    "stages": "",
    "extend.random": "",
    "experimental": "EArray cur_qdd primal_tangent_dtype",
    "experimental.checkify": "",
    "experimental.layout": "",
    "experimental.mesh_utils": "",
    "experimental.pjit": "",
    "experimental.serialize_executable": "",
    "experimental.shard_map": "",
    "experimental.sparse": "",
    "experimental.sparse.linalg": "",
    "experimental.compilation_cache.compilation_cache": "",
}

ABSENT_MODULES = """
    api_util cloud_tpu_init collect_profile interpreters lib tools
    experimental.array_serialization experimental.buffer_callback experimental.colocated_python
    experimental.compute_on experimental.control_deps experimental.custom_partitioning experimental.fused
    experimental.hijax experimental.jax2tf experimental.key_reuse
    experimental.mosaic experimental.pallas
    experimental.profiler experimental.roofline
    experimental.scheduling_groups experimental.shard_alike
    experimental.source_mapper experimental.topologies
    experimental.transfer experimental.xla_metadata
    extend.backend extend.ifrt_programs extend.linear_util extend.lowering extend.mlir extend.pallas
    extend.sharding extend.source_info_util extend.xla
"""


def public_names(module: types.ModuleType) -> set[str]:
    """Functions, classes and constants; a primitive (`add_p`) is internal."""
    return {
        name
        for name in dir(module)
        if not name.startswith("_")
        and not name.endswith("_p")
        and not isinstance(getattr(module, name), types.ModuleType)
    }


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the names are those of JAX 0.10")
@pytest.mark.parametrize("path", ABSENT)
def test_names_are_those_of_jax(path: str) -> None:
    theirs, ours = [importlib.import_module(f"{root}.{path}".rstrip(".")) for root in ("jax", "didax")]
    missing = {name for name in public_names(theirs) if not hasattr(ours, name)}
    missing |= {  # a function under whose name there is only the module that it should be in
        name
        for name in public_names(theirs) - missing
        if callable(getattr(theirs, name)) and isinstance(getattr(ours, name), types.ModuleType)
    }
    assert missing == set(ABSENT[path].split())


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the names are those of JAX 0.10")
def test_few_names_are_absent() -> None:
    documented = sum(len(public_names(importlib.import_module(f"jax.{path}".rstrip(".")))) for path in ABSENT)
    absent = sum(len(names.split()) for names in ABSENT.values())
    assert absent <= documented / 100


def modules_of(package: str) -> set[str]:
    """The public modules of a package, by their names within it; of those within them, only the first level."""
    root = importlib.import_module(package)
    found = {m.name for m in pkgutil.iter_modules(root.__path__) if not m.name.startswith("_")}
    for name in ("experimental", "extend", "scipy"):
        path = importlib.import_module(f"{package}.{name}").__path__
        found |= {f"{name}.{m.name}" for m in pkgutil.iter_modules(path) if not m.name.startswith("_")}
    return found


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the modules are those of JAX 0.10")
def test_modules_are_those_of_jax() -> None:
    assert modules_of("jax") - modules_of("didax") == set(ABSENT_MODULES.split())


def test_absent_modules_are_documented() -> None:
    text = (
        (Path(__file__).parents[1] / "docs" / "differences.md")
        .read_text()
        .split("## Names that are absent")[1]
    )
    documented = set(re.findall(r"`([\w.]+)`", text))
    families = ("experimental.", "extend.")
    assert {name for name in ABSENT_MODULES.split() if not name.startswith(families)} - documented == set()


@pytest.mark.ci
def test_public_modules_are_attributes() -> None:
    """In a process of its own: other tests import what this one is about."""
    program = (
        "import sys, didax as dx; early = set(sys.modules)\n"
        "for name in ('scipy.special', 'scipy.sparse.linalg', 'scipy.linalg', 'image',\n"
        "             'scipy.stats.norm', 'experimental.checkify', 'experimental.ode',\n"
        "             'experimental.implicit', 'example_libraries.stax', 'flatten_util', 'dlpack', 'nn.initializers',\n"
        "             'numpy.fft', 'lax.linalg', 'core.Tracer', 'extend.core', 'stages', 'checkify'):\n"
        "    value = dx\n"
        "    for part in name.split('.'):\n"
        "        assert part in dir(value), name\n"
        "        value = getattr(value, part)\n"
        "assert not {'didax.scipy', 'didax.experimental.ode'} & early\n"
        "try: dx.scipy.nosuch\n"
        "except AttributeError as error: print(error)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output == "module 'didax.scipy' has no attribute 'nosuch'\n"


@pytest.mark.parametrize(
    ("module", "name", "advice"),
    [
        (dx, "sin", "Use didax.numpy.sin or didax.lax.sin."),
        (dx, "sparse_hessian", "Use didax.experimental.sparse_derivatives.sparse_hessian."),
        (dnp, "random", "Use didax.random."),  # the module of this name, and none that another module imports
        (dnp, "sinn", "Did you mean didax.numpy.sin?"),
        (dx.lax, "enisum", "Did you mean didax.numpy.einsum?"),
        (dx.random, "norml", "Did you mean didax.random.normal?"),
        (dx.nn, "Dropout", "Write numpy.where(random.bernoulli(key, keep, x.shape), x / keep, 0.0)."),
        (dx, "manual_seed", "Make a key, key = didax.random.key(seed), and pass it to each draw."),
        (dx.random, "randn", "Use didax.random.normal(key, shape)."),
        (dx.random, "shuffle", "Use didax.random.permutation(key, x), which returns a new array."),
        (dx.random, "default_rng", "Make a key, key = didax.random.key(seed), and pass it to each draw."),
        (dx.scipy.integrate, "odeint", "Use didax.experimental.ode.odeint."),
        (dnp, "cat", "Use didax.numpy.concatenate."),
        (
            dx.nn.initializers,
            "functional",
            "Activations are in didax.nn, convolutions and pooling in didax.lax, "
            "norms and losses a line each.",
        ),
        (dx, "linalg", "Use didax.numpy.linalg or didax.lax.linalg or didax.scipy.linalg."),
        (dx.sharding, "Shardng", "Did you mean didax.sharding.Sharding?"),
        (dx.scipy.linalg, "solve_triangle", "Did you mean didax.scipy.linalg.solve_triangular?"),
        (dx.tree_util, "tree_mapp", "Did you mean didax.tree_util.tree_map?"),
        (dx.image, "vq", "Use didax.scipy.cluster.vq.vq."),
    ],
)
def test_a_missing_name_says_where_such_a_name_is(module: Any, name: str, advice: str) -> None:
    with pytest.raises(dx.errors.MissingNameError) as error:
        getattr(module, name)
    assert str(error.value) == f"module {module.__name__!r} has no attribute {name!r}.\n{advice}"
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    assert error.value.name is None  # otherwise Python adds a suggestion to the one above
    assert not hasattr(module, name)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            "from didax.nn import Linear",
            "cannot import name 'Linear' from 'didax.nn'.\nA model is a function of",
        ),
        ("from didax import sin", "cannot import name 'sin' from 'didax'.\nUse didax.numpy.sin"),
        (
            "from didax.tree_util import tree_mapp",
            "from 'didax.tree_util'.\nDid you mean didax.tree_util.tree_map",
        ),
        ("from didax.checkpoints import load", "from 'didax.checkpoints'.\nUse didax.checkpoints.restore"),
    ],
)
def test_an_import_of_a_missing_name_says_where_such_a_name_is(statement: str, text: str) -> None:
    with pytest.raises(dx.errors.MissingImportError) as error:
        exec(statement)
    assert text in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_module_that_is_being_imported_is_found_before_it_is_an_attribute(tmp_path: Path) -> None:
    """As where modules import each other: Python then looks for it among the modules."""
    (tmp_path / "house").mkdir()
    head = "from didax.core.modules import on_access\n__getattr__, __dir__ = on_access(__name__)\n"
    (tmp_path / "house/__init__.py").write_text(head)
    (tmp_path / "house/one.py").write_text("from house import two\n")
    (tmp_path / "house/two.py").write_text("from house import one\nx = 1\n")
    program = "import house.one; print(house.one.two.x)"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    env = os.environ | {"PYTHONPATH": path}
    assert subprocess.check_output([sys.executable, "-c", program], text=True, env=env) == "1\n"


def test_a_private_name_gets_no_advice() -> None:
    with pytest.raises(AttributeError) as error:
        getattr(dnp, "_sin")  # noqa: B009
    assert str(error.value) == "module 'didax.numpy' has no attribute '_sin'"


# Keywords of JAX that are absent, and named so in docs/differences.md or specific to one of JAX's implementations.
ABSENT_KEYWORDS = {
    "Ref": {"aval", "refs"}, "ShapeDtypeStruct": {"is_ref"}, "checkpoint": {"concrete"},
    "remat": {"concrete"}, "all_gather": {"to"}, "random_gamma_grad": {"dtype"}, "einsum": {"_dot_general"},
    "key": {"dtype"}, "key_dtype": {"impl_spec"}, "wrap_key_data": {"dtype"}, "ufunc": {"nargs", "identity", "name"},
}  # fmt: skip


DOORS = {
    dnp.array.__code__,
    dnp.mean.__code__,
    dnp.zeros.__code__,
    dx.lax.sin.__code__,
    dx.random.uniform.__code__,
}


def optional_keywords(function: object) -> dict[str, object]:
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return {}
    return {p.name: p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the keywords are those of JAX 0.10")
@pytest.mark.parametrize(
    "path", ["", "lax", "nn", "numpy", "numpy.fft", "numpy.linalg", "ops", "random", "tree"]
)
def test_keywords_of_jax_are_taken_at_their_defaults(path: str) -> None:
    theirs, ours = [importlib.import_module(f"{root}.{path}".rstrip(".")) for root in ("jax", "didax")]
    for name in public_names(theirs) & public_names(ours):
        one, other = getattr(theirs, name), getattr(ours, name)
        if (
            not callable(one)
            or not callable(other)
            or isinstance(other, dnp.ufunc)
            or not optional_keywords(other)
        ):
            continue
        wanted = {k for k, p in optional_keywords(one).items() if p.default is not p.empty}  # type: ignore[attr-defined]
        parameters = inspect.signature(other).parameters  # those by position only, too
        missing = wanted - set(parameters) - ABSENT_KEYWORDS.get(name, set())
        if missing and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            assert missing <= set(errors.IDLE), (name, missing)
            assert other.__code__ in DOORS, name


@pytest.mark.cpu
def test_keywords_that_ask_for_something_are_refused() -> None:
    x = dnp.ones(2)
    assert dnp.zeros(2, out_sharding=None).shape == dx.lax.exp(x, accuracy=None).shape == (2,)
    assert dx.jit(lambda x: x, in_shardings=None, device=None)(x).shape == (2,)
    assert dx.vmap(lambda x: x, spmd_axis_name=None, sum_match=False)(x).shape == (2,)
    assert dx.vmap(lambda x: dx.lax.all_gather(x, "i", to="varying"), axis_name="i")(x).shape == (2, 2)
    assert dnp.bincount(dnp.array([1]), out_sharding=None).shape == (2,)
    assert dnp.fmax(x1=1, x2=2) == dnp.fmax(1, x2=2) == 2 and dnp.trunc(x=1.5) == 1
    assert dx.grad(lambda x: x, reduce_axes=())(1.0) == dnp.add(0.5, 0.5, out=None, where=None)
    (device,) = dx.devices("cpu")[:1]
    with pytest.warns(DeprecationWarning, match="backend and device of jit are deprecated"):
        assert dx.jit(lambda x: x, backend="cpu")(1.0) == dx.jit(lambda x: x, device=device)(1.0) == 1.0
    with pytest.warns(DeprecationWarning), pytest.raises(RuntimeError, match="Unknown backend 'tpu'"):
        dx.jit(lambda x: x, backend="tpu")
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(NotImplementedError, match="other than the default one"),
    ):
        dx.jit(lambda x: x, device="another")
    with pytest.raises(
        NotImplementedError, match=r"accuracy of exp has no meaning here: accuracy is XLA's\."
    ):
        dx.lax.exp(x, accuracy=1)
    with pytest.raises(NotImplementedError, match="add takes no keywords but out=None and where=None"):
        dnp.add(1, 2, out=x)
    assert dx.grad(lambda x, device: x * device)(1.0, device=2.0) == 2.0  # a user's own
    with pytest.raises(TypeError, match="unexpected keyword"):
        dnp.zeros(2, colour=None)


def test_absent_names_are_documented() -> None:
    text = (Path(__file__).parents[1] / "docs" / "differences.md").read_text()
    documented = set(re.findall(r"`(?:\w+\.)*(\w+)`", text.split("## Names that are absent")[1]))
    absent = {name for names in ABSENT.values() for name in names.split()}
    families = ("transfer_guard_", "make_array_from_")
    assert {n for n in absent if not n.startswith(families)} - documented == set()
