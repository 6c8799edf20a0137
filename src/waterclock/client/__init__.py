"""Waterclock in a Python program: inside it, over a directory, or as a client of a server."""

from waterclock.client.api import Changes, Connection, Result, Subscription
from waterclock.client.connecting import connect

__all__ = ["Changes", "Connection", "Result", "Subscription", "connect"]
