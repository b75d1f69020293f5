"""The page on models: it names all there are, and its own model and loss train as it says."""

from __future__ import annotations

import pathlib
import re

import pytest

from yt8m import eval as evaluation
from yt8m import losses, models, train
from yt8m.tools.sample_data.config import SampleConfig
from yt8m.tools.sample_data.output import generate

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "models.md"
CODE = re.findall(r"In `(my_\w+)\.py`:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("name", [*models.names(), *losses.names()])
def test_every_model_and_loss_is_told(name: str) -> None:
    assert f"**{name}**" in PAGE.read_text()


def test_the_model_and_the_loss_of_the_page_train(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [name for name, _ in CODE] == ["my_models", "my_losses"]
    for name, code in CODE:
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    generate(SampleConfig("data", "frame", 12, 6, 0, num_classes=4, shards=1, min_frames=10, max_frames=12))
    words = ["--frame_features", "--num_classes=4", "--batch_size=6", "--max_steps=3", "--train_dir=run"]
    words += [
        "--model=my_models:BestFramesModel",
        "--units=8",
        "--label_loss=my_losses:BrierLoss",
        "--scale=2",
    ]
    assert train.main([*words, "--train_data_pattern=data/frame/train/*", "--feature_names=rgb,audio"]) == 0
    assert (
        evaluation.main(["--train_dir=run", "--run_once", "--eval_data_pattern=data/frame/validate/*"]) == 0
    )
