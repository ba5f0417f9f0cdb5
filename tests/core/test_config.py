"""Options: snapshots, overlays, environment variables, names and their errors."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.lax
import didax.numpy as dnp
from didax.core import config, jax_options
from didax.core.process import in_a_thread
from didax.extend.core import jaxpr_as_fun


def test_equal_snapshots_are_one_object():
    before = config.state()
    with config.override(enable_x64=not before.enable_x64):
        inside = config.state()
        assert inside is not before
    assert config.state() is before
    with config.override(enable_x64=not before.enable_x64):
        assert config.state() is inside


def test_jax_names_are_accepted_and_attributes_read():
    dx.config.update("jax_explain_cache_misses", True)
    try:
        assert dx.config.explain_cache_misses and dx.config.jax_explain_cache_misses
    finally:
        dx.config.update("explain_cache_misses", False)


def test_an_overlay_sees_later_global_updates_of_other_options():
    with config.override(enable_x64=True):
        config.update("explain_cache_misses", True)
        try:
            assert config.state().explain_cache_misses and config.state().enable_x64
        finally:
            config.update("explain_cache_misses", False)


def test_overlays_belong_to_their_thread():
    seen: list[bool] = []
    with dx.enable_x64(True):
        thread = threading.Thread(target=lambda: seen.append(config.state().enable_x64))
        thread.start()
        thread.join()
    assert seen == [False]


@pytest.mark.parametrize(
    ("option", "value", "kind", "text"),
    [
        ("enable_x65", True, AttributeError, "unknown option 'enable_x65'"),
        ("enable_x64", "perhaps", TypeError, "option 'enable_x64' takes a bool"),
        ("numpy_dtype_promotion", "loose", ValueError, "takes one of ('standard', 'strict')"),
    ],
)
def test_bad_options_are_refused(option: str, value: object, kind: type[Exception], text: str):
    with pytest.raises(kind) as error:
        dx.config.update(option, value)
    assert text in str(error.value)


@pytest.mark.ci
def test_environment_variables_set_options():
    program = "import didax as dx; print(dx.config.enable_x64, dx.config.compilation_cache_max_size)"
    environment = {**os.environ, "DIDAX_ENABLE_X64": "1", "DIDAX_COMPILATION_CACHE_MAX_SIZE": "1000"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["True", "1000"]


BAD_VARIABLES = [
    ("COMPILATION_CACHE_MAX_SIZE", "12abc", "an integer, 0 or more, or -1 for no bound"),
    ("COMPILATION_CACHE_MAX_SIZE", "-5", "an integer, 0 or more, or -1 for no bound"),
    ("COMPILATION_CACHE_DIR", __file__, "the path of a directory"),
    ("ENABLE_X64", "perhaps", "1, true, on, yes, 0, false, off, no"),
    ("NUMPY_RANK_PROMOTION", "perhaps", "allow, warn, raise"),
    ("OPTIMIZE_LOOPS", "perhaps", "auto, off, 1, true, on, yes, 0, false, off, no"),
]


@pytest.mark.parametrize(("variable", "text", "allowed"), BAD_VARIABLES)
def test_bad_environment_variables_are_named(variable: str, text: str, allowed: str, monkeypatch):
    monkeypatch.setenv(f"DIDAX_{variable}", text)
    with pytest.raises((TypeError, ValueError)) as error:
        config._from_environment()
    assert str(error.value) == (
        f"The environment variable DIDAX_{variable} has a value that it cannot have.\n"
        f"  DIDAX_{variable}={text!r}, which may be: {allowed}\n"
        "Set it to one of these, or unset it."
    )


def test_every_option_refuses_or_takes_any_text(monkeypatch):
    for name in config.NAMES:
        for text in ("", " ", "perhaps", "-1", "1.5", "0", "on"):
            with monkeypatch.context() as patch:
                patch.setenv(config.variable_of(name), text)
                try:
                    state = config._from_environment()
                except (TypeError, ValueError) as error:
                    assert f"DIDAX_{name.upper()}={text!r}" in str(error)
                else:
                    assert type(getattr(state, name)) is type(getattr(config.State(), name))


@pytest.mark.ci
def test_an_unknown_platform_is_an_error_on_first_use_that_names_the_variable():
    program = "import didax as dx; dx.devices()"
    environment = {**os.environ, "DIDAX_PLATFORMS": "tpu"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert "platforms: 'tpu' (the option, which the environment variable DIDAX_PLATFORMS sets)" in run.stderr


def test_x64_decides_the_width_of_python_scalars_and_is_part_of_the_cache_key():
    f = dx.jit(lambda x: x)
    assert f(1.0).dtype == "float32"
    with dx.enable_x64():
        assert f(1.0).dtype == "float64"
    assert f(1.0).dtype == "float32"


def test_updates_of_two_threads_are_both_kept(monkeypatch):
    monkeypatch.setattr(config, "global_state", config.global_state)
    intern, between, second_done = config._intern, threading.Event(), threading.Event()

    def interrupted(values):
        state = intern(values)
        if not between.is_set():  # the first update has read the options, and not set them
            between.set()
            second_done.wait(0.2)
        return state

    monkeypatch.setattr(config, "_intern", interrupted)
    first = threading.Thread(target=config.update, args=("explain_cache_misses", True))
    first.start()
    between.wait()
    config.update("default_prng_impl", "rbg")
    second_done.set()
    first.join()
    assert config.state().explain_cache_misses and config.state().default_prng_impl == "rbg"


# --- JAX's options -------------------------------------------------------------------------------------------

jax_0_10 = pytest.mark.skipif(
    not jax.__version__.startswith("0.10."), reason="the options are those of JAX 0.10"
)


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are as before when the test ends."""
    monkeypatch.setattr(config, "global_state", config.global_state)
    monkeypatch.setattr(jax_options, "_values", {})


@jax_0_10
@pytest.mark.parametrize("name", sorted(jax.config.values))
def test_every_option_of_jax_is_taken_and_read_back(name: str, restored: None):
    value = jax.config._value_holders[name].value
    value = value.value if isinstance(value, enum.Enum) else value
    dx.config.update(name, value)
    read = dx.config.read(name)
    assert read == value and type(read) is type(value)
    assert getattr(dx.config, name) == value
    assert name in dx.config.values


@jax_0_10
@pytest.mark.parametrize(
    "bad", [object(), "nonsense", 7, 0.5, None], ids=["object", "text", "int", "float", "None"]
)
def test_options_without_effect_refuse_what_jax_refuses(bad: object, restored: None):
    for name in dx.config.without_effect():
        parse = getattr(jax.config._value_holders[name], "_parser", None) or (lambda value: value)
        if "x64_dtypes" in name:
            continue  # which JAX looks up by another rule: numbers as text
        try:
            parse(bad)
        except (
            RuntimeError
        ):  # after the start of its backends, which other tests have caused, JAX refuses any value
            continue
        except (TypeError, ValueError) as error:
            with pytest.raises(TypeError if isinstance(error, TypeError) else ValueError):
                dx.config.update(name, bad)
        else:
            dx.config.update(name, bad)
            assert dx.config.read(name) == (bool(bad) if isinstance(dx.config.read(name), bool) else bad)


def test_options_read_by_their_names_in_jax_as_there():
    names = ("enable_x64", "debug_infs", "debug_nans", "debug_key_reuse", "disable_jit", "enable_checks")
    with dx.debug_key_reuse("warn"), dx.enable_checks(False):
        assert not any(getattr(dx.config, f"jax_{name}") for name in names)
    assert dx.config.jax_default_matmul_precision is None and dx.config.jax_platforms is None
    with dx.debug_nans("outputs"), dx.debug_infs(True), dx.debug_key_reuse(True), dx.enable_checks(True):
        assert dx.config.jax_debug_nans is dx.config.jax_debug_infs is dx.config.jax_debug_key_reuse is True
        assert dx.config.debug_nans == "outputs" and dx.config.jax_enable_checks is True
    with dx.default_matmul_precision("float32"):
        assert dx.config.default_matmul_precision == "highest"


def test_names_of_jax_for_options_of_other_names(restored: None):
    dx.config.update("jax_platform_name", "cpu")
    assert dx.config.platforms == dx.config.jax_platform_name == "cpu"
    dx.config.update("jax_enable_checks", 1)
    assert dx.config.check is True
    dx.config.update("jax_default_matmul_precision", None)
    assert dx.config.default_matmul_precision == "default"


@pytest.mark.parametrize(
    ("manager", "value", "name"),
    [
        (dx.log_compiles, True, "jax_log_compiles"),
        (dx.transfer_guard, "disallow", "jax_transfer_guard"),
        (dx.transfer_guard_host_to_device, "log", "jax_transfer_guard_host_to_device"),
        (dx.transfer_guard_device_to_host, "log", "jax_transfer_guard_device_to_host"),
        (dx.transfer_guard_device_to_device, None, "jax_transfer_guard_device_to_device"),
        (dx.thread_guard, True, "jax_thread_guard"),
        (dx.array_garbage_collection_guard, "log", "jax_array_garbage_collection_guard"),
        (dx.enable_x64, True, "jax_enable_x64"),
        (dx.debug_nans, True, "jax_debug_nans"),
    ],
)
def test_context_managers_nest_decorate_and_are_used_again(manager: Any, value: Any, name: str):
    before = dx.config.read(name)
    block = manager(value)
    for _ in range(2):
        with block, block:
            assert dx.config.read(name) == value
        assert dx.config.read(name) == before
    assert block(lambda: dx.config.read(name))() == value


def test_context_managers_check_their_values_when_they_are_made():
    for manager in (dx.numpy_dtype_promotion, dx.default_prng_impl, dx.transfer_guard):
        with pytest.raises(ValueError, match="bad"):
            manager("bad")


def test_the_command_line_sets_options(monkeypatch: pytest.MonkeyPatch, restored: None):
    arguments = (
        "--jax_enable_x64 --nojax_pprint_use_color --jax_num_cpu_devices=3 --other -- --jax_disable_jit"
    )
    monkeypatch.setattr(sys, "argv", ["program", *arguments.split()])
    dx.config.parse_flags_with_absl()
    assert dx.config.jax_enable_x64 and not dx.config.jax_disable_jit
    assert dx.config.jax_num_cpu_devices == 3 and dx.config.jax_pprint_use_color is False


def test_environment_variables_of_jax_set_options(monkeypatch: pytest.MonkeyPatch, restored: None):
    values = {"ENABLE_X64": "1", "DEBUG_NANS": "true", "NUMPY_RANK_PROMOTION": "warn", "LOG_COMPILES": "1",
              "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "2.5", "CPU_COLLECTIVES_IMPLEMENTATION": "mpi",
              "CHECK_TRACER_LEAKS": "1", "NO_OPTION_OF_JAX": "7", "DEFAULT_PRNG_IMPL": " "}  # fmt: skip
    for name, text in values.items():
        monkeypatch.setenv(f"JAX_{name}", text)
    monkeypatch.setenv("DIDAX_CHECK_TRACER_LEAKS", "0")  # Didax's own variable was read before
    dx.config.read_environment()
    assert dx.config.jax_enable_x64 and dx.config.jax_debug_nans and dx.config.jax_log_compiles
    assert dx.config.numpy_rank_promotion == "warn" and dx.config.default_prng_impl == "threefry2x32"
    assert dx.config.jax_persistent_cache_min_compile_time_secs == 2.5
    assert dx.config.jax_cpu_collectives_implementation == "mpi" and not dx.config.check_tracer_leaks


@pytest.mark.parametrize(
    ("variable", "text", "rule"),
    [("JAX_ENABLE_X64", "maybe", "takes a bool"), ("JAX_NUMPY_RANK_PROMOTION", "never", "takes one of"),
     ("JAX_OPTIMIZATION_LEVEL", "O9", "takes UNKNOWN, O0"), ("JAX_SERIALIZATION_VERSION", "new", "invalid literal")],
)  # fmt: skip
def test_bad_environment_variables_of_jax_are_named(
    variable: str, text: str, rule: str, monkeypatch: pytest.MonkeyPatch, restored: None
):
    monkeypatch.setenv(variable, text)
    with pytest.raises((TypeError, ValueError)) as info:
        dx.config.read_environment()
    lines = str(info.value).splitlines()
    assert lines[0] == f"The environment variable {variable} has a value that it cannot have."
    assert (
        lines[1] == f"  {variable}={text!r}" and rule in lines[2] and lines[3].startswith("Set another value")
    )


def test_flags_of_absl_set_options(monkeypatch: pytest.MonkeyPatch, restored: None):
    """absl is stood in for by the little that is asked of it."""
    found: dict[str, Any] = {}
    later: list[Any] = []

    def define(name: str, default: Any, _: str) -> None:
        found[name] = types.SimpleNamespace(present=name == "jax_enable_x64", value=True)

    flags = types.SimpleNamespace(DEFINE_bool=define, DEFINE_string=define, FLAGS=found)
    app = types.SimpleNamespace(call_after_init=later.append)
    for name, module in (("absl", flags), ("absl.flags", flags), ("absl.app", app)):
        monkeypatch.setitem(sys.modules, name, module)  # pyright: ignore[reportArgumentType]
    dx.config.config_with_absl()
    later[0]()
    assert dx.config.jax_enable_x64 and not dx.config.jax_disable_jit


def test_transformed_programs_are_remembered_under_the_options_of_the_time() -> None:
    @dx.custom_jvp
    def product(x: Any) -> Any:
        return x @ x

    product.defjvp(lambda primals, tangents: (product(*primals), tangents[0] @ primals[0]))
    x = np.ones((2, 2), np.float32)
    program = dx.make_jaxpr(dx.jit(product))(x)  # one program, whose derivative is taken twice

    def derivative(x: Any) -> Any:
        return dx.jvp(jaxpr_as_fun(program), (x,), (x,))

    assert "HIGHEST" not in str(dx.make_jaxpr(derivative)(x))
    with dx.default_matmul_precision("highest"):
        assert "HIGHEST" in str(dx.make_jaxpr(derivative)(x))


@pytest.mark.parametrize("wide", [True, False])
def test_a_program_means_the_same_with_and_without_64_bits(wide: bool) -> None:
    """Python's and NumPy's numbers in it keep the width that they had when it was traced."""
    numbers = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        last, _ = dx.lax.scan(lambda c, row: (c * 1.5 + row, None), x * 2, x[None] * numbers)
        return last * 3 / numbers

    with dx.enable_x64(wide):
        x = dnp.arange(2.0)
        expected, program, (_, pull), (_, push) = f(x), dx.make_jaxpr(f)(x), dx.vjp(f, x), dx.linearize(f, x)
    with dx.enable_x64(not wide):
        # The keys let the program be rewritten before it is compiled.
        jitted = dx.jit(lambda x, key: (dx.enable_x64(wide)(f)(x), key))(x, dx.random.key(0))[0]
        found = [jaxpr_as_fun(program)(x)[0], push(x), dx.vmap(push)(x[None])[0], jitted]
        (ct,) = pull(dnp.ones_like(expected))
    assert {y.dtype for y in (*found, ct)} == {np.dtype("float64" if wide else "float32")}
    np.testing.assert_allclose(found, [expected] * 4, rtol=1e-6)
    np.testing.assert_allclose(ct, [12, 7.5], rtol=1e-6)


def test_work_for_another_thread_keeps_the_options_of_its_caller() -> None:
    """Programs are lowered a second time, with the user's lines, in the thread that compiles them."""
    with dx.enable_x64(not dx.config.enable_x64):
        assert in_a_thread(lambda: config.state().enable_x64) is dx.config.enable_x64


def test_a_context_manager_that_nobody_enters_warns():
    with pytest.warns(
        UserWarning, match=r"does nothing unless a `with` block is entered\.\n  options: debug_nans='on'"
    ):
        dx.debug_nans(True)
    with pytest.warns(UserWarning, match=r"as in didax\.config\.update\('debug_nans', 'on'\)"):
        dx.debug_mode()

    @dx.debug_nans(True)
    def decorated() -> str:
        return config.state().debug_nans

    assert decorated() == "on"
    with pytest.raises(ValueError, match="takes one of"):
        dx.debug_nans("sometimes")


def test_a_block_tells_hot_paths_at_once_that_operations_are_watched(monkeypatch: pytest.MonkeyPatch):
    """An operation that asks for no option of its own looks at the mark alone."""
    monkeypatch.setattr(config, "operations_were_watched", False)
    monkeypatch.setattr(config, "_interned", {})
    with config.override(debug_nans=True):
        assert config.operations_were_watched


def test_the_page_of_options_has_each_with_its_values_and_its_block() -> None:
    page = (Path(__file__).parents[2] / "docs/options.md").read_text()
    rows = {
        name: cells.split("|") for name, cells in re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    }
    assert set(rows) == set(config.NAMES) - config.NOT_OPTIONS
    for name, (values, block, *_) in rows.items():
        default = getattr(config.State(), name)
        assert f"**{default}**" in values or default == "", name
        words = [word.strip("* ") for word in values.split(",")]
        assert name not in config.CHOICES or words == list(config.CHOICES[name]), name
        if name_of_block := block.strip("` ").removeprefix("dx."):
            value = not default if isinstance(default, bool) else words[-1]
            with getattr(dx, name_of_block)(*([] if name_of_block == "debug_mode" else [value])):
                assert getattr(config.state(), name) == value, name
