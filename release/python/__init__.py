"""Turnstone's program repl, for Python's package managers. It has no API."""
