"""A run that was trained with classes of an installed package opens elsewhere, if the package is installed there."""

from __future__ import annotations

import json
import pathlib

import pytest
from installed_packages import Packages

from yt8m import eval as evaluation
from yt8m import plug_ins, train
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.datasets.sample_data import SampleConfig, generate

TRAIN = ["--train_dir=run", "--train_data_pattern=data/video/train/*", "--batch_size=4", "--log_every_n_steps=1"]
CLASSES = ["--model=AcmeModel", "--label_loss=AcmeLoss", "--reader=AcmeReader", "--callbacks=AcmeCallback"]
SIZES = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=1024,128", "--num_classes=4"]
EVAL = ["--train_dir=run", "--eval_data_pattern=data/video/validate/*", "--run_once"]
PREDICT = ["predict", "--model=run", "data/video/validate/validate0000.tfrecord"]


@pytest.mark.promise("X4")
def test_its_run_opens_elsewhere_without_leave_and_says_which_package_is_missing(
    packages: Packages, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    generate(SampleConfig("data", "video", 8, 4, 0, num_classes=4, shards=1))
    packages.install_all_kinds()
    assert train.main([*TRAIN, *CLASSES, *SIZES, "--num_epochs=1"]) == 0
    assert json.loads((tmp_path / "run/config.json").read_text())["packages"] == {
        f"{kind} Acme{kind.title()}": "acme-video 1.0" for kind in ("callback", "loss", "model", "reader")
    }

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(plug_ins, "_chosen", {})
    assert not run_dir.is_own("run")
    assert evaluation.main(EVAL) == 0
    assert cli.main(PREDICT) == 0
    assert train.main([*TRAIN, *CLASSES, *SIZES, "--num_epochs=2"]) == 0
    (tmp_path / "elsewhere").rename(tmp_path / "earlier")

    packages.uninstall_all()
    capsys.readouterr()
    for command in (["eval", *EVAL], PREDICT, ["train", *TRAIN, *SIZES, "--config=run"]):
        assert cli.main(command) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert "run/config.json names the " in error
        assert "of the package acme-video 1.0, which is not installed here" in error
        assert "--trust_code" not in error
