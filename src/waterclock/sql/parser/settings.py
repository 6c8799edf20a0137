"""SET, RESET, SHOW, DISCARD."""

from __future__ import annotations

import re

from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import Identifier, ObjectKind, ObjectName
from waterclock.sql.ast.session import (
    Discard,
    Discarded,
    Listing,
    ResetSetting,
    SetSetting,
    SettingScope,
    SetTransaction,
    ShowCreate,
    ShowObjects,
    ShowSetting,
)
from waterclock.sql.keywords import RESERVED
from waterclock.sql.parser.scanning import condition
from waterclock.sql.parser.transactions import modes
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_HOURS = re.compile(r"([+-]?\d{1,2}):00(?::00)?")


def set_(stream: TokenStream) -> Statement:
    stream.expect("set")
    scope = SettingScope.SESSION
    if stream.accept("session", "characteristics"):
        stream.expect("as", "transaction")
        return SetTransaction(modes(stream, required=True), session=True)
    if stream.at("constraints"):
        stream.unsupported("SET CONSTRAINTS")
    if stream.accept("local"):
        scope = SettingScope.LOCAL
    elif stream.at("session") and not stream.at("session", "authorization"):
        stream.expect("session")
    if stream.accept("transaction"):
        if stream.at("snapshot"):
            stream.unsupported("SET TRANSACTION SNAPSHOT")
        return SetTransaction(modes(stream, required=True))
    position = stream.token.position
    name, values = _assignment(stream)
    return SetSetting(name, values, scope, position)


def _assignment(stream: TokenStream) -> tuple[str, tuple[str, ...] | None]:
    """What is set to what; the second is None for DEFAULT."""
    if stream.accept("time", "zone"):
        return "timezone", _time_zone(stream)
    if stream.accept("session", "authorization"):
        return "session_authorization", _role(stream)
    if stream.at("role") and not _at_assignment(stream):
        stream.expect("role")
        return "role", _role(stream)
    if stream.at("names") and not _at_assignment(stream):
        stream.expect("names")
        return "client_encoding", _text_or_default(stream)
    if stream.at("schema") and not _at_assignment(stream):
        stream.expect("schema")
        return "search_path", (stream.string(),)
    return setting_assignment(stream)


def setting_assignment(stream: TokenStream) -> tuple[str, tuple[str, ...] | None]:
    """`name TO value, ...` or `name = value, ...`; None for DEFAULT."""
    name = setting_name(stream)
    if stream.accept("from"):
        stream.expect("current")
        stream.unsupported("SET FROM CURRENT")
    if not stream.accept("to"):
        stream.expect_mark("=")
    if stream.accept("default"):
        return name, None
    values = [setting_value(stream)]
    while stream.accept_mark(","):
        values.append(setting_value(stream))
    return name, tuple(values)


def _at_assignment(stream: TokenStream) -> bool:
    following = stream.peek()
    if following.kind is Kind.WORD:
        return following.value == "to"
    return following.kind is Kind.OPERATOR and following.value in ("=", ".")


def setting_name(stream: TokenStream) -> str:
    parts = [stream.identifier().name]
    while stream.accept_mark("."):
        parts.append(stream.identifier().name)
    return ".".join(parts)


def setting_value(stream: TokenStream) -> str:
    """The text of a word, a string or a number."""
    token = stream.token
    if token.kind is Kind.WORD and token.value in RESERVED - {"true", "false", "on"}:
        stream.fail()
    if token.kind in (Kind.WORD, Kind.QUOTED, Kind.STRING):
        return stream.advance().value
    sign = ""
    if stream.at_mark("-") or stream.at_mark("+"):
        sign = "-" if stream.advance().value == "-" else ""
    if stream.token.kind not in (Kind.INTEGER, Kind.DECIMAL):
        stream.fail()
    return sign + stream.advance().value


def _time_zone(stream: TokenStream) -> tuple[str, ...] | None:
    if stream.accept_any("default", "local"):
        return None
    if stream.at("interval"):
        return (_zone_of_hours(stream),)
    return (setting_value(stream),)


def _zone_of_hours(stream: TokenStream) -> str:
    """How many hours the zone is to the east of UTC."""
    begin = stream.token.position
    stream.expect("interval")
    found = _HOURS.fullmatch(stream.token.value) if stream.token.kind is Kind.STRING else None
    if found is None:
        stream.unsupported("SET TIME ZONE INTERVAL", begin)
    stream.advance()
    stream.accept("hour", "to", "minute")
    return str(int(found[1]))


def _role(stream: TokenStream) -> tuple[str, ...] | None:
    if stream.accept("default"):
        return None
    if stream.token.kind is Kind.STRING:
        return (stream.string(),)
    return (stream.non_reserved_word().name,)


def _text_or_default(stream: TokenStream) -> tuple[str, ...] | None:
    if stream.at_end() or stream.accept("default"):
        return None
    return (stream.string(),)


def reset(stream: TokenStream) -> ResetSetting:
    stream.expect("reset")
    return ResetSetting(None if stream.accept("all") else _named_setting(stream))


def _named_setting(stream: TokenStream) -> str:
    if stream.accept("time", "zone"):
        return "timezone"
    if stream.accept("transaction", "isolation", "level"):
        return "transaction_isolation"
    if stream.accept("session", "authorization"):
        return "session_authorization"
    return setting_name(stream)


def discard(stream: TokenStream) -> Discard:
    stream.expect("discard")
    word = stream.expect_any("all", "plans", "sequences", "temp", "temporary")
    return Discard(Discarded.TEMP if word == "temporary" else Discarded(word.upper()))


def show(stream: TokenStream) -> Statement:
    stream.expect("show")
    if stream.accept("create"):
        return _show_create(stream)
    for listing in Listing:
        if _at_listing(stream, listing):
            return _show_objects(stream, listing)
    position = stream.token.position
    if stream.accept("all"):
        return ShowSetting(None, position)
    return ShowSetting(_named_setting(stream), position)


def _at_listing(stream: TokenStream, listing: Listing) -> bool:
    return stream.accept(*listing.value.lower().split())


def _show_create(stream: TokenStream) -> ShowCreate:
    for kind in ObjectKind:
        if stream.accept(*kind.value.lower().split()):
            return ShowCreate(kind, stream.object_name())
    raise stream.fault()


def _show_objects(stream: TokenStream, listing: Listing) -> ShowObjects:
    within: ObjectName | None = None
    cluster: Identifier | None = None
    if listing is Listing.COLUMNS:
        stream.expect_any("from", "in")
        within = stream.object_name()
    elif stream.accept("from") or (listing is Listing.INDEXES and stream.accept("on")):
        within = stream.object_name()
    if stream.accept("in"):
        if stream.accept("cluster"):
            cluster = stream.identifier()
        elif within is None:
            within = stream.object_name()
        else:
            stream.fail()
    like = stream.string() if stream.accept("like") else None
    where = condition(stream) if like is None and stream.accept("where") else None
    return ShowObjects(listing, within, cluster, like, where)
