"""What is wrong with data, told to whoever reads it: in which relation it is, and what can be done.

An error stands in a collection beside the view or the source that has it. One that reads a view is
told of the view or source in which the error is, however far that is behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.adapter.errors import ViewInError
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import AnyItem, Source, Subsource
from waterclock.catalog.sources import SKIPPED
from waterclock.model.ids import GlobalId

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator

_TOO_MANY, _NOT_THE_SAME = "54000", "55000"
_AVRO_CHANGES = ("debezium", "avro")
_OTHERWISE = (
    "To go on without such messages, create the source again with ON DECODE ERROR SKIP, which"
    " keeps them in a relation beside it, or INLINE, which makes rows of them that say what is"
    " wrong."
)


def owner_of(core: Coordinator, errors: GlobalId) -> AnyItem | None:
    """The view, index or output of a source whose errors these are."""
    catalog, errors_of = core.current, core.compute.errors_of
    output = core.sources.output_beside(errors)
    if output is not None:
        return catalog.try_item(output)
    return next((item for item in catalog.items() if errors_of(item.id)[:1] == (errors,)), None)


def explained(core: Coordinator, errors: GlobalId, message: str, row: str) -> ViewInError:
    """What to raise for a row of a collection of errors."""
    owner, catalog = owner_of(core, errors), core.current
    where = None if owner is None else catalog.described(owner)
    sqlstate = message.partition(" ")[0]
    hint = None
    if isinstance(owner, Source | Subsource):
        hint = source_hint(catalog, owner, sqlstate)
    error = ViewInError.of(message, row, where, hint)
    error.owner = None if owner is None else owner.id
    return error


def source_hint(catalog: Catalog, output: Source | Subsource, sqlstate: str) -> str:
    """What can be done about what is wrong with messages of a source."""
    source = catalog.try_item(output.source) if isinstance(output, Subsource) else output
    if sqlstate == _TOO_MANY and isinstance(source, Source):
        shown = ", ".join(skipped_relations(catalog, source))
        return (
            f"SELECT * FROM {shown} shows them. The source has a value again when enough of them"
            " are repaired upstream; for a larger MAX ERRORS create it again."
        )
    if sqlstate == _NOT_THE_SAME:
        return "Drop the source and create it again."
    if isinstance(source, Source) and source.envelope == "debezium":
        repair = (
            "A row that can not be held is readable again when it is changed or deleted upstream;"
            " a message that was written can not be repaired."
        )
    elif isinstance(source, Source) and source.envelope == "upsert":
        repair = "It is readable again when another message with the same key has come."
    elif isinstance(source, Source) and source.connector == "postgres":
        repair = "It is readable again when the row is changed or deleted upstream."
    else:
        repair = "A message that was written can not be repaired."
    if isinstance(source, Source) and source.envelope == "materialize":
        return repair
    if isinstance(source, Source) and (source.envelope, source.value_format) == _AVRO_CHANGES:
        return repair
    return f"{repair} {_OTHERWISE}"


def skipped_relations(catalog: Catalog, source: Source) -> list[str]:
    """The names of the relations of what is skipped: one, or none."""
    parts = (catalog.try_item(each) for each in catalog.users.get(source.id, ()))
    return [part.name for part in parts if isinstance(part, Subsource) and part.upstream == SKIPPED]
