"""Comparisons of rows.

Two rows that are made of values are compared value by value, so that a null makes the whole
unknown. If one is the row of a relation, they are compared as PostgreSQL compares records: nulls
are equal to each other and greater than everything else, and the fields must be of the same types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from waterclock.model.pg_types import BOOL
from waterclock.sql.binding import constants
from waterclock.sql.binding.errors import DatatypeMismatch
from waterclock.sql.binding.typed import Role, Typed, missing_sql, operand
from waterclock.sql.dialect.types import shown
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.functions.comparisons import SIGNS
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.predicates import Predicates

_Pairs = list[tuple[Typed, Typed]]


class RowComparisons:
    """Binds conditions of which an operand is a row."""

    def __init__(self, predicates: Predicates) -> None:
        self._predicates = predicates

    def compared(self, operator: str, left: Typed, right: Typed, at: int) -> Typed:
        if operator not in SIGNS:
            raise FeatureNotSupported.of(f"the operator {operator} on rows", at)
        for side in (left, right):
            if side.known is not None and side.known.is_null:
                return constants.null_of(BOOL, at)
            if side.role is not Role.ROW:
                raise FeatureNotSupported.of("a comparison of a row with something else", at)
        if not _are_made(left, right):
            return self._as_records(operator, left, right, at)
        pairs = _values(left, right, at)
        if operator not in ("=", "<>"):
            return self._in_order(operator, pairs, at)
        equal = [self._predicates.compared("=", one, other, at) for one, other in pairs]
        sql = _all(each.sql for each in equal)
        if operator == "<>":
            sql = f"(NOT {sql})"
        return Typed(sql, BOOL, at, tuple(equal))

    def _in_order(self, operator: str, pairs: _Pairs, at: int) -> Typed:
        """The first pair that differs decides; one with a null makes the whole unknown."""
        strict = operator[0]
        *others, last = pairs
        found = self._predicates.compared(operator, *last, at)
        parts = [found]
        sql = found.sql
        for one, other in reversed(others):
            less = self._predicates.compared(strict, one, other, at)
            equal = self._predicates.compared("=", one, other, at)
            parts += [less, equal]
            sql = f"(CASE WHEN {equal.sql} THEN {sql} ELSE {less.sql} END)"
        return Typed(operand(sql), BOOL, at, tuple(parts))

    # Records

    def _as_records(self, operator: str, left: Typed, right: Typed, at: int) -> Typed:
        pairs = _alike(left, right, at)
        if operator in ("=", "<>"):
            sql = self._same_fields(pairs, at)
            if operator == "<>":
                sql = f"(NOT {sql})"
        else:
            sql = self._records_in_order(operator, pairs, at)
        missing = [found for side in (left, right) if (found := missing_sql(side)) is not None]
        if missing:
            sql = f"(CASE WHEN NOT ({' OR '.join(missing)}) THEN {sql} END)"
        return Typed(operand(sql), BOOL, at, (*left.parts, *right.parts), nullable=bool(missing))

    def _same_fields(self, pairs: _Pairs, at: int) -> str:
        return _all(f"({self._predicates.same(*pair, at)[2]})" for pair in pairs)

    def _records_in_order(self, operator: str, pairs: _Pairs, at: int) -> str:
        """The first pair that differs decides, and a null is greater than a value."""
        strict = operator[0]
        first_null, second_null = ("FALSE", "TRUE") if strict == "<" else ("TRUE", "FALSE")
        sql = "FALSE" if operator == strict else "TRUE"
        for one, other in reversed(pairs):
            less = self._predicates.compared(strict, one, other, at).sql
            same = self._predicates.same(one, other, at)[2]
            sql = (
                f"(CASE WHEN {same} THEN {sql} WHEN {one.sql} IS NULL THEN {first_null}"
                f" WHEN {other.sql} IS NULL THEN {second_null} ELSE {less} END)"
            )
        return sql

    # IS

    def distinct(self, left: Typed, right: Typed, node: tree.Distinct) -> Typed:
        if Role.ROW not in (left.role, right.role) or left.role is not right.role:
            raise FeatureNotSupported.of("IS DISTINCT FROM of a row and something else", node.at)
        is_made = _are_made(left, right)
        pairs = _values(left, right, node.at) if is_made else _alike(left, right, node.at)
        same = self._same_fields(pairs, node.at)
        missing = [missing_sql(side) or "FALSE" for side in (left, right)]
        if missing != ["FALSE", "FALSE"]:
            either, both = " OR ".join(missing), " AND ".join(missing)
            same = f"(CASE WHEN {either} THEN {both} ELSE {same} END)"
        sql = same if node.negated else f"(NOT {same})"
        return Typed(sql, BOOL, node.at, (*left.parts, *right.parts), nullable=False)

    def is_null(self, row: Typed, node: tree.Is) -> Typed:
        """All fields are null, or none of them is; also where there is no row."""
        if node.test is not tree.Test.NULL:
            raise DatatypeMismatch(
                f"argument of IS {node.test.value} must be type boolean, not type record", node.at
            )
        items = [self._predicates.settled(each) for each in row.parts]
        words = "IS NOT NULL" if node.negated else "IS NULL"
        sql = _all(f"{each.sql} {words}" for each in items)
        return Typed(sql, BOOL, node.at, tuple(items), nullable=False)


def _are_made(left: Typed, right: Typed) -> bool:
    return all(each.composite is not None and each.composite.is_made for each in (left, right))


def _all(conditions: Iterable[str]) -> str:
    return f"({' AND '.join(conditions) or 'TRUE'})"


def _values(left: Typed, right: Typed, at: int) -> _Pairs:
    if len(left.parts) != len(right.parts):
        raise SyntaxFault("unequal number of entries in row expressions", at)
    if not left.parts:
        raise FeatureNotSupported.of("a comparison of rows without fields", at)
    return list(zip(left.parts, right.parts, strict=True))


def _alike(left: Typed, right: Typed, at: int) -> _Pairs:
    """The fields of two records, which must be of the same types."""
    if len(left.parts) != len(right.parts):
        what = "cannot compare record types with different numbers of columns"
        raise DatatypeMismatch(what, at)
    pairs = list(zip(left.parts, right.parts, strict=True))
    for place, (one, other) in enumerate(pairs, start=1):
        if one.type.oid != other.type.oid:
            kinds = f"{shown(one.type)} and {shown(other.type)}"
            what = f"cannot compare dissimilar column types {kinds} at record column {place}"
            raise DatatypeMismatch(what, at)
    return pairs
