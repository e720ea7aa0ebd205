"""What a message wants: something analysed, a question answered, or a word of welcome."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hub.demo.source import Source, attached, is_file, pasted

_FENCE = re.compile(r"^\s*```[\w-]*[ \t]*\n(.*?)\n?```\s*$", re.DOTALL)
_LEAD = re.compile(
    r"(?:please\s+)?"
    r"(?:analy[sz]e|here(?:'s| is| are|)|look at|check|this is|these are|read|parse|summari[sz]e|data|log)"
    r"\b[^\n]{0,100}:\s*",
    re.IGNORECASE,
)
_FILE = re.compile(
    r"(?:please\s+|can you\s+|could you\s+)?(analy[sz]e|read|open|load|check|parse|inspect|look at)\s+"
    r"(?:the\s+)?(?:(?:log\s?)?file\s+)?[\"'`“]?([^\"'`“”\n]+?)[\"'`”]?\s*[.!?]?",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"(?:please\s+)?(?:again|retry|redo|start over|try again|continue|"
    r"(?:analy[sz]e|read|do|run|parse)\s+(?:it|this|that|the file|the data|everything|all)?\s*(?:again|once more|anew))"
    r"\s*(?:please)?[.!]?",
    re.IGNORECASE,
)
_HELLO = re.compile(
    r"(?:hi|hello|hey|hallo|moin|hola|yo|good (?:morning|afternoon|evening|day)|servus|greetings|"
    r"thanks?(?: you)?(?: very much| a lot)?|thx|danke|bye|ok(?:ay)?|cool|great|nice|who are you|what are you|"
    r"what can you do|how are you|test|ping)(?: there| all| everybody)?(?:[\s,!.?]+(?:how are you|there))?\s*[!.?]*",
    re.IGNORECASE,
)
_HELP = re.compile(r"(?:please\s+)?(?:help(?: me)?|\?+|/help|/start|usage)\s*[!.?]*", re.IGNORECASE)


@dataclass(frozen=True)
class Intent:
    """What is wanted. `more` are attachments that wait: one input is analysed at a time."""

    kind: Literal["analyse", "again", "ask", "hello", "help", "nothing"]
    source: Source | None = None
    question: str = ""
    more: int = 0


def read(text: str, attachments: Sequence[dict[str, Any]], files: Path | None, *, loaded: bool) -> Intent:
    """The intent of a message. `loaded`: there is data that questions can be about."""
    text = text.strip()
    if attachments:
        question = "" if _FILE.fullmatch(text) or _LEAD.fullmatch(text) or _HELLO.fullmatch(text) else text
        if "\n" in question:
            question = ""
        return Intent("analyse", attached(attachments[0]), question, more=len(attachments) - 1)
    if not text:
        return Intent("nothing")
    if _AGAIN.fullmatch(text):
        return Intent("again")
    for pattern, kind in ((_HELLO, "hello"), (_HELP, "help")):
        if pattern.fullmatch(text):
            return Intent("hello" if kind == "hello" else "help", question=text)
    if paste := _paste(text):
        return Intent("analyse", pasted(paste))
    line = " ".join(text.split())
    if found := _FILE.fullmatch(text):
        verb, name = found[1].lower(), found[2].strip()
        looks = re.search(r"[./\\]", name) is not None
        if is_file(name, files) or looks or (verb.startswith("analy") and not loaded):
            return Intent("analyse", Source("file", name, name))
        line = name if verb.startswith("analy") else line
    if re.fullmatch(r"[^\s\"'`]*\.\w{1,8}", text) and is_file(text, files):
        return Intent("analyse", Source("file", text, text))
    return Intent("ask", question=line)


def _paste(text: str) -> str:
    """The data in a message, "" if it is rather something said."""
    if fenced := _FENCE.match(text):
        return fenced[1]
    first, _, rest = text.partition("\n")
    if rest.strip() and _LEAD.fullmatch(first):
        return _paste(rest.strip("\n")) or rest
    if re.match(r'\s*(?:\{\s*"|\[\s*\{)', text):
        return text  # JSON, maybe on one line
    lines = [line for line in text.split("\n") if line.strip()]
    # Two short lines without anything that looks like data are something said.
    if len(lines) < 2 or (len(lines) < 3 and len(text) < 200 and not re.search(r"[\d,;\t|={\[]", text)):
        return ""
    return text
