"""Who is answered at all: every row of the table in docs/view.md, through a real socket."""

import os
import socket
import stat
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.view import address, client_files, guard, protocol, server
from eventlog.view.answers import ROUTES
from tests.conftest import examples
from tests.view.sample import Sample
from tests.view.support import Served, parsed, read_all, serving

PATHS = ("/", "/s/abc", "/static/index.html", "/static/none.js", "/api/stores", "/api/none", "/api/live")
POLICY = (
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
)  # fmt: skip


def test_this_server_answers_to_its_own_names(served: Served) -> None:
    """Three names of this machine, with the port."""
    for host in (f"127.0.0.1:{served.port}", f"localhost:{served.port}", f"[::1]:{served.port}"):
        assert served.ask("/api/stores", headers={"Host": host}).status == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        "", "evil.example", "evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1",
        "LOCALHOST:{port}",
        "localhost.:{port}", "user@localhost:{port}", "127.1:{port}", "[::ffff:127.0.0.1]:{port}",
        "localhost:{port}.evil.example", "0.0.0.0:{port}",
    ],
)  # fmt: skip
def test_another_name_is_refused_on_every_path(served: Served, path: str, host: str) -> None:
    """P5: DNS rebinding: only the name tells a page of elsewhere that a browser sends here."""
    reply = served.ask(path, headers={"Host": host.format(port=served.port)})
    assert reply.status == 421
    assert b"sample" not in reply.body


def test_no_name_and_two_names_are_refused(served: Served) -> None:
    """Neither is a name of ours."""
    own = f"Host: {served.host}\r\n"
    for hosts, status in (("", 400), (own * 2, 400), (own + "Host: evil.example\r\n", 400)):
        reply = served.send(f"GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        assert reply.status == status
    assert served.send(b"GET / HTTP/1.0\r\n\r\n").status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_only_reading_is_answered(served: Served, method: str) -> None:
    """P5: GET and HEAD; nothing is shared with another origin, not even by a preflight."""
    for path in ("/", "/api/stores"):
        reply = served.ask(path, method=method)
        assert reply.status == 405
        assert not [name for name, _ in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("token", [None, "x", "{token}x", "x{token}", "Bearer {token}"])
def test_without_the_token_nothing_is_answered(served: Served, token: str | None) -> None:
    """P5: of every answer, those that do not exist too."""
    given = None if token is None else token.format(token=served.guard.token)
    for path in (*ROUTES, "/api/stores", "/api/live", "/api/content/x", "/api/none"):
        reply = served.ask(path, token=given)
        assert (reply.status, b"sample" in reply.body) == (401, False), path
    for query in ({"token": served.guard.token}, {"t": served.guard.token}):
        assert served.ask("/api/stores", query, token=None).status == 401


def test_a_token_belongs_to_one_process(served: Served, sample: Sample) -> None:
    """192 bits, new each time."""
    with serving({"sample": sample.store}) as other:
        assert other.guard.token != served.guard.token
        assert len(other.guard.token) == 32
        assert other.ask("/api/stores", token=served.guard.token).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
def test_another_site_is_refused_even_with_the_token(served: Served, headers: dict[str, str]) -> None:
    """P5: by Origin, and by what a browser states of who asks."""
    given = {name: value.format(port=served.port) for name, value in headers.items()}
    for path in ("/api/stores", "/static/index.html"):
        assert served.ask(path, headers=given).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_our_own_pages_are_answered(served: Served, site: str | None) -> None:
    """From this origin, or typed."""
    headers = {"Origin": f"http://{served.host}"} | ({} if site is None else {"Sec-Fetch-Site": site})
    assert served.ask("/api/stores", headers=headers).status == 200


def test_a_link_of_elsewhere_may_lead_to_the_shell(served: Served) -> None:
    """P5: it holds no data, and a file that opens it is another site. A frame or a script may not have it."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert served.ask("/s/abc", token=None, headers=link).status == 200
    for other in ({"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}):
        assert served.ask("/s/abc", token=None, headers={**link, **other}).status == 403


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", None])
def test_every_answer_has_the_policy(served: Served, path: str, token: str | None) -> None:
    """P5: and no cookie, no sharing across origins, no copy in a cache, no name of a server."""
    if path == "/api/live" and token is not None:
        return
    for host in (served.host, "evil.example"):
        reply = served.ask(path, token=token, headers={"Host": host})
        policy = (reply.header("content-security-policy") or "").split("; ")
        assert sorted(policy) == sorted(POLICY)
        assert "unsafe" not in str(policy)
        assert reply.header("cross-origin-opener-policy") == "same-origin"
        assert reply.header("cross-origin-resource-policy") == "same-origin"
        assert reply.header("x-content-type-options") == "nosniff"
        assert reply.header("referrer-policy") == "no-referrer"
        assert reply.header("cache-control") == "no-store"
        names = {name for name, _ in reply.headers}
        assert not {"set-cookie", "server", "location"} & names
        assert not [name for name in names if name.startswith("access-control")]


def test_what_is_no_request_has_the_policy_too(served: Served) -> None:
    """The answers of the server itself have the same headers."""
    reply = served.send(b"\x16\x03\x01 hello\r\n\r\n")
    assert (reply.status, reply.header("cache-control")) == (400, "no-store")


# -- paths -------------------------------------------------------------------------------------------

SEGMENTS = st.sampled_from(
    (
        "..",
        ".",
        "%2e%2e",
        "..%2f",
        "%5c..",
        "~",
        "etc",
        "passwd",
        ".locus",
        "STORE",
        "index.html",
        "//",
        "%00",
        "client",
    )
)


@given(st.lists(SEGMENTS, max_size=6), st.sampled_from(("/static/", "/api/", "/api/content/", "/")))
@settings(max_examples=examples(60, 2_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_leads_to_a_file(served: Served, parts: list[str], start: str) -> None:
    """Static files are known by their names: whatever else is asked for, no file is opened for it."""
    opened: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_files.resources, "files", lambda *a: opened.append(a))
        reply = served.ask(start + "/".join(parts))
    assert opened == []
    shell = served.ask("/").body
    assert reply.status in (200, 400, 404)
    assert reply.status != 200 or reply.body == shell or start.startswith("/api/")
    assert b"root:" not in reply.body


def test_static_files_are_those_of_the_client(served: Served) -> None:
    """P5: under their own names and no others."""
    for name, (type, data) in server.static_files().items():
        reply = served.ask(f"/static/{name}", token=None)
        assert (reply.status, reply.header("content-type"), reply.body) == (200, type, data)
    assert served.ask("/static/../guard.py", token=None).status == 404
    assert served.ask(f"/static/{quote('../guard.py', safe='')}", token=None).status == 404


def test_head_is_get_without_a_body(served: Served) -> None:
    """With the length that it would have."""
    reply = served.ask("/api/stores", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.header("content-length") or 0) > 50


# -- exhaustion --------------------------------------------------------------------------------------


def test_large_heads_are_refused(served: Served) -> None:
    """P5: sixteen kilobytes are enough; a head without an end is cut off."""
    assert served.ask("/", headers={"X": "x" * 15_000}).status == 200
    assert served.ask("/", headers={"X": "x" * 20_000}).status == 431
    assert served.ask("/" + "x" * 20_000).status == 431
    with served.connect() as connection, pytest.raises(OSError):  # a head that never ends
        for _ in range(1_000):
            connection.sendall(b"X: " + b"x" * 1_000 + b"\r\n")
            time.sleep(0.001)


def test_a_slow_request_is_given_up(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: whoever sends half a head holds nothing; whoever waits for an answer is not given up."""
    monkeypatch.setattr(protocol, "REQUEST_S", 0.3)
    with serving({"sample": sample.store}) as served:
        for sent in (b"", b"GET / HT", f"GET / HTTP/1.1\r\nHost: {served.host}\r\n".encode()):
            with served.connect() as connection:
                connection.sendall(sent)
                assert parsed(read_all(connection)).status == 0
        with served.connect() as connection:
            for _ in range(2):
                connection.sendall(f"GET / HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
                time.sleep(0.5)
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_long_answer_is_waited_for(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: the time is that of a request's head, not of its answer."""
    monkeypatch.setattr(protocol, "REQUEST_S", 0.2)
    answer = server.answers.answer

    def slow(*arguments: object) -> object:
        time.sleep(0.6)
        return answer(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(server.answers, "answer", slow)
    with serving({"sample": sample.store}) as served:
        assert served.ask("/api/stores").status == 200


def test_a_long_question_holds_up_no_page(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL, searches and far comparisons have a thread of their own."""
    answer, begun, may_end = server.answers.answer, threading.Event(), threading.Event()

    def held(stores: object, path: str, parameters: object) -> object:
        if path == "/api/sql":
            begun.set()
            assert may_end.wait(60)
        return answer(stores, path, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(server.answers, "answer", held)
    with serving({"sample": sample.store}) as served:
        asking = threading.Thread(target=served.ask, args=("/api/sql", {"q": "select 1"}))
        asking.start()
        try:
            assert begun.wait(60)
            assert served.answer("/api/page", turn=sample.turns["edit"])["turn"] == sample.turns["edit"]
        finally:
            may_end.set()
            asking.join()


# -- where it listens, and how it is opened ----------------------------------------------------------


def test_it_listens_on_this_machine_alone() -> None:
    """No other machine reaches it."""
    with server.listening("127.0.0.1", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_name_that_is_allowed_is_answered(sample: Sample) -> None:
    """And its origin is one of ours then."""
    with serving({"sample": sample.store}, ("desk.example",)) as served:
        assert served.ask("/api/stores", headers={"Host": f"desk.example:{served.port}"}).status == 200
        origin = {"Host": served.host, "Origin": f"http://desk.example:{served.port}"}
        assert served.ask("/api/stores", headers=origin).status == 200
        assert served.ask("/api/stores", headers={"Host": f"other.example:{served.port}"}).status == 421


def test_the_browser_is_opened_through_a_file_of_this_user() -> None:
    """P5: a command line is read by other users of the machine: the token is not in it."""
    path = Path(address.redirect_file('http://127.0.0.1:1/s/a"<b>#t=secret'))
    try:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
        assert 'url=http://127.0.0.1:1/s/a&quot;&lt;b&gt;#t=secret"' in path.read_text()
    finally:
        path.unlink()
        path.parent.rmdir()


def test_the_token_is_compared_without_a_leak_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the function that takes as long for each wrong one."""
    compared = []
    monkeypatch.setattr(guard.hmac, "compare_digest", lambda *pair: compared.append(pair) or False)
    wall = guard.Guard(1)
    headers = [(b"host", b"127.0.0.1:1"), (b"authorization", b"Bearer x")]
    refusal = wall.refusal("GET", "/api/x", headers, is_page=False)
    assert refusal is not None and refusal.status == 401
    assert len(compared) == 1


def test_a_socket_in_use_is_an_error(served: Served) -> None:
    """The command says so, instead of serving elsewhere."""
    with pytest.raises(OSError):
        server.listening("127.0.0.1", served.port)
    assert isinstance(socket.gethostname(), str)
