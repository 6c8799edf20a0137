"""The options of a connection as the settings of Kafka's client library.

Options are checked here, once, for all clients that are made of them. What a user may set is what
the connection has options for: nothing here can change which records are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource

ClientSettings = Mapping[str, str | int | bool]
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSED_ON = {
    "sasl username": "sasl.username",
    "sasl password": "sasl.password",
    "ssl key": "ssl.key.pem",
    "ssl certificate": "ssl.certificate.pem",
    "ssl certificate authority": "ssl.ca.pem",
}
_OURS: ClientSettings = {
    "client.id": "waterclock",
    "log_level": 2,  # what goes wrong is told by errors; the library would repeat it on stderr
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
    # New partitions and a new leader are noticed when they are asked for, not minutes later.
    "topic.metadata.refresh.interval.ms": 10_000,
}


def client_settings(connection: ConnectionSettings) -> ClientSettings:
    """What every client of the connection's brokers is told. Raises `InvalidSource`."""
    options = connection.options
    found: dict[str, str | int | bool] = {**_OURS, "bootstrap.servers": _brokers(connection)}
    for name, setting in _PASSED_ON.items():
        if name in options:
            found[setting] = _text(options, name)
    found["security.protocol"] = protocol = _protocol(options)
    if protocol.startswith("SASL"):
        found["sasl.mechanisms"] = _mechanism(options)
        _require(options, ("sasl username", "sasl password"), f"SECURITY PROTOCOL {protocol}")
    if "ssl.key.pem" in found or "ssl.certificate.pem" in found:
        _require(options, ("ssl key", "ssl certificate"), "a client certificate")
    return found


def _brokers(connection: ConnectionSettings) -> str:
    given = connection.options.get("broker", connection.options.get("brokers", ()))
    addresses = (given,) if isinstance(given, str) else given
    cleaned = [address.strip() for each in addresses for address in each.split(",")]
    if not cleaned or not all(cleaned):
        raise InvalidSource(f'connection "{connection.name}" has no broker')
    for address in cleaned:
        host, colon, port = address.rpartition(":")
        is_bare = not colon or address.endswith("]")
        if not is_bare and not (host and port.isascii() and port.isdigit() and int(port) < 65536):
            raise InvalidSource(
                f'"{address}" is not the address of a broker',
                hint="Write it as host:port; the port is 9092 if it is left out.",
            )
    return ",".join(cleaned)


def _protocol(options: Mapping[str, str | tuple[str, ...]]) -> str:
    """As asked for; else the safest that the other options speak of."""
    if "security protocol" not in options:
        if any(name.startswith("sasl") for name in options):
            return "SASL_SSL"
        return "SSL" if any(name.startswith("ssl") for name in options) else "PLAINTEXT"
    protocol = _text(options, "security protocol").upper()
    if protocol not in _PROTOCOLS:
        raise InvalidSource(
            f'SECURITY PROTOCOL "{protocol}" is not supported',
            hint=f"There are {', '.join(_PROTOCOLS)}.",
        )
    return protocol


def _mechanism(options: Mapping[str, str | tuple[str, ...]]) -> str:
    mechanism = _text(options, "sasl mechanisms").upper() if "sasl mechanisms" in options else ""
    if mechanism not in _MECHANISMS:
        raise InvalidSource(
            f'SASL MECHANISMS "{mechanism}" is not supported'
            if mechanism
            else "SASL MECHANISMS is required for SASL",
            hint=f"There are {', '.join(_MECHANISMS)}.",
        )
    return mechanism


def _require(
    options: Mapping[str, str | tuple[str, ...]], names: tuple[str, ...], reason: str
) -> None:
    for name in names:
        if name not in options:
            raise InvalidSource(f"{name.upper()} is required for {reason}")


def _text(options: Mapping[str, str | tuple[str, ...]], name: str) -> str:
    value = options[name]
    if not isinstance(value, str):
        raise InvalidSource(f"{name.upper()} must be a single value")
    return value
