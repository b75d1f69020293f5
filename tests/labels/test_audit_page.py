"""The page of an audit: links, escaped names, and the first rows of long tables."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.labels import audit_page


def test_the_page_shows_the_tables_with_links(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_page, "_MOST", 2)
    rows = ["1,v1,<b>cat</b>,wrong,0.9", "2,'=v2,dog,missing,0.8", "3,v3,dog,wrong,0.7"]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    (tmp_path / "classes.csv").write_text("finding,class,other,split,videos,value\n")
    (tmp_path / "media.csv").write_text("id,address\nv1,https://example.org/1\n=v2,javascript:alert(1)\n")
    tables = {"Labels": "issues.csv", "Classes": "classes.csv"}
    audit_page.write(str(tmp_path), {"videos": 3, "effect": {}}, tables, str(tmp_path / "media.csv"))
    page = (tmp_path / "audit.html").read_text()
    assert '<a href="https://example.org/1" rel="noreferrer">v1</a>' in page
    assert "&lt;b&gt;cat&lt;/b&gt;" in page
    assert "<td>=v2</td>" in page  # as the id is, and without its link
    assert "javascript" not in page
    assert "issues.csv has all 3 rows; these are the first 2." in page
    assert "v3" not in page
    assert page.index("v1") < page.index("=v2")
    assert "classes.csv has all 0 rows." in page
