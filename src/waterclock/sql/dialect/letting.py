"""Values that an expression uses several times, and that are to be computed once."""

from __future__ import annotations

from collections.abc import Mapping


def let(values: Mapping[str, str], name: str, body: str) -> str:
    """The body, in which `name.field` are the values."""
    fields = ", ".join(f"'{field}', {value}" for field, value in values.items())
    return f"ELEMENT_AT(TRANSFORM(ARRAY(NAMED_STRUCT({fields})), {name} -> {body}), 1)"
