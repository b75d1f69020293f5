"""Ids in files: lines are compared with Python's csv module; every reader reads what each program writes."""

from __future__ import annotations

import csv
import io
import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m import storage
from yt8m.command_line import cli
from yt8m.datasets import ground_truth
from yt8m.errors import RunError
from yt8m.eval_util.segment_ranking import Candidates, SegmentRanking
from yt8m.records import prediction_files, shards
from yt8m.records.opened_data import open_data
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.shards import id_bytes, id_text

# Ids and the texts that stand for them in files.
TEXTS = {
    b"plain_-1": "plain_-1",
    b"a,b": "a,b",
    b'say "so"': 'say "so"',
    b"two words": "two words",
    b"two\nlines": r"two\x0alines",
    b"\r": r"\x0d",
    b"a\x00b\tc": r"a\x00b\x09c",
    "\u2028\x85\u2029".encode(): r"\xe2\x80\xa8\xc2\x85\xe2\x80\xa9",
    "\u00e9\u4e2d\U0001f600".encode(): "\u00e9\u4e2d\U0001f600",
    b"\xff": r"\xff",
    rb"\xff": r"\x5cxff",
    rb"a\b\x": r"a\b\x",
    rb"\x0A": r"\x0A",
    b"b'x'": "b'x'",
}
IDS = list(TEXTS)


def reports(width: int, ids: list[bytes] = IDS) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    scores = (10.0 ** draw.uniform(-9, 1, (len(ids), width))).astype(np.float32)
    classes = np.array([draw.permutation(5000)[:width] for _ in ids], np.int32)
    return {"video_ids": np.array(ids, object), "classes": classes, "scores": scores}


@pytest.mark.parametrize("top_k", [5, 20, 30])
def test_rows_are_those_of_the_csv_module(top_k: int) -> None:
    step, file = reports(20), io.StringIO(newline="")
    step["scores"][0, :5] = [0, 1, -0.0, np.inf, 0.9999999]
    writer = PredictionWriter(file, top_k)
    writer(step)
    writer(step)
    expected = io.StringIO(newline="")
    rows = csv.writer(expected, lineterminator="\n")
    rows.writerow(["VideoId", "LabelConfidencePairs"])
    for _ in range(2):
        for text, classes, scores in zip(TEXTS.values(), step["classes"], step["scores"], strict=True):
            pairs = zip(classes[:top_k].tolist(), scores[:top_k].tolist(), strict=True)
            rows.writerow([text, " ".join(f"{number:d} {score:g}" for number, score in pairs)])
    assert file.getvalue() == expected.getvalue()
    assert writer.count == 2 * len(IDS)


def test_an_empty_id_is_refused_on_both_sides(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunError, match="empty id"):
        PredictionWriter(io.StringIO(), 20)(reports(2, [b"a", b""]))
    with pytest.raises(RunError, match="empty id"):
        prediction_files.prediction_line("", [(1, 0.5)])
    for line in (",1 0.5\n", '"",1 0.5\n'):
        (tmp_path / "p.csv").write_text(f"a,1 0.5\n{line}")
        with pytest.raises(RunError, match=r"p\.csv, line 2: .*id.*empty"):
            list(prediction_files.read_predictions(str(tmp_path / "p.csv"), 10))


@pytest.mark.parametrize("field", ['"a', '"a"b', '"a""'])
def test_quotes_that_do_not_match_are_named(tmp_path: pathlib.Path, field: str) -> None:
    (tmp_path / "p.csv").write_text(f"{field},1 0.5\n")
    with pytest.raises(RunError, match=r"p\.csv, line 1: .*quotes"):
        list(prediction_files.read_predictions(str(tmp_path / "p.csv"), 10))


def test_ids_that_another_program_wrote_as_they_are(tmp_path: pathlib.Path) -> None:
    raw = [b"a\tb", b"\xff\x00", "\u2028".encode()]
    (tmp_path / "p.csv").write_bytes(b"".join(b"%s,1 0.5\n" % each for each in raw))
    rows = prediction_files.read_predictions(str(tmp_path / "p.csv"), 10)
    assert [row.video_id for row in rows] == [id_text(each) for each in raw]


odd_text = st.text(st.sampled_from("ab:\\x0fF,\"'\r\n\t \0\x7f\x85\u2028\u2029\u00e9\U0001f600"), min_size=1)
ids = st.lists(odd_text.map(str.encode) | st.binary(min_size=1), min_size=1, max_size=8, unique=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("ids")


@pytest.mark.promise("I6")
@given(ids=ids)
@examples(15)
def test_every_program_reads_the_ids_that_another_wrote(folder: pathlib.Path, ids: list[bytes]) -> None:
    texts = [id_text(each) for each in ids]
    assert [id_bytes(text.encode()) for text in texts] == ids
    assert [text.splitlines() for text in texts] == [[text] for text in texts]
    shard, predictions = folder / "a.tfrecord", folder / "p.csv"
    write_labelled(shard, ids)
    with storage.write_atomic(predictions, "w") as file:
        PredictionWriter(file, 2)(reports(2, ids))
    assert len(predictions.read_text().splitlines()) == 1 + len(ids)
    assert [row.video_id for row in prediction_files.read_predictions(str(predictions), 5000)] == texts
    assert list(ground_truth.video_labels(open_data(str(shard)), 5000).rows) == texts
    Candidates(str(predictions), [1], 5000).among([each + b":5" for each in ids], np.ones((len(ids), 1)))
    data = f"--eval_data_pattern={shard}"
    assert cli.main(["score", f"--predictions={predictions}", data, "--num_classes=5000"]) == 0
    joined = ["--predictions", str(predictions), str(predictions), "--num_classes=5000"]
    assert cli.main(["ensemble", *joined, f"--output_file={folder}/joined.csv", "--top_k=2"]) == 0
    assert ids_in(folder / "joined.csv") == texts


@pytest.mark.promise("I6")
@given(ids=st.lists(odd_text, min_size=1, max_size=8, unique_by=lambda text: id_bytes(text.encode())))
def test_ids_of_batch_prediction(folder: pathlib.Path, ids: list[str]) -> None:
    lines = [{"video_id": each, "class_indexes": [3], "predictions": [0.5]} for each in ids]
    (folder / "in.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    words = [f"--json_prediction_files_pattern={folder}/in.json", f"--csv_output_file={folder}/json.csv"]
    assert cli.main(["json-to-csv", *words]) == 0
    assert ids_in(folder / "json.csv") == [id_text(id_bytes(each.encode())) for each in ids]


@pytest.mark.promise("I6")
@given(ids=ids)
def test_segments_are_found_by_their_names(folder: pathlib.Path, ids: list[bytes]) -> None:
    shard, cache, submission = folder / "s.tfrecord", folder / "cache", folder / "s.csv"
    write_labelled(shard, ids)
    rated = ground_truth.ratings(open_data(str(shard)))
    ground_truth.write_ratings(str(cache), rated)
    assert ground_truth.read_ratings(str(cache)).segments == rated.segments
    ranking = SegmentRanking([3])
    ranking.add([each + b":0" for each in ids], np.arange(len(ids), 0, -1, dtype=np.float32)[:, None])
    ((number, names),) = ranking.lines()
    submission.write_bytes(b"%d,%s\n" % (number, b" ".join(names)))
    (line,) = prediction_files.read_segments(str(submission), [3])
    assert list(line.ranks) == rated.segments
    assert [id_bytes(name.removesuffix(b":0")) for name in names] == ids
    assert cli.main(["segment-eval", f"--submission_file={submission}", f"--label_cache={cache}"]) == 0


def write_labelled(path: pathlib.Path, ids: list[bytes]) -> None:
    """Videos of class 3, which is rated in the first segment of each."""
    segment = {
        "segment_start_times": shards.int64_feature([0]),
        "segment_labels": shards.int64_feature([3]),
        "segment_scores": shards.float_feature([1.0]),
    }
    with open(path, "wb") as shard:
        for each in ids:
            context = {"id": shards.bytes_feature(each), "labels": shards.int64_feature([3]), **segment}
            shard.write(shards.framed(shards.sequence_example(context, {})))


def ids_in(path: pathlib.Path) -> list[str]:
    return [row.video_id for row in prediction_files.read_predictions(str(path), 5000)]


def test_a_file_that_windows_wrote_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b"\xef\xbb\xbfVideoId,LabelConfidencePairs\r\nv1,3 0.5 1 0.25\r\n")
    (row,) = prediction_files.read_predictions(str(path), 5)
    assert (row.video_id, row.classes.tolist(), row.scores.tolist()) == ("v1", [3, 1], [0.5, 0.25])
