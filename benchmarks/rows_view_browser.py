"""What a reader of the viewer waits for: from a step of the slider to the next frame, and to file and events.

A real browser before `locus view` as a process. Each sample is the 95th percentile of a run of steps, as a
reader notices the slow ones; the anchors are made in the same page, right after: frames in which nothing
happens, and a file without any work that is fetched and then a frame. Without playwright and Chromium the
rows are not run.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.frame import BYTES_UNIT, TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import environment, git, locus, run
from benchmarks.repository import shared_repository
from eventlog import Store
from eventlog.recorder.recorder import Recorder

_CHROMIUM = "/usr/bin/chromium"
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
_BUDGET = 60_000  # bytes of scripts that one page loads
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


def rows() -> list[Row]:
    def row(name: str, work: str, anchor: str, prepare: Any, unit: str = TIME_UNIT) -> Row:
        return Row(name, work, anchor, unit, "neither writes", prepare)

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
    turns, files = bench.pick(200, 1_000), bench.pick(1_000, 5_000)
    with bench.scratch("view") as directory:
        path = _store(bench, directory, turns, files, live=live)
        with _page(path, _busiest(shared_repository(bench, turns, files))) as (page, server):
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

            size = f"{turns:,} turns of {files:,} files" + (f", {_TURNS_LIVE} more unsealed" if live else "")
            yield Sides(lambda: p95(ours), lambda: p95(anchor), size, beside, rounds=bench.pick(3, 5))


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
    from playwright.sync_api import sync_playwright

    command = [*locus(), "--store", path, "view", "--print-url"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
    )
    try:
        assert server.stdout is not None
        base, _, token = server.stdout.readline().strip().partition("#")
        origin = "/".join(base.split("/")[:3])
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=_CHROMIUM, args=list(_FLAGS))
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            if loaded is not None:
                page.on("response", lambda response: _note_script(response, loaded))
            page.goto(f"{origin}/repo{'?' + urlencode({'file': file}) if file else ''}#{token}")
            page.locator("body[data-ready]").wait_for(timeout=120_000)
            if not file:
                page.locator("[role=treeitem][title]").first.click()
            page.locator(".filebody *").first.wait_for()
            page.locator("body[data-ready]").wait_for()
            yield page, server.pid
            browser.close()
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def _note_script(response: Any, loaded: dict[str, int]) -> None:
    if response.request.resource_type == "script":
        loaded[response.url] = len(response.body())
