"""Reclocking onto the shared timeline: pure values and functions, no I/O, no clock."""
