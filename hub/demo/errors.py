"""What can be wrong with the input, told in words that a user can act on.

DemoError                the root: `str(error)` says what is wrong, `error.advice` what to do about it
├── UnreadableInput      the bytes are no text: an image, an archive, a program ...
├── EmptyInput           nothing to analyse
├── TooLarge             more than `MAX_BYTES`
└── SourceGone           the file or the upload is not there (any more), or may not be read
"""

MAX_BYTES = 20 * 1024 * 1024
"""The largest input that is analysed, in bytes."""


class DemoError(Exception):
    """The input cannot be analysed; `advice` says what the user can do."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class UnreadableInput(DemoError):
    """The bytes are no text."""


class EmptyInput(DemoError):
    """There is nothing in it."""


class TooLarge(DemoError):
    """It is larger than `MAX_BYTES`."""


class SourceGone(DemoError):
    """The file or upload cannot be had."""
