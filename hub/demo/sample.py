"""A made-up access log that is the same every time, for tests and for a first try of the demo agent."""

import random
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

BAD_EVERY = 1_000
"""One line of so many is broken."""

_PAGES = (
    ("/", 14), ("/products", 10), ("/products/{n}", 22), ("/cart", 7), ("/checkout", 4), ("/search", 9),
    ("/api/v1/items/{n}", 16), ("/api/v1/login", 5), ("/static/app.js", 8), ("/static/site.css", 8),
    ("/images/logo.svg", 6), ("/blog/how-to-pack", 3), ("/about", 2), ("/robots.txt", 1), ("/wp-login.php", 1),
)  # fmt: skip
_AGENTS = (
    ("Mozilla/5.0 (Windows)", 42), ("Mozilla/5.0 (iPhone)", 24), ("Mozilla/5.0 (Linux)", 18), ("curl/8.5.0", 6),
    ("ExampleBot/2.1", 10),
)  # fmt: skip
_REFERERS = (("-", 60), ("https://shop.example.com/", 30), ("https://search.example.net/", 10))
_HOURS = (2, 1, 1, 1, 1, 2, 3, 5, 7, 9, 10, 10, 9, 8, 9, 9, 8, 7, 7, 8, 9, 7, 5, 3)  # how busy each hour is
_BROKEN = (
    "10.0.0.1 - - [04/Mar/2024:09:1",
    "worker restarted, log continues below",
    '10.0.0.9 - - [99/Mar/2024:25:00:00 +0000] "GET / HTTP/1.1" 200 12 "-" "-"',
    '10.0.0.3 - - "GET /cart HTTP/1.1" 200',
)


def sample_lines(lines: int, *, seed: int = 7) -> Iterator[str]:
    """`lines` lines, without line ends, over one day (4 March 2024), busier by day than by night.

    One line of 1,000 is broken. From 14:20 to 15:10 most requests to `/api/` fail with a status of 500 or 503.
    """
    made = random.Random(seed)
    pages, agents, referers = _Choice(*_PAGES), _Choice(*_AGENTS), _Choice(*_REFERERS)
    visitors = [f"{made.choice((10, 172, 192))}.{made.randrange(256)}.{made.randrange(256)}.{made.randrange(1, 255)}"
                for _ in range(400)]  # fmt: skip
    for number in range(lines):
        if number % BAD_EVERY == BAD_EVERY - 1:
            yield _BROKEN[number // BAD_EVERY % len(_BROKEN)]
            continue
        second = _second(number / lines)
        page = pages.pick(made).replace("{n}", str(made.randrange(1, 400)))
        if page == "/search":
            page += f"?q={made.choice(('box', 'tape', 'rope', 'paper'))}&page={made.randrange(1, 5)}"
        method = "POST" if page.endswith(("login", "/checkout", ".php")) else "GET"
        burst = 51_600 <= second < 54_600 and page.startswith("/api/") and made.random() < 0.8
        status = made.choice((500, 503)) if burst else _status(made, page)
        size = "-" if status == 304 else str(made.randrange(180, 700) if status >= 400 else made.randrange(300, 48_000))
        at = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        host = visitors[min(int(made.expovariate(1 / 60)), len(visitors) - 1)]
        user = "maria" if made.random() < 0.01 else "-"
        yield (
            f'{host} - {user} [04/Mar/2024:{at} +0000] "{method} {page} HTTP/1.1" {status} {size} '
            f'"{referers.pick(made)}" "{agents.pick(made)}"'
        )


def _second(part: float) -> int:
    """The second of the day by which `part` of the requests have come."""
    left = part * sum(_HOURS)
    for hour, weight in enumerate(_HOURS):
        if left < weight:
            return int((hour + left / weight) * 3600)
        left -= weight
    return 86_399


class _Choice:
    """Texts that come as often as their weights say."""

    def __init__(self, *choices: tuple[str, int]) -> None:
        self._texts = [text for text, _ in choices]
        self._up_to = list(accumulate(weight for _, weight in choices))

    def pick(self, made: random.Random) -> str:
        return self._texts[bisect(self._up_to, made.random() * self._up_to[-1])]


def _status(made: random.Random, page: str) -> int:
    if page.endswith(".php"):
        return 404
    draw = made.random()
    if draw < 0.9:
        return 200
    if draw < 0.95:
        return 304
    if draw < 0.97:
        return 301
    return 404 if draw < 0.995 else 500


def write_sample(path: Path, lines: int = 100_000) -> None:
    """Write a sample log of `lines` lines to `path` (about 105 bytes a line); what was there is replaced."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in sample_lines(lines):
            file.write(line + "\n")
