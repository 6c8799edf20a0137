"""Formats: what the bytes of a message say, as columns."""
