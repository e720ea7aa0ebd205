"""Every script says in one line what it is for."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file() and os.access(path, os.X_OK)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_help_begins_with_one_line_that_tells(script: Path) -> None:
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=30, check=True)
    first, second = done.stdout.splitlines()[:2]
    assert first.endswith(".")
    assert second == ""
