"""Artifacts of Maven, fetched by the Ivy that PySpark carries, and checked against a lock file.

A line of a lock is `organisation:module:version sha256:...`. Ivy asks where it always asks; to have
it ask a mirror, name a settings file of Ivy's in WATERCLOCK_IVY_SETTINGS. Uses the standard library
only: it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

_NAMES = "[organisation]__[artifact]__[revision].[ext]"
_SECONDS = 900
_AT_ONCE = 20
"""How many artifacts one Ivy fetches, which does so one by one; the others are left to others."""


class FetchFailed(Exception):
    """Ivy could not fetch something, or what came is not what is locked."""


@dataclass(frozen=True)
class Artifact:
    """A jar. `sha256` is not known before it is locked."""

    organisation: str
    module: str
    version: str
    sha256: str | None = None

    @property
    def file_name(self) -> str:
        return f"{self.organisation}__{self.module}__{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.organisation}:{self.module}:{self.version}"


def read(path: Path) -> list[Artifact]:
    """The artifacts of a list or a lock."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            coordinates, _, digest = line.partition(" sha256:")
            organisation, module, version = coordinates.split(":")
            found.append(Artifact(organisation, module, version, digest or None))
    return found


def fetch(java: Path, ivy: Path, artifacts: Sequence[Artifact], folder: Path) -> None:
    """Put just these artifacts into the folder, which must not exist. Raises `FetchFailed`."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "jars"
        made.mkdir()
        _fetch_side_by_side(java, ivy, artifacts, made)
        for artifact in artifacts:
            path = made / artifact.file_name
            if not path.is_file():
                raise FetchFailed(f"{artifact.coordinates} was not found")
            if digest(path) != artifact.sha256:
                raise FetchFailed(f"{artifact.coordinates} is not what was locked")
        made.rename(folder)


def _fetch_side_by_side(java: Path, ivy: Path, artifacts: Sequence[Artifact], made: Path) -> None:
    """Into the folder, by as many runs of Ivy as it takes, each with a cache of its own."""

    def fetch_some(number: int, some: Sequence[Artifact]) -> None:
        part = made.parent / str(number) / "jars"
        part.parent.mkdir()
        _run_ivy(java, ivy, some, part, transitive=False)
        for path in part.glob("*.jar"):
            path.rename(made / path.name)

    runs = -(-len(artifacts) // _AT_ONCE)
    with ThreadPoolExecutor(max(runs, 1)) as threads:
        parts = [threads.submit(fetch_some, n, artifacts[n::runs]) for n in range(runs)]
    for part in parts:
        part.result()


def resolve(java: Path, ivy: Path, artifacts: Sequence[Artifact]) -> list[Artifact]:
    """The artifacts and everything they need to run, with digests."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "jars"
        _run_ivy(java, ivy, artifacts, made, transitive=True)
        found = []
        for path in sorted(made.glob("*.jar")):
            organisation, module, version = path.name[: -len(".jar")].split("__")
            found.append(Artifact(organisation, module, version, digest(path)))
        return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run_ivy(
    java: Path, ivy: Path, artifacts: Sequence[Artifact], made: Path, *, transitive: bool
) -> None:
    wanted = made.parent / "ivy.xml"
    wanted.write_text(_module(artifacts, transitive), encoding="utf-8")
    command = [str(java), "-jar", str(ivy), "-ivy", str(wanted)]
    command += ["-cache", str(made.parent / "cache"), "-types", "jar", "bundle"]
    command += ["-retrieve", str(made / _NAMES)]
    if settings := os.environ.get("WATERCLOCK_IVY_SETTINGS"):
        command += ["-settings", settings]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=made.parent
    )
    if done.returncode != 0:
        raise FetchFailed("\n".join((done.stdout + done.stderr).splitlines()[-30:]))


def _module(artifacts: Iterable[Artifact], transitive: bool) -> str:
    lines = ['<ivy-module version="2.0">', '<info organisation="waterclock" module="wanted"/>']
    lines.append("<dependencies>")
    for each in artifacts:
        configuration = "default->default" if transitive else "default->master"
        lines.append(
            f"<dependency org={quoteattr(each.organisation)} name={quoteattr(each.module)}"
            f" rev={quoteattr(each.version)} conf={quoteattr(configuration)}/>"
        )
    return "\n".join([*lines, "</dependencies>", "</ivy-module>"])
