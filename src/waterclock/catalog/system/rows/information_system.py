"""What stands in information_schema about the system's own relations, which no version changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.catalog.system.facts import FactRelation, Facts
from waterclock.catalog.system.image import Column
from waterclock.catalog.system.rows.information import InformationRows, yes_or_no
from waterclock.model.pg_types import PgType

Values = Mapping[str, Any]


def system_information(rows: InformationRows, facts: Facts) -> Mapping[str, Iterator[Values]]:
    """The rows, by the view's name."""
    return _SystemInformation(rows, facts).system_tables()


class _SystemInformation:
    def __init__(self, rows: InformationRows, facts: Facts) -> None:
        self._rows = rows
        self._facts = facts

    def system_tables(self) -> Mapping[str, Iterator[Values]]:
        """The rows about the system's own relations, which no version changes."""
        shown = [found for found in self._facts.relations if found.kind in "rv"]
        return {
            "table_constraints": self._system_constraints(),
            "key_column_usage": self._system_keys(place=True),
            "constraint_column_usage": self._system_keys(place=False),
            "check_constraints": self._system_checks(),
            "schemata": (
                {**self._rows.schema_row(row[1], self._rows.system_owner)}
                for row in self._facts.rows["pg_namespace"]
            ),
            "tables": (
                {
                    **self._rows.table(found.schema, found.name),
                    "table_type": "BASE TABLE" if found.kind == "r" else "VIEW",
                    "is_insertable_into": yes_or_no(found.kind == "r"),
                    "is_typed": "NO",
                }
                for found in shown
            ),
            "columns": (
                self._rows.column(
                    found.schema,
                    found.name,
                    number,
                    Column(column.name, PgType(column.type, column.modifier), not column.not_null),
                    updatable=found.kind == "r",
                    collation=column.collation,
                )
                for found in shown
                for number, column in enumerate(found.columns, start=1)
            ),
        }

    def _system_unique(self) -> Iterator[tuple[FactRelation, str, str, list[int]]]:
        """Relation, name, kind and columns of the system's keys."""
        relations = {found.oid: found for found in self._facts.relations}
        for row in self._facts.rows["pg_constraint"]:
            _, name, _, kind, *_ = row
            if row[7] and kind in "pu":
                yield relations[row[7]], name, kind, row[18]

    def _system_not_null(self) -> Iterator[tuple[FactRelation, str, str]]:
        """Relation, name and column of what the system's tables require."""
        schemas = {row[1]: row[0] for row in self._facts.rows["pg_namespace"]}
        for found in self._facts.relations:
            if found.kind == "r":
                for number, column in enumerate(found.columns, start=1):
                    if column.not_null:
                        name = f"{schemas[found.schema]}_{found.oid}_{number}_not_null"
                        yield found, name, column.name

    def _system_constraints(self) -> Iterator[Values]:
        kinds = {"p": "PRIMARY KEY", "u": "UNIQUE"}
        named = [(found, name, kinds[kind]) for found, name, kind, _ in self._system_unique()]
        named += [(found, name, "CHECK") for found, name, _ in self._system_not_null()]
        for found, name, kind in named:
            yield {
                **self._rows.table(found.schema, name, "constraint"),
                **self._rows.table(found.schema, found.name),
                "constraint_type": kind,
                "is_deferrable": "NO",
                "initially_deferred": "NO",
                "enforced": "YES",
                "nulls_distinct": "YES" if kind == "UNIQUE" else None,
            }

    def _system_keys(self, *, place: bool) -> Iterator[Values]:
        for found, name, _, columns in self._system_unique():
            for position, number in enumerate(columns, start=1):
                yield {
                    **self._rows.table(found.schema, name, "constraint"),
                    **self._rows.table(found.schema, found.name),
                    "column_name": found.columns[number - 1].name,
                    **({"ordinal_position": position} if place else {}),
                }

    def _system_checks(self) -> Iterator[Values]:
        for found, name, column in self._system_not_null():
            yield {
                **self._rows.table(found.schema, name, "constraint"),
                "check_clause": f"{column} IS NOT NULL",
            }
