"""DROP, ALTER and COMMENT ON, for objects of any kind."""

from __future__ import annotations

from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import Identifier, ObjectKind, ObjectName
from waterclock.sql.ast.objects import (
    AddColumn,
    AddConstraint,
    AddSourceColumn,
    AddTables,
    Alter,
    AlterAction,
    CommentOn,
    Drop,
    DropColumn,
    DropConstraint,
    DropTables,
    OwnerTo,
    RenameColumn,
    RenameTo,
    ResetOptions,
    SetCluster,
    SetDefault,
    SetNotNull,
    SetOptions,
    SetSchema,
    SetType,
    SwapWith,
)
from waterclock.sql.ast.roles import AlterSetting
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.keywords import words
from waterclock.sql.parser.connections import alter_secret_value
from waterclock.sql.parser.options import options, with_options
from waterclock.sql.parser.roles import alter_role, altered_setting, role_name, role_spec
from waterclock.sql.parser.scanning import expression
from waterclock.sql.parser.sources import upstream_tables
from waterclock.sql.parser.tables import column_definition, table_constraint
from waterclock.sql.stream import TokenStream, UnsupportedSyntax
from waterclock.sql.tokens import Kind
from waterclock.sql.types import type_name


def object_kind(stream: TokenStream) -> ObjectKind | None:
    """The kind that is named here, if it is one of ours; USER and GROUP are roles."""
    for kind in ObjectKind:
        if stream.accept(*kind.value.lower().split()):
            return kind
    return ObjectKind.ROLE if stream.accept_any("user", "group") else None


def drop(stream: TokenStream) -> Drop:
    """DROP of one of our kinds."""
    stream.expect("drop")
    kind = object_kind(stream)
    if kind is None:
        stream.fail()
    if kind is ObjectKind.INDEX:
        stream.accept("concurrently")
    if_exists = stream.accept("if", "exists")
    names = _role_names(stream) if kind is ObjectKind.ROLE else stream.object_names()
    cascade = stream.accept_any("cascade", "restrict") == "cascade"
    return Drop(kind, names, if_exists, cascade)


def _role_names(stream: TokenStream) -> tuple[ObjectName, ...]:
    names = [role_name(stream)]
    while stream.accept_mark(","):
        names.append(role_name(stream))
    return tuple(ObjectName((name.name,), name.position) for name in names)


def comment(stream: TokenStream) -> CommentOn:
    stream.expect("comment", "on")
    column: str | None = None
    if stream.accept("column"):
        name = stream.object_name()
        if len(name.parts) < 2 and stream.at("is"):
            raise SyntaxFault("column name must be qualified", name.position)
        column = name.parts[-1]
        name = ObjectName(name.parts[:-1], name.position)
        kind = ObjectKind.TABLE
    else:
        kind = _commented_kind(stream)
        name = stream.object_name()
    stream.expect("is")
    text = None if stream.accept("null") else stream.string()
    return CommentOn(kind, name, text, column)


def _commented_kind(stream: TokenStream) -> ObjectKind:
    kind = object_kind(stream)
    if kind is not None:
        return kind
    if stream.token.kind is not Kind.WORD or stream.token.value not in _OTHER_COMMENTED:
        raise stream.fault()
    raise UnsupportedSyntax(f"COMMENT ON {stream.token.value.upper()}", stream.token.position)


_OTHER_COMMENTED = words(
    """access aggregate cast collation constraint conversion domain event extension foreign
    function language large operator policy procedural procedure publication routine rule sequence
    server statistics subscription tablespace text transform trigger type"""
)


def alter(stream: TokenStream) -> Statement:
    """ALTER of one of our kinds."""
    stream.expect("alter")
    if stream.accept("system"):
        setting, values = altered_setting(stream)
        return AlterSetting(None, None, setting, values)
    kind = object_kind(stream)
    if kind is None:
        stream.fail()
    if kind is ObjectKind.ROLE:
        return alter_role(stream)
    if_exists = stream.accept("if", "exists")
    if kind is ObjectKind.TABLE:
        stream.accept("only")
    name = stream.object_name()
    if kind is ObjectKind.SECRET and stream.at("as"):
        return alter_secret_value(stream, name, if_exists)
    if kind is ObjectKind.DATABASE and stream.at_any("set", "reset"):
        setting, values = altered_setting(stream)
        return AlterSetting(name, kind, setting, values)
    actions = [_action(stream, kind)]
    while stream.accept_mark(","):
        actions.append(_action(stream, kind))
    return Alter(kind, name, tuple(actions), if_exists)


def _action(stream: TokenStream, kind: ObjectKind) -> AlterAction:
    if stream.accept("rename"):
        return _rename(stream)
    if stream.accept("owner"):
        stream.expect("to")
        return OwnerTo(role_spec(stream))
    if stream.accept("swap"):
        stream.expect("with")
        return SwapWith(stream.identifier())
    if stream.accept("set"):
        return _set(stream, kind)
    if stream.accept("reset"):
        return ResetOptions(_option_names(stream))
    if kind is ObjectKind.TABLE:
        return _table_action(stream)
    if kind is ObjectKind.SOURCE and stream.at_any("add", "drop"):
        return _source_action(stream)
    if stream.at_any("add", "drop", "rotate", "refresh", "alter", "depends", "attach", "no"):
        stream.unsupported(f"ALTER {kind.value} {stream.token.value.upper()}")
    raise stream.fault()


def _source_action(stream: TokenStream) -> AlterAction:
    """ADD or DROP of a source."""
    word = stream.advance().value
    if word == "add" and stream.accept("table"):
        return AddTables(upstream_tables(stream), with_options(stream))
    if word == "add" and stream.accept("column"):
        exists = stream.accept("if", "not", "exists")
        name = stream.identifier()
        is_typed = not (stream.at_end() or stream.at_mark(","))
        return AddSourceColumn(name, type_name(stream) if is_typed else None, exists)
    if word != "drop" or not stream.accept("table"):
        stream.unsupported(f"ALTER SOURCE {word.upper()}")
    if_exists = stream.accept("if", "exists")
    names = stream.object_names()
    return DropTables(names, if_exists, stream.accept_any("cascade", "restrict") == "cascade")


def _rename(stream: TokenStream) -> RenameTo | RenameColumn:
    if stream.accept("to"):
        return RenameTo(stream.identifier())
    if stream.at("constraint"):
        stream.unsupported("RENAME CONSTRAINT")
    stream.accept("column")
    column = stream.identifier()
    stream.expect("to")
    return RenameColumn(column, stream.identifier())


def _set(stream: TokenStream, kind: ObjectKind) -> AlterAction:
    if stream.accept("schema"):
        return SetSchema(stream.object_name())
    if stream.accept("cluster"):
        return SetCluster(stream.identifier())
    if stream.at_mark("("):
        return SetOptions(options(stream))
    if kind is ObjectKind.TABLE and stream.at_any("tablespace", "logged", "unlogged", "without"):
        stream.unsupported(f"ALTER TABLE SET {stream.token.value.upper()}")
    raise stream.fault()


def _option_names(stream: TokenStream) -> tuple[str, ...]:
    stream.expect_mark("(")
    names = [_option_name(stream)]
    while stream.accept_mark(","):
        names.append(_option_name(stream))
    stream.expect_mark(")")
    return tuple(names)


def _option_name(stream: TokenStream) -> str:
    words = [stream.label().name]
    while stream.token.kind is Kind.WORD:
        words.append(stream.advance().value)
    return " ".join(words)


def _table_action(stream: TokenStream) -> AlterAction:
    if stream.accept("add"):
        return _add(stream)
    if stream.accept("drop"):
        return _drop_part(stream)
    if stream.accept("alter"):
        stream.accept("column")
        return _alter_column(stream, stream.identifier())
    if stream.token.kind is Kind.WORD and stream.token.value in _OTHER_TABLE_ACTIONS:
        stream.unsupported(f"ALTER TABLE {stream.token.value.upper()}")
    raise stream.fault()


_OTHER_TABLE_ACTIONS = words(
    "validate disable enable cluster inherit no of not replica force attach detach options"
)
_CONSTRAINT_WORDS = ("constraint", "primary", "unique", "check", "foreign", "exclude")


def _add(stream: TokenStream) -> AddColumn | AddConstraint:
    if stream.at_any(*_CONSTRAINT_WORDS):
        found = table_constraint(stream)
        if stream.accept("not"):
            stream.expect("valid")
        return AddConstraint(found)
    stream.accept("column")
    exists = stream.accept("if", "not", "exists")
    return AddColumn(column_definition(stream), exists)


def _drop_part(stream: TokenStream) -> DropColumn | DropConstraint:
    constraint = stream.accept("constraint")
    if not constraint:
        stream.accept("column")
    if_exists = stream.accept("if", "exists")
    name = stream.identifier()
    cascade = stream.accept_any("cascade", "restrict") == "cascade"
    if constraint:
        return DropConstraint(name, if_exists, cascade)
    return DropColumn(name, if_exists, cascade)


def _alter_column(stream: TokenStream, column: Identifier) -> AlterAction:
    if stream.accept("drop"):
        if stream.accept("default"):
            return SetDefault(column, None)
        if stream.at_any("identity", "expression"):
            stream.unsupported(f"DROP {stream.token.value.upper()}")
        stream.expect("not", "null")
        return SetNotNull(column, False)
    if stream.accept("type") or stream.accept("set", "data", "type"):
        found = type_name(stream)
        if stream.at("collate"):
            stream.unsupported("COLLATE of a column")
        using = expression(stream) if stream.accept("using") else None
        return SetType(column, found, using)
    stream.expect("set")
    if stream.accept("default"):
        return SetDefault(column, expression(stream))
    if stream.at_any("statistics", "storage", "compression", "generated") or stream.at_mark("("):
        stream.unsupported("this form of ALTER COLUMN SET")
    stream.expect("not", "null")
    return SetNotNull(column, True)
