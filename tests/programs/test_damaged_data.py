"""Damaged records end a program with the shard's name; nothing half done is left."""

from __future__ import annotations

import gzip
import pathlib

import cases
import pytest
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import inference, train

DATA = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("damaged")
    flags = [f"--train_data_pattern={golden('checkpoint_logistic/train.tfrecord')}", "--batch_size=16"]
    assert train.main([*flags, *DATA, f"--train_dir={folder}/run", "--max_steps=2", "--export_model_steps=none"]) == 0
    return folder


def flipped(content: bytes) -> bytes:
    return content[:700] + bytes([content[700] ^ 1]) + content[701:]


@pytest.mark.promise("I8")
@pytest.mark.promise("I2")
@pytest.mark.parametrize("damage", cases.all_of([flipped], heavy=[gzip.compress, lambda content: content[:-3]]))
def test_the_damaged_shard_is_named(run: pathlib.Path, damage: object, capfd: pytest.CaptureFixture[str]) -> None:
    content = golden("checkpoint_logistic/test.tfrecord").read_bytes()
    (run / "a.tfrecord").write_bytes(content)
    (run / "b.tfrecord").write_bytes(damage(content))  # type: ignore[operator]
    flags = [f"--train_dir={run}/run", "--batch_size=8"]
    assert evaluation.main([*flags, f"--eval_data_pattern={run}/*.tfrecord", "--run_once"]) == 1
    said = capfd.readouterr().err
    assert f"{run}/b.tfrecord" in said
    assert "Traceback" not in said
    words = [f"--input_data_pattern={run}/*.tfrecord", f"--output_file={run}/out.csv"]
    assert inference.main([*flags, *words]) == 1
    assert f"{run}/b.tfrecord" in capfd.readouterr().err
    assert not list(run.glob("*out.csv*"))


@pytest.mark.promise("I1")
def test_files_without_a_record_leave_no_predictions(run: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (run / "none.tfrecord").touch()
    words = [f"--input_data_pattern={run}/none.tfrecord", f"--output_file={run}/empty.csv"]
    assert inference.main([f"--train_dir={run}/run", *words]) == 1
    assert "none.tfrecord: record 0: the file is empty" in capfd.readouterr().err
    assert not (run / "empty.csv").exists()
