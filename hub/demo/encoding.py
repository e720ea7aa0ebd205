"""From bytes to numbered lines of text: which encoding, is it text at all, and lines in batches."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hub.demo.errors import EmptyInput, UnreadableInput

SLICE = 128 * 1024
"""Bytes that are decoded at a time."""

_LOOK = 256 * 1024  # bytes that decide whether this is text
_CONTROLS = bytes(set(range(32)) - {7, 8, 9, 10, 11, 12, 13, 27}) + b"\x7f"
_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ", "compressed with xz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "a SQLite database"),
)
_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


@dataclass(frozen=True)
class Encoding:
    """How to turn the bytes into lines: codec name, what to do with bytes that do not fit, and the line end."""

    codec: str
    errors: str = "strict"
    newline: str = "\n"

    @property
    def label(self) -> str:
        """The name to show: UTF-8, UTF-16, Latin-1 ..."""
        names = {"utf-8-sig": "UTF-8", "latin-1": "Latin-1", "cp1252": "Windows-1252"}
        label = names.get(self.codec, self.codec.upper())
        return f"{label} with some damaged bytes" if self.errors == "backslashreplace" else label


def sniff(data: bytes) -> Encoding:
    """The encoding of `data`.

    Raises `EmptyInput` if there is nothing but white space, `UnreadableInput` if it is no text.
    """
    if not data.strip():
        raise EmptyInput("There is nothing in it.", "Send a file or a text with at least one line.")
    codec, errors = _codec(data)
    head = data[:_LOOK].decode(codec, "replace")
    if not head.strip():
        raise EmptyInput("There is nothing but white space in it.", "Send a file or a text with at least one line.")
    newline = "\r" if "\n" not in head and "\r" in head.rstrip("\r") else "\n"
    return Encoding(codec, errors, newline)


def _codec(data: bytes) -> tuple[str, str]:
    for bom, codec in _BOMS:
        if data.startswith(bom):
            return codec, "replace"
    for magic, what in _MAGIC:
        if data.startswith(magic):
            advice = (
                "Unpack it first, then send the text in it."
                if "compressed" in what or "archive" in what
                else ("Send a text file: a log, CSV, JSON lines or plain text.")
            )
            raise UnreadableInput(f"This is {what}, not text.", advice)
    head = data[:_LOOK]
    if wide := _wide(head):
        return wide, "replace"
    if len(head) - len(head.translate(None, _CONTROLS)) > max(3, len(head) * 0.02):
        raise UnreadableInput(
            "This looks like binary data, not text.", "Send a text file: a log, CSV, JSON lines or plain text."
        )
    try:
        codecs.utf_8_decode(data, "strict", True)
    except UnicodeDecodeError:
        return _eight_bits(data)
    return "utf-8", "strict"


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: in mostly western text every other byte is zero."""
    even, odd = head[0::2], head[1::2]
    if odd.count(0) > len(odd) * 0.4 and even.count(0) < len(even) * 0.1:
        return "utf-16-le"
    if even.count(0) > len(even) * 0.4 and odd.count(0) < len(odd) * 0.1:
        return "utf-16-be"
    return None


def _eight_bits(data: bytes) -> tuple[str, str]:
    """Not clean UTF-8: either UTF-8 with a few damaged places, or an encoding with a byte a character."""
    good = len(data.decode("utf-8", "ignore").encode("ascii", "ignore"))
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    if len(text) - good - damaged > damaged:
        return "utf-8", "backslashreplace"
    # Windows text has its quotes, dashes and the euro sign where Latin-1 has control characters.
    windows = any(data.find(byte) >= 0 for byte in (b"\x80", b"\x84", b"\x91", b"\x92", b"\x93", b"\x94", b"\x96"))
    return ("cp1252", "replace") if windows else ("latin-1", "strict")


def line_batches(data: bytes, encoding: Encoding) -> Iterator[tuple[list[str], int]]:
    """The lines of `data` without their ends, in batches, each with the number of bytes read so far.

    Only the line end of the file separates lines (not the other characters that `str.splitlines` knows), so that line
    numbers are those of an editor. An empty last line is left out.
    """
    decoder = codecs.getincrementaldecoder(encoding.codec)(encoding.errors)
    begun: list[str] = []  # the pieces of a line whose end has not come yet
    for start in range(0, len(data), SLICE):
        stop = min(start + SLICE, len(data))
        lines = decoder.decode(data[start:stop], stop == len(data)).split(encoding.newline)
        if len(lines) > 1:
            begun.append(lines[0])
            lines[0] = "".join(begun)
            begun = [lines.pop()]
            yield [line[:-1] if line.endswith("\r") else line for line in lines], stop
        else:
            begun.append(lines[0])
            yield [], stop
    if last := "".join(begun):
        yield [last.removesuffix("\r")], len(data)


def first_lines(data: bytes, encoding: Encoding, limit: int) -> list[str]:
    """Up to `limit` lines from the beginning that are not blank."""
    head = data[: 4 * SLICE]
    found: list[str] = []
    for lines, _ in line_batches(head, replace(encoding, errors="replace")):
        found.extend(line for line in lines if line.strip())
        if len(found) > limit:
            break
    else:
        if len(head) < len(data) and len(found) > 1:
            found.pop()  # cut off by our own look at the beginning only
    return found[:limit]
