"""A `CatalogImage` of a real PostgreSQL database: the same objects under the same OIDs.

With it, answers of the system relations can be compared with those of the server itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from waterclock.catalog.system.image import (
    CatalogImage,
    Column,
    Constraint,
    ConstraintKind,
    Database,
    Dependency,
    Grant,
    Index,
    IndexKey,
    Membership,
    Relation,
    RelationKind,
    Role,
    Schema,
    Setting,
)
from waterclock.model.pg_types import PgType

_KINDS = {
    "r": RelationKind.TABLE,
    "v": RelationKind.VIEW,
    "m": RelationKind.MATERIALIZED_VIEW,
}
_USERS = "n.nspname <> 'information_schema' and n.nspname !~ '^pg_'"

Connection = psycopg.Connection[Any]


def image_of(connection: Connection, version: int = 1) -> CatalogImage:
    """The database that the connection is to, and what all databases of the server share."""
    (database,) = connection.execute(
        "select oid::int8 from pg_database where datname = current_database()"
    ).fetchall()[0]
    return CatalogImage(
        version=version,
        databases=tuple(_databases(connection)),
        roles=tuple(_roles(connection)),
        system_owner=10,
        schemas=tuple(_schemas(connection, database)),
        relations=tuple(_relations(connection)),
        indexes=tuple(_indexes(connection)),
        constraints=tuple(_constraints(connection)),
        memberships=tuple(_memberships(connection)),
        dependencies=tuple(_dependencies(connection)),
        settings=tuple(_settings(connection)),
    )


def _rows(connection: Connection, query: str) -> list[Any]:
    return connection.execute(query).fetchall()


def _grants(connection: Connection, acl: str, source: str) -> dict[int, tuple[Grant, ...]]:
    """The grants of every object of a catalog, in the order in which its list has them."""
    found: dict[int, dict[tuple[int, int], tuple[set[str], set[str]]]] = {}
    for oid, item in _rows(
        connection,
        f"""select o.oid::int8, u.item::text from {source} o,
            unnest(o.{acl}) with ordinality as u(item, place) order by o.oid, u.place""",
    ):
        grantee, _, rest = item.partition("=")
        letters, _, grantor = rest.partition("/")
        key = (_role_oid(connection, grantee), _role_oid(connection, grantor))
        privileges, grantable = found.setdefault(oid, {}).setdefault(key, (set(), set()))
        for place, letter in enumerate(letters):
            if letter != "*":
                privileges.add(letter)
                if letters[place + 1 : place + 2] == "*":
                    grantable.add(letter)
    return {
        oid: tuple(
            Grant(grantee, grantor, frozenset(privileges), frozenset(grantable))
            for (grantee, grantor), (privileges, grantable) in grants.items()
        )
        for oid, grants in found.items()
    }


def _role_oid(connection: Connection, name: str) -> int:
    if not name:
        return 0
    row = connection.execute(
        "select oid::int8 from pg_roles where rolname = %s", (name,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def _databases(connection: Connection) -> Iterable[Database]:
    grants = _grants(connection, "datacl", "pg_database")
    for oid, name, owner, comment in _rows(
        connection,
        "select oid::int8, datname, datdba::int8, shobj_description(oid, 'pg_database')"
        " from pg_database order by oid",
    ):
        yield Database(oid, f"u{oid}", name, owner, comment, grants.get(oid, ()))


def _roles(connection: Connection) -> Iterable[Role]:
    for row in _rows(
        connection,
        """select oid::int8, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb,
               rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolvaliduntil,
               shobj_description(oid, 'pg_authid') from pg_roles order by oid""",
    ):
        yield Role(row[0], f"u{row[0]}", *row[1:])


def _memberships(connection: Connection) -> Iterable[Membership]:
    for row in _rows(
        connection,
        "select roleid::int8, member::int8, grantor::int8, admin_option from pg_auth_members",
    ):
        yield Membership(*row)


def _schemas(connection: Connection, database: int) -> Iterable[Schema]:
    grants = _grants(connection, "nspacl", "pg_namespace")
    for oid, name, owner, comment in _rows(
        connection,
        f"""select oid::int8, nspname, nspowner::int8, obj_description(oid, 'pg_namespace')
            from pg_namespace n where {_USERS} order by oid""",
    ):
        yield Schema(oid, f"u{oid}", database, name, owner, comment, grants.get(oid, ()))


def _relations(connection: Connection) -> Iterable[Relation]:
    grants = _grants(connection, "relacl", "pg_class")
    for oid, schema, name, kind, owner, row_type, array_type, definition, comment in _rows(
        connection,
        f"""select c.oid::int8, relnamespace::int8, relname, relkind::text, relowner::int8,
               reltype::int8, t.typarray::int8,
               case when relkind in ('v', 'm') then pg_get_viewdef(c.oid, true) end,
               obj_description(c.oid, 'pg_class')
            from pg_class c join pg_namespace n on n.oid = relnamespace
            join pg_type t on t.oid = reltype
            where relkind in ('r', 'v', 'm') and {_USERS} order by c.oid""",
    ):
        yield Relation(
            oid=oid,
            id=f"u{oid}",
            schema=schema,
            name=name,
            kind=_KINDS[kind],
            columns=tuple(_columns(connection, oid)),
            owner=owner,
            row_type=row_type,
            row_array_type=array_type,
            definition=definition,
            comment=comment,
            grants=grants.get(oid, ()),
        )


def _columns(connection: Connection, relation: int) -> Iterable[Column]:
    for name, type_, modifier, not_null, default, comment in _rows(
        connection,
        f"""select attname, atttypid::int8, atttypmod, attnotnull,
               pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)
            from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
            where attrelid = {relation} and attnum > 0 order by attnum""",
    ):
        yield Column(name, PgType(type_, modifier), not not_null, default, comment)


def _indexes(connection: Connection) -> Iterable[Index]:
    for oid, schema, name, relation, keys, owner, definition, unique, primary, comment in _rows(
        connection,
        f"""select c.oid::int8, relnamespace::int8, relname, indrelid::int8,
               string_to_array(indkey::text, ' ')::int[], relowner::int8,
               pg_get_indexdef(c.oid), indisunique, indisprimary,
               obj_description(c.oid, 'pg_class')
            from pg_index i join pg_class c on c.oid = indexrelid
            join pg_namespace n on n.oid = relnamespace where {_USERS} order by c.oid""",
    ):
        yield Index(
            oid=oid,
            id=f"u{oid}",
            schema=schema,
            name=name,
            relation=relation,
            keys=tuple(_keys(connection, oid, keys)),
            owner=owner,
            definition=definition,
            unique=unique,
            primary=primary,
            comment=comment,
        )


def _keys(connection: Connection, index: int, keys: list[int]) -> Iterable[IndexKey]:
    for number, column in enumerate(keys, start=1):
        if column:
            yield IndexKey(column)
            continue
        ((name, type_, modifier, expression),) = _rows(
            connection,
            f"""select attname, atttypid::int8, atttypmod,
                   pg_get_indexdef(attrelid, attnum, true)
                from pg_attribute where attrelid = {index} and attnum = {number}""",
        )
        yield IndexKey(0, expression, PgType(type_, modifier), name)


def _constraints(connection: Connection) -> Iterable[Constraint]:
    for row in _rows(
        connection,
        f"""select c.oid::int8, connamespace::int8, conrelid::int8, conname, contype::text,
               coalesce(conkey, '{{}}'), pg_get_constraintdef(c.oid, true), conindid::int8,
               confrelid::int8, coalesce(confkey, '{{}}'), pg_get_expr(conbin, conrelid),
               obj_description(c.oid, 'pg_constraint')
            from pg_constraint c join pg_namespace n on n.oid = connamespace
            where {_USERS} and conrelid <> 0 order by c.oid""",
    ):
        oid, schema, relation, name, kind, columns, definition, index, foreign, *rest = row
        yield Constraint(
            oid=oid,
            schema=schema,
            relation=relation,
            name=name,
            kind=ConstraintKind(kind),
            columns=tuple(columns),
            definition=definition,
            index=index,
            foreign_relation=foreign,
            foreign_columns=tuple(rest[0]),
            check=rest[1],
            comment=rest[2],
        )


def _dependencies(connection: Connection) -> Iterable[Dependency]:
    for view, referenced in _rows(
        connection,
        """select distinct r.ev_class::int8, d.refobjid::int8 from pg_depend d
           join pg_rewrite r on r.oid = d.objid
           where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass
           and d.refobjid <> r.ev_class and r.ev_class >= 16384 order by 1, 2""",
    ):
        yield Dependency(f"u{view}", f"u{referenced}")


def _settings(connection: Connection) -> Iterable[Setting]:
    for name, value, description, type_, context, unit, category in _rows(
        connection,
        "select name, setting, short_desc, vartype, context, unit, category from pg_settings",
    ):
        yield Setting(name, value, description, type_, context, unit, category)
