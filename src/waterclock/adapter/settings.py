"""Session variables: their names, what they may be, and what they are now.

Values are text, as PostgreSQL shows them. A variable has the value of SET LOCAL until the end of
the transaction, else that of SET, else the one the session began with. A change inside a
transaction is taken back if the transaction is.

Variables of clients and of PostgreSQL that mean nothing here are accepted and kept, so that drivers
which set them are content; a name that is neither known nor qualified is an error.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle, Manner
from waterclock.oracle.selection import Isolation
from waterclock.sql.options import shown_duration


class UnknownSetting(WaterclockError):
    """No variable has that name."""

    sqlstate: ClassVar[str] = "42704"


class InvalidSetting(WaterclockError):
    """The variable can not have that value."""

    sqlstate: ClassVar[str] = "22023"


class FixedSetting(WaterclockError):
    """The variable can not be changed."""

    sqlstate: ClassVar[str] = "55P02"


Check = Callable[[str], str]
"""The value in its usual form; `ValueError` if it is none."""


def _any(value: str) -> str:
    return value


def _boolean(value: str) -> str:
    lowered = value.lower()
    for shown, words in (("on", ("on", "true", "yes", "1")), ("off", ("off", "false", "no", "0"))):
        if lowered and any(word.startswith(lowered) for word in words):
            return shown
    raise ValueError(value)


def _one_of(*allowed: str) -> Check:
    def check(value: str) -> str:
        for each in allowed:
            if each.lower() == value.lower():
                return each
        raise ValueError(value)

    return check


def _fixed(value: str) -> str:
    raise FixedSetting("the parameter cannot be changed", detail=f'It can not become "{value}".')


_MILLIS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: str) -> int:
    """A duration such as `500`, `10s` or `1 min`; `ValueError` if it is none."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value)
    if found is None or found[2] not in _MILLIS:
        raise ValueError(value)
    return round(float(found[1]) * _MILLIS[found[2]])


def _duration(value: str) -> str:
    millis = milliseconds(value)
    return shown_duration(millis) if millis else "0"


def bounded_staleness(value: str) -> int | None:
    """How stale reads may be, in milliseconds, if that is what the isolation level bounds."""
    found = _STALENESS.fullmatch(value.strip())
    return None if found is None else milliseconds(found[1].lower())


_STALENESS = re.compile(r"bounded\s+staleness\s+(.+)", re.IGNORECASE)


def _isolation(*allowed: str) -> Check:
    """A level by its name, or `bounded staleness` with a duration."""
    named = _one_of(*allowed)

    def check(value: str) -> str:
        bound_ms = bounded_staleness(value)
        if bound_ms is None:
            return named(value)
        if not bound_ms:
            raise ValueError(value)
        return f"{Isolation.BOUNDED_STALENESS} {shown_duration(bound_ms)}"

    return check


_HOURS = re.compile(r"([+-]?\d{1,2})(:00)?")


def _time_zone(value: str) -> str:
    if value.lower() in ("utc", "gmt", "z"):
        return value.upper() if value.lower() != "z" else "UTC"
    hours = _HOURS.fullmatch(value)
    if hours is not None:
        # A number counts to the east; with minutes it is a zone of POSIX, which count to the west.
        return _zone_to_the_east(int(hours[1]) * (-1 if hours[2] else 1))
    by_lower = {name.lower(): name for name in zoneinfo.available_timezones()}
    if value.lower() not in by_lower:
        raise ValueError(value)
    return by_lower[value.lower()]


def _zone_to_the_east(hours: int) -> str:
    """The name of the zone that is always so many hours from UTC; such names count to the west."""
    if not -12 <= hours <= 14:
        raise ValueError(hours)
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def _float_digits(value: str) -> str:
    if not -15 <= int(value) <= 3:
        raise ValueError(value)
    return str(int(value))


def _utf8(value: str) -> str:
    if value.strip("'").replace("-", "").lower() not in ("utf8", "unicode", "sqlascii"):
        raise ValueError(value)
    return "UTF8"


def _date_style(value: str) -> str:
    words = {word.strip().upper() for word in value.split(",")}
    if not words <= {"ISO", "MDY", "US", "NONEURO", "NONEUROPEAN", "DEFAULT"}:
        raise ValueError(value)  # days before months would be read as months
    return "ISO, MDY"


_LEVELS = (
    *("debug5", "debug4", "debug3", "debug2", "debug1"),
    *("log", "info", "notice", "warning", "error"),
)
"""How grave a message is, the least first."""


def _level(value: str) -> str:
    return "debug2" if value.lower() == "debug" else _one_of(*_LEVELS)(value)


@dataclass(frozen=True, slots=True)
class Definition:
    """A variable: its name as shown, its first value, and what it may be."""

    name: str
    default: str
    check: Check = _any
    reported: bool = False
    """Whether clients are told whenever it changes."""


DEFINITIONS = (
    Definition("application_name", "", reported=True),
    Definition("client_encoding", "UTF8", _utf8, reported=True),
    Definition("DateStyle", "ISO, MDY", _date_style, reported=True),
    Definition("default_transaction_read_only", "off", _boolean, reported=True),
    Definition("in_hot_standby", "off", _fixed, reported=True),
    Definition("integer_datetimes", "on", _fixed, reported=True),
    Definition("IntervalStyle", "postgres", _one_of(*IntervalStyle), reported=True),
    Definition("is_superuser", "on", _fixed, reported=True),
    Definition("server_encoding", "UTF8", _fixed, reported=True),
    Definition("server_version", "15.0", _fixed, reported=True),
    Definition("session_authorization", "", reported=True),
    Definition("standard_conforming_strings", "on", _one_of("on"), reported=True),
    Definition("TimeZone", "UTC", _time_zone, reported=True),
    Definition("mz_version", "v26.10.0 (waterclock)", _fixed, reported=True),
    Definition("cluster", "quickstart", reported=True),
    Definition("database", "waterclock", reported=True),
    Definition("search_path", '"$user", public', reported=True),
    Definition("server_version_num", "150000", _fixed),
    Definition("bytea_output", "hex", _one_of("hex")),
    Definition("client_min_messages", "notice", _level),
    Definition("extra_float_digits", "1", _float_digits, reported=True),
    Definition("role", "none"),
    Definition("statement_timeout", "0", _duration),
    Definition("lock_timeout", "0", _duration),
    Definition("idle_in_transaction_session_timeout", "0", _duration),
    Definition(
        "transaction_isolation",
        "strict serializable",
        _isolation("strict serializable", "serializable"),
    ),
    Definition(
        "default_transaction_isolation",
        "strict serializable",
        _isolation(
            "strict serializable",
            "serializable",
            "repeatable read",
            "read committed",
            "read uncommitted",
        ),
    ),
    Definition("transaction_read_only", "off", _boolean),
    Definition("default_transaction_deferrable", "off", _boolean),
    Definition("real_time_recency", "off", _boolean),
    Definition("real_time_recency_timeout", "10s", _duration),
    Definition("subscription_lease", "1h", _duration),
    Definition("max_identifier_length", "63", _fixed),
    Definition("max_index_keys", "32", _fixed),
    Definition("block_size", "8192", _fixed),
    Definition("lc_collate", "C.UTF-8", _fixed),
    Definition("lc_ctype", "C.UTF-8", _fixed),
    Definition("lc_messages", "C"),
    Definition("lc_monetary", "C"),
    Definition("lc_numeric", "C"),
    Definition("lc_time", "C"),
    Definition("jit", "off", _boolean),
    Definition("row_security", "on", _boolean),
    Definition("xmloption", "content"),
    Definition("synchronous_commit", "on"),
    Definition("default_table_access_method", "heap"),
    Definition("default_tablespace", ""),
    Definition("check_function_bodies", "on", _boolean),
    Definition("escape_string_warning", "on", _boolean),
    Definition("password_encryption", "scram-sha-256", _one_of("scram-sha-256")),
    Definition("max_connections", "1000", _fixed),
    Definition("enable_seqscan", "on", _boolean),
    Definition("geqo", "on", _boolean),
    Definition("work_mem", "4MB"),
    Definition("maintenance_work_mem", "64MB"),
    Definition("effective_cache_size", "4GB"),
    Definition("random_page_cost", "4"),
    Definition("seq_page_cost", "1"),
    Definition("cursor_tuple_fraction", "0.1"),
    Definition("from_collapse_limit", "8"),
    Definition("join_collapse_limit", "8"),
    Definition("max_parallel_workers_per_gather", "2"),
    Definition("plan_cache_mode", "auto"),
    Definition("constraint_exclusion", "partition"),
    Definition("synchronize_seqscans", "on", _boolean),
    Definition("idle_session_timeout", "0", _one_of("0")),
    Definition("quote_all_identifiers", "off", _one_of("off")),
    Definition("session_replication_role", "origin", _one_of("origin")),
    Definition("transform_null_equals", "off", _one_of("off")),
    Definition("array_nulls", "on", _one_of("on")),
    Definition("auto_route_catalog_queries", "on", _boolean),
    Definition("welcome_message", "off", _boolean),
    Definition("current_object_missing_warnings", "off", _boolean),
)
_BY_NAME = {definition.name.lower(): definition for definition in DEFINITIONS}


class Settings:
    """The variables of one session."""

    def __init__(self, first: Mapping[str, str]) -> None:
        """`first` are the values that RESET returns to, where they are not the usual ones."""
        self._first = {name.lower(): value for name, value in first.items()}
        self._session: dict[str, str] = {}
        self._local: dict[str, str] = {}
        self._before: dict[str, str] | None = None
        self._reported: Mapping[str, str] = self._report()

    def get(self, name: str) -> str:
        """The value now; `UnknownSetting`."""
        key = name.lower()
        for values in (self._local, self._session, self._first):
            if key in values:
                return values[key]
        if key == "transaction_isolation":
            # What is weaker than serializable gets more than it asks for.
            usual = self.get("default_transaction_isolation")
            is_weaker = usual == "serializable" or bounded_staleness(usual) is not None
            return usual if is_weaker else "strict serializable"
        return self._definition(key).default

    def set(self, name: str, value: str, *, local: bool = False) -> None:
        """Give the variable a value; `UnknownSetting`, `InvalidSetting`, `FixedSetting`."""
        key = name.lower()
        (self._local if local else self._session)[key] = self.checked(name, value)
        if not local:
            self._local.pop(key, None)
        self._reported = self._report()

    def begin_with(self, name: str, value: str) -> None:
        """Let RESET return to this value; raises as `set` does."""
        self._first[name.lower()] = self.checked(name, value)
        self._reported = self._report()

    @classmethod
    def checked(cls, name: str, value: str) -> str:
        """The value as it is shown when it has been set; raises as `set` does."""
        return cls._checked(cls._definition(name.lower()), value)

    def reset(self, name: str | None) -> None:
        """Return to the value the session began with; None for all of them."""
        if name is None:
            self._session.clear()
            self._local.clear()
        else:
            self._definition(name.lower())
            self._session.pop(name.lower(), None)
            self._local.pop(name.lower(), None)
        self._reported = self._report()

    def shown_name(self, name: str) -> str:
        return self._definition(name.lower()).name

    def all(self) -> dict[str, str]:
        """Every variable, by the name it is shown under."""
        return {d.name: self.get(d.name) for d in sorted(DEFINITIONS, key=lambda d: d.name.lower())}

    @property
    def reported(self) -> Mapping[str, str]:
        """What clients are told; another object after each change."""
        return self._reported

    def changed(self) -> dict[str, str]:
        """The values that are not the usual ones, by lower-case name."""
        return {**self._first, **self._session, **self._local}

    def shows(self, severity: str) -> bool:
        """Whether messages of that severity are told to the client."""
        least = self.get("client_min_messages")
        return _LEVELS.index(severity.lower()) >= _LEVELS.index(least)

    @property
    def manner(self) -> Manner:
        """How values are written as text."""
        style = IntervalStyle(self.get("IntervalStyle"))
        return Manner(self.get("TimeZone"), style, int(self.get("extra_float_digits")))

    @property
    def isolation(self) -> tuple[Isolation, int | None]:
        """What reads promise, and how stale they may be at most if that is bounded."""
        value = self.get("transaction_isolation")
        bound_ms = bounded_staleness(value)
        if bound_ms is not None:
            return Isolation.BOUNDED_STALENESS, bound_ms
        return Isolation(value), None

    @property
    def wants_recency(self) -> bool:
        """Whether reads are to reflect what is upstream when they are issued."""
        return self.get("real_time_recency") == "on"

    @property
    def search_path(self) -> tuple[str, ...]:
        parts = self.get("search_path").split(",")
        return tuple(part.strip().strip('"').strip("'") for part in parts if part.strip())

    def begin(self) -> None:
        """A transaction begins."""
        self._before = dict(self._session)

    def end(self, *, committed: bool) -> None:
        """It ends: what was local goes, and everything if it is rolled back."""
        if not committed and self._before is not None:
            self._session = self._before
        self._before = None
        if self._local or not committed:
            self._local = {}
            self._reported = self._report()

    def _report(self) -> Mapping[str, str]:
        return {d.name: self.get(d.name) for d in DEFINITIONS if d.reported}

    @staticmethod
    def _definition(key: str) -> Definition:
        if key in _BY_NAME:
            return _BY_NAME[key]
        if "." in key:  # a variable of an extension or of the client's own
            return Definition(key, "")
        raise UnknownSetting(f'unrecognized configuration parameter "{key}"')

    @staticmethod
    def _checked(definition: Definition, value: str) -> str:
        try:
            return definition.check(value)
        except FixedSetting:
            raise FixedSetting(f'parameter "{definition.name}" cannot be changed') from None
        except ValueError:
            raise InvalidSetting(
                f'invalid value for parameter "{definition.name}": "{value}"'
            ) from None


def is_known(name: str) -> bool:
    """Whether there is such a variable."""
    return name.lower() in _BY_NAME or "." in name
