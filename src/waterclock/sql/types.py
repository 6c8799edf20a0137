"""The name of a type, as PostgreSQL's grammar has it: `double precision`, `numeric(10,2)`, `int[]`.

Types that are key words have their own forms; every other name is looked up among the types of
`pg_catalog`, which is also what a name in quotes or with a schema means: `"char"` is not `char`.
"""

from __future__ import annotations

from waterclock.model import interval_fields as fields
from waterclock.model.pg_types import (
    NO_MODIFIER,
    REGCLASS,
    TYPES,
    PgType,
    TypeInfo,
    UnknownType,
    array_of,
    format_type,
    numeric,
    type_named,
    type_names,
)
from waterclock.model.schema import MAX_DECIMAL_PRECISION
from waterclock.sql.absent_types import hint_for
from waterclock.sql.errors import (
    FeatureNotSupported,
    InvalidTypeModifier,
    SqlFault,
    SyntaxFault,
    UnknownTypeName,
    UnsupportedType,
)
from waterclock.sql.keywords import NOT_A_TYPE
from waterclock.sql.lexer import lex
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_MAX_NUMERIC_PRECISION = 1000
_MAX_LENGTH = 10485760
_MAX_SECOND_DIGITS = 6
_WITHOUT_MODIFIER = {
    "int": "int4",
    "integer": "int4",
    "smallint": "int2",
    "bigint": "int8",
    "real": "float4",
    "boolean": "bool",
}
_PSEUDO_TYPES = {705: "unknown", 2249: "record"}
SERIAL_TYPES = ("serial", "bigserial", "smallserial", "serial2", "serial4", "serial8")


def parse_type_name(text: str) -> PgType:
    """The type that the whole text names. Raises a `SqlFault`."""
    stream = TokenStream(text, lex(text))
    found = type_name(stream)
    if stream.token.kind is not Kind.END:
        stream.fail()
    return found


def shown_type(text: str) -> str:
    """What a `regtype` shows of a type, which is given by its name or its number."""
    word = text.strip()
    if word.isdigit():
        return type_names().get(int(word), str(int(word)) if int(word) else "-")
    if word == "-":
        return word
    for oid, name in _PSEUDO_TYPES.items():
        if word.lower() == name:
            return type_names()[oid]
    return format_type(PgType(parse_type_name(text).oid))


def type_name_of_value(stream: TokenStream) -> PgType:
    """The same, of a value, which may also be the name of a relation."""
    is_qualified = stream.at("pg_catalog") and stream.peek(2).value == "regclass"
    if stream.at("regclass") or is_qualified:
        for _ in range(3 if is_qualified else 1):
            stream.advance()
        return REGCLASS
    return type_name(stream)


def type_name(stream: TokenStream) -> PgType:
    """The type whose name follows. Raises a `SqlFault` where it, or its modifier, is wrong."""
    element = _scalar(stream)
    if stream.accept("array"):
        if stream.accept_mark("["):
            stream.integer()
            stream.expect_mark("]")
        return array_of(element)
    dimensions = 0
    while stream.accept_mark("["):
        dimensions += 1
        if not stream.at_mark("]"):
            stream.integer()
        stream.expect_mark("]")
    return array_of(element) if dimensions else element


def _scalar(stream: TokenStream) -> PgType:
    token = stream.token
    if token.kind is Kind.WORD and not _dotted(stream):
        plain = _WITHOUT_MODIFIER.get(token.value)
        if plain is not None:
            stream.advance()
            return PgType(type_named(plain).oid)
        match token.value:
            case "float":
                return _float(stream)
            case "double" if stream.accept("double", "precision"):
                return PgType(type_named("float8").oid)
            case "decimal" | "dec" | "numeric":
                stream.advance()
                return _numeric(_modifiers(stream), token.position)
            case "character" | "char" | "varchar" | "national" | "nchar":
                return _character(stream)
            case "timestamp" | "time":
                return _time(stream)
            case "interval":
                return _interval(stream)
            case "bit":
                raise _unknown("bit", token.position)
    return _named(stream)


def _dotted(stream: TokenStream) -> bool:
    following = stream.peek()
    return following.kind is Kind.OPERATOR and following.value == "."


def _float(stream: TokenStream) -> PgType:
    stream.expect("float")
    if not stream.accept_mark("("):
        return PgType(type_named("float8").oid)
    position = stream.token.position
    bits = stream.integer()
    stream.expect_mark(")")
    if bits < 1:
        raise InvalidTypeModifier("precision for type float must be at least 1 bit", position)
    if bits > 53:
        raise InvalidTypeModifier("precision for type float must be less than 54 bits", position)
    return PgType(type_named("float4" if bits <= 24 else "float8").oid)


def _character(stream: TokenStream) -> PgType:
    position = stream.token.position
    word = stream.advance().value
    if word == "national":
        stream.expect_any("character", "char")
    varying = word == "varchar" or stream.accept("varying")
    length: int | None = None
    if stream.accept_mark("("):
        length = stream.integer()
        stream.expect_mark(")")
    if varying:
        return PgType(type_named("varchar").oid, _length("varchar", length, position))
    length = 1 if length is None else length
    return PgType(type_named("bpchar").oid, _length("char", length, position))


def _length(name: str, length: int | None, position: int) -> int:
    if length is None:
        return NO_MODIFIER
    if length < 1:
        raise InvalidTypeModifier(f"length for type {name} must be at least 1", position)
    if length > _MAX_LENGTH:
        message = f"length for type {name} cannot exceed {_MAX_LENGTH}"
        raise InvalidTypeModifier(message, position)
    return length + 4


def _numeric(modifiers: tuple[int, ...], position: int) -> PgType:
    if not modifiers:
        return PgType(type_named("numeric").oid)
    if len(modifiers) > 2:
        raise InvalidTypeModifier("invalid NUMERIC type modifier", position)
    precision, scale = modifiers[0], modifiers[1] if len(modifiers) > 1 else 0
    if not 1 <= precision <= _MAX_NUMERIC_PRECISION:
        message = f"NUMERIC precision {precision} must be between 1 and {_MAX_NUMERIC_PRECISION}"
        raise InvalidTypeModifier(message, position)
    if precision > MAX_DECIMAL_PRECISION:
        what = f"a numeric of more than {MAX_DECIMAL_PRECISION} digits"
        raise FeatureNotSupported.of(what, position)
    if not 0 <= scale <= precision:
        what = "a numeric scale below 0 or above the precision"
        raise FeatureNotSupported.of(what, position)
    return numeric(precision, scale)


def _modifiers(stream: TokenStream) -> tuple[int, ...]:
    """`(n, ...)`, if it follows."""
    if not stream.accept_mark("("):
        return ()
    found = [stream.signed_integer()]
    while stream.accept_mark(","):
        found.append(stream.signed_integer())
    stream.expect_mark(")")
    return tuple(found)


def _second_digits(stream: TokenStream) -> int:
    """`(n)` behind a time, if it follows; more digits than there are mean all there are."""
    if not stream.accept_mark("("):
        return NO_MODIFIER
    digits = stream.integer()
    stream.expect_mark(")")
    return min(digits, _MAX_SECOND_DIGITS)


def _time(stream: TokenStream) -> PgType:
    position = stream.token.position
    word = stream.advance().value
    digits = _second_digits(stream)
    zoned = False
    if stream.at_any("with", "without") and stream.peek().value == "time":
        zoned = stream.advance().value == "with"
        stream.expect("time", "zone")
    if zoned and word == "time":
        raise _unknown("time with time zone", position)
    return PgType(type_named("timestamptz" if zoned else word).oid, digits)


def _interval(stream: TokenStream) -> PgType:
    stream.expect("interval")
    if stream.at_mark("("):
        return _interval_of(None, _second_digits(stream))
    return interval_fields(stream) or _interval_of(None, NO_MODIFIER)


def interval_fields(stream: TokenStream) -> PgType | None:
    """The type of intervals with the fields that follow, if any do."""
    first = last = stream.accept_any(*fields.WORDS)
    if first is None or last is None:
        return None
    if stream.at("to"):
        stream.advance()
        last = stream.expect_any(*fields.FOLLOWING.get(first, ()))
    digits = _second_digits(stream) if last == "second" else NO_MODIFIER
    return _interval_of((first, last), digits)


def _interval_of(kept: tuple[str, str] | None, digits: int) -> PgType:
    places = None if digits == NO_MODIFIER else digits
    return PgType(type_named("interval").oid, fields.modifier_of(kept, places))


def _named(stream: TokenStream) -> PgType:
    """A type that is no key word."""
    token = stream.token
    if token.kind is Kind.WORD and token.value in NOT_A_TYPE and not _dotted(stream):
        stream.fail()
    parts = [stream.label().name]
    while stream.accept_mark("."):
        parts.append(stream.label().name)
    exact = token.kind is Kind.QUOTED or len(parts) > 1
    info = _look_up(parts, exact)
    if info is None:
        raise _unknown(".".join(parts), token.position)
    found = _with_modifiers(info, _modifiers(stream), token.position)
    is_array = parts[-1] == "_" + info.name
    return array_of(found) if is_array else found


def _look_up(parts: list[str], exact: bool) -> TypeInfo | None:
    if parts[:-1] not in ([], ["pg_catalog"]):
        return None
    for info in TYPES:
        if parts[-1] in (info.name, "_" + info.name):
            return info
    if exact:
        return None
    try:
        return type_named(parts[-1])
    except UnknownType:
        return None


def _with_modifiers(info: TypeInfo, modifiers: tuple[int, ...], position: int) -> PgType:
    if not modifiers:
        return PgType(info.oid)
    match info.name:
        case "numeric":
            return _numeric(modifiers, position)
        case "varchar" | "bpchar" if len(modifiers) == 1:
            shown = "varchar" if info.name == "varchar" else "char"
            return PgType(info.oid, _length(shown, modifiers[0], position))
        case "timestamp" | "timestamptz" | "time" if len(modifiers) == 1:
            if modifiers[0] < 0:
                message = f"{info.name.upper()}({modifiers[0]}) precision must not be negative"
                raise InvalidTypeModifier(message, position)
            return PgType(info.oid, min(modifiers[0], _MAX_SECOND_DIGITS))
        case "varchar" | "bpchar" | "timestamp" | "timestamptz" | "time":
            raise InvalidTypeModifier("invalid type modifier", position)
        case _:
            message = f'type modifier is not allowed for type "{info.name}"'
            raise SyntaxFault(message, position)


def _unknown(name: str, position: int) -> SqlFault:
    absent = hint_for(name)
    if absent is not None:
        return UnsupportedType(f'type "{name}" is not supported', position, hint=absent)
    hint = None
    if name in SERIAL_TYPES:
        hint = "There are no sequences. Use bigint, and give the numbers yourself."
    return UnknownTypeName(f'type "{name}" does not exist', position, hint=hint)
