"""Classes of a user whose fields have the names of flags, or of one another's fields, are refused when loaded."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest

from yt8m import models
from yt8m.command_line import flags
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.options import option
from yt8m.readers import Reader, own_reader_class
from yt8m.runner import callbacks


@dataclass(frozen=True)
class SlowModel(models.BaseModel):
    accumulate_steps: int = option(4, "steps of the recurrence")


@dataclass(frozen=True)
class SharpModel(models.BaseModel):
    sharpness: float = option(1.0, "factor of the logits")


class AnyLoss:
    def calculate_loss(self, predictions: Any, labels: Any) -> Any: ...


@dataclass(frozen=True)
class SmallLoss(AnyLoss):
    batch_size: int = option(8, "examples of each part")


@dataclass(frozen=True)
class SharpLoss(AnyLoss):
    sharpness: float = option(2.0, "exponent of the weights")


@dataclass(frozen=True)
class EqualLoss(AnyLoss):
    sharpness: float = option(2.0, "factor of the logits")


class SizedReader(Reader):
    def __init__(self, num_classes: int, feature_sizes: Any, feature_names: Any, batch_size: int = 3) -> None: ...


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `own` of a user."""

    class Often(tf.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self, context: Any, log_every_n_steps: int = 5) -> None: ...

    own = types.ModuleType("own")
    for cls in (SlowModel, SharpModel, SmallLoss, SharpLoss, EqualLoss, SizedReader, Often):
        setattr(own, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "own", own)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["--model=own:SlowModel", "--accumulate_steps=2"], ["SlowModel.accumulate_steps", "--accumulate_steps"]),
        (["--model=own:SlowModel"], ["TrainConfig.optimizer.accumulate_steps", "rename"]),
        (["--label_loss=own:SmallLoss"], ["SmallLoss.batch_size", "TrainConfig.data.batch_size"]),
        (["--reader=own:SizedReader"], ["SizedReader.batch_size", "TrainConfig.data.batch_size"]),
        (
            ["--model=own:SharpModel", "--label_loss=own:SharpLoss"],
            ["own:SharpModel and own:SharpLoss", "'factor of the logits'", "'exponent of the weights'"],
        ),
    ],
)
def test_names_with_two_meanings_are_refused_with_both_declarations(words: list[str], fields: list[str]) -> None:
    with pytest.raises(UsageError) as refusal:
        flags.train_config(words)
    for field in fields:
        assert field in str(refusal.value)


def test_one_meaning_is_one_flag() -> None:
    words = ["--model=own:SharpModel", "--label_loss=own:EqualLoss", "--sharpness=3"]
    model = flags.train_config(words).model
    assert (model.hyper_parameters, model.loss_hyper_parameters) == ({"sharpness": 3}, {"sharpness": 3})


def test_a_callback_and_a_reader_are_refused_from_python_too() -> None:
    with pytest.raises(UsageError, match=r"Often\.log_every_n_steps .* \(TrainConfig\.log_every_n_steps\)"):
        callbacks.check("train", ["own:Often"])
    with pytest.raises(UsageError, match=r"SizedReader\.batch_size"):
        own_reader_class("own:SizedReader")
