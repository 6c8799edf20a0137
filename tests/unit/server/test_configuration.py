"""Settings of the server: where they come from, which wins, and how a wrong one is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waterclock.server.configuration import BadConfiguration, Configuration, is_loopback, load


def file_with(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "waterclock.toml"
    path.write_text(text)
    return path


def test_defaults() -> None:
    found = load({}, {})
    assert found == Configuration()
    assert (found.host, found.pg_port, found.http_port) == ("127.0.0.1", 6875, 6876)
    assert found.data == Path("waterclock-data")
    assert not found.uses_tls


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, 'pg_port = 1\nhttp_port = 2\ntick = 30\nhost = "::1"\n')
    environ = {"WATERCLOCK_PG_PORT": "11", "WATERCLOCK_HTTP_PORT": "12", "PATH": "/bin"}
    found = load({"pg_port": "21", "config": str(path), "host": None}, environ)
    assert (found.pg_port, found.http_port, found.tick, found.host) == (21, 12, 30, "::1")


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "tls = true\n")
    assert load({}, {"WATERCLOCK_CONFIG": str(path)}).uses_tls


def test_other_variables_may_begin_alike() -> None:
    assert load({}, {"WATERCLOCK_CRASH_ROUNDS": "7"}) == Configuration()


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ({"spark": ["spark.a=1", "spark.b=x=y"]}, {}),
        ({}, {"WATERCLOCK_SPARK": "spark.a=1, spark.b=x=y"}),
    ],
)
def test_settings_of_spark(flags: dict[str, Any], environ: dict[str, str]) -> None:
    assert load(flags, environ).spark == {"spark.a": "1", "spark.b": "x=y"}


def test_settings_of_spark_in_a_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, '[spark]\ndriver.memory = "4g"\n"spark.ui.enabled" = false\n')
    found = load({"config": str(path)}, {}).spark
    assert found == {"spark.driver.memory": "4g", "spark.ui.enabled": "false"}


@pytest.mark.parametrize("text", ["true", "on", "1", "Yes"])
def test_a_switch_in_the_environment(text: str) -> None:
    assert load({}, {"WATERCLOCK_TLS": text}).tls


@pytest.mark.parametrize(
    ("flags", "environ", "message", "hint"),
    [
        ({"pg_port": "x"}, {}, "--pg-port: 'x' is not a port", "from 0 to 65535"),
        ({"pg_port": "-1"}, {}, "--pg-port", "from 0 to 65535"),
        ({"http_port": "65536"}, {}, "--http-port", "from 0 to 65535"),
        ({}, {"WATERCLOCK_TICK": "1"}, "environment variable WATERCLOCK_TICK", "from 10"),
        ({"log_level": "loud"}, {}, "--log-level", "debug, info, warning, error"),
        ({"spark": ["memory"]}, {}, "--spark", "spark.driver.memory=4g"),
        ({}, {"WATERCLOCK_TLS": "maybe"}, "WATERCLOCK_TLS", "true or false"),
        ({"host": ""}, {}, "--host", "text"),
        ({"tls_cert": "a.pem"}, {}, "--tls-cert and --tls-key belong together", "both"),
        ({"pg_port": "7", "http_port": "7"}, {}, "both 7", "different ports"),
        ({"nonsense": "1"}, {}, "unknown setting: --nonsense", "pg_port"),
    ],
)
def test_a_wrong_value_is_told_by_its_spelling_and_remedy(
    flags: dict[str, Any], environ: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(BadConfiguration) as told:
        load(flags, environ)
    assert message in told.value.message
    assert told.value.hint is not None
    assert hint in told.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pg_port = ", "is not TOML"),
        ('pg_port = "many"\n', '"pg_port" in'),
        ("pg_port = true\n", '"pg_port" in'),
        ("pgport = 5433\n", "unknown setting"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = file_with(tmp_path, text)
    with pytest.raises(BadConfiguration, match=message):
        load({"config": str(path)}, {})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="could not read configuration file"):
        load({"config": str(tmp_path / "none.toml")}, {})


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("db.example", False),
    ],
)
def test_which_hosts_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
