"""The worst videos and the labels to check: against loops over all pairs; links only where a page may link."""

from __future__ import annotations

import csv
import dataclasses
import pathlib

import numpy as np
import pytest
from commands.report import report_runs
from evaluated_videos import drawn, kept_videos
from hypothesis import given
from hypothesis import strategies as st

from yt8m import cli
from yt8m.commands.report import eval_samples, worst_videos
from yt8m.commands.report.eval_samples import EvalSamples
from yt8m.commands.report.worst_videos import may_be_linked, read_media, worst, write_labels_to_check
from yt8m.errors import RunError, UsageError
from yt8m.records import vocabulary

VIDEOS, CLASSES = 60, 9
SCORES, LABELS = drawn(21, VIDEOS, CLASSES)
NAMES = vocabulary.of_names([f"name {index}" for index in range(CLASSES)])


def parts(row: int) -> np.ndarray:
    """What each class adds to the loss of a video."""
    return -np.log(np.where(LABELS[row], SCORES[row].astype(float), 1 - SCORES[row].astype(float)) + 1e-5)


def number(video_id: str) -> int:
    return int(video_id.removeprefix("v"))


def test_the_worst_videos_come_first_with_what_adds_most_to_their_loss():
    found = worst(kept_videos(SCORES, LABELS, CLASSES), NAMES)
    losses = {row: parts(row).sum() for row in range(VIDEOS)}
    assert [number(one.id) for one in found] == sorted(losses, key=lambda row: -losses[row])
    for one in found:
        row = number(one.id)
        assert one.loss == pytest.approx(losses[row])
        for marks, classes in ((one.labels, LABELS[row]), (one.wrong, ~LABELS[row])):
            order = sorted(np.flatnonzero(classes), key=lambda c, row=row: -parts(row)[c])[:5]
            assert [mark.name for mark in marks] == [f"name {c}" for c in order]
            assert [mark.score for mark in marks] == pytest.approx(SCORES[row][order].tolist())
            assert [mark.part for mark in marks] == pytest.approx(parts(row)[order].tolist())


def test_each_class_has_its_worst_videos_even_if_their_loss_is_small(monkeypatch):
    monkeypatch.setattr(worst_videos, "_OVERALL", 3)
    found = {number(one.id) for one in worst(kept_videos(SCORES, LABELS, CLASSES), NAMES)}
    by_part = np.array([parts(row) for row in range(VIDEOS)])
    expected = set(np.argsort(-by_part.sum(1))[:3].tolist())
    for c in range(CLASSES):
        expected |= set(np.argsort(-by_part[:, c])[:2].tolist())
    assert found == expected
    most = worst(kept_videos(SCORES, LABELS, CLASSES), NAMES, most=5)
    assert len(most) == 5
    assert {number(one.id) for one in most} < expected


def test_a_label_outside_the_best_classes_is_found_by_its_score():
    videos = kept_videos(SCORES, LABELS, 2)
    shown = {(number(one.id), mark.name) for one in worst(videos, NAMES) for mark in one.labels}
    assert shown == {(row, f"name {c}") for row, c in np.argwhere(LABELS).tolist()}


def test_labels_to_check_are_those_that_contradict_the_scores(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(worst_videos, "SURELY", 0.7)
    monkeypatch.setattr(worst_videos, "HARDLY", 0.6)
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


@pytest.mark.parametrize(
    "address", ["http://a", "https://a.b/c?d=e&f#g", "HTTPS://a", "thumbs/a.jpg", "../a:b.jpg?c", "a", "?a:b", "./x:y"]
)
def test_pages_of_the_web_and_paths_may_be_linked(address):
    assert may_be_linked(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
    ]
    + [
        "//evil.org/a",
        "/etc/passwd",
        "\\\\evil\\a",
        "http:\\\\a",
        "file:///etc/passwd",
        "http:a",
        "http://",
        "\x01javascript:x",
    ]
    + ["a:b", "vbscript:x", "blob:x", "https:javascript:alert(1)", "\tjavascript:x"],
)
def test_nothing_else_may_be_linked(address):
    assert not may_be_linked(address)


@given(st.text())
def test_whatever_may_be_linked_has_no_other_scheme(address):
    """By the rule of the URL standard: controls and spaces around are dropped, tabs and line breaks anywhere."""
    if may_be_linked(address):
        cleaned = address.strip("".join(map(chr, range(33)))).translate(dict.fromkeys(map(ord, "\t\n\r")))
        scheme = cleaned.partition(":")[0].lower()
        assert ":" not in cleaned or scheme in ("http", "https") or set(scheme) & set("/?#")
        assert not cleaned.startswith(("/", "\\"))


def test_only_wanted_ids_are_kept(tmp_path: pathlib.Path):
    path = tmp_path / "media.csv"
    path.write_text(
        'Address,note,id\nhttps://a,x,v1\njavascript:x,x,v2\nthumbs/3.jpg,"a, b",v3\nhttps://b,x,other\nshort\n'
    )
    assert read_media(str(path), {"v1", "v2", "v3"}) == {"v1": "https://a", "v3": "thumbs/3.jpg"}
    assert read_media("", {"v1"}) == {}
    path.write_text("\ufeffid,address\nv1,https://a\n")  # as spreadsheets write it
    assert read_media(str(path), {"v1"}) == {"v1": "https://a"}


@pytest.mark.parametrize(
    ("content", "error", "part"),
    [
        (None, UsageError, "there is no such file"),
        (b"", UsageError, "the columns are missing"),
        (b"id,url\n", UsageError, "the columns are id, url"),
        (b'id,address\n"v1', RunError, "is no CSV file"),
        (b"id,address\n\xff,a\n", RunError, "is no CSV file"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(tmp_path: pathlib.Path, content, error, part):
    path = tmp_path / "media.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=part):
        read_media(str(path), {"v1"})


def test_the_page_links_and_escapes(tmp_path: pathlib.Path):
    report_runs.make_run(tmp_path, 1, num_classes=12)
    rows = [["id", "address"], ["v3", 'https://a/"><script>alert(3)</script>'], ["v4", "javascript:alert(4)"]]
    with (tmp_path / "media.csv").open("w", newline="") as file:
        csv.writer(file).writerows([*rows, [report_runs.HOSTILE, "thumbs/a.jpg"]])
    assert cli.main(["report", str(tmp_path), "--resamples=10", f"--media={tmp_path}/media.csv"]) == 0
    page = (tmp_path / "eval/report.html").read_text()
    assert '<a href="https://a/&#34;&gt;&lt;script&gt;alert(3)&lt;/script&gt;" rel="noreferrer">v3</a>' in page
    assert 'href="thumbs/a.jpg" rel="noreferrer">&#34;&gt;&lt;script&gt;' in page
    assert "javascript:" not in page
    assert "alert(4)" not in page
    assert page.count("<script") == 1
    assert (tmp_path / "eval/labels_to_check.csv").exists()


def test_what_is_kept_of_videos_is_read_again(tmp_path: pathlib.Path):
    """Ids of any bytes too."""
    videos = kept_videos(SCORES, LABELS, 3)
    videos.ids[:4] = [b"a\x00", b'\xff\n,"', b"x" * 1000, "\u00fc".encode()]
    eval_samples.write(str(tmp_path), EvalSamples({}, videos, CLASSES, VIDEOS))
    again = eval_samples.read(str(tmp_path)).videos
    for field in dataclasses.fields(videos):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(videos, field.name), err_msg=field.name)
