"""What a run says of the data of a pass; the files that it opens are covered by the tests of the programs."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest

from yt8m.config.data_config import DataConfig
from yt8m.config.export_config import ExportConfig
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.records import vocabulary
from yt8m.runs.opened_run import OpenedRun, find_folder
from yt8m.scoring import evaluation

FRAMES = DataConfig(frame_features=True, feature_names=("rgb", "audio"))


def opened(data: DataConfig) -> OpenedRun:
    return OpenedRun("runs/a", TrainConfig(train_dir="runs/a", data=data), vocabulary.of_names(()), is_own=True)


@pytest.mark.promise("I7")
@pytest.mark.parametrize(
    ("config", "segments", "of_videos", "of_frames"),
    [
        (EvalConfig(), False, 1024, 256),
        (EvalConfig(max_frames=1000), False, 1024, 64),
        (EvalConfig(batch_size=700), False, 700, 700),
        (InferenceConfig(), False, 512, 256),
        (InferenceConfig(batch_size=700), False, 700, 700),
        (ExportConfig(out="x"), False, 1024, 256),
    ],
)
def test_the_batch_is_the_one_that_is_given_or_fits(
    config: Any, segments: bool, of_videos: int, of_frames: int
) -> None:
    assert opened(DataConfig()).data_for(config, "", segments).batch_size == of_videos
    assert opened(FRAMES).data_for(config, "", segments).batch_size == of_frames


def test_segments_are_short() -> None:
    run = opened(FRAMES)
    assert run.data_for(EvalConfig(segment_labels=True), "", True).batch_size == 1024
    assert run.data_for(InferenceConfig(segment_labels=True), "", True).batch_size == 512
    assert run.data_for(InferenceConfig(segment_labels=True, segment_context=300), "", True).batch_size == 128


@pytest.mark.parametrize(("batch", "expected"), [(32, 32), (300, 300), (1024, 256)])
def test_a_validation_takes_the_batch_of_its_training_if_it_fits(batch: int, expected: int) -> None:
    config = TrainConfig(train_dir="runs/a", data=dataclasses.replace(FRAMES, batch_size=batch))
    assert evaluation.config_for_training(config).batch_size == expected


@pytest.mark.parametrize(("name", "reason"), [("a.onnx", "this is a file"), ("nowhere", "there is no .*folder")])
def test_what_is_no_folder_is_no_run(tmp_path: pathlib.Path, name: str, reason: str) -> None:
    (tmp_path / "a.onnx").touch()
    with pytest.raises(UsageError, match=f"{name}: {reason}"):
        find_folder(str(tmp_path / name))
