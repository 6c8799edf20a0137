"""Webhook sources: rows that others POST to the server."""
