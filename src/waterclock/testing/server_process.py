"""A server as users start it: `waterclock serve` in a process, on ports that were free."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from waterclock.testing.services import free_port

_START_SECONDS = 400.0
_STOP_SECONDS = 300.0


class ServerProcess:
    """A server over a data directory, which stays when the server ends."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.data = data
        self.flags = flags
        self.pg_port, self.http_port = free_port(), free_port()
        self.log = data.with_name(f"{data.name}.log")
        self._scheme = "https" if any(flag.startswith("--tls") for flag in flags) else "http"
        self.started_in_s = 0.0
        """From the start of the process until queries were answered."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.pg_port} user=waterclock dbname=waterclock"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        assert self._process is not None, "the server was started"
        return self._process.poll()

    def cpu_s(self) -> float:
        """Seconds of CPU that the server's own process has taken; that of Spark is another one."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def output(self) -> str:
        """All that it has written so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def complaints(self) -> list[str]:
        """Lines of its output that tell of something gone wrong inside."""
        marks = (" ERROR ", " CRITICAL ", "Traceback (most recent call last)", "Exception in ")
        return [line for line in self.output.splitlines() if any(mark in line for mark in marks)]

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process and return at once."""
        command = [sys.executable, "-m", "waterclock.server.cli", "serve"]
        command += ["--data", str(self.data), "--pg-port", str(self.pg_port)]
        command += ["--http-port", str(self.http_port), *self.flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        return self._process

    def start(self) -> None:
        """Start it, and wait until it answers queries."""
        began = time.monotonic()
        process = self.spawn()
        while not self.is_ready():
            if process.poll() is not None or time.monotonic() > began + _START_SECONDS:
                self.kill()
                raise RuntimeError(f"the server did not start:\n{self.output[-6000:]}")
            time.sleep(0.05)
        self.started_in_s = time.monotonic() - began

    def is_ready(self) -> bool:
        return self.answers("/ready")

    def answers(self, path: str) -> bool:
        """Whether a request over HTTP is answered with success, whoever signed the certificate."""
        anyone = ssl._create_unverified_context() if self._scheme == "https" else None
        try:
            with urllib.request.urlopen(self.url + path, timeout=5, context=anyone) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection that commits each statement."""
        return psycopg.connect(self.dsn, **{"autocommit": True, "connect_timeout": 240, **options})

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop, and wait; its exit code."""
        assert self._process is not None, "the server was started"
        self._process.send_signal(how)
        return self._process.wait(_STOP_SECONDS)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
