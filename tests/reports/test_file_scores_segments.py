"""`yt8m segment-eval`: recorded figures, records and cache, loops, and submissions that are refused."""

from __future__ import annotations

import bz2
import math
import pathlib

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from reader_records import frame_record, write_shard

from yt8m.command_line import cli
from yt8m.datasets import ground_truth
from yt8m.datasets.ground_truth import Ratings
from yt8m.records import prediction_files, shards, vocabulary
from yt8m.records.opened_data import open_data
from yt8m.records.prediction_files import ClassLine
from yt8m.reports.file_scores import evaluate_submission

CLASSES = vocabulary.segment_classes()[:4].tolist()


def run(*flags: str) -> int:
    return cli.main(["segment-eval", *flags])


def printed(capsys: pytest.CaptureFixture[str]) -> float:
    name, _, value = capsys.readouterr().out.strip().partition(": ")
    assert name.startswith("MAP@")
    return float(value)


def test_recorded_figures(capsys: pytest.CaptureFixture[str]) -> None:
    expected = np.load(golden("segment_map.npz"))
    flags = [
        f"--submission_file={golden('segment_map_submission.csv')}",
        f"--label_cache={golden('segment_map_labels.csv')}",
    ]
    for top_n, figure in zip(expected["top_n"], expected["map"], strict=True):
        assert run(*flags, f"--top_n={top_n}", "--classes=submitted") == 0
        assert printed(capsys) == pytest.approx(figure, abs=1e-6)
        # Class 31 is rated and was not submitted: it counts as 0 among six.
        assert run(*flags, f"--top_n={top_n}") == 0
        assert printed(capsys) == pytest.approx(figure * 5 / 6, abs=1e-6)


def shard(path: pathlib.Path) -> str:
    ratings = [(0, CLASSES[0], 1.0), (5, CLASSES[0], 0.0), (5, CLASSES[1], 1.0), (10, CLASSES[0], 1.0)]
    starts, labels, scores = (list(column) for column in zip(*ratings, strict=True))
    lists = {"segment_start_times": starts, "segment_labels": labels, "segment_scores": scores}
    frames = {"rgb": np.zeros((20, 2), np.uint8)}
    plain = frame_record({"id": [b"none"]}, frames)
    return write_shard(path, [frame_record({"id": [b"ab:c"], **lists}, frames), plain])


def test_records_fill_the_cache_which_then_suffices(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, cache, submission = tmp_path / "a.tfrecord", tmp_path / "labels", tmp_path / "s.csv"
    shard(records)
    submission.write_text(f"Class,Segments\n{CLASSES[0]},ab:c:5 x:0 ab:c:0 ab:c:10\n")
    flags = [f"--submission_file={submission}", f"--label_cache={cache}"]
    assert run(*flags, f"--eval_data_pattern={records}") == 0
    expected = (1 / 2 + 2 / 3) / 2 / 2  # the second class has a positive and was not submitted
    assert printed(capsys) == pytest.approx(expected, abs=1e-6)
    assert cache.read_text().splitlines()[0] == f"ab:c:0,{CLASSES[0]},1.0"
    records.unlink()
    assert run(*flags) == 0
    assert printed(capsys) == pytest.approx(expected, abs=1e-6)


def test_published_records_and_what_is_missing(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ground_truth.ratings(open_data(str(golden("tiny_segment.tfrecord"))))
    expected = np.load(golden("readers.npz"))
    assert len(set(found.segments)) == len(expected["segment/labels"])
    assert len(found.classes) >= expected["segment/label_weights"].sum()
    assert run("--submission_file=s.csv", f"--label_cache={tmp_path}/none") == 2
    assert run(f"--label_cache={tmp_path}") == 2
    assert "--predictions is missing" in capsys.readouterr().err


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdefg")), max_size=25, unique=True)
RATINGS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcdehi"), st.booleans()), max_size=25)


@given(PAIRS, RATINGS, st.one_of(st.none(), st.integers(1, 5)), st.booleans())
def test_equals_loops(submitted: list, ratings: list, top_n: int | None, only: bool) -> None:
    lines: dict[int, list[str]] = {}
    for number, name in submitted:
        lines.setdefault(number, []).append(name)
    aps = []
    positive = {(number, name) for number, name, score in ratings if score}
    rated = {(number, name) for number, name, _ in ratings}
    for number in {number for number, _ in positive}:
        if only and number not in lines:
            continue
        line = lines.get(number, [])[:top_n]
        judged = [(number, name) in positive for name in line if (number, name) in rated]
        ranks = [rank for rank, hit in enumerate(judged, 1) if hit]
        total = sum(pair[0] == number for pair in positive)
        aps.append(sum(count / rank for count, rank in enumerate(ranks, 1)) / total)
    found = evaluate_submission(
        [ClassLine(number, {name.encode(): rank for rank, name in enumerate(line)}) for number, line in lines.items()],
        Ratings(
            [name.encode() for _, name, _ in ratings],
            np.array([number for number, _, _ in ratings], np.int64),
            np.array([score for _, _, score in ratings], float),
        ),
        top_n,
        only,
    )
    assert math.isnan(found.map) if not aps else found.map == pytest.approx(np.mean(aps))


HEAD = b"Class,Segments\n"
LINE = b"%d,abcd:0 abcd:120\n" % CLASSES[0]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"VideoId,LabelConfidencePairs\nabcd,3 0.5\n", 1, "the file has predictions for videos"),
        (HEAD + LINE + b"7777,abcd:0\n", 3, "'7777' is not one of the"),
        (HEAD + LINE + b"x,abcd:0\n", 3, "'x' is not one of the"),
        (HEAD + LINE + b"%d,a:5 b:5 a:5\n" % CLASSES[1], 3, "'a:5' is repeated"),
        (HEAD + LINE + LINE, 3, "is in line 2 already"),
        (HEAD + LINE + b"%d,a:5 b:7\n" % CLASSES[1], 3, "'b:7' is not a segment"),
        (LINE + b"%d,a:5 b:-5\n" % CLASSES[1], 2, "'b:-5' is not a segment"),
        (LINE + b"%d,a:5 b:05\n" % CLASSES[1], 2, "'b:05' is not a segment"),
        (LINE + b"%d,a:5 b:1e5\n" % CLASSES[1], 2, "'b:1e5' is not a segment"),
        (LINE + b"%d,a:5 b:\n" % CLASSES[1], 2, "'b:' is not a segment"),
        (LINE + b"%d,a:5 :5\n" % CLASSES[1], 2, "':5' is not a segment"),
        (LINE + b"%d,a:5 b\n" % CLASSES[1], 2, "'b' is not a segment"),
        (LINE + b"%d,a:5  b:5\n" % CLASSES[1], 2, "two spaces"),
        (LINE + b"%d,a:5,b:5\n" % CLASSES[1], 2, "'a:5,b:5' is not a segment"),
        (LINE + b"%d,c:5 a:5\tb:5\n" % CLASSES[1], 2, "'a:5\\tb:5' is not a segment"),
        (LINE + b"9" * 5000 + b",a:5\n", 2, "is not one of the"),
        (LINE + b"%d a:5\n" % CLASSES[1], 2, "is not one of the"),
        (LINE + b"%d\n" % CLASSES[1], 2, "no comma"),
        (HEAD + LINE + b"%d,a:5 b:1" % CLASSES[1], 3, "cut short"),
        (bz2.compress(HEAD + LINE), 1, "bzip2"),
    ],
)
def test_a_bad_submission_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: bytes, line: int, words: str
) -> None:
    records, submission = tmp_path / "a.tfrecord", tmp_path / "s.csv"
    shard(records)
    submission.write_bytes(content)
    assert run(f"--submission_file={submission}", f"--eval_data_pattern={records}") == 1
    said = capsys.readouterr().err
    assert f"s.csv, line {line}: " in said
    assert words in said


def test_starts_off_the_grid_pass_where_such_were_rated(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("3,a:7\n5,\n")
    lines = list(prediction_files.read_segments(str(path), {3, 5}, any_start=True))
    assert lines == [ClassLine(3, {b"a:7": 0}), ClassLine(5, {})]


def test_what_gives_no_figure_is_an_error(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No empty submission counts as one of figure 0, and no mean over nothing is printed."""
    cache, submission = tmp_path / "cache", tmp_path / "s.csv"
    flags = [f"--submission_file={submission}", f"--label_cache={cache}"]
    for ratings, content, more, words in (
        ("a:0,3,1.0\n", b"", [], "s.csv lists no class"),
        ("a:0,3,1.0\n", HEAD, [], "s.csv lists no class"),
        ("", LINE, [], "cache holds no rating"),
        ("a:0,3,0.0\n", LINE, [], "no class has a rated positive"),
        ("a:0,7,1.0\n", LINE, ["--classes=submitted"], "no submitted class has a rated positive"),
    ):
        cache.write_text(ratings)
        submission.write_bytes(content)
        assert run(*flags, *more) == 1
        said = capsys.readouterr()
        assert words in said.err
        assert not said.out


@pytest.mark.parametrize("rating", [(-5, 3, 1.0), (0, -3, 1.0), (0, 3, -1.0), (0, 3, 2.0), (0, 3, math.nan)])
def test_a_rating_that_cannot_be_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], rating: tuple[int, int, float]
) -> None:
    lists = dict(zip(shards.RATING_LISTS, ([value] for value in rating), strict=True))
    path = write_shard(tmp_path / "a.tfrecord", [frame_record({"id": [b"v"], **lists}, {})])
    (tmp_path / "s.csv").write_bytes(LINE)
    flags = [f"--submission_file={tmp_path}/s.csv", f"--label_cache={tmp_path}/cache"]
    assert run(*flags, f"--eval_data_pattern={path}") == 1
    assert "a.tfrecord: record 0: segment_" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_caches_of_the_published_evaluator_and_ids_with_commas(tmp_path: pathlib.Path) -> None:
    """Under Python 3 that evaluator writes ids as Python shows bytes."""
    path = tmp_path / "cache"
    path.write_text("b'ab':5,3,1.0\nc,d:10,3,0\n")
    found = ground_truth.read_ratings(str(path))
    assert found.segments == [b"ab:5", rb"c\x2cd:10"]
    ground_truth.write_ratings(str(path), found)
    assert ground_truth.read_ratings(str(path)).segments == found.segments


BAD = ["a:0,3", "a,3,1", "a:0,x,1", "a:0,3,nan", "a:0,3,2", "a:0," + "9" * 30 + ",1", "a:-5,3,1", ":5,3,1"]


@pytest.mark.parametrize("line", BAD)
def test_a_bad_cache_line_is_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    (tmp_path / "cache").write_text(f"a:0,3,1.0\n{line}\n")
    (tmp_path / "s.csv").write_text("3,a:0\n")
    assert run(f"--submission_file={tmp_path}/s.csv", f"--label_cache={tmp_path}/cache") == 1
    assert "cache, line 2: " in capsys.readouterr().err
