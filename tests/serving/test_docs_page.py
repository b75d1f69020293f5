"""The page at /docs: text of the service's own description, readable on a phone, in light and dark."""

from __future__ import annotations

import pathlib

import browser
import pytest
from browser import CONTRAST

from yt8m.serving import docs_page

BODY = {"content": {"application/json": {"schema": {"title": "Features", "maxItems": 64}}}}
POST = {
    "description": "The best classes of <each> video.",
    "parameters": [{"name": "top_k", "description": "number of classes"}],
    "requestBody": BODY,
    "responses": {"400": {"description": "The body or `top_k` is not valid."}},
}
DESCRIPTION = {
    "info": {"title": "yt8m", "version": "1"},
    "paths": {"/predict": {"post": POST}},
    "components": {"schemas": {"Answer": {"type": "object"}}},
}


def test_long_schemas_are_folded_and_names_are_code() -> None:
    page = docs_page.make_page(DESCRIPTION)
    assert "The best classes of &lt;each&gt; video." in page
    assert "<td>The body or <code>top_k</code> is not valid.</td>" in page
    assert page.count("<details><summary>") == 2
    assert "<summary>the JSON schema of FILE</summary><pre>{\n &quot;title&quot;: &quot;Features&quot;" in page


@pytest.mark.heavy
@pytest.mark.long
def test_the_page_is_readable_on_a_phone_in_light_and_dark(tmp_path: pathlib.Path) -> None:
    (tmp_path / "docs.html").write_text(docs_page.make_page(DESCRIPTION))
    with browser.driven(tmp_path) as page:
        for scheme in ("light", "dark"):
            page.open(tmp_path / "docs.html", browser.PHONE, scheme)
            ratio, text = page.run(CONTRAST)
            assert ratio >= 4.5, text
            cut = (
                "return [...document.querySelectorAll('pre')].filter((one) => one.scrollWidth > one.clientWidth).length"
            )
            assert page.run(cut) == 0
            assert page.run("return document.documentElement.scrollWidth") <= browser.PHONE
