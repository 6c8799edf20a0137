"""Parts of a query that are read several times: queries of WITH, and views.

Such a part is bound once, and stands in the SQL as a name, however often it is read. When all is
bound, each part is either written out where its name stands, as the engine would do by itself, or
it stays a relation of its own, which is computed once before what reads it. Which of the two
follows from how large the query would become: sixty queries that read the one before twice would
be 2^60 copies of the first. One that is read once is always written out.

What is maintained can not have relations of its own yet: if it would be too large, it is refused.

Invariant: texts grow with the statement, never with the number of copies that a plan would have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType
from waterclock.sql.binding.api import BoundPart, BoundQuery
from waterclock.sql.budget import LimitExceeded, Meter
from waterclock.sql.dialect.types import is_array, is_unconstrained, name_of, spark_type

_FIRST_ID = 2**61
"""Parts have ids that no collection will ever have."""
_WRITTEN_OUT = 300
"""A query of at most so many nodes is written out as a whole."""
_PART_NODES = 50
"""In a larger one, a part of more nodes than this that is read again is a relation of its own."""
_COPIES_MAINTAINED = 4
"""Maintained queries get a quarter of the node budget: they are planned several times."""
_PART_DEPTH = 50
"""Nor are more parts than this written out inside one another: the engine would refuse them."""
_QUOTED_OR_PART = re.compile(r"'(?:[^'\\]|\\.)*+'|\(`s(\d{19,})`\)", re.DOTALL)
"""A string, where a name does not count, or the name of a part."""


@dataclass(frozen=True, slots=True)
class _Part:
    sql: str
    types: tuple[PgType, ...]
    nodes: int
    """Queries and relations in it, without those of other parts that it reads."""
    is_once: bool = False
    """Whether it may be different each time it is computed."""
    rows: pa.Table | None = None
    """What it is, if that is known: then it is never written out."""


class Parts:
    """The parts of one statement, in the order in which they were bound."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self.nodes = 0
        """Of all parts."""

    def add(self, sql: str, types: Sequence[PgType], nodes: int, *, is_once: bool = False) -> str:
        """The SQL that stands for the part, to be put in brackets."""
        self._parts.append(_Part(sql, tuple(types), nodes, is_once))
        self.nodes += nodes
        return f"`{_id(len(self._parts) - 1)}`"

    def add_rows(self, rows: pa.Table, types: Sequence[PgType]) -> str:
        """The SQL that stands for constant rows, to be put in brackets."""
        self._parts.append(_Part("", tuple(types), 0, rows=rows))
        return f"`{_id(len(self._parts) - 1)}`"

    def assembled(self, bound: BoundQuery, maintained: bool, meter: Meter) -> BoundQuery:
        """The query with its parts written out, or beside it. `sql` is that of the statement."""
        if not self._parts:
            return bound
        own = meter.nodes - self.nodes
        read = [_read_by(part.sql) for part in self._parts]
        read_last = _read_by(bound.sql)
        counts = self._counts(read, read_last)
        sizes = self._sizes(read, frozenset())
        size = own + sum(sizes[place] for place in read_last)
        kept = frozenset(
            place
            for place, part in enumerate(self._parts)
            if part.rows is not None or (part.is_once and counts[place] > 1 and not maintained)
        )
        if maintained:
            if size > meter.budget.plan_nodes // _COPIES_MAINTAINED:
                raise _too_large(size)
        elif size > _WRITTEN_OUT or len(self._parts) > _PART_DEPTH:
            kept = self._divided(read, counts, kept)
        return self._written(bound, kept, counts, meter)

    def _counts(self, read: list[list[int]], read_last: list[int]) -> list[int]:
        """How often each part is named by what is computed at all."""
        counts = [0] * len(self._parts)
        for place in read_last:
            counts[place] += 1
        for place in reversed(range(len(self._parts))):
            if counts[place]:
                for each in read[place]:
                    counts[each] += 1
        return counts

    def _sizes(self, read: list[list[int]], kept: frozenset[int]) -> list[int]:
        """The nodes of each part, where it is written out."""
        sizes: list[int] = []
        for place, part in enumerate(self._parts):
            inner = sum(sizes[each] for each in read[place])
            sizes.append(1 if place in kept else part.nodes + inner)
        return sizes

    def _divided(
        self, read: list[list[int]], counts: list[int], kept: frozenset[int]
    ) -> frozenset[int]:
        """The parts that are relations of their own, so that nothing becomes large or deep."""
        sizes: list[int] = []
        depths: list[int] = []
        found = set(kept)
        for place, part in enumerate(self._parts):
            size = part.nodes + sum(sizes[each] for each in read[place])
            depth = 1 + max((depths[each] for each in read[place]), default=0)
            if (size > _PART_NODES and counts[place] > 1) or depth > _PART_DEPTH:
                found.add(place)
            sizes.append(1 if place in found else size)
            depths.append(0 if place in found else depth)
        return frozenset(found)

    def _written(
        self, bound: BoundQuery, kept: frozenset[int], counts: list[int], meter: Meter
    ) -> BoundQuery:
        texts: list[str] = []
        beside: list[BoundPart] = []
        for place, part in enumerate(self._parts):
            if not counts[place]:
                texts.append("")
                continue
            if part.rows is not None:
                texts.append("")
                beside.append(BoundPart(_id(place), "", part.types, part.rows))
                continue
            text = _filled(part.sql, texts, kept)
            meter.count(1 + len(text) // 1000)
            meter.check_translation(len(text))
            texts.append(text)
            if place in kept:
                beside.append(BoundPart(_id(place), _as_held(text, part.types), part.types))
        text = _filled(bound.sql, texts, kept)
        meter.check_translation(len(text))
        return replace(bound, sql=text, parts=tuple(beside))


def _id(place: int) -> GlobalId:
    return GlobalId.system(_FIRST_ID + place)


def _read_by(sql: str) -> list[int]:
    """The parts that an SQL text names, each as often as it does."""
    found = (match[1] for match in _QUOTED_OR_PART.finditer(sql))
    return [int(number) - _FIRST_ID for number in found if number is not None]


def _filled(sql: str, texts: Sequence[str], kept: frozenset[int]) -> str:
    """The SQL with the texts of parts in the places of their names."""

    def filled(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        place = int(match[1]) - _FIRST_ID
        return match[0] if place in kept else f"({texts[place]})"

    return _QUOTED_OR_PART.sub(filled, sql)


def _as_held(sql: str, types: Sequence[PgType]) -> str:
    """The query with columns that Arrow can hold: any part of a value may be null."""
    names = [f"c{number + 1}" for number in range(len(types))]
    shown = [
        f"CAST(m.{name} AS {spark_type(each)}) AS {name}"
        if is_array(each) or name_of(each) == "interval" or is_unconstrained(each)
        else f"m.{name}"
        for name, each in zip(names, types, strict=True)
    ]
    return f"SELECT {', '.join(shown) or '1'} FROM ({sql}) AS m({', '.join(names)})"


def _too_large(size: int) -> LimitExceeded:
    return LimitExceeded(
        "query is too complex to be maintained",
        detail=f"With views and queries of WITH written out, it reads {min(size, 10**9)} relations"
        + (" or more." if size > 10**9 else "."),
        hint="Make a materialized view of what is read several times, or start the server with a"
        " larger max_plan_nodes.",
    )
