"""The record of all contexts: its port, its implementations in memory and in Redis, the embedded server."""
