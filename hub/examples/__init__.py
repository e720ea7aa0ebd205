"""Agents to begin with, one of each style; see README.md beside this."""
