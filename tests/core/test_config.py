"""Options: snapshots, overlays, environment variables, names and their errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import didax as dx
from didax.core import config


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


def test_environment_variables_set_options():
    program = "import didax as dx; print(dx.config.enable_x64, dx.config.compilation_cache_max_size)"
    environment = {**os.environ, "DIDAX_ENABLE_X64": "1", "DIDAX_COMPILATION_CACHE_MAX_SIZE": "1000"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["True", "1000"]


BAD_VARIABLES = [
    ("COMPILATION_CACHE_MAX_SIZE", "12abc", "an integer, 0 or more"),
    ("COMPILATION_CACHE_MAX_SIZE", "-5", "an integer, 0 or more"),
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
    for name in config._NAMES:
        for text in ("", " ", "perhaps", "-1", "1.5", "0", "on"):
            with monkeypatch.context() as patch:
                patch.setenv(config.variable_of(name), text)
                try:
                    state = config._from_environment()
                except (TypeError, ValueError) as error:
                    assert f"DIDAX_{name.upper()}={text!r}" in str(error)
                else:
                    assert type(getattr(state, name)) is type(getattr(config.State(), name))


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
