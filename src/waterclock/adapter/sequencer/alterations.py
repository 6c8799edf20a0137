"""ALTER of objects, and COMMENT ON.

All actions of a statement happen, or none. What an action would have to change in stored rows is
refused by name: columns of tables are as they were made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.errors import ObjectInUse, Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.retention import RETAIN, retain_option, retained_ms
from waterclock.adapter.sequencer import inserts, source_columns, source_tables, writing
from waterclock.adapter.sequencer.objects import MISSING, named
from waterclock.adapter.sequencer.roles import require_right_over, role_of
from waterclock.catalog import grants, items, privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import DependentsExist, PermissionDenied, WrongKind
from waterclock.catalog.objects import (
    AnyObject,
    AnyOwned,
    Cluster,
    Database,
    Index,
    Item,
    MaterializedView,
    Namespace,
    Owned,
    Privilege,
    Relation,
    Role,
    Source,
    Subsource,
    Table,
    View,
)
from waterclock.errors import WaterclockError
from waterclock.model.errors import DuplicateColumn, UnknownColumn
from waterclock.sql import ast
from waterclock.sql.ast import objects as actions
from waterclock.sql.ast.common import ObjectKind, ObjectName
from waterclock.sql.parser import parse_statements
from waterclock.sql.printing import create_text

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


async def alter(session: SqlSession, statement: ast.Alter, _: Parameters) -> Response:
    if any(isinstance(each, actions.AddTables | actions.DropTables) for each in statement.actions):
        return await source_tables.alter(session, statement)
    if any(isinstance(each, actions.AddSourceColumn) for each in statement.actions):
        return await source_columns.alter(session, statement)
    done = Done(f"ALTER {statement.kind.value}")
    async with session.changing() as draft:
        try:
            found = _found(session, draft.catalog, statement.kind, statement.name)
        except WaterclockError as error:
            if not statement.if_exists or error.sqlstate not in MISSING:
                raise
            session.notify(Notice(f"{error.message}, skipping"))
            return done
        _require_right(session, draft.catalog, found)
        for action in statement.actions:
            await _act(session, draft, draft.catalog.objects[found.oid], statement.kind, action)
        await session.commit_draft(draft)
    return done


def _found(session: SqlSession, catalog: Catalog, kind: ObjectKind, name: ObjectName) -> AnyObject:
    if kind is ObjectKind.ROLE:
        return catalog.role(name.parts[-1])
    return _named(session, catalog, kind, name)


def _named(session: SqlSession, catalog: Catalog, kind: ObjectKind, name: ObjectName) -> AnyOwned:
    """The object; a relation that a source fills may be altered as a source is."""
    if kind is ObjectKind.SOURCE:
        found = catalog.find(name_of(name.parts), session.scope)
        if isinstance(found, Subsource):
            return found
    return named(session, catalog, kind, name)


def _require_right(session: SqlSession, catalog: Catalog, found: AnyObject) -> None:
    if isinstance(found, Role):
        require_right_over(session, catalog, found, "rename superusers")
    else:
        privileges.check_owner(catalog, session.role.oid, found)


async def _act(
    session: SqlSession,
    draft: Draft,
    found: AnyObject,
    kind: ObjectKind,
    action: actions.AlterAction,
) -> None:
    match action:
        case actions.RenameTo(name):
            _require_renamable(session, draft.catalog, found)
            items.rename(draft, found, name.name)
        case actions.SwapWith(name):
            _swap(session, draft, found, kind, name.name)
        case actions.RenameColumn(column, name):
            _rename_column(draft, found, column.name, name.name)
        case actions.SetSchema(schema) if isinstance(found, Item):
            _move(session, draft, found, schema)
        case actions.OwnerTo(spec) if isinstance(found, Owned):
            _give(session, draft, found, role_of(session, draft.catalog, spec))
        case actions.SetCluster(cluster) if isinstance(found, MaterializedView | Index | Source):
            target = draft.catalog.cluster(cluster.name)
            draft.change(found, msgspec.structs.replace(found, cluster=target.oid))
        case actions.SetOptions() | actions.ResetOptions() if isinstance(
            found, Table | MaterializedView | Index | Source
        ):
            _set_retention(draft, found, action)
        case actions.SetDefault() if isinstance(found, Table):
            await _set_default(session, draft, found, action)
        case _:
            what = f"ALTER {kind.value} {_words(action)}"
            raise Unsupported(f"{what} is not supported", hint=_instead(action))


def _words(action: actions.AlterAction) -> str:
    """The action, as statements say it."""
    match action:
        case actions.SetOptions() | actions.ResetOptions():
            return "SET (...)" if isinstance(action, actions.SetOptions) else "RESET (...)"
        case actions.SetNotNull(_, not_null):
            return "ALTER COLUMN SET NOT NULL" if not_null else "ALTER COLUMN DROP NOT NULL"
        case actions.SetType():
            return "ALTER COLUMN TYPE"
        case actions.SetDefault():
            return "ALTER COLUMN SET DEFAULT"
        case _:
            name = type(action).__name__
            return "".join(f" {c}" if c.isupper() else c.upper() for c in name).strip()


def _instead(action: actions.AlterAction) -> str | None:
    match action:
        case actions.AddColumn() | actions.DropColumn() | actions.SetType() | actions.SetNotNull():
            return (
                "The columns of a table are fixed. Make another one by CREATE TABLE ... AS SELECT"
                " and use ALTER TABLE ... SWAP WITH, or show other columns by a view."
            )
        case actions.AddConstraint():
            return "Tables accept any rows of their types; only NOT NULL is enforced."
        case _:
            return None


# Names


def _require_renamable(session: SqlSession, catalog: Catalog, found: AnyObject) -> None:
    """Raise if somebody goes by the name, or nothing may be made where it is."""
    match found:
        case Role(name=name) if name == session.startup.user:
            raise Unsupported("session user cannot be renamed")
        case Role(name=name) if session.front.uses(role=name):
            raise ObjectInUse(f'role "{name}" cannot be renamed because it is logged in')
        case Database(name=name) if name == session.startup.database:
            raise Unsupported("current database cannot be renamed")
        case Database(name=name) if session.front.uses(database=name):
            raise ObjectInUse(f'database "{name}" is being accessed by other users')
        case Item(namespace=namespace):
            schema = catalog.get(namespace, Namespace)
            privileges.check(catalog, session.role.oid, schema, Privilege.CREATE)
        case _:
            pass


def _swap(session: SqlSession, draft: Draft, found: AnyObject, kind: ObjectKind, name: str) -> None:
    """Let two objects of one kind and place have each other's names."""
    if not isinstance(found, Namespace | Cluster | Item):
        raise Unsupported(f"ALTER {kind.value} SWAP WITH is not supported")
    other = _beside(session, draft.catalog, found, kind, name)
    privileges.check_owner(draft.catalog, session.role.oid, other)
    first, second = found.name, other.name
    if first == second:
        return
    aside = items.rename(draft, found, f"{first} {found.oid}")
    items.rename(draft, other, first)
    items.rename(draft, aside, second)


def _beside(
    session: SqlSession, catalog: Catalog, found: AnyOwned, kind: ObjectKind, name: str
) -> AnyOwned:
    """The object of that name in the same place."""
    parts: tuple[str, ...] = (name,)
    if isinstance(found, Namespace) and found.database is not None:
        parts = (catalog.get(found.database, Database).name, name)
    elif isinstance(found, Item):
        schema = catalog.get(found.namespace, Namespace)
        database = schema.database
        if database is not None:
            parts = (catalog.get(database, Database).name, schema.name, name)
    return _named(session, catalog, kind, ObjectName(parts))


def _rename_column(draft: Draft, found: AnyObject, old: str, new: str) -> None:
    if not isinstance(found, View):
        kind = found.kind.upper()
        raise Unsupported(
            f"ALTER {kind} RENAME COLUMN is not supported",
            hint="Create a view with the names you want.",
        )
    if draft.catalog.users.get(found.id):
        raise DependentsExist(
            f"cannot rename a column of {draft.catalog.described(found)}"
            " because other objects depend on it"
        )
    names = [column.name for column in found.columns]
    if old not in names:
        raise UnknownColumn(f'column "{old}" does not exist')
    if new in names:
        raise DuplicateColumn(f'column "{new}" of relation "{found.name}" already exists')
    columns = tuple(
        msgspec.structs.replace(column, name=new) if column.name == old else column
        for column in found.columns
    )
    draft.change(found, msgspec.structs.replace(found, columns=columns))


# Places and owners


def _with_indexes(catalog: Catalog, found: Item) -> list[Any]:
    """The item, and the indexes on it, which are where it is and whose it is."""
    users = (catalog.item(user) for user in sorted(catalog.users.get(found.id, ())))
    return [found, *(user for user in users if isinstance(user, Index))]


def _move(session: SqlSession, draft: Draft, found: Item, schema: ObjectName) -> None:
    if isinstance(found, Index):
        raise WrongKind(f'cannot change schema of index "{found.name}"')
    target = named(session, draft.catalog, ObjectKind.SCHEMA, schema)
    privileges.check(draft.catalog, session.role.oid, target, Privilege.CREATE)
    if target.oid == found.namespace:
        return
    for each in _with_indexes(draft.catalog, found):
        items.move(draft, each, target.oid)


def _give(session: SqlSession, draft: Draft, found: AnyOwned, role: Role) -> None:
    catalog = draft.catalog
    if not privileges.may_become(catalog, session.role.oid, role.oid):
        raise PermissionDenied(f'must be member of role "{role.name}"')
    if isinstance(found, Item):
        if not catalog.get(session.role.oid, Role).superuser:
            schema = catalog.get(found.namespace, Namespace)
            privileges.check(catalog, role.oid, schema, Privilege.CREATE)
        for each in _with_indexes(catalog, found):
            grants.change_owner(draft, each, role.oid)
    else:
        grants.change_owner(draft, found, role.oid)


async def _set_default(
    session: SqlSession, draft: Draft, found: Table, action: actions.SetDefault
) -> None:
    [place] = writing.places_of(found, [action.column])
    if action.default is not None:
        await inserts.check_default(session, action.default, found.columns[place].type)
    text = None if action.default is None else action.default.text
    columns = list(found.columns)
    columns[place] = msgspec.structs.replace(columns[place], default=text)
    draft.change(found, msgspec.structs.replace(found, columns=tuple(columns)))


def _set_retention(
    draft: Draft,
    found: Table | MaterializedView | Index | Source,
    action: actions.SetOptions | actions.ResetOptions,
) -> None:
    match action:
        case actions.SetOptions(given):
            kept = retained_ms(given)
            is_said = kept is not None
        case actions.ResetOptions(names):
            kept, is_said = None, RETAIN in names
    if not is_said:
        return
    changed = msgspec.structs.replace(found, retain_ms=kept)
    if isinstance(changed, Source):
        [made] = parse_statements(changed.sql)
        assert isinstance(made.statement, ast.CreateSource)
        others = tuple(each for each in made.statement.options if each.name != RETAIN)
        said = replace(made.statement, options=(*others, *retain_option(kept)))
        changed = msgspec.structs.replace(changed, sql=create_text(said))
    draft.change(found, changed)


# Comments


async def comment_on(session: SqlSession, statement: ast.CommentOn, _: Parameters) -> Response:
    async with session.changing() as draft:
        catalog = draft.catalog
        number = 0
        if statement.column is not None:
            found: AnyObject = catalog.relation(name_of(statement.name.parts), session.scope)
            number = _number_of(found, statement.column)
        else:
            found = _found(session, catalog, statement.kind, statement.name)
        _require_right(session, catalog, found)
        draft.comment(found.oid, statement.comment or None, number)
        await session.commit_draft(draft)
    return Done("COMMENT")


def _number_of(found: AnyObject, name: str) -> int:
    assert isinstance(found, Relation)
    for number, column in enumerate(found.columns, start=1):
        if column.name == name:
            return number
    raise UnknownColumn(f'column "{name}" of relation "{found.name}" does not exist')


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.Alter: alter,
    ast.CommentOn: comment_on,
}
