"""What a server is told before it starts, and where each value came from.

Every setting has one name, from which all its spellings follow: `pg_port` is `--pg-port` on the
command line, `WATERCLOCK_PG_PORT` in the environment and `pg_port = 6875` in the file. A flag wins
over the environment, the environment over the file, the file over the default.

A value is read once, here, into its type. One that is wrong is refused with the spelling that the
user wrote, and with what would be right. A name that is unknown is refused too, so that a slip of
the pen does not silently leave a default in force.

This module opens nothing but the configuration file, and knows nothing of what settings are for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from waterclock.errors import WaterclockError
from waterclock.sql.budget import DEFAULT_BUDGET, Budget

PREFIX = "WATERCLOCK_"
CONFIG = "config"
LOG_LEVELS = ("debug", "info", "warning", "error")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class BadConfiguration(WaterclockError):
    """A setting can not be used as it was given."""

    sqlstate: ClassVar[str] = "F0000"


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings of a server. The names are those that users write."""

    data: Path = Path("waterclock-data")
    log: str | None = None
    """The PostgreSQL database with the log; without one it is in the data directory."""
    blobs: str | None = None
    """The bucket with the blobs; without one they are in the data directory."""
    host: str = "127.0.0.1"
    pg_port: int = 6875
    http_port: int = 6876
    spark_master: str = "local[*]"
    spark: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Further settings of Spark, by their full names."""
    tick: int = 1000
    """Milliseconds between two looks after tables and views that nobody writes to."""
    tls: bool = False
    """Use TLS, with a certificate made by the server unless one is given."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    log_level: str = "info"
    max_result_bytes: int = 1 << 30
    """The rows of one result; see "Limits" in docs/operations.md, also for those below."""
    max_value_bytes: int = 64 << 20
    max_pattern_steps: int = 100_000_000
    max_connections: int = 1000
    max_connections_per_address: int = 900
    max_unauthenticated_connections: int = 200
    max_unauthenticated_connections_per_address: int = 100
    authentication_timeout: int = 10_000
    """Milliseconds from a connection to its session."""
    max_statement_bytes: int = DEFAULT_BUDGET.statement_bytes
    max_literal_bytes: int = DEFAULT_BUDGET.literal_bytes
    max_statement_tokens: int = DEFAULT_BUDGET.statement_tokens
    max_statement_steps: int = DEFAULT_BUDGET.statement_steps
    max_nesting_depth: int = DEFAULT_BUDGET.nesting_depth
    max_plan_nodes: int = DEFAULT_BUDGET.plan_nodes
    max_columns: int = DEFAULT_BUDGET.columns
    max_step_rows: int = 1_000_000
    """What a step of views takes at once, and how far views may be behind: see "Overload" there."""
    max_step_bytes: int = 512 << 20
    max_backlog_rows: int = 5_000_000
    max_backlog_bytes: int = 4 << 30
    max_backlog_age: int = 60_000
    """Milliseconds."""
    max_write_delay: int = 30_000
    """Milliseconds."""
    max_webhook_body_bytes: int = 5 << 20
    max_webhook_requests: int = 100
    max_catalog_memory: int = 512
    """Megabytes for queries over the system's relations."""

    @property
    def budget(self) -> Budget:
        """What one statement may ask of the parser and the planner."""
        return Budget(
            statement_bytes=self.max_statement_bytes,
            literal_bytes=self.max_literal_bytes,
            statement_tokens=self.max_statement_tokens,
            statement_steps=self.max_statement_steps,
            nesting_depth=self.max_nesting_depth,
            plan_nodes=self.max_plan_nodes,
            columns=self.max_columns,
        )

    plan_timeout: int = 60_000
    """Milliseconds that a statement may be planned for."""
    engine_wait: int = 60_000
    """Milliseconds that a statement waits for an engine that is being restarted."""
    engine_silence: int = 60_000
    """Milliseconds after which an engine that does not answer is replaced."""
    engine_deaths: int = 5
    """With so many deaths of the engine within five minutes the server ends."""
    step_timeout: int = 600_000
    """Milliseconds without progress after which a step of views is cancelled and tried again."""

    @property
    def uses_tls(self) -> bool:
        return self.tls or self.tls_cert is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as the user wrote it, and what the user calls the place."""

    spelling: str
    value: Any


def load(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Configuration:
    """The configuration from flags (None means not given), environment and file.

    Raises `BadConfiguration`, which names the flag, the variable or the line of the file.
    """
    flags = {name: value for name, value in flags.items() if value is not None}
    variables = _from_environment(environ)
    named = flags.get(CONFIG) or (variables[CONFIG].value if CONFIG in variables else None)
    given = _from_file(Path(named)) if named else {}
    given |= variables
    given |= {name: _Given(_flag(name), value) for name, value in flags.items()}
    given.pop(CONFIG, None)
    unknown = sorted(given.keys() - _READERS.keys())
    if unknown:
        raise _unknown(given[unknown[0]].spelling)
    read = {name: _READERS[name](each) for name, each in given.items()}
    configuration = Configuration(**read)
    _check_together(configuration)
    return configuration


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """The variables that are ours. Others may begin alike, for other purposes."""
    names = [*_READERS, CONFIG]
    found = {name: PREFIX + name.upper() for name in names}
    return {
        name: _Given(f"environment variable {variable}", environ[variable])
        for name, variable in found.items()
        if variable in environ
    }


def _from_file(path: Path) -> dict[str, _Given]:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise BadConfiguration(
            f'could not read configuration file "{path}": {error.strerror}',
            hint="Give the path of a TOML file with --config, or leave the flag out.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfiguration(
            f'configuration file "{path}" is not TOML: {error}',
            hint='A line of it is a name, an equals sign and a value, such as host = "127.0.0.1".',
        ) from error
    return {name: _Given(f'"{name}" in {path}', value) for name, value in table.items()}


def _unknown(spelling: str) -> BadConfiguration:
    known = ", ".join(sorted(_READERS))
    return BadConfiguration(f"unknown setting: {spelling}", hint=f"The settings are {known}.")


# One reader for each type of value. A flag and a variable give text, a file may give more.


def _path(given: _Given) -> Path:
    if isinstance(given.value, str | Path) and str(given.value):
        return Path(given.value).expanduser()
    raise _wrong(given, "a path", "Write it as text, such as ./waterclock-data.")


def _text(given: _Given) -> str:
    if isinstance(given.value, str) and given.value:
        return given.value
    raise _wrong(given, "a text", "Write it as text.")


def _integer(least: int, most: int, what: str) -> Callable[[_Given], int]:
    def read(given: _Given) -> int:
        value = given.value
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise _wrong(given, what, f"Write a whole number from {least} to {most}.")

    return read


def _switch(given: _Given) -> bool:
    words = {"true": True, "on": True, "yes": True, "1": True}
    words |= {"false": False, "off": False, "no": False, "0": False}
    value = given.value
    if isinstance(value, str):
        value = words.get(value.strip().lower())
    if isinstance(value, bool):
        return value
    raise _wrong(given, "true or false", "Write true or false.")


def _level(given: _Given) -> str:
    value = given.value.lower() if isinstance(given.value, str) else None
    if value in LOG_LEVELS:
        return str(value)
    raise _wrong(given, "a log level", f"Choose one of {', '.join(LOG_LEVELS)}.")


def _pairs(given: _Given) -> Mapping[str, str]:
    """A table of the file, a list of KEY=VALUE from flags, or such pairs with commas between."""
    value = given.value
    if isinstance(value, Mapping):
        return MappingProxyType(dict(_flattened(value)))
    written = value.split(",") if isinstance(value, str) else list(value)
    pairs = {}
    for pair in written:
        name, equals, setting = str(pair).partition("=")
        if not name.strip() or not equals:
            raise _wrong(given, "a pair KEY=VALUE", "Write spark.driver.memory=4g, for instance.")
        pairs[name.strip()] = setting.strip()
    return MappingProxyType(pairs)


def _flattened(table: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """In TOML, a dot in a bare name makes a table inside a table."""
    found: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            found += _flattened(value, f"{before}{name}.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            full = before + name
            found.append((full if full.startswith("spark.") else f"spark.{full}", text))
    return found


def _wrong(given: _Given, wanted: str, hint: str) -> BadConfiguration:
    return BadConfiguration(
        f"invalid value for {given.spelling}: {given.value!r} is not {wanted}", hint=hint
    )


_MAX_TEXT = 1 << 30
_PORT = _integer(0, 65_535, "a port")
_COUNT = _integer(1, 1_000_000, "a number of connections")
_BYTES = _integer(1 << 10, 1 << 50, "a number of bytes")
_MILLISECONDS = _integer(1, 24 * 3600 * 1000, "a number of milliseconds")
_READERS: Mapping[str, Callable[[_Given], Any]] = MappingProxyType(
    {
        "data": _path,
        "log": _text,
        "blobs": _text,
        "host": _text,
        "pg_port": _PORT,
        "http_port": _PORT,
        "spark_master": _text,
        "spark": _pairs,
        "tick": _integer(10, 3_600_000, "a number of milliseconds"),
        "tls": _switch,
        "tls_cert": _path,
        "tls_key": _path,
        "log_level": _level,
        "max_result_bytes": _BYTES,
        "max_value_bytes": _integer(1 << 10, 1 << 30, "a number of bytes"),
        "max_pattern_steps": _integer(1 << 16, 1 << 50, "a number of steps"),
        "max_connections": _COUNT,
        "max_connections_per_address": _COUNT,
        "max_unauthenticated_connections": _COUNT,
        "max_unauthenticated_connections_per_address": _COUNT,
        "authentication_timeout": _integer(100, 600_000, "a number of milliseconds"),
        "max_statement_bytes": _integer(1024, _MAX_TEXT, "a number of bytes"),
        "max_literal_bytes": _integer(1024, _MAX_TEXT, "a number of bytes"),
        "max_statement_tokens": _integer(100, 100_000_000, "a number of tokens"),
        "max_statement_steps": _integer(10_000, 10**12, "a number of steps"),
        "max_nesting_depth": _integer(20, 5000, "a number of levels"),
        "max_plan_nodes": _integer(10, 1_000_000, "a number of relations"),
        "max_columns": _integer(100, 100_000, "a number of columns"),
        "max_step_rows": _integer(1, 10**12, "a number of rows"),
        "max_step_bytes": _integer(1, 1 << 50, "a number of bytes"),
        "max_backlog_rows": _integer(1, 10**15, "a number of rows"),
        "max_backlog_bytes": _integer(1, 1 << 60, "a number of bytes"),
        "max_backlog_age": _integer(1, 10**12, "a number of milliseconds"),
        "max_write_delay": _integer(0, 3_600_000, "a number of milliseconds"),
        "max_webhook_body_bytes": _integer(1, 1 << 30, "a number of bytes"),
        "max_webhook_requests": _COUNT,
        "max_catalog_memory": _integer(32, 1_000_000, "a number of megabytes"),
        "plan_timeout": _MILLISECONDS,
        "engine_wait": _integer(0, 24 * 3600 * 1000, "a number of milliseconds"),
        "engine_silence": _MILLISECONDS,
        "engine_deaths": _integer(1, 1000, "a number of deaths"),
        "step_timeout": _MILLISECONDS,
    }
)
assert _READERS.keys() == {each.name for each in fields(Configuration)}
assert all(
    each.default is not MISSING or each.default_factory is not MISSING
    for each in fields(Configuration)
)


def _check_together(configuration: Configuration) -> None:
    if (configuration.tls_cert is None) != (configuration.tls_key is None):
        raise BadConfiguration(
            "--tls-cert and --tls-key belong together",
            hint="Give both, or only --tls for a certificate that the server makes.",
        )
    if configuration.pg_port == configuration.http_port != 0:
        raise BadConfiguration(
            f"--pg-port and --http-port are both {configuration.pg_port}",
            hint="Give them different ports.",
        )
