"""What statements are made of: names, pieces of text, options.

Positions count characters from 1 in the whole text that was parsed. They say where a mistake would
be shown and are no part of what a node means: two nodes that differ in them only are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class Identifier:
    """One name, folded or as it was in quotes."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """A name as it was written, with the parts in front of it that were given."""

    parts: tuple[str, ...]
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query inside a statement, exactly as it was written."""

    text: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ExpressionText:
    """An expression inside a statement, exactly as it was written."""

    text: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression to order or look up by. `nulls_first` is None if nothing was said."""

    expression: ExpressionText
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """The word DEFAULT where a value may stand."""

    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class StringValue:
    value: str


@dataclass(frozen=True, slots=True)
class NumberValue:
    """A number as it was written, with its sign."""

    text: str


@dataclass(frozen=True, slots=True)
class NameValue:
    """A word or a name, such as `true`, `csv` or `a.b`."""

    name: ObjectName


@dataclass(frozen=True, slots=True)
class SecretValue:
    """`SECRET name`: the value is that of a secret."""

    name: ObjectName


@dataclass(frozen=True, slots=True)
class ListValue:
    """`(a, b, ...)` or `[a, b, ...]`."""

    items: tuple[OptionValue, ...]


OptionValue = StringValue | NumberValue | NameValue | SecretValue | ListValue | ExpressionText


@dataclass(frozen=True, slots=True)
class Option:
    """One entry of an options list. The name is in lower case, its words one blank apart.

    `value` is None where only a name stands. What is none of the simple forms is kept as text.
    """

    name: str
    value: OptionValue | None
    position: int = field(default=0, compare=False)


class ObjectKind(Enum):
    """What a name can be the name of; the value is how statements say it."""

    DATABASE = "DATABASE"
    SCHEMA = "SCHEMA"
    TABLE = "TABLE"
    VIEW = "VIEW"
    MATERIALIZED_VIEW = "MATERIALIZED VIEW"
    INDEX = "INDEX"
    SOURCE = "SOURCE"
    SINK = "SINK"
    CONNECTION = "CONNECTION"
    SECRET = "SECRET"
    ROLE = "ROLE"
    CLUSTER = "CLUSTER"
