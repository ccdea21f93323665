"""SHELL: a headless Chromium, driven as a person drives it: looking, clicking, typing.

The protocol is the browser's own (JSON over a WebSocket); of its hundreds of methods a dozen are
used. Whatever the page complains of (exceptions, what its policy forbids) is kept, so that a test
can ask for silence.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from websockets.sync.client import ClientConnection, connect

from tests.system.processes import wait

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Message: TypeAlias = "dict[str, Json]"
PLACES = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--mute-audio", "--remote-debugging-port=0"),
)
START_S = 60.0
CALL_S = 30.0
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "o": (79, "o")}
# What a person can see of an element: a place on the screen where nothing lies over it.
SPOT = """
((selector, words) => {
  const all = [...document.querySelectorAll(selector)];
  const found = all.find((one) => one.getClientRects().length > 0 &&
    (words === "" || `${one.textContent} ${one.getAttribute("aria-label") ?? ""}`.includes(words)));
  if (!found) return null;
  found.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"});
  const {left, top, width, height} = found.getBoundingClientRect();
  const spot = {x: left + width / 2, y: top + height / 2};
  const over = document.elementFromPoint(spot.x, spot.y);
  return over !== null && (found.contains(over) || over.contains(found)) ? spot : null;
})
"""


class Size(NamedTuple):
    """A window, in CSS pixels."""

    width: int
    height: int
    phone: bool = False


DESKTOP = Size(1280, 800)
PHONE = Size(390, 844, phone=True)


def executable() -> str:
    """Find Chromium; what to do about it where there is none is part of the failure."""
    found = next((one for one in PLACES if Path(one).exists()), None) or shutil.which("chromium")
    assert found, "there is no Chromium here: `make test-web` installs it as root, with apt-get"
    return found


class Browser:
    """One Chromium process and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: ClientConnection) -> None:
        self._process = process
        self._connection = connection
        self._last = 0
        self.events: list[Message] = []

    def call(self, method: str, params: Message, session: str = "") -> Message:
        """Call a method of the protocol and give its result; events that come are kept."""
        self._last += 1
        sent: Message = {"id": self._last, "method": method, "params": params}
        if session:
            sent["sessionId"] = session
        self._connection.send(json.dumps(sent))
        deadline = time.monotonic() + CALL_S
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"no answer to {method}"
            told = cast("Message", json.loads(self._connection.recv(left)))
            if told.get("id") != self._last:
                self.events.append(told)
                continue
            assert "error" not in told, f"{method}: {told['error']}"
            return cast("Message", told["result"])

    @contextmanager
    def visitor(self) -> Iterator[Visitor]:
        """Let somebody in who has never been here; what he leaves behind is removed with him."""
        context = str(self.call("Target.createBrowserContext", {})["browserContextId"])
        try:
            yield Visitor(self, context)
        finally:
            self.call("Target.disposeBrowserContext", {"browserContextId": context})

    def open(self, url: str, size: Size, context: str) -> Page:
        """Open a page in a window of its own."""
        blank: Message = {"url": "about:blank", "browserContextId": context}
        target = self.call("Target.createTarget", blank)["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, str(attached["sessionId"]))
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.resize(size)
        page.go(url)
        return page


class Visitor:
    """Somebody at this browser, whose pages know each other and nobody else's."""

    def __init__(self, browser: Browser, context: str) -> None:
        self._browser = browser
        self._context = context
        self.pages: list[Page] = []

    def open(self, url: str, size: Size = DESKTOP) -> Page:
        """Open a page."""
        self.pages.append(self._browser.open(url, size, self._context))
        return self.pages[-1]

    def keep_downloads(self, folder: Path) -> None:
        """Have files that pages give put into a folder, without a question."""
        place: Message = {"behavior": "allow", "downloadPath": str(folder)}
        place["browserContextId"] = self._context
        self._browser.call("Browser.setDownloadBehavior", place)

    def complaints(self) -> list[str]:
        """List what any of the pages has complained of."""
        return [text for page in self.pages for text in page.complaints()]


class Page:
    """One page, as whoever sits in front of it has it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **params: Json) -> Message:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, params, self._session)

    def go(self, url: str) -> None:
        """Go to an address and wait until its document is there."""
        told = self.call("Page.navigate", url=url)
        assert not told.get("errorText"), f"{url}: {told}"
        self._loaded()

    def reload(self) -> None:
        """Load the page anew."""
        self.js("window.isOld = true")
        self.call("Page.reload")
        self.until("!window.isOld && document.readyState === 'complete'", "it has been reloaded")

    def _loaded(self) -> None:
        self.until("document.readyState === 'complete'", "the page is loaded")

    def resize(self, size: Size) -> None:
        """Change the window."""
        width, height, phone = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        features: Json = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def js(self, expression: str) -> Json:
        """Evaluate, waiting for a promise; what it throws is a failure."""
        told = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return cast("Message", told["result"]).get("value")

    def until(self, expression: str, what: str, within_s: float = 30.0) -> None:
        """Wait until an expression is true; a page that is being replaced is asked again."""

        def holds() -> bool:
            with suppress(AssertionError):
                return bool(self.js(f"Boolean({expression})"))
            return False

        try:
            wait(holds, what, within_s)
        except AssertionError as error:
            error.add_note(self._screen())
            raise

    def _screen(self) -> str:
        with suppress(AssertionError):
            return str(self.js("document.body?.innerText"))[-1500:]
        return "(no page)"

    def text(self, selector: str) -> str:
        """Read what an element shows; "" where there is none."""
        found = self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return str(found)

    def count(self, selector: str) -> int:
        """Count elements that take place on the screen."""
        return cast(
            "int",
            self.js(
                f"[...document.querySelectorAll({json.dumps(selector)})]"
                ".filter((one) => one.getClientRects().length > 0).length"
            ),
        )

    def sees(self, words: str, within_s: float = 30.0, *, within: str = "body") -> None:
        """Wait until these words are there to be read."""
        place = f"document.querySelector({json.dumps(within)})"
        shown = f"{place}?.innerText.includes({json.dumps(words)})"
        self.until(shown, f"{words!r} can be read", within_s)

    def front(self) -> None:
        """Bring this page before the others: those are hidden then, as tabs are."""
        self.call("Page.bringToFront")

    def click(self, selector: str, words: str = "") -> None:
        """Click where an element is, once it is there and nothing lies over it."""
        self.front()
        look = f"{SPOT}({json.dumps(selector)}, {json.dumps(words)})"
        self.until(f"{look} !== null", f"{selector} {words} can be clicked")
        spot = cast("dict[str, float]", self.js(look))
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                **{"type": kind, "button": "left", "clickCount": 1, **spot},
            )

    def write(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False, control: bool = False) -> None:
        """Press a key."""
        code, text = KEYS[key]
        pressed: Message = {
            "key": key.upper() if shift and len(key) == 1 else key,
            "code": f"Key{key.upper()}" if len(key) == 1 else key,
            "windowsVirtualKeyCode": code,
            "modifiers": 8 * shift + 2 * control,
        }
        if text and not control:
            pressed["text"] = text
        self.call("Input.dispatchKeyEvent", **{**pressed, "type": "keyDown"})
        self.call("Input.dispatchKeyEvent", **{**pressed, "type": "keyUp"})

    def choose(self, selector: str, value: str) -> None:
        """Choose in a list, as its keyboard does: the list itself is no part of the page."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.js(
            f"{place}.value = {json.dumps(value)};"
            f"{place}.dispatchEvent(new Event('change', {{bubbles: true}}))"
        )

    def picture(self) -> bytes:
        """Take a PNG of what can be seen."""
        told = self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(str(told["data"]))

    def complaints(self) -> list[str]:
        """List exceptions, and errors of the log that are no refusal of the server's."""
        mine = [one for one in self._browser.events if one.get("sessionId") == self._session]
        return [text for one in mine for text in _complaint(one)]


def _complaint(event: Message) -> Iterator[str]:
    params = cast("Message", event.get("params", {}))
    if event.get("method") == "Runtime.exceptionThrown":
        yield json.dumps(params["exceptionDetails"])[:2000]
    if event.get("method") == "Log.entryAdded":
        entry = cast("dict[str, str]", params["entry"])
        # A status of 4xx or 5xx is logged as an error too; tests ask for some on purpose.
        if entry["level"] == "error" and entry["source"] != "network":
            yield f"{entry['source']}: {entry['text']}"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser with a profile of its own, which is removed with it."""
    with tempfile.TemporaryDirectory(prefix="roost-web-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            port = Path(profile) / "DevToolsActivePort"
            wait(lambda: _complete(port, process), "the browser listens", START_S)
            number, path = port.read_text("utf-8").split()
            with connect(
                f"ws://127.0.0.1:{number}{path}", max_size=None, compression=None, proxy=None
            ) as connection:
                browser = Browser(process, connection)
                yield browser
                with suppress(Exception):
                    browser.call("Browser.close", {})
        finally:
            _end(process)


def _complete(port: Path, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, f"the browser has ended with {process.returncode}"
    return port.exists() and len(port.read_text("utf-8").split()) == 2


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
