"""Judges every answer by PostgreSQL: random schemas, queries and histories over the wire.

A *case* is a few tables with rows, some queries over them, and a history of changes. Each query is
run in every form in which a user can ask it: as text, prepared with parameters, through a view,
and as a maintained view that is read after each change. PostgreSQL is given the same statements,
and its rows, types, column names and SQLSTATEs are right.

Both systems are real servers, spoken to by the same driver. Nothing here imports the SQL front or
the engine, so the two sides share no code. What may differ is a list of named rules with reasons
(`rules`), and the use of each is counted.

A case follows from a list of decisions (`choices`), which is made shorter while a difference stays,
so that what is reported is small. `python -m waterclock.testing.judge` runs it.
"""
