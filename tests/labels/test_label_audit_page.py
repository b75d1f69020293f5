"""The page of an audit: links, escaped names, and the first rows of long tables."""

from __future__ import annotations

import pathlib

import browser
import pytest
from browser import SPACE, TAB

from yt8m.labels import label_audit


def test_the_page_shows_the_tables_with_links(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_audit, "_MOST", 2)
    rows = ["1,v1,<b>cat</b>,wrong,0.9", "2,'=v2,dog,missing,0.8", "3,v3,dog,wrong,0.7"]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    (tmp_path / "classes.csv").write_text("finding,class,other,split,videos,value\n")
    (tmp_path / "media.csv").write_text("id,address\nv1,https://example.org/1\n=v2,javascript:alert(1)\n")
    tables = {"Labels": "issues.csv", "Classes": "classes.csv"}
    label_audit.write_page(str(tmp_path), {"videos": 3, "effect": {}}, tables, str(tmp_path / "media.csv"))
    page = (tmp_path / "audit.html").read_text()
    assert '<a href="https://example.org/1" rel="noreferrer">v1</a>' in page
    assert "&lt;b&gt;cat&lt;/b&gt;" in page
    assert "<td>=v2</td>" in page  # as the id is, and without its link
    assert "javascript:" not in page
    assert "issues.csv has all 3 rows; these are the first 2." in page
    assert "v3" not in page
    assert page.index("v1") < page.index("=v2")
    assert "classes.csv has all 0 rows." in page


@pytest.mark.long
def test_rows_are_searched_by_class_and_sorted_by_keyboard(tmp_path: pathlib.Path) -> None:
    rows = ["1,v1,cat,wrong,0.9", "2,v2,dog,missing,0.85", "3,v3,dog,wrong,0.1", "4,v4,bird,wrong,0.05"]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    (tmp_path / "classes.csv").write_text(
        "finding,class,other,split,videos,value\ntoo few videos,cat,,train,9,\nnot told apart,cat,dog,,120,0.4\n"
    )
    label_audit.write_page(str(tmp_path), {"videos": 4}, {"Labels": "issues.csv", "Classes": "classes.csv"}, "")
    with browser.driven(tmp_path) as page:
        page.open(tmp_path / "audit.html")
        page.press(TAB)
        page.press(*"DOG")
        assert shown(page, "labels", 1) == ["v2", "v3"]
        assert page.run("return document.querySelector('.search output').textContent") == "2 of 4"
        page.press(*[TAB] * 2)  # the region that scrolls is between the field and the head of the first column
        assert page.run("return document.activeElement.textContent") == "rank"
        page.press(*[TAB] * 4, SPACE, SPACE)
        assert page.run("return document.activeElement.closest('th').ariaSort") == "ascending"
        assert shown(page, "labels", 1) == ["v3", "v2"]
        page.run("document.querySelectorAll('#classes button')[5].click()")
        assert shown(page, "classes", 0) == ["not told apart", "too few videos"]  # a row without a value comes last
        assert page.console() == []


def shown(page: browser.Page, table: str, column: int) -> list[str]:
    """The texts of a column of the rows that are not hidden."""
    rows = f"[...document.querySelectorAll('#{table} tbody tr')].filter((row) => !row.hidden)"
    return list(page.run(f"return {rows}.map((row) => row.cells[{column}].textContent)"))
