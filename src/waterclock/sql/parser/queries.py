"""SELECT, VALUES, TABLE, WITH; SUBSCRIBE; EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    NameValue,
    ObjectKind,
    ObjectName,
    Option,
    QueryText,
    SortKey,
)
from waterclock.sql.ast.queries import (
    AsOf,
    Explain,
    ExplainObject,
    ExplainStage,
    Moment,
    Query,
    Subscribe,
    SubscribeEnvelope,
    SubscribeForm,
)
from waterclock.sql.keywords import words
from waterclock.sql.parser.options import options, with_options
from waterclock.sql.parser.scanning import (
    as_of,
    condition,
    query,
    query_without_time,
    sort_keys,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

CHANGES = ("insert", "update", "delete", "merge")


def select(stream: TokenStream) -> Query:
    """A query that is a statement of its own."""
    text = query(stream)
    if stream.at("as", "of", "upstream"):
        stream.expect("as", "of", "upstream")
        return Query(text, Moment.UPSTREAM)
    return Query(text, as_of(stream))


SUBSCRIBE = ("subscribe", "tail")
"""TAIL is another word for SUBSCRIBE."""
_CLAUSES = frozenset({"with", "as", "up", "until", "envelope", "within"})


def subscribe(stream: TokenStream) -> Subscribe:
    """SUBSCRIBE; its clauses may come in any order, each once."""
    stream.expect_any(*SUBSCRIBE)
    stream.accept("to")
    target = _subscribed(stream)
    found_options: tuple[Option, ...] = ()
    time: AsOf | Literal[Moment.EARLIEST] | None = None
    up_to: ExpressionText | Literal[Moment.LATEST] | None = None
    envelope: SubscribeEnvelope | None = None
    order_by: tuple[SortKey, ...] = ()
    while True:
        if stream.at("with") and not found_options:
            stream.expect("with")
            found_options = options(stream)
        elif stream.at("as", "of") and time is None:
            earliest = stream.accept("as", "of", "earliest")
            time = Moment.EARLIEST if earliest else as_of(stream, _CLAUSES)
        elif (stream.at("up", "to") or stream.at("until")) and up_to is None:
            if not stream.accept("until"):
                stream.expect("up", "to")
            latest = stream.accept("latest")
            up_to = Moment.LATEST if latest else condition(stream, _CLAUSES)
        elif stream.at("envelope") and envelope is None:
            envelope = _subscribe_envelope(stream)
        elif stream.at("within") and not order_by:
            stream.expect("within", "timestamp", "order", "by")
            order_by = sort_keys(stream, _CLAUSES)
        else:
            break
    shown = envelope or SubscribeEnvelope(SubscribeForm.DIFFS)
    return Subscribe(target, found_options, time, up_to, shown, order_by)


def _subscribed(stream: TokenStream) -> ObjectName | QueryText:
    if not stream.accept_mark("("):
        return stream.object_name()
    inner = query_without_time(stream, "the query of a SUBSCRIBE")
    stream.expect_mark(")")
    return inner


def _subscribe_envelope(stream: TokenStream) -> SubscribeEnvelope:
    stream.expect("envelope")
    form = SubscribeForm(stream.expect_any("upsert", "debezium").upper())
    stream.expect_mark("(")
    stream.expect("key")
    key: tuple[Identifier, ...] = stream.identifiers()
    stream.expect_mark(")")
    return SubscribeEnvelope(form, key)


_STAGES: tuple[tuple[tuple[str, ...], ExplainStage], ...] = (
    (("raw", "plan"), ExplainStage.RAW_PLAN),
    (("optimized", "plan"), ExplainStage.OPTIMIZED_PLAN),
    (("physical", "plan"), ExplainStage.PHYSICAL_PLAN),
    (("plan",), ExplainStage.PLAN),
    (("timestamp",), ExplainStage.TIMESTAMP),
)
_EXPLAINED = words(
    """select values table with insert update delete merge subscribe tail declare execute create
    refresh"""
)


def explain(stream: TokenStream, statement: Callable[[TokenStream], Statement]) -> Explain:
    """EXPLAIN; `statement` parses what is explained."""
    stream.expect("explain")
    stage = ExplainStage.QUERY
    for stage_words, candidate in _STAGES:
        if stream.accept(*stage_words):
            stage = candidate
            break
    asked = _explain_options(stream, stage)
    form = "text"
    if stage is not ExplainStage.QUERY and stream.accept("as"):
        form = stream.expect_any("text", "json")
    if stage is not ExplainStage.QUERY:
        stream.accept("for")
    return Explain(stage, _explained(stream, statement), asked, form)


def _explain_options(stream: TokenStream, stage: ExplainStage) -> tuple[Option, ...]:
    if stage is not ExplainStage.QUERY:
        opens = stream.peek().kind is Kind.OPERATOR and stream.peek().value == "("
        return with_options(stream) if opens else ()
    if stream.at_mark("(") and stream.peek().kind is Kind.WORD:
        following = stream.peek().value
        if following not in ("select", "values", "table", "with"):
            return options(stream)
    asked = []
    for word in ("analyze", "verbose"):
        position = stream.token.position
        if stream.accept(word) or (word == "analyze" and stream.accept("analyse")):
            asked.append(Option(word, NameValue(ObjectName(("true",))), position))
    return tuple(asked)


def _explained(
    stream: TokenStream, statement: Callable[[TokenStream], Statement]
) -> Statement | ExplainObject:
    for kind in (ObjectKind.VIEW, ObjectKind.MATERIALIZED_VIEW, ObjectKind.INDEX):
        if stream.accept(*kind.value.lower().split()):
            return ExplainObject(kind, stream.object_name())
    if not stream.at_mark("(") and not stream.at_any(*_EXPLAINED):
        stream.fail()
    return statement(stream)
