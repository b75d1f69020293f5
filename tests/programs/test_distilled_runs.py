"""Runs with a teacher and with changed features, from the command line, resumed bit for bit."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from golden_data import golden
from small_run import FEATURES, evaluate, losses, run, weights

from yt8m import inference


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An evaluated run, with its predictions for the training data."""
    folder = tmp_path_factory.mktemp("teacher") / "run"
    assert run(folder, "--max_steps=20") == 0
    evaluate(folder)
    words = [
        f"--train_dir={folder}",
        f"--input_data_pattern={golden('checkpoint_logistic/train.tfrecord')}",
        f"--output_file={folder}/train.csv",
        "--top_k=10",
    ]
    assert inference.main(words) == 0
    return folder


@pytest.mark.long
@pytest.mark.heavy
def test_a_model_and_its_predictions_teach_the_same(teacher: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert run(tmp_path / "model", f"--teacher={teacher}", "--distill_weight=0.8") == 0
    assert run(tmp_path / "file", f"--distill_from={teacher}/train.csv", "--distill_weight=0.8") == 0
    found, expected = losses(tmp_path / "file"), losses(tmp_path / "model")
    assert len(found) == 12
    for step, loss in expected.items():
        assert found[step] == pytest.approx(loss, rel=1e-4)  # the file holds six digits
    assert set(weights(tmp_path / "model", 12)) == set(weights(tmp_path / "file", 12))
    assert run(tmp_path / "none") == 0
    assert losses(tmp_path / "none")[12] != pytest.approx(expected[12], rel=1e-3)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["model", "file"])
def test_a_resumed_student_goes_on_bit_for_bit(
    teacher: pathlib.Path, tmp_path: pathlib.Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    words = [f"--teacher={teacher}" if kind == "model" else f"--distill_from={teacher}/train.csv"]
    words += ["--augment_noise=0.3", "--accumulate_steps=4", "--optimizer=AdamWOptimizer", "--num_gpu=2"]
    assert run(tmp_path / "whole", *words) == 0
    for name, line in (("saved", "with the graph saved there"), ("rebuilt", "the graph is rebuilt")):
        assert run(tmp_path / name, *words, "--max_steps=6") == 0
        if name == "rebuilt":
            (tmp_path / name / "model.ckpt-6.meta").unlink()
        with caplog.at_level("INFO"):
            caplog.clear()
            assert run(tmp_path / name, *words) == 0
        assert line in caplog.text
        assert losses(tmp_path / name) == losses(tmp_path / "whole")
        expected = weights(tmp_path / "whole", 12)
        found = weights(tmp_path / name, 12)
        assert sorted(found) == sorted(expected)
        for variable, value in expected.items():
            np.testing.assert_array_equal(found[variable], value, err_msg=variable)


@pytest.mark.heavy
def test_teachers_that_cannot_be_are_refused_before_anything_is_written(
    teacher: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("VideoId,LabelConfidencePairs\nab,1 0.5\ncd,1 1.5\n")
    (tmp_path / "escape.csv").write_text("a\\x0ab,1 0.5\n")
    short = tmp_path / "short.csv"
    short.write_text("VideoId,LabelConfidencePairs\nab,1 0.5\n")
    for word, status, part in (
        (f"--teacher={tmp_path}", 2, f"yt8m eval --train_dir={tmp_path} --run_once --eval_data_pattern='FILES'"),
        (f"--teacher={bad}", 2, "name the folder of an evaluated run or of an export"),
        (f"--distill_from={tmp_path}/none.csv", 2, "there is no such file"),
        (f"--distill_from={bad}", 2, "line 3: the scores are from 1.5 to 1.5"),
        (f"--distill_from={tmp_path}/escape.csv", 2, "line 1: the id a\\x0ab holds a comma, a quote or an escape"),
        (f"--distill_from={short} --teacher={teacher}", 2, "both name a teacher"),
        ("--distill_weight=0.3", 2, "needs a teacher"),
        ("--augment_crop=0.5", 2, "--augment_crop=0.5 needs frames"),
    ):
        assert run(tmp_path / "run", *word.split()) == status
        assert part in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
    assert run(tmp_path / "run", f"--distill_from={short}") == 1


@pytest.mark.heavy
def test_a_student_of_other_features_is_refused(
    teacher: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--teacher={teacher}", "--feature_names=mean_rgb", "--feature_sizes=16"]
    assert run(tmp_path / "run", *words) == 2
    assert "10 classes and 24 features" in capsys.readouterr().err
    for folder in (teacher, teacher / "inference_model"):  # of the same width, but in another order
        words = [f"--teacher={folder}", "--feature_names=mean_audio,mean_rgb", "--feature_sizes=8,16"]
        assert run(tmp_path / "run", *words) == 2
        message = "reads the features mean_rgb (16), mean_audio (8), but this run reads mean_audio (8), mean_rgb (16)"
        assert message in capsys.readouterr().err
    assert FEATURES[2] == "--num_classes=10"
