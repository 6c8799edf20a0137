"""Where log and blobs are kept: in the data directory, or elsewhere.

On one machine both are in the directory. For a server that must outlive its machine, the log goes
into a PostgreSQL database and the blobs into a bucket of S3; what is left in the directory can be
made again, except for the key of the secrets.

A directory whose log or blobs are elsewhere remembers where, without passwords. Started without
that, or with another place, it would look empty, or like a mixture of two; so it is refused.

What speaks to PostgreSQL and to S3 is imported when it is needed: a server that keeps its data here
starts sooner without.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from waterclock.errors import WaterclockError
from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.files import FileBlob, replace_file
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.errors import Damaged

LOG, BLOBS = "log.db", "blobs"
_FILE = "PLACES"
_LOG_NAME = "waterclock"


class OtherPlace(WaterclockError):
    """The data of the directory are not where they were said to be."""

    sqlstate: ClassVar[str] = "F0000"


class BadPlace(WaterclockError):
    """The address of a log can not be understood."""

    sqlstate: ClassVar[str] = "22023"


@dataclass(frozen=True, slots=True)
class Places:
    """None is in the directory itself.

    `log` is the address of a PostgreSQL database, as libpq writes it; its tables are in the first
    schema of the search path. `blobs` is `s3://bucket/prefix?endpoint=...&region=...`.
    """

    log: str | None = None
    blobs: str | None = None

    def claim(self, directory: Path) -> None:
        """Remember the places in the directory. Raises `OtherPlace` if they were others."""
        shown = self._shown()
        before = remembered(directory)
        if before is None and shown != HERE and (directory / LOG).exists():
            before = HERE
        if before is not None and before != shown:
            raise _other(directory, before, shown)
        if before is None and shown != HERE:
            replace_file(directory / _FILE, msgspec.json.encode(asdict(shown)))

    def open_log(self, directory: Path) -> Consensus:
        if self.log is None:
            _require_log(directory)
            return SqliteConsensus(directory / LOG)
        from waterclock.persist.consensus.postgres import PostgresConsensus

        return PostgresConsensus(self.log, _LOG_NAME)

    def open_blobs(self, directory: Path) -> Blob:
        if self.blobs is not None:
            from waterclock.persist.blob.s3 import S3Blob

            return S3Blob.from_url(self.blobs)
        files = FileBlob(directory / BLOBS)
        files.clear_temporary()
        return files

    def _shown(self) -> Places:
        """The places without passwords."""
        if self.log is None:
            return self
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        try:
            address = conninfo_to_dict(self.log)
        except ProgrammingError as error:
            raise BadPlace(
                f"the address of the log can not be understood: {str(error).strip()}",
                hint="Write it as libpq does: postgresql://user@host/database.",
            ) from None
        address.pop("password", None)
        return Places(make_conninfo("", **address), self.blobs)


HERE = Places()


def remembered(directory: Path) -> Places | None:
    """Where the data of the directory are, if not all of them are in it."""
    path = directory / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Places)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(
            f'file "{path}" is damaged: {error}',
            detail="It says where the log and the blobs of the data directory are.",
            hint="Restore the data from a backup, or write the file anew.",
        ) from error


def _require_log(directory: Path) -> None:
    """Raise `Damaged` if the directory has no log, and something that only comes with one."""
    if (directory / LOG).exists():
        return
    for name in (BLOBS, "views"):
        for path in (directory / name).rglob("*"):
            if path.is_file():
                raise Damaged(
                    f'log "{directory / LOG}" is missing',
                    detail=f'The directory is not new: there is "{path}".',
                    hint="Restore the data from a backup.",
                )


def _other(directory: Path, before: Places, given: Places) -> OtherPlace:
    what = "log" if before.log != given.log else "blobs"
    known, named = (getattr(each, what) or "the directory itself" for each in (before, given))
    return OtherPlace(
        f'the {what} of data directory "{directory}" should be in {known}, not in {named}',
        hint=f"Start with the same --{what} as before. If they have moved, correct the file"
        f' "{directory / _FILE}".',
    )
