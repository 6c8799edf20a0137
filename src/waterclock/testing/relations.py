"""Relations and a session for tests of the binder: given by hand, without a catalog."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.zones import zone_named
from waterclock.sql.binding import BoundColumn, BoundQuery, BoundRelation, SessionFacts, bind_query
from waterclock.sql.types import parse_type_name


class NoSuchRelation(WaterclockError):
    """The test did not declare that relation."""

    sqlstate: ClassVar[str] = "42P01"


class KnownRelations:
    """A resolver over relations declared as `{name: {column: type}}`, with ids `u1`, `u2`, ..."""

    def __init__(self, declared: Mapping[str, Mapping[str, str]]) -> None:
        self._known = {
            name: _relation(name, number, columns)
            for number, (name, columns) in enumerate(declared.items(), start=1)
        }

    def relation(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        del position
        found = self._known.get(parts[-1])
        if found is None or parts[:-1] not in ((), ("public",)):
            raise NoSuchRelation(f'relation "{".".join(parts)}" does not exist')
        return found

    def described(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        return self.relation(parts, position)

    def with_view(self, name: str, query: BoundQuery) -> None:
        """Add a view that is inlined."""
        oid = 30_000 + len(self._known)
        self._known[name] = BoundRelation(name, query.columns, query, oid)


def _relation(name: str, number: int, columns: Mapping[str, str]) -> BoundRelation:
    return BoundRelation(
        name,
        tuple(_column(column, declared) for column, declared in columns.items()),
        GlobalId.user(number),
        20_000 + number,
    )


def _column(name: str, declared: str) -> BoundColumn:
    kind, _, rest = declared.partition(" not null")
    assert not rest
    return BoundColumn(name, parse_type_name(kind), nullable=" not null" not in declared)


def session_facts(timezone: str = "UTC", **changed: Any) -> SessionFacts:
    """A session at a fixed time, whose constants are read as the server reads them."""

    def parse_text(text: str, declared: PgType) -> pa.Scalar:
        return decode_text(pa.array([text], pa.string()), declared, zone_named(timezone))[0]

    facts = SessionFacts(
        current_user="alice",
        session_user="bob",
        current_database="waterclock",
        search_path=("public",),
        timezone=timezone,
        now=datetime.datetime(2024, 5, 17, 10, 30, 0, 123456, datetime.UTC),
        mz_now=1_715_942_000_000,
        parse_text=parse_text,
    )
    return replace(facts, **changed)


def bound(text: str, relations: KnownRelations, **options: Any) -> BoundQuery:
    """The query, bound in the fixed session."""
    facts = options.pop("facts", None) or session_facts()
    return bind_query(text, 1, relations, facts=facts, **options)
