"""A small catalog, and an answerer over it whose catalog can be exchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from waterclock.catalog.system.answerer import CatalogResult, DuckDbAnswerer
from waterclock.catalog.system.image import (
    CatalogImage,
    Cluster,
    Column,
    Connection,
    Constraint,
    ConstraintKind,
    Database,
    Dependency,
    Grant,
    Hydration,
    Index,
    IndexKey,
    Membership,
    Relation,
    RelationKind,
    Replica,
    Role,
    Schema,
    Secret,
    Setting,
    Sink,
    Source,
    SourceStatus,
)
from waterclock.catalog.system.session import SessionFacts
from waterclock.model.pg_types import INT4, TEXT, numeric

IMAGE = CatalogImage(
    version=1,
    databases=(Database(20000, "u1", "shop", 20001), Database(20002, "u2", "other", 20001)),
    roles=(
        Role(20001, "u1", "admin", superuser=True),
        Role(20003, "u2", "reader", login=False),
        Role(20004, "u3", "alice"),
    ),
    system_owner=20001,
    schemas=(
        Schema(20010, "u3", 20000, "public", 20001),
        Schema(20011, "u4", 20000, "sales", 20001, comment="orders"),
        Schema(20012, "u5", 20002, "public", 20001),
    ),
    relations=(
        Relation(
            oid=20020,
            id="u10",
            schema=20010,
            name="customers",
            kind=RelationKind.TABLE,
            columns=(
                Column("id", INT4, nullable=False),
                Column("name", TEXT, default="'x'::text", comment="as on the letter"),
                Column("balance", numeric(10, 2)),
            ),
            owner=20001,
            row_type=20021,
            row_array_type=20022,
            comment="people",
            grants=(Grant(20003, 20001, frozenset("r")),),
        ),
        Relation(
            oid=20023,
            id="u11",
            schema=20011,
            name="totals",
            kind=RelationKind.MATERIALIZED_VIEW,
            columns=(Column("n", INT4),),
            owner=20001,
            definition=" SELECT 1 AS n;",
            cluster="u1",
        ),
        Relation(
            oid=20024,
            id="u12",
            schema=20010,
            name="clicks",
            kind=RelationKind.SOURCE,
            columns=(Column("at", INT4),),
            owner=20001,
            cluster="u1",
        ),
        Relation(
            oid=20025,
            id="u13",
            schema=20012,
            name="elsewhere",
            kind=RelationKind.TABLE,
            columns=(Column("x", INT4),),
            owner=20001,
        ),
    ),
    indexes=(
        Index(
            oid=20030,
            id="u14",
            schema=20010,
            name="customers_name",
            relation=20020,
            keys=(IndexKey(2), IndexKey(0, "balance + 1", numeric(10, 2))),
            owner=20001,
            definition="CREATE INDEX customers_name ON public.customers USING btree (name)",
        ),
    ),
    constraints=(
        Constraint(
            20040,
            20010,
            20020,
            "customers_pkey",
            ConstraintKind.PRIMARY_KEY,
            (1,),
            "PRIMARY KEY (id)",
        ),
    ),
    memberships=(Membership(20003, 20004, 20001),),
    sources=(Source(20024, "load-generator", envelope="none"),),
    connections=(Connection(20050, "u15", 20010, "broker", "kafka", 20001),),
    secrets=(Secret(20051, "u16", 20010, "password", 20001),),
    sinks=(Sink(20052, "u17", 20010, "out", "kafka", 20001, connection="u15"),),
    clusters=(Cluster("u1", "quickstart", 20001, (Replica("u1", "r1", "small"),)),),
    source_statuses=(SourceStatus("u12", "running", details='{"a": 1}'),),
    hydration=(Hydration("u11", "u1", True),),
    dependencies=(Dependency("u11", "u10"),),
    settings=(
        Setting("TimeZone", "UTC"),
        Setting("statement_timeout", "0", unit="ms", type="integer"),
        Setting("jit", "on", type="bool"),
    ),
)


class World:
    """An answerer, a session, and the catalog that can be exchanged."""

    def __init__(self) -> None:
        self.image = IMAGE
        self.session = SessionFacts(
            "admin", "admin", "shop", backend_pid=7, application_name="a test"
        )
        self.answerer = DuckDbAnswerer(lambda: self.image)

    def run(self, sql: str, *parameters: Any, **changes: Any) -> CatalogResult:
        """Ask in the session as it is with these changes."""
        return self.answerer.execute(sql, parameters, replace(self.session, **changes))

    def rows(self, sql: str, *parameters: Any, **changes: Any) -> list[tuple[Any, ...]]:
        columns = [c.to_pylist() for c in self.run(sql, *parameters, **changes).rows.columns]
        return list(zip(*columns, strict=True))

    def close(self) -> None:
        self.answerer.close()
