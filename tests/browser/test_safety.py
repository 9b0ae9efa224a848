"""What was recorded is foreign, and so is every other website (docs/view.md, "Who is answered")."""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.addresses import addresses
from tests.browser.samples import HOSTILE, HOSTILE_NAMES, Sample, bytes_of
from tests.browser.viewing import CHROMIUM, FLAGS, Viewer, Visitor, context_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Reading = Callable[..., Visitor]
Viewed = Callable[..., Viewer]


# Elements that load, run or lead elsewhere.
_NEVER = "img, iframe, object, embed, form[action], body script, a[href^=javascript]"

# Attributes that would run something.
_HANDLERS = """[...document.querySelectorAll('*')].flatMap((n) => [...n.attributes])
  .filter((a) => a.name.startsWith('on')).length"""


def _hostile_addresses(hostile: Sample) -> "Iterator[str]":
    from urllib.parse import quote

    yield from addresses(hostile).values()
    for turn in hostile.turns:
        yield f"/turn/{turn}"
    for name in HOSTILE_NAMES:
        for mode in ("text", "change", "blame", "history"):
            yield f"/turn/{hostile.turns[-1]}?file={quote(name)}&mode={mode}"
        yield f"/file?path={quote(name)}"
    for text in (*HOSTILE, *HOSTILE_NAMES):
        yield f"/search?q={quote(text)}"
        yield f"/turn/{quote(text, safe='')}"
        yield f"/s/{quote(text, safe='')}"
    yield "/sql?q=" + quote("select title, user_request from turns")
    yield "/sql?q=" + quote("select '" + HOSTILE[0].replace("'", "''") + "' as \"" + HOSTILE[1] + '"')


def test_recorded_texts_never_run_load_or_ask(reading: Reading, hostile: Sample) -> None:
    """Through every page: no script, no image, no dialog, no request to elsewhere, no broken policy."""
    reader = reading(hostile.work, calm=False)
    made = 0
    for path in _hostile_addresses(hostile):
        reader.open(path)
        reader.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert reader.page.title() != "hurt", path
        assert reader.page.evaluate(f"document.querySelectorAll('{_NEVER}').length") == 0
        assert reader.page.evaluate(_HANDLERS) == 0
        made += reader.page.evaluate("document.body.innerText.includes('onerror')")
    # Names that are not there are answered with 404 and so on, which the console repeats.
    reported = ("error: Failed to load resource", "400 of", "404 of", "409 of")
    assert [line for line in reader.wrong if not line.startswith(reported)] == []
    assert made >= 10  # the texts were shown


UNSAFE = [
    *map(chr, (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0))),
    "\u061c", "\u200e", "\u200f", *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))), "\ufeff",
]  # fmt: skip


def test_what_could_deceive_is_spelled_out_as_the_report_does(reading: Reading, hostile: Sample) -> None:
    """One function of the client, and the report's, over the same table of characters (P5)."""
    from eventlog.view.document import text

    reader = reading(hostile.work).open("/")
    spelled = reader.page.evaluate(
        "(all) => import('/static/dom.js').then(({spell}) => all.map((c) => spell(`a${c}b`)))", UNSAFE
    )
    assert spelled == [text(f"a{c}b") for c in UNSAFE]
    shown = "".join(reader.open(f"/turn/{hostile.turns[4]}").texts("body"))
    assert "\\u202ecod.exe\\u202c" in shown and "\u202e" not in shown
    assert "\u202e" not in reader.page.title()


def test_the_token_is_seen_nowhere(reading: Reading, sample: Sample) -> None:
    """Not in the address, the history, the Referer, the command line of the process, or a cookie (P5)."""
    reader = reading(sample.work)
    sent: list[Any] = []
    reader.page.on("request", lambda request: sent.append(request))
    token = reader.viewer.token
    reader.open("/")
    assert token not in reader.page.url and token not in reader.page.evaluate("location.href")
    reader.open(f"/turn/{sample.turns[0]}").click("nav a:has-text('Cost')")
    assert len(token) >= 32
    assert token not in reader.page.url and token not in reader.page.evaluate(
        "document.referrer + location.href + document.cookie"
    )
    reader.page.go_back()
    assert token not in reader.ready().page.url
    assert reader.page.context.cookies() == []
    for request in sent:
        headers = request.all_headers()
        assert token not in request.url and not headers.get("referer") and "cookie" not in headers
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(token.encode() in line for line in lines)


def test_a_page_without_the_token_shows_nothing(reading: Reading, sample: Sample) -> None:
    """A wrong token gives the reason, and no word of the record."""
    reader = reading(sample.work, calm=False)
    reader.page.goto(reader.viewer.base + f"/turn/{sample.turns[0]}#t=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
    reader.ready()
    assert "token is missing or not this server's" in reader.text(".complaint")
    assert "tea" not in reader.text("body")


# Each way that a page of another origin has, with what it read.
_READ = (Path(__file__).parent / "elsewhere.js").read_text(encoding="utf-8").partition("\n")[2]


@contextmanager
def _other_site() -> Iterator[str]:
    """A website of another origin: another port of this machine."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title><body>")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_another_website_reads_nothing(browser: "Browser", viewed: Viewed, sample: Sample) -> None:
    """Eleven ways, also with the token and beside a tab in which the viewer is open: none reads."""
    viewer = viewed(sample.work)
    context = context_of(browser)
    Visitor(context, viewer).open("/")
    with _other_site() as site:
        page = context.new_page()
        page.goto(site)
        read = page.evaluate(_READ.replace("TOKEN", viewer.token), viewer.base)
        frames = [frame.url for frame in page.frames[1:]]
        context.close()

    assert set(read.values()) == {""}, {name: text[:60] for name, text in read.items() if text}
    assert len(read) == 11 and not any(url.startswith(viewer.base) for url in frames)


@pytest.mark.parametrize("name", ["rebound.example", "locus.localhost"])
def test_a_name_that_is_pointed_here_is_not_answered(
    viewed: Viewed, sample: Sample, browser: "Browser", name: str
) -> None:
    """DNS rebinding: the same origin for the browser, and 421 for every path."""
    viewer = viewed(sample.work)
    rebound = browser.browser_type.launch(
        executable_path=CHROMIUM, args=[*FLAGS, f"--host-resolver-rules=MAP {name} 127.0.0.1"]
    )
    try:
        page = rebound.new_page()
        for path in ("/", "/static/main.js", "/api/stores", f"/turn/{sample.turns[0]}"):
            answer = page.goto(f"http://{name}:{viewer.port}{path}")
            assert answer is not None and answer.status == 421
            assert "tea" not in page.content()
    finally:
        rebound.close()


def test_a_tour_of_every_page_writes_nothing(reading: Reading, viewed: Viewed, sample: Sample) -> None:
    """Not one byte of the store or of the project, and no mode."""
    before = bytes_of(sample.work)
    reader = reading(sample.work)
    for path in addresses(sample).values():
        reader.open(path)
    reader.open("/repo").press("g", "j", "j", "G")
    assert bytes_of(sample.work) == before


def test_nothing_is_answered_that_is_no_page_or_answer(reading: Reading, sample: Sample) -> None:
    """Names of files from a request open none: every path is the shell, which holds no data."""
    reader = reading(sample.work, calm=False)
    for path in (
        "/../../etc/passwd",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/s/..%2f..%2fetc%2fpasswd",
    ):
        answer = reader.page.request.get(reader.viewer.base + path)
        assert "root:" not in answer.text() and "import" not in answer.text().split('type="module"')[0]
