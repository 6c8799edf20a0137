"""Runs a case in both systems, in every form, and tells what differs.

Each query is asked as text, with parameters (text and binary results), through a view, and as a
maintained view with an index on some of them. Then history happens, and the views are read again.
The views of PostgreSQL are ordinary ones: it computes them anew for each read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from waterclock.testing.judge.cases import Case, Query
from waterclock.testing.judge.rules import explanation
from waterclock.testing.judge.systems import Answer, System
from waterclock.testing.judge.values import declared_as, literal

TIMED_OUT = "57014"
_NO_ANSWER = "set statement_timeout = '4min'"
"""After that long an answer is missing, which is a difference; planning alone may take a minute."""
_MOST_ROWS = 100
"""A query with more rows costs more to compare than it can show."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A query whose answer is not PostgreSQL's."""

    form: str
    sql: str
    text: str


@dataclass(slots=True)
class Tally:
    """What came of the cases so far."""

    cases: int = 0
    passed_over: int = 0
    """Queries that are too large even for PostgreSQL."""
    answers: int = 0
    rows: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Errors that both gave."""
    rules: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        yield f"{self.cases} cases, {self.answers} answers with {self.rows} rows compared,"
        yield f"  {self.passed_over} queries passed over"
        for title, counts in (
            ("by form", self.forms),
            ("explained by a rule", self.rules),
            ("errors of both", self.errors),
            ("refused", self.refusals),
        ):
            yield f"{title}: {counts.total()}"
            yield from (f"{count:>8}  {name}" for name, count in counts.most_common(40))


class Runner:
    """Runs cases, each in a schema of its own."""

    def __init__(
        self,
        ours: System,
        theirs: System,
        tally: Tally,
        restart: Callable[[], System],
        *,
        patience_ms: int = 1000,
    ) -> None:
        """`restart` stops our server, starts it again, and connects.

        What takes PostgreSQL longer than `patience_ms` is passed over.
        """
        self._ours = ours
        self._theirs = theirs
        self._tally = tally
        self._restart = restart
        self._numbers = itertools.count(1)
        self._lookups = itertools.count()
        self._path = ""
        theirs.run(f"set statement_timeout = {patience_ms}")
        ours.run(_NO_ANSWER)

    def run(self, case: Case, *, with_restart: bool = False) -> list[Difference]:
        """What differs; nothing if all is well."""
        self._tally.cases += 1
        self._lookups = itertools.count()  # the same in each run of a case
        with self._schema() as differences:
            for statement in (*(table.created for table in case.tables), *case.rows):
                self._same(differences, "set-up", statement)
            views: list[str] = []
            for number, query in enumerate(case.queries):
                if query.views <= set(views) and self._asked(differences, query):
                    views += self._viewed(differences, query, number)
            self._history(differences, case, views, with_restart=with_restart)
        return differences

    @contextmanager
    def _schema(self) -> Iterator[list[Difference]]:
        name = self._path = f"j{next(self._numbers)}"
        differences: list[Difference] = []
        for each in (self._ours, self._theirs):
            each.run(f"create schema {name}")
            each.run(f"set search_path = {name}")
        yield differences
        for each in (self._ours, self._theirs):
            if not each.is_lost:
                each.run("rollback")
                each.run(f"drop schema {name} cascade")
        if self._ours.is_lost:
            self._ours = self._restarted()
            differences.append(Difference("connection", "", "the connection was lost"))

    def _restarted(self) -> System:
        ours = self._restart()
        ours.run(_NO_ANSWER)
        return ours

    def close(self) -> None:
        """End both connections."""
        self._ours.close()
        self._theirs.close()

    # Forms

    def _asked(self, differences: list[Difference], query: Query) -> bool:
        """Ask in the forms of a query; whether it can be a view."""
        ordered = query.is_ordered
        theirs = self._theirs.run(query.sql)
        if theirs.sqlstate == TIMED_OUT or len(theirs.rows) > _MOST_ROWS:
            self._tally.passed_over += 1
            return False
        self._compare(differences, "query", query.sql, self._ours.run(query.sql), theirs, ordered)
        if theirs.sqlstate is not None:
            return theirs.sqlstate.startswith("22")
        for binary in (False, True):
            wanted = self._theirs.run_prepared(query.prepared, query.parameters, binary=binary)
            found = self._ours.run_prepared(query.prepared, query.parameters, binary=binary)
            form = "prepared, binary" if binary else "prepared"
            self._compare(differences, form, query.prepared, found, wanted, ordered)
        return True

    def _viewed(self, differences: list[Difference], query: Query, number: int) -> list[str]:
        """Make views of the query; the names of those that are there in both systems."""
        made = []
        for kind, form in (("view", "view"), ("materialized view", "maintained view")):
            name = f"{kind[0]}{number}"
            wanted = self._theirs.run(f"create view {name} as {query.sql}")
            found = self._ours.run(f"create {kind} {name} as {query.sql}")
            self._compare(differences, f"create {form}", query.sql, found, wanted, False)
            if wanted.sqlstate is None and found.sqlstate is None:
                made.append(name)
        maintained = f"m{number}"
        if maintained in made and number % 2:
            self._ours.run(f"create default index on {maintained}")
        elif maintained in made:
            self._ours.run(f"create index on {maintained} ({query.columns[0][0]})")
        for name in made:
            self._read(differences, name, query)
        return made

    def _read(self, differences: list[Difference], view: str, query: Query) -> None:
        text = f"select * from {view}"
        form = "maintained view" if view.startswith("m") else "view"
        found, wanted = self._ours.run(text), self._theirs.run(text)
        self._compare(differences, form, query.sql, found, wanted, False)
        if wanted.rows and not differences:
            self._looked_up(differences, view, query, wanted)

    def _looked_up(
        self, differences: list[Difference], view: str, query: Query, whole: Answer
    ) -> None:
        """Ask for the rows of a view that have a value which one of them has."""
        number = next(self._lookups)
        place = number % len(query.columns)
        name, kind = query.columns[place]
        value = whole.rows[number % len(whole.rows)][place]
        if value is None:
            return
        text, declared = value.decode(), declared_as(kind)
        for sql in (
            f"select * from {view} where {name} = {literal(text, kind)}",
            f"select count(*) from {view} where {literal(text, kind)} = {name}",
        ):
            found, wanted = self._ours.run(sql), self._theirs.run(sql)
            self._compare(differences, "lookup", sql, found, wanted, False)
        sql = f"select * from {view} where {name} = $1::{declared}"
        for binary in (False, True):
            wanted = self._theirs.run_prepared(sql, [text], binary=binary)
            found = self._ours.run_prepared(sql, [text], binary=binary)
            self._compare(differences, "lookup, prepared", sql, found, wanted, False)

    def _history(
        self, differences: list[Difference], case: Case, views: list[str], *, with_restart: bool
    ) -> None:
        for number, step in enumerate(case.history):
            for statement in step.all:
                self._same(differences, "change", statement)
            if with_restart and number == 0:
                self._ours.close()
                self._ours = self._restarted()
                self._ours.run(f"set search_path = {self._path}")
            if case.reads_between or step is case.history[-1]:
                for view in views:
                    self._read(differences, view, case.queries[int(view[1:])])
                if differences:
                    return

    def _same(self, differences: list[Difference], form: str, statement: str) -> None:
        found, wanted = self._ours.run(statement), self._theirs.run(statement)
        self._compare(differences, form, statement, found, wanted, False)

    # Comparing

    def _compare(
        self,
        differences: list[Difference],
        form: str,
        sql: str,
        ours: Answer,
        theirs: Answer,
        ordered: bool,
    ) -> None:
        if theirs.sqlstate == TIMED_OUT:
            return
        self._tally.answers += 1
        self._tally.forms[form] += 1
        text = _difference(ours, theirs, ordered)
        if text is None:
            self._tally.rows += len(theirs.rows)
            if theirs.sqlstate is not None:
                self._tally.errors[theirs.sqlstate] += 1
            return
        rule = None if ours.sqlstate in ("XX000", "lost") else explanation(sql, ours, theirs)
        if rule is None:
            differences.append(Difference(form, sql, text))
            return
        self._tally.rules[rule.name] += 1
        if rule.name == "refused":
            self._tally.refusals[ours.message.split("\n")[0][:120]] += 1


def _difference(ours: Answer, theirs: Answer, ordered: bool) -> str | None:
    if ours.sqlstate != theirs.sqlstate:
        return f"{_told(ours)}, not {_told(theirs)}"
    if ours.columns != theirs.columns:
        return f"columns {ours.columns}, not {theirs.columns}"
    found, wanted = Counter(ours.rows), Counter(theirs.rows)
    if found != wanted:
        more, fewer = list((found - wanted).items())[:4], list((wanted - found).items())[:4]
        return f"{more} too many, {fewer} too few"
    if ordered and ours.rows != theirs.rows:
        return f"another order: {ours.rows[:6]}, not {theirs.rows[:6]}"
    return None


def _told(answer: Answer) -> str:
    if answer.sqlstate is None:
        return f"{len(answer.rows)} rows {answer.rows[:3]}"
    return f"{answer.sqlstate} ({' '.join(answer.message.split())[:300]})"
