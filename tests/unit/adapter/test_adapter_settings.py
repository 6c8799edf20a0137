"""The variables of a session: which values they take, and in which form."""

from __future__ import annotations

import pytest

from waterclock.adapter.settings import Settings
from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle, Manner


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("utc", "UTC"),
        ("europe/berlin", "Europe/Berlin"),
        ("0", "UTC"),
        ("-5", "Etc/GMT+5"),
        ("14", "Etc/GMT-14"),
        # POSIX counts to the west.
        ("+02:00", "Etc/GMT+2"),
        ("-02:00", "Etc/GMT-2"),
    ],
)
def test_zones_are_kept_by_a_name_that_everything_knows(given: str, kept: str) -> None:
    settings = Settings({})
    settings.set("TimeZone", given)
    assert settings.get("timezone") == kept


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TimeZone", value) for value in ("Mars/Base", "+05:30", "15", "-13", "1.5")),
        # What would be shown otherwise, but is not, is refused.
        *(("extra_float_digits", value) for value in ("-16", "4", "many")),
        *(("IntervalStyle", "iso"), ("bytea_output", "escape"), ("array_nulls", "off")),
        *(("idle_session_timeout", "1000"), ("session_replication_role", "replica")),
        # Texts would be read with days and months exchanged.
        *(("DateStyle", value) for value in ("ISO, DMY", "YMD", "European", "German")),
    ],
)
def test_what_is_not_done_is_refused(name: str, value: str) -> None:
    settings = Settings({})
    before = settings.get(name)
    with pytest.raises(WaterclockError) as caught:
        settings.set(name, value)
    assert caught.value.sqlstate == "22023"
    assert settings.get(name) == before


def test_the_style_of_intervals_is_told_to_clients() -> None:
    settings = Settings({})
    assert settings.reported["IntervalStyle"] == "postgres"
    settings.begin()
    settings.set("intervalstyle", "ISO_8601", local=True)
    assert settings.reported["IntervalStyle"] == "iso_8601"
    assert settings.manner == Manner("UTC", IntervalStyle.ISO_8601)
    settings.end(committed=True)
    assert settings.reported["IntervalStyle"] == "postgres"
    settings.begin_with("IntervalStyle", "sql_standard")
    settings.set("IntervalStyle", "postgres_verbose")
    settings.reset("IntervalStyle")
    assert settings.manner.intervals is IntervalStyle.SQL_STANDARD


def test_messages_below_a_level_are_kept_from_the_client() -> None:
    settings = Settings({})
    told = {}
    for level in ("debug", "notice", "WARNING", "error"):
        settings.set("client_min_messages", level)
        told[settings.get("client_min_messages")] = [
            each for each in ("NOTICE", "WARNING") if settings.shows(each)
        ]
    both = ["NOTICE", "WARNING"]
    assert told == {"debug2": both, "notice": both, "warning": ["WARNING"], "error": []}
    with pytest.raises(WaterclockError):
        settings.set("client_min_messages", "loud")


@pytest.mark.parametrize("name", ["random_page_cost", "synchronize_seqscans", "plan_cache_mode"])
def test_what_only_a_planner_reads_can_be_set(name: str) -> None:
    settings = Settings({})
    settings.set(name, "off")
    assert settings.get(name) == "off"
    settings.reset(name)
    assert settings.get(name) != "off"
