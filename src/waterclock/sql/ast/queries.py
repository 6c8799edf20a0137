"""Statements that read: queries, subscriptions, and what explains them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ObjectKind,
    ObjectName,
    Option,
    QueryText,
    SortKey,
)

if TYPE_CHECKING:
    from waterclock.sql.ast import Statement


@dataclass(frozen=True, slots=True)
class AsOf:
    """`AS OF time`, or `AS OF AT LEAST time`: the time to read at."""

    time: ExpressionText
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT, VALUES, TABLE or WITH. `query` has no AS OF any more."""

    query: QueryText
    as_of: AsOf | Literal[Moment.UPSTREAM] | None = None


class Moment(Enum):
    """A time that is known only when the statement begins."""

    EARLIEST = "EARLIEST"
    """The first time at which everything that is read can be read."""
    LATEST = "LATEST"
    """The time at which a SELECT would read now; it is the last one that is shown."""
    UPSTREAM = "UPSTREAM"
    """A time at which all that is upstream of the sources now is here: that of a recent read."""


class SubscribeForm(Enum):
    """How changes are shown."""

    DIFFS = "DIFFS"
    UPSERT = "UPSERT"
    DEBEZIUM = "DEBEZIUM"


@dataclass(frozen=True, slots=True)
class SubscribeEnvelope:
    """The form, and the key for the forms that have one."""

    form: SubscribeForm
    key: tuple[Identifier, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE [TO] relation, or (query). `order_by` is that of WITHIN TIMESTAMP."""

    target: ObjectName | QueryText
    options: tuple[Option, ...] = ()
    as_of: AsOf | Literal[Moment.EARLIEST] | None = None
    up_to: ExpressionText | Literal[Moment.LATEST] | None = None
    envelope: SubscribeEnvelope = field(default=SubscribeEnvelope(SubscribeForm.DIFFS))
    order_by: tuple[SortKey, ...] = ()


class ExplainStage(Enum):
    """What is explained. QUERY is PostgreSQL's own EXPLAIN, without a word for it."""

    QUERY = "QUERY"
    PLAN = "PLAN"
    RAW_PLAN = "RAW PLAN"
    OPTIMIZED_PLAN = "OPTIMIZED PLAN"
    PHYSICAL_PLAN = "PHYSICAL PLAN"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class ExplainObject:
    """An object whose plan is wanted: a view, a materialized view or an index."""

    kind: ObjectKind
    name: ObjectName


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN. ANALYZE and VERBOSE are options; `form` is the one asked for, text or json."""

    stage: ExplainStage
    target: Statement | ExplainObject
    options: tuple[Option, ...] = ()
    form: str = "text"
