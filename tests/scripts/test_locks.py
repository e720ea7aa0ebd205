"""The lock files: complete, hashed, and without a word about where the packages came from."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "scripts").glob("requirements*.lock"))


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_requirement_is_pinned_and_hashed(lock: Path) -> None:
    requirements = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n?", "", lock.read_text(), flags=re.MULTILINE).strip())
    assert requirements
    for requirement in requirements:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_names_a_registry(lock: Path) -> None:
    assert not re.search(r"https?:|--(index|extra-index|find-links|trusted-host)", lock.read_text())


def test_the_web_lock_names_no_registry_and_has_hashes() -> None:
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]


def test_tests_run_with_the_versions_that_run_installs() -> None:
    runtime, dev = pins(ROOT / "scripts" / "requirements.lock"), pins(ROOT / "scripts" / "requirements-dev.lock")
    assert runtime.items() <= dev.items()
