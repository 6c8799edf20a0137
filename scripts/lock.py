"""Write the lock files: every package at one version, with the hashes of its files, and no address.

Run by `make lock`, inside the virtual environment. Each lock is resolved for all platforms and for
every supported Python at once. The later ones are constrained by the earlier ones, so that one
environment can hold them together; the largest set comes first, since it leaves the least choice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import maven
import pyspark

from waterclock.server.java import find_java

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = "3.11"

# (lock, what it is resolved from, earlier locks that constrain it)
LOCKS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("build", ("requirements/build.in",), ()),
    ("test", ("pyproject.toml", "--extra=test"), ("build",)),
    ("run", ("pyproject.toml",), ("build", "test")),
    ("java", ("requirements/java.in",), ()),
    ("postgres", ("requirements/postgres.in",), ("build", "test")),
    ("dbt", ("requirements/dbt.in",), ()),
    ("node", ("requirements/node.in",), ()),
)


def compile_lock(name: str, sources: tuple[str, ...], constraints: tuple[str, ...]) -> str:
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"),
        *("--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes", "--upgrade"),
        *("--no-emit-index-url", "--no-emit-find-links"),
        *(f"--constraint=requirements/{earlier}.lock" for earlier in constraints),
        *sources,
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(f"cannot resolve requirements/{name}.lock:\n{found.stderr}")
    return found.stdout


def main() -> None:
    for name, sources, constraints in LOCKS:
        pins = compile_lock(name, sources, constraints)
        if "://" in pins:
            sys.exit(f"requirements/{name}.lock would hold an address; nothing was written")
        header = f"# Written by `make lock` from {sources[0]}. Do not edit.\n"
        (ROOT / f"requirements/{name}.lock").write_text(header + pins, encoding="utf-8")
        print(f"requirements/{name}.lock: {pins.count('==')} packages")
    lock_jars("kafka")
    lock_jars("jdbc")
    lock_jars("debezium")
    lock_npm("kinesis")
    lock_npm("s3rver")


def lock_jars(name: str) -> None:
    """The lock of a set of Maven artifacts, with everything they need."""
    java = find_java(os.environ).home / "bin" / "java"
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    found = maven.resolve(java, ivy, maven.read(ROOT / f"requirements/{name}.in"))
    lines = [f"# Written by `make lock` from requirements/{name}.in. Do not edit."]
    lines += [f"{each.coordinates} sha256:{each.sha256}" for each in found]
    (ROOT / f"requirements/{name}.lock").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"requirements/{name}.lock: {len(found)} jars")


def lock_npm(name: str) -> None:
    """The lock of a set of npm packages, in npm's own form, which has no header."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        folder.mkdir()
        wanted = (ROOT / f"requirements/{name}.in").read_text(encoding="utf-8").splitlines()
        packages = dict(w.rsplit("@", 1) for w in wanted if w and not w.startswith("#"))
        (folder / "package.json").write_text(json.dumps({"dependencies": packages}))
        options = ["--package-lock-only", "--omit-lockfile-registry-resolved", "--no-audit"]
        subprocess.run(["npm", "install", "--prefix", str(folder), *options], check=True)
        locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    for package in locked["packages"].values():
        package.pop("funding", None)  # addresses
    pins = json.dumps(locked, indent=2) + "\n"
    if "://" in pins:
        sys.exit(f"requirements/{name}.lock would hold an address; it was not written")
    (ROOT / f"requirements/{name}.lock").write_text(pins, encoding="utf-8")
    print(f"requirements/{name}.lock: {len(locked['packages']) - 1} npm packages")


if __name__ == "__main__":
    main()
