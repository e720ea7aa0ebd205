"""Where inputs come from, and what messages want."""

import os
from pathlib import Path
from typing import Any

import pytest

from hub.core.errors import HubError, NotFound, Unavailable
from hub.demo import errors, intent
from hub.demo.source import Source, attached, fetch, pasted, read_file

UPLOAD = {"id": "u1", "name": "a.log", "size": 5, "type": "text/plain"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    (root / "sub").mkdir(parents=True)
    (root / "access.log").write_text("hello\n")
    (root / "sub" / "b.csv").write_text("a,b\n")
    (root / "inside").symlink_to(root / "access.log")
    (tmp_path / "secret").write_text("secret\n")
    (root / "outside").symlink_to(tmp_path / "secret")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize("name", ["access.log", "./access.log", "sub/../access.log", "inside"])
def test_files_inside_are_read(files: Path, name: str) -> None:
    assert read_file(name, files) == b"hello\n"


@pytest.mark.parametrize("name", ["outside", "../secret", "/etc/passwd", "sub/../../secret"])
def test_files_outside_are_refused(files: Path, name: str) -> None:
    with pytest.raises(errors.SourceGone, match="outside the directory"):
        read_file(name, files)


@pytest.mark.parametrize("name", ["nothing.log", "loop", "a\x00b", "x" * 5000, "access.log/x"])
def test_what_is_not_there_names_what_is(files: Path, name: str) -> None:
    with pytest.raises(errors.SourceGone, match="There is no file") as caught:
        read_file(name, files)
    assert "access.log" in caught.value.advice


@pytest.mark.parametrize("name", ["pipe", "sub", ""])
def test_only_files_are_read(files: Path, name: str) -> None:
    with pytest.raises(errors.SourceGone, match="is not a file"):
        read_file(name, files)


def test_a_file_that_is_too_large(files: Path) -> None:
    with (files / "big.log").open("wb") as file:
        file.truncate(errors.MAX_BYTES + 1)
    with pytest.raises(errors.TooLarge, match=r"20\.0 MB; 20 MB is the limit"):
        read_file("big.log", files)


def test_without_a_directory_nothing_is_read() -> None:
    with pytest.raises(errors.SourceGone) as caught:
        read_file("access.log", None)
    assert "--files" in caught.value.advice


async def _gone(_: str) -> bytes:
    raise NotFound("no such upload")


async def _away(_: str) -> bytes:
    raise Unavailable("the hub does not answer")


async def _good(id: str) -> bytes:
    return f"data of {id}".encode()


async def test_uploads() -> None:
    assert await fetch(attached(UPLOAD), _good, None) == b"data of u1"
    with pytest.raises(errors.SourceGone) as caught:
        await fetch(attached(UPLOAD), _gone, None)
    assert caught.value.advice == "Upload the file again."
    with pytest.raises(errors.SourceGone, match="cannot be fetched just now"):
        await fetch(attached(UPLOAD), _away, None)
    with pytest.raises(errors.TooLarge):
        await fetch(attached({**UPLOAD, "size": 30_000_000}), _good, None)


async def test_a_source_is_kept_and_comes_back() -> None:
    for source in (attached(UPLOAD), pasted("a\nb"), Source("file", "x", "x")):
        assert Source.from_data(source.to_data()) == source
    long = pasted("x\n" * 100_000)
    kept = Source.from_data(long.to_data())
    assert kept is not None
    assert kept.identity == long.identity
    with pytest.raises(errors.SourceGone, match="too long to be kept"):
        await fetch(kept, _good, None)


@pytest.mark.parametrize("data", [None, 1, {}, {"kind": "x"}, {"kind": "file", "name": 1, "ref": "", "size": 0}])
def test_what_is_no_source(data: Any) -> None:
    assert Source.from_data(data) is None


@pytest.mark.parametrize(
    ("text", "loaded", "kind"),
    [
        ("", False, "nothing"),
        ("hi", False, "hello"),
        ("Hello there!", True, "hello"),
        ("thanks", True, "hello"),
        ("help", False, "help"),
        ("?", False, "help"),
        ("analyse access.log", False, "analyse"),
        ("please analyze the file sub/b.csv", False, "analyse"),
        ("read access.log.", False, "analyse"),
        ("analyse nothing-there", False, "analyse"),
        ("analyse errors", True, "ask"),
        ("access.log", False, "analyse"),
        ("other.log", False, "ask"),
        ("analyse again", True, "again"),
        ("again", False, "again"),
        ("try again please", True, "again"),
        ("top 5 status codes", True, "ask"),
        ("check errors", True, "ask"),
        ("a,b\n1,2\n3,4", False, "analyse"),
        ("1,2\n3,4", False, "analyse"),
        ("how are things\nwith you", True, "ask"),
        ('{"a": 1}', False, "analyse"),
        ("```\nerror: one\n```", False, "analyse"),
    ],
)
def test_intents(files: Path, text: str, loaded: bool, kind: str) -> None:
    assert intent.read(text, [], files, loaded=loaded).kind == kind


def test_what_exactly_is_analysed(files: Path) -> None:
    def source(text: str) -> Source:
        found = intent.read(text, [], files, loaded=False).source
        assert found is not None
        return found

    assert source("analyse the file “sub/b.csv”").ref == "sub/b.csv"
    assert source("please look at this:\na,b\n1,2").ref == "a,b\n1,2"
    assert source("```csv\na,b\n1,2\n```").ref == "a,b\n1,2"
    assert source("check this log:\n```\nx: 1\ny: 2\n```").ref == "x: 1\ny: 2"


def test_attachments_come_first_and_a_question_may_come_along(files: Path) -> None:
    found = intent.read("top 5 status codes", [UPLOAD, UPLOAD], files, loaded=False)
    assert (found.kind, found.question, found.more) == ("analyse", "top 5 status codes", 1)
    assert found.source == Source("upload", "a.log", "u1", 5)
    assert intent.read("please analyse this file", [UPLOAD], files, loaded=False).question == ""


def test_errors_have_one_root() -> None:
    assert issubclass(errors.SourceGone, errors.DemoError)
    assert not issubclass(errors.DemoError, HubError)
