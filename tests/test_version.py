"""The supported jaxlib range: what is accepted, what the error says, and that pyproject.toml agrees."""

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

from didax.version import JAXLIB_BELOW, JAXLIB_MIN, __version__, check_jaxlib, installed_jaxlib

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("version", ["0.10.2", "0.10.3", "0.11.0rc1", "0.11.2", "0.11.3.dev20260101"])
def test_versions_in_the_range_pass(version):
    check_jaxlib(version)


@pytest.mark.parametrize("version", ["0.10.1", "0.10", "0.9.2", "0.4.38", "0.9", "unknown"])
def test_too_old_a_jaxlib_is_named_with_the_range_and_the_command(version):
    with pytest.raises(ImportError) as error:
        check_jaxlib(version)
    assert str(error.value) == (
        f"Didax {__version__} runs on jaxlib>=0.10.2,<0.12.\n"
        f"  jaxlib {version} is installed.\n"
        'Install a jaxlib in that range: pip install "jaxlib>=0.10.2,<0.12"'
    )


@pytest.mark.parametrize("version", ["0.12.0", "0.12", "0.12.0.dev1", "1.0"])
def test_too_new_a_jaxlib_also_points_at_a_newer_didax(version):
    with pytest.raises(ImportError) as error:
        check_jaxlib(version)
    assert str(error.value) == (
        f"Didax {__version__} runs on jaxlib>=0.10.2,<0.12.\n"
        f"  jaxlib {version} is installed.\n"
        'Install a jaxlib in that range: pip install "jaxlib>=0.10.2,<0.12", '
        'or a newer Didax: pip install --upgrade "didax"'
    )


def test_a_missing_jaxlib_is_said_to_be_missing():
    with pytest.raises(ImportError) as error:
        check_jaxlib(None)
    assert str(error.value) == (
        f"Didax {__version__} runs on jaxlib>=0.10.2,<0.12.\n"
        "  No installed jaxlib was found.\n"
        'Install a jaxlib in that range: pip install "jaxlib>=0.10.2,<0.12"'
    )


def test_the_installed_version_is_read_without_importing_jaxlib():
    assert installed_jaxlib() == importlib.metadata.version("jaxlib")


@pytest.fixture
def only_this_path(tmp_path, monkeypatch):
    """An import path that holds one folder, and no jaxlib that an earlier test imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "jaxlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_no_jaxlib_on_the_path_reads_as_none(only_this_path):
    assert installed_jaxlib() is None


def test_an_empty_folder_left_by_an_uninstall_is_no_jaxlib(only_this_path):
    (only_this_path / "jaxlib").mkdir()
    assert installed_jaxlib() is None


def test_the_version_of_the_jaxlib_first_on_the_path_is_the_one_read(only_this_path):
    (only_this_path / "jaxlib").mkdir()
    (only_this_path / "jaxlib/__init__.py").touch()
    assert installed_jaxlib() is None
    (only_this_path / "jaxlib-0.7.1.dist-info").mkdir()
    assert installed_jaxlib() == "0.7.1"


def test_pyproject_and_the_check_name_one_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    ranges = {
        re.sub(r"\[.*\]|;.*", "", line).strip()
        for line in [*project["dependencies"], *extras["dev"], *extras["gpu"]]
        if re.match(r"jax(lib|-cuda13-plugin(\[.*\])?)?>", line)
    }
    wanted = f">={JAXLIB_MIN},<{JAXLIB_BELOW}"
    assert ranges == {f"{name}{wanted}" for name in ("jax", "jaxlib", "jax-cuda13-plugin")}
