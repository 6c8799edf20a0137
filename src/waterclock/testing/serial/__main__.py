"""Judges a history in a file. Keys are named as in `keys`."""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.testing.serial.checker import check
from waterclock.testing.serial.history import load
from waterclock.testing.serial.keys import orders_of, sources_of
from waterclock.testing.serial.order import Violation


def main() -> None:
    history = load(Path(sys.argv[1]))
    try:
        verdicts = check(history, orders_of(history), sources_of(history))
    except Violation as violation:
        print(violation)
        sys.exit(1)
    for verdict in verdicts:
        print("\n".join(verdict.lines()))


if __name__ == "__main__":
    main()
