"""From a query's text to DuckDB's, with PostgreSQL's names, types and errors.

`parsing` gives the tree; `queries`, `sources` and `expressions` bind it, each name to a column of
`scope`, each call to one of `functions`; `coercion` converts. What comes out is text in which all
names are ours and every type is known.
"""
