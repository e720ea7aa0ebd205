"""Bytes to lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.demo import encoding
from hub.demo.errors import EmptyInput, UnreadableInput

TEXT = "name,näme\n1,ü€\n2,x\n"


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (b"plain\n", "UTF-8"),
        (TEXT.encode(), "UTF-8"),
        (b"\xef\xbb\xbf" + TEXT.encode(), "UTF-8"),
        (TEXT.encode("utf-16"), "UTF-16"),
        (TEXT.encode("utf-16-le"), "UTF-16-LE"),
        (TEXT.encode("utf-16-be"), "UTF-16-BE"),
        (b"\xff\xfe\x00\x00" + TEXT.encode("utf-32-le"), "UTF-32"),
        ("näme\nöde\n".encode("latin-1"), "Latin-1"),
        ("“näme” € –\n".encode("cp1252"), "Windows-1252"),
        ("äöüß äöü\n".encode() * 5 + b"\xff\n", "UTF-8 with some damaged bytes"),
    ],
)
def test_sniff(data: bytes, label: str) -> None:
    assert encoding.sniff(data).label == label


def test_damaged_bytes_stay_visible() -> None:
    data = "äöü äöü\n".encode() + b"x\xffy\n"
    assert [line for lines, _ in encoding.line_batches(data, encoding.sniff(data)) for line in lines] == [
        "äöü äöü",
        "x\\xffy",
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x89PNG\r\n\x1a\n1234", "a PNG image"),
        (b"%PDF-1.7 x", "a PDF document"),
        (b"PK\x03\x04xxxx", "a ZIP archive"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip"),
        (bytes(range(256)) * 4, "binary data"),
        (b"\x00" * 100, "binary data"),
    ],
)
def test_what_is_no_text_is_refused_by_name(data: bytes, told: str) -> None:
    with pytest.raises(UnreadableInput, match=told) as caught:
        encoding.sniff(data)
    assert caught.value.advice


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf", " \n".encode("utf-16")])
def test_nothing_is_refused(data: bytes) -> None:
    with pytest.raises(EmptyInput):
        encoding.sniff(data)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"a\rb\r", ["a", "b"]),
        (b"a\n\n\nb\n", ["a", "", "", "b"]),
        ("a\x0bb\u2028c\x1cd\ne".encode(), ["a\x0bb\u2028c\x1cd", "e"]),
    ],
)
def test_lines_are_those_of_an_editor(data: bytes, lines: list[str]) -> None:
    found = [line for batch, _ in encoding.line_batches(data, encoding.sniff(data)) for line in batch]
    assert found == lines


@given(st.lists(st.text(alphabet="aä€😀,", max_size=6), min_size=1, max_size=30), st.integers(1, 9))
def test_pieces_do_not_matter(lines: list[str], size: int) -> None:
    lines = [*lines, "end"]
    before, encoding.SLICE = encoding.SLICE, size
    try:
        for codec in ("utf-8", "utf-16"):
            data = "\r\n".join(lines).encode(codec)
            found: list[str] = []
            for batch, done in encoding.line_batches(data, encoding.Encoding(codec)):
                found.extend(batch)
                assert done <= len(data)
            assert found == lines
    finally:
        encoding.SLICE = before
