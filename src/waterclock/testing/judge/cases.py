"""A case: tables with rows, queries over them, and what happens to the rows afterwards."""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.testing.judge.choices import Choices
from waterclock.testing.judge.expressions import Column, Constants, Expressions
from waterclock.testing.judge.queries import Queries, Relation
from waterclock.testing.judge.values import (
    COLUMN_TYPES,
    COMMON_TYPES,
    base,
    declared_as,
    literal,
    value_of,
)

_VIEW = re.compile(r"\bm\d+\b(?= as t)")
_ROW_COUNTS = (3, 0, 1, 5, 9)


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def created(self) -> str:
        columns = ", ".join(f"{name} {declared_as(kind)}" for name, kind in self.columns)
        return f"create table {self.name} ({columns})"

    @property
    def relation(self) -> Relation:
        return Relation(self.name, tuple((name, base(kind)) for name, kind in self.columns))


@dataclass(frozen=True, slots=True)
class Query:
    """A query, with its constants written out and as parameters."""

    sql: str
    prepared: str
    parameters: tuple[str | None, ...]
    is_ordered: bool
    columns: tuple[Column, ...]

    @property
    def views(self) -> set[str]:
        """The views of earlier queries that it may read."""
        return set(_VIEW.findall(self.sql))


@dataclass(frozen=True, slots=True)
class Step:
    """Changes that become visible together; none of them if they are rolled back."""

    statements: tuple[str, ...]
    is_block: bool
    is_rolled_back: bool

    @property
    def all(self) -> tuple[str, ...]:
        if not self.is_block:
            return self.statements
        return ("begin", *self.statements, "rollback" if self.is_rolled_back else "commit")


@dataclass(frozen=True, slots=True)
class Case:
    tables: tuple[Table, ...]
    rows: tuple[str, ...]
    """Statements that fill the tables."""
    queries: tuple[Query, ...]
    history: tuple[Step, ...]
    reads_between: bool
    """Whether the views are read after each step, and not only in the end."""

    @property
    def statements(self) -> list[str]:
        """All that is sent as text, with the queries as they are in views."""
        queries = [text for query in self.queries for text in (query.sql, query.prepared)]
        return [*self.rows, *queries, *(each for step in self.history for each in step.all)]


def drawn_case(choices: Choices) -> Case:
    """The case that follows from the decisions."""
    extremes = choices.happens(25)
    tables = tuple(_table(choices, n) for n in range(choices.between(1, 3)))
    rows = tuple(
        statement
        for table in tables
        for statement in _insertion(choices, table, choices.pick(_ROW_COUNTS), extremes=extremes)
    )
    relations = [table.relation for table in tables]
    queries = []
    for number in range(choices.between(1, 4)):
        query = _query(choices, relations)
        queries.append(query)
        relations.append(Relation(f"m{number}", query.columns))
    history = tuple(_step(choices, tables, extremes=extremes) for _ in range(choices.below(6)))
    return Case(tables, rows, tuple(queries), history, choices.happens(70))


def _table(choices: Choices, number: int) -> Table:
    kinds = ["int4"]  # there is something to join by
    kinds += [
        choices.pick(COMMON_TYPES if choices.happens(60) else COLUMN_TYPES)
        for _ in range(choices.between(1, 4))
    ]
    letters = "kvwxyz"
    return Table(f"t{number}", tuple(zip(letters, kinds, strict=False)))


def _query(choices: Choices, relations: list[Relation]) -> Query:
    constants = Constants()
    start = choices.below(len(relations))
    known = [*relations[start:], *relations[:start]]
    sql, is_ordered, columns = Queries(choices, constants, known).top()
    prepared, parameters = constants.as_parameters(sql)
    return Query(constants.as_literals(sql), prepared, tuple(parameters), is_ordered, columns)


def _row(choices: Choices, table: Table, *, extremes: bool) -> str:
    values = (
        literal(value_of(choices, kind, extremes=extremes), kind) for _, kind in table.columns
    )
    return f"({', '.join(values)})"


def _insertion(choices: Choices, table: Table, count: int, *, extremes: bool) -> list[str]:
    if not count:
        return []
    rows = [_row(choices, table, extremes=extremes) for _ in range(count)]
    return [f"insert into {table.name} values {', '.join(rows)}"]


def _step(choices: Choices, tables: tuple[Table, ...], *, extremes: bool) -> Step:
    statements = []
    for _ in range(choices.pick((1, 1, 2, 4))):
        statements += _change(choices, choices.pick(tables), extremes=extremes)
    is_block = len(statements) > 1 or choices.happens(20)
    return Step(tuple(statements), is_block, is_block and choices.happens(15))


def _change(choices: Choices, table: Table, *, extremes: bool) -> list[str]:
    draw = choices.below(8)
    if draw <= 3:
        return _insertion(choices, table, choices.between(1, 3), extremes=extremes)
    condition = _condition(choices, table)
    if draw <= 5:
        return [f"delete from {table.name}{condition}"]
    if draw == 6:
        return [f"delete from {table.name}"]
    name, kind = choices.pick(table.columns)
    value = literal(value_of(choices, kind, extremes=extremes), kind)
    return [f"update {table.name} set {name} = {value}{condition}"]


def _condition(choices: Choices, table: Table) -> str:
    constants = Constants()
    drawing = Expressions(choices, constants, table.relation.columns)
    return constants.as_literals(f" where {drawing.comparison(1)}")
