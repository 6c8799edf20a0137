"""What can be told about a statement from its words alone.

That is enough to decide how to run and compare it. PostgreSQL decides all that needs a parser.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from waterclock.testing.script_files.psql_script import Token, tokens_of

_QUERIES = frozenset({"select", "values", "with", "table", "("})
_CONTROL = frozenset(
    {"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"}
)
_VOLATILE = re.compile(
    r"random|setseed|gen_random_uuid|now|clock_timestamp|statement_timestamp|transaction_timestamp"
    r"|timeofday|current_timestamp|current_time|current_date|localtime|localtimestamp|nextval"
    r"|currval|lastval|setval|set_config|txid_\w+|pg_(?!typeof)\w+|ctid|xmin|xmax|cmin|cmax|tableoid"
)
"""Words of queries whose answer is another one each time, or depends on the session."""


@dataclass(frozen=True, slots=True)
class Words:
    """The tokens of a statement, and what follows from them."""

    text: str
    tokens: tuple[Token, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(tokens_of(self.text)))

    @property
    def first(self) -> str:
        """The first keyword in lower case, or an opening bracket."""
        return self.tokens[0].text.lower() if self.tokens else ""

    @property
    def is_query(self) -> bool:
        return self.first in _QUERIES

    @property
    def is_explain(self) -> bool:
        return self.first == "explain"

    @property
    def controls_transaction(self) -> bool:
        words = [token.word for token in self.tokens[:2]]
        return self.first in _CONTROL or words == ["prepare", "transaction"]

    @property
    def sets_search_path(self) -> bool:
        """Whether it may change which relations are seen."""
        is_setting = self.first in ("set", "reset", "discard") or "set_config" in self._words
        return is_setting and bool(self.names & {"search_path", "schema", "role", "all"})

    @property
    def is_ordered(self) -> bool:
        """Whether the outermost query has an ORDER BY."""
        tokens, depth = list(self.tokens), 0
        while tokens and tokens[0].text == "(" and self._closes(tokens):
            tokens, depth = tokens[1:-1], depth + 1
        words = [token.word if token.depth == depth else "" for token in tokens]
        return any(pair == ("order", "by") for pair in itertools.pairwise(words))

    @staticmethod
    def _closes(tokens: list[Token]) -> bool:
        """Whether the bracket at the beginning is closed by the one at the end."""
        outer = tokens[0].depth
        inside = all(token.depth > outer for token in tokens[1:-1])
        return inside and tokens[-1].text == ")"

    @property
    def is_volatile(self) -> bool:
        return any(_VOLATILE.fullmatch(word) for word in self._words)

    @property
    def names(self) -> frozenset[str]:
        """All that may be the name of a relation, as the catalog spells it."""
        quoted = (
            token.text.strip('"').replace('""', '"')
            for token in self.tokens
            if token.kind == "quoted"
        )
        return frozenset((*self._words, *quoted))

    @property
    def _words(self) -> set[str]:
        return {token.word for token in self.tokens if token.word}
