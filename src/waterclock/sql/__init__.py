"""The text of SQL: from characters to statements, and back to text.

`lexer` makes tokens by PostgreSQL's rules, `parser` makes of them one of the statements in `ast`,
`types` reads the names of types, `quoting` and `printing` write. Queries and expressions inside a
statement are cut out as text with their position: what they mean is not decided here.

Nothing here knows a catalog, a session or an engine. Import from the submodules; this module
exports nothing.
"""
