"""The addresses at which the server listens, and when it may.

A socket is bound before the server is ready, so that a port that is taken is found at once, and a
client that comes early waits instead of being turned away.

Beyond this machine only clients with a password are served, so without any password nobody could
be, and a server that listens there would be a mistake: it is refused, with what to do about it.
"""

from __future__ import annotations

import socket
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.server.configuration import is_loopback

_BACKLOG = 512
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class CannotListen(WaterclockError):
    """The address can not be listened at."""

    sqlstate: ClassVar[str] = "F0000"


class NoPassword(WaterclockError):
    """Others could connect, and nobody has a password."""

    sqlstate: ClassVar[str] = "28000"


def listen(host: str, port: int, flag: str) -> socket.socket:
    """A socket at which connections queue up from now on. `flag` is what the port was given by."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise CannotListen(
            f'could not resolve host "{host}": {error.strerror}',
            hint="Give --host an address of this machine, such as 127.0.0.1.",
        ) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise CannotListen(
            f"could not listen on {host}:{port}: {error.strerror}",
            hint=f"Stop what listens there, or choose another port with {flag}.",
        ) from error
    return listening


def port_of(listening: socket.socket) -> int:
    """The port that the socket has got."""
    port = listening.getsockname()[1]
    assert isinstance(port, int)
    return port


def reachable(host: str) -> str:
    """An address of a server that listens at `host`, for a client on the same machine."""
    return _EVERYWHERE.get(host, host)


def require_password(host: str, has_password: bool) -> None:
    """Raise `NoPassword` if others can reach the host and nobody could prove who he is."""
    if is_loopback(host) or has_password:
        return
    raise NoPassword(
        f"refusing to listen on {host}: no role has a password",
        detail="Clients from other machines have to authenticate, and none could.",
        hint=(
            "Start the server with --host 127.0.0.1, run"
            " ALTER ROLE waterclock PASSWORD '...', and start it again."
        ),
    )
