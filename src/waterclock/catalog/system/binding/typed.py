"""A bound expression: DuckDB's text for it, and what PostgreSQL says of its type.

A bare string and NULL have the type `unknown` until something around them decides; so has a
parameter whose type was not given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from waterclock.catalog.system.binding.parsing import Parsed
from waterclock.catalog.system.errors import CatalogQueryError, UndefinedParameter
from waterclock.catalog.system.facts import Facts
from waterclock.catalog.system.types import TEXT, UNKNOWN, Types
from waterclock.model.pg_types import PgType


@dataclass(frozen=True, slots=True)
class Typed:
    sql: str
    type: PgType
    lower: int = 1
    """An array's first subscript: 0 for vectors and what was made of them."""
    literal: str | None = None
    """The text of a bare string."""
    parameter: int = 0
    fields: tuple[tuple[str, int], ...] = ()
    """The names and types of a record's fields."""
    many: bool = False
    """It gives a set of rows, not one value."""

    @property
    def oid(self) -> int:
        return self.type.oid

    @property
    def is_unknown(self) -> bool:
        return self.type.oid == UNKNOWN

    def with_sql(self, sql: str) -> Typed:
        """The same value, written differently."""
        return replace(self, sql=sql)


def typed(sql: str, oid: int, modifier: int = -1, *, lower: int = 1) -> Typed:
    return Typed(sql, PgType(oid, modifier), lower)


NULL = typed("NULL", UNKNOWN)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A name in the text that stands for an object's OID, to be looked up before the query runs."""

    parameter: str
    kind: int
    """The type, such as regclass."""
    name: str
    position: int | None


@dataclass(slots=True)
class Statement:
    """What is gathered while one query is bound."""

    parsed: Parsed
    facts: Facts
    types: Types
    versioned: frozenset[tuple[str, str]]
    """The relations whose rows change with the catalog's version."""
    path: tuple[str, ...]
    given: tuple[int, ...]
    restricted: bool = False
    """Whether information_schema is to show only what the role has a right to."""
    parameters: dict[int, int] = field(default_factory=dict)
    lookups: list[Lookup] = field(default_factory=list)
    relations: set[tuple[str, str]] = field(default_factory=set)
    """The relations that the query reads."""
    session: set[str] = field(default_factory=set)
    """Names of the values that the session fills in."""
    _aliases: int = 0

    def alias(self, letter: str = "t") -> str:
        """A name that is used nowhere else in the query."""
        self._aliases += 1
        return f"{letter}{self._aliases}"

    def position(self, node: exp.Expr | None) -> int | None:
        return None if node is None else self.parsed.position(node)

    def parameter(self, number: int, node: exp.Expr) -> Typed:
        if number < 1:
            raise UndefinedParameter(f"there is no parameter ${number}", self.position(node))
        given = self.given[number - 1] if number <= len(self.given) else 0
        if given not in (0, UNKNOWN):
            self.parameters[number] = given
        oid = self.parameters.setdefault(number, UNKNOWN)
        if oid == UNKNOWN:
            return Typed(f"$p{number}", PgType(UNKNOWN), parameter=number)
        return typed(f"CAST($p{number} AS {self.types.held_as(oid)})", oid)

    def decide(self, value: Typed, oid: int) -> Typed:
        """The parameter, now that its type is known."""
        if self.parameters[value.parameter] == UNKNOWN:
            self.parameters[value.parameter] = oid
        decided = self.parameters[value.parameter]
        return typed(f"CAST($p{value.parameter} AS {self.types.held_as(decided)})", decided)

    def parameter_types(self) -> tuple[int, ...]:
        """The types of all parameters; what nothing decided is text."""
        count = max(self.parsed.parameters, len(self.given))
        found = [self.parameters.get(number, 0) for number in range(1, count + 1)]
        return tuple(TEXT if oid in (0, UNKNOWN) else oid for oid in found)

    def fail(
        self,
        kind: type[CatalogQueryError],
        message: str,
        node: exp.Expr | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
    ) -> CatalogQueryError:
        return kind(message, self.position(node), detail=detail, hint=hint)

    def is_reserved(self, word: str) -> bool:
        return word.lower() in self.facts.reserved

    def session_value(self, name: str) -> str:
        self.session.add(name)
        return f"$s_{name}"


def quoted(text: str) -> str:
    """A string as DuckDB writes it."""
    return "'" + text.replace("'", "''") + "'"
