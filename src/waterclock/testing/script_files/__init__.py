"""Replays psql scripts on PostgreSQL and on Waterclock, and compares every answer.

A script is a file for psql: statements, backslash commands and data of COPY (`psql_script`). Each
statement is run on both servers (`sessions`), and PostgreSQL is right (`verdicts`). What Waterclock
refuses to create or to change is copied from PostgreSQL afterwards (`mirror`), so that one refusal
does not hide all that follows it (`replay`).

Nothing here imports the SQL front or the engine, so the two sides share no code.
`python -m waterclock.testing.script_files` runs it and writes a report (`report`).
"""
