"""Sealing values, and the file with the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.adapter.secrets import KEY_BYTES, KeyUnusable, SecretBox, SecretUnreadable
from waterclock.model.ids import GlobalId

ONE, TWO = GlobalId.user(1), GlobalId.user(2)


def test_what_is_sealed_is_opened_again() -> None:
    box = SecretBox(b"k" * KEY_BYTES)
    sealed = box.seal(ONE, b"open sesame")
    assert b"sesame" not in sealed
    assert box.seal(ONE, b"open sesame") != sealed
    assert box.unseal(ONE, sealed) == b"open sesame"
    assert "k" not in repr(box).removeprefix("SecretBox")


@pytest.mark.parametrize("change", [0, 1, 15, -1])
def test_what_was_changed_does_not_open(change: int) -> None:
    box = SecretBox(b"k" * KEY_BYTES)
    sealed = bytearray(box.seal(ONE, b"open sesame"))
    sealed[change] ^= 1
    with pytest.raises(SecretUnreadable):
        box.unseal(ONE, bytes(sealed))


def test_it_opens_with_its_own_key_and_in_its_own_place_only() -> None:
    sealed = SecretBox(b"k" * KEY_BYTES).seal(ONE, b"x")
    with pytest.raises(SecretUnreadable):
        SecretBox(b"q" * KEY_BYTES).unseal(ONE, sealed)
    with pytest.raises(SecretUnreadable):
        SecretBox(b"k" * KEY_BYTES).unseal(TWO, sealed)
    with pytest.raises(SecretUnreadable):
        SecretBox(b"k" * KEY_BYTES).unseal(ONE, b"")


def test_the_key_file_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    sealed = SecretBox.open(path).seal(ONE, b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    assert SecretBox.open(path).unseal(ONE, sealed) == b"x"
    assert [each.name for each in tmp_path.iterdir()] == ["secret.key"]


def test_a_key_file_that_can_not_be_used(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    SecretBox.open(path)
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="read by others"):
        SecretBox.open(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(KeyUnusable, match="does not hold a key"):
        SecretBox.open(path)
    with pytest.raises(KeyUnusable, match="could not open"):
        SecretBox.open(tmp_path / "nowhere" / "secret.key")
