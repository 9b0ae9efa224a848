"""What a reader of the viewer waits for, and what that costs the server: the budgets of the viewer.

A real browser before `locus view` as a process. A sample of steps is the 95th percentile of a run, as a
reader notices the slow ones; the anchors are made in the same page, right after: frames in which nothing
happens, and a file without any work that is fetched and then a frame. What is opened is beside a page
without any work from the same server, or from one of Python's own. Without playwright and Chromium the rows
are not run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.frame import BYTES_UNIT, MEMORY_UNIT, TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import environment, git, locus, run
from benchmarks.repository import shared_repository
from benchmarks.rows_view import megabytes
from eventlog import Store
from eventlog.recorder.recorder import Recorder

_CHROMIUM = "/usr/bin/chromium"
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
_BUDGET = 60_000  # bytes of scripts that one page loads
_VIEWPORT = {"width": 1440, "height": 900}
_STEPS = 60
_TURNS_LIVE, _CALLS_LIVE = 100, 12

# Gives seconds, sorted. `frame` ends when the frame after now has been made.
_MEASURE = """async ([what, steps]) => {
  const frame = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  const rest = (ms) => new Promise((go) => setTimeout(go, ms));
  const ready = () => new Promise((go) => {
    if (document.body.dataset.ready) return go();
    const seen = new MutationObserver(() => document.body.dataset.ready && go(seen.disconnect()));
    seen.observe(document.body, {attributes: true});
  });
  const slider = document.getElementById('slider');
  let at = Number(slider.value);
  const move = (by) => {
    at = (at + by) % (Number(slider.max) + 1);
    slider.value = String(at);
    slider.dispatchEvent(new Event('input'));
  };
  const works = {
    step: async () => { move(1); await frame(); },
    read: async () => { move(1); await ready(); },
    load: async () => { move(617); await ready(); await frame(); },
    frame: frame,
    fetch: async () => {
      await (await fetch('/static/style.css', {cache: 'no-store'})).text();
      await frame();
    },
  };
  const times = [];
  for (let n = 0; n < steps; n += 1) {
    if (what === 'load' || what === 'fetch') await rest(70);
    const began = performance.now();
    await works[what]();
    times.push((performance.now() - began) / 1000);
  }
  await ready();
  return times.sort((a, b) => a - b);
}"""


# Notes in `seenAt` when the first row of the tree, or what else is waited for, is in a frame.
_WAIT = """
  const wait = (target, options, is_there) => {
    const seen = new MutationObserver(() => {
      if (!is_there()) return;
      seen.disconnect();
      requestAnimationFrame(() => setTimeout(() => {
        window.seenAt = performance.timeOrigin + performance.now();
      }));
    });
    seen.observe(target, options);
  };
"""
_WAIT_FOR_TREE = (
    _WAIT
    + """
  wait(document, {childList: true, subtree: true}, () => document.querySelector('[role=treeitem]'));
"""
)
_WAIT_FOR_TURN = (
    "() => {"
    + _WAIT
    + """
  window.seenAt = null;
  wait(document.getElementById('slider'), {attributes: true, attributeFilter: ['max']}, () => true);
}"""
)
# When the page began to be asked for, and when something of it was painted.
_PAINTED = """() => new Promise((go) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName('first-contentful-paint')[0];
  if (paint) go([performance.timeOrigin / 1000, (performance.timeOrigin + paint.startTime) / 1000]);
}).observe({type: 'paint', buffered: true}))"""
# A page without any work, from a server of Python's own library.
_PLAIN_SERVER = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<!doctype html><title>Plain</title><link rel='icon' href='data:,'><h1>Plain</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
server.serve_forever()
"""


def rows() -> list[Row]:
    def row(
        name: str, work: str, anchor: str, prepare: Any, unit: str = TIME_UNIT, lasts: str = "neither writes"
    ) -> Row:
        return Row(name, work, anchor, unit, lasts, prepare)

    return [
        row("view-step", "p95 from a step of the slider to the next frame", "p95 of an empty frame", _step),
        row(
            "view-load",
            "p95 from a jump of the slider to file and events, sealed",
            "p95 of a static file and a frame",
            _load,
        ),
        row(
            "view-load-live",
            "the same while a session is at work, unsealed",
            "p95 of a static file and a frame",
            _load_live,
        ),
        row(
            "view-first-page",
            "from the command `locus view` to the first paint of its page",
            "the same of a plain page from http.server",
            _first_page,
        ),
        row(
            "view-tree",
            "from opening /repo to the tree of files, `locus view` running",
            "from opening a static file to its paint",
            _tree,
        ),
        row(
            "view-seen-live",
            "from an acknowledged append of a turn until /repo shows it",
            "p95 of a static file and a frame",
            _seen_live,
            lasts="ours syncs its journal before",
        ),
        row(
            "view-memory-steps",
            f"most memory of `locus view` after {_STEPS} single steps, each loaded",
            "one process that imports the same libraries",
            _memory,
            MEMORY_UNIT,
        ),
        row("view-client", "scripts that the slider with a file loads", "their budget", _client, BYTES_UNIT),
    ]


@contextmanager
def _client(bench: Bench) -> Iterator[Sides]:
    """Bytes as they are served, not zipped. tests/browser/test_loading.py has all pages."""
    _check_installed()
    loaded: dict[str, int] = {}
    with (
        bench.scratch("view") as directory,
        _page(_store(bench, directory, 20, 50, live=False), loaded=loaded),
    ):
        yield Sides(
            ours=lambda: float(sum(loaded.values())),
            anchor=lambda: float(_BUDGET),
            size=f"{len(loaded)} modules",
            rounds=1,
            warm_up=False,
        )


def _step(bench: Bench) -> AbstractContextManager[Sides]:
    return _sides(bench, "step", "frame", live=False)


def _load(bench: Bench) -> AbstractContextManager[Sides]:
    return _sides(bench, "load", "fetch", live=False)


def _load_live(bench: Bench) -> AbstractContextManager[Sides]:
    return _sides(bench, "load", "fetch", live=True)


@contextmanager
def _sides(bench: Bench, ours: str, anchor: str, *, live: bool) -> Iterator[Sides]:
    _check_installed()
    file = _busiest(shared_repository(bench, *_sizes(bench)))
    with _history(bench, live=live) as path, _page(path, file) as (page, server):
        seen: dict[str, float] = {}
        page_time = _ThreadTime(page)

        def p95(what: str) -> float:
            before = page_time.seconds(), _process_seconds(server)
            times: list[float] = page.evaluate(_MEASURE, [what, _STEPS])
            if what == ours:
                seen["median"] = times[len(times) // 2]
                seen["page"] = (page_time.seconds() - before[0]) / _STEPS
                seen["server"] = (_process_seconds(server) - before[1]) / _STEPS
            return times[int(0.95 * len(times))]

        # A busy machine slows the slowest steps; the processor time that a step costs stays.
        beside = {
            "median": lambda: seen["median"],
            "page's thread a step": lambda: seen["page"],
            "server a step": lambda: seen["server"],
        }

        size = _size(bench) + (f", {_TURNS_LIVE} more unsealed" if live else "")
        yield Sides(lambda: p95(ours), lambda: p95(anchor), size, beside, rounds=bench.pick(3, 5))


def _sizes(bench: Bench) -> tuple[int, int]:
    """Turns and files."""
    return bench.pick(200, 1_000), bench.pick(1_000, 5_000)


def _size(bench: Bench) -> str:
    turns, files = _sizes(bench)
    return f"{turns:,} turns of {files:,} files"


@contextmanager
def _history(bench: Bench, *, live: bool = False) -> Iterator[str]:
    """The store of a git history as long as the row; one that is sealed is made once for all rows."""
    if live:
        with bench.scratch("view") as directory:
            yield _store(bench, directory, *_sizes(bench), live=True)
    else:
        make = lambda: _store(bench, bench.new_directory("view"), *_sizes(bench), live=False)  # noqa: E731
        yield str(bench.shared("view in a browser", make))


@contextmanager
def _first_page(bench: Bench) -> Iterator[Sides]:
    _check_installed()
    beside: dict[str, float] = {}
    with _history(bench) as path, _browser() as browser:

        def painted(command: list[str], name: str) -> float:
            """Beside it, under this name, when the address was there and when all of the page was."""
            began = time.time()
            with _served(command) as (address, _), _opened(browser, address) as page:
                asked, seen = page.evaluate(_PAINTED)
                if name:
                    page.locator("body[data-ready]").wait_for()
                    beside[f"{name} served"], beside[f"{name} ready"] = asked - began, time.time() - began
                return float(seen - began)

        yield Sides(
            ours=lambda: painted(_view(path), "view"),
            anchor=lambda: painted([sys.executable, "-I", "-c", _PLAIN_SERVER], ""),
            size=_size(bench),
            beside={name: lambda name=name: beside[f"view {name}"] for name in ("served", "ready")},
            rounds=bench.pick(3, 7),
        )


@contextmanager
def _tree(bench: Bench) -> Iterator[Sides]:
    """The server has made its spine once, as before every page but the first."""
    _check_installed()
    with _history(bench) as path, _browser() as browser, _served(_view(path)) as (address, _):
        repository = _place(address, "/repo")
        seen: dict[str, float] = {}

        def ours() -> float:
            with _opened(browser, repository, _WAIT_FOR_TREE) as page:
                page.wait_for_selector("[role=treeitem]", state="attached", timeout=120_000)
                asked, painted = page.evaluate(_PAINTED)
                seen["painted"] = painted - asked
                page.locator("body[data-ready]").wait_for()
                return float(page.evaluate("seenAt") / 1000 - asked)

        def anchor() -> float:
            with _opened(browser, _place(address, "/static/style.css")) as page:
                asked, painted = page.evaluate(_PAINTED)
                return float(painted - asked)

        beside = {"first paint": lambda: seen["painted"]}
        yield Sides(ours, anchor, _size(bench), beside, rounds=bench.pick(5, 9))


@contextmanager
def _seen_live(bench: Bench) -> Iterator[Sides]:
    _check_installed()
    with _history(bench, live=True) as path, _page(path) as (page, server), Store.open(path) as store:
        recorder = Recorder(store, agent="bench")
        page_time = _ThreadTime(page)
        cost: dict[str, float] = {}

        def ours() -> float:
            page.evaluate(_WAIT_FOR_TURN)
            before = page_time.seconds(), _process_seconds(server)
            turn = recorder.start_turn("Make more tea")
            recorded = time.time()
            page.wait_for_timeout(50)
            while not (at := page.evaluate("window.seenAt")):
                if time.time() > recorded + 60:
                    raise RuntimeError("the turn was not seen")
                page.wait_for_timeout(20)
            page.locator("body[data-ready]").wait_for()
            cost["page"] = page_time.seconds() - before[0]
            cost["server"] = _process_seconds(server) - before[1]
            turn.end(title="More tea")
            page.wait_for_timeout(1_000)
            return float(at / 1000 - recorded)

        def anchor() -> float:
            times: list[float] = page.evaluate(_MEASURE, ["fetch", 20])
            return times[int(0.95 * len(times))]

        beside = {"page's thread": lambda: cost["page"], "server": lambda: cost["server"]}
        yield Sides(ours, anchor, _size(bench), beside, rounds=bench.pick(5, 9))


@contextmanager
def _memory(bench: Bench) -> Iterator[Sides]:
    """Steps with a file open, and without one; what is asked in rest is asked as well."""
    _check_installed()
    with _history(bench) as path:
        file = _busiest(shared_repository(bench, *_sizes(bench)))

        def ours() -> float:
            with _page(path, file) as (page, server):
                page.evaluate(_MEASURE, ["read", _STEPS // 2])
                page.keyboard.press("Escape")
                page.evaluate(_MEASURE, ["read", _STEPS // 2])
                page.wait_for_timeout(500)
                status = Path(f"/proc/{server}/status").read_text()
                return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1e3

        yield Sides(ours, megabytes, _size(bench), rounds=3, warm_up=False)


class _ThreadTime:
    """Processor time of a page's thread; Chromium counts it only while somebody asks for it."""

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def _process_seconds(pid: int) -> float:
    """Processor time of a process and its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _check_installed() -> None:
    if importlib.util.find_spec("playwright") is None or not os.path.exists(_CHROMIUM):
        raise NotRunnable(f"playwright (the extra browser) or {_CHROMIUM} is not installed")


def _store(bench: Bench, directory: str, turns: int, files: int, *, live: bool) -> str:
    """A store of a git history, sealed; with turns of a session in its journal where it is live."""
    repository = shared_repository(bench, turns, files)
    path = f"{directory}/.locus"
    run([*locus(), "--store", path, "init", directory])
    run([*locus(), "--store", path, "import", "git", repository])
    run([*locus(), "--store", path, "store", "seal"])
    if live:
        with Store.open(path) as store:
            recorder = Recorder(store, agent="bench")
            for number in range(_TURNS_LIVE):
                turn = recorder.start_turn(f"Make tea {number}")
                for call in range(_CALLS_LIVE):
                    turn.action("kettle", {"number": call}, {"stdout": "warm\n" * 20}, success=True)
                turn.end(title=f"Tea {number}")
    return path


def _busiest(repository: str) -> str:
    """The source file that most commits changed."""
    command = [git(), "-C", repository, "log", "--first-parent", "--name-only", "--format=", "--", "*.py"]
    changed = Counter(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    return changed.most_common(1)[0][0]


@contextmanager
def _page(path: str, file: str = "", loaded: dict[str, int] | None = None) -> Iterator[tuple[Any, int]]:
    """The slider over the repository, with a file open, in a browser; and the process of `locus view`.

    Args: file: by default the first of the tree; loaded: where bytes of scripts are noted by their addresses.
    """
    with _browser() as browser, _served(_view(path)) as (address, server):
        page = browser.new_page(viewport=_VIEWPORT)
        if loaded is not None:
            page.on("response", lambda response: _note_script(response, loaded))
        page.goto(_place(address, f"/repo{'?' + urlencode({'file': file}) if file else ''}"))
        page.locator("body[data-ready]").wait_for(timeout=120_000)
        if not file:
            page.locator("[role=treeitem][title]").first.click()
        page.locator(".filebody *").first.wait_for()
        page.locator("body[data-ready]").wait_for()
        yield page, server


def _view(path: str) -> list[str]:
    return [*locus(), "--store", path, "view", "--print-url"]


def _place(address: str, path: str) -> str:
    """Another page of the same server, by the address that `locus view` printed."""
    base, _, token = address.partition("#")
    return "/".join(base.split("/")[:3]) + path + f"#{token}"


@contextmanager
def _served(command: list[str]) -> Iterator[tuple[str, int]]:
    """The address that a server prints, and its process."""
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip(), server.pid
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=_CHROMIUM, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def _opened(browser: Any, address: str, script: str = "") -> Iterator[Any]:
    """A page of a reader who was never here, while it loads. Args: script: runs before those of the page."""
    context = browser.new_context(viewport=_VIEWPORT)
    try:
        page = context.new_page()
        if script:
            page.add_init_script(script)
        page.goto(address, wait_until="commit")
        yield page
    finally:
        context.close()


def _note_script(response: Any, loaded: dict[str, int]) -> None:
    if response.request.resource_type == "script":
        loaded[response.url] = len(response.body())
