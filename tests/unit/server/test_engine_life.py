"""What is decided about an engine that dies or says nothing; times are given."""

from __future__ import annotations

from waterclock.server.engine_life import EngineLife, GiveUp, Policy, Restart

POLICY = Policy(deaths=4, within_s=100.0, silence_s=10.0)


def test_the_first_death_is_followed_by_a_new_engine_at_once() -> None:
    life = EngineLife(POLICY)
    life.started(0.0)
    assert life.lost(5.0) == Restart(5.0)


def test_rests_become_longer_and_in_the_end_it_is_given_up() -> None:
    life = EngineLife(POLICY)
    decisions = []
    for now in (1.0, 10.0, 20.0, 30.0):
        life.started(now - 0.5)
        decisions.append(life.lost(now))
    assert decisions[:3] == [Restart(1.0), Restart(11.0), Restart(22.0)]
    assert isinstance(decisions[3], GiveUp)
    assert "4 times within 100 s" in decisions[3].why
    assert life.died == 4


def test_deaths_of_long_ago_are_forgiven() -> None:
    life = EngineLife(POLICY)
    for number in range(20):
        now = number * 101.0
        life.started(now)
        assert life.lost(now + 100.0) == Restart(now + 100.0)


def test_starts_that_fail_are_deaths() -> None:
    life = EngineLife(POLICY)
    decisions = [life.lost(float(now)) for now in range(4)]
    assert [type(each) for each in decisions] == [Restart] * 3 + [GiveUp]


def test_silence_counts_from_the_last_answer() -> None:
    life = EngineLife(POLICY)
    assert life.silent_s(1000.0) is None, "there is no engine that could answer"
    life.started(1000.0)
    assert life.silent_s(1009.0) is None
    life.answered(1009.0)
    assert life.silent_s(1018.0) is None
    assert life.silent_s(1020.0) == 11.0
    life.lost(1020.0)
    life.answered(1021.0)  # of the old one, too late
    assert life.silent_s(2000.0) is None
