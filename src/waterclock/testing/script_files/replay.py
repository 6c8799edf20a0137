"""Runs one script on both servers, statement by statement.

PostgreSQL goes first, and decides what the script does. Afterwards the two are brought together
again: tables by the mirror, transaction blocks by leaving Waterclock's as soon as one of the two
has failed alone. Until the end of PostgreSQL's block Waterclock then commits each statement, and
the mirror undoes what PostgreSQL rolls back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from psycopg import pq

from waterclock.testing.judge.systems import Answer
from waterclock.testing.script_files.mirror import Mirror
from waterclock.testing.script_files.psql_script import (
    Command,
    Reader,
    Statement,
    argument_list,
    substituted,
)
from waterclock.testing.script_files.servers import Servers
from waterclock.testing.script_files.statements import Words
from waterclock.testing.script_files.variants import other_answers, undone
from waterclock.testing.script_files.verdicts import (
    STAND_IN,
    Outcome,
    Verdict,
    compared,
    is_internal,
)

_TRUE = frozenset({"on", "true", "t", "yes", "y", "1"})
_CHANGES = frozenset({"insert", "update", "delete", "merge", "copy", "truncate"})
_VIEW = "view_of_script"
_FORMS = (("VIEW", "view"), ("MATERIALIZED VIEW", "maintained view"))
_KEPT = (Outcome.SAME, Outcome.REFUSED, Outcome.EXPLAINED, Outcome.INTERNAL)
"""Outcomes that a stand-in does not explain, or that need no other explanation."""
_RUN = frozenset({";", "end", "g", "gx", "gset", "crosstabview"})
"""Ends of a statement that have it run as any other is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement whose answer is not just PostgreSQL's."""

    file: str
    line: int
    form: str
    sql: str
    verdict: Verdict


@dataclass(slots=True)
class Record:
    """What came of a script."""

    file: str
    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    """By form and outcome."""
    errors: int = 0
    """Statements that both refuse with the same SQLSTATE."""
    skipped: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_wrong(self) -> bool:
        bad = (Outcome.OTHER_ROWS, Outcome.INTERNAL)
        return any(outcome in bad for _, outcome in self.outcomes)


class Replay:
    """Runs scripts one after the other, each in a state that does not depend on the others."""

    def __init__(
        self, servers: Servers, environment: Mapping[str, str], *, with_views: bool
    ) -> None:
        self._servers = servers
        self._environment = environment
        self._with_views = with_views
        self._theirs, self._ours = servers.open_theirs(), servers.open_ours()
        self.mirror = Mirror(self._theirs, self._ours)
        self.mirror.differences()
        self._begin("", "")

    def run(self, name: str, text: str) -> Record:
        """What comes of a script."""
        self._begin(name, text)
        conditions: list[bool] = []
        for item in self._reader:
            if isinstance(item, Command) and item.name in ("if", "elif", "else", "endif"):
                self._branch(conditions, item)
            elif not all(conditions):
                self._record.skipped["not in this branch"] += 1
            elif isinstance(item, Statement):
                self._statement(item)
            elif item.name in ("q", "quit"):
                break
            else:
                self._command(item)
        return self._record

    def close(self) -> None:
        self._theirs.close()
        self._ours.close()

    def _begin(self, name: str, text: str) -> None:
        """Sessions of their own, and the tables that there were before all scripts."""
        self._record = Record(name)
        self._reader = Reader(text)
        self._variables: dict[str, str] = {}
        self._apart = False
        """Whether PostgreSQL is in a block that Waterclock has left."""
        self._line = 0
        if name:
            self.close()
            self._theirs, self._ours = self._servers.open_theirs(), self._servers.open_ours()
            self.mirror.theirs, self.mirror.ours = self._theirs, self._ours
            self.mirror.differences()
            self.mirror.has_written()

    # Backslash commands

    def _branch(self, conditions: list[bool], item: Command) -> None:
        if item.name == "endif":
            conditions[-1:] = []
        elif item.name == "else":
            conditions[-1:] = [not each for each in conditions[-1:]]
        elif item.name == "if":
            conditions.append(self._is_true(item.arguments))
        else:
            taken = conditions[-1:] == [True]
            conditions[-1:] = [not taken and self._is_true(item.arguments)]

    def _is_true(self, arguments: str) -> bool:
        return " ".join(argument_list(arguments, self._variables)).lower() in _TRUE

    def _command(self, item: Command) -> None:
        arguments = argument_list(item.arguments, self._variables)
        match item.name, arguments:
            case "set", [name, *values]:
                self._variables[name] = "".join(values)
            case "unset", [name]:
                self._variables.pop(name, None)
            case "getenv", [name, of]:
                if of in self._environment:
                    self._variables[name] = self._environment[of]
            case _:
                self._record.skipped[f"\\{item.name}"] += 1

    # Statements

    def _statement(self, item: Statement) -> None:
        self._line = item.line
        words = Words(substituted(item.text, self._variables))
        why = self._reason_to_skip(item, words)
        if why is not None:
            self._record.skipped[why] += 1
            return
        data: list[bytes] = []

        def read_data() -> bytes:
            if not data:
                data.append(self._reader.copy_data().encode())
            return data[0]

        failed_before = self._theirs.block == pq.TransactionStatus.INERROR
        theirs = self._theirs.run(words.text, read_data)
        if self._theirs.is_lost:
            raise RuntimeError(f"PostgreSQL ended the connection: {words.text}: {theirs.message}")
        if self._apart and (failed_before or words.controls_transaction):
            self._record.skipped["in a block that Waterclock has left"] += 1
            self._settle(words, None, theirs)
            return
        ours = self._ours.run(words.text, read_data)
        self._judge(words, ours, theirs)
        if item.ending == "gset" and len(theirs.rows) == 1:
            self._keep(item.arguments, theirs)
        self._settle(words, ours, theirs)
        if self._with_views and theirs.sqlstate is None and ours.sqlstate is None:
            self._views(words, theirs)

    def _reason_to_skip(self, item: Statement, words: Words) -> str | None:
        if item.is_several:
            return "several statements in one message"
        if item.ending not in _RUN:
            return f"\\{item.ending}"
        if words.is_explain:
            return "EXPLAIN"
        return None

    def _keep(self, arguments: str, answer: Answer) -> None:
        prefix = "".join(argument_list(arguments, self._variables))
        for (name, _), value in zip(answer.columns, answer.rows[0], strict=True):
            if value is not None:
                self._variables[prefix + name] = value.decode()

    def _judge(self, words: Words, ours: Answer, theirs: Answer) -> None:
        form = "query" if words.is_query and (theirs.columns or theirs.sqlstate) else "statement"
        if ours.sqlstate is not None and ours.sqlstate == theirs.sqlstate:
            self._record.errors += 1
            return
        verdict = compared(
            words.text,
            ours,
            theirs,
            is_ordered=words.is_ordered,
            variants=lambda: self._variants(words),
        )
        if verdict.outcome not in _KEPT and self._changes_stand_in(words):
            verdict = Verdict(Outcome.EXPLAINED, verdict.text, STAND_IN, verdict.sqlstate)
        if verdict.outcome is Outcome.REFUSED and verdict.sqlstate in ("42P01", "42704"):
            why = self.mirror.uncopied(words.names)
            if why is not None:
                text = f"reads what could not be copied: {why}"
                verdict = Verdict(Outcome.REFUSED, text, sqlstate=verdict.sqlstate)
        self._found(form, words.text, verdict)

    def _changes_stand_in(self, words: Words) -> bool:
        """Whether it changes a table that is not all that PostgreSQL's is."""
        return bool(_CHANGES & words.names) and not self.mirror.are_plain(words.names)

    def _variants(self, words: Words) -> list[Answer]:
        is_repeatable = words.is_query or words.first in ("execute", *_CHANGES)
        if not is_repeatable or words.is_volatile or not self._can_ask():
            return []
        return other_answers(self._theirs, words)

    def _can_ask(self) -> bool:
        """Whether PostgreSQL would answer another query now."""
        return self._theirs.block in (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)

    def _found(self, form: str, sql: str, verdict: Verdict) -> None:
        self._record.outcomes[form, verdict.outcome] += 1
        if verdict.outcome is not Outcome.SAME:
            finding = Finding(self._record.file, self._line, form, sql, verdict)
            self._record.findings.append(finding)

    # Bringing the two together

    def _settle(self, words: Words, ours: Answer | None, theirs: Answer) -> None:
        """Have both in the same block, and with the same tables.

        `ours` is None if Waterclock was not asked.
        """
        if self._ours.is_lost:
            self._ours = self.mirror.ours = self._servers.open_ours()
            self.mirror.forget()
        alone = ours is not None and (ours.sqlstate is None) != (theirs.sqlstate is None)
        self._leave_block(alone)
        has_written = self.mirror.has_written() or words.sets_search_path
        if not (has_written or alone) or not self._can_ask():
            return
        suspects = words.names & self.mirror.names() if _CHANGES & words.names or alone else ()
        both = ours is not None and ours.sqlstate is None and theirs.sqlstate is None
        in_block = self._ours.block != pq.TransactionStatus.IDLE
        differences = self.mirror.differences(suspects, repair=not in_block)
        if both and not words.controls_transaction and not words.sets_search_path:
            for difference in differences:
                is_stand_in = difference.is_stand_in or self._changes_stand_in(words)
                rule = STAND_IN if is_stand_in else ""
                outcome = Outcome.EXPLAINED if rule else Outcome.OTHER_ROWS
                self._found("table", words.text, Verdict(outcome, difference.text, rule))
        if in_block and differences:
            self._leave_block(True)
            self.mirror.differences(suspects)

    def _leave_block(self, must: bool) -> None:
        """Leave Waterclock's block if it must be, or if PostgreSQL's is in another state."""
        theirs, ours = self._theirs.block, self._ours.block
        idle = pq.TransactionStatus.IDLE
        if theirs == idle:
            self._apart = False
        elif must or theirs != ours:
            self._apart = True
        if ours != idle and (self._apart or theirs == idle):
            self._ours.run("ROLLBACK")
            self.mirror.forget_block()
        elif ours == idle:
            self.mirror.keep_block()

    # Views

    def _views(self, words: Words, theirs: Answer) -> None:
        """Ask again through a view, and through a maintained view."""
        if not words.is_query or not theirs.columns or words.is_volatile:
            return
        if self._ours.block != pq.TransactionStatus.IDLE or not self._can_ask():
            return
        names = [name for name, _ in theirs.columns]
        with_names = len(set(names)) == len(names)
        listed = "" if with_names else f" ({', '.join(f'c{n}' for n, _ in enumerate(names))})"
        with undone(self._theirs):
            probed = self._theirs.run(f"CREATE TEMP VIEW {_VIEW}{listed} AS {words.text}")
        self.mirror.has_written()
        if probed.sqlstate is not None:
            return
        for kind, form in _FORMS:
            for ours in self._through(kind, f"{_VIEW}{listed} AS {words.text}"):
                verdict = compared(
                    words.text,
                    ours,
                    theirs,
                    is_ordered=False,
                    variants=lambda: self._variants(words),
                    with_names=with_names,
                )
                self._found(form, words.text, verdict)

    def _through(self, kind: str, definition: str) -> Iterator[Answer]:
        """The answer through a view of that kind, or that with which it was refused."""
        made = self._ours.run(f"CREATE {kind} {definition}")
        answer = made if made.sqlstate is not None else self._ours.run(f"SELECT * FROM {_VIEW}")
        if self._ours.is_lost:
            self._ours = self.mirror.ours = self._servers.open_ours()
            self.mirror.forget()
            self.mirror.differences()
        if made.sqlstate is None or is_internal(made):
            self._ours.run(f"DROP {kind} IF EXISTS {_VIEW}")
        yield answer
