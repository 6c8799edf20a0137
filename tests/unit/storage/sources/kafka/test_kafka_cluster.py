"""What is made of the brokers' answers, also of those that are just going away."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kafka.cluster import Cluster

INVALID = -1001
"""What the library calls the offset that it has not been told."""


@dataclass
class Answer:
    """As the library gives one."""

    offset: int


class Brokers:
    """Answers questions for offsets in turn."""

    def __init__(self, *answers: list[int]) -> None:
        self._answers = list(answers)

    def list_offsets(self, asked: Mapping[Any, Any], **_: Any) -> dict[Any, Future[Answer]]:
        found: dict[Any, Future[Answer]] = {}
        for place, offset in zip(asked, self._answers.pop(0), strict=True):
            found[place] = Future()
            found[place].set_result(Answer(offset))
        return found


@pytest.fixture
def cluster() -> Cluster:
    return Cluster("k", {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def answering(cluster: Cluster, *answers: list[int]) -> Cluster:
    vars(cluster)["_admin"] = Brokers(*answers)
    return cluster


def test_offsets(cluster: Cluster) -> None:
    answering(cluster, [3, 0], [7, 0], [5, 0])
    assert cluster.earliest("t", [0, 1]) == {0: 3, 1: 0}
    assert cluster.ends("t", [0, 1]) == {0: 7, 1: 0}
    assert cluster.at("t", [0, 1], 1000) == {0: 5, 1: 0}


@pytest.mark.parametrize("unknown", [-1, INVALID])
def test_a_question_that_went_away_with_its_broker(cluster: Cluster, unknown: int) -> None:
    answering(cluster, [3, unknown], [unknown, 7])
    for ask in (cluster.earliest, cluster.ends):
        with pytest.raises(TransientFault) as raised:
            ask("t", [0, 1])
        assert raised.value.message == 'the brokers of connection "k" can not be reached'
        assert raised.value.detail == "the leader of a partition went away."


def test_no_record_at_a_time_is_told_from_no_answer(cluster: Cluster) -> None:
    assert answering(cluster, [5, -1]).at("t", [0, 1], 1000) == {0: 5, 1: None}
    with pytest.raises(TransientFault):
        answering(cluster, [5, INVALID]).at("t", [0, 1], 1000)
