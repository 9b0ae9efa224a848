"""`locus view` as a process, and a reader with a browser before it."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, Response

CHROMIUM = "/usr/bin/chromium"
# Nothing of these asks a network; QUIC and component updates do.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
_READY = "body[data-ready]"
# The first key of a page with a slider loads what its keys do: an import is over after the one before it.
_KEYS_ARE_LOADED = "document.querySelector('.strip') && import('/static/sliderkeys.js').then(() => null)"
# addresses follow a moving slider after 120 ms; of the page's own timers the earlier one comes first
_ADDRESS = "new Promise((done) => setTimeout(() => done(location.href), 150))"


class Viewer:
    """`locus view`, run in the directory `work`."""

    def __init__(self, work: Path, *options: str) -> None:
        self.work = work
        self._process = subprocess.Popen(
            [sys.executable, "-m", "locus_cli", "view", "--print-url", *options],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, self._process.communicate()
        address = urlsplit(self.url)
        self.base = f"{address.scheme}://{address.netloc}"
        self.port = address.port
        self.token = address.fragment.removeprefix("t=")

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


class Visitor:
    """One tab, and what went wrong in it: lines of the console, errors, dialogs, requests to elsewhere."""

    def __init__(self, context: BrowserContext, viewer: Viewer) -> None:
        self.viewer = viewer
        self.page: Page = context.new_page()
        self.wrong: list[str] = []
        self.requested: list[str] = []
        self.page.set_default_timeout(15_000)
        self.page.on("console", lambda line: self.wrong.append(f"{line.type}: {line.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._requested)
        self.page.on("dialog", self._dialog)
        self.page.on("response", self._answered)
        self._has_token = False

    def _requested(self, request: Request) -> None:
        self.requested.append(request.url)
        if not request.url.startswith(self.viewer.base + "/"):
            self.wrong.append(f"request to {request.url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.wrong.append(f"{response.status} of {response.url}: {response.text()[:300]}")

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str) -> "Visitor":
        """Go to an address of the viewer, and wait until all of it is there."""
        token = "" if self._has_token else f"#t={self.viewer.token}"
        self._has_token = True
        self.page.goto(self.viewer.base + path + token)
        return self.ready()

    def ready(self) -> "Visitor":
        self.page.locator(_READY).wait_for()
        return self

    def press(self, *keys: str) -> "Visitor":
        for key in keys:
            self.page.keyboard.press(key)
            self.page.evaluate(_KEYS_ARE_LOADED)
            self.ready()
        return self

    def click(self, selector: str) -> "Visitor":
        self.page.locator(selector).first.click()
        return self.ready()

    def find(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def address(self) -> str:
        """Path and query of the bar, once what was pressed last has been written to it."""
        return str(self.page.evaluate(_ADDRESS)).removeprefix(self.viewer.base)

    def command(self) -> str:
        return self.page.locator("#command").text_content() or ""

    def files(self) -> list[str]:
        """Paths of the files that the tree shows, all folders open."""
        while (closed := self.page.locator('[role=treeitem][aria-expanded="false"]')).count():
            closed.first.click()
        rows = self.page.locator("[role=treeitem][title]:not(.gone)")
        return sorted(str(rows.nth(n).get_attribute("title")) for n in range(rows.count()))

    def choose(self, path: str) -> "Visitor":
        """Open a file of the tree."""
        self.page.locator(f'[role=treeitem][title="{path}"]').click()
        return self.ready()

    def mode(self, name: str) -> "Visitor":
        self.page.locator(f'[data-mode="{name}"]').click()
        return self.ready()

    def file_text(self) -> str:
        return "\n".join(self.page.locator(".filebody .code").all_text_contents())


def context_of(browser: Browser, width: int = 1440, height: int = 1600, **options: Any) -> BrowserContext:
    """A browser context of its own: nothing is kept from one to the next."""
    settings: dict[str, Any] = {"timezone_id": "Europe/Berlin", "locale": "en-GB", **options}
    return browser.new_context(viewport={"width": width, "height": height}, **settings)
