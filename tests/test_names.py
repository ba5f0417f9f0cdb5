"""A JAX program runs after a change of its imports: every name of jax is here, or is known to be absent."""

import importlib
import inspect
import re
import types
from pathlib import Path

import jax
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core import errors

ABSENT = {
    "": """
        Device NamedSharding P Shard auto_pcast default_device make_array_from_callback
        make_array_from_process_local_data make_array_from_single_device_arrays make_mesh memory pmap
        remove_size_one_mesh_axis_from_type reshard set_mesh shard_map smap
        array_garbage_collection_guard live_arrays thread_guard transfer_guard transfer_guard_device_to_device
        transfer_guard_device_to_host transfer_guard_host_to_device make_user_context
        log_compiles no_execution no_tracing print_environment_info
        ad allow_f16_reductions ds enable_custom_prng fwd_and_bwd host_count host_id host_ids
        jax2tf_associative_scan_reductions legacy_prng_key softmax_custom_jvp threefry_partitionable
    """,
    "lax": """
        AccuracyMode DotAlgorithm DotAlgorithmPreset RaggedDotDimensionNumbers Tolerance composite ragged_dot_general
        scaled_dot after_all create_token dce_sink rng_uniform shape_as_value stage
        pbroadcast pcast precv psend ragged_all_to_all with_sharding_constraint
    """,
    "nn": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    "nn.initializers": "",
    "numpy": "float6_e2m3fn float6_e3m2fn int1 uint1",
    "numpy.fft": "",
    "numpy.linalg": "",
    "ops": "",
    "random": "",
    "tree": "",
    "tree_util": "",
    "typing": "",
}


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
    assert missing == set(ABSENT[path].split())


# Keywords of JAX that are absent, and named so in docs/differences.md or specific to one of JAX's implementations.
ABSENT_KEYWORDS = {
    "Ref": {"aval", "refs"}, "ShapeDtypeStruct": {"manual_axis_type", "is_ref"}, "checkpoint": {"concrete"},
    "remat": {"concrete"}, "all_gather": {"to"}, "random_gamma_grad": {"dtype"}, "einsum": {"_dot_general"},
    "key": {"dtype"}, "key_dtype": {"impl_spec"}, "wrap_key_data": {"dtype"}, "ufunc": {"nargs", "identity", "name"},
}  # fmt: skip


DOORS = {dnp.zeros.__code__, dx.lax.sin.__code__, dx.random.uniform.__code__}


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


def test_keywords_that_ask_for_something_are_refused() -> None:
    x = dnp.ones(2)
    assert dnp.zeros(2, out_sharding=None).shape == dx.lax.exp(x, accuracy=None).shape == (2,)
    assert dx.jit(lambda x: x, in_shardings=None, device=None)(x).shape == (2,)
    assert dx.vmap(lambda x: x, spmd_axis_name=None, sum_match=False)(x).shape == (2,)
    assert dx.grad(lambda x: x, reduce_axes=())(1.0) == dnp.add(0.5, 0.5, out=None, where=None)
    text = "backend of jit has no meaning here: one process computes on one device at a time.\n  backend: 'gpu'\nLeave"
    with pytest.raises(NotImplementedError, match=text):
        dx.jit(lambda x: x, backend="gpu")
    with pytest.raises(
        NotImplementedError, match=r"accuracy of exp has no meaning here: accuracy is XLA's\."
    ):
        dx.lax.exp(x, accuracy=1)
    with pytest.raises(TypeError, match="add takes no keywords but out=None and where=None"):
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
