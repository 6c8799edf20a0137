"""Queries: from text to a tree of what was written.

`tree` has the nodes, `expressions`, `calls` and `queries` the grammar, which is that of PostgreSQL
15 with its precedences. What names and types mean is not decided here; see `sql.binding`.
"""

from waterclock.sql.query.queries import parse_expression, parse_query

__all__ = ["parse_expression", "parse_query"]
