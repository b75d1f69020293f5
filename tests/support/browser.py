"""A real browser without a window: it measures pages in frames as wide as a phone, or a test uses a page in it."""

from __future__ import annotations

import contextlib
import functools
import html
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import requests

_LONGEST_WAIT = 120.0  # seconds
PHONE = 390  # CSS pixels
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A container has neither user namespaces nor a large /dev/shm; the pages are our own.
_FLAGS = ["--headless=new", "--disable-gpu", "--no-first-run", "--window-size=1280,900", "--no-sandbox"]
_FLAGS.append("--disable-dev-shm-usage")
# A page that shows the pages under test in frames and measures them. The pages under test have no script for that.
_AROUND = """\
<!doctype html><body>%s<pre id="found"></pre><script>
const found = {};
function measure(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  const all = [...page.querySelectorAll("body *")];
  found[frame.name] = {
    width: frame.contentWindow.innerWidth, scroll: root.scrollWidth, height: root.scrollHeight,
    pictures: [...page.images].map(image => image.complete && image.naturalWidth),
    outside: all.filter(one => one.getBoundingClientRect().right > %d + 1)
      .filter(one => !one.parentElement.closest(".scroll")).length,
    smallest: Math.min(...all.map(one => parseFloat(getComputedStyle(one).fontSize))),
  };
  document.getElementById("found").textContent = JSON.stringify(found);
}
</script></body>
"""
# A script: the smallest contrast ratio of any text to the background below it (WCAG 2.2, 1.4.3), and that text.
CONTRAST = """
const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((one) => linear(one / 255))
  .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
const below = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = parse(getComputedStyle(one).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
    if (colour[3] > 0) throw new Error("a background that is half transparent");
  }
  throw new Error("no background");
};
let least = [Infinity, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !element.checkVisibility() || element.closest("script")) continue;
  const style = getComputedStyle(element);
  if (style.opacity !== "1") throw new Error("text that is half transparent");
  const [a, b] = [luminance(parse(style.color)), luminance(below(element))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < least[0]) least = [ratio, node.data.trim()];
}
return least;
"""


class Seen(NamedTuple):
    """What a browser measured and loaded.

    Attributes:
      pages: {page: {width, scroll, height, pictures, outside, smallest}}, see `_AROUND`.
      console: the lines that were written to the console, such as errors of loading.
      asked: the paths that the browser requested.
    """

    pages: dict[str, Any]
    console: list[str]
    asked: list[str]


def executable() -> str:
    """The path of an installed browser; skips the test if there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed here (looked for {', '.join(_NAMES)}); Debian: apt-get install chromium")
    return found


def look(folder: pathlib.Path, names: Sequence[str], home: pathlib.Path) -> Seen:
    """Opens pages of `folder` in frames as wide as a phone. The browser writes its own files below `home`."""
    frames = "".join(
        f'<iframe name="{html.escape(name)}" src="{html.escape(name)}" width="{PHONE}" height="800" '
        'style="border:0" onload="measure(this)"></iframe>'
        for name in names
    )
    (folder / "around.html").write_text(_AROUND % (frames, PHONE))
    with served(folder) as (address, asked):
        done = _run(executable(), f"{address}/around.html", home)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout + done.stderr
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Seen(json.loads(html.unescape(found.group(1)) or "{}"), console, asked)


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """Serves the files of a folder; yields the address, and a list that gets the path of each request."""
    asked: list[str] = []
    with _Server(("127.0.0.1", 0), functools.partial(_Handler, asked, str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def _run(program: str, address: str, home: pathlib.Path) -> subprocess.CompletedProcess[str]:
    flags = [*_FLAGS, "--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=10000"]
    flags.append(f"--user-data-dir={home}/profile")
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
    return subprocess.run([program, *flags, address], capture_output=True, text=True, env=environment)


class _Server(http.server.ThreadingHTTPServer):
    """A server that says nothing of connections which the browser left while an answer was being written."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder, and appends the path of each request to `asked`."""

    timeout = 5  # seconds; a browser opens connections that it may never use

    def __init__(self, asked: list[str], folder: str, *more: Any) -> None:
        self._asked = asked
        super().__init__(*more, directory=folder)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        self._asked.append(self.path)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed; a connection that stays unused until the timeout has not even a path."""


@contextlib.contextmanager
def driven(home: pathlib.Path) -> Iterator[Page]:
    """Starts a browser; yields a page that a test can use as a person would. Skips the test without chromedriver."""
    program = shutil.which("chromedriver")
    if program is None:
        pytest.skip("no chromedriver is installed here; Debian: apt-get install chromium-driver")
    chromium = {"binary": executable(), "args": [*_FLAGS, f"--user-data-dir={home}/driven"]}
    wanted = {"goog:chromeOptions": chromium, "goog:loggingPrefs": {"browser": "ALL"}}
    words = [program, "--port=0"]
    with (
        # Chromium makes sockets in its temporary folder, and the path of a socket has at most 107 characters.
        tempfile.TemporaryDirectory(prefix="c", dir="/tmp", ignore_cleanup_errors=True) as short,
        subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "HOME": str(home), "TMPDIR": short},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            found = next(filter(None, (re.search(r"successfully on port (\d+)", line) for line in process.stdout)))
            page = Page(f"http://127.0.0.1:{found.group(1)}", wanted)
            try:
                yield page
            finally:
                page.close()
        finally:
            process.terminate()


class Page:
    """A tab of the browser, controlled by commands of the WebDriver protocol (W3C)."""

    def __init__(self, address: str, wanted: dict[str, Any]) -> None:
        self._http = requests.Session()
        self._http.trust_env = False
        self._at = address
        made = self._send("/session", {"capabilities": {"alwaysMatch": wanted}})
        self._at = f"{address}/session/{made['sessionId']}"

    def _send(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._http.post(f"{self._at}{path}", json=body, timeout=300).json()["value"]
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def open(self, page: pathlib.Path | str, width: int = 1280, scheme: str = "light") -> None:
        """Opens a file or an address in a window of this width, in a light or dark theme."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.tell("Emulation.setDeviceMetricsOverride", size)
        self.tell("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self._send("/url", {"url": page if isinstance(page, str) else page.as_uri()})

    def run(self, script: str, *given: Any) -> Any:
        """Runs a script; returns what it returns. In the script, `arguments` has the values of `given`."""
        return self._send("/execute/sync", {"script": script, "args": list(given)})

    def wait_for(self, condition: str, *given: Any) -> None:
        """Waits until the script `condition` returns a true value; `given` as for `run`."""
        end = time.monotonic() + _LONGEST_WAIT
        while not self.run(condition, *given):
            assert time.monotonic() < end, f"still untrue after {_LONGEST_WAIT} seconds: {condition}"
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        """Presses keys one after another: characters, or the constants `TAB`, `ENTER` and `SPACE`."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._send("/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def choose(self, selector: str, path: pathlib.Path) -> None:
        """Chooses a file in the `<input type="file">` that the CSS selector finds."""
        root = self.tell("DOM.getDocument", {})["root"]["nodeId"]
        node = self.tell("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
        self.tell("DOM.setFileInputFiles", {"files": [str(path)], "nodeId": node})

    def tell(self, command: str, more: dict[str, Any]) -> Any:
        """Sends a command of Chromium's DevTools protocol with its parameters `more`; returns the answer."""
        return self._send("/goog/cdp/execute", {"cmd": command, "params": more})

    def console(self) -> list[str]:
        """What was written to the console since the last call."""
        return [line["message"] for line in self._send("/se/log", {"type": "browser"})]

    def close(self) -> None:
        """Ends the browser."""
        self._http.delete(self._at, timeout=60)
        self._http.close()


TAB, ENTER, SPACE = "\ue004", "\ue007", " "
