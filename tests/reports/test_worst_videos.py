"""The worst videos and the labels to check: against loops over all pairs."""

from __future__ import annotations

import csv
import dataclasses
import pathlib

import numpy as np
import pytest
from evaluated_videos import drawn, kept_videos

from yt8m.eval_util import eval_samples
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.records import vocabulary
from yt8m.records.thresholds import OperatingPoints
from yt8m.reports import worst_videos
from yt8m.reports.worst_videos import WorstVideo, find_worst, write_labels_to_check

VIDEOS, CLASSES = 60, 9
SCORES, LABELS = drawn(21, VIDEOS, CLASSES)
NAMES = vocabulary.of_names([f"name {index}" for index in range(CLASSES)])


def parts(row: int) -> np.ndarray:
    """What each class adds to the loss of a video."""
    return -np.log(np.where(LABELS[row], SCORES[row].astype(float), 1 - SCORES[row].astype(float)) + 1e-5)


def number(video_id: str) -> int:
    return int(video_id.removeprefix("v"))


def check_marks(found: list[WorstVideo], chosen: set[tuple[int, int]], most: int) -> None:
    """Each video shows the `most` classes of each kind that add most, and those for which it was chosen."""
    for one in found:
        row = number(one.id)
        assert one.loss == pytest.approx(parts(row).sum())
        for marks, classes in ((one.labels, LABELS[row]), (one.wrong, ~LABELS[row])):
            order = sorted(np.flatnonzero(classes), key=lambda c, row=row: -parts(row)[c])
            order = [c for place, c in enumerate(order) if place < most or (row, c) in chosen]
            assert [mark.name for mark in marks] == [f"name {c}" for c in order]
            assert [mark.score for mark in marks] == pytest.approx(SCORES[row][order].tolist())
            assert [mark.part for mark in marks] == pytest.approx(parts(row)[order].tolist())


def test_the_worst_videos_come_first_with_what_adds_most_to_their_loss(monkeypatch):
    monkeypatch.setattr(worst_videos, "_MOST_OF_CLASS", 2)
    found = find_worst(kept_videos(SCORES, LABELS, CLASSES), NAMES)
    losses = {row: parts(row).sum() for row in range(VIDEOS)}
    assert [number(one.id) for one in found] == sorted(losses, key=lambda row: -losses[row])
    by_part = np.array([parts(row) for row in range(VIDEOS)])
    chosen = {(int(row), c) for c in range(CLASSES) for row in np.argsort(-by_part[:, c])[:2]}
    check_marks(found, chosen, 3)


@pytest.mark.parametrize("most", [1, 9, 12, 25])
def test_each_class_has_its_worst_video_and_further_ones_if_there_is_room(monkeypatch, most):
    """Against a loop that adds the worst videos of all classes, then the second ones, as long as there is room."""
    monkeypatch.setattr(worst_videos, "_MOST_OVERALL", 3)
    monkeypatch.setattr(worst_videos, "_MOST_OF_CLASS", 4)
    by_part = np.array([parts(row) for row in range(VIDEOS)])
    kept, chosen = set(np.argsort(-by_part.sum(1))[: min(3, most)].tolist()), set()
    for rank in range(4):
        of_rank = [(int(np.argsort(-by_part[:, c])[rank]), c) for c in range(CLASSES)]
        for row, c in sorted(of_rank, key=lambda pair: -by_part[pair]):
            if rank == 0 or len(kept | {row}) <= most:
                kept.add(row)
                chosen.add((row, c))
    found = find_worst(kept_videos(SCORES, LABELS, CLASSES), NAMES, most)
    assert {number(one.id) for one in found} == kept
    check_marks(found, chosen, 3)
    names = {mark.name for one in found for mark in (*one.labels, *one.wrong)}
    assert names == {f"name {c}" for c in range(CLASSES)}


def test_a_video_to_which_a_class_adds_next_to_nothing_is_no_further_example_of_it(monkeypatch):
    monkeypatch.setattr(worst_videos, "_MOST_OVERALL", 0)
    monkeypatch.setattr(worst_videos, "_MOST_SHOWN", 0)
    monkeypatch.setattr(worst_videos, "_LEAST_PART", 1.5)
    by_part = np.array([parts(row) for row in range(VIDEOS)])
    expected = {(row, c) for row, c in np.argwhere(by_part >= 1.5)} | {
        (row, c) for c, row in enumerate(by_part.argmax(0))
    }
    found = find_worst(kept_videos(SCORES, LABELS, CLASSES), NAMES)
    assert {(number(one.id), mark.name) for one in found for mark in (*one.labels, *one.wrong)} == {
        (row, f"name {c}") for row, c in expected
    }


def test_a_label_outside_the_best_classes_is_found_by_its_score():
    videos = kept_videos(SCORES, LABELS, 2)
    shown = {(number(one.id), mark.name) for one in find_worst(videos, NAMES) for mark in one.labels}
    assert shown == {(row, f"name {c}") for row, c in np.argwhere(LABELS).tolist()}


def test_labels_to_check_are_those_that_contradict_the_scores(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(worst_videos, "MISSING_SCORE", 0.7)
    monkeypatch.setattr(worst_videos, "WRONG_SCORE", 0.6)
    count = write_labels_to_check(str(tmp_path / "checked.csv"), kept_videos(SCORES, LABELS, CLASSES), NAMES)
    rows = list(csv.DictReader((tmp_path / "checked.csv").open()))
    expected = {
        (f"v{row}", str(c), "yes" if LABELS[row, c] else "no", "wrong" if LABELS[row, c] else "missing")
        for row in range(VIDEOS)
        for c in range(CLASSES)
        if (SCORES[row, c] <= 0.6 if LABELS[row, c] else SCORES[row, c] >= 0.7)
    }
    assert {(row["video"], row["index"], row["label"], row["looks"]) for row in rows} == expected
    assert count == len(rows) == len(expected) > 20
    added = [parts(number(row["video"]))[int(row["index"])] for row in rows]
    assert added == pytest.approx(sorted(added, reverse=True))
    assert all(row["name"] == f"name {row['index']}" for row in rows)
    for row in rows:
        assert float(row["score"]) == pytest.approx(SCORES[number(row["video"]), int(row["index"])], rel=1e-5)


def test_a_spreadsheet_shows_ids_and_names_and_computes_none(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(worst_videos, "MISSING_SCORE", 0.0)
    names = ["=1+1", "+a", "-b", "@c", '"=d"', "e;f", "g", "=cmd|' /C calc'!A0", "h"]
    videos = kept_videos(SCORES, LABELS, CLASSES)
    videos.ids[0] = b"-Ab_12"
    write_labels_to_check(str(tmp_path / "checked.csv"), videos, vocabulary.of_names(names))
    text = (tmp_path / "checked.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    expected = {name: f"'{name}" if name[0] in "=+-@" else name for name in names}
    assert {row["name"] for row in rows} == {expected[names[int(row["index"])]] for row in rows} >= {"'=1+1", '"=d"'}
    assert "'-Ab_12" in {row["video"] for row in rows}
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())


@pytest.mark.parametrize(
    ("page", "checked"),
    [
        ("eval/report.html", "eval/labels_to_check.csv"),
        ("report.html", "labels_to_check.csv"),
        ("a/moe.html", "a/moe_labels_to_check.csv"),
        ("gs://b/moe", "gs://b/moe_labels_to_check.csv"),
    ],
)
def test_the_labels_to_check_are_named_after_their_page(page, checked):
    assert worst_videos.labels_to_check_path(page, "report.html") == checked


def test_what_is_kept_of_videos_is_read_again(tmp_path: pathlib.Path):
    """Ids of any bytes too."""
    videos = kept_videos(SCORES, LABELS, 3)
    videos.ids[:4] = [b"a\x00", b'\xff\n,"', b"x" * 1000, "\u00fc".encode()]
    points = OperatingPoints(*np.zeros([6, CLASSES]))
    eval_samples.write(str(tmp_path), EvalSamples({"metrics": []}, videos, CLASSES, VIDEOS, points))
    again = eval_samples.read(str(tmp_path)).videos
    for field in dataclasses.fields(videos):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(videos, field.name), err_msg=field.name)
