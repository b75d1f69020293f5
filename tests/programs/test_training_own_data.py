"""Records with features of their own: trained, evaluated and predicted without a flag that describes them."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line import cli
from yt8m.datasets import verification
from yt8m.records import manifest
from yt8m.records.data_format import DataFormat, FeatureFormat

FORMAT = DataFormat("video", (FeatureFormat("clip", 16), FeatureFormat("a_sound", 4)), num_classes=3)


def records(count: int, seed: int) -> list[bytes]:
    """Videos of three classes: the first three values of the clip tell the class."""
    draw, found = np.random.default_rng(seed), []
    for number in range(count):
        label = int(draw.integers(3))
        clip, sound = draw.normal(0, 0.3, 16) + 2 * (np.arange(16) == label), draw.normal(0, 0.1, 4)
        found.append(video_record(id=[b"%d_%d" % (seed, number)], labels=[label], clip=clip, a_sound=sound))
    return found


def write_split(folder: pathlib.Path, of_split: list[bytes], said: DataFormat | None = FORMAT) -> str:
    """A shard with its manifest; returns the pattern that matches it."""
    folder.mkdir(parents=True)
    path = write_shard(folder / "a.tfrecord", of_split)
    if said is not None:
        bytes_ = pathlib.Path(path).stat().st_size
        manifest.write(str(folder / manifest.NAME), {path: manifest.Shard(len(of_split), bytes_, "")}, said)
    return f"{folder}/*.tfrecord"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """train, validate: own videos. frames: other records under the same name."""
    folder = tmp_path_factory.mktemp("own")
    write_split(folder / "train", records(120, 0))
    write_split(folder / "validate", records(40, 1))
    frames = frame_record({"id": [b"a"], "labels": [1]}, {"clip": np.zeros([2, 16], np.uint8)})
    write_split(folder / "frames", [frames], None)
    write_split(folder / "more", records(4, 2), FORMAT._replace(num_classes=4))
    return folder


@pytest.fixture(scope="module")
def run(data: pathlib.Path) -> pathlib.Path:
    words = [
        "--batch_size=20",
        "--base_learning_rate=0.1",
        "--num_epochs=5",
        f"--train_dir={data}/run",
        "--export_model_steps=none",
    ]
    assert train.main([f"--train_data_pattern={data}/train/*.tfrecord", *words]) == 0
    return data / "run"


def test_the_run_keeps_what_was_found(run: pathlib.Path) -> None:
    saved = json.loads((run / "config.json").read_text())["config"]["data"]
    assert (saved["feature_names"], saved["feature_sizes"]) == (["clip", "a_sound"], [16, 4])
    assert (saved["frame_features"], saved["num_classes"]) == (False, 3)


def test_evaluation_and_inference_need_no_flag_either(run: pathlib.Path, data: pathlib.Path) -> None:
    pattern = f"{data}/validate/*.tfrecord"
    assert evaluation.main([f"--train_dir={run}", f"--eval_data_pattern={pattern}", "--run_once"]) == 0
    figures = json.loads((run / "eval/report.json").read_text())
    assert figures["num_examples"] == 40
    assert figures["gap"] > 0.9
    assert inference.main([f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={data}/p.csv"]) == 0
    lines = (data / "p.csv").read_text().splitlines()[1:]
    assert len(lines) == 40
    assert {word for line in lines for word in line.partition(",")[2].split()[::2]} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("frames", "takes video-level records, but these are frame-level ones (the first record of"),
        ("more", "has 3 classes, but these records have 4"),
    ],
)
def test_other_data_are_refused_before_anything_is_written(
    run: pathlib.Path, data: pathlib.Path, capfd: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    before, pattern = sorted(run.rglob("*")), f"{data}/{name}/*.tfrecord"
    assert evaluation.main([f"--train_dir={run}", f"--eval_data_pattern={pattern}", "--run_once"]) == 2
    assert re.search(f"--eval_data_pattern={re.escape(pattern)}: .*{re.escape(words)}", capfd.readouterr().err)
    assert (
        inference.main([f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={data}/no.csv"]) == 2
    )
    assert f"--input_data_pattern={pattern}: the data do not fit" in capfd.readouterr().err
    assert sorted(run.rglob("*")) == before
    assert not (data / "no.csv").exists()


def test_a_later_flag_that_contradicts_the_data_is_refused(
    run: pathlib.Path, data: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [f"--train_dir={run}", f"--eval_data_pattern={data}/validate/*.tfrecord", "--run_once"]
    for flag, problem in (
        ("--num_classes=5", "was trained with 3"),
        ("--segment_labels", "Segments are cut from frames"),
    ):
        assert evaluation.main([*words, flag]) == 2
        assert problem in capfd.readouterr().err


def test_a_flag_that_contradicts_the_data_leaves_no_folder(
    data: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [f"--train_data_pattern={data}/train/*.tfrecord", f"--train_dir={data}/none"]
    assert train.main([*words, "--num_classes=5"]) == 2
    assert "--num_classes=5 contradicts" in capfd.readouterr().err
    assert train.main([*words, "--feature_sizes=16,5", "--feature_names=clip,a_sound"]) == 2
    assert "it is 16,4. Give --feature_sizes=16,4" in capfd.readouterr().err
    assert not (data / "none").exists()


def test_verify_compares_the_records_with_the_manifest(
    data: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.call("verify", [f"{data}/*/*.tfrecord", "--deep"]) == 0  # of several kinds
    of_frames = frame_record({"id": [b"f"], "labels": [3]}, {"clip": np.zeros([2, 15], np.uint8)})
    pattern = write_split(tmp_path / "wrong", [of_frames])
    capfd.readouterr()
    assert cli.call("verify", [pattern, "--deep"]) == 1
    assert [line.strip() for line in capfd.readouterr().out.splitlines()[1:]] == [
        "record 0: video f: labels has 3; expected 0..2",
        "record 0: video f: it is a frame-level record, expected video level",
        "record 0: video f: feature clip, frame 0, holds values of type bytes, expected float",
        "record 0: video f: feature a_sound is missing",
    ]
    for flags, actual in ((["--num_classes=5"], "3"), (["--feature_names=clip", "--feature_sizes=15"], "16")):
        with pytest.raises(verification.UsageError, match=rf"contradicts the data: .*\b{actual}\. Give"):
            cli.call("verify", [pattern, "--deep", *flags])
    assert cli.call("verify", [pattern, "--deep", "--feature_names=a_sound", "--feature_sizes=4"]) == 1


def test_inspect_shows_no_class_of_youtube8m(data: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("train", "frames"):  # with a manifest, and without
        assert cli.call("inspect", [f"{data}/{name}/*.tfrecord"]) == 0
        assert "class 1 (1): " in capfd.readouterr().out
    with pytest.raises(verification.UsageError, match=r"--num_classes=5 contradicts\b.*\b3\b"):
        cli.call("inspect", [f"{data}/train/*.tfrecord", "--num_classes=5"])
