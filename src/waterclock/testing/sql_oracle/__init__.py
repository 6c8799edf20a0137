"""The table of functions beside a real PostgreSQL: every entry, on generated arguments.

`arguments` has values of each type, `calls` makes calls of the entries, `engine` and `oracle` run
them on either side, and `comparing` says what differs. `python -m waterclock.testing.sql_oracle`
runs all of it.
"""
