"""What the command line understands, and how it explains itself: every command with examples."""

from __future__ import annotations

import argparse

from waterclock.server.configuration import LOG_LEVELS

DEFAULT_DSN = "host=127.0.0.1 port=6875 user=waterclock dbname=waterclock"
_DATA_HELP = "the data directory"

_MAIN = """\
to begin:
  waterclock demo                                 see a view change as its tables do
  waterclock serve                                start a server on this machine
  waterclock sql                                  talk to it
"""
_SERVE = """\
examples:
  waterclock serve                                data in ./waterclock-data, this machine only
  waterclock serve --data /srv/wc --pg-port 5433  another place, another port
  waterclock serve --spark spark.driver.memory=8g more memory for Spark
  waterclock serve --host 0.0.0.0 --tls           for others too; needs a role with a password
  waterclock serve --log postgresql://wc@db/wc --blobs s3://bucket/wc?region=eu-west-1
                                                  data that outlive this machine

Every flag can also be set in the environment (--pg-port as WATERCLOCK_PG_PORT) and in a TOML file
(pg_port = 5433, and a table [spark] for --spark) given with --config. A flag wins over the
environment, the environment over the file.
"""
_SQL = """\
examples:
  waterclock sql                                  an interactive shell (psql, if it is installed)
  waterclock sql -c "SELECT 1"                    run statements and end
  echo "SELECT 1" | waterclock sql                the same, from a pipe
  waterclock sql --pg-port 5433                   a server on another port
  waterclock sql "host=db port=6875 user=ada dbname=waterclock"
"""
_CHECK = """\
Reads everything that a data directory holds, compares every checksum, and lists what is wrong. It
changes nothing. The server must not be running on the directory. Exits with 1 if there is damage.

example:
  waterclock check --data ./waterclock-data
"""
_BACKUP = """\
Writes one file that holds everything: the log, the data it refers to, the state of views, and the
key of the secrets; so keep the file as safe as the data. A server may be running on the directory,
and goes on: then the file holds what it had acknowledged when the backup began, without the state
of views, which are computed again once restored.

example:
  waterclock backup --data ./waterclock-data --to waterclock.tar
"""
_RESTORE = """\
example:
  waterclock restore waterclock.tar --data ./restored && waterclock serve --data ./restored
"""


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="waterclock",
        description="A streaming SQL database on Apache Spark, exact at every time.",
        epilog=_MAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"waterclock {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_serve(_command(commands, "serve", "start a server", _SERVE))
    _add_sql(_command(commands, "sql", "run SQL on a server", _SQL))
    check = _command(commands, "check", "verify a data directory", _CHECK)
    check.add_argument("--data", required=True, metavar="DIR", help=_DATA_HELP)
    backup = _command(commands, "backup", "copy a data directory into one file", _BACKUP)
    backup.add_argument("--data", required=True, metavar="DIR", help=_DATA_HELP)
    backup.add_argument("--to", required=True, metavar="FILE", help="the file to write")
    restore = _command(commands, "restore", "make a data directory from a backup", _RESTORE)
    restore.add_argument("source", metavar="FILE", help="a file that `backup` wrote")
    restore.add_argument(
        "--data", required=True, metavar="DIR", help="the data directory, which must not exist yet"
    )
    demo = _command(commands, "demo", "see a view change as its tables do", "")
    demo.add_argument(
        "--seconds", type=float, default=8.0, help="how long to watch (default: %(default)s)"
    )
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, epilog: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


_LIMITS = (
    ("--max-result-bytes", "BYTES", "the rows of one result (default: 1 GiB)"),
    ("--max-value-bytes", "BYTES", "one value that a function makes (default: 64 MiB)"),
    ("--max-pattern-steps", "N", "what one match of a pattern may take (default: 100000000)"),
    ("--max-connections", "N", "sessions at the same time (default: 1000)"),
    ("--max-connections-per-address", "N", "those from one address (default: 900)"),
    (
        "--max-unauthenticated-connections",
        "N",
        "connections that are no sessions yet (default: 200)",
    ),
    (
        "--max-unauthenticated-connections-per-address",
        "N",
        "those from one address (default: 100)",
    ),
    ("--plan-timeout", "MS", "the time to plan a statement (default: 60000)"),
    ("--engine-wait", "MS", "how long statements wait for a new engine (default: 60000)"),
    ("--engine-silence", "MS", "when a silent engine is replaced (default: 60000)"),
    ("--engine-deaths", "N", "so many deaths within 5 minutes end the server (default: 5)"),
    ("--step-timeout", "MS", "when a step without progress is cancelled (default: 600000)"),
    ("--max-statement-bytes", "BYTES", "the text of a statement (default: 16 MiB)"),
    ("--max-literal-bytes", "BYTES", "one constant in a text (default: 8 MiB)"),
    ("--max-statement-tokens", "N", "words, constants and marks of a text (default: 1000000)"),
    ("--max-statement-steps", "N", "steps of reading and planning (default: 20000000)"),
    ("--max-nesting-depth", "N", "levels of nesting in a statement (default: 1000)"),
    ("--max-plan-nodes", "N", "queries and relations that a query reads (default: 2000)"),
    ("--max-columns", "N", "columns of a query (default: 1664)"),
    ("--max-catalog-memory", "MB", "queries over the system's relations (default: 512)"),
    ("--authentication-timeout", "MS", "from a connection to its session (default: 10000)"),
)
"""What a client may take; see "Limits" in docs/operations.md."""


def _add_serve(parser: argparse.ArgumentParser) -> None:
    """All flags are texts here: `configuration` reads them, and says what is wrong with them."""
    add = parser.add_argument
    add("--data", metavar="DIR", help="where everything is kept (default: ./waterclock-data)")
    add(
        "--log",
        metavar="ADDRESS",
        help="keep the log in a PostgreSQL database (postgresql://user@host/database)",
    )
    add(
        "--blobs",
        metavar="URL",
        help="keep the data in a bucket of S3 (s3://bucket/prefix?region=name)",
    )
    add("--host", help="the address to listen at (default: 127.0.0.1)")
    add("--pg-port", metavar="N", help="for PostgreSQL clients (default: 6875; 0: any)")
    add("--http-port", metavar="N", help="for HTTP (default: 6876; 0: any)")
    add("--spark-master", metavar="URL", help="where Spark runs (default: local[*])")
    add(
        "--spark",
        metavar="KEY=VALUE",
        action="append",
        help="a setting of Spark; may be given several times",
    )
    add("--tick", metavar="MS", help="milliseconds between ticks without writes (default: 1000)")
    add(
        "--tls",
        action="store_const",
        const=True,
        help="use TLS, with a certificate of the server's own making unless one is given",
    )
    add("--tls-cert", metavar="FILE", help="a certificate, PEM")
    add("--tls-key", metavar="FILE", help="its key, PEM")
    add("--log-level", metavar="LEVEL", help=f"{', '.join(LOG_LEVELS)} (default: info)")
    for flag, value, text in _LIMITS:
        add(flag, metavar=value, help=text)
    add("--config", metavar="FILE", help="a TOML file with any of these settings")


def _add_sql(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dsn",
        nargs="?",
        help="where to connect, as libpq writes it; what it says wins over the flags",
    )
    parser.add_argument("--host", help="where the server listens (default: 127.0.0.1)")
    parser.add_argument("--pg-port", metavar="N", help="its port (default: 6875)")
    parser.add_argument(
        "-c", dest="statement", metavar="SQL", help="run these statements, print, and end"
    )
    parser.add_argument(
        "--plain", action="store_true", help="use the built-in shell even if psql is installed"
    )
