"""A short tour of the storage layer, for whoever has just installed Waterclock.

It writes to a directory of its own, kills nothing, needs no Spark, and leaves nothing behind.
"""

from __future__ import annotations

import decimal
import tempfile
from pathlib import Path
from typing import TextIO

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Decimal, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.rows import updates
from waterclock.storage.api import Description, Progress, ReadCapability, Updates, Write
from waterclock.storage.controller import Storage

_ACCOUNTS = Schema((Column("account", Int(64), nullable=False), Column("owner", Text())))
_TRANSFERS = Schema((Column("id", Int(64), nullable=False), Column("amount", Decimal(12, 2))))


def run(out: TextIO) -> None:
    """Print the tour."""
    with tempfile.TemporaryDirectory(prefix="waterclock-demo-") as folder:
        path = Path(folder)
        print("Waterclock keeps collections that change over time. A short tour:\n", file=out)
        accounts = _write(path, out)
        _read_again(path, accounts, out)
    print("\nThe server and SQL are built on this; see ARCHITECTURE.md for the map.", file=out)


def _write(path: Path, out: TextIO) -> ReadCapability:
    with Storage.open_directory(path) as storage:
        accounts_read, accounts = storage.create(GlobalId.user(1), Description(_ACCOUNTS))
        _, transfers = storage.create(GlobalId.user(2), Description(_TRANSFERS))
        print("1. Two collections, changed together at one time in one durable step.", file=out)
        opened = updates(_ACCOUNTS, [((1, "ada"), 100, 1), ((2, "bob"), 100, 1)])
        paid = updates(_TRANSFERS, [((1, decimal.Decimal("12.50")), 100, 1)])
        accounts, transfers = storage.append(
            Write(accounts, opened, EPOCH_MILLIS.frontier(101)),
            Write(transfers, paid, EPOCH_MILLIS.frontier(101)),
        )
        print("2. At time 200, bob becomes robert: one retraction, one insertion.", file=out)
        renamed = updates(_ACCOUNTS, [((2, "bob"), 200, -1), ((2, "robert"), 200, 1)])
        storage.append(Write(accounts, renamed, EPOCH_MILLIS.frontier(201)))
    return accounts_read


def _read_again(path: Path, accounts: ReadCapability, out: TextIO) -> None:
    with Storage.open_directory(path) as storage:
        print("3. After a restart, the accounts as of time 150:", file=out)
        subscription = storage.subscribe_at(accounts, as_of=EPOCH_MILLIS.frontier(150))
        for message in subscription:
            match message:
                case Updates(batch):
                    for update in batch.to_pylist():
                        print(f"     {update}", file=out)
                case Progress(upper):
                    print(f"   and then every change, complete up to {upper}.", file=out)
                    break
        subscription.close()
