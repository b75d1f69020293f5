"""A page that a server gives out and a browser shows, as a test uses it."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import browser

STATE = "return document.getElementById('state').textContent"
_ERROR = "return document.getElementById('error').textContent"
CLEAR = "document.getElementById('state').textContent = document.getElementById('error').textContent = ''"
# The end of what the page does, well or not.
_ENDED = """
const [error, state] = ["error", "state"].map((id) => document.getElementById(id).textContent);
return error || state.endsWith(arguments[0]);
"""
_TABLE = """
return [...document.querySelectorAll("#classes tbody tr")]
  .map((row) => [row.cells[0].textContent, Number(row.dataset.score)]);
"""


class Site(NamedTuple):
    """Pages in folders below `folder`, in a browser, and the paths that were asked for."""

    folder: pathlib.Path
    page: browser.Page
    address: str
    asked: list[str]

    def open(self, name: str, width: int = 1280, scheme: str = "light") -> None:
        """Opens the page of a folder, and waits until the model is loaded."""
        self.page.open(f"{self.address}/{name}/", width, scheme)
        assert self.ended("The model is loaded.") == ""

    def choose(self, path: pathlib.Path) -> str:
        """Chooses a file; returns the error, or nothing if it has been scored."""
        self.page.run(CLEAR)
        self.page.choose("#file", path)
        return self.ended(" is scored.")

    def ended(self, state: str) -> str:
        """Waits for this state of the page, or for an error, which it returns."""
        self.page.wait_for(_ENDED, state)
        return self.page.run(_ERROR)

    def scores(self) -> list[tuple[str, float]]:
        """The names and scores in the table of the best classes."""
        return self.page.run(_TABLE)
