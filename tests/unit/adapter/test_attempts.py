"""Wrong passwords slow down those who send them, and nobody else, in bounded memory."""

from __future__ import annotations

import itertools

import pytest

from waterclock.adapter.attempts import (
    ADDRESSES,
    FORGOTTEN_S,
    MOST_REFUSED_S,
    REFUSED_S,
    ROLES_OF_ADDRESS,
    TRIES,
    TRIES_OF_ADDRESS,
    Attempts,
    TooManyTries,
)

HERE, ELSEWHERE = "192.0.2.7", "192.0.2.8"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attempts(clock: Clock) -> Attempts:
    return Attempts(clock)


def fail(attempts: Attempts, clock: Clock, role: str = "ann", times: int = 1) -> list[float]:
    """Guess so often, each time as soon as it is allowed; how long each guess had to wait."""
    waited = []
    for _ in range(times):
        waited.append(attempts.turn(role, HERE))
        clock.now += waited[-1]
        attempts.failed(role, HERE)
    return waited


def test_each_wrong_password_makes_the_next_try_wait_longer(
    attempts: Attempts, clock: Clock
) -> None:
    waited = fail(attempts, clock, times=6)
    assert waited[0] == 0
    assert waited == sorted(waited)
    assert waited[1] > 0
    assert waited[4] >= 4 * waited[1]


def test_many_are_refused_for_a_while_and_for_longer_each_time(
    attempts: Attempts, clock: Clock
) -> None:
    fail(attempts, clock, times=TRIES)
    with pytest.raises(TooManyTries) as refused:
        attempts.turn("ann", HERE)
    assert refused.value.hint == f"Try again in {round(REFUSED_S)} s."
    clock.now += REFUSED_S + 1
    attempts.turn("ann", HERE)
    attempts.failed("ann", HERE)
    clock.now += REFUSED_S + 1
    with pytest.raises(TooManyTries):
        attempts.turn("ann", HERE)
    clock.now += MOST_REFUSED_S
    attempts.turn("ann", HERE)


def test_elsewhere_and_other_roles_are_not_affected(attempts: Attempts, clock: Clock) -> None:
    fail(attempts, clock, times=TRIES)
    assert attempts.turn("ann", ELSEWHERE) == 0
    assert attempts.turn("bob", HERE) == 0


def test_the_right_password_ends_the_waiting(attempts: Attempts, clock: Clock) -> None:
    fail(attempts, clock, times=4)
    clock.now += attempts.turn("ann", HERE)
    attempts.succeeded("ann", HERE)
    assert attempts.turn("ann", HERE) == 0


def test_an_own_role_with_its_right_password_does_not_pay_for_guessing_others(
    attempts: Attempts, clock: Clock
) -> None:
    for number in range(TRIES_OF_ADDRESS):
        attempts.succeeded("mallory", HERE)
        fail(attempts, clock, f"role {number % (ROLES_OF_ADDRESS - 1)}")
    with pytest.raises(TooManyTries):
        attempts.turn("role 0", HERE)
    assert attempts.turn("role 0", ELSEWHERE) == 0


def test_tries_at_the_same_time_get_their_turns_one_after_the_other(
    attempts: Attempts, clock: Clock
) -> None:
    fail(attempts, clock, times=2)
    turns = [attempts.turn("ann", HERE) for _ in range(5)]
    assert all(later > earlier for earlier, later in itertools.pairwise(turns))
    while (turn := attempts.turn("ann", HERE)) < 4:
        turns.append(turn)
    with pytest.raises(TooManyTries):
        [attempts.turn("ann", HERE) for _ in range(10)]


def test_it_is_forgotten_after_a_time(attempts: Attempts, clock: Clock) -> None:
    fail(attempts, clock, times=TRIES)
    clock.now += FORGOTTEN_S + MOST_REFUSED_S
    assert attempts.turn("ann", HERE) == 0
    assert len(attempts) == 0


def test_an_ipv6_network_is_one_address(attempts: Attempts, clock: Clock) -> None:
    for number in range(TRIES):
        attempts.failed("ann", f"2001:db8::{number:x}")
    clock.now += 1
    with pytest.raises(TooManyTries):
        attempts.turn("ann", "2001:db8::ffff")
    assert attempts.turn("ann", "2001:db8:0:1::1") == 0
    attempts.failed("bob", "::ffff:192.0.2.7")
    assert attempts.turn("bob", HERE) > 0


def test_memory_is_bounded_whatever_is_tried(attempts: Attempts) -> None:
    for number in range(500):
        attempts.failed(f"role {number}", HERE)
    assert len(attempts) <= ROLES_OF_ADDRESS + 1
    with pytest.raises(TooManyTries):  # nor does it help to let names be forgotten
        attempts.turn("role 0", HERE)
    for number in range(ADDRESSES + 100):
        attempts.failed("ann", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(attempts) <= 2 * ADDRESSES
