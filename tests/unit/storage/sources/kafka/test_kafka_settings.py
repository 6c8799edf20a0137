"""Options of connections to Kafka, and what the client library is told of them."""

from __future__ import annotations

import pytest

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kafka.settings import client_settings


def told(**options: str | tuple[str, ...]) -> dict[str, str | int | bool]:
    named = {name.replace("_", " "): value for name, value in options.items()}
    return dict(client_settings(ConnectionSettings("k", "kafka", named)))


def test_brokers() -> None:
    assert told(broker="a:1")["bootstrap.servers"] == "a:1"
    assert told(brokers=("a:1", "b"))["bootstrap.servers"] == "a:1,b"
    assert told(broker="a:1, [::1]:2")["bootstrap.servers"] == "a:1,[::1]:2"
    assert told(broker="a")["security.protocol"] == "PLAINTEXT"


@pytest.mark.parametrize("address", ["", "a:", "a:x", "a:99999", ":9092", "a:1,,b:2"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InvalidSource):
        told(broker=address)


def test_logging_in() -> None:
    found = told(broker="a:1", sasl_mechanisms="plain", sasl_username="u", sasl_password="p")
    assert found["security.protocol"] == "SASL_SSL"  # the safe one, if nothing is said
    assert found["sasl.mechanisms"] == "PLAIN"
    assert (found["sasl.username"], found["sasl.password"]) == ("u", "p")
    plain = told(
        broker="a:1",
        security_protocol="sasl_plaintext",
        sasl_mechanisms="SCRAM-SHA-256",
        sasl_username="u",
        sasl_password="p",
    )
    assert plain["security.protocol"] == "SASL_PLAINTEXT"


def test_certificates() -> None:
    found = told(broker="a:1", ssl_key="K", ssl_certificate="C", ssl_certificate_authority="A")
    assert found["security.protocol"] == "SSL"
    assert found["ssl.key.pem"] == "K"
    assert found["ssl.certificate.pem"] == "C"
    assert found["ssl.ca.pem"] == "A"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"security_protocol": "TLS"}, 'SECURITY PROTOCOL "TLS" is not supported'),
        ({"sasl_username": "u"}, "SASL MECHANISMS is required for SASL"),
        ({"sasl_mechanisms": "GSSAPI"}, 'SASL MECHANISMS "GSSAPI" is not supported'),
        ({"sasl_mechanisms": "PLAIN"}, "SASL USERNAME is required for SECURITY PROTOCOL SASL_SSL"),
        ({"ssl_key": "K"}, "SSL CERTIFICATE is required for a client certificate"),
        ({"security_protocol": ("A", "B")}, "SECURITY PROTOCOL must be a single value"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSource) as caught:
        told(broker="a:1", **options)
    assert caught.value.message == message


def test_the_secrets_are_not_printed() -> None:
    settings = ConnectionSettings("k", "kafka", {"sasl password": "hush"})
    assert "hush" not in repr(settings)
