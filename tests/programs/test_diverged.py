"""Weights that are not finite, as a run of other code may leave them: one line, nothing written."""

from __future__ import annotations

import pathlib

import cases
import numpy as np
import pytest
from golden_data import golden
from small_run import run, weights

from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.video.scores import DIVERGED


def spoil(folder: pathlib.Path, step: int) -> None:
    """Puts NaN into a weight of the checkpoint."""
    values = weights(folder, step)
    values["tower/fully_connected/weights"][0, 0] = np.nan
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.Variable(value, use_resource=True) for name, value in values.items()}
        session.run(tf.global_variables_initializer())
        prefix = f"{folder}/model.ckpt"
        saver = tf.train.Saver(variables)
        saver.save(session, prefix, step, write_state=False, write_meta_graph=False)


WORDS = {
    "inference": ["--input_data_pattern={data}", "--output_file={folder}/p.csv"],
    "eval": ["--eval_data_pattern={data}", "--run_once"],
    "predict": ["{data}"],
}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run whose only checkpoint has a weight that is NaN."""
    folder = tmp_path_factory.mktemp("spoilt") / "run"
    assert run(folder, "--max_steps=2") == 0
    spoil(folder, 2)
    return folder


@pytest.mark.parametrize("program", cases.only(WORDS, ["eval"]))
def test_predictions_that_are_nan_are_one_line(
    spoilt: pathlib.Path, tmp_path: pathlib.Path, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = spoilt, golden("checkpoint_logistic/test.tfrecord")
    words = [word.format(data=data, folder=tmp_path) for word in WORDS[program]]
    assert cli.main([program, f"--train_dir={folder}", *words]) == 1
    said = capsys.readouterr().err
    assert said.count(DIVERGED) == 1
    assert "Traceback" not in said
    assert not (tmp_path / "p.csv").exists()
    assert not (folder / "eval/report.json").exists()
