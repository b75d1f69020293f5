"""Training on rated segments that begins with the weights of a video-level run."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest
from evaluated_videos import add_rated
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.eval_util.segments import RatedPairs
from yt8m.lazy import tf
from yt8m.records import vocabulary

pytestmark = [pytest.mark.long, pytest.mark.heavy]

SIZES = ["--feature_sizes=16,8", "--num_classes=20", "--batch_size=4"]


def video_flags(folder: pathlib.Path, *more: str) -> list[str]:
    data = f"--train_data_pattern={golden('tiny_video.tfrecord')}"
    names = "--feature_names=mean_rgb,mean_audio"
    return [data, f"--train_dir={folder}", names, *SIZES, "--num_epochs=5", *more]


def segment_flags(folder: pathlib.Path, *more: str) -> list[str]:
    data = f"--train_data_pattern={golden('tiny_segment.tfrecord')}"
    usual = ["--frame_features", "--segment_labels", "--feature_names=rgb,audio", "--num_epochs=2"]
    model = [] if any(flag.startswith("--model") for flag in more) else ["--model=FrameLevelLogisticModel"]
    return [data, f"--train_dir={folder}", *usual, *SIZES, *model, *more]


def values(folder: pathlib.Path, step: int | None = None) -> dict[str, np.ndarray]:
    path = tf.train.latest_checkpoint(str(folder)) if step is None else f"{folder}/model.ckpt-{step}"
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("averages", [[], ["--moving_average_decay=0.9"]])
def test_a_segment_run_begins_with_the_weights_of_a_video_run(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], averages: list[str]
) -> None:
    assert train.main(video_flags(tmp_path / "video", *averages)) == 0
    flags = segment_flags(tmp_path / "segment", f"--init_from={tmp_path}/video", *averages)
    assert train.main(flags) == 0
    assert "2 of the model's 2 variables start from" in capfd.readouterr().err
    source, start, end = (values(tmp_path / "video"), values(tmp_path / "segment", 0), values(tmp_path / "segment"))
    suffix = "/ExponentialMovingAverage" if averages else ""
    for name in ("tower/fully_connected/weights", "tower/fully_connected/biases"):
        np.testing.assert_array_equal(start[name], source[name + suffix])
        assert not np.array_equal(end[name], start[name])
        assert not start[f"{name}/Adam"].any()
        if averages:
            np.testing.assert_array_equal(start[name + suffix], source[name + suffix])
    assert start["global_step"] == 0
    assert start["beta1_power"] == pytest.approx(0.9)
    config = json.loads((tmp_path / "segment/config.json").read_text())["config"]
    assert config["init_from"] == f"{tmp_path}/video"


def test_what_was_not_found_is_listed(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main(video_flags(tmp_path / "video", "--model=MoeModel")) == 0
    more = ["--model=DbofModel", "--dbof_cluster_size=8", "--dbof_hidden_size=24", f"--init_from={tmp_path}/video"]
    assert train.main(segment_flags(tmp_path / "segment", *more)) == 0
    said = capfd.readouterr().err
    assert re.search(r"\n  variable +shape +taken\n", said)
    assert re.search(r"\n  tower/input_bn/beta +\[24\] +no: the checkpoint lacks it\n", said)
    assert re.search(r"\n  tower/gates/weights +\[.*\] +yes\n", said)
    assert "tower/input_bn/moving_mean " in said
    assert "Adam " not in said
    source, start = values(tmp_path / "video"), values(tmp_path / "segment", 0)
    np.testing.assert_array_equal(start["tower/gates/weights"], source["tower/gates/weights"])


def test_variables_of_another_shape_are_listed(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main(video_flags(tmp_path / "video")) == 0
    more = [f"--init_from={tmp_path}/video", "--feature_names=rgb", "--feature_sizes=16"]
    given = {word.partition("=")[0] for word in more}
    flags = [flag for flag in segment_flags(tmp_path / "s") if flag.partition("=")[0] not in given]
    assert train.main([*flags, *more]) == 0
    expected = r"tower/fully_connected/weights +\[16, 20\] +no: the checkpoint has the shape \[24, 20\]"
    assert re.search(expected, capfd.readouterr().err)


def test_the_last_layer_of_as_many_other_classes_is_not_taken(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = ["--model=ResidualMlpModel", "--mlp_hidden_size=8", "--video_level_classifier_model=LogisticModel"]
    for name in ("one", "other"):
        vocabulary.write(f"{tmp_path}/{name}.csv", vocabulary.of_names([f"{name} {n}" for n in range(20)]))
    one, other = (f"--vocabulary={tmp_path}/{name}.csv" for name in ("one", "other"))
    start = f"--init_from={tmp_path}/one"
    assert train.main(video_flags(tmp_path / "one", *model, one)) == 0
    assert train.main(video_flags(tmp_path / "same", *model, one, start, "--max_steps=1")) == 0
    assert "no: " not in capfd.readouterr().err
    assert train.main(video_flags(tmp_path / "other", *model, other, start, "--max_steps=1")) == 0
    said = capfd.readouterr().err
    left = re.findall(r"  (tower/\S+) +\S.*  no: the checkpoint has other classes", said)
    assert left == ["tower/fully_connected/weights", "tower/fully_connected/biases"]
    assert re.search(r"tower/first/weights +\[24, 8\] +yes", said)


def test_another_run_is_no_start(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main(segment_flags(tmp_path / "s", f"--init_from={tmp_path}/none")) == 2
    assert "no such folder" in capfd.readouterr().err
    (tmp_path / "empty").mkdir()
    assert train.main(segment_flags(tmp_path / "s", f"--init_from={tmp_path}/empty")) == 1
    assert not (tmp_path / "s").exists()
    assert train.main(video_flags(tmp_path / "moe", "--model=MoeModel")) == 0
    assert train.main(segment_flags(tmp_path / "t", f"--init_from={tmp_path}/moe")) == 1
    assert "(tower/fully_connected/" in capfd.readouterr().err
    _segments_of_a_video_run(tmp_path / "moe", capfd)


def _segments_of_a_video_run(run: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Are refused by a text that names what can be done."""
    usual = [f"--train_dir={run}", "--segment_labels"]
    data = golden("tiny_segment.tfrecord")
    output = run / "segments.csv"
    for program, words in (
        (evaluation, [f"--eval_data_pattern={data}", "--run_once"]),
        (inference, [f"--input_data_pattern={data}", f"--output_file={output}"]),
    ):
        assert program.main([*usual, *words]) == 2
        said = capfd.readouterr().err
        assert "trained on video-level features (mean_rgb,mean_audio)" in said
        assert "trained with --frame_features" in said
    assert not output.exists()


def test_losses_and_figures_are_over_rated_pairs_only(tmp_path: pathlib.Path) -> None:
    assert train.main(segment_flags(tmp_path / "run")) == 0
    data = f"--eval_data_pattern={golden('tiny_segment.tfrecord')}"
    assert evaluation.main([f"--train_dir={tmp_path}/run", data, "--segment_labels", "--run_once"]) == 0
    report = json.loads((tmp_path / "run/eval/report.json").read_text())
    expected = np.load(golden("readers.npz"))
    assert 0 < report["map_at_n"] <= 1
    rated, labels = expected["segment/label_weights"] > 0, expected["segment/labels"] > 0
    assert report["num_examples"] == len(rated)
    positive = np.flatnonzero((labels & rated).any(axis=0))
    assert [row["class"] for row in report["classes"]] == positive.tolist()
    weights = values(tmp_path / "run")
    frames = expected["segment/video_matrix"]
    norm = frames / np.sqrt(np.maximum((frames**2).sum(-1, keepdims=True), 1e-12))
    lengths = (frames != 0).any(-1).sum(-1, keepdims=True)
    mean = norm.sum(1) / np.maximum(lengths, 1)
    logits = mean @ weights["tower/fully_connected/weights"] + weights["tower/fully_connected/biases"]
    p = 1 / (1 + np.exp(-logits))
    pairs = RatedPairs(20)
    add_rated(pairs, np.where(rated, p, -np.inf), labels)
    assert report["map_at_n"] == pytest.approx(pairs.get().map, abs=1e-6)
    loss = -np.where(labels, np.log(p + 1e-5), np.log(1 - p + 1e-5))
    assert report["loss"] == pytest.approx((loss * rated).sum(1).mean(), rel=1e-4)
