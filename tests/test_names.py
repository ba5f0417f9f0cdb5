"""A JAX program runs after a change of its imports: every name of jax is here, or is known to be absent."""

import importlib
import re
import types
from pathlib import Path

import jax
import pytest

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


def test_absent_names_are_documented() -> None:
    text = (Path(__file__).parents[1] / "docs" / "differences.md").read_text()
    documented = set(re.findall(r"`(?:\w+\.)*(\w+)`", text.split("## Names that are absent")[1]))
    absent = {name for names in ABSENT.values() for name in names.split()}
    families = ("transfer_guard_", "make_array_from_")
    assert {n for n in absent if not n.startswith(families)} - documented == set()
