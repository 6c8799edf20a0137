"""What exists from the first start on, under numbers that never change.

Where PostgreSQL has the same thing, it has the same number here. The schemas of the system are seen
from every database and hold no user's items.
"""

from __future__ import annotations

from waterclock.catalog.draft import Draft
from waterclock.catalog.objects import (
    PUBLIC,
    Cluster,
    Database,
    Grant,
    Namespace,
    Oid,
    Privilege,
    Role,
)

SYSTEM_ROLE = Oid(10)
DEFAULT_DATABASE = Oid(5)
DEFAULT_CLUSTER = Oid(14_000)
PUBLIC_SCHEMA = Oid(2200)
SYSTEM_SCHEMAS = {
    "pg_catalog": Oid(11),
    "information_schema": Oid(13_207),
    "mz_catalog": Oid(14_999),
    "mz_internal": Oid(14_998),
}
_READ_ONLY = frozenset({Privilege.USAGE})
_EVERYTHING = frozenset({Privilege.USAGE, Privilege.CREATE})


def add_builtins(draft: Draft, name: str = "waterclock") -> None:
    """Fill a catalog that has nothing; `name` is that of the role and of the database."""
    draft.adopt(
        Role(
            oid=SYSTEM_ROLE,
            name=name,
            superuser=True,
            login=True,
            create_role=True,
            create_database=True,
        )
    )
    draft.adopt(Database(oid=DEFAULT_DATABASE, name=name, owner=SYSTEM_ROLE))
    draft.adopt(Cluster(oid=DEFAULT_CLUSTER, name="quickstart", owner=SYSTEM_ROLE))
    draft.adopt(public_schema(PUBLIC_SCHEMA, DEFAULT_DATABASE, SYSTEM_ROLE))
    for schema, oid in SYSTEM_SCHEMAS.items():
        grants = (_usage_for_all(SYSTEM_ROLE), Grant(SYSTEM_ROLE, SYSTEM_ROLE, _EVERYTHING))
        draft.adopt(
            Namespace(oid=oid, name=schema, owner=SYSTEM_ROLE, database=None, grants=grants)
        )


def public_schema(oid: Oid, database: Oid, owner: Oid) -> Namespace:
    """The schema that a new database begins with. Everybody may use it; the owner may create."""
    grants = (_usage_for_all(owner), Grant(owner, owner, _EVERYTHING))
    return Namespace(oid=oid, name="public", owner=owner, database=database, grants=grants)


def _usage_for_all(owner: Oid) -> Grant:
    return Grant(PUBLIC, owner, _READ_ONLY)
