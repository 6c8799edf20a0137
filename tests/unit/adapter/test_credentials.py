"""Verifiers: PostgreSQL's text form, and passwords of all kinds."""

from __future__ import annotations

import pytest

from waterclock.adapter.credentials import make_verifier, parse_verifier, prepare

SALT = bytes(range(16))


def test_text_form_reads_back() -> None:
    verifier = make_verifier("secret", SALT)
    assert str(verifier).startswith("SCRAM-SHA-256$4096:AAECAwQFBgcICQoLDA0ODw==$")
    assert parse_verifier(str(verifier)) == verifier


def test_the_example_of_the_standard_in_postgresqls_form() -> None:
    # The password and salt of RFC 7677.
    text = (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
        "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )
    verifier = parse_verifier(text)
    assert verifier is not None
    assert verifier.matches("pencil")
    assert not verifier.matches("Pencil")


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$4096:A$A:A",
        "SCRAM-SHA-1$4096:AAECAwQFBgcICQoLDA0ODw==$AAAA:AAAA",
        "md5d41d8cd98f00b204e9800998ecf8427e",
    ],
)
def test_what_is_no_verifier_may_be_a_password(text: str) -> None:
    assert parse_verifier(text) is None


@pytest.mark.parametrize(
    ("password", "prepared"),
    [
        ("user", "user"),
        ("I\u00adX", "IX"),  # these five are the examples of RFC 4013
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0007", "\u0007"),  # forbidden, so used as it is
        ("\u0627\u0031", "\u0627\u0031"),
        ("", ""),
        ("\u00bd", "1\u20442"),
    ],
)
def test_preparation(password: str, prepared: str) -> None:
    assert prepare(password) == prepared
