"""The text of SQL: from characters to statements, and back to text.

`lexer` makes tokens by PostgreSQL's rules, `parser` makes of them one of the statements in `ast`,
`types` reads the names of types, `quoting` and `printing` write. Queries and expressions inside a
statement are cut out as text with their position: `query` makes trees of them, and `binding` finds
out what they mean and writes them as Spark SQL, with the entries of `functions` and what `dialect`
knows of values and types.

Nothing here knows a catalog, a session or an engine. Import from the submodules; this module
exports nothing.
"""
