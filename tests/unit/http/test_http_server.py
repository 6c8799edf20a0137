"""The HTTP server at a real socket, in the clear and with TLS."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
import ssl
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from waterclock.http.server import CertificateFiles, HttpServer
from waterclock.pgwire.tls import make_certificate
from waterclock.server.listening import listen, port_of


async def hello(request: Request) -> Response:
    return PlainTextResponse(f"hello {request.url.scheme}")


APP = Starlette(routes=[Route("/", hello)])


@pytest.mark.parametrize("secure", [False, True])
def test_start_answer_stop(tmp_path: Path, secure: bool) -> None:
    tls, verify = None, ssl.create_default_context()
    if secure:
        certificate, key = make_certificate("localhost", dt.datetime.now(dt.UTC))
        tls = CertificateFiles(tmp_path / "c.pem", tmp_path / "k.pem")
        tls.certificate.write_bytes(certificate)
        tls.key.write_bytes(key)
        verify.load_verify_locations(tls.certificate)

    async def main() -> None:
        before = signal.getsignal(signal.SIGINT)
        listening = listen("127.0.0.1", 0, "--http-port")
        server = HttpServer(APP, tls)
        await server.start(listening)
        assert signal.getsignal(signal.SIGINT) == before, "signals are somebody else's"
        scheme = "https" if secure else "http"
        url = f"{scheme}://localhost:{port_of(listening)}/"
        async with httpx.AsyncClient(verify=verify, trust_env=False) as client:
            assert (await client.get(url)).text == f"hello {scheme}"
        await server.close()
        await server.close()
        async with httpx.AsyncClient(verify=verify, trust_env=False) as client:
            with pytest.raises(httpx.TransportError):
                await client.get(url)
        listening.close()

    asyncio.run(main())
