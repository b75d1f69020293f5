"""`yt8m eval --report --target_precision`: the file, the page, report.json, and the tags of programs that use them."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import pathlib
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from reader_records import video_record, write_shard

from yt8m import eval as evaluation
from yt8m import scoring, train
from yt8m.command_line import cli
from yt8m.eval_util import eval_samples
from yt8m.eval_util.guaranteed_precision import CommonThreshold, PrecisionCalibration
from yt8m.records import shards, vocabulary
from yt8m.records.thresholds import PrecisionTarget
from yt8m.reports import loading
from yt8m.reports.measures import class_rows
from yt8m.scoring.evaluation_results import GuaranteeSummary
from yt8m.serving.bodies import RECORDS
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Service

CLASSES, SIZE, VIDEOS, SERVED = 6, 8, 400, 40
TARGET = ["--target_precision=0.8", "--confidence=0.9"]


class Video(NamedTuple):
    """A video as it was drawn, and its record."""

    id: bytes
    labels: list[int]
    record: bytes


def _videos(seed: int) -> list[Video]:
    """Videos of four classes that can be told apart; the labels of class 4 are chance, and class 5 is rare."""
    draw = np.random.default_rng(seed)
    prototypes = 2 * np.random.default_rng(0).normal(size=(4, SIZE))
    videos = []
    for row in range(VIDEOS):
        shown, name = int(draw.integers(4)), b"s%d-v%03d" % (seed, row)
        labels = [shown] + [4] * bool(draw.random() < 0.5) + [5] * (row % 100 == 0)
        features = (prototypes[shown] + draw.normal(size=SIZE)).astype(np.float32)
        videos.append(Video(name, labels, video_record(id=[name], labels=labels, mean_rgb=features)))
    return videos


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("guarantee")
    for name, seed in (("train", 1), ("validate", 2)):
        write_shard(folder / f"{name}.tfrecord", [video.record for video in _videos(seed)])
    data = ["--feature_names=mean_rgb", f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}"]
    flags = [f"--train_data_pattern={folder}/train.tfrecord", f"--train_dir={folder}/run", *data, "--batch_size=50"]
    assert train.main([*flags, "--max_steps=150", "--base_learning_rate=0.1", "--export_model_steps=none"]) == 0
    assert evaluation.main([*_evaluation(folder), *TARGET]) == 0
    return folder


def _evaluation(folder: pathlib.Path) -> list[str]:
    return [f"--train_dir={folder}/run", f"--eval_data_pattern={folder}/validate.tfrecord", "--run_once", "--report"]


def _rows(folder: pathlib.Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "run/eval/thresholds.csv").open()))


def _scores(folder: pathlib.Path, videos: list[Video]) -> np.ndarray:
    with scoring.open(f"{folder}/run") as scorer:
        _, scores = scorer.scores([(video.record, "f", number) for number, video in enumerate(videos)])
        return scores


def test_the_file_has_the_target_and_no_precision_of_these_videos(world: pathlib.Path) -> None:
    rows = _rows(world)
    assert [row["basis"] for row in rows] == ["class"] * 4 + ["below_target", "too_few_labels"]
    assert [row["threshold"] for row in rows[4:]] == ["inf", "inf"]
    for row in rows:
        assert (row["precision"], row["f1"]) == ("", "")
        assert (row["target"], row["confidence"]) == ("0.8", "0.9")
        assert (int(row["n"]) >= 11) == (row["basis"] == "class")
    report = json.loads((world / "run/eval/report.json").read_text())["guarantee"]
    assert report["classes"] == 4
    assert report["labels_needed"] == 14
    assert report["most_thresholds_below"] == 0.5  # a tenth of the five classes that were tested


@pytest.mark.parametrize(("classes", "below", "most"), [(900, 100, 100), (120, 880, 100), (20, 980, 20), (0, 50, 0)])
def test_the_confidence_is_that_of_all_tested_classes_not_of_those_with_a_threshold(
    classes: int, below: int, most: float
) -> None:
    none = CommonThreshold(np.inf, 0, 0)
    summary = GuaranteeSummary(PrecisionTarget(0.8, 0.9), "class", 1000, classes, 7, below, 14, none)
    assert summary.most_below == pytest.approx(most)


def test_the_thresholds_are_those_of_the_scores(world: pathlib.Path) -> None:
    videos = _videos(2)
    scores = _scores(world, videos)
    order = np.argsort(-scores, axis=1, kind="stable")
    labels = np.array([np.isin(np.arange(CLASSES), video.labels) for video in videos])
    sorted_columns = {
        "classes": order,
        **{name: np.take_along_axis(values, order, 1) for name, values in (("scores", scores), ("hits", labels))},
    }
    calibration = PrecisionCalibration(CLASSES)
    ids = np.array([video.id for video in videos], object)
    calibration.add({"video_ids": ids, "labels": labels, **sorted_columns})
    points = calibration.choose_class_thresholds(PrecisionTarget(0.8, 0.9))
    np.testing.assert_allclose([float(row["threshold"]) for row in _rows(world)], points.thresholds, rtol=1e-5)
    assert points.guarantee is not None
    assert [int(row["n"]) for row in _rows(world)] == points.guarantee.tested.tolist()


def test_the_page_says_the_guarantee_and_no_precision(world: pathlib.Path) -> None:
    page = re.sub(r"\s+", " ", (world / "run/eval/report.html").read_text())
    assert "a precision of at least 0.8 on new videos like these, with confidence 0.9" in page
    assert "on average, at most 0.5 of these thresholds are below the target" in page
    assert "Classes that are never tags because they have too few labels (at least 14 are needed): 1; because" in page
    samples = eval_samples.read(f"{world}/run")
    assert samples.points.guarantee is not None
    assert samples.points.guarantee.target == (0.8, 0.9)
    (run,) = loading.load([f"{world}/run"], 10, 0)
    for row in class_rows(run, vocabulary.of_names(()).shown(CLASSES)):
        assert (row.precision, row.f1) == ("\u2014", "\u2014")
    assert [row.remark for row in class_rows(run, vocabulary.of_names(()).shown(CLASSES))[4:]] == [
        "below target",
        "too few labels",
    ]


@pytest.mark.heavy
def test_tags_of_new_videos_keep_the_promise_in_runs_and_exports(
    world: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    videos = _videos(3)
    write_shard(world / "new.tfrecord", [video.record for video in videos])
    scores, limits = _scores(world, videos), [float(row["threshold"]) for row in _rows(world)]
    expected = [[number for number in np.argsort(-row) if row[number] >= limits[number]] for row in scores]
    assert cli.main(["export", f"--model={world}/run", f"--out={world}/exported"]) == 0
    assert cli.main(["export", f"--model={world}/run", "--format=onnx", f"--out={world}/model.onnx"]) == 0
    for model in (world / "run", world / "exported", world / "model.onnx"):
        capsys.readouterr()
        assert cli.main(["predict", "--tags", f"--model={model}", f"{world}/new.tfrecord", f"--count={VIDEOS}"]) == 0
        output = capsys.readouterr()
        assert re.search(r"at least 0\.8 .*confidence 0\.9; 2 of 6 classes", output.err)
        blocks = [block.splitlines()[1:] for block in output.out.strip().split("\n\n")]
        assert [[int(line.split()[-1]) for line in lines if "no tag" not in line] for lines in blocks] == expected
        assert _served_tags(str(model), videos[:SERVED]) == expected[:SERVED]
    hits = [number in video.labels for video, tags in zip(videos, expected, strict=True) for number in tags]
    assert np.mean(hits) > 0.8
    assert not {4, 5} & {number for tags in expected for number in tags}


def _served_tags(model: str, videos: list[Video]) -> list[list[int]]:
    """The tags that `yt8m serve` answers for videos."""
    body = b"".join(shards.framed(video.record) for video in videos)
    with scoring.open(model) as scorer, contextlib.closing(Service(scorer, ServeConfig(train_dir=model))) as service:

        async def ask() -> dict[str, Any]:
            return service.content_of(await service.begin(RECORDS[0], body), 1)

        return [[tag["index"] for tag in video["tags"]] for video in asyncio.run(ask())["videos"]]


def test_one_threshold_for_all_tags(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = [*_evaluation(world), *TARGET, "--precision_of=all", f"--eval_dir={tmp_path}"]
    assert evaluation.main(words) == 0
    rows = list(csv.DictReader((tmp_path / "eval/thresholds.csv").open()))
    report = json.loads((tmp_path / "eval/report.json").read_text())["guarantee"]
    assert {float(row["threshold"]) for row in rows} == {report["threshold_for_all"]}
    assert {row["basis"] for row in rows} == {"common"}
    assert {int(row["n"]) for row in rows} == {report["predictions_for_all"]}
    assert "All classes have one threshold" in (tmp_path / "eval/report.html").read_text()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--target_precision=0.9"], "--target_precision needs --report"),
        (["--confidence=0.8"], "--confidence needs --target_precision"),
        (["--report", "--target_precision=1"], "at most 0.9999"),
        (["--report", "--target_precision=0.9", "--top_k=5"], "leave --top_k out"),
        (
            ["--report", "--target_precision=0.9", "--min_positives=7"],
            "--min_positives and --target_precision exclude each other",
        ),
        (["--report", "--target_precision=0.9", "--segment_labels"], "is for labels of videos"),
    ],
)
def test_what_cannot_be_promised_is_refused(
    words: list[str], part: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluation.main([f"--train_dir={tmp_path}", *words]) == 2
    assert part in capsys.readouterr().err
