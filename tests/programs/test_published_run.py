"""A run of the published code (TF 1.15): evaluated and used as it was recorded."""

from __future__ import annotations

import pathlib
import re
import shutil
import tarfile

import numpy as np
import pytest
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import inference


@pytest.fixture
def published(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the recorded run; the original is read-only."""
    source = golden("checkpoint_logistic")
    for name in ("train_dir", "train_dir/inference_model"):
        (tmp_path / name).mkdir()
    for path in source.rglob("*"):
        if path.is_file():
            shutil.copyfile(path, tmp_path / path.relative_to(source))
    return tmp_path


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def rows(path: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    lines = path.read_text().splitlines()
    assert lines[0] == "VideoId,LabelConfidencePairs"
    table = {}
    for line in lines[1:]:
        video_id, _, pairs = line.partition(",")
        words = pairs.split()
        table[video_id] = [(int(c), float(p)) for c, p in zip(words[::2], words[1::2], strict=True)]
    return table


def assert_same_predictions(found: pathlib.Path, recorded: pathlib.Path) -> None:
    ours, theirs = rows(found), rows(recorded)
    assert list(ours) == list(theirs)
    for video_id, pairs in ours.items():
        assert [c for c, _ in pairs] == [c for c, _ in theirs[video_id]]
        np.testing.assert_allclose([p for _, p in pairs], [p for _, p in theirs[video_id]], atol=2e-6)


def infer(folder: pathlib.Path, *flags: str) -> pathlib.Path:
    output = folder / "out.csv"
    words = [f"--input_data_pattern={folder}/test.tfrecord", f"--output_file={output}", "--top_k=10", *flags]
    assert inference.main(words) == 0
    return output


def test_eval_prints_the_recorded_figures(
    published: pathlib.Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    status = evaluation.main(
        [
            f"--train_dir={published}/train_dir",
            f"--eval_data_pattern={published}/test.tfrecord",
            "--run_once",
            "--batch_size=8",
            "--top_k=10",
        ]
    )
    line = next(line for line in capfd.readouterr().err.splitlines() if "epoch/eval number" in line)
    recorded = (published / "eval_line.txt").read_text().strip()
    assert status == 0
    line = line[line.index("epoch/eval") :]
    assert re.sub(r"\d+\.\d+", "x", line) == re.sub(r"\d+\.\d+", "x", recorded)
    np.testing.assert_allclose(numbers(line), numbers(recorded), atol=2e-6)


def test_inference_from_the_checkpoint_writes_the_recorded_csv(published: pathlib.Path) -> None:
    found = infer(published, f"--train_dir={published}/train_dir")
    assert_same_predictions(found, published / "predictions.csv")


@pytest.mark.heavy
def test_inference_from_the_meta_graph_alone(published: pathlib.Path) -> None:
    for path in (published / "train_dir").glob("model.ckpt*"):
        path.unlink()
    (published / "train_dir/checkpoint").unlink()
    found = infer(published, f"--train_dir={published}/train_dir")
    assert_same_predictions(found, published / "predictions.csv")


def test_inference_from_a_published_archive(published: pathlib.Path) -> None:
    archive = published / "model.tgz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(published / "train_dir/inference_model", "inference_model")
        file.add(published / "train_dir/model_flags.json", "model_flags.json")
    found = infer(published, f"--input_model_tgz={archive}", f"--untar_model_dir={published}/unpacked")
    assert_same_predictions(found, published / "predictions.csv")


@pytest.mark.heavy
def test_a_packed_model_predicts_as_its_run(published: pathlib.Path) -> None:
    archive = published / "packed.tgz"
    of_run = infer(published, f"--train_dir={published}/train_dir", f"--output_model_tgz={archive}")
    of_run = of_run.rename(published / "of_run.csv")
    of_archive = infer(published, f"--input_model_tgz={archive}", f"--untar_model_dir={published}/unpacked")
    assert_same_predictions(of_archive, of_run)  # on some processors the last digit of a few scores differs
