"""The page used in a real browser: by keyboard alone, on a desk and on a phone, in both themes, printed."""

from __future__ import annotations

import base64
import io
import itertools
import pathlib
import re
from collections.abc import Iterator

import browser
import numpy as np
import pytest
from browser import CONTRAST, ENTER, SPACE, TAB
from PIL import Image
from reports import report_runs

# The smallest ratio of contrast of the text in the charts to the cards below them, and the number of these texts. The
# charts are put into the page itself, since a script cannot look into an image.
CONTRAST_OF_CHARTS = (
    CONTRAST.replace("return least;", "")
    + """
const ratios = [...document.querySelectorAll('figure img')].flatMap((image) => {
  const text = new TextDecoder().decode(Uint8Array.from(atob(image.src.split(',')[1]), (one) => one.charCodeAt(0)));
  const svg = document.importNode(new DOMParser().parseFromString(text, 'image/svg+xml').documentElement, true);
  image.replaceWith(svg);
  const paper = luminance(below(svg));
  return [...svg.querySelectorAll('[id^=text_] use')].map((glyph) => {
    const style = getComputedStyle(glyph);
    if (style.opacity !== '1' || style.fillOpacity !== '1') throw new Error('text that is half transparent');
    const [a, b] = [luminance(parse(style.fill)), paper].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
});
return [ratios.reduce((a, b) => Math.min(a, b)), ratios.length];
"""
)
ROWS = "return [...document.querySelectorAll('#classes-1 tbody tr')]"
# The texts of cells that are wider than the cell, so that they lie over the next one; a table shows its first rows.
OVERLAPPING = """
return [...document.querySelectorAll('tr:nth-child(-n + 20) > *')]
  .filter((cell) => cell.offsetParent && cell.scrollWidth > cell.clientWidth + 1)
  .map((cell) => cell.textContent.trim());
"""
# The regions that hide a part of their table, as pairs: label, whether shadows lie at their edges.
SCROLLED = """
return [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => [one.ariaLabel, getComputedStyle(one).backgroundAttachment.includes('local')]);
"""
SHOWN = f"{ROWS}.filter((row) => !row.hidden)"
FOCUSED = "return [document.activeElement.tagName, document.activeElement.textContent]"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.driven(tmp_path_factory.mktemp("driven")) as opened:
        yield opened


def rows(page: browser.Page, column: int, most: int = 12) -> list[str]:
    """The first texts of a column of the table of all classes, without rows that are hidden."""
    return page.run(f"{SHOWN}.slice(0, arguments[1]).map((row) => row.cells[arguments[0]].textContent)", column, most)


def every_row(page: browser.Page, column: int) -> list[str]:
    """The texts of a column, hidden or not."""
    return page.run(f"{ROWS}.map((row) => row.cells[arguments[0]].textContent)", column)


def tab_to(page: browser.Page, tag: str, text: str) -> None:
    """Presses Tab until the element has the focus."""
    for _ in range(60):
        page.press(TAB)
        found, inside = page.run(FOCUSED)
        if found == tag and inside.startswith(text):
            return
    raise AssertionError(f"no {tag} with {text!r} is reached by Tab")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [*itertools.product(["one.html", "both.html"], [1280, browser.PHONE], ["light", "dark"])],
)
def test_text_has_contrast_and_nothing_is_cut_off(world, page, name, width, scheme):
    page.open(world / name, width, scheme)
    ratio, text = page.run(CONTRAST)
    assert ratio >= 4.5, text
    assert page.run("return innerWidth") == width
    assert page.run("const root = document.documentElement; return root.scrollWidth - root.clientWidth") == 0


@pytest.mark.heavy
@pytest.mark.parametrize("width", [browser.PHONE, 1280, 768])
def test_no_cell_lies_over_another_and_a_table_that_is_cut_shows_it(world, page, width):
    page.open(world / "both.html", width)
    assert page.run(OVERLAPPING) == []
    cut = page.run(SCROLLED)
    assert all(has_shadow for _, has_shadow in cut)
    assert bool(cut) or width > 768


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_in_charts_has_contrast(world, page, scheme):
    page.open(world / "both.html", scheme=scheme)
    ratio, glyphs = page.run(CONTRAST_OF_CHARTS)
    assert ratio >= 4.5
    assert glyphs > 500


@pytest.mark.heavy
@pytest.mark.parametrize("media", ["", "print"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_painted_in_the_ink_of_the_theme_and_printed_on_white(world, page, media, scheme):
    """As the browser paints them, which decides on the theme of an image by itself."""
    page.open(world / "one.html", scheme=scheme)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.tell("Emulation.setEmulatedMedia", {"media": media, "features": features})
    try:
        area = page.run(
            "const one = document.querySelector('figure img'); one.scrollIntoView();"
            "const at = one.getBoundingClientRect(); return [at.x + scrollX, at.y + scrollY, at.width, at.height]"
        )
        clip = {**dict(zip(("x", "y", "width", "height"), area, strict=True)), "scale": 3}
        told = page.tell("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    finally:
        page.tell("Emulation.setEmulatedMedia", {"media": "", "features": features})
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(told["data"]))).convert("RGB")).reshape(-1, 3)
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    paper, inks = colours[counts.argmax()].tolist(), {tuple(one) for one in colours[counts > 50].tolist()}
    is_dark = scheme == "dark" and not media
    assert paper == ([28, 32, 39] if is_dark else [255, 255, 255])
    assert ((213, 218, 226) in inks, (32, 36, 44) in inks) == (is_dark, not is_dark)


def test_no_script_of_a_name_runs(world, page):
    """The names are words, and the policy refuses a script that got into the page all the same."""
    page.open(world / "one.html")
    assert page.run("return document.scripts.length") == 1
    assert page.console() == []
    page.run("const one = document.createElement('script'); one.text = 'window.ran = 1'; document.body.append(one)")
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x: onerror=\"window.ran = 1\">')")
    assert page.run("return window.ran") is None
    assert any("Content Security Policy" in line for line in page.console())


def test_classes_are_sorted_and_searched_by_keyboard_alone(world, page):
    page.open(world / "one.html")
    labels = report_runs.data(1)[1].sum(0)
    assert rows(page, 1) == [str(count) for count in labels]
    tab_to(page, "INPUT", "")
    page.press(*"food")
    found = rows(page, 0, 99)
    names = report_runs.hostile_vocabulary()
    pairs = zip(names.names, names.verticals, strict=True)
    having = [name for name, vertical in pairs if "food" in f"{name} {vertical}".lower()]
    assert len(found) == min(99, len(having))
    assert all(text.startswith(name) for text, name in zip(found, having, strict=False))
    told = page.run("return document.querySelector('.search output').textContent")
    assert told == f"{len(having)} of 3,862"
    page.press(*["\ue003"] * 4)
    assert len(rows(page, 0, 9999)) == 300
    page.run("const one = document.querySelector('.scroll'); one.scrollTop = one.scrollHeight")
    page.wait_for(f"{SHOWN}.length === 600")
    tab_to(page, "BUTTON", "labels")
    page.press(ENTER)
    assert rows(page, 1) == [str(count) for count in sorted(labels, reverse=True)]
    page.press(SPACE)
    assert rows(page, 1, 3) == ["0", "0", "0"]
    head = "return [...document.querySelectorAll('#classes-1 thead th')].map((one) => one.getAttribute('aria-sort'))"
    assert page.run(head) == ["none", "ascending", *["none"] * 6]
    tab_to(page, "BUTTON", "AP")
    page.press(ENTER)
    aps = every_row(page, 2)
    assert aps[:11] == sorted(aps[:11], reverse=True)
    assert set(aps[11:]) == {"—"}  # what is not defined stays last, whichever way it is sorted
    page.press(ENTER)
    assert every_row(page, 2) == [*aps[:11][::-1], *aps[11:]]


@pytest.mark.heavy
def test_values_are_told_under_the_pointer_and_by_the_arrow_keys(world, page):
    page.open(world / "both.html")
    plots = page.run("return document.querySelectorAll('.plot[tabindex]').length")
    assert plots == page.run("return document.querySelectorAll('figure').length") >= 8
    place = """
        const box = [...document.querySelectorAll('.plot')].find((one) => one.dataset.points.includes('precision'));
        box.scrollIntoView({block: 'center'});
        const area = box.getBoundingClientRect(), point = JSON.parse(box.dataset.points)[arguments[0]];
        return [area.left + point[0] * area.width, area.top + point[1] * area.height, point[2]];
    """
    tip = "const one = document.querySelector('.tip:not([hidden])'); return one && one.textContent"
    for number in (0, 7):
        x, y, text = page.run(place, number)
        page.tell("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        assert page.run(tip) == text
    page.tell("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 1, "y": 1})
    assert page.run(tip) is None
    page.run("const box = document.querySelector('.plot'); box.scrollIntoView(); box.focus()")
    points = page.run("return JSON.parse(document.querySelector('.plot').dataset.points)")
    points.sort(key=lambda point: (point[0], point[1]))
    for key, index in (("\ue014", 0), ("\ue014", 1), ("\ue012", 0), ("\ue010", len(points) - 1)):  # right, left, end
        page.press(key)
        assert page.run(tip) == points[index][2]
    ratio, text = page.run(CONTRAST)  # with the tip shown
    assert ratio >= 4.5, text
    page.press("\ue00c")  # escape
    assert page.run(tip) is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.heavy
def test_printed_it_is_a_document_of_a_few_pages(world, page, scheme):
    page.open(world / "one.html", scheme=scheme)
    pdf = base64.b64decode(page.tell("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.7})["data"])
    assert pdf.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 14
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    page.tell("Emulation.setEmulatedMedia", {"media": "print", "features": media})
    try:
        assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.run("return document.querySelector('.search').checkVisibility()") is False
        ratio, text = page.run(CONTRAST)
        assert ratio >= 4.5, text
    finally:
        page.tell("Emulation.setEmulatedMedia", {"media": "", "features": media})


WORST = "return [...document.querySelectorAll('#worst-1 tbody tr')].filter((row) => !row.hidden)"


def classes_shown(row: list[list[str]]) -> dict[str, float]:
    """{name: part of the loss} of the marks of a row."""
    return {name.strip(): float(told.split()[-1]) for name, told in row}


@pytest.mark.heavy
def test_the_worst_videos_are_filtered_by_class_and_by_keyboard_alone(world, page):
    """Of two classes, one of whose names contains the other's: the whole name is one class, a part may be both."""
    page.open(world / "worst.html")
    marks = "[...row.querySelectorAll('p')].map((p) => [p.firstChild.data, p.lastChild.textContent])"
    every = [classes_shown(row) for row in page.run(f"{WORST}.map((row) => {marks})")]
    tab_to(page, "INPUT", "")
    tab_to(page, "INPUT", "")
    page.press(*"guitar")
    found = [classes_shown(row) for row in page.run(f"{WORST}.map((row) => {marks})")]
    expected = sorted((row["Guitar"] for row in every if "Guitar" in row), reverse=True)
    assert 0 < len(found) == len(expected) < len(every)
    assert [row["Guitar"] for row in found] == expected
    told = page.run("return document.querySelector('.search[data-of=worst-1] output').textContent")
    assert told == f"{len(expected)} of {len(every)}, sorted by what this class adds"
    assert set(page.run("return [...document.querySelectorAll('.chosen')].map((p) => p.firstChild.data.trim())")) == {
        "Guitar"
    }
    page.press("\ue003")  # backspace: guita
    either = [row for row in every if {"Guitar", "Bass guitar"} & set(row)]
    assert [classes_shown(row) for row in page.run(f"{WORST}.map((row) => {marks})")] == either
    assert page.run("return document.querySelectorAll('.chosen').length") == 0
    page.press(*["\ue003"] * 5, *"v7")
    assert all("v7" in name for name in page.run(f"{WORST}.map((row) => row.cells[0].textContent)"))


@pytest.mark.heavy
def test_names_are_sorted_as_names_even_if_they_begin_with_numbers(world, page):
    page.open(world / "worst.html")
    tab_to(page, "BUTTON", "class")
    page.press(ENTER)
    names = [
        "—",
        "0x10",
        "1e2",
        "2 cats",
        "3",
        "10 dogs",
        "Bass guitar",
        "class 2",
        "class 10",
        "Guitar",
        "NaN",
        "newt",
    ]
    assert rows(page, 0) == names
    page.press(ENTER)
    assert rows(page, 0) == names[::-1]


@pytest.mark.heavy
def test_the_table_says_what_it_is_to_a_screen_reader(world, page):
    page.open(world / "one.html")
    nodes = page.tell("Accessibility.getFullAXTree", {})["nodes"]
    shown = [node for node in nodes if not node["ignored"]]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in shown]
    headers = [name for role, name in roles if role == "columnheader"]
    assert [one.rstrip(" ↕") for one in headers if "F1" in one] == ["F1"]
    row_headers = [name for role, name in roles if role == "rowheader"]
    assert len(row_headers) == 300 + report_runs.VIDEOS
    assert row_headers[0].startswith(report_runs.HOSTILE.split(" $")[0])
    assert {("searchbox", "Search"), ("combobox", "Class or video")} < set(roles)
    assert any(role == "region" and name.startswith("All classes of") for role, name in roles)


@pytest.mark.heavy
def test_without_scripts_the_table_is_whole(world, page):
    page.tell("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open(world / "one.html")
        page.wait_for("return document.readyState === 'complete'")
        assert len(rows(page, 0, 3862)) == 3862
        assert page.run("return document.querySelector('.search').checkVisibility()") is False
        assert page.run("return document.querySelectorAll('button').length") == 0
        np.testing.assert_equal(rows(page, 1), [str(count) for count in report_runs.data(1)[1].sum(0)])
    finally:
        page.tell("Emulation.setScriptExecutionDisabled", {"value": False})


def test_contrast_that_is_too_low_would_be_noticed(page, tmp_path: pathlib.Path):
    (tmp_path / "pale.html").write_text("<body style='background:#fff'><p style='color:#777'>4.48</p><p>good</p>")
    page.open(tmp_path / "pale.html")
    ratio, text = page.run(CONTRAST)
    assert (round(ratio, 2), text) == (4.48, "4.48")


# Words in headings, numbers and names of settings that a line break cuts.
BROKEN_WORDS = """
const cut = [];
for (const cell of document.querySelectorAll('.settings thead th, .settings .number, .settings .soft')) {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const word of node.data.matchAll(/[A-Za-z0-9@.]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) cut.push(word[0]);
    }
  }
}
return cut;
"""
VERDICTS = "return [...document.querySelectorAll('.verdict')].map(cell => cell.getBoundingClientRect().right)"
SPACE_ABOVE_THE_RUNS = """
const runs = document.querySelector('.run').parentElement;
return runs.getBoundingClientRect().top - runs.previousElementSibling.getBoundingClientRect().bottom;
"""
TOPS = "return [...document.querySelectorAll(arguments[0])].map(one => one.getBoundingClientRect().top)"


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "scheme"), [*itertools.product([390, 500, 768, 1280], ["light", "dark"])])
def test_a_comparison_is_read_without_scrolling_to_the_verdict(
    world: pathlib.Path, page: browser.Page, width: int, scheme: str
) -> None:
    page.open(world / "both.html", width, scheme)
    assert page.run(BROKEN_WORDS) == []
    verdicts = page.run(VERDICTS)
    assert len(verdicts) >= 4
    assert max(verdicts) <= width - 32
    assert page.run(SPACE_ABOVE_THE_RUNS) >= 12
    assert page.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.heavy
def test_what_stands_side_by_side_starts_at_the_same_line(world: pathlib.Path, page: browser.Page) -> None:
    """Although the name of the first run takes several lines."""
    page.open(world / "both.html", 768)
    for selector in (".run .figures", ".stack > .card:nth-child(2)", ".stack > .card:nth-child(3)"):
        first, second = page.run(TOPS, selector)
        assert first == pytest.approx(second, abs=1), selector
