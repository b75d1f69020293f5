"""What a training prints at its end."""

from __future__ import annotations

import pytest

from yt8m.config.train_config import DataConfig, TrainConfig
from yt8m.runner.run_config import Outcome, Status
from yt8m.training import training_run


@pytest.mark.parametrize("is_rated", [False, True])
def test_the_command_that_it_suggests_evaluates_what_the_run_learned_from(
    capsys: pytest.CaptureFixture[str], is_rated: bool
) -> None:
    data = DataConfig(frame_features=True, segment_labels=is_rated, data_pattern="nowhere/train*")
    outcome = Outcome(Status.OUT_OF_DATA, 7, "all data were read")
    assert training_run.show_outcome(TrainConfig(data=data, train_dir="runs/a"), outcome) == 0
    flags = "--segment_labels --run_once" if is_rated else "--run_once"
    assert f"  yt8m eval --train_dir=runs/a --eval_data_pattern='FILES' {flags}\n" in capsys.readouterr().out
