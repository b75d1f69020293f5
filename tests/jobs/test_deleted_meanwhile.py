"""Training deletes a checkpoint between its evaluation and what is kept of it."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from golden_data import golden
from jobs.small_run import run

from yt8m.config import EvalConfig
from yt8m.jobs import eval_report, evaluation
from yt8m.runner import checkpoints


@pytest.mark.promise("C7")
def test_the_next_checkpoint_is_evaluated(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(folder, "--save_checkpoint_steps=6") == 0
    config = EvalConfig(str(folder), str(golden("checkpoint_logistic/test.tfrecord")), keep_best=True)
    write, seen = eval_report.write, []

    def write_and_delete(train_dir: str, done: evaluation.Evaluated, *more: object) -> None:
        write(train_dir, done, *more)
        seen.append(done.step)
        if done.step == 6:
            for path in folder.glob("model.ckpt-6.*"):
                shutil.move(path, tmp_path)

    monkeypatch.setattr(eval_report, "write", write_and_delete)
    paths = (checkpoints.path_of(str(folder), step) for step in (6, 12))
    assert evaluation.evaluate(config, paths) == 0
    assert seen == [6, 12]
    assert "model.ckpt-6 was deleted while it was evaluated" in capfd.readouterr().err
    assert (folder / "best/model.ckpt-12.index").exists()
    assert (folder / "inference_model").is_dir()
