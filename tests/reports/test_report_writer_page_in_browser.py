"""The page in a real browser: nothing on the console, every picture painted, no wider than a phone."""

from __future__ import annotations

import pathlib

import browser
import pytest

# What a page that is at fault looks like, so that a blind test would fail.
BROKEN = """\
<!doctype html><title>broken</title><img src="missing.png" alt=""><div style="width:600px">wide</div>
<script>console.error("on purpose")</script>
"""


@pytest.fixture(scope="module")
def seen(world: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> browser.Seen:
    """All pages in one start of the browser."""
    browser.executable()
    (world / "broken.html").write_text(BROKEN)
    return browser.look(world, ["one.html", "both.html", "broken.html"], tmp_path_factory.mktemp("browser"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["one.html", "both.html"])
def test_the_page_is_painted_and_readable_on_a_phone(seen: browser.Seen, name: str) -> None:
    page = seen.pages[name]
    assert page["width"] == browser.PHONE
    assert page["scroll"] <= browser.PHONE
    assert page["outside"] == 0
    assert page["smallest"] >= 12
    assert page["height"] > 1500
    assert len(page["pictures"]) >= 8
    assert min(page["pictures"]) > 0
    assert [line for line in seen.console if name in line] == []


@pytest.mark.heavy
def test_nothing_else_is_asked_for(seen: browser.Seen) -> None:
    pages = {"/around.html", "/one.html", "/both.html", "/broken.html", "/missing.png"}
    assert set(seen.asked) - {"/favicon.ico"} == pages


@pytest.mark.heavy
def test_a_broken_page_would_be_noticed(seen: browser.Seen) -> None:
    page = seen.pages["broken.html"]
    assert (page["pictures"], page["outside"]) == ([0], 1)
    assert page["scroll"] >= 600
    assert any("on purpose" in line and "broken.html" in line for line in seen.console)
