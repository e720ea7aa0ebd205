"""Requests and events as they go over the wire, and how they are encoded."""
