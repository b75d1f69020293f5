"""A real browser without a window: pages of a folder, each in a frame as wide as a phone."""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

PHONE = 390  # CSS pixels
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The page under test has no script of its own: a page around it measures.
_AROUND = """\
<!doctype html><body>%s<pre id="found"></pre><script>
const found = {};
function measure(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  const all = [...page.querySelectorAll("body *")];
  found[frame.name] = {
    width: frame.contentWindow.innerWidth, scroll: root.scrollWidth, height: root.scrollHeight,
    pictures: [...page.images].map(image => image.complete && image.naturalWidth),
    outside: all.filter(one => one.getBoundingClientRect().right > %d + 1).length,
    smallest: Math.min(...all.map(one => parseFloat(getComputedStyle(one).fontSize))),
  };
  document.getElementById("found").textContent = JSON.stringify(found);
}
</script></body>
"""


class Seen(NamedTuple):
    """What a browser made of pages.

    Attributes:
      pages: for each its width, scrollWidth, height, the natural widths of its pictures, ...
      console: lines that were written to the console, errors of loading among them.
      asked: paths that were asked of the server.
    """

    pages: dict[str, Any]
    console: list[str]
    asked: list[str]


def executable() -> str:
    """The browser; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed here (looked for {', '.join(_NAMES)}); Debian: apt-get install chromium")
    return found


def look(folder: pathlib.Path, names: Sequence[str], home: pathlib.Path) -> Seen:
    """Opens pages of `folder` in frames as wide as a phone; the browser's own files go under `home`."""
    frames = "".join(
        f'<iframe name="{html.escape(name)}" src="{html.escape(name)}" width="{PHONE}" height="800" '
        'style="border:0" onload="measure(this)"></iframe>'
        for name in names
    )
    (folder / "around.html").write_text(_AROUND % (frames, PHONE))
    asked: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, asked, str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            done = _run(executable(), f"http://127.0.0.1:{server.server_port}/around.html", home)
        finally:
            server.shutdown()
            thread.join()
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout + done.stderr
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Seen(json.loads(html.unescape(found.group(1)) or "{}"), console, asked)


def _run(program: str, address: str, home: pathlib.Path) -> subprocess.CompletedProcess[str]:
    flags = ["--headless=new", "--disable-gpu", "--no-first-run", "--enable-logging=stderr", "--dump-dom"]
    flags += [f"--user-data-dir={home}/profile", "--virtual-time-budget=10000", "--window-size=1000,900"]
    # A container has neither user namespaces nor a large /dev/shm; the pages are our own.
    flags += ["--no-sandbox", "--disable-dev-shm-usage"]
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
    return subprocess.run([program, *flags, address], capture_output=True, text=True, env=environment)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; what was asked is noted."""

    def __init__(self, asked: list[str], folder: str, *more: Any) -> None:
        self._asked = asked
        super().__init__(*more, directory=folder)

    def log_message(self, format: str, *args: Any) -> None:
        self._asked.append(self.path)
