"""What goes into the binder and what comes out of it.

The binder is given the text of a query and a `Resolver` that knows relations; it gives back the
same query as Spark SQL, with the names and types that PostgreSQL would have shown. In that SQL a
collection is named by its id, and nothing else is named that Spark could look up.

Invariant: whoever gets a `BoundQuery` can run its `sql` in a session with our settings (see
`compute.spark`); its columns come in the order of `columns` and hold values of their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column of a relation or of a result.

    `table_oid` and `column_number` say which column of which relation it shows, unchanged; 0 if it
    is computed. `is_declared` tells that the modifier of its type was written for it, and does not
    only follow from how it is computed.
    """

    name: str
    type: PgType
    nullable: bool = True
    table_oid: int = 0
    column_number: int = 0
    is_declared: bool = False


@dataclass(frozen=True, slots=True)
class BoundRelation:
    """What a name in FROM means: a collection, or a view that is inlined."""

    name: str
    columns: tuple[BoundColumn, ...]
    source: GlobalId | BoundQuery
    oid: int


class Resolver(Protocol):
    """Knows relations by name."""

    def relation(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        """The relation of that name, whose parts are folded already; raises if there is none."""

    def described(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        """The same, of which only columns and number are asked for: the query does not read it."""


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """A parameter whose value is not known yet, to be held in an Arrow type."""

    number: int
    held: pa.DataType


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on one column: `=`, `<`, `<=`, `>`, `>=`, `in`, `is null` or `is not null`.

    `values` are Python values that the column's Arrow type takes, never null; one of them except
    for `in`, and none for the last two. In a query that was bound without the values of its
    parameters, a `ParameterPlace` stands for each.
    """

    column: str
    operator: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """A query that only picks rows of one collection.

    `columns` are those shown, in their order, by the names they have in the collection; with
    `count_star` the one row is the number of rows picked. `order` has (column, descending,
    nulls first), tie breakers included.
    """

    source: GlobalId
    columns: tuple[str, ...]
    count_star: bool = False
    conditions: tuple[Comparison, ...] = ()
    order: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class BoundPart:
    """A relation that a query reads and that is computed first, of columns `c1`, `c2` and so on.

    It may read collections, and parts before it. One whose rows are known has no SQL.
    """

    id: GlobalId
    sql: str
    types: tuple[PgType, ...]
    rows: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query as the engine takes it.

    `is_ordered` tells whether the order of the rows is part of the result. `limit` and `offset`
    are those of the outermost query, where they are constants. `row` has the values of a query
    whose only row is made of constants, as in `SELECT 1`: such a query needs no engine. `order` has
    (place of the column, descending, nulls first), as far as the rows are sorted by columns shown.
    `whole_results` are the types, as messages name them, of whole numbers that are computed.
    """

    sql: str
    columns: tuple[BoundColumn, ...]
    reads: tuple[GlobalId, ...] = ()
    parameters: tuple[PgType, ...] = ()
    is_ordered: bool = False
    uses_now: bool = False
    uses_mz_now: bool = False
    nondeterministic: tuple[str, ...] = ()
    limit: int | None = None
    offset: int | None = None
    simple: SimpleQuery | None = None
    row: tuple[pa.Scalar, ...] | None = None
    order: tuple[tuple[int, bool, bool | None], ...] = ()
    locks: bool = False
    """Whether it asks that nothing of what it reads is changed while its transaction lasts."""
    whole_results: tuple[str, ...] = ()
    parts: tuple[BoundPart, ...] = ()
    """What it reads besides, each computed once, in this order. Empty for what is maintained."""


@dataclass(frozen=True, slots=True)
class BoundExpression:
    """An expression over columns that are in scope.

    In `sql` a column is its name in backticks. `is_unknown` tells that it is a string constant that
    has not been given a type, so that it may become any.
    """

    sql: str
    type: PgType
    nullable: bool = True
    is_unknown: bool = False
    parameters: tuple[PgType, ...] = ()
    uses_now: bool = False
    uses_mz_now: bool = False
    nondeterministic: tuple[str, ...] = ()


class Context(Enum):
    """How willing a conversion is: the same as PostgreSQL's castcontext."""

    IMPLICIT = 1
    ASSIGNMENT = 2
    EXPLICIT = 3
