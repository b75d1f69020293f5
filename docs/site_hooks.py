"""What the site needs beside the pages of docs/: pages that live elsewhere, one of each model, links out of docs/.

A link is written so that it works where the page is read in the repository. On the site, a link to a page
that lives elsewhere leads to its copy, and a link to any other file of the repository becomes plain text.
"""

from __future__ import annotations

import html as html_text
import json
import pathlib
import posixpath
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from recipes import pages
from yt8m import models

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages outside of docs/: their path in the repository, and on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "developers/contributing.md",
    "CHANGELOG.md": "developers/changelog.md",
    "SECURITY.md": "developers/security.md",
    "examples/cifar10/README.md": "users/cifar10.md",
}
# The score of a page in the search is multiplied by the factor of the first prefix that its path has: questions are
# answered first, and pages for users come before those that explain the code.
_BOOSTS = {"users/faq.md": 4.0, "users/": 2.0, "developers/": 0.5, "reference/": 0.25}
# Words that people type for what a part of a page is about, and that it does not use itself, stand in a comment below
# its heading: `<!-- search: active learning, uncertainty -->`. In the search they count nearly as much as a heading.
_SEARCH_WORDS = re.compile(r'<h([1-6]) id="([^"]+)">(?:(?!</h[1-6]>).)*</h[1-6]>\s*<!-- search: (.*?) -->', re.DOTALL)
_WEIGHT_OF_WORDS = 900.0  # of a heading: 1,000
_words_of: dict[str, list[str]] = {}  # {part of a page, as the index of the search spells it: its words}
_SOURCES = {site: source for source, site in ELSEWHERE.items()}
_INLINE_CODE = re.compile(r"<code>(?=[^<>\n]{1,40}</code>)")
_TESTS = re.compile(r"<td>(<code[^>]*>tests/.*?)</td>")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that live elsewhere, and the page of each model."""
    for source, site in ELSEWHERE.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text()))
    for name in models.built_in_names():
        path = f"{pages.SITE_FOLDER}/{name}.md"
        files.append(File.generated(config, path, content=pages.page(name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns the links of a page into links of the site, and says how much the page counts in the search."""
    site = page.file.src_uri
    boost = next((factor for prefix, factor in _BOOSTS.items() if site.startswith(prefix)), 1.0)
    page.meta.setdefault("search", {}).setdefault("boost", boost)
    if site.startswith(f"{pages.SITE_FOLDER}/"):
        return markdown
    if site == "users/models.md":
        return pages.linked(rewrite(markdown, f"docs/{site}", site))
    return rewrite(markdown, _SOURCES.get(site, f"docs/{site}"), site)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Marks short inline code, which the style sheet keeps on one line, folds long lists of tests; notes the words."""
    for level, part, words in _SEARCH_WORDS.findall(html):
        place = page.url if level == "1" else f"{page.url}#{part}"
        _words_of[place] = [word.strip() for word in html_text.unescape(words).split(",")]
    marked = _INLINE_CODE.sub('<code class="short">', html)
    return _TESTS.sub(lambda cell: f"<td>{_folded(cell.group(1))}</td>", marked)


def on_post_build(config: MkDocsConfig) -> None:
    """Adds the words of each part to the index of the search, which shows those that were typed."""
    path = pathlib.Path(config.site_dir, "search/search_index.json")
    index = json.loads(path.read_text())
    for part in index["docs"]:
        words = _words_of.get(part["location"])
        if words:
            part["tags"] = words
    index["config"]["fields"]["tags"]["boost"] = _WEIGHT_OF_WORDS
    path.write_text(json.dumps(index))


def _folded(tests: str) -> str:
    count = tests.count("<code")
    return f"<details><summary>{count} test{'s' * (count > 1)}</summary>{tests}</details>"


def rewrite(markdown: str, source: str, site: str) -> str:
    """The text with its links rewritten.

    Args:
      markdown: the text of a page.
      source: the page's path in the repository.
      site: its path on the site.
    """

    def replaced(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        to = ELSEWHERE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not to:
            return text
        relative = posixpath.relpath(to, posixpath.dirname(site) or ".")
        return f"{image}[{text}]({relative}{anchor or ''})"

    return _LINK.sub(replaced, markdown)
