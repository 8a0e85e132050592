"""Chromium, driven by Playwright, and a page whose faults are recorded."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.parse import urlsplit

from tests.support.node_clients import FOLDER

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
TIMEOUT_MS = 120_000


def missing() -> str | None:
    """Return why no page can be opened here; None if one can."""
    if CHROMIUM is None:
        return "chromium is not installed"
    return None if find_spec("playwright") else "playwright is not installed"


def axe_missing() -> str | None:
    """Return why axe-core cannot be run here; None if it can."""
    return None if AXE.exists() else f"there is no axe-core at {AXE}"


@contextmanager
def chromium() -> Iterator:
    """Run a browser until the block ends."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of one site; errors, dialogs and requests to other sites are its `faults`.

    Args:
        browser: opens it in a context of its own.
        base: address of the site.
        context: options of the context, such as `color_scheme`.
    """

    def __init__(self, browser, base: str, **context) -> None:
        self.base = base.rstrip("/")
        self.context = browser.new_context(
            timezone_id="Europe/Berlin", locale="en-GB", accept_downloads=True, **context
        )
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.loads = 0
        self.page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        self.page.on("console", self._console)
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("domcontentloaded", self._loaded)

    def _console(self, message) -> None:
        # The browser's own message about a refused or lost request is not a fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(f"console: {message.text}")

    def _dialog(self, dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request) -> None:
        self.requests.append(request.url)
        found = urlsplit(request.url)
        if found.scheme != "data" and f"{found.scheme}://{found.netloc}" != self.base:
            self.faults.append(f"request to elsewhere: {request.url}")

    def _loaded(self, _) -> None:
        self.loads += 1

    def open(self, path: str):
        """Load a path, and wait for its heading."""
        self.page.goto(f"{self.base}/{path}")
        self.page.locator("h1").first.wait_for()
        return self.page

    def log_in(self, user: str, password: str):
        """Fill in the login form, and wait for the view after it."""
        page = self.open("")
        page.get_by_label("User").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("navigation", name="Views").wait_for()
        return page

    def serious(self, *rules: str) -> list[str]:
        """Return the serious and critical findings of axe-core, by all rules by default."""
        if not self.page.evaluate("() => Boolean(window.axe)"):
            self.page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        options = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = {"type": "rule", "values": list(rules)}
        found = self.page.evaluate(f"() => axe.run(document, {json.dumps(options)})")
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    def colours(self, scheme: str) -> None:
        """Set the preferred colour scheme, dark or light, and wait for the page to follow."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_function(
            "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
        )

    def fits(self, width: int) -> None:
        """Wait until the page is no wider than its window of this width."""
        self.page.wait_for_function(
            """width => {
              const { clientWidth, scrollWidth } = document.documentElement;
              return innerWidth === width && scrollWidth <= clientWidth;
            }""",
            arg=width,
        )

    def nodes(self) -> int:
        """Return the number of elements of the page."""
        return self.page.evaluate("() => document.querySelectorAll('*').length")

    def close(self) -> None:
        self.context.close()


def perform(page, action, word, verb, fill=None):
    """Complete an action's dialog: its form, its plan, and the word that confirms it."""
    page.get_by_role("button", name=action, exact=True).click()
    dialog = page.get_by_role("dialog")
    if fill is not None:
        fill(dialog)
        dialog.get_by_role("button", name="Show the plan").click()
    done = dialog.get_by_role("button", name=verb, exact=True)
    done.wait_for()
    assert dialog.locator("ol.plan li").count() >= 1
    assert done.is_disabled()
    confirmation = dialog.get_by_label("to confirm")
    confirmation.fill(word[:-1])
    assert done.is_disabled()
    confirmation.fill(word)
    done.click()
    dialog.wait_for(state="detached")


def tile(page, label):
    """Return the number in a tile."""
    return page.locator(".tile", has=page.get_by_text(label, exact=True)).locator(".figure")
