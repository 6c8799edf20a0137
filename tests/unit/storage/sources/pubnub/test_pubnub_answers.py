"""What PubNub's service answers, and what is made of it."""

from __future__ import annotations

import datetime
import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.storage.sources.pubnub.answers import (
    Cursor,
    HistoryRefused,
    Message,
    refusal,
    stored,
    subscribed,
)
from waterclock.storage.sources.pubnub.records import records_of
from waterclock.storage.sources.pubnub.service import (
    ORIGIN,
    Channel,
    Service,
    checked_origin,
)


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def event(payload: Any, **known: Any) -> dict[str, Any]:
    base = {"a": "1", "f": 514, "i": "pn-0ca5", "s": 1, "p": {"t": "15628652479933927", "r": 4}}
    return {**base, "k": "demo", "c": "ch", "d": payload, "b": "ch", **known}


def test_an_answer_has_a_cursor_and_messages() -> None:
    given = {
        "t": {"t": "15628652479932717", "r": 4},
        "m": [event({"a": 1}), event("x", e=1, i=None, u={"k": 1}, cmt="note", new="field")],
    }
    answer = subscribed(body(given))
    assert answer.cursor == Cursor(15628652479932717, 4)
    first, second = answer.messages
    assert first == Message(15628652479933927, b'{"a": 1}', 4, "pn-0ca5", 1)
    assert (second.type, second.custom_type, second.meta) == (1, "note", b'{"k": 1}')
    assert first.is_stored
    assert not second.is_stored


def test_what_is_no_message_of_the_channel_is_counted_and_left_out() -> None:
    events = [event({}, e=2), event({}, e=3), event({"id": 1}, e=4)]
    answer = subscribed(body({"t": {"t": "5", "r": 1}, "m": events}))
    assert [message.type for message in answer.messages] == [4]
    assert answer.count == 3


def test_numbers_may_be_numbers_or_texts() -> None:
    answer = subscribed(b'{"t":{"t":15628652479932717,"r":"12"},"m":[]}')
    assert answer.cursor == Cursor(15628652479932717, 12)


@pytest.mark.parametrize(
    "given",
    [
        b"<html>",
        b"[]",
        b'{"t":{"t":"x"}}',
        b"",
        b'{"m":[]}',
        b'{"t":{"t":-1}}',
        b'{"t":{"t":"9223372036854775808"}}',
        b'{"t":{"t":1,"r":"2147483648"}}',
    ],
)
def test_what_is_not_from_the_service(given: bytes) -> None:
    with pytest.raises(TransientFault, match="can not be read"):
        subscribed(given)


def test_nothing_of_an_answer_that_is_not_from_the_service_is_shown() -> None:
    with pytest.raises(TransientFault, match="can not be read") as fault:
        subscribed(b'{"t":{"t":"hidden"}}')
    assert "hidden" not in f"{fault.value} {fault.value.detail}"


def test_an_auth_key_that_the_service_repeats_is_not_shown() -> None:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        origin = f"http://127.0.0.1:{server.server_port}"
        service = Service(Channel(origin, "sub-c-1", "c", "me", "p/w"))
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with closing(service), pytest.raises(TransientFault, match="answered with 404") as fault:
            service.end()
        thread.join()
    assert "auth=..." in str(fault.value)
    assert "p%2Fw" not in str(fault.value)


class Echo(BaseHTTPRequestHandler):
    """Repeats what is asked, as frameworks do that do not know a path."""

    def do_GET(self) -> None:
        body = b'{"message": "no route ' + self.path.rpartition("&")[2].encode() + b'"}'
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def test_a_page_of_history_is_in_order() -> None:
    found = [
        {"message": {"n": 2}, "timetoken": "20", "uuid": "u", "message_type": None, "meta": ""},
        {"message": {"n": 1}, "timetoken": 10, "message_type": 4, "meta": {"m": 1}},
        {"message": {}, "timetoken": 15, "message_type": 2},
    ]
    page = stored(body({"status": 200, "error": False, "channels": {"ch": found}}), 100)
    assert page.messages == (
        Message(10, b'{"n": 1}', type=4, meta=b'{"m": 1}'),
        Message(20, b'{"n": 2}', issuer="u"),
    )
    assert not page.has_more


def test_a_page_that_is_full_or_says_so_has_more() -> None:
    one = {"channels": {"ch": [{"message": 1, "timetoken": 1}]}}
    assert stored(body(one), 1).has_more
    assert not stored(body(one), 2).has_more
    assert stored(body({**one, "more": {"url": "/v3/..."}}), 2).has_more
    assert stored(body({"channels": {}}), 1).messages == ()


def test_history_that_is_not_kept_is_refused() -> None:
    with pytest.raises(HistoryRefused, match="not enabled"):
        stored(body({"error": True, "error_message": "not enabled", "channels": {}}), 100)


def test_what_the_service_says_is_found() -> None:
    assert refusal(b'{"error_message": "Invalid Arguments", "status": 400}') == "Invalid Arguments"
    assert refusal(b'{"message": "Forbidden"}') == "Forbidden"
    assert refusal(b"<html>") == refusal(b"[0]") == ""


def test_payloads_as_records() -> None:
    given = [
        Message(17_000_000_000_000_015, b'"a\\u00e9"', 4, "me"),
        Message(17_000_000_000_000_025, b' {"a": "b"}', type=1, meta=b"{}"),
        Message(17_000_000_000_000_035, b'"\\ud800"', type=4, custom_type="c"),
    ]
    records = records_of(given, keeps_text=False)
    assert records.column("value").to_pylist() == ["aé".encode(), b' {"a": "b"}', b'"\\ud800"']
    assert records.column("partition").to_pylist() == [4, None, None]
    assert records.column("offset")[0].as_py() == 17_000_000_000_000_015
    moment = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC)
    assert records.column("timestamp")[0].as_py() == moment + datetime.timedelta(microseconds=1)
    assert records.column("headers").to_pylist()[1] == [
        {"key": "type", "value": b"signal"},
        {"key": "meta", "value": b"{}"},
    ]
    as_json = records_of(given, keeps_text=True)
    assert as_json.column("value")[0].as_py() == b'"a\\u00e9"'


def test_origins() -> None:
    assert checked_origin(ORIGIN) == ORIGIN
    assert checked_origin("ps.pndsn.com") == ORIGIN
    assert checked_origin("https://host:8443/") == "https://host:8443"
    assert checked_origin("http://127.0.0.1:80") == "http://127.0.0.1:80"
    for wrong in (
        "",
        "ftp://host",
        "https://",
        "https://h/p",
        "https://u@h",
        "https://h:x",
        "h?q",
        "http://[",
        "a b",
        "é.org",
        "h:0",
        "h:70000",
        "h\n",
    ):
        with pytest.raises(InvalidSource, match="is not an origin"):
            checked_origin(wrong)
