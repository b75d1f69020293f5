"""Links of the pages lead to files and headings that exist; the site builds without a warning."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from docs.command_blocks import PAGES, ROOT

CHECKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: pathlib.Path) -> str:
    """The text of a page without its fenced blocks."""
    return _FENCED.sub("", page.read_text())


def links(page: pathlib.Path) -> list[str]:
    """The targets of a page's links within the repository."""
    return [link for link in _LINK.findall(text_of(page)) if not re.match(r"[a-z]+:", link)]


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of a page's headings: those that a code host and the site make alike."""
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(text_of(page))]
    words = [re.sub(r"[^\w\s-]", "", title.lower()).strip() for title in titles]
    return {text.replace(" ", "-") for text in words} & {re.sub(r"[-\s]+", "-", text) for text in words}


def wrong_links(page: pathlib.Path) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", CHECKED, ids=_name)
def test_links_lead_to_a_file_and_a_heading(page: pathlib.Path) -> None:
    assert wrong_links(page) == []


def test_templates_of_the_forge_have_no_link_to_a_file() -> None:
    """Their text is shown at the address of a pull request, from which such a link leads nowhere."""
    templates = sorted((ROOT / ".github").rglob("*.md"))
    assert len(templates) >= 3
    assert {_name(path): links(path) for path in templates if links(path)} == {}


def test_a_wrong_link_is_noticed(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `title`\n[a](#one-title) [b](#two) [c](none.md) [d](page.md#one-title) [e](page.md#x)\n")
    assert wrong_links(page) == ["#two", "none.md", "page.md#x"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        found.add(page)
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        left += [target for target in targets - found if target.suffix == ".md" and target.is_file()]
    assert [_name(page) for page in CHECKED if page not in found] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in told] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/reference").glob("*.md")), ids=_name)
def test_the_reference_names_modules_that_exist(page: pathlib.Path) -> None:
    for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE):
        assert importlib.util.find_spec(name), f"there is no module {name}"


class _Loaded(HTMLParser):
    """Gathers what a browser loads with a page: scripts, style sheets, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe", "source", "video", "audio", "embed", "object"):
            found = dict(attrs)
            self.addresses += [found[key] or "" for key in ("src", "href", "srcset", "data") if key in found]


def from_the_network(text: str) -> list[str]:
    """The addresses on other hosts that a page of HTML loads."""
    loaded = _Loaded()
    loaded.feed(text)
    return [one for one in loaded.addresses if re.match(r"(https?:)?//", one)]


def test_what_comes_from_the_network_is_noticed() -> None:
    page = "<a href='https://a'></a><img src='b.png'><script src='//c/d.js'></script><link href=https://e>"
    assert from_the_network(page) == ["//c/d.js", "https://e"]


@pytest.mark.long
@pytest.mark.heavy
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_the_network(tmp_path: pathlib.Path) -> None:
    """`make test-all` installs the extra `docs`; if it is missing, this fails."""
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert {"index.html", "users/tutorial.html", "reference/models.html"} <= {
        str(page.relative_to(tmp_path)) for page in pages
    }
    assert {page.name: found for page in pages if (found := from_the_network(page.read_text()))} == {}
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert re.findall(r"url\(\"?'?https?:|@import", styles) == []


def test_the_files_that_the_page_on_architecture_names_exist() -> None:
    text = text_of(ROOT / "docs/developers/architecture.md")
    named = [*re.findall(r"`([\w/]+\.py)`", text), *re.findall(r"`([\w/]+/)`", text)]
    folders = (ROOT / "yt8m", ROOT)
    assert [path for path in named if not any((folder / path).exists() for folder in folders)] == []
    packages = sorted(path.parent.name for path in (ROOT / "yt8m").glob("*/__init__.py"))
    assert [name for name in packages if f"`{name}/" not in text] == []
