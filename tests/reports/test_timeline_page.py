"""The page of scores over time: escaped, self-contained, and readable in a browser."""

from __future__ import annotations

import pathlib
import re

import browser
import made_videos
import numpy as np
import pytest

from yt8m.extractors.base import Scaling
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import Request
from yt8m.records import vocabulary
from yt8m.reports import timeline_page
from yt8m.reports.timeline_page import Timeline

NAMES = ("<script>alert(1)</script>", "dog & cat", *(f"class number {number}" for number in range(30)))
EVIL = '<img src=x onerror="alert(2)">.mp4'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """page.html of a video of a minute, and blind.html of one without pictures."""
    made = tmp_path_factory.mktemp("pages")
    path = made_videos.write(made / EVIL, made_videos.grey, None, 60.0)
    scores = np.random.default_rng(0).uniform(0, 0.04, (12, 32)).astype(np.float32)
    scores[:6, 0], scores[6:, 1] = 0.9, 0.8
    found = Timeline([5.0 * part for part in range(12)], 60.0, scores)
    timeline_page.write(
        str(made / "page.html"), path, found, vocabulary.of_names(NAMES), {"<b>tag</b>": 7, "sure": None}
    )
    blind = made_videos.write(made / "blind.mkv", None, made_videos.tone("disc"), 10.0)
    short = Timeline([0.0, 5.0], 10.0, scores[5:7])
    timeline_page.write(str(made / "blind.html"), blind, short, vocabulary.of_names(NAMES), {})
    return made


def test_rows_are_the_best_classes_and_names_are_escaped(folder: pathlib.Path) -> None:
    page = (folder / "page.html").read_text()
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>', page)
    assert rows == ["&lt;script&gt;alert(1)&lt;/script&gt;", "dog &amp; cat"]
    assert "<script" not in page
    assert "onerror=&#34;" in page or "onerror=&quot;" in page
    assert "<img src=x" not in page
    assert "&lt;b&gt;tag&lt;/b&gt; (7)</span>" in page
    assert ">sure</span>" in page
    assert "the number of videos from which a threshold comes" in page
    assert page.count("data:image/jpeg") == 12
    assert "0:55" in page
    assert "data:image" not in (folder / "blind.html").read_text()


def test_the_best_class_of_each_part_has_a_row() -> None:
    scores = np.full((3, 40), 0.01, np.float32)
    scores[0, 7], scores[1, 3], scores[2, 39] = 0.9, 0.02, 0.5
    assert timeline_page.classes_of_rows(Timeline([0, 5, 10], 15.0, scores)) == [7, 39, 3]
    many = np.linspace(0.1, 0.9, 40, dtype=np.float32)[np.newaxis]
    assert timeline_page.classes_of_rows(Timeline([0], 5.0, many)) == list(range(39, 27, -1))


def test_thumbnails_are_of_their_parts(folder: pathlib.Path) -> None:
    page = (folder / "page.html").read_text()
    sizes = [len(one) for one in re.findall(r"data:image/jpeg;base64,([\w+/=]+)", page)]
    assert len(set(re.findall(r"data:image/jpeg;base64,([\w+/=]+)", page))) >= 6  # the grey changes until second 32
    assert max(sizes) < 20_000


@pytest.mark.heavy
def test_a_page_without_pictures_says_why(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That of a video that cannot be decoded, and, once, those of all videos where PyAV itself fails."""
    (tmp_path / "bad.mp4").write_bytes(b"nothing of a video")
    request = Request(str(tmp_path / "bad.mp4"), pictures=(Scaling(8),))
    with DecoderPool(1, Limits()) as pool:
        assert timeline_page.decoded_pictures(request, pool) == []
    assert re.search(r"bad\.mp4: .*no pictures.*damaged", caplog.messages[0])
    caplog.clear()
    (tmp_path / "av.py").write_text(made_videos.FAILING_AV)
    monkeypatch.syspath_prepend(str(tmp_path))
    with DecoderPool(1, Limits()) as pool:
        for _ in range(2):
            assert timeline_page.decoded_pictures(request, pool) == []
    (told,) = caplog.messages
    assert "no video can be" in told
    assert "TypeError: open" in told


@pytest.mark.heavy
def test_no_page_replaces_that_of_another_video(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    videos = [f"a/{EVIL}", f"b/{EVIL}", f"{tmp_path}/c/{EVIL}"]
    names = [f"{EVIL}{number}.timeline.html" for number in ("", ".2", ".3")]
    timeline = Timeline([0.0], 1.0, np.full((1, 2), 0.5, np.float32))
    for _ in range(2):  # predicting again replaces the video's own page
        for video, name in zip(videos, names, strict=True):
            assert timeline_page.path_for(video) == name
            timeline_page.write(name, video, timeline, vocabulary.of_names(["x", "y"]), {})
    pathlib.Path("c.mp4.timeline.html").write_text("notes of somebody")
    assert timeline_page.path_for("c.mp4") == "c.mp4.2.timeline.html"


@pytest.mark.heavy
@pytest.mark.long
def test_the_page_is_painted_in_light_and_dark_on_a_desk_and_on_a_phone(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with browser.driven(tmp_path) as page:
        for width in (1280, browser.PHONE):
            for scheme in ("light", "dark"):
                page.open(folder / "page.html", width, scheme)
                assert page.run("return document.documentElement.scrollWidth") <= width
                assert page.run("return [...document.images].filter((one) => one.naturalWidth == 96).length") == 12
                paper = page.run("return getComputedStyle(document.body).backgroundColor")
                dark = sum(map(int, re.findall(r"\d+", paper)[:3])) < 200
                assert dark is (scheme == "dark")
                cell = page.run("return document.querySelector('.score').getBoundingClientRect().width")
                assert cell >= 60
                assert page.console() == []


@pytest.mark.heavy
@pytest.mark.long
def test_a_veil_says_that_more_parts_follow(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    veil = "return Number(getComputedStyle(document.querySelector('.scroll'), '::after').opacity)"
    with browser.driven(tmp_path) as page:
        page.open(folder / "page.html", browser.PHONE)
        assert page.run(veil) == 1
        page.run("document.querySelector('.scroll').scrollLeft = 1e6")
        page.wait_for(veil.replace("return ", "return 0 === "))
        page.open(folder / "blind.html", browser.PHONE)  # both parts fit
        assert page.run(veil) == 0
