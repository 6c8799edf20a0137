"""Pieces of the server's life that need no Spark: signals, and what Spark is told."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.persist.errors import DataInUse
from waterclock.persist.lock import DirectoryLock
from waterclock.server import classes
from waterclock.server.configuration import Configuration, load
from waterclock.server.java import JavaRuntime
from waterclock.server.listening import CannotListen, listen, port_of
from waterclock.server.process import Server
from waterclock.server.spark import remove_others, spark_settings

_SIGNALLED = """
import asyncio, os, signal
from waterclock.server.process import _signals

async def main():
    stopping = _signals()
    os.kill(os.getpid(), signal.SIGTERM)
    await stopping.wait()
    print("stopping", flush=True)
    if {again}:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(("again", "code"), [(False, 0), (True, 130)])
def test_the_first_signal_asks_and_the_second_ends(again: bool, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED.format(again=again)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stdout) == (code, "stopping\n"), done.stderr


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JavaRuntime:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return JavaRuntime(tmp_path / "java", 17, "a test")


def test_on_this_machine_spark_listens_on_loopback_only(java: JavaRuntime, tmp_path: Path) -> None:
    told = spark_settings(java, "local[*]", {}, tmp_path)
    assert told["spark.driver.bindAddress"] == "127.0.0.1"
    assert told["spark.local.dir"] == str(tmp_path)
    elsewhere = spark_settings(java, "spark://master:7077", {}, tmp_path)
    assert "spark.driver.bindAddress" not in elsewhere
    assert "spark.local.dir" not in elsewhere


def test_settings_of_the_user_win_and_java_options_add_up(
    java: JavaRuntime, tmp_path: Path
) -> None:
    given = {"spark.local.dir": "/fast", "spark.driver.extraJavaOptions": "-Xss4m"}
    told = spark_settings(java, "local[2]", given, tmp_path)
    assert told["spark.local.dir"] == "/fast"
    first, last = told["spark.driver.extraJavaOptions"].split()
    assert first.startswith("-Dlog4j2.configurationFile=file:///")
    assert Path(first.partition("file://")[2]).is_file()
    assert last == "-Xss4m"


def test_kept_classes_are_used_if_they_are_there(java: JavaRuntime) -> None:
    assert classes.class_options(java) == ""
    path = classes.archive_of(java)
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in classes.class_options(java)
    assert classes.make_archive(java) == path, "it is there already"
    other = JavaRuntime(java.home, 21, "a test")
    assert classes.archive_of(other) != path


def test_what_killed_servers_left_is_removed(tmp_path: Path) -> None:
    remove_others(tmp_path / "spark" / "mine")
    for name in ("mine", "old"):
        (tmp_path / "spark" / name / "blocks").mkdir(parents=True)
    remove_others(tmp_path / "spark" / "mine")
    assert [path.name for path in (tmp_path / "spark").iterdir()] == ["mine"]


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("Spark is not to be started")

    monkeypatch.setattr("waterclock.server.process.start_spark", never)


def settings(data: Path, pg_port: int = 0) -> Configuration:
    return load({"data": str(data), "pg_port": pg_port, "http_port": 0}, {})


@pytest.mark.usefixtures("without_spark")
def test_a_directory_in_use_is_refused_before_spark_is_started(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DataInUse, match="is in use by process"):
        asyncio.run(Server(settings(tmp_path)).start())
    assert [entry.name for entry in tmp_path.iterdir()] == ["LOCK"]
    lock.release()


@pytest.mark.usefixtures("without_spark")
def test_a_port_in_use_is_refused_before_spark_is_started(tmp_path: Path) -> None:
    with (
        listen("127.0.0.1", 0, "--pg-port") as taken,
        pytest.raises(CannotListen, match="could not listen on"),
    ):
        asyncio.run(Server(settings(tmp_path, port_of(taken))).start())
    DirectoryLock(tmp_path).release()  # it was let go
