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
from tests.browser.viewing import CHROMIUM, FLAGS, Reader, Viewer, context_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Reading = Callable[..., Reader]
Viewed = Callable[..., Viewer]


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
    """Through every page: no script, no image, no dialog, no request to elsewhere, no rule of the policy broken."""
    reader = reading(hostile.work, calm=False)
    made = 0
    for path in _hostile_addresses(hostile):
        reader.open(path)
        reader.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert "hurt" not in reader.page.title().split("Locus")[1:], path
        assert reader.page.evaluate("document.querySelectorAll('img, iframe, object, embed, form[action], body script, a[href^=javascript]').length") == 0
        assert reader.page.evaluate("[...document.querySelectorAll('*')].some((n) => [...n.attributes].some((a) => a.name === 'style' && n.closest('.rows') === null || (a.name.startsWith('on'))))") is False
        made += reader.page.evaluate("document.body.innerText.includes('onerror')")
    # Names that are not there are answered with 404 and so on, which the console repeats.
    assert [line for line in reader.wrong if not line.startswith("error: Failed to load resource")] == []
    assert made >= 10  # the texts were shown


UNSAFE = [
    *map(chr, (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0))),
    "\u061c", "\u200e", "\u200f", *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))), "\ufeff",
]  # fmt: skip


def test_what_could_deceive_is_spelled_out_as_in_a_page_without_scripts(reading: Reading, hostile: Sample) -> None:
    """One function of the client, and that of a page of one file, over the same table of characters."""
    from eventlog.view.document import text

    reader = reading(hostile.work).open("/")
    spelled = reader.page.evaluate(
        "async (characters) => { const {spell} = await import('/static/dom.js'); return characters.map((c) => spell('a' + c + 'b')); }",
        UNSAFE,
    )
    assert spelled == [text(f"a{c}b") for c in UNSAFE]
    shown = "".join(reader.open(f"/turn/{hostile.turns[4]}").texts("body"))
    assert "\\u202ecod.exe\\u202c" in shown and "\u202e" not in shown
    assert "\u202e" not in reader.page.title()


def test_the_token_is_seen_nowhere(reading: Reading, sample: Sample) -> None:
    """Not in the address, the history, the Referer, the command line of the process, or a cookie."""
    reader = reading(sample.work)
    sent: list[Any] = []
    reader.page.on("request", lambda request: sent.append(request))
    reader.open("/").open(f"/turn/{sample.turns[0]}").click("nav a:has-text('Cost')")
    token = reader.viewer.token
    assert len(token) >= 32
    assert token not in reader.page.url and token not in reader.page.evaluate("document.referrer + location.href + document.cookie")
    reader.page.go_back()
    assert token not in reader.ready().page.url
    assert reader.page.context.cookies() == []
    for request in sent:
        headers = request.all_headers()
        assert token not in request.url and "referer" not in headers and "cookie" not in headers
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(token.encode() in line for line in lines)


def test_a_page_without_the_token_shows_nothing(reading: Reading, sample: Sample) -> None:
    reader = reading(sample.work, calm=False)
    reader.page.goto(reader.viewer.base + f"/turn/{sample.turns[0]}#t=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
    reader.ready()
    assert "token is missing or not this server's" in reader.text(".complaint")
    assert "tea" not in reader.text("body")


_READ = """async (base) => {
  const ways = {
    plain: () => fetch(base + '/api/sessions').then((r) => r.text()),
    'no cors': () => fetch(base + '/api/sessions', {mode: 'no-cors'}).then((r) => r.text()),
    bearer: () => fetch(base + '/api/sessions', {headers: {Authorization: 'Bearer TOKEN'}}).then((r) => r.text()),
    post: () => fetch(base + '/api/sessions', {method: 'POST', mode: 'no-cors', body: 'x'}).then((r) => r.text()),
    request: () => new Promise((good, bad) => { const r = new XMLHttpRequest(); r.open('GET', base + '/api/sessions');
      r.setRequestHeader('Authorization', 'Bearer TOKEN'); r.onload = () => good(r.responseText); r.onerror = bad; r.send(); }),
    script: () => new Promise((good, bad) => { const s = document.createElement('script'); s.src = base + '/static/main.js';
      s.onload = () => good('loaded'); s.onerror = bad; document.body.append(s); }),
    module: () => import(base + '/static/dom.js').then(() => 'loaded'),
    stream: () => new Promise((good, bad) => { const e = new EventSource(base + '/api/live?after=0'); e.onmessage = (m) => good(m.data); e.onerror = bad; }),
    image: () => new Promise((good, bad) => { const i = new Image(); i.onload = () => good('loaded'); i.onerror = bad; i.src = base + '/static/icon.svg'; }),
    frame: () => new Promise((good, bad) => { const f = document.createElement('iframe'); f.src = base + '/'; document.body.append(f);
      f.onload = () => { try { good(f.contentDocument ? (f.contentDocument.body.innerText || bad()) : bad()); } catch (e) { bad(e); } }; }),
    window: () => new Promise((good, bad) => { const w = open(base + '/'); setTimeout(() => { try { good(w.document.body.innerText); } catch (e) { bad(e); } }, 1500); }),
  };
  const read = {};
  for (const [name, way] of Object.entries(ways)) { try { read[name] = await way(); } catch (e) { read[name] = ''; } }
  return read;
}"""


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
    """Eleven ways, also with the token and beside a tab in which the viewer is open: none reads, loads or frames."""
    viewer = viewed(sample.work)
    context = context_of(browser)
    Reader(context, viewer).open("/")
    with _other_site() as site:
        page = context.new_page()
        page.goto(site)
        read = page.evaluate(_READ.replace("TOKEN", viewer.token), viewer.base)
        frames = [frame.url for frame in page.frames[1:]]
        context.close()

    assert set(read.values()) == {""}, {name: text[:60] for name, text in read.items() if text}
    assert len(read) == 11 and not any(url.startswith(viewer.base) for url in frames)


@pytest.mark.parametrize("name", ["rebound.example", "locus.localhost"])
def test_a_name_that_is_pointed_here_is_not_answered(viewed: Viewed, sample: Sample, browser: "Browser", name: str) -> None:
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
    for path in ("/../../etc/passwd", "/static/../server.py", "/static/%2e%2e/server.py", "/s/..%2f..%2fetc%2fpasswd"):
        answer = reader.page.request.get(reader.viewer.base + path)
        assert "root:" not in answer.text() and "import" not in answer.text().split("type=\"module\"")[0]
