"""The system relations: what a client learns of the database by asking it in SQL.

PostgreSQL's clients read pg_catalog and information_schema, Materialize's read mz_*. Here those
relations are tables of an in-process DuckDB, filled from a `CatalogImage` whenever its version
changes, and a client's query is bound against them as PostgreSQL would bind it: same names, same
types, same errors. Nothing here touches the engine or anything durable.
"""
