"""Films in requests, as features and as records: each class has the score of its best window."""

from __future__ import annotations

import contextlib
import csv
import json
import pathlib

import cases
import numpy as np
import pytest
from reader_records import frame_record
from serving.test_service import answers

from yt8m import scoring
from yt8m.records import vocabulary
from yt8m.records.batches import Records
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shards import framed
from yt8m.scoring.model_input import ModelInput, Videos
from yt8m.serving.bodies import JSON, RECORDS
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import FilmAnswer, Service

SIZE = CLASSES = 3
FILM = np.eye(SIZE, dtype=np.float32)[np.repeat([0, 1], [5, 6])]  # eleven frames that show class 0, then class 1
CLIP = FILM[:3]


class MeanModel(scoring.Scorer):
    """The score of a class is the mean of its value over the frames; trained on clips of two to four frames."""

    def __init__(self, level: str) -> None:
        feature = FeatureFormat("clip" if level == "frame" else "mean_clip", SIZE)
        described = DataFormat(level, (feature,), num_classes=CLASSES, video_frames=(2, 4))
        super().__init__("tiny", ModelInput("tiny", described, (), True, False), vocabulary.of_names(()).shown(CLASSES))
        self.weights = "tiny"

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], np.ndarray]:
        batch = videos
        if not isinstance(batch, NumpyBatch):
            batch = Records([], self.takes.format).parsed(videos)
        batch = batch.dequantize()
        (values,) = batch.features.values()
        if values.ndim == 3:
            values = values.sum(axis=1) / batch.num_frames[:, np.newaxis]
        return list(batch.ids), values.astype(np.float32)

    def evaluated(self, videos: Videos, rows: int = 0, settings: object = None) -> scoring.EvaluatedStep:
        raise NotImplementedError


def scores_of(level: str, kind: str, **more: str) -> list[tuple[list[float], int]]:
    """(scores, frames of a window or 0) of a film and of a clip."""
    if kind == JSON:
        videos = [{"id": name, "rgb_and_audio": frames.tolist()} for name, frames in (("film", FILM), ("clip", CLIP))]
        body = json.dumps({"videos": videos}).encode()
    else:
        body = b"".join(framed(frame_record({"id": [b"x"]}, {"clip": list(frames)})) for frames in (FILM, CLIP))
    with contextlib.closing(Service(MeanModel(level), ServeConfig(train_dir="m", **more))) as service:
        given = answers(service, kind, body)
    rounded = [np.round(answer[1].astype(float), 3).tolist() for answer in given]
    frames = [answer.window_frames if isinstance(answer, FilmAnswer) else 0 for answer in given]
    return list(zip(rounded, frames, strict=True))


@pytest.mark.parametrize(
    ("level", "kind"), cases.all_of([("video", JSON)], heavy=[("frame", RECORDS[0]), ("frame", JSON)])
)
def test_a_film_has_the_scores_of_its_best_windows(level: str, kind: str) -> None:
    film, clip = scores_of(level, kind)
    assert film == ([1.0, 1.0, 0.0], 2)
    assert clip == ([1.0, 0.0, 0.0], 0)
    film, clip = scores_of(level, kind, tags_of="whole")
    assert film == ([0.455, 0.545, 0.0], 0)
    assert clip == ([1.0, 0.0, 0.0], 0)


def test_an_answer_says_what_its_tags_are_worth(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "thresholds.csv").open("w", newline="") as file:
        rows = [("index", "threshold", "positives"), (0, 0.5, 19), (1, 0.5, 20), (2, 0.5, "")]
        csv.writer(file).writerows(rows)
    config = ServeConfig(train_dir="m", thresholds=str(tmp_path / "thresholds.csv"))
    body = json.dumps({"videos": [{"id": "film", "rgb_and_audio": FILM.tolist()}]}).encode()
    with contextlib.closing(Service(MeanModel("video"), config)) as service:
        (told,) = service.content_of(answers(service, JSON, body), 1)["videos"]
    assert told["window_frames"] == 2
    assert [(one["index"], one.get("few_positives")) for one in told["tags"]] == [(0, 19), (1, None)]
