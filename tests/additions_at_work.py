"""The additions of test_additions.py in use; pytest runs this file in the copy of the project that has them."""

from __future__ import annotations

import contextlib
import io
import pathlib

import pytest

from yt8m import losses, models, train
from yt8m.commands.sample_data import SampleConfig, generate


def shown(*words: str) -> str:
    """What train.py prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), pytest.raises(SystemExit):
        train.main([*words])
    return output.getvalue()


def test_the_added_model_and_loss_are_listed_with_their_flags() -> None:
    assert "AddedModel" in models.names()
    assert "AddedLoss" in losses.names()
    told = shown("--model=AddedModel", "--help")
    assert {"AddedModel", "AddedLoss", "--added_penalty"} <= set(told.replace(",", " ").replace("=", " ").split())


def test_a_run_uses_what_was_added(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generate(SampleConfig("data", "video", 8, 4, 0, num_classes=4, shards=1))
    words = ["--train_data_pattern=data/video/train/*", "--feature_names=mean_rgb,mean_audio", "--num_classes=4"]
    words += ["--model=AddedModel", "--added_penalty=0.5", "--label_loss=AddedLoss"]
    words += ["--callbacks=added_callback:AddedCallback", "--batch_size=4", "--max_steps=2", "--train_dir=run"]
    assert train.main(words) == 0
    assert pathlib.Path("steps.txt").read_text().split() == ["0", "1"]
