"""Where a change of Debezium stands in the log of the database it was captured from.

A position is a *lane* and a *place* in it; places in one lane are compared as texts. Changes come
in the order of their places, and those that come again come with the same place. What one cannot
compare has another lane.

- PostgreSQL: changes come by transaction, in the order of the commits. `sequence` has the place of
  the last commit before, and the change's own.
- MySQL and MariaDB: the log file, the place in it, the row of the event. With global transaction
  ids each server has a lane, and the number of the transaction comes first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NOT_SNAPSHOT = (None, "false", '"false"', "False", False)
_GTID = re.compile(r"([0-9a-fA-F-]{36}):(?:.*:)?(\d+)")
_NUMBER_AND_PLACE = re.compile(r"(\d+):\d+")
_MARIADB_GTID = re.compile(r"(\d+)-\d+-(\d+)")


@dataclass(frozen=True, slots=True)
class Position:
    """`branch` is which of several logs tells of the place; places that differ only behind their
    transaction and are of different branches can not be compared.
    """

    lane: str
    transaction: str
    branch: str
    place: str


def is_snapshot(source: Mapping[str, Any] | None, op: str | None) -> bool:
    """Whether the change is part of a first copy of the table."""
    return op == "r" or (source or {}).get("snapshot") not in _NOT_SNAPSHOT


def position(source: Mapping[str, Any] | None) -> Position | None:
    """The position that the `source` block tells; None if it tells none."""
    if source is None:
        return None
    match source.get("connector"):
        case "postgresql":
            return _postgresql(source)
        case "mysql" | "mariadb":
            return _mysql(source)
        case _:
            return None


def _postgresql(source: Mapping[str, Any]) -> Position | None:
    sequence = source.get("sequence")
    try:
        committed, own = json.loads(sequence or "")
        return Position("postgresql", _digits(committed or 0), "", _digits(own))
    except (TypeError, ValueError):  # it is of a version that does not tell
        return None


def _mysql(source: Mapping[str, Any]) -> Position | None:
    file, place, row = source.get("file"), source.get("pos"), source.get("row")
    if file is None or place is None:
        return None
    within = f"{_digits(place)}/{_digits(row or 0)}"
    gtid = source.get("gtid") or ""
    found = _GTID.fullmatch(gtid) or _MARIADB_GTID.fullmatch(gtid)
    if found is not None:
        return Position(f"gtid/{found[1].lower()}", _digits(found[2]), file, within)
    stem, _, number = file.rpartition(".")
    return Position(f"binlog/{stem}", _digits(number), "", within)


def _digits(number: Any) -> str:
    return f"{int(number):020d}"


def transaction_name(source: Mapping[str, Any] | None, identity: str | None) -> str | None:
    """What all changes of a transaction have in common, given the id that one of them has.

    That of PostgreSQL is the number of the transaction and the place of the change itself.
    """
    if identity is not None and (source or {}).get("connector") == "postgresql":
        return identity.partition(":")[0]
    return identity


def names_of_ended(identity: str) -> tuple[str, ...]:
    """What the changes of a transaction may have in common, given the id that it ended with."""
    found = _NUMBER_AND_PLACE.fullmatch(identity)
    return (identity,) if found is None else (identity, found[1])


def collection(source: Mapping[str, Any] | None) -> str | None:
    """The table, as the transaction topic names it."""
    if source is None or source.get("table") is None:
        return None
    parts = [source.get("db"), source.get("schema"), source["table"]]
    if source.get("connector") == "postgresql":
        parts = parts[1:]
    return ".".join(str(part) for part in parts if part is not None)
