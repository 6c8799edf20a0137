"""Envelopes: what a message means for the contents of a collection."""
