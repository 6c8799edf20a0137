"""Immutable objects under string keys; see `api.Blob` for the contract."""
