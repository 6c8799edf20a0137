"""Waterclock: a streaming SQL database whose answers are exact at a named time."""
