"""jit, grad and vmap keep the signature of what they wrap, as pyright sees it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci  # starts pyright

FILE = Path(__file__).parent / "signatures.py"
ROOT = FILE.parents[2]


def test_signatures_are_kept(tmp_path: Path) -> None:
    """pyright complains about exactly the lines of signatures.py that are marked `# E:`."""
    shutil.copy(FILE, tmp_path)  # a project of its own: ours leaves tests out
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    report = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    errors = {
        item["range"]["start"]["line"] + 1: item["message"]
        for item in report["generalDiagnostics"]
        if item["severity"] == "error"
    }
    marked = {i for i, line in enumerate(FILE.read_text().splitlines(), 1) if re.search(r"# E: ", line)}
    unexpected = {i: text for i, text in errors.items() if i not in marked}
    assert not unexpected and marked == set(errors), f"errors: {errors}\nmarked: {sorted(marked)}"
