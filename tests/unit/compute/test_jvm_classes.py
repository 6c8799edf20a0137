"""Our Java classes are compiled once for each text of theirs, and kept where that is possible."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from waterclock.compute.jvm import classes


class _Compiler:
    """Stands for Janino: every class of a unit becomes its own name."""

    def __init__(self) -> None:
        self.cooked: list[str] = []

    def cook(self, source: str) -> None:
        self.cooked.append(source)

    def getBytecodes(self) -> dict[str, bytes]:
        return {"waterclock.B": b"b", "waterclock.A": b"a"}


class _Jvm:
    """As much of a JVM as is asked for."""

    def __init__(self) -> None:
        self.compiler = _Compiler()
        self.added: list[str] = []
        loader = SimpleNamespace(addURL=self.added.append)
        thread = SimpleNamespace(getContextClassLoader=lambda: loader)
        file = SimpleNamespace(File=lambda path: _File(path))
        lang = SimpleNamespace(Thread=SimpleNamespace(currentThread=lambda: thread))
        self.java = SimpleNamespace(lang=lang, io=file)
        janino = SimpleNamespace(SimpleCompiler=lambda: self.compiler)
        self.org = SimpleNamespace(codehaus=SimpleNamespace(janino=janino))


class _File:
    def __init__(self, path: str) -> None:
        self.toURI = lambda: SimpleNamespace(toURL=lambda: f"file:{path}")


@pytest.fixture(autouse=True)
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    return tmp_path / "env"


def test_the_jar_is_made_once_and_named_to_the_jvm(prefix: Path) -> None:
    first, second = _Jvm(), _Jvm()
    jar = classes.load(first)
    assert jar.is_relative_to(prefix)
    with zipfile.ZipFile(jar) as archive:
        assert archive.namelist() == ["waterclock/A.class", "waterclock/B.class"]
        assert archive.read("waterclock/A.class") == b"a"
    assert classes.load(second) == jar
    assert second.added == first.added == [f"file:{jar}"]
    assert (len(first.compiler.cooked), len(second.compiler.cooked)) == (1, 0)
    assert [path.name for path in jar.parent.iterdir()] == [jar.name]


def test_other_sources_make_another_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = classes.load(_Jvm())
    (tmp_path / "Other.java").write_text("package waterclock;\nfinal class Other {}\n")
    monkeypatch.setattr(classes, "_FOLDER", tmp_path)
    assert classes.load(_Jvm()) != jar


def test_where_nothing_can_be_written_it_is_made_for_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").write_text("no folder")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    removed: list[Any] = []
    monkeypatch.setattr(classes.atexit, "register", lambda *given, **_: removed.append(given[1]))
    jar = classes.load(_Jvm())
    assert jar.is_file()
    assert removed == [str(jar.parent)]
    jar.unlink()
    jar.parent.rmdir()


def test_sources_are_compiled_as_one_unit() -> None:
    jvm = _Jvm()
    classes.load(jvm)
    [unit] = jvm.compiler.cooked
    lines = unit.splitlines()
    assert lines[0] == "package waterclock;"
    imports = [line for line in lines if line.startswith("import ")]
    assert lines[1 : len(imports) + 1] == imports
    assert len(set(imports)) == len(imports)
    for name in ("Numerics", "Faults", "Extensions"):
        assert f"final class {name}" in unit
