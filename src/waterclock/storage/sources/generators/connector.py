"""A load generator as a source: how far it is follows from the clock, its rows from the offsets.

The frontier is the number of ticks since the source was created. It never goes back, also if the
clock does: what was bound stays. Small ranges are made in place, large ones on the executors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.reclock.shape import LOAD_GENERATOR
from waterclock.storage.sources.api import (
    Envelope,
    Kind,
    Messages,
    Probe,
    Surroundings,
    message_schema,
)
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.generators.api import Generator, Options, Piece
from waterclock.storage.sources.generators.auction import Auction
from waterclock.storage.sources.generators.bank import Bank
from waterclock.storage.sources.generators.counter import Counter
from waterclock.storage.sources.tpch.generator import Tpch

NAME = "load-generator"
_MANY_ROWS = 500_000
"""A range of at least this many rows is generated on the executors, if there are any."""
_GENERATORS: Mapping[str, type[Counter] | type[Auction] | type[Bank] | type[Tpch]] = {
    "counter": Counter,
    "auction": Auction,
    "bank": Bank,
    "tpch": Tpch,
}


def generator_of(options: Options) -> Generator:
    """The generator of that kind. Raises `InvalidSource` if there is none, or with such options."""
    found = _GENERATORS.get(options.kind)
    if found is None:
        known = ", ".join(name.upper() for name in _GENERATORS)
        raise InvalidSource(
            f'load generator "{options.kind}" does not exist', hint=f"There are {known}."
        )
    _check(options.tick_ms > 0, "TICK INTERVAL must be positive")
    _check(options.maximum is None or options.maximum > 0, "MAX must be positive")
    _check(
        options.cardinality is None or options.cardinality > 0, "MAX CARDINALITY must be positive"
    )
    _check(0 < options.scale <= 10_000, "SCALE FACTOR must be positive, and at most 10000")
    _check(0 <= options.seed < 2**63, "SEED must be between 0 and 9223372036854775807")
    return found(options)


def _check(is_right: bool, rule: str) -> None:
    if not is_right:
        raise InvalidSource(rule)


class LoadGenerator:
    """Implements `Connector`."""

    def __init__(self, options: Options, surroundings: Surroundings) -> None:
        self._options = options
        self._generator = generator_of(options)
        self._surroundings = surroundings
        self._bound = 0

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return self._generator.outputs

    @property
    def is_linearizable(self) -> bool:
        return True

    def start(self) -> SourceFrontier:
        return SourceFrontier.single(0)

    def resume(self, frontier: SourceFrontier) -> None:
        self._bound = frontier.uppers[None]

    def probe(self) -> Probe:
        """The ticks that are over; the first is, as soon as the source exists."""
        elapsed_ms = max(0, self._surroundings.clock() - self._options.created_ms)
        ticks = math.floor(elapsed_ms / self._options.tick_ms) + 1
        end = self._generator.ends_at
        known = max(self._bound, ticks if end is None else min(ticks, end))
        bound = min(known, self._bound + self._generator.ticks_at_once)
        return Probe(SourceFrontier.single(bound), SourceFrontier.single(known), bound == end)

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            pieces = list(self._generator.pieces(each.start, each.end))
            executors = self._surroundings.executors
            if executors is None or sum(piece.rows for piece in pieces) < _MANY_ROWS:
                yield from self._made_here(pieces)
            else:
                yield from self._made_outside(pieces)

    def _made_here(self, pieces: Sequence[Piece]) -> Iterator[Messages]:
        for piece in pieces:
            batch = self._generator.make(piece.output, piece.first, piece.last)
            yield Messages(piece.output, None, batch)

    def _made_outside(self, pieces: Sequence[Piece]) -> Iterator[Messages]:
        executors = self._surroundings.executors
        assert executors is not None
        for output, schema in self._generator.outputs.items():
            slices = [(piece.first, piece.last) for piece in pieces if piece.output == output]
            make = _Make(self._generator, output)
            for batch in executors.run(make, slices, message_schema(schema)) if slices else ():
                yield Messages(output, None, batch)

    def commit(self, frontier: SourceFrontier) -> None:
        self._bound = frontier.uppers[None]

    def close(self) -> None:
        pass


class _Make:
    """A generator's rows for one output, as executors are told to make them."""

    def __init__(self, generator: Generator, output: str) -> None:
        self._generator = generator
        self._output = output

    def __call__(self, first: int, last: int) -> pa.RecordBatch:
        return self._generator.make(self._output, first, last)


def encoded(options: Options) -> bytes:
    """The options as a source's definition."""
    return msgspec.msgpack.encode(options)


def _open(definition: bytes, surroundings: Surroundings) -> LoadGenerator:
    return LoadGenerator(msgspec.msgpack.decode(definition, type=Options), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    del definition, output
    return Plain()


KIND = Kind(LOAD_GENERATOR, _open, _envelope)
