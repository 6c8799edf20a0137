"""What stands in information_schema's views.

They show the relations of the system as well, as PostgreSQL's do. Other than there, materialized
views and sources are among them: they are what users of this database mostly read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.catalog.system.facts import INFORMATION_SCHEMA, PG_CATALOG
from waterclock.catalog.system.image import (
    Column,
    Constraint,
    ConstraintKind,
    Relation,
    RelationKind,
)
from waterclock.catalog.system.rows.picture import Picture
from waterclock.catalog.system.types import Types
from waterclock.model import interval_fields
from waterclock.model.pg_types import PgType

Values = Mapping[str, Any]

_TABLE_TYPES = {
    RelationKind.TABLE: "BASE TABLE",
    RelationKind.SOURCE: "SOURCE",
    RelationKind.SOURCE_PROGRESS: "SOURCE",
    RelationKind.VIEW: "VIEW",
    RelationKind.MATERIALIZED_VIEW: "MATERIALIZED VIEW",
}
_CONSTRAINT_TYPES = {
    ConstraintKind.PRIMARY_KEY: "PRIMARY KEY",
    ConstraintKind.UNIQUE: "UNIQUE",
    ConstraintKind.CHECK: "CHECK",
    ConstraintKind.FOREIGN_KEY: "FOREIGN KEY",
}
_PRIVILEGES = {
    **{"a": "INSERT", "r": "SELECT", "w": "UPDATE", "d": "DELETE", "D": "TRUNCATE"},
    **{"x": "REFERENCES", "t": "TRIGGER"},
}
_TABLE_LETTERS = "arwdDxt"
_MAX_OCTETS = 1073741824


def yes_or_no(value: bool) -> str:
    return "YES" if value else "NO"


class InformationRows:
    """The rows of one database at one version."""

    def __init__(self, picture: Picture, types: Types) -> None:
        self._picture = picture
        self._types = types
        self._catalog = picture.database.name
        self.system_owner = picture.image.system_owner

    def tables(self) -> Mapping[str, Iterator[Values]]:
        return {
            "information_schema_catalog_name": iter([{"catalog_name": self._catalog}]),
            "character_sets": iter([self._characters()]),
            "schemata": self._schemata(),
            "tables": self._tables(),
            "columns": self._columns(),
            "views": self._views(),
            "table_constraints": self._table_constraints(),
            "key_column_usage": self._key_columns(),
            "constraint_column_usage": self._constraint_columns(),
            "constraint_table_usage": self._constraint_tables(),
            "referential_constraints": self._references(),
            "check_constraints": self._checks(),
            "table_privileges": self._table_privileges(),
            "role_table_grants": self._table_privileges(),
            "enabled_roles": self._roles(),
            "applicable_roles": self._applicable_roles(),
        }

    def table(self, schema: str, name: str, prefix: str = "table") -> dict[str, Any]:
        return {
            f"{prefix}_catalog": self._catalog,
            f"{prefix}_schema": schema,
            f"{prefix}_name": name,
        }

    def _of(self, relation: Relation, prefix: str = "table") -> dict[str, Any]:
        return self.table(self._picture.schema_name(relation.schema), relation.name, prefix)

    def schema_row(self, name: str, owner: int) -> Values:
        return {
            "catalog_name": self._catalog,
            "schema_name": name,
            "schema_owner": self._picture.role_name(owner),
        }

    def _characters(self) -> Values:
        return {
            "character_set_name": "UTF8",
            "character_repertoire": "UCS",
            "form_of_use": "UTF8",
            # PostgreSQL names no collation of its catalogue for C.UTF-8.
            "default_collate_catalog": self._catalog,
        }

    def _schemata(self) -> Iterator[Values]:
        for schema in self._picture.schemas.values():
            yield self.schema_row(schema.name, schema.owner)

    def _tables(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            yield {
                **self._of(relation),
                "table_type": _TABLE_TYPES[relation.kind],
                "is_insertable_into": yes_or_no(relation.kind is RelationKind.TABLE),
                "is_typed": "NO",
            }

    def _columns(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            schema = self._picture.schema_name(relation.schema)
            updatable = relation.kind is RelationKind.TABLE
            for number, column in enumerate(relation.columns, start=1):
                yield self.column(schema, relation.name, number, column, updatable=updatable)

    def column(
        self,
        schema: str,
        relation: str,
        number: int,
        column: Column,
        *,
        updatable: bool,
        collation: int | None = None,
    ) -> Values:
        declared = self._types.find(column.type.oid)
        assert declared is not None, f"type {column.type.oid} is unknown"
        base = self._types.base(column.type)
        found = self._types.find(base.oid)
        assert found is not None, f"type {base.oid} is unknown"
        values = {
            **self.table(schema, relation),
            "column_name": column.name,
            "ordinal_position": number,
            "column_default": column.default,
            "is_nullable": yes_or_no(column.nullable),
            "data_type": self._data_type(base.oid),
            **self._sizes(base),
            "udt_catalog": self._catalog,
            "udt_schema": PG_CATALOG,
            "udt_name": found.name,
            "dtd_identifier": str(number),
            "is_self_referencing": "NO",
            "is_identity": "NO",
            "identity_cycle": "NO",
            "is_generated": "NEVER",
            "is_updatable": yes_or_no(updatable),
        }
        if declared.kind == "d":
            values |= self.table(INFORMATION_SCHEMA, declared.name, "domain")
        collation = declared.collation if collation is None else collation
        if collation not in (0, 100):
            values |= self.table(PG_CATALOG, "C", "collation")
        return values

    def _data_type(self, oid: int) -> str:
        return "ARRAY" if self._types.element_of(oid) is not None else self._types.format(oid)

    def _sizes(self, declared: PgType) -> Values:
        """The columns that tell how long a text, how precise a number or a time is."""
        oid, modifier = declared.oid, declared.modifier
        match oid:
            case 1042 | 1043:
                limited = modifier >= 0
                return {
                    "character_maximum_length": modifier - 4 if limited else None,
                    "character_octet_length": (modifier - 4) * 4 if limited else _MAX_OCTETS,
                }
            case 25:
                return {"character_octet_length": _MAX_OCTETS}
            case 21 | 23 | 20:
                bits = {21: 16, 23: 32, 20: 64}[oid]
                return _number(bits, 2, 0)
            case 700 | 701:
                return _number(24 if oid == 700 else 53, 2, None)
            case 1700:
                if modifier < 0:
                    return _number(None, 10, None)
                packed = modifier - 4
                return _number(packed >> 16 & 0xFFFF, 10, packed & 0x7FF)
            case 1082:
                return {"datetime_precision": 0}
            case 1186:
                places = interval_fields.places_of(modifier)
                fields = interval_fields.fields_of(modifier)
                kept = None if fields is None else interval_fields.shown(modifier).strip().upper()
                precision = 6 if places is None else places
                return {"datetime_precision": precision, "interval_type": kept}
            case 1083 | 1114 | 1184 | 1266:
                return {"datetime_precision": 6 if modifier < 0 else modifier}
            case _:
                return {}

    def _views(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            if relation.kind is RelationKind.VIEW:
                yield {
                    **self._of(relation),
                    "view_definition": relation.definition,
                    "check_option": "NONE",
                    "is_updatable": "NO",
                    "is_insertable_into": "NO",
                    "is_trigger_updatable": "NO",
                    "is_trigger_deletable": "NO",
                    "is_trigger_insertable_into": "NO",
                }

    # --- constraints ----------------------------------------------------------------------------

    def _constraint(self, found: Constraint, prefix: str = "constraint") -> dict[str, Any]:
        return self.table(self._picture.schema_name(found.schema), found.name, prefix)

    def _table_constraints(self) -> Iterator[Values]:
        for found in self._picture.constraints.values():
            unique = found.kind is ConstraintKind.UNIQUE
            yield {
                **self._constraint(found),
                **self._of(self._picture.relations[found.relation]),
                "constraint_type": _CONSTRAINT_TYPES[found.kind],
                "is_deferrable": "NO",
                "initially_deferred": "NO",
                "enforced": "YES",
                "nulls_distinct": "YES" if unique else None,
            }
        yield from self._not_nulls()

    def _not_nulls(self) -> Iterator[Values]:
        """PostgreSQL shows a column that is not null as a check of that name."""
        for relation in self._picture.relations.values():
            for number, column in enumerate(relation.columns, start=1):
                if not column.nullable:
                    schema = self._picture.schema_name(relation.schema)
                    yield {
                        **self.table(schema, _not_null_name(relation, number), "constraint"),
                        **self._of(relation),
                        "constraint_type": "CHECK",
                        "is_deferrable": "NO",
                        "initially_deferred": "NO",
                        "enforced": "YES",
                    }

    def _key_columns(self) -> Iterator[Values]:
        for found in self._picture.constraints.values():
            if found.kind is ConstraintKind.CHECK:
                continue
            relation = self._picture.relations[found.relation]
            foreign = found.kind is ConstraintKind.FOREIGN_KEY
            for place, number in enumerate(found.columns, start=1):
                yield {
                    **self._constraint(found),
                    **self._of(relation),
                    "column_name": relation.columns[number - 1].name,
                    "ordinal_position": place,
                    "position_in_unique_constraint": place if foreign else None,
                }

    def _used(self, found: Constraint) -> tuple[Relation, tuple[int, ...]]:
        """The relation and columns that a constraint uses: a foreign key, those it refers to."""
        if found.kind is ConstraintKind.FOREIGN_KEY:
            return self._picture.relations[found.foreign_relation], found.foreign_columns
        return self._picture.relations[found.relation], found.columns

    def _constraint_columns(self) -> Iterator[Values]:
        for found in self._picture.constraints.values():
            relation, columns = self._used(found)
            for number in columns:
                yield {
                    **self._of(relation),
                    "column_name": relation.columns[number - 1].name,
                    **self._constraint(found),
                }

    def _constraint_tables(self) -> Iterator[Values]:
        for found in self._picture.constraints.values():
            if found.kind is not ConstraintKind.CHECK:
                yield {**self._of(self._used(found)[0]), **self._constraint(found)}

    def _references(self) -> Iterator[Values]:
        by_index = {
            found.index: found
            for found in self._picture.constraints.values()
            if found.kind in (ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE)
        }
        for found in self._picture.constraints.values():
            if found.kind is ConstraintKind.FOREIGN_KEY:
                unique = by_index.get(found.index)
                yield {
                    **self._constraint(found),
                    **(self._constraint(unique, "unique_constraint") if unique else {}),
                    "match_option": "NONE",
                    "update_rule": "NO ACTION",
                    "delete_rule": "NO ACTION",
                }

    def _checks(self) -> Iterator[Values]:
        for found in self._picture.constraints.values():
            if found.kind is ConstraintKind.CHECK:
                clause = found.check or found.definition.removeprefix("CHECK ")
                yield {**self._constraint(found), "check_clause": clause}
        for relation in self._picture.relations.values():
            for number, column in enumerate(relation.columns, start=1):
                if not column.nullable:
                    schema = self._picture.schema_name(relation.schema)
                    name = _not_null_name(relation, number)
                    yield {
                        **self.table(schema, name, "constraint"),
                        "check_clause": f"{column.name} IS NOT NULL",
                    }

    # --- roles and privileges -------------------------------------------------------------------

    def _table_privileges(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            for grantor, grantee, letter, grantable in self._granted(relation):
                yield {
                    "grantor": self._picture.role_name(grantor),
                    "grantee": self._picture.role_name(grantee) if grantee else "PUBLIC",
                    **self._of(relation),
                    "privilege_type": _PRIVILEGES[letter],
                    "is_grantable": yes_or_no(grantable),
                    "with_hierarchy": yes_or_no(letter == "r"),
                }

    def _granted(self, relation: Relation) -> Iterator[tuple[int, int, str, bool]]:
        """Who gave whom what. Without grants, the owner has everything by default."""
        if not relation.grants:
            for letter in _TABLE_LETTERS:
                yield relation.owner, relation.owner, letter, True
        for grant in relation.grants:
            for letter in _TABLE_LETTERS:
                if letter in grant.privileges:
                    owned = grant.grantee == relation.owner
                    yield grant.grantor, grant.grantee, letter, owned or letter in grant.grantable

    def _roles(self) -> Iterator[Values]:
        for role in self._picture.image.roles:
            yield {"role_name": role.name}

    def _applicable_roles(self) -> Iterator[Values]:
        for found in self._picture.image.memberships:
            yield {
                "grantee": self._picture.role_name(found.member),
                "role_name": self._picture.role_name(found.role),
                "is_grantable": yes_or_no(found.admin),
            }


def _number(precision: int | None, radix: int, scale: int | None) -> Values:
    return {
        "numeric_precision": precision,
        "numeric_precision_radix": radix,
        "numeric_scale": scale,
    }


def _not_null_name(relation: Relation, number: int) -> str:
    return f"{relation.schema}_{relation.oid}_{number}_not_null"
