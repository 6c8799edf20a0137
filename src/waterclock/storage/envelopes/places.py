"""Where many changes of Debezium stand, column by column.

This is `positions` for a whole batch. The changes of PostgreSQL, whose `source` blocks all have one
form, are taken apart by Arrow at once; a batch in which any has another form goes row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.storage.envelopes.positions import (
    collection,
    is_snapshot,
    position,
    transaction_name,
)

_SEQUENCE = r'^\[(?P<committed>null|"[0-9]{1,19}"), ?"(?P<own>[0-9]{1,19})"\]$'
_PLACES = r'"|null'
_CALM = pa.array(["false", '"false"', "False"])
_DIGITS = 20
_TOLD = ("connector", "sequence", "schema", "table")
_NAMES = ("lane", "transaction", "branch", "place", "name", "table")


@dataclass(frozen=True, slots=True)
class Places:
    """For each change its position, null where it has none (`positions.Position`); what the
    changes of its transaction have in common; its table; and whether it is part of a first copy.
    """

    lane: pa.Array
    transaction: pa.Array
    branch: pa.Array
    place: pa.Array
    name: pa.Array
    table: pa.Array
    snapshot: pa.Array


def places(sources: pa.Array, ops: pa.Array, transactions: pa.Array) -> Places:
    """Of changes with these `source` blocks, kinds, and ids of transactions."""
    found = _try_postgresql(sources, ops, transactions)
    return found or _one_by_one(sources.to_pylist(), ops.to_pylist(), transactions.to_pylist())


def _try_postgresql(sources: pa.Array, ops: pa.Array, transactions: pa.Array) -> Places | None:
    """The same, if all are PostgreSQL's and tell everything."""
    if sources.null_count or not pa.types.is_struct(sources.type) or not len(sources):
        return None
    parts = {field.name: sources.field(i) for i, field in enumerate(sources.type)}
    if not {*_TOLD, "snapshot"} <= parts.keys() or any(parts[n].null_count for n in _TOLD):
        return None
    connector, sequence, schema, table = (parts[name] for name in _TOLD)
    taken = pc.extract_regex(sequence, _SEQUENCE)
    if taken.null_count or connector.unique().to_pylist() != ["postgresql"]:
        return None
    committed, own = taken.field("committed"), taken.field("own")
    committed = pc.replace_substring_regex(committed, _PLACES, "")
    calm = pc.or_(parts["snapshot"].is_null(), pc.is_in(parts["snapshot"], _CALM))
    return Places(
        connector,
        pc.utf8_lpad(committed, _DIGITS, "0"),
        pa.repeat(pa.scalar(""), len(sources)),
        pc.utf8_lpad(own, _DIGITS, "0"),
        pc.replace_substring_regex(transactions, "(?s):.*", ""),
        pc.binary_join_element_wise(schema, table, "."),
        pc.or_(pc.fill_null(pc.equal(ops, "r"), False), pc.invert(calm)),
    )


def _one_by_one(sources: Sequence[Any], ops: Sequence[Any], transactions: Sequence[Any]) -> Places:
    columns: dict[str, list[Any]] = {name: [] for name in _NAMES}
    for source, transaction in zip(sources, transactions, strict=True):
        at = position(source)
        row = (None,) * 4 if at is None else (at.lane, at.transaction, at.branch, at.place)
        told = (*row, transaction_name(source, transaction), collection(source))
        for name, value in zip(_NAMES, told, strict=True):
            columns[name].append(value)
    snapshot = [is_snapshot(s, op) for s, op in zip(sources, ops, strict=True)]
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return Places(**texts, snapshot=pa.array(snapshot, pa.bool_()))
