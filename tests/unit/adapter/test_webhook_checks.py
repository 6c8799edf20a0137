"""Whether a request passes the check of a webhook source: the signatures of real senders."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from waterclock.adapter.webhooks.checks import Template, refusal
from waterclock.adapter.webhooks.definition import SignatureCheck, TokenCheck

SECRET = b"It's a Secret to Everybody"
BODY = b'{"a": "\xc3\xa9"}'
NOW_MS = 1_700_000_000_000


def signed(key: bytes, message: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.new(key, message, algorithm).digest()


def test_a_token() -> None:
    check = TokenCheck("u1", "Authorization", "Bearer ")
    good = {"authorization": f"Bearer {SECRET.decode()}"}
    assert refusal(check, good, BODY, SECRET, NOW_MS) is None
    assert refusal(check, {}, BODY, SECRET, NOW_MS) == "the header Authorization is missing"
    wrong_form = {"authorization": SECRET.decode()}
    assert "form" in (refusal(check, wrong_form, BODY, SECRET, NOW_MS) or "")
    for token in ("", SECRET.decode()[:-1], SECRET.decode() + "x", "\xff"):
        told = refusal(check, {"authorization": f"Bearer {token}"}, BODY, SECRET, NOW_MS)
        assert told == "the token is wrong"


def test_a_signature_as_github_sends_it() -> None:
    """The example of GitHub's documentation."""
    check = SignatureCheck("u1", "X-Hub-Signature-256", "sha256", prefix="sha256=")
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": f"sha256={digest}"}
    assert refusal(check, headers, b"Hello, World!", SECRET, NOW_MS) is None
    assert refusal(check, headers, b"Hello, World?", SECRET, NOW_MS) == "the signature is wrong"
    assert refusal(check, headers, b"Hello, World!", b"other", NOW_MS) is not None
    bare = {"x-hub-signature-256": digest}
    assert refusal(check, bare, b"Hello, World!", SECRET, NOW_MS) == "the signature is wrong"
    upper = {"x-hub-signature-256": f"sha256={digest.upper()}"}
    assert refusal(check, upper, b"Hello, World!", SECRET, NOW_MS) is None


def stripe(sent_s: int, *signatures: bytes) -> dict[str, str]:
    listed = ",".join(f"v1={each.hex()}" for each in signatures)
    return {"stripe-signature": f"t={sent_s},{listed},v0={'0' * 64}"}


def test_several_signatures_and_the_time_of_sending_as_stripe_sends_them() -> None:
    check = SignatureCheck(
        *("u1", "Stripe-Signature", "sha256"),
        prefix="v1=",
        separator=",",
        message="{header stripe-signature t}.{body}",
        timestamp="{header Stripe-Signature t}",
    )
    sent_s = NOW_MS // 1000
    right = signed(SECRET, f"{sent_s}.".encode() + BODY)
    assert refusal(check, stripe(sent_s, right), BODY, SECRET, NOW_MS) is None
    assert refusal(check, stripe(sent_s, b"x" * 32, right), BODY, SECRET, NOW_MS) is None
    assert refusal(check, stripe(sent_s, b"x" * 32), BODY, SECRET, NOW_MS) is not None
    moved = stripe(sent_s + 1, right)
    assert refusal(check, moved, BODY, SECRET, NOW_MS) == "the signature is wrong"
    late = NOW_MS + 300_001
    assert "time of sending" in (refusal(check, stripe(sent_s, right), BODY, SECRET, late) or "")
    assert refusal(check, stripe(sent_s, right), BODY, SECRET, late - 1) is None
    early = NOW_MS - 300_001
    assert "time of sending" in (refusal(check, stripe(sent_s, right), BODY, SECRET, early) or "")


def test_only_the_older_signature_of_a_list_is_no_proof() -> None:
    """A signature of another version in the same header does not count."""
    check = SignatureCheck("u1", "s", "sha256", prefix="v1=", separator=",")
    headers = {"s": f"v0={signed(SECRET, BODY).hex()}"}
    assert refusal(check, headers, BODY, SECRET, NOW_MS) == "the signature is wrong"


def test_headers_that_are_signed_and_a_key_in_base64_as_standard_webhooks_have_them() -> None:
    check = SignatureCheck(
        *("u1", "webhook-signature", "sha256", "base64", "base64"),
        prefix="v1,",
        separator=" ",
        message="{header webhook-id}.{header webhook-timestamp}.{body}",
        timestamp="{header webhook-timestamp}",
    )
    key = bytes(range(24))
    sent = str(NOW_MS // 1000)
    right = base64.b64encode(signed(key, f"msg_1.{sent}.".encode() + BODY)).decode()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": sent,
        "webhook-signature": f"v2,eHg= v1,{right}",
    }
    secret = base64.b64encode(key)
    assert refusal(check, headers, BODY, secret, NOW_MS) is None
    del headers["webhook-id"]
    told = refusal(check, headers, BODY, secret, NOW_MS)
    assert told == "a header that is signed is missing"
    told = refusal(check, headers | {"webhook-id": "msg_1"}, BODY, b"\xff not base64", NOW_MS)
    assert told == "the secret of the source is not in base64"


@pytest.mark.parametrize("given", ["", "zz", "abc", "=", "\xe9", "v1=", "a" * 10_000])
def test_signatures_that_can_not_be_read_are_wrong(given: str) -> None:
    for encoding in ("hex", "base64"):
        check = SignatureCheck("u1", "s", "sha256", encoding=encoding)
        assert refusal(check, {"s": given}, BODY, SECRET, NOW_MS) == "the signature is wrong"


@pytest.mark.parametrize("algorithm", ["sha1", "sha384", "sha512"])
def test_other_algorithms(algorithm: str) -> None:
    check = SignatureCheck("u1", "s", algorithm)
    headers = {"s": signed(SECRET, BODY, algorithm).hex()}
    assert refusal(check, headers, BODY, SECRET, NOW_MS) is None
    longer = {"s": signed(SECRET, BODY, algorithm).hex() + "00"}
    assert refusal(check, longer, BODY, SECRET, NOW_MS) == "the signature is wrong"


def test_a_time_in_milliseconds_and_one_that_is_no_number() -> None:
    check = SignatureCheck("u1", "s", "sha256", timestamp="{header t}", tolerance_ms=1000)
    headers = {"s": hmac.new(SECRET, BODY, hashlib.sha256).hexdigest(), "t": str(NOW_MS)}
    assert refusal(check, headers, BODY, SECRET, NOW_MS + 1000) is None
    assert refusal(check, headers, BODY, SECRET, NOW_MS + 1001) is not None
    for time in ("", "-1", "1e9", "9" * 400, "\uff11"):
        told = refusal(
            check, headers | {"t": time.encode().decode("latin-1")}, BODY, SECRET, NOW_MS
        )
        assert told == "the time of sending is missing or not a number"


def test_templates() -> None:
    filled = Template("v0:{header X-Time}:{body}").fill({"x-time": "5"}, b"{body}{header x}")
    assert filled == b"v0:5:{body}{header x}"
    assert Template("{header a b}").fill({"a": "c=1, b=2, b=3"}, b"") == b"2"
    assert Template("{header a b}").fill({"a": "c=1"}, b"") is None
    for text in ("{bodies}", "{", "}", "{body", "{header}", "{{body}}"):
        with pytest.raises(ValueError, match="brace"):
            Template(text)
