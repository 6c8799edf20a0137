"""Who may do what, as has_table_privilege and its like answer it."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.catalog.system.errors import InvalidValue, UndefinedObject
from waterclock.catalog.system.image import PUBLIC, Grant
from waterclock.catalog.system.rows.picture import Picture

_LETTERS = {
    **{"select": "r", "insert": "a", "update": "w", "delete": "d", "truncate": "D"},
    **{"references": "x", "trigger": "t", "execute": "X", "usage": "U", "create": "C"},
    **{"connect": "c", "temporary": "T", "temp": "T"},
}
_PUBLIC_BY_DEFAULT = {"database": "cT", "function": "X", "language": "U", "type": "U"}
NAMES = {
    **{"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE", "D": "TRUNCATE"},
    **{"x": "REFERENCES", "t": "TRIGGER", "X": "EXECUTE", "U": "USAGE", "C": "CREATE"},
    **{"c": "CONNECT", "T": "TEMPORARY"},
}


class Privileges:
    def __init__(self, picture: Picture) -> None:
        self._roles = {role.name: role for role in picture.image.roles}
        self._above: dict[int, set[int]] = {}
        for found in picture.image.memberships:
            self._above.setdefault(found.member, set()).add(found.role)
        self._owners: dict[tuple[str, int], tuple[int, tuple[Grant, ...]]] = {
            **{("table", r.oid): (r.owner, r.grants) for r in picture.relations.values()},
            **{("schema", s.oid): (s.owner, s.grants) for s in picture.schemas.values()},
            **{("database", d.oid): (d.owner, d.grants) for d in picture.image.databases},
        }

    def allowed(self, role_name: str, kind: str, oid: int, privileges: str) -> bool:
        """Whether the role has one of the privileges, which are separated by commas."""
        role = self._roles.get(role_name)
        if role is None:
            raise UndefinedObject(f'role "{role_name}" does not exist')
        wanted = [_letter(part) for part in privileges.split(",")]
        if role.superuser:
            return True
        kind = "table" if kind in ("any_column", "sequence") else kind
        acting = self.acts_as(role.oid)
        owned = self._owners.get((kind, oid))
        if owned is None:
            # The system's own relations and schemas are for everybody to read.
            defaults = {"table": "r", "schema": "U"} | _PUBLIC_BY_DEFAULT
            return any(letter in defaults.get(kind, "") for letter, _ in wanted)
        owner, grants = owned
        if owner in acting:
            return True
        if not grants:
            return any(
                letter in _PUBLIC_BY_DEFAULT.get(kind, "") and not option
                for letter, option in wanted
            )
        return any(
            letter in (grant.grantable if option else grant.privileges)
            for grant in grants
            if grant.grantee in acting or grant.grantee == PUBLIC
            for letter, option in wanted
        )

    def owns(self, role_name: str, kind: str, oid: int) -> bool:
        role, owned = self._roles.get(role_name), self._owners.get((kind, oid))
        return role is not None and owned is not None and owned[0] in self.acts_as(role.oid)

    def acts_as(self, role: int) -> set[int]:
        """The role and all those that it is a member of, directly or not."""
        found, waiting = {role}, [role]
        while waiting:
            for above in self._above.get(waiting.pop(), ()):
                if above not in found:
                    found.add(above)
                    waiting.append(above)
        return found

    def has_role(self, member: str, role: str) -> bool:
        acting, wanted = self._roles.get(member), self._roles.get(role)
        for name, found in ((member, acting), (role, wanted)):
            if found is None:
                raise UndefinedObject(f'role "{name}" does not exist')
        assert acting is not None
        assert wanted is not None
        return acting.superuser or wanted.oid in self.acts_as(acting.oid)


def _letter(text: str) -> tuple[str, bool]:
    """The letter of a privilege, and whether it is about the right to grant it."""
    plain = text.strip().lower()
    option = plain.endswith(" with grant option")
    letter = _LETTERS.get(plain.removesuffix(" with grant option"))
    if letter is None:
        raise InvalidValue(f'unrecognized privilege type: "{text.strip()}"')
    return letter, option


def exploded(items: list[str] | None, roles: Mapping[str, int]) -> list[dict[str, object]] | None:
    """The rows of aclexplode."""
    if items is None:
        return None
    rows: list[dict[str, object]] = []
    for item in items:
        who, _, rest = item.rpartition("=") if '"' not in item else item.partition("=")
        letters, _, grantor = rest.partition("/")
        for place, letter in enumerate(letters):
            if letter == "*":
                continue
            rows.append(
                {
                    "grantor": roles.get(grantor.strip('"'), 0),
                    "grantee": roles.get(who.strip('"'), 0),
                    "privilege_type": NAMES.get(letter, letter),
                    "is_grantable": letters[place + 1 : place + 2] == "*",
                }
            )
    return rows
