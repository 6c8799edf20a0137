"""Random queries over random data: bound and run by the engine, and run by PostgreSQL.

`data` draws tables, `expressions` and `queries` draw SQL, `runner` compares. A seed decides all of
it. `python -m waterclock.testing.sql_fuzz` goes on for as long as it is told to.
"""
