"""Judges a history in a file. Keys that begin with `name:` belong to the source of that name."""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.testing.serial.checker import check
from waterclock.testing.serial.history import History, Key, keys_of, load
from waterclock.testing.serial.order import Violation

TABLES = "table"


def groups_of(history: History) -> list[frozenset[Key]]:
    """The keys of each source, with those of the tables."""
    keys = keys_of(history)
    tables = frozenset(key for key in keys if key.partition(":")[0] == TABLES)
    sources = sorted({key.partition(":")[0] for key in keys - tables})
    found = [frozenset(k for k in keys if k.partition(":")[0] == s) | tables for s in sources]
    return found or [tables]


def main() -> None:
    history = load(Path(sys.argv[1]))
    groups = groups_of(history)
    try:
        verdicts = check(history, groups)
    except Violation as violation:
        print(violation)
        sys.exit(1)
    for keys, strict, loose in zip(groups, verdicts[::2], verdicts[1::2], strict=True):
        print(f"{', '.join(sorted({key.partition(':')[0] for key in keys}))}")
        for what, verdict in (("strictly serializable", strict), ("serializable", loose)):
            print(f"  {what}: " + "; ".join(verdict.lines()))


if __name__ == "__main__":
    main()
