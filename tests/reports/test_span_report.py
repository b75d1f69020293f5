"""The page of the worst spans: which they are, in which order, and what the page shows of them."""

from __future__ import annotations

import pathlib
import re

import browser
import made_videos
import numpy as np
import pytest
import span_runs

from yt8m.records import vocabulary
from yt8m.records.span_files import EvaluatedFilm, FoundSpan
from yt8m.reports import span_report
from yt8m.reports.span_report import find_worst

NAMES = vocabulary.of_names(["weld", "<cut>"])
FILMS = [
    EvaluatedFilm(
        "a", 60.0,
        truth=[FoundSpan(0, 10, 0, 0.7), FoundSpan(20, 30, 0, 0.2), FoundSpan(20, 30, 1, 0.6)],
        predicted=[FoundSpan(1, 10, 0, 0.8), FoundSpan(0, 10, 0, 0.75)]
        + [FoundSpan(28, 36, 1, 0.65), FoundSpan(50, 60, 1, 0.5)],
    ),
    EvaluatedFilm("b", 30.0, truth=[FoundSpan(0, 5, 1, 0.9)], predicted=[FoundSpan(0, 5, 1, 0.9)]),
]  # fmt: skip


def test_the_worst_spans_are_those_of_the_evaluation() -> None:
    """By hand: the first span of `weld` takes the true one, so the second is not right though it is the same time."""
    worst = [(bad.span.start, bad.span.number, bad.kind, round(bad.badness, 2)) for bad in find_worst(FILMS)]
    assert worst == [
        (20, 0, "missed", 0.8),
        (0, 0, "other times", 0.75),
        (28, 1, "other times", 0.65),
        (50, 1, "wrong", 0.5),
        (20, 1, "missed", 0.4),
    ]
    overlaps = {bad.span.start: bad.overlap for bad in find_worst(FILMS) if bad.kind == "other times"}
    assert overlaps == pytest.approx({0: 1.0, 28: 2 / 16})
    assert len(find_worst(FILMS, most=2)) == 2


LANES = """
const inner = (card) => card.getBoundingClientRect().right - parseFloat(getComputedStyle(card).paddingRight);
const lanes = [...document.querySelectorAll(".lane")];
return {
  outside: lanes.filter((lane) => lane.getBoundingClientRect().right > inner(lane.closest(".card")) + 1).length,
  narrowest: Math.min(...lanes.map((lane) => lane.getBoundingClientRect().width)),
  heights: [...document.querySelectorAll(".spans th")].map((name) => name.getBoundingClientRect().height),
};
"""


@pytest.mark.heavy
@pytest.mark.parametrize("width", [browser.PHONE, 1280])
def test_timelines_lie_in_their_cards_and_names_are_not_cut_into_letters(tmp_path: pathlib.Path, width: int) -> None:
    path = tmp_path / "spans.html"
    span_report.write(str(path), FILMS, {}, [("weld", 0.25)], NAMES, "")
    with browser.driven(tmp_path / "driven") as page:
        page.open(path, width)
        found = page.run(LANES)
    assert found["outside"] == 0
    assert found["narrowest"] > 0.5 * browser.PHONE
    assert max(found["heights"]) < 48, "a name of five letters has one line"


def test_a_page_without_pictures_has_no_column_for_them(tmp_path: pathlib.Path) -> None:
    span_report.write(str(tmp_path / "spans.html"), FILMS, {}, [("weld", 0.25)], NAMES, "")
    page = (tmp_path / "spans.html").read_text()
    assert "other times" in page
    assert "pictures<" not in page
    assert 'class="pictures"' not in page


def test_the_page_has_pictures_links_and_both_timelines(tmp_path: pathlib.Path) -> None:
    made_videos.write(tmp_path / "a.mp4", made_videos.grey, None, 60.0, fps=2)
    (tmp_path / "media.csv").write_text(f"id,address\na,{tmp_path}/a.mp4\n")
    path = tmp_path / "spans.html"
    figures = {"mAP@0.5": (0.5, 0.4, 0.6)}
    span_report.write(str(path), FILMS, figures, [("weld", 0.25)], NAMES, str(tmp_path / "media.csv"))
    page = path.read_text()
    assert "&lt;cut&gt;" in page
    assert "<cut>" not in page
    assert page.count("data:image/jpeg") == 5 * 3
    assert 'href="a.mp4#t=20"' in page
    assert "0.400 to 0.600" in page
    assert re.findall(r'width:([\d.]+)%" title="true', page) == ["16.667", "16.667", "16.667"]
    assert len(re.findall('title="found', page)) == 4
    assert "<h3>a " in page
    assert "<h3>b " not in page, "nothing is wrong there"


def test_without_media_there_are_no_pictures(tmp_path: pathlib.Path) -> None:
    span_report.write(str(tmp_path / "spans.html"), FILMS, {}, [], NAMES, "")
    assert "data:image" not in (tmp_path / "spans.html").read_text()
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    (tmp_path / "media.csv").write_text(f"id,address\na,{tmp_path}/broken.mp4\n")
    span_report.write(str(tmp_path / "spans.html"), FILMS, {}, [], NAMES, str(tmp_path / "media.csv"))
    assert "data:image" not in (tmp_path / "spans.html").read_text()


@pytest.mark.long
def test_an_evaluation_writes_the_page(span_run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert span_runs.evaluate(span_run, "--report", f"--media={span_run}/none.csv") == 2
    assert "none.csv" in capsys.readouterr().err
    assert span_runs.evaluate(span_run, "--report") == 0
    assert "spans.html" in capsys.readouterr().out
    page = (span_run / "run" / "eval" / "spans.html").read_text()
    assert all(name in page for name in span_runs.NAMES)
    true_bars = sum(1 for _ in re.finditer('title="true', page))
    shown = page.count("<h3>")
    assert true_bars == shown * len(span_runs.NAMES)
    assert np.isfinite([float(value) for value in re.findall(r"width:([\d.]+)%", page)]).all()
