"""Kinds of sources that kill their own process, as kill -9 does, in the middle of a read.

A binding is durable before it is read. So a process that ends when a read has given so many
messages leaves a binding without its data, always at the same place: 0 is between the binding and
the first message.

What a receiver has given is durable with its binding. So a process that ends when it has given
something leaves neither; 0 is the first time that it gives anything.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import (
    Connector,
    Kind,
    Messages,
    Received,
    Receiver,
    Surroundings,
)

_OPTION = "dies="


def mortal(kind: Kind, dies_after: int | None) -> Kind:
    """The kind, with reads that end the process; None is for ever."""
    if dies_after is None:
        return kind
    times_left = dies_after

    def received(receive: Callable[[], Received]) -> Received:
        nonlocal times_left
        given = receive()
        if given.messages:
            if not times_left:
                os.kill(os.getpid(), signal.SIGKILL)
            times_left -= 1
        return given

    def opened(definition: bytes, surroundings: Surroundings) -> Connector | Receiver:
        connector: Any = kind.open(definition, surroundings)
        if isinstance(connector, Receiver):
            receiver: Any = connector
            receiver.receive = partial(received, connector.receive)
            return connector
        read = connector.read

        def deadly(ranges: Sequence[Range]) -> Iterator[Messages]:
            left = dies_after
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            for messages in read(ranges):
                yield messages
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        connector.read = deadly
        return connector  # type: ignore[no-any-return]

    return replace(kind, open=opened)


def taken_from(arguments: list[str]) -> int | None:
    """The number in `dies=N`, which is taken out of the arguments of a program."""
    for each in arguments:
        if each.startswith(_OPTION):
            arguments.remove(each)
            return int(each.removeprefix(_OPTION))
    return None
