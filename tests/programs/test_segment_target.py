"""On sample data a model fine-tuned on segments localises, and candidates keep short lists clean."""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line import cli
from yt8m.datasets.sample_data import SampleConfig, generate

pytestmark = [pytest.mark.long, pytest.mark.heavy]

CLASSES = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Sample data, a run on whole videos (`video`) and one fine-tuned from it on segments (`segment`)."""
    folder = tmp_path_factory.mktemp("target")
    generate(SampleConfig(str(folder), "segment", train=240, validate=60, test=0, num_classes=CLASSES, shards=2))
    flags = [
        f"--train_data_pattern={folder}/segment/train/*.tfrecord",
        "--frame_features",
        "--feature_names=rgb,audio",
        f"--num_classes={CLASSES}",
        "--model=FrameLevelLogisticModel",
        "--num_epochs=8",
    ]
    assert train.main([*flags, "--batch_size=8", f"--train_dir={folder}/video"]) == 0
    tuned = ["--segment_labels", f"--train_dir={folder}/tuned", f"--init_from={folder}/video", "--batch_size=64"]
    assert train.main([*flags, *tuned]) == 0
    return folder


def map_of(folder: pathlib.Path, run: str) -> float:
    data = f"--eval_data_pattern={folder}/segment/validate/*.tfrecord"
    assert evaluation.main([f"--train_dir={folder}/{run}", data, "--segment_labels", "--run_once"]) == 0
    return float(json.loads((folder / run / "eval/report.json").read_text())["map_at_n"])


def submitted(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], run: str, *flags: str) -> float:
    data = f"{folder}/segment/validate/*.tfrecord"
    words = [f"--train_dir={folder}/{run}", f"--input_data_pattern={data}", f"--output_file={folder}/out.csv"]
    assert inference.main([*words, *flags]) == 0
    if "--segment_labels" not in flags:
        return 0.0
    capsys.readouterr()
    judged = [f"--submission_file={folder}/out.csv", f"--eval_data_pattern={data}"]
    assert cli.main(["segment-eval", *judged]) == 0
    return float(capsys.readouterr().out.split()[1])


@pytest.mark.long
def test_fine_tuning_on_segments_beats_the_model_of_whole_videos(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video, tuned = map_of(folder, "video"), map_of(folder, "tuned")
    assert tuned > video + 0.1, (video, tuned)
    # The submission of every segment, judged by its file, has the figure of the evaluation.
    assert submitted(folder, capsys, "tuned", "--segment_labels") == pytest.approx(tuned, abs=2e-3)


@pytest.mark.long
def test_candidates_gain_where_lists_are_short(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    submitted(folder, capsys, "video", "--top_k=3")
    (folder / "out.csv").rename(folder / "videos.csv")
    short = ["--segment_labels", "--segment_max_pred=40"]
    alone = submitted(folder, capsys, "tuned", *short)
    chosen = submitted(folder, capsys, "tuned", *short, f"--candidates_from={folder}/videos.csv")
    assert chosen > alone + 0.02, (alone, chosen)
