"""The page in a real browser: the scores of `yt8m predict`, by keyboard alone, on a phone, in both themes."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import browser
import numpy as np
import pytest
import small_exports
from browser import CONTRAST, TAB
from export.web_sites import CLEAR, STATE, Site
from small_run import evaluate, run

import yt8m
from yt8m import scoring
from yt8m.command_line import cli
from yt8m.export import web_page
from yt8m.records.data_format import PUBLISHED, dequantized
from yt8m.scoring.scorer import tags

pytestmark = pytest.mark.heavy

SMALL = {"LstmModel": {"lstm_cells": 16}}
DRAW = np.random.default_rng(3)
TAGS = "return [...document.querySelectorAll('#tags .tag')].map((tag) => tag.textContent)"
TIMELINE = """
return [...document.querySelectorAll("#timeline tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
"""
VISIBLE_CELLS = """
return [...document.querySelectorAll("#classes tr")].map(
  (row) => [...row.cells].filter((cell) => cell.checkVisibility()).map((cell) => cell.textContent));
"""
SMALLEST = """
const sizes = [...document.querySelectorAll("body *")].map((one) => parseFloat(getComputedStyle(one).fontSize));
return Math.min(...sizes);
"""
DROP = """
const head = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 8), }".padEnd(117) + "\\n";
const start = Uint8Array.from([0x93, ...[..."NUMPY"].map((one) => one.charCodeAt(0)), 1, 0, 118, 0]);
const data = new DataTransfer();
data.items.add(new File([start, head, Uint8Array.from(arguments[0])], "dropped.npy"));
const dropped = new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: data});
document.getElementById("drop").dispatchEvent(dropped);
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, onnxruntime_web: str) -> Iterator[Site]:
    browser.executable()
    folder = tmp_path_factory.mktemp("sites")
    trained = folder / "trained"
    assert run(trained, "--model=MoeModel") == 0
    evaluate(trained, "--report")
    words = ["--format=web", f"--out={folder}/run", f"--onnxruntime_web={onnxruntime_web}"]
    assert cli.main(["export", f"--model={trained}", *words]) == 0
    for model in ("LogisticModel", "FrameLevelLogisticModel", "LstmModel"):
        (folder / model).mkdir()
        shutil.move(small_exports.export_file(folder, model, **SMALL.get(model, {})), folder / model / web_page.MODEL)
        web_page.write(str(folder / model), web_page.runtime_files(onnxruntime_web))
    with browser.driven(tmp_path_factory.mktemp("driven")) as page, browser.served(folder) as (address, asked):
        yield Site(folder, page, address, asked)


def check_scores(site: Site, name: str, features: dict[str, np.ndarray]) -> None:
    """The 20 best classes on the page are those of `yt8m.load`, for the features of one video."""
    with yt8m.load(str(site.folder / name / web_page.MODEL)) as model:
        (expected,) = model.predict({key: value[np.newaxis] for key, value in features.items()}, top_k=20)
    found = site.scores()
    scores = [one.score for one in expected.classes]
    assert len(found) == len(scores) > 0
    np.testing.assert_allclose([score for _, score in found], scores, rtol=0, atol=1e-4)
    apart = min(abs(np.diff(scores))) > 1e-5  # else two classes may change places
    assert not apart or [shown for shown, _ in found] == [one.name for one in expected.classes]


@pytest.mark.parametrize("model", ["FrameLevelLogisticModel", "LstmModel"])
@pytest.mark.parametrize("count", [1, 7, 300])
def test_frames_get_the_scores_of_yt8m_predict(site: Site, tmp_path: pathlib.Path, model: str, count: int) -> None:
    site.open(model)
    rgb, audio = (DRAW.integers(0, 256, (count, size), np.uint8) for size in small_exports.SIZES)
    floats = {name: dequantized(values, PUBLISHED) for name, values in (("rgb", rgb), ("audio", audio))}
    joined = np.concatenate([rgb, audio], axis=1)
    np.save(tmp_path / "bytes.npy", joined)
    np.save(tmp_path / "doubles.npy", np.asfortranarray(np.concatenate(list(floats.values()), axis=1).astype(">f8")))
    np.savez(tmp_path / "bytes.npz", rgb=rgb, audio=audio)
    np.savez_compressed(tmp_path / "floats.npz", other=np.zeros(3), **floats)
    for path in sorted(tmp_path.iterdir()):
        assert site.choose(path) == ""
        check_scores(site, model, floats)


def test_vectors_and_frames_of_a_video_level_model(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("LogisticModel")
    frames = DRAW.normal(size=(9, sum(small_exports.SIZES))).astype("f4")
    mean = dict(zip(("mean_rgb", "mean_audio"), np.split(frames.mean(axis=0), [small_exports.SIZES[0]]), strict=True))
    np.save(tmp_path / "frames.npy", frames)
    np.save(tmp_path / "mean.npy", frames.mean(axis=0))
    np.savez(tmp_path / "mean.npz", **mean)
    np.savez(tmp_path / "short_names.npz", **{name.removeprefix("mean_"): values for name, values in mean.items()})
    for path in sorted(tmp_path.iterdir()):
        assert site.choose(path) == ""
        check_scores(site, "LogisticModel", mean)


def test_a_long_video_is_scored_in_windows_and_over_time(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("LstmModel")
    frames = DRAW.normal(size=(752, sum(small_exports.SIZES))).astype("f4")
    np.save(tmp_path / "long.npy", frames)
    assert site.choose(tmp_path / "long.npy") == ""
    split = small_exports.SIZES[0]

    def scored(parts: list[tuple[int, int]]) -> np.ndarray:
        with yt8m.load(str(site.folder / "LstmModel" / web_page.MODEL)) as model:
            found = [
                model.predict({"rgb": part[np.newaxis, :, :split], "audio": part[np.newaxis, :, split:]}, top_k=30)
                for part in (frames[first:last] for first, last in parts)
            ]
        return np.array([[s for _, s in sorted((one.index, one.score) for one in video.classes)] for (video,) in found])

    whole = np.average(scored([(0, 300), (300, 600), (600, 752)]), axis=0, weights=[300, 300, 152])
    found = site.scores()
    np.testing.assert_allclose([score for _, score in found], np.sort(whole)[::-1][:20], rtol=0, atol=1e-4)
    parts = [(first, first + 5) for first in range(0, 745, 5)] + [(745, 752)]
    head, *rows = site.page.run(TIMELINE)
    assert [head[1], head[2], head[-1]] == ["0:00", "0:05", "12:25"]
    assert len(head) == 1 + len(parts)
    names = [row[0] for row in rows]
    shown = np.array([[float(text) for text in row[1:]] for row in rows])
    expected = scored(parts).T[[int(name.removeprefix("class ")) for name in names]]
    np.testing.assert_allclose(shown, expected, rtol=0, atol=0.0051)


def test_tags_are_the_classes_that_reach_their_thresholds(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("run")
    with scoring.open(str(site.folder / "trained")) as scorer:
        for number in range(5):
            vector = DRAW.normal(size=24).astype("f4")
            np.save(tmp_path / f"{number}.npy", vector)
            assert site.choose(tmp_path / f"{number}.npy") == ""
            features = {"mean_rgb": vector[np.newaxis, :16], "mean_audio": vector[np.newaxis, 16:]}
            (batch,) = scorer.batches(features)
            expected = tags(scorer.scores(batch)[1][0], scorer.tagger())
            shown = [re.sub(r" \(\d+\)$", "", tag) for tag in site.page.run(TAGS)]  # few videos chose the threshold
            assert shown == [scorer.shown_names.name(index) for index, _ in expected], number
            check_scores(site, "run", {name: values[0] for name, values in features.items()})


@contextlib.contextmanager
def with_thresholds(path: pathlib.Path, first: float | None) -> Iterator[None]:
    """A context in which a page.json has thresholds: that of class 0 is `first`, the others are null."""
    text = path.read_text()
    facts = json.loads(text)
    replace(path, json.dumps({**facts, "thresholds": [first, *[None] * (len(facts["classes"]) - 1)]}))
    try:
        yield
    finally:
        replace(path, text)


def replace(path: pathlib.Path, text: str) -> None:
    """Changes a file, some days after its last change: a browser asks for changes since a whole second."""
    changed = path.stat().st_mtime + 3 * 86_400
    path.write_text(text)
    os.utime(path, (changed, changed))


@pytest.mark.parametrize(("first", "tags"), [(None, []), (0.0, ["class 0"])])
def test_a_class_that_is_never_a_tag_says_so(
    site: Site, tmp_path: pathlib.Path, first: float | None, tags: list[str]
) -> None:
    np.save(tmp_path / "ones.npy", np.ones((3, 8), "f4"))
    with with_thresholds(site.folder / "FrameLevelLogisticModel" / "page.json", first):
        site.open("FrameLevelLogisticModel")
        assert site.choose(tmp_path / "ones.npy") == ""
    head, *rows = site.page.run(VISIBLE_CELLS)
    assert head == ["class", "score", "threshold"]
    expected = {"class 0": "never" if first is None else "0.000"}
    assert {row[0]: row[2] for row in rows} == {row[0]: expected.get(row[0], "never") for row in rows}
    assert site.page.run(TAGS) == [tag for tag in tags if tag in {row[0] for row in rows}]


def test_a_model_without_thresholds_has_no_column_for_them(site: Site, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "ones.npy", np.ones((3, 8), "f4"))
    site.open("FrameLevelLogisticModel")
    assert site.choose(tmp_path / "ones.npy") == ""
    head, *rows = site.page.run(VISIBLE_CELLS)
    assert head == ["class", "score"]
    assert {len(row) for row in rows} == {2}


def test_the_files_of_a_new_export_are_taken_though_the_browser_has_the_old_ones(site: Site) -> None:
    """A browser keeps a file that is years old for weeks without asking, if the server does not say how long."""
    folder = shutil.copytree(site.folder / "LogisticModel", site.folder / "old")
    os.utime(folder / "page.json", (1e9, 1e9))
    has_thresholds = "return !document.getElementById('threshold').hidden"
    site.open("old")
    assert not site.page.run(has_thresholds)
    with with_thresholds(folder / "page.json", 0.5):
        site.open("old")
        assert site.page.run(has_thresholds)
    site.open("old")
    assert not site.page.run(has_thresholds)


def test_wrong_files_get_a_clear_line_and_the_next_one_is_scored(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("FrameLevelLogisticModel")
    np.save(tmp_path / "wide.npy", np.zeros((3, 9), "f4"))
    (tmp_path / "text.txt").write_text("notes")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    np.save(tmp_path / "right.npy", np.zeros((3, 8), "f4"))
    assert site.choose(tmp_path / "wide.npy").startswith(
        "wide.npy has [3, 9].\nExpected an .npy file with an array [frames, 8]"
    )
    assert site.choose(tmp_path / "text.txt").startswith("text.txt is of another kind.\nExpected an .npy file")
    assert site.choose(tmp_path / "cut.npz") == "cut.npz is not an .npz file, or it is damaged."
    assert not site.page.run("return document.getElementById('results').checkVisibility()")
    ratio, text = site.page.run(CONTRAST)
    assert ratio >= 4.5, text
    assert site.choose(tmp_path / "right.npy") == ""
    assert site.page.run("return document.getElementById('results').checkVisibility()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_readable_on_a_phone_and_in_both_themes(
    site: Site, tmp_path: pathlib.Path, width: int, scheme: str
) -> None:
    site.open("LstmModel", width=width, scheme=scheme)
    np.save(
        tmp_path / "a_name_without_any_place_to_break_a_line_of_which_there_are_many_in_the_world.npy", np.ones((60, 8))
    )
    assert site.choose(next(tmp_path.iterdir())) == ""
    ratio, text = site.page.run(CONTRAST)
    assert ratio >= 4.5, text
    assert site.page.run("return innerWidth") == width
    assert site.page.run("return document.documentElement.scrollWidth") <= width
    paper = site.page.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) is (scheme == "dark")
    assert site.page.run(SMALLEST) >= 12


def test_every_control_is_reached_by_tab_and_has_a_name(site: Site, tmp_path: pathlib.Path) -> None:
    site.open("LstmModel")
    np.save(tmp_path / "a.npy", np.ones((60, 8)))
    focused = "const one = document.activeElement; return one.id || one.getAttribute('aria-label')"
    site.page.press(TAB)
    assert site.page.run(focused) == "file"
    assert site.choose(tmp_path / "a.npy") == ""
    assert site.page.run(focused) == "file"  # where the focus was, so that the next file can be chosen
    reached = []
    for _ in range(2):
        site.page.press(TAB)
        reached.append(site.page.run(focused))
    assert reached == ["Best classes", "Scores over time"]
    nodes = site.page.tell("Accessibility.getFullAXTree", {})["nodes"]
    roles = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]}
    assert {("region", "Best classes"), ("region", "Scores over time"), ("heading", "Tags of a video")} < roles
    assert {("columnheader", "score"), ("rowheader", "class 1"), ("status", "")} < roles
    assert any(name.startswith("File to score") for _, name in roles)
    assert site.page.run("return document.documentElement.lang") == "en"


def test_a_dropped_file_is_scored(site: Site) -> None:
    site.open("FrameLevelLogisticModel")
    site.page.run(CLEAR)
    site.page.run(DROP, list(np.ones((3, 8), "f4").tobytes()))
    assert site.ended("dropped.npy is scored.") == ""
    ones = {name: np.ones((3, size), "f4") for name, size in zip(("rgb", "audio"), small_exports.SIZES, strict=True)}
    check_scores(site, "FrameLevelLogisticModel", ones)


def test_it_asks_for_its_own_files_alone(site: Site) -> None:
    site.page.console()
    del site.asked[:]
    site.open("run")
    names = {path.relative_to(site.folder).as_posix() for path in (site.folder / "run").rglob("*.*")}
    expected = {f"/{name}" for name in names if not name.endswith((".txt", "index.html"))}
    assert set(site.asked) == {"/run/", *expected}
    outside = "return fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"
    assert site.page.run(outside) == "refused"
    assert all("127.0.0.1:9" in line for line in site.page.console())


def test_opened_as_a_file_it_says_what_it_needs(site: Site) -> None:
    site.page.open(site.folder / "run" / "index.html")
    assert "the page was opened as a file: it needs a web server" in " ".join(site.page.run(STATE).split())
