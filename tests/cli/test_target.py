"""Which hub a command is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.cli.target import NotRunning, default_folder, find_target, folder_of
from hub.core.errors import InvalidRequest, Unauthorized


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data folder of a hub that runs."""
    (tmp_path / "url").write_text("http://127.0.0.1:8765\n")
    (tmp_path / "token").write_text("own-token\n")
    return tmp_path


def test_a_folder_gives_address_and_token(folder: Path) -> None:
    target = find_target(None, None, folder)
    assert (target.url, target.token) == ("http://127.0.0.1:8765", "own-token")
    assert find_target(None, "other", folder).token == "other"


def test_the_folders_token_goes_to_its_own_hub_only(folder: Path) -> None:
    assert find_target("127.0.0.1:8765", None, folder).token == "own-token"
    for elsewhere in ("http://127.0.0.1:8766", "http://example.com:8765", "https://127.0.0.1:8765"):
        with pytest.raises(Unauthorized, match="HUB_TOKEN"):
            find_target(elsewhere, None, folder)
    assert find_target("http://example.com", None, folder, need_token=False).token == ""


def test_the_printed_address_is_enough(tmp_path: Path) -> None:
    target = find_target("http://127.0.0.1:9000/#token=abc.def-_", None, tmp_path)
    assert (target.url, target.token) == ("http://127.0.0.1:9000", "abc.def-_")
    assert find_target("http://[::1]:9000/c/x", "t", tmp_path).url == "http://[::1]:9000"


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:99999", "http://[::1", "://"])
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="URL"):
        find_target(url, "t", tmp_path)


def test_without_a_hub_it_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=r"session-hub up --data-dir"):
        find_target(None, None, tmp_path / "none")


def test_a_folder_is_shown_as_it_is(tmp_path: Path) -> None:
    winding = tmp_path / "a" / ".." / "none"
    with pytest.raises(NotRunning) as caught:
        find_target(None, None, winding)
    assert f"on the data folder {tmp_path / 'none'}; " in caught.value.message
    assert f"up --data-dir {tmp_path / 'none'}'" in caught.value.message
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequest, match=r"file is a file; --data-dir takes a folder"):
        folder_of(tmp_path / "file")


def test_a_file_that_is_no_text_is_an_error(folder: Path) -> None:
    (folder / "token").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequest, match="cannot read"):
        find_target(None, None, folder)


def test_the_folder_is_that_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "checkout" / "deep" / "er"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert default_folder() == inside / ".session-hub"
    (tmp_path / "checkout" / ".git").mkdir()
    assert default_folder() == tmp_path / "checkout" / ".session-hub"
