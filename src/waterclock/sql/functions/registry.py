"""What is known of a function: its entry in the table.

A name may have several entries, one for each list of argument types. PostgreSQL's rules choose
between them (`binding.overloads`), the arguments are converted to what the entry says, and its
template is filled in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from waterclock.model.manner import Manner
from waterclock.model.pg_types import PgType
from waterclock.sql.dialect.facts import SessionFacts


class Kind(Enum):
    SCALAR = "function"
    AGGREGATE = "aggregate"
    WINDOW = "window function"
    SET = "set-returning function"


class Stability(Enum):
    """What the result depends on besides the arguments."""

    IMMUTABLE = "nothing"
    SESSION = "the session"
    CLOCK = "the time of the transaction"
    VOLATILE = "chance"
    MOMENT = "the time of the call"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as a template sees it; `text` is its value if it is a constant string."""

    sql: str
    type: PgType
    text: str | None = None
    is_constant: bool = False
    value: Any = None
    """The value of a constant that is not null, as Python has it."""
    is_null: bool = False
    """Whether it is null whatever the rows, or a parameter whose value is still to come."""


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a function."""

    arguments: tuple[Argument, ...]
    result: PgType
    facts: SessionFacts
    at: int
    is_distinct: bool = False
    """Whether an aggregate is one of distinct values."""

    @property
    def zone(self) -> str:
        return self.facts.timezone

    @property
    def manner(self) -> Manner:
        """How values are written as text."""
        return self.facts.manner


class Refused(Exception):
    """The function can not do what this call asks of it; the text says what that is."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class Invalid(Exception):
    """An argument is wrong whatever the data."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message


D = "\x01d"
"""Where DISTINCT goes in what a rule of an aggregate gives; no SQL has this character."""
F = "\x01f"
"""Where FILTER or OVER go."""

_LONG = 300

ResultRule: TypeAlias = Callable[[tuple[Argument, ...]], PgType]
SqlRule: TypeAlias = Callable[[Use], str]


@dataclass(frozen=True, slots=True)
class Function:
    """One entry: what it is called with, and what it is in Spark SQL.

    In a template `{0}`, `{1}` are the arguments and `{all}` is all of them with commas between.
    That of an aggregate has `{d}` where DISTINCT may stand, and `{f}` behind every call of one of
    Spark's aggregates, where FILTER or OVER go; a rule puts `D` and `F` there. With `is_variadic`
    the last argument may come any number of times, at least once.
    """

    name: str
    arguments: tuple[PgType, ...]
    result: PgType | ResultRule
    sql: str | SqlRule
    doc: str
    kind: Kind = Kind.SCALAR
    is_variadic: bool = False
    stability: Stability = Stability.IMMUTABLE
    never_null: bool = False
    columns: tuple[tuple[str, PgType], ...] = field(default=())
    """For one that gives several columns: their names and types; () for the function's own name."""

    def written(self, use: Use) -> str:
        """The call in Spark SQL."""
        if not isinstance(self.sql, str):
            return self.sql(use)
        texts = [each.sql for each in use.arguments]
        if self.kind is Kind.SCALAR and self._repeats(texts):
            return self._once(texts)
        return self.sql.format(*texts, all=", ".join(texts), d=D, f=F)

    def _repeats(self, texts: list[str]) -> bool:
        """Whether a long argument would be written more than once.

        Each call inside another one would then make the text several times as long.
        """
        assert isinstance(self.sql, str)
        return any(
            len(text) > _LONG and self.sql.count(f"{{{place}}}") > 1
            for place, text in enumerate(texts)
        )

    def _once(self, texts: list[str]) -> str:
        """The template over the fields of a struct, which hold the arguments."""
        assert isinstance(self.sql, str)
        fields = ", ".join(f"'a{place}', {text}" for place, text in enumerate(texts))
        names = [f"once.a{place}" for place in range(len(texts))]
        body = self.sql.format(*names, all=", ".join(names), d=D, f=F)
        return f"ELEMENT_AT(TRANSFORM(ARRAY(NAMED_STRUCT({fields})), once -> {body}), 1)"


def scalar(
    name: str,
    arguments: tuple[PgType, ...],
    result: PgType | ResultRule,
    sql: str | SqlRule,
    doc: str,
    *,
    is_variadic: bool = False,
    stability: Stability = Stability.IMMUTABLE,
    never_null: bool = False,
) -> Function:
    """An ordinary function."""
    return Function(
        name,
        arguments,
        result,
        sql,
        doc,
        Kind.SCALAR,
        is_variadic,
        stability,
        never_null,
    )


def aggregate(
    name: str,
    arguments: tuple[PgType, ...],
    result: PgType | ResultRule,
    sql: str | SqlRule,
    doc: str,
    *,
    never_null: bool = False,
) -> Function:
    """A function of all rows of a group."""
    return Function(name, arguments, result, sql, doc, Kind.AGGREGATE, never_null=never_null)


def window(
    name: str,
    arguments: tuple[PgType, ...],
    result: PgType | ResultRule,
    sql: str | SqlRule,
    doc: str,
    *,
    never_null: bool = False,
) -> Function:
    """A function of a row among others; its template has `{f}` where OVER goes."""
    return Function(name, arguments, result, sql, doc, Kind.WINDOW, never_null=never_null)


def rows(
    name: str,
    arguments: tuple[PgType, ...],
    result: PgType | ResultRule,
    sql: str | SqlRule,
    doc: str,
    *,
    is_variadic: bool = False,
    columns: tuple[tuple[str, PgType], ...] = (),
) -> Function:
    """A function that gives rows: its SQL is an array of them, of structs if several columns."""
    return Function(
        name, arguments, result, sql, doc, Kind.SET, is_variadic=is_variadic, columns=columns
    )


def same_type(arguments: tuple[Argument, ...]) -> PgType:
    """The result rule of a function that keeps the type, and the digits, of its first argument."""
    return arguments[0].type
