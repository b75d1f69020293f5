"""`yt8m score`: against the figures of dense predictions, and files that are refused."""

from __future__ import annotations

import bz2
import pathlib

import numpy as np
import pytest
from golden_data import golden
from reader_records import video_record, write_shard

from yt8m.command_line import cli
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.metrics import THIRDS
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary

C = 30


def run(*flags: str) -> int:
    return cli.main(["score", f"--num_classes={C}", *flags])


def world(folder: pathlib.Path, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Scores of four digits, and labels; some videos have more labels than a line of the CSV has classes."""
    draw = np.random.default_rng(3)
    scores = (draw.permuted(np.tile(np.arange(1, C + 1), (rows, 1)), axis=1) / C).round(4)
    labels = draw.random((rows, C)) < draw.choice([0.05, 0.4, 0.9], (rows, 1))
    labels[0] = False
    records = [video_record(id=[b"v%03d" % row], labels=np.flatnonzero(labels[row]).tolist()) for row in range(rows)]
    write_shard(folder / "a.tfrecord", records[:33])
    write_shard(folder / "b.tfrecord", records[33:])
    return scores, labels


def csv_of(scores: np.ndarray, top_k: int, rows: list[int]) -> str:
    lines = ["VideoId,LabelConfidencePairs"]
    for row in rows:
        best = np.argsort(-scores[row])[:top_k]
        lines.append(f"v{row:03d}," + " ".join(f"{c} {scores[row, c]:g}" for c in best))
    return "\n".join(lines) + "\n"


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    lines = capsys.readouterr().out.splitlines()
    return {name: float(value) for name, _, value in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize("skipped", [0, 7])
def test_equals_the_figures_of_what_was_written(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], skipped: int
) -> None:
    scores, labels = world(tmp_path)
    order = np.random.default_rng(0).permutation(len(scores))[skipped:].tolist()
    (tmp_path / "p.csv").write_text(csv_of(scores, 20, order))
    counts = np.arange(C) * 7 % C
    if skipped:
        vocabulary.write(str(tmp_path / "vocabulary.csv"), Vocabulary(tuple(map(str, range(C))), counts, ("",) * C))
    assert run(f"--predictions={tmp_path}/p.csv", f"--eval_data_pattern={tmp_path}/*.tfrecord") == 0
    kept = np.full(scores.shape, -np.inf)
    best = np.argsort(-scores, axis=1)[:, :20]
    np.put_along_axis(kept, best, np.take_along_axis(scores, best, axis=1), axis=1)
    kept[np.setdiff1d(np.arange(len(scores)), order)] = -np.inf
    metrics = EvaluationMetrics(C, 20, class_counts=counts)
    metrics.accumulate(kept, labels, 0.0)
    expected = metrics.get()
    found = printed(capsys)
    for name, key in (("GAP", "gap"), ("Hit@1", "avg_hit_at_one"), ("PERR", "avg_perr"), ("mAP", "map")):
        assert found[name] == pytest.approx(expected[key], abs=2e-6), name
    for part in THIRDS if skipped else ():
        assert found[f"GAP {part}"] == pytest.approx(expected[f"gap_{part}"], abs=2e-6)
        assert found[f"mAP {part}"] == pytest.approx(expected[f"map_{part}"], abs=2e-6)
    assert skipped or not any("tail" in name for name in found)  # without a vocabulary


def test_the_recorded_predictions_score_as_their_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    predictions = golden("checkpoint_logistic/predictions.csv")
    data = golden("checkpoint_logistic/test.tfrecord")
    flags = [f"--predictions={predictions}", f"--eval_data_pattern={data}", "--num_classes=10"]
    assert cli.main(["score", *flags]) == 0
    found = printed(capsys)
    line = golden("checkpoint_logistic/eval_line.txt").read_text()
    for name, title in (("GAP", "GAP"), ("Hit@1", "Avg_Hit@1"), ("PERR", "Avg_PERR"), ("mAP", "MAP")):
        expected = float(line.split(f"{title}: ")[1].split()[0])
        assert found[name] == pytest.approx(expected, abs=6e-4), name


GOOD = b"v000,3 0.5 4 0.25\n"


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"Class,Segments\n3,v000:0\n", 1, "the file has ranked segments"),
        (GOOD + GOOD, 2, "'v000' is in an earlier line"),
        (GOOD + b"v001,3 0.5 3 0.25\n", 2, "a class is repeated"),
        (GOOD + b"v001,30 0.5\n", 2, "expected 0 to 29"),
        (GOOD + b"v001,x 0.5\n", 2, "class numbers"),
        (GOOD + b"v001,%s 0.5\n" % (b"9" * 30), 2, "class numbers"),
        (GOOD + b"v001,3 x\n", 2, "class numbers"),
        (GOOD + b"v001,3 nan\n", 2, "finite"),
        (GOOD + b"v001,3 0.5 4\n", 2, "class 4 has no score; expected a score after each class"),
        (GOOD + b"v001\n", 2, "'v001'"),
        (GOOD + b"zzzz,3 0.5\n", 2, "not in the records"),
        (GOOD + b"v001,3 0.", 2, "cut short"),
        (bz2.compress(GOOD), 1, "bzip2"),
    ],
)
def test_a_bad_file_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: bytes, line: int, words: str
) -> None:
    world(tmp_path)
    (tmp_path / "p.csv").write_bytes(content)
    assert run(f"--predictions={tmp_path}/p.csv", f"--eval_data_pattern={tmp_path}/*.tfrecord") == 1
    said = capsys.readouterr().err
    assert f"p.csv, line {line}: " in said
    assert words in said


@pytest.mark.parametrize("content", ["", "VideoId,LabelConfidencePairs\n"])
def test_no_prediction_is_no_figure(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    world(tmp_path)
    (tmp_path / "p.csv").write_text(content)
    assert run(f"--predictions={tmp_path}/p.csv", f"--eval_data_pattern={tmp_path}/*.tfrecord") == 1
    assert "p.csv holds no prediction" in capsys.readouterr().err


def test_ids_in_quotes(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shard(tmp_path / "a.tfrecord", [video_record(id=[b'a,"b'], labels=[3])])
    (tmp_path / "p.csv").write_text('"a,""b",3 0.5\n')
    assert run(f"--predictions={tmp_path}/p.csv", f"--eval_data_pattern={tmp_path}/a.tfrecord") == 0
    assert printed(capsys)["GAP"] == 1


def test_labels_beyond_the_classes_are_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    world(tmp_path)
    (tmp_path / "p.csv").write_bytes(GOOD)
    flags = [f"--predictions={tmp_path}/p.csv", f"--eval_data_pattern={tmp_path}/*.tfrecord"]
    assert cli.main(["score", "--num_classes=5", *flags]) == 1
    assert "outside of 0..4" in capsys.readouterr().err


def test_videos_without_a_line_or_a_label_are_counted_in_warnings(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, labels = world(tmp_path)
    (tmp_path / "p.csv").write_text(csv_of(scores, 20, list(range(50))))
    assert run(f"--predictions={tmp_path}/p.csv", f"--data={tmp_path}/?.tfrecord") == 0
    said = capsys.readouterr().err
    assert "--predictions has no line for 10 of the 60 videos of --data" in said
    unlabelled = (~labels.any(axis=1)).sum()
    assert unlabelled
    assert f"{unlabelled} of the 60 videos of --data have no label" in said


def test_labels_under_another_name_are_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shard(tmp_path / "a.tfrecord", [video_record(id=[b"v000"], label=[3])])
    (tmp_path / "p.csv").write_text("VideoId,LabelConfidencePairs\nv000,3 0.5\n")
    assert run(f"--predictions={tmp_path}/p.csv", f"--data={tmp_path}/a.tfrecord") == 1
    said = capsys.readouterr().err
    assert "holds no label" in said
    assert "a feature label ([3])" in said
    assert "--data" in said
