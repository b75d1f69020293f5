"""Flags that are derived from the fields of the losses."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest

from yt8m import losses
from yt8m.command_line import flag_parsing, flags
from yt8m.config import model_options, resume, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.export import model_card
from yt8m.losses.label_losses import CrossEntropyLoss
from yt8m.options import option
from yt8m.records import manifest, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.vocabulary import Vocabulary
from yt8m.video import workload

FOCAL = ["--label_loss=FocalLoss", "--focal_gamma=3"]


@dataclass(frozen=True)
class OwnLoss(CrossEntropyLoss):
    """A loss of a user's own; one of its fields has a name that models have too."""

    own_scale: float = option(1.0, "factor", minimum=0)
    own_power: float = option(0.5, "not that of the model", minimum=0)


class PlainLoss:
    """One that declares nothing."""

    def calculate_loss(self, predictions, labels, label_weights=None):
        return predictions


@pytest.fixture
def own(monkeypatch):
    module = types.ModuleType("a_users_losses")
    module.OwnLoss, module.PlainLoss = OwnLoss, PlainLoss
    monkeypatch.setitem(sys.modules, "a_users_losses", module)
    return "a_users_losses:OwnLoss"


def test_every_hyper_parameter_of_every_loss_is_a_flag_of_its_own():
    named = [name for loss in losses.built_in_names() for name in losses.hyper_parameters(losses.get(loss))]
    for known in (flags.training_flags(), flag_parsing.program_flags(EvalConfig, "Evaluation")):
        names = [flag.name for flag in known + flags.hyper_parameters(known)]
        assert set(named) <= set(names)
        assert len(names) == len(set(names))
    assert not set(named) & {flag.name for flag in flags.hyper_parameters([], with_losses=False)}


def test_given_ones_shape_the_loss_and_the_rest_is_saved_at_its_defaults():
    run = flags.train_config(FOCAL)
    assert run.model.loss_hyper_parameters == {"focal_gamma": 3.0}
    assert flags.train_config(FOCAL[:1]).model.loss_hyper_parameters == {"focal_gamma": 2.0}
    assert workload.create_loss(run.model) == losses.create("FocalLoss", {"focal_gamma": 3.0})
    assert run_dir.from_json(run_dir.to_json(run), "config.json") == run
    assert "--focal_gamma=3.0" in model_card.flags(run)
    made = workload.create(DataConfig(num_classes=3), run.model, "eval").modeler.label_loss
    assert made == workload.create_loss(run.model)


def test_logit_adjustment_takes_the_counts_of_the_data_unless_they_are_given(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"")
    said = DataFormat("video", (FeatureFormat("clip", 4),), num_classes=3, positives=(7, 0, 2))
    manifest.write(str(tmp_path / manifest.NAME), {}, said)
    data = DataConfig(f"{tmp_path}/*.tfrecord", num_classes=3)
    model = ModelConfig(label_loss="LogitAdjustmentLoss")
    assert workload.create_loss(model, data).class_counts == (7, 0, 2)
    given = dataclasses.replace(model, loss_hyper_parameters={"class_counts": (1, 2, 3)})
    assert workload.create_loss(given, data).class_counts == (1, 2, 3)
    path = str(tmp_path / "names.csv")
    vocabulary.write(path, Vocabulary(("a", "b", "c"), np.array([4, 5, 6]), ("",) * 3))
    assert workload.create_loss(model, dataclasses.replace(data, vocabulary=path)).class_counts == (4, 5, 6)
    assert workload.create_loss(model).class_counts == ()  # in an evaluation
    message = r"^--label_loss=LogitAdjustmentLoss .*number of training videos\b.*--vocabulary"
    with pytest.raises(UsageError, match=message):
        workload.create_loss(model, DataConfig(num_classes=3))


def test_balance_takes_the_same_counts(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "names.csv")
    vocabulary.write(path, Vocabulary(("a", "b", "c"), np.array([8, 2, 0]), ("",) * 3))
    data = DataConfig(num_classes=3, vocabulary=path, balance=1.0)
    weights = workload.create(data, ModelConfig(), "train").inputter.class_weights
    np.testing.assert_allclose(weights, [0.625, 2.5, 5.0])  # both classes then have 5 of the 10 labels
    assert workload.create(data, ModelConfig(), "eval").inputter.class_weights is None
    with pytest.raises(UsageError, match=r"^--balance=1\b.*number of training videos"):
        workload.create(dataclasses.replace(data, vocabulary=""), ModelConfig(), "train")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--focal_gamma=3"], r"^--focal_gamma=3\.0: CrossEntropyLoss has no such .*; only FocalLoss has\."),
        ([FOCAL[0], "--hinge_margin=2"], r"FocalLoss has no such .*; only HingeLoss has"),
        ([FOCAL[0], "--focal_gamma=-1"], r"^--focal_gamma must be at least 0; it is -1\.0"),
        ([FOCAL[0], "--focal_gama=1"], "did you mean --focal_gamma"),
        (["--label_loss=LabelSmoothingLoss", "--label_smoothing=1.5"], "label_smoothing must be at most 1"),
        (["--label_loss=SegmentFineTuningLoss", "--segment_classes=1,x"], "=1,x: expected whole"),
    ],
)  # fmt: skip
def test_refusals(words, message):
    with pytest.raises(UsageError, match=message):
        flags.train_config(words)


def test_a_users_own_loss_brings_its_flags_along(own):
    words = ["--model=MoeModel", f"--label_loss={own}", "--own_scale=7", "--own_power=0.25"]
    model = flags.train_config(words).model
    assert model.loss_hyper_parameters == {"own_scale": 7.0, "own_power": 0.25}
    plain = ["--label_loss=a_users_losses:PlainLoss"]
    assert flags.train_config(plain).model.loss_hyper_parameters == {}
    with pytest.raises(UsageError, match="a_users_losses:PlainLoss has no such hyper-parameter; only FocalLoss has"):
        flags.train_config([*plain, "--focal_gamma=1"])


def test_another_value_takes_effect_on_a_resumed_run_in_a_graph_built_anew():
    saved = run_dir.SavedRun(flags.train_config(FOCAL), published=False)
    later = flags.train_config([FOCAL[0], "--focal_gamma=1"])
    changes = resume.list_changes(saved, later)
    assert [(str(change), change.shapes) for change in changes] == [("focal_gamma: 3.0 -> 1.0", "graph")]


def test_evaluation_may_set_them_for_a_run_that_did_not_save_them():
    saved = ModelConfig("MoeModel", label_loss="HingeLoss")
    given = flags.eval_config(["--hinge_margin=0.5", "--moe_num_mixtures=3"]).hyper_parameters
    updated = model_options.with_hyper_parameters(saved, given)
    assert updated.loss_hyper_parameters == {"hinge_margin": 0.5}
    assert updated.hyper_parameters["moe_num_mixtures"] == 3
    with pytest.raises(UsageError, match="unknown flag --hinge_margin"):
        flags.inference_config(["--hinge_margin=0.5"])
    assert EvalConfig().hyper_parameters == InferenceConfig().hyper_parameters == {}
    assert TrainConfig().model.loss_hyper_parameters == {}


def test_weights_of_classes_are_saved_with_the_run(tmp_path: pathlib.Path) -> None:
    (tmp_path / "classes.csv").write_text("index,name\n0,cat\n1,dog\n")
    (tmp_path / "weights.csv").write_text("class,weight\ndog,3\n")
    words = [f"--vocabulary={tmp_path}/classes.csv", f"--train_dir={tmp_path}/run"]
    config = flags.train_config([*words, f"--class_weights={tmp_path}/weights.csv"])
    assert config.model.weight_of_class == (1, 3)
    assert not flags.train_config(words).model.weight_of_class
    (tmp_path / "run").mkdir()
    run_dir.write(str(tmp_path / "run"), config)
    saved = run_dir.read(str(tmp_path / "run"))
    assert saved is not None
    assert saved.config.model.weight_of_class == (1, 3)
    start = f"--config={tmp_path}/run"
    assert flags.train_config([start, words[0]]).model.weight_of_class == (1, 3)
    changes = resume.list_changes(saved, flags.train_config(words))
    assert [change.name for change in changes] == ["model.class_weights", "model.weight_of_class"]
