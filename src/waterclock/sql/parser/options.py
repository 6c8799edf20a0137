"""Lists of options: `WITH (a = 1, b)`, `(TICK INTERVAL '1s', BROKERS ('a', 'b'))`.

The equals sign is optional, so where only words stand the last is the value: `SSH TUNNEL jump` is
the option `ssh tunnel` with the value `jump`. Whether an option exists and what it may be is for
whoever carries out the statement to say.
"""

from __future__ import annotations

from waterclock.sql.ast.common import (
    ListValue,
    NameValue,
    NumberValue,
    ObjectName,
    Option,
    OptionValue,
    SecretValue,
    StringValue,
)
from waterclock.sql.parser.scanning import expression
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind


def options(stream: TokenStream) -> tuple[Option, ...]:
    """`(option, ...)`."""
    stream.expect_mark("(")
    found = [option(stream)]
    while stream.accept_mark(","):
        found.append(option(stream))
    stream.expect_mark(")")
    return tuple(found)


def with_options(stream: TokenStream) -> tuple[Option, ...]:
    """`WITH (option, ...)`, if WITH follows."""
    return options(stream) if stream.accept("with") else ()


def maybe_options(stream: TokenStream) -> tuple[Option, ...]:
    """`(option, ...)`, if it follows."""
    return options(stream) if stream.at_mark("(") else ()


def option(stream: TokenStream) -> Option:
    """One option. It ends at a comma, a closing bracket or the end of the statement."""
    first = stream.index
    position = stream.token.position
    words = [stream.label().name]
    while stream.token.kind is Kind.WORD:
        words.append(stream.advance().value)
    if stream.accept_mark("="):
        return Option(_name(words), _value(stream), position)
    if _at_item_end(stream) or stream.at_mark("."):
        if len(words) == 1:
            return Option(words[0], None, position)
        words.pop()
        stream.back_to(first + len(words))
    if len(words) > 1 and words[-1] == "secret":
        words.pop()
        stream.back_to(stream.index - 1)
    return Option(_name(words), _value(stream), position)


def _name(words: list[str]) -> str:
    """FOR is no part of a name: `RETAIN HISTORY FOR '1h'` is `RETAIN HISTORY = FOR '1h'`."""
    return " ".join(words[:-1] if len(words) > 1 and words[-1] == "for" else words)


def _at_item_end(stream: TokenStream) -> bool:
    return stream.at_end() or stream.at_mark(",") or stream.at_mark(")")


def _value(stream: TokenStream) -> OptionValue:
    stream.accept("for")
    first = stream.index
    found = _simple(stream) or _list(stream)
    if found is None or not _at_item_end(stream):
        stream.back_to(first)
        return expression(stream)
    return found


def _simple(stream: TokenStream) -> OptionValue | None:
    """A string, number, name or secret; None if it is something else."""
    token = stream.token
    if token.kind is Kind.STRING:
        return StringValue(stream.advance().value)
    if token.kind in (Kind.INTEGER, Kind.DECIMAL):
        return NumberValue(stream.advance().value)
    if stream.at_mark("-") or stream.at_mark("+"):
        sign = "-" if stream.advance().value == "-" else ""
        if stream.token.kind not in (Kind.INTEGER, Kind.DECIMAL):
            return None
        return NumberValue(sign + stream.advance().value)
    if stream.at("secret") and stream.peek().kind in (Kind.WORD, Kind.QUOTED):
        stream.advance()
        return SecretValue(stream.object_name())
    if token.kind in (Kind.WORD, Kind.QUOTED):
        return NameValue(labels(stream))
    return None


def labels(stream: TokenStream) -> ObjectName:
    """A name with dots where any key word will do, such as `on` or `public.table`."""
    first = stream.label()
    parts = [first.name]
    while stream.accept_mark("."):
        parts.append(stream.label().name)
    return ObjectName(tuple(parts), first.position)


def _list(stream: TokenStream) -> ListValue | None:
    """A list of simple values; None if it is something else."""
    for opening, closing in (("(", ")"), ("[", "]")):
        if not stream.accept_mark(opening):
            continue
        items: list[OptionValue] = []
        while not stream.at_mark(closing):
            item = _simple(stream)
            if item is None or not (stream.at_mark(",") or stream.at_mark(closing)):
                return None
            items.append(item)
            if not stream.accept_mark(","):
                break
        return ListValue(tuple(items)) if stream.accept_mark(closing) else None
    return None
