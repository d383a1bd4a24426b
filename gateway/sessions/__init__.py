"""The HTTP API of sessions."""
