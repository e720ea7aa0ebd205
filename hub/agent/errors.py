"""Errors that only agent authors meet; the others are in ``hub.core.errors``, and all have one root, HubError."""

from __future__ import annotations

from hub.core.errors import HubError


class RunStopped(HubError):
    """Somebody asked the run to stop, or it has ended already. Raised by checkpoints; let it pass."""

    code = "run_stopped"


class NoAnswer(HubError):
    """Nobody answered a question in time, or it was taken back."""

    code = "no_answer"


class Unconfirmed(HubError):
    """Writes that the hub had not confirmed when the process let go of them. ``details["writes"]`` says how many."""

    code = "unconfirmed"
