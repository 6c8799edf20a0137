"""From a query in PostgreSQL's dialect to Spark SQL that means the same.

`bind_query` looks names up, finds types, chooses functions, and writes the query out; `api` has
what goes in and comes out. `bind_expression` and `coerce` do the same for expressions over given
columns, `bind_values` for constant rows that need no engine.
"""

from waterclock.sql.binding.api import (
    BoundColumn,
    BoundExpression,
    BoundQuery,
    BoundRelation,
    Comparison,
    Context,
    ParameterPlace,
    Resolver,
    SimpleQuery,
)
from waterclock.sql.binding.binder import bind_expression, bind_query, coerce
from waterclock.sql.binding.rows import bind_values, literal_value
from waterclock.sql.binding.simple import filled, integer_within
from waterclock.sql.dialect.facts import SessionFacts, TextParser

__all__ = [
    "BoundColumn",
    "BoundExpression",
    "BoundQuery",
    "BoundRelation",
    "Comparison",
    "Context",
    "ParameterPlace",
    "Resolver",
    "SessionFacts",
    "SimpleQuery",
    "TextParser",
    "bind_expression",
    "bind_query",
    "bind_values",
    "coerce",
    "filled",
    "integer_within",
    "literal_value",
]
