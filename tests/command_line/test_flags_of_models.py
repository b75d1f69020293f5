"""Flags that are derived from the fields of the models."""

from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest
from reader_records import frame_record, write_shard

from yt8m import models
from yt8m.command_line import flags
from yt8m.config import model_options
from yt8m.config.train_config import ModelConfig
from yt8m.errors import UsageError
from yt8m.options import option


@dataclass(frozen=True)
class OwnModel(models.BaseModel):
    """A model of a user's own."""

    own_width: int = option(3, "width of the layer", minimum=1)
    l2_penalty: int = option(2, "a whole number here, unlike in other models")


class PlainModel:
    """One that declares nothing, not even its level."""

    def create_model(self, model_input, **unused):
        return {"predictions": model_input}


@pytest.fixture
def own(monkeypatch):
    module = types.ModuleType("a_users_models")
    module.OwnModel, module.PlainModel = OwnModel, PlainModel
    monkeypatch.setitem(sys.modules, "a_users_models", module)
    return "a_users_models:OwnModel"


def test_every_hyper_parameter_of_every_model_is_a_flag():
    own_flags = {flag.name for flag in flags.training_flags()}
    names = {flag.name for flag in flags.hyper_parameters(flags.training_flags())}
    for model in models.built_in_names():
        assert set(models.hyper_parameters(models.get(model))) <= names | own_flags
    assert not names & own_flags


def test_given_ones_are_set_and_the_rest_saved_at_their_defaults():
    model = flags.train_config(["--model=DeepCombineChainModel", "--moe_num_mixtures=4"]).model
    sizes = {"deep_chain_layers": 8, "deep_chain_relu_cells": 128, "support_loss_percent": 0.025}
    assert model.hyper_parameters == {**sizes, "moe_num_mixtures": 4, "l2_penalty": 1e-8}


def test_a_model_is_chosen_without_an_import_of_the_others():
    words = ["--model=MoeModel", "--moe_num_mixtures=3", "--label_loss=CrossEntropyLoss", "--train_data_pattern=x"]
    code = f"""
import sys
from yt8m.command_line import flags
assert flags.train_config({words}, files_are_here=False).model.hyper_parameters["moe_num_mixtures"] == 3
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "yt8m.models.video_level" in done.stdout.split()
    others = {"yt8m.models.recurrent", "yt8m.models.attention", "yt8m.losses.two_way"}
    assert not {*others, "tensorflow", "importlib.metadata", "multiprocessing.queues"} & {*done.stdout.split()}


def test_one_of_another_model_is_refused_naming_its_owners():
    with pytest.raises(UsageError, match=r"LogisticModel has no such hyper-parameter; .*MoeModel has"):
        flags.train_config(["--moe_num_mixtures=4"])


def test_out_of_bounds_is_said_of_the_flag():
    with pytest.raises(UsageError, match=r"^--moe_num_mixtures\b.*at least 1\b.*\b0$"):
        flags.train_config(["--model=MoeModel", "--moe_num_mixtures=0"])


def test_a_users_own_model_brings_its_flags_along(own):
    model = flags.train_config([f"--model={own}", "--own_width=7", "--l2_penalty=5"]).model
    assert model == ModelConfig(own, {"own_width": 7, "l2_penalty": 5})
    with pytest.raises(UsageError, match=r"--l2_penalty=0\.5: .*whole number"):
        flags.train_config([f"--model={own}", "--l2_penalty=0.5"])


def test_flags_go_on_over_what_a_run_saved():
    saved = ModelConfig("MoeModel", {"moe_num_mixtures": 3, "l2_penalty": 1e-4})
    updated = model_options.with_hyper_parameters(saved, {"l2_penalty": 1e-6})
    assert updated.hyper_parameters.items() >= {"moe_num_mixtures": 3, "l2_penalty": 1e-6}.items()


def test_a_model_without_declared_fields_takes_no_flags(own):
    plain = ModelConfig("a_users_models:PlainModel")
    assert flags.train_config([f"--model={plain.model}", "--frame_features"]).model == plain
    with pytest.raises(UsageError, match="--own_width=7: a_users_models:PlainModel has no such"):
        model_options.with_hyper_parameters(plain, {"own_width": 7})


dbof = pytest.mark.skipif("DbofModel" not in models.built_in_names(), reason="no model with a classifier is registered")


@dbof
def test_what_only_the_classifier_has_goes_to_it():
    words = ["--model=DbofModel", "--frame_features", "--iterations=9", "--moe_num_mixtures=4"]
    values = flags.train_config(words).model.hyper_parameters
    assert values["iterations"] == 9
    assert values["classifier_hyper_parameters"]["moe_num_mixtures"] == 4
    with pytest.raises(UsageError, match="--moe_num_mixtures=4: DbofModel has no such"):
        flags.train_config([*words, "--video_level_classifier_model=LogisticModel"])
    with pytest.raises(UsageError, match=r"^--moe_num_mixtures\b.*at least 1\b"):
        flags.train_config([*words[:-1], "--moe_num_mixtures=0"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--groups=7"], r"^--groups .*feature 0 .*\b1024 x 2 for 7\b"),
        (["--feature_names=audio"], "whitening of the 1024 rgb features, but --feature_sizes is 128"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("files_are_here", [True, False])
def test_sizes_that_a_model_cannot_take_are_refused_by_its_flags(words, message, files_are_here):
    with pytest.raises(UsageError, match=message):
        flags.train_config(["--model=NeXtVladModel", "--frame_features", *words], files_are_here=files_are_here)


@pytest.mark.parametrize("size", [8, 1024])
def test_features_of_ones_own_are_not_taken_for_those_whose_whitening_is_reversed(tmp_path, size):
    frames = {"clip": [np.ones(size, np.float32)] * 2}
    path = write_shard(tmp_path / "a.tfrecord", [frame_record({"id": [b"v"], "labels": [1]}, frames)])
    words = ["--model=NeXtVladModel", "--groups=1", f"--train_data_pattern={path}", "--num_classes=3"]
    for more in ([], ["--max_steps=1"]):
        assert flags.train_config([*words, *more]).model.hyper_parameters["input_transform"] == "l2_normalize"
    words.append("--input_transform=reverse_whitening")
    if size == 1024:
        assert flags.train_config(words).model.hyper_parameters["input_transform"] == "reverse_whitening"
    else:
        with pytest.raises(UsageError, match="whitening of the 1024 rgb features, but --feature_sizes is 8"):
            flags.train_config(words)
