"""The command line around its commands: usage, version, and how an error is told."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TextIO

import pytest

from waterclock.errors import WaterclockError
from waterclock.server import cli


def demo_that(monkeypatch: pytest.MonkeyPatch, error: WaterclockError | None) -> None:
    """Put a demo in place that writes one line, then raises `error` if there is one."""

    def run(out: TextIO) -> None:
        out.write("shown\n")
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
    assert cli.main(["demo"]) == 0
    assert capsys.readouterr().out == "shown\n"


def test_an_error_is_told_with_its_detail_and_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_that(monkeypatch, WaterclockError("it broke", detail="It was old.", hint="Mend it."))
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == (
        "waterclock: it broke\n  detail: It was old.\n  hint: Mend it.\n"
    )
