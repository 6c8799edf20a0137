"""The command line around its commands: usage, version, and how an error is told."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TextIO

import pytest

from waterclock.errors import WaterclockError
from waterclock.server import cli


def demo_that(monkeypatch: pytest.MonkeyPatch, error: WaterclockError | None) -> None:
    """Put a demo in place that writes one line, then raises `error` if there is one."""

    def run(out: TextIO, _environ: Mapping[str, str], *, seconds: float) -> None:
        out.write(f"shown for {seconds} s\n")
        if error is not None:
            raise error

    module = ModuleType("waterclock.server.demo")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("waterclock.server.demo", module, raising=False)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("waterclock ")


@pytest.mark.parametrize("argv", [[], ["no-such-command"]])
def test_wrong_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(argv)
    assert "usage: waterclock" in capsys.readouterr().err


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    demo_that(monkeypatch, None)
    assert cli.main(["demo", "--seconds", "3"]) == 0
    assert capsys.readouterr().out == "shown for 3.0 s\n"


def test_an_error_is_told_with_its_detail_and_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_that(monkeypatch, WaterclockError("it broke", detail="It was old.", hint="Mend it."))
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == (
        "waterclock: it broke\n  detail: It was old.\n  hint: Mend it.\n"
    )


@pytest.mark.parametrize("command", ["serve", "sql", "check", "backup", "restore", "demo"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    shown = capsys.readouterr().out
    assert f"usage: waterclock {command}" in shown
    assert command == "demo" or f"\n  waterclock {command}" in shown, "there is an example"


def test_a_wrong_setting_is_told_by_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--pg-port", "many"]) == 1
    told = capsys.readouterr().err
    assert "--pg-port" in told
    assert "hint: Write a whole number" in told


def test_the_server_must_be_there_for_sql(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "host=127.0.0.1 port=1 connect_timeout=2", "-c", "SELECT 1"]) == 1
    told = capsys.readouterr().err
    assert "could not connect to the server" in told
    assert "waterclock serve" in told


def test_check_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--data", str(tmp_path)]) == 1
    assert "is not a data directory" in capsys.readouterr().err
