"""Relations whose rows are of this moment: of the session that asks, or of all sessions.

What such a relation shows comes from functions (`wc_...`), and from tables that it `needs`. Every
column is there; what nobody counts here is null.
"""

from __future__ import annotations

from dataclasses import dataclass

HERE = "\x01"
"""Stands for the schema of the current version's tables in the written text."""


@dataclass(frozen=True, slots=True)
class Live:
    """The query that gives the rows, and the tables of pg_catalog that it reads."""

    sql: str
    needs: tuple[str, ...] = ()


def _nulls(kind: str, *names: str) -> str:
    return ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name in names)


_SETTINGS = (
    "SELECT name, wc_session_setting(name, setting) AS setting, unit, category, short_desc, "
    "extra_desc, context, vartype, wc_setting_source(name, source) AS source, min_val, max_val, "
    "enumvals, boot_val, reset_val, sourcefile, sourceline, pending_restart "
    f'FROM {HERE}."pg_catalog.pg_settings"'
)
_STATEMENTS = (
    "SELECT s.name AS name, s.statement AS statement, s.made AS prepare_time, "
    "s.parameter_types AS parameter_types, s.from_sql AS from_sql, "
    "CAST(0 AS BIGINT) AS generic_plans, CAST(0 AS BIGINT) AS custom_plans "
    "FROM (SELECT unnest(wc_session_statements(0)) AS s)"
)
_CURSORS = (
    "SELECT s.name AS name, s.statement AS statement, s.is_holdable AS is_holdable, "
    "s.is_binary AS is_binary, s.is_scrollable AS is_scrollable, s.made AS creation_time "
    "FROM (SELECT unnest(wc_session_cursors(0)) AS s)"
)
_SESSIONS = "(SELECT unnest(wc_sessions(0)) AS s)"
_ACTIVITY = (
    "SELECT d.oid AS datid, s.datname AS datname, s.pid AS pid, r.oid AS usesysid, "
    "s.usename AS usename, s.application_name AS application_name, s.client_addr AS client_addr, "
    "s.backend_start AS backend_start, s.xact_start AS xact_start, s.query_start AS query_start, "
    "s.state_change AS state_change, s.state AS state, s.query AS query, "
    "'client backend' AS backend_type, "
    f"{_nulls('INTEGER', 'leader_pid', 'client_port')}, {_nulls('BIGINT', 'query_id')}, "
    f"{_nulls('UINTEGER', 'backend_xid', 'backend_xmin')}, "
    "s.wait_event_type AS wait_event_type, s.wait_event AS wait_event, "
    f"{_nulls('VARCHAR', 'client_hostname')} FROM {_SESSIONS} "
    f'LEFT JOIN {HERE}."pg_catalog.pg_database" AS d ON d.datname = s.datname '
    f'LEFT JOIN {HERE}."pg_catalog.pg_authid" AS r ON r.rolname = s.usename'
)
_UNCOUNTED = (
    *("xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched"),
    *("tup_inserted", "tup_updated", "tup_deleted", "conflicts", "temp_files", "temp_bytes"),
    *("deadlocks", "checksum_failures", "sessions", "sessions_abandoned", "sessions_fatal"),
    "sessions_killed",
)
_UNTIMED = (
    *("blk_read_time", "blk_write_time", "session_time", "active_time"),
    "idle_in_transaction_time",
)
_DATABASES = (
    "SELECT d.oid AS datid, d.datname AS datname, CAST((SELECT count(*) FROM "
    f"{_SESSIONS} WHERE s.datname = d.datname) AS INTEGER) AS numbackends, "
    f"{_nulls('BIGINT', *_UNCOUNTED)}, {_nulls('DOUBLE', *_UNTIMED)}, "
    f"{_nulls('TIMESTAMP', 'checksum_last_failure', 'stats_reset')} "
    f'FROM {HERE}."pg_catalog.pg_database" AS d'
)
_LOCKS = (
    "SELECT 'advisory' AS locktype, s.database AS database, s.classid AS classid, "
    "s.objid AS objid, s.objsubid AS objsubid, s.pid AS pid, s.mode AS mode, "
    "s.waitstart IS NULL AS granted, FALSE AS fastpath, s.waitstart AS waitstart, "
    f"{_nulls('UINTEGER', 'relation', 'transactionid')}, {_nulls('INTEGER', 'page')}, "
    f"{_nulls('SMALLINT', 'tuple')}, {_nulls('VARCHAR', 'virtualxid', 'virtualtransaction')} "
    "FROM (SELECT unnest(wc_locks(0)) AS s)"
)
_HOLDS = (
    "SELECT s.holder AS holder, s.kind AS kind, s.owner AS owner, s.object_id AS object_id, "
    "s.since AS since, s.lease_ms AS lease_ms, s.expires_at AS expires_at "
    "FROM (SELECT unnest(wc_holds(0)) AS s)"
)
LIVE = {
    ("pg_catalog", "pg_locks"): Live(_LOCKS),
    ("pg_catalog", "pg_settings"): Live(_SETTINGS),
    ("pg_catalog", "pg_prepared_statements"): Live(_STATEMENTS),
    ("pg_catalog", "pg_cursors"): Live(_CURSORS),
    ("pg_catalog", "pg_stat_activity"): Live(_ACTIVITY, ("pg_database", "pg_authid")),
    ("pg_catalog", "pg_stat_database"): Live(_DATABASES, ("pg_database",)),
    ("mz_internal", "mz_read_holds"): Live(_HOLDS),
}
