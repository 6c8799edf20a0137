"""Keeps Waterclock's tables equal to PostgreSQL's.

After a statement that has written, every table that PostgreSQL has and Waterclock has not is made
there with the same columns, and rows that differ are replaced. So a refused statement, or a wrong
one, does not change the answers to the queries after it. What is not in PostgreSQL is dropped.

A view that Waterclock refused is copied as a table too. A relation with a column of a type that
Waterclock does not have can not be copied; queries that name it are refused. Tables in PostgreSQL's
temporary schema are looked for first in a query, so they take the place of others of their name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from psycopg import pq

from waterclock.testing.script_files.sessions import Session
from waterclock.testing.script_files.variants import undone
from waterclock.testing.script_files.verdicts import rows_difference

_WRITES = """
SELECT pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id_if_assigned()
"""
_RELATIONS = """
SELECT CASE WHEN n.oid = pg_my_temp_schema() THEN 'public' ELSE n.nspname END, c.relname,
  format('%I.%I', n.nspname, c.relname), c.relkind,
  c.relkind = 'r' AND NOT (c.relhasrules OR c.relhastriggers OR c.relhassubclass)
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid)
    AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
    AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisunique)
    AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0
                    AND (attidentity <> '' OR attgenerated <> '')),
  EXISTS (SELECT FROM pg_attrdef WHERE adrelid = c.oid),
  (SELECT string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod),
                            CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END), ', '
                     ORDER BY attnum)
   FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (n.nspname NOT LIKE 'pg\\_temp\\_%' OR n.oid = pg_my_temp_schema())
ORDER BY n.oid = pg_my_temp_schema(), c.oid
"""
_OURS = """
SELECT n.nspname, c.relname, c.relkind
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'mz_catalog', 'mz_internal')
"""
Key = tuple[str, str]
"""Schema and name."""
_KINDS = {"v": "VIEW", "m": "MATERIALIZED VIEW", "r": "TABLE"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that Waterclock's tables did not have in common with PostgreSQL's."""

    name: str
    text: str
    is_stand_in: bool
    """Whether it was to be expected, since the relation is a copy of something else."""


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation of PostgreSQL."""

    key: Key
    full: str
    kind: str
    is_plain: bool
    """Whether nothing but its columns and defaults decides what a change does to it."""
    has_defaults: bool
    columns: str

    @property
    def ours(self) -> str:
        return _quoted(self.key)


@dataclass(slots=True)
class Mirror:
    """Copies from one session to the other."""

    theirs: Session
    ours: Session
    impossible: dict[Key, str] = field(default_factory=dict)
    """Why a relation can not be copied."""
    copies: int = 0
    """How often rows were copied."""
    _copied: set[Key] = field(default_factory=set)
    """Tables that were made here, and not by a statement of the script."""
    _held: dict[Key, bytes] = field(default_factory=dict)
    """A fingerprint of the rows that Waterclock is known to hold."""
    _held_in_block: set[Key] = field(default_factory=set)
    """Those of them that Waterclock forgets if its block is rolled back."""
    _columns: dict[Key, str] = field(default_factory=dict)
    """The columns of PostgreSQL's relation when Waterclock's was made."""
    _relations: dict[Key, _Relation] = field(default_factory=dict)
    _writes: tuple[bytes | None, ...] = ()

    def has_written(self) -> bool:
        """Whether PostgreSQL's tables may have changed since this was asked, or in this block."""
        if not self._can_read():
            return False
        before, rows = self._writes, self.theirs.run(_WRITES).rows
        self._writes = rows[0] if rows else ()
        return self._writes != before or (bool(rows) and rows[0][1] is not None)

    def forget(self) -> None:
        """Nothing is known any more of what Waterclock's tables hold."""
        self._held.clear()

    def forget_block(self) -> None:
        """What Waterclock's block has written is gone."""
        for key in self._held_in_block:
            self._held.pop(key, None)
        self._held_in_block.clear()

    def keep_block(self) -> None:
        """What Waterclock's block has written is there for good, if there was one."""
        self._held_in_block.clear()

    def names(self) -> frozenset[str]:
        """The relations that there are."""
        return frozenset(name for _, name in self._relations)

    def are_plain(self, names: Iterable[str]) -> bool:
        """Whether a change does to the relations of these names what it says, and no more."""
        asked = set(names)
        return all(
            each.is_plain and not (each.has_defaults and each.key in self._copied)
            for each in self._relations.values()
            if each.key[1] in asked
        )

    def uncopied(self, names: Iterable[str]) -> str | None:
        """Why one of the relations of these names could not be copied."""
        asked = set(names)
        return next((why for key, why in self.impossible.items() if key[1] in asked), None)

    def differences(self, suspects: Iterable[str] = (), *, repair: bool = True) -> list[Difference]:
        """What differs between the tables, which is then repaired.

        Relations of the names in `suspects` are compared even if PostgreSQL's have not changed. To
        repair, our session must not be in a transaction block.
        """
        relations = self._read_relations() if self._can_read() else None
        if relations is None:
            return []
        self._relations = relations
        self._forget_dropped()
        present = self._ours()
        found = [*self._others(present, repair)]
        asked, prints = set(suspects), self._fingerprints(list(relations.values()))
        for key, relation in relations.items():
            if key in self.impossible and self._columns.get(key) == relation.columns:
                continue
            kind = present.get(key)
            if kind in ("v", "m"):
                continue  # it computes its rows by itself
            if kind is None:
                found.append(Difference(key[1], f"{key[1]} is not there", False))
                if not repair:
                    continue
                self._create(relation)
            elif self._columns.get(key) != relation.columns:
                text = self._columns_difference(relation)
                if text is not None:
                    found.append(Difference(key[1], text, False))
                    if not repair:
                        continue
                    self._drop(key, kind)
                    self._create(relation)
                self._columns[key] = relation.columns
            if key[1] in asked or self._held.get(key) != prints.get(key):
                found += self._compared_rows(relation, repair)
                self._hold(key, prints.get(key, b""))
        return found

    def _hold(self, key: Key, fingerprint: bytes) -> None:
        self._held[key] = fingerprint
        if self.ours.block != pq.TransactionStatus.IDLE:
            self._held_in_block.add(key)

    # PostgreSQL's side

    def _can_read(self) -> bool:
        block = self.theirs.block
        return block in (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)

    def _read_relations(self) -> dict[Key, _Relation] | None:
        answer = self.theirs.run(_RELATIONS)
        if answer.sqlstate is not None:
            return None
        relations = {}
        for row in answer.rows:
            schema, name, full, kind, plain, defaults, columns = map(_text, row)
            key = (schema, name)
            relations[key] = _Relation(key, full, kind, plain == "t", defaults == "t", columns)
        return relations

    def _fingerprints(self, relations: list[_Relation]) -> dict[Key, bytes]:
        """A number for the rows of each relation that can be read."""
        texts = [
            "SELECT count(*) || ':' || coalesce(sum(hashtextextended(whole::text, 0)), 0)"
            f" FROM {relation.full} AS whole"
            for relation in relations
        ]
        if not relations:
            return {}
        with undone(self.theirs):
            together = self.theirs.run(" UNION ALL ".join(texts))
        if together.sqlstate is None:
            rows = zip(relations, together.rows, strict=True)
            return {relation.key: row[0] or b"" for relation, row in rows}
        prints = {}
        for relation, text in zip(relations, texts, strict=True):
            with undone(self.theirs):
                answer = self.theirs.run(text)
            if answer.sqlstate is None:
                prints[relation.key] = answer.rows[0][0] or b""
        return prints

    # Waterclock's side

    def _ours(self) -> dict[Key, str]:
        rows = self.ours.run(_OURS).rows
        return {(_text(row[0]), _text(row[1])): _text(row[2]) for row in rows}

    def _forget_dropped(self) -> None:
        for key in [key for key in self._columns if key not in self._relations]:
            del self._columns[key]
            self._held.pop(key, None)
            self.impossible.pop(key, None)

    def _others(self, present: dict[Key, str], repair: bool) -> Iterator[Difference]:
        for key, kind in present.items():
            if key in self._relations:
                continue
            text = f"{key[1]} is there, and not in PostgreSQL"
            yield Difference(key[1], text, key in self._copied)
            if repair:
                self._drop(key, kind)

    def _drop(self, key: Key, kind: str) -> None:
        self.ours.run(f"DROP {_KINDS[kind]} IF EXISTS {_quoted(key)} CASCADE")
        self._copied.discard(key)
        self._held.pop(key, None)

    def _create(self, relation: _Relation) -> None:
        key = relation.key
        if key[0] != "public":
            self.ours.run(f'CREATE SCHEMA IF NOT EXISTS "{key[0]}"')
        made = self.ours.run(f"CREATE TABLE {relation.ours} ({relation.columns})")
        self._columns[key] = relation.columns
        self._copied.add(key)
        self._held.pop(key, None)
        self.impossible.pop(key, None)
        if made.sqlstate is not None:
            self.impossible[key] = f"{key[1]}: {made.message}"

    def _columns_difference(self, relation: _Relation) -> str | None:
        schema, name = (part.replace("'", "''") for part in relation.key)
        answer = self.ours.run(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull"
            " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = '{schema}' AND c.relname = '{name}' AND a.attnum > 0"
            " ORDER BY a.attnum"
        )
        columns = ", ".join(
            f"{_text(row[0])} {_text(row[1])}{' NOT NULL' if row[2] == b't' else ''}"
            for row in answer.rows
        )
        if columns.replace('"', "") == relation.columns.replace('"', ""):
            return None
        return f"{relation.key[1]} has columns {columns}, not {relation.columns}"

    def _compared_rows(self, relation: _Relation, repair: bool) -> Iterator[Difference]:
        """What differs in the rows, which are then replaced."""
        key = relation.key
        if key in self.impossible:
            return
        with undone(self.theirs):
            wanted = self.theirs.run(f"COPY (SELECT * FROM {relation.full}) TO STDOUT")
        if wanted.sqlstate is not None:
            if relation.kind != "r":
                self._give_up(key, wanted.message)
            return
        found = self.ours.run(f"COPY (SELECT * FROM {relation.ours}) TO STDOUT")
        difference = rows_difference(found.rows, wanted.rows)
        if found.sqlstate is not None:
            difference = found.message
        if difference is None:
            return
        is_view = relation.kind not in ("r", "p")
        yield Difference(key[1], f"{key[1]}: {difference}", is_view or not relation.is_plain)
        if not repair:
            return
        self.copies += 1
        if found.sqlstate is not None or found.rows:
            self.ours.run(f"DELETE FROM {relation.ours}")
        data = b"".join(row[0] or b"" for row in wanted.rows)
        filled = self.ours.run(f"COPY {relation.ours} FROM STDIN", lambda: data)
        if filled.sqlstate is not None:
            self._give_up(key, filled.message)

    def _give_up(self, key: Key, why: str) -> None:
        self.impossible[key] = f"{key[1]}: {why}"
        if self.ours.block == pq.TransactionStatus.IDLE:
            self._drop(key, "r")


def _quoted(key: Key) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in key)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
