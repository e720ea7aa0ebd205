"""Session Hub: a realtime session hub for AI agents."""

__version__ = "0.1.0"
