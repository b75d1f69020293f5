"""The command lines of the published README, on other files: trained, evaluated and predicted, whole and on segments.

The README gives the flags of a training to its evaluation and inference again, and some with blanks after commas.
"""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.datasets.sample_data import SampleConfig, generate

pytestmark = pytest.mark.long

OF_FRAMES = [
    "--frame_features=True",
    "--model=FrameLevelLogisticModel",
    "--feature_names=rgb, audio",
    "--feature_sizes=1024, 128",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("published")
    generate(SampleConfig(str(folder), "segment", train=16, validate=8, test=8, num_classes=3862, shards=1))
    return folder


@pytest.fixture(scope="module")
def run(folder: pathlib.Path) -> pathlib.Path:
    words = [
        f"--train_data_pattern={folder}/segment/train/train*.tfrecord",
        *OF_FRAMES,
        "--batch_size=8",
        "--num_epochs=1",
        f"--train_dir={folder}/models/sample_model",
        "--start_new_model",
    ]
    assert train.main(words) == 0
    return folder / "models/sample_model"


@pytest.mark.parametrize(
    "segments",
    [pytest.param([], id="videos", marks=pytest.mark.heavy), pytest.param(["--segment_labels"], id="segments")],
)
def test_an_evaluation_takes_the_flags_of_the_training(
    folder: pathlib.Path, run: pathlib.Path, segments: list[str]
) -> None:
    data = f"--eval_data_pattern={folder}/segment/validate/validate*.tfrecord"
    assert evaluation.main([data, *OF_FRAMES, *segments, f"--train_dir={run}", "--run_once=True"]) == 0
    report = json.loads((run / "eval/report.json").read_text())
    assert report["num_examples"] > 0
    assert ("map_at_n" in report) == bool(segments)


def test_an_inference_takes_the_flags_of_the_training(folder: pathlib.Path, run: pathlib.Path) -> None:
    data, out = f"--input_data_pattern={folder}/segment/test/test*.tfrecord", run / "predictions.csv"
    assert inference.main([data, *OF_FRAMES, f"--train_dir={run}", f"--output_file={out}", "--batch_size=8"]) == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "VideoId,LabelConfidencePairs"
    assert len(lines) == 1 + 8


def test_another_model_than_that_of_the_run_is_refused(folder: pathlib.Path, run: pathlib.Path) -> None:
    data = f"--eval_data_pattern={folder}/segment/validate/validate*.tfrecord"
    words = [data, *OF_FRAMES, "--model=DbofModel", f"--train_dir={run}", "--run_once=True"]
    assert evaluation.main(words) == 2
