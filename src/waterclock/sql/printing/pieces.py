"""The parts that printed statements share: names, options, sort keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import assert_never

from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ListValue,
    NameValue,
    NumberValue,
    ObjectName,
    Option,
    OptionValue,
    SecretValue,
    SortKey,
    StringValue,
)
from waterclock.sql.quoting import quote_ident, quote_literal, quote_name

_WORDS = re.compile(r"[a-z_][a-z0-9_$]*( [a-z_][a-z0-9_$]*)*")
_WORD = re.compile(r"[a-z_][a-z0-9_]*")


def joined(*pieces: str) -> str:
    """The pieces that are not empty, one blank apart."""
    return " ".join(piece for piece in pieces if piece)


def name_text(name: ObjectName) -> str:
    return quote_name(name.parts)


def exists_words(if_not_exists: bool) -> str:
    return "IF NOT EXISTS" if if_not_exists else ""


def in_cluster(cluster: Identifier | None) -> str:
    return f"IN CLUSTER {quote_ident(cluster.name)}" if cluster is not None else ""


def names_in_brackets(names: Iterable[Identifier]) -> str:
    return "(" + ", ".join(quote_ident(name.name) for name in names) + ")"


def column_names(names: tuple[Identifier, ...] | None) -> str:
    return names_in_brackets(names) if names else ""


def with_list(options: tuple[Option, ...]) -> str:
    """`WITH (...)`, or nothing."""
    return f"WITH {option_list(options)}" if options else ""


def option_list(options: tuple[Option, ...]) -> str:
    """`(a = 1, ...)`, or nothing."""
    return "(" + ", ".join(map(_option, options)) + ")" if options else ""


def _option(option: Option) -> str:
    name = option.name.upper() if _WORDS.fullmatch(option.name) else quote_ident(option.name)
    return name if option.value is None else f"{name} = {_value(option.value)}"


def _value(value: OptionValue) -> str:
    match value:
        case StringValue(text):
            return quote_literal(text)
        case NumberValue(text):
            return text
        case NameValue(name):
            return ".".join(map(_label, name.parts))
        case SecretValue(name):
            return f"SECRET {name_text(name)}"
        case ListValue(items):
            return "(" + ", ".join(map(_value, items)) + ")"
        case ExpressionText(text):
            return text
        case _:
            assert_never(value)


def _label(part: str) -> str:
    """A part of a name where any key word may stand without quotes."""
    return part if _WORD.fullmatch(part) and part not in ("for", "secret") else quote_ident(part)


def sort_key_text(key: SortKey) -> str:
    nulls = ""
    if key.nulls_first is not None:
        nulls = "NULLS FIRST" if key.nulls_first else "NULLS LAST"
    return joined(key.expression.text, "DESC" if key.descending else "", nulls)
