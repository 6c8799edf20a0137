"""RETAIN HISTORY: how long past contents of a relation stay readable; and other options beside it.

Without it that is a few seconds, so that reads always find a time that their inputs have in common.
With it, `AS OF` any time of that span is answered exactly. It costs the updates of the span, also
those of what a materialized view reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from waterclock.adapter.errors import Unsupported
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import Item
from waterclock.model.ids import GlobalId
from waterclock.sql import options
from waterclock.sql.ast.common import NameValue, Option, StringValue
from waterclock.sql.errors import InvalidParameter

RETAIN = "retain history"
_PAGES = re.compile(
    r"fillfactor|toast_tuple_target|parallel_workers|deduplicate_items|fastupdate|buffering"
    r"|(log_)?(auto)?vacuum_\w+"
)
"""Options of PostgreSQL's that say how it lays out its files; tools write them, we have no use."""


def retained_ms(given: tuple[Option, ...]) -> int | None:
    """How many milliseconds of history are asked for. Raises for options that mean nothing here."""
    for option in given:
        if option.name != RETAIN and not _PAGES.fullmatch(option.name):
            _require_usual(option)
    said = tuple(option for option in given if option.name == RETAIN)
    asked = options.by_name(said, (RETAIN,)).get(RETAIN)
    return None if asked is None else round(options.milliseconds(asked))


def _require_usual(option: Option) -> None:
    """Raise, unless it asks for what happens anyway."""
    match option:
        case Option("refresh on", NameValue(name)) if name.parts == ("commit",):
            return
        case Option(name) if name.startswith("refresh"):
            raise Unsupported(
                "REFRESH at other times than ON COMMIT is not supported",
                hint="A materialized view is always fresh, at the cost of what has changed.",
            )
        case Option(name) if name.startswith("assert not null"):
            raise Unsupported(
                "ASSERT NOT NULL is not supported",
                hint="Leave the rows out by WHERE ... IS NOT NULL, or replace nulls by COALESCE.",
            )
    raise InvalidParameter(
        f'unrecognized parameter "{option.name}"',
        option.position,
        hint="The option there is is RETAIN HISTORY FOR '1 hour'.",
    )


def retain_option(millis: int | None) -> tuple[Option, ...]:
    """What a statement says to ask for it."""
    if millis is None:
        return ()
    return (Option(RETAIN, StringValue(options.shown_duration(millis))),)


def kept_longer(
    catalog: Catalog, errors_of: Callable[[GlobalId], Iterable[GlobalId]], usual_ms: int
) -> dict[GlobalId, int]:
    """Collections whose history is kept for longer than usual: by how many milliseconds.

    Whoever reads one asks at the same time whether it has a value, so the errors of all that it is
    made from are kept as long as it is.
    """
    found: dict[GlobalId, int] = {}
    for item in catalog.items():
        asked = _asked(catalog, item)
        if asked is not None and asked > usual_ms:
            for each in (item.id, *item.collections, *errors_of(item.id)):
                found[each] = max(asked - usual_ms, found.get(each, 0))
    return found


def _asked(catalog: Catalog, item: Item) -> int | None:
    """What was asked of the item, or of what it is a part of."""
    if item.retain_ms is not None or item.part_of is None:
        return item.retain_ms
    return catalog.item(item.part_of).retain_ms
