"""Follow-up questions on a table that was analysed: understood by a small grammar, without any model."""

from hub.demo import answers, grammar
from hub.demo.clauses import NotUnderstood
from hub.demo.hints import examples, help_text
from hub.demo.render import blocks, escape
from hub.demo.selection import Answer
from hub.demo.steps import Steps
from hub.demo.table import Table

__all__ = ["Answer", "ask", "examples", "help_text"]


def ask(table: Table, question: str) -> Steps[Answer]:
    """The answer to `question`; if it is not understood, one that says what can be asked of this table."""
    try:
        query = grammar.understand(table, question)
        if query.action == "help":
            return Answer("What you can ask", help_text(table), None)
        return (yield from answers.answer(table, query))
    except NotUnderstood as reason:
        told = f"I did not understand “{escape(question, 100)}”. {escape(str(reason), 300)}"
        return Answer("Not understood", blocks(told, help_text(table)), None, understood=False)
