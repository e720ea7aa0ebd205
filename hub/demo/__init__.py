"""The demo agent: it analyses logs, tables and texts step by step and answers questions about them, without a model."""
