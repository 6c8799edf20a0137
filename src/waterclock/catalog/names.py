"""Names, before they are looked up: as written, where to look, and which ones are not to be had.

Names are compared exactly; folding an unquoted one to lower case has happened before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.catalog.errors import NameEmpty, NameReserved

IMPLICIT_SCHEMAS = ("pg_catalog", "mz_catalog", "mz_internal")
"""Searched before the search path, unless that names them."""
RESERVED_PREFIXES = ("pg_", "mz_")
USER_SCHEMA = "$user"
_RESERVED_ROLES = frozenset({"public", "none"})
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
_WORDS = """
all analyse analyze and any array as asc asymmetric authorization between binary both case cast
check coalesce collate collation column concurrently constraint create cross current_catalog
current_date current_role current_schema current_time current_timestamp current_user default
deferrable desc distinct do else end except exists extract false fetch for foreign freeze from
full grant greatest group grouping having ilike in initially inner intersect interval into is
isnull join lateral leading least left like limit localtime localtimestamp natural none
normalize not notnull null nullif offset on only or order outer overlaps overlay placing
position primary references returning right row select session_user setof similar some substring
symmetric table tablesample then time timestamp to trailing treat trim true union unique user
using values variadic verbose when where window with
"""
_KEYWORDS = frozenset(_WORDS.split())
"""Words of PostgreSQL's grammar that are not names unless they are quoted."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written, of up to three parts."""

    item: str
    schema: str | None = None
    database: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.item) if part)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a session looks names up."""

    database: str
    role: str
    search_path: tuple[str, ...] = (USER_SCHEMA, "public")

    @property
    def written_schemas(self) -> tuple[str, ...]:
        """The search path with the role's name in the place of `$user`."""
        return tuple(self.role if name == USER_SCHEMA else name for name in self.search_path)

    @property
    def searched_schemas(self) -> tuple[str, ...]:
        """Where an unqualified name is looked for, in order."""
        written = self.written_schemas
        return (*(name for name in IMPLICIT_SCHEMAS if name not in written), *written)


def check_name(kind: str, name: str) -> None:
    """Raise `NameEmpty`, or `NameReserved` if an object of the kind may not be called so."""
    if not name:
        raise NameEmpty(f"a {kind} needs a name that is not empty")
    prefix = next((p for p in RESERVED_PREFIXES if name.startswith(p)), None)
    match kind:
        case "schema" if prefix:
            raise NameReserved(
                f'unacceptable schema name "{name}"',
                detail=f'The prefix "{prefix}" is reserved for system schemas.',
            )
        case "role" if name in _RESERVED_ROLES:
            raise NameReserved(f'role name "{name}" is reserved')
        case "role" | "cluster" | "database" if prefix:
            raise NameReserved(
                f'{kind} name "{name}" is reserved',
                detail=f'Names of {kind}s that start with "{prefix}" are reserved.',
            )
        case _:
            pass


def quoted(name: str) -> str:
    """The name as SQL has to write it."""
    if _PLAIN.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
