"""What to do instead of what PostgreSQL has and Waterclock has not, where there is something."""

from __future__ import annotations

from waterclock.sql import ast
from waterclock.sql.errors import FeatureNotSupported

_ALWAYS_FRESH = "There is nothing to do: that goes on by itself."
_NO_KEYS = "Tables have no keys: a row that is there twice is two rows. Leave it out."
_NO_NUMBERS = "There are no sequences. Use bigint, and give the numbers yourself."
_IN_CLIENT = "Do it in the client, or as a view if it is a query."
_SUBSCRIBE = "SUBSCRIBE tells of every change of a table or view."
_OWNED = "Use DROP, REVOKE, and ALTER ... OWNER TO for each object."
_HINTS = {
    "ANALYSE": _ALWAYS_FRESH,
    "ANALYZE": _ALWAYS_FRESH,
    "CHECKPOINT": _ALWAYS_FRESH,
    "CLUSTER": _ALWAYS_FRESH,
    "REINDEX": _ALWAYS_FRESH,
    "VACUUM": _ALWAYS_FRESH,
    "CALL": _IN_CLIENT,
    "CREATE FUNCTION": _IN_CLIENT,
    "CREATE PROCEDURE": _IN_CLIENT,
    "DO": _IN_CLIENT,
    "CREATE RULE": _SUBSCRIBE,
    "CREATE TRIGGER": _SUBSCRIBE,
    "LISTEN": _SUBSCRIBE,
    "NOTIFY": _SUBSCRIBE,
    "CREATE DOMAIN": "Use its base type.",
    "CREATE TYPE": "Use text in the place of an enumeration, and jsonb in that of a record.",
    "CREATE EXTENSION": "All functions there are come with Waterclock.",
    "CREATE SEQUENCE": _NO_NUMBERS,
    "CREATE UNIQUE INDEX": _NO_KEYS,
    "ON CONFLICT": f"{_NO_KEYS} To replace a row, DELETE it first, in the same transaction.",
    "MERGE": "Use INSERT, UPDATE and DELETE in one transaction.",
    "LOCK": "Transactions are serializable without it; one of two that conflict fails.",
    "DROP OWNED": _OWNED,
    "REASSIGN OWNED": _OWNED,
    "CREATE UNLOGGED TABLE": "Leave the word UNLOGGED out.",
    "CREATE PUBLICATION": _SUBSCRIBE,
    "CREATE SUBSCRIPTION": "Use CREATE SOURCE ... FROM POSTGRES CONNECTION.",
    "CREATE FOREIGN TABLE": "Use CREATE SOURCE.",
    "CREATE SERVER": "Use CREATE CONNECTION.",
    "LIKE in CREATE TABLE": "Name the columns, or use CREATE TABLE ... AS ... WITH NO DATA.",
    "GENERATED of a column": f"{_NO_NUMBERS} What is computed belongs in a view.",
    "COPY from or to a file or program": (
        "Use COPY FROM STDIN or COPY TO STDOUT; \\copy of psql does that with a file of yours."
    ),
}


def refusal(statement: ast.Statement) -> FeatureNotSupported:
    """The error for a statement that nobody carries out, or for a clause that there is not."""
    if isinstance(statement, ast.Unsupported):
        what, position = statement.what, statement.position or None
    else:
        what, position = _words(statement), None
    return FeatureNotSupported(f"{what} is not supported", position, hint=_hint(what))


def _words(statement: ast.Statement) -> str:
    """The statement's kind, as statements say it."""
    words = type(statement).__name__
    return "".join(f" {c}" if c.isupper() else c.upper() for c in words).strip()


def _hint(what: str) -> str | None:
    if what.endswith(" inside WITH"):
        return "Make it a statement of its own, in the same transaction."
    return _HINTS.get(what)
