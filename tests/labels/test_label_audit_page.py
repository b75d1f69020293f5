"""The page of an audit: links, escaped names, and the first rows of long tables."""

from __future__ import annotations

import pathlib
import time

import browser
import made_videos
import pytest
from browser import CONTRAST, SPACE, TAB

from yt8m.datasets.make_records.human_labels import read_decisions
from yt8m.labels import label_audit

END = "\ue010"


def test_the_page_shows_the_tables_with_links(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_audit, "_MOST_ROWS", 2)
    rows = ["1,v1,<b>cat</b>,wrong,0.9", "2,'=v2,dog,missing,0.8", "3,v3,dog,wrong,0.7"]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    (tmp_path / "classes.csv").write_text("finding,class,other,split,videos,value\n")
    (tmp_path / "media.csv").write_text("id,address\nv1,https://example.org/1\n=v2,javascript:alert(1)\n")
    tables = {"Labels": "issues.csv", "Classes": "classes.csv"}
    label_audit.write_page(str(tmp_path), {"videos": 3, "effect": {}}, tables, str(tmp_path / "media.csv"))
    page = (tmp_path / "audit.html").read_text()
    assert '<a href="https://example.org/1" rel="noreferrer">v1</a>' in page
    assert "&lt;b&gt;cat&lt;/b&gt;" in page
    assert '<td class="text">=v2</td>' in page  # as the id is, and without its link
    assert "javascript:" not in page
    assert "issues.csv has all 3 rows; these are the first 2." in page
    assert "v3" not in page
    assert page.index("v1") < page.index("=v2")
    assert "Nothing was found; classes.csv has no row." in page


@pytest.mark.heavy
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


LONG = "a_long_name_of_a_folder/without_any_space_" * 3
ROWS = ["1,5,Call of Duty 4: Modern Warfare,wrong,0.9", f"2,{LONG},5,missing,0.85", "3,1,2,wrong,0.5"]


def write_numbered(folder: pathlib.Path) -> None:
    """An audit whose ids and classes are numbers too, with names that are longer than a phone is wide."""
    (folder / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *ROWS]) + "\n")
    (folder / "copies.csv").write_text(f"video,other,split,other_split,similarity\n5,{LONG},train,validate,0.99\n")
    (folder / "classes.csv").write_text("finding,class,other,split,videos,value\nalways together,1,5,,120,1\n")
    (folder / "media.csv").write_text("id,address\n1,https://example.org/1\n5,videos/5.mp4\n")
    summary = {"videos": 3, "effect in words": "GAP without the copies that training has seen: 0.691 instead of 0.697"}
    tables = {"Labels": "issues.csv", "Copies": "copies.csv", "Classes": "classes.csv"}
    label_audit.write_page(str(folder), summary, tables, str(folder / "media.csv"))


@pytest.mark.heavy
def test_numbers_are_not_cut_in_two_on_a_phone(tmp_path: pathlib.Path) -> None:
    write_numbered(tmp_path)
    figures = {"videos of other splits that training has seen": 0, "estimated share of wrong labels": 0.0093}
    label_audit.write_page(str(tmp_path), figures, {"Labels": "issues.csv"}, "")
    script = """return [...document.querySelectorAll(".facts td")].map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return [cell.textContent, range.getClientRects().length];
    });"""
    with browser.driven(tmp_path) as page:
        page.open(tmp_path / "audit.html", browser.PHONE)
        assert page.run(script) == [["0", 1], ["0.0093", 1]]


@pytest.mark.heavy
def test_on_a_phone_and_in_the_dark_nothing_is_cut_off_or_loaded(tmp_path: pathlib.Path) -> None:
    write_numbered(tmp_path)
    links = "return [...document.querySelectorAll('a')].map((link) => [link.textContent, link.getAttribute('href')])"
    cut_off = "return [...document.querySelectorAll('td, th')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    hidden = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    with browser.driven(tmp_path) as page, browser.served(tmp_path) as (address, asked):
        for width, scheme in ((360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")):
            page.open(f"{address}/audit.html", width, scheme)
            ratio, text = page.run(CONTRAST)
            assert ratio >= 4.5, text
            assert page.run("return innerWidth") == width
            assert (page.run(hidden), page.run(cut_off)) == (0, 0)
        paper = page.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(20, 23, 28)"
        # Ranks and classes that are numbers are no ids.
        assert page.run(links) == [["5", "videos/5.mp4"], ["1", "https://example.org/1"], ["5", "videos/5.mp4"]]
        # Of the two addresses, that of the file beside the page is looked at for a picture; here there is no such file.
        loaded = "return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)"
        assert set(page.run(loaded)) <= {"/videos/5.mp4"}
        assert set(asked) - {"/favicon.ico"} <= {"/audit.html", "/videos/5.mp4"}
        page.wait_for("return document.querySelector('video') === null")
        assert [line for line in page.console() if "favicon" not in line and "5.mp4" not in line] == []


@pytest.mark.heavy
def test_more_rows_are_laid_out_when_the_reader_scrolls_with_the_keys(tmp_path: pathlib.Path) -> None:
    rows = [f"{rank},v{rank},cat,wrong,0.9" for rank in range(1, 1001)]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    label_audit.write_page(str(tmp_path), {"videos": 1000}, {"Labels": "issues.csv"}, "")
    with browser.driven(tmp_path) as page:
        page.open(tmp_path / "audit.html", 360)
        assert len(shown(page, "labels", 0)) == 300
        page.press(TAB, TAB)
        assert page.run("return document.activeElement.getAttribute('aria-label')") == "Labels"
        page.press(END)
        page.wait_for("return [...document.querySelectorAll('tbody tr')].filter((row) => !row.hidden).length > 300")
        page.press(TAB, SPACE)
        assert shown(page, "labels", 0)[:2] == ["1000", "999"]


def shown(page: browser.Page, table: str, column: int) -> list[str]:
    """The texts of a column of the rows that are not hidden."""
    rows = f"[...document.querySelectorAll('#{table} tbody tr')].filter((row) => !row.hidden)"
    return list(page.run(f"return {rows}.map((row) => row.cells[{column}].textContent)"))


@pytest.mark.heavy
@pytest.mark.long
def test_decisions_are_made_on_the_page_and_saved_for_make_records(tmp_path: pathlib.Path) -> None:
    rows = ["1,v1,cat,wrong,0.9", """2,'=v2,"big, ""red"" dog",missing,0.85""", "3,v3,dog,wrong,0.1"]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    (tmp_path / "decisions.csv").write_text("rank,video,class,kind,chance,decision\n3,v3,dog,wrong,0.1,no\n")
    label_audit.write_page(str(tmp_path), {"videos": 3}, {"Labels": "issues.csv"}, "")
    (tmp_path / "saved").mkdir()
    pressed = "return [...document.querySelectorAll('[aria-pressed=true]')].map((one) => one.ariaLabel)"
    buttons = "[...document.querySelectorAll('button')]"
    click = f"{buttons}.find((one) => (one.ariaLabel || one.textContent) == arguments[0]).click()"
    with browser.driven(tmp_path) as page:
        page.tell("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path / "saved")})
        page.open(tmp_path / "audit.html", browser.PHONE)
        assert page.run(pressed) == ["no: 3 v3 dog wrong"]  # of an earlier audit
        page.run(click, "yes: 1 v1 cat wrong")
        page.run(click, "no: 1 v1 cat wrong")  # the last answer counts
        page.run(click, 'yes: 2 =v2 big, "red" dog missing')
        page.run(click, "no: 3 v3 dog wrong")  # a second press takes the answer back
        assert page.run("return document.querySelectorAll('.search output')[1].textContent") == "2 decisions"
        page.run(click, "Save decisions.csv")
        saved = tmp_path / "saved/decisions.csv"
        for _ in range(600):
            if saved.exists():
                break
            time.sleep(0.05)
    found = [(each.video, each.label, each.kind, each.is_right) for each in read_decisions(str(saved))]
    assert sorted(found) == [(b"=v2", 'big, "red" dog', "missing", True), (b"v1", "cat", "wrong", False)]


@pytest.mark.heavy
@pytest.mark.long
def test_videos_beside_the_page_have_pictures_once_they_are_seen(tmp_path: pathlib.Path) -> None:
    made_videos.write(tmp_path / "clip.webm", made_videos.shape("disc"), None, 3.0)
    rows = [f"{rank},v{rank},cat,wrong,0.9" for rank in range(1, 201)]
    (tmp_path / "issues.csv").write_text("\n".join(["rank,video,class,kind,chance", *rows]) + "\n")
    (tmp_path / "media.csv").write_text(
        "id,address\n"
        + "".join(f"v{rank},clip.webm?{rank}\n" for rank in range(1, 200))
        + "v200,https://example.org/a.webm\n"
    )
    label_audit.write_page(str(tmp_path), {"videos": 200}, {"Labels": "issues.csv"}, str(tmp_path / "media.csv"))
    with browser.driven(tmp_path) as page, browser.served(tmp_path) as (address, asked):
        page.open(f"{address}/audit.html")
        page.wait_for("return document.querySelector('video').videoWidth === 64")
        box = page.run("const r = document.querySelector('video').getBoundingClientRect(); return [r.width, r.height]")
        assert box[0] / box[1] == pytest.approx(64 / 48, rel=0.02)
        assert page.run("return document.querySelectorAll('video').length") == 199  # not of another server
        assert len({path for path in asked if "webm" in path}) < 50
        assert page.console() == []
